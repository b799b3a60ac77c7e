"""Getting at a source's files for as long as they are read, without touching the source.

What always holds: what lies on a service is fetched in exactly the state that was seen. A dBASE table is read from a
copy, so that no shapefile beside it is opened with it, and GML too (see `gml`). A GeoPackage with a write-ahead log or
a journal beside it is read from a copy, since SQLite writes both back into the original when the last reader closes it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from geocairn.sources.archives import held_in, unpack
from geocairn.sources.encodings import check_encoding
from geocairn.sources.formats import (
    DBF,
    GML,
    PARQUET,
    ZIPPED_SHAPEFILE,
    Format,
    check_content,
    format_of,
    local_parts,
)
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.remote import RemoteFiles, remote_files
from geocairn.sources.uri import LocalPlace, parse

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings
    from geocairn.sources.geoparquet.dataset import Located
    from geocairn.sources.source import Source


@contextmanager
def files_of(
    source: Source,
    *,
    base: Path | None,
    s3: S3Settings | None,
    remote: RemoteFiles | None = None,
    whole: bool = True,
    reach: Reach = EVERYTHING,
) -> Iterator[tuple[Located, Format]]:
    """Give the path of the source on this machine, and its format.

    Parameters
    ----------
    remote : the state to fetch of what lies on a service; that of now when left out.
    whole : whether all of it is needed; of GeoParquet on a service single ranges are read otherwise, and there is no
        path but files to read them from.
    reach : what may be read.

    Raises
    ------
    NotAllowed : where `reach` does not grant it.
    SourceChanged : when what lies on a service is no longer in the state to be fetched.
    """
    place = parse(source.uri, base)
    reach.may_read(place, source.uri, base)
    kind = format_of(place.name, where=source.uri)
    if reach.limited and kind.driver is not None:
        from geocairn.sources.gdal_settings import limit_gdal

        limit_gdal()
    check_encoding(source.encoding, kind, source.uri)
    if isinstance(place, LocalPlace):
        parts = local_parts(place.path, kind)
        reach.may_read_parts(place, [part.path for part in parts], source.uri)
        if kind is ZIPPED_SHAPEFILE:
            with _within(place.path, source.uri) as found:
                yield found
            return
        if kind not in (DBF, GML) and not (kind.suffixed and len(parts) > 1):
            yield place.path, kind
            return
        with tempfile.TemporaryDirectory(prefix="geocairn-source-") as folder:
            for part in parts:
                shutil.copyfile(part.path, Path(folder) / part.path.name)
            if kind.suffixed:  # folding the log into the copy lets it be opened like any other
                _fold_log(Path(folder) / place.name)
            yield Path(folder) / place.name, kind
        return
    remote = remote or remote_files(place, s3=s3, allowed=reach.may_ask)
    if kind is PARQUET and not whole and not remote.whole_only:
        yield remote.ranges(), kind
        return
    with tempfile.TemporaryDirectory(prefix="geocairn-source-") as folder:
        path = remote.fetch(Path(folder))
        if kind.suffixed and len(remote.files) > 1:
            _fold_log(path)
        if kind is ZIPPED_SHAPEFILE:
            with _within(path, source.uri) as found:
                yield found
        else:
            yield path, kind


@contextmanager
def _within(path: Path, where: str) -> Iterator[tuple[Path, Format]]:
    """Give what an archive holds: shapefiles as it is, anything else unpacked."""
    check_content(path, ZIPPED_SHAPEFILE, where)
    held = held_in(path, where)
    if held is None:
        yield path, ZIPPED_SHAPEFILE
        return
    name, kind = held
    with tempfile.TemporaryDirectory(prefix="geocairn-source-") as folder:
        yield unpack(path, name, Path(folder), where), kind


def on_disk(located: Located) -> Path:
    """Return the path of a source that is read whole: only GeoParquet is read by ranges."""
    assert isinstance(located, Path)
    return located


def _fold_log(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    try:
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("pragma journal_mode=delete")
    finally:
        connection.close()
