"""A served run that meets an input failure: it is suspended, asks a person in the Prefect UI, and goes on.

One server, one process that serves the flow, and two runs of it side by side: one is answered, of the other nobody
takes notice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect_server import posted
from seven_steps import plan

from geocairn.stores.opening import open_store
from geocairn.stores.traces import read_trace

PATIENT, HASTY = "patient", "hasty"
TIME_TO_DECIDE = 3.0


def asking_plan(folder: Path) -> dict[str, Any]:
    """The chain, with a step that keeps none of the sites."""
    values = plan()
    for source in values["sources"].values():
        source["uri"] = str(folder / source["uri"])
    values["sources"]["idle"] = {"uri": str(folder / "idle.csv"), "crs": "EPSG:4326"}
    values["steps"] = [
        *values["steps"][:2],
        {"name": "chosen", "op": "filter", "inputs": "reach", "params": {"where": "site = 'nowhere'"}},
        {"name": "outline", "op": "dissolve", "inputs": "chosen"},
    ]
    values["outputs"] = [{"from": "outline", "uri": str(folder / "out" / "outline.parquet")}]
    return values


@dataclass
class Served:
    """The server's side of a served flow."""

    api: str
    store: Path
    log: Path
    process: subprocess.Popen[bytes]

    def start(self, values: dict[str, Any], policy: str) -> str:
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
        return httpx.post(f"{self.api}/flow_runs/{run}/resume", json={"run_input": given}).status_code

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


@pytest.fixture
def served(prefect_api: str, tmp_path: Path) -> Iterator[Served]:
    environment = {
        **os.environ,
        "PREFECT_API_URL": prefect_api,
        "GEOCAIRN_STORE": str(tmp_path / "store"),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    log = tmp_path / "served.log"
    with log.open("w") as out:
        command = [sys.executable, str(Path(__file__).with_name("served_chain.py"))]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    try:
        _save_policies(prefect_api)
        yield Served(prefect_api, tmp_path / "store", log, process)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _save_policies(api: str) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from geocairn.blocks import RecoveryPolicyBlock

    with temporary_settings({PREFECT_API_URL: api}):
        RecoveryPolicyBlock().save(PATIENT, overwrite=True)
        RecoveryPolicyBlock(decision_seconds=TIME_TO_DECIDE).save(HASTY, overwrite=True)


@pytest.mark.prefect_server
@pytest.mark.timeout(300)
def test_a_suspended_run_asks_for_parameters_and_goes_on_with_them(served, tmp_path, made_data):
    (tmp_path / "data").symlink_to(made_data)
    (tmp_path / "idle.csv").write_text("x,y\n14,50\n", encoding="utf-8")
    values = asking_plan(tmp_path)
    run = served.start(values, PATIENT)
    other = {**asking_plan(tmp_path), "name": "nobody-answers"}
    other["steps"][0]["params"]["crs"] = "EPSG:25833"  # so that it shares no step with the first
    unanswered = served.start(other, HASTY)

    state = served.wait_for(run, "Suspended")
    form = served.asked(state, run, "schema")
    assert form["properties"]["where"]["default"] == "site = 'nowhere'"
    assert form["properties"]["where"]["type"] == "string"
    description = served.asked(state, run, "description")
    assert "chosen" in description
    assert "the result is empty" in description
    assert "reach" in description  # its input, with what is known of it
    waiting = served.trace(run)
    assert waiting["answer"]["status"] == "needs_input"

    assert served.resume(run, {"where": 7}) == 200  # refused by the form's schema
    assert served.state(run)["name"] == "Suspended"
    assert served.resume(run, {"where": "site ="}) == 201  # passes the schema, and is no filter
    first = state["id"]
    while (state := served.wait_for(run, "Suspended"))["id"] == first:
        time.sleep(0.2)
    assert "what was given is wrong" in served.asked(state, run, "description")
    assert served.asked(state, run, "schema")["properties"]["where"]["default"] == "site ="
    (tmp_path / "idle.csv").write_text("x,y\n14,50\n15,51\n", encoding="utf-8")
    assert served.resume(run, {"where": "site = 's1'"}) == 201
    served.wait_for(run, "Completed")

    assert served.task_states(run) == {
        ("reproject · sites_m", "Completed"): 1,
        ("buffer · reach", "Completed"): 1,
        ("filter · chosen", "Failed"): 1,
        ("reproject · sites_m", "Cached"): 1,
        ("buffer · reach", "Cached"): 1,
        ("filter · chosen", "Completed"): 1,
        ("dissolve · outline", "Completed"): 1,
        ("write_layer · outline", "Completed"): 1,
    }
    trace = served.trace(run)
    assert trace["answer"]["status"] == "completed"
    told = "step chosen ran with where=site = 's1', given by a person in this run"
    assert told in trace["answer"]["caveats"]
    assert trace["first_plan"]["steps"][2]["params"] == {"where": "site = 'nowhere'"}
    assert trace["plan"]["steps"][2]["params"] == {"where": "site = 's1'"}
    assert [entry["given"] for entry in trace["replanning"]] == [{"where": "site ="}, {"where": "site = 's1'"}]
    changed = [notice["notice"] for notice in trace["notices"] if notice["step"] == "idle"]
    assert len(changed) == 1
    assert changed[0].startswith("changed while the run was suspended")
    assert trace["started"] == waiting["started"]
    assert [notice for notice in waiting["notices"] if notice not in trace["notices"]] == []
    assert [attempt["class"] for attempt in trace["attempts"]["chosen"]] == ["input"]

    served.wait_for(unanswered, "Failed")
    given_up = served.trace(unanswered)
    assert given_up["answer"]["status"] == "needs_input"
    assert [good["step"] for good in given_up["answer"]["failure"]["last_good"]] == ["reach"]
    assert served.resume(unanswered, {"where": "site = 's1'"}) == 200  # too late: it stays as it ended
    assert served.state(unanswered)["name"] == "Failed"
