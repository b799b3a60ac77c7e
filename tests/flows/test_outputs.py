"""Outputs that are deleted, edited, moved or half-published: each run looks at them, the unchanged one too."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chains import Chain

from geocairn.s3 import S3Settings


def delete(chain: Chain) -> None:
    chain.path("out/by_zone.gpkg").unlink()


def delete_sidecar(chain: Chain) -> None:
    chain.path("out/by_zone.gpkg.lineage.json").unlink()


def edit(chain: Chain) -> None:
    path = chain.path("out/by_zone.gpkg")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    before = path.stat()
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if nothing had happened


def truncate(chain: Chain) -> None:
    os.truncate(chain.path("out/by_zone.gpkg"), 5000)


def replace(chain: Chain) -> None:
    chain.path("out/by_zone.gpkg").write_bytes(b"something else")


@pytest.mark.parametrize("spoil", [delete, delete_sidecar, edit, truncate, replace])
def test_a_spoilt_output_is_written_again(
    finished: Chain, right_outputs: dict[str, Any], spoil: Callable[[Chain], None]
) -> None:
    assert finished.run().log == []
    spoil(finished)
    said = {output["name"]: output for output in finished.status()["outputs"]}
    assert (said["by_zone"]["outcome"], said["hulls"]["outcome"]) == ("compute", "reuse")
    assert said["by_zone"]["because"] == [
        {"component": "checkpoint", "before": "present", "now": "output missing or changed"}
    ]
    ended = finished.run()
    assert ended.log == ["load by_zone", "publish by_zone"]
    assert ended.answer["unchanged"] is False
    assert {name: output["outcome"] for name, output in ended.answer["outputs"].items()} == {
        "by_zone": "written",
        "hulls": "reused",
    }
    assert finished.outputs() == right_outputs
    assert json.loads(finished.path("out/by_zone.gpkg.lineage.json").read_text())["fingerprint"]
    assert finished.run().log == []


def test_another_folder_with_the_same_store_gets_its_own_outputs(
    finished: Chain, right_outputs: dict[str, Any], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(finished.path("data"), other / "data")
    ended = finished.run(folder=other)
    assert ended.computed == []
    assert sorted(ended.did("publish")) == ["by_zone", "hulls"]
    assert finished.outputs(other) == right_outputs
    assert ended.answer["outputs"]["hulls"]["uri"] == str(other / "out/hulls.parquet")
    # Each has its own from now on.
    assert finished.run(folder=other).log == []
    assert finished.run().log == []


def test_a_crash_within_a_publication_and_then_the_old_parameter(
    finished: Chain, right_outputs: dict[str, Any]
) -> None:
    changed = ("--set", "reach.distance=1500")
    for interference in (("kill_before_sidecar", {}), ("kill_after_output", {"output": "by_zone"})):
        killed = finished.run(*changed, code=None, interference=[interference])
        assert killed.code == -signal.SIGKILL
        assert not finished.status()["unchanged"]
        old = finished.run()
        assert old.computed == []
        assert "by_zone" in old.did("publish")
        assert finished.outputs() == right_outputs
    new = finished.run(*changed)
    assert new.computed == []
    assert finished.outputs() != right_outputs
    assert finished.run(*changed).log == []


def test_the_old_output_stands_until_the_new_one_is_whole(finished: Chain, right_outputs: dict[str, Any]) -> None:
    failed = finished.run("--set", "reach.distance=1500", code=1, interference=[
        ("fail_step", {"step": "by_zone", "error": "FatalFailure"}),
    ])  # fmt: skip
    assert failed.answer["failure"]["step"] == "by_zone"
    assert finished.outputs()["by_zone.gpkg"] == right_outputs["by_zone.gpkg"]
    assert [path.name for path in finished.path("out").iterdir() if path.name.startswith(".")] == []


def test_mode_error_replaces_our_own_output_and_nothing_else(finished: Chain) -> None:
    finished.values["outputs"][0]["mode"] = "error"
    assert finished.status()["unchanged"]
    finished.run("--set", "reach.distance=1500")
    replace(finished)
    ended = finished.run("--set", "reach.distance=1500", code=3)
    assert "something is there already" in ended.answer["failure"]["message"]
    assert finished.path("out/by_zone.gpkg").read_bytes() == b"something else"


@pytest.mark.s3
def test_outputs_on_s3_are_looked_at_too(finished: Chain, s3_bucket: str, s3_settings: S3Settings) -> None:
    from chains import s3_environment

    from geocairn.s3 import client

    finished.environment |= {**s3_environment(s3_settings), "GEOCAIRN_ALLOW": f"s3://{s3_bucket}"}
    finished.values["outputs"] = [
        {"from": "by_zone", "uri": f"s3://{s3_bucket}/out/by_zone.geojson"},
        {"from": "hulls", "uri": f"s3://{s3_bucket}/out/hulls.parquet"},
    ]
    # GeoJSON is in degrees: the operation comes before the output.
    finished.values["steps"].append(
        {"name": "degrees", "op": "reproject", "inputs": "by_zone", "params": {"crs": "EPSG:4326"}}
    )
    finished.values["outputs"][0]["from"] = "degrees"
    assert sorted(finished.run().did("publish")) == ["degrees", "hulls"]
    assert finished.run().log == []
    s3 = client(s3_settings)
    s3.delete_object(Bucket=s3_bucket, Key="out/hulls.parquet")
    s3.put_object(Bucket=s3_bucket, Key="out/by_zone.geojson", Body=b"{}")
    assert sorted(finished.run().did("publish")) == ["degrees", "hulls"]
    assert finished.run().log == []
