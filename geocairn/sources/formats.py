"""The formats that sources and outputs may have, and which files make up one source.

What always holds: the extension decides the format, and the content must agree with it. A file is never opened by a
format that its content suggests: a `.geojson` that is really a virtual data set naming other files is refused.

Which files count as parts (they change the data as read, so they are in the digest): of a shapefile `.shp .shx .dbf
.prj .cpg`, not its spatial indexes (`.qix .sbn .sbx`) and not its metadata (`.shp.xml`); of a GeoPackage its `-wal` and
`-journal` where they hold anything, not `-shm`; of a folder (file geodatabase, partitioned GeoParquet) every file in it
but lock files, and for GeoParquet those whose name begins with `.` or `_`. Folders in it that are symbolic links are
never entered, and in a GeoParquet folder refused, so that each file is read once.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean, nearest
from geocairn.sources.geojson_crs import hold_geojson_crs
from geocairn.sources.gml import check_gml
from geocairn.sources.other_formats import other_format


@dataclass(frozen=True)
class Format:
    """One format."""

    name: str
    extensions: tuple[str, ...]
    driver: str | None
    """GDAL's name of it, where GDAL reads it."""
    title: str
    required: tuple[str, ...] = ()
    """Extensions of files that must lie beside it."""
    optional: tuple[str, ...] = ()
    """Extensions of files that belong to it if they are there."""
    suffixed: tuple[str, ...] = ()
    """What is appended to the whole name for files that belong to it if they hold anything."""
    folder: bool = False
    """Whether it may be a folder."""
    layers: bool = False
    """Whether one file may hold several layers."""


PARQUET = Format("parquet", (".parquet", ".geoparquet", ".pq"), None, "GeoParquet", folder=True)
GEOPACKAGE = Format("gpkg", (".gpkg",), "GPKG", "GeoPackage", suffixed=("-wal", "-journal"), layers=True)
FLATGEOBUF = Format("fgb", (".fgb",), "FlatGeobuf", "FlatGeobuf")
GEOJSON = Format("geojson", (".geojson", ".json"), "GeoJSON", "GeoJSON")
SHAPEFILE = Format("shp", (".shp",), "ESRI Shapefile", "shapefile", (".shx", ".dbf"), (".prj", ".cpg"))
ZIPPED_SHAPEFILE = Format("zip", (".zip", ".shz"), "ESRI Shapefile", "zipped shapefile")
GEODATABASE = Format("gdb", (".gdb",), "OpenFileGDB", "file geodatabase", folder=True, layers=True)
CSV = Format("csv", (".csv",), None, "CSV")
GML = Format("gml", (".gml",), "GML", "GML", layers=True)
DBF = Format("dbf", (".dbf",), "ESRI Shapefile", "dBASE table", optional=(".cpg",))
PNG = Format("png", (".png",), None, "PNG map")

FORMATS: tuple[Format, ...] = (
    PARQUET,
    GEOPACKAGE,
    FLATGEOBUF,
    GEOJSON,
    SHAPEFILE,
    ZIPPED_SHAPEFILE,
    GEODATABASE,
    CSV,
    GML,
    DBF,
)
WRITABLE: tuple[Format, ...] = (PARQUET, GEOPACKAGE, FLATGEOBUF, GEOJSON, SHAPEFILE, CSV, PNG)

SHP_MAGIC = b"\x00\x00\x27\x0a"
"""How the `.shp` file of a shapefile begins."""
_DBF_VERSIONS = tuple(bytes([version]) for version in (0x02, 0x03, 0x30, 0x31, 0x32, 0x83, 0x8B, 0xF5))
"""How a dBASE file may begin: its version, some with a flag for a memo file."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GDAL_INSTRUCTIONS = b"gdal_streamed_alg"
"""By these letters GDAL knows a JSON file that holds a command of its own (GDALG)."""
_GEOJSON_HEAD = 1 << 16
_GEOJSON_TYPES = (
    "FeatureCollection",
    "Feature",
    "Point",
    "MultiPoint",
    "LineString",
    "MultiLineString",
    "Polygon",
    "MultiPolygon",
    "GeometryCollection",
)
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]', re.DOTALL)


def format_of(name: str, *, where: str = "", among: tuple[Format, ...] = FORMATS) -> Format:
    """Return the format that a file's name stands for.

    Raises
    ------
    InputFailure : when the extension is none of theirs, with the nearest right one.
    """
    lowered = name.rstrip("/").lower()
    known = {extension: found for found in among for extension in found.extensions}
    for extension, found in known.items():
        if lowered.endswith(extension):
            return found
    extension = os.path.splitext(lowered)[1]
    if not extension:
        raise InputFailure(
            "the name has no extension to tell the format by", where=where or name, remedy=f"one of {' '.join(known)}"
        )
    other, doing = other_format(lowered), "writes" if among is WRITABLE else "reads"
    if other is not None:
        title, remedy = other
        raise InputFailure(
            f"the extension {extension!r} stands for {title}, no format that geocairn {doing}",
            where=where or name,
            remedy=remedy if among is not WRITABLE else f"one of {' '.join(known)}",
        )
    raise InputFailure(
        f"the extension {extension!r} stands for no format that geocairn {doing}{did_you_mean(extension, known)}",
        where=where or name,
    )


def format_named(name: str, *, where: str = "") -> Format:
    """Return the format that can be written and has this name, GDAL name or extension.

    Raises
    ------
    InputFailure : when there is none, with the nearest right name.
    """
    wanted = name.lower()
    for found in WRITABLE:
        if wanted in (found.name, (found.driver or "").lower(), found.title.lower(), *found.extensions):
            return found
    raise InputFailure(
        f"no driver {name!r} to write with{did_you_mean(wanted, [found.name for found in WRITABLE])}", where=where
    )


@dataclass(frozen=True)
class Part:
    """One file of a source: what it is to the source, and where."""

    role: str
    """Its extension (in lower case), its suffix, or its path within the folder; empty for the file itself."""
    path: Path


def local_parts(path: Path, kind: Format) -> list[Part]:
    """Return the files that make up the source at `path`, in an order that does not depend on the folder's.

    Raises
    ------
    InputFailure : when the source, or a part that it needs, is not there or is empty.
    """
    if not path.exists():
        raise missing(path)
    if path.is_dir():
        if not kind.folder:
            raise InputFailure(
                f"is a folder, and a {kind.title} is a file",
                where=str(path),
                remedy=f"name the file in it{_inside(path)}",
            )
        return _folder_parts(path, kind)
    if kind is GEODATABASE:
        raise InputFailure("is a file, and a file geodatabase is a folder", where=str(path))
    if not path.is_file():
        raise InputFailure("is neither a file nor a folder", where=str(path))
    if path.stat().st_size == 0:
        raise InputFailure("is empty (0 bytes)", where=str(path), remedy="write it again")
    parts = [Part("", path)]
    beside = beside_by_extension(path.name, os.listdir(path.parent)) if kind.required or kind.optional else {}
    for extension in kind.required:
        if extension not in beside:
            raise InputFailure(
                f"is a {kind.title} without its {extension} file",
                where=str(path),
                remedy=f"put {path.stem}{extension} beside it: a {kind.title} is several files, copy them all",
            )
    parts.extend(
        Part(extension, path.parent / beside[extension])
        for extension in (*kind.required, *kind.optional)
        if extension in beside
    )
    for suffix in kind.suffixed:
        side = path.with_name(path.name + suffix)
        if side.is_file() and side.stat().st_size:
            parts.append(Part(suffix, side))
    return parts


def beside_by_extension(name: str, names: Iterable[str]) -> dict[str, str]:
    """Return the files with the same stem as `name`, by extension in lower case; the stem's own case goes first."""
    stem, own = os.path.splitext(name)
    found: dict[str, str] = {}
    for candidate in sorted(names):
        other, extension = os.path.splitext(candidate)
        same_case = extension.isupper() == own.isupper()
        if other == stem and (extension.lower() not in found or same_case):
            found[extension.lower()] = candidate
    return found


def missing(path: Path) -> InputFailure:
    """Return the complaint about a path that does not exist, with the nearest name that does."""
    folder = path.parent
    if not folder.is_dir():
        known = folder
        while not known.is_dir():
            known = known.parent
        gone = folder.relative_to(known).parts[0]
        return InputFailure(
            f"{path.name!r} does not exist: {known} has no folder {gone!r}",
            where=str(path),
            remedy="correct the path; relative paths are taken from the working directory",
        )
    near = nearest(path.name, sorted(os.listdir(folder)))
    hint = f"did you mean {near!r} in the same folder?" if near else "correct the path."
    return InputFailure(
        f"{path.name!r} does not exist",
        where=str(path),
        remedy=f"{hint} Relative paths are taken from the working directory",
    )


def check_content(path: Path, kind: Format, where: str) -> None:
    """Hold the first bytes of a file against its format, so that nothing else is opened in its name.

    Raises
    ------
    InputFailure : when the content is of another kind.
    """
    if path.is_dir():
        if kind is GEODATABASE and not any(name.lower().endswith(".gdbtable") for name in os.listdir(path)):
            raise InputFailure(
                "is a folder without the tables of a file geodatabase (.gdbtable)",
                where=where,
                remedy="copy the whole folder again",
            )
        return
    with path.open("rb") as file:
        head = file.read(4096)
    start = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    agrees = {
        PARQUET: head[:4] == b"PAR1",
        GEOPACKAGE: head[:16] == b"SQLite format 3\x00",
        FLATGEOBUF: head[:3] == b"fgb",
        GEOJSON: start[:1] == b"{",
        SHAPEFILE: head[:4] == SHP_MAGIC,
        ZIPPED_SHAPEFILE: head[:2] == b"PK",
        CSV: b"\x00" not in head,
        GML: start[:1] == b"<",
        DBF: head[:1] in _DBF_VERSIONS,
    }[kind]
    if not agrees:
        raise InputFailure(
            f"is not a {kind.title}, as its extension says: its content is of another kind",
            where=where,
            remedy="give it the extension of what it is, or write it again",
        )
    if kind is GEOJSON:
        _check_geojson(path, where)
    if kind is GML:
        check_gml(path, where)


def _check_geojson(path: Path, where: str) -> None:
    """Refuse JSON that is no GeoJSON: GDAL takes some for instructions, which may open other files and addresses."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        instructs = content.find(_GDAL_INSTRUCTIONS) >= 0
        found = None if instructs else _type_at_top(content[:_GEOJSON_HEAD])
        if not instructs:
            hold_geojson_crs(content, where)
    if found is None and not instructs:
        try:
            whole = json.loads(path.read_bytes().removeprefix(_BYTE_ORDER_MARK))
        except (ValueError, RecursionError) as error:
            raise InputFailure(
                f"is not sound JSON: {error}", where=where, remedy="check that the file is whole"
            ) from error
        found = whole.get("type")
    if instructs or not isinstance(found, str) or found not in _GEOJSON_TYPES:
        said = _GDAL_INSTRUCTIONS.decode() if instructs else found
        raise InputFailure(
            f"is not GeoJSON, as its extension says: its type is {str(said)[:40]!r}",
            where=where,
            remedy="write it as a FeatureCollection",
        )


def _type_at_top(head: bytes) -> str | None:
    """Return the `type` of the outermost object, or None where these first bytes do not tell it."""
    depth, member, value_next = 0, b"", False
    for token in _JSON_TOKEN.finditer(head):
        text = token[0]
        if text in (b"{", b"["):
            depth, value_next = depth + 1, False
        elif text in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and text == b":":
            value_next = True
        elif depth == 1 and text == b",":
            value_next = False
        elif depth == 1 and value_next and member == b'"type"':
            return text[1:-1].decode("utf-8", "replace")
        elif depth == 1 and not value_next:
            member = text
    return None


def _folder_parts(path: Path, kind: Format) -> list[Part]:
    parts = []
    for folder, folders, names in os.walk(path):
        hidden = (".", "_") if kind is PARQUET else ()
        folders[:] = sorted(name for name in folders if not (hidden and name.startswith(hidden)))
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        if linked and kind is PARQUET:  # they may lead in a circle, and Arrow would read their files again and again
            raise InputFailure(
                f"holds a folder that is a symbolic link: {linked[0]!r}",
                where=str(path),
                remedy="put the files themselves in its place, or remove it",
            )
        for name in names:
            if (hidden and name.startswith(hidden)) or name.endswith(".lock"):
                continue
            file = Path(folder) / name
            parts.append(Part(file.relative_to(path).as_posix(), file))
    wanted = [part for part in parts if kind is not PARQUET or part.role.endswith(PARQUET.extensions)]
    if not wanted:
        raise InputFailure(f"is a folder without a {kind.title} file in it", where=str(path))
    return sorted(wanted, key=lambda part: part.role)


def _inside(path: Path) -> str:
    extensions = tuple(extension for found in FORMATS for extension in found.extensions)
    names = sorted(name for name in os.listdir(path) if name.lower().endswith(extensions))
    return f", for example {names[0]}" if names else ""
