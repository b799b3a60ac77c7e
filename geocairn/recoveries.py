"""What recovery did in a run: counted per step, timed, and told at once to whoever listens.

What always holds: each recovery is counted once, where it was decided; the counts of a run are the sum of those of its
processes; and none of it is part of the answer, but what took longer than the policy lets pass in silence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Recovery(StrEnum):
    """What can be done about a failure, or be seen of one."""

    RETRIED = "retried"
    """A step is tried again on the same backend."""
    REROUTED = "rerouted"
    """A step goes on with the next backend."""
    GATE_FAILED = "gate-failed"
    """A step's result was unsound."""
    ROLLED_BACK = "rolled-back"
    """The chain went back to the last good checkpoint before a step: it ended the run, or its layer was lost."""
    HOLDER_DIED = "holder-died"
    """A worker had died computing a step, and its lease was taken over."""
    FELL_BACK = "fell-back"
    """A step's declared fallback took its place."""
    HALTED = "halted"
    """A step's failure ended its task run."""


COUNTED: dict[Recovery, str] = {
    Recovery.RETRIED: "retries",
    Recovery.REROUTED: "reroutes",
    Recovery.GATE_FAILED: "gate_failures",
    Recovery.ROLLED_BACK: "rollbacks",
    Recovery.HOLDER_DIED: "deaths",
    Recovery.FELL_BACK: "fallbacks",
}
"""The name of each count in a trace."""

Listener = Callable[[str, Recovery, Mapping[str, Any]], None]
"""Told the step, what was done, and its details."""


@dataclass
class Recoveries:
    """The recoveries of one run, as far as this process has seen them."""

    listener: Listener = lambda step, recovery, details: None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By step: the counts that are not zero."""
    attempts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Failed attempts by step: backend, class, known, error."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By step: from the first attempt's start to the last one's, so what its recovery took."""
    _lock: Any = field(default_factory=threading.Lock)

    def add(self, step: str, recovery: Recovery, **details: Any) -> None:
        """Count a recovery of a step, and tell it."""
        name = COUNTED.get(recovery)
        if name is not None:
            with self._lock:
                counts = self.counts.setdefault(step, {})
                counts[name] = counts.get(name, 0) + 1
        self.listener(step, recovery, details)

    def add_attempt(self, step: str, attempt: Mapping[str, Any]) -> None:
        """Keep a failed attempt."""
        with self._lock:
            self.attempts.setdefault(step, []).append(dict(attempt))

    def took(self, step: str, seconds: float) -> None:
        """Keep how long the recovery of a step took."""
        with self._lock:
            self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def slow(self, limit: float) -> list[str]:
        """Return a caveat for each step whose recovery took longer than `limit` seconds."""
        return [
            f"step {step}: recovery took {seconds:,.0f} s"
            for step, seconds in sorted(self.seconds.items())
            if seconds > limit
        ]

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add what another process of the run has seen; see `as_json`."""
        with self._lock:
            for step, counts in other.get("counts", {}).items():
                mine = self.counts.setdefault(step, {})
                for name, number in counts.items():
                    mine[name] = mine.get(name, 0) + number
            for step, attempts in other.get("attempts", {}).items():
                self.attempts.setdefault(step, []).extend(attempts)
            for step, seconds in other.get("seconds", {}).items():
                self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def told(self) -> dict[str, Any]:
        """Return what a trace tells: counts and attempts by step."""
        seen = self.as_json()
        return {"counts": seen["counts"], "attempts": seen["attempts"]}

    def as_json(self) -> dict[str, Any]:
        """Return counts, attempts and seconds as JSON values."""
        with self._lock:
            return {
                "counts": {step: dict(counts) for step, counts in self.counts.items()},
                "attempts": {step: list(attempts) for step, attempts in self.attempts.items()},
                "seconds": dict(self.seconds),
            }
