"""Every operation of the catalogue on layers of every size and make: what comes out passes the gate.

The calls are the examples of the documentation, with their rows replaced; so an operation is here as soon as
it has one. A refusal is a failure with a class, never an error of a library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shapely
from example_calls import (
    attempt,
    computing,
    first_role,
    flat,
    gated,
    inputs_of,
    is_layer,
    lifted,
    named,
    parameters_of,
    same_columns,
    shapes,
    tiled,
    with_shapes,
)

from geocairn.failure import CapabilityFailure, Failure, InputFailure
from geocairn.operations.contract import KINDS, Role
from geocairn.operations.registry import operations

NAMES = named()
MANY = 100_000

FEWER = {
    "multi_ring_buffer": (3_000, "its rings are united over all rows, and the union of round shapes takes its time"),
    "dissolve": (10_000, "half of all polygons become one, and the union itself takes its time"),
    "overlay": (20_000, "each left row meets two right ones, and union gives the remains of both"),
    "summarize_within": (20_000, "each polygon is cut by all that it meets"),
    "sum_line_lengths": (40_000, "each polygon is cut by all lines that it meets"),
    "split": (20_000, "each line is cut by all that it meets"),
    "polygonize": (40_000, "all lines are noded with each other first"),
    "simplify_coverage": (40_000, "the coverage is checked first"),
    "create_grid": (2_000, "what it makes grows with the extent, and not with the rows"),
}
"""Operations that would take two seconds or more for so many rows: how many they are given, and why."""

OF_KIND = {"point": "POINT (3 3)", "line": "LINESTRING (0 0, 9 9)", "polygon": "POLYGON ((0 0, 9 0, 9 9, 0 0))"}
EMPTY = {"point": "POINT EMPTY", "line": "LINESTRING EMPTY", "polygon": "POLYGON EMPTY"}


def test_every_operation_has_an_example() -> None:
    assert [operation.name for operation in computing() if operation.example is None] == []


def only_first(name: str, change: Any) -> Any:
    """A change of the first role's layers alone."""
    first = first_role(operations[name])
    return lambda layer, role: change(layer, role) if role.name == first else layer


@pytest.mark.parametrize("every", [False, True], ids=["first", "all"])
@pytest.mark.parametrize("name", NAMES)
def test_no_rows(name: str, every: bool) -> None:
    operation = operations[name]
    full = gated(operation, inputs_of(operation)).layer

    def none(layer: Any, role: Role) -> Any:
        return layer.iloc[:0]

    passed = gated(operation, inputs_of(operation, none if every else only_first(name, none)))
    assert same_columns(passed.layer, full), f"{dict(passed.layer.dtypes)} and with rows {dict(full.dtypes)}"
    if is_layer(full):
        assert passed.layer.crs == full.crs
        assert passed.facts.bounds is None or len(passed.layer), "an empty layer has no bounds"
    if operation.promised(operation.normalise(parameters_of(operation))).rows in ("each", "some"):
        assert len(passed.layer) == 0


@pytest.mark.parametrize("name", NAMES)
def test_one_row(name: str) -> None:
    operation = operations[name]
    passed = gated(operation, inputs_of(operation, lambda layer, role: layer.iloc[:1]))
    assert same_columns(passed.layer, gated(operation, inputs_of(operation)).layer)


@pytest.mark.parametrize("missing", ["null", "empty"])
@pytest.mark.parametrize("name", NAMES)
def test_all_rows_without_geometry(name: str, missing: str) -> None:
    operation = operations[name]

    def bare(layer: Any, role: Role) -> Any:
        if not is_layer(layer):
            return layer
        kind = "polygon" if "polygon" in role.kinds else role.kinds[0]
        return with_shapes(layer, [None if missing == "null" else shapely.from_wkt(EMPTY[kind])] * len(layer))

    full = gated(operation, inputs_of(operation)).layer
    inputs = inputs_of(operation, only_first(name, bare))
    passed = gated(operation, inputs)
    assert same_columns(passed.layer, full)
    promise = operation.promised(operation.normalise(parameters_of(operation)))
    if promise.rows == "each":
        assert len(passed.layer) == len(flat(inputs)[0])
    gated(operation, inputs_of(operation, bare))


@pytest.mark.parametrize("name", NAMES)
def test_mixed_kinds(name: str) -> None:
    """Kinds that a role does not take are refused by name; those that it takes are computed, or refused by row."""
    operation = operations[name]

    def mixed(layer: Any, role: Role) -> Any:
        extra = [
            *OF_KIND.values(),
            *EMPTY.values(),
            None,
            "MULTIPOINT ((1 1), (2 2))",
            "POLYGON Z ((0 0 1, 9 0 1, 9 9 1, 0 0 1))",
        ]
        values = np.concatenate([shapes(layer), shapely.from_wkt(extra)])
        return with_shapes(layer.iloc[np.arange(len(values)) % len(layer)].reset_index(drop=True), values)

    inputs = inputs_of(operation, only_first(name, mixed))
    role = operation.roles[0]
    if role.kinds != KINDS:
        with pytest.raises(InputFailure, match=r"takes .* geometry, got"):
            gated(operation, inputs)
        return
    passed = attempt(lambda: gated(operation, inputs))
    if isinstance(passed, Failure):
        assert isinstance(passed, InputFailure)
        assert "row" in str(passed), passed
        return
    if operation.promised(operation.normalise(parameters_of(operation))).rows == "each":
        assert len(passed.layer) == len(flat(inputs)[0])


@pytest.mark.parametrize("name", NAMES)
def test_kinds_that_a_role_takes_and_no_other(name: str) -> None:
    operation = operations[name]
    for kind in operation.roles[0].kinds:

        def single(layer: Any, role: Role, kind: str = kind) -> Any:
            values = shapes(layer)
            same = np.array([kind in str(shape.geom_type).lower().replace("string", "") for shape in values])
            chosen = values if same.all() else np.array([shapely.from_wkt(OF_KIND[kind])] * len(values), dtype=object)
            moved = shapely.transform(chosen, lambda xy: xy)
            for place in range(len(moved)):
                if not same.all():
                    moved[place] = shapely.transform(moved[place], lambda xy, place=place: xy + 20 * place)
            return with_shapes(layer, moved)

        found = attempt(lambda: gated(operation, inputs_of(operation, only_first(name, single))))
        if isinstance(found, Failure):
            assert isinstance(found, InputFailure)
            assert str(found).startswith(name), found


@pytest.mark.parametrize("m", [False, True], ids=["z", "zm"])
@pytest.mark.parametrize("name", NAMES)
def test_height_and_measure(name: str, m: bool) -> None:
    """Z and M are kept or left away, or refused; they never become a value that says nothing."""
    operation = operations[name]
    inputs = inputs_of(
        operation, lambda layer, role: with_shapes(layer, lifted(shapes(layer), m=m)) if is_layer(layer) else layer
    )
    passed = attempt(lambda: gated(operation, inputs))
    if isinstance(passed, Failure):
        assert isinstance(passed, InputFailure | CapabilityFailure)
        assert m, f"Z is refused: {passed}"
        assert " M" in str(passed), passed
        return
    if not is_layer(passed.layer):
        return
    values = shapes(passed.layer)
    values = values[~shapely.is_missing(values) & ~shapely.is_empty(values)]
    high, measured = values[shapely.has_z(values)], values[shapely.has_m(values)]
    assert np.isfinite(shapely.get_coordinates(high, include_z=True)).all(), "Z is not a number"
    assert np.isfinite(shapely.get_coordinates(measured, include_m=True)).all(), "M is not a number"
    flat_result = gated(operation, inputs_of(operation))
    assert len(flat_result.layer) == len(passed.layer), "Z changed how many rows there are"


@pytest.mark.parametrize("name", NAMES)
def test_many_rows(name: str) -> None:
    operation = operations[name]
    rows, _ = FEWER.get(name, (MANY, ""))
    count = len(flat(inputs_of(operation))[0])
    copies = rows // count + 1
    inputs = inputs_of(operation, lambda layer, role: tiled(layer, copies))
    passed = gated(operation, inputs)
    promise = operation.promised(operation.normalise(parameters_of(operation)))
    if promise.rows == "each":
        assert len(passed.layer) == len(flat(inputs)[0]) >= rows
