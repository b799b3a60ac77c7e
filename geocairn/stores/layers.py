"""Layers in and out of GeoParquet, and what a layer is when it is handed over without going through a file.

What always holds: a file is GeoParquet 1.1 with the CRS as PROJJSON, a bounding-box covering column and zstd; a layer
that is read has the types, the CRS, the geometry columns and the index of the one that was written; and
`handed_over(layer)` equals what writing and reading would give. The metadata is made here because the covering column
must be able to step aside for an attribute of the same name, and an empty layer must have no bounds of NaN.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.stores.attributes import check_names, decode, encode

ROW_GROUP = 65_536
"""Rows in one row group."""

ROW_GROUP_BYTES = 1 << 25
"""Bytes of geometry in one row group, about: 32 MiB."""

_OURS = b"geocairn"
_GEO = b"geo"
_CORNERS = ["xmin", "ymin", "xmax", "ymax"]


def write_layer_file(layer: Any, path: Path) -> None:
    """Write a layer (GeoDataFrame) as GeoParquet, or a table (DataFrame) as Parquet. Syncing is the caller's.

    Raises
    ------
    InputFailure : for column names that are not text, a column of no type, or a layer without an active geometry.
    """
    geometry: dict[str, GeometryColumn] = {}
    table, description, active = encode_layer(layer, geometry)
    metadata = file_metadata(table, description, geometry, active, len(layer))
    rows = row_group_rows(len(layer), sum(column.size for column in geometry.values()))
    with open_writer(path, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table.replace_schema_metadata(metadata), row_group_size=rows)


def encode_layer(layer: Any, geometry: dict[str, GeometryColumn]) -> tuple[Any, dict[str, Any], str]:
    """Return a layer, or a batch of one, as it lies in a file: an Arrow table, its description, the active geometry.

    Parameters
    ----------
    geometry : what is said of each geometry column; each batch adds to it.

    Raises
    ------
    InputFailure : for column names that are not text, a column of no type, or a layer without an active geometry.
    """
    names, active = _geometry_columns(layer)
    table, description = encode(_attributes(layer, names))
    return (_with_geometry(table, layer, names, active, geometry) if names else table), description, active


def file_metadata(
    table: Any, description: dict[str, Any], geometry: dict[str, GeometryColumn], active: str, rows: int
) -> dict[bytes, bytes]:
    """Return the metadata of a file: what pandas, GeoParquet and we say of its columns."""
    metadata = dict(table.schema.metadata or {})
    if geometry:
        described = {name: column.described() for name, column in geometry.items()}
        described[active]["covering"] = {"bbox": {corner: [table.column_names[-1], corner] for corner in _CORNERS}}
        geo = {"version": "1.1.0", "primary_column": active, "columns": described}
        metadata[_GEO] = json.dumps(geo).encode("utf-8")
    metadata[_OURS] = json.dumps({"format": "geocairn-layer/1", "rows": rows, **description}).encode("utf-8")
    return metadata


def row_group_rows(rows: int, geometry_bytes: int) -> int:
    """Return how many rows make a row group: fewer where geometries are large, since one is written from memory."""
    return max(1, min(ROW_GROUP, rows * ROW_GROUP_BYTES // max(geometry_bytes, 1)))


@contextmanager
def open_writer(path: Path, schema: Any) -> Iterator[Any]:
    """Open a writer of Parquet with the settings that all layers are written with.

    Raises
    ------
    InputFailure : for what Parquet cannot hold.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without the last setting the element of an Arrow list would come back with another name.
        with pq.ParquetWriter(path, schema, compression="zstd", use_compliant_nested_type=False) as writer:
            yield writer
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputFailure(
            f"the layer cannot be stored as Parquet: {error}", remedy="simplify its nested columns"
        ) from error


def read_layer_file(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Return the layer, or table, of a file; with `columns` only these and the active geometry, in the file's order.

    Raises
    ------
    InputFailure : for a column that is not in the file.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        geo, description = read_metadata(file.schema_arrow)
        names = [name for name in file.schema_arrow.names if name not in covering_columns(geo)]
        levels = description.get("index", {}).get("levels", [])
        if columns is not None:
            names = _chosen(names, columns, [*levels, *([geo["primary_column"]] if geo else [])], path)
        table = file.read(columns=names, use_pandas_metadata=not description)
    crs = {name: column_crs(described) for name, described in (geo["columns"] if geo else {}).items()}
    return decode_layer(table, geo, description, crs, path)


def decode_layer(
    table: Any, geo: dict[str, Any] | None, description: dict[str, Any], crs: dict[str, Any], path: Path
) -> Any:
    """Return the layer of a table as it lies in a file, or of a batch of its rows; without its geometry, a frame.

    Parameters
    ----------
    geo : the file's GeoParquet metadata; None for a table.
    description : our own metadata.
    crs : of each geometry column.
    path : of the file, for messages.
    """
    geometry = [name for name in table.column_names if geo and name in geo["columns"]]
    attributes = decode(table.drop_columns(geometry), description, table.num_rows)
    if not geo or geo["primary_column"] not in geometry:
        return attributes
    levels = description.get("index", {}).get("levels", [])
    return _assembled(
        attributes,
        {name: _geometry_from(table.column(name), geo["columns"][name], crs[name], path) for name in geometry},
        [name for name in table.column_names if name not in levels],
        geo["primary_column"],
    )


def read_metadata(schema: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return what GeoParquet and we say of a file's columns."""
    metadata = schema.metadata or {}
    return json.loads(metadata.get(_GEO, b"null")), json.loads(metadata.get(_OURS, b"{}"))


def handed_over(layer: Any) -> Any:
    """Return a copy of a layer that equals, in every type, what writing it to a file and reading it back would give.

    Attributes go through Arrow both ways; geometries, which cannot be changed, are shared with `layer`.
    """
    geometry, active = _geometry_columns(layer)
    table, description = encode(_attributes(layer, geometry))
    attributes = decode(table, description, len(layer))
    if not geometry:
        return attributes
    import geopandas

    arrays = {
        name: geopandas.array.GeometryArray(_as_read(layer[name].to_numpy()), crs=layer[name].crs) for name in geometry
    }
    return _assembled(attributes, arrays, list(layer.columns), active)


def _geometry_columns(layer: Any) -> tuple[list[str], str]:
    """Return the names of the geometry columns and of the active one; none for a table."""
    check_names(layer)
    names = [name for name, dtype in zip(layer.columns, layer.dtypes, strict=True) if str(dtype) == "geometry"]
    active = getattr(layer, "_geometry_column_name", None)
    is_layer = type(layer).__module__.startswith("geopandas") or hasattr(layer, "_geometry_column_name")
    if is_layer and active not in names:
        raise InputFailure("the layer has no active geometry column", remedy="name one with set_geometry")
    if names and not is_layer:
        raise InputFailure(
            f"a table holds the geometry column {names[0]!r}", remedy="make it a layer: GeoDataFrame(table, geometry=…)"
        )
    return names, active or ""


def _attributes(layer: Any, geometry: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(layer.drop(columns=geometry)) if geometry else layer


def _with_geometry(table: Any, layer: Any, names: list[str], active: str, geometry: dict[str, GeometryColumn]) -> Any:
    import pyarrow as pa
    import shapely

    for name in names:
        values = layer[name].to_numpy()
        coded = shapely.to_wkb(values, flavor="iso", byte_order=1, include_srid=False)
        column = pa.array(coded, type=pa.large_binary())
        if table.num_columns == 0:  # a table without columns has no rows to add one to
            table = pa.table({name: column})
        else:
            table = table.add_column(_position(layer, name, table), name, column)
        geometry.setdefault(name, GeometryColumn(name, layer[name].crs)).add(values, column.nbytes)
    bounds = shapely.bounds(layer[active].to_numpy()).reshape(-1, 4)
    nowhere = (bounds != bounds).any(axis=1)  # null and empty geometries have bounds of NaN
    covering = "bbox"
    while covering in table.column_names:
        covering = "_" + covering
    boxes = pa.StructArray.from_arrays(
        [pa.array(bounds[:, number], mask=nowhere) for number in range(4)], names=_CORNERS, mask=pa.array(nowhere)
    )
    return table.append_column(covering, boxes)


def _position(layer: Any, name: str, table: Any) -> int:
    """Return where a column belongs in a table that holds all attributes and the geometry columns before it."""
    before = set(layer.columns[: layer.columns.get_loc(name)])
    return sum(1 for present in table.column_names if present in before)


class GeometryColumn:
    """What a file says of a geometry column, from one array of geometries or several."""

    def __init__(self, name: str, crs: Any) -> None:
        self.name = name
        self.crs = crs
        self.size = 0
        """Bytes in Arrow."""
        self._types: set[str] | None = set()
        self._bbox: list[float] | None = None

    def add(self, values: Any, size: int) -> None:
        """Add more geometries, which take so many bytes."""
        import numpy as np
        import shapely

        self.size += size
        present = values[~shapely.is_missing(values)]
        found = _geometry_types(present)
        self._types = None if found is None or self._types is None else self._types | found
        bounds = shapely.bounds(present).reshape(-1, 4)
        bounds = bounds[np.isfinite(bounds).all(axis=1)]
        if len(bounds):
            low, high = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
            seen = [float(number) for number in (*low, *high)]
            old = self._bbox or seen
            self._bbox = [*map(min, seen[:2], old[:2]), *map(max, seen[2:], old[2:])]

    def described(self) -> dict[str, Any]:
        """Return what GeoParquet's metadata says of the column."""
        described: dict[str, Any] = {"encoding": "WKB", "crs": None, "geometry_types": sorted(self._types or ())}
        if self.crs is not None:
            from pyproj.exceptions import CRSError

            try:
                described["crs"] = self.crs.to_json_dict()
            except CRSError as error:
                raise InputFailure(f"the CRS of column {self.name!r} has no PROJJSON form: {error}") from error
        if self._bbox is not None:
            described["bbox"] = self._bbox
        return described


def _geometry_types(present: Any) -> set[str] | None:
    """Return the kinds as GeoParquet names them; None (unknown) with measures or rings, for which it has no names."""
    import numpy as np
    import shapely

    simple = ["Point", "LineString", None, "Polygon"]
    names = [*simple, "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"]
    if shapely.has_m(present).any():
        return None
    kinds = shapely.get_type_id(present)
    seen = np.unique(kinds * 2 + shapely.has_z(present))
    if any(number // 2 >= len(names) for number in seen):
        return None
    # A ring is stored as a line: Well-Known Binary has no rings.
    return {(names[number // 2] or "LineString") + (" Z" if number % 2 else "") for number in seen}


def covering_columns(geo: dict[str, Any] | None) -> set[str]:
    """Return the columns that only cover geometries."""
    names: set[str] = set()
    for column in (geo or {}).get("columns", {}).values():
        for path in column.get("covering", {}).get("bbox", {}).values():
            names.add(path[0])
    return names


def _chosen(names: list[str], columns: Sequence[str], always: list[str], path: Path) -> list[str]:
    for name in columns:
        if name not in names:
            raise InputFailure(f"there is no column {name!r}{did_you_mean(name, names)}", where=str(path))
    return [name for name in names if name in columns or name in always]


def column_crs(described: dict[str, Any]) -> Any:
    """Return the CRS that GeoParquet's metadata states for a column; None where it says that it is unknown."""
    from pyproj import CRS

    crs = described.get("crs", "OGC:CRS84")
    return CRS.from_user_input(crs) if crs is not None else None


def _geometry_from(column: Any, described: dict[str, Any], crs: Any, path: Path) -> Any:
    import geopandas
    import shapely

    if described["encoding"] != "WKB":
        raise InputFailure(
            f"geometry is encoded as {described['encoding']!r}", where=str(path), remedy="write it as WKB"
        )
    return geopandas.array.GeometryArray(shapely.from_wkb(column.to_numpy()), crs=crs)


def _as_read(values: Any) -> Any:
    """Return geometries as Well-Known Binary gives them back: no SRID, no rings, no points of NaN."""
    import numpy as np
    import shapely

    kinds = shapely.get_type_id(values)
    bounds = shapely.bounds(values).reshape(-1, 4)
    unlike = (shapely.get_srid(values) > 0) | (kinds == 2)
    unlike |= ~shapely.is_empty(values) & (kinds >= 0) & np.isnan(bounds).any(axis=1)
    if not unlike.any():
        return values.copy()
    result = values.copy()
    result[unlike] = shapely.from_wkb(shapely.to_wkb(values[unlike], flavor="iso", byte_order=1, include_srid=False))
    return result


def _assembled(attributes: Any, geometry: dict[str, Any], order: list[str], active: str) -> Any:
    import geopandas
    import pandas as pd

    columns = {name: geometry[name] if name in geometry else attributes[name] for name in order}
    frame = pd.DataFrame(columns, index=attributes.index)
    frame.columns = pd.Index(order, dtype="str")
    return geopandas.GeoDataFrame(frame, geometry=active)
