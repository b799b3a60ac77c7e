"""Fixtures for steps in flows: a real Prefect server, a working directory with sources, and who computes what."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect_server import real_server

sys.path.insert(0, str(Path(__file__).parent))

from flow_samples import Watch, write_sources


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The API of a real Prefect server."""
    with real_server() as url:
        yield url


@pytest.fixture
def place(prefect_api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two sources, whose default store is the folder `.geocairn` in it."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GEOCAIRN_STORE", raising=False)
    write_sources(folder)
    return folder


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Counts what this process computes and reads from here on."""
    return Watch(monkeypatch)


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come after a few milliseconds."""
    monkeypatch.setattr("geocairn.policy.RecoveryPolicy.delay", lambda self, retries: 0.01)


@pytest.fixture
def counter(place: Path) -> str:
    """A file that counts the calls of `flaky`."""
    path = place / "calls"
    path.touch()
    return str(path)
