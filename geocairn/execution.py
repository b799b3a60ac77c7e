"""The life of one step, without Prefect: look again, take the lease, load, compute, pass the gate, commit.

What always holds: a result is committed only by the holder of the lease, after the gate; whoever waits for the holder
adopts its result; a look-up that fails is raised with its class and never taken for a miss; nothing is computed that
is there.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from geocairn import source_step
from geocairn.backends.claims import Stream
from geocairn.checkpoint import Checkpoint, LayerFacts, format_time, json_values, parse_time
from geocairn.failure import HoldersDied, InputFailure, UnsoundResult
from geocairn.fingerprint import frame_record, operation_version, parameter_record
from geocairn.gate import GATE_VERSION, Passed, Terms, admit
from geocairn.libraries import library_versions
from geocairn.notes import collecting
from geocairn.operations.contract import parameter_values
from geocairn.operations.preconditions import check_inputs
from geocairn.plan.model import PINNED, parse_duration
from geocairn.recoveries import Recovery
from geocairn.step_call import Run, StepCall, StepSettings
from geocairn.stores.belief import LayerLost, LookUp
from geocairn.stores.layer_spool import LayerSpool
from geocairn.stores.layers import handed_over
from geocairn.stores.leases import Held, owner
from geocairn.stores.memory import estimate
from geocairn.stores.waiting import lease_or_result
from geocairn.streaming import Computed, let_layers_go, stream_for, streamed

ASSUMED_BYTES_PER_SECOND = 50e6
"""Throughput that the `auto` policy assumes for storing and reading a layer."""
AUTO_FACTOR = 3.0
"""A step is stored under `auto` when computing it took this many times as long as storing and reading it would."""
AUTO_LEAST_SECONDS = 0.05


def execute(call: StepCall, run: Run) -> Checkpoint:
    """Return the checkpoint of a step: the one that is there, or else a fresh one.

    Raises
    ------
    Failure : of whatever class ended it. Nothing half-done is left that a reader would trust.
    """
    store = run.workspace.store
    found = store.look_up(call.fingerprint)
    kept = found.checkpoint or store.get_run_layer(run.run_id, call.fingerprint)
    if kept is not None:
        return _accepted(kept, call, run, found)
    if call.operation.reads:
        return source_step.read_source(call, run, found)

    held = lease_or_result(
        store,
        call.fingerprint,
        owner(run.run_id, call.backend),
        waits_for=lambda busy: run.notice(call.where, f"waits: {busy}"),
        memory=run.policy.deaths_within_hours * 3600,
        run_id=run.run_id,
    )
    if isinstance(held, Checkpoint):
        return _accepted(held, call, run, store.look_up(call.fingerprint))
    with held, ExitStack() as at_end:
        _heed_deaths(held, call, run)
        found = store.look_up(call.fingerprint)
        if found.reason != "missing":
            run.notice(call.where, f"its checkpoint is not believed ({found.detail or found.reason}); it runs again")
        draft, passed = _computed(call, run, at_end)
        write = LayerSpool.write if isinstance(passed.layer, LayerSpool) else None
        if _is_stored(call, passed, draft.seconds):
            retention = call.settings.retention
            seconds = parse_duration(retention) if retention is not None else None
            checkpoint = store.commit(
                draft,
                passed.layer,
                replace=found,
                write=write,
                pinned=retention == PINNED,
                ttl=dt.timedelta(seconds=seconds) if seconds is not None else None,
            )
        else:
            run.keeps = True
            checkpoint = store.put_run_layer(run.run_id, call.fingerprint, passed.layer, draft, write=write)
    if _is_own(checkpoint, draft):  # else another was faster, and its result is the one that counts
        run.computed.add(call.fingerprint)
        if write is None:
            run.hand_over.put(call.fingerprint, passed.layer)
    for text in passed.warnings:
        run.notice(call.where, text)
    return checkpoint


def _heed_deaths(held: Held, call: StepCall, run: Run) -> None:
    """Count the death of the holder before, and refuse a backend on which too many died of late.

    Raises
    ------
    HoldersDied : from which recovery goes on to the next backend.
    """
    deaths, policy = held.deaths.get(call.backend, 0), run.policy
    if held.taken_from is not None:
        count = held.deaths[held.taken_from]
        run.recoveries.add(call.step_name, Recovery.HOLDER_DIED, backend=held.taken_from, deaths=count)
        run.notice(call.where, f"taken over from a worker that died over it on {held.taken_from} (death {count})")
    if policy.deaths and deaths >= policy.deaths:
        raise HoldersDied(
            f"{deaths} workers died computing it on {call.backend}",
            where=call.where,
            remedy=f"give it more memory or less data; after {policy.deaths_within_hours:g} h without a death, or when "
            f"the object {held.key} is deleted, it is tried again there",
        )


def _is_own(checkpoint: Checkpoint, draft: Checkpoint) -> bool:
    """Return whether a checkpoint that was committed is that of the draft, and not the winner's of a race."""
    return checkpoint.replaced(layer=None, created="", expires=None) == draft


def _accepted(checkpoint: Checkpoint, call: StepCall, run: Run, standing: LookUp) -> Checkpoint:
    """Return a checkpoint that was there, held to the present gate and to what the step expects now."""
    facts = regated(checkpoint, call.settings, run)
    if facts is not checkpoint.facts and standing.checkpoint == checkpoint:
        run.notice(call.where, f"its checkpoint passed gate {checkpoint.facts.gate}, and passes gate {facts.gate} now")
        checkpoint = run.workspace.store.renew(checkpoint.replaced(facts=facts), standing)
    found = call.settings.unmet(facts, source=checkpoint.kind == "source")
    if found:
        raise UnsoundResult("; ".join(found), where=call.where)
    store = run.workspace.store
    longer = kept_longer(checkpoint, call.settings.retention, store.objects.now())
    if longer is not None and standing.checkpoint is not None:
        return store.renew(longer, store.look_up(call.fingerprint))
    return checkpoint


def kept_longer(checkpoint: Checkpoint, retention: str | None, now: float) -> Checkpoint | None:
    """Return a reused checkpoint with the expiry that the step's own retention wants; None where it is kept as long.

    A tenth of the time is let pass, or every reuse would be a write.
    """
    if retention is None or checkpoint.expires is None:
        return None
    seconds = parse_duration(retention)
    if seconds is None:
        return checkpoint.replaced(expires=None)
    if now + seconds - parse_time(checkpoint.expires) <= 0.1 * seconds:
        return None
    return checkpoint.replaced(expires=format_time(now + seconds))


def _computed(call: StepCall, run: Run, at_end: ExitStack) -> tuple[Checkpoint, Passed]:
    stream = stream_for(call)
    known = [item for item in _items(call.inputs) if isinstance(item, Checkpoint)]
    try:
        result = _on_layers(call, run) if stream is None else _in_batches(call, stream, run, at_end)
    except InputFailure as failure:
        raise call.placed(failure) from failure.__cause__
    except Exception as error:
        let_layers_go(error)
        raise
    passed, notes, seconds = result.passed, result.notes, result.seconds
    caveats = [text for checkpoint in known for text in checkpoint.caveats]
    exact = call.settings.fallback_for
    if exact is not None:
        caveats.append(f"{call.where}: {exact.caveat(call.operation.name)}")
    caveats += [f"{call.where}: {text}" for text in notes.caveats] + passed.caveats
    scopes = {scope for checkpoint in known for scope in checkpoint.scopes}
    if any(not isinstance(item, Checkpoint) for item in _items(call.inputs)):
        scopes.add(run.workspace.scope)
    draft = Checkpoint(
        fingerprint=call.fingerprint,
        kind="step",
        operation=call.operation.name,
        version=operation_version(call.operation),
        parameters=json_values(parameter_record(call.parameters)),
        inputs=input_prints(call.inputs, run.workspace.scope),
        facts=passed.facts,
        step=call.settings.name,
        scopes=sorted(scopes),
        caveats=list(dict.fromkeys(caveats)),
        notes=json_values(notes.facts),
        seconds=round(seconds, 6),
        backend=call.backend,
        attempts=call.attempt,
        libraries=library_versions(),
        environment=json_values(dict(call.environment)),
        repair=call.settings.repair,
        fallback_for=dataclasses.asdict(exact) if exact is not None else None,
    )
    return draft, passed


def _on_layers(call: StepCall, run: Run) -> Computed:
    """Compute a step from its layers as a whole."""
    inputs = _loaded(call, run)
    layers = [layer for value in inputs.values() for layer in (value if isinstance(value, list) else [value])]
    check_inputs(call.operation, inputs, call.parameters)
    started = time.perf_counter()
    with collecting() as notes:
        layer = call.operation.implementation(call.backend)(**inputs, **parameter_values(call.parameters))
    seconds = time.perf_counter() - started
    settings = call.settings
    terms = Terms(
        call.where, call.operation, call.parameters, layers, settings.expect, settings.allow_empty, settings.repair
    )
    return Computed(admit(layer, terms), notes, seconds)


def _in_batches(call: StepCall, stream: Stream, run: Run, at_end: ExitStack) -> Computed:
    """Compute a step batch by batch, the layers of its inputs never being in memory as a whole."""
    spool = LayerSpool(run.workspace.store.objects.scratch)
    at_end.callback(spool.close)
    run.notice(call.where, "computed batch by batch, since its layers are large for the memory that there is")

    def loaded(item: Any) -> Any:
        return load(item, run) if isinstance(item, Checkpoint) else handed_over(item.reset_index(drop=True))

    return streamed(call, stream, spool, at_end, opened=lambda item: _at_rest(item, run), loaded=loaded)


def _is_stored(call: StepCall, passed: Passed, seconds: float) -> bool:
    if call.settings.checkpoint != "auto":
        return call.settings.checkpoint == "always"
    size = passed.layer.size if isinstance(passed.layer, LayerSpool) else estimate(passed.layer)
    cost = AUTO_LEAST_SECONDS + 2 * size / ASSUMED_BYTES_PER_SECOND
    return seconds > AUTO_FACTOR * cost


def _items(inputs: Mapping[str, Any]) -> list[Any]:
    return [item for value in inputs.values() for item in (value if isinstance(value, list | tuple) else [value])]


def input_prints(inputs: Mapping[str, Any], scope: str) -> dict[str, Any]:
    """Return the fingerprints of inputs by role; a layer in memory counts by the digest of its content."""
    return {
        role: [print_of(item, scope) for item in value] if isinstance(value, list | tuple) else print_of(value, scope)
        for role, value in inputs.items()
    }


def print_of(value: Any, scope: str) -> str:
    """Return the fingerprint of one input."""
    if isinstance(value, Checkpoint):
        return value.fingerprint
    from geocairn.fingerprint import fingerprint
    from geocairn.frame_digest import frame_digest

    return fingerprint(frame_record(frame_digest(value), scope))


def _loaded(call: StepCall, run: Run) -> dict[str, Any]:
    """Return the layers of a step's direct inputs."""
    inputs: dict[str, Any] = {}
    for role, value in call.inputs.items():
        layers = []
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Checkpoint):
                layers.append(load(item, run))
            else:
                layers.append(handed_over(item.reset_index(drop=True)))
        inputs[role] = layers if isinstance(value, list | tuple) else layers[0]
    return inputs


def load(checkpoint: Checkpoint, run: Run) -> Any:
    """Return a copy of a checkpoint's layer: from memory, from the store, or from the source that it stands for.

    Raises
    ------
    LayerLost : when the layer is gone or not what the record says; the record is set aside.
    SourceChanged : when a source is no longer what the run pinned.
    """
    layer = run.hand_over.get(checkpoint.fingerprint)
    if layer is not None:
        return layer
    if checkpoint.kind == "source":
        here = run.places.get(checkpoint.fingerprint)
        source, version = (here.source, here.version) if here is not None else source_step.source_of(checkpoint)
        layer = source_step.read_pinned(source, version, run)
        run.hand_over.put(checkpoint.fingerprint, layer)
        return layer
    if checkpoint.layer is None:
        # A stand-in for a result that was not needed when the plan was decided: what was to be reused is gone.
        raise LayerLost(
            checkpoint.fingerprint,
            f"the result of {checkpoint.step or checkpoint.operation!r} is needed now, and it is not there",
            remedy="the plan has to be decided again",
        )
    try:
        layer = run.workspace.store.load(checkpoint)
    except LayerLost as lost:
        from geocairn.rewind import found_again

        layer = run.workspace.store.load(found_again(checkpoint, run, lost))
    run.hand_over.put(checkpoint.fingerprint, layer)
    return layer


@contextmanager
def _at_rest(checkpoint: Checkpoint, run: Run) -> Iterator[Path]:
    """Give the file of a checkpoint's layer in the store, as `load` gives the layer.

    Raises
    ------
    LayerLost : as `load` does.
    """
    with ExitStack() as opened:
        try:
            path = opened.enter_context(run.workspace.store.opened(checkpoint))
        except LayerLost as lost:
            from geocairn.rewind import found_again

            path = opened.enter_context(run.workspace.store.opened(found_again(checkpoint, run, lost)))
        yield path


def regated(checkpoint: Checkpoint, settings: StepSettings, run: Run) -> LayerFacts:
    """Return the facts of a reused checkpoint by the present gate; its layer is read when an older gate saw it."""
    if checkpoint.facts.gate == GATE_VERSION:
        return checkpoint.facts
    layer = load(checkpoint, run)
    where = f"step {settings.name or checkpoint.operation}"
    allow_empty = settings.allow_empty or (checkpoint.kind == "source" and settings.expect is None)
    table = checkpoint.facts.geometry_column is None
    return admit(layer, Terms(where, expect=settings.expect, allow_empty=allow_empty, table=table)).facts
