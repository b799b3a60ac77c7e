"""A plan as a document: YAML or JSON text into values, each with the line where it stands.

One loader for both forms, with the scalars of YAML 1.2: `1e-6` is a number, `no` and `on` are text, `010` is ten, a date is
text. A key that is written twice is a complaint, never silently the last one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from geocairn.plan.complaint import Complaint, PlanError

Location = tuple[str | int, ...]

_MOST_NODES = 500_000
_LARGEST_FILE = 32 * 1024 * 1024
_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_RADIX = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL = {".inf": math.inf, "-.inf": -math.inf, "+.inf": math.inf, ".nan": math.nan}

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """The values of a plan's text, and the line of each."""

    values: dict[str, Any]
    name: str = "plan"
    """What the document is called in messages: its file name."""
    folder: Path | None = None
    lines: dict[Location, int] = field(default_factory=dict)
    complaints: list[Complaint] = field(default_factory=list)

    def line(self, location: Location) -> int | None:
        """Return the line of the value at `location`, or of the nearest thing around it."""
        for end in range(len(location), -1, -1):
            if location[:end] in self.lines:
                return self.lines[location[:end]]
        return None


def read_document(path: Path) -> Document:
    """Read a plan from a YAML or JSON file.

    Raises
    ------
    PlanError : when there is no such file, it cannot be read, or it is not YAML.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise PlanError([Complaint(f"{path} is larger than {_LARGEST_FILE} bytes, which no plan is")], path.name)
        data = path.read_bytes()
    except FileNotFoundError:
        raise PlanError([Complaint(f"there is no plan at {path}{_plans_beside(path)}")], path.name) from None
    except OSError as error:
        raise PlanError([Complaint(f"the plan {path} cannot be read: {error.strerror}")], path.name) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PlanError([Complaint(f"{path} is not UTF-8 text, so it is not a plan")], path.name) from None
    document = parse_document(text, str(path))
    document.folder = path.parent
    return document


def parse_document(text: str, name: str = "plan") -> Document:
    """Parse a plan's text, YAML or JSON.

    Raises
    ------
    PlanError : when it is not YAML, or not a mapping.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        line = mark.line + 1 if mark is not None else None
        raise PlanError([Complaint(f"this is not YAML: {problem}", line=line)], name) from None
    if not isinstance(node, yaml.MappingNode):
        raise PlanError([Complaint("a plan is a mapping with name, sources, steps and outputs", line=1)], name)
    document = Document({}, name)
    document.values = _Construction(document).build(node, ())
    return document


def document_of(values: Mapping[str, Any], name: str = "plan") -> Document:
    """Wrap values that came from Python or JSON; they have no lines."""
    return Document(dict(values), name)


def parse_scalar(text: str) -> Any:
    """Return the value of one YAML scalar or flow collection, as `--set` takes it."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        return text
    if node is None:
        return None
    return _Construction(Document({})).build(node, ())


class _Construction:
    """Turns composed nodes into values, noting lines and complaining of what YAML would pass over."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0

    def build(self, node: yaml.Node, location: Location) -> Any:
        self.count += 1
        if self.count > _MOST_NODES or len(location) > 50:
            raise PlanError([Complaint("the plan unfolds to more values than any plan has")], self.document.name)
        self.document.lines.setdefault(location, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*location, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return scalar(node.value, plain=not node.style, tag=node.tag)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain("a key must be a plain name", key_node, location)
                continue
            key = key_node.value if key_node.style else scalar(key_node.value, plain=True, tag="")
            key = key if isinstance(key, str) else key_node.value
            if key in result:
                self._complain(f"the name {key!r} is used twice", key_node, (*location, key))
                continue
            self.document.lines.setdefault((*location, key), key_node.start_mark.line + 1)
            result[key] = self.build(value_node, (*location, key))
        return result

    def _complain(self, message: str, node: yaml.Node, location: Location) -> None:
        field_name = ".".join(str(part) for part in location)
        self.document.complaints.append(Complaint(message, line=node.start_mark.line + 1, field=field_name))


def scalar(text: str, *, plain: bool, tag: str) -> Any:
    """Return the value of a scalar by the core schema of YAML 1.2; a quoted one is text."""
    if not plain or tag.startswith("!"):
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.match(text):
        return int(text)
    if _RADIX.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    return _SPECIAL.get(text.lower(), text)


def _plans_beside(path: Path) -> str:
    try:
        found = sorted(item.name for item in path.parent.iterdir() if item.suffix in (".yaml", ".yml", ".json"))
    except OSError:
        return "; give the path of a YAML or JSON file"
    if not found:
        return "; give the path of a YAML or JSON file"
    return f"; in that folder there is {', '.join(found[:6])}"
