"""GeoParquet as a source: its metadata held against the specification, its geometry against its metadata.

What always holds: a file whose metadata is broken, or contradicts the geometry in it, is refused with a sentence that
says how. Readers that trust such a file take coordinates for something else than they are. What the older versions of
the format (0.1 to 0.4) wrote otherwise is understood.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.notes import caveat
from geocairn.sources.formats import PARQUET, check_content, local_parts
from geocairn.sources.header import Header, kinds_of_names, type_of_arrow

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from geocairn.sources.source import Source

_VERSION = re.compile(r"[012]\.\d+(\.\d+)?([-.]?(dev|alpha|beta|rc)[.\d]*)?")
_ENCODINGS = ("WKB", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")
_TYPE_NAMES = {
    0: "Point",
    1: "LineString",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_REMEDY = "have it written again by a tool that follows the GeoParquet specification"


def parquet_header(path: Path, source: Source) -> Header:
    """Return what the file, or the folder of files, says of itself.

    Raises
    ------
    InputFailure : for a table without geometry, broken metadata, or files of one folder that differ in CRS or columns.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if source.layer is not None:
        raise InputFailure("has no layers: GeoParquet holds one", where=source.uri, remedy="leave layer out")
    first: tuple[dict[str, Any], Any] | None = None
    rows = 0
    for part in local_parts(path, PARQUET):
        check_content(part.path, PARQUET, source.uri)
        place = source.uri if not part.role else f"{source.uri}/{part.role}"
        try:
            with parquet.ParquetFile(part.path) as file:
                schema, metadata = file.schema_arrow, file.metadata
        except (pa.ArrowInvalid, OSError) as error:
            raise InputFailure(
                f"is not a sound Parquet file: {error}", where=place, remedy="fetch or write it again"
            ) from error
        geo = geo_metadata(metadata.metadata or {}, schema.names, place)
        rows += metadata.num_rows
        if first is None:
            first = geo, schema
        elif _crs_value(geo) != _crs_value(first[0]) or geo["primary_column"] != first[0]["primary_column"]:
            raise InputFailure("differs in CRS or geometry column from the first file of its folder", where=place)
        elif schema.names != first[1].names:
            raise InputFailure("differs in its columns from the first file of its folder", where=place)
    assert first is not None  # a folder without a file was refused
    return _header(path, first[0], first[1], rows, source)


def geo_metadata(metadata: dict[bytes, bytes], names: list[str], where: str) -> dict[str, Any]:
    """Return the `geo` metadata, checked.

    Raises
    ------
    InputFailure : when it is missing or breaks the specification, with all that is wrong.
    """
    raw = metadata.get(b"geo")
    if raw is None:
        raise InputFailure(
            "is a Parquet table without geometry (no 'geo' metadata)", where=where, remedy="name a GeoParquet file"
        )
    try:
        geo = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputFailure(f"its 'geo' metadata is not UTF-8: {error.reason}", where=where, remedy=_REMEDY) from error
    except ValueError as error:
        raise InputFailure(f"its 'geo' metadata is not JSON: {error}", where=where, remedy=_REMEDY) from error
    wrong = _complaints(geo, names) if isinstance(geo, dict) else ["is not a JSON object"]
    if wrong:
        raise InputFailure(f"its 'geo' metadata {'; '.join(wrong)}", where=where, remedy=_REMEDY)
    checked: dict[str, Any] = geo
    return checked


def read_parquet(path: Path, source: Source, header: Header, columns: list[str] | None) -> GeoDataFrame:
    """Read the layer; `columns` as the caller needs them.

    Raises
    ------
    InputFailure : when geometry cannot be decoded, or contradicts the metadata.
    """
    import geopandas as gpd
    import pyarrow as pa
    import shapely
    from pyarrow import parquet

    from geocairn.sources.vector import nullable_types, plain_where_whole

    wanted = [name for name in header.columns if columns is None or name in columns]
    part = local_parts(path, PARQUET)[0].path
    with parquet.ParquetFile(part) as file:
        metadata, schema = file.metadata.metadata or {}, file.schema_arrow
    geo = geo_metadata(metadata, schema.names, source.uri)
    described = geo["columns"][header.geometry_column]
    pushed = source.bbox if "bbox" in described.get("covering", {}) else None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*spherical edges")  # told as a remark of the header
            layer = gpd.read_parquet(
                path,
                columns=[*wanted, header.geometry_column],
                bbox=pushed,
                to_pandas_kwargs={"types_mapper": nullable_types().get},
            )
    except shapely.errors.GEOSException as error:
        raise InputFailure(
            f"holds geometry that cannot be decoded{_undecoded_row(part, header.geometry_column)}: {error}",
            where=source.uri,
            remedy=_REMEDY,
        ) from error
    except (pa.ArrowInvalid, OSError, ValueError, KeyError) as error:
        raise InputFailure(f"cannot be read as GeoParquet: {error}", where=source.uri, remedy=_REMEDY) from error
    if layer.geometry.name != header.geometry_column:
        layer = layer.set_geometry(header.geometry_column)
    named = [name for name in layer.index.names if name is not None]
    layer = layer.reset_index(drop=not named)
    order = [name for name in schema.names if name in layer.columns]
    layer = layer[[*order, *(name for name in layer.columns if name not in order)]]
    plain_where_whole(layer, _nullable_as_written(schema))
    _hold_against(layer.geometry, described, _declares_z(geo), source.uri)
    return layer


def _header(path: Path, geo: dict[str, Any], schema: Any, rows: int, source: Source) -> Header:
    from pyproj import CRS

    primary = str(geo["primary_column"])
    described = geo["columns"][primary]
    skipped = {primary, *_covering_columns(geo)}
    columns = {}
    for name in schema.names:
        if name in geo["columns"]:
            columns[name] = "geometry"
        elif not re.fullmatch(r"__index_level_\d+__", name):
            columns[name] = type_of_arrow(schema.field(name).type)
    for name in _partition_columns(path):
        columns.setdefault(name, "category")
    header = Header({name: word for name, word in columns.items() if name not in skipped}, primary, rows=rows)
    types = described.get("geometry_types", described.get("geometry_type", []))
    header.kinds = kinds_of_names([types] if isinstance(types, str) else types) if types else ()
    if "crs" not in described:
        header.crs, header.crs_by_default = CRS.from_user_input("OGC:CRS84"), True
    elif described["crs"] is not None:
        header.crs = CRS.from_user_input(described["crs"])
    if described.get("edges", "planar") != "planar":
        header.remarks.append(
            f"{source.uri}: its edges are {described['edges']} (great circles), and are taken for straight lines in "
            f"{crs_label(header.crs)} here"
        )
    return header


def _complaints(geo: dict[str, Any], names: list[str]) -> list[str]:
    wrong = []
    version = geo.get("version", geo.get("schema_version"))
    if version is None:
        wrong.append("has no 'version'")
    elif not isinstance(version, str) or not _VERSION.fullmatch(version):
        wrong.append(f"is of an unknown version {version!r}")
    columns = geo.get("columns")
    if not isinstance(columns, dict) or not columns:
        wrong.append("has no 'columns'")
        columns = {}
    primary = geo.get("primary_column")
    if primary is None:
        wrong.append("has no 'primary_column'")
    elif columns and primary not in columns:
        wrong.append(f"names the primary column {primary!r}, which is not among its columns")
    for name, described in columns.items():
        if name not in names:
            wrong.append(f"describes a column {name!r} that the file does not have")
        if not isinstance(described, dict):
            wrong.append(f"describes column {name!r} by no JSON object")
            continue
        wrong.extend(f"{problem} (column {name!r})" for problem in _column_complaints(described))
    return wrong


def _column_complaints(described: dict[str, Any]) -> list[str]:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    wrong = []
    if described.get("encoding") not in _ENCODINGS:
        wrong.append(f"names the unknown encoding {described.get('encoding')!r}")
    if described.get("edges", "planar") not in ("planar", "spherical"):
        wrong.append(f"names unknown edges {described['edges']!r}")
    if described.get("orientation", "counterclockwise") != "counterclockwise":
        wrong.append(f"names an unknown orientation {described['orientation']!r}")
    crs = described.get("crs")
    known: Any = None
    if crs is not None:
        try:
            known = CRS.from_user_input(crs)
        except CRSError:
            label = (crs.get("name") or crs.get("id") or crs) if isinstance(crs, dict) else crs
            wrong.append(f"holds a CRS that is not valid PROJJSON: {label!r}")
            known = _crs_by_id(crs)
    if "epoch" in described:
        epoch = described["epoch"]
        if isinstance(epoch, bool) or not isinstance(epoch, int | float):
            wrong.append(f"has an epoch that is no number: {epoch!r}")
        elif known is not None and "datum_ensemble" in known.to_json_dict():
            wrong.append(f"gives the epoch {epoch} for {crs_label(known)}, whose datum ensemble has none")
    return wrong


def _crs_by_id(crs: Any) -> Any:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    identity = crs.get("id") if isinstance(crs, dict) else None
    if not isinstance(identity, dict):
        return None
    try:
        return CRS.from_authority(str(identity.get("authority")), str(identity.get("code")))
    except CRSError:
        return None


def _declares_z(geo: dict[str, Any]) -> bool:
    """Whether the writer tells Z in the types' names: before 0.4 the format did not, before 1.0 geopandas did not."""
    creator = geo.get("creator") or {}
    old = creator.get("library") == "geopandas" and str(creator.get("version")).startswith("0.")
    return not old and "geometry_types" in next(iter(geo["columns"].values()))


def _hold_against(geometry: Any, described: dict[str, Any], declares_z: bool, uri: str) -> None:
    """Refuse geometry that contradicts what the metadata says of it."""
    import numpy as np
    import shapely

    values = np.asarray(geometry.values)
    values = values[~shapely.is_missing(values)]
    declared = described.get("geometry_types", described.get("geometry_type", []))
    declared = [declared] if isinstance(declared, str) else list(declared)
    if declared and len(values):
        flat = {name.removesuffix(" ZM").removesuffix(" Z").removesuffix(" M") for name in declared}
        actual = {_TYPE_NAMES[int(number)] for number in np.unique(shapely.get_type_id(values))}
        if not flat & {"Unknown", "Geometry"} and not actual <= flat:
            _contradicted(f"declares {', '.join(declared)}, and there is {', '.join(sorted(actual - flat))}", uri)
        with_z = {name.endswith((" Z", " ZM")) for name in declared}
        found = {bool(flag) for flag in np.unique(shapely.has_z(values[~shapely.is_empty(values)]))}
        if declares_z and not found <= with_z:
            says, has = ("x, y, z", "x, y") if True in with_z else ("x, y", "x, y, z")
            _contradicted(f"declares coordinates {says}, and there are coordinates {has}", uri)
    if described.get("orientation") == "counterclockwise":
        polygons = shapely.get_parts(values[np.isin(shapely.get_type_id(values), (3, 6))])
        rings = shapely.get_exterior_ring(polygons[~shapely.is_empty(polygons)])
        if not shapely.is_ccw(rings).all():
            _contradicted("declares counterclockwise rings, and there are clockwise ones", uri)
    if described.get("edges") == "spherical" and len(values):
        _hold_against_sphere(values, uri)


def _hold_against_sphere(values: Any, uri: str) -> None:
    """Look for edges that go one way round the world as great circles, and the other way as straight lines.

    On the equator the straight line is a great circle too, so that the declaration contradicts the coordinates;
    elsewhere it does not, and the reader is told.
    """
    import numpy as np
    import shapely

    points, of = shapely.get_coordinates(values[shapely.get_dimensions(values) > 0], return_index=True)
    if not len(points):
        return
    inner = np.diff(of) == 0
    long = inner & (np.abs(np.diff(points[:, 0])) > 180)
    equator = long & (points[:-1, 1] == 0) & (points[1:, 1] == 0)
    if equator.any():
        _contradicted("declares spherical edges, and an edge on the equator goes the long way round the globe", uri)
    if long.any():
        caveat(
            f"{uri}: {int(long.sum())} edges span more than 180 degrees of longitude: as great circles they cross the "
            "antimeridian, taken as straight lines they go the other way round the world; split them there first"
        )


def _contradicted(how: str, uri: str) -> NoReturn:
    raise InputFailure(f"its 'geo' metadata {how}", where=uri, remedy=_REMEDY)


def _undecoded_row(path: Path, name: str) -> str:
    import shapely
    from pyarrow import parquet

    for row, value in enumerate(parquet.read_table(path, columns=[name]).column(name).to_pylist()):
        if isinstance(value, bytes) and shapely.from_wkb(value, on_invalid="ignore") is None:
            return f" in row {row + 1}"
    return ""


def _nullable_as_written(schema: Any) -> frozenset[str]:
    """Return the columns that pandas wrote from nullable types, which stay nullable."""
    pandas = (schema.pandas_metadata or {}).get("columns", [])
    return frozenset(
        str(column["name"]) for column in pandas if column.get("name") and str(column.get("numpy_type"))[:1].isupper()
    ) | frozenset(
        str(column["name"]) for column in pandas if column.get("numpy_type") == "boolean" and column.get("name")
    )


def _crs_value(geo: dict[str, Any]) -> Any:
    return geo["columns"][geo["primary_column"]].get("crs", "absent")


def _covering_columns(geo: dict[str, Any]) -> set[str]:
    found = set()
    for described in geo["columns"].values():
        for corner in (described.get("covering") or {}).get("bbox", {}).values():
            found.add(str(corner[0]))
    return found


def _partition_columns(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    first = local_parts(path, PARQUET)[0].role
    return [piece.partition("=")[0] for piece in first.split("/")[:-1] if "=" in piece]
