"""The small object store that everything at rest lies in: what a folder and an S3 bucket both offer.

What always holds: an object is there whole or not at all; a conditional write has exactly one winner; `None` means
that an object is certainly missing, and whatever is refused, cut short or not answered raises a failure with a class.
Keys are relative, use `/`, and none of their parts begins with a dot, so that a store can keep its own files beside
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from geocairn.failure import InputFailure, TransientFailure

PAGE = 1000
"""Keys in one page of a listing."""


@dataclass(frozen=True)
class Info:
    """What a listing says of an object."""

    key: str
    size: int
    """Bytes."""
    tag: str
    """Changes whenever the object is written; an ETag on S3."""
    modified: float
    """Seconds since the epoch, by the store's clock."""


@dataclass(frozen=True)
class Stored:
    """An object that was read, and the tag under which it can be replaced."""

    data: bytes
    tag: str


class Conflict(TransientFailure):
    """The condition of a write or a deletion does not hold: another writer was there."""


class Missing(InputFailure, KeyError):
    """An object that was to be fetched is not there."""


class Objects(Protocol):
    """A store of objects by key. All methods may be called from several threads."""

    @property
    def url(self) -> str:
        """The store's canonical address, without secrets."""

    def read(self, key: str) -> Stored | None:
        """Return an object with its tag; None only where it is certain that there is none."""

    def head(self, key: str) -> Info | None:
        """Return what is known of an object without reading it; None only where there is certainly none."""

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_tag: str | None = None) -> str:
        """Write an object, whole or not at all, and return its tag.

        Raises
        ------
        Conflict : there is one already (`if_absent`), or it is gone or not the one of that tag (`if_tag`).
        """

    def delete(self, key: str, *, if_tag: str | None = None) -> bool:
        """Delete an object; false where it was certainly missing. Raises `Conflict` where `if_tag` does not hold."""

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Info]:
        """Yield the objects whose key begins with `prefix` and comes behind `after`, in the order of their bytes.

        Some services sort folder by folder, which differs where the name of a folder begins that of its neighbour.
        """

    def upload(self, key: str, path: Path, *, take: bool = False) -> None:
        """Store a local file, whole or not at all. With `take` the file may be moved away."""

    def download(self, key: str, path: Path) -> None:
        """Fetch an object into a local file. Raises `Missing` where there is none."""

    def local(self, key: str) -> Path | None:
        """Return where the object can be read in place, or None where it has to be downloaded."""

    def scratch(self, suffix: str = "") -> Path:
        """Return a new local path for a temporary file, near the store where that saves a copy."""

    def now(self) -> float:
        """Return the store's own time, in seconds since the epoch."""

    def clean(self) -> int:
        """Remove temporary files of processes that are gone; return how many."""


def check_key(key: str) -> str:
    """Return `key` if it is one that every store takes.

    Raises
    ------
    InputFailure : for an absolute key, one with an empty part or a part that begins with a dot, or a control character.
    """
    parts = key.split("/")
    sound = all(part and not part.startswith(".") and len(part.encode("utf-8", "replace")) <= 255 for part in parts)
    if not sound or len(key.encode("utf-8", "replace")) > 900 or "\\" in key or not key.isprintable():
        raise InputFailure(
            f"{key!r} is no key of a store",
            remedy="use a relative path with '/', without empty parts, parts that begin with a dot, or odd characters",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if keys can begin with it: empty, a key, or a key and a slash."""
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix
