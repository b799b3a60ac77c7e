"""What a change costs: of a parameter, of a plan's wording, of a source; before a run, and while it runs."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chains import Chain
from seven_steps import STEPS

AFTER_REACH = ["area", "by_zone", "covered", "hulls", "inside", "reach"]
FROM_PARCELS = ["by_zone", "covered", "inside"]


def test_a_parameter_of_step_two_costs_the_steps_two_to_seven(finished: Chain, right_outputs: dict[str, Any]) -> None:
    finished.step("reach")["params"]["distance"] = 1200.0
    said = finished.status()
    assert sorted(s["name"] for s in said["steps"] if s["outcome"] == "compute") == AFTER_REACH
    because = {step["name"]: step.get("because", []) for step in said["steps"]}
    assert because["reach"] == [{"component": "params.distance", "before": 900.0, "now": 1200.0}]
    assert [reason["component"] for reason in because["area"]] == ["inputs.layer"]
    assert because["sites_m"] == []
    ended = finished.run()
    assert ended.computed == AFTER_REACH
    assert ended.did("read") == ["parcels.shp", "districts.gpkg"] or ended.did("read") == [
        "districts.gpkg",
        "parcels.shp",
    ]
    assert ended.did("load") == ["sites_m"]  # of what is reused only what a step takes is fetched
    assert {step["name"]: step.get("because") for step in ended.answer["steps"]}["reach"] == because["reach"]
    outputs = finished.outputs()
    assert outputs != right_outputs

    # The results under the old parameter are still there: only the outputs are written again.
    finished.step("reach")["params"]["distance"] = 900.0
    back = finished.run()
    assert back.computed == []
    assert sorted(back.did("publish")) == ["by_zone", "hulls"]
    assert finished.outputs() == right_outputs


def test_set_on_the_command_line_is_the_same_as_in_the_plan(finished: Chain) -> None:
    assert finished.to_compute("--set", "reach.distance=900") == []
    assert finished.to_compute("--set", "reach.distance=1200") == AFTER_REACH


def reorder(chain: Chain) -> None:
    for step in chain.values["steps"]:
        step["params"] = dict(reversed(step.get("params", {}).items()))
    chain.step("by_zone")["params"]["aggregates"] = {"count": "max", "value": "sum"}
    chain.step("covered")["inputs"] = {"right": "area", "left": "parcels"}
    chain.values = {
        **dict(reversed(chain.values.items())),
        "sources": dict(reversed(chain.values["sources"].items())),
    }


def state_defaults(chain: Chain) -> None:
    chain.step("reach")["params"] |= {"distance": 900, "cap_style": "round"}


def rename(chain: Chain) -> None:
    chain.step("reach")["name"] = "around"
    for name in ("area", "hulls"):
        chain.step(name)["inputs"] = "around"


def rename_last(chain: Chain) -> None:
    chain.step("by_zone")["name"] = "zones"
    chain.values["outputs"][0]["from"] = "zones"


def rename_source(chain: Chain) -> None:
    chain.values["sources"]["parcelles"] = chain.values["sources"].pop("parcels")
    chain.step("covered")["inputs"]["left"] = "parcelles"


def describe(chain: Chain) -> None:
    for step in chain.values["steps"]:
        step |= {"description": f"what {step['name']} is for", "retries": 7, "timeout": 300, "retention": "12h"}
        step |= {"checkpoint": "auto", "backends": ["geopandas"], "allow_empty": True}
    chain.values["description"] = "a chain"


def expect(chain: Chain) -> None:
    chain.step("reach")["expect"] = {"geometry": "polygon", "rows": 4, "valid": True}
    chain.step("by_zone")["expect"] = {"min_rows": 1, "columns": ["zone", "value"]}


def rename_plan(chain: Chain) -> None:
    chain.values["name"] = "another-name"


def touch(chain: Chain) -> None:
    for path in chain.path("data").iterdir():
        os.utime(path, (time.time(), time.time()))


def write_again(chain: Chain) -> None:
    for path in chain.path("data").iterdir():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)


def move_source(chain: Chain) -> None:
    chain.path("data").rename(chain.path("elsewhere"))
    for source in chain.values["sources"].values():
        source["uri"] = source["uri"].replace("data/", "elsewhere/")


def other_file_beside(chain: Chain) -> None:
    chain.path("data/parcels.txt").write_text("not a part of the shapefile")


def add_a_step_aside(chain: Chain) -> None:
    chain.values["steps"].insert(
        3, {"name": "extra", "op": "centroid", "inputs": "reach", "description": "leads to no output"}
    )


NO_CHANGE = [
    reorder,
    state_defaults,
    rename,
    rename_last,
    rename_source,
    describe,
    expect,
    rename_plan,
    touch,
    write_again,
    move_source,
    other_file_beside,
    add_a_step_aside,
]


@pytest.mark.parametrize("change", NO_CHANGE)
def test_what_changes_no_result_costs_nothing(finished: Chain, change: Callable[[Chain], None]) -> None:
    change(finished)
    said = finished.status()
    assert said["unchanged"], said
    ended = finished.run()
    assert ended.answer["unchanged"] is True
    assert ended.log == []


def edit_dbf(chain: Chain) -> None:
    """One attribute of one parcel, in place."""
    path = chain.path("data/parcels.dbf")
    data = bytearray(path.read_bytes())
    at = data.index(b"wood")
    data[at : at + 4] = b"farm"
    path.write_bytes(bytes(data))


def edit_dbf_unseen(chain: Chain) -> None:
    """The same, with size and modification time as before."""
    path = chain.path("data/parcels.dbf")
    before = path.stat()
    edit_dbf(chain)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("edit", [edit_dbf, edit_dbf_unseen])
def test_one_attribute_of_a_shapefile_costs_all_that_depends_on_it(
    finished: Chain, right_outputs: dict[str, Any], edit: Callable[[Chain], None]
) -> None:
    finished.run()  # remembers the digests of the sources
    edit(finished)
    said = finished.status()
    assert sorted(s["name"] for s in said["steps"] if s["outcome"] == "compute") == FROM_PARCELS
    ended = finished.run()
    assert ended.computed == FROM_PARCELS
    assert sorted(ended.did("read")) == ["districts.gpkg", "parcels.shp"]
    assert ended.did("publish") == ["by_zone"]
    outputs = finished.outputs()
    assert outputs["hulls.parquet"] == right_outputs["hulls.parquet"]
    assert outputs["by_zone.gpkg"] != right_outputs["by_zone.gpkg"]


def test_a_lost_projection_file_is_noticed(finished: Chain) -> None:
    finished.path("data/parcels.prj").unlink()
    assert "parcels" in finished.command("run", "plan.json", "--store", finished.store_url, "--json", code=2)


def test_a_source_under_a_stated_version_is_trusted_and_two_that_state_the_same_stay_two(
    folder_chain: Chain,
) -> None:
    shutil.copyfile(folder_chain.path("data/sites.csv"), folder_chain.path("data/other.csv"))
    other = folder_chain.path("data/other.csv")
    other.write_text("\n".join(other.read_text().splitlines()[:3]) + "\n")  # two sites of four
    crs = "EPSG:4326"
    folder_chain.values = {
        "name": "two",
        "sources": {
            "a": {"uri": "data/sites.csv", "crs": crs, "version": "2024"},
            "b": {"uri": "data/other.csv", "crs": crs, "version": "2024"},
        },
        "steps": [
            {"name": "first", "op": "reproject", "inputs": "a", "params": {"crs": "EPSG:32633"}},
            {"name": "second", "op": "reproject", "inputs": "b", "params": {"crs": "EPSG:32633"}},
        ],
    }
    ended = folder_chain.run()
    assert {step["name"]: step["rows"] for step in ended.answer["steps"]} == {"first": 4, "second": 2}
    prints = folder_chain.fingerprints()
    assert len({prints[name] for name in ("a", "b", "first", "second")}) == 4
    folder_chain.path("data/sites.csv").write_text("site,x,y\ns,15,49.7\n")
    assert folder_chain.to_compute() == []
    folder_chain.values["sources"]["a"]["version"] = "2025"
    assert folder_chain.to_compute() == ["first"]


# A source that changes while a run reads it


@pytest.fixture
def newer(finished: Chain) -> Callable[[int], str]:
    """Makes other states of the sites: `newer(n)` has the sites moved by n kilometres."""

    def make(number: int) -> str:
        lines = finished.path("data/sites.csv").read_text().splitlines()
        moved = [lines[0]]
        for line in lines[1:]:
            name, x, y = line.split(",")
            moved.append(f"{name},{float(x) + 0.01 * number:.12f},{y}")
        path = finished.path(f"newer-{number}.csv")
        path.write_text("\n".join(moved) + "\n")
        return str(path)

    return make


def test_a_source_that_changes_between_pin_and_read_is_decided_again(
    finished: Chain, newer: Callable[[int], str]
) -> None:
    # A plan that reads the sites twice over: from a result of the old version and from the file itself.
    finished.values["steps"].append(
        {
            "name": "counted",
            "op": "count_points",
            "inputs": {"polygons": "hulls", "points": "sites_m"},
        }
    )
    finished.values["steps"].append(
        {"name": "again", "op": "reproject", "inputs": "sites", "params": {"crs": "EPSG:32634"}}
    )
    finished.values["outputs"].append({"from": "again", "uri": "out/again.parquet"})
    finished.values["outputs"].append({"from": "counted", "uri": "out/counted.parquet"})
    old = finished.fingerprints()
    target = str(finished.path("data/sites.csv"))
    ended = finished.run(interference=[("change_before_read", {"path": target, "contents": [newer(1)]})])
    new = finished.fingerprints()
    assert new["sites"] != old["sites"]
    told = {step["name"]: step["fingerprint"] for step in ended.answer["steps"]}
    assert told == {name: print_ for name, print_ in new.items() if name in told}
    assert {source["name"]: source["fingerprint"] for source in ended.answer["sources"]}["sites"] == new["sites"]
    assert finished.status()["unchanged"]
    # Everything published was made from the new version: a fresh run on an empty store gives the same.
    outputs = finished.outputs()
    shutil.rmtree(finished.path("out"))
    finished.run(store=str(finished.path("fresh-store")))
    assert finished.outputs() == outputs
    trace = finished.command("trace", ended.answer["run_id"], "--store", finished.store_url)
    assert "decided again" in trace


def test_a_source_that_changes_at_every_read_is_given_up(folder_chain: Chain, tmp_path: Path) -> None:
    sites = folder_chain.path("data/sites.csv")
    contents = []
    for number in range(9):
        path = tmp_path / f"{number}.csv"
        path.write_text(sites.read_text() + f"more{number},15.0,49.7\n")
        contents.append(str(path))
    ended = folder_chain.run(code=3, interference=[("change_before_read", {"path": str(sites), "contents": contents})])
    assert ended.answer["status"] == "needs_input"
    failure = ended.answer["failure"]
    assert failure["class"] == "input"
    assert failure["step"] == "sites"
    assert "no longer what it was" in failure["message"]
    assert ended.did("read").count("sites.csv") == 3
    assert ended.answer["outputs"] == {}
    # Once it holds still the run goes on.
    folder_chain.run()


# Expectations over reused checkpoints


def test_a_tightened_expectation_is_enforced_on_a_reused_checkpoint(finished: Chain) -> None:
    finished.step("area")["expect"] = {"min_rows": 5}
    said = finished.status()
    assert not said["unchanged"]
    told = {step["name"]: step.get("failure") for step in said["steps"]}
    assert [name for name, failure in told.items() if failure] == ["area"]
    assert told["area"]["class"] == "input"
    shutil.rmtree(finished.path("out"))
    for arguments in ((), ("--record",)):
        ended = finished.run(*arguments, code=3)
        # The other branch is none of its business.
        assert ended.log == ["load hulls", "publish hulls"] or arguments
        assert ended.answer["status"] == "needs_input"
        assert ended.answer["failure"]["step"] == "area"
        assert "at least 5 rows were expected" in ended.answer["failure"]["message"]
        assert ended.outcomes()["area"] == "failed"
        assert {ended.outcomes()[name] for name in ("covered", "inside", "by_zone")} == {"not_reached"}
        assert {ended.outcomes()[name] for name in ("sites_m", "reach", "hulls")} == {"reused"}
        assert list(ended.answer["outputs"]) == ["hulls"]
        assert [good["step"] for good in ended.answer["failure"]["last_good"]] == ["reach"]
    assert not finished.path("out/by_zone.gpkg").exists()

    finished.step("area")["expect"] = {"rows": 1, "geometry": "polygon"}
    loosened = finished.run()
    assert loosened.did("publish") == ["by_zone"]
    assert loosened.computed == []
    assert set(loosened.outcomes().values()) == {"reused"}


def test_an_expectation_that_fails_when_the_step_is_computed_commits_nothing(folder_chain: Chain) -> None:
    folder_chain.step("reach")["expect"] = {"rows": 3}
    ended = folder_chain.run(code=3)
    assert ended.answer["failure"]["step"] == "reach"
    assert folder_chain.committed() == ["sites_m"]
    assert ended.answer["failure"]["last_good"] == [
        {
            "step": "sites_m",
            "fingerprint": folder_chain.fingerprints()["sites_m"],
            "ref": next(step["ref"] for step in ended.answer["steps"] if step["name"] == "sites_m"),
        }
    ]
    assert {ended.outcomes()[name] for name in STEPS[2:]} == {"not_reached"}
    # The result itself was refused, so the same again is refused again; a looser plan computes it.
    assert folder_chain.run(code=3).computed == ["reach"]
    folder_chain.step("reach")["expect"] = {"rows": 4}
    assert folder_chain.run().computed == AFTER_REACH


def test_a_checkpoint_of_an_older_gate_is_gated_again_once(finished: Chain) -> None:
    from geocairn.checkpoint import parse_record, write_record

    for name in ("area", "by_zone"):
        path = finished.record_path(name)
        checkpoint = parse_record(path.read_bytes())
        path.write_bytes(write_record(checkpoint.replaced(facts=dataclasses.replace(checkpoint.facts, gate=0))))
    said = {step["name"]: step for step in finished.status()["steps"]}
    assert {step["outcome"] for step in said.values()} == {"reuse"}
    assert [name for name in said if "because" in said[name]] == ["area", "by_zone"]
    assert said["area"]["because"][0]["component"] == "gate"
    assert not finished.status()["unchanged"]
    ended = finished.run()
    assert (ended.computed, sorted(ended.did("load")), ended.did("publish")) == ([], ["area", "by_zone"], [])
    assert set(ended.outcomes().values()) == {"reused"}
    assert finished.status()["unchanged"]
    assert finished.run().log == []
