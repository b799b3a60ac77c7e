"""The lineage of a result: the sources with their versions and the steps with their parameters that it was made from.

Read from the records that are there; of a result whose record is gone the plan that is run says how it is made, and
where no plan does, it is named as gone. What always holds: no time, duration or attempt is in it, so the same result
has the same lineage, but for the row count and CRS of what left no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from geocairn.checkpoint import Checkpoint, json_values
from geocairn.fingerprint import operation_version, parameter_record
from geocairn.pinning import PinnedSource
from geocairn.plan.graph import Node
from geocairn.stores.checkpoints import CheckpointStore


@dataclass(frozen=True)
class Planned:
    """What a plan says of a result: its entry in a lineage, and what it is made from."""

    entry: dict[str, Any]
    inputs: Mapping[str, Any]
    """Fingerprints by role."""
    is_source: bool


def planned(node: Node, record: Mapping[str, Any], pinned: PinnedSource | None) -> Planned:
    """Return what a plan says of a node, for the lineage of results whose own record is gone.

    Parameters
    ----------
    node : the node.
    record : what decides its result; see `geocairn.fingerprint`.
    pinned : for a source, the version that the run holds it to.
    """
    if pinned is not None:
        read = pinned.source.model_dump(exclude_defaults=True, exclude={"uri"})
        return Planned({"uri": pinned.uri, "version": pinned.version.text, "read": read}, {}, True)
    inputs = dict(record["inputs"])
    entry: dict[str, Any] = {
        "operation": node.operation.name,
        "version": operation_version(node.operation),
        "parameters": json_values(parameter_record(node.parameters)),
        "inputs": inputs,
    }
    if node.step is not None and node.step.on_invalid == "repair":
        entry["repair"] = True
    return Planned(entry, inputs, False)


def lineage_of(
    checkpoint: Checkpoint,
    store: CheckpointStore,
    run_id: str | None = None,
    plan: Mapping[str, Planned] | None = None,
) -> dict[str, Any]:
    """Return the lineage of a checkpoint as a JSON object.

    Parameters
    ----------
    checkpoint : whose lineage.
    store : where the records of its inputs are.
    run_id : the run whose own layers (of steps that are not stored) count too.
    plan : what the plan says of its results, by fingerprint: for those whose record is gone.
    """
    steps: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    waiting: list[tuple[str, Checkpoint | Planned]] = [(checkpoint.fingerprint, checkpoint)]
    seen = {checkpoint.fingerprint}
    while waiting:
        for print_, current in waiting:
            if isinstance(current, Planned):
                (sources if current.is_source else steps)[print_] = current.entry
            elif current.kind == "source":
                here = (plan or {}).get(print_)
                sources[print_] = _source(current) | ({"uri": here.entry["uri"]} if here is not None else {})
            else:
                steps[print_] = _step(current)
        prints = [print_ for _, current in waiting for print_ in _prints(current.inputs.values()) if print_ not in seen]
        wanted = list(dict.fromkeys(prints))
        seen.update(wanted)
        found = store.look_up_many(wanted) if wanted else {}
        waiting = []
        for print_ in wanted:
            known: Checkpoint | Planned | None = found[print_].found
            if known is None and run_id is not None:
                known = store.get_run_layer(run_id, print_)
            if known is None:
                known = (plan or {}).get(print_)
            if known is not None:
                waiting.append((print_, known))
            else:
                steps[print_] = {"record": "not in the store: it was not kept, or was a layer in memory"}
    return {
        "fingerprint": checkpoint.fingerprint,
        "sources": dict(sorted(sources.items())),
        "steps": dict(sorted(steps.items())),
        "caveats": checkpoint.caveats,
        "libraries": dict(checkpoint.libraries),
    }


def _prints(values: Iterable[Any]) -> list[str]:
    return [print_ for value in values for print_ in (value if isinstance(value, list) else [value])]


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
    if checkpoint.fallback_for is not None:
        entry["fallback_for"] = checkpoint.fallback_for
    return entry
