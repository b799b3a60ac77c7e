"""Reading GeoParquet: what the files say of themselves, and the rows and columns that are asked for.

What always holds: row groups that cannot hold what is asked for are not read, and what is read is filtered exactly
afterwards, by whoever called. Rows come in the order of the files' paths, and as each file has them.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.sources.geoparquet.contradictions import hold_against
from geocairn.sources.geoparquet.dataset import Dataset, Located, ParquetFile, open_dataset
from geocairn.sources.geoparquet.metadata import REMEDY, covering_columns, crs_in, primary_of, types_in
from geocairn.sources.geoparquet.pruning import matching_groups
from geocairn.sources.header import Header, kinds_of_names, type_of_arrow

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from geocairn.sources.source import Source

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


def parquet_header(located: Located, source: Source) -> Header:
    """Return what the file, or the folder of files, says of itself; only the files' footers are read.

    Raises
    ------
    InputFailure : for a table without geometry, broken metadata, or files of one folder that do not go together.
    """
    if source.layer is not None:
        raise InputFailure("has no layers: GeoParquet holds one", where=source.uri, remedy="leave layer out")
    dataset = open_dataset(located, source.uri)
    geo = dataset.geo
    columns, primary = _column_words(dataset), str(geo["primary_column"])
    del columns[primary]
    header = Header(columns, primary, rows=_rows(dataset))
    declared = [types_in(primary_of(file.geo)) for file in dataset.files]
    if all(declared):
        header.kinds = kinds_of_names(sorted({name for names in declared for name in names}))
    described = primary_of(geo)
    header.crs, header.crs_by_default = crs_in(described), "crs" not in described
    if described.get("edges", "planar") != "planar":
        header.remarks.append(
            f"{source.uri}: its edges are {described['edges']} (great circles), and are taken for straight lines in "
            f"{crs_label(header.crs)} here"
        )
    return header


def parquet_table_header(located: Located, source: Source) -> Header:
    """Return what the file, or the folder of files, says of its attributes; only the files' footers are read.

    Raises
    ------
    InputFailure : for broken metadata, or files of one folder that do not go together.
    """
    if source.layer is not None:
        raise InputFailure("has no tables: Parquet holds one", where=source.uri, remedy="leave layer out")
    dataset = open_dataset(located, source.uri, table=True)
    words = {name: word for name, word in _column_words(dataset).items() if word != "geometry"}
    return Header(words, "", rows=_rows(dataset))


def read_parquet_table(located: Located, source: Source, columns: list[str]) -> Any:
    """Return these columns as an Arrow table. Rows that cannot match `where` may be left out.

    Raises
    ------
    InputFailure : when it cannot be read.
    """
    return _arrow(open_dataset(located, source.uri, table=True), source, set(columns))[0].select(columns)


def read_parquet(located: Located, source: Source, header: Header, columns: list[str] | None) -> GeoDataFrame:
    """Read the layer; `columns` as the caller needs them. Rows that cannot match `bbox` or `where` may be left out.

    Raises
    ------
    InputFailure : when geometry cannot be decoded, or contradicts the metadata.
    """
    import numpy as np

    from geocairn.sources.vector import plain_where_whole

    dataset = open_dataset(located, source.uri)
    wanted = {name for name in header.columns if columns is None or name in columns} | {header.geometry_column}
    table, sizes = _arrow(dataset, source, wanted)
    layer = _decoded(table, dataset.geo, source.uri)
    if layer.geometry.name != header.geometry_column:
        layer = layer.set_geometry(header.geometry_column)
    named = [name for name in layer.index.names if name is not None]
    layer = layer.reset_index(drop=not named)
    layer = layer[[name for name in table.column_names if name in layer.columns]]
    plain_where_whole(layer, _nullable_as_written(dataset.schema))
    geometry = np.asarray(layer.geometry.values)
    for file, start, size in zip(dataset.files, np.cumsum([0, *sizes]), sizes, strict=False):
        hold_against(geometry[start : start + size], file.geo, file.where)
    return layer


def _column_words(dataset: Dataset) -> dict[str, str]:
    """Return the columns that a reader sees, and the type of each."""
    schema, hidden = dataset.schema, covering_columns(dataset.geo)
    words = {}
    for name in schema.names:
        if name in dataset.geo["columns"]:
            words[name] = "geometry"
        elif name not in hidden and not _UNNAMED_INDEX.fullmatch(name):
            words[name] = type_of_arrow(schema.field(name).type)
    for name, values in dataset.key_values.items():
        words[name] = "integer" if any(isinstance(value, int) for value in values) else "text"
    return words


def _rows(dataset: Dataset) -> int:
    return sum(file.metadata.num_rows for file in dataset.files)


def _arrow(dataset: Dataset, source: Source, wanted: set[str]) -> tuple[Any, list[int]]:
    """Return the columns of all files, and how many rows are from each."""
    import pyarrow as pa

    names = [name for name in dataset.schema.names if name in wanted]
    schema = pa.schema([dataset.schema.field(name) for name in names], metadata=dataset.schema.metadata)
    tables = [_matching_rows(dataset, number, source, schema) for number in range(len(dataset.files))]
    table = pa.concat_tables(tables).unify_dictionaries()
    sizes = [part.num_rows for part in tables]
    for name, values in dataset.key_values.items():
        if name in wanted:
            table = table.append_column(name, _constants(values, sizes))
    return table, sizes


def _matching_rows(dataset: Dataset, number: int, source: Source, schema: Any) -> Any:
    """Return one file's columns in the types of all files, without row groups that cannot match."""
    import pyarrow as pa

    file = dataset.files[number]
    tree = None
    if source.where is not None:
        from geocairn.filters.language import parse

        tree = parse(source.where)
    fixed = {name: values[number] for name, values in dataset.key_values.items()}
    corners = _corners(file) if source.bbox is not None else {}
    groups = matching_groups(file.metadata, box=source.bbox, corners=corners, where=tree, fixed=fixed)
    table = file.read(groups, schema.names).select(schema.names)
    try:
        return table.replace_schema_metadata(schema.metadata).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputFailure(f"cannot be read as the files before it: {error}", where=file.where) from error


def _corners(file: ParquetFile) -> dict[str, list[str]]:
    """Return the paths of the columns that bound the geometries: their covering, else their own coordinates."""
    described, primary = primary_of(file.geo), str(file.geo["primary_column"])
    around = described.get("bbox")
    if isinstance(around, list) and len(around) in (4, 6) and around[0] > around[len(around) // 2]:
        return {}  # goes round by the antimeridian, where smaller and larger mean something else
    stated = (described.get("covering") or {}).get("bbox")
    if isinstance(stated, dict) and {"xmin", "ymin", "xmax", "ymax"} <= stated.keys():
        return {corner: [str(step) for step in stated[corner]] for corner in ("xmin", "ymin", "xmax", "ymax")}
    if described["encoding"] == "WKB":
        return {}
    paths = [file.metadata.schema.column(number).path for number in range(file.metadata.num_columns)]
    own = {
        axis: [path for path in paths if path.startswith(f"{primary}.") and path.endswith(f".{axis}")] for axis in "xy"
    }
    if len(own["x"]) != 1 or len(own["y"]) != 1:
        return {}
    return {f"{axis}{end}": [own[axis][0]] for axis in "xy" for end in ("min", "max")}


def _constants(values: list[Any], sizes: list[int]) -> Any:
    """Return a column that has one value for each file."""
    import pyarrow as pa

    kind = pa.int64() if any(isinstance(value, int) for value in values) else pa.string()
    chunks = [pa.repeat(pa.scalar(value, kind), size) for value, size in zip(values, sizes, strict=True)]
    return pa.chunked_array(chunks, kind)


def _decoded(table: Any, geo: dict[str, Any], uri: str) -> Any:
    import pyarrow as pa
    import shapely
    from geopandas.io.arrow import _arrow_to_geopandas

    from geocairn.sources.vector import nullable_types

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*spherical edges")  # told as a remark of the header
            return _arrow_to_geopandas(table, geo, {"types_mapper": nullable_types().get})
    except shapely.errors.GEOSException as error:
        row = _undecoded_row(table, str(geo["primary_column"]))
        raise InputFailure(f"holds geometry that cannot be decoded{row}: {error}", where=uri, remedy=REMEDY) from error
    except (pa.ArrowInvalid, ValueError, KeyError) as error:
        raise InputFailure(f"cannot be read as GeoParquet: {error}", where=uri, remedy=REMEDY) from error


def _undecoded_row(table: Any, name: str) -> str:
    import shapely

    for row, value in enumerate(table.column(name).to_pylist()):
        if isinstance(value, bytes) and shapely.from_wkb(value, on_invalid="ignore") is None:
            return f" in row {row + 1}"
    return ""


def _nullable_as_written(schema: Any) -> frozenset[str]:
    """Return the columns that pandas wrote from nullable types, which stay nullable."""
    columns = [column for column in (schema.pandas_metadata or {}).get("columns", []) if column.get("name")]
    return frozenset(
        str(column["name"])
        for column in columns
        if str(column.get("numpy_type"))[:1].isupper() or column.get("numpy_type") == "boolean"
    )
