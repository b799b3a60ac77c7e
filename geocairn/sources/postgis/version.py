"""The version of a source in a database: what a query of the plan says, else a digest that the server makes.

What always holds: without a version query the whole of what would be read is digested, at each resolution and within
the snapshot of the reading, and nothing is remembered of it. The digest covers every value by its bytes, the columns'
names and types, and what the database says of the CRS; not the order of rows in the file.
"""

# ruff: noqa: S608 - every name in a statement is quoted, and a plan's SQL stands where only a SELECT can

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from geocairn.canonical import digest
from geocairn.failure import InputFailure
from geocairn.sources.postgis.connection import Session
from geocairn.sources.postgis.relation import quoted
from geocairn.sources.postgis.selection import Selection, checked_sql, crs_of_column, fetch_all, header_of

if TYPE_CHECKING:
    from geocairn.sources.source import Source

_LONGEST = 200


def version_text(session: Session, source: Source, selection: Selection) -> str:
    """Return the version: `stated:…`, `query:…` or `sha256:…`.

    Raises
    ------
    InputFailure : for a version query that does not give one row with one value.
    """
    if source.version is not None:
        return f"stated:{source.version}"
    if source.version_sql is not None:
        return f"query:{_answer(session, source.version_sql, source.uri)}"
    return f"sha256:{_digest(session, source, selection)}"


def rows_digest(session: Session, statement: str) -> tuple[int, str]:
    """Return how many rows a statement gives, and the SHA-256 over them, whatever their order.

    Made by the server, so that no row is sent: a SHA-256 of each row in its binary form, over the sorted of which
    another is made, in parts so that no value of the server grows too long.
    """
    rows = fetch_all(
        session,
        "select coalesce(sum(n), 0)::int8, encode(sha256(coalesce(string_agg(h, ''::bytea order by part), ''::bytea)), "
        "'hex') from (select part, count(*) as n, sha256(string_agg(h, ''::bytea order by h)) as h from ("
        "select h, get_byte(h, 0) as part from (select sha256(record_send(q)) as h from ("
        f"{statement}) as q offset 0) as hashed) as parted group by part) as joined",
    )
    return int(rows[0][0]), str(rows[0][1])


def _digest(session: Session, source: Source, selection: Selection) -> str:
    from geocairn.sources.postgis.reading import selected_names

    header = header_of(session, source, selection)
    names = selected_names(source, selection, header)
    rows, content = rows_digest(session, selection.statement(session, source, names, ordered=False))
    types = {column.name: [column.type, column.typmod] for column in selection.columns if column.name in names}
    systems = {name: crs_of_column(session, selection, name, source.uri) for name in selection.geometry}
    return digest(
        {
            "rows": rows,
            "content": content,
            "columns": [[name, *types[name]] for name in names],
            "crs": {name: crs.to_json() if crs is not None else None for name, crs in systems.items()},
        }
    )


def _answer(session: Session, sql: str, where: str) -> str:
    text, names = checked_sql(session, sql, "version_sql", where)
    given = f"{len(names)} columns" if len(names) > 1 else ""
    rows = [] if given else fetch_all(session, f"select q.{quoted(names[0])}::text from (\n{text}\n) as q limit 2")
    if len(rows) != 1 or rows[0][0] is None:
        given = given or ("no row" if not rows else "several rows" if len(rows) > 1 else "no value (null)")
        raise InputFailure(
            f"version_sql: gives {given}, and a version is one value",
            where=where,
            remedy="write for example SELECT max(changed_at) FROM …",
        )
    answer = str(rows[0][0])
    return answer if len(answer) <= _LONGEST else f"sha256-{hashlib.sha256(answer.encode('utf-8')).hexdigest()}"
