"""The check of one step: its operation, parameters, inputs, and what is known of the layers that it takes.

What always holds: everything that can be judged is judged, though something else in the step is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pydantic import BaseModel, ValidationError

from geocairn.crs import describe_crs
from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.operations.contract import Operation
from geocairn.operations.preconditions import GEOGRAPHIC_REMEDY, TABLE_REMEDY
from geocairn.operations.registry import operations
from geocairn.plan.findings import Findings, target_of
from geocairn.plan.graph import Inputs, Node, roles_of
from geocairn.plan.knowledge import Known, differ_in_crs, known_of_result, wrong_kinds
from geocairn.plan.model import Step
from geocairn.plan.wording import parameter_complaints
from geocairn.sources.source import Source

_LENGTHS = ("distance", "tolerance", "max_distance", "distances", "grid_size", "size")
"""Parameters that may be a length, for the field of a complaint about one in degrees."""


class StepCheck:
    """The check of the step at one place of the plan, or of its fallback as a step of the same name.

    Parameters
    ----------
    findings : what is known of the plan so far.
    index : of the step among the steps.
    step : the step.
    within : where its fields lie in those of the step at `index`.
    """

    def __init__(self, findings: Findings, index: int, step: Step, within: tuple[str, ...] = ()) -> None:
        self.findings = findings
        self.index = index
        self.step = step
        self.within = within

    def run(self, *, repeated: bool) -> None:
        """Check the step and take it in; one whose name is used already is only checked."""
        step = self.step
        self._hold_expected_crs()
        fallback = self._fallback()
        if step.op not in operations:
            self._complain_of_operation()
            self._hold_names(self._inputs_of_any_role())
            if not repeated:
                self.findings.bad.add(step.name)
            return
        operation = operations[step.op]
        self._hold_backends(operation)
        wrong = self.findings.reading.wrong_fields.get(self.index, set())
        parameters = self._parameters(operation) if "params" not in wrong else None
        inputs = roles_of(operation, step.inputs)
        roles_fit = "inputs" not in wrong and self._hold_roles(operation, inputs)
        fine = self._hold_names(inputs) and roles_fit
        known = self._carried(operation, parameters, inputs) if parameters is not None else Known()
        if operation.effect and parameters is not None:
            place = ("steps", self.index, "params")
            fine = self.findings.claim(target_of(parameters), f"step {step.name}", place, step.name) and fine
        if repeated:
            return
        if parameters is None or not fine:
            self.findings.bad.add(step.name)
            return
        self._take_in(operation, parameters, inputs, known, fallback)

    def _complain_of_operation(self) -> None:
        self._complain(f"there is no operation {self.step.op!r}{did_you_mean(self.step.op, operations)}", "op")

    def _fallback(self) -> Node | None:
        """Return the node of the step's fallback, checked like a step; None where there is none, or it is wrong."""
        stated = self.step.fallback
        if stated is None:
            return None
        changes = {
            "op": stated.op,
            "params": stated.params,
            "inputs": stated.inputs if stated.inputs is not None else self._inputs_for(stated.op),
            "backends": None,
            "fallback": None,
        }
        check = StepCheck(self.findings, self.index, self.step.model_copy(update=changes), ("fallback",))
        return check.node(hold_names=stated.inputs is not None)

    def _inputs_for(self, operation: str) -> Inputs | list[str] | str:
        """Return the step's inputs as the fallback takes them: by the same roles, else in their order."""
        if self.step.op not in operations or operation not in operations:
            return self.step.inputs
        inputs = roles_of(operations[self.step.op], self.step.inputs)
        if set(inputs) <= {role.name for role in operations[operation].roles}:
            return inputs
        names = [name for value in inputs.values() for name in ([value] if isinstance(value, str) else value)]
        return names[0] if len(names) == 1 else names

    def node(self, *, hold_names: bool) -> Node | None:
        """Check a step that takes another's place, and return its node; None where something in it is wrong.

        Parameters
        ----------
        hold_names : whether its inputs are its own, and so to be looked for.
        """
        step = self.step
        if step.op not in operations:
            self._complain_of_operation()
            return None
        operation = operations[step.op]
        if operation.reads or operation.effect:
            self._complain(f"{operation.name} reads or writes: a fallback computes", "op")
            return None
        parameters = self._parameters(operation)
        inputs = roles_of(operation, step.inputs)
        fine = self._hold_roles(operation, inputs)
        if hold_names:
            fine = self._hold_names(inputs) and fine
        if parameters is None or not fine:
            return None
        self._carried(operation, parameters, inputs)
        return Node(step.name, "step", operation, parameters, inputs, step)

    def _take_in(
        self, operation: Operation, parameters: BaseModel, inputs: Inputs, known: Known, fallback: Node | None
    ) -> None:
        name = self.step.name
        if operation.reads:
            self.findings.add_source(name, Source(**dict(parameters)), ("steps", self.index), self.step)
            self._refuse_fallback(operation)
            return
        if operation.effect:
            self._refuse_fallback(operation)
        kind = "publication" if operation.effect else "step"
        self.findings.nodes[name] = Node(name, kind, operation, parameters, inputs, self.step, fallback=fallback)  # type: ignore[arg-type]
        self.findings.known[name] = known

    def _refuse_fallback(self, operation: Operation) -> None:
        if self.step.fallback is not None:
            self._complain(
                f"{operation.name} has no fallback: nothing takes the place of a source or an output", "fallback"
            )

    def _complain(self, message: str, *inner: str | int) -> None:
        inner = (*self.within, *inner)
        field = ".".join(str(part) for part in inner)
        place = ("steps", self.index, *inner)
        self.findings.reading.complain(message, place, step=self.step.name, field=field or None)

    def _hold_expected_crs(self) -> None:
        expected = self.step.expect.crs if self.step.expect is not None else None
        if expected is not None:
            self._hold_crs(expected, "expect", "crs")

    def _hold_crs(self, text: str, *inner: str) -> bool:
        try:
            describe_crs(text)
        except InputFailure as failure:
            self._complain(f"{failure.what}; {failure.remedy}", *inner)
            return False
        return True

    def _hold_backends(self, operation: Operation) -> None:
        if self.step.backends is None:
            return
        if not self.step.backends:
            self._complain("name at least one backend, or leave it out", "backends")
        for name in self.step.backends:
            if name not in operation.backends:
                hint = did_you_mean(name, operation.backends)
                self._complain(f"no backend {name!r} computes {operation.name}{hint}", "backends")

    def _parameters(self, operation: Operation) -> BaseModel | None:
        given = self.step.params
        try:
            parameters = operation.parameters.model_validate(given)
            if operation.validate is not None:
                operation.validate(parameters)
        except ValidationError as error:
            known = operation.parameters.model_fields
            for inner, message in parameter_complaints(operation.name, known, error, given):
                self._complain(message, "params", *inner)
            return None
        except (ValueError, InputFailure) as error:
            self._complain(str(error), "params")
            return None
        fine = True
        for name in ("crs", "source_crs"):
            value = getattr(parameters, name, None)
            if isinstance(value, str) and not operation.reads:
                fine = self._hold_crs(value, "params", name) and fine
        return parameters if fine else None

    def _hold_roles(self, operation: Operation, inputs: Inputs) -> bool:
        roles = {role.name: role for role in operation.roles}
        takes = f"it takes {', '.join(roles)}"
        fine = True
        if len(inputs) > len(roles) and not isinstance(self.step.inputs, Mapping):
            allowed = f"{len(roles)} ({', '.join(roles)})" if roles else "none"
            self._complain(f"inputs of {operation.name}: it takes {allowed}, there are {len(inputs)}", "inputs")
            fine = False
        for name, value in inputs.items():
            if name not in roles:
                hint = did_you_mean(name, roles) or "; it takes none"
                if isinstance(self.step.inputs, Mapping):
                    self._complain(f"{operation.name} has no input {name!r}{hint}", "inputs", name)
                fine = False
            elif isinstance(value, list) and not roles[name].many:
                message = f"input {name!r} of {operation.name} takes one layer, there are {len(value)}"
                self._complain(message, *self._input_place(name))
                fine = False
        for role in operation.roles:
            if not role.optional and not inputs.get(role.name):
                self._complain(f"input {role.name!r} of {operation.name} is missing; {takes}", "inputs")
                fine = False
        return fine

    def _hold_names(self, inputs: Inputs) -> bool:
        fine = True
        for role, value in inputs.items():
            for name in [value] if isinstance(value, str) else value:
                if self.findings.is_layer(name):
                    continue
                fine = False
                message = self._why_no_input(name)
                if message is not None:
                    self._complain(message, *self._input_place(role))
        return fine

    def _why_no_input(self, name: str) -> str | None:
        """Return why a name is no input; None where it was complained of itself."""
        if name == self.step.name:
            return f"step {name!r} takes its own result"
        first = self.findings.places.get(name)
        if first is not None and first[0] == "steps" and int(first[1]) > self.index:
            return f"input {name!r} comes later in the plan: steps are in order, move it up"
        return self.findings.why_no_layer(name, "source or earlier step")

    def _carried(self, operation: Operation, parameters: BaseModel, inputs: Inputs) -> Known:
        """Hold what is known of the inputs against the contract, and return what is known of the result."""
        known: list[tuple[str, Known]] = []
        for role in operation.roles:
            value = inputs.get(role.name) or []
            for name in [value] if isinstance(value, str) else value:
                facts = self.findings.known.get(name, Known())
                known.append((name, facts))
                if facts.table and not role.table:
                    self._complain(
                        f"input {role.name!r} of {operation.name} must be a layer, and {name!r} is a table without "
                        f"geometry; {TABLE_REMEDY}",
                        *self._input_place(role.name),
                    )
                wrong = wrong_kinds(role, facts)
                if wrong:
                    self._complain(
                        f"input {role.name!r} of {operation.name} takes {' and '.join(role.kinds)} geometry, "
                        f"{name!r} has {' and '.join(wrong)}",
                        *self._input_place(role.name),
                    )
        if operation.same_crs:
            self._hold_one_crs(operation, known)
        first = known[0][1] if known else Known()
        if operation.measures_planar(parameters) and first.crs_known and first.geographic:
            length = next((name for name in _LENGTHS if name in self.step.params), None)
            self._complain(
                f"{operation.name} measures in the units of the CRS, and {known[0][0]!r} is in {first.crs}, in "
                f"degrees; {GEOGRAPHIC_REMEDY}",
                *(("params", length) if length else ("op",)),
            )
            return Known()  # what is made from it is not to blame
        return known_of_result(operation, parameters, first)

    def _hold_one_crs(self, operation: Operation, known: list[tuple[str, Known]]) -> None:
        for (first, left), (second, right) in pairwise([item for item in known if item[1].crs_known]):
            if differ_in_crs(left, right):
                self._complain(
                    f"the inputs of {operation.name} differ in CRS: {first!r} is in {left.crs}, {second!r} in "
                    f"{right.crs}; reproject one to the other's",
                    "inputs",
                )
                return

    def _inputs_of_any_role(self) -> Inputs:
        """Return the inputs where the operation, and so its roles, are not known."""
        if isinstance(self.step.inputs, Mapping):
            return dict(self.step.inputs)
        return {"": self.step.inputs} if self.step.inputs else {}

    def _input_place(self, role: str) -> tuple[str, ...]:
        """Return where the step names the input of a role."""
        return ("inputs", role) if isinstance(self.step.inputs, Mapping) else ("inputs",)
