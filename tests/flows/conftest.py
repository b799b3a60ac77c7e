"""Fixtures of the scenarios: a Prefect server for the whole session, runs in processes of their own, a chain to run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chains import Chain, s3_environment
from fault_proxy import FaultProxy
from forked_runs import Runs
from seven_steps import STEPS, make_data

from geocairn.flows import local_server
from geocairn.s3 import S3Settings, client


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The API of a real Prefect server on loopback, of the tests' own PREFECT_HOME."""
    server, _ = local_server.launch()
    local_server.wait_until_healthy(server, 180)
    yield server.url
    local_server.stop()


@pytest.fixture(scope="session")
def runs(prefect_api: str) -> Iterator[Runs]:
    """Starts runs, each in a process of its own."""
    made = Runs({"PREFECT_API_URL": prefect_api})
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_data(folder)
    return folder


@pytest.fixture
def new_chain(
    runs: Runs,
    made_data: Path,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Chain]:
    """Makes chains: `new_chain(store_url, settings)`."""

    def make(store_url: str, settings: S3Settings | None = None, name: str = "work") -> Chain:
        folder = tmp_path / name
        shutil.copytree(made_data, folder / "data")
        environment = {"GEOCAIRN_CACHE": str(own_cache), **s3_environment(settings)}
        return Chain(folder, store_url, settings, runs, environment, monkeypatch)

    return make


@pytest.fixture
def chain(new_chain: Callable[..., Chain], store_url: str, store_settings: S3Settings | None) -> Chain:
    """The chain of seven steps, on each kind of store."""
    return new_chain(store_url, store_settings)


@pytest.fixture
def folder_chain(new_chain: Callable[..., Chain], tmp_path: Path) -> Chain:
    """The chain of seven steps on an empty folder store, for what does not depend on the kind of store."""
    return new_chain(str(tmp_path / "store"))


@dataclass
class Finished:
    """The chain as it was when an uninterrupted run of it had ended, on a folder store; and what that run gave."""

    kept: Path
    place: Path
    """Where it ran. Outputs are known by their place, so every test that goes on from here does so there."""
    answer: dict[str, Any]
    outputs: dict[str, Any]


@pytest.fixture(scope="session")
def finished_once(runs: Runs, made_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    place = tmp_path_factory.mktemp("finished") / "work"
    shutil.copytree(made_data, place / "data")
    environment = {"GEOCAIRN_CACHE": str(tmp_path_factory.mktemp("finished-cache"))}
    whole = Chain(place, str(place / "store"), None, runs, environment, pytest.MonkeyPatch())
    ended = whole.run()
    assert ended.computed == sorted(STEPS)
    kept = place.with_name("kept")
    shutil.copytree(place, kept)
    return Finished(kept, place, ended.answer, whole.outputs())


@pytest.fixture
def finished(finished_once: Finished, runs: Runs, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """The chain of seven steps on a folder store, just when its first run has ended."""
    shutil.rmtree(finished_once.place)
    shutil.copytree(finished_once.kept, finished_once.place)
    place = finished_once.place
    return Chain(place, str(place / "store"), None, runs, {"GEOCAIRN_CACHE": str(own_cache)}, monkeypatch)


@pytest.fixture
def finished_on_s3(
    finished: Chain,
    fault_proxy: FaultProxy,
    proxied_settings: S3Settings,
    s3_settings: S3Settings,
    s3_bucket: str,
) -> Chain:
    """The same, with its store on S3 behind the fault proxy: a store is the same wherever its objects lie."""
    folder = finished.path("store")
    for path in sorted(folder.rglob("*")):
        key = str(path.relative_to(folder))
        if path.is_file() and not key.startswith("."):
            client(s3_settings).put_object(Bucket=s3_bucket, Key=f"store/{key}", Body=path.read_bytes())
    finished.store_url, finished.settings = f"s3://{s3_bucket}/store", proxied_settings
    finished.environment |= s3_environment(proxied_settings)
    return finished


@pytest.fixture
def right_outputs(finished_once: Finished) -> dict[str, Any]:
    """What an uninterrupted run of the chain publishes."""
    return finished_once.outputs
