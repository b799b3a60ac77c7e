"""The answer of a run: one object for the reader, with what the answer needs and nothing of how it came about.

What always holds: caveats about the data are those in the records of the outputs, so a reused result tells them too;
recoveries that changed nothing stand in the steps' attempts and the trace alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from geocairn.checkpoint import Checkpoint
from geocairn.classification import Classification, classify
from geocairn.decide import Decision, Verdict
from geocairn.exit_code import exit_code_of
from geocairn.failure import Failure, FailureClass
from geocairn.policy import DEFAULT_POLICY, RecoveryPolicy

Status = Literal["completed", "halted", "needs_input"]


@dataclass
class StepOutcome:
    """What became of one node in a run."""

    outcome: str
    """`reused`, `computed`, `failed`, `not_needed` or `not_reached`."""
    checkpoint: Checkpoint | None = None
    attempts: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    seconds: float | None = None


@dataclass
class Answer:
    """The answer of a run."""

    run_id: str
    decision: Decision
    outcomes: dict[str, StepOutcome]
    caveats: list[str] = field(default_factory=list)
    """Those about this run; those about the data come from the records."""
    recorded: bool = True
    """Whether Prefect has a record of the run."""
    seconds: float = 0.0
    policy: RecoveryPolicy = DEFAULT_POLICY
    """What recovery was allowed to do."""
    replanning: str = ""
    """Why the plan was not changed (again) after the failure that ended the run."""

    @property
    def failed(self) -> tuple[str, BaseException] | None:
        """The node that ended the run, and its error; the first in the plan's order."""
        for name in self.decision.verdicts:
            outcome = self.outcomes.get(name)
            if outcome is not None and outcome.error is not None and outcome.outcome == "failed":
                return name, outcome.error
        return None

    @property
    def classification(self) -> Classification | None:
        """The class of the failure that ended the run."""
        failed = self.failed
        return classify(failed[1]) if failed is not None else None

    @property
    def status(self) -> Status:
        """How the run ended."""
        found = self.classification
        if found is None:
            return "completed"
        return "needs_input" if found.failure_class is FailureClass.INPUT else "halted"

    @property
    def exit_code(self) -> int:
        """The command line's exit code."""
        found = self.classification
        return exit_code_of(found.failure_class if found is not None else None)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as one JSON object."""
        body: dict[str, Any] = {
            "status": self.status,
            "run_id": self.run_id,
            "plan": self.decision.graph.plan.name,
            "unchanged": all(entry.outcome in ("reused", "not_needed") for entry in self.outcomes.values()),
            "recorded": self.recorded,
            "seconds": round(self.seconds, 3),
            "caveats": self._caveats(),
            "outputs": self._outputs(),
            "steps": [self._step(verdict) for verdict in self.decision.of_steps],
            "sources": [self._source(verdict) for verdict in self._of_kind("source")],
        }
        if self.failed is not None:
            body["failure"] = self._failure(*self.failed)
        return body

    def _of_kind(self, kind: str) -> list[Verdict]:
        return [verdict for verdict in self.decision.verdicts.values() if verdict.node.kind == kind]

    def _caveats(self) -> list[str]:
        found = list(self.caveats)
        found += [verdict.caveat for verdict in self.decision.verdicts.values() if verdict.caveat is not None]
        for node in self.decision.graph.targets:
            outcome = self.outcomes.get(node.name)
            checkpoint = outcome.checkpoint if outcome else None
            if checkpoint is None:
                continue
            found += checkpoint.caveats
            facts = checkpoint.facts
            if facts.outside_area:
                found.append(
                    f"{facts.outside_area} of {facts.rows} rows of {node.name.removeprefix('output:')} lie outside the "
                    f"area of use of {facts.crs_name}: is the CRS right, and are x and y in their places?"
                )
        return list(dict.fromkeys(found))

    def _outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = {}
        for node in self.decision.graph.targets:
            outcome = self.outcomes.get(node.name)
            checkpoint = outcome.checkpoint if outcome else None
            if checkpoint is None or outcome is None or outcome.outcome not in ("reused", "computed"):
                continue
            facts = checkpoint.facts
            published = checkpoint.publication
            entry: dict[str, Any] = {
                "uri": published.uri if published else self._reference(checkpoint),
                "fingerprint": checkpoint.inputs["layer"] if published else checkpoint.fingerprint,
                "rows": facts.rows,
                "crs": facts.crs_name,
                "geometry_types": facts.geometry_types,
                "bounds": facts.bounds or [],
                "outcome": {"computed": "written"}.get(outcome.outcome, outcome.outcome),
            }
            if published and published.highlight is not None:
                entry["highlight"] = _in_stated_order(checkpoint, published.highlight)
            outputs[node.name.removeprefix("output:")] = entry
        return outputs

    def _reference(self, checkpoint: Checkpoint) -> str | None:
        if checkpoint.layer is None:
            return checkpoint.source["uri"] if checkpoint.source else None
        return checkpoint.layer.key

    def _step(self, verdict: Verdict) -> dict[str, Any]:
        outcome = self.outcomes.get(verdict.node.name, StepOutcome("not_reached"))
        checkpoint = outcome.checkpoint
        entry: dict[str, Any] = {
            "name": verdict.node.name,
            "op": verdict.node.operation.name,
            "fingerprint": verdict.fingerprint,
            "outcome": outcome.outcome,
            "backend": checkpoint.backend if checkpoint else None,
            "attempts": outcome.attempts,
            "seconds": checkpoint.seconds if checkpoint else None,
            "rows": checkpoint.facts.rows if checkpoint else None,
            "bytes": checkpoint.layer.size if checkpoint and checkpoint.layer else None,
            "ref": checkpoint.layer.key if checkpoint and checkpoint.layer else None,
        }
        if verdict.node.exact is not None:
            entry["fallback_for"] = verdict.node.exact.operation.name
        if outcome.outcome == "computed" and verdict.because:
            entry["because"] = [reason.as_json() for reason in verdict.because]
        return entry

    def _source(self, verdict: Verdict) -> dict[str, Any]:
        outcome = self.outcomes.get(verdict.node.name, StepOutcome("not_reached"))
        facts = outcome.checkpoint.facts if outcome.checkpoint else None
        pinned = verdict.pinned
        return {
            "name": verdict.node.name,
            "uri": pinned.uri if pinned else None,
            "version": pinned.version.text if pinned else None,
            "fingerprint": verdict.fingerprint,
            "outcome": {"computed": "read"}.get(outcome.outcome, outcome.outcome),
            "rows": facts.rows if facts else None,
            "defects": {"invalid": facts.invalid, "missing": facts.missing, "empty": facts.empty} if facts else None,
        }

    def _failure(self, name: str, error: BaseException) -> dict[str, Any]:
        found = classify(error)
        message = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
        if not found.known:
            message += " (no rule knows this failure, so it halts)"
        body: dict[str, Any] = {
            "step": name.removeprefix("output:"),
            "class": found.failure_class.value,
            "action": self.policy.action(found.failure_class),
            "message": message,
            "last_good": self._last_good(name),
        }
        step = self.decision.verdicts[name].node.step
        if step is not None and step.fallback is not None and self.decision.verdicts[name].node.exact is None:
            body["fallback"] = {"op": step.fallback.op, "because": step.fallback.because}
        return {**body, "replanning": self.replanning} if self.replanning else body

    def _last_good(self, name: str) -> list[dict[str, Any]]:
        """Return the last good checkpoint on each branch that leads to the failed node."""
        found: dict[str, dict[str, Any]] = {}
        waiting = list(self.decision.verdicts[name].node.input_names)
        while waiting:
            current = waiting.pop(0)
            outcome = self.outcomes.get(current)
            checkpoint = outcome.checkpoint if outcome else None
            if checkpoint is None:
                waiting += self.decision.verdicts[current].node.input_names
            elif checkpoint.kind == "step":
                reference = checkpoint.layer.key if checkpoint.layer else None
                found[current] = {"step": current, "fingerprint": checkpoint.fingerprint, "ref": reference}
        return list(found.values())


def _in_stated_order(checkpoint: Checkpoint, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return highlighted rows with columns in the plan's order, which the record (sorted JSON) does not keep."""
    columns = (checkpoint.parameters.get("highlight") or {}).get("columns")
    return [{name: row[name] for name in columns or row if name in row} for row in rows]


def unchanged_answer(decision: Decision, run_id: str) -> Answer:
    """Return the answer of a run that has nothing to do, made from records alone."""
    outcomes = {
        name: StepOutcome("not_reached")
        if verdict.blocked
        else StepOutcome({"reuse": "reused"}.get(verdict.outcome, verdict.outcome), verdict.checkpoint)
        for name, verdict in decision.verdicts.items()
    }
    for verdict in decision.failures:
        outcomes[verdict.node.name] = StepOutcome("failed", verdict.checkpoint, error=verdict.failure)
    return Answer(run_id, decision, outcomes, recorded=False)
