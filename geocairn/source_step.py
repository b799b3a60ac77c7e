"""The step that reads a source: no layer of it is kept, only a record that stands for the source at its version.

What always holds: a source is read at the version that the run holds it to, or `SourceChanged` says that it is another
one now; what is read passes the gate before its record is committed.
"""

from __future__ import annotations

import time
from typing import Any

from geocairn.checkpoint import Checkpoint, json_values
from geocairn.failure import InputFailure, SourceChanged
from geocairn.fingerprint import operation_version, parameter_record
from geocairn.gate import Terms, admit
from geocairn.libraries import library_versions
from geocairn.notes import collecting
from geocairn.operations.contract import REFERENCE_BACKEND
from geocairn.pinning import PinnedSource
from geocairn.sources.source import Source
from geocairn.sources.version import SourceVersion
from geocairn.step_call import Run, StepCall
from geocairn.stores.belief import LookUp


def read_source(call: StepCall, run: Run, found: LookUp) -> Checkpoint:
    """Read a source, gate it, and leave a record that stands for it: the layer is the source itself."""
    pinned = call.settings.pinned
    if pinned is None:
        raise InputFailure("the source's version was not pinned", where=call.where)
    started = time.perf_counter()
    try:
        with collecting() as notes:
            layer = read_pinned(pinned.source, pinned.version, run)
    except SourceChanged:
        raise
    except InputFailure as failure:
        raise call.placed(failure) from failure.__cause__
    seconds = time.perf_counter() - started
    allow_empty = call.settings.allow_empty or call.settings.expect is None
    passed = admit(
        layer, Terms(call.where, expect=call.settings.expect, allow_empty=allow_empty, table=pinned.source.table)
    )
    facts = passed.facts
    for what, count in (("invalid", facts.invalid), ("null", facts.missing), ("empty", facts.empty)):
        if count:
            run.notice(call.where, f"{count} of {passed.facts.rows} geometries are {what} as they come")
    draft = Checkpoint(
        fingerprint=call.fingerprint,
        kind="source",
        operation=call.operation.name,
        version=operation_version(call.operation),
        parameters=json_values(parameter_record(call.parameters)),
        inputs={},
        facts=passed.facts,
        source={
            "read": {**pinned.source.model_dump(exclude_defaults=True), "uri": _absolute(pinned)},
            "uri": pinned.uri,
            "version": pinned.version.text,
            "is_content": pinned.version.is_content_digest,
        },
        step=call.settings.name,
        scopes=sorted(pinned.scopes),
        caveats=[f"{call.where}: {text}" for text in notes.caveats],
        notes=json_values(notes.facts),
        seconds=round(seconds, 6),
        backend=REFERENCE_BACKEND,
        attempts=call.attempt,
        libraries=library_versions(),
    )
    run.computed.add(call.fingerprint)
    run.hand_over.put(call.fingerprint, passed.layer)
    return run.workspace.store.commit(draft, replace=found)


def _absolute(pinned: PinnedSource) -> str:
    """Return the source's address as any working directory understands it."""
    return pinned.source.uri if "://" in pinned.source.uri else pinned.uri


def source_of(checkpoint: Checkpoint) -> tuple[Source, SourceVersion]:
    """Return the source that a source's checkpoint stands for, and its pinned version."""
    if checkpoint.source is None:
        raise InputFailure("the checkpoint stands for no source", where=checkpoint.step)
    source = Source(**checkpoint.source["read"])
    return source, SourceVersion(checkpoint.source["version"], checkpoint.source["is_content"])


def read_pinned(source: Source, version: SourceVersion, run: Run) -> Any:
    """Read a source at its pinned version.

    Raises
    ------
    SourceChanged : when it is another version now.
    """
    from geocairn.sources.read import read

    place = run.workspace
    return read(source, version, base=place.base, s3=place.s3, memory=place.memory, reach=place.reach)
