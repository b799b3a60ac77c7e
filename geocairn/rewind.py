"""Rewinding: a layer that was lost is computed again from what its record says.

A plan whose layer was lost is decided again as a whole; a flow that somebody wrote in Python cannot be, so there the
step that misses an input has it computed again in its place. What always holds: what is computed again has the
fingerprint of what was lost, or nothing is computed and the failure says to run the flow again (the record of the
lost layer is set aside by then, so that its step runs); a layer that another run has made again in the meantime is
taken; and one step is computed again a bounded number of times in one run.
"""

from __future__ import annotations

from typing import Any

from geocairn.checkpoint import Checkpoint
from geocairn.execution import execute
from geocairn.failure import InputFailure
from geocairn.fingerprint import fallback_record, fingerprint, step_record
from geocairn.operations.contract import Operation
from geocairn.operations.registry import operations
from geocairn.plan.model import PINNED, Step
from geocairn.recoveries import Recovery
from geocairn.step_call import FallbackFor, Run, StepCall, StepSettings
from geocairn.stores.belief import LayerLost

ROUNDS = 2
"""How often one step is computed again in one run because its layer was lost."""

REMEDY = "run the flow again: the step that makes it then runs"


def found_again(checkpoint: Checkpoint, run: Run, lost: LayerLost) -> Checkpoint:
    """Return a checkpoint of the same fingerprint whose layer is there: another run's, or one computed again.

    Parameters
    ----------
    checkpoint : the one whose layer is lost.
    run : the run that misses it.
    lost : the failure to be raised where nothing can be done.

    Raises
    ------
    LayerLost : when the run does not rewind, or the record does not say enough to compute the same again.
    Failure : of whatever class ended the computation.
    """
    store = run.workspace.store
    standing = store.get(checkpoint.fingerprint) or store.get_run_layer(run.run_id, checkpoint.fingerprint)
    if standing is not None and standing.layer is not None and standing.layer != checkpoint.layer:
        return standing
    if not run.rewinds:
        raise lost
    where = f"step {checkpoint.step or checkpoint.operation}"
    with run.lock:
        layers = run.rewound.setdefault(checkpoint.fingerprint, set())
        key = checkpoint.layer.key if checkpoint.layer is not None else ""
        is_first = key not in layers  # of those that miss this layer
        layers.add(key)
    if len(layers) > ROUNDS:
        raise _hopeless(lost, f"it was computed again {ROUNDS} times in this run and is lost once more")
    if is_first:
        run.recoveries.add(checkpoint.step or checkpoint.operation, Recovery.ROLLED_BACK, error=str(lost))
    run.notice(where, f"its layer is lost, so it runs again ({lost.what})")
    return execute(_call_of_record(checkpoint, run, lost), run)


def _call_of_record(checkpoint: Checkpoint, run: Run, lost: LayerLost) -> StepCall:
    """Return the step that a record speaks of, held to have the record's fingerprint."""
    operation = run.operations.get(checkpoint.operation) or operations.get(checkpoint.operation)
    if operation is None:
        raise _hopeless(lost, f"this process does not know the operation {checkpoint.operation!r}")
    inputs = {
        role: [_input(item, run, lost) for item in prints] if isinstance(prints, list) else _input(prints, run, lost)
        for role, prints in checkpoint.inputs.items()
    }
    record = _record(checkpoint, operation, lost)
    settings = StepSettings(
        name=checkpoint.step,
        allow_empty=checkpoint.facts.rows == 0,
        repair=checkpoint.repair,
        fallback_for=FallbackFor(**checkpoint.fallback_for) if checkpoint.fallback_for is not None else None,
        retention=PINNED if checkpoint.expires is None and run.workspace.store.ttl is not None else None,
    )
    backend = checkpoint.backend if checkpoint.backend in operation.backends else operation.backends[0]
    return StepCall(
        operation, record["parameters"], inputs, checkpoint.fingerprint, record["environment"], settings, backend
    )


def _record(checkpoint: Checkpoint, operation: Operation, lost: LayerLost) -> dict[str, Any]:
    names = {name: field.alias or name for name, field in operation.parameters.model_fields.items()}
    stated = {names.get(name, name): value for name, value in checkpoint.parameters.items()}
    try:
        parameters = operation.normalise(stated)
    except InputFailure as failure:
        raise _hopeless(lost, f"its parameters cannot be taken from the record ({failure})") from failure
    step = Step(name="step", op=operation.name, on_invalid="repair" if checkpoint.repair else "fail")
    record = step_record(step, operation, parameters, checkpoint.inputs)
    stands_for = checkpoint.fallback_for
    if stands_for is not None:
        record = fallback_record(record, stands_for["fingerprint"], stands_for["because"])
    if fingerprint(record) != checkpoint.fingerprint:
        raise _hopeless(lost, f"{operation.name} or its environment is another one now")
    return {"parameters": parameters, "environment": record["environment"]}


def _input(print_: str, run: Run, lost: LayerLost) -> Checkpoint:
    store = run.workspace.store
    found = store.get(print_) or store.get_run_layer(run.run_id, print_) or run.known.get(print_)
    if found is None:
        raise _hopeless(lost, "an input of it is not in the store")
    return found


def _hopeless(lost: LayerLost, why: str) -> LayerLost:
    return LayerLost(lost.fingerprint, f"{lost.what}, and {why}", lost.where, REMEDY)
