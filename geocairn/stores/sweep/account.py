"""What a sweep did, or would do: what it removed and why, what it spared, what it could not do.

What always holds: it names keys, fingerprints, steps and sizes, and nothing of what a layer or a record holds; and
whatever was refused or not answered is told with its class.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from geocairn.classification import classify
from geocairn.failure import Failure, FailureClass

Kind = Literal[
    "checkpoint", "layer", "lease", "run", "run file", "plan", "trace", "quarantine", "temporary file", "open upload"
]

_WORST = [FailureClass.TRANSIENT, FailureClass.INPUT, FailureClass.CAPABILITY, FailureClass.FATAL]


@dataclass(frozen=True)
class Removed:
    """One object that was removed, or would be."""

    kind: Kind
    key: str
    """Its key in the store; the path of a temporary file."""
    size: int
    """Bytes."""
    reason: str
    fingerprint: str | None = None
    step: str = ""
    """The name of the step that made it, where a record says so."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Left:
    """Something that the sweep could not look at or remove, and left as it is."""

    key: str
    why: str
    failure_class: FailureClass

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"key": self.key, "why": self.why, "class": self.failure_class.value}


def left(key: str, failure: Failure) -> Left:
    """Return what to tell of an object whose look-up or deletion failed."""
    return Left(key, str(failure), classify(failure).failure_class)


@dataclass
class Kept:
    """How many objects of one kind stay, and how large they are together."""

    count: int = 0
    size: int = 0
    """Bytes."""

    def add(self, size: int) -> None:
        """Count one more."""
        self.count += 1
        self.size += size


@dataclass
class Sweep:
    """The outcome of a sweep.

    Attributes
    ----------
    store : the store's address.
    dry_run : whether nothing was removed, and `removed` is what would be.
    started : when it began, by the store's clock (ISO 8601).
    removed : what was removed, in the order in which it was.
    kept : what stays, by kind.
    spared : why something stays that would else have gone, and how often.
    left : what could not be looked at or removed.
    size_budget : the bytes that the store was to come under; None for no such limit.
    """

    store: str
    dry_run: bool
    started: str
    removed: list[Removed] = field(default_factory=list)
    kept: dict[str, Kept] = field(default_factory=dict)
    spared: Counter[str] = field(default_factory=Counter)
    left: list[Left] = field(default_factory=list)
    size_budget: int | None = None

    def spare(self, why: str, count: int = 1) -> None:
        """Count what stays that would else have gone."""
        if count:
            self.spared[why] += count

    @property
    def removed_size(self) -> int:
        """Bytes that were removed, or would be."""
        return sum(one.size for one in self.removed)

    @property
    def kept_size(self) -> int:
        """Bytes that stay in the store."""
        return sum(one.size for one in self.kept.values())

    @property
    def over_budget(self) -> int:
        """Bytes by which the store is still larger than its budget; 0 without one."""
        return max(0, self.kept_size - self.size_budget) if self.size_budget is not None else 0

    @property
    def failure_class(self) -> FailureClass | None:
        """The worst class among what was left; None where nothing was refused."""
        return max((one.failure_class for one in self.left), key=_WORST.index, default=None)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values; sizes are bytes."""
        return {
            "store": self.store,
            "dry_run": self.dry_run,
            "started": self.started,
            "removed": [one.as_json() for one in self.removed],
            "removed_count": len(self.removed),
            "removed_size": self.removed_size,
            "kept": {kind: {"count": one.count, "size": one.size} for kind, one in sorted(self.kept.items())},
            "kept_size": self.kept_size,
            "spared": dict(sorted(self.spared.items())),
            "left": [one.as_json() for one in self.left],
            "size_budget": self.size_budget,
            "over_budget": self.over_budget,
        }
