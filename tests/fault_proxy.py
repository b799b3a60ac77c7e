"""An HTTP proxy on loopback, before the S3 server, that fails as it is told.

The `Host` header goes through as the client sent it, because it is part of the S3 signature. Every request is written
down, so that tests can count them.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

Action = Literal["status", "cut", "delay", "drop", "lose answer"]

_CODES = {403: "AccessDenied", 404: "NoSuchKey", 429: "SlowDown", 500: "InternalError", 503: "SlowDown"}


@dataclass
class Rule:
    """What to do with requests that match.

    Parameters
    ----------
    method : regular expression for the method.
    path : regular expression searched for in path and query, decoded.
    action : `status` answers so without asking the server; `cut` sends half the body; `delay` waits before it goes on;
        `drop` closes the connection unanswered; `lose answer` lets the server do it and then closes the connection.
    headers : further headers of a `status` answer, as in `{"Retry-After": "2"}`.
    skip : so many matching requests go through first.
    count : so many are then failed; None for all.
    only_while : a file that must be there for the rule to count; so processes open and close a window for it.
    """

    method: str = ".*"
    path: str = ""
    action: Action = "status"
    status: int = 503
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    skip: int = 0
    count: int | None = None
    only_while: Path | None = None
    matched: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)

    def takes(self, method: str, path: str) -> bool:
        if not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        if self.only_while is not None and not self.only_while.exists():
            return False
        self.matched += 1
        if self.matched <= self.skip or (self.count is not None and self.fired >= self.count):
            return False
        self.fired += 1
        return True


class FaultProxy:
    """The proxy; `endpoint` is what clients use."""

    def __init__(self, host: str, port: int) -> None:
        self.rules: list[Rule] = []
        self.requests: list[tuple[str, str]] = []
        self.sent = 0  # bytes of the bodies that went to clients
        self.lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = (
                True  # head and body go in two writes: the second would wait for an acknowledgement
            )

            def log_message(self, *_: object) -> None:
                pass

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:
                    self.close_connection = True

            def serve(self) -> None:
                body = self.read_body()
                rule = proxy.seen(self.command, unquote(self.path))
                if rule is not None and rule.action == "status":
                    self.refuse(rule.status, rule.headers)
                    return
                if rule is not None and rule.action == "delay":
                    time.sleep(rule.seconds)
                if rule is not None and rule.action == "drop":
                    self.close_connection = True
                    return
                status, headers, answer = self.ask(body)
                if rule is not None and rule.action == "lose answer":
                    self.close_connection = True
                    return
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                length = next((v for n, v in headers if n.lower() == "content-length"), str(len(answer)))
                self.send_header("Content-Length", length if self.command == "HEAD" else str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    if rule is not None and rule.action == "cut":
                        answer = answer[: len(answer) // 2]
                        self.close_connection = True
                    self.wfile.write(answer)
                    with proxy.lock:
                        proxy.sent += len(answer)

            def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
                connection = http.client.HTTPConnection(host, port, timeout=60)
                try:
                    connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        if name.lower() not in ("expect", "transfer-encoding", "content-length", "connection"):
                            connection.putheader(name, value)
                    if body or self.command in ("PUT", "POST"):
                        connection.putheader("Content-Length", str(len(body)))
                    connection.endheaders(body or None)
                    answer = connection.getresponse()
                    return answer.status, answer.getheaders(), answer.read()
                finally:
                    connection.close()

            def read_body(self) -> bytes:
                if "chunked" in self.headers.get("Transfer-Encoding", ""):
                    parts = []
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    while self.rfile.readline().strip():
                        pass
                    return b"".join(parts)
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def refuse(self, status: int, headers: dict[str, str]) -> None:
                code = _CODES.get(status, "InternalError")
                body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
                self.send_response_only(status)
                self.send_header("Date", self.date_time_string())
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = serve

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def seen(self, method: str, path: str) -> Rule | None:
        with self.lock:
            self.requests.append((method, path))
            return next((rule for rule in self.rules if rule.takes(method, path)), None)

    def fail(self, **rule: object) -> Rule:
        """Add a rule; see `Rule`."""
        made = Rule(**rule)  # type: ignore[arg-type]
        with self.lock:
            self.rules.append(made)
        return made

    def heal(self) -> None:
        """Forget all rules."""
        with self.lock:
            self.rules.clear()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
