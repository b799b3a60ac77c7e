"""The decision: what of a plan is there to be reused, what must be computed, and why.

Fingerprints are made forwards, from the sources' pinned versions; need is decided backwards, from the outputs. What
always holds: `status`, `run` and the flow use this one decision; a look-up that failed is raised and never taken for
a miss; a step whose checkpoint is missing but whose consumers are all there is not needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from geocairn.checkpoint import Checkpoint
from geocairn.classification import classify
from geocairn.expectation import unmet
from geocairn.failure import Failure, FailureClass, InputFailure
from geocairn.fingerprint import components, fallback_record, fingerprint, publication_record, step_record
from geocairn.gate import GATE_VERSION
from geocairn.pinning import PinnedSource, pin, pinned_at
from geocairn.plan.graph import Graph, Node
from geocairn.published import target_stands, target_uri
from geocairn.sources.version import SourceVersion
from geocairn.stores.belief import LookUp
from geocairn.workspace import Workspace

Outcome = Literal["reuse", "compute", "not_needed"]

UNREADABLE = (FailureClass.INPUT, FailureClass.TRANSIENT)
"""Classes of failure by which a source counts as unreadable, so that its version before may answer. Not fatal ones: who
may not read a source is not answered from what was read of it before."""

_PRESENT = "present"


@dataclass(frozen=True)
class Because:
    """One component that makes a step stale, with its value before and now."""

    component: str
    before: Any
    now: Any

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"component": self.component, "before": self.before, "now": self.now}


@dataclass
class Verdict:
    """What was decided about one node."""

    node: Node
    fingerprint: str
    record: Mapping[str, Any]
    found: LookUp
    outcome: Outcome = "not_needed"
    because: list[Because] = field(default_factory=list)
    pinned: PinnedSource | None = None
    moved: bool = False
    """For a publication: whether what lies at the target is not what was published there."""
    failure: InputFailure | None = None
    """For a reused step: the plan's present expectation that its recorded facts do not meet."""
    older: BaseException | None = None
    """For a source that is held to the version before: why the present one cannot be read."""
    blocked: bool = False
    """Whether a reused step that it is made from fails the plan's expectations: a run does not reach it."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The believed checkpoint, if there is one; of a publication only while its output stands."""
        return None if self.moved else self.found.checkpoint

    @property
    def caveat(self) -> str | None:
        """What a run on it has to tell: that a source is not the present one."""
        if self.older is None or self.pinned is None:
            return None
        version = self.pinned.version.text
        shown = version[:12] if len(version) == 64 else version
        return (
            f"source {self.node.name}: answered from its version {shown}, since the present one cannot be read: "
            + str(self.older)
        )

    @property
    def present(self) -> bool:
        """Whether its result is there to be reused."""
        return self.checkpoint is not None

    @property
    def older_gate(self) -> int | None:
        """The version of the gate that let it through, where that is not the present one: a run gates it again."""
        checkpoint = self.checkpoint
        if checkpoint is None or self.node.kind == "publication" or checkpoint.facts.gate == GATE_VERSION:
            return None
        return checkpoint.facts.gate

    @property
    def missing_because(self) -> str:
        """Why its result is not there."""
        return "output missing or changed" if self.moved else self.found.reason


@dataclass
class Decision:
    """What was decided about a plan."""

    graph: Graph
    verdicts: dict[str, Verdict]

    @property
    def unchanged(self) -> bool:
        """Whether everything that the run is for is there, checked, under its fingerprint."""
        return not self.to_compute and not self.failures and not self.to_gate

    @property
    def to_compute(self) -> list[Verdict]:
        """What must be read, computed or published, in order."""
        return [verdict for verdict in self.verdicts.values() if verdict.outcome == "compute"]

    @property
    def to_gate(self) -> list[Verdict]:
        """What is reused and was let through by an older gate: its layer is read once, and gated again."""
        return [v for v in self.verdicts.values() if v.outcome == "reuse" and v.older_gate is not None]

    @property
    def failures(self) -> list[Verdict]:
        """Reused steps that do not meet the plan's present expectations."""
        return [verdict for verdict in self.verdicts.values() if verdict.failure is not None]

    @property
    def of_steps(self) -> list[Verdict]:
        """The verdicts of the plan's steps."""
        return [verdict for verdict in self.verdicts.values() if verdict.node.kind == "step"]

    def fingerprints(self) -> list[str]:
        """Return the fingerprints that a run of this decision may read."""
        return [verdict.fingerprint for verdict in self.verdicts.values()]


def decide(
    graph: Graph,
    workspace: Workspace,
    *,
    previous: Mapping[str, Any] | None = None,
    unreadable: Mapping[str, BaseException] | None = None,
) -> Decision:
    """Decide what of a plan to reuse and what to compute.

    Parameters
    ----------
    graph : the checked plan.
    workspace : its store, scope and folder.
    previous : the plan's last decision, to say what changed; see `decision_record`.
    unreadable : sources whose present version turned out unreadable, and why. They are held to the version before,
        where the plan allows it and results made from it are all that is needed.

    Raises
    ------
    Failure : when a source is not there, or the store does not answer; never a miss.
    """
    verdicts = _forwards(graph, workspace, previous or {}, unreadable or {})
    found = workspace.store.look_up_many([verdict.fingerprint for verdict in verdicts.values()])
    for verdict in verdicts.values():
        verdict.found = found[verdict.fingerprint]
        if verdict.node.kind == "publication" and verdict.checkpoint is not None:
            verdict.moved = not target_stands(verdict.checkpoint, workspace)
    _backwards(graph, verdicts)
    for verdict in verdicts.values():
        taken = [verdicts[name] for name in verdict.node.input_names]
        for source in (verdict, *taken):
            if source.older is not None and verdict.outcome == "compute":
                raise source.older  # of the version before there is no copy to compute from
    for verdict in verdicts.values():
        inputs = [verdicts[name] for name in verdict.node.input_names]
        verdict.blocked = any(each.blocked or each.failure is not None for each in inputs)
        if not verdict.blocked:
            _hold(verdict)
        if verdict.outcome == "reuse" and verdict.older_gate is not None:
            verdict.because = [Because("gate", verdict.older_gate, GATE_VERSION)]
        if verdict.outcome == "compute":
            verdict.because = _because(verdict, (previous or {}).get("nodes", {}).get(verdict.node.name))
    return Decision(graph, verdicts)


def _forwards(
    graph: Graph, workspace: Workspace, previous: Mapping[str, Any], unreadable: Mapping[str, BaseException]
) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {}
    for node in graph.nodes.values():
        inputs = _prints(node, verdicts)
        pinned, older = None, None
        if node.kind == "source":
            pinned, older = _pinned(node, workspace, previous, unreadable)
            record: Mapping[str, Any] = pinned.record
        elif node.kind == "publication":
            record = publication_record(
                node.parameters,
                target_uri(node.parameters, workspace),
                inputs,
                node.output.context if node.output is not None else (),
            )
        else:
            assert node.step is not None
            record = step_record(node.step, node.operation, node.parameters, inputs)
            if node.exact is not None:
                record = _of_fallback(node, record, verdicts)
        print_ = pinned.fingerprint if pinned is not None else fingerprint(record)
        verdicts[node.name] = Verdict(node, print_, record, LookUp(print_, None, None, "missing"), pinned=pinned)
        verdicts[node.name].older = older
    return verdicts


def _pinned(
    node: Node, workspace: Workspace, previous: Mapping[str, Any], unreadable: Mapping[str, BaseException]
) -> tuple[PinnedSource, BaseException | None]:
    """Return a source at its present version, or at the one before with the reason."""
    assert node.source is not None
    reason = unreadable.get(node.name)
    if reason is None:
        try:
            return pin(node.source, workspace), None
        except Failure as failure:
            reason = failure.at(f"source {node.name}") if isinstance(failure, InputFailure) else failure
    entry = previous.get("nodes", {}).get(node.name, {})
    known = entry.get("components", {})
    may = node.allow_older and known.get("version") and classify(reason).failure_class in UNREADABLE
    pinned = (
        pinned_at(node.source, SourceVersion(str(known["version"]), known.get("uri") is None), workspace)
        if may
        else None
    )
    if pinned is None or entry.get("uri") != pinned.uri:  # else another plan of that name, or another place
        raise reason from None
    return pinned, reason


def _of_fallback(node: Node, record: Mapping[str, Any], verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    exact = node.exact
    assert exact is not None
    assert exact.step is not None
    assert exact.step.fallback is not None
    inputs = _prints(exact, verdicts)
    print_ = fingerprint(step_record(exact.step, exact.operation, exact.parameters, inputs))
    return fallback_record(record, print_, exact.step.fallback.because)


def _prints(node: Node, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """Return the fingerprints of a node's inputs by role."""
    return {
        role: verdicts[names].fingerprint if isinstance(names, str) else [verdicts[name].fingerprint for name in names]
        for role, names in node.inputs.items()
    }


def _backwards(graph: Graph, verdicts: dict[str, Verdict]) -> None:
    waiting = [node.name for node in graph.targets]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        verdict = verdicts[name]
        if verdict.present:
            verdict.outcome = "reuse"
            continue
        verdict.outcome = "compute"
        waiting += verdict.node.input_names
    for verdict in verdicts.values():
        if verdict.node.name not in seen and verdict.present:
            verdict.outcome = "reuse"


def _hold(verdict: Verdict) -> None:
    """Hold a reused checkpoint's facts against the plan's present expectations, as the gate does a fresh result."""
    step, checkpoint = verdict.node.step, verdict.checkpoint
    if verdict.outcome != "reuse" or checkpoint is None or step is None:
        return
    # What was read or is published may be empty unless the plan says something else of it.
    allow_empty = step.allow_empty or (step.expect is None and verdict.node.kind != "step")
    found = unmet(step.expect, checkpoint.facts, allow_empty=allow_empty)
    if found:
        verdict.failure = InputFailure("; ".join(found), where=f"step {step.name}")


def _because(verdict: Verdict, before: Mapping[str, Any] | None) -> list[Because]:
    now = _comparable(verdict.record)
    if before is None:
        return [Because("checkpoint", None, verdict.missing_because)]
    if before.get("fingerprint") == verdict.fingerprint:
        return [Because("checkpoint", _PRESENT, verdict.missing_because)]
    known: Mapping[str, Any] = before.get("components", {})
    return [
        Because(name, known.get(name), now.get(name))
        for name in sorted({*known, *now})
        if known.get(name) != now.get(name) or (name in known) != (name in now)
    ] or [Because("checkpoint", _PRESENT, verdict.missing_because)]


def _comparable(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in components(record).items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def decision_record(
    decision: Decision, previous: Mapping[str, Any] | None = None, *, reached: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the decision as it is kept with the store, for the next `status` to say what changed.

    Parameters
    ----------
    decision : the decision.
    previous : the one that was kept before; its entries stay for nodes that were not reached.
    reached : the nodes whose results are there now; all that were present when None.
    """
    nodes = dict((previous or {}).get("nodes", {}))
    for name, verdict in decision.verdicts.items():
        if verdict.node.exact is not None:
            continue  # the next decision is about the exact step again
        if name in reached if reached is not None else verdict.present:
            nodes[name] = {"fingerprint": verdict.fingerprint, "components": _comparable(verdict.record)}
            if verdict.pinned is not None:
                nodes[name]["uri"] = verdict.pinned.uri
    return {
        "plan": decision.graph.plan.name,
        "nodes": {name: nodes[name] for name in nodes if name in decision.verdicts},
    }


def status_record(decision: Decision) -> dict[str, Any]:
    """Return what `status --json` prints."""
    steps = []
    for verdict in decision.of_steps:
        entry = _entry(verdict)
        if verdict.because:
            entry["because"] = [reason.as_json() for reason in verdict.because]
        steps.append(entry)
    others = {
        "sources": [
            {
                **_entry(verdict),
                "uri": verdict.pinned.uri if verdict.pinned else None,
                "version": verdict.pinned.version.text if verdict.pinned else None,
                **({"caveat": verdict.caveat} if verdict.caveat is not None else {}),
            }
            for verdict in decision.verdicts.values()
            if verdict.node.kind == "source"
        ],
        "outputs": [
            {
                **_entry(verdict),
                **({"because": [reason.as_json() for reason in verdict.because]} if verdict.because else {}),
            }
            for verdict in decision.verdicts.values()
            if verdict.node.kind == "publication"
        ],
    }
    return {"plan": decision.graph.plan.name, "unchanged": decision.unchanged, "steps": steps, **others}


def _entry(verdict: Verdict) -> dict[str, Any]:
    checkpoint = verdict.checkpoint
    entry: dict[str, Any] = {
        "name": verdict.node.name.removeprefix("output:"),
        "op": verdict.node.operation.name,
        "fingerprint": verdict.fingerprint,
        "outcome": verdict.outcome,
    }
    if checkpoint is not None and verdict.outcome == "reuse":
        entry["rows"] = checkpoint.facts.rows
        entry["ref"] = checkpoint.layer.key if checkpoint.layer else None
        facts = checkpoint.facts
        if facts.invalid or facts.missing or facts.empty:
            entry["defects"] = {"invalid": facts.invalid, "missing": facts.missing, "empty": facts.empty}
        if facts.outside_area:
            entry["outside_area"] = facts.outside_area
    if verdict.failure is not None:
        entry["failure"] = {"class": verdict.failure.failure_class.value, "message": str(verdict.failure)}
    return entry
