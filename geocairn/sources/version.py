"""The version of a source: which state of its content a run reads.

A local file's version is the SHA-256 of its content with all its parts, whatever it is called and wherever it lies. An
S3 object's is its version id, ETag and size; a web server's file has what the server tells of it, else the SHA-256 too.
A database layer's is what the plan's version query gives, else a digest that the server makes of what would be read.
A stated version is the plan's word for it. What always holds: a digest is
remembered by device, inode, size, mtime and ctime of every file, and not for a file changed within two seconds of being
hashed, since such a file may change again without any of these showing it. Permission to read is checked even where the
digest is remembered.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from geocairn.canonical import digest
from geocairn.failure import FatalFailure, TransientFailure
from geocairn.memory import Memory
from geocairn.sources.formats import Part, format_of, local_parts
from geocairn.sources.postgis.relation import check_source
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.remote import RemoteFiles, remote_files
from geocairn.sources.uri import DatabasePlace, LocalPlace, parse

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings
    from geocairn.sources.source import Source

SETTLED_SECONDS = 2.0
"""How long a file must have been left alone for its digest to be remembered."""

_BLOCK = 1 << 20
_ATTEMPTS = 3


@dataclass(frozen=True)
class SourceVersion:
    """One state of a source."""

    text: str
    """`sha256:…`, `s3:versionid/etag/size`, `etag:"…"/size`, `modified:date/size` or `stated:…`."""
    is_content_digest: bool
    """Whether `text` stands for the content wherever it lies; else it says something only together with the URI."""
    files: tuple[tuple[str, int], ...] = ()
    """Name and size in bytes of each file, for messages."""
    state: str = ""
    """How the files are found unchanged at little cost; not part of the version, and never to be stored."""


def resolve_version(
    source: Source,
    *,
    base: Path | None = None,
    s3: S3Settings | None = None,
    memory: Memory | None = None,
    reach: Reach = EVERYTHING,
) -> SourceVersion:
    """Return the version of the source as it is now.

    Parameters
    ----------
    source : the source; its stated version is taken as it is, but the source must exist.
    base : the folder from which a relative path is taken; the working directory when left out.
    s3 : how to reach S3; by the environment when left out.
    memory : where digests are remembered; hashed each time when left out.
    reach : what may be read; anything when left out, for a caller who is trusted.

    Raises
    ------
    InputFailure : when there is no such source, or a part of it is missing.
    FatalFailure : when it may not be read; of the kind NotAllowed where `reach` does not grant it.
    TransientFailure : when it is being written just now, or the service failed to answer.
    """
    place = parse(source.uri, base)
    reach.may_read(place, source.uri, base)
    check_source(source, place)
    if isinstance(place, DatabasePlace):
        from geocairn.sources.postgis.reading import database_version

        return database_version(source, place)
    if isinstance(place, LocalPlace):
        parts = readable_parts(place, source.uri, reach)
        files = tuple((part.path.name, part.path.stat().st_size) for part in parts)
        state = state_of(parts)
        if source.version is not None:
            return SourceVersion(f"stated:{source.version}", False, files, state)
        return SourceVersion(f"sha256:{content_digest(parts, memory)}", True, files, state)
    return remote_version(source, remote_files(place, s3=s3, allowed=reach.may_ask))


def remote_version(source: Source, remote: RemoteFiles) -> SourceVersion:
    """Return the version of a source on a service, as it was seen."""
    if source.version is not None:
        return SourceVersion(f"stated:{source.version}", False, remote.files, remote.seen)
    return SourceVersion(remote.text, remote.is_content, remote.files, remote.seen)


def readable_parts(place: LocalPlace, uri: str, reach: Reach = EVERYTHING) -> list[Part]:
    """Return the files of a local source, each of which may be read.

    Raises
    ------
    InputFailure : when the source or a part of it is missing.
    FatalFailure : when a file may not be read.
    """
    try:
        parts = local_parts(place.path, format_of(place.name, where=uri))
    except PermissionError as error:
        raise FatalFailure(
            "the folder may not be read", where=str(place), remedy="ask its owner for permission"
        ) from error
    reach.may_read_parts(place, [part.path for part in parts], uri)
    for part in parts:
        if not os.access(part.path, os.R_OK):
            raise FatalFailure("may not be read", where=str(part.path), remedy="ask its owner for permission to read")
    return parts


def content_digest(parts: list[Part], memory: Memory | None = None) -> str:
    """Return the SHA-256 over content and role of the files, as hexadecimal digits.

    Of a single file it is the SHA-256 of the file, as `sha256sum` gives it.

    Raises
    ------
    TransientFailure : when a file keeps changing while it is being read.
    """
    found = [(part.role, file_digest(part.path, memory)) for part in parts]
    if len(found) == 1 and not found[0][0]:
        return found[0][1]
    return digest([list(pair) for pair in found])


def file_digest(path: Path, memory: Memory | None = None) -> str:
    """Return the SHA-256 of a file, from memory where the file is known not to have changed since.

    Raises
    ------
    TransientFailure : when the file keeps changing while it is being read.
    """
    for _ in range(_ATTEMPTS):
        before = path.stat()
        key = _identity(before)
        known = memory.get("digests", key) if memory is not None else None
        if known is not None and isinstance(known.get("sha256"), str):
            return str(known["sha256"])
        started = time.time()
        hashed = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                hashed.update(block)
        if _identity(path.stat()) != key:
            continue
        if memory is not None and started - max(before.st_mtime, before.st_ctime) > SETTLED_SECONDS:
            memory.put("digests", key, {"sha256": hashed.hexdigest()})
        return hashed.hexdigest()
    raise TransientFailure("is being written to", where=str(path), remedy="try again when it is finished")


def state_of(parts: list[Part]) -> str:
    """Return device, inode, size, mtime and ctime of every file, as one text."""
    return "; ".join(f"{part.role} {_identity(part.path.stat())}" for part in parts)


def _identity(facts: os.stat_result) -> str:
    return f"{facts.st_dev} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"
