"""What a user gets wrong: one clear message for each, an exit code of its kind, and nothing computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chains import Chain
from click.testing import CliRunner
from seven_steps import STEPS, write_plan

Edit = Callable[[Chain], None]


def set_in(step: str, **changes: Any) -> Edit:
    def change(chain: Chain) -> None:
        chain.step(step).update(changes)

    return change


def set_source(name: str, **changes: Any) -> Edit:
    def change(chain: Chain) -> None:
        chain.values["sources"][name].update(changes)

    return change


def set_output(index: int, **changes: Any) -> Edit:
    def change(chain: Chain) -> None:
        chain.values["outputs"][index].update(changes)

    return change


def set_plan(**changes: Any) -> Edit:
    return lambda chain: chain.values.update(changes)


def insert(position: int, **step: Any) -> Edit:
    return lambda chain: chain.values["steps"].insert(position, step)


WRONG_PLANS: list[tuple[str, Edit, list[str]]] = [
    ("unknown operation", set_in("reach", op="bufer"), ["reach", "'bufer'", "buffer"]),
    ("misspelt parameter", set_in("reach", params={"distanse": 900}), ["reach", "distanse", "distance"]),
    (
        "parameter of a wrong type",
        set_in("reach", params={"distance": 9, "quad_segs": "many"}),
        ["reach", "params.quad_segs"],
    ),
    ("missing parameter", set_in("sites_m", params={}), ["sites_m", "crs"]),
    ("value that is none of the choices", set_in("covered", params={"how": "intersect"}), ["covered", "intersect"]),
    ("unknown input", set_in("area", inputs="reech"), ["area", "'reech'", "reach"]),
    ("input that comes later", set_in("reach", inputs="covered"), ["reach", "later"]),
    ("own input", set_in("reach", inputs="reach"), ["reach", "own"]),
    ("missing role", set_in("covered", inputs={"left": "parcels"}), ["covered", "right"]),
    ("unknown role", set_in("covered", inputs={"left": "parcels", "rigth": "area"}), ["covered", "rigth", "right"]),
    ("unknown field", set_in("area", parms={}), ["area", "parms", "params"]),
    ("unknown CRS", set_in("sites_m", params={"crs": "EPSG:999999"}), ["sites_m", "EPSG:999999"]),
    ("buffer in degrees", set_in("reach", inputs="sites"), ["reach", "degrees", "reproject"]),
    ("two CRS", set_in("covered", inputs={"left": "parcels", "right": "sites"}), ["covered", "CRS"]),
    ("a name used twice", set_in("hulls", name="area"), ["area", "twice"]),
    ("missing file", set_source("parcels", uri="data/parcel.shp"), ["parcels", "'parcel.shp'", "parcels.shp"]),
    ("unknown layer", set_source("districts", layer="district"), ["districts", "'district'"]),
    ("unknown CRS of a source", set_source("sites", crs="EPSG:43260"), ["sites", "EPSG:43260"]),
    ("no CRS", set_source("sites", crs=None), ["sites", "CRS"]),
    ("unknown format of a source", set_source("sites", uri="plan.json"), ["sites"]),
    ("output from nothing", set_output(0, **{"from": "by_zon"}), ["by_zon", "by_zone"]),
    ("unknown format of an output", set_output(0, uri="out/by_zone.xyz"), ["by_zone", "xyz"]),
    ("two outputs to one place", set_output(0, uri="out/hulls.parquet"), ["out/hulls.parquet", "twice"]),
    ("unknown field of the plan", set_plan(output=[]), ["output", "outputs"]),
    ("steps that are no list", set_plan(steps={"reach": {}}, outputs=[]), ["steps"]),
    ("unknown policy", set_in("area", checkpoint="sometimes"), ["area", "checkpoint", "always"]),
    ("odd retention", set_in("area", retention="7 fortnights"), ["area", "retention", "7d"]),
]


@pytest.mark.parametrize(("what", "edit", "words"), WRONG_PLANS, ids=[what for what, _, _ in WRONG_PLANS])
def test_a_wrong_plan_is_refused_with_one_clear_message(
    folder_chain: Chain, what: str, edit: Edit, words: list[str]
) -> None:
    edit(folder_chain)
    told = []
    for command in ("check", "status", "run"):
        result = invoke(folder_chain, command, "plan.json", "--store", folder_chain.store_url, "--json")
        assert result.exit_code == 2, result.output
        answer = json.loads(result.stdout)
        assert answer["status"] == "wrong"
        complaints = answer["failure"]["complaints"]
        told.append([complaint["text"] for complaint in complaints])
        assert result.stderr.strip() == answer["failure"]["message"] == "\n".join(told[-1])
    assert told[0] == told[1] == told[2]
    text = "\n".join(told[0])
    for word in words:
        assert word in text, text
    for complaint in complaints:
        assert complaint["line"], complaint
    assert "Traceback" not in text
    assert len(told[0]) <= 2, text  # what follows from a mistake is not complained of as well
    assert not Path(folder_chain.store_url).exists()


def test_all_complaints_come_at_once(folder_chain: Chain) -> None:
    for _, edit, _ in (WRONG_PLANS[0], WRONG_PLANS[3], WRONG_PLANS[14], WRONG_PLANS[21]):
        edit(folder_chain)
    result = invoke(folder_chain, "check", "plan.json", "--store", folder_chain.store_url, "--json")
    named = {complaint["step"] for complaint in json.loads(result.stdout)["failure"]["complaints"]}
    assert len(named) >= 4, named


IN_DATA: list[tuple[str, Edit, str, list[str]]] = [
    (
        "unknown column in a filter",
        insert(0, name="some", op="filter", inputs="parcels", params={"where": "zon = 'farm'"}),
        "some",
        ["zon", "zone"],
    ),
    ("unknown column in dissolve", set_in("by_zone", params={"by": ["zoen"]}), "by_zone", ["zoen", "zone"]),
    (
        "unknown column to sum",
        set_in("by_zone", params={"by": ["zone"], "aggregates": {"valeu": "sum"}}),
        "by_zone",
        ["valeu", "value"],
    ),
    ("an expectation that does not hold", set_in("area", expect={"min_rows": 2}), "area", ["at least 2 rows"]),
    (
        "a result that is empty",
        insert(0, name="some", op="filter", inputs="parcels", params={"where": "zone = 'sea'"}),
        "some",
        ["empty", "allow_empty"],
    ),
]


@pytest.mark.parametrize(("what", "edit", "step", "words"), IN_DATA, ids=[what for what, *_ in IN_DATA])
def test_what_only_the_data_can_tell_ends_in_an_input_failure(
    finished: Chain, what: str, edit: Edit, step: str, words: list[str]
) -> None:
    edit(finished)
    if step == "some":
        finished.values["outputs"].append({"from": "some", "uri": "out/some.parquet"})
    ended = finished.run(code=None)
    assert ended.code in (2, 3), ended.stderr
    failure = ended.answer["failure"]
    text = failure["message"]
    for word in words:
        assert word in text, text
    if ended.code == 3:
        assert (failure["step"], failure["class"], failure["action"]) == (step, "input", "replan")
        assert ended.answer["status"] == "needs_input"
        assert text.startswith(f"step {step}: ")
        assert "last_good" in failure
    assert "Traceback" not in text


COMMANDS: list[tuple[str, list[str], int, list[str]]] = [
    ("no such plan", ["run", "plam.json"], 2, ["plam.json", "plan.json"]),
    ("a folder for a plan", ["run", "data"], 2, ["data"]),
    ("not YAML", ["run", "broken.yaml"], 2, ["broken.yaml:2"]),
    ("not text", ["run", "binary.yaml"], 2, ["binary.yaml"]),
    ("an empty plan", ["run", "empty.yaml"], 2, ["empty.yaml"]),
    ("--set without a value", ["run", "plan.json", "--set", "reach.distance"], 2, ["reach.distance", "="]),
    ("--set of an unknown step", ["run", "plan.json", "--set", "reech.distance=1"], 2, ["reech", "reach"]),
    ("--set of an unknown parameter", ["run", "plan.json", "--set", "reach.distanc=1"], 2, ["distanc", "distance"]),
    ("--set of a wrong value", ["run", "plan.json", "--set", "reach.quad_segs=wide"], 2, ["quad_segs"]),
    ("a store of another kind", ["run", "plan.json", "--store", "ftp://somewhere"], 2, ["ftp", "s3://"]),
    ("a store without a bucket", ["run", "plan.json", "--store", "s3://"], 2, ["s3://bucket/prefix"]),
    ("a file for a store", ["run", "plan.json", "--store", "plan.json"], 2, ["plan.json", "folder"]),
    ("an unknown option", ["run", "plan.json", "--sto", "x"], 2, ["--sto"]),
    ("an unknown command", ["rum", "plan.json"], 2, ["rum"]),
    ("no plan", ["status"], 2, ["PLAN"]),
    ("no such checkpoint", ["show", "0" * 64], 3, ["0000"]),
    ("no fingerprint", ["show", "hello"], 3, ["hello"]),
    ("no such run", ["trace", "nothing"], 3, ["nothing"]),
]


@pytest.mark.parametrize(("what", "command", "code", "words"), COMMANDS, ids=[what for what, *_ in COMMANDS])
def test_a_wrong_command_is_told_in_words(
    folder_chain: Chain, what: str, command: list[str], code: int, words: list[str]
) -> None:
    folder_chain.path("broken.yaml").write_text("name: x\nsteps: [\n")
    folder_chain.path("binary.yaml").write_bytes(b"\xff\xfe\x00\x01" * 20)
    folder_chain.path("empty.yaml").write_text("\n")
    if "--store" not in command and command[0] != "rum":
        command = [*command, "--store", folder_chain.store_url]
    result = invoke(folder_chain, *command, "--json")
    assert result.exit_code == code, result.output
    answer = json.loads(result.stdout)
    assert answer["status"] == ("wrong" if code == 2 else "needs_input")
    message = answer["failure"]["message"]
    for word in words:
        assert word in message, message
    assert "Traceback" not in result.stderr
    # Without --json the same is said on standard error, and standard output is empty.
    plain = invoke(folder_chain, *command)
    assert plain.exit_code == code
    assert plain.stdout == ""
    assert words[0] in plain.stderr


def test_an_unknown_failure_of_a_command_is_one_object_too(
    folder_chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    from geocairn import decide

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(decide, "decide", broken)
    result = invoke(folder_chain, "status", "plan.json", "--store", folder_chain.store_url, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["failure"]["class"] == "fatal"
    assert "a fault of ours" in result.stderr
    assert "Traceback" in result.stderr


def test_a_process_says_it_as_well(folder_chain: Chain) -> None:
    write_plan(folder_chain.values, folder_chain.path("plan.json"))
    command = [sys.executable, "-m", "geocairn.flows.command_line", "run", "plan.json"]
    ended = subprocess.run(
        [*command, "--set", "reach.distanc=1", "--json"],
        cwd=folder_chain.folder,
        env={**os.environ, **folder_chain.environment},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert json.loads(ended.stdout)["status"] == "wrong"
    assert "distance" in ended.stderr


def test_a_plan_may_be_right_and_is_then_said_to_be(folder_chain: Chain) -> None:
    result = invoke(folder_chain, "check", "plan.json", "--store", folder_chain.store_url)
    assert result.exit_code == 0
    assert f"{len(STEPS)} steps" in result.stdout


def invoke(chain: Chain, *command: str) -> Any:
    from geocairn.flows.command_line import main

    write_plan(chain.values, chain.path("plan.json"))
    chain.monkeypatch.chdir(chain.folder)
    return CliRunner().invoke(main, list(command))
