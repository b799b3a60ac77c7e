"""Fixtures that all tests share: a clean environment, a real S3 server, a fault proxy, and stores of both kinds."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for fault_proxy and s3_server, in tests of any folder

# Before anything imports Prefect or boto3: no test sees this machine's settings or leaves anything in them.
_STATE = Path(tempfile.mkdtemp(prefix="geocairn-tests-"))
for _name in [n for n in os.environ if n.startswith(("AWS_", "PREFECT_", "GEOCAIRN_")) and n != "GEOCAIRN_SHARED"]:
    del os.environ[_name]
os.environ.update(
    PREFECT_HOME=str(_STATE / "prefect"),
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    DO_NOT_TRACK="1",
    GEOCAIRN_CACHE=str(_STATE / "cache"),
    AWS_CONFIG_FILE=str(_STATE / "aws-config"),
    AWS_SHARED_CREDENTIALS_FILE=str(_STATE / "aws-credentials"),
    AWS_EC2_METADATA_DISABLED="true",
)

from fault_proxy import FaultProxy  # noqa: E402
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server  # noqa: E402

from geocairn.s3 import S3Settings, client  # noqa: E402
from geocairn.stores.checkpoints import CheckpointStore  # noqa: E402
from geocairn.stores.opening import open_store  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a folder that starts servers of its own on one worker, so that each is started once."""
    for item in items:
        folder = Path(item.fspath).parent.name
        if folder in ("flows", "tasks", "blocks", "third_party"):
            item.add_marker(pytest.mark.xdist_group("flows" if folder == "flows" else "tasks"))


def pytest_sessionfinish() -> None:
    shutil.rmtree(_STATE, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's memory is empty at the start of each test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("GEOCAIRN_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server on loopback, for the whole session."""
    # A short path: SeaweedFS makes sockets in it, whose paths are limited to about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="weed-"))
    server = S3Server(folder)
    try:
        server.wait()
        server.wait_for_writes(client(_settings(server.endpoint)))
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _settings(endpoint: str) -> S3Settings:
    return S3Settings(endpoint=endpoint, region="us-east-1", access_key=ACCESS_KEY, secret_key=SECRET_KEY)


@pytest.fixture
def s3_settings(s3_server: S3Server) -> S3Settings:
    """Settings that reach the server."""
    return _settings(s3_server.endpoint)


@pytest.fixture
def s3_bucket(s3_settings: S3Settings) -> Iterator[str]:
    """A fresh bucket; emptied and removed at the end, since the server keeps volumes for each."""
    name = f"test-{uuid.uuid4().hex[:16]}"
    service = client(s3_settings)
    service.create_bucket(Bucket=name)
    yield name
    for page in service.get_paginator("list_objects_v2").paginate(Bucket=name):
        keys = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
        if keys:
            service.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
    with contextlib.suppress(service.exceptions.ClientError):  # a test may have left an upload open in it
        service.delete_bucket(Bucket=name)


@pytest.fixture
def fault_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    """A proxy before the server, without rules."""
    proxy = FaultProxy("127.0.0.1", s3_server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def proxied_settings(fault_proxy: FaultProxy) -> S3Settings:
    """Settings that reach the server through the fault proxy."""
    return _settings(fault_proxy.endpoint)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.s3)])
def store_kind(request: pytest.FixtureRequest) -> str:
    """The kind of store that a test runs on; it runs on each."""
    return str(request.param)


@pytest.fixture
def store_url(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of an empty store of this kind."""
    if store_kind == "folder":
        return str(tmp_path / "store")
    return f"s3://{request.getfixturevalue('s3_bucket')}/some/prefix"


@pytest.fixture
def store_settings(store_kind: str, request: pytest.FixtureRequest) -> S3Settings | None:
    """The S3 settings for `store_url`; None for a folder."""
    return request.getfixturevalue("s3_settings") if store_kind == "s3" else None


@pytest.fixture
def store(store_url: str, store_settings: S3Settings | None) -> CheckpointStore:
    """An empty checkpoint store, of each kind in turn."""
    return open_store(store_url, settings=store_settings)
