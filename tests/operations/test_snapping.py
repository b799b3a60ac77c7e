"""snap_to_grid, snap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from sample_layers import layer, same_shape, wkts

from geocairn.failure import InputFailure, UnsoundResult
from geocairn.gate import Terms, admit
from geocairn.notes import collecting
from geocairn.operations.snapping import snap, snap_to_grid

BOW_TIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
SPECK = "POLYGON ((0 0, 0.1 0, 0.1 0.1, 0 0))"


def test_vertices_fall_on_the_grid() -> None:
    mixed = layer(["POINT Z (1.4 2.6 3.3)", "LINESTRING (0 0, 0.2 0.1, 9.7 4.2)", None, "POLYGON EMPTY"])
    result = snap_to_grid(mixed, grid_size=1)
    assert wkts(result) == ["POINT Z (1 3 3.3)", "LINESTRING (0 0, 10 4)", None, "POLYGON EMPTY"]
    fine = snap_to_grid(layer(["POINT (-75.69992065429688 45.42509718349142)"], crs=4326), grid_size=1e-4)
    assert wkts(fine) == ["POINT (-75.6999 45.4251)"]
    assert shapely.get_precision(result.geometry[0]) == 0


def test_what_collapses_leaves_an_empty_row_or_a_line_of_no_length() -> None:
    small = layer([SPECK, "LINESTRING (0 0, 0.1 0)"])
    assert wkts(snap_to_grid(small, grid_size=1)) == ["POLYGON EMPTY", "LINESTRING EMPTY"]
    admit(snap_to_grid(small, grid_size=1), Terms("g", snap_to_grid, snap_to_grid.normalise({"grid_size": 1}), [small]))
    assert wkts(snap_to_grid(small, grid_size=1, mode="keep_collapsed"))[1] == "LINESTRING (0 0, 0 0)"


def test_pointwise_keeps_every_vertex_and_may_make_polygons_invalid() -> None:
    parameters = {"grid_size": 1, "mode": "pointwise"}
    line = layer(["LINESTRING (0 0, 0.2 0.1, 9.7 4.2)"])
    assert snap_to_grid(line, **parameters).geometry[0].wkt == "LINESTRING (0 0, 0 0, 10 4)"
    speck = layer([SPECK])
    result = snap_to_grid(speck, **parameters)
    assert not result.geometry[0].is_valid
    with pytest.raises(UnsoundResult, match=r"made invalid geometry in .*row 0"):
        admit(result, Terms("grid", snap_to_grid, snap_to_grid.normalise(parameters), [speck]))
    assert not snap_to_grid.promised(snap_to_grid.normalise(parameters)).empties


def test_grid_complaints() -> None:
    with pytest.raises(InputFailure, match=r"invalid polygons: row 1 .*make_valid"):
        snap_to_grid(layer(["POINT (0 0)", BOW_TIE]), grid_size=3)
    with pytest.raises(InputFailure, match="grid_size is 500, and the layer's CRS is in degrees"):
        snap_to_grid(layer(["POINT (0 0)"], crs=4326), grid_size=500)
    with pytest.raises(InputFailure, match=r"M values.*row 0"):
        snap_to_grid(layer(["POINT M (1 2 3)"]), grid_size=1)
    with pytest.raises(InputFailure, match="greater than 0"):
        snap_to_grid(layer(["POINT (0 0)"]), grid_size=0)


@given(st.lists(st.tuples(st.floats(-1e5, 1e5), st.floats(-1e5, 1e5)), min_size=1, max_size=5), st.floats(0.01, 100))
def test_no_place_moves_by_more_than_half_a_square(places: list[tuple[float, float]], size: float) -> None:
    points = layer([shapely.Point(place).wkt for place in places])
    moved = shapely.get_coordinates(snap_to_grid(points, grid_size=size).geometry.values)
    assert np.abs(moved - shapely.get_coordinates(points.geometry.values)).max() <= size / 2 * (1 + 1e-6) + 1e-9


def test_vertices_and_edges_are_drawn_to_the_reference() -> None:
    mixed = layer(
        ["LINESTRING (0 0, 10 0)", "POINT (5 0.1)", "POLYGON ((0 0, 10 0, 10 10, 0 0))", None, "POINT (80 80)"]
    )
    with collecting() as notes:
        result = snap(mixed, layer(["POINT (10.5 0.2)", "POINT (5 0.3)", None, "POINT EMPTY"]), tolerance=1)
    assert [g.wkt if g else None for g in result.geometry] == [
        "LINESTRING (0 0, 5 0.3, 10.5 0.2)",
        "POINT (5 0.3)",
        "POLYGON ((0 0, 5 0.3, 10.5 0.2, 10 10, 0 0))",
        None,
        "POINT (80 80)",
    ]
    assert notes.facts["snapped"] == 3


def test_crossings_and_shared_vertices_of_the_reference_count() -> None:
    crossing = layer(["LINESTRING (0 0, 10 10)", "LINESTRING (0 10, 10 0)"])
    assert wkts(snap(layer(["POINT (5.2 5)"]), crossing, tolerance=1)) == ["POINT (5 5)"]
    neighbours = layer([shapely.box(0, 0, 4, 4).wkt, shapely.box(4, 0, 8, 4).wkt])
    assert wkts(snap(layer(["POINT (4.1 0.1)"]), neighbours, tolerance=1)) == ["POINT (4 0)"]


def test_what_is_deep_inside_a_polygon_draws_nothing() -> None:
    square = layer([shapely.box(0, 0, 10, 10).wkt])
    with collecting() as notes:
        result = snap(square, layer(["POINT (5 5)"]), tolerance=1)
    assert notes.facts["snapped"] == 0
    assert same_shape(result.geometry[0], square.geometry[0])
    assert len(snap(square, layer([None, "LINESTRING EMPTY"]), tolerance=1)) == 1


def test_z_comes_from_the_reference_or_stays() -> None:
    high = layer(["LINESTRING Z (0 0 1, 10 0 2)", "POINT Z (5 0 9)", "POLYGON Z ((0 0 1, 10 0 1, 10 10 3, 0 0 1))"])
    by_flat = snap(high, layer(["POINT (10.5 0)", "POINT (5 0.3)"]), tolerance=1)
    assert [g.wkt for g in by_flat.geometry] == [
        "LINESTRING Z (0 0 1, 5 0.3 1.5, 10.5 0 2)",
        "POINT Z (5 0.3 9)",
        "POLYGON Z ((0 0 1, 5 0.3 1, 10.5 0 1, 10 10 3, 0 0 1))",
    ]
    by_high = snap(high, layer(["POINT Z (10.5 0 77)", "POINT (5 0.3)"]), tolerance=1)
    assert by_high.geometry[0].wkt == "LINESTRING Z (0 0 1, 5 0.3 1.5, 10.5 0 77)"
    flat = layer(["LINESTRING (0 0, 10 0)"])
    assert wkts(snap(flat, layer(["POINT Z (10.5 0 77)"]), tolerance=1)) == ["LINESTRING (0 0, 10.5 0)"]


def test_snap_complaints() -> None:
    points = layer(["POINT (0 0)"])
    with pytest.raises(InputFailure, match="degrees"):
        snap(layer(["POINT (0 0)"], crs=4326), layer(["POINT (0 0)"], crs=4326), tolerance=1)
    with pytest.raises(InputFailure, match="differ in CRS"):
        snap(points, layer(["POINT (0 0)"], crs=3857), tolerance=1)
    with pytest.raises(InputFailure, match=r"M values.*row 0"):
        snap(layer(["POINT M (0 0 1)"]), points, tolerance=1)
    with pytest.raises(InputFailure, match="greater than 0"):
        snap(points, points, tolerance=0)


def test_agrees_with_geos_where_the_reference_is_sparse() -> None:
    """Each vertex of the reference near at most one place of the layer: nothing is drawn on from what was drawn."""
    rng = np.random.default_rng(7)
    grid = np.stack(np.meshgrid(np.arange(8) * 10.0, np.arange(8) * 10.0), axis=-1).reshape(-1, 2)
    lines: Any = shapely.linestrings(grid.reshape(8, 8, 2))
    places = shapely.points(grid[::3] + rng.uniform(-1, 1, grid[::3].shape))
    found = snap(layer([line.wkt for line in lines]), layer([place.wkt for place in places]), tolerance=1.5)
    expected = shapely.snap(lines, shapely.union_all(places), 1.5)
    assert shapely.equals_exact(np.asarray(found.geometry.values), expected, 1e-9).all()
