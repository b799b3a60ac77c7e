"""Where a source or an output is: a path on this machine or an object in S3-compatible storage.

What always holds: a canonical URI carries no secret, and two ways of writing one place (`data/a.gpkg`, `./data/a.gpkg`,
`file:///…/data/a.gpkg`, a symbolic link to it) give the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from geocairn.failure import InputFailure
from geocairn.nearest import nearest

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://)?")
_LATER = ("http", "https", "postgresql", "postgres")
_WORKING = ("file", "s3")


@dataclass(frozen=True)
class LocalPlace:
    """A file or folder on this machine."""

    path: Path
    """Absolute, as named: symbolic links are followed for identity only, since a file's parts lie beside its name."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class S3Place:
    """An object in S3-compatible storage, or a prefix that stands for a folder."""

    bucket: str
    key: str

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rstrip("/").rpartition("/")[2]

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


Place = LocalPlace | S3Place


def parse(uri: str, base: Path | None = None) -> Place:
    """Return the place that `uri` names.

    Parameters
    ----------
    uri : a path, `file://…` or `s3://bucket/key`.
    base : the folder from which a relative path is taken; the working directory when left out.

    Raises
    ------
    InputFailure : for a scheme that geocairn does not read, or an incomplete URI.
    """
    text = uri.strip()
    scheme = _SCHEME.match(text)
    kind = scheme[1].lower() if scheme else "path"
    if kind == "path":
        return LocalPlace(_absolute(text, base))
    if kind == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise InputFailure(
                f"file://{parts.netloc}/… names another machine",
                where=text,
                remedy="write file:///path with three slashes",
            )
        return LocalPlace(_absolute(unquote(parts.path), base))
    if kind == "s3":
        bucket, _, key = text[len("s3:") :].lstrip("/").partition("/")
        if not bucket or not key:
            raise InputFailure("names no object", where=text, remedy="write s3://bucket/key")
        return S3Place(bucket, key)
    if ((base or Path.cwd()) / text).exists():  # a file name may hold a colon
        return LocalPlace(_absolute(text, base))
    raise _unknown_scheme(kind, text)


def canonical_uri(uri: str, base: Path | None = None, s3: S3Settings | None = None) -> str:
    """Return the one way of writing the place that `uri` names, without secrets.

    A local path becomes absolute with symbolic links followed; `s3://bucket/key` becomes `s3+ENDPOINT/bucket/key`, the
    endpoint without scheme and user name; Amazon's own service is `s3+aws`, whatever its region.

    Raises
    ------
    InputFailure : for a scheme that geocairn does not read, or an incomplete URI.
    """
    place = parse(uri, base)
    if isinstance(place, LocalPlace):
        return str(place.path.resolve())
    return f"s3+{_endpoint_identity(s3_settings(s3).endpoint)}/{place.bucket}/{place.key}"


def s3_settings(s3: S3Settings | None) -> S3Settings:
    """Return the settings given, else those of the environment."""
    if s3 is not None:
        return s3
    from geocairn.s3 import S3Settings

    return S3Settings.from_environment()


def _absolute(text: str, base: Path | None) -> Path:
    path = Path(text).expanduser() if text == "~" or text.startswith("~/") else Path(text)
    whole = (base or Path.cwd()) / path
    # `..` after a symbolic link leads elsewhere than the text suggests, so the file system is asked for the folder.
    return whole.resolve() if whole.name in ("", "..") else whole.parent.resolve() / whole.name


def _endpoint_identity(endpoint: str | None) -> str:
    if not endpoint:
        return "aws"
    parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
    host = (parts.hostname or "").lower()
    if host.endswith(".amazonaws.com"):
        return "aws"
    port = "" if parts.port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f":{parts.port}"
    return f"{host}{port}{parts.path.rstrip('/')}"


def _unknown_scheme(kind: str, text: str) -> InputFailure:
    shown = re.sub(r"//[^/@]*@", "//", text)
    if kind in _LATER:
        return InputFailure(
            f"{kind} sources are not supported yet",
            where=shown,
            remedy="fetch it to a file, or use a path, file:// or s3://bucket/key",
        )
    near = nearest(kind, (*_WORKING, *_LATER))
    meant = f"did you mean {near}://? " if near else ""
    return InputFailure(
        f"the scheme {kind!r} is unknown",
        where=shown,
        remedy=f"{meant}a path, file:// and s3://bucket/key work",
    )
