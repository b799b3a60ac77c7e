"""The lineage of a result: the sources with their versions and the steps with their parameters that it was made from.

Read from the records that are there; a record that is gone is named as such. What always holds: the same result has the same
lineage, so no time, duration or attempt is in it.
"""

from __future__ import annotations

from typing import Any

from geocairn.checkpoint import Checkpoint
from geocairn.stores.checkpoints import CheckpointStore


def lineage_of(checkpoint: Checkpoint, store: CheckpointStore, run_id: str | None = None) -> dict[str, Any]:
    """Return the lineage of a checkpoint as a JSON object.

    Parameters
    ----------
    checkpoint : whose lineage.
    store : where the records of its inputs are.
    run_id : the run whose own layers (of steps that are not stored) count too.
    """
    steps: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    waiting: list[Checkpoint] = [checkpoint]
    seen = {checkpoint.fingerprint}
    while waiting:
        for current in waiting:
            if current.kind == "source":
                sources[current.fingerprint] = _source(current)
            else:
                steps[current.fingerprint] = _step(current)
        wanted = [print_ for current in waiting for print_ in prints_of(current) if print_ not in seen]
        wanted = list(dict.fromkeys(wanted))
        seen.update(wanted)
        found = store.look_up_many(wanted) if wanted else {}
        waiting = []
        for print_ in wanted:
            known = found[print_].found
            if known is None and run_id is not None:
                known = store.get_run_layer(run_id, print_)
            if known is not None:
                waiting.append(known)
            else:
                steps[print_] = {"record": "not in the store: it was not kept, or was a layer in memory"}
    return {
        "fingerprint": checkpoint.fingerprint,
        "sources": dict(sorted(sources.items())),
        "steps": dict(sorted(steps.items())),
        "caveats": checkpoint.caveats,
        "libraries": dict(checkpoint.libraries),
    }


def prints_of(checkpoint: Checkpoint) -> list[str]:
    """Return the fingerprints of all its inputs."""
    return [
        print_
        for value in checkpoint.inputs.values()
        for print_ in (value if isinstance(value, list) else [value])
    ]


def _source(checkpoint: Checkpoint) -> dict[str, Any]:
    source = checkpoint.source or {}
    return {
        "uri": source.get("uri"),
        "version": source.get("version"),
        "read": {name: value for name, value in source.get("read", {}).items() if name != "uri"},
        "crs": checkpoint.facts.crs_name,
        "rows": checkpoint.facts.rows,
    }


def _step(checkpoint: Checkpoint) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operation": checkpoint.operation,
        "version": checkpoint.version,
        "parameters": checkpoint.parameters,
        "inputs": checkpoint.inputs,
        "crs": checkpoint.facts.crs_name,
        "rows": checkpoint.facts.rows,
        "backend": checkpoint.backend,
    }
    if checkpoint.notes:
        entry["notes"] = checkpoint.notes
    if checkpoint.repair:
        entry["repair"] = True
    return entry
