"""buffer, simplify, centroid, convex_hull, make_valid, remove_empty, explode."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from sample_layers import layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.geometry import buffer, centroid, convex_hull, make_valid, remove_empty, simplify
from geocairn.operations.multipart import explode

BOW_TIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
MIXED = ["POINT (0 0)", "LINESTRING (0 0, 4 0)", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", None]


def test_buffer_by_number_and_by_column() -> None:
    mixed = layer(MIXED, reach=pd.array([1, 2, 3, 4], dtype="Int64"))
    assert buffer(mixed, distance=1).geom_type.dropna().unique().tolist() == ["Polygon"]
    by_column = buffer(mixed, distance="reach")
    assert by_column.geometry[0].bounds == (-1, -1, 1, 1)
    assert by_column.geometry[1].bounds == (-2, -2, 6, 2)
    assert buffer(layer(["POINT (0 0)"]), distance=1, quad_segs=1).geometry[0].area == pytest.approx(2)
    flat = buffer(layer(["LINESTRING (0 0, 4 0)"]), distance=1, cap_style="flat")
    assert flat.geometry[0].area == pytest.approx(8)
    left = buffer(layer(["LINESTRING (0 0, 4 0)"]), distance=1, single_sided=True)
    assert left.geometry[0].bounds == (0, 0, 4, 1)


def test_buffer_that_empties_a_polygon_leaves_its_row() -> None:
    result = buffer(layer(["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))"]), distance=-2)
    assert wkts(result)[0] == "POLYGON EMPTY"
    assert result["id"].tolist() == [0, 1]
    assert buffer.promise.empties


@pytest.mark.parametrize(
    ("crs", "message"), [("EPSG:4326", "degrees.*reproject"), (None, "CRS is unknown.*assign_crs")]
)
def test_buffer_in_degrees_is_refused(crs: str | None, message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        buffer(layer(["POINT (25 60)"], crs=crs), distance=1000)


def test_buffer_column_complaints() -> None:
    points = layer(["POINT (0 0)", "POINT (1 1)"], reach=[1.0, np.nan], label=["a", "b"])
    with pytest.raises(InputFailure, match="no column 'raech'; did you mean 'reach'"):
        buffer(points, distance="raech")
    with pytest.raises(InputFailure, match="missing or infinite values: row 1"):
        buffer(points, distance="reach")
    with pytest.raises(InputFailure, match="not a number"):
        buffer(points, distance="label")
    with pytest.raises(InputFailure, match="not true or false"):
        buffer(points, distance=True)


def test_buffer_dissolved() -> None:
    result = buffer(layer(["POINT (0 0)", None, "POINT (1 0)", "POINT (9 0)"]), distance=1, dissolve=True)
    assert result.columns.tolist() == ["geometry"]
    assert len(result) == 1
    assert result.geometry[0].geom_type == "MultiPolygon"
    nothing = buffer(layer([None]), distance=1, dissolve=True)
    assert len(nothing) == 0
    assert nothing.crs == "EPSG:5070"


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0.1, 1e4), st.floats(1, 1e4))
def test_buffer_contains_its_input(x: float, y: float, size: float, distance: float) -> None:
    box = gpd.GeoDataFrame(geometry=[shapely.box(x, y, x + size, y + size)], crs="EPSG:5070")
    assert buffer(box, distance=distance).geometry[0].contains(box.geometry[0])


def test_simplify() -> None:
    line = layer(["LINESTRING (0 0, 1 0.01, 2 0, 3 1)"])
    assert wkts(simplify(line, tolerance=0.1)) == ["LINESTRING (0 0, 2 0, 3 1)"]
    sliver = layer(["POLYGON ((0 0, 10 0, 10 0.1, 0 0.1, 0 0))"])
    assert simplify(sliver, tolerance=5).geometry[0].is_valid
    loose = simplify.normalise({"tolerance": 1, "preserve_topology": False})
    assert simplify.promised(loose).empties
    assert not simplify.promise.empties
    with pytest.raises(InputFailure, match="degrees"):
        simplify(layer(["LINESTRING (0 0, 1 1)"], crs=4326), tolerance=1)
    with pytest.raises(InputFailure, match="greater than or equal to 0"):
        simplify(line, tolerance=-1)


def test_centroid() -> None:
    assert wkts(centroid(layer([*MIXED, "POLYGON EMPTY"]))) == [
        "POINT (0 0)",
        "POINT (2 0)",
        "POINT (2 2)",
        None,
        "POINT EMPTY",
    ]
    with collecting() as notes:
        centroid(layer(["POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"], crs=4326))
    assert "as if these were flat" in notes.caveats[0]
    with collecting() as notes:
        centroid(layer(["POINT (0 0)"], crs=4326))
    assert notes.caveats == []


def test_convex_hull_by_row_and_by_group() -> None:
    shapes = layer(
        ["POINT (0 0)", "POINT (4 0)", "POINT (9 9)", "LINESTRING (0 4, 2 1)", None],
        group=pd.Series(["b", "b", None, "b", "a"], dtype="str"),
    )
    assert wkts(convex_hull(shapes)) == ["POINT (0 0)", "POINT (4 0)", "POINT (9 9)", "LINESTRING (0 4, 2 1)", None]
    result = convex_hull(shapes, by="group")
    assert result["group"].isna().tolist() == [False, True, False]
    assert result["group"].dropna().tolist() == ["b", "a"]
    assert same_shape(result.geometry[0], "POLYGON ((0 0, 4 0, 0 4, 0 0))")
    assert wkts(result)[1:] == ["POINT (9 9)", None]
    with pytest.raises(InputFailure, match="did you mean 'group'"):
        convex_hull(shapes, by="grup")


def test_make_valid_keeps_the_kind_and_tells_the_change() -> None:
    collapsed = "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((9 9, 10 10, 9 9, 9 9)))"
    spike = "POLYGON ((0 0, 4 0, 4 4, 9 4, 4 4, 0 4, 0 0))"
    shapes = layer(
        [BOW_TIE, collapsed, spike, "POLYGON ((0 0, 1 1, 0 0, 0 0))", "POLYGON ((0 0, 1 0, 1 1, 0 0))", None]
    )
    with collecting() as notes:
        result = make_valid(shapes)
    assert result.geometry.dropna().is_valid.all()
    assert result.geometry.dropna().geom_type.str.replace("Multi", "").unique().tolist() == ["Polygon"]
    assert result.area.tolist()[:4] == pytest.approx([2, 16, 16, 0])
    assert wkts(result)[3] == "POLYGON EMPTY"
    assert shapely.equals_identical(result.geometry[4], shapes.geometry[4])
    assert notes.facts["mended"] == 4
    assert notes.facts["area_change"] == pytest.approx(2)
    everything = make_valid(shapes, method="linework", keep_collapsed=True, keep_geometry_kind=False)
    assert "GeometryCollection" in everything.geom_type.tolist()
    assert make_valid.promise.validity == "mended"


def test_make_valid_keeps_z_and_refuses_nonsense() -> None:
    assert make_valid(layer(["POLYGON Z ((0 0 1, 2 2 1, 2 0 1, 0 2 1, 0 0 1))"])).geometry[0].has_z
    endless = gpd.GeoDataFrame(
        geometry=[shapely.box(0, 0, 1, 1), shapely.Polygon([(0, 0), (1, 0), (np.nan, 1)])], crs=5070
    )
    with pytest.raises(InputFailure, match="not finite: row 1"):
        make_valid(endless)
    with pytest.raises(InputFailure, match="linework always keeps"):
        make_valid(endless, method="linework")


def test_remove_empty() -> None:
    with collecting() as notes:
        result = remove_empty(layer(["POINT (0 0)", None, "POINT EMPTY", "POINT (1 1)"]))
    assert result["id"].tolist() == [0, 3]
    assert notes.facts == {"rows_removed": 2}


def test_explode_keeps_rows_without_geometry() -> None:
    nested = "GEOMETRYCOLLECTION (POINT (5 5), GEOMETRYCOLLECTION (MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))))"
    shapes = layer(["MULTIPOINT (0 0, 1 1)", None, "MULTIPOLYGON EMPTY", nested, "MULTIPOINT Z ((1 1 1), EMPTY)"])
    result = explode(shapes)
    assert result["id"].tolist() == [0, 0, 1, 2, 3, 3, 3, 4]
    assert wkts(result)[2:4] == [None, "POLYGON EMPTY"]
    assert result.geometry[7].has_z
    assert not result.geom_type.dropna().str.startswith(("Multi", "Geometry")).any()
    with collecting() as notes:
        assert explode(shapes, keep_empty=False)["id"].tolist() == [0, 0, 3, 3, 3, 4]
    assert notes.facts == {"rows_removed": 2}
