"""reproject and assign_crs: coordinates that fail, grids that are missing, shapes across the antimeridian, Z and M."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import layer, rich

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.notes import collecting
from geocairn.operations.proj_environment import proj_environment
from geocairn.operations.projection import assign_crs, reproject

LAEA = "+proj=laea +lat_0=52 +lon_0=10 +x_0=4321000 +y_0=3210000 +datum=WGS84 +units=m"


@pytest.mark.parametrize("target", ["EPSG:3857", "EPSG:5070", "EPSG:3035", "EPSG:8857", LAEA])
def test_same_as_pyproj_with_x_before_y(target: str) -> None:
    x, y = np.array([10.0, -75.5, 12.25]), np.array([50.0, 40.25, 47.5])
    points = gpd.GeoDataFrame(geometry=shapely.points(x, y), crs="EPSG:4326")
    result = reproject(points, crs=target)
    expected = pyproj.Transformer.from_crs("EPSG:4326", target, always_xy=True).transform(x, y)
    assert np.array_equal(shapely.get_coordinates(result.geometry), np.column_stack(expected))
    assert result.crs == pyproj.CRS(target)


def test_crs_is_normalised() -> None:
    forms = [
        5070,
        "5070",
        "epsg:5070",
        " EPSG:5070 ",
        "urn:ogc:def:crs:EPSG::5070",
        "http://www.opengis.net/def/crs/EPSG/0/5070",
    ]
    assert {reproject.normalise({"crs": form}).crs for form in forms} == {"EPSG:5070"}
    with pytest.raises(InputFailure, match="no CRS 'EPSG:999999'"):
        reproject(layer(["POINT (0 0)"], crs=4326), crs="EPSG:999999")


def test_coordinate_that_fails_names_the_row() -> None:
    points = layer(["POINT (0 10)", "POINT (0 90.1)", None, "POINT (5 91)"], crs="EPSG:4326")
    with pytest.raises(InputFailure, match=r"rows 1, 3, first \(0, 90.1\)"):
        reproject(points, crs="EPSG:3857")
    infinite = gpd.GeoDataFrame(geometry=shapely.points([0.0, np.inf], [0.0, 1.0]), crs="EPSG:4326")
    with pytest.raises(InputFailure, match="not finite as it comes: row 1"):
        reproject(infinite, crs="EPSG:3857")


def test_missing_grid_halts_or_is_told() -> None:
    nad27 = layer(["POINT (-100 40)", "POINT (-150 64)"], crs="EPSG:4267")
    with pytest.raises(CapabilityFailure, match=r"us_noaa_conus\.tif.*not installed.*allow_ballpark") as failure:
        reproject(nad27, crs="EPSG:4269")
    assert "projsync" in failure.value.remedy
    with collecting() as notes:
        reproject(nad27, crs="EPSG:4269", allow_ballpark=True)
    assert len(notes.caveats) == 1
    assert "16 m" in notes.caveats[0]
    assert [used["rows"] for used in notes.facts["pipeline"]] == [1, 1]
    assert [used["accuracy"] for used in notes.facts["pipeline"]] == [11.0, 16.0]


def test_grids_are_judged_by_the_rows() -> None:
    # Mexico lies outside every grid that PROJ knows: what is used there is the best there is.
    with collecting() as notes:
        reproject(layer(["POINT (-99 19)"], crs="EPSG:4267"), crs="EPSG:4269")
    assert notes.caveats == []


def test_accuracy_in_metres() -> None:
    points = layer(["POINT (-1 52)"], crs="EPSG:4326")
    with pytest.raises(CapabilityFailure, match="OSTN15"):
        reproject(points, crs="EPSG:27700")
    with collecting() as notes:
        reproject(points, crs="EPSG:27700", accuracy=5)
    assert notes.caveats == []
    with pytest.raises(CapabilityFailure, match=r"accurate to 2 m, and 1 m are asked for \(1 of 1 rows\)"):
        reproject(points, crs="EPSG:27700", accuracy=1)


def test_ballpark_only() -> None:
    datumless = "+proj=laea +lat_0=52 +lon_0=10 +ellps=GRS80"
    points = layer(["POINT (9 50)"], crs="EPSG:4326")
    with pytest.raises(CapabilityFailure, match="only a ballpark transformation"):
        reproject(points, crs=datumless)
    with collecting() as notes:
        reproject(points, crs=datumless, allow_ballpark=True)
    assert "unknown size" in notes.caveats[0]


def test_across_the_antimeridian_split_and_back() -> None:
    pacific = gpd.GeoDataFrame(
        {"n": [1, 2]}, geometry=[shapely.box(3e6, -1e5, 3.6e6, 1e5), shapely.box(0, 0, 1e5, 1e5)], crs=3832
    )
    with collecting() as notes:
        split = reproject(pacific, crs="EPSG:4326")
    assert notes.facts["split_at_antimeridian"] == 1
    first = split.geometry[0]
    assert first.geom_type == "MultiPolygon"
    assert [part.bounds[0] < 0 for part in first.geoms] == [False, True]
    assert max(abs(first.bounds[0]), abs(first.bounds[2])) == 180
    back = reproject(split, crs="EPSG:3832")
    assert back.area.to_numpy() == pytest.approx(pacific.area.to_numpy(), rel=1e-9)
    line = gpd.GeoDataFrame(geometry=[shapely.LineString([(3e6, 0, 7), (3.6e6, 1e4, 7)])], crs=3832)
    cut = reproject(line, crs="EPSG:4326").geometry[0]
    assert cut.geom_type == "MultiLineString"
    assert cut.has_z


@pytest.mark.parametrize(
    ("wkt", "source", "target"),
    [
        ("POLYGON ((3000000 -100000, 3600000 -100000, 3600000 100000, 3000000 100000, 3000000 -100000))", 3832, 3857),
        ("POLYGON ((170 0, 190 0, 190 10, 170 10, 170 0))", 4326, 3857),
        ("LINESTRING (179 10, -179 10)", 4326, 3832),
        ("POLYGON ((-180 60, 180 60, 180 90, -180 90, -180 60))", 4326, 3995),
        ("POLYGON ((0 -2000000, 2000000 2000000, -2000000 2000000, 0 -2000000))", 3995, 4326),
    ],
)
def test_torn_shapes_are_refused(wkt: str, source: int, target: int) -> None:
    with pytest.raises(InputFailure, match="row 1"):
        reproject(layer([None, wkt], crs=source), crs=target)


def test_shapes_that_only_look_torn() -> None:
    world = "POLYGON ((-180 -80, 180 -80, 180 80, -180 80, -180 -80))"
    assert reproject(layer([world], crs=4326), crs=3857).geometry[0].is_valid
    islands = "MULTIPOLYGON (((179 0, 179.5 0, 179.5 1, 179 0)), ((-179 0, -178 0, -178 1, -179 0)))"
    assert len(reproject(layer([islands], crs=4326), crs=3857).geometry[0].geoms) == 2
    assert len(reproject(reproject(layer([islands], crs=4326), crs=3832), crs=4326).geometry[0].geoms) == 2
    antarctica = "POLYGON ((-180 -70, -90 -72, 0 -70, 90 -71, 180 -70, 180 -89, -180 -89, -180 -70))"
    assert reproject(layer([antarctica], crs=4326), crs=4269).geometry[0].bounds == (-180, -89, 180, -70)


def test_z_is_kept_and_m_refused() -> None:
    mixed = layer(["LINESTRING Z (0 0 5, 1 1 6)", "LINESTRING (0 0, 1 1)", "LINESTRING EMPTY", None], crs=4326)
    result = reproject(mixed, crs=3857)
    assert shapely.get_coordinates(result.geometry[:1], include_z=True)[:, 2].tolist() == [5, 6]
    assert result.geometry[:3].has_z.tolist() == [True, False, False]
    with pytest.raises(InputFailure, match="M values"):
        reproject(layer(["LINESTRING ZM (0 0 1 2, 1 1 1 3)"], crs=4326), crs=3857)


def test_every_geometry_column_is_reprojected() -> None:
    two = rich(["POINT (0 0)", "POINT (1000 1000)"], crs="EPSG:5070")
    two["mark"] = gpd.GeoSeries(shapely.points([10, 11], [50, 51]), index=two.index, crs="EPSG:4326")
    result = reproject(two, crs="EPSG:3857")
    assert result["mark"].crs == "EPSG:3857"
    assert result["mark"].iloc[0].x == pytest.approx(1113194.9, abs=0.1)
    two["mark"] = gpd.GeoSeries(shapely.points([10, 11], [50, 51]), index=two.index)
    with pytest.raises(InputFailure, match=r"CRS of geometry column 'mark' is unknown.*drop the column"):
        reproject(two, crs="EPSG:3857")


def test_unknown_and_contradicted_source() -> None:
    bare = layer(["POINT (10 50)"], crs=None)
    with pytest.raises(InputFailure, match="CRS is unknown"):
        reproject(bare, crs=3857)
    assert reproject(bare, crs=3857, source_crs=4326).geometry[0].x == pytest.approx(1113194.9, abs=0.1)
    with pytest.raises(InputFailure, match="source_crs says EPSG:4326, and the layer is in EPSG:5070"):
        reproject(layer(["POINT (10 50)"]), crs=3857, source_crs=4326)


def test_same_crs_changes_nothing() -> None:
    points = layer(["POINT (0.1 0.2)"])
    assert reproject(points, crs=5070).geometry[0] == points.geometry[0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(-125, -67), st.floats(24, 50)), min_size=1, max_size=20))
def test_there_and_back_within_a_millimetre(places: list[tuple[float, float]]) -> None:
    points = gpd.GeoDataFrame(geometry=shapely.points(places), crs="EPSG:4326")
    there = reproject(points, crs="EPSG:5070")
    again = reproject(reproject(there, crs="EPSG:4326"), crs="EPSG:5070")
    assert np.all(shapely.distance(there.geometry.values, again.geometry.values) < 0.001)


def test_assign_crs() -> None:
    bare = layer(["POINT (10 50)"], crs=None)
    assert assign_crs(bare, crs=4326).crs == "EPSG:4326"
    assert bare.crs is None
    stated = layer(["POINT (10 50)"])
    with pytest.raises(InputFailure, match=r"the layer is in EPSG:5070, not EPSG:4326.*override"):
        assign_crs(stated, crs=4326)
    changed = assign_crs(stated, crs=4326, override=True)
    assert changed.crs == "EPSG:4326"
    assert changed.geometry[0] == stated.geometry[0]
    assert stated.crs == "EPSG:5070"


def test_environment_names_versions_and_grids() -> None:
    found = proj_environment()
    assert found["proj"] == pyproj.proj_version_str
    assert found["network"] is False
    assert found["database"]["EPSG.VERSION"].startswith("v")
    assert all(isinstance(size, int) for size in found["grids"].values())
    assert reproject.environment is proj_environment
