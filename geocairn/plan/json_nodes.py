"""JSON text into the nodes that YAML text is composed to, so that one construction serves both and keeps lines.

Most JSON is YAML, but not all: escapes of characters beyond the first plane, long names, a name and its colon on two
lines. What always holds: text that the standard's JSON accepts gives the same values here, each node with its place.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import yaml

_SPACE = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
MOST_DEPTH = 200
"""Levels of nesting; YAML's own parser stops too, at 1,000."""


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as a JSON object does."""
    return text.lstrip().startswith("{")


def compose_json(text: str, plain: str, quoted: str) -> yaml.Node:
    """Return the root node of a JSON text.

    Parameters
    ----------
    text : JSON.
    plain, quoted : the tags that scalars without and with quotes get.

    Raises
    ------
    json.JSONDecodeError : when it is not JSON, or nested beyond any plan.
    """
    composer = _Composer(text, plain, quoted)
    node, end = composer.value(composer.skip(0), 0)
    end = composer.skip(end)
    if end != len(text):
        raise json.JSONDecodeError("there is more after the end of the object", text, end)
    return node


class _Composer:
    def __init__(self, text: str, plain: str, quoted: str) -> None:
        self.text = text
        self.plain = plain
        self.quoted = quoted
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def mark(self, at: int) -> Any:
        line = bisect_right(self.starts, at) - 1
        return yaml.Mark("", at, line, at - self.starts[line], None, 0)  # type: ignore[no-untyped-call, unused-ignore]

    def fail(self, message: str, at: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self.text, at)

    def value(self, at: int, depth: int) -> tuple[yaml.Node, int]:
        start = self.text[at : at + 1]
        if depth > MOST_DEPTH:
            raise self.fail("it is nested deeper than any plan", at)
        if start == '"':
            return self.string(at)
        if start == "{":
            return self.object(at, depth)
        if start == "[":
            return self.array(at, depth)
        word = _WORD.match(self.text, at)
        if word is None:
            raise self.fail("a value is needed here", at)
        return yaml.ScalarNode(self.plain, word[0], self.mark(at), self.mark(word.end()), None), word.end()

    def string(self, at: int) -> tuple[yaml.ScalarNode, int]:
        if self.text[at : at + 1] != '"':
            raise self.fail("a name in double quotes is needed here", at)
        content, end = scanstring(self.text, at + 1, True)
        return yaml.ScalarNode(self.quoted, content, self.mark(at), self.mark(end), '"'), end

    def object(self, at: int, depth: int) -> tuple[yaml.Node, int]:
        entries: list[tuple[yaml.Node, yaml.Node]] = []
        start, at = at, self.skip(at + 1)
        while self.text[at : at + 1] != "}":
            name, at = self.string(at)
            at = self.skip(at)
            if self.text[at : at + 1] != ":":
                raise self.fail("a colon is needed here", at)
            item, at = self.value(self.skip(at + 1), depth + 1)
            entries.append((name, item))
            at = self.next(at, "}")
        return yaml.MappingNode("", entries, self.mark(start), self.mark(at), True), at + 1

    def array(self, at: int, depth: int) -> tuple[yaml.Node, int]:
        items: list[yaml.Node] = []
        start, at = at, self.skip(at + 1)
        while self.text[at : at + 1] != "]":
            item, at = self.value(at, depth + 1)
            items.append(item)
            at = self.next(at, "]")
        return yaml.SequenceNode("", items, self.mark(start), self.mark(at), True), at + 1

    def next(self, at: int, closing: str) -> int:
        """Return the place of the next item, or of the closing bracket."""
        at = self.skip(at)
        found = self.text[at : at + 1]
        if found == closing:
            return at
        if found != ",":
            raise self.fail(f"a comma or {closing!r} is needed here", at)
        at = self.skip(at + 1)
        if self.text[at : at + 1] == closing:
            raise self.fail("there is a comma after the last item", at - 1)
        return at
