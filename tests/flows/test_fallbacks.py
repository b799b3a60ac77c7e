"""Fallbacks: another operation in the place of a step that failed, told wherever its result goes; and sources whose
version before answers when the present one cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chains import Chain

from geocairn.plan.check import graph_of
from geocairn.plan.complaint import PlanError

BECAUSE = "the whole is enough for the report"
TELLS = f"step by_zone: made by its fallback dissolve in place of dissolve: {BECAUSE}"


def with_fallback(chain: Chain, **changes: Any) -> None:
    """Let the last step but one fail (it names a column that is not there), with a fallback that does not."""
    chain.step("by_zone")["params"] = {"by": ["zoone"]}
    chain.step("by_zone")["fallback"] = {"op": "dissolve", "because": BECAUSE, **changes}


def test_a_granted_fallback_takes_the_place_and_is_told(chain: Chain) -> None:
    with_fallback(chain, granted=True)
    answer = chain.run().answer
    assert answer["status"] == "completed"
    assert answer["caveats"] == [TELLS]
    (step,) = [step for step in answer["steps"] if step["name"] == "by_zone"]
    assert (step["outcome"], step["fallback_for"]) == ("computed", "dissolve")
    assert [attempt["class"] for attempt in step["attempts"]] == ["input"]
    assert answer["outputs"]["by_zone"]["rows"] == 1
    # Again: the exact step is tried again, the fallback's result is there, and is told as before.
    again = chain.run().answer
    assert again["caveats"] == [TELLS]
    (repeated,) = [step for step in again["steps"] if step["name"] == "by_zone"]
    assert (repeated["outcome"], repeated["fingerprint"]) == ("reused", step["fingerprint"])
    trace = json.loads(chain.command("trace", again["run_id"], "--store", chain.store_url, "--json"))
    assert trace["counts"]["by_zone"]["fallbacks"] == 1
    # The same operation asked for by itself is another result, without a caveat.
    chain.values["steps"][-1] = {"name": "by_zone", "op": "dissolve", "inputs": "inside"}
    exact = chain.run().answer
    assert exact["caveats"] == []
    (asked,) = [step for step in exact["steps"] if step["name"] == "by_zone"]
    assert (asked["outcome"], asked["fingerprint"] == step["fingerprint"]) == ("computed", False)


def test_what_is_made_from_a_fallback_tells_it_too(folder_chain: Chain) -> None:
    with_fallback(folder_chain, granted=True)
    folder_chain.values["steps"].append({"name": "outline", "op": "convex_hull", "inputs": "by_zone"})
    folder_chain.values["outputs"].append({"from": "outline", "uri": "out/outline.parquet"})
    assert folder_chain.run().answer["caveats"] == [TELLS]
    lineage = folder_chain.path("out/by_zone.gpkg.lineage.json").read_text()
    assert BECAUSE in lineage


def test_a_fallback_that_the_plan_does_not_grant_waits_for_a_person(folder_chain: Chain) -> None:
    with_fallback(folder_chain)
    ended = folder_chain.run(code=3)
    failure = ended.answer["failure"]
    assert failure["fallback"]["because"] == BECAUSE
    command = failure["fallback"]["go_on"].split()
    assert command[:2] == ["geocairn", "run"]
    assert command[command.index("--accept-fallback") + 1] == "by_zone"
    answer = folder_chain.run("--accept-fallback", "by_zone").answer
    assert answer["caveats"] == [TELLS]
    outcomes = {step["name"]: step["outcome"] for step in answer["steps"]}
    assert set(outcomes.values()) == {"reused", "computed"}
    assert [name for name, outcome in outcomes.items() if outcome == "computed"] == ["by_zone"]
    # The word counted for that run alone.
    assert folder_chain.run(code=3).answer["status"] == "needs_input"
    assert (
        "there is no step 'hulls' with a fallback to accept"
        in folder_chain.run("--accept-fallback", "hulls", code=2).stderr
    )


def test_a_fallback_is_not_taken_for_an_outage_or_an_error_in_code(folder_chain: Chain) -> None:
    folder_chain.step("by_zone")["fallback"] = {"op": "dissolve", "because": BECAUSE, "granted": True}
    for error, code in (("TransientFailure", 4), ("ZeroDivisionError", 1)):
        interference: list[Any] = [("quick_retries", {}), ("fail_step", {"step": "by_zone", "error": error})]
        ended = folder_chain.run(code=code, interference=interference)
        assert "by_zone" not in ended.answer["outputs"]
        assert ended.answer["caveats"] == []


def test_a_fallback_is_checked_with_the_plan() -> None:
    values: dict[str, Any] = {
        "name": "checked",
        "sources": {"a": {"uri": "a.gpkg"}},
        "steps": [
            {
                "name": "near",
                "op": "buffer",
                "inputs": "a",
                "params": {"distance": 5},
                "fallback": {"op": "bufer", "params": {}, "because": "it will do"},
            },
            {
                "name": "far",
                "op": "buffer",
                "inputs": "a",
                "params": {"distance": 5},
                "fallback": {"op": "simplify", "params": {"tolerence": 5}, "because": ""},
            },
            {
                "name": "wide",
                "op": "buffer",
                "inputs": "a",
                "params": {"distance": 5},
                "fallback": {"op": "simplify", "params": {"tolerence": 5}, "inputs": "b", "because": "it will do"},
            },
            {
                "name": "out",
                "op": "buffer",
                "inputs": "a",
                "params": {"distance": 5},
                "fallback": {"op": "read_layer", "params": {"uri": "b.gpkg"}, "because": "it will do"},
            },
        ],
    }
    with pytest.raises(PlanError) as found:
        graph_of(values)
    told = str(found.value)
    for text in ("'bufer'", "because", "'tolerence'", "'b'", "a fallback computes"):
        assert text in told
    assert len(found.value.complaints) == 6


# A source whose version before may answer


def spoil(chain: Chain) -> None:
    path = chain.path("data/districts.gpkg")
    path.write_bytes(path.read_bytes()[:5000])


def test_the_version_before_answers_where_the_plan_allows_it(folder_chain: Chain) -> None:
    folder_chain.values["sources"]["districts"]["allow_older"] = True
    first = folder_chain.run().answer
    spoil(folder_chain)
    answer = folder_chain.run().answer
    assert answer["status"] == "completed"
    (caveat,) = answer["caveats"]
    assert caveat.startswith("source districts: answered from its version ")
    assert "since the present one cannot be read" in caveat
    assert {step["fingerprint"] for step in answer["steps"]} == {step["fingerprint"] for step in first["steps"]}
    folder_chain.path("data/districts.gpkg").unlink()
    assert len(folder_chain.run().answer["caveats"]) == 1
    # Where something has to be computed from it, the version before is of no use, and the failure is told.
    folder_chain.step("inside")["on_invalid"] = "repair"
    ended = folder_chain.run(code=3)
    assert "districts" in ended.answer["failure"]["message"]


def test_the_version_before_of_another_place_does_not_answer(folder_chain: Chain) -> None:
    folder_chain.values["sources"]["districts"]["allow_older"] = True
    folder_chain.run()
    folder_chain.values["sources"]["districts"]["uri"] = "data/districts-2025.gpkg"
    assert folder_chain.run(code=None).code in (2, 3)


def test_who_may_not_read_a_source_is_not_answered_from_its_version_before(folder_chain: Chain) -> None:
    from geocairn.decide import decide
    from geocairn.failure import FatalFailure, InputFailure, TransientFailure
    from geocairn.sources.reach import Reach
    from geocairn.stores.traces import read_decision
    from geocairn.workspace import Workspace

    folder_chain.values["sources"]["districts"]["allow_older"] = True
    folder_chain.run()
    folder_chain.monkeypatch.chdir(folder_chain.folder)
    workspace = Workspace(
        folder_chain.store, "default", folder_chain.folder, None, reach=Reach.local(folder_chain.folder)
    )
    previous = read_decision(workspace.store, "default", "seven-steps")
    graph = graph_of(folder_chain.values)
    for error in (InputFailure("half written"), TransientFailure("busy")):
        decided = decide(graph, workspace, previous=previous, unreadable={"districts": error})
        assert decided.verdicts["districts"].older is error
    with pytest.raises(FatalFailure):
        decide(graph, workspace, previous=previous, unreadable={"districts": FatalFailure("access denied")})


def test_status_tells_that_a_source_is_not_the_present_one(folder_chain: Chain) -> None:
    folder_chain.values["sources"]["districts"]["allow_older"] = True
    folder_chain.run()
    folder_chain.path("data/districts.gpkg").unlink()
    assert "answered from its version" in folder_chain.command("status", "plan.json", "--store", folder_chain.store_url)


def test_a_reused_result_that_fails_an_expectation_falls_back_too(folder_chain: Chain) -> None:
    folder_chain.run()
    step = folder_chain.step("by_zone")
    step["expect"] = {"max_rows": 1}
    step["fallback"] = {"op": "dissolve", "because": BECAUSE}
    failure = folder_chain.run(code=3).answer["failure"]
    assert failure["fallback"]["go_on"].count("--accept-fallback") == 1
    answer = folder_chain.run("--accept-fallback", "by_zone").answer
    assert (answer["status"], answer["caveats"]) == ("completed", [TELLS])


def test_the_version_before_does_not_answer_where_the_plan_does_not_say_so(folder_chain: Chain) -> None:
    folder_chain.run()
    spoil(folder_chain)
    ended = folder_chain.run(code=None)
    assert ended.code in (2, 3)
