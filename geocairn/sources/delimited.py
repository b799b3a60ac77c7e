"""Reading CSV: points by x and y columns, or any geometry as WKT.

What always holds: a value is taken for a number only if nothing is lost by it. A column with any number written with
a leading zero (postal and census codes) stays text. An empty field is null.

The geometry is looked for, in this order and whatever the case, in a WKT column called `wkt`, `geometry`, `geom`,
`the_geom` or `wkt_geom`, then in a pair `x y`, `lon lat`, `lng lat`, `long lat`, `longitude latitude` or
`easting northing`. The pair's columns stay as attributes. A CSV carries no CRS: it must be stated.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.notes import caveat
from geocairn.sources.encodings import canonical_encoding
from geocairn.sources.formats import CSV, check_content
from geocairn.sources.header import Header, type_of_arrow

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from geocairn.sources.source import Source

WKT_NAMES = ("wkt", "geometry", "geom", "the_geom", "wkt_geom")
XY_NAMES = (
    ("x", "y"),
    ("lon", "lat"),
    ("lng", "lat"),
    ("long", "lat"),
    ("longitude", "latitude"),
    ("easting", "northing"),
)
_DELIMITERS = ",;\t|"


def csv_header(path: Path, source: Source) -> Header:
    """Return what the file says of itself; types are those of the whole file.

    Raises
    ------
    InputFailure : for no geometry columns, a name used twice, text in another encoding.
    """
    table = csv_table(path, source)
    wkt, xy = _geometry_names(table.column_names, source.uri)
    columns = {name: type_of_arrow(table.schema.field(name).type) for name in table.column_names if name != wkt}
    geometry = wkt if wkt is not None else "geometry"
    return Header(columns, geometry, () if xy is None else ("point",), table.num_rows)


def read_csv(path: Path, source: Source, columns: list[str] | None) -> GeoDataFrame:
    """Read the layer, without CRS; `columns` as the caller needs them.

    Raises
    ------
    InputFailure : for coordinates that are no numbers and WKT that is none, with the row.
    """
    import geopandas as gpd

    from geocairn.sources.vector import nullable_types, plain_where_whole, suspect_encoding

    table = csv_table(path, source)
    wkt, xy = _geometry_names(table.column_names, source.uri)
    geometry = _from_wkt(table, wkt, source.uri) if wkt is not None else _from_xy(table, xy, source.uri)
    chosen = [name for name in table.column_names if name != wkt and (columns is None or name in columns)]
    frame = table.select(chosen).to_pandas(types_mapper=nullable_types().get)
    plain_where_whole(frame)
    name = wkt if wkt is not None else "geometry"
    frame[name] = gpd.GeoSeries(geometry, index=frame.index)
    layer = gpd.GeoDataFrame(frame, geometry=name)
    suspect_encoding(layer, None, source.uri)
    suspect_commas(table.select(chosen), source.uri)
    return layer


def csv_table(path: Path, source: Source) -> Any:
    """Return all of the file's columns, typed, as an Arrow table.

    Raises
    ------
    InputFailure : for a name used twice, text in another encoding, rows of another length.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    encoding = canonical_encoding(source.encoding, source.uri) if source.encoding else "utf-8"
    if not encoding.startswith(("utf-16", "utf-32")):
        check_content(path, CSV, source.uri)
    try:
        with path.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise InputFailure(
            f"holds text that is not {encoding} (at byte {error.start})",
            where=source.uri,
            remedy="state its encoding (encoding: cp1252, latin-1)",
        ) from error
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    names = next(csv.reader([first.rstrip("\r")], delimiter=delimiter), [])
    if not any(names):
        raise InputFailure("has no header line with the columns' names", where=source.uri)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputFailure(f"has the column {repeated[0]!r} twice", where=source.uri, remedy="rename one in the header")
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text.encode("utf-8")),
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names}, strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputFailure(f"is not a sound CSV: {error}", where=source.uri) from error
    return pa.table({name: _typed(table.column(name)) for name in table.column_names})


def suspect_commas(table: Any, uri: str) -> None:
    """Tell where numbers seem to be written with a comma, which are text here: it may as well divide thousands."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in table.column_names:
        column = table.column(name)
        if not pa.types.is_string(column.type) or column.null_count == len(column):
            continue
        all_numbers = pc.all(pc.match_substring_regex(column, r"^\s*[+-]?[0-9]+(,[0-9]+)*\s*$")).as_py()
        if all_numbers and pc.any(pc.match_substring(column, ",")).as_py():
            example = next(value for value in column.to_pylist() if value is not None and "," in value)
            caveat(
                f"{uri}: column {name!r} holds numbers with a comma ({example!r}), and is read as text: write decimals "
                "with a point, and thousands without a sign"
            )


def _typed(column: Any) -> Any:
    """Return the column as integers, numbers, booleans, dates or times where every value is one, else as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return column
    if pc.any(pc.match_substring_regex(column, r"^[+-]?0[0-9]")).as_py():
        return column
    tests = (
        (r"^[+-]?[0-9]+$", pa.int64()),
        (r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(nan|NaN|inf|Inf)$", pa.float64()),
        (r"^(true|false|True|False|TRUE|FALSE)$", pa.bool_()),
        (r"^\d{4}-\d{2}-\d{2}$", pa.date32()),
        (r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$", pa.timestamp("us")),
        (r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})$", pa.timestamp("us", "UTC")),
    )
    for pattern, kind in tests:
        if pc.all(pc.match_substring_regex(column, pattern)).as_py():
            try:
                return pc.cast(column, kind)
            except pa.ArrowInvalid:
                return column  # too large for the type, or no such day
    return column


def _geometry_names(names: list[str], uri: str) -> tuple[str | None, tuple[str, str] | None]:
    folded = {name.strip().lower(): name for name in reversed(names)}
    for name in WKT_NAMES:
        if name in folded:
            return folded[name], None
    for x, y in XY_NAMES:
        if x in folded and y in folded:
            return None, (folded[x], folded[y])
    raise InputFailure(
        f"has no geometry: neither a WKT column nor x and y among {', '.join(names[:12])}",
        where=uri,
        remedy="call the columns x and y, lon and lat, or a WKT column wkt; a table to be joined is read by "
        "table: true",
    )


def _from_wkt(table: Any, name: str, uri: str) -> Any:
    import numpy as np
    import shapely

    texts = np.array(table.column(name).to_pylist(), dtype=object)
    geometry = shapely.from_wkt(texts, on_invalid="ignore")
    wrong = [row for row, text in enumerate(texts) if text is not None and geometry[row] is None]
    if wrong:
        raise InputFailure(f"column {name!r} is no WKT in row {wrong[0] + 1}: {texts[wrong[0]][:60]!r}", where=uri)
    return geometry


def _from_xy(table: Any, names: tuple[str, str] | None, uri: str) -> Any:
    import numpy as np
    import pyarrow as pa
    import shapely

    assert names is not None
    values = []
    for name in names:
        column = table.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            values.append(_numbers(column, name, uri))
        else:
            values.append(np.array(column.cast(pa.float64()).to_pylist(), dtype=float))
    geometry = np.full(table.num_rows, None, dtype=object)
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    geometry[present] = shapely.points(values[0][present], values[1][present])
    return geometry


def _numbers(column: Any, name: str, uri: str) -> Any:
    import numpy as np

    found = np.full(len(column), np.nan)
    for row, text in enumerate(column.to_pylist()):
        if text is None:
            continue
        try:
            found[row] = float(text)
        except (TypeError, ValueError):
            comma = isinstance(text, str) and "," in text
            raise InputFailure(
                f"column {name!r} is no number in row {row + 1}: {text!r}",
                where=uri,
                remedy="write decimals with a point, not a comma" if comma else "correct the value or leave it empty",
            ) from None
    return found
