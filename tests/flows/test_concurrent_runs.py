"""Two runs at once on one store: each step is computed once, whoever does it."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

from chains import Chain
from seven_steps import STEPS


def test_two_runs_of_one_chain_compute_each_step_once(chain: Chain, right_outputs: dict[str, Any]) -> None:
    other_folder = chain.path("../other")
    shutil.copytree(chain.path("data"), other_folder / "data")
    meeting = chain.path("meeting")
    meeting.mkdir()
    # Both have decided that everything is to be computed before either begins; the expensive step takes its time.
    interference: list[Any] = [
        ("meet", {"folder": str(meeting), "parties": 2, "point": "decision"}),
        ("slow_step", {"step": "area", "seconds": 0.5}),
    ]
    both = [chain.start(interference=interference, folder=folder) for folder in (chain.folder, other_folder)]
    ended = [run.wait() for run in both]
    assert [run.code for run in ended] == [0, 0], [run.stderr for run in ended]
    assert sorted(ended[0].computed + ended[1].computed) == sorted(STEPS)
    for name in STEPS:
        assert sorted(run.outcomes()[name] for run in ended) == ["computed", "reused"], name
    told = [{step["name"]: (step["fingerprint"], step["ref"]) for step in run.answer["steps"]} for run in ended]
    assert told[0] == told[1]
    assert chain.outputs() == right_outputs
    assert chain.outputs(other_folder) == right_outputs
    # The one that waited said for whom.
    traces = [chain.command("trace", run.answer["run_id"], "--store", chain.store_url, "--json") for run in ended]
    waits = [n["notice"] for trace in traces for n in json.loads(trace)["notices"] if "waits" in n["notice"]]
    ids = [run.answer["run_id"] for run in ended]
    assert any(run_id in text for text in waits for run_id in ids)


def test_two_runs_of_one_plan_in_one_folder_write_each_output_once(
    folder_chain: Chain, right_outputs: dict[str, Any]
) -> None:
    meeting = folder_chain.path("meeting")
    meeting.mkdir()
    interference: list[Any] = [("meet", {"folder": str(meeting), "parties": 2, "point": "decision"})]
    ended = [run.wait() for run in [folder_chain.start(interference=interference) for _ in range(2)]]
    assert [run.code for run in ended] == [0, 0], [run.stderr for run in ended]
    assert sorted(ended[0].computed + ended[1].computed) == sorted(STEPS)
    assert sorted(ended[0].did("publish") + ended[1].did("publish")) == ["by_zone", "hulls"]
    assert folder_chain.outputs() == right_outputs


def test_a_run_that_waits_takes_over_from_one_that_dies(folder_chain: Chain, right_outputs: dict[str, Any]) -> None:
    first = folder_chain.start(interference=[("slow_step", {"step": "reach", "seconds": 60})])
    end = time.monotonic() + 30
    while not list(folder_chain.store.objects.list("leases/")) and time.monotonic() < end:
        time.sleep(0.02)
    while folder_chain.committed() != ["sites_m"] and time.monotonic() < end:
        time.sleep(0.02)
    second = folder_chain.start()
    time.sleep(1.0)  # it waits for the first by now, or finds the lease of a dead one: both must do
    first.kill()
    assert first.wait().code == -9
    ended = second.wait()
    assert ended.code == 0, ended.stderr
    assert ended.computed == sorted(set(STEPS) - {"sites_m"})
    assert folder_chain.outputs() == right_outputs


def test_the_same_step_twice_in_one_plan_is_computed_once(folder_chain: Chain) -> None:
    twin = {**folder_chain.step("reach"), "name": "reach_again"}
    folder_chain.values["steps"].insert(2, twin)
    folder_chain.step("hulls")["inputs"] = "reach_again"
    ended = folder_chain.run()
    assert sorted(n for n in ended.computed if n.startswith("reach")) in (["reach"], ["reach_again"])
    assert ended.outcomes()["reach"] in ("computed", "reused")
    assert len(ended.computed) == len(STEPS)
