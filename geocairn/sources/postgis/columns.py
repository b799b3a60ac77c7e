"""What PostgreSQL's types are to a layer: the word for each, how it is selected, and how its values become a column.

What always holds: a value arrives as it is, or the column is told or refused by name. Integers with nulls stay
integers. `uuid`, `json` and enumerated types are text; types whose only common form is text (intervals, ranges,
network addresses) are read as text and told; types that lose something or mean nothing outside PostgreSQL (money,
composite types, rasters, its own geometric types) are refused, with the remedy of a cast in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.notes import caveat
from geocairn.sources.postgis.relation import quoted

if TYPE_CHECKING:
    from geocairn.sources.postgis.connection import Session

_WORDS = {
    "bool": "boolean",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "oid": "integer",
    "float4": "number",
    "float8": "number",
    "numeric": "number",
    "text": "text",
    "varchar": "text",
    "date": "date",
    "time": "time",
    "timestamp": "datetime",
    "timestamptz": "datetime",
    "bytea": "binary",
}
_PLAIN_TEXT = frozenset({"bpchar", "name", "char", "uuid", "json", "jsonb", "xml", "citext"})
"""Types that are text by their nature."""
_TOLD_TEXT = frozenset(
    {"interval", "timetz", "inet", "cidr", "macaddr", "macaddr8", "bit", "varbit", "hstore", "tsvector", "tsquery"}
    | {"ltree", "jsonpath", "pg_lsn"}
)
"""Types that are read as text, which is told."""
_LISTED = frozenset({"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar"})
"""Types whose arrays are read as lists."""
_GEOMETRIES = ("geometry", "geography")
_ARROW = {
    "bool": "bool_",
    "int2": "int16",
    "int4": "int32",
    "int8": "int64",
    "oid": "int64",
    "float4": "float32",
    "float8": "float64",
    "numeric": "float64",
    "text": "large_string",
    "varchar": "large_string",
    "bytea": "large_binary",
}
_WHOLE_DIGITS = 18
"""So many digits always fit into 64 bits."""
_TYPMOD_HEADER = 4
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Column:
    """A column of a table or query."""

    name: str
    type: str
    """PostgreSQL's name of its type."""
    kind: str
    """The type as it is read: one of PostgreSQL's, `geometry`, or `list` of one."""
    word: str
    """See `geocairn.sources.header`."""
    typmod: int = -1
    told: bool = False
    """Whether the reader must hear that it is read as text."""
    refused: str = ""
    """Why it cannot be read."""

    @property
    def is_geometry(self) -> bool:
        """Whether it holds geometry (or geography)."""
        return self.kind == "geometry"

    def expression(self, session: Session, curves: bool) -> str:
        """Return how it is selected, of a relation called q.

        Parameters
        ----------
        curves : whether it may hold geometry with arcs.
        """
        name = f"q.{quoted(self.name)}"
        if self.is_geometry:
            value = f"{name}::{session.postgis}.geometry" if self.type == "geography" else name
            if curves:
                value = (
                    f"case when {session.postgis}.ST_HasArc({value}) "
                    f"then {session.postgis}.ST_CurveToLine({value}) else {value} end"
                )
            return f"{value} as {quoted(self.name)}"
        if self.kind == "text" and self.type not in ("text", "varchar"):
            return f"{name}::pg_catalog.text as {quoted(self.name)}"
        if self.kind == "int8" and self.type == "numeric":
            return f"{name}::pg_catalog.int8 as {quoted(self.name)}"
        return f"{name} as {quoted(self.name)}"


def columns_of(session: Session, fields: Sequence[tuple[str, int, int]]) -> list[Column]:
    """Return the columns that a statement gives.

    Parameters
    ----------
    fields : name, type's OID and type modifier of each, as the server describes the statement.
    """
    types = {
        row[0]: row[1:]
        for row in session.rows(
            "select t.oid::int8, t.typname::text, t.typtype::text, t.typcategory::text, coalesce(e.typname::text, '') "
            "from pg_catalog.pg_type t left join pg_catalog.pg_type e on e.oid = t.typelem and t.typcategory = 'A' "
            "where t.oid = any(%s::oid[])",
            [sorted({field[1] for field in fields})],
        )
    }
    return [_column(name, typmod, *types[oid]) for name, oid, typmod in fields]


def _column(name: str, typmod: int, type_name: str, variety: str, category: str, element: str) -> Column:
    if type_name in _GEOMETRIES:
        return Column(name, type_name, "geometry", "geometry", typmod)
    if type_name == "numeric" and _is_whole(typmod):
        return Column(name, type_name, "int8", "integer", typmod)
    if type_name in _WORDS:
        return Column(name, type_name, type_name, _WORDS[type_name], typmod)
    if type_name in _PLAIN_TEXT or variety == "e":
        return Column(name, type_name, "text", "text", typmod)
    if category == "A" and element in _LISTED:
        return Column(name, f"{element}[]", f"list {element}", "list", typmod)
    if type_name in _TOLD_TEXT or variety in ("r", "m"):
        return Column(name, type_name, "text", "text", typmod, told=True)
    shown = f"{element}[]" if category == "A" else type_name
    return Column(name, shown, "", "other", typmod, refused=f"is of type {shown}, which a layer does not hold")


def _is_whole(typmod: int) -> bool:
    """Return whether a numeric has no digits after the point, and no more than fit."""
    if typmod < _TYPMOD_HEADER:
        return False
    digits, scale = (typmod - _TYPMOD_HEADER) >> 16, (typmod - _TYPMOD_HEADER) & 0x7FF
    return scale == 0 and digits <= _WHOLE_DIGITS


def register(connection: Any) -> None:
    """Let a connection give dates and times as they come over the wire, so that none is out of Python's range."""
    from psycopg.types.string import ByteaBinaryLoader

    for name in ("date", "time", "timestamp", "timestamptz"):
        connection.adapters.register_loader(name, ByteaBinaryLoader)


def arrow_values(column: Column, values: Sequence[Any], where: str) -> Any:
    """Return the values of a column that is no geometry as an Arrow array.

    Raises
    ------
    InputFailure : for what no such column can hold: dates at infinity, the hour 24:00, arrays of arrays.
    """
    import pyarrow as pa

    try:
        if column.kind in ("date", "time", "timestamp", "timestamptz"):
            return _moments(column, values, where)
        if column.kind.startswith("list "):
            if not column.kind.endswith(("text", "varchar")) and any(None in value for value in values if value):
                raise pa.ArrowInvalid("it holds arrays with nulls among their numbers")
            return pa.array(values, pa.list_(getattr(pa, _ARROW[column.kind.removeprefix("list ")])()))
        if column.kind == "numeric":
            values = [None if value is None else float(value) for value in values]
        return pa.array(values, getattr(pa, _ARROW[column.kind])())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InputFailure(
            f"column {column.name!r} cannot be read: {error}",
            where=where,
            remedy="leave it out with columns, or cast it in sql",
        ) from error


def tell_lost_digits(column: Column, values: Sequence[Any], where: str) -> None:
    """Tell of numbers with more digits than a number of a layer has: they are rounded to the nearest."""
    from decimal import Decimal

    if column.kind != "numeric":
        return
    if any(value is not None and value.is_finite() and Decimal(repr(float(value))) != value for value in values):
        caveat(
            f"{where}: column {column.name!r} (numeric) has numbers with more digits than a 64-bit number holds: "
            "they are rounded; cast it to text in sql to keep them"
        )


def _moments(column: Column, values: Sequence[bytes | None], where: str) -> Any:
    import numpy as np
    import pyarrow as pa

    days = column.kind == "date"
    width, dtype = (4, ">i4") if days else (8, ">i8")
    missing = np.fromiter((value is None for value in values), dtype=bool, count=len(values))
    counts = np.frombuffer(b"".join(value or bytes(width) for value in values), dtype=dtype)
    endless = (counts == np.iinfo(dtype).max) | (counts == np.iinfo(dtype).min)
    if endless.any():
        raise InputFailure(
            f"column {column.name!r} holds the date 'infinity', in {int(endless.sum())} rows or more",
            where=where,
            remedy=f"leave it out with columns, or write nullif({column.name}, 'infinity') in sql",
        )
    if column.kind == "time":
        if bool((counts[~missing] >= _DAY).any()):
            raise InputFailure(
                f"column {column.name!r} holds the time 24:00",
                where=where,
                remedy="leave it out with columns, or cast it in sql",
            )
        return pa.array(counts.astype("<i8"), pa.int64(), mask=missing).cast(pa.time64("us"))
    if days:
        since_1970 = counts.astype("<i4") + np.int32(_DAYS_TO_2000)
        return pa.array(since_1970, pa.int32(), mask=missing).cast(pa.date32())
    zone = "UTC" if column.kind == "timestamptz" else None
    shifted = counts.astype("<i8") + np.int64(_MICROSECONDS_TO_2000)
    return pa.array(shifted, pa.int64(), mask=missing).cast(pa.timestamp("us", tz=zone))
