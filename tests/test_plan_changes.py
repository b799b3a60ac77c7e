"""What differs between two plans, and what a planner returns."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from geocairn.plan.check import graph_of
from geocairn.plan.complaint import PlanError
from geocairn.plan.model import Plan
from geocairn.replanning.changes import changes
from geocairn.replanning.rounds import proposed, told_parameters, with_parameters

PLAN: dict[str, Any] = {
    "name": "small",
    "sources": {"sites": {"uri": "sites.gpkg"}},
    "steps": [
        {"name": "reach", "op": "buffer", "inputs": "sites", "params": {"distance": 10}},
        {"name": "area", "op": "dissolve", "inputs": "reach", "expect": {"min_rows": 1}},
    ],
    "outputs": [{"from": "area", "uri": "area.gpkg"}],
}


def plan() -> dict[str, Any]:
    return copy.deepcopy(PLAN)


Edit = Callable[[dict[str, Any]], Any]

CASES: list[tuple[str, Edit, str | None, bool]] = [
    ("float written as such", lambda p: p["steps"][0]["params"].update(distance=10.0), None, True),
    ("default written out", lambda p: p["steps"][0]["params"].update(quad_segs=16), None, True),
    ("order of the fields", lambda p: p.update(sources=p.pop("sources")), None, True),
    (
        "parameter",
        lambda p: p["steps"][0]["params"].update(distance=5),
        "changed reach.distance from 10.0 to 5.0",
        True,
    ),
    ("input", lambda p: p["steps"][1].update(inputs="sites"), "changed the inputs of area from", True),
    ("operation", lambda p: p["steps"][0].update(op="centroid", params={}), "replaced step reach (buffer) by", True),
    ("expectation", lambda p: p["steps"][1].pop("expect"), "changed area.expect from", True),
    ("repair", lambda p: p["steps"][0].update(on_invalid="repair"), "changed reach.on_invalid from fail", True),
    ("source", lambda p: p["sources"]["sites"].update(crs=3857), "changed sites.crs from nothing to EPSG:3857", True),
    ("output", lambda p: p["outputs"][0].update(uri="a.fgb"), "changed area.uri from area.gpkg to a.fgb", True),
    (
        "new step",
        lambda p: p["steps"].append({"name": "hull", "op": "convex_hull", "inputs": "area"}),
        "added step hull (convex_hull)",
        True,
    ),
    ("no output", lambda p: p["outputs"].clear(), "removed output area", True),
    ("retries", lambda p: p["steps"][0].update(retries=9), "changed reach.retries from nothing to 9", False),
    ("description", lambda p: p["steps"][0].update(description="x"), "changed reach.description", False),
    ("name of the plan", lambda p: p.update(name="other"), "changed the plan's name from small to other", False),
]


@pytest.mark.parametrize(("edit", "text", "meaningful"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_change_is_told_once_in_words(edit, text, meaningful):
    changed = plan()
    edit(changed)
    found = changes(graph_of(plan()), graph_of(changed))
    if text is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].text.startswith(text)
        assert found[0].meaningful == meaningful


@pytest.mark.parametrize(
    "returned",
    ["another plan", [1], {"name": {1, 2}}, {"name": math.nan}, 7],
    ids=["text", "list", "a set in it", "not a number in it", "number"],
)
def test_what_is_no_plan_is_complained_of(returned):
    with pytest.raises(PlanError, match="a plan"):
        proposed(returned, "the planner's plan")


def test_a_plan_may_be_returned_as_a_model():
    document = proposed(Plan.model_validate(plan()), "the planner's plan")
    assert changes(graph_of(plan()), graph_of(document.values)) == []


NODES = [
    ("reach", {"distance": 5}, "step reach ran with distance=5.0, given by a person in this run"),
    ("sites", {"crs": "EPSG:3857"}, "source sites was read with crs=EPSG:3857, given by a person in this run"),
    (
        "output:area",
        {"layer_name": "all"},
        "output area was written with layer_name=all, given by a person in this run",
    ),
    ("reach", {"distance": 10}, None),
]


@pytest.mark.parametrize(("node", "given", "told"), NODES, ids=["step", "source", "output", "the same value"])
def test_a_persons_parameters_reach_the_plan_and_are_told(node, given, told):
    from geocairn.replanning.diagnosis import present_parameters

    before = graph_of(plan()).nodes[node]
    changed = with_parameters(plan(), node, given)
    assert changed is not None
    assert told_parameters(present_parameters(before), graph_of(changed).nodes[node]) == told


def test_parameters_of_what_is_gone_from_the_plan_change_nothing():
    assert with_parameters(plan(), "hulls", {"distance": 5}) is None
    assert with_parameters(plan(), "output:hulls", {"uri": "x.gpkg"}) is None
