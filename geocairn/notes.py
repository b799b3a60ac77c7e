"""What a computation has to tell beside its result: notes for the record, caveats for the reader.

An operation runs as a pure function; what it noticed (dropped slivers, the pipeline that PROJ chose, an accuracy that
was given up) it reports here. Whoever runs it collects the reports; without a collector they are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Notes:
    """What one computation reported."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Facts for the checkpoint's record: JSON values by name."""
    caveats: list[str] = field(default_factory=list)
    """Sentences that the reader must hear because they change what the answer means."""


_current: ContextVar[Notes | None] = ContextVar("geocairn_notes", default=None)
_first: ContextVar[int] = ContextVar("geocairn_first_row", default=0)


@contextmanager
def collecting() -> Iterator[Notes]:
    """Collect what computations in this context report."""
    notes = Notes()
    token = _current.set(notes)
    try:
        yield notes
    finally:
        _current.reset(token)


def note(name: str, value: Any) -> None:
    """Report a fact (a JSON value) for the checkpoint's record."""
    notes = _current.get()
    if notes is not None:
        notes.facts[name] = value


def caveat(sentence: str) -> None:
    """Report something that changes what the answer means, as one sentence for the reader."""
    notes = _current.get()
    if notes is not None and sentence not in notes.caveats:
        notes.caveats.append(sentence)


@contextmanager
def rows_from(first: int) -> Iterator[None]:
    """Let messages number rows from `first` on: what is computed is a batch of a layer, and not the whole."""
    token = _first.set(first)
    try:
        yield
    finally:
        _first.reset(token)


def first_row() -> int:
    """Return the number, in its layer, of the first row of what is computed now; 0 for a whole layer."""
    return _first.get()
