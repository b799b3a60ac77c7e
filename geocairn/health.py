"""Health over many runs: what was reused, what failed, and what recovery absorbs run after run.

Traces in, a report out. What always holds: the report is a pure function of the traces; each run counts once, under
the plan or the Python flow that it ran; a trace that cannot be understood is counted and told, and spoils nothing else;
and a step that fails and recovers on most runs is named, since every run pays for it although none of them fails.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from geocairn.checkpoint import parse_time
from geocairn.stores.traces import DamagedTrace

LEAST_RUNS = 3
"""Runs in which a step must have run before its recoveries are called a habit."""
LEAST_FAILURES = 2
"""Runs in which a step must have failed, and not run otherwise, before it is said to fail always."""

COUNTS = ("gate_failures", "rollbacks", "retries", "reroutes", "deaths", "fallbacks")
_RECOVERIES = ("retries", "reroutes", "fallbacks")
_RAN = ("computed", "read", "written", "failed")


@dataclass
class StepHealth:
    """One step over the runs of its plan or flow. Runs are counted, whatever the number of its uses in one run."""

    name: str
    operation: str = ""
    ran: int = 0
    """Runs in which it was computed, or failed."""
    reused: int = 0
    failed: int = 0
    recovered: int = 0
    """Runs in which it failed at first and was computed in the end."""
    expirations: int = 0
    """Runs in which it was computed because its checkpoint had expired."""
    counts: Counter[str] = field(default_factory=Counter)
    """What recovery did, by the names of `COUNTS`."""
    last: dict[str, Any] = field(default_factory=dict)
    """Of the last failed attempt: class, error, backend, and the run's id and start."""

    @property
    def absorbed(self) -> bool:
        """Whether it fails and recovers on most of the runs in which it runs: a defect that is being absorbed."""
        return self.ran >= LEAST_RUNS and self.recovered * 2 > self.ran

    @property
    def always_fails(self) -> bool:
        """Whether it has failed in each run in which it ran."""
        return self.failed >= LEAST_FAILURES and self.failed == self.ran

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        body = {name: getattr(self, name) for name in ("name", "operation", "ran", "reused", "failed", "recovered")}
        counts = {name: self.counts[name] for name in COUNTS}
        told = {"absorbed": self.absorbed, "always_fails": self.always_fails, "last": self.last or None}
        return {**body, **counts, "expirations": self.expirations, **told}


@dataclass
class ChainHealth:
    """The runs of one plan, or of one Python flow."""

    kind: str
    """`plan` or `flow`."""
    name: str
    clean: int = 0
    """Completed runs that reused nothing."""
    resumed: int = 0
    """Completed runs that reused some steps and computed others."""
    unchanged: int = 0
    """Completed runs that computed nothing."""
    failed: int = 0
    skipped: int = 0
    """Steps that resumed runs had not to compute."""
    in_resumed: int = 0
    """All steps of resumed runs."""
    computed_steps: int = 0
    reused_steps: int = 0
    cross_run: int = 0
    """Reused results that the same run had not made itself."""
    cross_chain: int = 0
    """Reused results that a run of another plan or flow made, as far as its trace is among these."""
    steps: dict[str, StepHealth] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """All runs."""
        return self.clean + self.resumed + self.unchanged + self.failed

    @property
    def resumed_to_clean(self) -> float | None:
        """Resumed runs for each clean one; None where there is no clean one."""
        return self.resumed / self.clean if self.clean else None

    @property
    def depth(self) -> float | None:
        """The share of a chain that lay behind a resumed run when it started; None where none was resumed."""
        return self.skipped / self.in_resumed if self.in_resumed else None

    @property
    def reuse_rate(self) -> float | None:
        """The share of results that were there already; None where no step ran or was reused."""
        results = self.computed_steps + self.reused_steps
        return self.reused_steps / results if results else None

    def total(self, name: str) -> int:
        """Return a count over all steps."""
        return sum(step.expirations if name == "expirations" else step.counts[name] for step in self.steps.values())

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        runs = {
            name: getattr(self, name) for name in ("kind", "name", "runs", "clean", "resumed", "unchanged", "failed")
        }
        rates = {
            "resumed_to_clean": _rounded(self.resumed_to_clean),
            "depth_of_resumption": _rounded(self.depth),
            "steps_skipped_when_resumed": round(self.skipped / self.resumed, 2) if self.resumed else None,
            "reuse_rate": _rounded(self.reuse_rate),
            "cross_run_reuse": self.cross_run,
            "cross_chain_reuse": self.cross_chain,
        }
        totals = {name: self.total(name) for name in (*COUNTS, "expirations")}
        return {**runs, **rates, **totals, "steps": [step.as_json() for step in self.steps.values()]}


@dataclass
class Health:
    """What the traces say."""

    chains: list[ChainHealth] = field(default_factory=list)
    """By kind and name."""
    since: str | None = None
    """Where it begins (ISO 8601); None for all that is kept."""
    damaged: list[DamagedTrace] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """All runs."""
        return sum(chain.runs for chain in self.chains)

    @property
    def absorbed(self) -> list[tuple[ChainHealth, StepHealth]]:
        """The steps that fail and recover on most runs."""
        return [(chain, step) for chain in self.chains for step in chain.steps.values() if step.absorbed]

    @property
    def always_failing(self) -> list[tuple[ChainHealth, StepHealth]]:
        """The steps that fail whenever they run."""
        return [(chain, step) for chain in self.chains for step in chain.steps.values() if step.always_fails]

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON object."""

        def named(found: list[tuple[ChainHealth, StepHealth]], count: str) -> list[dict[str, Any]]:
            return [
                {chain.kind: chain.name, "step": step.name, "ran": step.ran, count: getattr(step, count), **step.last}
                for chain, step in found
            ]

        return {
            "since": self.since,
            "runs": self.runs,
            "absorbed": named(self.absorbed, "recovered"),
            "always_failing": named(self.always_failing, "failed"),
            "chains": [chain.as_json() for chain in self.chains],
            "damaged": [dataclasses.asdict(one) for one in self.damaged],
        }


def health(
    traces: Iterable[Mapping[str, Any] | DamagedTrace], *, since: str | None = None, name: str | None = None
) -> Health:
    """Return what traces say of the plans and flows that ran.

    Parameters
    ----------
    traces : the newest day first, as `geocairn.stores.traces.read_traces` gives them; of a run that left several, the
        first counts.
    since : runs that started earlier (ISO 8601) are left out.
    name : the plan or flow alone that has this name; what else made its results is looked at all the same.
    """
    tally = _Tally(since)
    for trace in traces:
        if isinstance(trace, DamagedTrace):
            tally.damaged.append(trace)
            continue
        try:
            tally.add(trace)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            run_id = trace.get("run_id") if isinstance(trace, Mapping) else None
            why = f"it lacks what a trace has ({type(error).__name__}: {error})"
            tally.damaged.append(DamagedTrace(f"run {run_id}", why))
    tally.settle_reuse()
    chains = [tally.chains[key] for key in sorted(tally.chains) if name is None or key[1] == name]
    return Health(chains, since, tally.damaged)


@dataclass
class _Use:
    """What became of one step in one run, its uses taken together."""

    operation: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    expired: bool = False

    @property
    def ran(self) -> bool:
        """Whether it was computed, or failed."""
        return any(self.outcomes[one] for one in _RAN)

    @property
    def recovered(self) -> bool:
        """Whether it was computed in the end, after a failure."""
        trouble = bool(self.attempts) or any(self.counts[count] for count in _RECOVERIES)
        return trouble and self.ran and not self.outcomes["failed"]


class _Tally:
    """What has been counted so far."""

    def __init__(self, since: str | None) -> None:
        self.since = parse_time(since) if since is not None else None
        self.chains: dict[tuple[str, str], ChainHealth] = {}
        self.damaged: list[DamagedTrace] = []
        self._runs: set[str] = set()
        self._makers: dict[str, set[tuple[str, str]]] = {}
        self._reuses: Counter[tuple[str, tuple[str, str]]] = Counter()

    def add(self, trace: Mapping[str, Any]) -> None:
        """Count one run. Raises what reading a trace of another form raises, and has then counted nothing of it."""
        run_id, answer, started = str(trace["run_id"]), trace["answer"], str(trace["started"])
        if run_id in self._runs or (self.since is not None and parse_time(started) < self.since):
            return
        key = ("plan", str(answer["plan"])) if trace.get("plan") else ("flow", str(trace["flow"]))
        entries = [dict(entry) for entry in answer["steps"]]
        outcomes = Counter(str(entry["outcome"]) for entry in entries)
        uses = _uses(trace, entries)
        status = str(answer["status"])
        made = {entry["fingerprint"] for entry in entries if entry["outcome"] == "computed"}
        reused = [entry["fingerprint"] for entry in entries if entry["outcome"] == "reused"]

        self._runs.add(run_id)
        chain = self.chains.setdefault(key, ChainHealth(*key))
        if status != "completed":
            chain.failed += 1
        elif not outcomes["computed"]:
            chain.unchanged += 1
        elif outcomes["reused"]:
            chain.resumed += 1
            chain.skipped += outcomes["reused"] + outcomes["not_needed"]
            chain.in_resumed += len(entries)
        else:
            chain.clean += 1
        chain.computed_steps += outcomes["computed"]
        chain.reused_steps += len(reused)
        chain.cross_run += sum(fingerprint not in made for fingerprint in reused)
        for fingerprint in made:
            self._makers.setdefault(fingerprint, set()).add(key)
        self._reuses.update((fingerprint, key) for fingerprint in reused if fingerprint not in made)
        for name, use in uses.items():
            _count(chain.steps.setdefault(name, StepHealth(name)), use, run_id, started)

    def settle_reuse(self) -> None:
        """Count what was reused of another plan's or flow's, once all makers are known."""
        for (fingerprint, key), number in self._reuses.items():
            makers = self._makers.get(fingerprint)
            if makers is not None and key not in makers:
                self.chains[key].cross_chain += number


def _uses(trace: Mapping[str, Any], entries: list[dict[str, Any]]) -> dict[str, _Use]:
    """Return what became of each step of a run, of its sources and outputs too."""
    answer = trace["answer"]
    uses: dict[str, _Use] = {}
    for entry in entries:
        use = uses.setdefault(str(entry["name"]), _Use(str(entry.get("op") or "")))
        use.outcomes[str(entry["outcome"])] += 1
        use.attempts += entry.get("attempts") or []
        use.expired |= any(
            reason["component"] == "checkpoint" and reason["now"] == "expired" for reason in entry.get("because") or []
        )
        if "counts" not in trace:
            use.counts.update(_derived(entry))
    for entry in answer.get("sources") or []:
        uses.setdefault(str(entry["name"]), _Use("read_layer")).outcomes[str(entry["outcome"])] += 1
    for name, entry in (answer.get("outputs") or {}).items():
        uses.setdefault(f"output:{name}", _Use("write_layer")).outcomes[str(entry["outcome"])] += 1
    for name, attempts in (trace.get("attempts") or {}).items():
        use = uses.setdefault(name, _Use())
        use.attempts = use.attempts or list(attempts)
    for name, counts in (trace.get("counts") or {}).items():
        use = uses.setdefault(name, _Use())
        use.counts.update({count: int(number) for count, number in counts.items() if count in COUNTS})
    _part_outputs(uses, (answer.get("failure") or {}).get("step") if trace.get("plan") else None)
    return uses


def _part_outputs(uses: dict[str, _Use], failed: str | None) -> None:
    """Give an output what recovery did for it: that stands under its bare name, which often is its step's as well.

    Where both ran it cannot be told whose it was, and the step keeps it.
    """
    if failed is not None and not uses.setdefault(failed, _Use()).outcomes["failed"]:
        uses.setdefault(f"output:{failed}", _Use("write_layer")).outcomes["failed"] += 1
    for name, use in list(uses.items()):
        output = uses.get(f"output:{name}")
        if output is None or (use.ran and not output.outcomes["failed"]):
            continue
        output.attempts, use.attempts = use.attempts, []
        output.counts, use.counts = use.counts, Counter()
        if not use.outcomes:
            del uses[name]


def _derived(entry: Mapping[str, Any]) -> Counter[str]:
    """Return retries and reroutes by the attempts of a step, for traces that do not count them."""
    backends = [attempt.get("backend") for attempt in entry.get("attempts") or []]
    following = [*backends[1:], *([entry.get("backend")] if entry["outcome"] == "computed" else [])]
    return Counter(
        "retries" if before == after else "reroutes" for before, after in zip(backends, following, strict=False)
    )


def _count(step: StepHealth, use: _Use, run_id: str, started: str) -> None:
    step.operation = step.operation or use.operation
    step.ran += use.ran
    step.reused += not use.ran and bool(use.outcomes["reused"])
    step.failed += bool(use.outcomes["failed"])
    step.recovered += use.recovered
    step.expirations += use.expired
    step.counts.update(use.counts)
    if use.attempts and started >= step.last.get("started", ""):
        attempt = use.attempts[-1]
        told = {name: attempt.get(name) for name in ("class", "error", "backend")}
        step.last = {**told, "run_id": run_id, "started": started}


def _rounded(share: float | None) -> float | None:
    return round(share, 4) if share is not None else None
