"""What a source selects of a database: its columns and geometry, from the catalogue, and the statement that reads it.

What always holds: a plan's SQL is one SELECT. It is prepared on its own, which takes a single statement, and runs only
as a subquery, where PostgreSQL's grammar has no place for anything that writes. Rows come in an order that depends on
the content alone: by the primary key, as the SQL itself orders them, else sorted by their values. Only the columns and
the rows that a step needs are sent.
"""

# ruff: noqa: S608 - every name in a statement is quoted, and a plan's SQL stands where only a SELECT can

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geocairn.failure import FatalFailure, InputFailure
from geocairn.nearest import did_you_mean
from geocairn.sources.header import Header, kinds_of_names
from geocairn.sources.postgis.columns import Column, columns_of
from geocairn.sources.postgis.connection import Session, need_postgis
from geocairn.sources.postgis.reference_systems import crs_of_srid
from geocairn.sources.postgis.relation import Relation, quoted, relation_named
from geocairn.sources.postgis.sql_text import orders_rows, without_end

if TYPE_CHECKING:
    from geocairn.sources.source import Source

KEY_COMMENT = "geocairn: the number of the row"
"""The comment on a key column that geocairn adds to a table; it is no attribute of the layer."""
SUPERUSER_VARIABLE = "GEOCAIRN_SQL_AS_SUPERUSER"
"""Set by whoever runs geocairn, to let a plan's SQL run as a superuser all the same."""

_BYTEWISE = ' collate pg_catalog."C"'
"""How text is ordered: alike on all servers."""
_READABLE = "rpvmf"
_UNREADABLE_GEOMETRY = ("TIN", "TRIANGLE", "POLYHEDRALSURFACE")
_CURVES = ("CIRCULARSTRING", "COMPOUNDCURVE", "CURVEPOLYGON", "MULTICURVE", "MULTISURFACE", "GEOMETRYCOLLECTION")
_ONE_SELECT = "write one SELECT (WITH … SELECT too) that only reads"


@dataclass(frozen=True)
class Place:
    """What is known of a geometry column."""

    srids: tuple[int, ...]
    """Those that occur; none where no row has a geometry."""
    types: tuple[str, ...] = ()
    """Names of the geometry types that may occur; none when that is not known."""
    curves: bool = True
    """Whether arcs may occur."""


@dataclass
class Selection:
    """What a source selects."""

    relation: str
    """As FROM takes it."""
    columns: list[Column]
    order: str
    """What ORDER BY takes; empty where the statement itself orders its rows."""
    sort: bool
    """Whether rows are to be sorted by their values."""
    geometry: dict[str, Place] = field(default_factory=dict)
    """By column."""
    active: str = ""
    """The geometry column; empty where there is none."""

    def statement(self, session: Session, source: Source, names: Sequence[str], *, ordered: bool = True) -> str:
        """Return the SELECT that reads these columns, the rows limited by `bbox` as far as their boxes go.

        Parameters
        ----------
        ordered : whether the order of the rows matters.
        """
        by_name = {column.name: column for column in self.columns}
        chosen = ", ".join(
            by_name[name].expression(session, name in self.geometry and self.geometry[name].curves) for name in names
        )
        text = f"select {chosen} from {self.relation}"
        if source.bbox is not None:
            srid = next(iter(self.geometry[self.active].srids), 0)
            box = ", ".join(f"'{number!r}'::float8" for number in source.bbox)
            value = f"q.{quoted(self.active)}"
            if by_name[self.active].type == "geography":
                value = f"{value}::{session.postgis}.geometry"
            text += f" where {value} operator({session.postgis}.&&) {session.postgis}.ST_MakeEnvelope({box}, {srid})"
        if not ordered:
            return text
        if self.sort:
            return f"select * from ({text}) as q order by pg_catalog.record_send(q)"
        return f"{text} order by {self.order}" if self.order else text


def selection_of(session: Session, source: Source) -> Selection:
    """Return what the source selects, from the catalogue and the server's description of the statement.

    Raises
    ------
    InputFailure : for a table that is not there, SQL that is no single SELECT, a column that cannot be read, a mix of
        SRIDs, a result without geometry (unless a table is to be read).
    FatalFailure : for SQL under a role that may read the server's own files.
    """
    if not source.table:
        need_postgis(session)
    if source.sql is not None:
        selection = _of_sql(session, source.sql, source.uri)
    else:
        assert source.layer is not None  # held before by check_source
        selection = _of_relation(session, relation_named(source.layer, source.uri), source)
    needed = _needed(source, selection.columns)
    geometries = [column for column in selection.columns if column.is_geometry]
    if source.table:
        selection.columns = [column for column in selection.columns if not column.is_geometry]
    elif not geometries:
        raise InputFailure(
            "is a table without geometry", where=source.uri, remedy="read it as one (table: true), or select a geometry"
        )
    else:
        selection.active = geometries[0].name
    for column in selection.columns:
        if column.refused and column.name in needed:
            raise InputFailure(
                f"column {column.name!r} {column.refused}",
                where=source.uri,
                remedy="leave it out with columns, or cast it in sql (::text, ::numeric, …)",
            )
    for column in geometries if not source.table else []:
        if column.name in needed or column.name == selection.active:
            selection.geometry[column.name] = _place(session, selection, column, source.uri)
    return selection


def header_of(session: Session, source: Source, selection: Selection) -> Header:
    """Return what is known of the layer, in the words of `geocairn.sources.header`."""
    active = selection.geometry.get(selection.active)
    needed = _needed(source, selection.columns)
    remarks = [
        f"{source.uri}: column {column.name!r} (of type {column.type}) is read as text"
        for column in selection.columns
        if column.told and column.name in needed
    ]
    if active is not None and any(name in _CURVES[:-1] for name in active.types):
        remarks.append(f"{source.uri}: arcs are read as lines of short chords")
    others = [name for name in selection.geometry if name != selection.active]
    if others:
        remarks.append(
            f"{source.uri}: of several geometry columns {selection.active!r} is the layer's; {', '.join(others)} "
            "come beside it"
        )
    return Header(
        columns={column.name: column.word for column in selection.columns if column.name != selection.active},
        geometry_column=selection.active,
        kinds=kinds_of_names(name.replace("CIRCULAR", "LINE") for name in active.types) if active is not None else (),
        crs=_crs(session, active, source.uri) if active is not None else None,
        remarks=remarks,
    )


def crs_of_column(session: Session, selection: Selection, name: str, where: str) -> Any:
    """Return the CRS of a geometry column; None where it has none."""
    return _crs(session, selection.geometry[name], where)


def checked_sql(session: Session, sql: str, field_name: str, where: str) -> tuple[str, list[str]]:
    """Return a plan's SQL as it may stand in a subquery (one statement, without its end), and the columns it gives.

    Raises
    ------
    InputFailure : for several statements, parameters, or what gives no rows.
    FatalFailure : when the role may read files of the server.
    """
    _refuse_powers(session, field_name)
    text = without_end(sql)
    if "\0" in text:
        raise InputFailure(f"{field_name}: has a zero byte in it", where=where, remedy="remove it")
    described = _described(session, text, field_name, where)
    if described.nfields == 0 or described.nparams:
        what = "asks for parameters ($1)" if described.nparams else "is no SELECT: it gives no rows"
        raise InputFailure(f"{field_name}: {what}", where=where, remedy=_ONE_SELECT)
    return text, [name for name, _, _ in _fields(described)]


def _needed(source: Source, columns: list[Column]) -> set[str]:
    from geocairn.sources.describe import filter_columns

    return {column.name for column in columns} if source.columns is None else {*source.columns, *filter_columns(source)}


def _of_relation(session: Session, relation: Relation, source: Source) -> Selection:
    found = session.rows(
        "select c.oid::int8, c.relkind::text, exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid) "
        "from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = %s and c.relname = %s",
        [relation.schema, relation.name],
    )
    if not found:
        raise _no_relation(session, relation, source.uri)
    oid, kind, has_children = found[0]
    if kind not in _READABLE:
        raise InputFailure(f"{relation} is no table or view", where=source.uri, remedy="name one")
    described = _described(session, f"select q.* from {relation.sql} as q", "layer", source.uri)
    columns = columns_of(session, _fields(described))
    hidden = _own_key(session, oid)
    if source.columns is None or hidden not in source.columns:
        columns = [column for column in columns if column.name != hidden]
    key = [] if has_children and kind != "p" else _primary_key(session, oid)
    order = ", ".join(f"q.{quoted(name)}{_BYTEWISE if is_text else ''}" for name, is_text in key)
    return Selection(f"{relation.sql} as q", columns, order, not key)


def _of_sql(session: Session, sql: str, where: str) -> Selection:
    from psycopg.errors import FeatureNotSupported, InvalidCursorDefinition, SyntaxError

    text, names = checked_sql(session, sql, "sql", where)
    relation = f"(\n{text}\n) as q"
    try:
        described = _described(session, f"select q.* from {relation}", "sql", where)
    except InputFailure as failure:
        if isinstance(failure.__cause__, SyntaxError | FeatureNotSupported | InvalidCursorDefinition):
            raise InputFailure(
                "sql: is a statement that may write, or no query", where=where, remedy=_ONE_SELECT
            ) from failure.__cause__
        raise
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputFailure(
            f"sql: gives the column {repeated[0]!r} twice", where=where, remedy="give one of them another name with AS"
        )
    return Selection(relation, columns_of(session, _fields(described)), "", not orders_rows(text))


def _described(session: Session, statement: str, field_name: str, where: str) -> Any:
    """Return the server's description of a statement, which is not run."""
    from psycopg import Error
    from psycopg.errors import error_from_result
    from psycopg.pq import ExecStatus

    from geocairn.sources.postgis.connection import failure_of

    libpq = session.connection.pgconn
    for answer in (libpq.prepare(b"", statement.encode("utf-8")), None):
        answer = answer or libpq.describe_prepared(b"")
        if answer.status != ExecStatus.COMMAND_OK:
            error: Error = error_from_result(answer)
            failure = failure_of(error, where)
            failure.what = f"{field_name}: {failure.what}"
            if error.sqlstate == "0A000" or error.sqlstate == "42601":
                raise InputFailure(failure.what, where, _ONE_SELECT) from error
            raise type(failure)(failure.what, where, failure.remedy) from error
    return answer


def _fields(described: Any) -> list[tuple[str, int, int]]:
    return [
        (described.fname(number).decode("utf-8"), described.ftype(number), described.fmod(number))
        for number in range(described.nfields)
    ]


def _no_relation(session: Session, relation: Relation, where: str) -> InputFailure:
    rows = session.rows(
        "select n.nspname::text, c.relname::text from pg_catalog.pg_class c "
        "join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind::text = any(%s) "
        "and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and has_table_privilege(c.oid, 'select') "
        "and not exists (select from pg_catalog.pg_depend d where d.objid = c.oid and d.deptype = 'e') limit 1000",
        [list(_READABLE)],
    )
    known = [str(Relation(schema, name)) for schema, name in rows]
    elsewhere = sorted(str(Relation(schema, name)) for schema, name in rows if name == relation.name)
    hint = f"; did you mean {elsewhere[0]!r}?" if elsewhere else did_you_mean(str(relation), known)
    return InputFailure(f"has no layer {str(relation)!r}{hint}", where=where)


def _own_key(session: Session, oid: int) -> str:
    """Return the column that geocairn added as a key, empty where there is none."""
    rows = session.rows(
        "select a.attname::text from pg_catalog.pg_attribute a "
        "where a.attrelid = %s and a.attnum > 0 and pg_catalog.col_description(a.attrelid, a.attnum) = %s",
        [oid, KEY_COMMENT],
    )
    return rows[0][0] if len(rows) == 1 else ""


def _primary_key(session: Session, oid: int) -> list[tuple[str, bool]]:
    return [
        (str(name), bool(is_text))
        for name, is_text in session.rows(
            "select a.attname::text, t.typcollation <> 0 from pg_catalog.pg_index i "
            "cross join lateral unnest(i.indkey::int2[]) with ordinality k(attnum, place) "
            "join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum "
            "join pg_catalog.pg_type t on t.oid = a.atttypid "
            "where i.indrelid = %s and i.indisprimary and i.indisvalid and k.place <= i.indnkeyatts order by k.place",
            [oid],
        )
    ]


def _place(session: Session, selection: Selection, column: Column, where: str) -> Place:
    """Return what is known of a geometry column: by its declared type, else by asking the server for what occurs."""
    if column.typmod >= 0:
        srid, name = session.rows(
            f"select {session.postgis}.postgis_typmod_srid(%s), {session.postgis}.postgis_typmod_type(%s)",
            [column.typmod, column.typmod],
        )[0]
        kind = name.upper().removesuffix("M").removesuffix("Z")
        known = kind not in ("GEOMETRY", "GEOGRAPHY")
        if srid > 0:
            return _sound(Place((srid,), (kind,) if known else (), not known or kind in _CURVES), column, where)
    value = f"q.{quoted(column.name)}"
    if column.type == "geography":
        value = f"{value}::{session.postgis}.geometry"
    rows = fetch_all(
        session,
        f"select distinct {session.postgis}.ST_SRID({value}), {session.postgis}.GeometryType({value}) "
        f"from {selection.relation} where {value} is not null",
    )
    names = sorted({str(row[1]).removesuffix("M") for row in rows})
    found = Place(tuple(sorted({int(row[0]) for row in rows})), tuple(names), any(name in _CURVES for name in names))
    return _sound(found, column, where)


def _sound(place: Place, column: Column, where: str) -> Place:
    if len(place.srids) > 1:
        raise InputFailure(
            f"column {column.name!r} mixes SRIDs: {', '.join(map(str, place.srids))}",
            where=where,
            remedy="select one with sql (WHERE ST_SRID(…) = …), or transform them (ST_Transform)",
        )
    odd = [name for name in place.types if name in _UNREADABLE_GEOMETRY]
    if odd:
        raise InputFailure(
            f"column {column.name!r} holds geometry of type {odd[0]}, which a layer does not",
            where=where,
            remedy="make polygons of it in sql (ST_Dump, ST_GeometryN)",
        )
    return place


def _crs(session: Session, place: Place, where: str) -> Any:
    return crs_of_srid(session, place.srids[0], where) if place.srids else None


def fetch_all(session: Session, statement: str) -> list[tuple[Any, ...]]:
    """Return all rows of a statement that holds a plan's SQL, sent so that nothing but one SELECT can be in it."""
    session.run(f"declare geocairn_facts no scroll cursor for {statement}")
    rows = session.rows("fetch all from geocairn_facts")
    session.run("close geocairn_facts")
    return rows


def _refuse_powers(session: Session, field_name: str) -> None:
    """Refuse a plan's SQL where the role could read the server's files by it: read-only does not keep it from that."""
    if os.environ.get(SUPERUSER_VARIABLE):
        return
    powers = session.rows(
        "select case when r.rolsuper then 'is a superuser' else 'may read or write files of the server' end "
        "from pg_catalog.pg_roles r where r.rolname in (current_user, session_user) and (r.rolsuper or exists ("
        "select from pg_catalog.pg_roles p where p.rolname in ('pg_read_server_files', 'pg_write_server_files', "
        "'pg_execute_server_program') and pg_catalog.pg_has_role(r.oid, p.oid, 'member')))"
    )
    if powers:
        raise FatalFailure(
            f"{field_name}: the role {session.role} {powers[0][0]}, which SQL from a plan could make use of",
            where=session.where,
            remedy="connect as a role that only reads the tables (PGUSER; CREATE ROLE … IN ROLE pg_read_all_data), or "
            f"set {SUPERUSER_VARIABLE}=1 where every plan is your own",
        )
