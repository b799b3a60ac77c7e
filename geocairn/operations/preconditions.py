"""What every operation asks of its inputs before it computes: kinds, one CRS, units that can be measured in.

One rule for all operations and backends, so that a buffer in degrees is refused the same way wherever it is met. The
plan check says the same from the sources' known facts, before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.kinds import kinds_of

if TYPE_CHECKING:
    from geocairn.operations.contract import Operation, Role

GEOGRAPHIC_REMEDY = "reproject to a projected CRS first (to measure as it is: measure with method: ellipsoidal)"
TABLE_REMEDY = "join it to a layer first (attribute_join)"
UNKNOWN_CRS_REMEDY = "state it (assign_crs, or crs in the source) and reproject to a projected CRS"


def check_inputs(operation: Operation, inputs: Mapping[str, Any], parameters: Any) -> None:
    """Hold the layers against the operation's contract.

    Raises
    ------
    InputFailure : for something that is no layer, a kind that the operation does not take, two CRS, or a geographic or
        unknown CRS where it measures in the CRS's units.
    """
    from geocairn.operations.contract import KINDS

    roles = {role.name: role for role in operation.roles}
    layers: list[tuple[str, Any]] = []
    for name, value in inputs.items():
        role = roles[name]
        given = _as_list(operation, role, value)
        for number, layer in enumerate(given):
            if role.kinds != KINDS and hasattr(layer, "geometry"):
                check_kinds(operation, name, kinds_of(layer))
            if hasattr(layer, "geometry") and hasattr(layer, "crs"):
                layers.append((f"{name}[{number}]" if role.many else name, layer))
    if operation.same_crs:
        _check_one_crs(operation, layers)
    if layers and operation.measures_planar(parameters):
        crs = layers[0][1].crs
        if crs is None:
            raise InputFailure(
                "measures in the units of the CRS, and the layer's CRS is unknown",
                where=operation.name,
                remedy=UNKNOWN_CRS_REMEDY,
            )
        if crs.is_geographic:
            raise InputFailure(
                f"measures in the units of the CRS, and {crs_label(crs)} is in degrees",
                where=operation.name,
                remedy=GEOGRAPHIC_REMEDY,
            )


def _as_list(operation: Operation, role: Role, value: Any) -> list[Any]:
    layers = list(value) if role.many and isinstance(value, list | tuple) else [value]
    for layer in layers:
        table = type(layer).__name__ == "DataFrame" and role.table
        if not role.table and type(layer).__name__ == "DataFrame":
            raise InputFailure(
                f"input {role.name!r} must be a layer, and a table without geometry was given",
                where=operation.name,
                remedy=TABLE_REMEDY,
            )
        if not (table or (hasattr(layer, "geometry") and hasattr(layer, "columns"))):
            raise InputFailure(
                f"input {role.name!r} must be a layer (GeoDataFrame), got {type(layer).__name__}",
                where=operation.name,
            )
    return layers


def check_kinds(operation: Operation, name: str, kinds: set[str]) -> None:
    """Hold the geometry kinds of a layer to those that its role takes.

    Parameters
    ----------
    name : of the role.

    Raises
    ------
    InputFailure : for a kind that it does not take.
    """
    from geocairn.operations.contract import KINDS

    role = next(role for role in operation.roles if role.name == name)
    wrong = sorted(kinds - set(role.kinds))
    if wrong and role.kinds != KINDS:
        raise InputFailure(
            f"input {role.name!r} takes {' and '.join(role.kinds)} geometry, got {' and '.join(wrong)}",
            where=operation.name,
        )


def _check_one_crs(operation: Operation, layers: list[tuple[str, Any]]) -> None:
    for (first, left), (second, right) in pairwise(layers):
        if left.crs != right.crs:
            raise InputFailure(
                f"inputs differ in CRS: {first!r} is in {crs_label(left.crs)}, {second!r} in {crs_label(right.crs)}",
                where=operation.name,
                remedy="reproject one to the other's CRS",
            )
