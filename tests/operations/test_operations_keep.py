"""What every operation keeps: column types, order, CRS, the geometry's name, the inputs; on awkward layers too."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import pandas as pd
import pytest
import shapely
from geopandas.testing import assert_geodataframe_equal
from sample_layers import CRS, rich

from geocairn.operations import (
    aggregation,
    attribute_joins,
    buffers,
    columns,
    combination,
    coordinates,
    extent,
    geometry,
    grids,
    hulls,
    joins,
    lines,
    multipart,
    overlay,
    projection,
    selection,
    snapping,
    splitting,
    summaries,
    tessellation,
    validity,
    vertices,
)
from geocairn.operations.contract import Operation

SQUARES = [
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    "MULTIPOLYGON (((4 0, 8 0, 8 4, 4 4, 4 0)), ((20 0, 21 0, 21 1, 20 1, 20 0)))",
    "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))",
    "POLYGON ((50 50, 51 50, 51 51, 50 51, 50 50))",
]
POINTS = ["POINT (1 1)", "POINT (5 1)", "POINT (3 3)", "POINT (100 100)"]
TILES = [SQUARES[0], "POLYGON ((4 0, 8 0, 8 4, 4 4, 4 0))", SQUARES[3]]
BENDS = ["LINESTRING (0 0, 9 0, 9 9)", "MULTILINESTRING ((0 20, 9 20), (0 30, 9 30))", "LINESTRING (50 0, 60 5)"]
LINES = [
    "LINESTRING (0 0, 6 0, 6 6)",
    "MULTILINESTRING ((0 5, 4 5), (4 5, 8 5))",
    "LINESTRING (1 -1, 1 9)",
    "LINESTRING (50 50, 60 60)",
]
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
    ("multi_ring_buffer", buffers.multi_ring_buffer, SQUARES, None, {"distances": [1, 2]}),
    ("multi_ring_buffer-rows", buffers.multi_ring_buffer, SQUARES, None, {"distances": [1], "dissolve": False}),
    ("offset_curve", buffers.offset_curve, BENDS, None, {"distance": 1}),
    ("simplify_coverage", vertices.simplify_coverage, TILES, None, {"tolerance": 0.1}),
    ("densify", vertices.densify, SQUARES, None, {"max_segment_length": 0.5}),
    ("boundary", vertices.boundary, SQUARES, None, {}),
    ("remove_holes", vertices.remove_holes, SQUARES, None, {}),
    ("snap_to_grid", snapping.snap_to_grid, SQUARES, None, {"grid_size": 0.5}),
    ("snap", snapping.snap, SQUARES, ("reference", OTHER), {"tolerance": 0.5}),
    ("point_on_surface", geometry.point_on_surface, SQUARES, None, {}),
    ("concave_hull", hulls.concave_hull, SQUARES, None, {}),
    ("envelope", hulls.envelope, SQUARES, None, {}),
    ("minimum_rotated_rectangle", hulls.minimum_rotated_rectangle, SQUARES, None, {}),
    ("minimum_bounding_circle", hulls.minimum_bounding_circle, SQUARES, None, {}),
    ("affine_transform", coordinates.affine_transform, SQUARES, None, {"matrix": [2, 1, 0, 3, 10, 20]}),
    ("force_2d", coordinates.force_2d, SQUARES, None, {}),
    ("orient_polygons", coordinates.orient_polygons, SQUARES, None, {"exterior_cw": True}),
    ("swap_xy", coordinates.swap_xy, SQUARES, None, {}),
    ("normalize", coordinates.normalize, SQUARES, None, {}),
    ("check_validity", validity.check_validity, SQUARES, None, {}),
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
    (
        "attribute_join",
        attribute_joins.attribute_join,
        SQUARES,
        ("right", OTHER),
        {"left_on": "big", "right_on": "r_big"},
    ),
    (
        "attribute_join-inner",
        attribute_joins.attribute_join,
        SQUARES,
        ("right", OTHER),
        {"left_on": ["whole", "kind"], "right_on": ["r_whole", "r_kind"], "how": "inner"},
    ),
    ("filter_extent", extent.filter_extent, SQUARES, None, {"bbox": [-1, -1, 60, 60]}),
    ("filter_extent-clip", extent.filter_extent, SQUARES, None, {"bbox": [1, 1, 60, 60], "clip": True}),
    ("compute_columns", columns.compute_columns, SQUARES, None, {"columns": {"more": "big + whole", "say": "text"}}),
    ("deduplicate", combination.deduplicate, SQUARES, None, {"by": ["kind", "arrow"]}),
    (
        "summarize",
        summaries.summarize,
        SQUARES,
        None,
        {"by": "kind", "statistics": {"big": ["sum", "max"], "when": "first"}, "geometry": "first"},
    ),
    (
        "summarize_within",
        summaries.summarize_within,
        SQUARES,
        ("layer", POINTS),
        {"statistics": {"r_big": ["sum", "first"], "r_when": "min", "r_kind": "first"}},
    ),
    ("sum_line_lengths", summaries.sum_line_lengths, SQUARES, ("lines", LINES), {}),
    ("count_points", aggregation.count_points, SQUARES, ("points", POINTS), {}),
    ("count_points-by", aggregation.count_points, SQUARES, ("points", POINTS), {"by": "text", "weight": "whole"}),
    ("collect", multipart.collect, POINTS, None, {"by": "kind"}),
    ("extract_vertices", multipart.extract_vertices, SQUARES, None, {}),
    ("explode_lines", lines.explode_lines, SQUARES, None, {}),
    ("line_merge", lines.line_merge, LINES, None, {}),
    ("line_substring", lines.line_substring, LINES, None, {"start": 1, "end": -1}),
    ("polygonize", lines.polygonize, [*LINES, "LINESTRING (0 0, 0 6, 6 6)"], None, {}),
    ("split", splitting.split, SQUARES, ("splitter", LINES), {}),
    ("split-lines", splitting.split, LINES, ("splitter", [*OTHER, *POINTS]), {}),
    ("line_intersections", overlay.line_intersections, LINES, ("right", OTHER), {}),
    ("delaunay", tessellation.delaunay, POINTS, None, {}),
    ("create_grid", grids.create_grid, SQUARES, None, {"size": 3}),
    ("create_grid-whole", grids.create_grid, POINTS, None, {"size": 30, "kind": "hexagon", "clip": False}),
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
    gone = (
        "remove_empty",
        "multi_ring_buffer",
        "overlay-intersection",
        "spatial_join-inner",
        "spatial_filter",
        "filter_extent",
        "filter_extent-clip",
    )
    made_of_all = ("polygonize", "line_intersections", "delaunay", "create_grid", "create_grid-whole")
    if call[0] in (*gone, *made_of_all):
        assert len(result) == 0
        return
    kept = result[result["whole"].notna()] if "whole" in result.columns else result
    if call[0] not in ("filter", "dissolve", "collect", "count_points-by", "summarize", "attribute_join-inner"):
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
    of_first = {"collect": "point", "split-lines": "line"}
    expected = promise.kind if promise.kind != "same" else of_first.get(call[0], "polygon")
    found = {name.lower().removeprefix("multi").removesuffix("string") for name in result.geometry.dropna().geom_type}
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
