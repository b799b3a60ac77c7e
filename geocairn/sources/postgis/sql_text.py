"""What can be told of a SELECT by its text alone: where it ends, and whether it orders its rows.

What always holds: this decides only how rows are ordered and never what may run. That is PostgreSQL's own grammar's
part: a statement stands alone in a prepared statement, and as a subquery it can only be one that reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$)
    |(?P<escaped>[eE]'(?:[^'\\]|\\.|'')*')
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*")
    |(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def without_end(sql: str) -> str:
    """Return the statement without the semicolons and white space that end it."""
    end = len(sql)
    for start, text in reversed(list(_tokens(sql))):
        if text != ";":
            break
        end = start
    return sql[:end].rstrip()


def orders_rows(sql: str) -> bool:
    """Return whether the statement itself, and not only a part of it in brackets, says ORDER BY."""
    depth, before = 0, ""
    for _, text in _tokens(sql):
        if text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
        elif depth == 0 and text.upper() == "BY" and before.upper() == "ORDER":
            return True
        before = text
    return False


def _tokens(sql: str) -> Iterator[tuple[int, str]]:
    """Give place and text of each token but white space, comments and quoted text (which stands as '')."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None  # the last alternative takes anything
        start, at = at, found.end()
        if found.lastgroup == "comment":
            at = _comment_end(sql, at)
        elif found.lastgroup == "dollar":
            end = sql.find(found[0], at)
            at = len(sql) if end < 0 else end + len(found[0])
            yield start, "''"
        elif found.lastgroup in ("escaped", "text", "name"):
            yield start, "''"
        elif found.lastgroup != "space":
            yield start, found[0]


def _comment_end(sql: str, at: int) -> int:
    """Return where a comment ends that began before `at`; comments nest."""
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(sql, at)):
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return len(sql) if depth else at
