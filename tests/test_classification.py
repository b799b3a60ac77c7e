"""Classification, by exceptions that the libraries themselves raise; and failures as they travel."""

from __future__ import annotations

import asyncio
import errno
import http.client
import importlib
import os
import pickle
import pkgutil
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import geocairn
from geocairn.classification import classify, s3_code
from geocairn.failure import (
    ACTIONS,
    CapabilityFailure,
    Failure,
    FailureClass,
    FatalFailure,
    InputFailure,
    MissingGrid,
    SourceChanged,
    TransientFailure,
)
from geocairn.stores.belief import LayerLost
from geocairn.stores.objects import Conflict, Missing

T, C, I, F = FailureClass.TRANSIENT, FailureClass.CAPABILITY, FailureClass.INPUT, FailureClass.FATAL  # noqa: E741


def raised(call: Callable[[], Any]) -> BaseException:
    """Return what a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


# Servers on loopback that misbehave


class Answering:
    """A server that answers each connection with the same bytes, or never."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
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
            connection.recv(65536)
            connection.sendall(self.answer)
            connection.close()

    def close(self) -> None:
        self.socket.close()
        for connection in self.kept:
            connection.close()


@pytest.fixture
def answering() -> Iterator[Callable[[bytes | None], Answering]]:
    made: list[Answering] = []

    def make(answer: bytes | None) -> Answering:
        made.append(Answering(answer))
        return made[-1]

    yield make
    for server in made:
        server.close()


def error_answer(status: int, code: str = "") -> bytes:
    body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    head = f"HTTP/1.1 {status} Some\r\nContent-Length: {len(body)}\r\nContent-Type: application/xml\r\n\r\n"
    return head.encode() + body


SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"


def s3(url: str, **options: Any) -> Any:
    import boto3
    from botocore.config import Config

    limits = {"connect_timeout": 1, "read_timeout": 0.3, "retries": {"total_max_attempts": 1}}
    config = Config(s3={"addressing_style": "path"}, **limits)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"} if not options else {}
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", config=config, **keys)


@pytest.fixture
def refused() -> str:
    """The URL of a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def held(error: BaseException, failure_class: FailureClass, reason: str = "") -> None:
    found = classify(error)
    assert (found.failure_class, found.known) == (failure_class, True), f"{type(error)}: {error} -> {found}"
    assert found.action == ACTIONS[failure_class]
    assert reason in found.reason


# The geometry stack


@pytest.mark.parametrize(
    ("name", "failure_class"),
    [
        ("bow tie", I),
        ("bad WKT", I),
        ("mixed dimensions", C),
        ("unknown CRS", I),
        ("CRS of nonsense", I),
        ("point off the globe", I),
        ("file missing", I),
        ("layer missing", I),
        ("wrong where", I),
        ("no such format", I),
        ("Arrow: not Parquet", I),
        ("Arrow: no number", I),
        ("Arrow: wrong type", I),
        ("Arrow: not implemented", C),
        ("Arrow: file missing", I),
        ("numpy: memory", C),
        ("Arrow: memory", C),
        ("pydantic", I),
    ],
)
def test_what_the_geometry_stack_raises(name: str, failure_class: FailureClass, tmp_path: Path) -> None:
    held(raised(lambda: _geometry_stack(name, tmp_path)), failure_class)


def _geometry_stack(name: str, folder: Path) -> Any:
    import geopandas
    import numpy
    import pyarrow
    import pyarrow.parquet
    import pyogrio
    import pyproj
    import shapely
    from pydantic import TypeAdapter
    from shapely.geometry import GeometryCollection, Point, Polygon, box

    text = folder / "text.gpkg"
    text.write_text("no database")
    if name in ("layer missing", "wrong where"):
        geopandas.GeoDataFrame({"a": [1]}, geometry=[box(0, 0, 1, 1)], crs=4326).to_file(folder / "a.gpkg")
    crossed = Polygon([(0, 0.2), (1, 0.8), (1, 0.2), (0, 0.8)])
    calls: dict[str, Callable[[], Any]] = {
        "bow tie": lambda: shapely.intersection(Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), crossed),
        "bad WKT": lambda: shapely.from_wkt("POLYGON ((0 0"),
        "mixed dimensions": lambda: shapely.difference(
            GeometryCollection([Point(0, 0), box(0, 0, 1, 1)]), box(0, 0, 2, 2), grid_size=0.1
        ),
        "unknown CRS": lambda: pyproj.CRS("EPSG:999999"),
        "CRS of nonsense": lambda: pyproj.CRS("nonsense"),
        "point off the globe": lambda: pyproj.Transformer.from_crs(4326, 5070, always_xy=True).transform(
            0, 1e30, errcheck=True
        ),
        "file missing": lambda: pyogrio.read_dataframe(folder / "none.gpkg"),
        "layer missing": lambda: pyogrio.read_dataframe(folder / "a.gpkg", layer="b"),
        "wrong where": lambda: pyogrio.read_dataframe(folder / "a.gpkg", where="a ="),
        "no such format": lambda: pyogrio.read_dataframe(text),
        "Arrow: not Parquet": lambda: pyarrow.parquet.read_table(text),
        "Arrow: no number": lambda: pyarrow.array(["x"]).cast(pyarrow.int64()),
        "Arrow: wrong type": lambda: pyarrow.array([1], type=pyarrow.string()),
        "Arrow: not implemented": lambda: pyarrow.compute.sum(pyarrow.array(["a"])),
        "Arrow: file missing": lambda: pyarrow.parquet.read_table(folder / "none.parquet"),
        "numpy: memory": lambda: numpy.empty(10**15),
        "Arrow: memory": lambda: pyarrow.allocate_buffer(2**60),
        "pydantic": lambda: TypeAdapter(int).validate_python("x"),
    }
    return calls[name]()


# S3 and HTTP


@pytest.mark.parametrize(
    ("status", "code", "failure_class"),
    [
        (503, "SlowDown", T),
        (503, "", T),
        (500, "InternalError", T),
        (502, "SomethingNew", T),
        (429, "TooManyRequests", T),
        (400, "RequestTimeout", T),
        (409, "OperationAborted", T),
        (412, "PreconditionFailed", T),
        (403, "AccessDenied", F),
        (403, "", F),
        (403, "SomethingNew", F),
        (403, "InvalidAccessKeyId", F),
        (403, "SignatureDoesNotMatch", F),
        (403, "RequestTimeTooSkewed", F),
        (400, "ExpiredToken", F),
        (404, "NoSuchBucket", F),
        (501, "NotImplemented", F),
        (507, "XMinioStorageFull", F),
        (404, "NoSuchKey", I),
        (404, "", I),
    ],
)
def test_what_boto3_makes_of_an_answer(
    status: int, code: str, failure_class: FailureClass, answering: Callable[[bytes | None], Answering]
) -> None:
    url = answering(error_answer(status, code)).url
    error = raised(lambda: s3(url).get_object(Bucket="b", Key="k"))
    held(error, failure_class, "S3 answered")
    assert s3_code(error) == (code or str(status))

    from s3fs.errors import translate_boto_error

    translated = translate_boto_error(error)
    assert isinstance(translated, OSError)
    held(translated, failure_class)


def test_an_answer_that_says_nothing_known_is_unknown(answering: Callable[[bytes | None], Answering]) -> None:
    url = answering(error_answer(418, "Teapot")).url
    found = classify(raised(lambda: s3(url).get_object(Bucket="b", Key="k")))
    assert (found.failure_class, found.known) == (F, False)


def test_connections_of_boto3_and_s3fs(answering: Callable[[bytes | None], Answering], refused: str) -> None:
    held(raised(lambda: s3(refused).list_buckets()), T)
    held(raised(lambda: s3(answering(None).url).list_buckets()), T, "time-out")
    held(raised(lambda: s3(answering(b"").url).list_buckets()), T, "connection lost")
    short = answering(SHORT).url
    held(raised(lambda: s3(short).get_object(Bucket="b", Key="k")["Body"].read()), T, "cut short")
    held(raised(lambda: s3(short.replace("http:", "https:")).list_buckets()), F, "TLS")
    held(raised(lambda: s3("http://store.invalid").list_buckets()), T)

    import s3fs

    def through_s3fs(url: str) -> Any:
        configuration = {"retries": {"total_max_attempts": 1}, "connect_timeout": 1, "read_timeout": 0.3}
        files = s3fs.S3FileSystem(
            key="a", secret="b", endpoint_url=url, config_kwargs=configuration, skip_instance_cache=True
        )
        files.retries = 1
        return files.cat_file("b/k")

    held(raised(lambda: through_s3fs(refused)), T)
    held(raised(lambda: through_s3fs(answering(None).url)), T, "time-out")


def test_credentials_and_configuration_of_boto3(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    held(raised(lambda: s3(refused, without_keys=True).list_buckets()), F, "no credentials")
    held(raised(lambda: boto3.session.Session(profile_name="nobody")), F, "profile")
    held(raised(lambda: boto3.client("s3", region_name="no region")), F, "region")


def test_pyarrows_own_s3(answering: Callable[[bytes | None], Answering], refused: str) -> None:
    from pyarrow import fs

    def info(url: str) -> Any:
        place = fs.S3FileSystem(
            endpoint_override=url.removeprefix("http://"),
            access_key="a",
            secret_key="b",
            scheme="http",
            region="us-east-1",
            connect_timeout=1,
            request_timeout=1,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )
        return place.open_input_file("b/k")

    held(raised(lambda: info(refused)), T)
    held(raised(lambda: info(answering(error_answer(403)).url)), F)


@pytest.mark.parametrize(("status", "failure_class"), [(503, T), (429, T), (403, F), (404, I)])
def test_answers_of_other_http_clients(
    status: int, failure_class: FailureClass, answering: Callable[[bytes | None], Answering]
) -> None:
    import aiohttp
    import httpx

    url = answering(error_answer(status)).url

    async def ask() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url):
            pass

    held(raised(lambda: urllib.request.urlopen(url)), failure_class, f"HTTP status {status}")
    held(raised(lambda: httpx.get(url).raise_for_status()), failure_class, f"HTTP status {status}")
    held(raised(lambda: asyncio.run(ask())), failure_class, f"HTTP status {status}")


def test_connections_of_other_http_clients(answering: Callable[[bytes | None], Answering], refused: str) -> None:
    import aiohttp
    import httpx
    import urllib3

    async def ask(url: str) -> bytes:
        limit = aiohttp.ClientTimeout(total=0.3)
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as answer:
            return await answer.read()

    silent, short = answering(None).url, answering(SHORT).url
    pool = urllib3.PoolManager(retries=False, timeout=0.3)
    for error in (
        raised(lambda: urllib.request.urlopen(refused)),
        raised(lambda: urllib.request.urlopen(silent, timeout=0.3)),
        raised(lambda: urllib.request.urlopen(short).read()),
        raised(lambda: urllib.request.urlopen("http://host.invalid")),
        raised(lambda: pool.request("GET", refused)),
        raised(lambda: pool.request("GET", silent)),
        raised(lambda: pool.request("GET", short)),
        raised(lambda: urllib3.PoolManager(retries=1).request("GET", refused)),
        raised(lambda: asyncio.run(ask(refused))),
        raised(lambda: asyncio.run(ask(silent))),
        raised(lambda: asyncio.run(ask(short))),
        raised(lambda: httpx.get(refused)),
        raised(lambda: httpx.get(silent, timeout=0.3)),
        raised(lambda: httpx.get(short)),
        raised(lambda: socket.create_connection(("host.invalid", 80))),
    ):
        held(error, T)


def test_a_certificate_is_not_a_permission(answering: Callable[[bytes | None], Answering]) -> None:
    """The number in a TLS error is no errno."""
    url = answering(SHORT).url.replace("http:", "https:")
    held(raised(lambda: urllib.request.urlopen(url)), F, "TLS")
    held(ssl.SSLCertVerificationError(1, "self-signed"), F, "certificate")


# The system


@pytest.mark.parametrize(
    ("number", "failure_class"),
    [
        (errno.ECONNRESET, T),
        (errno.ETIMEDOUT, T),
        (errno.EPIPE, T),
        (errno.EAGAIN, T),
        (errno.EBUSY, T),
        (errno.ESTALE, T),
        (errno.ENOMEM, C),
        (errno.ENOENT, I),
        (errno.EISDIR, I),
        (errno.ENAMETOOLONG, I),
        (errno.EACCES, F),
        (errno.ENOSPC, F),
        (errno.EDQUOT, F),
        (errno.EROFS, F),
        (errno.EIO, F),
        (errno.EMFILE, F),
    ],
)
def test_what_the_system_says_by_number(number: int, failure_class: FailureClass) -> None:
    held(OSError(number, os.strerror(number)), failure_class)


def test_what_the_system_really_raises(tmp_path: Path) -> None:
    held(raised(lambda: (tmp_path / "none").read_bytes()), I)
    held(raised(tmp_path.read_bytes), I)
    held(raised(lambda: (tmp_path / ("x" * 300)).read_bytes()), I)
    held(raised(lambda: Path("/dev/full").write_bytes(b"x" * 10)), F, "ENOSPC")
    held(MemoryError(), C)
    held(RuntimeError("can't start new thread"), T)
    held(http.client.RemoteDisconnected("gone"), T)


def test_prefects_time_limit_is_transient() -> None:
    from prefect.task_engine import TaskRunTimeoutError

    held(TaskRunTimeoutError("Scope timed out after 1.0 second(s)."), T, "time-out")


# Looking through


def chained(outer: BaseException, inner: BaseException, how: str) -> BaseException:
    try:
        try:
            raise inner
        except BaseException as caught:
            if how == "cause":
                raise outer from caught
            if how == "hidden":
                raise outer from None
            raise outer  # noqa: B904 - the context is what is tested
    except BaseException as made:
        return made


@pytest.mark.parametrize("how", ["cause", "context"])
def test_causes_and_contexts_are_looked_through(how: str) -> None:
    held(chained(ValueError("odd"), chained(KeyError("k"), ConnectionResetError("reset"), how), how), T)
    held(chained(ValueError("odd"), InputFailure("no such column", "step x"), how), I, "no such column")
    # One's own class goes before that of a cause.
    held(chained(FatalFailure("stop"), ConnectionResetError("reset"), how), F, "stop")
    held(chained(PermissionError("no"), ConnectionResetError("reset"), how), F)


def test_a_hidden_context_does_not_count_and_a_circle_ends() -> None:
    assert not classify(chained(ValueError("odd"), ConnectionResetError("reset"), "hidden")).known
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert not classify(first).known


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), ZeroDivisionError(), OSError("odd"), Exception()])
def test_what_no_rule_knows_is_fatal_and_says_so(error: Exception) -> None:
    found = classify(error)
    assert (found.failure_class, found.known, found.action) == (F, False, "halt")
    assert type(error).__name__ in found.reason


# Failures as they travel


MADE: list[Failure] = [
    Failure("what", "where", "remedy"),
    TransientFailure("what", "where", "remedy"),
    CapabilityFailure("what", "where", "remedy"),
    MissingGrid("what", "where", "remedy"),
    InputFailure("what", "where", "remedy"),
    FatalFailure("what", "where", "remedy"),
    SourceChanged("what", "where", "remedy"),
    Conflict("what", "where", "remedy"),
    Missing("what", "where", "remedy"),
    LayerLost("f" * 64, "what", "where", "remedy"),
    InputFailure("what"),
    InputFailure("what", remedy="remedy"),
    InputFailure("what").at("where"),
]


@pytest.mark.parametrize("failure", MADE, ids=lambda failure: f"{type(failure).__name__}-{len(str(failure))}")
@pytest.mark.parametrize("library", [pickle, cloudpickle])
def test_a_failure_survives_its_journey(failure: Failure, library: Any) -> None:
    back = library.loads(library.dumps(failure))
    assert type(back) is type(failure)
    assert (back.what, back.where, back.remedy) == (failure.what, failure.where, failure.remedy)
    assert str(back) == str(failure)
    assert back.args == failure.args
    assert classify(back) == classify(failure)
    assert getattr(back, "fingerprint", None) == getattr(failure, "fingerprint", None)


def test_every_kind_of_failure_is_among_those() -> None:
    """A new subclass of another shape has to be shown to survive as well."""
    for module in pkgutil.walk_packages(geocairn.__path__, "geocairn."):
        importlib.import_module(module.name)

    def below(kind: type[Failure]) -> set[type[Failure]]:
        return {kind}.union(*(below(kind) for kind in kind.__subclasses__()))

    ours = {kind for kind in below(Failure) if kind.__module__.startswith("geocairn.")}
    assert ours == {type(failure) for failure in MADE}


def test_the_text_of_a_failure_says_where_what_and_what_to_do() -> None:
    assert str(InputFailure("no column 'a'", "step x", "use 'b'")) == "step x: no column 'a'; use 'b'"
    assert str(InputFailure("no column 'a'")) == "no column 'a'"
    assert str(InputFailure("w", "here").at("there")) == "here: w"
    assert str(Missing("gone", "key")) == "key: gone"
    assert isinstance(Missing("gone"), KeyError)
