"""A decided plan as Prefect task runs: what is there shows as Cached, what is missing is computed, branches side by
side.

What always holds: fingerprints and need come from the one decision; a step whose source changed or whose input's
layer was lost sends the whole plan back to the decision, a bounded number of times; whatever finished stays in the
store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from prefect.futures import PrefectFuture

from geocairn.answer import Answer, StepOutcome
from geocairn.checkpoint import Checkpoint, LayerFacts
from geocairn.classification import classify
from geocairn.decide import UNREADABLE, Decision, Verdict, decide, decision_record
from geocairn.failure import Failure, SourceChanged
from geocairn.fallbacks import fallbacks_due
from geocairn.lineage import planned
from geocairn.patience import patiently
from geocairn.plan.graph import Graph
from geocairn.recoveries import Recovery
from geocairn.run_record import keep_decision
from geocairn.step_call import FallbackFor, Run
from geocairn.stores.belief import LayerLost
from geocairn.stores.runs import RunInFlight
from geocairn.stores.traces import read_decision
from geocairn.tasks.runs import register, unregister
from geocairn.tasks.signature import argument_name
from geocairn.tasks.step import StepTask, step

CHANGES = 3
"""How often a plan is decided because its sources change while they are read, before that is given up."""
LOSSES = 2
"""How often one layer may be lost in a run; each loss sets its record aside, so that its step runs again."""

Listener = Callable[[str, str, str], None]
"""Told the name, the operation and the outcome of a node as it ends."""


def run_graph(graph: Graph, run: Run, listener: Listener | None = None, accepted: Collection[str] = ()) -> Answer:
    """Run a checked plan inside a Prefect flow run and return its answer.

    Parameters
    ----------
    graph : the plan.
    run : the run that its steps belong to, with the policy that they are recovered by.
    listener : hears of each node as it ends.
    accepted : steps whose fallback a person has accepted for this run.
    """
    register(run)
    workspace, policy = run.workspace, run.policy
    store = workspace.store
    try:
        again = _Again(run, graph, accepted)
        outcomes: dict[str, StepOutcome] = {}
        while True:
            previous = read_decision(store, workspace.scope, graph.plan.name)
            try:
                decision = patiently(
                    functools.partial(decide, graph, workspace, previous=previous, unreadable=again.unreadable),
                    policy,
                    lambda text: run.notice("plan", text),
                )
            except Exception:
                if not again.unreadable or not outcomes:
                    raise
                break  # the version before does not answer for it either: the failure of the present one stands
            with RunInFlight(store, run.run_id, decision.fingerprints()):
                outcomes = _Round(decision, run, listener).run()
            reached = {name for name, outcome in outcomes.items() if outcome.outcome in ("reused", "computed")}
            hindered = keep_decision(
                decision_record(decision, previous, reached=reached), previous, workspace, graph.plan.name
            )
            if hindered is not None:
                run.notice("plan", hindered)
            changed = again.graph_after(decision, outcomes)
            if changed is None:
                break
            graph = changed
        slow = run.recoveries.slow(policy.slow_recovery_seconds)
        return Answer(run.run_id, decision, outcomes, caveats=[*run.caveats, *slow], policy=policy)
    finally:
        unregister(run.run_id)
        _clear(run)


def _clear(run: Run) -> None:
    """Remove what was kept for the run alone; where that fails it is left to the sweep: no other run believes it."""
    try:
        run.workspace.store.clear_run(run.run_id)
    except Failure as failure:
        run.notice("plan", f"the run's own layers could not be removed, the sweep will do it: {failure}")


class _Again:
    """Whether a plan is to be decided again after a round, and as which graph; a bounded number of times."""

    def __init__(self, run: Run, graph: Graph, accepted: Collection[str]) -> None:
        self.run = run
        self.first = graph
        self.accepted = accepted
        self.changes = 0
        self.losses: dict[str, int] = {}
        self.unreadable: dict[str, BaseException] = {}
        """Sources whose present version cannot be read, where the one before may answer."""

    def graph_after(self, decision: Decision, outcomes: dict[str, StepOutcome]) -> Graph | None:
        """Return the graph to be decided next; None when the round's outcome is final."""
        reason = self._changed_or_lost(decision, outcomes)
        if reason is not None:
            self.run.notice("plan", f"decided again: {reason}")
            return self.first if isinstance(reason, SourceChanged) else decision.graph
        unreadable = {
            name: outcome.error
            for name, outcome in outcomes.items()
            if outcome.error is not None
            and decision.verdicts[name].node.allow_older
            and name not in self.unreadable
            and classify(outcome.error).failure_class in UNREADABLE
        }
        if unreadable:
            self.unreadable |= unreadable
            for name, error in unreadable.items():
                self.run.notice(f"source {name}", f"cannot be read, so its version before is looked at: {error}")
            return decision.graph
        graph = decision.graph
        for name in fallbacks_due(decision, outcomes, self.run.policy, self.accepted):
            graph = self._fall_back(graph, name, outcomes[name])
        return graph if graph is not decision.graph else None

    def _fall_back(self, graph: Graph, name: str, outcome: StepOutcome) -> Graph:
        changed = graph.with_fallback(name)
        operation = changed.nodes[name].operation.name
        self.run.recoveries.add(name, Recovery.FELL_BACK, op=operation, error=str(outcome.error))
        self.run.notice(f"step {name}", f"its fallback {operation} takes its place: {outcome.error}")
        return changed

    def _changed_or_lost(self, decision: Decision, outcomes: dict[str, StepOutcome]) -> Failure | None:
        """Return the changed source or lost layer for which the plan is decided again, unless that went on too long."""
        errors = [outcome.error for outcome in outcomes.values()]
        found: list[Failure] = [error for error in errors if isinstance(error, SourceChanged | LayerLost)]
        self.changes += any(isinstance(error, SourceChanged) for error in found)
        for print_ in {error.fingerprint for error in found if isinstance(error, LayerLost)}:
            self.losses[print_] = self.losses.get(print_, 0) + 1
            for name, verdict in decision.verdicts.items():
                if verdict.fingerprint == print_:
                    self.run.recoveries.add(
                        name.removeprefix("output:"), Recovery.ROLLED_BACK, error="its layer is lost"
                    )
        given_up = self.changes >= CHANGES or any(count > LOSSES for count in self.losses.values())
        return found[0] if found and not given_up else None


class _Round:
    """One pass over a decided plan."""

    def __init__(self, decision: Decision, run: Run, listener: Listener | None) -> None:
        self.decision = decision
        self.run_ = run
        run.planned = {
            verdict.fingerprint: planned(verdict.node, verdict.record, verdict.pinned)
            for verdict in decision.verdicts.values()
        }
        for verdict in decision.verdicts.values():
            if verdict.pinned is not None:
                run.hold(verdict.pinned)
        self.listener = listener
        self.futures: dict[str, PrefectFuture[Checkpoint]] = {}
        self.outcomes: dict[str, StepOutcome] = {}

    def run(self) -> dict[str, StepOutcome]:
        """Submit everything that is needed, wait for it, and say what became of each node."""
        for name, verdict in self.decision.verdicts.items():
            if verdict.failure is not None:
                self._end(verdict, StepOutcome("failed", error=verdict.failure))
            elif verdict.blocked:
                self._end(verdict, StepOutcome("not_reached"))
            elif verdict.outcome == "not_needed":
                self._end(verdict, StepOutcome("not_needed"))
            elif self._reachable(verdict):
                self.futures[name] = self._submit(verdict)
            else:
                self._end(verdict, StepOutcome("not_reached"))
        for name, future in self.futures.items():
            future.wait()
            self._end(self.decision.verdicts[name], self._outcome(self.decision.verdicts[name], future))
        return {name: self.outcomes[name] for name in self.decision.verdicts}

    def _reachable(self, verdict: Verdict) -> bool:
        ended = [self.outcomes.get(name) for name in verdict.node.input_names]
        return not any(outcome is not None and outcome.outcome in ("failed", "not_reached") for outcome in ended)

    def _submit(self, verdict: Verdict) -> PrefectFuture[Checkpoint]:
        node, task = verdict.node, self._task(verdict)
        inputs: dict[str, Any] = {}
        for role, names in node.inputs.items():
            inputs[role] = self._input(names) if isinstance(names, str) else [self._input(name) for name in names]
        parameters = {
            argument_name(node.operation, name): getattr(node.parameters, name)
            for name in sorted(node.parameters.model_fields_set)
        }
        future: PrefectFuture[Checkpoint] = task.submit(**inputs, **parameters)
        return future

    def _task(self, verdict: Verdict) -> StepTask:
        node = verdict.node
        options: dict[str, Any] = {
            "step_name": node.name.removeprefix("output:"),
            "pinned": verdict.pinned,
            "context_names": tuple(node.output.context) if node.output is not None else None,
        }
        exact = verdict.record.get("exact")
        if exact is not None and node.exact is not None:
            options["fallback_for"] = FallbackFor(exact, node.exact.operation.name, verdict.record["because"])
        plan_step = node.step
        if plan_step is not None:
            options |= {
                "expect": plan_step.expect,
                "allow_empty": plan_step.allow_empty,
                "on_invalid": plan_step.on_invalid,
                # What the run is for is kept, or there would be nothing to answer with.
                "checkpoint": "always" if node in self.decision.graph.targets else plan_step.checkpoint,
                "retention": plan_step.retention,
                "backends": plan_step.backends,
                "retries": plan_step.retries,
            }
            if plan_step.timeout is not None:
                options["timeout_seconds"] = plan_step.timeout
        return step(node.operation).with_options(**options)

    def _input(self, name: str) -> Any:
        """Return what a task takes for an input: the future of its node, or a stand-in that carries the fingerprint."""
        return self.futures[name] if name in self.futures else stand_in(self.decision.verdicts[name])

    def _outcome(self, verdict: Verdict, future: PrefectFuture[Checkpoint]) -> StepOutcome:
        state = future.state
        attempts = self.run_.recoveries.attempts.get(verdict.node.name.removeprefix("output:"), [])
        if state.is_completed():
            result: Any = state.result(raise_on_failure=False)
            outcome = "computed" if verdict.fingerprint in self.run_.computed else "reused"
            return StepOutcome(outcome, result, attempts)
        if state.name == "NotReady" or state.is_pending():
            return StepOutcome("not_reached")
        error: Any = state.result(raise_on_failure=False)
        if not isinstance(error, BaseException):
            error = RuntimeError(state.message or f"the task run ended as {state.name}")
        return StepOutcome("failed", None, attempts, error)

    def _end(self, verdict: Verdict, outcome: StepOutcome) -> None:
        self.outcomes[verdict.node.name] = outcome
        if self.listener is not None:
            self.listener(verdict.node.name, verdict.node.operation.name, outcome.outcome)


def stand_in(verdict: Verdict) -> Checkpoint:
    """Return a checkpoint that carries a fingerprint only, for the input of a step that is reused."""
    return verdict.checkpoint or Checkpoint(
        fingerprint=verdict.fingerprint,
        kind="step",
        operation=verdict.node.operation.name,
        version="",
        parameters={},
        inputs={},
        facts=LayerFacts(rows=0),
    )
