"""Scopes: what is made from a private source is shared within its scope only; what is public, with all."""

from __future__ import annotations

from typing import Any

import pytest
from chains import Chain
from seven_steps import STEPS

FROM_PARCELS = ["by_zone", "covered", "inside"]


def test_two_scopes_share_nothing_of_private_sources(chain: Chain, right_outputs: dict[str, Any]) -> None:
    mine = chain.run("--scope", "mine").answer
    assert chain.to_compute("--scope", "mine") == []
    assert chain.to_compute("--scope", "yours") == sorted(STEPS)
    assert chain.to_compute() == sorted(STEPS)
    yours = chain.run("--scope", "yours")
    assert yours.computed == sorted(STEPS)
    assert chain.outputs() == right_outputs
    prints = [{entry["fingerprint"] for entry in [*a["steps"], *a["sources"]]} for a in (mine, yours.answer)]
    assert prints[0].isdisjoint(prints[1])

    # Neither sees a checkpoint or a trace of the other: it is as if there were none.
    store = ("--store", chain.store_url)
    for answer, own, other in ((mine, "mine", "yours"), (yours.answer, "yours", "mine")):
        for entry in answer["steps"]:
            shown = chain.command("show", entry["fingerprint"], *store, "--scope", own)
            assert entry["op"] in shown
        for fingerprint in (answer["steps"][0]["fingerprint"], answer["sources"][0]["fingerprint"]):
            chain.command("show", fingerprint, *store, "--scope", other, code=3)
            chain.command("show", fingerprint, *store, code=3)
        assert answer["run_id"] in chain.command("trace", answer["run_id"], *store, "--scope", own)
        chain.command("trace", answer["run_id"], *store, "--scope", other, code=3)
        chain.command("trace", answer["run_id"], *store, code=3)


def test_public_sources_are_shared_by_all(folder_chain: Chain) -> None:
    for source in folder_chain.values["sources"].values():
        source["public"] = True
    folder_chain.run("--scope", "mine")
    assert folder_chain.to_compute("--scope", "yours") == []
    yours = folder_chain.run("--scope", "yours")
    assert yours.log == []
    shown = folder_chain.command("show", yours.answer["steps"][0]["fingerprint"], "--store", folder_chain.store_url)
    assert "reproject" in shown


def test_one_private_source_makes_private_what_is_made_from_it(folder_chain: Chain) -> None:
    for name in ("sites", "districts"):
        folder_chain.values["sources"][name]["public"] = True
    folder_chain.run("--scope", "mine")
    assert folder_chain.to_compute("--scope", "yours") == FROM_PARCELS
    assert folder_chain.run("--scope", "yours").computed == FROM_PARCELS


def test_a_source_that_names_its_scope_is_in_that_scope_whoever_runs_the_plan(folder_chain: Chain) -> None:
    for source in folder_chain.values["sources"].values():
        source["scope"] = "survey"
    ended = folder_chain.run("--scope", "survey")
    assert folder_chain.to_compute("--scope", "survey") == []
    fingerprint = ended.answer["steps"][0]["fingerprint"]
    store = ("--store", folder_chain.store_url)
    folder_chain.command("show", fingerprint, *store, "--scope", "survey")
    folder_chain.command("show", fingerprint, *store, code=3)


@pytest.mark.parametrize("scope", ["a/b", "ä ö", "..", "a" * 200])
def test_a_scope_may_be_any_text(finished: Chain, scope: str) -> None:
    assert finished.to_compute("--scope", scope) == sorted(STEPS)


def test_the_decision_of_one_scope_is_not_told_to_another(finished: Chain) -> None:
    finished.step("reach")["params"]["distance"] = 1234.0
    theirs = finished.status("--scope", "yours")
    told = [reason["before"] for step in theirs["steps"] for reason in step.get("because", [])]
    assert set(told) == {None}
