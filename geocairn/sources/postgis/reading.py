"""Reading a layer from a database: described from the catalogue, versioned and read within one snapshot.

What always holds: the version that is told and the rows that are read are of one snapshot. Rows come through a cursor,
in the binary protocol, so many at a time that the memory that they take is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from geocairn.failure import InputFailure, SourceChanged
from geocairn.sources.header import Header
from geocairn.sources.postgis.columns import Column, arrow_values, register, tell_lost_digits
from geocairn.sources.postgis.connection import Session, TableReplaced, reading
from geocairn.sources.postgis.selection import Selection, crs_of_column, header_of, selection_of
from geocairn.sources.postgis.version import version_text
from geocairn.sources.uri import DatabasePlace

if TYPE_CHECKING:
    from geocairn.sources.source import Source
    from geocairn.sources.version import SourceVersion

Result = TypeVar("Result")

_SNAPSHOTS = 3
"""So many snapshots are tried where tables are swapped meanwhile."""
_FIRST_ROWS = 500
_MOST_ROWS = 20_000
_BYTES = 16 << 20
"""About so many bytes of geometry are fetched at once."""


def database_header(source: Source, place: DatabasePlace) -> Header:
    """Return what is known of the source without reading it.

    Raises
    ------
    Failure : see `geocairn.sources.postgis.selection`.
    """
    with reading(place) as session:
        return header_of(session, source, selection_of(session, source))


def database_version(source: Source, place: DatabasePlace) -> SourceVersion:
    """Return the version of the source as it is now; see `geocairn.sources.postgis.version`."""
    from geocairn.sources.version import SourceVersion

    def resolved() -> SourceVersion:
        with reading(place) as session:
            selection = selection_of(session, source)
            text = version_text(session, source, selection)
            session.hold_snapshot()
            return SourceVersion(text, source.version is None and source.version_sql is None)

    return _of_one_moment(resolved)


def read_database(source: Source, place: DatabasePlace, pinned: str | None) -> tuple[Any, Header]:
    """Return the layer (the attributes alone where a table is to be read), and what was known of it.

    The exact filters (`bbox`, `where`) and the order of `columns` are left to the caller.

    Raises
    ------
    SourceChanged : when the source is not in the version `pinned`.
    Failure : see `geocairn.sources.postgis.selection`.
    """

    def taken() -> tuple[Any, Header]:
        with reading(place) as session:
            selection = selection_of(session, source)
            if pinned is not None or source.version_sql is not None:
                found = version_text(session, source, selection)
                session.hold_snapshot()
            if pinned is not None and found != pinned:
                raise SourceChanged(
                    "is no longer what it was when the run began",
                    where=source.uri,
                    remedy="run again to use it as it is",
                )
            header = header_of(session, source, selection)
            layer = _layer(session, source, selection, header)
            session.hold_snapshot()
            return layer, header

    return _of_one_moment(taken)


def _of_one_moment(act: Callable[[], Result]) -> Result:
    """Do it in another snapshot where a table was swapped meanwhile, a bounded number of times."""
    for _ in range(_SNAPSHOTS - 1):
        with suppress(TableReplaced):
            return act()
    return act()


def _layer(session: Session, source: Source, selection: Selection, header: Header) -> Any:
    import geopandas
    import pandas as pd
    import pyarrow as pa

    from geocairn.sources.vector import nullable_types, plain_where_whole

    names = selected_names(source, selection, header)
    by_name = {column.name: column for column in selection.columns}
    columns = [by_name[name] for name in names]
    parts: list[list[Any]] = [[] for _ in columns]
    for rows in _fetched(session, selection.statement(session, source, names), columns):
        for into, column, values in zip(parts, columns, zip(*rows, strict=True), strict=True):
            into.append(_values(column, values, source.uri))
    attributes = [(column, part) for column, part in zip(columns, parts, strict=True) if not column.is_geometry]
    arrays = {
        column.name: pa.chunked_array(part or [arrow_values(column, (), source.uri)]) for column, part in attributes
    }
    rows_read = sum(len(part) for part in parts[0]) if parts else 0
    try:
        frame = pa.table(arrays).to_pandas(types_mapper=nullable_types().get)
    except (pa.ArrowInvalid, ValueError, OverflowError) as error:
        raise InputFailure(
            f"holds a date that Python has no place for: {error}",
            where=source.uri,
            remedy="leave the column out with columns, or cast it in sql",
        ) from error
    if not arrays:
        frame = pd.DataFrame(index=pd.RangeIndex(rows_read))
    plain_where_whole(frame)
    if source.table:
        return frame
    for column, part in zip(columns, parts, strict=True):
        if column.is_geometry:
            crs = crs_of_column(session, selection, column.name, source.uri)
            frame[column.name] = geopandas.GeoSeries(_joined(part), index=frame.index, crs=crs)
    return geopandas.GeoDataFrame(frame[names], geometry=selection.active)


def selected_names(source: Source, selection: Selection, header: Header) -> list[str]:
    """Return the columns to be sent: those of the layer, and those that only `where` needs."""
    from geocairn.sources.describe import chosen_columns, filter_columns

    chosen = chosen_columns(source, header)
    extra = sorted(filter_columns(source) - set(chosen) - {selection.active}) if source.columns is not None else []
    return [*chosen, *extra, *([selection.active] if selection.active else [])]


def _fetched(session: Session, statement: str, columns: Sequence[Column]) -> Any:
    session.run(f"declare geocairn_rows no scroll cursor for {statement}")
    register(session.connection)
    cursor = session.connection.cursor(binary=True)
    count = _FIRST_ROWS
    places = [number for number, column in enumerate(columns) if column.is_geometry]
    while rows := cursor.execute(f"fetch forward {count} from geocairn_rows").fetchall():
        yield rows
        size = sum(len(row[place] or b"") for row in rows for place in places)
        count = max(1, min(_MOST_ROWS, int(_BYTES / max(1.0, size / len(rows)))))


def _values(column: Column, values: Sequence[Any], where: str) -> Any:
    if not column.is_geometry:
        tell_lost_digits(column, values, where)
        return arrow_values(column, values, where)
    import numpy as np
    import shapely

    coded = np.empty(len(values), dtype=object)
    coded[:] = values
    try:
        return shapely.set_srid(shapely.from_wkb(coded), 0)
    except (shapely.errors.GEOSException, ValueError) as error:
        raise InputFailure(
            f"column {column.name!r} holds geometry that cannot be read: {error}",
            where=where,
            remedy="make points, lines or polygons of it in sql (ST_Dump, ST_CurveToLine)",
        ) from error


def _joined(parts: list[Any]) -> Any:
    import numpy as np

    return np.concatenate(parts) if parts else np.empty(0, dtype=object)
