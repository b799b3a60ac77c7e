"""What differs between two plans, in words: what a planner or a person changed while a plan ran.

What always holds: parameters are compared as the operations take them, so that `10` and `10.0`, or a default that was
written out, are no change; and what changes the meaning of the answer is told from what only changes how it is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from geocairn.checkpoint import json_values
from geocairn.plan.graph import Graph, Node
from geocairn.plan.model import Plan, Step
from geocairn.replanning.diagnosis import present_parameters

_LONGEST = 120

_WITHOUT_MEANING = frozenset({"description", "checkpoint", "backends", "retries", "timeout", "retention", "planner"})
"""Fields that change neither a result nor what is asked of it, nor what may answer in its place."""


@dataclass(frozen=True)
class Change:
    """One difference between two plans."""

    text: str
    """In the past tense, without a subject: `changed reach.distance from 0 to 50000`."""
    meaningful: bool = True
    """Whether it changes what the answer means."""


def changes(before: Graph, after: Graph) -> list[Change]:
    """Return what differs between two checked plans, in the order of the first one, then of the second."""
    found: list[Change] = []
    for field in Plan.model_fields:
        if field not in ("sources", "steps", "outputs"):
            old, new = getattr(before.plan, field), getattr(after.plan, field)
            if old != new:
                found.append(Change(f"changed the plan's {field} from {shown(old)} to {shown(new)}", meaningful=False))
    for name, node in before.nodes.items():
        if name not in after.nodes:
            found.append(Change(f"removed {described(node)}"))
        else:
            found += _of_node(node, after.nodes[name])
    found += [Change(f"added {described(node)}") for name, node in after.nodes.items() if name not in before.nodes]
    return found


def described(node: Node) -> str:
    """Return what a node is called in a sentence: `step reach (buffer)`, `source cities`, `output covered`."""
    label = node.name.removeprefix("output:")
    if node.kind == "step":
        return f"step {label} ({node.operation.name})"
    return f"{'output' if node.kind == 'publication' else 'source'} {label}"


def shown(value: Any) -> str:
    """Return a value as a plan would state it, shortened."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(json_values(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _of_node(before: Node, after: Node) -> Iterator[Change]:
    label = before.name.removeprefix("output:")
    if before.kind != after.kind or before.operation.name != after.operation.name:
        yield Change(f"replaced {described(before)} by {described(after)} with {shown(present_parameters(after))}")
        return
    if before.inputs != after.inputs:
        yield Change(f"changed the inputs of {label} from {shown(before.inputs)} to {shown(after.inputs)}")
    if before.allow_older != after.allow_older:
        yield Change(f"changed {label}.allow_older from {shown(before.allow_older)} to {shown(after.allow_older)}")
    if before.source is not None and after.source is not None:
        yield from _of_fields(label, before.source.model_dump(mode="json"), after.source.model_dump(mode="json"))
    else:
        yield from _of_fields(label, present_parameters(before), present_parameters(after))
    if before.step is not None and after.step is not None:
        yield from _of_fields(label, _settings(before.step), _settings(after.step))


def _of_fields(label: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for field in [*before, *(field for field in after if field not in before)]:
        old, new = before.get(field), after.get(field)
        if old != new:
            text = f"changed {label}.{field} from {shown(old)} to {shown(new)}"
            yield Change(text, meaningful=field not in _WITHOUT_MEANING)


def _settings(step: Step) -> dict[str, Any]:
    """Return the fields of a step beside its operation, inputs and parameters."""
    return {
        name: value.model_dump(mode="json") if isinstance(value := getattr(step, name), BaseModel) else value
        for name in type(step).model_fields
        if name not in ("name", "op", "inputs", "params")
    }
