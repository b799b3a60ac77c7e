"""A run in this process, and one step of it: what decides the step, and how it is to be treated.

What always holds: what a step is told beside its inputs and parameters is no part of its fingerprint, but `repair` and
`fallback_for`; all steps of a run hold a source to the version that the run resolved first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from geocairn.checkpoint import Checkpoint, LayerFacts
from geocairn.expectation import Expect, unmet
from geocairn.failure import InputFailure
from geocairn.operations.contract import REFERENCE_BACKEND, Operation
from geocairn.pinning import PinnedSource, pin
from geocairn.plan.model import CheckpointPolicy
from geocairn.policy import DEFAULT_POLICY, RecoveryPolicy
from geocairn.recoveries import Recoveries
from geocairn.sources.source import Source
from geocairn.stores.memory import HandOver
from geocairn.workspace import Workspace


@dataclass(frozen=True)
class FallbackFor:
    """What a fallback stands for."""

    fingerprint: str
    """Of the exact step."""
    operation: str
    because: str

    def caveat(self, operation: str) -> str:
        """Return what is told with the result that `operation` made in the exact one's place."""
        return f"made by its fallback {operation} in place of {self.operation}: {self.because}"


@dataclass(frozen=True)
class StepSettings:
    """What a step is told beside inputs and parameters; no part of its fingerprint, but `repair` and `fallback_for`."""

    name: str = ""
    expect: Expect | None = None
    allow_empty: bool = False
    repair: bool = False
    checkpoint: CheckpointPolicy = "always"
    retention: str | None = None
    backends: tuple[str, ...] | None = None
    retries: int | None = None
    pinned: PinnedSource | None = None
    """For a source: the version that the run holds it to."""
    fallback_for: FallbackFor | None = None
    """For a fallback: the step whose place it takes."""
    context_names: tuple[str, ...] = ()
    """For a map: what the layers drawn around it are called in the plan."""

    def unmet(self, facts: LayerFacts, *, source: bool = False) -> list[str]:
        """Return what a layer's facts fail of the step's expectations; a source may be empty where none are stated."""
        allow_empty = self.allow_empty or (source and self.expect is None)
        return unmet(self.expect, facts, allow_empty=allow_empty)


@dataclass(frozen=True)
class StepCall:
    """One step to be computed: everything that decides it, and how it is to be treated."""

    operation: Operation
    parameters: Any
    inputs: Mapping[str, Any]
    """By role: a Checkpoint, a layer in memory, or a list of them."""
    fingerprint: str
    environment: Mapping[str, Any]
    settings: StepSettings
    backend: str = REFERENCE_BACKEND
    attempt: int = 1
    after_memory: bool = False
    """Whether memory did not suffice in an attempt before, so that this one should take less."""

    @property
    def step_name(self) -> str:
        """What the step is called in traces and events."""
        return self.settings.name or self.operation.name

    @property
    def where(self) -> str:
        """The step, for messages."""
        return f"step {self.step_name}"

    def placed(self, failure: InputFailure) -> InputFailure:
        """Return the failure with the step as its place, the operation's own place kept in the text."""
        if failure.where.startswith("step "):
            return failure
        if failure.where in ("", self.operation.name):
            placed = type(failure)(failure.what, self.where, failure.remedy)
        else:
            placed = type(failure)(f"{failure.where}: {failure.what}", self.where, failure.remedy)
        return placed


@dataclass
class Run:
    """A run in this process: what its steps share."""

    run_id: str
    workspace: Workspace
    hand_over: HandOver
    policy: RecoveryPolicy = DEFAULT_POLICY
    """What recovery may do, as it was when the run started or was resumed."""
    say: Callable[[str], None] = lambda text: None
    """Where one-line notices go: whom a step waits for, why a checkpoint was set aside."""
    notices: list[dict[str, Any]] = field(default_factory=list)
    """What happened that belongs in the trace."""
    recoveries: Recoveries = field(default_factory=Recoveries)
    """What recovery did in it, by step."""
    caveats: list[str] = field(default_factory=list)
    """What about this run, not about the data, changes what the answer means."""
    computed: set[str] = field(default_factory=set)
    """Fingerprints whose result this run made itself, and did not find or adopt."""
    planned: dict[str, Any] = field(default_factory=dict)
    """What the plan that is run says of its results, by fingerprint; see `geocairn.lineage.planned`."""
    pins: dict[str, PinnedSource] = field(default_factory=dict)
    """Sources whose version this run has resolved, by what is read."""
    places: dict[str, PinnedSource] = field(default_factory=dict)
    """The same by fingerprint: a record may name another place where the same content lay once."""
    keeps: bool = False
    """Whether the store keeps something for this run alone."""
    rewinds: bool = False
    """Whether a lost layer is computed again where it is missed (a flow in Python), and not decided again (a plan)."""
    known: dict[str, Checkpoint] = field(default_factory=dict)
    """Checkpoints that this run's steps took as inputs; for rewinding."""
    operations: dict[str, Operation] = field(default_factory=dict)
    """Operations that this run's steps used, by name; for rewinding."""
    rewound: dict[str, set[str]] = field(default_factory=dict)
    """Layers that were lost and computed again, by fingerprint."""
    lock: Any = field(default_factory=threading.Lock)

    def pin(self, source: Source) -> PinnedSource:
        """Return the source at the version that this run holds it to; it is resolved at the first question."""
        key = source.model_dump_json()
        with self.lock:
            if key not in self.pins:
                self.hold(pin(source, self.workspace))
            return self.pins[key]

    def hold(self, pinned: PinnedSource) -> None:
        """Hold a source to a version: what stands for this version is read from where this run found it."""
        self.pins[pinned.source.model_dump_json()] = pinned
        self.places[pinned.fingerprint] = pinned

    def notice(self, step: str, text: str) -> None:
        """Say something in the log and keep it for the trace."""
        self.say(f"{step}: {text}")
        self.notices.append({"step": step, "notice": text})
