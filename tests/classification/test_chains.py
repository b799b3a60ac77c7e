"""What stands behind an exception counts: causes, contexts, reasons, originals, groups."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_cases import queried
from misbehaving import (
    SHORT,
    C,
    F,
    I,
    Servers,
    T,
    arrow_lists,
    asked_by_aiohttp,
    gdal_reads,
    held,
    raised,
    s3,
    s3_of_fsspec,
)

from geocairn.classification import classify, retry_after, text_of
from geocairn.failure import CapabilityFailure, FailureClass, FatalFailure, InputFailure, TransientFailure


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
    assert (found.failure_class, found.known, found.action, found.rule) == (F, False, "halt", "")
    assert type(error).__name__ in found.reason


def test_an_answer_that_says_nothing_known_is_unknown(servers: Servers) -> None:
    found = classify(raised(lambda: s3(servers.status(418, "Teapot")).get_object(Bucket="b", Key="k")))
    assert (found.failure_class, found.known) == (F, False)


@pytest.mark.parametrize(
    ("members", "failure_class", "known"),
    [
        ([TransientFailure("a"), ConnectionResetError("b")], T, True),
        ([TransientFailure("a"), CapabilityFailure("b")], C, True),
        ([CapabilityFailure("a"), InputFailure("b"), TransientFailure("c")], I, True),
        ([PermissionError("a"), InputFailure("b")], F, True),
        ([TransientFailure("a"), ValueError("odd"), PermissionError("b")], F, False),
        ([TransientFailure("a"), ExceptionGroup("inner", [InputFailure("b")])], I, True),
    ],
)
def test_a_group_has_the_class_of_its_gravest_member(members: list[Exception], failure_class: Any, known: bool) -> None:
    group = ExceptionGroup("several", members)
    for error in (group, chained(ValueError("odd"), group, "cause")):
        found = classify(error)
        assert (found.failure_class, found.known) == (failure_class, known)


def test_a_group_of_tasks(servers: Servers) -> None:
    async def all_at_once() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(asked_by_aiohttp(servers.status(503)))

    held(raised(lambda: asyncio.run(all_at_once())), T, "503")


# Wrappers: every client's way of saying that a certificate is not trusted


@pytest.fixture(scope="module")
def untrusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose certificate nobody signed."""
    folder = tmp_path_factory.mktemp("certificate")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN=localhost"
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = Servers().answering(None)

    def shake() -> None:
        seen = 0
        while server.socket.fileno() != -1:
            while len(server.kept) > seen:
                with contextlib.suppress(OSError):  # the client goes away: it does not trust it
                    context.wrap_socket(server.kept[seen], server_side=True).close()
                seen += 1
            threading.Event().wait(0.01)

    threading.Thread(target=shake, daemon=True).start()
    yield server.url.replace("http:", "https:").replace("127.0.0.1", "localhost")
    server.close()


@pytest.mark.parametrize("client", ["urllib", "urllib3", "requests", "httpx", "aiohttp", "boto3", "s3fs"])
def test_an_untrusted_certificate_is_no_lost_connection(client: str, untrusted: str) -> None:
    import httpx
    import requests
    import urllib3

    calls: dict[str, Any] = {
        "urllib": lambda: urllib.request.urlopen(untrusted),
        "urllib3": lambda: urllib3.PoolManager(retries=0).request("GET", untrusted),
        "requests": lambda: requests.get(untrusted),
        "httpx": lambda: httpx.get(untrusted),
        "aiohttp": lambda: asyncio.run(asked_by_aiohttp(untrusted)),
        "boto3": lambda: s3(untrusted).list_buckets(),
        "s3fs": lambda: s3_of_fsspec(untrusted).cat_file("b/k"),
    }
    error = raised(calls[client])
    assert "CERTIFICATE_VERIFY_FAILED" in str(error)
    found = held(error, F)
    if client == "aiohttp":
        assert found.rule == "type aiohttp.client_exceptions.ClientConnectorCertificateError"


# Statuses and codes, by whoever was asked


@pytest.mark.parametrize(("status", "failure_class"), [(503, T), (429, T), (403, F), (404, I)])
@pytest.mark.parametrize("client", ["urllib3", "requests", "httpx", "aiohttp", "boto3", "s3fs", "pyarrow", "pyogrio"])
@pytest.mark.filterwarnings("ignore")
def test_a_status_counts_whoever_was_asked(client: str, status: int, failure_class: Any, servers: Servers) -> None:
    import httpx
    import requests
    import urllib3

    url = servers.status(status)
    calls: dict[str, Any] = {
        "urllib3": lambda: urllib3.PoolManager().request(
            "GET", url, retries=urllib3.Retry(0, status_forcelist=[status])
        ),
        "requests": lambda: requests.get(url).raise_for_status(),
        "httpx": lambda: httpx.get(url).raise_for_status(),
        "aiohttp": lambda: asyncio.run(asked_by_aiohttp(url)),
        "boto3": lambda: s3(url).upload_file(__file__, "b", "k"),
        "s3fs": lambda: s3_of_fsspec(url).cat_file("b/k"),
        "pyarrow": lambda: arrow_lists(url),
        "pyogrio": lambda: gdal_reads(url),
    }
    error = raised(calls[client])
    held(error, failure_class)
    if client not in ("httpx", "aiohttp", "pyogrio"):  # which do not survive pickling, or not by every pickler
        held(pickle.loads(pickle.dumps(error)), failure_class)


def test_an_answer_of_duckdb_counts_by_its_status() -> None:
    import duckdb

    error: Any = duckdb.HTTPException("HTTP Error: HTTP GET error")
    error.status_code = 403
    held(error, F, "HTTP status 403")


@pytest.mark.parametrize(
    ("code", "failure_class"), [("SlowDown", T), ("InternalError", T), ("AccessDenied", F), ("NoSuchKey", I)]
)
def test_s3fs_says_what_s3_answered(code: str, failure_class: Any, servers: Servers) -> None:
    error = raised(lambda: s3_of_fsspec(servers.status(400, code)).pipe_file("b/k", b"x"))
    assert isinstance(error, OSError)
    held(error, failure_class)


@pytest.mark.parametrize(
    ("code", "failure_class"),
    [
        ("SlowDown", T),
        ("Throttling", T),
        ("ServiceUnavailable", T),
        ("RequestTimeout", T),
        ("AccessDenied", F),
        ("InvalidAccessKeyId", F),
        ("SignatureDoesNotMatch", F),
        ("RequestTimeTooSkewed", F),
        ("NoSuchBucket", F),
        ("ExpiredToken", F),
        ("NoSuchKey", I),
    ],
)
def test_codes_are_read_in_what_pyarrow_says(code: str, failure_class: Any, servers: Servers) -> None:
    """Its exceptions keep nothing but the text; of a code that it does not know it says so."""
    error = raised(lambda: arrow_lists(servers.status(400, code)))
    assert held(error, failure_class).rule == f"S3 code {code}"


def test_what_sqlalchemy_wraps_counts_and_survives_pickling(servers: Servers) -> None:
    import sqlalchemy

    psycopg_error = raised(lambda: queried(servers.database("40001")))
    wrapped = sqlalchemy.exc.OperationalError("select 1", {}, psycopg_error)
    assert held(wrapped, T).rule == "SQLSTATE 40"
    assert held(pickle.loads(pickle.dumps(wrapped)), T).rule == "SQLSTATE 40"
    refused = raised(lambda: sqlalchemy.create_engine("postgresql+psycopg://u@127.0.0.1:1/d").connect())
    held(refused, T)


def test_psycopg2_states_its_code_under_another_name() -> None:
    kind = type("DiskFull", (Exception,), {"__module__": "psycopg2.errors", "pgcode": "53100"})
    assert held(kind("could not extend file"), F).rule == "SQLSTATE 53100"


@pytest.mark.parametrize("state", ["", "no", "lower", 42, None])
def test_what_is_no_sqlstate_is_none(state: object) -> None:
    error = ValueError("odd")
    error.sqlstate = state  # type: ignore[attr-defined]
    assert not classify(error).known


def test_connections_of_s3fs(servers: Servers) -> None:
    held(raised(lambda: s3_of_fsspec(servers.refused()).cat_file("b/k")), T)
    held(raised(lambda: s3_of_fsspec(servers.url(None)).cat_file("b/k")), T, "time-out")
    held(raised(lambda: s3_of_fsspec(servers.url(SHORT)).cat_file("b/k")), T)


def test_errors_of_dask_survive_the_journey_from_a_worker() -> None:
    """Dask pickles a worker's exception; what it came from must still be there."""
    from distributed.core import clean_exception, error_message

    told = error_message(chained(ValueError("odd"), ConnectionResetError("reset"), "cause"))
    _, error, _ = clean_exception(told["exception"].data)
    assert error is not None
    held(error, T)


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    """The number of a bare OSError counts only where no type does."""
    held(raised(tmp_path.read_bytes), I, "EISDIR")
    held(raised(lambda: urllib.request.urlopen(f"file://{tmp_path}/none")), I)


class Hostile(Exception):
    """An exception that cannot be looked at."""

    @property
    def response(self) -> object:
        raise RuntimeError("no response was ever had")

    @property
    def errno(self) -> int:
        raise RuntimeError("nor a number")

    def __str__(self) -> str:
        raise RuntimeError("nor a text")


def test_an_exception_that_cannot_be_looked_at_is_unknown_and_hides_nothing() -> None:
    found = classify(Hostile())
    assert (found.failure_class, found.known) == (FailureClass.FATAL, False)
    assert retry_after(Hostile()) is None
    assert text_of(Hostile()) == "a Hostile that has no text"
    behind = Hostile()
    behind.__cause__ = TimeoutError("timed out")
    assert classify(behind).failure_class is FailureClass.TRANSIENT
