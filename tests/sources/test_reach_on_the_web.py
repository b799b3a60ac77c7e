"""A listed host cannot lead to another one: each hop of a redirect is held to what may be read."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from geocairn.failure import NotAllowed
from geocairn.sources.describe import describe
from geocairn.sources.reach import Reach
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


@pytest.fixture
def redirecting(listener: socket.socket) -> Iterator[tuple[str, list[str]]]:
    """The address of a server that sends everybody on to the listener, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{listener.getsockname()[1]}/a.parquet?token=hush")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("ask", [resolve_version, describe, read])
@pytest.mark.parametrize("name", ["a.parquet", "a.geojson"])
def test_a_redirect_to_a_host_that_is_not_listed_is_not_followed(
    listener: socket.socket, redirecting: tuple[str, list[str]], ask: Any, name: str
) -> None:
    address, asked = redirecting
    with pytest.raises(NotAllowed) as caught:
        ask(Source(uri=f"{address}/{name}"), reach=Reach.of(read=[address]))
    assert asked
    assert f":{listener.getsockname()[1]}" in str(caught.value)
    assert "hush" not in str(caught.value)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_server_that_is_not_listed_is_not_asked(redirecting: tuple[str, list[str]]) -> None:
    address, asked = redirecting
    for form in (address, address.replace("127.0.0.1", "localhost"), address.replace("127.0.0.1", "2130706433")):
        with pytest.raises(NotAllowed):
            read(Source(uri=f"{form}/a.parquet"), reach=Reach.of(read=["https://example.org", "http://127.0.0.1:1"]))
    assert not asked
