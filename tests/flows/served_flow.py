"""`run_chain` served from a deployment by a process of its own, and the Prefect server's side of its runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prefect_server import posted

from geocairn.stores.opening import open_store
from geocairn.stores.traces import read_trace


@dataclass
class Served:
    """The server's side of a served flow."""

    api: str
    store: Path
    log: Path
    process: subprocess.Popen[bytes]

    def start(self, values: dict[str, Any], policy: str | None = None) -> str:
        deployment = self._wait(self._deployment, "the deployment")
        parameters = {"plan": values, "recovery_policy": policy}
        made = posted(
            f"{self.api}/deployments/{deployment['id']}/create_flow_run",
            json={"parameters": parameters, "state": {"type": "SCHEDULED"}},
        )
        return str(made["id"])

    def _deployment(self) -> dict[str, Any] | None:
        found = httpx.get(f"{self.api}/deployments/name/run-chain/asks")
        return found.json() if found.status_code == 200 else None

    def state(self, run: str) -> dict[str, Any]:
        return httpx.get(f"{self.api}/flow_runs/{run}").json()["state"] or {}

    def wait_for(self, run: str, name: str) -> dict[str, Any]:
        """Wait until a run is in the state of that name, and for a suspended one until its form is there."""

        def reached() -> dict[str, Any] | None:
            state = self.state(run)
            ended = state.get("type") in ("COMPLETED", "FAILED", "CRASHED") and state["name"] != name
            assert not ended, f"{state}\n{self.log.read_text()}"
            if state.get("name") != name:
                return None
            return state if name != "Suspended" or self.asked(state, run, "schema") else None

        return self._wait(reached, f"{name}, the run is {self.state(run).get('name')}")

    def asked(self, state: dict[str, Any], run: str, part: str) -> Any:
        """Return a part of what the UI shows of a suspended run: `schema` or `description`."""
        found = httpx.get(f"{self.api}/flow_runs/{run}/input/{state['state_details']['run_input_keyset'][part]}")
        return found.json() if found.status_code == 200 else None

    def resume(self, run: str, given: dict[str, Any]) -> int:
        for _ in range(30):  # asked again while the server's database is busy, as Prefect's own client does
            answer = httpx.post(f"{self.api}/flow_runs/{run}/resume", json={"run_input": given}, timeout=60)
            if answer.status_code != 503:
                break
            time.sleep(1)
        return answer.status_code

    def task_states(self, run: str) -> Counter[tuple[str, str]]:
        """Return how often a task run of each name ended in each state, once all ends are recorded."""

        def recorded() -> Counter[tuple[str, str]] | None:
            runs = posted(f"{self.api}/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
            # A step whose input failed stays pending, under a name that Prefect made.
            states = [(each["name"], each["state"] or {}) for each in runs if " · " in each["name"]]
            if any(state.get("type") not in ("COMPLETED", "FAILED", "CRASHED") for _, state in states):
                return None
            return Counter((name, state["name"]) for name, state in states if "read_layer" not in name)

        return self._wait(recorded, "the ends of the task runs")

    def trace(self, run: str) -> dict[str, Any]:
        return read_trace(open_store(str(self.store)), run, {"default"})

    def _wait(self, look: Callable[[], Any], what: str) -> Any:
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            found = look()
            if found is not None:
                return found
            time.sleep(0.2)
        raise AssertionError(f"two minutes were not enough for {what}")


@contextmanager
def serving(api: str, folder: Path, **environment: str) -> Iterator[Served]:
    """Serve the flow from `folder`, with its store in it."""
    given = {
        **os.environ,
        "PREFECT_API_URL": api,
        "GEOCAIRN_STORE": str(folder / "store"),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        **environment,
    }
    log = folder / "served.log"
    with log.open("w") as out:
        command = [sys.executable, str(Path(__file__).with_name("served_chain.py"))]
        process = subprocess.Popen(command, cwd=folder, env=given, stdout=out, stderr=out)
    try:
        yield Served(api, folder / "store", log, process)
    finally:
        process.terminate()
        process.wait(timeout=30)
