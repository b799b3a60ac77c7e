"""Sources on web servers: what is there now, and fetching exactly that.

The version is what the server tells: the strong ETag, else the date of the last change with the size, where that date
is a second or more before the answer (a later change within the same second would have the same). Where the server
tells neither, the content is fetched and its digest is the version. What always holds: content is taken only from an
answer that tells the same ETag, or date and size, as was seen; a server that ignores the condition in the request is
found out by its answer.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from geocairn.canonical import digest
from geocairn.failure import InputFailure, SourceChanged, TransientFailure
from geocairn.sources.formats import Format, Part
from geocairn.sources.uri import WebPlace
from geocairn.sources.web_credentials import shown
from geocairn.sources.web_requests import GONE, UrlCheck, asked, refusal

_BLOCK = 1 << 20
_HEAD_REFUSED = (400, 401, 403, 405, 406, 500, 501)
"""Answers to HEAD after which GET is asked: some servers know only that, some addresses are signed for it alone."""
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_SETTLED_SECONDS = 1.0


@dataclass(frozen=True)
class WebPart:
    """One resource of a source, as it was seen."""

    role: str
    """Its extension, where it lies beside the one that the source names; empty for that one."""
    url: str
    size: int | None
    etag: str
    """With its quotes; only a strong one, which stands for the bytes."""
    modified: str
    """The date of the last change, where it and the size stand for the content; there is no strong ETag then."""
    hint: str = ""
    """A weak ETag, which tells of changes in meaning only, and counts beside the date."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return WebPlace(self.url).name

    @property
    def told(self) -> bool:
        """Whether the server tells one state of it from another."""
        return bool(self.etag or self.modified)

    @property
    def text(self) -> str:
        """What makes one state of it differ from another; empty where the server does not tell."""
        if self.etag:
            return f"{self.etag}/{'-' if self.size is None else self.size}"
        return f"{self.modified}/{self.size}{'/' if self.hint else ''}{self.hint}" if self.modified else ""


def web_parts(place: WebPlace, kind: Format, allowed: UrlCheck | None = None) -> list[WebPart]:
    """Return the resources that make up the source, as they are now.

    Parameters
    ----------
    allowed : is shown every address before it is asked.

    Raises
    ------
    InputFailure : when the resource, or a part that it needs, is not there, or is empty, or would be a folder.
    FatalFailure, TransientFailure : when the server refused or failed to look.
    """
    if place.url.endswith("/") or (kind.folder and kind.driver is not None):
        raise InputFailure(
            f"a web server does not list a folder, which {'this' if place.url.endswith('/') else f'a {kind.title}'} is",
            where=shown(place.url),
            remedy="name a single file, or put the folder in S3-compatible storage",
        )
    main = _look(place.url, "", allowed)
    if main is None:
        raise InputFailure(f"{place.name!r} does not exist", where=shown(place.url), remedy="correct the address")
    parts = [main]
    for extension in (*kind.required, *kind.optional):
        found = _look(_beside(place.url, extension), extension, allowed)
        if found is not None:
            parts.append(found)
        elif extension in kind.required:
            raise InputFailure(
                f"is a {kind.title} without its {extension} file",
                where=shown(place.url),
                remedy=f"put it beside the other: a {kind.title} is several files; or zip them all (.zip)",
            )
    return parts


def web_text(parts: list[WebPart]) -> str:
    """Return the version of a web source whose server tells it: of one resource as it stands, else a digest over all.

    Empty where the server does not tell it of every part.
    """
    if not all(part.told for part in parts):
        return ""
    if len(parts) == 1:
        return f"{'etag' if parts[0].etag else 'modified'}:{parts[0].text}"
    return f"etag:{len(parts)} files/{digest([[part.role, part.text] for part in parts])}"


def fetch_web(parts: list[WebPart], folder: Path, allowed: UrlCheck | None = None) -> list[Part]:
    """Fetch exactly these states of the resources into `folder`, and return the files, that of the source first.

    Raises
    ------
    SourceChanged : when a resource is no longer in the state that was seen.
    TransientFailure : when not all of it arrived.
    """
    stem = os.path.splitext(parts[0].name)[0]
    files = []
    for part in parts:
        name = parts[0].name if not part.role else stem + part.role
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise InputFailure(f"the name {name!r} is none for a file", where=shown(part.url))
        path = folder / name
        with _state_of(part, {}, allowed) as response:
            if response.status_code != 200:
                raise refusal(response, part.url)
            _receive(response, path, part)
        files.append(Part(part.role, path))
    return files


class WebRanges:
    """Ranges of one resource, in one state; of a server that gives no ranges, out of the whole, fetched once."""

    def __init__(self, part: WebPart, allowed: UrlCheck | None = None) -> None:
        self._part = part
        self._allowed = allowed
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def get(self, start: int, end: int) -> bytes:
        """Return the bytes from the first place up to the second, that one excluded.

        Raises
        ------
        SourceChanged : when the resource is no longer in the state that was seen.
        TransientFailure : when not all of it arrived.
        """
        if self._folder is None:
            with _state_of(self._part, {"Range": f"bytes={start}-{end - 1}"}, self._allowed) as response:
                if response.status_code == 206:
                    return self._range_in(response, start, end)
                if response.status_code == 416:
                    raise _changed(self._part)
                if response.status_code != 200:
                    raise refusal(response, self._part.url)
                self._folder = tempfile.TemporaryDirectory(prefix="geocairn-source-")
                _receive(response, Path(self._folder.name) / "whole", self._part)
        with (Path(self._folder.name) / "whole").open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def _range_in(self, response: Any, start: int, end: int) -> bytes:
        told = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if told is None or int(told[1]) != start:
            raise TransientFailure("another range arrived than was asked for", where=shown(self._part.url))
        if told[3] != "*" and int(told[3]) != self._part.size:
            raise _changed(self._part)
        found = b"".join(response.iter_raw())
        if len(found) != end - start:
            raise TransientFailure(
                f"{len(found)} of {end - start} bytes arrived", where=shown(self._part.url), remedy="try again"
            )
        return found


def _look(url: str, role: str, allowed: UrlCheck | None) -> WebPart | None:
    """Return what the server says of one resource, or None where it says that there is none."""
    for method in ("HEAD", "GET"):
        with asked(method, url, None, allowed) as response:
            if method == "HEAD" and response.status_code in _HEAD_REFUSED:
                continue
            if response.status_code in GONE:
                return None
            if response.status_code != 200:
                raise refusal(response, url)
            part = _seen(response, url, role)
            if part.size == 0 and not role:
                if method == "HEAD":  # some tell the size of the answer to HEAD itself
                    continue
                raise InputFailure("is empty (0 bytes)", where=shown(url), remedy="write it again")
            return part
    raise AssertionError("GET is always decided")


def _seen(response: Any, url: str, role: str) -> WebPart:
    size = _length(response)
    etag, weak = response.headers.get("ETag", "").strip(), ""
    if not re.fullmatch(r'"[^"]*"', etag):
        etag, weak = "", etag if etag.startswith("W/") else ""
    modified = ""
    if not etag and size is not None and _settled(response):
        modified = response.headers["Last-Modified"].strip()
    return WebPart(role, url, size, etag, modified, weak if modified else "")


def _settled(response: Any) -> bool:
    """Whether the date of the last change stands for one content: another change would have another date."""
    try:
        changed, now = (parsedate_to_datetime(response.headers.get(name, "")) for name in ("Last-Modified", "Date"))
        return (now - changed).total_seconds() >= _SETTLED_SECONDS
    except (ValueError, TypeError, OverflowError):
        return False


def _length(response: Any) -> int | None:
    """Return the size of the content, None where the server does not tell it."""
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() and _plain(response) else None


def _plain(response: Any) -> bool:
    return response.headers.get("Content-Encoding", "identity").strip().lower() in ("", "identity")


@contextmanager
def _state_of(part: WebPart, headers: dict[str, str], allowed: UrlCheck | None) -> Iterator[Any]:
    """Ask for a resource in the state that was seen; an answer in another state is none."""
    held = {"If-Match": part.etag} if part.etag else {}
    if part.modified:
        held = {"If-Unmodified-Since": part.modified}
    with asked("GET", part.url, {**headers, **held}, allowed) as response:
        if response.status_code in GONE:
            raise _changed(part)
        if response.status_code in (200, 206):
            there = response.headers.get("ETag", "").strip(), response.headers.get("Last-Modified", "").strip()
            if (part.etag and there[0] != part.etag) or (part.modified and there[1] != part.modified):
                raise _changed(part)
            size = _length(response) if response.status_code == 200 else None
            if None not in (size, part.size) and size != part.size:
                raise _changed(part)
        yield response


def _receive(response: Any, path: Path, part: WebPart) -> None:
    _refuse_page(response, part)
    size = _length(response)
    with path.open("wb") as file:
        for block in response.iter_raw(_BLOCK) if _plain(response) else response.iter_bytes(_BLOCK):
            file.write(block)
        arrived = file.tell()
    wanted = size if size is not None else part.size
    if wanted is not None and arrived != wanted and _plain(response):
        raise TransientFailure(f"{arrived} of {wanted} bytes arrived", where=shown(part.url), remedy="try again")


def _refuse_page(response: Any, part: WebPart) -> None:
    if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() in ("text/html", "application/xhtml"):
        raise InputFailure(
            "the server answers with a web page (text/html), not with data",
            where=shown(part.url),
            remedy="it may want a login, or the address is that of the page about the data: name the file's own",
        )


def _changed(part: WebPart) -> SourceChanged:
    return SourceChanged(
        "changed while it was being read", where=shown(part.url), remedy="run again to read it as it is now"
    )


def _beside(url: str, extension: str) -> str:
    """Return the address of the file beside, with its extension in the case of the one that is named."""
    parts = urlsplit(url)
    stem, own = os.path.splitext(parts.path)
    return urlunsplit(
        (parts.scheme, parts.netloc, stem + (extension.upper() if own.isupper() else extension), parts.query, "")
    )
