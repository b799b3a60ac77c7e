"""From the arguments of a task run to the step that they mean: the contract held, the fingerprint computed.

What always holds: a call is made from resolved arguments alone, once for an attempt of a task run; a layer handed
over in memory is copied before it is digested, so that what is computed is what the fingerprint speaks of, whatever
the flow does to its frame in the meantime; and an argument that is no layer is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geocairn.checkpoint import Checkpoint
from geocairn.execution import input_prints
from geocairn.failure import InputFailure
from geocairn.fingerprint import fallback_record, fingerprint, publication_record, step_record
from geocairn.operations.contract import Operation, Role
from geocairn.plan.model import Step
from geocairn.published import target_uri
from geocairn.sources.source import Source
from geocairn.step_call import Run, StepCall

if TYPE_CHECKING:
    from geocairn.step_call import StepSettings


def call_of(operation: Operation, settings: StepSettings, arguments: Mapping[str, Any], run: Run) -> StepCall:
    """Return the step that an operation, its settings and a task's arguments make.

    Raises
    ------
    InputFailure : for arguments that the operation does not take, or code whose identity cannot be known.
    NotCanonical : for a parameter whose identity cannot be known.
    Failure : of another class, when the version of a source cannot be asked.
    """
    inputs, rest = operation.split_arguments((), arguments)
    parameters = operation.normalise(rest)
    inputs = _owned(operation, inputs)
    if operation.reads:
        pinned = settings.pinned or run.pin(Source(**dict(parameters)))
        return StepCall(operation, parameters, {}, pinned.fingerprint, {}, replace(settings, pinned=pinned))
    prints = input_prints(inputs, run.workspace.scope)
    _remember(operation, inputs, run)
    if operation.effect:
        record = publication_record(parameters, target_uri(parameters, run.workspace), prints, settings.context_names)
        return StepCall(operation, parameters, inputs, fingerprint(record), {}, settings)
    step = Step(
        name="step",  # a name is no part of a fingerprint
        op=operation.name,
        on_invalid="repair" if settings.repair else "fail",
    )
    record = step_record(step, operation, parameters, prints)
    exact = settings.fallback_for
    if exact is not None:
        record = fallback_record(record, exact.fingerprint, exact.because)
    return StepCall(operation, parameters, inputs, fingerprint(record), record["environment"], settings)


def _owned(operation: Operation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs by role, each held to be a layer, those in memory copied."""
    roles = {role.name: role for role in operation.roles}
    owned: dict[str, Any] = {}
    for name, value in inputs.items():
        role = roles[name]
        if not role.many:
            owned[name] = _layer(operation, role, value)
        elif isinstance(value, list | tuple):
            owned[name] = [_layer(operation, role, item) for item in value]
        else:
            raise InputFailure(f"input {name!r} takes a list of layers", where=operation.name, remedy="put it in [ ]")
    return owned


def _layer(operation: Operation, role: Role, value: Any) -> Any:
    if isinstance(value, Checkpoint):
        if value.kind == "publication":
            raise InputFailure(
                f"input {role.name!r} is a publication, which has no layer in the store",
                where=operation.name,
                remedy="give the checkpoint that was published",
            )
        return value
    if is_frame(value):
        from geocairn.stores.memory import own_copy

        return own_copy(value.reset_index(drop=True))
    remedy = "give a checkpoint, its future, or a GeoDataFrame"
    if isinstance(value, str):
        remedy = "in .map wrap a layer that all share in unmapped(); read a file by read_layer"
    elif isinstance(value, list | tuple):
        remedy = "it takes one; use .map to run it on each"
    what = f"input {role.name!r} is no layer but a {type(value).__name__}"
    raise InputFailure(what, where=operation.name, remedy=remedy)


def is_frame(value: Any) -> bool:
    """Return whether a value is a GeoDataFrame or DataFrame, without loading their library to ask."""
    return any(base.__name__ == "DataFrame" and base.__module__.startswith("pandas") for base in type(value).__mro__)


def _remember(operation: Operation, inputs: Mapping[str, Any], run: Run) -> None:
    """Keep what a lost layer would be computed again from."""
    run.operations[operation.name] = operation
    for value in inputs.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Checkpoint):
                run.known[item.fingerprint] = item
