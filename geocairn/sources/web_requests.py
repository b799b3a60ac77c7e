"""Asking a web server: one request, with redirects followed one by one, and what its answer means as a failure.

What always holds: every address is shown to whoever decides what may be asked before it is asked, each hop of a
redirect too. There are few hops, none from https to http. No message and no log line tells a query, since a redirect
often leads to a signed address. An answer that is no success is a failure with its class: only 404 and 410 mean that
there is no such thing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from geocairn.classification import classify, retry_after
from geocairn.failure import Failure, FailureClass, FatalFailure, InputFailure, SourceChanged, TransientFailure
from geocairn.sources.objects import FAILURES
from geocairn.sources.web_credentials import credentials, how_to_state, shown

UrlCheck = Callable[[str], None]
"""Raises a failure where this URL (without its query) must not be asked."""

MOST_REDIRECTS = 5
GONE = (404, 410)

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
_REDIRECTS = (301, 302, 303, 307, 308)
_DECIDING = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
_lock = threading.Lock()
_clients: dict[tuple[object, ...], Any] = {}
_asking: ContextVar[bool] = ContextVar("asking a web server", default=False)


class _Silence(logging.Filter):
    """Keeps the lines in which the client tells whole addresses, with their secrets, out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _asking.get()


_silence = _Silence()


@contextmanager
def asked(
    method: str, url: str, headers: Mapping[str, str] | None = None, allowed: UrlCheck | None = None
) -> Iterator[Any]:
    """Give the answer to a request, an `httpx.Response` whose body is not read yet; its status may be any.

    Parameters
    ----------
    headers : besides those that every request has.
    allowed : is shown every address before it is asked.

    Raises
    ------
    Failure : where an address must not be asked, and for redirects that lead nowhere.
    TransientFailure : when the server cannot be reached, or the connection is lost.
    """
    import httpx

    current = url
    token = _asking.set(True)
    try:
        for _ in range(MOST_REDIRECTS + 1):
            if allowed is not None:
                allowed(shown(current))
            response = _send(method, current, headers or {}, url)
            try:
                if response.status_code not in _REDIRECTS:
                    yield response
                    return
                current = _next(current, response.headers.get("Location", ""), url)
            finally:
                response.close()
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise failure_of(error, url) from error
    finally:
        _asking.reset(token)
    raise FatalFailure(
        f"is redirected more than {MOST_REDIRECTS} times", where=shown(url), remedy="name the address that it leads to"
    )


def refusal(response: Any, url: str) -> Failure:
    """Return the failure that stands for an answer that is no success."""
    import httpx

    status, where = int(response.status_code), shown(url)
    if status in GONE:
        return InputFailure(f"does not exist (the server answers {status})", where=where, remedy="correct the address")
    if status in (401, 403):
        return FatalFailure(
            f"may not be read (the server answers {status})",
            where=where,
            remedy=f"if it needs credentials, {how_to_state(url)}",
        )
    if status == 412:
        return SourceChanged("changed while it was being read", where=where, remedy="run again to read it as it is now")
    cause = httpx.HTTPStatusError(f"status {status}", request=response.request, response=response)
    found = classify(cause)
    words = f"the server answers {status} {response.reason_phrase}".rstrip()
    if found.failure_class is FailureClass.TRANSIENT:
        return TransientFailure(words, where=where, remedy="try again", retry_after=retry_after(cause))
    return FAILURES[found.failure_class](words, where=where, remedy="look the address up in a browser")


def failure_of(error: Exception, url: str) -> Failure:
    """Return the failure, with its class, that stands for a request that had no answer, or not all of it."""
    found = classify(error)
    remedy = "try again" if found.failure_class is FailureClass.TRANSIENT else "correct the address or the connection"
    return FAILURES[found.failure_class](f"cannot be fetched: {found.reason}: {error}", where=shown(url), remedy=remedy)


def _send(method: str, url: str, headers: Mapping[str, str], first: str) -> Any:
    import httpx

    query, own = credentials(url)
    whole = url if not query else f"{url}{'&' if urlsplit(url).query else '?'}{query}"
    client = _client()
    try:
        request = client.build_request(
            method, whole, headers={"Accept": "*/*", "Accept-Encoding": "identity", **headers, **own}
        )
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise InputFailure("is no sound URL", where=shown(first), remedy="correct it") from None
    return client.send(request, stream=True, follow_redirects=False)


def _next(current: str, location: str, first: str) -> str:
    """Return the address that a redirect leads to."""
    import httpx

    if not location:
        raise FatalFailure("is redirected to no address", where=shown(first), remedy="look it up in a browser")
    try:
        target = str(httpx.URL(current).join(location).copy_with(fragment=None))
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise FatalFailure("is redirected to no sound address", where=shown(first)) from None
    parts = urlsplit(target)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise FatalFailure(f"is redirected to {shown(target)}, which is no web address", where=shown(first))
    if parts.scheme == "http" and urlsplit(current).scheme == "https":
        raise FatalFailure(
            f"is redirected from https to http: {shown(target)}", where=shown(first), remedy="name a safe address"
        )
    return target


def _client() -> Any:
    """Return the client of this process (another after a fork), by the proxies and certificates of the environment."""
    names = [name for name in os.environ if name.upper() in _DECIDING]
    key = (os.getpid(), *((name, os.environ[name]) for name in sorted(names)))
    with _lock:
        if key not in _clients:
            from http.cookiejar import CookieJar, DefaultCookiePolicy

            import httpx

            logging.getLogger("httpx").addFilter(_silence)
            _clients[key] = httpx.Client(
                timeout=httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers={"User-Agent": "geocairn"},
            )
        return _clients[key]
