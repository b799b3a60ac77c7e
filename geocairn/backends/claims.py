"""What a backend claims: which operations, and with which parameters.

A backend claims an operation by registering an implementation (`claimed`), and may state a limit: parameters with
which it does not give the reference's answer. What depends on the data (a kind of geometry, M values, an invalid
polygon) shows only when it runs, as a CapabilityFailure, from which recovery goes on to the next backend. A backend
that is not installed claims all the same, and says when used what to install: so a plan means the same on every
machine.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Literal

from geocairn.backends.sides import Piece, Side
from geocairn.failure import CapabilityFailure
from geocairn.operations.contract import REFERENCE_BACKEND, Compute, Operation, implements

Limit = Callable[[Any], str | None]
"""From the parameters (as attributes) to the reason why they are not claimed, or None."""

ROUNDING = 1e-12
"""The tolerance of what two builds of one engine compute: their last digits may differ, and nothing else."""

Stream = Callable[..., Iterator[Piece]]
"""A streamed implementation: from the sides by role, and the parameters by name, to the pieces of the result."""

_streams: dict[tuple[str, str], tuple[Stream, Limit | None]] = {}
_limits: dict[tuple[str, str], Limit] = {}
_tolerances: dict[tuple[str, str], float] = {}


def claims(operation: Operation, parameters: Any, backend: str = "duckdb") -> bool:
    """Return whether a backend claims the operation with these parameters.

    Parameters
    ----------
    parameters : the operation's parameter model, or a mapping that it can be made of.
    """
    return refusal(operation, parameters, backend) is None


def refusal(operation: Operation, parameters: Any, backend: str = "duckdb") -> str | None:
    """Return why a backend does not claim the operation with these parameters; None where it does.

    Raises
    ------
    InputFailure : for a mapping that is no right parameters of the operation.
    """
    if backend == REFERENCE_BACKEND:
        return None
    if backend not in operation.implementations:
        return f"{backend} does not implement {operation.name}"
    limit = _limits.get((operation.name, backend))
    model = operation.normalise(parameters) if isinstance(parameters, Mapping) else parameters
    return limit(model) if limit is not None else None


def usable(operation: Operation, parameters: Any, backend: str) -> bool:
    """Return whether a backend claims the operation with these parameters and, as far as is known, is installed."""
    if backend == "duckdb":
        from geocairn.backends.duckdb_connection import installed

        if not installed():
            return False
    return claims(operation, parameters, backend)


def tolerance(operation: Operation, backend: str = "duckdb") -> float:
    """Return how far a backend's coordinates and measures may lie from the reference's, as a share of their size.

    After normalisation, vertex by vertex; 0 where it must give the very same.
    """
    return _tolerances.get((operation.name, backend), 0.0)


def stream_of(operation: Operation, parameters: Any, backend: str) -> Stream | None:
    """Return the implementation that computes an operation batch by batch; None where the backend has none for it.

    Parameters
    ----------
    parameters : the operation's parameter model.
    """
    found = _streams.get((operation.name, backend))
    if found is None or refusal(operation, parameters, backend) is not None:
        return None
    stream, limit = found
    return stream if limit is None or limit(parameters) is None else None


def streamed(operation: Operation, backend: str, *, limit: Limit | None = None) -> Callable[[Stream], Stream]:
    """Register a function as the streamed implementation, for all parameters that are claimed but those of `limit`.

    It is given a `Side` by each role's name and the parameters, and yields the pieces of exactly the result that the
    implementation on whole layers gives.
    """

    def register(function: Stream) -> Stream:
        _streams[operation.name, backend] = (function, limit)
        return function

    return register


def claimed(
    operation: Operation,
    backend: str,
    *,
    tolerance: float = 0.0,
    limit: Limit | None = None,
    streams: Literal["rows"] | None = None,
    whole: Limit | None = None,
) -> Callable[[Compute], Compute]:
    """Register a function as a backend's implementation, for all parameters but those that `limit` names.

    The function is called only with what it claims: anything else raises CapabilityFailure before it.

    Parameters
    ----------
    tolerance : how far its coordinates and measures may lie from the reference's, as a share of their size.
    streams : `rows` where what it gives for a batch of rows is that part of what it gives for the layer; see also
        `streamed`.
    whole : parameters with which it does not stream all the same.
    """

    def register(function: Compute) -> Compute:
        signature = inspect.signature(function)
        roles = {role.name for role in operation.roles}

        @functools.wraps(function)
        def computed(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            parameters = {name: value for name, value in call.arguments.items() if name not in roles}
            reason = limit(SimpleNamespace(**parameters)) if limit is not None else None
            if reason is not None:
                raise CapabilityFailure(reason, where=operation.name, remedy=f"use backend {REFERENCE_BACKEND}")
            return function(*call.args, **call.kwargs)

        if limit is not None:
            _limits[operation.name, backend] = limit
        _tolerances[operation.name, backend] = tolerance
        if streams == "rows":
            streamed(operation, backend, limit=whole)(_row_by_row(operation, computed))
        return implements(operation, backend)(computed)

    return register


def _row_by_row(operation: Operation, function: Compute) -> Stream:
    """Return the stream of an implementation that can be given any part of the rows of its only input."""
    (role,) = operation.roles

    def stream(**arguments: Any) -> Iterator[Piece]:
        from geocairn.backends.sides import numbered
        from geocairn.notes import rows_from
        from geocairn.operations.layers import geometry_values

        side: Side = arguments.pop(role.name)
        for first, batch in numbered(side):
            with rows_from(first):
                layer = function(batch, **arguments)
            yield Piece(layer, geometry_values(batch) if len(batch) == len(layer) else None)

    return stream
