"""From an exception to its failure class, and to the seconds that a service asked to wait.

What always holds: `classify` is pure and driven by the tables of `answer_codes` and `exception_types`; it looks an
exception up by what it states of itself (a failure's own class, an S3 code, an HTTP status, a SQLSTATE), by its
message, its type and its errno, through causes, contexts and groups; it imports none of the libraries whose exceptions
it knows; and what no row knows is fatal and says so.
"""

from __future__ import annotations

import email.utils
import errno
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geocairn.classification.answer_codes import ERRNOS, S3_CODES, SQLSTATES, STATUSES
from geocairn.classification.exception_types import HIDING, MESSAGES, STATED_STATUS, STATUS_IN_TEXT, TYPES, WRAPPERS
from geocairn.failure import ACTIONS, Failure, FailureClass


@dataclass(frozen=True)
class Classification:
    """The class of an exception, whether a row of the tables knows it, and the row's reason."""

    failure_class: FailureClass
    known: bool
    reason: str
    rule: str = field(default="", compare=False)
    """The row: its table and key, as in `errno ENOSPC`; empty where the exception states its class, or is unknown."""

    @property
    def action(self) -> str:
        """What recovery does about this class."""
        return ACTIONS[self.failure_class]


_GRAVEST = (FailureClass.FATAL, FailureClass.INPUT, FailureClass.CAPABILITY, FailureClass.TRANSIENT)
_CODE_IN_TEXT = re.compile(
    r"An error occurred \(([\w.]+)\) when calling the |AWS Error (?:.*ExceptionName: (\w+)|([A-Z_]+) )"
)
_ARROW_NAMES = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper(): code for code in S3_CODES}
"""How pyarrow's own S3 file system writes a code."""
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_SECONDS = re.compile(r"\d+(\.\d+)?")


def classify(exception: BaseException) -> Classification:
    """Return the class of `exception`: its own, its cause's or its context's, in that order.

    Pure: the answer depends on the exception alone. An exception that nothing knows is fatal, and `known` is false. A
    group has the gravest class among its members', so that nothing is tried again that has to be halted.
    """
    found = _found(exception, set())
    return found or Classification(FailureClass.FATAL, False, f"unknown failure {type(exception).__name__}")


def _found(exception: BaseException | None, seen: set[int]) -> Classification | None:
    """Return the first row along the chain of an exception."""
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        if isinstance(exception, BaseExceptionGroup):
            return min(
                map(classify, exception.exceptions), key=lambda one: (one.known, _GRAVEST.index(one.failure_class))
            )
        row = _row_of(exception, seen)
        if row is not None:
            return row
        exception = _behind(exception)
    return None


def text_of(exception: BaseException) -> str:
    """Return the text of an exception, also of one whose own text cannot be made."""
    try:
        return str(exception)
    except Exception:  # noqa: BLE001 - somebody else's code, which must not hide what it was raised for
        return f"a {type(exception).__name__} that has no text"


def _attribute(value: object, name: str) -> Any:
    """Return an attribute, None where there is none or it cannot be had: to look must not raise."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody else's exception
        return None


def _behind(exception: BaseException) -> BaseException | None:
    """Return what stands behind an exception: its cause, the reason or original that it keeps, or its context."""
    for found in (exception.__cause__, *(_attribute(exception, name) for name in ("reason", "orig"))):
        if isinstance(found, BaseException):
            return found
    for found in exception.args:
        if isinstance(found, BaseException):
            return found
    return None if exception.__suppress_context__ else exception.__context__


def _row_of(exception: BaseException, seen: set[int]) -> Classification | None:
    if isinstance(exception, Failure):
        return Classification(exception.failure_class, True, exception.what)
    names = [f"{base.__module__}.{base.__qualname__}" for base in type(exception).__mro__]
    text = text_of(exception)
    found = _s3_row(exception, text) or _status_row(exception, names, text)
    if found is not None:
        return found
    for name, fragment, failure_class, reason in MESSAGES:
        if name in names and fragment in text:
            return Classification(failure_class, True, reason, f"message {name}: {fragment}")
    found = _sqlstate_row(exception)
    listed = next((name for name in names if name in TYPES or name in WRAPPERS), "")
    if found is None and listed in WRAPPERS:
        found = _found(exception.__context__ if listed in HIDING else _behind(exception), seen)
    if found is not None:
        return found
    if listed in TYPES:
        failure_class, reason = TYPES[listed]
        return Classification(failure_class, True, reason, f"type {listed}")
    # After the types: the numbers of some (TLS, name resolution) mean something else.
    number = _attribute(exception, "errno")
    if isinstance(exception, OSError) and isinstance(number, int) and number in ERRNOS:
        name = errno.errorcode[number]
        return Classification(ERRNOS[number], True, name, f"errno {name}")
    return None


def _s3_row(exception: BaseException, text: str) -> Classification | None:
    # s3fs makes an OSError of what S3 answered, and several answers share one: the answer says more.
    answered = exception.__cause__ if isinstance(exception, OSError) and s3_code(exception.__cause__) else exception
    code = s3_code(answered)
    if code is None:
        told = _CODE_IN_TEXT.search(text)  # what is left of an answer where the cause was lost, or never was one
        code = (told[1] or told[2] or _ARROW_NAMES.get(told[3])) if told else None
    if code is None:
        return None
    if code in S3_CODES:
        return Classification(S3_CODES[code], True, f"S3 answered {code}", f"S3 code {code}")
    status = int(code) if code.isdecimal() else _status(answered)
    if status not in STATUSES:
        return None
    return Classification(STATUSES[status], True, f"S3 answered {code}", f"status {status}")


def _status_row(exception: BaseException, names: list[str], text: str) -> Classification | None:
    for name in names:
        status: Any = None
        if name in STATED_STATUS:
            status = exception
            for part in STATED_STATUS[name].split("."):
                status = _attribute(status, part)
        elif name in STATUS_IN_TEXT:
            told = re.search(STATUS_IN_TEXT[name], text)
            status = int(told[1]) if told else None
        if isinstance(status, int) and status in STATUSES:
            return Classification(STATUSES[status], True, f"HTTP status {status}", f"status {status}")
    return None


def _sqlstate_row(exception: BaseException) -> Classification | None:
    """Return the row of a database's error code: psycopg and asyncpg call it `sqlstate`, psycopg2 `pgcode`."""
    state = _attribute(exception, "sqlstate") or _attribute(exception, "pgcode")
    if not isinstance(state, str) or not _SQLSTATE.fullmatch(state):
        return None
    for key in (state, state[:2]):
        if key in SQLSTATES:
            return Classification(SQLSTATES[key], True, f"the database answered {state}", f"SQLSTATE {key}")
    return None


def _status(exception: BaseException | None) -> int:
    """Return the HTTP status that a botocore exception carries, else 0."""
    status = _metadata(exception).get("HTTPStatusCode")
    return status if isinstance(status, int) else 0


def _metadata(exception: BaseException | None) -> Mapping[str, Any]:
    response = _attribute(exception, "response")
    found = response.get("ResponseMetadata") if isinstance(response, dict) else None
    return found if isinstance(found, dict) else {}


def s3_code(exception: BaseException | None) -> str | None:
    """Return the S3 error code that a botocore exception carries, else None."""
    response = _attribute(exception, "response")
    if not isinstance(response, dict):
        return None
    error = response.get("Error")
    code = error.get("Code") if isinstance(error, dict) else None
    if code:
        return str(code)
    status = _status(exception)
    return str(status) if status else None


def retry_after(exception: BaseException) -> float | None:
    """Return the seconds that a service asked to wait before another attempt; None where it asked for nothing.

    A failure's own `retry_after` goes first; then the header `Retry-After` of the answer that the exception, its cause
    or its context stands for, in seconds or as a date. A date is held against the answer's own `Date`, else this
    machine's clock, and one that has passed is 0. What is no such value is None. In a group the longest counts.
    """
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, BaseExceptionGroup):
            return max((asked for one in current.exceptions if (asked := retry_after(one)) is not None), default=None)
        seconds = _asked(current)
        if seconds is not None:
            return seconds
        current = _behind(current)
    return None


def _asked(exception: BaseException) -> float | None:
    stated = _attribute(exception, "retry_after")
    if isinstance(exception, Failure) and isinstance(stated, int | float):
        return float(stated) if math.isfinite(stated) and stated >= 0 else None
    response = _attribute(exception, "response")
    for headers in (
        _metadata(exception).get("HTTPHeaders"),
        _attribute(response, "headers"),
        _attribute(exception, "headers"),
    ):
        if headers is not None and hasattr(headers, "items"):
            stated_by_name = {str(name).lower(): str(value).strip() for name, value in headers.items()}
            seconds = _seconds(stated_by_name.get("retry-after", ""), stated_by_name.get("date", ""))
            if seconds is not None:
                return seconds
    return None


def _seconds(text: str, sent: str) -> float | None:
    if _SECONDS.fullmatch(text):
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    until = _time(text)
    if until is None:
        return None
    now = _time(sent)
    return max(0.0, until - (time.time() if now is None else now))


def _time(text: str) -> float | None:
    """Return the seconds since the epoch of an HTTP date, None where it is none."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
