"""A real Prefect server, small layers, and a way to ask the API what became of each task run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State, TaskRun
from prefect_server import real_server

sys.path.insert(0, str(Path(__file__).parent))

from chain_samples import write_sources  # noqa: E402


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The API of a real Prefect server."""
    with real_server() as url:
        yield url


@pytest.fixture
def place(prefect_api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two sources, whose default store is the folder `.geocairn` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GEOCAIRN_STORE", raising=False)
    write_sources(tmp_path)
    return tmp_path


def task_runs(state: State[Any], count: int, *, seconds: float = 30.0) -> list[TaskRun]:
    """Return the task runs of a flow run as the server knows them, once it knows `count` of them to have ended."""
    flow_run_id = state.state_details.flow_run_id
    assert flow_run_id is not None
    end = time.monotonic() + seconds
    while True:
        with get_client(sync_client=True) as client:
            found = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id])))
        ended = [run for run in found if run.state is not None and (run.state.is_final() or run.state.name == "NotReady")]
        if len(ended) >= count:
            return ended
        assert time.monotonic() < end, f"{len(ended)} of {count} task runs have ended: {[r.state_name for r in found]}"
        time.sleep(0.2)


def state_names(state: State[Any], count: int) -> list[str]:
    """Return the names of the states in which the task runs of a flow run ended."""
    return [str(run.state_name) for run in task_runs(state, count)]
