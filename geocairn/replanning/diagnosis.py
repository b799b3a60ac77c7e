"""The diagnosis of a failed step: what a planner or a person needs in order to change the plan, as JSON values.

What always holds: it tells of the step, its failure and the layers that it takes, from their checkpoints' facts, and
reads no layer for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from geocairn.answer import Answer
from geocairn.checkpoint import Checkpoint, json_values
from geocairn.failure import Failure
from geocairn.fingerprint import parameter_record
from geocairn.operations.contract import Operation
from geocairn.plan.graph import Node


def diagnose(answer: Answer, *, number: int, left: int, complaints: Sequence[str] = ()) -> dict[str, Any]:
    """Return the diagnosis of the failure that ended a run.

    Parameters
    ----------
    answer : the answer of the run, which failed.
    number : the round of replanning that this is, from 1.
    left : the rounds after it.
    complaints : what was wrong with the plan that was proposed in the round before.

    Returns
    -------
    JSON values: `step`, `kind` (`source`, `step` or `publication`), `op`; `class`, `action`, `message`, and apart from
    it `what`, `where`, `remedy`; `parameters` with defaults filled in, and their `schema`; `attempts`; `inputs` by role
    with the facts of each layer; `last_good` checkpoints; `round`, `rounds_left`, `complaints`.
    """
    assert answer.failed is not None
    name, error = answer.failed
    node = answer.decision.verdicts[name].node
    told = answer.as_json()["failure"]
    apart = (error.what, error.where, error.remedy) if isinstance(error, Failure) else (told["message"], "", "")
    return {
        "step": told["step"],
        "kind": node.kind,
        "op": node.operation.name,
        "class": told["class"],
        "action": told["action"],
        "message": told["message"],
        **dict(zip(("what", "where", "remedy"), apart, strict=True)),
        "parameters": present_parameters(node),
        "schema": parameter_schema(node.operation),
        "attempts": json_values(answer.outcomes[name].attempts),
        "inputs": _inputs(answer, node),
        "last_good": told["last_good"],
        "round": number,
        "rounds_left": left,
        "complaints": list(complaints),
    }


def present_parameters(node: Node) -> dict[str, Any]:
    """Return the parameters of a node as JSON values, with defaults filled in; geometry as WKT."""
    found: dict[str, Any] = json_values(parameter_record(node.parameters))
    return found


def parameter_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON Schema of an operation's parameters; empty where a type of somebody's own operation has none."""
    try:
        found: dict[str, Any] = operation.schema()["parameters"]
    except (PydanticInvalidForJsonSchema, PydanticUserError):
        return {}
    return found


def _inputs(answer: Answer, node: Node) -> dict[str, Any]:
    return {
        role: _facts(answer, names) if isinstance(names, str) else [_facts(answer, name) for name in names]
        for role, names in node.inputs.items()
    }


def _facts(answer: Answer, name: str) -> dict[str, Any]:
    """Return what is known of an input's layer; its name alone where it was never made."""
    outcome = answer.outcomes.get(name)
    checkpoint: Checkpoint | None = outcome.checkpoint if outcome is not None else None
    if checkpoint is None:
        checkpoint = answer.decision.verdicts[name].checkpoint
    if checkpoint is None:
        return {"name": name}
    facts = checkpoint.facts
    return {
        "name": name,
        "fingerprint": checkpoint.fingerprint,
        "rows": facts.rows,
        "columns": dict(facts.columns),
        "crs": facts.crs_name,
        "geometry_types": list(facts.geometry_types),
        "bounds": list(facts.bounds) if facts.bounds else None,
        "defects": {
            "invalid": facts.invalid,
            "missing": facts.missing,
            "empty": facts.empty,
            "outside_area": facts.outside_area,
        },
    }
