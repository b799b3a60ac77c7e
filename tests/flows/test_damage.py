"""Checkpoints that are damaged, lost or expired: a miss or not needed, and the right answer at the end."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from chains import Chain
from seven_steps import STEPS

from geocairn.checkpoint import format_time, parse_record, write_record
from geocairn.stores.quarantine import list_quarantine


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def expire(chain: Chain, *names: str) -> None:
    for name in names:
        path = chain.record_path(name)
        past = format_time((dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)).timestamp())
        path.write_bytes(write_record(parse_record(path.read_bytes()).replaced(expires=past)))


def lose_outputs(chain: Chain) -> None:
    shutil.rmtree(chain.path("out"))


def notices(chain: Chain, run_id: str) -> str:
    trace = json.loads(chain.command("trace", run_id, "--store", chain.store_url, "--json"))
    return "\n".join(f"{entry['step']}: {entry['notice']}" for entry in trace["notices"])


def test_a_flipped_byte_in_a_layer_is_a_miss_where_it_is_read(finished: Chain, right_outputs: dict[str, Any]) -> None:
    print_ = finished.fingerprints()["by_zone"]
    flip(finished.layer_paths("by_zone")[0])
    # Nobody reads it while the output stands.
    assert finished.run().log == []
    lose_outputs(finished)
    ended = finished.run()
    assert ended.computed == ["by_zone"]
    assert finished.outputs() == right_outputs
    assert ended.outcomes()["by_zone"] == "computed"
    assert "decided again" in notices(finished, ended.answer["run_id"])
    aside = list(list_quarantine(finished.store.objects, print_))
    assert len(aside) == 1
    assert len(finished.layer_paths("by_zone")) == 1


def test_flipped_bytes_in_every_layer_are_found_one_by_one(finished: Chain, right_outputs: dict[str, Any]) -> None:
    for name in STEPS:
        flip(finished.layer_paths(name)[0])
    lose_outputs(finished)
    ended = finished.run()
    assert set(ended.computed) == set(STEPS)
    assert len(ended.computed) == len(STEPS)
    assert finished.outputs() == right_outputs


def test_a_flipped_byte_in_the_middle_costs_that_step_and_what_is_asked_for(finished: Chain) -> None:
    flip(finished.layer_paths("area")[0])
    ended = finished.run("--set", "covered.how=difference")
    assert ended.computed == ["area", "by_zone", "covered", "inside"]


@pytest.mark.parametrize("damage", ["truncated", "altered", "not text"])
def test_a_damaged_record_is_a_miss_where_it_is_needed(
    finished: Chain, right_outputs: dict[str, Any], damage: str
) -> None:
    for name in ("area", "by_zone"):
        path = finished.record_path(name)
        data = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "altered":
            path.write_bytes(data.replace(b'"rows": 3', b'"rows": 4').replace(b'"rows": 1', b'"rows": 2'))
        else:
            path.write_bytes(b"\xff\xfe" + data)
    # The outputs stand, and nothing else is asked for.
    said = {step["name"]: step for step in finished.status()["steps"]}
    assert (said["area"]["outcome"], said["by_zone"]["outcome"]) == ("not_needed", "not_needed")
    assert finished.run().log == []
    lose_outputs(finished)
    assert finished.to_compute() == ["by_zone"]  # `area` is not needed for that
    ended = finished.run()
    assert ended.computed == ["by_zone"]
    assert finished.outputs() == right_outputs
    print_ = finished.fingerprints()["by_zone"]
    assert [entry["fingerprint"] for entry in list_quarantine(finished.store.objects, print_)] == [print_]
    assert "is not believed" in notices(finished, ended.answer["run_id"])
    assert "by_zone" in finished.committed()


def test_a_lost_layer_whose_record_is_there_is_a_miss(finished: Chain, right_outputs: dict[str, Any]) -> None:
    for name in ("inside", "by_zone"):
        finished.layer_paths(name)[0].unlink()
    assert finished.run().log == []
    lose_outputs(finished)
    said = {step["name"]: step for step in finished.status()["steps"]}
    assert said["by_zone"]["because"] == [{"component": "checkpoint", "before": "present", "now": "layer missing"}]
    ended = finished.run()
    assert ended.computed == ["by_zone", "inside"]
    assert finished.outputs() == right_outputs


def test_lost_middle_checkpoints_are_not_needed(finished: Chain, right_outputs: dict[str, Any]) -> None:
    for name in ("sites_m", "reach", "area", "covered", "inside"):
        finished.record_path(name).unlink()
        shutil.rmtree(finished.layer_paths(name)[0].parent)
    assert finished.status()["unchanged"]
    assert finished.run().log == []
    lose_outputs(finished)
    ended = finished.run()
    assert ended.computed == []
    assert sorted(ended.did("load")) == ["by_zone", "hulls"]
    assert finished.outputs() == right_outputs
    assert {name: ended.outcomes()[name] for name in ("reach", "by_zone")} == {
        "reach": "not_needed",
        "by_zone": "reused",
    }
    # A changed end needs them, and no more than it needs.
    again = finished.run("--set", 'by_zone.by=["district"]', code=None)
    assert "hulls" not in again.computed


def test_the_lineage_of_an_output_is_whole_when_middle_checkpoints_are_gone(finished: Chain) -> None:
    sidecar = finished.path("out/by_zone.gpkg.lineage.json")
    lineage = json.loads(sidecar.read_text())["lineage"]
    assert len(lineage["steps"]) == 6
    assert len(lineage["sources"]) == 3
    for name in ("reach", "covered"):
        finished.record_path(name).unlink()
    lose_outputs(finished)
    finished.run()
    again = json.loads(sidecar.read_text())["lineage"]
    assert set(again["steps"]) == set(lineage["steps"])
    assert set(again["sources"]) == set(lineage["sources"])
    for print_, entry in lineage["steps"].items():
        for part in ("operation", "version", "parameters", "inputs"):
            assert again["steps"][print_][part] == entry[part]


def test_expired_checkpoints(finished: Chain, right_outputs: dict[str, Any]) -> None:
    # Of the middle: their consumers are there.
    expire(finished, "reach", "area", "covered")
    assert finished.status()["unchanged"]
    assert finished.run().log == []
    # Of the end as well, while the output stands.
    expire(finished, "by_zone", "hulls")
    assert finished.run().log == []
    lose_outputs(finished)
    assert finished.to_compute() == ["by_zone", "hulls", "reach"]
    ended = finished.run()
    assert ended.computed == ["by_zone", "hulls", "reach"]
    assert finished.outputs() == right_outputs
    assert {"by_zone", "hulls", "reach"} <= set(finished.committed())
    assert "expired" in notices(finished, ended.answer["run_id"])


def test_an_expired_record_of_a_source_or_an_output_is_renewed(finished: Chain) -> None:
    store = finished.store
    for info in store.objects.list("checkpoints/"):
        path = Path(finished.store_url) / info.key
        checkpoint = parse_record(path.read_bytes())
        if checkpoint.kind != "step":
            path.write_bytes(write_record(checkpoint.replaced(expires="2020-01-01T00:00:00.000Z")))
    assert finished.to_compute() == []
    ended = finished.run()
    assert ended.computed == []
    assert sorted(ended.did("publish")) == ["by_zone", "hulls"]
    assert finished.run().log == []


def test_two_runs_race_for_a_record_that_is_not_believed(finished: Chain, right_outputs: dict[str, Any]) -> None:
    expire(finished, "by_zone")
    path = finished.record_path("hulls")
    path.write_bytes(path.read_bytes()[:100])
    lose_outputs(finished)
    meeting = finished.path("meeting")
    meeting.mkdir()
    # Both compute, since neither heeds the other's lease; and they write at the same moment.
    interference: list[Any] = [
        ("without_leases", {}),
        ("meet", {"folder": str(meeting), "parties": 2, "point": "commit"}),
    ]
    both = [finished.start(interference=interference) for _ in range(2)]
    ended = [run.wait() for run in both]
    assert [run.code for run in ended] == [0, 0], [run.stderr for run in ended]
    assert finished.outputs() == right_outputs
    prints = finished.fingerprints()
    for name in ("by_zone", "hulls"):
        assert [run.computed.count(name) for run in ended] == [1, 1]
        checkpoint = finished.store.get(prints[name])
        assert checkpoint is not None
        # Both name the layer that the winner's record names, and the loser's is gone.
        refs = {step["ref"] for run in ended for step in run.answer["steps"] if step["name"] == name}
        assert checkpoint.layer is not None
        assert refs == {checkpoint.layer.key}
        assert checkpoint.layer.key in [str(p.relative_to(finished.store_url)) for p in finished.layer_paths(name)]
        aside = [entry["fingerprint"] for entry in list_quarantine(finished.store.objects, prints[name])]
        assert set(aside) == (set() if name == "by_zone" else {prints[name]})  # what has only expired is not kept


def test_a_result_that_vanishes_between_decision_and_use_is_computed_again(
    finished: Chain, right_outputs: dict[str, Any]
) -> None:
    lose_outputs(finished)
    keys = [str(finished.record_path("by_zone")), str(finished.record_path("inside"))]
    ended = finished.run(interference=[("lose_after_decision", {"keys": keys})])
    assert ended.computed == ["by_zone", "inside"]
    assert finished.outputs() == right_outputs
