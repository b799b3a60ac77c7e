"""Runs that are killed, at each step and at each point of a commit, and what the next run makes of it.

In the suite each kind of store sees one long story: every run but the last is killed, each a little further on, and
goes on from what the one before left. So there are resumes of resumes, and each killed run stands for one point; on S3
each step is killed at one point, on a folder at several. Set ALL_KILLS=1 to have each point also as a story of
its own, from an empty store, on both kinds.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from chains import Chain
from forked_runs import Ended, Interference
from seven_steps import STEPS

from geocairn.stores.leases import holder
from geocairn.stores.runs import list_in_flight

POINTS: list[tuple[str, Interference]] = [
    ("reading a source", ("kill_in_step", {"step": "sites"})),
    ("sites_m", ("kill_in_step", {"step": "sites_m"})),
    ("sites_m, half of its layer written", ("kill_half_written", {"step": "sites_m"})),
    ("reach", ("kill_in_step", {"step": "reach"})),
    ("reach, before its layer is uploaded", ("kill_at", {"stage": "layer written", "step": "reach"})),
    ("hulls", ("kill_in_step", {"step": "hulls"})),
    ("area", ("kill_in_step", {"step": "area"})),
    ("area, before its record", ("kill_at", {"stage": "layer uploaded", "step": "area"})),
    ("covered", ("kill_in_step", {"step": "covered"})),
    ("covered, right after its record", ("kill_at", {"stage": "record written", "step": "covered"})),
    ("inside", ("kill_in_step", {"step": "inside"})),
    ("by_zone", ("kill_in_step", {"step": "by_zone"})),
    ("an output, before its sidecar", ("kill_before_sidecar", {})),
    ("an output, before its record", ("kill_after_output", {"output": "by_zone"})),
]

ON_S3 = [
    "reading a source",
    "sites_m, half of its layer written",
    "reach, before its layer is uploaded",
    "hulls",
    "area, before its record",
    "covered, right after its record",
    "inside",
    "by_zone",
    "an output, before its record",
]
assert set(ON_S3) <= {where for where, _ in POINTS}
assert {where.partition(",")[0] for where in ON_S3} >= set(STEPS)


def is_sound_after(chain: Chain, killed: Ended, before: list[str]) -> list[str]:
    """Hold the store against what must be true after a kill; return the steps that are there."""
    assert killed.code == -signal.SIGKILL, killed.stderr
    assert killed.stdout == ""
    said = chain.status()
    prints = {step["name"]: step["fingerprint"] for step in said["steps"]}
    there = chain.committed(prints)
    assert set(before) <= set(there)
    # What is still to come is what the next run does.
    assert [step["name"] for step in said["steps"] if step["outcome"] == "compute" and step["name"] in there] == []
    # Whatever is believed can be read whole: nothing half-written is.
    store = chain.store
    for name in set(there) - set(before):
        checkpoint = store.get(prints[name])
        assert checkpoint is not None
        assert len(store.load(checkpoint)) == checkpoint.facts.rows
    # The dead run says that it is in flight, and is seen to be none.
    assert not any(run.live for run in list_in_flight(store))
    assert all(holder(store.objects, prints[name]) is None for name in {*killed.computed, *there} - set(before))
    return there


@pytest.mark.timeout(300)
def test_every_kill_costs_the_step_in_flight_and_what_comes_after(
    chain: Chain, store_kind: str, right_outputs: dict[str, Any]
) -> None:
    there: list[str] = []
    for where, interference in POINTS:
        if store_kind == "s3" and where not in ON_S3:
            continue
        killed = chain.run(code=None, interference=[interference])
        assert set(killed.computed).isdisjoint(there), where
        assert len(killed.computed) == len(set(killed.computed)), where
        there = is_sound_after(chain, killed, there)
        named = where.partition(",")[0]
        if named in STEPS:
            assert named in killed.computed, where
            assert (named in there) == where.endswith("after its record"), where
    assert there == sorted(STEPS)
    last = chain.run()
    assert last.did("compute") == []
    assert "by_zone" in last.did("publish")
    assert chain.outputs() == right_outputs
    assert chain.run().answer["unchanged"] is True


RESUMED: list[tuple[str, Interference, list[str]]] = [
    ("half written", ("kill_half_written", {"step": "covered"}), ["covered", "inside", "by_zone"]),
    ("before the record", ("kill_at", {"stage": "layer uploaded", "step": "by_zone"}), ["by_zone"]),
    ("before the sidecar", ("kill_before_sidecar", {}), []),
]


@pytest.mark.parametrize(("where", "interference", "later"), RESUMED, ids=[where for where, _, _ in RESUMED])
def test_the_run_after_a_kill_does_only_the_rest(
    folder_chain: Chain, right_outputs: dict[str, Any], where: str, interference: Interference, later: list[str]
) -> None:
    resumes(folder_chain, interference, right_outputs, later)


@pytest.mark.skipif(not os.environ.get("ALL_KILLS"), reason="set ALL_KILLS=1")
@pytest.mark.parametrize(("where", "interference"), POINTS, ids=[where for where, _ in POINTS])
def test_each_kill_from_an_empty_store(
    chain: Chain, right_outputs: dict[str, Any], where: str, interference: Interference
) -> None:
    resumes(chain, interference, right_outputs, STEPS)


def resumes(chain: Chain, interference: Interference, right: dict[str, Any], later: list[str]) -> None:
    killed = chain.run(code=None, interference=[interference])
    there = is_sound_after(chain, killed, [])
    missing = sorted(set(STEPS) - set(there))
    said = chain.status()
    resumed = chain.run()
    # Exactly what was not committed is computed, once; `hulls` is a branch of its own and may have been in flight too.
    assert resumed.computed == missing
    assert set(missing) <= {*later, "hulls"}
    assert resumed.outcomes() == {name: "computed" if name in missing else "reused" for name in STEPS}
    assert [step["name"] for step in said["steps"] if step["outcome"] == "compute"] == [
        name for name in STEPS if name in missing
    ]
    assert chain.outputs() == right


def test_a_kill_between_the_two_writes_of_an_output_on_s3(
    new_chain: Any, s3_bucket: str, s3_settings: Any, right_outputs: dict[str, Any]
) -> None:
    import geopandas as gpd
    from chains import normalised

    from geocairn.s3 import client

    chain: Chain = new_chain(f"s3://{s3_bucket}/store", s3_settings)
    chain.environment["GEOCAIRN_ALLOW"] = f"s3://{s3_bucket}/out"
    chain.values["outputs"] = [{"from": "by_zone", "uri": f"s3://{s3_bucket}/out/by_zone.gpkg"}]
    killed = chain.run(code=None, interference=[("kill_before_s3_sidecar", {})])
    assert killed.code == -signal.SIGKILL
    listed = client(s3_settings).list_objects_v2(Bucket=s3_bucket, Prefix="out/").get("Contents", [])
    assert [entry["Key"] for entry in listed] == ["out/by_zone.gpkg"]
    assert not chain.status()["unchanged"]
    resumed = chain.run()
    assert resumed.did("compute") == []
    assert resumed.did("publish") == ["by_zone"]
    path = chain.path("by_zone.gpkg")
    client(s3_settings).download_file(s3_bucket, "out/by_zone.gpkg", str(path))
    assert normalised(gpd.read_file(path)) == right_outputs["by_zone.gpkg"]
    assert chain.run().answer["unchanged"] is True


def test_what_a_killed_run_kept_for_itself_is_believed_by_no_other(folder_chain: Chain) -> None:
    for name in ("sites_m", "reach"):
        folder_chain.step(name)["checkpoint"] = "never"
    killed = folder_chain.run(code=None, interference=[("kill_in_step", {"step": "area"})])
    assert killed.code == -signal.SIGKILL
    assert list(folder_chain.store.objects.list("runs/"))  # its own layers are still there
    resumed = folder_chain.run()
    assert {"sites_m", "reach"} <= set(resumed.computed)
    assert set(folder_chain.committed()).isdisjoint({"sites_m", "reach"})
