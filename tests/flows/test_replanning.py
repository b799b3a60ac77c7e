"""An input failure goes to the planner, and the plan that it returns goes on with every valid checkpoint."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from chains import Chain
from forked_runs import Ended
from seven_steps import STEPS
from tiny_planners import install

from geocairn.stores.traces import read_trace

MISSPELT = ["zon"]
WRONG = "by_zone"
"""The step that names a column which its input has not: found when it runs, as the last of seven."""


@pytest.fixture
def planners(tmp_path: Path) -> Path:
    """A folder in which a package with planners is installed."""
    return install(tmp_path / "site")


@pytest.fixture
def wrong_chain(folder_chain: Chain) -> Chain:
    folder_chain.step(WRONG)["params"]["by"] = list(MISSPELT)
    return folder_chain


def replan(chain: Chain, planners: Path, *arguments: str, code: int = 0) -> Ended:
    return chain.run(*arguments, code=code, interference=[("installed", {"folder": str(planners)})])


def trace_of(chain: Chain, ended: Ended) -> dict[str, Any]:
    return read_trace(chain.store, ended.answer["run_id"], {"default"})


def texts(trace: dict[str, Any]) -> str:
    return "\n".join(f"{notice['step']}: {notice['notice']}" for notice in trace["notices"])


def test_the_changed_plan_goes_on_with_every_checkpoint(wrong_chain, planners, right_outputs):
    ended = replan(wrong_chain, planners, "--planner", "mend")
    assert ended.computed == sorted([*STEPS, WRONG])  # each once, and the failed one once more
    assert ended.outcomes() == dict.fromkeys(STEPS, "computed")
    told = 'planner mend changed by_zone.by from ["zon"] to ["zone"]'
    assert told in ended.answer["caveats"]
    assert wrong_chain.outputs() == right_outputs
    trace = trace_of(wrong_chain, ended)
    assert f"by_zone: round 1 of 3: {told}" in texts(trace)
    assert trace["first_plan"]["steps"][-1]["params"]["by"] == MISSPELT
    assert trace["plan"]["steps"][-1]["params"]["by"] == ["zone"]
    assert [entry["round"] for entry in trace["replanning"]] == [1]


def test_the_planner_is_told_what_there_is_to_know(wrong_chain, planners):
    replan(wrong_chain, planners, "--planner", "mend")
    diagnosis = json.loads(wrong_chain.path("diagnosis-1.json").read_text("utf-8"))
    assert (diagnosis["step"], diagnosis["op"], diagnosis["class"], diagnosis["action"]) == (
        *(WRONG, "dissolve"),
        *("input", "replan"),
    )
    assert "zon" in diagnosis["what"]
    assert diagnosis["message"] != diagnosis["what"]  # the place and the remedy stand apart
    assert diagnosis["parameters"]["by"] == MISSPELT
    assert diagnosis["parameters"]["aggregates"] == {"value": ["sum"], "count": ["max"]}
    assert "by" in diagnosis["schema"]["properties"]
    inside = diagnosis["inputs"]["layer"]
    assert inside["name"] == "inside"
    assert {"zone", "value", "count"} <= set(inside["columns"])
    assert inside["crs"] == "EPSG:32633"
    assert inside["rows"] > 0
    assert inside["defects"] == {"invalid": 0, "missing": 0, "empty": 0, "outside_area": 0}
    assert [good["step"] for good in diagnosis["last_good"]] == ["inside"]
    assert [attempt["class"] for attempt in diagnosis["attempts"]] == ["input"]
    assert (diagnosis["round"], diagnosis["rounds_left"], diagnosis["complaints"]) == (1, 2, [])


def test_a_planner_named_in_the_plan_by_its_value_is_found(wrong_chain, planners):
    before = wrong_chain.fingerprints()
    wrong_chain.values["planner"] = "tiny_planners:mend"
    ended = replan(wrong_chain, planners)
    assert ended.answer["caveats"][0].startswith("planner tiny_planners:mend changed")
    del wrong_chain.values["planner"]
    assert wrong_chain.fingerprints() == before  # the planner is no part of any result


def test_the_command_line_wins_over_the_plan(wrong_chain, planners):
    wrong_chain.values["planner"] = "gone"
    ended = replan(wrong_chain, planners, "--planner", "mend")
    assert ended.answer["status"] == "completed"


def test_what_an_earlier_step_is_changed_to_costs_its_tail(wrong_chain, planners):
    ended = replan(wrong_chain, planners, "--planner", "halve")
    tail = ["reach", "area", "covered", "inside", WRONG, "middles"]
    assert ended.computed == sorted([*STEPS, *tail])
    caveats = "\n".join(ended.answer["caveats"])
    for change in ("changed reach.distance from 900.0 to 450.0", "removed step hulls", "added step middles (centroid)"):
        assert f"planner halve {change}" in caveats


def test_a_wrong_plan_costs_a_round_and_comes_back_with_the_complaints(wrong_chain, planners):
    ended = replan(wrong_chain, planners, "--planner", "learn")
    assert ended.computed == sorted([*STEPS, WRONG])  # the wrong plan computed nothing
    told = json.loads(wrong_chain.path("diagnosis-2.json").read_text("utf-8"))
    assert (told["round"], told["rounds_left"]) == (2, 1)
    assert any("'buy'" in complaint and "'by'" in complaint for complaint in told["complaints"])
    assert "returned a plan that is wrong" in texts(trace_of(wrong_chain, ended))


ENDS = [
    ("same", "returned the plan unchanged", 1),
    ("silent", "planner silent has no other plan", 1),
    ("broken", 'planner broken failed: KeyError: "the planner\'s own mistake" (class fatal', 1),
    ("stubborn", "the 3 rounds of replanning that the policy allows are spent", 4),
    ("talk", "not str", 1),
]


@pytest.mark.parametrize(("planner", "reason", "attempts"), ENDS, ids=[planner for planner, *_ in ENDS])
def test_what_ends_it_leaves_the_input_failure_and_says_why(wrong_chain, planners, planner, reason, attempts):
    ended = replan(wrong_chain, planners, "--planner", planner, code=3)
    answer = ended.answer
    assert answer["status"] == "needs_input"
    assert answer["failure"]["step"] == WRONG
    assert reason in answer["failure"]["replanning"]
    assert ended.computed.count(WRONG) == attempts
    assert ended.computed.count("inside") == 1
    assert reason in texts(trace_of(wrong_chain, ended))
    assert f"--planner {planner}" in answer["failure"]["go_on"]


@pytest.mark.parametrize("named", ["mendd", "never_declared:plan", "never_declared", "os:getcwd"])
def test_a_planner_that_is_not_declared_is_refused_before_anything_runs(wrong_chain, planners, named):
    wrong_chain.values["planner"] = named
    ended = replan(wrong_chain, planners, code=2)
    assert named in ended.stderr
    assert "mend" in ended.stderr  # the ones that there are
    assert ended.log == []
    stated = replan(wrong_chain, planners, "--planner", named, code=2)
    assert f"--planner: there is no planner {named!r}" in stated.stderr
    assert not wrong_chain.path("imported").exists()


def test_the_printed_command_goes_on_with_a_right_value(wrong_chain):
    ended = wrong_chain.run("--set", "reach.distance=900", code=3)
    go_on = ended.answer["failure"]["go_on"]
    words = shlex.split(go_on)
    assert words[:3] == ["geocairn", "run", "plan.json"]
    assert 'by_zone.by=["zon"]' in words
    assert "reach.distance=900" in words
    right = [word.replace('["zon"]', '["zone"]') for word in words[3:]]
    assert right.count("--store") == 1
    again = wrong_chain.runs.start(
        ["run", "plan.json", *right, "--json"], wrong_chain.folder, environment=wrong_chain.environment
    ).wait()
    assert again.code == 0, again.stderr
    assert again.computed == [WRONG]


def test_a_person_is_told_the_command_too(wrong_chain):
    wrong_chain.run(code=3)
    ended = wrong_chain.runs.start(
        ["run", "plan.json", "--store", wrong_chain.store_url], wrong_chain.folder, environment=wrong_chain.environment
    ).wait()
    assert ended.code == 3
    assert f"""geocairn run plan.json --set 'by_zone.by=["zon"]' --store {wrong_chain.store_url}""" in ended.stderr
