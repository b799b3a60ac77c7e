"""A zip archive that holds something else than shapefiles: a file geodatabase, a GeoPackage, another single file.

What always holds: only what the layer is made of is unpacked, into a folder of our own; no name in the archive leads
out of it, and no link in it is followed. An archive with shapefiles is read as it is, without being unpacked.
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from geocairn.failure import FatalFailure, InputFailure
from geocairn.sources.formats import CSV, FLATGEOBUF, GEODATABASE, GEOJSON, GEOPACKAGE, GML, PARQUET, Format

_HELD = (GEODATABASE, GEOPACKAGE, FLATGEOBUF, PARQUET, GML, GEOJSON, CSV)
_IGNORED = ("__MACOSX/", ".")


def held_in(path: Path, where: str) -> tuple[str, Format] | None:
    """Return the name within the archive of what it holds, and its format; None where that is shapefiles, or nothing.

    Raises
    ------
    InputFailure : when it is damaged, or holds several files of which any may be meant.
    """
    found: dict[str, Format] = {}
    for entry in _entries(path, where):
        parts = PurePosixPath(entry.filename).parts
        if entry.filename.lower().endswith(".shp"):
            return None
        folders = [place for place, part in enumerate(parts) if part.lower().endswith(GEODATABASE.extensions)]
        if folders:
            found["/".join(parts[: folders[0] + 1])] = GEODATABASE
            continue
        for kind in _HELD:
            if kind is not GEODATABASE and entry.filename.lower().endswith(kind.extensions):
                found[entry.filename] = kind
    # A list or a note often lies beside the layer.
    found = {name: kind for name, kind in found.items() if kind not in (GEOJSON, CSV)} or found
    if len(found) > 1:
        raise InputFailure(
            f"is an archive of {len(found)} files that could be read: {', '.join(sorted(found)[:6])}",
            where=where,
            remedy="unpack it, and name one",
        )
    return next(iter(found.items())) if found else None


def unpack(path: Path, held: str, folder: Path, where: str) -> Path:
    """Unpack what is held under this name into `folder`, and return its path.

    Raises
    ------
    InputFailure : when the archive is damaged.
    FatalFailure : when there is no room for it.
    """
    entries = [
        entry for entry in _entries(path, where) if entry.filename == held or entry.filename.startswith(f"{held}/")
    ]
    size, room = sum(entry.file_size for entry in entries), shutil.disk_usage(folder).free
    if size > room:
        raise FatalFailure(
            f"unpacked it takes {size:,} bytes, and {room:,} are free in {folder}", where=where, remedy="free some room"
        )
    target = folder / PurePosixPath(held).name
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in entries:
                within = PurePosixPath(entry.filename).relative_to(held)
                there = target.joinpath(*within.parts)
                there.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, there.open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputFailure(
            f"is an archive that cannot be read: {error}", where=where, remedy="fetch it again, or unpack it first"
        ) from error
    return target


def _entries(path: Path, where: str) -> list[zipfile.ZipInfo]:
    """Return the files in the archive, without what lies in hidden folders.

    Raises
    ------
    InputFailure : for a damaged archive, and for one with names that lead out of it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise InputFailure("is a damaged zip archive", where=where, remedy="fetch or write it again") from None
    for entry in entries:
        parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
        if ".." in parts or entry.filename.startswith(("/", "\\")) or (parts and os.path.splitdrive(parts[0])[0]):
            raise InputFailure(
                f"is an archive with a name that leads out of it: {entry.filename!r}",
                where=where,
                remedy="write it again with relative names",
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise InputFailure(
                f"is an archive with a symbolic link in it: {entry.filename!r}", where=where, remedy="write it again"
            )
    return [entry for entry in entries if not entry.is_dir() and not entry.filename.startswith(_IGNORED)]
