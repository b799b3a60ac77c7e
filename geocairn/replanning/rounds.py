"""Replanning: a plan that changes while it runs, because an input failure showed that it was wrong.

A planner proposes another plan, or a person gives other parameters of the failed step. What always holds: a changed
plan goes through the same check as any; rounds are bounded by the policy, and a plan that was wrong costs one; whoever
proposes gets copies; and what was changed is told, as a caveat where it changes what the answer means.
"""

from __future__ import annotations

import copy
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from geocairn.answer import Answer
from geocairn.classification import classify
from geocairn.failure import Failure, FailureClass, InputFailure
from geocairn.plan.check import Checked
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import Document, document_of
from geocairn.plan.graph import Node, output_names
from geocairn.plan.model import Output, Plan
from geocairn.policy import RecoveryPolicy
from geocairn.replanning.changes import changes, described, shown
from geocairn.replanning.diagnosis import diagnose, present_parameters
from geocairn.replanning.planners import Planner

Check = Callable[[Document], Checked]
Say = Callable[[str, str], None]
"""Told a step and what is to be said of it, for the log and the trace."""


def wants_replanning(answer: Answer, policy: RecoveryPolicy) -> bool:
    """Return whether a run ended with an input failure that the policy sends back to whoever made the plan."""
    found = answer.classification
    return (
        found is not None
        and found.failure_class is FailureClass.INPUT
        and policy.action(found.failure_class) == "replan"
    )


@dataclass
class Replanning:
    """The rounds of replanning of one run."""

    document: Document
    """The plan as it is run now."""
    checked: Checked
    rounds: int = 0
    caveats: list[str] = field(default_factory=list)
    """What was changed of what the answer means."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Each round, for the trace: its number, who proposed, for which failure, and what was changed."""
    first: dict[str, Any] | None = None
    """The plan that the run began with, once another one is run."""
    ended: str = ""
    """Why there is no further round, for the failure that ends the run."""

    def propose(self, planner: Planner, answer: Answer, policy: RecoveryPolicy, check: Check, say: Say) -> bool:
        """Ask a planner for a changed plan until it gives one that can be run; return whether it did.

        Parameters
        ----------
        planner : whom to ask.
        answer : the answer of the run, which ended with an input failure.
        policy : bounds the rounds.
        check : the check that any plan goes through; raises PlanError.
        say : hears of each round.
        """
        step = str(answer.as_json()["failure"]["step"])
        complaints: list[str] = []
        while self.rounds < policy.replans:
            self.rounds += 1
            diagnosis = diagnose(answer, number=self.rounds, left=policy.replans - self.rounds, complaints=complaints)
            label = f"round {self.rounds} of {policy.replans}: planner {planner.name}"
            try:
                returned = planner.propose(_as_given(self.document.values), step, copy.deepcopy(diagnosis))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's code: whatever it raises ends the replanning
                say(step, f"planner {planner.name} failed:\n{traceback.format_exc().rstrip()}")
                self._end(f"planner {planner.name} failed: {_classified(error)}", step, say, diagnosis)
                return False
            if returned is None:
                self._end(f"planner {planner.name} has no other plan", step, say, diagnosis)
                return False
            try:
                document = proposed(returned, f"the plan of {planner.name}")
                checked = check(document)
            except (PlanError, InputFailure) as error:
                complaints = _complaints(error)
                say(step, f"{label} returned a plan that is wrong: {'; '.join(complaints)}")
                self._note(planner.name, diagnosis, complaints=complaints)
                continue
            except Failure as failure:
                told = f"the plan of planner {planner.name} could not be checked: {_classified(failure)}"
                self._end(told, step, say, diagnosis)
                return False
            found = changes(self.checked.graph, checked.graph)
            if not found:
                self._end(f"planner {planner.name} returned the plan unchanged", step, say, diagnosis)
                return False
            for change in found:
                say(step, f"{label} {change.text}")
            self._note(planner.name, diagnosis, changes=[change.text for change in found])
            self.take(document, checked, [f"planner {planner.name} {each.text}" for each in found if each.meaningful])
            return True
        spent = f"the {policy.replans} rounds of replanning that the policy allows are spent"
        if complaints:
            spent += f", and the last plan of planner {planner.name} was wrong: {'; '.join(complaints)}"
        self.ended = spent
        say(step, spent)
        return False

    def take(self, document: Document, checked: Checked, caveats: Sequence[str]) -> None:
        """Go on with another plan, which was checked."""
        if self.first is None:
            self.first = copy.deepcopy(self.document.values)
        self.document, self.checked = document, checked
        self.caveats += caveats

    def trace(self) -> dict[str, Any]:
        """Return what of it belongs in the trace; nothing where there was no round."""
        found: dict[str, Any] = {}
        if self.first is not None:
            found["first_plan"] = self.first
        if self.history:
            found["replanning"] = self.history
        return found

    def _end(self, reason: str, step: str, say: Say, diagnosis: Mapping[str, Any]) -> None:
        self.ended = reason
        say(step, f"round {diagnosis['round']}: {reason}")
        self.history.append(
            {"round": diagnosis["round"], "step": step, "message": diagnosis["message"], "ended": reason}
        )

    def _note(self, by: str, diagnosis: Mapping[str, Any], **more: Any) -> None:
        told = {key: diagnosis[key] for key in ("round", "step", "message")}
        self.history.append({**told, "by": f"planner {by}", **more})


def proposed(returned: Any, name: str) -> Document:
    """Return the plan that a planner returned as a document.

    Raises
    ------
    PlanError : when it is no mapping and no Plan, or holds what is not data.
    """
    if isinstance(returned, Plan):
        returned = returned.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if not isinstance(returned, Mapping):
        what = f"a planner returns a changed plan (a mapping or a Plan) or None, not {type(returned).__name__}"
        raise PlanError([Complaint(what)], name)
    try:
        return document_of(json.loads(json.dumps(dict(returned), allow_nan=False)), name)
    except (TypeError, ValueError, RecursionError) as error:
        raise PlanError([Complaint(f"a plan is data, and this one holds what is not JSON: {error}")], name) from None


def with_parameters(values: Mapping[str, Any], node: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a copy of a plan in which a step, a source or an output has other parameters.

    Parameters
    ----------
    values : the plan.
    node : the name of the step, source or output, as an answer's failure states it (an output's with `output:`).
    parameters : the new values, by the names of the operation's parameters.

    Returns
    -------
    The changed plan; None where it has no such step, source or output any more.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(values))
    if node.startswith("output:"):
        return _with_output(changed, node.removeprefix("output:"), parameters)
    for step in changed.get("steps") or []:
        if isinstance(step, dict) and str(step.get("name")) == node:
            step["params"] = {**(step.get("params") or {}), **parameters}
            return changed
    sources = changed.get("sources") or {}
    if node not in sources:
        return None
    stated = sources[node]
    sources[node] = {**({"uri": stated} if isinstance(stated, str) else stated), **parameters}
    return changed


def _with_output(values: dict[str, Any], name: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    outputs = values.get("outputs") or []
    names = output_names([Output.model_validate(output) for output in outputs])
    if name not in names:
        return None
    outputs[names.index(name)] |= {{"layer_name": "layer"}.get(key, key): value for key, value in parameters.items()}
    return values


def told_parameters(before: Mapping[str, Any], node: Node) -> str | None:
    """Return the caveat about the parameters that a person gave a node; None where they are what they were.

    Parameters
    ----------
    before : the parameters that it had, as JSON values with defaults filled in.
    node : the node as it is run now.
    """
    now = present_parameters(node)
    given = [f"{name}={shown(value)}" for name, value in now.items() if before.get(name) != value]
    if not given:
        return None
    verb = {"source": "was read", "publication": "was written"}.get(node.kind, "ran")
    return f"{described(node).partition(' (')[0]} {verb} with {', '.join(given)}, given by a person in this run"


def _as_given(values: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(dict(values))


def _complaints(error: PlanError | InputFailure) -> list[str]:
    if isinstance(error, InputFailure):
        return [str(error)]
    return [complaint.text(error.document) for complaint in error.complaints]


def _classified(error: BaseException) -> str:
    found = classify(error)
    known = found.failure_class.value if found.known else f"{found.failure_class.value}, no rule knows it"
    message = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
    return f"{message} (class {known})"
