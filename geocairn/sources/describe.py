"""What is known of a source without reading it: CRS, kinds, columns, rows. The plan check and the decision ask here.

What always holds: facts are remembered under the source's version and the read options that they depend on, so that an
unchanged source is never opened to answer. A source that could not be read as the plan says is refused here, with the
same words as when it is read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.canonical import digest
from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.memory import Memory
from geocairn.nearest import did_you_mean
from geocairn.sources.access import files_of, on_disk
from geocairn.sources.formats import CSV, DBF, PARQUET, Format
from geocairn.sources.header import Header
from geocairn.sources.postgis.relation import check_source
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.remote import remote_files
from geocairn.sources.stated_crs import settle_crs
from geocairn.sources.uri import DatabasePlace, LocalPlace, canonical_uri, parse
from geocairn.sources.version import SourceVersion, remote_version, resolve_version

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings
    from geocairn.sources.geoparquet.dataset import Located
    from geocairn.sources.source import Source

_SCHEME = 1
"""Raised when remembered facts would be told otherwise."""


@dataclass
class SourceFacts:
    """What is known of a source, as it would be read with the plan's options. JSON-able by `dataclasses.asdict`."""

    crs: str | None
    """PROJJSON."""
    crs_name: str | None
    """`EPSG:5070`, or the CRS's name where it has no authority code."""
    geographic: bool | None
    kinds: tuple[str, ...]
    """`point`, `line`, `polygon`; none when the file does not say."""
    columns: dict[str, str]
    """The attribute columns as read, and the type of each (see `geocairn.sources.header`)."""
    rows: int | None
    """Rows in the file; None where the format does not say, or a filter decides."""
    geometry_column: str
    """Empty for a table."""
    remarks: list[str] = field(default_factory=list)
    """Sentences for the reader about what the file is."""
    table: bool = False
    """Whether it is read as a table, which has no geometry and no CRS."""


def describe(
    source: Source,
    version: SourceVersion | None = None,
    *,
    base: Path | None = None,
    s3: S3Settings | None = None,
    memory: Memory | None = None,
    reach: Reach = EVERYTHING,
) -> SourceFacts:
    """Return what is known of the source in this version.

    Parameters
    ----------
    version : as pinned; resolved now when left out.
    base, s3, memory, reach : as for `resolve_version`.

    Raises
    ------
    InputFailure : for no CRS and none stated, a stated one that contradicts, a table without geometry, an unknown
        layer or column, several layers and none named, or a file that is not what its extension says.
    """
    place = parse(source.uri, base)
    reach.may_read(place, source.uri, base)
    check_source(source, place)
    if isinstance(place, DatabasePlace):  # its catalogue is asked: that costs no reading, and is never out of date
        return _described_in_database(source, place)
    version = version or resolve_version(source, base=base, s3=s3, memory=memory, reach=reach)
    key = _key(source, version, base, s3)
    known = memory.get("sources", key) if memory is not None else None
    if known is not None:
        try:
            return SourceFacts(**{**known, "kinds": tuple(known["kinds"])})
        except (KeyError, TypeError):
            pass  # written by another version of this module
    remote = None if isinstance(place, LocalPlace) else remote_files(place, s3=s3, allowed=reach.may_ask)
    same = remote is None or remote_version(source, remote).text == version.text
    with files_of(source, base=base, s3=s3, remote=remote, whole=False, reach=reach) as (path, kind):
        header = header_of(path, kind, source)
        facts = facts_of(header, source)
    if memory is not None and same:
        memory.put("sources", key, asdict(facts))
    return facts


def _described_in_database(source: Source, place: DatabasePlace) -> SourceFacts:
    from geocairn.sources.postgis.reading import database_header

    if source.table:
        check_table_options(source)
    return facts_of(database_header(source, place), source)


def header_of(path: Located, kind: Format, source: Source) -> Header:
    """Return what the file at `path` says of itself, whatever its format.

    Raises
    ------
    InputFailure : as `describe` says.
    """
    if source.table:
        check_table_options(source)
        from geocairn.sources.tables import table_header

        return table_header(path, kind, source)
    if kind is DBF:
        raise InputFailure("is a table without geometry", where=source.uri, remedy="read it as one: table: true")
    if kind is PARQUET:
        from geocairn.sources.geoparquet import parquet_header

        return parquet_header(path, source)
    if kind is CSV:
        from geocairn.sources.delimited import csv_header

        return csv_header(on_disk(path), source)
    from geocairn.sources.vector import vector_header

    return vector_header(on_disk(path), kind, source)


def facts_of(header: Header, source: Source) -> SourceFacts:
    """Return the facts as the source would be read, its options held against the header.

    Raises
    ------
    InputFailure : for a CRS that is wanting or contradicted, and for unknown columns.
    """
    columns = {name: header.columns[name] for name in chosen_columns(source, header)}
    filtered = source.where is not None or source.bbox is not None
    if source.table:
        rows = None if filtered else header.rows
        return SourceFacts(None, None, None, (), columns, rows, "", list(header.remarks), table=True)
    crs = settle_crs(header.crs, header.crs_by_default, source.crs, source.uri)
    return SourceFacts(
        crs=crs.to_json(),
        crs_name=crs_label(crs),
        geographic=bool(crs.is_geographic),
        kinds=header.kinds,
        columns=columns,
        rows=None if filtered else header.rows,
        geometry_column=header.geometry_column,
        remarks=list(header.remarks),
    )


def check_table_options(source: Source) -> None:
    """Refuse what says something of geometry, where a table is to be read.

    Raises
    ------
    InputFailure : naming the field.
    """
    for name, value in (("bbox", source.bbox), ("crs", source.crs)):
        if value is not None:
            raise InputFailure(f"{name}: a table has no geometry", where=source.uri, remedy=f"leave {name} out")


def chosen_columns(source: Source, header: Header) -> list[str]:
    """Return the attribute columns to be read, in order.

    Raises
    ------
    InputFailure : for a column, named in `columns` or `where`, that the source does not have.
    """
    known = header.columns
    for name in source.columns or []:
        if name not in known and name != header.geometry_column:
            raise InputFailure(f"has no column {name!r}{did_you_mean(name, known)}", where=source.uri)
    for name in sorted(filter_columns(source)):
        if name not in known and name != header.geometry_column:
            raise InputFailure(f"where: has no column {name!r}{did_you_mean(name, known)}", where=source.uri)
    if source.columns is None:
        return list(known)
    return [name for name in source.columns if name != header.geometry_column]


def filter_columns(source: Source) -> set[str]:
    """Return the columns that `where` uses."""
    if source.where is None:
        return set()
    from geocairn.filters.language import columns_of

    try:
        return set(columns_of(source.where))
    except ValueError as error:
        raise InputFailure(f"where: {error}", where=source.uri) from None


def _key(source: Source, version: SourceVersion, base: Path | None, s3: S3Settings | None) -> str:
    record: dict[str, Any] = {
        "scheme": _SCHEME,
        "version": version.text,
        "extension": source.uri.rpartition(".")[2].lower(),
        "options": source.model_dump(include={"layer", "columns", "where", "bbox", "crs", "encoding", "table"}),
    }
    if not version.is_content_digest:
        record["uri"] = canonical_uri(source.uri, base, s3)
        record["state"] = version.state
    return digest(record)
