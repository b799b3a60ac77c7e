"""Getting at a source's files for as long as they are read, without touching the source.

What always holds: an S3 object is fetched in exactly the state that was seen. A GeoPackage with a write-ahead log or a
journal beside it is read from a copy, since SQLite writes both back into the original when the last reader closes it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from geocairn.sources.formats import Format, format_of, local_parts
from geocairn.sources.uri import LocalPlace, parse
from geocairn.sources.version import objects_of

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings
    from geocairn.sources.objects import ObjectPart
    from geocairn.sources.source import Source


@contextmanager
def files_of(
    source: Source, *, base: Path | None, s3: S3Settings | None, objects: list[ObjectPart] | None = None
) -> Iterator[tuple[Path, Format]]:
    """Give the path of the source on this machine, and its format.

    Parameters
    ----------
    objects : for S3, the states to fetch; those of now when left out.

    Raises
    ------
    SourceChanged : when an S3 object is no longer in the state to be fetched.
    """
    place = parse(source.uri, base)
    kind = format_of(place.name, where=source.uri)
    if isinstance(place, LocalPlace):
        parts = local_parts(place.path, kind)
        if not (kind.suffixed and len(parts) > 1):
            yield place.path, kind
            return
        with tempfile.TemporaryDirectory(prefix="geocairn-source-") as folder:
            for part in parts:
                shutil.copyfile(part.path, Path(folder) / part.path.name)
            # Folding the log into the copy lets it be opened like any other.
            _fold_log(Path(folder) / place.name)
            yield Path(folder) / place.name, kind
        return
    from geocairn.sources.objects import fetch

    with tempfile.TemporaryDirectory(prefix="geocairn-source-") as folder:
        found = objects if objects is not None else objects_of(place, s3)
        path = fetch(place, found, Path(folder), s3)
        if kind.suffixed and len(found) > 1:
            _fold_log(path)
        yield path, kind


def _fold_log(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    try:
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("pragma journal_mode=delete")
    finally:
        connection.close()
