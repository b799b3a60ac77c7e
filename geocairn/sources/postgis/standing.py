"""What lies at an output's table: whether geocairn wrote it, which result it is, and whether it was changed since.

A table that geocairn writes says so in its comment: the fingerprint, the lineage, how many rows it has, a digest of
them, and the transaction that wrote them. What always holds: an unchanged table is known by each of its rows still
bearing that transaction (an insert or update gives another, a deletion another count), which reads no value; where one
does not, as after a restore from a backup, all values are digested by the server and compared.
"""

# ruff: noqa: S608 - every name in a statement is quoted

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from geocairn.canonical import digest
from geocairn.sources.postgis.connection import Session, reading
from geocairn.sources.postgis.relation import Relation, table_address, target_relation
from geocairn.sources.postgis.version import rows_digest
from geocairn.sources.target import Published, Target
from geocairn.sources.uri import DatabasePlace

COMMENT_HEAD = "Written by geocairn. "
FORM = 1
"""Raised when the same result would be written otherwise."""


@dataclass(frozen=True)
class Written:
    """What a table's comment says of it."""

    form: int
    fingerprint: str
    rows: int
    size: int
    """Bytes of all values, as they were sent."""
    sha256: str
    """Over columns and rows."""
    content: str
    """Over the rows alone."""
    transaction: str
    """The xmin of every row."""
    lineage: Mapping[str, Any]

    def comment(self) -> str:
        """Return the text of the comment."""
        return COMMENT_HEAD + json.dumps(asdict(self), ensure_ascii=True)


def written_of(comment: str | None) -> Written | None:
    """Return what a comment says, None for one that geocairn did not write."""
    if comment is None or not comment.startswith(COMMENT_HEAD):
        return None
    try:
        found = Written(**json.loads(comment.removeprefix(COMMENT_HEAD)))
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (found.fingerprint, found.sha256, found.content, found.transaction)
    numbers = (found.form, found.rows, found.size)
    sound = all(isinstance(text, str) for text in texts) and all(isinstance(number, int) for number in numbers)
    return found if sound and found.transaction.isdecimal() else None


def written_at(session: Session, relation: Relation) -> Written | None:
    """Return what the comment on a table says; None where there is no table, or not one that geocairn wrote."""
    rows = session.rows(
        "select pg_catalog.obj_description(c.oid, 'pg_class') from pg_catalog.pg_class c "
        "join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = %s and c.relname = %s and c.relkind = 'r'",
        [relation.schema, relation.name],
    )
    return written_of(rows[0][0]) if rows else None


def content_of(session: Session, relation: Relation) -> tuple[int, str]:
    """Return how many rows a table has, and the SHA-256 over its columns and rows, made by the server."""
    rows, content = content_of_rows(session, relation)
    return rows, with_columns(session, relation, rows, content)


def content_of_rows(session: Session, relation: Relation) -> tuple[int, str]:
    """Return how many rows a table has, and the SHA-256 over them."""
    return rows_digest(session, f"select * from only {relation.sql}")


def with_columns(session: Session, relation: Relation, rows: int, content: str) -> str:
    """Return the SHA-256 over the table's columns, as they are, and over its rows, of which the digest is known."""
    return digest({"rows": rows, "content": content, "columns": _columns(session, relation)})


def is_unchanged(session: Session, relation: Relation, written: Written) -> bool:
    """Return whether a table holds what was written."""
    found = session.rows(
        f"select count(*), coalesce(bool_and(xmin = '{written.transaction}'::xid), true) from only {relation.sql}"
    )[0]
    if found[0] != written.rows:
        return False
    if found[1]:
        return with_columns(session, relation, written.rows, written.content) == written.sha256
    return content_of(session, relation) == (written.rows, written.sha256)


def database_matches(target: Target, place: DatabasePlace, fingerprint: str, size: int, sha256: str) -> bool:
    """Return whether the target's table holds, whole and unedited, what was recorded of this fingerprint.

    Raises
    ------
    Failure : when the database could not be, or may not be, asked.
    """
    relation = target_relation(target.layer, target.uri)
    with reading(place) as session:
        written = written_at(session, relation)
        if written is None or (written.fingerprint, written.size, written.sha256) != (fingerprint, size, sha256):
            return False
        return is_unchanged(session, relation, written)


def database_content(target: Target, place: DatabasePlace) -> Published | None:
    """Return what the target's table holds, None where there is no table that geocairn wrote.

    Raises
    ------
    Failure : when the database could not be, or may not be, asked.
    """
    relation = target_relation(target.layer, target.uri)
    with reading(place) as session:
        written = written_at(session, relation)
        if written is None:
            return None
        _, sha256 = content_of(session, relation)
        return published(place, relation, written, sha256)


def published(place: DatabasePlace, relation: Relation, written: Written, sha256: str | None = None) -> Published:
    """Return what is told of a table that was written."""
    return Published(
        table_address(place, relation),
        written.size,
        sha256 or written.sha256,
        (str(relation),),
        written.fingerprint or None,
    )


def _columns(session: Session, relation: Relation) -> list[list[Any]]:
    return [
        list(row)
        for row in session.rows(
            "select a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod) from pg_catalog.pg_attribute a "
            "join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped order by a.attnum",
            [relation.schema, relation.name],
        )
    ]
