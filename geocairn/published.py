"""Publications: outputs that are written where users find them, and reused only after looking at what lies there.

What always holds: one publication at a time to one target; the record of a publication is written after the output,
with the size and SHA-256 that must be found there; an output that is gone, edited or of another result is written
again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geocairn.canonical import digest
from geocairn.checkpoint import Checkpoint, Publication, json_values
from geocairn.execution import input_prints, load
from geocairn.expectation import unmet
from geocairn.failure import FatalFailure, InputFailure, TransientFailure
from geocairn.fingerprint import operation_version, parameter_record
from geocairn.gate import survey_facts
from geocairn.highlight import highlighted
from geocairn.kinds import kinds_of
from geocairn.layer_survey import has_geometry
from geocairn.libraries import library_versions
from geocairn.lineage import lineage_of
from geocairn.notes import collecting
from geocairn.sources.target import Target, matches
from geocairn.step_call import Run, StepCall
from geocairn.stores.leases import owner
from geocairn.stores.waiting import lease_or_result
from geocairn.workspace import Workspace


def target_uri(parameters: Any, workspace: Workspace) -> str:
    """Return the canonical address of the target that `write_layer`'s parameters name.

    Raises
    ------
    InputFailure : for a target inside the store, whose objects nothing but a commit may write.
    """
    target = Target(parameters.uri, layer=parameters.layer_name).address(workspace.base, workspace.s3)
    root = workspace.store.objects.local("checkpoints/x")
    if root is not None and Path(os.path.realpath(target)).is_relative_to(os.path.realpath(root.parents[1])):
        raise InputFailure(
            "an output cannot lie in the checkpoint store", where=parameters.uri, remedy="publish it to another folder"
        )
    return target


def target_stands(checkpoint: Checkpoint, workspace: Workspace) -> bool:
    """Return whether what a publication left still lies at its target, whole and unedited; true for anything else.

    Raises
    ------
    Failure : when the target could not be looked at.
    """
    published = checkpoint.publication
    if published is None:
        return True
    target = Target(checkpoint.parameters["uri"], checkpoint.parameters["driver"], checkpoint.parameters["layer_name"])
    if target.address(workspace.base, workspace.s3) != published.uri:
        return False
    data_print = checkpoint.inputs["layer"]
    return matches(
        target,
        data_print,
        published.size,
        published.sha256,
        base=workspace.base,
        s3=workspace.s3,
        memory=workspace.memory,
        reach=workspace.reach,
    )


def publish_step(call: StepCall, run: Run) -> Checkpoint:
    """Publish a step's result and return the publication's checkpoint; what already stands there is not written.

    Raises
    ------
    Failure : of whatever class ended it. The old output is whole until the new one is.
    """
    workspace, store = run.workspace, run.workspace.store
    target = digest({"target": target_uri(call.parameters, workspace)})

    held = lease_or_result(
        store,
        target,
        owner(run.run_id, call.backend),
        waits_for=lambda busy: run.notice(call.where, f"waits: {busy}"),
    )
    if isinstance(held, Checkpoint):
        raise FatalFailure("a record lies where only the lease on a target can be", where=target)
    with held:
        found = store.look_up(call.fingerprint)
        _meets_expectations(call)
        if found.checkpoint is not None and target_stands(found.checkpoint, workspace):
            return found.checkpoint
        started = time.perf_counter()
        source = call.inputs["layer"]
        layer = load(source, run) if isinstance(source, Checkpoint) else source
        if held.lost.is_set():
            raise TransientFailure("another run took the output over while it was prepared", where=call.where)
        draft = _written(call, run, layer, started)
        run.computed.add(call.fingerprint)
        if found.checkpoint is not None and found.checkpoint.publication == draft.publication:
            return found.checkpoint  # the same output again: its record is still right
        return store.commit(draft, replace=found)


def _meets_expectations(call: StepCall) -> None:
    """Hold what is to be published against the expectations of a `write_layer` that is written as a step.

    Raises
    ------
    InputFailure : when it does not meet them; the old output stays.
    """
    source, expect = call.inputs["layer"], call.settings.expect
    if expect is None:
        return
    facts = source.facts if isinstance(source, Checkpoint) else survey_facts(source)
    found = unmet(expect, facts, allow_empty=call.settings.allow_empty)
    if found:
        raise InputFailure("; ".join(found), where=call.where)


def _written(call: StepCall, run: Run, layer: Any, started: float) -> Checkpoint:
    from geocairn.sources.publish import publish

    workspace, parameters = run.workspace, call.parameters
    source = call.inputs["layer"]
    prints = input_prints(call.inputs, workspace.scope)
    known = [item for item in [source, *(call.inputs.get("context") or [])] if isinstance(item, Checkpoint)]
    lineage = (
        lineage_of(source, workspace.store, run.run_id, run.planned)
        if isinstance(source, Checkpoint)
        else {"fingerprint": prints["layer"], "sources": {}, "steps": {}}
    )
    highlight = highlighted(layer, parameters.highlight) if parameters.highlight is not None else None
    target = Target(parameters.uri, parameters.driver, parameters.layer_name, parameters.mode)
    with collecting() as notes:
        try:
            published = publish(
                layer,
                target,
                lineage,
                base=workspace.base,
                s3=workspace.s3,
                reach=workspace.reach,
                kinds=sorted(kinds_of(layer)) if has_geometry(layer) else (),
                draw=_drawing(call, run, layer),
            )
        except InputFailure as failure:
            raise type(failure)(failure.what, failure.where or call.where, failure.remedy) from failure.__cause__
    caveats = [text for checkpoint in known for text in checkpoint.caveats]
    caveats += [f"output {parameters.uri}: {text}" for text in notes.caveats]
    return Checkpoint(
        fingerprint=call.fingerprint,
        kind="publication",
        operation=call.operation.name,
        version=operation_version(call.operation),
        parameters=json_values(parameter_record(parameters)),
        inputs=prints,
        facts=source.facts if isinstance(source, Checkpoint) else survey_facts(layer),
        publication=Publication(published.uri, target.format.title, published.size, published.sha256, highlight),
        step=call.settings.name,
        scopes=sorted({scope for checkpoint in known for scope in checkpoint.scopes}),
        caveats=list(dict.fromkeys(caveats)),
        notes=json_values(notes.facts),
        seconds=round(time.perf_counter() - started, 6),
        backend=call.backend,
        attempts=call.attempt,
        libraries=library_versions(),
    )


def _drawing(call: StepCall, run: Run, layer: Any) -> Callable[[Path], None]:
    """Return what draws the map of an output, where it is one."""

    def draw(path: Path) -> None:
        from geocairn.cartography import MapStyle, draw_map

        items = call.inputs.get("context") or []
        names = call.settings.context_names or [
            getattr(item, "step", "") or f"layer {number}" for number, item in enumerate(items)
        ]
        layers = [load(item, run) if isinstance(item, Checkpoint) else item for item in items]
        style = call.parameters.map or MapStyle()
        draw_map(layer, path, context=dict(zip(names, layers, strict=True)), **style.model_dump())

    return draw
