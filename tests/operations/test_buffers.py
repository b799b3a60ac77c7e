"""multi_ring_buffer, offset_curve."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import shapely
from sample_layers import layer, wkts

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.operations.buffers import multi_ring_buffer, offset_curve

SQUARE = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))"


def area_of_circle(radius: float) -> float:
    """Of the polygon of 64 vertices that a buffer makes of a circle."""
    return 32 * math.sin(math.pi / 32) * radius**2


def test_rings_around_the_layer_do_not_overlap() -> None:
    result = multi_ring_buffer(layer(["POINT (0 0)", "POINT (1 0)", None]), distances=[3, 1])
    assert result.columns.tolist() == ["distance", "geometry"]
    assert result["distance"].tolist() == [1, 3]
    assert not shapely.overlaps(*result.geometry)
    assert result.geometry[0].intersection(result.geometry[1]).area == pytest.approx(0)
    both = shapely.union_all(shapely.buffer(shapely.points([[0, 0], [1, 0]]), 3, quad_segs=16))
    assert result.area.sum() == pytest.approx(both.area)
    assert result.geometry[0].contains(shapely.Point(0, 0))


def test_rings_around_each_row() -> None:
    points = layer(["POINT (0 0)", "POINT (1 0)"], name=["a", "b"])
    result = multi_ring_buffer(points, distances=[1, 2], dissolve=False)
    assert result["name"].tolist() == ["a", "a", "b", "b"]
    assert result["distance"].tolist() == [1, 2, 1, 2]
    assert result.area.tolist() == pytest.approx([area_of_circle(1), area_of_circle(2) - area_of_circle(1)] * 2)
    assert result.geometry[1].distance(shapely.Point(0, 0)) == pytest.approx(1, abs=0.01)
    named = multi_ring_buffer(points, distances=[1], dissolve=False, distance_column="reach")
    assert named.columns.tolist() == ["id", "name", "geometry", "reach"]


def test_zero_and_negative_distances_of_polygons() -> None:
    result = multi_ring_buffer(layer([SQUARE]), distances=[-2, 0, 1])
    assert result.area.tolist()[:2] == pytest.approx([36, 64])
    assert result.geometry[2].intersection(shapely.from_wkt(SQUARE)).area == pytest.approx(0)
    emptied = multi_ring_buffer(layer([SQUARE]), distances=[-6, 1])
    assert emptied.geometry[0].wkt == "POLYGON EMPTY"
    assert emptied.geometry[1].covers(shapely.from_wkt(SQUARE))


@pytest.mark.parametrize("dissolve", [True, False])
def test_rings_pass_the_gate(dissolve: bool) -> None:
    mixed = layer(["POINT (0 0)", None, "POLYGON EMPTY", "LINESTRING (5 5, 9 9)", SQUARE])
    parameters = {"distances": [-1, 2], "dissolve": dissolve}
    result = multi_ring_buffer(mixed, **parameters)
    assert len(result) == (2 if dissolve else 10)
    passed = admit(result, Terms("rings", multi_ring_buffer, multi_ring_buffer.normalise(parameters), [mixed]))
    assert passed.facts.rows == len(result)
    nothing = multi_ring_buffer(layer([None, "POINT EMPTY"]), **parameters)
    assert len(nothing) == (0 if dissolve else 4)


def test_ring_complaints() -> None:
    with pytest.raises(InputFailure, match="given twice"):
        multi_ring_buffer(layer([SQUARE]), distances=[1, 1.0])
    with pytest.raises(InputFailure, match="distance' already"):
        multi_ring_buffer(layer([SQUARE], distance=[1]), distances=[1], dissolve=False)
    with pytest.raises(InputFailure, match="geometry' already"):
        multi_ring_buffer(layer([SQUARE]), distances=[1], distance_column="geometry")
    with pytest.raises(InputFailure, match="degrees"):
        multi_ring_buffer(layer([SQUARE], crs=4326), distances=[1])
    normal = multi_ring_buffer.normalise
    assert normal({"distances": [2, 1]}) == normal({"distances": [1.0, 2.0]})


def test_offset_to_the_left_and_to_the_right() -> None:
    line = layer(["LINESTRING (0 0, 10 0)", "MULTILINESTRING ((0 0, 0 9), (5 0, 5 9))"])
    assert [g.wkt for g in offset_curve(line, distance=1).geometry] == [
        "LINESTRING (0 1, 10 1)",
        "MULTILINESTRING ((-1 0, -1 9), (4 0, 4 9))",
    ]
    assert offset_curve(line, distance=-1).geometry[0].wkt == "LINESTRING (0 -1, 10 -1)"


def test_offset_by_a_column_and_its_complaints() -> None:
    lines = layer(["LINESTRING (0 0, 10 0)"] * 3, reach=pd.array([1, -2, 0], dtype="Int64"))
    assert [g.coords[0][1] for g in offset_curve(lines, distance="reach").geometry] == [1, -2, 0]
    with pytest.raises(InputFailure, match=r"offset_curve: .*no column 'raech'"):
        offset_curve(lines, distance="raech")
    with pytest.raises(InputFailure, match=r"offset_curve: .*missing or infinite values: row 1"):
        offset_curve(layer(["LINESTRING (0 0, 1 0)"] * 2, reach=[1, np.nan]), distance="reach")
    with pytest.raises(InputFailure, match="takes line geometry, got polygon"):
        offset_curve(layer([SQUARE]), distance=1)


def test_offset_that_collapses_leaves_an_empty_line() -> None:
    rings = layer(["LINESTRING (0 0, 10 0, 10 10, 0 10, 0 0)", None, "LINESTRING EMPTY"])
    result = offset_curve(rings, distance=6)
    assert wkts(result) == ["LINESTRING EMPTY", None, "LINESTRING EMPTY"]
    admit(result, Terms("offset", offset_curve, offset_curve.normalise({"distance": 6}), [rings]))


def test_offset_corners() -> None:
    bend = layer(["LINESTRING (0 0, 10 0, 10 10)"])
    mitred = offset_curve(bend, distance=-1, join_style="mitre")
    assert mitred.geometry[0].wkt == "LINESTRING (0 -1, 11 -1, 11 10)"
    assert len(offset_curve(bend, distance=-1, join_style="bevel").geometry[0].coords) == 4
    for quad_segs, vertices in ((8, 11), (16, 19)):
        assert len(offset_curve(bend, distance=-1, quad_segs=quad_segs).geometry[0].coords) == vertices
