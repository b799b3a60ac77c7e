"""Plans of all shapes, and what becomes of steps by their checkpoint policy and retention."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from chains import Chain
from seven_steps import STEPS

from geocairn.checkpoint import parse_time


def under_runs(chain: Chain) -> list[str]:
    return [info.key for info in chain.store.objects.list("runs/")]


def test_steps_that_are_never_stored(chain: Chain, right_outputs: dict[str, Any]) -> None:
    for name in ("reach", "covered"):
        chain.step(name)["checkpoint"] = "never"
    first = chain.run()
    assert first.computed == sorted(STEPS)
    assert chain.outputs() == right_outputs
    assert chain.committed() == sorted(set(STEPS) - {"reach", "covered"})
    assert under_runs(chain) == []
    # What needs nothing of them does not run them.
    assert chain.to_compute() == []
    assert chain.run().log == []
    # One that must run runs them again, for itself alone.
    assert chain.to_compute("--set", "by_zone.aggregates={value: max}") == ["by_zone"]
    assert chain.to_compute("--set", "covered.how=difference") == ["by_zone", "covered", "inside"]
    chain.step("hulls")["op"] = "centroid"
    ended = chain.run()
    assert ended.computed == ["hulls", "reach"]
    assert under_runs(chain) == []


def test_automatic_checkpoints_keep_what_was_dear(folder_chain: Chain, right_outputs: dict[str, Any]) -> None:
    for name in STEPS:
        folder_chain.step(name)["checkpoint"] = "auto"
    folder_chain.run(interference=[("slow_operation", {"operation": "overlay", "seconds": 0.6})])
    assert folder_chain.outputs() == right_outputs
    assert folder_chain.committed() == ["covered"]
    assert under_runs(folder_chain) == []
    assert folder_chain.run().log == []
    ended = folder_chain.run("--set", "by_zone.aggregates={value: max}")
    assert ended.computed == ["by_zone", "inside"]


def test_retention_is_in_the_record(folder_chain: Chain) -> None:
    stated = {"sites_m": "pinned", "reach": "12h", "area": "90s", "covered": "2w"}
    for name, retention in stated.items():
        folder_chain.step(name)["retention"] = retention
    folder_chain.run()
    seconds = {"reach": 43_200.0, "area": 90.0, "covered": 1_209_600.0, "hulls": 604_800.0}
    for name, print_ in folder_chain.fingerprints().items():
        checkpoint = folder_chain.store.look_up(print_).found
        assert checkpoint is not None
        if name == "sites_m":
            assert checkpoint.expires is None
        elif name in seconds:
            assert checkpoint.expires is not None
            lasts = parse_time(checkpoint.expires) - parse_time(checkpoint.created)
            assert lasts == pytest.approx(seconds[name], abs=1)
    assert dt.datetime.now(dt.UTC).timestamp() - parse_time(checkpoint.created) < 600


@pytest.mark.parametrize("policy", ["always", "never"])
def test_a_plan_without_outputs_keeps_its_last_steps(folder_chain: Chain, policy: str) -> None:
    folder_chain.values["outputs"] = []
    for name in ("hulls", "by_zone"):
        folder_chain.step(name)["checkpoint"] = policy
    ended = folder_chain.run()
    assert ended.computed == sorted(STEPS)
    assert sorted(ended.answer["outputs"]) == ["by_zone", "hulls"]
    for name, output in ended.answer["outputs"].items():
        assert output["fingerprint"] == folder_chain.fingerprints()[name]
        assert output["rows"] > 0
        assert folder_chain.store.objects.head(output["uri"]) is not None
    assert folder_chain.run().log == []


def test_a_diamond_computes_the_shared_step_once(folder_chain: Chain) -> None:
    folder_chain.values["steps"] = [
        *folder_chain.values["steps"][:2],
        {"name": "left", "op": "convex_hull", "inputs": "reach"},
        {"name": "right", "op": "simplify", "inputs": "reach", "params": {"tolerance": 50}},
        {
            "name": "both",
            "op": "overlay",
            "inputs": {"left": "left", "right": "right"},
            "params": {"how": "difference"},
            "allow_empty": True,
        },
    ]
    folder_chain.values["sources"] = {"sites": folder_chain.values["sources"]["sites"]}
    folder_chain.values["outputs"] = [{"from": "both", "uri": "out/both.parquet"}]
    assert folder_chain.run().computed == ["both", "left", "reach", "right", "sites_m"]
    assert folder_chain.run("--set", "right.tolerance=60").computed == ["both", "right"]


def test_a_source_that_is_published_directly(folder_chain: Chain) -> None:
    folder_chain.values["steps"] = []
    folder_chain.values["outputs"] = [{"from": "parcels", "uri": "out/parcels.parquet"}]
    ended = folder_chain.run()
    assert ended.did("publish") == ["parcels"]
    assert "districts.gpkg" not in ended.did("read")  # it leads to no output
    assert ended.answer["outputs"]["parcels"]["rows"] == 36
    assert folder_chain.run().log == []


def test_reading_and_writing_written_as_steps(folder_chain: Chain) -> None:
    folder_chain.values = {
        "name": "as-steps",
        "steps": [
            {"name": "sites", "op": "read_layer", "params": {"uri": "data/sites.csv", "crs": "EPSG:4326"}},
            {"name": "sites_m", "op": "reproject", "inputs": "sites", "params": {"crs": "EPSG:32633"}},
            {"name": "write", "op": "write_layer", "inputs": "sites_m", "params": {"uri": "out/sites.gpkg"}},
        ],
    }
    ended = folder_chain.run()
    assert ended.computed == ["sites_m"]
    assert ended.did("publish") == ["write"]
    assert len(folder_chain.outputs()["sites.gpkg"][2]) == 4
    assert folder_chain.run().log == []
    folder_chain.path("out/sites.gpkg").unlink()
    again = folder_chain.run()
    assert again.did("publish") == ["write"]
    assert again.computed == []
    # Expectations of such steps hold as those of others do, fresh and reused.
    for name in ("sites", "write"):
        folder_chain.step(name)["expect"] = {"rows": 5}
        reused = folder_chain.run(code=3)
        assert (reused.log, reused.answer["failure"]["step"]) == ([], name)
        del folder_chain.step(name)["expect"]
    folder_chain.step("write")["expect"] = {"rows": 5}
    folder_chain.path("out/sites.gpkg").unlink()
    assert folder_chain.run(code=3).answer["failure"]["step"] == "write"
    assert not folder_chain.path("out/sites.gpkg").exists()


def test_a_failed_branch_does_not_stop_the_other(folder_chain: Chain) -> None:
    ended = folder_chain.run(code=1, interference=[("fail_step", {"step": "area", "error": "ZeroDivisionError"})])
    failure = ended.answer["failure"]
    assert (failure["step"], failure["class"], failure["action"]) == ("area", "fatal", "halt")
    assert "no rule knows" in failure["message"]
    assert ended.outcomes()["hulls"] == "computed"
    assert folder_chain.path("out/hulls.parquet").exists()
    assert list(ended.answer["outputs"]) == ["hulls"]
    assert ended.answer["status"] == "halted"
    resumed = folder_chain.run()
    assert resumed.computed == ["area", "by_zone", "covered", "inside"]


def test_a_transient_failure_that_stays_ends_with_its_exit_code(folder_chain: Chain) -> None:
    interference: list[Any] = [("fail_step", {"step": "area", "error": "TransientFailure"}), ("quick_retries", {})]
    folder_chain.step("area")["retries"] = 2
    ended = folder_chain.run(code=4, interference=interference)
    assert ended.answer["failure"]["class"] == "transient"
    attempts = next(step["attempts"] for step in ended.answer["steps"] if step["name"] == "area")
    assert [attempt["class"] for attempt in attempts] == ["transient"] * 3
    assert ended.did("compute").count("area") == 3


def test_status_of_a_thousand_steps(folder_chain: Chain) -> None:
    folder_chain.values = {
        "name": "thousand",
        "sources": {"parcels": {"uri": "data/parcels.shp"}},
        "steps": [
            {
                "name": f"s{number}",
                "op": "simplify",
                "inputs": f"s{number - 1}" if number else "parcels",
                "params": {"tolerance": 1.0},
            }
            for number in range(1000)
        ],
    }
    import time

    started = time.monotonic()
    assert len(folder_chain.to_compute()) == 1000
    assert time.monotonic() - started < 20
