"""Awkward coordinate reference systems. The numbers are those of README.md beside this module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from example_calls import gated, inputs_of, is_layer, named, parameters_of

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.operations.registry import operations
from geocairn.operations.samples import sample
from geocairn.sources.publish import Target, publish
from geocairn.sources.read import read
from geocairn.sources.source import Source

CUSTOM = {
    "laea": "+proj=laea +lat_0=47.3 +lon_0=11.1 +x_0=1234 +y_0=5678 +ellps=bessel +units=m",
    "feet": "+proj=tmerc +lat_0=0 +lon_0=-93 +k=0.9999 +ellps=GRS80 +units=us-ft",
    "compound": "EPSG:5698",
}
SOUTH_FIRST = {3035: (10, 52, 4321000, 3210000), 2180: (19, 52, 500000, 459309), 31467: (9, 50, 3500074, 5540302)}
"""CRS whose authority names the northing first, a place in degrees, and its easting and northing there."""


def layer(wkt: list[str | None], crs: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": range(len(wkt))}, geometry=gpd.GeoSeries.from_wkt(wkt, crs=crs), crs=crs)


def planar(name: str) -> bool:
    operation = operations[name]
    return operation.measures_planar(operation.normalise(parameters_of(operation)))


@pytest.mark.parametrize(("crs", "words"), [("EPSG:4326", "is in degrees"), (None, "CRS is unknown")])
@pytest.mark.parametrize("name", [name for name in named() if planar(name)])
def test_trap_4_no_operation_measures_in_degrees_or_in_unknown_units(name: str, crs: str | None, words: str) -> None:
    inputs = inputs_of(
        operations[name], lambda one, role: one.set_crs(crs, allow_override=True) if is_layer(one) else one
    )
    with pytest.raises(InputFailure, match=words) as caught:
        operations[name].compute(**inputs, **parameters_of(operations[name]))
    assert "reproject" in str(caught.value), "the remedy is named"


@pytest.mark.parametrize(
    "wkt",
    [
        "POINT (0 90.1)",
        "LINESTRING (0 0, 0 91)",
        "MULTIPOINT ((0 0), (0 95))",
        "POLYGON ((0 80, 10 80, 10 92, 0 80))",
        "POINT Z (0 -90.5 7)",
        "GEOMETRYCOLLECTION (POINT (0 0), POINT (0 91))",
    ],
)
def test_trap_5_what_cannot_be_transformed_names_its_row(wkt: str) -> None:
    for backend in operations["reproject"].backends:
        with pytest.raises((InputFailure, CapabilityFailure)) as caught:
            operations["reproject"].compute(
                layer(["POINT (1 1)", None, "POINT EMPTY", wkt], "EPSG:4326"), crs="EPSG:3857", backend=backend
            )
        if backend == "geopandas":
            assert isinstance(caught.value, InputFailure)
            assert "row 3" in str(caught.value)


@pytest.mark.parametrize(
    "wkt",
    [
        "POLYGON ((3000000 0, 3600000 0, 3600000 500000, 3000000 500000, 3000000 0))",
        "POLYGON ((3000000 0, 3600000 0, 3600000 500000, 3000000 500000, 3000000 0), "
        "(3200000 100000, 3200000 300000, 3450000 300000, 3450000 100000, 3200000 100000))",
        "MULTIPOLYGON (((3000000 0, 3600000 0, 3600000 500000, 3000000 0)), ((0 0, 9 0, 9 9, 0 0)))",
        "POLYGON Z ((3000000 0 5, 3600000 0 5, 3600000 500000 5, 3000000 0 5))",
    ],
)
def test_trap_6_shapes_across_the_antimeridian_come_back(wkt: str) -> None:
    before = layer([wkt], "EPSG:3832")
    split = operations["reproject"].compute(before, crs="EPSG:4326")
    shape = split.geometry[0]
    assert shape.is_valid
    assert shape.has_z == before.geometry[0].has_z
    widths = [part.bounds[2] - part.bounds[0] for part in shapely.get_parts(shape)]
    assert max(widths) < 10, "no part goes round the world"
    back = operations["reproject"].compute(split, crs="EPSG:3832")
    # an edge is straight in the one CRS or in the other, so that a slanting one is cut a little beside where it was
    assert back.area[0] == pytest.approx(before.area[0], rel=1e-3)


def test_trap_6_points_and_what_only_comes_near_are_left_alone() -> None:
    near = layer(
        ["MULTIPOINT ((3000000 0), (3600000 0))", "POLYGON ((3000000 0, 3330000 0, 3330000 9, 3000000 0))"], 3832
    )
    moved = operations["reproject"].compute(near, crs="EPSG:4326")
    assert moved.geom_type.tolist() == ["MultiPoint", "Polygon"]


@pytest.mark.parametrize("code", SOUTH_FIRST)
@pytest.mark.parametrize("backend", operations["reproject"].backends)
def test_trap_7_x_comes_first_whatever_the_authority_says(code: int, backend: str) -> None:
    longitude, latitude, easting, northing = SOUTH_FIRST[code]
    here = layer([f"POINT ({longitude} {latitude})"], "EPSG:4326" if code != 31467 else "EPSG:4314")
    try:
        there = operations["reproject"].compute(here, crs=f"EPSG:{code}", backend=backend)
    except CapabilityFailure:
        assert backend != "geopandas"
        return
    assert there.geometry[0].x == pytest.approx(easting, abs=100)
    assert there.geometry[0].y == pytest.approx(northing, abs=150)
    back = operations["reproject"].compute(there, crs=here.crs.to_string())
    assert (back.geometry[0].x, back.geometry[0].y) == pytest.approx((longitude, latitude), abs=1e-8)


@pytest.mark.parametrize(
    "name", ["urn:ogc:def:crs:EPSG::4326", "http://www.opengis.net/def/crs/EPSG/0/4326", "EPSG:4326"]
)
def test_trap_8_longitude_comes_first_however_the_crs_is_named(tmp_path: Path, name: str) -> None:
    feature = {"type": "Feature", "properties": {"n": 1}, "geometry": {"type": "Point", "coordinates": [10.5, 47]}}
    crs = {"type": "name", "properties": {"name": name}}
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": [feature]}))
    found = read(Source(uri=str(tmp_path / "a.geojson")))
    assert (found.geometry.x[0], found.geometry.y[0]) == (10.5, 47)
    (tmp_path / "a.csv").write_text("x,y\n10.5,47\n")
    found = read(Source(uri=str(tmp_path / "a.csv"), crs=name))
    assert (found.geometry.x[0], found.geometry.y[0]) == (10.5, 47)
    moved = operations["reproject"].compute(found, crs="EPSG:3857")
    assert moved.geometry.x[0] == pytest.approx(1168854.65, abs=0.1)


def test_trap_8_latitude_first_in_gml_is_put_right(tmp_path: Path) -> None:
    pyogrio.write_dataframe(layer(["POINT (10 47)"], 4326), tmp_path / "a.gml", driver="GML")
    text = (tmp_path / "a.gml").read_text()
    assert "urn:ogc:def:crs:EPSG::4326" in text
    assert "<gml:pos>47 10</gml:pos>" in text
    found = read(Source(uri=str(tmp_path / "a.gml")))
    assert (found.geometry.x[0], found.geometry.y[0]) == (10, 47)
    assert found.crs == "EPSG:4326"


@pytest.mark.parametrize("crs", CUSTOM)
@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.fgb"])
def test_trap_11_a_crs_without_a_code_survives_a_chain_and_an_output(tmp_path: Path, name: str, crs: str) -> None:
    before = layer(["POINT (0 0)", "POINT (500 500)"], CUSTOM[crs])
    wide = operations["buffer"].compute(before, distance=10)
    assert wide.crs == before.crs
    publish(wide, Target(str(tmp_path / name)), {"fingerprint": "f"})
    found = read(Source(uri=str(tmp_path / name)))
    assert found.crs == before.crs or found.crs.equals(before.crs, ignore_axis_order=True), found.crs.to_wkt()
    assert not found.crs.is_geographic
    moved = operations["reproject"].compute(found, crs="EPSG:4326", allow_ballpark=True)
    same = operations["reproject"].compute(wide, crs="EPSG:4326", allow_ballpark=True)
    assert np.allclose(moved.total_bounds, same.total_bounds, atol=1e-9)


@pytest.mark.parametrize("name", named())
def test_trap_21_a_second_geometry_column_keeps_its_own_crs_or_falls_away(name: str) -> None:
    """No operation relabels it: its coordinates and its CRS go together."""
    operation = operations[name]
    if not operation.roles or "mark" in parameters_of(operation).values():
        pytest.skip("takes no layer")

    def marked(one: Any, role: Any) -> Any:
        if not is_layer(one):
            return one
        return one.assign(
            **{f"mark_{role.name}": gpd.GeoSeries(shapely.points([[10, 50]] * len(one)), crs="EPSG:4326")}
        )

    result = gated(operation, inputs_of(operation, marked)).layer
    kept = [column for column in result.columns if str(column).startswith("mark_")]
    for column in kept:
        series = result[column]
        if str(series.dtype) != "geometry":
            pytest.fail(f"{column} is no geometry any more, but {series.dtype}")
        there = series.dropna()
        if series.crs == "EPSG:4326":
            assert all((point.x, point.y) == (10, 50) for point in there)
        else:
            assert name in ("reproject", "assign_crs"), f"{name} has given it {series.crs}"
            assert series.crs == result.crs


def several_layers() -> list[str]:
    found = []
    for name in named():
        layers = [
            one
            for value in inputs_of(operations[name]).values()
            for one in (value if isinstance(value, list) else [value])
        ]
        if sum(is_layer(one) for one in layers) > 1:
            found.append(name)
    return found


@pytest.mark.parametrize("other", ["EPSG:3857", None])
@pytest.mark.parametrize("name", several_layers())
def test_trap_22_layers_in_different_crs_are_refused_with_both_named(name: str, other: str | None) -> None:
    operation = operations[name]
    if not operation.same_crs and name == "attribute_join":
        pytest.skip("joins by attributes alone")
    inputs = inputs_of(operation)
    role = list(inputs)[-1]
    value = inputs[role]
    changed = (value[-1] if isinstance(value, list) else value).set_crs(other, allow_override=True)
    inputs[role] = [*value[:-1], changed] if isinstance(value, list) else changed
    with pytest.raises(InputFailure) as caught:
        operation.compute(**inputs, **parameters_of(operation))
    told = str(caught.value)
    assert sample("parcels").crs.to_string() in told
    assert (other or "unknown") in told, told
