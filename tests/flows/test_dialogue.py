"""What a resumed run makes of a person's answers, without a server: Prefect's memory of them is a mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from geopandas import GeoDataFrame

from geocairn.failure import InputFailure
from geocairn.flows import suspension
from geocairn.flows.suspension import Dialogue
from geocairn.operations.contract import operation
from geocairn.operations.registry import operations
from geocairn.plan.check import check, graph_of
from geocairn.plan.document import Document, document_of
from geocairn.policy import RecoveryPolicy
from geocairn.replanning.diagnosis import present_parameters
from geocairn.step_call import Run
from geocairn.stores.memory import HandOver
from geocairn.workspace import open_workspace


class Form:
    """A type of which there is no JSON Schema, so that it is asked for as JSON text."""


@operation(version=1)
def shaped(layer: GeoDataFrame, *, distance: float, form: Form | None = None) -> GeoDataFrame:
    """Take a parameter that a form cannot hold."""
    return layer


def plan() -> Document:
    return document_of(
        {
            "name": "small",
            "sources": {"sites": {"uri": "sites.gpkg"}},
            "steps": [{"name": "reach", "op": "buffer", "inputs": "sites", "params": {"distance": 10}}],
        }
    )


def question(number: int, **more: Any) -> dict[str, Any]:
    shown = {**present_parameters(graph_of(plan().values).nodes["reach"]), **more.pop("shown", {})}
    asked = {"number": number, "node": "reach", "operation": "buffer", "parameters": shown, "about": "", "message": "m"}
    return {**asked, "versions": {}, **more}


class Suspended(Exception):
    """The run was suspended."""


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What lies with the flow run on the server, by key."""
    found: dict[str, Any] = {}

    def suspend(**asked: Any) -> None:
        raise Suspended(asked["wait_for_input"]._description, asked["key"])

    monkeypatch.setattr(suspension, "read_flow_run_input", found.get)
    monkeypatch.setattr(suspension, "create_flow_run_input", found.__setitem__)
    monkeypatch.setattr(suspension, "suspend_flow_run", suspend)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    policy = RecoveryPolicy(replans=2)
    return Run("a-run", open_workspace(str(tmp_path / "store"), base=tmp_path), HandOver(), policy)


def answer(stored: dict[str, Any], number: int, asked: dict[str, Any], given: dict[str, Any] | None) -> None:
    stored[f"geocairn-asked-{number}"] = asked
    if given is not None:
        stored[f"suspended-parameters-{number}-response"] = given


def test_a_question_that_nobody_answered_costs_no_round(stored, run):
    answer(stored, 1, question(1), None)  # the run was retried after the time to decide
    answer(stored, 2, question(2), {"distance": 5, "quad_segs": 16})
    dialogue = Dialogue(run, check)
    replanning = dialogue.begin(plan())
    assert (dialogue.asked, replanning.rounds) == (2, 1)
    assert replanning.document.values["steps"][0]["params"] == {"distance": 5}  # and not what was shown
    assert replanning.caveats == ["step reach ran with distance=5.0, given by a person in this run"]


def test_later_answers_go_on_from_earlier_ones(stored, run):
    answer(stored, 1, question(1), {"distance": 5})
    answer(stored, 2, question(2, shown={"distance": 5.0}), {"quad_segs": 8})
    replanning = Dialogue(run, check).begin(plan())
    assert replanning.document.values["steps"][0]["params"] == {"distance": 5, "quad_segs": 8}
    assert replanning.caveats == ["step reach ran with distance=5.0, quad_segs=8, given by a person in this run"]
    assert replanning.first == plan().values


def test_a_wrong_answer_is_asked_again_and_then_ends_it(stored, run):
    answer(stored, 1, question(1), {"quad_segs": "many"})
    with pytest.raises(Suspended) as asked:
        Dialogue(run, check).begin(plan())
    description, key = asked.value.args
    assert "what was given is wrong" in description
    assert "params.quad" in description
    assert key == "parameters-2"
    assert stored["geocairn-asked-2"]["parameters"]["quad_segs"] == "many"
    stored["suspended-parameters-2-response"] = {"quad_segs": "more"}
    with pytest.raises(InputFailure, match="the 2 rounds of replanning that the policy allows are spent"):
        Dialogue(run, check).begin(plan())


def test_text_that_is_no_json_is_asked_again(stored, run, monkeypatch):
    monkeypatch.setitem(operations._found, "shaped", shaped)
    wrong = question(1, operation="shaped", parameters={"distance": 10.0, "form": None}, as_text=["form"])
    answer(stored, 1, wrong, {"form": "[1, 2"})
    with pytest.raises(Suspended, match="is asked for as JSON"):
        Dialogue(run, check).begin(plan())


def test_a_fallback_is_accepted_by_its_field_alone(stored, run):
    answer(stored, 1, question(1, fallback="clip, because it will do"), {"distance": 10.0, "accept_fallback": True})
    dialogue = Dialogue(run, check)
    assert dialogue.accepted == ["reach"]
    assert dialogue.begin(plan()).caveats == []  # the fallback's own record tells of it


def test_a_step_that_left_the_plan_takes_its_answer_along(stored, run):
    answer(stored, 1, question(1, node="gone"), {"distance": 5})
    replanning = Dialogue(run, check).begin(plan())
    assert replanning.document.values == plan().values
    assert any(notice["step"] == "gone" for notice in run.notices)
