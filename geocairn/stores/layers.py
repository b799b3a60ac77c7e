"""Layers in and out of GeoParquet, and what a layer is when it is handed over without going through a file.

What always holds: a file is GeoParquet 1.1 with the CRS as PROJJSON, a bounding-box covering column and zstd; a layer
that is read has the types, the CRS, the geometry columns and the index of the one that was written; and
`handed_over(layer)` equals what writing and reading would give. The metadata is made here because the covering column
must be able to step aside for an attribute of the same name, and an empty layer must have no bounds of NaN.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.stores.attributes import check_names, decode, encode

ROW_GROUP = 65_536
"""Rows in one row group."""

_OURS = b"geocairn"
_GEO = b"geo"


def write_layer_file(layer: Any, path: Path) -> None:
    """Write a layer (GeoDataFrame) as GeoParquet, or a table (DataFrame) as Parquet. Syncing is the caller's.

    Raises
    ------
    InputFailure : for column names that are not text, a column of no type, or a layer without an active geometry.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    geometry, active = _geometry_columns(layer)
    table, description = encode(_attributes(layer, geometry))
    metadata = dict(table.schema.metadata or {})
    if geometry:
        table, geo = _with_geometry(table, layer, geometry, active)
        metadata[_GEO] = json.dumps(geo).encode("utf-8")
    metadata[_OURS] = json.dumps({"format": "geocairn-layer/1", "rows": len(layer), **description}).encode("utf-8")
    try:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            path,
            compression="zstd",
            row_group_size=ROW_GROUP,
            use_compliant_nested_type=False,  # otherwise the element of an Arrow list comes back with another name
        )
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
        metadata = file.schema_arrow.metadata or {}
        geo = json.loads(metadata.get(_GEO, b"null"))
        description = json.loads(metadata.get(_OURS, b"{}"))
        names = [name for name in file.schema_arrow.names if name not in _covering(geo)]
        levels = description.get("index", {}).get("levels", [])
        if columns is not None:
            names = _chosen(names, columns, [*levels, *([geo["primary_column"]] if geo else [])], path)
        table = file.read(columns=names, use_pandas_metadata=not description)
    geometry = [name for name in table.column_names if geo and name in geo["columns"]]
    attributes = decode(table.drop_columns(geometry), description, table.num_rows)
    if not geo:
        return attributes
    return _assembled(
        attributes,
        {name: _geometry_from(table.column(name), geo["columns"][name], path) for name in geometry},
        [name for name in table.column_names if name not in levels],
        geo["primary_column"],
    )


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


def _with_geometry(table: Any, layer: Any, names: list[str], active: str) -> tuple[Any, dict[str, Any]]:
    import pyarrow as pa
    import shapely

    columns: dict[str, Any] = {}
    for name in names:
        values = layer[name].to_numpy()
        coded = shapely.to_wkb(values, flavor="iso", byte_order=1, include_srid=False)
        column = pa.array(coded, type=pa.large_binary())
        if table.num_columns == 0:  # a table without columns has no rows to add one to
            table = pa.table({name: column})
        else:
            table = table.add_column(_position(layer, name, table), name, column)
        columns[name] = _describe(values, layer[name].crs, name)
    bounds = shapely.bounds(layer[active].to_numpy()).reshape(-1, 4)
    nowhere = (bounds != bounds).any(axis=1)  # null and empty geometries have bounds of NaN
    covering = "bbox"
    while covering in table.column_names:
        covering = "_" + covering
    corners = ["xmin", "ymin", "xmax", "ymax"]
    boxes = pa.StructArray.from_arrays(
        [pa.array(bounds[:, number], mask=nowhere) for number in range(4)], names=corners, mask=pa.array(nowhere)
    )
    columns[active]["covering"] = {"bbox": {corner: [covering, corner] for corner in corners}}
    geo = {"version": "1.1.0", "primary_column": active, "columns": columns}
    return table.append_column(covering, boxes), geo


def _position(layer: Any, name: str, table: Any) -> int:
    """Return where a column belongs in a table that holds all attributes and the geometry columns before it."""
    before = set(layer.columns[: layer.columns.get_loc(name)])
    return sum(1 for present in table.column_names if present in before)


def _describe(values: Any, crs: Any, name: str) -> dict[str, Any]:
    import numpy as np
    import shapely

    present = values[~shapely.is_missing(values)]
    described: dict[str, Any] = {"encoding": "WKB", "crs": None, "geometry_types": _geometry_types(present)}
    if crs is not None:
        from pyproj.exceptions import CRSError

        try:
            described["crs"] = crs.to_json_dict()
        except CRSError as error:
            raise InputFailure(f"the CRS of column {name!r} has no PROJJSON form: {error}") from error
    bounds = shapely.bounds(present).reshape(-1, 4)
    bounds = bounds[np.isfinite(bounds).all(axis=1)]
    if len(bounds):
        low, high = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
        described["bbox"] = [float(number) for number in (*low, *high)]
    return described


def _geometry_types(present: Any) -> list[str]:
    """Return the kinds as GeoParquet names them; none (unknown) with measures or rings, for which it has no names."""
    import numpy as np
    import shapely

    simple = ["Point", "LineString", None, "Polygon"]
    names = [*simple, "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"]
    if shapely.has_m(present).any():
        return []
    kinds = shapely.get_type_id(present)
    seen = np.unique(kinds * 2 + shapely.has_z(present))
    if any(number // 2 >= len(names) for number in seen):
        return []
    # A ring is stored as a line: Well-Known Binary has no rings.
    found = {(names[number // 2] or "LineString") + (" Z" if number % 2 else "") for number in seen}
    return sorted(found)


def _covering(geo: dict[str, Any] | None) -> set[str]:
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


def _geometry_from(column: Any, described: dict[str, Any], path: Path) -> Any:
    import geopandas
    import shapely
    from pyproj import CRS

    if described["encoding"] != "WKB":
        raise InputFailure(
            f"geometry is encoded as {described['encoding']!r}", where=str(path), remedy="write it as WKB"
        )
    crs = described.get("crs", "OGC:CRS84")
    crs = CRS.from_user_input(crs) if crs is not None else None
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
