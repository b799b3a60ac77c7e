"""Complaints about a plan: each says where (line, step, field), what, and the nearest right name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong with a plan."""

    message: str
    line: int | None = None
    step: str | None = None
    """Name of the step, source or output that it concerns."""
    field: str | None = None
    """Path of the field inside it, such as `params.distance`."""

    def text(self, document: str) -> str:
        """Return `plan.yaml:12: step reach, params.distance: …`."""
        place = f"{document}:{self.line}" if self.line else document
        about = ", ".join(part for part in (self.step, self.field) if part)
        return f"{place}: {about}: {self.message}" if about else f"{place}: {self.message}"


class PlanError(ValueError):
    """A plan (or a command about it) that is wrong. Holds all complaints; nothing was run."""

    def __init__(self, complaints: list[Complaint], document: str = "plan") -> None:
        super().__init__(complaints, document)
        self.complaints = complaints
        self.document = document

    def __str__(self) -> str:
        return "\n".join(complaint.text(self.document) for complaint in self.complaints)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the complaints as JSON values."""
        return [{**asdict(complaint), "text": complaint.text(self.document)} for complaint in self.complaints]
