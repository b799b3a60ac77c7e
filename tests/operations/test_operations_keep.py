"""What every operation keeps: column types, order, CRS, the geometry's name, the inputs; on awkward layers too."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import pandas as pd
import pytest
import shapely
from geopandas.testing import assert_geodataframe_equal
from sample_layers import CRS, rich

from geocairn.operations import aggregation, geometry, joins, multipart, overlay, projection, selection, tessellation
from geocairn.operations.contract import Operation

SQUARES = [
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    "MULTIPOLYGON (((4 0, 8 0, 8 4, 4 4, 4 0)), ((20 0, 21 0, 21 1, 20 1, 20 0)))",
    "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))",
    "POLYGON ((50 50, 51 50, 51 51, 50 51, 50 50))",
]
POINTS = ["POINT (1 1)", "POINT (5 1)", "POINT (3 3)", "POINT (100 100)"]
OTHER = ["POLYGON ((1 1, 7 1, 7 3, 1 3, 1 1))", "POLYGON ((3 0, 5 0, 5 9, 3 9, 3 0))"]

# operation, first input, second input (role and geometries), parameters
CALLS: list[tuple[str, Operation, list[str], tuple[str, list[str]] | None, dict[str, Any]]] = [
    ("reproject", projection.reproject, SQUARES, None, {"crs": "EPSG:4269"}),
    ("assign_crs", projection.assign_crs, SQUARES, None, {"crs": CRS}),
    ("buffer", geometry.buffer, SQUARES, None, {"distance": 1}),
    ("simplify", geometry.simplify, SQUARES, None, {"tolerance": 0.1}),
    ("centroid", geometry.centroid, SQUARES, None, {}),
    ("convex_hull", geometry.convex_hull, SQUARES, None, {}),
    ("make_valid", geometry.make_valid, SQUARES, None, {}),
    ("remove_empty", geometry.remove_empty, SQUARES, None, {}),
    ("explode", multipart.explode, SQUARES, None, {}),
    ("clip", overlay.clip, SQUARES, ("mask", OTHER), {}),
    *(
        (f"overlay-{how}", overlay.overlay, SQUARES, ("right", OTHER), {"how": how})
        for how in ("intersection", "union", "difference", "symmetric_difference", "identity")
    ),
    ("spatial_join", joins.spatial_join, SQUARES, ("right", OTHER), {}),
    ("spatial_join-inner", joins.spatial_join, SQUARES, ("right", OTHER), {"how": "inner", "match": "largest"}),
    ("nearest_join", joins.nearest_join, SQUARES, ("right", OTHER), {"k": 2}),
    ("spatial_filter", joins.spatial_filter, SQUARES, ("by", OTHER), {}),
    ("filter", selection.filter, SQUARES, None, {"where": "whole < 3"}),
    ("select_columns", selection.select_columns, SQUARES, None, {"drop": "real"}),
    ("measure", selection.measure, SQUARES, None, {"area": "area", "perimeter": "outline"}),
    (
        "dissolve",
        aggregation.dissolve,
        SQUARES,
        None,
        {"by": "kind", "aggregates": {"big": ["sum", "max"], "when": "first"}},
    ),
    ("count_points", aggregation.count_points, SQUARES, ("points", POINTS), {}),
    ("count_points-by", aggregation.count_points, SQUARES, ("points", POINTS), {"by": "text", "weight": "whole"}),
    ("voronoi", tessellation.voronoi, POINTS, None, {"extent": [-10, -10, 110, 110]}),
]
IDS = [call[0] for call in CALLS]
NULLABLE = {"int32": "Int32", "bool": "boolean", "int64": "Int64"}


def run(call: Any, first: gpd.GeoDataFrame, second: gpd.GeoDataFrame | None) -> gpd.GeoDataFrame:
    _, operation, _, other, parameters = call
    inputs = {operation.roles[0].name: first}
    if other is not None:
        inputs[other[0]] = second
    return operation.compute(**inputs, **parameters)


def inputs_of(call: Any) -> tuple[gpd.GeoDataFrame, gpd.GeoDataFrame | None]:
    name, _, wkt, other, _ = call
    prefix = "" if name.startswith("count_points") else "r_"
    if other is None:
        return rich(wkt), None
    second = rich(other[1], prefix=prefix)
    first = rich(wkt) if name != "count_points-by" else rich(wkt).drop(columns=["text", "whole"])
    return first, second


def check(call: Any, result: gpd.GeoDataFrame, first: gpd.GeoDataFrame, second: gpd.GeoDataFrame | None) -> None:
    name = call[0]
    assert isinstance(result, gpd.GeoDataFrame)
    assert isinstance(result.index, pd.RangeIndex)
    assert result.index.start == 0
    assert result.index.name is None
    assert result.geometry.name == "shape"
    assert result.crs == (first.crs if name != "reproject" else "EPSG:4269")
    for column in result.columns:
        source = first if column in first.columns else second
        if column in ("shape",) or source is None or column not in source.columns:
            continue
        before, after = str(source.dtypes[column]), str(result.dtypes[column])
        assert after in (before, NULLABLE.get(before)), column


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_types_order_names_and_inputs(call: Any) -> None:
    first, second = inputs_of(call)
    first_before = first.copy(deep=True)
    second_before = second.copy(deep=True) if second is not None else None
    result = run(call, first, second)
    assert len(result)
    check(call, result, first, second)
    assert_geodataframe_equal(first, first_before)
    if second is not None:
        assert_geodataframe_equal(second, second_before)
    if call[1].promised(call[1].normalise(call[4])).rows in ("each", "some") and "whole" in result.columns:
        assert result["whole"].is_monotonic_increasing


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_no_rows_keep_the_schema(call: Any) -> None:
    first, second = inputs_of(call)
    full = run(call, first, second)
    for a, b in ((first.iloc[:0], second), (first.iloc[:0], second.iloc[:0] if second is not None else None)):
        result = run(call, a, b)
        if call[0] not in ("overlay-union", "overlay-symmetric_difference"):
            assert len(result) == 0
        check(call, result, first, second)
        assert list(result.columns) == list(full.columns)
        assert list(map(str, result.dtypes)) == list(map(str, full.dtypes))


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_one_row(call: Any) -> None:
    first, second = inputs_of(call)
    result = run(call, first.iloc[:1], second.iloc[:1] if second is not None else None)
    check(call, result, first, second)


@pytest.mark.parametrize("missing", [None, "empty"])
@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_rows_without_geometry(call: Any, missing: str | None) -> None:
    first, second = inputs_of(call)
    kind = "POINT EMPTY" if call[0] == "voronoi" else "POLYGON EMPTY"
    nothing = [None if missing is None else shapely.from_wkt(kind)] * len(first)
    first = first.set_geometry(gpd.GeoSeries(nothing, index=first.index, crs=CRS).rename("shape"))
    result = run(call, first, second)
    check(call, result, first, second)
    gone = ("remove_empty", "overlay-intersection", "spatial_join-inner", "spatial_filter")
    if call[0] in gone:
        assert len(result) == 0
        return
    kept = result[result["whole"].notna()] if "whole" in result.columns else result
    if call[0] not in ("filter", "dissolve", "count_points-by"):
        assert len(kept) == len(first)
    assert (kept.geometry.isna() | kept.geometry.is_empty).all()
    if missing is None and call[0] != "buffer":
        assert kept.geometry.isna().all()


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_results_hold_the_promised_kind(call: Any) -> None:
    first, second = inputs_of(call)
    operation = call[1]
    promise = operation.promised(operation.normalise(call[4]))
    result = run(call, first, second)
    expected = promise.kind if promise.kind != "same" else ("point" if call[0] == "voronoi" else "polygon")
    found = set(result.geometry.dropna().geom_type.str.replace("Multi", "").str.lower())
    if expected != "any":
        assert found == {expected}
    if promise.rows == "each":
        assert len(result) == len(first)


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_every_parameter_is_documented(call: Any) -> None:
    schema = call[1].schema()
    assert len(schema["description"]) > 40
    for name, field in schema["parameters"].get("properties", {}).items():
        assert field.get("description"), name
