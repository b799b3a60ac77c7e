"""Reading a source as a table: its attributes alone, whether or not there is geometry beside them.

What always holds: the types are those that a layer of the same file has: integers and truth values with nulls stay
what they are, and in a CSV numbers written with leading zeros stay text. No geometry column is among the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.sources.access import on_disk
from geocairn.sources.formats import CSV, PARQUET, Format
from geocairn.sources.header import Header, type_of_arrow

if TYPE_CHECKING:
    from geocairn.sources.geoparquet.dataset import Located
    from geocairn.sources.source import Source


def table_header(path: Located, kind: Format, source: Source) -> Header:
    """Return what the file says of its attributes.

    Raises
    ------
    InputFailure : for content of another kind, several tables and none named, or an unknown one.
    """
    if kind is PARQUET:
        from geocairn.sources.geoparquet import parquet_table_header

        return parquet_table_header(path, source)
    if kind is CSV:
        from geocairn.sources.delimited import csv_table

        table = csv_table(on_disk(path), source)
        words = {name: type_of_arrow(table.schema.field(name).type) for name in table.column_names}
        return Header(words, "", rows=table.num_rows)
    from geocairn.sources.vector import vector_header

    return vector_header(on_disk(path), kind, source)


def read_table(path: Located, kind: Format, source: Source, header: Header, columns: list[str]) -> Any:
    """Read these columns, in the file's order of rows.

    Raises
    ------
    InputFailure : when it cannot be read: a damaged file, text in another encoding.
    """
    if kind not in (CSV, PARQUET):
        from geocairn.sources.vector import read_vector

        return read_vector(on_disk(path), kind, source, header, columns)
    from geocairn.sources.vector import nullable_types, plain_where_whole, suspect_encoding

    if kind is CSV:
        from geocairn.sources.delimited import csv_table

        table = csv_table(on_disk(path), source).select(columns)
    else:
        from geocairn.sources.geoparquet import read_parquet_table

        table = read_parquet_table(path, source, columns)
    frame = table.to_pandas(types_mapper=nullable_types().get, ignore_metadata=True)
    plain_where_whole(frame)
    if kind is CSV:
        from geocairn.sources.delimited import suspect_commas

        suspect_encoding(frame, None, source.uri)
        suspect_commas(table, source.uri)
    return frame
