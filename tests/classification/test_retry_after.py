"""The seconds that a service asks to wait, in every client's own exceptions."""

from __future__ import annotations

import asyncio
import email.utils
import math
import pickle
import time
import urllib.request
from typing import Any

import pytest
from fault_proxy import FaultProxy
from misbehaving import Servers, T, asked_by_aiohttp, held, raised, s3, s3_of_fsspec

from geocairn.classification import retry_after
from geocairn.failure import FatalFailure, TransientFailure
from geocairn.s3 import S3Settings
from geocairn.stores.opening import open_store
from geocairn.stores.refusals import refusal


@pytest.mark.parametrize("client", ["urllib", "requests", "httpx", "aiohttp", "boto3", "s3fs"])
def test_what_is_asked_reaches_us_whoever_was_asked(client: str, servers: Servers) -> None:
    import httpx
    import requests

    url = servers.status(503, Retry_After="7")
    calls: dict[str, Any] = {
        "urllib": lambda: urllib.request.urlopen(url),
        "requests": lambda: requests.get(url).raise_for_status(),
        "httpx": lambda: httpx.get(url).raise_for_status(),
        "aiohttp": lambda: asyncio.run(asked_by_aiohttp(url)),
        "boto3": lambda: s3(url).get_object(Bucket="b", Key="k"),
        "s3fs": lambda: s3_of_fsspec(url).cat_file("b/k"),
    }
    error = raised(calls[client])
    assert retry_after(error) == 7
    wrapped = ValueError("odd")
    wrapped.__context__ = error
    assert retry_after(wrapped) == 7


class _Answered(Exception):
    def __init__(self, **headers: str) -> None:
        super().__init__("503")
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [("0", 0), ("120", 120), ("1.5", 1.5), (" 2 ", 2), ("99999999999", 99999999999)],
)
def test_seconds(stated: str, seconds: float) -> None:
    assert retry_after(_Answered(Retry_After=stated)) == seconds
    assert retry_after(_Answered(retry_after=stated)) == seconds


@pytest.mark.parametrize("stated", ["", "soon", "nan", "inf", "-5", "1e3", "9" * 400, "5 s", "Mon", "32 Foo 2026"])
def test_what_is_no_wait_is_none(stated: str) -> None:
    assert retry_after(_Answered(Retry_After=stated)) is None


def test_a_date_is_held_against_the_services_own_clock() -> None:
    sent = time.time() - 86400 * 3
    stated = email.utils.formatdate(sent + 30, usegmt=True)
    assert retry_after(_Answered(Retry_After=stated, Date=email.utils.formatdate(sent, usegmt=True))) == 30
    assert retry_after(_Answered(Retry_After=stated)) == 0  # by this machine's clock it has passed
    coming = email.utils.formatdate(time.time() + 3600, usegmt=True)
    asked = retry_after(_Answered(Retry_After=coming))
    assert asked is not None
    assert 3500 < asked <= 3601
    assert retry_after(_Answered(Retry_After=coming, Date="nonsense")) == pytest.approx(asked, abs=5)


@pytest.mark.parametrize("error", [ValueError("x"), TransientFailure("x"), FatalFailure("x"), _Answered(Other="2")])
def test_who_asks_for_nothing(error: Exception) -> None:
    assert retry_after(error) is None


def test_a_failures_own_wait_goes_first_and_travels() -> None:
    failure = TransientFailure("busy", "a service", "try again", retry_after=3)
    failure.__cause__ = _Answered(Retry_After="9")
    assert retry_after(failure) == 3
    back = pickle.loads(pickle.dumps(failure))
    assert retry_after(back) == 3
    assert str(back) == str(failure)
    assert retry_after(failure.at("elsewhere")) == 3


@pytest.mark.parametrize("stated", [math.nan, math.inf, -1.0])
def test_an_absurd_wait_of_a_failure_is_none(stated: float) -> None:
    assert retry_after(TransientFailure("busy", retry_after=stated)) is None


def test_a_group_asks_for_the_longest() -> None:
    group = ExceptionGroup("several", [_Answered(Retry_After="2"), ValueError("x"), _Answered(Retry_After="5")])
    assert retry_after(group) == 5
    wrapped = ValueError("odd")
    wrapped.__cause__ = group
    assert retry_after(wrapped) == 5
    assert retry_after(ExceptionGroup("silent", [ValueError("x")])) is None
    circle = ValueError("one")
    circle.__cause__ = circle
    assert retry_after(circle) is None


@pytest.mark.s3
def test_the_store_hands_on_what_s3_asks(
    fault_proxy: FaultProxy, proxied_settings: S3Settings, s3_bucket: str, tmp_path: Any
) -> None:
    """Records go through boto3, layers through s3fs; both end in a failure of the store's, with the wait in it."""
    objects = open_store(f"s3://{s3_bucket}/prefix", settings=proxied_settings).objects
    objects.write("checkpoints/a", b"{}")
    (tmp_path / "layer").write_bytes(b"layer")
    fault_proxy.fail(path="/(checkpoints|layers)/", status=503, headers={"Retry-After": "2"})
    for call in (
        lambda: objects.read("checkpoints/a"),
        lambda: objects.write("checkpoints/b", b"{}", if_absent=True),
        lambda: objects.upload("layers/a", tmp_path / "layer"),
    ):
        error = raised(call)
        assert isinstance(error, TransientFailure)
        held(error, T)
        assert retry_after(error) == 2
        assert retry_after(pickle.loads(pickle.dumps(error))) == 2, "the cause is lost on the way, the wait is not"


def test_a_refusal_that_is_not_transient_asks_for_nothing() -> None:
    made = refusal(PermissionError(13, "Permission denied"), doing="read", where="x")
    assert retry_after(made) is None
