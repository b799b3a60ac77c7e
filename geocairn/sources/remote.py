"""A source that lies on a service: its state as it was seen, and its content in exactly that state.

What always holds: what is seen, what is pinned as its version and what is read are one state; see
`geocairn.sources.objects` for S3 and `geocairn.sources.web` for web servers. Of GeoParquet single ranges can be read.
"""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from geocairn.canonical import digest
from geocairn.sources.formats import Part, format_of
from geocairn.sources.ranges import RangeFile
from geocairn.sources.uri import DatabasePlace, LocalPlace, Place, S3Place, WebPlace

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings
    from geocairn.sources.geoparquet.dataset import ParquetPart
    from geocairn.sources.objects import ObjectPart
    from geocairn.sources.web import WebPart
    from geocairn.sources.web_requests import UrlCheck


class RemoteFiles(Protocol):
    """The files of a source on a service, in the state that was seen."""

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """Name and size in bytes of each; 0 where the service does not tell it."""

    @property
    def text(self) -> str:
        """The version that stands for this state."""

    @property
    def is_content(self) -> bool:
        """Whether `text` is a digest of the content."""

    @property
    def seen(self) -> str:
        """What the service told of the state, as far as it does; at no further cost."""

    @property
    def whole_only(self) -> bool:
        """Whether single ranges cannot be had in a known state."""

    def fetch(self, folder: Path) -> Path:
        """Fetch all files into `folder`, and return the path of the source there.

        Raises
        ------
        SourceChanged : when it is no longer in the state that was seen.
        """

    def ranges(self) -> list[ParquetPart]:
        """Return the files of GeoParquet to be read by ranges."""


def remote_files(place: Place, *, s3: S3Settings | None = None, allowed: UrlCheck | None = None) -> RemoteFiles:
    """Look at a source on a service, as it is now.

    Parameters
    ----------
    s3 : how to reach S3; by the environment when left out.
    allowed : is shown every web address before it is asked.

    Raises
    ------
    InputFailure : when there is no such source, or a part of it is missing.
    FatalFailure, TransientFailure : when it may not be, or could not be, looked at.
    """
    assert not isinstance(place, LocalPlace | DatabasePlace)  # each has a module of its own
    kind = format_of(place.name, where=str(place))
    if isinstance(place, S3Place):
        from geocairn.sources.objects import object_parts

        return _S3Files(place, object_parts(place, kind, s3), s3)
    from geocairn.sources.web import web_parts

    return _WebFiles(place, web_parts(place, kind, allowed), allowed)


class _S3Files:
    is_content = False
    whole_only = False

    def __init__(self, place: S3Place, parts: list[ObjectPart], s3: S3Settings | None) -> None:
        self._place, self._parts, self._s3 = place, parts, s3

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        return tuple((part.key.rpartition("/")[2], part.size) for part in self._parts)

    @property
    def text(self) -> str:
        if len(self._parts) == 1 and not self._parts[0].role:
            return f"s3:{self._parts[0].text}"
        return f"s3:{len(self._parts)} objects/{digest([[part.role, part.text] for part in self._parts])}"

    @property
    def seen(self) -> str:
        return self.text

    def fetch(self, folder: Path) -> Path:
        from geocairn.sources import objects

        return objects.fetch(self._place, self._parts, folder, self._s3)

    def ranges(self) -> list[ParquetPart]:
        from geocairn.sources.geoparquet.dataset import ParquetPart
        from geocairn.sources.objects import ObjectRanges

        return [
            ParquetPart(part.role, RangeFile(part.size, ObjectRanges(self._place, part, self._s3).get))
            for part in self._parts
        ]


class _WebFiles:
    def __init__(self, place: WebPlace, parts: list[WebPart], allowed: UrlCheck | None) -> None:
        self._place, self._parts, self._allowed = place, parts, allowed

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        return tuple((part.name, part.size or 0) for part in self._parts)

    @property
    def seen(self) -> str:
        from geocairn.sources.web import web_text

        return web_text(self._parts)

    @property
    def is_content(self) -> bool:
        return not self.seen

    @cached_property
    def text(self) -> str:
        from geocairn.sources.version import content_digest

        return self.seen or f"sha256:{content_digest(self._fetched[1])}"

    @property
    def whole_only(self) -> bool:
        return not self.seen or any(part.size is None for part in self._parts)

    def fetch(self, folder: Path) -> Path:
        from geocairn.sources.web import fetch_web

        if self.is_content:  # fetched once: another time it might be something else
            return self._fetched[1][0].path
        return fetch_web(self._parts, folder, self._allowed)[0].path

    def ranges(self) -> list[ParquetPart]:
        from geocairn.sources.geoparquet.dataset import ParquetPart
        from geocairn.sources.web import WebRanges

        return [
            ParquetPart(part.role, RangeFile(part.size or 0, WebRanges(part, self._allowed).get))
            for part in self._parts
        ]

    @cached_property
    def _fetched(self) -> tuple[Any, list[Part]]:
        from geocairn.sources.web import fetch_web

        folder = tempfile.TemporaryDirectory(prefix="geocairn-source-")  # removed with this object
        return folder, fetch_web(self._parts, Path(folder.name), self._allowed)
