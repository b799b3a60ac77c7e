"""Failures and their classes: what went wrong decides what happens next.

Four classes, and an action that each deserves: a *transient* failure is retried, a *capability* failure is rerouted
to another backend, an *input* failure goes back to whoever made the plan, a *fatal* one halts. `classify` is pure and
table-driven: it looks an exception up by its type, its S3 error code, its errno or its message, through causes and
contexts, and imports none of the libraries whose exceptions it knows. What no row knows is fatal and says so.

A class can be fixed where it is known, by raising one of the failures of this module. They survive pickling with
class, place and remedy: all arguments go to `Exception.__init__`, and the text is composed on demand.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class FailureClass(StrEnum):
    """The four classes of failure."""

    TRANSIENT = "transient"
    CAPABILITY = "capability"
    INPUT = "input"
    FATAL = "fatal"


ACTIONS: dict[FailureClass, str] = {
    FailureClass.TRANSIENT: "retry",
    FailureClass.CAPABILITY: "reroute",
    FailureClass.INPUT: "replan",
    FailureClass.FATAL: "halt",
}


class Failure(Exception):
    """A failure whose class is known where it arises.

    Parameters
    ----------
    what : what went wrong, one sentence without a full stop.
    where : the step, source, file or object that it concerns.
    remedy : what the reader can do about it.
    """

    failure_class: ClassVar[FailureClass] = FailureClass.FATAL

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.remedy}" if self.remedy else text

    def at(self, where: str) -> Failure:
        """Return the same failure with its place filled in, if it has none yet."""
        if not self.where:
            self.where = where
            self.args = (self.what, where, self.remedy)
        return self


class TransientFailure(Failure):
    """Something outside that may well be gone on the next attempt: throttling, a reset connection, a busy lease."""

    failure_class = FailureClass.TRANSIENT


class CapabilityFailure(Failure):
    """This backend cannot do it (memory, a kind of geometry, a missing grid); another one may."""

    failure_class = FailureClass.CAPABILITY


class InputFailure(Failure):
    """The plan or the data is at fault: an unsound result, a missing column, a wrong CRS, a source that is gone."""

    failure_class = FailureClass.INPUT


class FatalFailure(Failure):
    """Neither trying again nor another backend helps: access denied, disk full, an error in the code."""

    failure_class = FailureClass.FATAL


class SourceChanged(InputFailure):
    """A source is no longer what it was when the run pinned its version; the whole plan is decided again."""


@dataclass(frozen=True)
class Classification:
    """The class of an exception, whether a row of the table knows it, and the row's reason."""

    failure_class: FailureClass
    known: bool
    reason: str

    @property
    def action(self) -> str:
        """What recovery does about this class."""
        return ACTIONS[self.failure_class]


_T, _C, _I, _F = FailureClass.TRANSIENT, FailureClass.CAPABILITY, FailureClass.INPUT, FailureClass.FATAL

# S3 error codes and HTTP status texts as botocore reports them in response["Error"]["Code"].
S3_CODES: dict[str, FailureClass] = {
    "SlowDown": _T,
    "Throttling": _T,
    "ThrottlingException": _T,
    "RequestLimitExceeded": _T,
    "TooManyRequests": _T,
    "RequestTimeout": _T,
    "RequestTimeTooSkewed": _F,
    "InternalError": _T,
    "ServiceUnavailable": _T,
    "OperationAborted": _T,
    "ConditionalRequestConflict": _T,
    "429": _T,
    "500": _T,
    "502": _T,
    "503": _T,
    "504": _T,
    "AccessDenied": _F,
    "AllAccessDisabled": _F,
    "InvalidAccessKeyId": _F,
    "SignatureDoesNotMatch": _F,
    "ExpiredToken": _F,
    "ExpiredTokenException": _F,
    "InvalidToken": _F,
    "NoSuchBucket": _F,
    "QuotaExceeded": _F,
    "XMinioStorageFull": _F,
    "401": _F,
    "403": _F,
    "NoSuchKey": _I,
    "404": _I,
}

_ERRNOS: dict[int, FailureClass] = {
    errno.ECONNRESET: _T,
    errno.ECONNREFUSED: _T,
    errno.ECONNABORTED: _T,
    errno.EPIPE: _T,
    errno.ETIMEDOUT: _T,
    errno.EHOSTUNREACH: _T,
    errno.ENETUNREACH: _T,
    errno.EAGAIN: _T,
    errno.EINTR: _T,
    errno.ESTALE: _T,
    errno.EBUSY: _T,
    errno.ENOMEM: _C,
    errno.ENOENT: _I,
    errno.EISDIR: _I,
    errno.ENOTDIR: _I,
    errno.EACCES: _F,
    errno.EPERM: _F,
    errno.ENOSPC: _F,
    errno.EDQUOT: _F,
    errno.EROFS: _F,
    errno.EIO: _F,
    errno.EMFILE: _F,
}

# Exception types by qualified name, so that no library is imported to recognise its exceptions. The first name along
# type's bases that is listed decides, hence a subclass may differ from its base.
_TYPES: dict[str, tuple[FailureClass, str]] = {
    "builtins.MemoryError": (_C, "out of memory"),
    "numpy._core._exceptions._ArrayMemoryError": (_C, "out of memory"),
    "pyarrow.lib.ArrowMemoryError": (_C, "out of memory"),
    "builtins.TimeoutError": (_T, "time-out"),
    "builtins.ConnectionError": (_T, "connection lost"),
    "builtins.FileNotFoundError": (_I, "a file is missing"),
    "builtins.PermissionError": (_F, "access denied"),
    "botocore.exceptions.EndpointConnectionError": (_T, "the store cannot be reached"),
    "botocore.exceptions.ConnectionClosedError": (_T, "connection lost"),
    "botocore.exceptions.ConnectTimeoutError": (_T, "time-out"),
    "botocore.exceptions.ReadTimeoutError": (_T, "time-out"),
    "botocore.exceptions.IncompleteReadError": (_T, "a body was cut short"),
    "botocore.exceptions.ResponseStreamingError": (_T, "a body was cut short"),
    "botocore.exceptions.HTTPClientError": (_T, "connection lost"),
    "botocore.exceptions.NoCredentialsError": (_F, "no credentials"),
    "botocore.exceptions.PartialCredentialsError": (_F, "incomplete credentials"),
    "botocore.exceptions.TokenRetrievalError": (_F, "credentials expired"),
    "urllib3.exceptions.ProtocolError": (_T, "connection lost"),
    "urllib3.exceptions.TimeoutError": (_T, "time-out"),
    "urllib3.exceptions.NewConnectionError": (_T, "the host cannot be reached"),
    "http.client.IncompleteRead": (_T, "a body was cut short"),
    "http.client.RemoteDisconnected": (_T, "connection lost"),
    "aiohttp.client_exceptions.ClientConnectionError": (_T, "connection lost"),
    "aiohttp.client_exceptions.ClientPayloadError": (_T, "a body was cut short"),
    "asyncio.exceptions.TimeoutError": (_T, "time-out"),
    "prefect.exceptions.TaskRunTimeoutError": (_T, "the step's time limit"),
    "pyproj.exceptions.CRSError": (_I, "a CRS that PROJ does not know"),
    "pyproj.exceptions.ProjError": (_I, "a transformation failed"),
    "shapely.errors.TopologicalError": (_I, "invalid geometry"),
    "shapely.errors.ShapelyError": (_C, "an error of the geometry engine"),
    "pyogrio.errors.DataSourceError": (_I, "a source that cannot be opened"),
    "pyogrio.errors.DataLayerError": (_I, "a layer that is not there"),
    "pyogrio.errors.FieldError": (_I, "a field that is not there"),
    "pyogrio.errors.FeatureError": (_I, "a feature that cannot be read or written"),
    "pyogrio.errors.CRSError": (_I, "a CRS that cannot be used"),
    "pyarrow.lib.ArrowInvalid": (_I, "data that Arrow refuses"),
    "pydantic_core._pydantic_core.ValidationError": (_I, "a wrong parameter"),
}

# Messages, for exceptions whose type says too little; looked at before the type's own row.
_MESSAGES: tuple[tuple[str, str, FailureClass, str], ...] = (
    ("shapely.errors.GEOSException", "TopologyException", _I, "invalid geometry: make_valid before this step"),
    ("shapely.errors.GEOSException", "bad_alloc", _C, "out of memory"),
    ("builtins.RuntimeError", "can't start new thread", _T, "no thread to be had"),
)


def classify(exception: BaseException) -> Classification:
    """Return the class of `exception`: its own, its cause's or its context's, in that order.

    Pure: the answer depends on the exception alone. An exception that nothing knows is fatal, and `known` is false.
    """
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        found = _row_of(current)
        if found is not None:
            return found
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return Classification(_F, False, f"unknown failure {type(exception).__name__}")


def _row_of(exception: BaseException) -> Classification | None:
    if isinstance(exception, Failure):
        return Classification(exception.failure_class, True, exception.what)
    code = s3_code(exception)
    if code is not None and code in S3_CODES:
        return Classification(S3_CODES[code], True, f"S3 answered {code}")
    names = [f"{base.__module__}.{base.__qualname__}" for base in type(exception).__mro__]
    text = str(exception)
    for name, fragment, failure_class, reason in _MESSAGES:
        if name in names and fragment in text:
            return Classification(failure_class, True, reason)
    number = getattr(exception, "errno", None)
    if isinstance(number, int) and number in _ERRNOS:
        return Classification(_ERRNOS[number], True, errno.errorcode[number])
    for name in names:
        if name in _TYPES:
            failure_class, reason = _TYPES[name]
            return Classification(failure_class, True, reason)
    return None


def s3_code(exception: BaseException) -> str | None:
    """Return the S3 error code that a botocore exception carries, else None."""
    response = getattr(exception, "response", None)
    if not isinstance(response, dict):
        return None
    error = response.get("Error")
    code = error.get("Code") if isinstance(error, dict) else None
    if code:
        return str(code)
    metadata = response.get("ResponseMetadata")
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
    return str(status) if status else None
