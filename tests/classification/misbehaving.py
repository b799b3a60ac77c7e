"""Servers on loopback that answer wrongly or never, and clients that ask them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from geocairn.classification import Classification, classify
from geocairn.failure import ACTIONS, FailureClass

T, C, I, F = FailureClass.TRANSIENT, FailureClass.CAPABILITY, FailureClass.INPUT, FailureClass.FATAL  # noqa: E741

SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nabc"
NOT_PACKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd"
AROUND = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def raised(call: Callable[[], Any]) -> BaseException:
    """Return what a call raises, or an exception that it returns."""
    try:
        made = call()
    except BaseException as error:
        return error
    assert isinstance(made, BaseException), "nothing was raised"
    return made


def held(error: BaseException, failure_class: FailureClass, reason: str = "") -> Classification:
    """Hold an exception to a class that the tables know."""
    found = classify(error)
    assert (found.failure_class, found.known) == (failure_class, True), f"{type(error)}: {error} -> {found}"
    assert found.action == ACTIONS[failure_class]
    assert reason in found.reason
    return found


def error_answer(status: int, code: str = "", **headers: str) -> bytes:
    """Return an HTTP answer; with a code, as S3 gives it."""
    text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>as told</Message></Error>"
    body = text.encode() if code else b""
    lines = [f"HTTP/1.1 {status} Some", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Answering:
    """A server that answers each connection with the same bytes, or never."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.url = f"http://{self.host}"
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.kept.append(connection)
            if self.answer is None:
                continue
            try:
                asked = connection.recv(65536)
                head, blank, body = self.answer.partition(b"\r\n\r\n")
                connection.sendall(head + blank if asked.startswith(b"HEAD ") else head + blank + body)
            except OSError:
                continue
            finally:
                connection.close()

    def close(self) -> None:
        self.socket.close()
        for connection in self.kept:
            connection.close()


class Servers:
    """Makes servers, and stops them all at the end."""

    def __init__(self) -> None:
        self.made: list[Answering | Database] = []

    def answering(self, answer: bytes | None) -> Answering:
        server = Answering(answer)
        self.made.append(server)
        return server

    def url(self, answer: bytes | None) -> str:
        return self.answering(answer).url

    def status(self, status: int, code: str = "", **headers: str) -> str:
        """Return the URL of a server that gives this answer to everything."""
        return self.url(error_answer(status, code, **headers))

    def database(self, state: str, message: str = "as told", *, at_once: bool = False) -> str:
        """Return how to reach a PostgreSQL server that answers a query, or the connection, with an error."""
        server = Database(state, message, at_once)
        self.made.append(server)
        return f"host=127.0.0.1 port={server.port} user=u password=p dbname=d sslmode=disable gssencmode=disable"

    def refused(self) -> str:
        """Return the URL of a port where nobody listens."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{probe.getsockname()[1]}"

    def close(self) -> None:
        for server in self.made:
            server.close()


class Database:
    """As much of a PostgreSQL server as it takes to refuse."""

    def __init__(self, state: str, message: str, at_once: bool) -> None:
        fields = f"SERROR\0VERROR\0C{state}\0M{message}\0\0".encode()
        self.refusal = b"E" + struct.pack(">I", len(fields) + 4) + fields
        self.at_once = at_once
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        ready = b"Z" + struct.pack(">I", 5) + b"I"
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                if self.at_once:
                    connection.sendall(self.refusal)
                    continue
                connection.sendall(b"R" + struct.pack(">II", 8, 0) + ready)
                while connection.recv(65536)[:1] not in (b"", b"X"):
                    connection.sendall(self.refusal + ready)

    def close(self) -> None:
        self.socket.close()


def s3(url: str, **options: Any) -> Any:
    """Return a boto3 client that asks once and does not wait."""
    import boto3
    from botocore.config import Config

    limits = {"connect_timeout": 1, "read_timeout": 0.3, "retries": {"total_max_attempts": 1}}
    config = Config(s3={"addressing_style": "path"}, **limits)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"} if not options else {}
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", config=config, **keys)


def s3_of_fsspec(url: str) -> Any:
    """Return an s3fs file system that asks once and does not wait."""
    import s3fs

    configuration = {"retries": {"total_max_attempts": 1}, "connect_timeout": 1, "read_timeout": 0.3}
    files = s3fs.S3FileSystem(
        key="a", secret="b", endpoint_url=url, config_kwargs=configuration, skip_instance_cache=True
    )
    files.retries = 1
    return files


def s3_of_arrow(url: str) -> Any:
    """Return pyarrow's own S3 file system, asking once."""
    from pyarrow import fs

    return fs.S3FileSystem(
        endpoint_override=url.removeprefix("http://"),
        access_key="a",
        secret_key="b",
        scheme="http",
        region="us-east-1",
        connect_timeout=1,
        request_timeout=1,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


def arrow_lists(url: str) -> Any:
    """List with pyarrow's S3: unlike a HEAD, a listing has an answer with a body."""
    from pyarrow import fs

    return s3_of_arrow(url).get_file_info(fs.FileSelector("b/k"))


async def asked_by_aiohttp(url: str) -> bytes:
    """Ask with aiohttp, raising for a status."""
    import aiohttp

    limit = aiohttp.ClientTimeout(total=0.5)
    async with aiohttp.ClientSession(timeout=limit, raise_for_status=True) as session, session.get(url) as answer:
        return await answer.read()


@contextmanager
def gdal_options(**options: str) -> Iterator[None]:
    """Set options of GDAL for a while, with the drivers that a plan of limited reach took from it before."""
    import pyogrio
    from pyogrio import _ogr

    pyogrio.set_gdal_config_options({**options, "OGR_SKIP": None})
    _ogr._register_drivers()
    try:
        yield
    finally:
        pyogrio.set_gdal_config_options(dict.fromkeys(options))


NETWORK: dict[str, Any] = {
    "GDAL_HTTP_PROXY": None,
    "GDAL_HTTPS_PROXY": None,
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": None,
}
"""What a plan of limited reach, run in this process before, took from GDAL."""


def gdal_reads(url: str) -> Any:
    """Read a file over HTTP with GDAL, without patience."""
    import pyogrio

    with gdal_options(GDAL_HTTP_TIMEOUT="1", GDAL_HTTP_MAX_RETRY="0", **NETWORK):
        return pyogrio.read_dataframe(f"{url}/a.geojson")


def gdal_reads_s3(url: str, **options: str) -> Any:
    """Read an object of S3 with GDAL."""
    import pyogrio

    reached = {"AWS_S3_ENDPOINT": url.removeprefix("http://"), "AWS_HTTPS": "NO", "AWS_VIRTUAL_HOSTING": "FALSE"}
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "GDAL_HTTP_MAX_RETRY": "0"}
    with gdal_options(**{**reached, **keys, **NETWORK, **options}):
        return pyogrio.read_dataframe("/vsis3/b/a.geojson")
