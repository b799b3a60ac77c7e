"""From a plan's document to its models: every part is read by itself, so that all complaints come at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from geocairn.nearest import did_you_mean
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import Document
from geocairn.plan.model import Output, Plan, PlanSource, Step
from geocairn.plan.setting import override
from geocairn.plan.wording import model_complaints, shown

__all__ = ["Reading", "in_order", "override"]

_Model = TypeVar("_Model", bound=BaseModel)

_HEAD = ("name", "description", "planner")
_PARTS = ("name", "description", "sources", "steps", "outputs", "planner")


class Reading:
    """The parts of a plan that could be read, and what was wrong with the others."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.complaints = list(document.complaints)
        self.sources: dict[str, PlanSource] = {}
        self.steps: dict[int, Step] = {}
        """Steps by their place in the plan. One with wrong fields is here without them, so that the others are checked
        too; one without name or operation is missing."""
        self.wrong_fields: dict[int, set[str]] = {}
        """Fields that a step in `steps` is without."""
        self.outputs: dict[int, Output] = {}
        self.unread_names: set[str] = set()
        """Names of sources and steps that could not be read, so that what refers to them is not blamed too."""
        self.source_names: list[str] = []
        """The names of all sources, of those too that could not be read."""
        self.step_names: dict[int, str] = {}
        """The stated name of each step, of those too that could not be read."""
        self._read()

    def complain(
        self, message: str, location: tuple[str | int, ...], *, step: str | None = None, field: str | None = None
    ) -> None:
        """Add a complaint about the value at `location`."""
        setting = self.document.setting(location)
        if setting is not None:
            message = f"{message} (from --set {setting})"
        complaint = Complaint(message, line=self.document.line(location), step=step, field=field)
        if complaint not in self.complaints:
            self.complaints.append(complaint)

    def plan(self) -> Plan:
        """Return the plan.

        Raises
        ------
        PlanError : when anything could not be read.
        """
        if self.complaints:
            raise PlanError(in_order(self.complaints), self.document.name)
        values = self.document.values
        return Plan(
            name=values["name"],
            description=values.get("description"),
            sources=self.sources,
            steps=list(self.steps.values()),
            outputs=list(self.outputs.values()),
            planner=values.get("planner"),
        )

    def _read(self) -> None:
        values = self.document.values
        for key in values:
            if key not in _PARTS:
                self.complain(f"a plan has no field {key!r}{did_you_mean(str(key), _PARTS)}", (key,))
        head = {key: values[key] for key in _HEAD if key in values}
        self._model(Plan, head, (), None)
        for name, source in self._mapping("sources").items():
            self.source_names.append(str(name))
            self._source(str(name), source, ("sources", name))
        for index, step in enumerate(self._list("steps")):
            stated = step.get("name") if isinstance(step, Mapping) else None
            if stated is not None:
                self.step_names[index] = str(stated)
            label = str(stated) if stated is not None else f"step {index + 1}"
            read_step = self._model(Step, step, ("steps", index), label, needed=("name", "op"))
            if read_step is not None:
                self.steps[index] = read_step
                self.wrong_fields[index] = set(step) - read_step.model_fields_set
            elif stated is not None:
                self.unread_names.add(str(stated))
        for index, output in enumerate(self._list("outputs")):
            published = output.get("from") if isinstance(output, Mapping) else None
            label = f"output of {published}" if published else f"output {index + 1}"
            read_output = self._model(Output, output, ("outputs", index), label)
            if read_output is not None:
                self.outputs[index] = read_output

    def _source(self, name: str, source: Any, location: tuple[str | int, ...]) -> None:
        try:
            Plan(name=name)
        except ValidationError as error:
            for _, message in model_complaints(Plan, error, {"name": name}):
                self.complain(message, location, step=name)
        content = {"uri": source} if isinstance(source, str) else source
        read = self._model(PlanSource, content, location, name, needed=("uri",))
        if read is not None:
            self.sources[name] = read
        else:
            self.unread_names.add(name)

    def _mapping(self, part: str) -> dict[str, Any]:
        value = self.document.values.get(part)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.complain(f"{part} must be a mapping of names to sources, not {shown(value)}", (part,))
            return {}
        return dict(value)

    def _list(self, part: str) -> list[Any]:
        value = self.document.values.get(part)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            hint = "; begin each with a dash" if isinstance(value, Mapping) else ""
            self.complain(f"{part} must be a list, not {shown(value)}{hint}", (part,))
            return []
        return list(value)

    def _model(
        self,
        model: type[_Model],
        content: Any,
        location: tuple[str | int, ...],
        step: str | None,
        needed: tuple[str, ...] | None = None,
    ) -> _Model | None:
        """Return a part of the plan, its complaints noted; without its wrong fields where only `needed` ones matter."""
        if not isinstance(content, Mapping):
            what = "nothing" if content is None else shown(content)
            self.complain(f"a mapping of fields is needed here, there is {what}", location, step=step)
            return None
        try:
            return model.model_validate(dict(content))
        except ValidationError as error:
            wrong = set()
            for place, message in model_complaints(model, error, content):
                field = ".".join(str(part) for part in place)
                self.complain(message, (*location, *place), step=step, field=field or None)
                wrong |= set(place[:1]) or set(content)
        if needed is None or wrong & set(needed):
            return None
        try:
            return model.model_validate({name: value for name, value in content.items() if name not in wrong})
        except ValidationError:
            return None  # what is wrong was said; the rest makes no sense without it


def in_order(complaints: list[Complaint]) -> list[Complaint]:
    """Return complaints by line; those without one first, in the order in which they were found."""
    return sorted(complaints, key=lambda complaint: complaint.line or 0)
