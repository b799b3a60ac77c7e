"""The course of a plan: run, and after an input failure run again as its planner or a person changes it.

What always holds: all rounds are one run under one id, with one trace; the trace is kept before a run is suspended, so
that it says how the run stands if nobody answers.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection
from typing import Any

from geocairn.answer import Answer
from geocairn.checkpoint import parse_time
from geocairn.failure import InputFailure
from geocairn.fallbacks import hold_accepted
from geocairn.flows.chain import Listener, run_graph
from geocairn.flows.planning import checked_plan
from geocairn.flows.suspension import Dialogue, is_served, may_be_answered
from geocairn.patience import patiently
from geocairn.plan.check import Checked
from geocairn.plan.document import Document
from geocairn.replanning.planners import Planner
from geocairn.replanning.rounds import Replanning, wants_replanning
from geocairn.run_record import keep_trace
from geocairn.step_call import Run
from geocairn.stores.traces import read_trace
from geocairn.tasks.events import tell_of_run


class Course:
    """A plan from its start to its last answer, whoever changes it on the way.

    Parameters
    ----------
    run : the run, through all rounds: what it computed, counted and noticed adds up.
    planner : changes the plan after an input failure; None where a person does.
    started : when it began, in seconds since the epoch.
    accepted : steps whose fallback a person has accepted.
    listener : hears of each node as it ends.
    """

    def __init__(
        self, run: Run, planner: Planner | None, started: float, accepted: Collection[str], listener: Listener | None
    ) -> None:
        self.run, self.planner, self.started, self.accepted = run, planner, started, accepted
        self.listener = listener
        self.chain = ""

    def follow(self, document: Document) -> Answer:
        """Run a plan to its end and return its answer, whose trace is kept; does not return from a suspension.

        Raises
        ------
        PlanError : for a plan that is wrong, with all complaints, before anything runs.
        """
        self.chain = str(document.values.get("name") or "plan")
        dialogue = Dialogue(self.run, self._check) if self.planner is None and is_served() else None
        if dialogue is None:
            replanning = Replanning(document, self._check(document))
        else:
            if dialogue.answered:
                self._go_on()
            replanning = dialogue.begin(document)
            self.accepted = [*self.accepted, *dialogue.accepted]
        hold_accepted(self.accepted, replanning.checked.graph)
        answer = self._run(replanning)
        if dialogue is not None and may_be_answered(answer, self.run.policy):
            dialogue.ask(answer, replanning, lambda: self._suspending(answer, replanning))
        while self.planner is not None and wants_replanning(answer, self.run.policy):
            if not replanning.propose(self.planner, answer, self.run.policy, self._check, self.run.notice):
                break
            self._tell("replanned", planner=self.planner.name, round=replanning.rounds)
            answer = self._run(replanning)
        answer.replanning = replanning.ended
        self._keep(answer, replanning)
        return answer

    def _check(self, document: Document) -> Checked:
        say = functools.partial(self.run.notice, "plan")
        return patiently(lambda: checked_plan(document, self.run.workspace, []), self.run.policy, say)

    def _run(self, replanning: Replanning) -> Answer:
        answer = run_graph(replanning.checked.graph, self.run, self.listener, self.accepted)
        answer.caveats[:0] = replanning.caveats
        answer.seconds = time.time() - self.started
        return answer

    def _keep(self, answer: Answer, replanning: Replanning) -> None:
        run = self.run
        keep_trace(
            answer,
            run.workspace,
            replanning.document.values,
            self.started,
            notices=run.notices,
            **run.recoveries.told(),
            replanning=replanning.trace(),
        )

    def _go_on(self) -> None:
        """Take over from the trace what happened before the run was suspended."""
        run = self.run
        try:
            before = read_trace(run.workspace.store, run.run_id, {run.workspace.scope})
        except InputFailure:
            run.notice(
                "plan", "what happened before the suspension is not known: its trace could not be kept, or is gone"
            )
            return
        self.started = parse_time(before["started"])
        run.notices += before["notices"]
        run.recoveries.merge(before)
        run.notice("plan", "goes on after a suspension")

    def _suspending(self, answer: Answer, replanning: Replanning) -> None:
        """Keep how the run stands if nobody answers, and tell that somebody is asked."""
        self._keep(answer, replanning)
        failure = answer.as_json()["failure"]
        self._tell("suspended", step=failure["step"], message=failure["message"])

    def _tell(self, what: str, **details: Any) -> None:
        tell_of_run(self.run.run_id, self.chain, what, **details)
