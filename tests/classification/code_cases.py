"""A case for each code of `geocairn.classification.answer_codes`: what a client raises of a service that answers so."""

from __future__ import annotations

import errno
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from misbehaving import C, F, I, Servers, T, s3

from geocairn.failure import FailureClass

Case = tuple[str, FailureClass, Callable[[Servers, Path], Any]]
"""The row that is to decide, the class, and what raises or returns the exception."""

_S3: dict[FailureClass, str] = {
    T: "SlowDown Throttling ThrottlingException RequestLimitExceeded BandwidthLimitExceeded TooManyRequests "
    "RequestTimeout InternalError ServiceUnavailable OperationAborted ConditionalRequestConflict PreconditionFailed "
    "BadDigest IncompleteBody NoSuchUpload",
    F: "RequestTimeTooSkewed RequestExpired AccessDenied AllAccessDisabled AccountProblem NotSignedUp "
    "InvalidAccessKeyId SignatureDoesNotMatch AuthorizationHeaderMalformed IllegalLocationConstraintException "
    "PermanentRedirect ExpiredToken ExpiredTokenException InvalidToken TokenRefreshRequired NoSuchBucket "
    "InvalidBucketName InvalidObjectState KMS.DisabledException QuotaExceeded XMinioStorageFull EntityTooLarge "
    "MethodNotAllowed NotImplemented",
    I: "NoSuchKey NoSuchVersion KeyTooLongError InvalidRange",
}

_STATUSES: dict[FailureClass, list[int]] = {
    T: [408, 409, 412, 423, 425, 429, 500, 502, 503, 504, 509, 520, 521, 522, 523, 524],
    F: [301, 302, 303, 307, 308, 401, 402, 403, 405, 407, 413, 451, 501, 507, 508, 511],
    I: [404, 410, 414, 416],
}

_ERRNOS: dict[FailureClass, str] = {
    T: "ECONNRESET ECONNREFUSED ECONNABORTED EPIPE ESHUTDOWN ENOTCONN ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH "
    "ENETDOWN ENETRESET EADDRNOTAVAIL ENOBUFS EAGAIN EINTR ESTALE EBUSY ETXTBSY EDEADLK ENOLCK",
    C: "ENOMEM EOPNOTSUPP",
    I: "ENOENT EISDIR ENOTDIR ENAMETOOLONG ELOOP",
    F: "EACCES EPERM ENOSPC EDQUOT EFBIG EMLINK EROFS EIO ENODEV EMFILE ENFILE",
}

_LOST = ("ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "EPIPE", "ESHUTDOWN")
_BY_TYPE: dict[str, str] = {
    **dict.fromkeys(_LOST, "type builtins.ConnectionError"),
    "ETIMEDOUT": "type builtins.TimeoutError",
    "ENOENT": "type builtins.FileNotFoundError",
    **dict.fromkeys(("EACCES", "EPERM"), "type builtins.PermissionError"),
}
"""Numbers for which Python has a type; a library's own OSError keeps the number alone."""

_SQLSTATES: list[tuple[str, str, FailureClass]] = [
    ("08006", "08", T),
    ("08P01", "08P01", F),
    ("0A000", "0A", C),
    ("0L000", "0L", F),
    ("0P000", "0P", F),
    ("21000", "21", I),
    ("22012", "22", I),
    ("23505", "23", I),
    ("25006", "25", F),
    ("28P01", "28", F),
    ("28000", "28", F),
    ("3D000", "3D", F),
    ("3F000", "3F", I),
    ("40001", "40", T),
    ("40P01", "40", T),
    ("42P01", "42", I),
    ("42703", "42", I),
    ("42601", "42", I),
    ("42501", "42501", F),
    ("53300", "53", T),
    ("53100", "53100", F),
    ("53200", "53200", T),
    ("53400", "53400", F),
    ("54001", "54", C),
    ("55000", "55", F),
    ("55006", "55006", T),
    ("55P03", "55P03", T),
    ("57014", "57", T),
    ("57P01", "57", T),
    ("57P03", "57", T),
    ("57P04", "57P04", F),
    ("58030", "58", F),
    ("72000", "72", T),
    ("F0000", "F0", F),
    ("HV000", "HV", F),
    ("XX000", "XX", C),
    ("XX001", "XX001", F),
    ("XX002", "XX002", F),
]


def code_cases() -> Iterator[Case]:
    """Yield the cases."""
    for failure_class, codes in _S3.items():
        for code in codes.split():
            yield f"S3 code {code}", failure_class, lambda servers, _, code=code: _from_s3(servers, code)
    for failure_class, statuses in _STATUSES.items():
        for status in statuses:
            yield f"status {status}", failure_class, lambda servers, _, status=status: _from_http(servers, status)
    for failure_class, names in _ERRNOS.items():
        for name in names.split():
            row = f"errno {errno.errorcode[getattr(errno, name)]}"  # some numbers have two names
            yield row, failure_class, lambda _, __, name=name: _numbered(_LibraryError, name)
            if name in _BY_TYPE:
                yield _BY_TYPE[name], failure_class, lambda _, __, name=name: _numbered(OSError, name)
    for state, row, failure_class in _SQLSTATES:
        yield f"SQLSTATE {row}", failure_class, lambda servers, _, state=state: queried(servers.database(state))


class _LibraryError(OSError):
    """Python makes a ConnectionResetError of OSError(ECONNRESET), but not of a subclass."""


def _numbered(kind: type[OSError], name: str) -> OSError:
    number = getattr(errno, name)
    return kind(number, os.strerror(number))


def _from_s3(servers: Servers, code: str) -> Any:
    # Status 400 has no row, so the code decides alone.
    return s3(servers.status(400, code)).get_object(Bucket="b", Key="k")


def _from_http(servers: Servers, status: int) -> Any:
    return urllib.request.urlopen(servers.status(status))


def queried(address: str, text: Any = "select 1", *values: str) -> Any:
    """Ask a PostgreSQL server with psycopg."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        return connection.execute(text, values or None)
