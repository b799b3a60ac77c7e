"""Sources that are objects in S3-compatible storage: what is there now, and fetching exactly that.

What always holds: an object that is missing and one that could not be looked up differ. 404 is an input failure; 403,
503, time-outs keep their class and are never taken for absence. An object is fetched with the ETag and version id that
were seen, so one that changed in between is never read in the old one's name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.classification import classify, s3_code
from geocairn.failure import (
    CapabilityFailure,
    Failure,
    FailureClass,
    FatalFailure,
    InputFailure,
    SourceChanged,
    TransientFailure,
)
from geocairn.sources.formats import Format, beside_by_extension
from geocairn.sources.uri import S3Place, s3_settings

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings

FAILURES: dict[FailureClass, type[Failure]] = {
    FailureClass.TRANSIENT: TransientFailure,
    FailureClass.CAPABILITY: CapabilityFailure,
    FailureClass.INPUT: InputFailure,
    FailureClass.FATAL: FatalFailure,
}
"""The failure that is raised for each class."""
SHA256_METADATA = "geocairn-sha256"
"""The metadata of an object that holds the SHA-256 of what geocairn uploaded; another upload does not have it."""

_MISSING = ("404", "NoSuchKey", "NotFound")
_CHANGED = ("412", "PreconditionFailed", "NoSuchVersion", *_MISSING)


@dataclass(frozen=True)
class ObjectPart:
    """One object of a source, as it was seen."""

    role: str
    key: str
    version_id: str | None
    etag: str
    size: int
    stated_sha256: str = field(default="", compare=False)
    """What geocairn wrote into the object's metadata when it published it."""

    @property
    def text(self) -> str:
        """Version id, ETag and size: what makes one state of an object differ from another."""
        return f"{self.version_id or '-'}/{self.etag}/{self.size}"


def s3_client(s3: S3Settings | None) -> Any:
    """Return the boto3 client for the settings given, else for those of the environment."""
    from geocairn.s3 import client

    return client(s3_settings(s3))


def object_parts(place: S3Place, kind: Format, s3: S3Settings | None) -> list[ObjectPart]:
    """Return the objects that make up the source, as they are now.

    Raises
    ------
    InputFailure : when the object, or a part that it needs, is not there, or is empty.
    FatalFailure, TransientFailure : when the service refused or failed to look.
    """
    client = s3_client(s3)
    if place.key.endswith("/"):
        return _prefix_parts(client, place, kind)
    main = head(client, place, "")
    if main is None:
        if kind.folder:
            return _prefix_parts(client, S3Place(place.bucket, place.key + "/"), kind)
        raise InputFailure(f"{place.name!r} does not exist", where=str(place), remedy="correct the bucket or the key")
    if main.size == 0:
        raise InputFailure("is empty (0 bytes)", where=str(place), remedy="write it again")
    parts = [main]
    if kind.required or kind.optional:
        stem = os.path.splitext(place.key)[0]
        listed = list_keys(client, place.bucket, f"{stem}.")
        beside = beside_by_extension(place.key, listed)
        for extension in (*kind.required, *kind.optional):
            found = head(client, S3Place(place.bucket, beside[extension]), extension) if extension in beside else None
            if found is not None:
                parts.append(found)
            elif extension in kind.required:
                raise InputFailure(
                    f"is a {kind.title} without its {extension} object",
                    where=str(place),
                    remedy=f"upload {stem}{extension} beside it: a {kind.title} is several files",
                )
    for suffix in kind.suffixed:
        side = head(client, S3Place(place.bucket, place.key + suffix), suffix)
        if side is not None and side.size:
            parts.append(side)
    return parts


def head(client: Any, place: S3Place, role: str) -> ObjectPart | None:
    """Return what the service says of one object, or None where it says that there is none."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = client.head_object(Bucket=place.bucket, Key=place.key)
    except ClientError as error:
        if s3_code(error) in _MISSING:
            return None
        raise failure_of(error, place, "looking it up") from error
    except BotoCoreError as error:
        raise failure_of(error, place, "looking it up") from error
    version = answer.get("VersionId")
    return ObjectPart(
        role,
        place.key,
        None if version in (None, "null") else str(version),
        str(answer["ETag"]).strip('"'),
        int(answer["ContentLength"]),
        str(answer.get("Metadata", {}).get(SHA256_METADATA, "")),
    )


def list_keys(client: Any, bucket: str, prefix: str) -> list[str]:
    """Return the keys under a prefix."""
    return [str(item["Key"]) for item in _listing(client, bucket, prefix)]


def fetch(place: S3Place, parts: list[ObjectPart], folder: Path, s3: S3Settings | None) -> Path:
    """Fetch exactly these states of the objects into `folder`, and return the path of the source there.

    Raises
    ------
    SourceChanged : when an object is no longer in the state that was seen.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    client = s3_client(s3)
    whole = len(parts) == 1 or not all("/" in part.role or part.role.endswith(".parquet") for part in parts)
    target = folder / place.name
    for part in parts:
        path = folder / part.key.rpartition("/")[2] if whole and parts[0].role == "" else target / part.role
        if not path.resolve().is_relative_to(folder.resolve()):
            raise InputFailure(f"the key {part.key!r} leads out of its folder", where=str(place))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            answer = client.get_object(Bucket=place.bucket, Key=part.key, **_state(part))
            with path.open("wb") as file:
                for block in answer["Body"].iter_chunks(1 << 20):
                    file.write(block)
        except ClientError as error:
            if s3_code(error) in _CHANGED:
                raise _changed(place) from error
            raise failure_of(error, place, "reading it") from error
        except BotoCoreError as error:
            raise failure_of(error, place, "reading it") from error
        if path.stat().st_size != part.size:
            raise TransientFailure(
                f"{path.stat().st_size} of {part.size} bytes arrived", where=str(place), remedy="try again"
            )
    return target


class ObjectRanges:
    """Ranges of one object, in the state that was seen."""

    def __init__(self, place: S3Place, part: ObjectPart, s3: S3Settings | None) -> None:
        self._place, self._part, self._s3 = place, part, s3

    def get(self, start: int, end: int) -> bytes:
        """Return the bytes from the first place up to the second, that one excluded.

        Raises
        ------
        SourceChanged : when the object is no longer in the state that was seen.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        part = self._part
        try:
            answer = s3_client(self._s3).get_object(
                Bucket=self._place.bucket, Key=part.key, Range=f"bytes={start}-{end - 1}", **_state(part)
            )
            found: bytes = answer["Body"].read()
        except ClientError as error:
            if s3_code(error) in (*_CHANGED, "416", "InvalidRange"):
                raise _changed(self._place) from error
            raise failure_of(error, self._place, "reading it") from error
        except BotoCoreError as error:
            raise failure_of(error, self._place, "reading it") from error
        if str(answer.get("ETag", "")).strip('"') != part.etag:
            raise _changed(self._place)
        if len(found) != end - start:
            raise TransientFailure(
                f"{len(found)} of {end - start} bytes arrived", where=str(self._place), remedy="try again"
            )
        return found


def _state(part: ObjectPart) -> dict[str, Any]:
    """Return what a request says so that it gets no other state of an object."""
    return {"VersionId": part.version_id} if part.version_id else {"IfMatch": f'"{part.etag}"'}


def _changed(place: S3Place) -> SourceChanged:
    return SourceChanged(
        "changed while it was being read", where=str(place), remedy="run again to read it as it is now"
    )


def failure_of(error: Exception, place: S3Place, doing: str) -> Failure:
    """Return the failure, with its class, that stands for what the service or the connection answered."""
    found = classify(error)
    code = s3_code(error)
    if code in ("403", "AccessDenied"):
        return FatalFailure(
            f"access denied on {doing} (403)",
            where=str(place),
            remedy="allow s3:GetObject on it and s3:ListBucket on the bucket (without the latter a missing key "
            "answers 403 too), or correct the credentials",
        )
    if code == "NoSuchBucket":
        return InputFailure(
            f"there is no bucket {place.bucket!r}", where=str(place), remedy="correct the bucket or endpoint"
        )
    failed = FAILURES[found.failure_class]
    remedy = "try again" if found.failure_class is FailureClass.TRANSIENT else "see the service's answer above"
    return failed(f"{doing} failed: {error}", where=str(place), remedy=remedy)


def _prefix_parts(client: Any, place: S3Place, kind: Format) -> list[ObjectPart]:
    parts = []
    for item in _listing(client, place.bucket, place.key):
        role = str(item["Key"])[len(place.key) :]
        hidden = any(name.startswith((".", "_")) for name in role.split("/"))
        if role and not hidden and role.endswith(kind.extensions):
            parts.append(ObjectPart(role, str(item["Key"]), None, str(item["ETag"]).strip('"'), int(item["Size"])))
    if not parts:
        raise InputFailure(
            f"does not exist, neither as an object nor as a folder of {kind.title} files",
            where=str(place).rstrip("/"),
            remedy="correct the bucket or the key",
        )
    return sorted(parts, key=lambda part: part.role)


def _listing(client: Any, bucket: str, prefix: str) -> list[dict[str, Any]]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [item for page in pages for item in page.get("Contents", [])]
    except (ClientError, BotoCoreError) as error:
        raise failure_of(error, S3Place(bucket, prefix), "listing it") from error
