"""A flow run that is cancelled from the API: its lease is free at once, no death is counted, checkpoints are kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect_server import posted

from geocairn.stores.keys import LEASES
from geocairn.stores.opening import open_store
from geocairn.stores.runs import list_in_flight

SCRIPT = Path(__file__).with_name("served_slow.py")


def wait(look: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{seconds:g} seconds were not enough for {what}")


@pytest.fixture
def serving(prefect_api: str, tmp_path: Path, made_data: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "PREFECT_API_URL": prefect_api,
        "GEOCAIRN_STORE": str(tmp_path / "store"),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "GEOCAIRN_ALLOW": str(made_data),
    }
    with (tmp_path / "served.log").open("w") as out:
        command = [sys.executable, str(SCRIPT), "cancelled"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    yield process
    process.terminate()
    process.wait(timeout=60)


@pytest.mark.prefect_server
@pytest.mark.timeout(300)
def test_cancelling_a_run_frees_its_lease_at_once(
    serving: subprocess.Popen[bytes], prefect_api: str, tmp_path: Path, made_data: Path
) -> None:
    (tmp_path / "seconds").write_text("25")
    store = open_store(str(tmp_path / "store"))
    source = (
        str(made_data / "data" / "parcels.shp") if (made_data / "data").is_dir() else str(made_data / "parcels.shp")
    )

    def deployment() -> Any:
        found = httpx.get(f"{prefect_api}/deployments/name/slowly/cancelled")
        return found.json()["id"] if found.status_code == 200 else None

    made = posted(
        f"{prefect_api}/deployments/{wait(deployment, 'the deployment')}/create_flow_run",
        json={"parameters": {"source": source, "folder": str(tmp_path)}, "state": {"type": "SCHEDULED"}},
    )
    wait((tmp_path / "began").exists, f"the step: {(tmp_path / 'served.log').read_text()}")
    assert len(list(store.objects.list(LEASES))) == 1

    cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": True}
    posted(f"{prefect_api}/flow_runs/{made['id']}/set_state", json=cancelling)
    # The step's thread goes on for longer than this.
    wait(lambda: not list(store.objects.list(LEASES)), "the lease to be free", 20)

    def state() -> Any:
        return httpx.get(f"{prefect_api}/flow_runs/{made['id']}").json()["state"]["type"] == "CANCELLED"

    wait(state, "the run to be cancelled")
    (tmp_path / "seconds").write_text("0")
    again = posted(
        f"{prefect_api}/deployments/{deployment()}/create_flow_run",
        json={"parameters": {"source": source, "folder": str(tmp_path)}, "state": {"type": "SCHEDULED"}},
    )

    def ended() -> Any:
        found = httpx.get(f"{prefect_api}/flow_runs/{again['id']}").json()["state"]["type"]
        return found in ("COMPLETED", "FAILED", "CRASHED") and found

    assert wait(ended, "the run after it") == "COMPLETED"
    assert list(store.objects.list(LEASES)) == []  # a death would have been kept
    # The cancelled process lives until its thread has ended, or it is killed; then nothing is in flight.
    wait(lambda: not any(run.live for run in list_in_flight(store)), "the cancelled process to end")
