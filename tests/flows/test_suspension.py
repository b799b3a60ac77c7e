"""A served run that meets an input failure: it is suspended, asks a person in the Prefect UI, and goes on.

One server, one process that serves the flow, and two runs of it side by side: one is answered, of the other nobody
takes notice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served_flow import Served, serving
from seven_steps import plan

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


@pytest.fixture
def served(prefect_api: str, tmp_path: Path, made_data: Path) -> Iterator[Served]:
    _save_policies(prefect_api)
    with serving(prefect_api, tmp_path, GEOCAIRN_ALLOW=f"{tmp_path} {made_data}") as served:
        yield served


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
