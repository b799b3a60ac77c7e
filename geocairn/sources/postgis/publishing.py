"""Publishing a layer as a table: staged beside the old one and swapped with it, all in one transaction.

What always holds: at any moment others see the old table whole or the new one whole; a writer that dies at any point
leaves the old one and nothing else, since the server rolls its transaction back. Two writers of one table go one after
the other. The same result is written once: a table that holds it already, unedited, is left alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.notes import caveat
from geocairn.sources.postgis.cells import Cells, cells_of, geometry_cells, row_numbers
from geocairn.sources.postgis.connection import Session, need_postgis, writing
from geocairn.sources.postgis.geometry_types import declared
from geocairn.sources.postgis.reference_systems import srid_of_crs
from geocairn.sources.postgis.relation import Relation, quoted, target_relation
from geocairn.sources.postgis.replacement import (
    INDEX_COMMENT,
    Standing,
    drop,
    hold_mode,
    inherit,
    refuse_losses,
    standing_at,
)
from geocairn.sources.postgis.selection import KEY_COMMENT
from geocairn.sources.postgis.standing import (
    FORM,
    Written,
    content_of_rows,
    is_unchanged,
    published,
    with_columns,
)
from geocairn.sources.target import Published, Target
from geocairn.sources.uri import DatabasePlace

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

_ROWS = 5_000
"""So many rows are turned into bytes at once."""
_LONGEST_NAME = 63
_SYSTEM_NAMES = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_KEY_NAMES = ("fid", "row_number", "geocairn_fid")
_TRANSACTIONS = 1 << 32


def publish_table(
    layer: GeoDataFrame, target: Target, place: DatabasePlace, lineage: Mapping[str, Any], kinds: Sequence[str]
) -> Published:
    """Write the layer to the table that the target names.

    Parameters
    ----------
    lineage : what the output is made from; a table that holds its `fingerprint` unedited is not written again.
    kinds : the geometry kinds promised of the layer, for one without rows.

    Raises
    ------
    InputFailure : for a layer that PostgreSQL cannot hold, and a table that must not be replaced.
    Failure : of another class, when the database could not be reached or refused. The old table is whole.
    """
    where = target.uri
    relation = target_relation(target.layer, where)
    names = [str(name) for name in layer.columns]
    _hold_names(names, where)
    fingerprint = lineage.get("fingerprint")
    with writing(place) as session:
        there = _at_target(session, relation, where)
        if there is not None:
            kept = there.written
            same = kept is not None and bool(fingerprint) and (kept.form, kept.fingerprint) == (FORM, fingerprint)
            if kept is not None and same and is_unchanged(session, relation, kept):
                return published(place, relation, kept)
            hold_mode(session, relation, there, target.mode, where)
            refuse_losses(session, relation, there, where)
        cells, open_columns = _cells(session, layer, kinds, where)
        staging = Relation(relation.schema, f"geocairn_{uuid.uuid4().hex[:20]}")
        _create(session, staging, cells, open_columns)
        size = _copy(session, staging, cells, len(layer))
        written = _finish(session, staging, len(layer), size, lineage)
        _index(session, staging, [name for name in names if _is_geometry(layer, name)])
        if there is not None:
            session.run(f"lock table {relation.sql} in access exclusive mode")
            inherit(session, staging, there, names, where)
            drop(session, relation, where)
        session.run(f"alter table {staging.sql} rename to {quoted(relation.name)}")
        _name_indexes(session, relation, staging)
        return published(place, relation, written)


def _at_target(session: Session, relation: Relation, where: str) -> Standing | None:
    need_postgis(session)
    session.rows("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"geocairn {relation}"])
    return standing_at(session, relation, where)


def _hold_names(names: Sequence[str], where: str) -> None:
    for name in names:
        if not name or "\0" in name:
            raise InputFailure(f"{name!r} is no column name", where=where, remedy="rename the column before")
        if len(name.encode("utf-8")) > _LONGEST_NAME:
            raise InputFailure(
                f"the column name {name!r} has more than the {_LONGEST_NAME} bytes that PostgreSQL keeps",
                where=where,
                remedy="rename the column before",
            )
        if name in _SYSTEM_NAMES:
            raise InputFailure(
                f"PostgreSQL keeps the column name {name!r} for itself", where=where, remedy="rename the column before"
            )


def _is_geometry(layer: Any, name: str) -> bool:
    return str(layer[name].dtype) == "geometry"


def _cells(session: Session, layer: Any, kinds: Sequence[str], where: str) -> tuple[list[Cells], dict[str, int]]:
    """Return the columns, a key first, and the SRID of each geometry column whose type has to be left open."""
    names = [str(name) for name in layer.columns]
    lowered = {name.lower() for name in names}
    key = next((name for name in _KEY_NAMES if name not in lowered), f"fid_{uuid.uuid4().hex[:8]}")
    cells, open_columns = [row_numbers(key)], {}
    for name in names:
        column = layer[name]
        if not _is_geometry(layer, name):
            cells.append(cells_of(name, column, where))
            continue
        srid = srid_of_crs(session, column.crs, where) if column.crs is not None else 0
        type_name, coded = declared(column.to_numpy(), srid, kinds if name == layer.geometry.name else ())
        if type_name:
            cells.append(geometry_cells(name, f"{session.postgis}.geometry({type_name}, {srid})", coded))
            continue
        caveat(f"{where}: column {name!r} mixes geometries with and without Z or M: its type is left open")
        open_columns[name] = srid
        cells.append(geometry_cells(name, f"{session.postgis}.geometry", coded))
    return cells, open_columns


def _create(session: Session, staging: Relation, cells: Sequence[Cells], open_columns: Mapping[str, int]) -> None:
    columns = [f"{quoted(cell.name)} {cell.type}" for cell in cells]
    columns += [f"check ({session.postgis}.ST_SRID({quoted(name)}) = {srid})" for name, srid in open_columns.items()]
    session.run(f"create table {staging.sql} ({', '.join(columns)})")


def _copy(session: Session, staging: Relation, cells: Sequence[Cells], rows: int) -> int:
    """Send the rows, and return the bytes of their values."""
    names = ", ".join(quoted(cell.name) for cell in cells)
    size = 0
    with session.connection.cursor() as cursor:
        statement: Any = f"copy {staging.sql} ({names}) from stdin (format binary)"
        with cursor.copy(statement) as copy:
            copy.set_types(["bytea"] * len(cells))  # values are bytes as the server takes them already
            for start in range(0, rows, _ROWS):
                stop = min(rows, start + _ROWS)
                columns = [cell.encode(start, stop) for cell in cells]
                size += sum(len(value) for column in columns for value in column if value is not None)
                for row in zip(*columns, strict=True):
                    copy.write_row(row)
    return size


def _finish(session: Session, staging: Relation, rows: int, size: int, lineage: Mapping[str, Any]) -> Written:
    """Give the table its key, and a comment that says what it is."""
    key = session.rows(
        "select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = %s::regclass and a.attnum = 1",
        [staging.sql],
    )[0][0]
    session.run(f"alter table {staging.sql} add primary key ({quoted(key)})")
    session.run(f"comment on column {staging.sql}.{quoted(key)} is {_literal(KEY_COMMENT)}")
    counted, content = content_of_rows(session, staging)
    if counted != rows:
        raise InputFailure(f"{counted} of {rows} rows are there", where=session.where)
    fingerprint = lineage.get("fingerprint")
    written = Written(
        FORM,
        fingerprint if isinstance(fingerprint, str) else "",
        rows,
        size,
        with_columns(session, staging, rows, content),
        content,
        str(int(session.rows("select txid_current()")[0][0]) % _TRANSACTIONS),
        dict(lineage),
    )
    session.run(f"comment on table {staging.sql} is {_literal(written.comment())}")
    return written


def _index(session: Session, staging: Relation, geometries: Sequence[str]) -> None:
    for number, name in enumerate(geometries):
        index = Relation(staging.schema, f"{staging.name}_{number}")
        session.run(f"create index {quoted(index.name)} on {staging.sql} using gist ({quoted(name)})")
        session.run(f"comment on index {index.sql} is {_literal(INDEX_COMMENT)}")
    session.run(f"analyze {staging.sql}")


def _name_indexes(session: Session, relation: Relation, staging: Relation) -> None:
    """Name the indexes after the table, where these names are free."""
    rows = session.rows(
        "select i.relname::text, x.indisprimary, coalesce((select a.attname::text from pg_catalog.pg_attribute a "
        "where a.attrelid = i.oid and a.attnum = 1), '') from pg_catalog.pg_index x "
        "join pg_catalog.pg_class i on i.oid = x.indexrelid where x.indrelid = %s::regclass and i.relname like %s",
        [relation.sql, f"{staging.name}%"],
    )
    for name, is_key, column in rows:
        wanted = f"{relation.name}_pkey" if is_key else f"{relation.name}_{column}_idx"
        if len(wanted.encode("utf-8")) > _LONGEST_NAME:
            continue
        taken = session.rows(
            "select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = %s and c.relname = %s",
            [relation.schema, wanted],
        )
        if not taken:
            session.run(f"alter index {Relation(relation.schema, name).sql} rename to {quoted(wanted)}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
