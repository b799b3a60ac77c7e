"""Opening a store by its address: a folder, `file://…` or `s3://bucket/prefix`.

What always holds: opening a folder loads neither boto3 nor anything else that only S3 needs, and opening makes no
request.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from geocairn.failure import InputFailure
from geocairn.stores.checkpoints import TTL, CheckpointStore
from geocairn.stores.objects import Objects

if TYPE_CHECKING:
    from geocairn.s3 import S3Settings

_KINDS = "use a folder, file:///path or s3://bucket/prefix"


def open_store(
    url: str | Path,
    *,
    settings: S3Settings | None = None,
    scope: str = "default",
    ttl: dt.timedelta | None = TTL,
) -> CheckpointStore:
    """Return the checkpoint store at an address.

    Parameters
    ----------
    url : a folder, `file:///path`, or `s3://bucket/prefix`, which may end in `?endpoint=URL`.
    settings : endpoint and credentials of the S3 service; by default the usual AWS variables.
    scope : who reads and writes here, where a plan says nothing else.
    ttl : how long a commit is valid; None for ever.

    Raises
    ------
    InputFailure : for an address of another kind.
    """
    return CheckpointStore(open_objects(url, settings), scope=scope, ttl=ttl)


def open_objects(url: str | Path, settings: S3Settings | None = None) -> Objects:
    """Return the object store at an address; see `open_store`."""
    if isinstance(url, Path):
        return _folder(url)
    if not url.strip():
        raise InputFailure("the address of the store is empty", remedy=_KINDS)
    scheme, separator, _ = url.partition("://")
    if not separator:
        return _folder(Path(url))
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise InputFailure(f"{url!r} names a folder of another machine", remedy=_KINDS)
        return _folder(Path(unquote(parts.path)))
    if parts.scheme == "s3":
        return _bucket(url, settings)
    raise InputFailure(f"a store cannot have the address {url!r}: {scheme} is not known", remedy=_KINDS)


def _folder(path: Path) -> Objects:
    from geocairn.stores.folder import FolderObjects

    if path.expanduser().is_file():
        raise InputFailure(f"{str(path)!r} is a file; a store is a folder", remedy=_KINDS)
    return FolderObjects(path)


def _bucket(url: str, settings: S3Settings | None) -> Objects:
    from geocairn.s3 import S3Settings
    from geocairn.stores.s3 import S3Objects

    parts = urlsplit(url)
    if not parts.netloc or "@" in parts.netloc or ":" in parts.netloc:
        raise InputFailure(
            "the address of an S3 store is s3://bucket/prefix", remedy="give keys by the AWS variables or a profile"
        )
    settings = settings or S3Settings.from_environment()
    query = parse_qs(parts.query)
    unknown = set(query) - {"endpoint"}
    if unknown or parts.fragment:
        raise InputFailure(f"{url!r} ends in something that is not understood", remedy="only ?endpoint=URL can follow")
    if "endpoint" in query:
        endpoint = query["endpoint"][-1]
        if settings.endpoint and settings.endpoint.rstrip("/") != endpoint.rstrip("/"):
            raise InputFailure(
                f"the address names the endpoint {endpoint}, the settings another one", remedy="leave one of them out"
            )
        settings = settings.model_copy(update={"endpoint": endpoint})
    return S3Objects(parts.netloc, unquote(parts.path).strip("/"), settings)
