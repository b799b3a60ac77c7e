"""A chain that is run again: everything is reused, nothing is read, and `status` said so before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from chains import Chain
from seven_steps import STEPS, write_plan


def seen(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Inode, time and content of every file beneath a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_second_run_reuses_everything_and_reads_no_layer(chain: Chain) -> None:
    before = chain.status()
    assert not before["unchanged"]
    assert {step["outcome"] for step in before["steps"]} == {"compute"}
    first = chain.run()
    assert first.computed == sorted(STEPS)
    assert {name: first.outcomes()[name] for name in STEPS} == dict.fromkeys(STEPS, "computed")
    outputs = seen(chain.path("out"))
    assert {Path(name).name for name in outputs} == {"by_zone.gpkg", "by_zone.gpkg.lineage.json", "hulls.parquet"}

    said = chain.status()
    assert said["unchanged"]
    assert {step["outcome"] for step in said["steps"]} == {"reuse"}
    again = chain.run()
    assert again.log == []
    assert again.answer["unchanged"] is True
    assert again.answer["recorded"] is False
    assert set(again.outcomes().values()) == {"reused"}
    assert seen(chain.path("out")) == outputs

    # The answer is that of the first run, told from the records.
    for told, first_told in zip(again.answer["steps"], first.answer["steps"], strict=True):
        for part in ("name", "op", "fingerprint", "backend", "rows", "bytes", "ref"):
            assert told[part] == first_told[part]
    for name, output in again.answer["outputs"].items():
        assert output["outcome"] == "reused"
        assert {**output, "outcome": "written"} == first.answer["outputs"][name]
    # And it has a trace of its own.
    trace = json.loads(chain.command("trace", again.answer["run_id"], "--store", chain.store_url, "--json"))
    assert trace["answer"]["unchanged"] is True
    assert trace["started"] <= trace["ended"]


def test_a_recorded_rerun_is_cached_in_prefect(chain: Chain, prefect_api: str) -> None:
    chain.run()
    outputs = seen(chain.path("out"))
    again = chain.run("--record")
    assert again.log == []
    assert set(again.outcomes().values()) == {"reused"}
    assert again.answer["unchanged"] is True
    assert again.answer["recorded"] is True
    assert seen(chain.path("out")) == outputs
    found = task_runs(prefect_api, again.answer["run_id"])
    assert len(found) == len(STEPS) + 3 + 2  # with sources and outputs
    assert {run["state"]["name"] for run in found} == {"Cached"}
    assert "overlay · covered" in {run["name"] for run in found}


def task_runs(api: str, flow_run_id: str) -> list[dict[str, Any]]:
    """The task runs of a flow run. Prefect takes their states in with some delay, so this waits for the last."""
    import time

    body = json.dumps({"flow_runs": {"id": {"any_": [flow_run_id]}}}).encode()
    end = time.monotonic() + 20
    while True:
        request = urllib.request.Request(
            f"{api}/task_runs/filter", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())
        ended = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
        complete = len(found) >= len(STEPS) + 5 and all((run["state"] or {}).get("type") in ended for run in found)
        if complete or time.monotonic() > end:
            return found
        time.sleep(0.1)


def test_the_unchanged_rerun_and_status_load_neither_prefect_nor_geopandas(finished: Chain) -> None:
    program = (
        "import atexit, json, sys\n"
        "def tell():\n"
        "    heavy = {'prefect', 'geopandas', 'shapely', 'pandas', 'numpy', 'pyarrow', 'pyogrio', 'pyproj', 'boto3'}\n"
        "    print(json.dumps(sorted(heavy & set(sys.modules))), file=sys.stderr)\n"
        "atexit.register(tell)\n"
        "from geocairn.flows.command_line import main\n"
        "main()\n"
    )
    write_plan(finished.values, finished.path("plan.json"))
    environment = {**os.environ, **finished.environment}
    for command in ("status", "run"):
        for _ in range(2):  # what a first one may still have to find out, a second one remembers
            ended = subprocess.run(
                [sys.executable, "-c", program, command, "plan.json", "--store", finished.store_url, "--json"],
                cwd=finished.folder,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
        assert json.loads(ended.stdout)["unchanged"] is True
        assert json.loads(ended.stderr) == []


def test_a_run_that_nothing_precedes_needs_no_record_of_prefect_to_be_reused(finished: Chain) -> None:
    """The store alone says what is there: a machine without the server's database reuses it."""
    ended = finished.run(environment={"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert ended.answer["unchanged"] is True
