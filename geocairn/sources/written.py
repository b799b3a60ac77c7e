"""Reading back what was just written, since GDAL does not tell of writes that fail when it closes a file.

What always holds: a file that does not hold the layer's rows, geometries and coordinates is refused before it replaces
anything, is digested or is recorded; and where the disk is the cause, that is what is told, as a fatal failure.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import sqlite3
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from geocairn.failure import FatalFailure, InputFailure
from geocairn.sources.formats import FLATGEOBUF, GEOJSON, GEOPACKAGE, SHAPEFILE, Format, local_parts

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The numbers by which the system says that what was to be written is not."""

_REMEDY = "the disk is full, or a quota or a limit on the size of files is reached: free some space, or write elsewhere"
_SPARE = 1 << 20
_FEATURE_IDS = ("fid", "ogc_fid", "id")
"""Columns that GDAL may take for the features' numbers, and which are then no fields."""
_SAID = re.compile(
    r"no space left|disk is full|disk I/O error|quota exceeded|file too large|I/O failure|FWrite\(\)|failed to write",
    re.IGNORECASE,
)
"""What GDAL says when it could not write."""


@contextmanager
def told_when_full(where: str) -> Iterator[None]:
    """Tell what the system says of a full disk as a failure with a remedy.

    Raises
    ------
    FatalFailure : in place of the system's error.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise FatalFailure(f"cannot be written: {error}", where=where, remedy=_REMEDY) from error


def lack_of_room(error: Exception, path: Path, layer: GeoDataFrame) -> FatalFailure | None:
    """Return the failure that stands for a full disk, where that is why GDAL could not write `layer` to `path`."""
    said = _SAID.search(str(error)) is not None
    if not said and _has_room(path, layer):
        return None
    return FatalFailure(f"cannot be written: {error}", where=path.name, remedy=_REMEDY)


def check_written(path: Path, kind: Format, layer: GeoDataFrame, layer_name: str) -> None:
    """Hold the file that GDAL wrote against the layer that it was to write.

    Raises
    ------
    FatalFailure : when it cannot be read whole, or does not hold the same.
    """
    from geocairn.sources.shapefile import check_whole, parts_beside

    try:
        local_parts(path, kind)
        if kind is SHAPEFILE:
            parts = parts_beside(path)
            check_whole(parts, path.name)
            _check_sizes(parts, layer)
            _check_text_parts(path)
        elif kind is GEOJSON:
            _check_end(path)
        elif kind is FLATGEOBUF:
            _check_lengths(path, len(layer), indexed=_with_extent(layer) == len(layer))
        elif kind is GEOPACKAGE:
            _check_geopackage(path, layer_name, _with_extent(layer))
        _check_rows(path, kind, layer)
    except InputFailure as failure:
        raise _cut_short(path, kind, failure.what) from failure


def _has_room(path: Path, layer: GeoDataFrame) -> bool:
    """Whether a file somewhat larger than this one was to become can be made beside it."""
    import shapely

    largest = max((file.stat().st_size for file in path.parent.iterdir() if file.is_file()), default=0)
    coordinates = int(shapely.get_num_coordinates(layer.geometry.values).sum())
    rough = int(layer.memory_usage(deep=True).sum()) + 16 * coordinates
    probe = path.with_name(".room")
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(handle, 0, max(largest, rough) + _SPARE)
    except OSError as error:
        return error.errno not in FULL
    finally:
        os.close(handle)
        with suppress(OSError):
            probe.unlink()
    return True


def _cut_short(path: Path, kind: Format, what: str) -> FatalFailure:
    return FatalFailure(
        f"was not written whole as {kind.title} ({what})",
        where=path.name,
        remedy=f"most likely {_REMEDY}",
    )


def _with_extent(layer: GeoDataFrame) -> int:
    import shapely

    values = layer.geometry.values
    return int((~(shapely.is_missing(values) | shapely.is_empty(values))).sum())


def _check_rows(path: Path, kind: Format, layer: GeoDataFrame) -> None:
    import pyogrio
    import shapely
    from pyogrio.errors import DataLayerError, DataSourceError, FeatureError, GeometryError

    try:
        if kind is FLATGEOBUF:
            stated = int(pyogrio.read_info(path)["features"])
            if stated not in (len(layer), -1) and not (stated == 0 and len(layer) == 0):
                raise InputFailure(f"its header tells {stated} of {len(layer)} features")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of measures, which come with the geometry
            schema, table = pyogrio.read_arrow(path)
    except (DataSourceError, DataLayerError, FeatureError, GeometryError, OSError, UnicodeDecodeError) as error:
        raise InputFailure(f"it cannot be read: {error}") from error
    except IndexError as error:
        raise InputFailure("it holds no layer") from error
    if table.num_rows != len(layer):
        raise InputFailure(f"{table.num_rows} of {len(layer)} rows are there")
    found = shapely.from_wkb(table.column(schema["geometry_name"] or "wkb_geometry").to_numpy(zero_copy_only=False))
    there = int((~(shapely.is_missing(found) | shapely.is_empty(found))).sum())
    wanted = _with_extent(layer)
    if there != wanted:
        raise InputFailure(f"{there} of {wanted} geometries are there")
    if kind is not GEOJSON:  # which leaves out what is null
        fields = {str(name) for name in schema["fields"]}
        wanted_fields = [str(name) for name in layer.columns if name != layer.geometry.name]
        lost = [name for name in wanted_fields if name not in fields and name.lower() not in _FEATURE_IDS]
        if lost:
            raise InputFailure(f"the column {lost[0]!r} is not there")
    if kind is not SHAPEFILE:  # which closes rings and leaves out empty parts
        counts = [int(shapely.get_num_coordinates(values).sum()) for values in (found, layer.geometry.values)]
        if counts[0] != counts[1]:
            raise InputFailure(f"{counts[0]} of {counts[1]} coordinates are there")


def _check_sizes(parts: dict[str, tuple[bytes, int]], layer: GeoDataFrame) -> None:
    """Hold the parts of a shapefile against each other: GDAL may fail to write the heads too, which then tell less."""
    for extension in (".shp", ".shx"):
        head, size = parts[extension]
        if 2 * int(struct.unpack(">i", head[24:28])[0]) != size:
            raise InputFailure(f"its {extension} file does not tell its own size")
    if parts[".shx"][1] != 100 + 8 * len(layer):
        raise InputFailure("its .shx file does not hold every row")
    head, size = parts[".dbf"]
    rows, start, row = struct.unpack("<IHH", head[4:12])
    if rows != len(layer) or size - (start + rows * row) not in (0, 1):  # one byte may mark the end
        raise InputFailure("its .dbf file does not tell its own size")


def _check_text_parts(path: Path) -> None:
    """Hold the parts that GDAL reads past in silence: without them the layer has no CRS, or other text."""
    projection = path.with_suffix(".prj")  # not there for the few CRSs that it cannot tell
    text = projection.read_bytes() if projection.is_file() else None
    if text is not None and (not text or text.count(b"[") != text.count(b"]")):
        raise InputFailure("its .prj file is cut short")
    encoding = path.with_suffix(".cpg")
    if not encoding.is_file() or encoding.read_bytes().strip() != b"UTF-8":
        raise InputFailure("its .cpg file is cut short")


def _check_end(path: Path) -> None:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        end = b"".join(file.read().split())
    if not end.endswith(b"]}"):
        raise InputFailure("it does not end as GeoJSON does")


def _check_lengths(path: Path, features: int, *, indexed: bool) -> None:
    """Follow the lengths that a FlatGeobuf states, of header, index and each feature, to the end of the file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        place, size = 8, len(content)
        steps = features + 1  # the header goes before
        for step in range(steps):
            if place + 4 > size:
                raise InputFailure(f"{max(0, step - 1)} of {features} features are there")
            place += 4 + int(struct.unpack_from("<I", content, place)[0])
            if step == 0 and indexed:
                place += _index_size(features)
        if place != size:
            raise InputFailure(f"{size} of {place} bytes are there")


def _index_size(features: int) -> int:
    """Return the bytes of FlatGeobuf's packed R-tree: 16 entries a node, 40 bytes an entry."""
    if features == 0:
        return 0
    entries = level = features
    while True:  # the root has a node above even where there is but one feature
        level = -(-level // 16)
        entries += level
        if level == 1:
            return 40 * entries


def _check_geopackage(path: Path, layer_name: str, with_extent: int) -> None:
    if any(path.with_name(path.name + suffix).exists() for suffix in GEOPACKAGE.suffixed):
        raise InputFailure("its last change was not finished")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            told = connection.execute("pragma quick_check").fetchone()
            if told != ("ok",):
                raise InputFailure(f"SQLite finds: {told[0]}")
            name, column = connection.execute(
                "select table_name, column_name from gpkg_geometry_columns where table_name = ?", (layer_name,)
            ).fetchone()
            index = f"rtree_{name}_{column}".replace('"', '""')
            entries = connection.execute(f'select count(*) from "{index}"').fetchone()[0]  # noqa: S608, a quoted name
            declared = connection.execute(
                "select count(*) from gpkg_extensions where table_name = ? and extension_name = 'gpkg_rtree_index'",
                (layer_name,),
            ).fetchone()[0]
            bounded = connection.execute(
                "select count(*) from gpkg_contents where table_name = ? and min_x is not null", (layer_name,)
            ).fetchone()[0]
        finally:
            connection.close()
    except (sqlite3.Error, TypeError) as error:  # TypeError: the table has no row of that layer
        raise InputFailure(f"it is not a sound GeoPackage: {error}") from error
    if entries != with_extent or not declared:
        raise InputFailure(f"its spatial index has {entries} of {with_extent} geometries")
    if with_extent and not bounded:
        raise InputFailure("it does not tell its extent")
