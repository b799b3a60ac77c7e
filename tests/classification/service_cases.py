"""A case for each row about HTTP and S3 clients, and about what Python itself raises."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from code_cases import Case
from misbehaving import (
    AROUND,
    NOT_PACKED,
    SHORT,
    C,
    F,
    I,
    Servers,
    T,
    arrow_lists,
    asked_by_aiohttp,
    error_answer,
    s3,
    s3_of_arrow,
)

from geocairn.failure import FailureClass


def service_cases() -> Iterator[Case]:
    """Yield the cases."""
    for part in (_http, _s3):
        for row, failure_class, call in part():
            yield f"{'message' if ': ' in row else 'type'} {row}", failure_class, call


def _aiohttp(url: str) -> Any:
    return asyncio.run(asked_by_aiohttp(url))


def _http() -> Iterator[Case]:
    import aiohttp
    import httpx
    import requests
    import urllib3

    def pool(url: str, retries: Any = False, **more: Any) -> Any:
        return urllib3.PoolManager(retries=retries, timeout=0.3).request("GET", url, **more)

    def again(url: str) -> Any:
        session = requests.Session()
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(1, status_forcelist=[418])))
        return session.get(url)

    def full(url: str) -> Any:
        connections = urllib3.HTTPConnectionPool(url.removeprefix("http://"), maxsize=1, block=True)
        with connections.request("GET", "/", preload_content=False):
            return connections.request("GET", "/", pool_timeout=0.1)

    def tls(servers: Servers) -> str:
        return servers.url(SHORT).replace("http:", "https:")

    yield "http.client.IncompleteRead", T, lambda s, _: urllib.request.urlopen(s.url(SHORT)).read()
    yield "http.client.BadStatusLine", T, lambda s, _: urllib.request.urlopen(s.url(b"nonsense\r\n\r\n"))
    yield "http.client.InvalidURL", I, lambda s, _: urllib.request.urlopen("http://127.0.0.1:x/")
    yield "builtins.ConnectionError", T, lambda s, _: urllib.request.urlopen(s.url(b""))
    yield "builtins.ConnectionError", T, lambda s, _: urllib.request.urlopen(s.refused())
    yield "builtins.TimeoutError", T, lambda s, _: urllib.request.urlopen(s.url(None), timeout=0.3)
    yield "socket.gaierror", T, lambda s, _: urllib.request.urlopen("http://host.invalid")
    yield "ssl.SSLError", F, lambda s, _: urllib.request.urlopen(tls(s))
    yield "ssl.SSLEOFError", T, lambda s, _: ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    yield "urllib.error.ContentTooShortError", T, lambda s, p: urllib.request.urlretrieve(s.url(SHORT), p / "got")
    yield "urllib.error.URLError: unknown url type", I, lambda s, _: urllib.request.urlopen("foo://x")
    yield "builtins.ValueError: unknown url type", I, lambda s, _: urllib.request.urlopen("nonsense")

    yield "urllib3.exceptions.ProtocolError", T, lambda s, _: urllib3.exceptions.ProtocolError("bad framing")
    yield "http.client.IncompleteRead", T, lambda s, _: pool(s.url(SHORT))
    yield "urllib3.exceptions.TimeoutError", T, lambda s, _: pool(s.url(None), 0)
    yield "urllib3.exceptions.NewConnectionError", T, lambda s, _: pool(s.refused(), 0)
    yield (
        "urllib3.exceptions.ProxyError",
        T,
        lambda s, _: urllib3.ProxyManager(s.refused()).request("GET", s.url(SHORT)),
    )
    yield "urllib3.exceptions.SSLError", F, lambda s, _: urllib3.exceptions.SSLError("no TLS here")
    yield "urllib3.exceptions.DecodeError", T, lambda s, _: pool(s.url(NOT_PACKED))
    yield (
        "urllib3.exceptions.ResponseError",
        T,
        lambda s, _: pool(s.status(418), urllib3.Retry(1, status_forcelist=[418])),
    )
    yield "urllib3.exceptions.ResponseError: too many redirects", F, lambda s, _: pool(s.url(AROUND), 2)
    yield "urllib3.exceptions.EmptyPoolError", T, lambda s, _: full(s.url(error_answer(200, "long")))
    yield "urllib3.exceptions.LocationValueError", I, lambda s, _: pool("foo://x")

    yield "urllib3.exceptions.NewConnectionError", T, lambda s, _: requests.get(s.refused())
    yield "requests.exceptions.ConnectionError", T, lambda s, _: requests.exceptions.ConnectionError("gone")
    yield "requests.exceptions.Timeout", T, lambda s, _: requests.get(s.url(None), timeout=0.3)
    yield "requests.exceptions.SSLError", F, lambda s, _: requests.get(tls(s))
    yield "requests.exceptions.ChunkedEncodingError", T, lambda s, _: requests.get(s.url(SHORT))
    yield "requests.exceptions.ContentDecodingError", T, lambda s, _: requests.get(s.url(NOT_PACKED))
    yield "requests.exceptions.RetryError", T, lambda s, _: again(s.status(418))
    yield "requests.exceptions.TooManyRedirects", F, lambda s, _: requests.get(s.url(AROUND))
    yield "requests.exceptions.InvalidURL", I, lambda s, _: requests.get("http://*/")
    yield "requests.exceptions.MissingSchema", I, lambda s, _: requests.get("nonsense")
    yield "requests.exceptions.InvalidSchema", I, lambda s, _: requests.get("foo://x")

    yield "aiohttp.client_exceptions.ClientConnectionError", T, lambda s, _: _aiohttp(s.url(b""))
    yield "aiohttp.client_exceptions.ClientPayloadError", T, lambda s, _: _aiohttp(s.url(SHORT))
    yield "aiohttp.client_exceptions.ClientSSLError", F, lambda s, _: _aiohttp(tls(s))
    yield "aiohttp.client_exceptions.TooManyRedirects", F, lambda s, _: _around(aiohttp)
    yield "aiohttp.client_exceptions.InvalidURL", I, lambda s, _: _aiohttp("nonsense")
    yield "aiohttp.client_exceptions.NonHttpUrlClientError", I, lambda s, _: _aiohttp("foo://x")
    fingerprint = aiohttp.ServerFingerprintMismatch(b"a", b"b", "host", 1)
    yield "aiohttp.client_exceptions.ServerFingerprintMismatch", F, lambda s, _: fingerprint

    yield "builtins.ConnectionError", T, lambda s, _: httpx.get(s.refused())
    yield "httpx.TimeoutException", T, lambda s, _: httpx.get(s.url(None), timeout=0.3)
    yield "httpx.TransportError", T, lambda s, _: httpx.get(s.url(SHORT))
    yield "ssl.SSLError", F, lambda s, _: httpx.get(tls(s))
    yield "httpx.UnsupportedProtocol", I, lambda s, _: httpx.get("foo://x")
    yield "httpx.InvalidURL", I, lambda s, _: httpx.get("http://127.0.0.1:x/")
    yield "httpx.DecodingError", T, lambda s, _: httpx.get(s.url(NOT_PACKED))
    yield "httpx.TooManyRedirects", F, lambda s, _: httpx.get(s.url(AROUND), follow_redirects=True)


def _around(aiohttp: Any) -> Any:
    from aiohttp.client_reqrep import RequestInfo
    from multidict import CIMultiDict, CIMultiDictProxy
    from yarl import URL

    request = RequestInfo(URL("http://host/"), "GET", CIMultiDictProxy(CIMultiDict()), URL("http://host/"))
    return aiohttp.TooManyRedirects(request, (), status=300)


def _s3() -> Iterator[Case]:
    import boto3
    import botocore.exceptions as raised_by
    import s3transfer.exceptions

    def of(name: str, **values: Any) -> BaseException:
        error: BaseException = getattr(raised_by, name)(**values)
        return error

    b = "botocore.exceptions."
    yield f"{b}ConnectionError", T, lambda s, _: of("EndpointConnectionError", endpoint_url="u", error="e")
    yield "urllib3.exceptions.NewConnectionError", T, lambda s, _: s3(s.refused()).list_buckets()
    yield f"{b}SSLError", F, lambda s, _: s3(s.url(SHORT).replace("http:", "https:")).list_buckets()
    yield f"{b}HTTPClientError", T, lambda s, _: of("HTTPClientError", error="odd")
    yield "builtins.ConnectionError", T, lambda s, _: s3(s.url(b"")).list_buckets()
    yield f"{b}ConnectTimeoutError", T, lambda s, _: of("ConnectTimeoutError", endpoint_url="u")
    yield f"{b}ReadTimeoutError", T, lambda s, _: s3(s.url(None)).list_buckets()
    yield f"{b}ResponseStreamingError", T, lambda s, _: s3(s.url(SHORT)).get_object(Bucket="b", Key="k")["Body"].read()
    yield f"{b}IncompleteReadError", T, lambda s, _: of("IncompleteReadError", actual_bytes=1, expected_bytes=2)
    yield (
        f"{b}ChecksumError",
        T,
        lambda s, _: of("ChecksumError", checksum_type="a", expected_checksum=1, actual_checksum=2),
    )
    yield f"{b}FlexibleChecksumError", T, lambda s, _: _wrong_checksum(s)
    yield f"{b}NoCredentialsError", F, lambda s, _: _without_keys(s)
    yield f"{b}NoAuthTokenError", F, lambda s, _: of("NoAuthTokenError")
    yield f"{b}PartialCredentialsError", F, lambda s, _: of("PartialCredentialsError", provider="p", cred_var="v")
    yield f"{b}CredentialRetrievalError", F, lambda s, _: of("CredentialRetrievalError", provider="p", error_msg="m")
    yield f"{b}TokenRetrievalError", F, lambda s, _: of("TokenRetrievalError", provider="p", error_msg="m")
    yield f"{b}SSOError", F, lambda s, _: of("UnauthorizedSSOTokenError")
    yield f"{b}LoginError", F, lambda s, _: of("LoginRefreshRequired")
    yield f"{b}ProfileNotFound", F, lambda s, _: boto3.session.Session(profile_name="nobody")
    yield f"{b}ConfigParseError", F, lambda s, p: _broken_configuration(p)
    yield f"{b}InvalidRegionError", F, lambda s, _: boto3.client("s3", region_name="no region")
    yield f"{b}NoRegionError", F, lambda s, _: boto3.client("sqs")
    yield f"{b}EndpointProviderError", F, lambda s, _: of("EndpointResolutionError", msg="m")
    yield f"{b}ParamValidationError", I, lambda s, _: s3(s.refused()).get_object(Bucket="b b", Key="k")
    yield "builtins.ValueError: Invalid endpoint", F, lambda s, _: s3("nonsense")
    yield "boto3.exceptions.RetriesExceededError", T, lambda s, p: s3(s.url(SHORT)).download_file("b", "k", p / "got")
    exceeded = s3transfer.exceptions.RetriesExceededError(OSError("odd"))
    yield "s3transfer.exceptions.RetriesExceededError", T, lambda s, _: exceeded

    yield (
        "builtins.OSError: AWS Error NETWORK_CONNECTION",
        T,
        lambda s, _: s3_of_arrow(s.refused()).open_input_file("b/k"),
    )
    yield "builtins.FileNotFoundError", I, lambda s, _: s3_of_arrow(s.status(404)).open_input_file("b/k")
    yield "builtins.OSError: AWS Error INTERNAL_FAILURE", T, lambda s, _: arrow_lists(s.status(400, "InternalError"))
    yield "builtins.OSError: AWS Error RESOURCE_NOT_FOUND", I, lambda s, _: arrow_lists(s.status(404))


def _without_keys(servers: Servers) -> Any:
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("AWS_") and "KEY" in name}
    try:
        return s3(servers.refused(), without_keys=True).list_buckets()
    finally:
        os.environ.update(hidden)


def _wrong_checksum(servers: Servers) -> Any:
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx-amz-checksum-crc32: AAAAAA==\r\n\r\nabc"
    return s3(servers.url(body)).get_object(Bucket="b", Key="k")["Body"].read()


def _broken_configuration(folder: Path) -> Any:
    import botocore.configloader

    (folder / "configuration").write_text("[half")
    return botocore.configloader.raw_config_parse(str(folder / "configuration"))


def system_cases() -> Iterator[Case]:
    """Yield what Python and Prefect raise by themselves."""
    import csv
    import gzip
    import zipfile

    from prefect.task_engine import TaskRunTimeoutError

    def died() -> Any:
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            return pool.submit(os._exit, 1).result()

    def slow() -> Any:
        return subprocess.run(["sleep", "5"], timeout=0.1, check=True)

    def bad_zip(folder: Path) -> Any:
        (folder / "a.zip").write_text("no archive")
        return zipfile.ZipFile(folder / "a.zip")

    def none_told() -> Any:
        raise NotImplementedError

    plain: list[tuple[str, FailureClass, Any]] = [
        ("type builtins.MemoryError", C, lambda s, p: bytearray(2**62)),
        ("type builtins.ImportError", C, lambda s, p: __import__("no_such_module")),
        ("type builtins.NotImplementedError", C, lambda s, p: none_told()),
        ("type builtins.FileNotFoundError", I, lambda s, p: (p / "none").read_bytes()),
        ("errno EISDIR", I, lambda s, p: p.read_bytes()),
        ("errno ENAMETOOLONG", I, lambda s, p: (p / ("x" * 300)).read_bytes()),
        ("errno ENOSPC", F, lambda s, p: Path("/dev/full").write_bytes(b"x")),
        ("type builtins.UnicodeDecodeError", I, lambda s, p: b"\xff".decode("utf-8")),
        ("type ssl.SSLCertVerificationError", F, lambda s, p: ssl.SSLCertVerificationError(1, "self-signed")),
        ("type asyncio.exceptions.CancelledError", F, lambda s, p: asyncio.CancelledError()),
        ("type concurrent.futures.process.BrokenProcessPool", C, lambda s, p: died()),
        ("type subprocess.TimeoutExpired", T, lambda s, p: slow()),
        ("type zipfile.BadZipFile", I, lambda s, p: bad_zip(p)),
        ("type gzip.BadGzipFile", I, lambda s, p: gzip.decompress(b"no archive")),
        ("type json.decoder.JSONDecodeError", I, lambda s, p: json.loads("{")),
        ("type _csv.Error", I, lambda s, p: list(csv.reader(['"a"b'], strict=True))),
        ("type builtins.TimeoutError", T, lambda s, p: TaskRunTimeoutError("Scope timed out after 1.0 second(s).")),
        ("type builtins.ConnectionError", T, lambda s, p: http.client.RemoteDisconnected("gone")),
        (
            "message builtins.RuntimeError: could not allocate numpy array",
            C,
            lambda s, p: RuntimeError("could not allocate numpy array"),
        ),
        (
            "message builtins.RuntimeError: can't start new thread",
            T,
            lambda s, p: RuntimeError("can't start new thread"),
        ),
        (
            "message builtins.RuntimeError: No space left on device",
            F,
            lambda s, p: RuntimeError("No space left on device"),
        ),
    ]
    yield from plain
