"""Failures of a store's look-ups and writes, with their class, place and remedy.

What always holds: a refusal never becomes a miss. The class comes from `failure.classify`; the original exception is
kept as the cause by whoever raises (`raise refusal(...) from error`).
"""

from __future__ import annotations

import errno

from geocairn.classification import classify, retry_after, s3_code
from geocairn.failure import CapabilityFailure, Failure, FailureClass, FatalFailure, TransientFailure

_ERRNO_REMEDIES = {
    errno.EACCES: "give this user the right to read and write there, or choose another store",
    errno.EPERM: "give this user the right to read and write there, or choose another store",
    errno.EROFS: "the file system is read-only: choose another store",
    errno.ENOSPC: "free some space, sweep the store, or choose another store",
    errno.EDQUOT: "the quota is used up: free some space, sweep the store, or choose another store",
    errno.EMFILE: "raise the limit of open files",
}

_DENIED = {"AccessDenied", "403", "AllAccessDisabled"}
_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidToken",
    "401",
}
_REGION = {"301", "307", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}


def refusal(error: BaseException, *, doing: str, where: str, permission: str = "") -> Failure:
    """Return the failure that stands for `error`.

    Parameters
    ----------
    error : what was raised by the system or by boto3.
    doing : what was tried, as in `read the record of a step`.
    where : the object or folder.
    permission : the S3 permission that the request needs, as in `s3:GetObject`.
    """
    found = classify(error)
    kinds: dict[FailureClass, type[Failure]] = {
        FailureClass.TRANSIENT: TransientFailure,
        FailureClass.CAPABILITY: CapabilityFailure,
    }
    kind = kinds.get(found.failure_class, FatalFailure)
    reason = found.reason if found.known else type(error).__name__
    what, remedy = f"cannot {doing}: {reason} ({_text(error)})", _remedy(error, permission, kind)
    if kind is TransientFailure:
        return TransientFailure(what, where, remedy, retry_after=retry_after(error))
    return kind(what, where, remedy)


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _remedy(error: BaseException, permission: str, kind: type[Failure]) -> str:
    if isinstance(error, OSError) and error.errno in _ERRNO_REMEDIES:
        return _ERRNO_REMEDIES[error.errno]
    code = s3_code(error) or ""
    if code in _DENIED:
        wanted = f"grant {permission}" if permission else "grant access"
        hint = "; without s3:ListBucket a missing key answers 403 as well" if permission == "s3:GetObject" else ""
        return wanted + hint
    if code in _CREDENTIALS:
        return "check the access key, the secret key and the session token, and this machine's clock"
    if code in _REGION:
        return "set the bucket's region and endpoint"
    if code == "NoSuchBucket":
        return "create the bucket, or check its name and the endpoint"
    if type(error).__name__ in {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"}:
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
    return "try again when the store answers" if kind is TransientFailure else ""
