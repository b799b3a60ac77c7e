"""A plan as a document: YAML or JSON text into values, each with the line where it stands.

One loader for both forms, with the scalars of YAML 1.2: `1e-6` is a number, `no` and `on` are text, `010` is ten, a
date is text. What always holds: a key that is written twice is a complaint, never silently the last one; a tag
(`!!python/object`) makes nothing, and is a complaint too; what unfolds without end is refused.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from geocairn.nearest import nearest
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.json_nodes import compose_json, looks_like_json

Location = tuple[str | int, ...]

_MOST_NODES = 200_000
_MOST_DEPTH = 50
_MOST_DIGITS = 400
_LARGEST_FILE = 32 * 1024 * 1024
_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_RADIX = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL = {".inf": math.inf, "-.inf": -math.inf, "+.inf": math.inf, ".nan": math.nan}

_PLAIN, _QUOTED, _COLLECTION = "plain", "quoted", ""
_TEXT_TAG = "tag:yaml.org,2002:str"
_NOT_A_PLAN = "a plan is a mapping with name, sources, steps and outputs"

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc, unused-ignore]
    """Composes nodes; their tags say only how a scalar is written, unless the text states one."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _QUOTED
        return _COLLECTION


@dataclass
class Document:
    """The values of a plan's text, and the line of each."""

    values: dict[str, Any]
    name: str = "plan"
    """What the document is called in messages: its path."""
    folder: Path | None = None
    lines: dict[Location, int] = field(default_factory=dict)
    complaints: list[Complaint] = field(default_factory=list)
    settings: dict[Location, str] = field(default_factory=dict)
    """What `--set` put in, by the place where it is now."""

    def line(self, location: Location) -> int | None:
        """Return the line of the value at `location`, or of the nearest thing around it; None for one that was set."""
        if self.setting(location) is not None:
            return None
        for end in range(len(location), -1, -1):
            if location[:end] in self.lines:
                return self.lines[location[:end]]
        return None

    def setting(self, location: Location) -> str | None:
        """Return the `--set` that the value at `location` comes from; None for one that the text states."""
        for end in range(len(location), 0, -1):
            if location[:end] in self.settings:
                return self.settings[location[:end]]
        return None


def read_document(path: Path) -> Document:
    """Read a plan from a YAML or JSON file.

    Raises
    ------
    PlanError : when there is no such file, it cannot be read, or it is not YAML.
    """
    name = str(path)
    try:
        if path.is_dir():
            raise PlanError([Complaint(f"this is a folder, not a plan{_plans_in(path, '')}")], name)
        if path.stat().st_size > _LARGEST_FILE:
            raise PlanError([Complaint(f"the file is larger than {_LARGEST_FILE} bytes, which no plan is")], name)
        data = path.read_bytes()
    except FileNotFoundError:
        raise PlanError([Complaint(f"there is no such file{_plans_in(path.parent, path.name)}")], name) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError([Complaint(f"the plan cannot be read: {reason}")], name) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PlanError([Complaint("this is not UTF-8 text: save the plan as UTF-8", line=line)], name) from None
    document = parse_document(text, name)
    document.folder = path.parent
    return document


def parse_document(text: str, name: str = "plan") -> Document:
    """Parse a plan's text, YAML or JSON.

    Raises
    ------
    PlanError : when it is neither, or not a mapping.
    """
    node = _compose(text.removeprefix("\ufeff"), name)
    if not isinstance(node, yaml.MappingNode):
        raise PlanError([Complaint(_NOT_A_PLAN, line=1)], name)
    document = Document({}, name)
    document.values = _Construction(document).build(node, ())
    return document


def document_of(values: Mapping[str, Any], name: str = "plan") -> Document:
    """Wrap a copy of values that came from Python or JSON; they have no lines."""
    return Document(copy.deepcopy(dict(values)), name)


def parse_scalar(text: str) -> Any:
    """Return the value of one YAML scalar or flow collection, as `--set` takes it.

    A plain scalar is taken whole: `#` and `: ` in it are text, as on a command line nobody means a comment or a block.
    """
    stripped = text.strip()
    if stripped[:1] not in ("[", "{", '"', "'"):
        return scalar(stripped, plain=True)
    try:
        node = yaml.compose(stripped, Loader=_Loader)
    except yaml.YAMLError:
        return stripped
    if isinstance(node, yaml.ScalarNode) and not node.style:
        return scalar(stripped, plain=True)
    document = Document({})
    value = _Construction(document).build(node, ()) if node is not None else None
    if document.complaints:
        raise PlanError(document.complaints, text)
    return value


def _compose(text: str, name: str) -> yaml.Node | None:
    if looks_like_json(text):
        try:
            return compose_json(text, _PLAIN, _QUOTED)
        except json.JSONDecodeError as error:
            if name.lower().endswith(".json"):
                raise PlanError([Complaint(f"this is not JSON: {error.msg}", line=error.lineno)], name) from None
            # else it may be YAML that begins with a brace
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise PlanError([_not_yaml(error, text)], name) from None
    return node


def _not_yaml(error: yaml.YAMLError, text: str) -> Complaint:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        reason = getattr(error, "reason", None) or "it cannot be parsed"
        position = getattr(error, "position", None)
        before = text.encode("utf-8")[:position].decode("utf-8", "ignore") if isinstance(position, int) else ""
        return Complaint(f"this is not YAML: {reason}", line=before.count("\n") + 1)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    context = getattr(error, "context", None)
    if "another document" in problem:
        return Complaint("there is a second document after ---: a plan is one document", line=mark.line + 1)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    about = f" ({context})" if context and "scanning for the next token" not in context else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return Complaint("this is not YAML: the line is indented with a tab; use spaces", line=mark.line + 1)
    return Complaint(f"this is not YAML: {problem}{about}", line=max(1, min(mark.line + 1, len(lines))))


class _Construction:
    """Turns composed nodes into values, noting lines and complaining of what YAML would pass over."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0

    def build(self, node: yaml.Node, location: Location) -> Any:
        self.count += 1
        if self.count > _MOST_NODES or len(location) > _MOST_DEPTH:
            raise PlanError([Complaint("the plan unfolds to more values than any plan has")], self.document.name)
        self.document.lines.setdefault(location, node.start_mark.line + 1)
        if node.tag not in (_PLAIN, _QUOTED, _COLLECTION, _TEXT_TAG):
            shown = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._complain(
                f"the tag {shown} has no meaning in a plan, which is plain data: leave it out", node, location
            )
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*location, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return scalar(node.value, plain=node.tag == _PLAIN)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain("a key must be a plain name", key_node, location)
                continue
            key = key_node.value
            if key == "<<" and key_node.tag == _PLAIN:
                self._complain("YAML 1.2 has no merge key <<: write the fields out", key_node, location)
                continue
            if key in result:
                first = self.document.lines.get((*location, key))
                self._complain(f"the name {key!r} is used twice (line {first})", key_node, (*location, key))
                continue
            self.document.lines.setdefault((*location, key), key_node.start_mark.line + 1)
            result[key] = self.build(value_node, (*location, key))
        return result

    def _complain(self, message: str, node: yaml.Node, location: Location) -> None:
        field_name = ".".join(str(part) for part in location)
        line = node.start_mark.line + 1
        self.document.complaints.append(Complaint(message, line=line, field=field_name or None))


def scalar(text: str, *, plain: bool) -> Any:
    """Return the value of a scalar by the core schema of YAML 1.2; one that is not plain is text."""
    if not plain:
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) > _MOST_DIGITS:
        return text
    if _INTEGER.match(text):
        return int(text)
    if _RADIX.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    return _SPECIAL.get(text.lower(), text)


def _plans_in(folder: Path, wanted: str) -> str:
    """Return what to say about the plans in a folder, the one named most like `wanted` first."""
    try:
        found = sorted(item.name for item in folder.iterdir() if item.suffix in (".yaml", ".yml", ".json"))
    except OSError:
        return "; give the path of a YAML or JSON file"
    if not found:
        return "; give the path of a YAML or JSON file"
    best = nearest(wanted, found) if wanted else None
    if best is not None:
        return f"; did you mean {best!r}?"
    return f"; in {'that folder' if wanted else 'it'} there is {', '.join(found[:6])}"
