"""What holds of operations whatever the layer: sums of areas, there and back, rows in and rows out, inputs left alone.

Shapes are drawn on a coarse grid, so that they touch, share edges and cover each other as real ones do.
"""

from __future__ import annotations

import copy
from typing import Any

import geopandas as gpd
import numpy as np
import pytest
import shapely
from example_calls import (
    attempt,
    computing,
    flat,
    gated,
    inputs_of,
    is_layer,
    named,
    parameters_of,
    shapes,
    with_shapes,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geocairn.failure import Failure, InputFailure
from geocairn.operations.contract import KINDS
from geocairn.operations.registry import operations

CRS = "EPSG:5070"
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
FEWER = settings(FEW, max_examples=12)

_places = st.integers(0, 12)
_sizes = st.integers(1, 6)
_rectangles = st.builds(lambda x, y, w, h: shapely.box(x, y, x + w, y + h), _places, _places, _sizes, _sizes)
_triangles = st.tuples(_places, _places, _sizes, _sizes, st.booleans()).map(
    lambda t: shapely.Polygon([(t[0], t[1]), (t[0] + t[2], t[1]), (t[0] + (t[2] if t[4] else 0), t[1] + t[3])])
)
_holed = _rectangles.map(lambda box: box.buffer(3, join_style="mitre").difference(box))
_apart = st.tuples(_rectangles, _triangles).map(
    lambda pair: shapely.union(pair[0], shapely.transform(pair[1], lambda xy: xy + 30))
)
polygons = st.one_of(_rectangles, _triangles, _holed, _apart)
lines = st.lists(st.tuples(_places, _places), min_size=2, max_size=6, unique=True).map(shapely.LineString)
points = st.tuples(_places, _places).map(shapely.Point)
anything = st.one_of(polygons, lines, points, st.none(), st.just(shapely.Polygon()))


def layer(values: list[Any], **columns: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": np.arange(len(values)), **columns}, geometry=np.array(values, dtype=object), crs=CRS)


def area(name: str, **arguments: Any) -> float:
    return float(operations[name].compute(**arguments).geometry.area.sum())


def without_overlaps(values: list[Any]) -> list[Any]:
    """Each polygon less those before it, so that areas may be added up."""
    found: list[Any] = []
    for value in values:
        rest = shapely.difference(value, shapely.union_all(found)) if found else value
        parts = [part for part in shapely.get_parts(rest) if part.geom_type == "Polygon"]
        if parts:
            found.append(shapely.multipolygons(parts))
    return found


@FEW
@given(st.lists(polygons, max_size=5), st.lists(polygons, max_size=5))
def test_areas_of_an_overlay_add_up(one: list[Any], other: list[Any]) -> None:
    left, right = layer(without_overlaps(one)), layer(without_overlaps(other))
    areas = {
        how: area("overlay", left=left, right=right, how=how)
        for how in ("union", "intersection", "difference", "symmetric_difference", "identity")
    }
    back = area("overlay", left=right, right=left, how="difference")
    assert areas["union"] == pytest.approx(areas["difference"] + areas["intersection"] + back)
    assert areas["symmetric_difference"] == pytest.approx(areas["difference"] + back)
    assert areas["identity"] == pytest.approx(left.area.sum())
    whole = shapely.union_all([*shapes(left), *shapes(right)]).area
    assert areas["union"] == pytest.approx(whole)
    assert area("clip", layer=left, mask=right) == pytest.approx(areas["intersection"])


@FEW
@given(st.lists(st.tuples(polygons, st.sampled_from(["a", "b", None])), min_size=1, max_size=8))
def test_dissolve_keeps_the_area(rows: list[tuple[Any, str | None]]) -> None:
    values, keys = zip(*rows, strict=True)
    table = layer(list(values), key=list(keys))
    result = operations["dissolve"].compute(table, by="key")
    assert len(result) == len(set(keys))
    for key, shape in zip(result["key"], result.geometry, strict=True):
        mine = [value for value, one in rows if (one is None) == (key is None or key != key) and one in (None, key)]
        assert shape.area == pytest.approx(shapely.union_all(mine).area)
    apart = without_overlaps(list(values))
    assert area("dissolve", layer=layer(apart)) == pytest.approx(sum(shape.area for shape in apart))


@pytest.mark.parametrize("target", ["EPSG:4269", "EPSG:3857", "EPSG:26914", "EPSG:2163"])
@FEWER
@given(values=st.lists(anything, min_size=1, max_size=6))
def test_there_and_back_is_within_a_millimetre(target: str, values: list[Any]) -> None:
    table = layer([None if value is None else shapely.transform(value, lambda xy: xy * 20_000) for value in values])
    there = operations["reproject"].compute(table, crs=target, allow_ballpark=True)
    back = operations["reproject"].compute(there, crs=CRS, allow_ballpark=True)
    for before, after in zip(shapes(table), shapes(back), strict=True):
        if before is None:
            assert after is None
            continue
        assert before.geom_type == after.geom_type
        moved = shapely.get_coordinates(after) - shapely.get_coordinates(before)
        assert np.abs(moved).max(initial=0) < 0.001


@FEW
@given(st.lists(anything, min_size=1, max_size=5), st.floats(0.01, 20), st.sampled_from([1, 4, 16]))
def test_a_buffer_contains_its_input(values: list[Any], distance: float, segments: int) -> None:
    result = operations["buffer"].compute(layer(values), distance=distance, quad_segs=segments)
    for before, after in zip(values, result.geometry, strict=True):
        if before is None or before.is_empty:
            assert after is None or after.is_empty
            continue
        assert after.is_valid
        assert after.buffer(1e-9).covers(before)
        farthest = shapely.distance(shapely.points(shapely.get_coordinates(after)), before).max()
        assert farthest <= distance * (1 + 1e-9)


@FEW
@given(st.lists(anything, max_size=6))
def test_parts_taken_apart_and_put_together(values: list[Any]) -> None:
    table = layer(values)
    parts = operations["explode"].compute(table)
    assert parts["n"].is_monotonic_increasing
    assert set(parts["n"]) == set(range(len(values)))
    assert parts.geometry.area.sum() == pytest.approx(table.geometry.area.sum())
    kinds = {shape.geom_type.removeprefix("Multi") for shape in values if shape is not None and not shape.is_empty}
    if len(kinds) == 1:
        together = operations["collect"].compute(parts, by="n")
        for row, shape in zip(together["n"], together.geometry, strict=True):
            before = values[row]
            assert (shape is None or shape.is_empty) if before is None or before.is_empty else shape.equals(before)


def _drawn(kinds: tuple[str, ...]) -> Any:
    drawn = {"point": points, "line": lines, "polygon": polygons}
    return st.one_of(*(drawn[kind] for kind in kinds), st.none())


def _replaced(name: str, data: st.DataObject) -> dict[str, Any]:
    """The example's inputs with shapes as drawn, of the kinds that each role takes, one kind a layer."""

    def change(table: Any, role: Any) -> Any:
        if not is_layer(table) or table.crs.is_geographic:
            return table
        kind = data.draw(st.sampled_from(role.kinds))
        count = data.draw(st.integers(1, 6))
        rows = table.iloc[np.arange(count) % len(table)].reset_index(drop=True)
        values = data.draw(st.lists(_drawn((kind,)), min_size=count, max_size=count))
        moved = [None if value is None else shapely.transform(value, lambda xy: xy * 5) for value in values]
        return with_shapes(rows, moved)

    return inputs_of(operations[name], change)


@pytest.mark.parametrize("name", named())
@FEWER
@given(data=st.data())
def test_rows_as_promised_and_inputs_untouched(name: str, data: st.DataObject) -> None:
    """No operation loses or invents a row against its rule, and none changes what it is given."""
    operation = operations[name]
    inputs = _replaced(name, data)
    before = [copy.deepcopy(table) for table in flat(inputs)]
    coded = [shapely.to_wkb(shapes(table)) for table in before if is_layer(table)]
    passed = attempt(lambda: gated(operation, inputs))
    again = [shapely.to_wkb(shapes(table)) for table in flat(inputs) if is_layer(table)]
    for one, other in zip(coded, again, strict=True):
        assert (one == other).all(), "an input's geometry was changed"
    for one, other in zip(before, flat(inputs), strict=True):
        attributes = [column for column in one.columns if str(one.dtypes[column]) != "geometry"]
        assert one[attributes].equals(other[attributes]), "an input's attributes were changed"
        assert list(one.columns) == list(other.columns)
        assert one.index.equals(other.index)
    if isinstance(passed, Failure):
        assert isinstance(passed, InputFailure)
        assert str(passed).startswith(name), passed
        return
    first, result = before[0], passed.layer
    promise = operation.promised(operation.normalise(parameters_of(operation)))
    marks = [column for column in first.columns if column in result.columns and str(first.dtypes[column]) != "geometry"]
    if promise.rows == "each":
        assert len(result) == len(first)
        for column in marks:
            assert result[column].equals(first[column].reset_index(drop=True)) or name == "compute_columns", column
    elif promise.rows == "some":
        assert len(result) <= len(first)
    assert list(result.index) == list(range(len(result)))


def test_every_kind_of_promise_is_met_by_an_operation() -> None:
    """The property above says something of each rule for rows only while some operation promises it."""
    rules = {
        operation.promised(operation.normalise(parameters_of(operation))).rows
        for operation in computing()
        if operation.example is not None
    }
    assert rules == {"each", "some", "any"}
    assert any(role.kinds != KINDS for operation in computing() for role in operation.roles)
