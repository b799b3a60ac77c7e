"""Reading a source in the version that a run has pinned.

What always holds: what is returned is the content of that version and no other. The version is held to before and after
reading, and a source that changed in between raises `SourceChanged`, upon which the whole plan is decided again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure, SourceChanged
from geocairn.memory import Memory
from geocairn.notes import caveat
from geocairn.sources.access import files_of, on_disk
from geocairn.sources.describe import check_table_options, chosen_columns, filter_columns, header_of
from geocairn.sources.formats import CSV, PARQUET, Format
from geocairn.sources.header import Header
from geocairn.sources.postgis.relation import check_source
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.remote import remote_files
from geocairn.sources.stated_crs import settle_crs
from geocairn.sources.uri import DatabasePlace, LocalPlace, parse
from geocairn.sources.version import SourceVersion, remote_version, resolve_version

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from geocairn.s3 import S3Settings
    from geocairn.sources.geoparquet.dataset import Located
    from geocairn.sources.source import Source


def read(
    source: Source,
    version: SourceVersion | str | None = None,
    *,
    base: Path | None = None,
    s3: S3Settings | None = None,
    memory: Memory | None = None,
    reach: Reach = EVERYTHING,
) -> GeoDataFrame:
    """Read the source: rows in the file's order, a fresh index, CRS settled, the geometry column's own name.

    A source with `table: true` gives a DataFrame of its attributes.

    Parameters
    ----------
    version : as pinned (or its text); that of now when left out.
    base, s3, memory, reach : as for `resolve_version`.

    Raises
    ------
    SourceChanged : when the source is not, or no longer, in the pinned version.
    InputFailure : when it cannot be read as the plan says; see `geocairn.sources.describe`.
    FatalFailure, TransientFailure : when it may not be read, or the service failed to answer.
    """
    place = parse(source.uri, base)
    reach.may_read(place, source.uri, base)
    check_source(source, place)
    if isinstance(place, DatabasePlace):
        return _read_database(source, place, version)
    remote = None
    if isinstance(place, LocalPlace):
        before = resolve_version(source, base=base, s3=s3, memory=memory, reach=reach)
    else:
        remote = remote_files(place, s3=s3, allowed=reach.may_ask)
        before = remote_version(source, remote)
    pinned = before.text if version is None else version if isinstance(version, str) else version.text
    state = version.state if isinstance(version, SourceVersion) and not version.is_content_digest else ""
    if before.text != pinned or (state and before.state != state):
        raise _changed(source)
    whole = not source.table and source.columns is None and source.where is None and source.bbox is None
    with files_of(source, base=base, s3=s3, remote=remote, whole=whole, reach=reach) as (path, kind):
        try:
            header = header_of(path, kind, source)
            layer = _read(path, kind, source, header)
        except InputFailure as failure:
            # A file replaced while it was read fails in all sorts of ways: the change is the cause to tell.
            if isinstance(place, LocalPlace) and not _unchanged(source, before, base, s3, memory, reach):
                raise _changed(source) from failure
            raise
    if isinstance(place, LocalPlace) and not _unchanged(source, before, base, s3, memory, reach):
        raise _changed(source)
    for sentence in header.remarks:
        caveat(sentence)
    return layer


def _read_database(source: Source, place: DatabasePlace, version: SourceVersion | str | None) -> Any:
    from geocairn.sources.postgis.reading import read_database

    pinned = version if version is None or isinstance(version, str) else version.text
    if source.table:
        check_table_options(source)
    layer, header = read_database(source, place, pinned)
    for sentence in header.remarks:
        caveat(sentence)
    return _settled_table(layer, source, header) if source.table else _settled(layer, source, header)


def _read(path: Located, kind: Format, source: Source, header: Header) -> Any:
    if source.table:
        return _read_table(path, kind, source, header)
    settle_crs(header.crs, header.crs_by_default, source.crs, source.uri)  # refused before anything is read
    chosen = chosen_columns(source, header)
    needed = None if source.columns is None else [*chosen, *sorted(filter_columns(source) - set(chosen))]
    if kind is PARQUET:
        from geocairn.sources.geoparquet import read_parquet

        layer = read_parquet(path, source, header, needed)
    elif kind is CSV:
        from geocairn.sources.delimited import read_csv

        layer = read_csv(on_disk(path), source, needed)
    else:
        from geocairn.sources.vector import read_vector

        layer = read_vector(on_disk(path), kind, source, header, needed)
    return _settled(layer, source, header)


def _settled(layer: Any, source: Source, header: Header) -> Any:
    """Return the layer in its settled CRS, with the rows and columns that were asked for."""
    crs = settle_crs(header.crs, header.crs_by_default, source.crs, source.uri)
    layer = layer.set_crs(crs, allow_override=True)
    if source.bbox is not None:
        layer = layer[_meets_box(layer.geometry, source.bbox, source.uri)]
    if source.where is not None:
        from geocairn.filters.evaluation import matching

        layer = layer[matching(layer, source.where)]
    geometry = layer.geometry.name
    if source.columns is not None:
        layer = layer[[*chosen_columns(source, header), geometry]]
    return layer.reset_index(drop=True)


def _read_table(path: Located, kind: Format, source: Source, header: Header) -> Any:
    from geocairn.sources.tables import read_table

    chosen = chosen_columns(source, header)
    needed = [*chosen, *sorted(filter_columns(source) - set(chosen))]
    return _settled_table(read_table(path, kind, source, header, needed), source, header)


def _settled_table(table: Any, source: Source, header: Header) -> Any:
    if source.where is not None:
        from geocairn.filters.evaluation import matching

        table = table[matching(table, source.where)]
    return table[chosen_columns(source, header)].reset_index(drop=True)


def _meets_box(geometry: Any, box: tuple[float, float, float, float], uri: str) -> Any:
    import shapely
    from shapely.geometry import LineString, Point

    if box[0] == box[2] and box[1] == box[3]:
        shape: Any = Point(box[0], box[1])
    elif box[0] == box[2] or box[1] == box[3]:
        shape = LineString([(box[0], box[1]), (box[2], box[3])])
    else:
        shape = shapely.box(*box)
    shapely.prepare(shape)
    try:
        return shapely.intersects(shape, geometry.values)
    except shapely.errors.GEOSException as error:
        raise InputFailure(
            f"bbox: the geometry engine cannot tell what meets the box: {error}",
            where=uri,
            remedy="read it whole, make_valid, then filter_extent",
        ) from error


def _unchanged(
    source: Source,
    before: SourceVersion,
    base: Path | None,
    s3: S3Settings | None,
    memory: Memory | None,
    reach: Reach,
) -> bool:
    try:
        after = resolve_version(source, base=base, s3=s3, memory=memory, reach=reach)
    except InputFailure:
        return False
    return after.text == before.text and (before.is_content_digest or after.state == before.state)


def _changed(source: Source) -> SourceChanged:
    return SourceChanged(
        "is no longer what it was when the run began", where=source.uri, remedy="run again to use it as it is now"
    )
