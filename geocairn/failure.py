"""Failures and their classes: what went wrong decides what happens next.

Four classes, and an action that each deserves: a *transient* failure is retried, a *capability* failure is rerouted
to another backend, an *input* failure goes back to whoever made the plan, a *fatal* one halts. A class is fixed where
it is known, by raising one of the failures of this module; `geocairn.classification` finds the class of any other
exception. What always holds: failures survive pickling with class, place and remedy, since all arguments go to
`Exception.__init__` and the text is composed on demand.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class FailureClass(StrEnum):
    """The four classes of failure."""

    TRANSIENT = "transient"
    CAPABILITY = "capability"
    INPUT = "input"
    FATAL = "fatal"


ACTIONS: dict[FailureClass, str] = {
    FailureClass.TRANSIENT: "retry",
    FailureClass.CAPABILITY: "reroute",
    FailureClass.INPUT: "replan",
    FailureClass.FATAL: "halt",
}


class Failure(Exception):
    """A failure whose class is known where it arises.

    Parameters
    ----------
    what : what went wrong, one sentence without a full stop.
    where : the step, source, file or object that it concerns.
    remedy : what the reader can do about it.
    """

    failure_class: ClassVar[FailureClass] = FailureClass.FATAL
    in_place: ClassVar[bool] = True
    """Whether the step alone can recover, by another attempt; else it ends, and what it belongs to decides."""

    of_the_step: ClassVar[bool] = True
    """Whether it lies in the step; else in what it was given, so that a fallback would not help."""

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.remedy}" if self.remedy else text

    def at(self, where: str) -> Failure:
        """Return the same failure with its place filled in, if it has none yet."""
        if not self.where:
            self.where = where
            self.args = (*self.args[:-3], self.what, where, self.remedy)  # some kinds have more before these
        return self


class TransientFailure(Failure):
    """Something outside that may well be gone on the next attempt: throttling, a reset connection, a busy lease.

    Parameters
    ----------
    what, where, remedy : as for any failure.
    retry_after : the seconds that a service asked to wait before the next attempt; None where it asked for nothing.
    """

    failure_class = FailureClass.TRANSIENT

    def __init__(self, what: str, where: str = "", remedy: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(what, where, remedy)
        self.retry_after = retry_after  # no argument of Exception's: it travels with the attributes


class CapabilityFailure(Failure):
    """This backend cannot do it (memory, a kind of geometry, a missing grid); another one may."""

    failure_class = FailureClass.CAPABILITY


class MissingGrid(CapabilityFailure):
    """A transformation as good as asked for needs a grid that is not installed. No other backend has it either."""

    in_place = False


class HoldersDied(CapabilityFailure):
    """Workers died computing this step on this backend: another one may take less memory, or not crash."""


class InputFailure(Failure):
    """The plan or the data is at fault: an unsound result, a missing column, a wrong CRS, a source that is gone."""

    failure_class = FailureClass.INPUT


class UnsoundResult(InputFailure):
    """A layer that the gate did not let through."""


class FatalFailure(Failure):
    """Neither trying again nor another backend helps: access denied, disk full, an error in the code."""

    failure_class = FailureClass.FATAL


class NotAllowed(FatalFailure):
    """A plan reaches for a place that is not among those it may read or write; a person decides whether it should."""

    of_the_step = False


class SourceChanged(InputFailure):
    """A source is no longer what it was when the run pinned its version; the whole plan is decided again."""

    of_the_step = False
