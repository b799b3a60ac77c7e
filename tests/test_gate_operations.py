"""What every operation makes of awkward layers passes the gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from geopandas.testing import assert_geodataframe_equal

from geocairn.failure import Failure, UnsoundResult
from geocairn.gate import Terms, admit
from geocairn.operations.registry import operations

sys.path.insert(0, str(Path(__file__).parent / "operations"))

from gate_samples import BOW, FLAT, PARTLY_FLAT, SQUARE
from sample_layers import rich

# --- every operation


POLYGONS = [
    SQUARE,
    None,
    "POLYGON EMPTY",
    "MULTIPOLYGON (((20 0, 30 0, 30 10, 20 10, 20 0)), ((40 0, 50 0, 50 10, 40 0)))",
    SQUARE,
]
OVER = ["POLYGON ((5 5, 25 5, 25 15, 5 15, 5 5))", None, "POLYGON EMPTY", "POLYGON ((8 0, 9 0, 9 9, 8 9, 8 0))"]
POINTS = ["POINT (1 1)", None, "POINT EMPTY", "POINT (25 5)", "POINT (100 100)"]
LINES = ["LINESTRING (0 0, 5 5, 10 0)", None, "LINESTRING EMPTY", "MULTILINESTRING ((0 0, 1 1), (5 5, 30 5))"]
BROKEN = [BOW, None, "POLYGON EMPTY", FLAT, PARTLY_FLAT, SQUARE]
MIXED = [f"GEOMETRYCOLLECTION (POINT (0 0), {SQUARE})", None]
AWKWARD = {"polygons": POLYGONS, "points": POINTS, "lines": LINES, "broken": BROKEN, "mixed": MIXED, "none": []}

ALONE: list[tuple[str, dict[str, Any]]] = [
    ("reproject", {"crs": "EPSG:4326"}),
    ("assign_crs", {"crs": "EPSG:5070"}),
    ("buffer", {"distance": 1}),
    ("buffer", {"distance": -20}),
    ("buffer", {"distance": 1, "dissolve": True}),
    ("buffer", {"distance": -100, "dissolve": True}),
    ("simplify", {"tolerance": 100}),
    ("simplify", {"tolerance": 100, "preserve_topology": False}),
    ("centroid", {}),
    ("convex_hull", {}),
    ("convex_hull", {"by": "flag"}),
    ("make_valid", {}),
    ("make_valid", {"keep_geometry_kind": False}),
    ("make_valid", {"keep_geometry_kind": False, "keep_collapsed": True}),
    ("make_valid", {"method": "linework", "keep_collapsed": True}),
    ("remove_empty", {}),
    ("explode", {}),
    ("explode", {"keep_empty": False}),
    ("filter", {"where": "whole >= 0"}),
    ("select_columns", {"keep": ["whole"]}),
    ("measure", {"area": "a", "length": "l", "perimeter": "p"}),
    ("filter_extent", {"bbox": [0, 0, 2, 2]}),
    ("filter_extent", {"bbox": [0, 0, 2, 2], "clip": True}),
    ("compute_columns", {"columns": {"more": "whole + 1"}}),
    ("deduplicate", {}),
    ("deduplicate", {"by": "flag", "tolerance": 1}),
    ("merge_layers", {"source_column": "from"}),
    ("summarize", {"by": "flag", "statistics": {"whole": "sum"}}),
    ("summarize", {"by": "flag", "statistics": {"whole": "sum"}, "geometry": "first"}),
    ("summarize", {"by": "whole", "statistics": {}, "geometry": "collect"}),
    ("dissolve", {}),
    ("dissolve", {"by": "whole"}),
    ("dissolve", {"by": "flag", "method": "coverage"}),
    ("dissolve", {"grid_size": 1}),
    ("voronoi", {}),
    ("affine_transform", {"matrix": [1, 0, 0, 1, 5, 5]}),
    ("affine_transform", {"matrix": [0, -1, 1, 0, 0, 0]}),
    ("boundary", {}),
    ("check_validity", {}),
    ("collect", {}),
    ("collect", {"by": "flag"}),
    ("concave_hull", {}),
    ("concave_hull", {"by": "flag"}),
    ("create_grid", {"size": 7}),
    ("create_grid", {"size": 7, "kind": "hexagon", "clip": False}),
    ("delaunay", {}),
    ("densify", {"max_segment_length": 3}),
    ("envelope", {}),
    ("envelope", {"by": "flag"}),
    ("explode_lines", {}),
    ("extract_vertices", {}),
    ("force_2d", {}),
    ("line_merge", {}),
    ("line_substring", {"start": 0.2, "end": 0.7, "normalized": True}),
    ("minimum_bounding_circle", {}),
    ("minimum_rotated_rectangle", {}),
    ("multi_ring_buffer", {"distances": [2, 5]}),
    ("multi_ring_buffer", {"distances": [-2, 5], "dissolve": False}),
    ("normalize", {}),
    ("offset_curve", {"distance": 1}),
    ("orient_polygons", {}),
    ("point_on_surface", {}),
    ("polygonize", {}),
    ("remove_holes", {}),
    ("remove_holes", {"max_area": 2}),
    ("simplify_coverage", {"tolerance": 1}),
    ("snap_to_grid", {"grid_size": 1}),
    ("swap_xy", {}),
    ("voronoi", {"extent": [0, 0, 2, 2]}),
]  # fmt: skip
PAIRED: list[tuple[str, list[str | None], dict[str, Any]]] = [
    *(("clip", OVER, {"keep_geometry_kind": keep}) for keep in (True, False)),
    *(
        ("overlay", other, {"how": how, **more})
        for how in ("intersection", "union", "difference", "symmetric_difference", "identity")
        for other in (OVER, LINES)
        for more in ({}, {"keep_geometry_kind": False}, {"grid_size": 1})
    ),
    *(
        ("spatial_join", other, {"how": how, "match": match})
        for how in ("left", "inner")
        for match in ("all", "first", "largest")
        for other in (OVER, POLYGONS)
    ),
    ("spatial_join", OVER, {"predicate": "disjoint"}),
    ("spatial_join", OVER, {"predicate": "dwithin", "distance": 100}),
    *(("nearest_join", POINTS, {"k": k, "max_distance": most}) for k in (1, 3) for most in (None, 1)),
    ("spatial_filter", OVER, {}),
    ("spatial_filter", OVER, {"invert": True}),
    ("spatial_filter", OVER, {"predicate": "disjoint"}),
    ("count_points", POINTS, {}),
    ("count_points", POINTS, {"by": "r_flag"}),
    *(("attribute_join", OVER, {"left_on": "flag", "right_on": "r_flag", "how": how}) for how in ("left", "inner")),
    ("attribute_join", OVER, {"left_on": "whole", "right_on": "r_whole", "validate": "one_to_one"}),
    ("merge_layers", OVER, {"fields": "intersection"}),
    ("summarize_within", OVER, {"statistics": {"r_whole": "sum"}, "weight": "area"}),
    ("summarize_within", LINES, {"statistics": {"r_whole": ["sum", "mean"]}, "weight": "length"}),
    ("summarize_within", POINTS, {"statistics": {}}),
    ("sum_line_lengths", LINES, {}),
    ("line_intersections", LINES, {}),
    ("line_intersections", OVER, {}),
    ("snap", OVER, {"tolerance": 2}),
    ("split", LINES, {}),
    ("split", POINTS, {}),
    ("voronoi", OVER, {}),
    ("voronoi", OVER, {"keep_columns": False}),
]  # fmt: skip
CALLS = [(name, None, more) for name, more in ALONE] + PAIRED


@pytest.mark.parametrize("kind", list(AWKWARD))
def test_what_operations_make_of_awkward_layers_passes(kind):
    first = rich(AWKWARD[kind]) if AWKWARD[kind] else rich(POLYGONS).iloc[:0]
    passed = 0
    for name, other, more in CALLS:
        operation = operations[name]
        inputs = [first, *([rich(other, prefix="r_")] if other is not None else [])]
        before = [item.copy() for item in inputs]
        try:
            result = operation.compute(*([inputs] if operation.roles[0].many else inputs), **more)
        except Failure:
            continue  # the operation does not take such a layer, and says so
        terms = Terms(f"{name} {more}", operation, operation.normalise(more), inputs, allow_empty=True)
        if (name, kind) == ("collect", "polygons") and not result.geometry.is_valid.all():
            with pytest.raises(UnsoundResult, match="made invalid geometry"):
                admit(result, terms)  # polygons that overlap are no multipolygon
            continue
        admit(result, terms)
        for item, kept in zip(inputs, before, strict=True):
            assert_geodataframe_equal(item, kept)
        passed += 1
    assert passed >= 20


def test_every_operation_is_in_the_test_above():
    built_in = {
        name
        for name, operation in operations.items()
        if operation.function.__module__.startswith("geocairn.") and not operation.reads and not operation.effect
    }
    assert built_in == {name for name, _, _ in CALLS}
