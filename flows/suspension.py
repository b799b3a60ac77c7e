"""Suspension: a served run that met an input failure waits for a person's parameters, asked for in the Prefect UI.

The run is suspended, its process ends, and an answer lets it go on in a new process under the same run id. What was
asked and what was answered lie with the flow run on the server, so they live as long as it does and no sweep of the
store takes them. What always holds: a question is written down before the run is suspended; answers are found again
before anything runs, so that a step is never computed again with parameters that were replaced; and a question that
nobody answered costs no round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, NoReturn

from prefect.context import FlowRunContext
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.input.actions import create_flow_run_input, read_flow_run_input
from pydantic import Field, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic_core import PydanticUndefined

from geocairn.answer import Answer
from geocairn.failure import Failure, InputFailure
from geocairn.operations.contract import Operation
from geocairn.operations.json_schema import StandardBounds
from geocairn.operations.registry import operations
from geocairn.pinning import pin
from geocairn.plan.check import Checked
from geocairn.plan.complaint import PlanError
from geocairn.plan.document import Document, document_of
from geocairn.plan.graph import Node
from geocairn.policy import RecoveryPolicy
from geocairn.replanning.changes import described
from geocairn.replanning.diagnosis import diagnose
from geocairn.replanning.rounds import Check, Replanning, told_parameters, wants_replanning, with_parameters
from geocairn.step_call import Run

ACCEPT_FALLBACK = "accept_fallback"
"""The field of the form that accepts a step's declared fallback."""


@dataclass(frozen=True)
class Question:
    """What a suspended run asks for: other parameters of one step, source or output."""

    number: int
    """From 1, of all questions of the run."""
    node: str
    """The node's name in the plan's graph."""
    operation: str
    parameters: dict[str, Any]
    """The parameters when it was asked, with defaults filled in."""
    about: str
    """The diagnosis, as markdown."""
    message: str
    """The failure, as text."""
    versions: dict[str, str]
    """The versions of the sources when it was asked, by name."""
    fallback: str = ""
    """The step's declared fallback, where it has one that this run has not accepted."""
    as_text: list[str] = field(default_factory=list)
    """Parameters that a form cannot hold, asked for as JSON text."""
    of_plan: dict[str, Any] | None = None
    """Where it is asked again: the parameters of the plan, since what was given before was refused."""


@dataclass(frozen=True)
class Answered:
    """A question and what a person answered."""

    question: Question
    given: dict[str, Any]
    """The parameters that differ from those that were shown."""
    complaints: list[str]
    """What was asked for as JSON and is none."""
    accepts_fallback: bool = False


def is_served() -> bool:
    """Return whether the current flow run can be suspended: it came from a deployment, and is no subflow."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context is not None else None
    return flow_run is not None and flow_run.deployment_id is not None and flow_run.parent_task_run_id is None


def may_be_answered(answer: Answer, policy: RecoveryPolicy) -> bool:
    """Return whether a person can let a run go on that ended so: with other parameters, or by accepting a fallback."""
    if wants_replanning(answer, policy):
        return True
    return answer.failed is not None and policy.fallbacks != "never" and "fallback" in answer.as_json()["failure"]


class Dialogue:
    """The questions of the current flow run and a person's answers to them.

    Parameters
    ----------
    run : hears what is to be told in the log and the trace; its policy bounds rounds and waiting.
    check : the check that any plan goes through; raises PlanError.
    """

    def __init__(self, run: Run, check: Check) -> None:
        self.run, self.check = run, check
        self.asked = 0
        self.answered: list[Answered] = []
        while (stored := _stored(_asked(self.asked + 1))) is not None:
            self.asked += 1
            answer = _stored(f"suspended-{_pause_key(self.asked)}-response")
            if answer is not None:
                self.answered.append(_read(Question(**stored), answer))

    @property
    def accepted(self) -> list[str]:
        """The steps whose fallback a person has accepted."""
        return [each.question.node for each in self._counted if each.accepts_fallback]

    @property
    def _counted(self) -> list[Answered]:
        """The answers that count: not those that were refused and asked for again."""
        refused = [one for one, following in pairwise(self.answered) if following.question.of_plan is not None]
        return [each for each in self.answered if each not in refused]

    def begin(self, document: Document) -> Replanning:
        """Return the plan with the answers that were given so far, checked; tell what they changed.

        Where the last answer is wrong it is asked again, and this does not return.

        Raises
        ------
        PlanError : for a plan that is wrong without any answer.
        InputFailure : for a wrong answer when the policy allows no further round.
        """
        if not self.answered:
            return Replanning(document, self.check(document))
        values: dict[str, Any] = document.values
        for each in self._counted:
            changed = with_parameters(values, each.question.node, each.given)
            if changed is None:
                label = each.question.node
                self.run.notice(
                    label, "the plan has no such step any more, so the parameters given for it do not count"
                )
            values = changed if changed is not None else values
        complaints = self.answered[-1].complaints
        answered = document_of(values, f"{document.name} with the parameters given")
        try:
            checked = self.check(answered)
        except PlanError as error:
            complaints = [*complaints, *(complaint.text(error.document) for complaint in error.complaints)]
        if complaints:
            self._ask_again(complaints)
        replanning = Replanning(document, checked, rounds=len(self.answered))
        replanning.take(answered, checked, self._caveats(checked))
        replanning.history = [
            {"round": number, "step": each.question.node, "message": each.question.message, "by": "a person"}
            | {"given": each.given, "accepts_fallback": each.accepts_fallback}
            for number, each in enumerate(self.answered, start=1)
        ]
        self._tell_changed_sources(checked)
        return replanning

    def ask(self, answer: Answer, replanning: Replanning, keep: Callable[[], None]) -> None:
        """Suspend the run until a person gives parameters of its failed step; returns only where that cannot be.

        Parameters
        ----------
        answer : the answer of the run, which ended with an input failure.
        replanning : its rounds; told why there is no further one.
        keep : keeps the trace, which says how the run stands if nobody answers.
        """
        policy = self.run.policy
        assert answer.failed is not None
        node = answer.decision.verdicts[answer.failed[0]].node
        if replanning.rounds >= policy.replans:
            replanning.ended = f"the {policy.replans} rounds of replanning that the policy allows are spent"
            return
        number = replanning.rounds + 1
        diagnosis = diagnose(answer, number=number, left=policy.replans - number)
        versions = {
            verdict.node.name: verdict.pinned.version.text
            for verdict in answer.decision.verdicts.values()
            if verdict.pinned is not None
        }
        stated = answer.as_json()["failure"].get("fallback")
        question = Question(
            self.asked + 1,
            node.name,
            node.operation.name,
            diagnosis["parameters"],
            _as_markdown(node, diagnosis),
            diagnosis["message"],
            versions,
            f"{stated['op']}, because {stated['because']}" if stated and policy.fallbacks != "never" else "",
        )
        try:
            self._suspend(question, keep=keep)
        except RuntimeError as error:  # Prefect refuses, as it does for a run that is being cancelled
            replanning.ended = f"the run could not be suspended to ask for parameters: {error}"

    def _ask_again(self, complaints: list[str]) -> NoReturn:
        """Ask the last question again, with what was given and what is wrong with it."""
        last = self.answered[-1]
        told = "; ".join(complaints)
        if len(self.answered) >= self.run.policy.replans:
            raise InputFailure(
                f"the parameters that were given are wrong, and the {self.run.policy.replans} rounds of replanning "
                f"that the policy allows are spent: {told}",
                where=last.question.node,
                remedy="mend the plan and run it again; what was computed is kept",
            )
        self.run.notice(last.question.node, f"the parameters that were given are wrong: {told}")
        of_plan = last.question.of_plan if last.question.of_plan is not None else last.question.parameters
        question = replace(
            last.question, number=self.asked + 1, parameters={**of_plan, **last.given}, as_text=[], of_plan=of_plan
        )
        self._suspend(question, [f"- what was given is wrong: {_plain(each)}" for each in complaints])
        raise AssertionError("a suspended run goes on in a new process")

    def _suspend(self, question: Question, first: Sequence[str] = (), keep: Callable[[], None] | None = None) -> None:
        policy = self.run.policy
        operation = operations.get_known(question.operation)
        until = datetime.now(UTC) + timedelta(seconds=policy.decision_seconds)
        left = policy.replans - len(self.answered) - 1
        closing = (
            f"Give the parameters with which it is to go on; {left} further rounds after this one. "
            f"Without an answer until {until:%Y-%m-%d %H:%M} UTC the run fails; what it computed is kept."
        )
        description = "\n".join([*first, "", question.about, "", closing])
        form, as_text = form_of(operation, question.parameters, description, question.fallback)
        create_flow_run_input(_asked(question.number), asdict(replace(question, as_text=as_text)))
        self.run.notice(question.node, f"waits for a person's parameters until {until:%Y-%m-%d %H:%M} UTC")
        if keep is not None:
            keep()
        key, seconds = _pause_key(question.number), max(1, round(policy.decision_seconds))
        suspend_flow_run(wait_for_input=form, key=key, timeout=seconds)

    def _caveats(self, checked: Checked) -> list[str]:
        """Return a caveat for each node whose parameters a person changed: those of now against those of the plan."""
        first: dict[str, Question] = {}
        for each in self.answered:
            first.setdefault(each.question.node, each.question)
        nodes = checked.graph.nodes
        found = [told_parameters(asked.parameters, nodes[name]) for name, asked in first.items() if name in nodes]
        return [text for text in found if text is not None]

    def _tell_changed_sources(self, checked: Checked) -> None:
        then = self.answered[-1].question.versions
        for node in checked.graph.nodes.values():
            if node.source is None or node.name not in then:
                continue
            try:
                now = pin(node.source, self.run.workspace).version.text
            except Failure:
                continue  # the decision asks the same, and says what is wrong
            if now != then[node.name]:
                told = f"changed while the run was suspended, from version {then[node.name][:16]} to {now[:16]}"
                self.run.notice(node.name, told)


class _Form(RunInput):
    """A form whose schema names bounds as JSON Schema does, so that the server holds an answer to them."""

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the JSON Schema."""
        return super().model_json_schema(*args, **{"schema_generator": StandardBounds, **options})


def form_of(
    operation: Operation, present: Mapping[str, Any], description: str, fallback: str = ""
) -> tuple[type[RunInput], list[str]]:
    """Return the form that asks for an operation's parameters, and the names of those that it asks for as JSON text.

    Parameters
    ----------
    operation : whose parameters they are: types, bounds and descriptions are those of its parameter model.
    present : the values that the form begins with.
    description : shown above the form, as markdown.
    fallback : the fallback that may be accepted instead, if there is one.
    """
    fields: dict[str, Any] = {}
    as_text: list[str] = []
    for position, (name, info) in enumerate(operation.parameters.model_fields.items()):
        kind: Any = info.annotation
        for constraint in info.metadata:
            kind = Annotated[kind, constraint]
        about, value = info.description, present.get(name, PydanticUndefined)
        if not _has_form(kind):
            kind, as_text = str, [*as_text, name]
            about = f"{about or name} (as JSON)"
            value = json.dumps(value, ensure_ascii=False) if name in present else PydanticUndefined
        # A parameter may be called `save`, which a RunInput has a method for.
        field_name = f"{name}_" if hasattr(RunInput, name) else name
        fields[field_name] = (
            kind,
            Field(default=value, alias=name, title=name, description=about, json_schema_extra={"position": position}),
        )
    if fallback:
        told = f"Go on with the step's fallback instead: {fallback}"
        fields[ACCEPT_FALLBACK] = (bool, Field(default=False, title=ACCEPT_FALLBACK, description=told))
    form: type[RunInput] = create_model(f"{operation.name}-parameters", __base__=_Form, **fields)
    form._description = description
    return form, as_text


def _has_form(kind: Any) -> bool:
    try:
        TypeAdapter(kind).json_schema()
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return False
    return True


def _as_markdown(node: Node, diagnosis: Mapping[str, Any]) -> str:
    lines = [f"**{_plain(described(node))} failed:** {_plain(str(diagnosis['what']))}"]
    if diagnosis["remedy"]:
        lines += ["", f"What can be done: {_plain(str(diagnosis['remedy']))}"]
    taken = [
        layer for found in diagnosis["inputs"].values() for layer in (found if isinstance(found, list) else [found])
    ]
    known = [layer for layer in taken if "rows" in layer]
    if known:
        lines += ["", "| input | rows | CRS | geometry | columns | defects |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [_row(layer) for layer in known]
    good = [f"- last good: {_plain(each['step'])} `{each['fingerprint'][:16]}`" for each in diagnosis["last_good"]]
    return "\n".join([*lines, "", *good] if good else lines)


def _row(facts: Mapping[str, Any]) -> str:
    columns = ", ".join(facts["columns"])
    defects = ", ".join(f"{count} {what}" for what, count in facts["defects"].items() if count)
    cells = (facts["name"], facts["rows"], facts["crs"], ", ".join(facts["geometry_types"]), columns, defects)
    return "| " + " | ".join(_plain(str(cell)) if cell not in (None, "") else "–" for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return text that markdown takes for text: names and messages of a plan are other people's."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#!" else letter for letter in text.replace("\n", " "))


def _read(question: Question, answer: Mapping[str, Any]) -> Answered:
    given: dict[str, Any] = {}
    complaints: list[str] = []
    of_plan = question.of_plan if question.of_plan is not None else question.parameters
    for name, stated in answer.items():
        value = stated
        if question.fallback and name == ACCEPT_FALLBACK:
            continue
        if name in question.as_text and isinstance(stated, str):
            try:
                value = json.loads(stated)
            except ValueError as error:
                complaints.append(f"parameter {name!r} is asked for as JSON, and what was given is none: {error}")
                continue
        if name not in of_plan or value != of_plan[name]:
            given[name] = value
    return Answered(question, given, complaints, bool(question.fallback) and answer.get(ACCEPT_FALLBACK) is True)


def _stored(key: str) -> dict[str, Any] | None:
    """Return what lies with the current flow run under a key, if anything does."""
    found: Any = read_flow_run_input(key)
    return found if isinstance(found, dict) else None


def _asked(number: int) -> str:
    return f"geocairn-asked-{number}"


def _pause_key(number: int) -> str:
    return f"parameters-{number}"
