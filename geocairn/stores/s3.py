"""An object store in a bucket of any S3-compatible service.

What always holds: conditions are the service's own (`If-None-Match`, `If-Match`), so that they hold between machines;
a refused, failed or shortened request raises with a class and is never a miss; and a layer counts as stored only when
the service then states its size. Records and leases go through boto3, which can put under a condition; layers, which
are large and have keys of their own, through s3fs.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from geocairn.classification import s3_code
from geocairn.failure import TransientFailure
from geocairn.s3 import S3Settings, client, filesystem
from geocairn.stores.objects import PAGE, Conflict, Info, Missing, Stored, check_key, check_prefix
from geocairn.stores.refusals import refusal
from geocairn.stores.scratch import Scratch, private_folder

T = TypeVar("T")

PART = 32 << 20
"""Bytes of a part; a layer of more than two is sent in parts."""

_CLOCK_AGE = 60.0
_ANOTHER = "it was written or deleted by another in the meantime"
_NO_KEY = {"NoSuchKey", "404", "NotFound"}
_CONFLICTS = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}


class S3Objects:
    """Objects in a bucket, under a prefix.

    Parameters
    ----------
    bucket : the bucket's name.
    prefix : what all keys begin with; empty for the whole bucket.
    settings : endpoint and credentials.
    """

    def __init__(self, bucket: str, prefix: str = "", settings: S3Settings | None = None) -> None:
        self.bucket = bucket
        self.prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self.settings = settings or S3Settings.from_environment()
        self._lock = threading.Lock()
        self._clock: tuple[float, float] | None = None  # monotonic time of the answer, its Date less monotonic time
        self._bucket_seen = False
        self._scratch: Scratch | None = None

    @property
    def url(self) -> str:
        """The canonical address; an endpoint other than AWS is part of it."""
        address = f"s3://{self.bucket}/{quote(self.prefix.rstrip('/'))}".rstrip("/")
        return address + (f"?endpoint={_without_secrets(self.settings.endpoint)}" if self.settings.endpoint else "")

    def __repr__(self) -> str:
        return f"S3Objects({self.url!r})"

    # Reading

    def read(self, key: str) -> Stored | None:
        """Return an object with its tag; None only where the service says that there is no such key."""

        def request(s3: Any) -> Stored | None:
            try:
                answer = s3.get_object(Bucket=self.bucket, Key=self._key(key))
            except s3.exceptions.ClientError as error:
                if s3_code(error) in _NO_KEY:
                    self._certainly_missing(s3, key, error)
                    return None
                raise
            self._saw(answer)
            with closing(answer["Body"]) as body:
                return Stored(_whole(body.read(), answer, key), answer["ETag"])

        return self._ask(request, "read an object of the store", key, "s3:GetObject")

    def head(self, key: str) -> Info | None:
        """Return size, tag and time of an object; None only where the service says that there is no such key."""

        def request(s3: Any) -> Info | None:
            try:
                answer = s3.head_object(Bucket=self.bucket, Key=self._key(key))
            except s3.exceptions.ClientError as error:
                if s3_code(error) in _NO_KEY:
                    self._certainly_missing(s3, key, error)
                    return None
                raise
            self._saw(answer)
            return Info(key, answer["ContentLength"], answer["ETag"], answer["LastModified"].timestamp())

        return self._ask(request, "look at an object of the store", key, "s3:GetObject")

    def _certainly_missing(self, s3: Any, key: str, error: Any) -> None:
        """Return once it is known that the bucket exists: a 404 without a body may speak of a missing bucket."""
        self._saw(error.response)
        if not self._bucket_seen and s3_code(error) != "NoSuchKey":
            answer = s3.list_objects_v2(Bucket=self.bucket, Prefix=self._key(key), MaxKeys=1)
            self._saw(answer)
            self._bucket_seen = True

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Info]:
        """Yield the objects whose key begins with `prefix` and comes behind `after`, in the order of their bytes."""
        check_prefix(prefix)
        more: dict[str, Any] = {"StartAfter": self.prefix + check_prefix(after)} if after is not None else {}
        while True:
            page = self._page(prefix, more)
            for entry in page.get("Contents", ()):
                key = entry["Key"].removeprefix(self.prefix)
                if not key.endswith("/"):  # some tools leave empty objects that stand for folders
                    yield Info(key, entry["Size"], entry["ETag"], entry["LastModified"].timestamp())
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _page(self, prefix: str, more: dict[str, Any]) -> Any:
        def request(s3: Any) -> Any:
            answer = s3.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix + prefix, MaxKeys=PAGE, **more)
            self._saw(answer)
            self._bucket_seen = True
            return answer

        return self._ask(request, "list the store", prefix, "s3:ListBucket")

    # Writing

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_tag: str | None = None) -> str:
        """Write an object, whole or not at all, and return its tag. Raises `Conflict` where the condition fails.

        A request whose answer was lost is sent again by the client and may then find its own object: whoever gets
        `Conflict` looks whether what is there is its own.
        """
        if if_absent and if_tag is not None:
            raise ValueError("if_absent and if_tag exclude each other")
        condition = {"IfNoneMatch": "*"} if if_absent else {"IfMatch": if_tag} if if_tag is not None else {}

        def request(s3: Any) -> str:
            try:
                answer = s3.put_object(
                    Bucket=self.bucket, Key=self._key(key), Body=data, ContentType="application/json", **condition
                )
            except s3.exceptions.ClientError as error:
                code = s3_code(error)
                if condition and (code in _CONFLICTS or (if_tag is not None and code in _NO_KEY)):
                    self._saw(error.response)
                    raise Conflict(_ANOTHER, where=self._at(key)) from error
                raise
            self._saw(answer)
            return str(answer["ETag"])

        return self._ask(request, "write an object of the store", key, "s3:PutObject")

    def delete(self, key: str, *, if_tag: str | None = None) -> bool:
        """Delete an object. S3 does not say whether there was one: with `if_tag` that is looked at first."""
        if if_tag is not None:
            seen = self.head(key)
            if seen is None:
                return False
            if seen.tag != if_tag:
                raise Conflict(_ANOTHER, where=self._at(key))
        condition = {"IfMatch": if_tag} if if_tag is not None else {}

        def request(s3: Any) -> bool:
            try:
                self._saw(s3.delete_object(Bucket=self.bucket, Key=self._key(key), **condition))
            except s3.exceptions.ClientError as error:
                if condition and s3_code(error) in _NO_KEY:
                    return False
                if condition and s3_code(error) in _CONFLICTS:
                    raise Conflict(_ANOTHER, where=self._at(key)) from error
                raise
            return True

        return self._ask(request, "delete an object of the store", key, "s3:DeleteObject")

    def upload(self, key: str, path: Path, *, take: bool = False) -> None:
        """Store a local file and see that it arrived whole. `take` changes nothing here."""
        size = path.stat().st_size

        def request(_: Any) -> None:
            with _connection_errors():
                filesystem(self.settings).put_file(str(path), self._path(key), chunksize=PART)

        self._ask(request, "store a layer", key, "s3:PutObject")
        seen = self.head(key)
        if seen is None or seen.size != size:
            raise TransientFailure(
                f"a layer of {size} bytes arrived as {seen.size if seen else 'nothing'}",
                where=self._at(key),
                remedy="try again",
            )

    def download(self, key: str, path: Path) -> None:
        """Fetch an object into a local file, whole. Raises `Missing` where there is none."""

        seen = self.head(key)
        if seen is None:
            raise Missing("it is not in the store", where=self._at(key))

        def request(_: Any) -> None:
            with _connection_errors():
                filesystem(self.settings).get_file(self._path(key), str(path))
            _hold_to_length(path.stat().st_size, {"ContentLength": seen.size}, key)

        self._ask(request, "fetch a layer", key, "s3:GetObject")

    def local(self, key: str) -> Path | None:
        """Return None: nothing in a bucket can be read in place."""
        check_key(key)
        return None

    def scratch(self, suffix: str = "") -> Path:
        """Return a new path for a temporary file on this machine."""
        if self._scratch is None:
            self._scratch = Scratch(private_folder())
        return self._scratch.path(suffix)

    def clean(self) -> int:
        """Remove temporary files that processes which are gone left on this machine; return how many."""
        if self._scratch is None:
            self._scratch = Scratch(private_folder())
        return self._scratch.clean(time.time())

    def now(self) -> float:
        """Return the service's time, from the `Date` of its answers (one second's resolution)."""
        tick = time.monotonic()
        if self._clock is None or tick - self._clock[0] > _CLOCK_AGE:
            self._page("clock/", {})
        if self._clock is None:
            return time.time()  # a service that sends no Date
        return time.monotonic() + self._clock[1]

    # Means

    def _key(self, key: str) -> str:
        return self.prefix + check_key(key)

    def _path(self, key: str) -> str:
        return f"{self.bucket}/{self._key(key)}"

    def _at(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}{key}"

    def _saw(self, answer: dict[str, Any]) -> None:
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if not date:
            return
        try:
            seconds = email.utils.parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        tick = time.monotonic()
        with self._lock:
            self._clock = (tick, seconds - tick)

    def _ask(self, request: Callable[[Any], T], doing: str, key: str, permission: str) -> T:
        """Make a request and turn what the service or the connection raises into a failure with a class."""
        import botocore.exceptions
        import urllib3.exceptions

        try:
            return request(client(self.settings))
        except (
            botocore.exceptions.ClientError,
            botocore.exceptions.BotoCoreError,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            if s3_code(error.__cause__ or error) is not None:  # s3fs makes an OSError of the service's answer
                error = error.__cause__ or error
            raise refusal(error, doing=doing, where=self._at(key), permission=permission) from error


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Turn what aiohttp raises of a broken connection into what the system would raise."""
    import aiohttp

    try:
        yield
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error


def _whole(data: bytes, answer: dict[str, Any], key: str) -> bytes:
    _hold_to_length(len(data), answer, key)
    return data


def _hold_to_length(got: int, answer: dict[str, Any], key: str) -> None:
    expected = answer.get("ContentLength")
    if expected is not None and got != expected:
        raise TransientFailure(f"the answer has {got} bytes and not {expected}", where=key, remedy="try again")


def _without_secrets(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")
