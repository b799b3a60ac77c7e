"""What services and the operating system answer by code, and the class of each: S3, HTTP, errno, SQLSTATE.

What always holds: a row is data, each has a case in the tests that a library raises, and a code that is in no row has
no class here. `geocairn.classification` looks codes up.
"""

from __future__ import annotations

import errno

from geocairn.failure import FailureClass

_T, _C, _I, _F = FailureClass.TRANSIENT, FailureClass.CAPABILITY, FailureClass.INPUT, FailureClass.FATAL

S3_CODES: dict[str, FailureClass] = {
    "SlowDown": _T,
    "Throttling": _T,
    "ThrottlingException": _T,
    "RequestLimitExceeded": _T,
    "BandwidthLimitExceeded": _T,
    "TooManyRequests": _T,
    "RequestTimeout": _T,
    "InternalError": _T,
    "ServiceUnavailable": _T,
    "OperationAborted": _T,
    "ConditionalRequestConflict": _T,
    "PreconditionFailed": _T,
    "BadDigest": _T,
    "IncompleteBody": _T,
    "NoSuchUpload": _T,  # an upload in parts that was aborted: the next attempt begins another
    "RequestTimeTooSkewed": _F,
    "RequestExpired": _F,
    "AccessDenied": _F,
    "AllAccessDisabled": _F,
    "AccountProblem": _F,
    "NotSignedUp": _F,
    "InvalidAccessKeyId": _F,
    "SignatureDoesNotMatch": _F,
    "AuthorizationHeaderMalformed": _F,
    "IllegalLocationConstraintException": _F,
    "PermanentRedirect": _F,
    "ExpiredToken": _F,
    "ExpiredTokenException": _F,
    "InvalidToken": _F,
    "TokenRefreshRequired": _F,
    "NoSuchBucket": _F,
    "InvalidBucketName": _F,
    "InvalidObjectState": _F,  # archived: it has to be restored first
    "KMS.DisabledException": _F,
    "QuotaExceeded": _F,
    "XMinioStorageFull": _F,
    "EntityTooLarge": _F,
    "MethodNotAllowed": _F,
    "NotImplemented": _F,
    "NoSuchKey": _I,
    "NoSuchVersion": _I,
    "KeyTooLongError": _I,
    "InvalidRange": _I,
}
"""S3 error codes, as botocore reports them in `response["Error"]["Code"]`; what is not listed goes by the status."""

STATUSES: dict[int, FailureClass] = {
    301: _F,
    302: _F,
    303: _F,
    307: _F,
    308: _F,
    401: _F,
    402: _F,
    403: _F,
    404: _I,
    405: _F,
    407: _F,
    408: _T,
    409: _T,
    410: _I,
    412: _T,
    413: _F,
    414: _I,
    416: _I,
    423: _T,
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
    509: _T,
    511: _F,
    520: _T,
    521: _T,
    522: _T,
    523: _T,
    524: _T,
}
"""The status of an HTTP answer; botocore gives it as the code where an answer has no body.

400 is not listed: it is a wrong request as well as, from S3 to a HEAD, an expired token.
"""

ERRNOS: dict[int, FailureClass] = {
    errno.ECONNRESET: _T,
    errno.ECONNREFUSED: _T,
    errno.ECONNABORTED: _T,
    errno.EPIPE: _T,
    errno.ESHUTDOWN: _T,
    errno.ENOTCONN: _T,
    errno.ETIMEDOUT: _T,
    errno.EHOSTUNREACH: _T,
    errno.EHOSTDOWN: _T,
    errno.ENETUNREACH: _T,
    errno.ENETDOWN: _T,
    errno.ENETRESET: _T,
    errno.EADDRNOTAVAIL: _T,  # no local port left
    errno.ENOBUFS: _T,
    errno.EAGAIN: _T,
    errno.EINTR: _T,
    errno.ESTALE: _T,
    errno.EBUSY: _T,
    errno.ETXTBSY: _T,
    errno.EDEADLK: _T,
    errno.ENOLCK: _T,
    errno.ENOMEM: _C,
    errno.EOPNOTSUPP: _C,
    errno.ENOENT: _I,
    errno.EISDIR: _I,
    errno.ENOTDIR: _I,
    errno.ENAMETOOLONG: _I,
    errno.ELOOP: _I,
    errno.EACCES: _F,
    errno.EPERM: _F,
    errno.ENOSPC: _F,
    errno.EDQUOT: _F,
    errno.EFBIG: _F,
    errno.EMLINK: _F,
    errno.EROFS: _F,
    errno.EIO: _F,
    errno.ENODEV: _F,
    errno.EMFILE: _F,
    errno.ENFILE: _F,
}
"""The operating system's error numbers."""

SQLSTATES: dict[str, FailureClass] = {
    "08": _T,  # the connection
    "08P01": _F,
    "0A": _C,  # a feature that the server does not have
    "0L": _F,
    "0P": _F,
    "21": _I,
    "22": _I,  # the data
    "23": _I,  # a constraint
    "25": _F,  # the transaction's state
    "28": _F,  # authorisation
    "3D": _F,  # a database that is not there
    "3F": _I,
    "40": _T,  # rolled back: serialisation, deadlock
    "42": _I,  # syntax, or a table, column or function that is not there
    "42501": _F,
    "53": _T,  # too many connections, and the like
    "53100": _F,
    "53200": _T,  # the server's memory and not ours: it is another's query that has to end
    "53400": _F,
    "54": _C,  # more than the server can do
    "55": _F,
    "55006": _T,
    "55P03": _T,
    "57": _T,  # shut down, crashed, starting up, over its time limit
    "57P04": _F,
    "58": _F,  # an error of the server's system
    "72": _T,
    "F0": _F,
    "HV": _F,
    "XX": _C,  # an error of the server's own
    "XX001": _F,
    "XX002": _F,
}
"""SQLSTATE codes of databases, whole or by their first two characters; a whole one goes first."""
