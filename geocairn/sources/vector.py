"""Reading by GDAL: GeoPackage, FlatGeobuf, GeoJSON, shapefile and file geodatabase.

What always holds: a file is opened only after its first bytes were held against its format, by an absolute path that no
driver takes for a connection string, and the driver that opened it is the one meant. Integers and booleans with nulls
stay what they are; rows come in the file's order.
"""

from __future__ import annotations

import json
import re
import sqlite3
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.notes import caveat, note
from geocairn.sources.encodings import gdal_encoding
from geocairn.sources.formats import (
    DBF,
    FLATGEOBUF,
    GEODATABASE,
    GEOJSON,
    GEOPACKAGE,
    GML,
    SHAPEFILE,
    ZIPPED_SHAPEFILE,
    Format,
    check_content,
)
from geocairn.sources.gdal_settings import prepare_gdal
from geocairn.sources.gml import OPTIONS
from geocairn.sources.header import Header, kinds_of_names, type_of_ogr
from geocairn.sources.shapefile import (
    check_whole,
    parts_beside,
    parts_in_zip,
    shapefile_in_zip,
    supposed_encoding,
    table_parts,
)
from geocairn.sources.stated_crs import crs_of

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from geocairn.sources.source import Source

_UNDEFINED_CRS = re.compile(r"undefined (cartesian |geographic )?(srs|crs)", re.IGNORECASE)
"""The names under which a GeoPackage says that it has no CRS."""
_OF_OTHERS = ("layer_styles", "qgis_projects")
"""Tables in a GeoPackage that other programs keep for themselves."""
_HEARD = re.compile(r"Non-conformant content|^Measured \(M\) geometry types are not supported")
"""Warnings that say nothing of the data: pyogrio tells the second though the measures come with the geometry."""
_MOJIBAKE = re.compile("[\u0080-\u009f\ufffd]|[ÃÂ][\u0080-\u00bf]")


def vector_header(path: Path, kind: Format, source: Source) -> Header:
    """Return what the file says of itself.

    Raises
    ------
    InputFailure : for content of another kind, no or several layers where one must be named, or an unknown layer.
    """
    import pyogrio
    from pyogrio.errors import DataLayerError, DataSourceError

    prepare_gdal()
    check_content(path, kind, source.uri)
    layer = _layer(path, kind, source)
    supposed = None
    if kind is DBF:
        supposed = supposed_encoding(table_parts(path, source.uri)) if source.encoding is None else None
    elif kind in (SHAPEFILE, ZIPPED_SHAPEFILE):
        parts = (
            parts_beside(path)
            if kind is SHAPEFILE
            else parts_in_zip(path, shapefile_in_zip(path, source.layer, source.uri), source.uri)
        )
        check_whole(parts, source.uri)
        supposed = supposed_encoding(parts) if source.encoding is None else None
    encoding = _encoding(kind, source, supposed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told when it is read
            info = pyogrio.read_info(
                _gdal_name(path, kind, source),
                layer=layer,
                force_feature_count=True,
                encoding=encoding,
                **_options(kind),
            )
    except (DataSourceError, DataLayerError) as error:
        raise InputFailure(
            f"cannot be read as {kind.title}: {error}", where=source.uri, remedy="check that the file is whole"
        ) from error
    except IndexError as error:  # pyogrio asks for the first layer of a file that GDAL finds none in
        raise InputFailure(
            f"holds no layer that can be read as {kind.title}", where=source.uri, remedy="check what wrote it"
        ) from error
    if info["driver"] != kind.driver:
        raise InputFailure(
            f"is {info['driver']}, not {kind.title} as its extension says",
            where=source.uri,
            remedy="write it as a FeatureCollection" if kind is GEOJSON else "give it the extension of what it is",
        )
    if info["geometry_type"] is None and not source.table:
        raise InputFailure(
            f"{f'layer {layer!r} is' if layer else 'is'} a table without geometry",
            where=source.uri,
            remedy="name a layer that has geometry, or read it as a table (table: true)",
        )
    columns = {
        str(name): type_of_ogr(ogr, sub)
        for name, ogr, sub in zip(info["fields"], info["ogr_types"], info["ogr_subtypes"], strict=True)
    }
    if source.table:
        rows = int(info["features"]) if info["features"] >= 0 else None
        return Header(columns, "", rows=rows, layer=layer, encoding=supposed)
    geometry = str(info["geometry_name"] or "geometry")
    if geometry in columns:
        geometry = "geometry" if "geometry" not in columns else "geom"
    header = Header(columns, geometry, kinds_of_names([str(info["geometry_type"])]), layer=layer)
    header.rows = int(info["features"]) if info["features"] >= 0 else None
    if info["crs"]:
        crs = crs_of(str(info["crs"]), source.uri)
        header.crs = None if _UNDEFINED_CRS.match(crs.name) else crs
    if kind is GEOJSON and source.crs is not None:
        header.crs_by_default = not _says_crs(path)
    header.encoding = supposed
    return header


def read_vector(path: Path, kind: Format, source: Source, header: Header, columns: list[str] | None) -> GeoDataFrame:
    """Read the layer, or as a table its attributes; `columns` as the caller needs them.

    Raises
    ------
    InputFailure : when features cannot be read: broken geometry, text in another encoding.
    """
    import pyogrio
    from pyogrio.errors import DataLayerError, DataSourceError, FeatureError, GeometryError

    prepare_gdal()
    wanted = [name for name in columns if name in header.columns] if columns is not None else list(header.columns)
    if "geometry" in wanted and not source.table:
        raise InputFailure(
            "has an attribute column named 'geometry', which is the name of the geometry itself here",
            where=source.uri,
            remedy="name the columns to read without it, or rename it in the file",
        )
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            layer = pyogrio.read_dataframe(
                _gdal_name(path, kind, source),
                layer=header.layer,
                columns=wanted,
                # What lies beside a shapefile as its index may be another file's, and is not in the digest.
                bbox=None if kind in (SHAPEFILE, ZIPPED_SHAPEFILE) else source.bbox,
                read_geometry=not source.table,
                encoding=_encoding(kind, source, header.encoding),
                use_arrow=True,
                arrow_to_pandas_kwargs={"types_mapper": nullable_types().get},
                **_options(kind),
            )
    except (DataSourceError, DataLayerError, FeatureError, GeometryError) as error:
        raise InputFailure(
            f"cannot be read as {kind.title}: {error}", where=source.uri, remedy="check that the file is whole"
        ) from error
    except UnicodeDecodeError as error:
        raise _undecodable(error, source.uri) from error
    except LookupError as error:
        raise InputFailure(f"cannot be read: {error}", where=source.uri) from error
    told = sorted({str(warning.message) for warning in heard if not _HEARD.search(str(warning.message))})
    if told:
        note("reading_warnings", told)
    if kind is FLATGEOBUF:
        _check_flatgeobuf_whole(path, header, len(layer) if source.bbox is None else None, source.uri)
    plain_where_whole(layer)
    if not source.table and layer.geometry.name != header.geometry_column:
        layer = layer.rename_geometry(header.geometry_column)
    try:
        suspect_encoding(layer, header.encoding, source.uri)
    except UnicodeDecodeError as error:  # Arrow decodes text when it is looked at
        raise _undecodable(error, source.uri) from error
    return layer


def nullable_types() -> dict[Any, Any]:
    """Return the pandas types that hold integers and booleans with nulls, by Arrow type."""
    import pandas as pd
    import pyarrow as pa

    return {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }


def plain_where_whole(layer: Any, keep: frozenset[str] = frozenset()) -> None:
    """Turn nullable integer and boolean columns without a null into plain ones, but for those named in `keep`."""
    for name, dtype in zip(list(layer.columns), list(layer.dtypes), strict=True):
        plain = getattr(dtype, "numpy_dtype", None)
        if plain is not None and getattr(dtype, "na_value", None) is not None and name not in keep:
            column = layer[name]
            if plain.kind in "iub" and not column.isna().any():
                layer[name] = column.astype(plain)


def suspect_encoding(layer: Any, supposed: str | None, uri: str) -> None:
    """Tell where text looks decoded by the wrong encoding, or was decoded by one that the file does not state."""
    import pandas as pd

    for name in layer.columns:
        column = layer[name]
        if not pd.api.types.is_string_dtype(column.dtype) or name == getattr(layer, "active_geometry_name", None):
            continue
        for value in column.dropna().unique():
            if not isinstance(value, str) or value.isascii():
                continue
            if _MOJIBAKE.search(value):
                caveat(
                    f"{uri}: text in column {name!r} looks decoded by the wrong encoding ({value[:40]!r}): "
                    "state encoding (cp1252, utf-8) if it is wrong"
                )
                break
            if supposed is not None:
                caveat(
                    f"{uri}: does not say its text's encoding, read as {supposed} ({value[:40]!r} in column {name!r}): "
                    "state encoding if that is wrong"
                )
                return


def _encoding(kind: Format, source: Source, supposed: str | None) -> str | None:
    if kind not in (SHAPEFILE, ZIPPED_SHAPEFILE, DBF):
        return None
    return gdal_encoding(source.encoding, source.uri) if source.encoding is not None else supposed


def _undecodable(error: UnicodeDecodeError, uri: str) -> InputFailure:
    return InputFailure(
        f"holds text that is not {error.encoding}", where=uri, remedy="state its encoding (encoding: cp1252)"
    )


def _check_flatgeobuf_whole(path: Path, header: Header, rows: int | None, uri: str) -> None:
    """Hold the rows that are there against those that the header tells: GDAL reads a file cut short without a word."""
    import pyogrio

    if rows is None:
        rows = pyogrio.read_arrow(path, columns=[], read_geometry=False, return_fids=True)[1].num_rows
    if header.rows and rows != header.rows:
        raise InputFailure(
            f"is cut short: {rows} of {header.rows} features are there", where=uri, remedy="copy or fetch it again"
        )


def _options(kind: Format) -> dict[str, str]:
    """Open a GeoPackage as one that nobody writes, so that reading leaves no trace beside it (nor in it)."""
    return {"IMMUTABLE": "YES"} if kind is GEOPACKAGE else OPTIONS if kind is GML else {}


def _gdal_name(path: Path, kind: Format, source: Source) -> str:
    if kind is ZIPPED_SHAPEFILE:
        return f"/vsizip/{{{path}}}/{shapefile_in_zip(path, source.layer, source.uri)}"
    return str(path)


def _layer(path: Path, kind: Format, source: Source) -> str | None:
    """Return the layer to read, None where the format has but one."""
    if kind is ZIPPED_SHAPEFILE:
        return None
    if not kind.layers:
        if source.layer is not None and source.layer != path.stem and kind is not GEOJSON:
            raise InputFailure(
                f"has no layer {source.layer!r}: a {kind.title} holds one layer",
                where=source.uri,
                remedy="leave layer out",
            )
        return None
    known, spatial = _layers(path, kind, source.uri)
    if source.layer is not None:
        if source.layer not in known:
            raise InputFailure(f"has no layer {source.layer!r}{did_you_mean(source.layer, known)}", where=source.uri)
        return source.layer
    if source.table:
        tables = [name for name in known if name not in spatial and name not in _OF_OTHERS] or spatial
        if len(tables) > 1:
            raise InputFailure(
                f"holds {len(tables)} tables: {', '.join(tables)}", where=source.uri, remedy="name one with layer"
            )
        return tables[0] if tables else None
    if not spatial:
        raise InputFailure("holds no layer with geometry", where=source.uri)
    if len(spatial) > 1:
        raise InputFailure(
            f"holds {len(spatial)} layers: {', '.join(spatial)}", where=source.uri, remedy="name one with layer"
        )
    return spatial[0]


def _layers(path: Path, kind: Format, uri: str) -> tuple[list[str], list[str]]:
    """Return the names of all layers, and of those with geometry."""
    if kind in (GEODATABASE, GML):
        import pyogrio
        from pyogrio.errors import DataSourceError

        try:
            found = pyogrio.list_layers(path)
        except DataSourceError as error:
            raise InputFailure(f"cannot be read as {kind.title}: {error}", where=uri) from error
        return [str(name) for name, _ in found], [str(name) for name, geometry in found if geometry is not None]
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            rows = connection.execute("select table_name, data_type from gpkg_contents").fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise InputFailure(f"is not a sound GeoPackage: {error}", where=uri) from error
    return [str(name) for name, _ in rows], [str(name) for name, content in rows if content == "features"]


def _says_crs(path: Path) -> bool:
    """Whether a GeoJSON file carries a `crs` member of its own, as before RFC 7946."""
    with path.open("rb") as file:
        text = file.read()
    if b'"crs"' not in text:
        return False
    try:
        content = json.loads(text)
    except ValueError:
        return True
    return isinstance(content, dict) and content.get("crs") is not None
