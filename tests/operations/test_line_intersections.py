"""line_intersections: a point wherever lines of two layers meet."""

from __future__ import annotations

import pytest
from sample_layers import layer, wkts

from geocairn.failure import InputFailure
from geocairn.operations.overlay import line_intersections


def test_crossings_carry_both_rows() -> None:
    left = layer(["LINESTRING (0 0, 9 0)", None, "LINESTRING (0 5, 9 5, 9 9)"], name=["a", "b", "c"])
    right = layer(["LINESTRING (7 -1, 7 9)", "LINESTRING (2 0, 2 -4)", "LINESTRING EMPTY"], speed=[30, 50, 70])
    result = line_intersections(left, right)
    assert result.columns.tolist() == ["id_left", "name", "id_right", "speed", "geometry"]
    assert result[["name", "speed"]].to_numpy().tolist() == [["a", 30], ["a", 50], ["c", 30]]
    assert wkts(result) == ["POINT (7 0)", "POINT (2 0)", "POINT (7 5)"]
    assert line_intersections(left, right, suffixes=["", "_r"]).columns[:3].tolist() == ["id", "name", "id_r"]


def test_a_shared_stretch_gives_its_ends() -> None:
    line = layer(["LINESTRING (0 0, 5 0, 10 0)"])
    other = layer(["LINESTRING (2 3, 2 0, 6 0, 8 0, 8 -1, 9 -1, 9 1)"])
    assert wkts(line_intersections(line, other)) == ["POINT (2 0)", "POINT (8 0)", "POINT (9 0)"]
    assert wkts(line_intersections(line, line)) == ["POINT (0 0)", "POINT (10 0)"]
    square = layer(["LINESTRING (0 0, 1 0, 1 1, 0 0)"])
    assert len(line_intersections(square, square)) == 0


def test_polygons_count_by_their_outlines() -> None:
    ring = layer(["POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (3 3, 6 3, 6 6, 3 6, 3 3))"])
    assert wkts(line_intersections(layer(["LINESTRING (-1 4, 20 4)"]), ring)) == [
        f"POINT ({x} 4)" for x in (0, 3, 6, 9)
    ]
    assert len(line_intersections(layer(["LINESTRING (1 1, 2 2)"]), ring)) == 0
    bow_tie = layer(["POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))"])
    assert wkts(line_intersections(bow_tie, layer(["LINESTRING (3 -1, 3 9)"]))) == ["POINT (3 1)", "POINT (3 3)"]


def test_z_comes_from_both_lines() -> None:
    result = line_intersections(layer(["LINESTRING Z (0 0 0, 4 0 4)"]), layer(["LINESTRING Z (2 -1 10, 2 1 10)"]))
    assert wkts(result) == ["POINT Z (2 0 6)"]


def test_complaints() -> None:
    lines = layer(["LINESTRING (0 0, 1 1)"], id_left=[1])
    with pytest.raises(InputFailure, match="two columns 'id_left'"):
        line_intersections(lines, layer(["LINESTRING (0 1, 1 0)"]))
    with pytest.raises(InputFailure, match="takes line and polygon geometry, got point"):
        line_intersections(lines, layer(["POINT (0 1)"]))
    with pytest.raises(InputFailure, match="differ in CRS"):
        line_intersections(lines, layer(["LINESTRING (0 1, 1 0)"], crs=3857))
