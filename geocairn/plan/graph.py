"""The graph of a plan: sources, steps and outputs as nodes of one kind, in an order in which they can be computed.

A source is a use of `read_layer`, an output a use of `write_layer`; a plan may also write these as steps. What always
holds: a node's inputs come before it, so one pass forwards gives fingerprints and one pass backwards gives need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel

from geocairn.operations.contract import Operation
from geocairn.plan.model import Output, Plan, Step
from geocairn.sources.source import Source

NodeKind = Literal["source", "step", "publication"]

Inputs = dict[str, str | list[str]]


@dataclass(frozen=True)
class Node:
    """One thing to compute, read or publish."""

    name: str
    """Unique in the graph; an output's name is prefixed with `output:`, which no step's name can be."""
    kind: NodeKind
    operation: Operation
    parameters: BaseModel
    """The operation's parameters, normalised."""
    inputs: Inputs = field(default_factory=dict)
    """Names of nodes by role."""
    step: Step | None = None
    """The plan's step, for a step (and for a source or output written as one)."""
    source: Source | None = None
    output: Output | None = None
    allow_older: bool = False
    """For a source: whether the version before may answer when the present one cannot be read."""
    fallback: Node | None = None
    """What may take its place where it fails, under the same name."""
    exact: Node | None = None
    """For a fallback that has taken a node's place: that node."""

    @property
    def label(self) -> str:
        """The name of its task run: `overlay · covered`."""
        return f"{self.operation.name} · {self.name.removeprefix('output:')}"

    @property
    def input_names(self) -> list[str]:
        """Names of all nodes that it takes, in the order of roles."""
        return [name for value in self.inputs.values() for name in ([value] if isinstance(value, str) else value)]


@dataclass(frozen=True)
class Graph:
    """The nodes of a plan by name, in computable order."""

    plan: Plan
    nodes: dict[str, Node]

    @property
    def targets(self) -> list[Node]:
        """The nodes that a run is for: the publications, or without any the steps that nothing else takes."""
        published = [node for node in self.nodes.values() if node.kind == "publication"]
        if published:
            return published
        taken = {name for node in self.nodes.values() for name in node.input_names}
        return [node for node in self.nodes.values() if node.name not in taken and node.kind == "step"] or [
            node for node in self.nodes.values() if node.name not in taken
        ]

    def with_fallback(self, name: str) -> Graph:
        """Return the same graph with a node's fallback in its place."""
        node = self.nodes[name]
        assert node.fallback is not None
        taken = replace(node.fallback, exact=node)
        return Graph(self.plan, {**self.nodes, name: taken})

    def consumers(self, name: str) -> list[Node]:
        """Return the nodes that take the result of `name`."""
        return [node for node in self.nodes.values() if name in node.input_names]


def roles_of(operation: Operation, given: str | list[str] | Mapping[str, str | list[str]]) -> Inputs:
    """Return inputs by role: one name goes to the first role, a list to a role of many, or to the roles in order."""
    if isinstance(given, Mapping):
        return dict(given)
    first = operation.roles[0] if operation.roles else None
    if isinstance(given, str):
        if first is None:
            return {"layer": given}
        return {first.name: [given] if first.many else given}
    if first is not None and first.many:
        return {first.name: list(given)}
    names = [role.name for role in operation.roles] + [f"input {i}" for i in range(len(operation.roles), len(given))]
    return dict(zip(names, given, strict=False))


def publication_inputs(output: Output) -> Inputs:
    """Return the inputs of an output: the layer, and what is drawn around it on a map."""
    inputs: Inputs = {"layer": output.from_}
    if output.context:
        inputs["context"] = list(output.context)
    return inputs


def output_names(outputs: list[Output]) -> list[str]:
    """Return a name for each output: its own, else that of what it publishes, numbered where it repeats."""
    names: dict[str, None] = {}
    last: dict[str, int] = {}
    for output in outputs:
        base = output.name or output.from_
        name, number = base, last.get(base, 1)
        while name in names:
            number += 1
            name = f"{base}-{number}"
        last[base] = number
        names[name] = None
    return list(names)


def output_parameters(output: Output) -> dict[str, Any]:
    """Return the parameters of `write_layer` that an output states."""
    return {
        "uri": output.uri,
        "driver": output.driver,
        "layer_name": output.layer,
        "mode": output.mode,
        "map": output.map,
        "highlight": output.highlight,
    }
