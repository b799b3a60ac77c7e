"""Shapefiles as they come: in several files or in a zip, in an encoding that they may not tell, cut short or whole.

What always holds: the sizes that the parts tell of themselves are held against those that they have, and against each
other. GDAL reads a `.shp` that was cut short as features without geometry, and a `.dbf` that was cut short as fewer
features, without a word.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.sources.formats import SHAPEFILE, SHP_MAGIC, beside_by_extension

Part = tuple[bytes, int]
"""The first 100 bytes of a part, and its size."""

SUPPOSED_ENCODING = "ISO-8859-1"
"""What the text of a shapefile that says nothing is taken for."""

_HEAD = 100


def parts_beside(path: Path) -> dict[str, Part]:
    """Return the parts of a shapefile by extension."""
    found = {".shp": path.name, **beside_by_extension(path.name, os.listdir(path.parent))}
    parts = {}
    for extension in (".shp", *SHAPEFILE.required, *SHAPEFILE.optional):
        if extension in found:
            part = path.parent / found[extension]
            with part.open("rb") as file:
                parts[extension] = file.read(_HEAD), part.stat().st_size
    return parts


def table_parts(path: Path, where: str) -> dict[str, Part]:
    """Return the parts of a dBASE table that stands alone, by extension.

    Raises
    ------
    InputFailure : when it is cut short.
    """
    found = {**beside_by_extension(path.name, os.listdir(path.parent)), ".dbf": path.name}
    parts: dict[str, Part] = {}
    for extension in (".dbf", ".cpg"):
        if extension in found:
            part = path.parent / found[extension]
            with part.open("rb") as file:
                parts[extension] = file.read(_HEAD), part.stat().st_size
    told, _ = _table_size(parts[".dbf"][0])
    _check_length(".dbf", told, parts[".dbf"][1], where)
    return parts


def parts_in_zip(path: Path, chosen: str, where: str) -> dict[str, Part]:
    """Return the parts of the shapefile `chosen` in an archive, by extension.

    Raises
    ------
    InputFailure : when a part is damaged, there twice, or a symbolic link.
    """
    import stat
    import zipfile
    import zlib

    parts = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                stem, extension = os.path.splitext(entry.filename)
                if stem == chosen[:-4]:
                    if extension.lower() in parts or stat.S_ISLNK(entry.external_attr >> 16):
                        raise InputFailure(
                            f"is an archive in which {entry.filename!r} is there twice, or is a symbolic link",
                            where=where,
                            remedy="zip the shapefile itself, with all its parts",
                        )
                    with archive.open(entry) as file:
                        parts[extension.lower()] = file.read(_HEAD), entry.file_size
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputFailure(
            f"is an archive that cannot be read: {error}", where=where, remedy="fetch it again, or unzip it first"
        ) from error
    return parts


def shapefile_in_zip(path: Path, layer: str | None, where: str) -> str:
    """Return the name within the archive of the shapefile to read.

    Raises
    ------
    InputFailure : when the archive is damaged, holds no shapefile, or several and `layer` names none of them.
    """
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.startswith("__MACOSX/") and ".." not in name]
    except zipfile.BadZipFile:
        raise InputFailure("is a damaged zip archive", where=where, remedy="fetch or write it again") from None
    found = {os.path.splitext(name.rpartition("/")[2])[0]: name for name in names if name.lower().endswith(".shp")}
    if not found:
        raise InputFailure("holds no shapefile (.shp)", where=where, remedy="zip the shapefile with all its parts")
    if layer is None and len(found) > 1:
        raise InputFailure(
            f"holds {len(found)} shapefiles: {', '.join(sorted(found))}", where=where, remedy="name one with layer"
        )
    if layer is not None and layer not in found:
        raise InputFailure(f"has no layer {layer!r}{did_you_mean(layer, found)}", where=where)
    return found[layer] if layer is not None else next(iter(found.values()))


def check_whole(parts: dict[str, Part], where: str) -> None:
    """Hold the parts against what they tell of their own sizes, and of each other's rows.

    Raises
    ------
    InputFailure : when a part is missing, is none, is cut short, or the parts do not belong together.
    """
    for extension in (".shp", *SHAPEFILE.required):
        if extension not in parts:
            raise InputFailure(
                f"is a shapefile without its {extension} file", where=where, remedy="a shapefile is several files"
            )
    if parts[".shp"][0][:4] != SHP_MAGIC:
        raise InputFailure(
            "is not a shapefile, as its extension says: its .shp file is of another kind",
            where=where,
            remedy="give it the extension of what it is, or write it again",
        )
    rows = {}
    for extension, count in _COUNTS.items():
        head, size = parts[extension]
        told, rows[extension] = count(head)
        _check_length(extension, told, size, where)
    if rows[".shx"] != rows[".dbf"]:
        raise InputFailure(
            f"its parts do not belong together: {rows['.shx']} geometries in .shx, {rows['.dbf']} rows in .dbf",
            where=where,
            remedy="copy all parts from one place",
        )


def _check_length(extension: str, told: int, size: int, where: str) -> None:
    if told > size:
        raise InputFailure(
            f"its {extension} file is cut short: {size} of {told} bytes are there",
            where=where,
            remedy="copy or fetch it again",
        )


def supposed_encoding(parts: dict[str, Part]) -> str | None:
    """Return the encoding that the text is taken to be in, or None where the shapefile tells it."""
    head = parts[".dbf"][0]
    return None if ".cpg" in parts or (len(head) > 29 and head[29]) else SUPPOSED_ENCODING


def _geometry_size(head: bytes) -> tuple[int, int]:
    if len(head) < _HEAD:
        return _HEAD, 0
    size = 2 * int(struct.unpack(">i", head[24:28])[0])  # told in words of two bytes
    return size, (size - _HEAD) // 8


def _table_size(head: bytes) -> tuple[int, int]:
    if len(head) < 32:
        return 32, 0
    rows, header, row = struct.unpack("<IHH", head[4:12])
    return header + rows * row, rows


_COUNTS: dict[str, Callable[[bytes], tuple[int, int]]] = {
    ".shp": _geometry_size,
    ".shx": _geometry_size,
    ".dbf": _table_size,
}
