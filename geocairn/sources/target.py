"""Where an output goes, and what lies there now.

What always holds: whether a publication can be reused is found by looking at the target: every part there, size and
SHA-256 as recorded and, beside a format other than GeoParquet, the sidecar naming the same fingerprint. A remembered
digest is trusted by the same rule as a source's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from geocairn.canonical import digest
from geocairn.failure import InputFailure
from geocairn.memory import Memory
from geocairn.sources.formats import PARQUET, WRITABLE, Format, format_named, format_of, local_parts
from geocairn.sources.postgis.relation import format_for, is_postgis, table_address, target_relation
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.uri import DatabasePlace, LocalPlace, S3Place, WebPlace, canonical_uri, parse
from geocairn.sources.version import file_digest

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings

FilePlace = LocalPlace | S3Place
"""Where an output that is a file may be."""
SIDECAR_SUFFIX = ".lineage.json"
_SIDECAR_HEAD = 32
"""Within so many bytes a sidecar names its first member, `fingerprint`."""


@dataclass(frozen=True)
class Target:
    """Where an output goes."""

    uri: str
    driver: str | None = None
    """The format; by the extension when left out."""
    layer: str | None = None
    """The layer's name inside a GeoPackage; the table, as `schema.table`, in a database."""
    mode: Literal["replace", "error"] = "replace"
    """What to do where something is there that geocairn did not write."""

    @property
    def format(self) -> Format:
        """The format to write.

        Raises
        ------
        InputFailure : when neither driver nor extension tells it, or the two differ; when the uri is none; when no
            table of a database is named.
        """
        if isinstance(parse(self.uri), DatabasePlace):
            target_relation(self.layer, self.uri)
            return format_for(self.driver, self.uri)
        if self.driver is not None and is_postgis(self.driver):
            raise InputFailure(
                f"driver {self.driver!r} writes to a database, and this is a file",
                where=self.uri,
                remedy="write postgresql://host:port/database as uri, or leave driver out",
            )
        if self.driver is None:
            return format_of(self.uri, where=self.uri, among=WRITABLE)
        chosen = format_named(self.driver, where=self.uri)
        if not self.uri.lower().endswith(chosen.extensions):
            raise InputFailure(
                f"driver {self.driver!r} writes {chosen.title}, and the name does not end in {chosen.extensions[0]}",
                where=self.uri,
                remedy=f"end the name in {chosen.extensions[0]}, or leave driver out",
            )
        return chosen

    def place(self, base: Path | None = None, reach: Reach = EVERYTHING) -> FilePlace | DatabasePlace:
        """Return the place that it names; a relative path is taken from `base`, by default the working directory.

        Of a symbolic link it is the file that the link leads to.

        Raises
        ------
        NotAllowed : where `reach` does not let it be written.
        InputFailure : for a web address, and for a link that leads in a circle or to a name of another extension.
        """
        place = parse(self.uri, base)
        if isinstance(place, WebPlace):
            raise InputFailure(
                "a web server cannot be written to",
                where=self.uri,
                remedy="write to a path, to s3://bucket/key or to postgresql://host/database",
            )
        reach.may_write(place, self.uri, base)
        if not isinstance(place, LocalPlace) or not place.path.is_symlink():
            return place
        try:
            real = place.path.resolve()
            circle = real.is_symlink()
        except (RuntimeError, OSError):
            circle = True
        if circle:
            raise InputFailure("is a symbolic link that leads in a circle", where=self.uri, remedy="remove it")
        if real.suffix.lower() != place.path.suffix.lower():
            raise InputFailure(
                f"is a symbolic link to {real.name!r}, a name of another extension",
                where=self.uri,
                remedy="name the file itself, or remove the link",
            )
        return LocalPlace(real)

    def address(self, base: Path | None = None, s3: S3Settings | None = None) -> str:
        """Return the one way of writing where it goes, without secrets: the canonical URI, and of a database the table.

        Raises
        ------
        InputFailure : for a URI that is none, and where no table is named.
        """
        place = parse(self.uri, base)
        if isinstance(place, DatabasePlace):
            return table_address(place, target_relation(self.layer, self.uri))
        return canonical_uri(self.uri, base, s3)


@dataclass(frozen=True)
class Published:
    """What lies at a target."""

    uri: str
    """Canonical: an absolute path, `s3+ENDPOINT/bucket/key`, or `postgresql://host:port/database/schema.table`."""
    size: int
    """Bytes of all its files, without the sidecar."""
    sha256: str
    """Of its content: of one file as `sha256sum` gives it, of several over all of them."""
    files: tuple[str, ...]
    """Their names."""
    fingerprint: str | None = None
    """What the sidecar, or the metadata of a GeoParquet file on this machine, says that it is."""


def inspect(
    target: Target,
    *,
    base: Path | None = None,
    s3: S3Settings | None = None,
    memory: Memory | None = None,
    reach: Reach = EVERYTHING,
) -> Published | None:
    """Return what lies at the target, or None where nothing (or not all of it) does.

    Raises
    ------
    FatalFailure, TransientFailure : when the target may not be, or could not be, looked at; NotAllowed where `reach`
        does not let it be written.
    """
    kind, place = target.format, target.place(base, reach)
    if isinstance(place, DatabasePlace):
        from geocairn.sources.postgis.standing import database_content

        return database_content(target, place)
    found = contents(place, kind, s3, memory)
    if found is None:
        return None
    size, sha256 = total(found)
    fingerprint = None
    if kind is not PARQUET:
        sidecar = read_sidecar(place, s3)
        fingerprint = sidecar.get("fingerprint") if sidecar else None
    elif isinstance(place, LocalPlace):
        fingerprint = _fingerprint_within(place.path)
    return Published(
        canonical_uri(target.uri, base, s3),
        size,
        sha256,
        tuple(name for _, name, _, _ in found),
        fingerprint if isinstance(fingerprint, str) else None,
    )


def matches(
    target: Target,
    fingerprint: str,
    size: int,
    sha256: str,
    *,
    base: Path | None = None,
    s3: S3Settings | None = None,
    memory: Memory | None = None,
    reach: Reach = EVERYTHING,
) -> bool:
    """Return whether the target holds, whole and unedited, what was recorded when this fingerprint was published.

    Loads neither geopandas nor pyarrow.

    Raises
    ------
    FatalFailure, TransientFailure : when the target may not be, or could not be, looked at; NotAllowed where `reach`
        does not let it be written.
    """
    kind, place = target.format, target.place(base, reach)
    if isinstance(place, DatabasePlace):
        from geocairn.sources.postgis.standing import database_matches

        return database_matches(target, place, fingerprint, size, sha256)
    found = contents(place, kind, s3, memory, expected_size=size)
    if found is None or total(found) != (size, sha256):
        return False
    if kind is PARQUET:
        return True
    sidecar = read_sidecar(place, s3)
    if sidecar is None or sidecar.get("fingerprint") != fingerprint:
        return False
    output = sidecar.get("output")
    return isinstance(output, dict) and output.get("sha256") == sha256 and output.get("size") == size


Content = tuple[str, str, int, str]
"""One file of an output: role, name, size in bytes, SHA-256."""


def total(found: list[Content]) -> tuple[int, str]:
    """Return the size and the SHA-256 over all files of an output."""
    size = sum(part[2] for part in found)
    if len(found) == 1 and not found[0][0]:
        return size, found[0][3]
    return size, digest([[role, sha256] for role, _, _, sha256 in found])


def contents(
    place: FilePlace, kind: Format, s3: S3Settings | None, memory: Memory | None, *, expected_size: int | None = None
) -> list[Content] | None:
    """Return the files of an output, or None where it, or a part of it, is not there.

    With `expected_size`, files of another size in all are not hashed: None is returned.
    """
    if isinstance(place, S3Place):
        return _s3_contents(place, kind, s3)
    try:
        parts = local_parts(place.path, kind)
        if expected_size is not None and sum(part.path.stat().st_size for part in parts) != expected_size:
            return None
        return [(part.role, part.path.name, part.path.stat().st_size, file_digest(part.path, memory)) for part in parts]
    except (InputFailure, FileNotFoundError):
        return None


def sidecar_name(name: str) -> str:
    """Return the name of the sidecar of an output."""
    return name + SIDECAR_SUFFIX


def read_sidecar(place: FilePlace, s3: S3Settings | None) -> dict[str, Any] | None:
    """Return the sidecar of an output, or None where there is none that can be read as such."""
    try:
        raw = _sidecar_bytes(place, s3)
    except IsADirectoryError:
        return None
    try:
        value = json.loads(raw) if raw is not None else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def foreign_sidecar(place: FilePlace, s3: S3Settings | None) -> bool:
    """Whether something lies where the output's sidecar goes that is no sidecar; one that was damaged still is one."""
    try:
        raw = _sidecar_bytes(place, s3)
    except IsADirectoryError:
        return True
    if not raw or (raw.lstrip().startswith(b"{") and b'"fingerprint"' in raw[:_SIDECAR_HEAD]):
        return False
    value = read_sidecar(place, s3)
    return value is None or not {"fingerprint", "output", "lineage"} <= value.keys()


def _sidecar_bytes(place: FilePlace, s3: S3Settings | None) -> bytes | None:
    if isinstance(place, S3Place):
        return _s3_bytes(S3Place(place.bucket, sidecar_name(place.key)), s3)
    try:
        return place.path.with_name(sidecar_name(place.name)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _s3_contents(place: S3Place, kind: Format, s3: S3Settings | None) -> list[Content] | None:
    """The SHA-256 is the one that was written into the object's metadata on publishing, so that nothing is fetched."""
    from geocairn.sources.objects import object_parts

    try:
        parts = object_parts(place, kind, s3)
    except InputFailure:
        return None
    return [(part.role, part.key.rpartition("/")[2], part.size, part.stated_sha256) for part in parts]


def _s3_bytes(place: S3Place, s3: S3Settings | None) -> bytes | None:
    from botocore.exceptions import BotoCoreError, ClientError

    from geocairn.classification import s3_code
    from geocairn.sources.objects import failure_of, s3_client

    try:
        body: bytes = s3_client(s3).get_object(Bucket=place.bucket, Key=place.key)["Body"].read()
    except ClientError as error:
        if s3_code(error) in ("404", "NoSuchKey"):
            return None
        raise failure_of(error, place, "reading it") from error
    except BotoCoreError as error:
        raise failure_of(error, place, "reading it") from error
    return body


def _fingerprint_within(path: Path) -> str | None:
    import pyarrow as pa
    from pyarrow import parquet

    from geocairn.sources.writing import LINEAGE_KEY

    try:
        raw = (parquet.read_metadata(path).metadata or {}).get(LINEAGE_KEY)
        value = json.loads(raw) if raw else None
    except (pa.ArrowInvalid, ValueError):
        return None
    found = value.get("fingerprint") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
