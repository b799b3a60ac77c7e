"""A web server on loopback that answers as a test wants, and writes down what it was asked and what it sent."""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LONG_AGO = 1_700_000_000.0


@dataclass
class Resource:
    """What lies at one path.

    Parameters
    ----------
    content : what it is.
    etag : `strong`, `weak`, or none.
    modified : seconds since the epoch of its last change; None for an answer that does not tell it.
    ranges : whether ranges are given.
    conditions : whether conditions in a request are heeded.
    length : whether the size is told.
    head : the status of answers to HEAD; None for a proper one.
    status : of every answer.
    headers : further ones.
    cut : how many bytes of the body are sent; None for all.
    location : where a redirect leads.
    query : what the query must be, else 403.
    authorization : what the header must be, else 401.
    """

    content: bytes = b""
    etag: str | None = "strong"
    modified: float | None = None
    ranges: bool = True
    conditions: bool = True
    length: bool = True
    head: int | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    location: str | None = None
    query: str | None = None
    authorization: str | None = None

    @property
    def tag(self) -> str | None:
        """The ETag as it is sent."""
        digest = hashlib.sha256(self.content).hexdigest()[:16]
        return {"strong": f'"{digest}"', "weak": f'W/"{digest}"'}.get(self.etag or "")


@dataclass
class Request:
    """What was asked."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    sent: int = 0
    """Bytes of the body that were sent."""


class WebServer:
    """The server; `url` is where it is. `after` are called once each, after that many requests."""

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.resources: dict[str, Resource] = {}
        self.requests: list[Request] = []
        self.before: Any = None
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, ssl.SSLError):
                    self.close_connection = True

            def answer(self) -> None:
                parts = urlsplit(self.path)
                asked = Request(self.command, parts.path, parts.query, dict(self.headers.items()))
                web.requests.append(asked)
                if web.before is not None:
                    web.before(asked)
                web.respond(self, asked)

            do_GET = do_HEAD = do_PUT = do_POST = answer

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def sent(self) -> int:
        """Bytes of all bodies."""
        return sum(request.sent for request in self.requests)

    def put(self, path: str, content: bytes, **options: Any) -> str:
        """Lay content down, and return its address."""
        self.resources[path] = Resource(content, **options)
        return self.url + path

    def respond(self, handler: BaseHTTPRequestHandler, asked: Request) -> None:
        found = self.resources.get(asked.path)
        if found is None:
            self._empty(handler, 404)
            return
        if asked.method == "HEAD" and found.head is not None:
            self._empty(handler, found.head)
            return
        if found.query is not None and asked.query != found.query:
            self._empty(handler, 403)
            return
        if found.authorization is not None and asked.headers.get("Authorization") != found.authorization:
            self._empty(handler, 401)
            return
        if found.location is not None:
            self._empty(handler, found.status, {"Location": found.location})
            return
        if found.status != 200:
            self._empty(handler, found.status, found.headers)
            return
        held = asked.headers.get("If-Match")
        if found.conditions and held is not None and held != found.tag:
            self._empty(handler, 412)
            return
        body, status, headers = found.content, 200, dict(found.headers)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("Range", ""))
        if span is not None and found.ranges:
            start, end = int(span[1]), min(int(span[2]), len(body) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
            body, status = body[start : end + 1], 206
        if found.tag:
            headers["ETag"] = found.tag
        if found.modified is not None:
            headers["Last-Modified"] = formatdate(found.modified, usegmt=True)
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if found.length:
            handler.send_header("Content-Length", str(len(body)))
        else:
            handler.send_header("Connection", "close")
            handler.close_connection = True
        handler.end_headers()
        if asked.method == "HEAD":
            return
        if found.cut is not None:
            body = body[: found.cut]
            handler.close_connection = True
        asked.sent = len(body)
        handler.wfile.write(body)

    def _empty(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str] | None = None) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
