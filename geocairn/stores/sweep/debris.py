"""What died processes left outside the keys of a store: temporary files, and uploads in parts that never ended.

What always holds: a temporary file goes only when the process that named it is gone; an upload only when it is older
than the grace period and lies where this store keeps layers, since a bucket may hold other things as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.classification import s3_code
from geocairn.failure import Failure
from geocairn.s3 import client
from geocairn.stores import keys
from geocairn.stores.objects import PAGE, Objects
from geocairn.stores.refusals import refusal
from geocairn.stores.scratch import Scratch
from geocairn.stores.sweep.account import Left, Removed, left
from geocairn.stores.sweep.view import fingerprint_in

if TYPE_CHECKING:
    from geocairn.stores.s3 import S3Objects

_UPLOADED = (keys.LAYERS, keys.RUNS, keys.QUARANTINE)
"""Where layers are stored: what may be uploaded in parts."""

_NO_SUCH_UPLOADS = {"NotImplemented", "501", "MethodNotAllowed", "405"}
_GONE = {"NoSuchUpload", "NoSuchKey", "404"}


def temporary_files(objects: Objects) -> list[Path]:
    """Return the temporary files of processes that are gone, of a folder store or, for a bucket, of this machine.

    Raises
    ------
    Failure : of its class, where the folder cannot be read.
    """
    from geocairn.stores.folder import FolderObjects

    local = isinstance(objects, FolderObjects)
    if isinstance(objects, FolderObjects) and not objects.root.is_dir():
        return []
    folder = objects.scratch().parent
    try:
        return Scratch(folder).left_behind(objects.now() if local else time.time())
    except OSError as error:
        raise refusal(error, doing="look for temporary files", where=str(folder)) from error


def sweep_temporary_files(objects: Objects, dry_run: bool, told: list[Left]) -> list[Removed]:
    """Remove the temporary files of processes that are gone; return which."""
    removed: list[Removed] = []
    try:
        found = temporary_files(objects)
    except Failure as failure:
        told.append(left("temporary files", failure))
        return []
    for path in found:
        try:
            size = path.stat().st_size
            if not dry_run:
                path.unlink()
        except FileNotFoundError:
            continue  # another sweep was faster
        except OSError as error:
            told.append(left(str(path), refusal(error, doing="delete a temporary file", where=str(path))))
            continue
        removed.append(Removed("temporary file", str(path), size, "its process is gone"))
    return removed


@dataclass(frozen=True)
class OpenUpload:
    """An upload in parts that was neither completed nor aborted."""

    key: str
    """In the store."""
    upload_id: str
    initiated: float
    """Seconds since the epoch."""


def open_uploads(objects: S3Objects) -> Iterator[OpenUpload]:
    """Yield the uploads in parts that are open in a store; none where the service cannot list them.

    Raises
    ------
    Failure : of its class, where the service refuses or does not answer.
    """
    for prefix in _UPLOADED:
        marker: dict[str, str] = {}
        while True:
            page = _page(objects, prefix, marker)
            for entry in page.get("Uploads", ()):
                key = entry["Key"].removeprefix(objects.prefix)
                yield OpenUpload(key, entry["UploadId"], entry["Initiated"].timestamp())
            # Services differ in which of the two markers they give.
            names = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
            following = {name: page[given] for name, given in names.items() if page.get(given)}
            if not page.get("IsTruncated") or not following or following == marker:
                break
            marker = following


def _page(objects: S3Objects, prefix: str, marker: dict[str, str]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = client(objects.settings).list_multipart_uploads(
            Bucket=objects.bucket, Prefix=objects.prefix + prefix, MaxUploads=PAGE, **marker
        )
    except _answers() as error:
        if s3_code(error) in _NO_SUCH_UPLOADS:
            return {}
        permission = "s3:ListBucketMultipartUploads"
        raise refusal(
            error, doing="list open uploads", where=f"{objects.url} {prefix}", permission=permission
        ) from error
    return found


def sweep_open_uploads(
    objects: Objects, before: float, held: Callable[[str], bool], dry_run: bool, told: list[Left]
) -> list[Removed]:
    """Abort the uploads in parts that nobody goes on with; return which. A folder has none.

    Parameters
    ----------
    before : the time, by the store's clock, before which they were begun. Whoever began one before the leases were
        read, and goes on with it, was seen to hold a lease.
    held : says of a key whether it may be written just now.
    """
    if objects.local(keys.SHARED.record("0" * 64)) is not None:
        return []
    from geocairn.stores.s3 import S3Objects

    if not isinstance(objects, S3Objects):
        return []
    removed: list[Removed] = []
    try:
        for upload in list(open_uploads(objects)):
            if upload.initiated > before or held(upload.key):
                continue
            size = _size(objects, upload)
            if size is None or not (dry_run or _abort(objects, upload)):
                continue  # completed or aborted in the meantime
            reason = "an upload in parts that never ended"
            removed.append(Removed("open upload", upload.key, size, reason, fingerprint_in(upload.key)))
    except Failure as failure:
        told.append(left("open uploads", failure))
    return removed


def _size(objects: S3Objects, upload: OpenUpload) -> int | None:
    """Return the bytes of the parts that arrived, up to a thousand parts; None where the upload is open no more."""
    try:
        answer = client(objects.settings).list_parts(
            Bucket=objects.bucket, Key=objects.prefix + upload.key, UploadId=upload.upload_id
        )
    except _answers() as error:
        if s3_code(error) in _GONE:
            return None
        raise refusal(
            error, doing="look at an open upload", where=upload.key, permission="s3:ListMultipartUploadParts"
        ) from error
    return sum(int(part["Size"]) for part in answer.get("Parts", ()))


def _abort(objects: S3Objects, upload: OpenUpload) -> bool:
    try:
        client(objects.settings).abort_multipart_upload(
            Bucket=objects.bucket, Key=objects.prefix + upload.key, UploadId=upload.upload_id
        )
    except _answers() as error:
        if s3_code(error) in _GONE:
            return False
        raise refusal(
            error, doing="abort an open upload", where=upload.key, permission="s3:AbortMultipartUpload"
        ) from error
    return True


def _answers() -> tuple[type[BaseException], ...]:
    """Return what boto3 raises of an answer that refuses, or of a connection."""
    import botocore.exceptions

    return (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError, OSError)
