"""The check of a whole plan, before anything runs: all complaints at once, each with line, step, field and nearest name.

What the check knows of sources (CRS, kinds, columns) is carried forward through the steps by the operations' promises, so a
buffer in degrees or a join across two CRS is found without computing. What it does not know it leaves to the run, which
asks the same of the layers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from geocairn.crs import describe_crs
from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.operations.contract import KINDS, Operation, parameter_complaints
from geocairn.operations.preconditions import GEOGRAPHIC_REMEDY
from geocairn.operations.registry import operations
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import Document
from geocairn.plan.graph import (
    Graph,
    Inputs,
    Node,
    output_names,
    output_parameters,
    publication_inputs,
    roles_of,
)
from geocairn.plan.model import Plan, Step
from geocairn.plan.reading import Reading, in_order
from geocairn.sources.source import Source


class KnownSource(Protocol):
    """What a description of a source must tell."""

    crs_name: str | None
    geographic: bool | None
    kinds: tuple[str, ...]


Describe = Callable[[Source], KnownSource | None]
"""Returns what is known of a source; raises InputFailure for one that cannot be used; None where nothing is known."""


@dataclass(frozen=True)
class Known:
    """What is known of a node's result before it is computed."""

    crs: str | None = None
    geographic: bool | None = None
    crs_known: bool = False
    kinds: tuple[str, ...] = ()


@dataclass
class Checked:
    """A plan that was checked."""

    graph: Graph
    remarks: list[Complaint] = field(default_factory=list)
    """What is not wrong but worth a word: a step that leads to no output."""


def check(document: Document, describe: Describe | None = None) -> Checked:
    """Check a plan whole and return its graph.

    Parameters
    ----------
    document : the plan.
    describe : tells what is known of a source. Without it, sources are not looked at.

    Raises
    ------
    PlanError : with all complaints.
    """
    return _Check(Reading(document), describe).run()


class _Check:
    def __init__(self, reading: Reading, describe: Describe | None) -> None:
        self.reading = reading
        self.describe = describe
        self.nodes: dict[str, Node] = {}
        self.known: dict[str, Known] = {}
        self.places: dict[str, tuple[str | int, ...]] = {}
        self.bad = set(reading.unread_names)

    def run(self) -> Checked:
        for name, source in self.reading.sources.items():
            self._source(name, source, ("sources", name))
        for index, step in self.reading.steps.items():
            self._step(index, step)
        self._outputs()
        if not self.nodes and not self.reading.complaints:
            self.reading.complain("the plan has no steps", ())
        plan: Plan = self.reading.plan()
        graph = Graph(plan, self.nodes)
        return Checked(graph, self._remarks(graph))

    def _source(self, name: str, source: Source, place: tuple[str | int, ...], step: Step | None = None) -> None:
        operation = operations["read_layer"]
        self.places[name] = place
        self.nodes[name] = Node(name, "source", operation, operation.normalise(dict(source)), {}, step, source)
        self.known[name] = Known()
        try:
            if source.crs is not None:
                facts = describe_crs(source.crs)
                self.known[name] = Known(facts.name, facts.geographic, True)
            described = self.describe(source) if self.describe else None
        except InputFailure as failure:
            remedy = f"; {failure.remedy}" if failure.remedy else ""
            self.reading.complain(f"{failure.what}{remedy}", place, step=name)
            return
        if described is not None:
            self.known[name] = Known(
                described.crs_name, described.geographic, described.crs_name is not None, tuple(described.kinds)
            )

    def _step(self, index: int, step: Step) -> None:
        place = ("steps", index)
        if step.name in self.places:
            earlier = self.reading.document.line(self.places[step.name])
            at = f" (line {earlier})" if earlier else ""
            self.reading.complain(f"the name {step.name!r} is used twice{at}", (*place, "name"), step=step.name, field="name")
            return
        self.places[step.name] = place
        if step.op not in operations:
            self.reading.complain(
                f"there is no operation {step.op!r}{did_you_mean(step.op, operations)}",
                (*place, "op"),
                step=step.name,
                field="op",
            )
            self._inputs_exist(index, step, {"": step.inputs} if isinstance(step.inputs, str) else {})
            self.bad.add(step.name)
            return
        operation = operations[step.op]
        parameters = self._parameters(operation, step, place)
        if operation.reads:
            if parameters is not None:
                self._source(step.name, Source(**dict(parameters)), place, step)
            return
        inputs = roles_of(operation, step.inputs)
        if not self._roles(operation, index, step, inputs) or parameters is None:
            self.bad.add(step.name)
            return
        kind = "publication" if operation.effect else "step"
        self.nodes[step.name] = Node(step.name, kind, operation, parameters, inputs, step)  # type: ignore[arg-type]
        self.known[step.name] = self._carry(operation, step, parameters, inputs, place)

    def _parameters(self, operation: Operation, step: Step, place: tuple[str | int, ...]) -> BaseModel | None:
        try:
            parameters = operation.parameters.model_validate(step.params)
            if operation.validate is not None:
                operation.validate(parameters)
        except ValidationError as error:
            for name, message in parameter_complaints(operation, error):
                self.reading.complain(message, (*place, "params", name), step=step.name, field=f"params.{name}")
            return None
        except (ValueError, InputFailure) as error:
            self.reading.complain(str(error), (*place, "params"), step=step.name, field="params")
            return None
        fine = True
        for name in {operation.promise.crs, "crs", "source_crs"} & set(type(parameters).model_fields):
            value = getattr(parameters, name)
            try:
                if isinstance(value, str):
                    describe_crs(value)
            except InputFailure as failure:
                fine = False
                message = f"{failure.what}; {failure.remedy}"
                self.reading.complain(message, (*place, "params", name), step=step.name, field=f"params.{name}")
        return parameters if fine else None

    def _roles(self, operation: Operation, index: int, step: Step, inputs: Inputs) -> bool:
        place = ("steps", index, "inputs")
        roles = {role.name: role for role in operation.roles}
        fine = True
        for name, value in inputs.items():
            if name not in roles:
                hint = did_you_mean(name, roles) if not name.startswith("input ") else f"; it takes {', '.join(roles)}"
                self.reading.complain(
                    f"{operation.name} has no input {name!r}{hint}", (*place, name), step=step.name, field=f"inputs.{name}"
                )
                fine = False
            elif isinstance(value, list) and not roles[name].many:
                self.reading.complain(
                    f"input {name!r} of {operation.name} takes one layer, there are {len(value)}",
                    (*place, name),
                    step=step.name,
                    field=f"inputs.{name}",
                )
                fine = False
        for role in operation.roles:
            if not role.optional and not inputs.get(role.name):
                self.reading.complain(
                    f"input {role.name!r} of {operation.name} is missing", place, step=step.name, field="inputs"
                )
                fine = False
        return self._inputs_exist(index, step, inputs) and fine

    def _inputs_exist(self, index: int, step: Step, inputs: Inputs) -> bool:
        later = {other.name for place, other in self.reading.steps.items() if place >= index}
        fine = True
        for role, value in inputs.items():
            for name in [value] if isinstance(value, str) else value:
                if name in self.nodes and self.nodes[name].kind != "publication":
                    continue
                fine = False
                if name in self.bad:
                    continue  # it was complained of itself
                if name == step.name:
                    message = f"step {name!r} takes its own result"
                elif name in later:
                    message = f"input {name!r} comes later in the plan: steps are in order, move it up"
                elif name in self.nodes:
                    message = f"input {name!r} publishes a result and has none of its own; take what it publishes"
                else:
                    known = [known for known, node in self.nodes.items() if node.kind != "publication"]
                    message = f"there is no source or earlier step {name!r}{did_you_mean(name, known)}"
                self.reading.complain(
                    message, ("steps", index, "inputs", role), step=step.name, field=f"inputs.{role}" if role else "inputs"
                )
        return fine

    def _carry(
        self, operation: Operation, step: Step, parameters: BaseModel, inputs: Inputs, place: tuple[str | int, ...]
    ) -> Known:
        """Hold what is known of the inputs against the contract, and return what is known of the result."""
        known: list[tuple[str, str, Known]] = []
        for role in operation.roles:
            value = inputs.get(role.name) or []
            for name in [value] if isinstance(value, str) else value:
                facts = self.known.get(name, Known())
                known.append((role.name, name, facts))
                wrong = sorted(set(facts.kinds) - set(role.kinds))
                if role.kinds != KINDS and wrong and not set(facts.kinds) & set(role.kinds):
                    self.reading.complain(
                        f"input {role.name!r} of {operation.name} takes {' and '.join(role.kinds)} geometry, "
                        f"{name!r} has {' and '.join(wrong)}",
                        (*place, "inputs", role.name),
                        step=step.name,
                        field=f"inputs.{role.name}",
                    )
        self._one_crs(operation, step, known, place)
        first = known[0][2] if known else Known()
        if operation.measures_planar(parameters) and first.crs_known and first.geographic:
            self.reading.complain(
                f"{operation.name} measures in the units of the CRS, and {known[0][1]!r} is in {first.crs}, in degrees; "
                f"{GEOGRAPHIC_REMEDY}",
                (*place, "params"),
                step=step.name,
                field="params",
            )
        return _result(operation, parameters, first)

    def _one_crs(
        self, operation: Operation, step: Step, known: list[tuple[str, str, Known]], place: tuple[str | int, ...]
    ) -> None:
        if not operation.same_crs:
            return
        stated = [(name, facts.crs) for _, name, facts in known if facts.crs_known]
        for (first, left), (second, right) in zip(stated, stated[1:], strict=False):
            if left != right:
                self.reading.complain(
                    f"the inputs of {operation.name} differ in CRS: {first!r} is in {left}, {second!r} in {right}; "
                    "reproject one to the other's",
                    (*place, "inputs"),
                    step=step.name,
                    field="inputs",
                )
                return

    def _outputs(self) -> None:
        targets: dict[str, int] = {}
        outputs = self.reading.outputs
        names = output_names(list(outputs.values()))
        for (index, output), name in zip(outputs.items(), names, strict=True):
            place = ("outputs", index)
            label = f"output {name}"
            known = [known for known, node in self.nodes.items() if node.kind != "publication"]
            fine = True
            for field_name, taken in [("from", output.from_), *(("context", item) for item in output.context)]:
                if taken not in known:
                    fine = False
                    if taken not in self.bad:
                        hint = did_you_mean(taken, known)
                        self.reading.complain(
                            f"there is no source or step {taken!r}{hint}", (*place, field_name), step=label, field=field_name
                        )
            if output.uri in targets:
                fine = False
                self.reading.complain(f"{output.uri} is written twice", (*place, "uri"), step=label, field="uri")
            targets[output.uri] = index
            if fine:
                operation = operations["write_layer"]
                try:
                    parameters = operation.normalise(output_parameters(output))
                except InputFailure as failure:
                    self.reading.complain(failure.what, (*place, "uri"), step=label)
                    continue
                key = f"output:{name}"
                self.nodes[key] = Node(
                    key, "publication", operation, parameters, publication_inputs(output), output=output
                )

    def _remarks(self, graph: Graph) -> list[Complaint]:
        needed: set[str] = set()
        waiting = [node.name for node in graph.targets]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting += graph.nodes[name].input_names
        return in_order(
            [
                Complaint(
                    f"{node.kind} {name!r} leads to no output and is not {'read' if node.kind == 'source' else 'computed'}",
                    line=self.reading.document.line(self.places.get(name, ())),
                    step=name,
                )
                for name, node in graph.nodes.items()
                if name not in needed
            ]
        )


def _result(operation: Operation, parameters: BaseModel, first: Known) -> Known:
    kind = operation.promise.kind
    kinds = first.kinds if kind == "same" else (kind,) if kind in KINDS else ()
    if operation.promise.crs == "same":
        return Known(first.crs, first.geographic, first.crs_known, kinds)
    stated: Any = getattr(parameters, operation.promise.crs, None)
    if isinstance(stated, str):
        facts = describe_crs(stated)
        return Known(facts.name, facts.geographic, True, kinds)
    return Known(kinds=kinds)


def graph_of(values: Mapping[str, Any] | Plan, name: str = "plan") -> Graph:
    """Return the graph of a plan given as values or model, checked without looking at its sources.

    Raises
    ------
    PlanError : with all complaints.
    """
    from geocairn.plan.document import document_of

    if isinstance(values, Plan):
        values = values.model_dump(by_alias=True, exclude_unset=True)
    return check(document_of(values, name)).graph


__all__ = ["Checked", "Complaint", "Describe", "Known", "PlanError", "check", "graph_of"]
