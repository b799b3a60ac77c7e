"""From a plan's document to its models: every part is read by itself, so that all complaints come at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from geocairn.nearest import did_you_mean
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import Document, parse_scalar
from geocairn.plan.model import Output, Plan, Step
from geocairn.sources.source import Source

_Model = TypeVar("_Model", bound=BaseModel)

_PARTS = ("name", "description", "sources", "steps", "outputs")


class Reading:
    """The parts of a plan that could be read, and what was wrong with the others."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.complaints = list(document.complaints)
        self.sources: dict[str, Source] = {}
        self.steps: dict[int, Step] = {}
        """Steps by their place in the plan; one that could not be read is missing."""
        self.outputs: dict[int, Output] = {}
        self.unread_names: set[str] = set()
        """Names of sources and steps that could not be read, so that what refers to them is not blamed too."""
        self._read()

    def complain(
        self, message: str, location: tuple[str | int, ...], *, step: str | None = None, field: str | None = None
    ) -> None:
        """Add a complaint about the value at `location`."""
        self.complaints.append(Complaint(message, line=self.document.line(location), step=step, field=field))

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
        )

    def _read(self) -> None:
        values = self.document.values
        for key in values:
            if key not in _PARTS:
                self.complain(f"a plan has no field {key!r}{did_you_mean(str(key), _PARTS)}", (key,))
        head = {key: values[key] for key in ("name", "description") if key in values}
        self._model(Plan, head, (), None)
        for name, source in self._mapping("sources").items():
            location = ("sources", name)
            self._model(Plan, {"name": name}, location, name, complain_as="name of the source")
            content = {"uri": source} if isinstance(source, str) else source
            source_read = self._model(Source, content, location, str(name))
            if source_read is not None:
                self.sources[str(name)] = source_read
            else:
                self.unread_names.add(str(name))
        for index, step in enumerate(self._list("steps")):
            stated = step.get("name") if isinstance(step, Mapping) else None
            label = str(stated) if stated else f"step {index + 1}"
            read_step = self._model(Step, step, ("steps", index), label)
            if read_step is not None:
                self.steps[index] = read_step
            elif stated:
                self.unread_names.add(str(stated))
        for index, output in enumerate(self._list("outputs")):
            published = output.get("from") if isinstance(output, Mapping) else None
            label = f"output of {published}" if published else f"output {index + 1}"
            read_output = self._model(Output, output, ("outputs", index), label)
            if read_output is not None:
                self.outputs[index] = read_output

    def _mapping(self, part: str) -> dict[str, Any]:
        value = self.document.values.get(part)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.complain(f"{part} must be a mapping of names to sources", (part,))
            return {}
        return dict(value)

    def _list(self, part: str) -> list[Any]:
        value = self.document.values.get(part)
        if value is None:
            return []
        if not isinstance(value, list):
            self.complain(f"{part} must be a list", (part,))
            return []
        return value

    def _model(
        self,
        model: type[_Model],
        content: Any,
        location: tuple[str | int, ...],
        step: str | None,
        complain_as: str | None = None,
    ) -> _Model | None:
        if not isinstance(content, Mapping):
            what = "nothing" if content is None else type(content).__name__
            self.complain(f"a mapping of fields is needed here, there is {what}", location, step=step)
            return None
        try:
            return model.model_validate(dict(content))
        except ValidationError as error:
            for place, message in model_complaints(model, error):
                field = complain_as or ".".join(str(part) for part in place)
                self.complain(message, (*location, *place), step=step, field=field or None)
            return None


def in_order(complaints: list[Complaint]) -> list[Complaint]:
    """Return complaints by line; those without one first, in the order in which they were found."""
    return sorted(complaints, key=lambda complaint: complaint.line or 0)


def model_complaints(model: type[BaseModel], error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Return place and message of each thing that is wrong, with the nearest right field name."""
    found: dict[tuple[str | int, ...], str] = {}
    for item in error.errors(include_url=False):
        place = tuple(
            part for part in item["loc"] if isinstance(part, int) or not part.startswith(("list[", "dict[", "str"))
        )
        if place in found:
            continue
        if item["type"] == "extra_forbidden":
            found[place] = f"there is no field {item['loc'][-1]!r}{did_you_mean(str(item['loc'][-1]), _fields(model, place))}"
        elif item["type"] == "missing":
            found[place] = f"the field {item['loc'][-1]!r} is missing"
        elif item["type"] == "value_error":
            found[place] = item["msg"].removeprefix("Value error, ")
        else:
            found[place] = f"{item['msg'][:1].lower()}{item['msg'][1:]}, got {item['input']!r}"
    return list(found.items())


def _fields(model: type[BaseModel], place: tuple[str | int, ...]) -> list[str]:
    """Return the field names of the model in which the last part of `place` stands."""
    for part in place[:-1]:
        if isinstance(part, str) and part in model.model_fields:
            annotation = model.model_fields[part].annotation
            members = [annotation, *getattr(annotation, "__args__", ())]
            inner = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
            if inner:
                model = inner[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def override(document: Document, settings: list[str]) -> None:
    """Apply `STEP.PARAM=VALUE` settings to a document, as `--set` states them.

    STEP may also name a source, whose field is then set. Values are YAML.

    Raises
    ------
    PlanError : for a setting of another form, or a step that is not there.
    """
    complaints = []
    for setting in settings:
        target, equals, value = setting.partition("=")
        name, dot, parameter = target.partition(".")
        if not (equals and dot and name and parameter):
            complaints.append(Complaint(f"--set {setting!r} is not of the form STEP.PARAM=VALUE"))
            continue
        holder = _holder(document, name)
        if holder is None:
            complaints.append(Complaint(f"--set {setting!r}: there is no step {name!r}{did_you_mean(name, _names(document))}"))
            continue
        *parents, last = parameter.split(".")
        for parent in parents:
            holder = holder.setdefault(parent, {})
            if not isinstance(holder, dict):
                complaints.append(Complaint(f"--set {setting!r}: {parent!r} is not a mapping"))
                break
        else:
            holder[last] = parse_scalar(value)
    if complaints:
        raise PlanError(complaints, document.name)


def _names(document: Document) -> list[str]:
    steps = document.values.get("steps") or []
    names = [str(step["name"]) for step in steps if isinstance(step, Mapping) and step.get("name")]
    sources = document.values.get("sources")
    return names + ([str(name) for name in sources] if isinstance(sources, Mapping) else [])


def _holder(document: Document, name: str) -> dict[str, Any] | None:
    for step in document.values.get("steps") or []:
        if isinstance(step, dict) and str(step.get("name")) == name:
            if not isinstance(step.get("params"), dict):
                step["params"] = {}
            params: dict[str, Any] = step["params"]
            return params
    sources = document.values.get("sources")
    if isinstance(sources, dict) and name in sources:
        if isinstance(sources[name], str):
            sources[name] = {"uri": sources[name]}
        source: dict[str, Any] = sources[name]
        return source if isinstance(source, dict) else None
    return None
