"""The filter language: CQL2, the OGC's standard, read by the `cql2` library; `filter_evaluation` applies it to a layer.

What always holds: a filter is data. It can compare, calculate and call the functions listed here, and nothing else;
text of any origin is safe to read. Reading one needs no geospatial library, so that a plan can be checked early.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from geocairn.nearest import did_you_mean

LONGEST = 20_000
LONGEST_NUMBER = 300
"""Most digits of a number: more than any column holds, and less than Python refuses to read."""
HEAVIEST = 200
"""Most operators (AND, OR, NOT, arithmetic signs), each level of parentheses counting as four of them."""
EXACT_INTEGER = "exact_integer"
_LITERAL = re.compile(r"""'(?:[^']|'')*'|"[^"]*\"""")
_SIGNED_NUMBER = re.compile(r"([=<>(,]\s*)-(?=[\d.])")
_NESTING = re.compile(r"[-+*/%^]|\b(?:and|or|not|div)\b", re.IGNORECASE)
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|(?<![\w.])\d{16,}(?![\w.])""")

LOGIC = ("and", "or", "not")
COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
CONDITIONS = ("isNull", "like", "between", "in")
ARITHMETIC = ("+", "-", "*", "/", "%", "div", "^")
TEXT = ("casei", "accenti")
SPATIAL = {
    "s_intersects": "intersects",
    "s_equals": "equals",
    "s_disjoint": "disjoint",
    "s_touches": "touches",
    "s_within": "within",
    "s_overlaps": "overlaps",
    "s_crosses": "crosses",
    "s_contains": "contains",
}
TEMPORAL = (
    "t_after",
    "t_before",
    "t_contains",
    "t_disjoint",
    "t_during",
    "t_equals",
    "t_finishedby",
    "t_finishes",
    "t_intersects",
    "t_meets",
    "t_metby",
    "t_overlappedby",
    "t_overlaps",
    "t_startedby",
    "t_starts",
)
KNOWN = (*LOGIC, *COMPARISONS, *CONDITIONS, *ARITHMETIC, *TEXT, *SPATIAL, *TEMPORAL)


@functools.lru_cache(maxsize=256)
def parse(where: str, what: str = "filter", functions: tuple[str, ...] = ()) -> Any:
    """Return the syntax tree of a filter, or of another expression, in the form of CQL2-JSON.

    Parameters
    ----------
    what : the expression is, for complaints.
    functions : that it may call besides those of every filter.

    Raises
    ------
    ValueError : for wrong syntax, naming the place, and for a function that the language does not have.
    """
    import cql2

    _check_depth(where, what)
    if re.search(rf"\d{{{LONGEST_NUMBER + 1}}}", _LITERAL.sub("", where)):
        raise ValueError(f"the {what} holds a number of more than {LONGEST_NUMBER} digits")
    try:
        # The library reads numbers as floats: long integers are wrapped so that they stay exact.
        tree = cql2.parse_text(_TOKEN.sub(_wrap_integer, where)).to_json()
    except cql2.ParseError as error:
        raise ValueError(_syntax_complaint(where, what, str(error))) from None
    known = (*KNOWN, *functions)
    for node in _nodes(tree):
        if isinstance(node, dict) and "op" in node and node["op"] not in known and not _is_exact_integer(node):
            raise ValueError(
                f"the {what} language has no function {node['op']!r}{did_you_mean(str(node['op']), known)}"
            )
    return tree


def _check_depth(where: str, what: str) -> None:
    """Refuse what is nested so deeply that the library's recursion would exhaust the stack, which ends the process."""
    bare = _SIGNED_NUMBER.sub(r"\1", _LITERAL.sub("", where))
    depth = deepest = 0
    for letter in bare:
        depth += (letter == "(") - (letter == ")")
        deepest = max(deepest, depth)
    if len(where) > LONGEST or 4 * deepest + len(_NESTING.findall(bare)) > HEAVIEST:
        raise ValueError(
            f"the {what} is too long or too deeply nested: it may have {LONGEST} letters, and {HEAVIEST} of AND, OR, "
            "NOT and arithmetic signs, each level of parentheses counting as four; for many values of one column use IN"
        )


def check_syntax(where: str) -> None:
    """Refuse a filter that cannot be read; needs neither the layer nor any geospatial library.

    Raises
    ------
    ValueError : for wrong syntax, naming the place, and for a function that the language does not have.
    """
    parse(where)


def columns_of(where: str) -> set[str]:
    """Return the names of the columns that a filter reads.

    Raises
    ------
    ValueError : for wrong syntax.
    """
    return {str(node["property"]) for node in _nodes(parse(where)) if isinstance(node, dict) and "property" in node}


def _wrap_integer(found: re.Match[str]) -> str:
    token = found[0]
    return f"{EXACT_INTEGER}('{token}')" if token[0].isdigit() else token


def _is_exact_integer(node: dict[str, Any]) -> bool:
    args = node["args"]
    return node["op"] == EXACT_INTEGER and len(args) == 1 and isinstance(args[0], str) and args[0].isdigit()


def _syntax_complaint(where: str, what: str, said: str) -> str:
    place = re.search(r"--> (\d+):(\d+)", said)
    if place is None:
        return f"the {what} {where!r} cannot be read"
    line, column = int(place[1]), int(place[2])
    text = where.splitlines()[line - 1] if where.splitlines() else ""
    rest = text[column - 1 :][:20]
    hint = ""
    if "==" in where:
        hint = "; CQL2 compares with a single ="
    elif '"' in where:
        hint = "; text stands in single quotes, double quotes are for column names"
    at = f"at {rest!r}" if rest else "at its end"
    return f"the {what} {where!r} cannot be read {at} (line {line}, column {column}){hint}"


def _nodes(tree: Any) -> Iterator[Any]:
    yield tree
    children = tree.get("args", []) if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    for child in children:
        yield from _nodes(child)
