"""Deployed to a Prefect server by `deployments/prefect.yaml`, run by a process worker from another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prefect_server import posted

ROOT = Path(__file__).resolve().parents[2]
PREFECT = [sys.executable, "-m", "prefect"]


@pytest.mark.prefect_server
@pytest.mark.timeout(240)
def test_the_deployed_example_runs_and_is_cached_on_the_second_run(prefect_api, tmp_path):
    import httpx

    environment = {
        **os.environ,
        "PREFECT_API_URL": prefect_api,
        "GEOCAIRN_STORE": str(tmp_path / "store"),
        "GEOCAIRN_EXAMPLES": str(tmp_path / "examples"),
    }
    (tmp_path / "examples").mkdir()
    import shutil

    shutil.copytree(ROOT / "examples" / "counties", tmp_path / "examples" / "counties")

    def prefect(*arguments: str) -> str:
        done = subprocess.run(
            [*PREFECT, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefect("work-pool", "create", "geocairn", "--type", "process", "--overwrite")
    prefect("--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(
            [*PREFECT, "worker", "start", "--pool", "geocairn"], cwd=tmp_path, env=environment, stdout=log, stderr=log
        )
    try:
        names = []
        for _ in range(2):
            deployment = httpx.get(f"{prefect_api}/deployments/name/run-chain/counties-daily").json()
            assert deployment["schedules"][0]["schedule"]["anchor_date"].startswith("2026-01-01")
            made = posted(f"{prefect_api}/deployments/{deployment['id']}/create_flow_run", {})
            state = _ended(httpx, prefect_api, made["id"])
            assert state == "Completed", (tmp_path / "worker.log").read_text()
            names.append(_task_states(httpx, prefect_api, made["id"]))
    finally:
        worker.terminate()
        worker.wait(timeout=30)
    assert set(names[0].values()) == {"Completed"}
    assert set(names[1].values()) == {"Cached"}
    assert "overlay · near" in names[1]


def _ended(httpx, api: str, run_id: str) -> str:
    """Wait for a flow run to end and return the name of its state."""
    for _ in range(600):
        state = httpx.get(f"{api}/flow_runs/{run_id}").json()["state"]
        if state and state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            return str(state["name"])
        time.sleep(0.2)
    raise AssertionError("the run did not end in two minutes")


def _task_states(httpx, api: str, run_id: str) -> dict[str, str]:
    """Return the states of a run's task runs by name, once the server has recorded the end of each."""
    query = {"flow_runs": {"id": {"any_": [run_id]}}}
    for _ in range(300):
        runs = posted(f"{api}/task_runs/filter", query)
        if runs and all((run["state"] or {}).get("type") in ("COMPLETED", "FAILED", "CRASHED") for run in runs):
            return {run["name"]: run["state"]["name"] for run in runs}
        time.sleep(0.2)
    raise AssertionError("the server did not record the end of each task run in a minute")
