"""From an exception to its failure class: one table of what the libraries and the operating system raise.

`classify` is pure: it looks an exception up by its type, its S3 error code, its errno or its message, through causes
and contexts, and imports none of the libraries whose exceptions it knows. What no row knows is fatal and says so.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from geocairn.failure import ACTIONS, Failure, FailureClass


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

# S3 error codes as botocore reports them in response["Error"]["Code"]. What is not listed goes by the answer's status.
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
    "PreconditionFailed": _T,
    "BadDigest": _T,
    "IncompleteBody": _T,
    "AccessDenied": _F,
    "AllAccessDisabled": _F,
    "InvalidAccessKeyId": _F,
    "SignatureDoesNotMatch": _F,
    "AuthorizationHeaderMalformed": _F,
    "IllegalLocationConstraintException": _F,
    "PermanentRedirect": _F,
    "ExpiredToken": _F,
    "ExpiredTokenException": _F,
    "InvalidToken": _F,
    "NoSuchBucket": _F,
    "InvalidBucketName": _F,
    "QuotaExceeded": _F,
    "XMinioStorageFull": _F,
    "EntityTooLarge": _F,
    "NotImplemented": _F,
    "NoSuchKey": _I,
}

# The status of an HTTP answer; botocore gives it as the code where an answer has no body.
STATUSES: dict[int, FailureClass] = {
    301: _F,
    307: _F,
    401: _F,
    402: _F,
    403: _F,
    404: _I,
    407: _F,
    408: _T,
    409: _T,
    410: _I,
    412: _T,
    425: _T,
    429: _T,
    451: _F,
    500: _T,
    501: _F,
    502: _T,
    503: _T,
    504: _T,
    507: _F,
    508: _F,
}

_ERRNOS: dict[int, FailureClass] = {
    errno.ECONNRESET: _T,
    errno.ECONNREFUSED: _T,
    errno.ECONNABORTED: _T,
    errno.EPIPE: _T,
    errno.ETIMEDOUT: _T,
    errno.EHOSTUNREACH: _T,
    errno.EHOSTDOWN: _T,
    errno.ENETUNREACH: _T,
    errno.ENETDOWN: _T,
    errno.ENETRESET: _T,
    errno.EAGAIN: _T,
    errno.EINTR: _T,
    errno.ESTALE: _T,
    errno.EBUSY: _T,
    errno.ENOMEM: _C,
    errno.ENOENT: _I,
    errno.EISDIR: _I,
    errno.ENOTDIR: _I,
    errno.ENAMETOOLONG: _I,
    errno.EACCES: _F,
    errno.EPERM: _F,
    errno.ENOSPC: _F,
    errno.EDQUOT: _F,
    errno.EFBIG: _F,
    errno.EROFS: _F,
    errno.EIO: _F,
    errno.EMFILE: _F,
    errno.ENFILE: _F,
}

# Exception types by qualified name, so that no library is imported to recognise its exceptions. The first name along
# the type's bases that is listed decides, hence a subclass may differ from its base.
_TYPES: dict[str, tuple[FailureClass, str]] = {
    "builtins.MemoryError": (_C, "out of memory"),
    "builtins.TimeoutError": (_T, "time-out"),
    "builtins.ConnectionError": (_T, "connection lost"),
    "builtins.FileNotFoundError": (_I, "a file is missing"),
    "builtins.PermissionError": (_F, "access denied"),
    "socket.gaierror": (_T, "the host's name cannot be resolved"),
    "ssl.SSLCertVerificationError": (_F, "a certificate that is not trusted"),
    "ssl.SSLEOFError": (_T, "connection lost"),
    "ssl.SSLError": (_F, "a TLS connection that cannot be made"),
    "asyncio.exceptions.TimeoutError": (_T, "time-out"),
    "http.client.IncompleteRead": (_T, "a body was cut short"),
    "http.client.BadStatusLine": (_T, "connection lost"),
    "botocore.exceptions.ConnectionError": (_T, "the store cannot be reached"),
    "botocore.exceptions.SSLError": (_F, "a TLS connection that cannot be made"),
    "botocore.exceptions.HTTPClientError": (_T, "connection lost"),
    "botocore.exceptions.ConnectionClosedError": (_T, "connection lost"),
    "botocore.exceptions.ConnectTimeoutError": (_T, "time-out"),
    "botocore.exceptions.ReadTimeoutError": (_T, "time-out"),
    "botocore.exceptions.IncompleteReadError": (_T, "a body was cut short"),
    "botocore.exceptions.ResponseStreamingError": (_T, "a body was cut short"),
    "botocore.exceptions.ChecksumError": (_T, "a body was damaged on its way"),
    "botocore.exceptions.NoCredentialsError": (_F, "no credentials"),
    "botocore.exceptions.PartialCredentialsError": (_F, "incomplete credentials"),
    "botocore.exceptions.CredentialRetrievalError": (_F, "credentials that cannot be had"),
    "botocore.exceptions.TokenRetrievalError": (_F, "credentials expired"),
    "botocore.exceptions.SSOError": (_F, "credentials expired"),
    "botocore.exceptions.ProfileNotFound": (_F, "a profile that is not there"),
    "botocore.exceptions.ConfigParseError": (_F, "a configuration file that cannot be read"),
    "botocore.exceptions.InvalidRegionError": (_F, "a region that there is not"),
    "botocore.exceptions.NoRegionError": (_F, "no region"),
    "urllib3.exceptions.ProtocolError": (_T, "connection lost"),
    "urllib3.exceptions.TimeoutError": (_T, "time-out"),
    "urllib3.exceptions.NewConnectionError": (_T, "the host cannot be reached"),
    "aiohttp.client_exceptions.ClientConnectorCertificateError": (_F, "a certificate that is not trusted"),
    "aiohttp.client_exceptions.ClientConnectionError": (_T, "connection lost"),
    "aiohttp.client_exceptions.ClientPayloadError": (_T, "a body was cut short"),
    "httpx.TimeoutException": (_T, "time-out"),
    "httpx.TransportError": (_T, "connection lost"),
    "distributed.comm.core.CommClosedError": (_T, "connection lost"),
    "distributed.scheduler.KilledWorker": (_C, "workers died over it"),
    "pyproj.exceptions.CRSError": (_I, "a CRS that PROJ does not know"),
    "pyproj.exceptions.ProjError": (_I, "a transformation failed"),
    "shapely.errors.ShapelyError": (_C, "an error of the geometry engine"),
    "pyogrio.errors.DataSourceError": (_I, "a source that cannot be opened"),
    "pyogrio.errors.DataLayerError": (_I, "a layer that is not there"),
    "pyogrio.errors.FieldError": (_I, "a field that is not there"),
    "pyogrio.errors.FeatureError": (_I, "a feature that cannot be read or written"),
    "pyogrio.errors.GeometryError": (_I, "a geometry that the format cannot hold"),
    "pyogrio.errors.CRSError": (_I, "a CRS that cannot be used"),
    "pyarrow.lib.ArrowInvalid": (_I, "data that Arrow refuses"),
    "pyarrow.lib.ArrowTypeError": (_I, "data that Arrow refuses"),
    "pyarrow.lib.ArrowNotImplementedError": (_C, "Arrow cannot do this"),
    "pyarrow.lib.ArrowCapacityError": (_C, "more than Arrow holds in one array"),
    "pydantic_core._pydantic_core.ValidationError": (_I, "a wrong parameter"),
}

# Messages, for exceptions whose type says too little; looked at before the type's own row.
_MESSAGES: tuple[tuple[str, str, FailureClass, str], ...] = (
    ("shapely.errors.GEOSException", "TopologyException", _I, "invalid geometry: make_valid before this step"),
    ("shapely.errors.GEOSException", "ParseException", _I, "a geometry that cannot be read"),
    ("shapely.errors.GEOSException", "bad_alloc", _C, "out of memory"),
    ("builtins.RuntimeError", "can't start new thread", _T, "no thread to be had"),
    ("builtins.RuntimeError", "No space left on device", _F, "disk full"),
    # pyarrow's own S3 file system
    ("builtins.OSError", "AWS Error NETWORK_CONNECTION", _T, "the store cannot be reached"),
    ("builtins.OSError", "AWS Error SLOW_DOWN", _T, "the store is busy"),
    ("builtins.OSError", "AWS Error SERVICE_UNAVAILABLE", _T, "the store is busy"),
    ("builtins.OSError", "AWS Error INTERNAL_FAILURE", _T, "the store failed"),
    ("builtins.OSError", "AWS Error REQUEST_TIMEOUT", _T, "time-out"),
    ("builtins.OSError", "AWS Error ACCESS_DENIED", _F, "access denied"),
    ("builtins.OSError", "AWS Error NO_SUCH_BUCKET", _F, "a bucket that is not there"),
    ("builtins.OSError", "AWS Error NO_SUCH_KEY", _I, "an object that is not there"),
)

_STATED_STATUS = {
    "urllib.error.HTTPError": "code",
    "aiohttp.client_exceptions.ClientResponseError": "status",
    "httpx.HTTPStatusError": "response.status_code",
    "requests.exceptions.HTTPError": "response.status_code",
}
"""Where exceptions that stand for an HTTP answer keep its status."""


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
    names = [f"{base.__module__}.{base.__qualname__}" for base in type(exception).__mro__]
    # s3fs makes an OSError of what S3 answered, and several answers share one: the answer says more.
    answered = exception.__cause__ if isinstance(exception, OSError) and s3_code(exception.__cause__) else exception
    found = _s3_row(answered) or _status_row(exception, names)
    if found is not None:
        return found
    text = str(exception)
    for name, fragment, failure_class, reason in _MESSAGES:
        if name in names and fragment in text:
            return Classification(failure_class, True, reason)
    for name in names:
        if name in _TYPES:
            failure_class, reason = _TYPES[name]
            return Classification(failure_class, True, reason)
    # After the types: the numbers of some (TLS, name resolution) mean something else.
    number = getattr(exception, "errno", None)
    if isinstance(exception, OSError) and isinstance(number, int) and number in _ERRNOS:
        return Classification(_ERRNOS[number], True, errno.errorcode[number])
    return None


def _s3_row(exception: BaseException | None) -> Classification | None:
    code = s3_code(exception)
    if code is None:
        return None
    failure_class = S3_CODES.get(code)
    if failure_class is None:
        failure_class = STATUSES.get(int(code)) if code.isdecimal() else STATUSES.get(_status(exception) or 0)
    return Classification(failure_class, True, f"S3 answered {code}") if failure_class is not None else None


def _status_row(exception: BaseException, names: list[str]) -> Classification | None:
    for name, place in _STATED_STATUS.items():
        if name not in names:
            continue
        value: object = exception
        for part in place.split("."):
            value = getattr(value, part, None)
        if isinstance(value, int) and value in STATUSES:
            return Classification(STATUSES[value], True, f"HTTP status {value}")
    return None


def _status(exception: BaseException | None) -> int | None:
    response = getattr(exception, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, dict) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
    return status if isinstance(status, int) else None


def s3_code(exception: BaseException | None) -> str | None:
    """Return the S3 error code that a botocore exception carries, else None."""
    response = getattr(exception, "response", None)
    if not isinstance(response, dict):
        return None
    error = response.get("Error")
    code = error.get("Code") if isinstance(error, dict) else None
    if code:
        return str(code)
    status = _status(exception)
    return str(status) if status else None
