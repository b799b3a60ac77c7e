"""Writing a layer into one file of each format, and telling what the format cannot hold.

What always holds: a table without geometry is never written as a layer, only as a table. An empty layer keeps its
columns and CRS and gets no bounds. FlatGeobuf's spatial index orders the rows; every other format keeps their order.
What a format loses (names, time zones, text, measures, other geometry columns) is told as a caveat, by name.
"""

from __future__ import annotations

import json
import math
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.kinds import kinds_of
from geocairn.notes import caveat
from geocairn.sources.delimited import WKT_NAMES
from geocairn.sources.formats import CSV, FLATGEOBUF, GEOJSON, GEOPACKAGE, PARQUET, SHAPEFILE, Format
from geocairn.sources.postgis.relation import POSTGIS
from geocairn.sources.written import check_written, lack_of_room

if TYPE_CHECKING:
    from geopandas import GeoDataFrame
    from pandas import DataFrame

LINEAGE_KEY = b"geocairn"
"""The key of the lineage in the file metadata of a GeoParquet output."""

_SHAPEFILE_NAME = 10
_SHAPEFILE_TEXT = 254
_TOLD = re.compile(r"has been truncated to \d+ characters|contain geometries with M\. Setting the M=2 hint")
"""What GDAL says that is told here already, once a column and not once a value, or that is no loss."""
_one_writer = threading.Lock()
_MULTI = {"point": "MultiPoint", "line": "MultiLineString", "polygon": "MultiPolygon"}
_SINGLE = {"point": "Point", "line": "LineString", "polygon": "Polygon"}


def is_table(layer: Any) -> bool:
    """Return whether it is a plain table, which never was to have a geometry."""
    return not hasattr(layer, "crs") and hasattr(layer, "columns")


def check_writable(layer: Any, where: str, kind: Format | None = None) -> None:
    """Refuse what is no layer, and a layer that says no CRS; a plain table may be written to a format of tables.

    Raises
    ------
    InputFailure : for a table without geometry in a format of layers, a missing CRS, or a column name used twice.
    """
    table = is_table(layer) and kind in (CSV, PARQUET, POSTGIS)
    if not table and (
        not hasattr(layer, "geometry") or not hasattr(layer, "crs") or layer._geometry_column_name not in layer.columns
    ):
        remedy = "write it as CSV or Parquet (.csv, .parquet), or join it to a layer (attribute_join)"
        raise InputFailure("is a table without geometry, and a layer was to be written", where=where, remedy=remedy)
    if not table and layer.crs is None:
        raise InputFailure("the layer to write has no CRS", where=where, remedy="state it with assign_crs")
    names = [str(name) for name in layer.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputFailure(f"the layer to write has the column {repeated[0]!r} twice", where=where)


def write_file(
    layer: GeoDataFrame, path: Path, kind: Format, *, layer_name: str | None, lineage: str, kinds: Sequence[str] = ()
) -> None:
    """Write the layer to `path`, which does not exist yet.

    Parameters
    ----------
    layer_name : the layer's name inside a GeoPackage.
    lineage : JSON text for the metadata of a GeoParquet file.
    kinds : the geometry kinds promised of the layer, for one without rows.

    Raises
    ------
    InputFailure : for a layer that the format cannot hold.
    FatalFailure : when the file is not whole afterwards, or there is no room for it.
    """
    if is_table(layer):
        _write_table(layer, path, kind, {LINEAGE_KEY: lineage.encode("utf-8")})
    elif kind is PARQUET:
        write_geoparquet(layer, path, {LINEAGE_KEY: lineage.encode("utf-8")})
    elif kind is CSV:
        _write_csv(layer, path)
    else:
        _write_by_gdal(layer, path, kind, layer_name or path.stem, kinds)


def write_geoparquet(layer: GeoDataFrame, path: Path, extra: dict[bytes, bytes] | None = None) -> None:
    """Write GeoParquet 1.1: CRS as PROJJSON, bbox covering (unless a column is called so), zstd, no index.

    Parameters
    ----------
    extra : further metadata of the file.
    """
    from geopandas.io.arrow import _geopandas_to_arrow
    from pyarrow import parquet

    table = _geopandas_to_arrow(
        layer, index=False, schema_version="1.1.0", write_covering_bbox="bbox" not in layer.columns
    )
    metadata = dict(table.schema.metadata)
    geo = json.loads(metadata[b"geo"])
    for described in geo["columns"].values():
        if not all(math.isfinite(number) for number in described.get("bbox", [])):
            del described["bbox"]  # an empty layer has no bounds
    metadata[b"geo"] = json.dumps(geo).encode("utf-8")
    parquet.write_table(table.replace_schema_metadata({**metadata, **(extra or {})}), path, compression="zstd")


def _write_table(table: DataFrame, path: Path, kind: Format, extra: dict[bytes, bytes]) -> None:
    """Write a table as CSV, or as plain Parquet (that is not GeoParquet)."""
    if kind is CSV:
        table.to_csv(path, index=False, encoding="utf-8")
        return
    import pyarrow as pa
    from pyarrow import parquet

    content = pa.Table.from_pandas(table, preserve_index=False)
    parquet.write_table(
        content.replace_schema_metadata({**(content.schema.metadata or {}), **extra}), path, compression="zstd"
    )


def _write_csv(layer: GeoDataFrame, path: Path) -> None:
    import pandas as pd
    import shapely

    name = layer.geometry.name
    geometry = shapely.to_wkt(layer.geometry.values, rounding_precision=-1)
    table = pd.DataFrame(layer.drop(columns=name))
    _drop_other_geometry(table, CSV, lambda column: table.__setitem__(column, shapely.to_wkt(table[column].values)))
    table[name if str(name).lower() in WKT_NAMES else "wkt"] = geometry
    table.to_csv(path, index=False, encoding="utf-8")


def _write_by_gdal(layer: GeoDataFrame, path: Path, kind: Format, layer_name: str, kinds: Sequence[str]) -> None:
    import pyogrio
    import shapely
    from pyogrio.errors import CRSError, DataLayerError, DataSourceError, FeatureError, FieldError, GeometryError

    from geocairn.sources.gdal_settings import prepare_gdal

    prepare_gdal()
    ready = _without_other_geometry(layer, kind)
    ready = _plain_columns(ready, kind)
    if kind is SHAPEFILE:
        ready = _short_names(ready, path.name)
        ready = _times_as_text(ready, path.name)
        _tell_cut_text(ready, path.name)
    options: dict[str, Any] = {}
    missing = bool((shapely.is_missing(ready.geometry.values) | shapely.is_empty(ready.geometry.values)).any())
    if kind is FLATGEOBUF and missing:
        options["SPATIAL_INDEX"] = "NO"  # the index has no place for a feature without extent
    if kind is GEOJSON:
        options["COORDINATE_PRECISION"] = 15
        if ready.empty:
            caveat(f"{path.name}: GeoJSON without a row does not hold the columns' names")
        if not _is_longitude_latitude(ready.crs):
            caveat(
                f"{path.name}: its coordinates are in {crs_label(ready.crs)}, which many readers of GeoJSON take for "
                "longitude and latitude; reproject to EPSG:4326 for those"
            )
    if kind is SHAPEFILE:
        options["ENCODING"] = "UTF-8"
    ready, measured = _with_measures(ready, kind, path.name)
    geometry_type = _geometry_type(ready, kind, kinds, path.name)
    if measured and kind is SHAPEFILE:
        geometry_type = "Unknown"  # pyogrio has no name for a type with measures: GDAL takes that of the first row
    named = {"layer": layer_name} if kind in (GEOPACKAGE, FLATGEOBUF) else {}
    if kind is not SHAPEFILE:
        folded = [str(name).lower() for name in ready.columns]
        same = [str(name) for name in ready.columns if folded.count(str(name).lower()) > 1]
        if same:  # GDAL takes one for the other, which has crashed the process
            raise InputFailure(
                f"cannot be written as {kind.title}: its columns {' and '.join(map(repr, same))} differ only in case",
                where=path.name,
                remedy="rename one",
            )
    if kind is GEOPACKAGE:
        options["GEOMETRY_NAME"] = str(ready.geometry.name)
    try:
        # Warnings are caught for the whole process: one writer at a time, and none but GDAL's own count.
        with _one_writer, warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            pyogrio.write_dataframe(
                ready,
                path,
                driver=kind.driver,
                geometry_type=geometry_type,
                promote_to_multi=bool(geometry_type and "Multi" in geometry_type),
                use_arrow=True,
                **named,
                **options,
            )
    except (
        DataSourceError,
        DataLayerError,
        FeatureError,
        FieldError,
        GeometryError,
        CRSError,
        ValueError,
    ) as error:
        full = lack_of_room(error, path, ready)
        if full is not None:
            raise full from error
        raise InputFailure(f"cannot be written as {kind.title}: {error}", where=path.name) from error
    for message in sorted({str(warning.message) for warning in heard if "pyogrio" in warning.filename}):
        if not _TOLD.search(message):
            caveat(f"{path.name}: {message}")
    check_written(path, kind, ready, layer_name)


def _with_measures(layer: GeoDataFrame, kind: Format, name: str) -> tuple[GeoDataFrame, bool]:
    """Return the layer as the format can hold it, and whether there are measures (M) left in it."""
    import numpy as np
    import shapely

    values = np.asarray(layer.geometry.values)
    if not shapely.has_m(values).any():
        return layer, False
    # The first row of a shapefile decides the type of all.
    if kind is GEOPACKAGE or (kind is SHAPEFILE and shapely.has_m(values[0]) and not shapely.is_empty(values[0])):
        return layer, True
    caveat(f"{name}: {kind.title} does not hold measures (M) here: they are left out")
    solid = shapely.has_z(values)
    bare = np.where(solid, shapely.from_wkb(shapely.to_wkb(values, output_dimension=3)), shapely.force_2d(values))
    return layer.set_geometry(layer.geometry.__class__(bare, index=layer.index, crs=layer.crs)), False


def _geometry_type(layer: GeoDataFrame, kind: Format, kinds: Sequence[str], name: str) -> str | None:
    """Return the one geometry type to write: single and multiple parts of a kind are promoted to multiple."""
    import numpy as np
    import shapely

    values = layer.geometry.values
    present = values[~shapely.is_missing(values)]
    found = sorted(kinds_of(layer))
    z = " Z" if bool(np.any(shapely.has_z(present))) else ""
    if not found:
        promised = [known for known in kinds if known in _SINGLE]
        if len(promised) == 1:
            return _MULTI[promised[0]] if kind is not SHAPEFILE else _SINGLE[promised[0]]
        if kind is SHAPEFILE:
            caveat(f"{name}: without any geometry its kind is not known, and it is written as a shapefile of points")
            return "Point"
        return "Unknown"
    if len(found) > 1 or found[0] not in _SINGLE:
        if kind is SHAPEFILE:
            raise InputFailure(
                f"a shapefile holds one kind of geometry, and the layer holds {' and '.join(found)}",
                where=name,
                remedy="write a GeoPackage, or filter it into one layer for each kind",
            )
        return "Unknown" + z if kind is not GEOJSON else None
    types = set(np.unique(shapely.get_type_id(present[~shapely.is_empty(present)])).tolist())
    if kind is SHAPEFILE and found[0] != "point":
        return _SINGLE[found[0]] + z  # a shapefile's lines and polygons may have many parts anyway
    if len(types) > 1 or types & {4, 5, 6}:
        return _MULTI[found[0]] + z
    return _SINGLE[found[0]] + z


def _without_other_geometry(layer: GeoDataFrame, kind: Format) -> GeoDataFrame:
    ready = layer.reset_index(drop=True)
    others: list[str] = []
    _drop_other_geometry(ready.drop(columns=ready.geometry.name), kind, others.append)
    return ready.drop(columns=others)


def _drop_other_geometry(table: Any, kind: Format, act: Callable[[str], Any]) -> None:
    others = [str(name) for name, dtype in zip(table.columns, table.dtypes, strict=True) if str(dtype) == "geometry"]
    for name in others:
        act(name)
    if others and kind is not CSV:
        caveat(f"{kind.title} holds one geometry column: {', '.join(map(repr, others))} left out")


def _plain_columns(layer: GeoDataFrame, kind: Format) -> GeoDataFrame:
    """Turn categories into what they stand for, and tell of time zones whose name is lost."""
    import pandas as pd

    ready = layer.copy(deep=False)
    zones = []
    for name in ready.columns:
        dtype = ready[name].dtype
        if isinstance(dtype, pd.CategoricalDtype):
            ready[name] = ready[name].astype(dtype.categories.dtype if dtype.categories.dtype != "int64" else "Int64")
        elif isinstance(dtype, pd.DatetimeTZDtype) and not re.fullmatch(r"UTC([+-]\d{2}:\d{2})?", str(dtype.tz)):
            zones.append(f"{name!r} ({dtype.tz})")
    if zones and kind is not SHAPEFILE:
        caveat(f"{kind.title} keeps the times of {', '.join(zones)} by offset; the time zone's name is lost")
    return ready


def _short_names(layer: GeoDataFrame, file: str) -> GeoDataFrame:
    """Cut field names to what a shapefile holds, each still unique, and tell the mapping; what fits stays as it is."""
    mapping: dict[str, str] = {}
    names = [str(column) for column in layer.columns if column != layer.geometry.name]
    fits: dict[str, str] = {}
    for name in names:
        if len(name.encode("utf-8")) <= _SHAPEFILE_NAME:
            fits.setdefault(name.lower(), name)
    taken = set(fits)
    for name in (name for name in names if fits.get(name.lower()) != name):
        short, number = _cut(name, _SHAPEFILE_NAME), 0
        while short.lower() in taken:
            number += 1
            short = f"{_cut(name, _SHAPEFILE_NAME - len(f'_{number}'))}_{number}"
        taken.add(short.lower())
        if short != name:
            mapping[name] = short
    if mapping:
        told = ", ".join(f"{name} → {short}" for name, short in mapping.items())
        caveat(f"{file}: a shapefile's field names have at most {_SHAPEFILE_NAME} bytes: {told}")
    return layer.rename(columns=mapping)


def _cut(name: str, size: int) -> str:
    return name.encode("utf-8")[:size].decode("utf-8", "ignore")


def _times_as_text(layer: GeoDataFrame, file: str) -> GeoDataFrame:
    """Write dates with a time as ISO 8601 text, which is what a shapefile can hold of them."""
    import pandas as pd

    for name in layer.columns:
        if pd.api.types.is_datetime64_any_dtype(layer[name].dtype):
            layer[name] = layer[name].map(lambda value: value.isoformat(), na_action="ignore").astype("str")
            caveat(f"{file}: a shapefile has no date with time: {name!r} is written as text")
    return layer


def _tell_cut_text(layer: GeoDataFrame, file: str) -> None:
    import pandas as pd

    for name in layer.columns:
        if name != layer.geometry.name and pd.api.types.is_string_dtype(layer[name].dtype):
            sizes = layer[name].dropna().map(lambda value: len(str(value).encode("utf-8")))
            cut = int((sizes > _SHAPEFILE_TEXT).sum())
            if cut:
                caveat(
                    f"{file}: a shapefile's text has at most {_SHAPEFILE_TEXT} bytes: {cut} values of {name!r} are cut"
                )


def _is_longitude_latitude(crs: Any) -> bool:
    from geocairn.sources.stated_crs import crs_of, same_crs

    return same_crs(crs, crs_of("EPSG:4326"))
