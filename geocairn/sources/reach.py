"""What a plan may read and write: places that an operator, or whoever runs the plan, lists; nothing else.

A plan is data that anybody may have written, so what it reaches is not decided by its text. What always holds: a list
grants, nothing denies but the store's own objects; a plan cannot widen it; links are followed before a local path is
judged, and what a path is judged by does not depend on whether anything is there, so that a refusal tells nothing of
what lies outside. Hosts are compared in one form (see `hosts`), and a host is let in as it is listed.

A grant is a URI: a folder (with all in it) or a file (with what lies beside it as its parts), `s3://bucket` or
`s3://bucket/prefix`, `https://host[:port][/path]`, `postgresql://host[:port][/database]`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict

from geocairn.failure import InputFailure, NotAllowed
from geocairn.sources.hosts import canonical_host
from geocairn.sources.uri import DatabasePlace, LocalPlace, Place, S3Place, WebPlace

ALLOW_VARIABLE = "GEOCAIRN_ALLOW"
"""Grants for reading and writing, separated by blanks; one with blanks in it in quotes."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PORTS = {"http": 80, "https": 443, "postgresql": 5432}
_GDAL_NAMES = re.compile(r"/+vsi", re.IGNORECASE)
_FORMS = "a folder or file, s3://bucket/prefix, https://host and postgresql://host/database work"


@dataclass(frozen=True)
class Grant:
    """One place, and what lies in it."""

    kind: Literal["local", "s3", "web", "database"]
    authority: str = ""
    """Bucket, or host and port; of the web with the scheme."""
    path: str = ""
    """Absolute path, key prefix, path on the server, or database; without a slash at the end. Empty: all of it."""

    def covers(self, other: Grant) -> bool:
        """Return whether a place lies in this one."""
        if self.kind != other.kind or not self._same_server(other):
            return False
        if self.kind == "database":
            return self.path in ("", other.path)
        return self.path == "" or other.path == self.path or other.path.startswith(f"{self.path}/")

    def _same_server(self, other: Grant) -> bool:
        # What may be fetched openly from a host may be fetched from it encrypted.
        encrypted = self.authority.replace("http://", "https://").removesuffix(":80") + ":443"
        return other.authority in (self.authority, encrypted if self.authority.endswith(":80") else self.authority)


class Reach(BaseModel):
    """What may be read and what may be written. Made by `Reach.of`, `Reach.local` or as `EVERYTHING`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: tuple[str, ...] = ()
    """Grants for reading, each in its one form."""
    write: tuple[str, ...] = ()
    """Grants for writing, each in its one form."""
    kept: tuple[str, ...] = ()
    """Places of the checkpoint store's objects: neither read nor written, whatever is granted."""
    everything: bool = False
    """Whether there is no limit: for a flow whose author is trusted."""
    served: bool = False
    """Whether it is an operator who can grant more, and not whoever runs the plan."""

    @classmethod
    def of(
        cls, read: Iterable[str] = (), write: Iterable[str] = (), *, base: Path | None = None, served: bool = False
    ) -> Reach:
        """Return the reach that these grants give.

        Parameters
        ----------
        read, write : URIs; a relative path is taken from `base`, by default the working directory.

        Raises
        ------
        InputFailure : for what is no place.
        """
        canonical = [tuple(dict.fromkeys(canonical_grant(uri, base) for uri in uris)) for uris in (read, write)]
        return cls(read=canonical[0], write=canonical[1], served=served)

    @classmethod
    def local(cls, base: Path | None = None, allowed: Iterable[str] = ()) -> Reach:
        """Return the reach of a run at somebody's own machine: the folder `base`, and what is allowed beside it."""
        grants = [str(base or Path.cwd()), *allowed]
        return cls.of(grants, grants, base=base)

    @property
    def limited(self) -> bool:
        """Whether there is anything that it refuses."""
        return not self.everything

    def keeping(self, places: Iterable[str]) -> Reach:
        """Return the same reach without these places, which are the checkpoint store's."""
        return self.model_copy(update={"kept": tuple(places)})

    def may_read(self, place: Place, uri: str = "", base: Path | None = None) -> None:
        """Hold a place to what may be read.

        Parameters
        ----------
        place : what is to be read.
        uri : how the plan writes it, and
        base : from where, for the message and for the way that a path with `..` takes.

        Raises
        ------
        NotAllowed : where it is not granted.
        """
        self._hold(place, uri, base, self.read, "read")

    def may_write(self, place: Place, uri: str = "", base: Path | None = None) -> None:
        """Hold a place to what may be written; parameters and errors as for `may_read`."""
        self._hold(place, uri, base, self.write, "written")

    def may_ask(self, url: str) -> None:
        """Hold an address on the web to what may be read, as each hop of a redirect is.

        Raises
        ------
        NotAllowed : where it is not granted.
        """
        self.may_read(WebPlace(url))

    def may_read_parts(self, place: LocalPlace, parts: Iterable[Path], uri: str = "") -> None:
        """Hold the files that make up a source, which itself may be read: none may lead elsewhere by a link.

        Raises
        ------
        NotAllowed : for a part that is a link to what is not granted.
        """
        if self.everything:
            return
        folder = os.path.realpath(place.path.parent)
        inside = os.path.realpath(place.path)
        for part in parts:
            real = os.path.realpath(part)
            beside = real == os.path.join(folder, part.name) or real.startswith(f"{inside}/")
            if not (beside or self._granted(Grant("local", path=_plain(real)), self.read)):
                raise self._refusal(place, uri, "read", f"its part {part.name!r} is a link that leads outside")
            self._hold_kept(Grant("local", path=_plain(real)), place, uri, "read")

    def _hold(self, place: Place, uri: str, base: Path | None, grants: tuple[str, ...], verb: str) -> None:
        if isinstance(place, LocalPlace) and _GDAL_NAMES.match(str(place.path)):
            raise NotAllowed(
                "begins like the name of a virtual file of GDAL", where=uri or str(place), remedy="rename the folder"
            )
        if self.everything:
            return
        for found in _as_grants(place, uri, base, grants):
            if found is None or not self._granted(found, grants):
                raise self._refusal(place, uri, verb)
            self._hold_kept(found, place, uri, verb)

    def _granted(self, place: Grant, grants: tuple[str, ...]) -> bool:
        return any(_grant(text).covers(place) for text in grants)

    def _hold_kept(self, found: Grant, place: Place, uri: str, verb: str) -> None:
        folded = Grant(found.kind, found.authority, found.path.casefold())
        for kept in map(_grant, self.kept):
            if Grant(kept.kind, kept.authority, kept.path.casefold()).covers(folded):
                raise NotAllowed(
                    f"lies in the checkpoint store, where nothing may be {verb} by its place",
                    where=uri or shown(place),
                    remedy="take a step's result by the step's name; publish to another folder",
                )

    def _refusal(self, place: Place, uri: str, verb: str, why: str = "") -> NotAllowed:
        where = shown(place) if isinstance(place, WebPlace) or not uri else uri
        if isinstance(place, LocalPlace):
            reason = why or f"it lies, or leads by a symbolic link, outside what is allowed{self._told(verb)}"
        else:
            reason = "it is not among what is allowed"
        if self.served:
            remedy = (
                f"ask whoever runs the worker to allow it: in the checkpoint store block (May be {verb}), or by "
                f"{ALLOW_VARIABLE} on the worker"
            )
        else:
            grant = shlex.quote(_suggestion(place, where))
            remedy = f"if it is meant to be, allow it: --allow {grant} (or {ALLOW_VARIABLE})"
        return NotAllowed(f"may not be {verb} by a plan: {reason}", where=where, remedy=remedy)

    def _told(self, verb: str) -> str:
        """Return the allowed folders for a message; not to who starts a served run, who need not know the machine."""
        folders = [text for text in (self.read if verb == "read" else self.write) if text.startswith("/")]
        return f" ({', '.join(folders[:3])}{', …' if folders[3:] else ''})" if folders and not self.served else ""


EVERYTHING = Reach(everything=True)
"""No limit: for what a trusted author wrote in Python."""


def stated_grants(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the grants that the environment states.

    Raises
    ------
    InputFailure : for quotes that do not close.
    """
    text = (os.environ if environment is None else environment).get(ALLOW_VARIABLE, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputFailure(
            f"cannot be read: {error}", where=ALLOW_VARIABLE, remedy="separate by blanks, and quote what has blanks"
        ) from None


def canonical_grant(uri: str, base: Path | None = None) -> str:
    """Return a grant in its one form: an absolute path with links followed, or a URI with the host in its one form.

    Raises
    ------
    InputFailure : for what is no place, or of a scheme that geocairn does not know.
    """
    text = uri.strip()
    found = _SCHEME.match(text)
    kind = found[1].lower() if found else "file"
    try:
        if not text:
            raise ValueError("is empty")
        if kind == "file":
            path = unquote(urlsplit(text).path) if found else text
            if found and (urlsplit(text).netloc not in ("", "localhost") or not path):
                raise ValueError("names another machine")
            return os.path.realpath(os.path.join(base or Path.cwd(), os.path.expanduser(path)))
        if kind == "s3":
            bucket, _, prefix = text[len("s3://") :].partition("/")
            if not bucket:
                raise ValueError("names no bucket")
            return f"s3://{bucket}/{prefix.strip('/')}".rstrip("/")
        if kind in ("http", "https", "postgresql", "postgres"):
            return _server_grant(text, "postgresql" if kind == "postgres" else kind)
    except ValueError as error:
        raise InputFailure(f"is nothing that can be allowed: {error}", where=uri, remedy=_FORMS) from None
    raise InputFailure(f"is nothing that can be allowed: the scheme {kind!r} is unknown", where=uri, remedy=_FORMS)


def shown(place: Place) -> str:
    """Return a place for a message: of a web address without the query, which may hold a secret."""
    return str(place).partition("?")[0] if isinstance(place, WebPlace) else str(place)


def _server_grant(text: str, kind: str) -> str:
    parts = urlsplit(text)
    if parts.username or parts.password:
        raise ValueError("a user name or password has no place in it")
    if parts.query or parts.fragment:
        raise ValueError("it ends in a query")
    if not parts.hostname:
        raise ValueError("names no host")
    return f"{_server(kind, parts.hostname, parts.port)}/{parts.path.strip('/')}".rstrip("/")


def _server(kind: str, host: str, port: int | None) -> str:
    decoded = unquote(host)
    if kind == "postgresql" and decoded.startswith("/"):  # the folder of a socket
        return f"{kind}://{decoded.replace('/', '%2F')}:{port or _PORTS[kind]}"
    name = canonical_host(host)
    return f"{kind}://{f'[{name}]' if ':' in name else name}:{port or _PORTS[kind]}"


@lru_cache(maxsize=1024)
def _grant(text: str) -> Grant:
    """Return what a grant in its one form stands for."""
    if text.startswith("/"):
        return Grant("local", path=_plain(text))
    scheme, _, rest = text.partition("://")
    authority, _, path = rest.partition("/")
    if scheme == "s3":
        return Grant("s3", authority, path)
    if scheme == "postgresql":
        return Grant("database", authority, unquote(path))
    return Grant("web", f"{scheme}://{authority}", f"/{path}" if path else "")


def _plain(path: str) -> str:
    """Return a path without a slash at its end; the root is empty, so that everything lies in it."""
    return path.rstrip("/")


def _as_grants(place: Place, uri: str, base: Path | None, grants: tuple[str, ...]) -> list[Grant | None]:
    """Return all that must be granted for a place to be used; None for what no grant can cover."""
    if isinstance(place, LocalPlace):
        lexical = os.path.join(os.path.realpath(place.path.parent), place.path.name)
        paths = dict.fromkeys([lexical, os.path.realpath(place.path)])
        steps = [] if _keeps_inside(uri, base, grants) else [None]
        return [*steps, *(Grant("local", path=_plain(path)) for path in paths)]
    if isinstance(place, S3Place):
        dotted = any(part in (".", "..") for part in place.key.split("/"))
        return [None if dotted else Grant("s3", place.bucket, place.key.rstrip("/"))]
    try:
        if isinstance(place, DatabasePlace):
            server = _server("postgresql", place.host, place.port).partition("://")[2]
            return [Grant("database", server, place.database)]
        return [_web_grant(place)]
    except ValueError:
        return [None]


def _web_grant(place: WebPlace) -> Grant | None:
    parts = urlsplit(place.url)
    if parts.scheme not in ("http", "https") or parts.username or parts.password or not parts.hostname:
        return None
    path = unquote(parts.path)
    if "\\" in path or any(part in (".", "..") for part in path.split("/")):
        return None
    return Grant("web", _server(parts.scheme, parts.hostname, parts.port), path.rstrip("/"))


def _keeps_inside(uri: str, base: Path | None, grants: tuple[str, ...]) -> bool:
    """Return whether each `..` of a path steps from a folder that is granted, or that holds one which is, or the base.

    Where such a step leads from anywhere else tells whether a link is there.
    """
    text = uri.strip()
    text = unquote(urlsplit(text).path) if text.lower().startswith("file:") else text
    if ".." not in Path(text).parts:
        return True
    walked = Path(os.path.realpath(base or Path.cwd()))
    start = _plain(str(walked))
    for part in Path(os.path.expanduser(text)).parts:
        if part == "..":
            here = _plain(str(walked))
            known = [_grant(grant).path for grant in grants if grant.startswith("/")]
            above = here == start or start.startswith(f"{here}/")
            if not above and not any(
                here == root or here.startswith(f"{root}/") or root.startswith(f"{here}/") for root in known
            ):
                return False
            walked = walked.parent
        else:
            walked = walked / part
    return True


def _suggestion(place: Place, where: str) -> str:
    if isinstance(place, WebPlace):
        return f"{urlsplit(place.url).scheme}://{place.host}"
    if isinstance(place, S3Place):
        return str(place).rpartition("/")[0]
    return where if isinstance(place, LocalPlace) else shown(place)
