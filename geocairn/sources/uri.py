"""Where a source or an output is: a path on this machine, an object in S3-compatible storage, a web address, a table.

What always holds: a canonical URI carries no secret, and two ways of writing one place (`data/a.gpkg`, `./data/a.gpkg`,
`file:///…/data/a.gpkg`, a symbolic link to it) give the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from geocairn.failure import InputFailure
from geocairn.nearest import nearest
from geocairn.sources.web_credentials import how_to_state, secret_parameter

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://)?")
_WEB = {"http": 80, "https": 443}
_DATABASE = ("postgresql", "postgres")
_POSTGRES_PORT = 5432
_SCHEMES = ("file", "s3", *_WEB, *_DATABASE)
_FORMS = "a path, file://, s3://bucket/key, https://host/path and postgresql://host/database work"


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


@dataclass(frozen=True)
class WebPlace:
    """A resource that a web server gives."""

    url: str
    """Without user name and fragment; scheme and host in lower case, without a port that is the scheme's own."""

    @property
    def host(self) -> str:
        """The server, with its port where that is not the scheme's own."""
        return urlsplit(self.url).netloc

    @property
    def name(self) -> str:
        """The last part of the path."""
        return unquote(urlsplit(self.url).path.rstrip("/").rpartition("/")[2])

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class DatabasePlace:
    """A PostgreSQL database; which layer of it is said beside."""

    host: str
    """A host name, or the folder of a socket on this machine."""
    port: int
    database: str
    user: str | None = None
    """Who connects; by the environment when left out. No part of the identity."""

    @property
    def name(self) -> str:
        """The database's name."""
        return self.database

    def __str__(self) -> str:
        return f"postgresql://{self.host}:{self.port}/{self.database}"


Place = LocalPlace | S3Place | WebPlace | DatabasePlace


def parse(uri: str, base: Path | None = None) -> Place:
    """Return the place that `uri` names.

    Parameters
    ----------
    uri : a path, `file://…`, `s3://bucket/key`, `https://host/path` or `postgresql://host/database`.
    base : the folder from which a relative path is taken; the working directory when left out.

    Raises
    ------
    InputFailure : for a scheme that geocairn does not read, an incomplete URI, or one with a password in it.
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
    if kind in _WEB:
        return _web_place(text)
    if kind in _DATABASE:
        return _database_place(text)
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
    if not isinstance(place, S3Place):
        return str(place)
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


def _web_place(text: str) -> WebPlace:
    parts = _split_without_password(text)
    if not parts.hostname or parts.path in ("", "/"):
        raise InputFailure("names no file on a web server", where=text, remedy="write https://host/path/name.parquet")
    if parts.username:
        raise _secret_in(text, "a user name")
    secret = secret_parameter(text)
    if secret is not None:
        raise InputFailure(
            f"its parameter {secret!r} looks like a secret, which would end up in records and logs",
            where=_shown(text),
            remedy=f"leave it out; {how_to_state(text)}",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, _WEB[parts.scheme.lower()]) else f":{parts.port}"
    return WebPlace(urlunsplit((parts.scheme.lower(), f"{host}{port}", parts.path, parts.query, "")))


def _database_place(text: str) -> DatabasePlace:
    parts = _split_without_password(text)
    database = unquote(parts.path.strip("/"))
    if not parts.hostname or not database or "/" in database:
        raise InputFailure(
            "names no database",
            where=text,
            remedy="write postgresql://host:port/database; who connects comes from PGUSER and PGPASSWORD or .pgpass",
        )
    if parts.query or parts.fragment:
        raise InputFailure(
            "has settings after '?', which the environment states instead",
            where=text,
            remedy="leave them out, and set PGSSLMODE and the like",
        )
    user = unquote(parts.username) if parts.username else None
    return DatabasePlace(unquote(parts.hostname), parts.port or _POSTGRES_PORT, database, user)


def _split_without_password(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - looked at, since a wrong one raises only then
    except ValueError as error:
        raise InputFailure(f"is no sound URL: {error}", where=_shown(text), remedy="correct it") from None
    if parts.password is not None:
        raise _secret_in(text, "a password")
    return parts


def _secret_in(text: str, what: str) -> InputFailure:
    return InputFailure(
        f"holds {what}, which would end up in records and logs",
        where=_shown(text),
        remedy="leave it out; credentials come from the environment (PGPASSWORD or .pgpass, .netrc, AWS profiles)",
    )


def _shown(text: str) -> str:
    return re.sub(r"[?#].*", "", re.sub(r"//[^/]*@", "//", text), flags=re.DOTALL)


def _unknown_scheme(kind: str, text: str) -> InputFailure:
    near = nearest(kind, _SCHEMES)
    meant = f"did you mean {near}://? " if near else ""
    return InputFailure(f"the scheme {kind!r} is unknown", where=_shown(text), remedy=f"{meant}{_FORMS}")
