"""Values set from outside a plan's text: `--set STEP.PARAM=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geocairn.nearest import did_you_mean
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import Document, Location, parse_scalar


def override(document: Document, settings: list[str]) -> None:
    """Apply `STEP.PARAM=VALUE` settings to a document, as `--set` states them.

    STEP may also name a source, whose field is then set. PARAM may go on with dots into a mapping. Values are YAML
    scalars or flow collections. What is wrong with a value is told later, by the check, as set and not as a line of
    the text.

    Raises
    ------
    PlanError : for a setting of another form, or a step that is not there.
    """
    complaints: list[Complaint] = []
    for setting in settings:
        target, equals, value = setting.partition("=")
        name, dot, parameter = target.strip().partition(".")
        path = parameter.split(".")
        if not (equals and dot and name and all(path)):
            complaints.append(Complaint(f"--set {setting!r} is not of the form STEP.PARAM=VALUE"))
            continue
        found = _holder(document, name)
        if found is None:
            complaints.append(Complaint(f"--set {setting!r}: {_unknown(document, name)}"))
            continue
        try:
            _put(document, *found, path, parse_scalar(value), setting)
        except PlanError as error:
            complaints += [Complaint(f"--set {setting!r}: {complaint.message}") for complaint in error.complaints]
    if complaints:
        raise PlanError(complaints, document.name)


def _put(
    document: Document, holder: dict[str, Any], location: Location, path: list[str], value: Any, setting: str
) -> None:
    *parents, last = path
    for parent in parents:
        inner = holder.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise PlanError([Complaint(f"{parent!r} is not a mapping")])
        holder, location = inner, (*location, parent)
    holder[last] = value
    document.settings[(*location, last)] = setting


def _holder(document: Document, name: str) -> tuple[dict[str, Any], Location] | None:
    """Return the parameters of the step (or the fields of the source) of that name, and their place."""
    for index, step in _steps(document):
        if str(step.get("name")) == name:
            if not isinstance(step.get("params"), dict):
                step["params"] = {}
            return step["params"], ("steps", index, "params")
    sources = document.values.get("sources")
    if isinstance(sources, dict) and name in sources:
        if isinstance(sources[name], str):
            sources[name] = {"uri": sources[name]}
        if isinstance(sources[name], dict):
            return sources[name], ("sources", name)
    return None


def _unknown(document: Document, name: str) -> str:
    steps = [str(step["name"]) for _, step in _steps(document) if step.get("name")]
    sources = document.values.get("sources")
    known = steps + ([str(source) for source in sources] if isinstance(sources, Mapping) else [])
    return f"there is no step or source {name!r}{did_you_mean(name, known)}"


def _steps(document: Document) -> list[tuple[int, dict[str, Any]]]:
    steps = document.values.get("steps")
    if not isinstance(steps, list):
        return []
    return [(index, step) for index, step in enumerate(steps) if isinstance(step, dict)]
