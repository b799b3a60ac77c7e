"""Removing objects in a sweep: several at once, each only as it was seen, with a note of what became of it.

What always holds: an object that another has written since is spared; one whose deletion is refused or not answered is
told and left; and a dry run takes down the same as a real one and removes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from geocairn.failure import Failure, FailureClass
from geocairn.stores.objects import Conflict, Info, Objects
from geocairn.stores.sweep.account import Kind, Left, Removed, Sweep, left
from geocairn.stores.sweep.view import concurrently

PATIENCE = 20
"""Refused deletions in a row after which the rest is not tried."""

CHANGED = "written, renewed or removed by another while the sweep was at work"


def stage(name: str) -> None:
    """Mark a point at which a sweep can be cut off. Does nothing: tests put a kill or another's act in its place.

    The points are `looked`, `records removed`, `looked again`, `layers removed` and, before each deletion,
    `removing KEY`.
    """


@dataclass(frozen=True)
class Doomed:
    """An object that is to go, and the tag under which; None for what is written once and under one key only."""

    kind: Kind
    info: Info
    reason: str
    tag: str | None
    fingerprint: str | None = None
    step: str = ""

    def removed(self) -> Removed:
        """Return what to tell of it once it is gone."""
        return Removed(self.kind, self.info.key, self.info.size, self.reason, self.fingerprint, self.step)


@dataclass
class Removal:
    """Removes objects, and keeps account of it in the report."""

    objects: Objects
    report: Sweep
    gone: set[str] = field(default_factory=set)
    """Keys that were removed, or would be."""
    refusals: int = 0
    """Deletions that failed in a row."""

    def remove(self, doomed: list[Doomed]) -> None:
        """Remove objects, several at once, and take down what became of each."""
        for one, outcome in zip(doomed, concurrently(self._delete, doomed), strict=True):
            if outcome is True:
                self.went(one)
            elif isinstance(outcome, Left):
                self.report.left.append(outcome)
            else:
                self.report.spare(CHANGED)

    def _delete(self, one: Doomed) -> bool | Left:
        """Remove one object; false where another has written or removed it since."""
        if self.report.dry_run:
            return True
        if self.gave_up:
            why = f"not tried, since {PATIENCE} deletions in a row had failed before"
            return Left(one.info.key, why, FailureClass.TRANSIENT)
        stage(f"removing {one.info.key}")
        try:
            removed = self.objects.delete(one.info.key, if_tag=one.tag)
        except Conflict:
            return False
        except Failure as failure:
            self.refusals += 1
            return left(one.info.key, failure)
        self.refusals = 0
        return removed

    @property
    def gave_up(self) -> bool:
        """Whether so many deletions in a row failed that the rest is not tried."""
        return self.refusals >= PATIENCE

    def went(self, one: Doomed) -> None:
        """Take down that an object is gone."""
        self.gone.add(one.info.key)
        self.report.removed.append(one.removed())
