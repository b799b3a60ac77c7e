"""One chain, other circumstances: through memory or the store, another folder, hash seed, locale and time zone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from chains import Chain
from seven_steps import write_plan


def typed_chain(chain: Chain) -> None:
    """Sources with the types that are lost on the way by those who are careless."""
    import geopandas as gpd
    import pandas as pd
    from shapely.geometry import Point, box

    times = pd.to_datetime(["2024-03-31 01:30", None, "2024-10-27 02:30"])
    squares = gpd.GeoDataFrame(
        {
            "small": pd.array([1, None, 3], dtype="Int16"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "kind": pd.Categorical(["b", "a", None], categories=["a", "b", "c"], ordered=True),
            "when": times.tz_localize("UTC").tz_convert("Europe/Berlin"),
            "text": pd.array(["x", None, ""], dtype="string"),
            "real": [1.5, float("nan"), -0.0],
        },
        geometry=[box(i * 10, 0, i * 10 + 8, 8) for i in range(3)],
        crs="EPSG:32633",
    )
    points = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(1, 1), Point(12, 2)], crs="EPSG:32633")
    squares.to_parquet(chain.path("data/squares.parquet"))
    points.to_parquet(chain.path("data/points.parquet"))
    chain.values = {
        "name": "typed",
        "sources": {"squares": {"uri": "data/squares.parquet"}, "points": {"uri": "data/points.parquet"}},
        "steps": [
            {"name": "simple", "op": "simplify", "inputs": "squares", "params": {"tolerance": 0.1}},
            {
                "name": "joined",
                "op": "spatial_join",
                "inputs": {"left": "simple", "right": "points"},
                "params": {"how": "left"},
            },
            {"name": "kept", "op": "filter", "inputs": "joined", "params": {"where": "real > -5 OR real IS NULL"}},
            {"name": "centres", "op": "centroid", "inputs": "kept"},
        ],
        "outputs": [{"from": "centres", "uri": "out/centres.parquet"}],
    }


def test_memory_and_store_give_the_same_bytes_and_types(folder_chain: Chain, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    typed_chain(folder_chain)
    stores, outputs, records = [tmp_path / "memory", tmp_path / "disk"], [], []
    for store, budget in zip(stores, (1 << 30, 0), strict=True):
        ended = folder_chain.run(store=str(store), interference=[("memory_budget", {"size": budget})])
        loads = ended.did("load")
        assert (loads == []) == (budget > 0)
        outputs.append(folder_chain.path("out/centres.parquet").read_bytes())
        shutil.rmtree(folder_chain.path("out"))
        records.append({step["name"]: step["ref"] for step in ended.answer["steps"]})
    assert outputs[0] == outputs[1]
    for name in records[0]:
        tables = [pq.read_table(store / record[name]) for store, record in zip(stores, records, strict=True)]
        assert tables[0].schema.equals(tables[1].schema, check_metadata=True), name
        assert tables[0].equals(tables[1]), name


def test_fingerprints_do_not_depend_on_the_machine_s_settings(finished: Chain, tmp_path: Path) -> None:
    """Each in a process of its own, on another copy of the data: only what is read counts."""
    wanted = finished.fingerprints()
    elsewhere = tmp_path / "another place, with spaces"
    shutil.copytree(finished.path("data"), elsewhere / "data")
    write_plan(finished.values, elsewhere / "plan.json")
    settings: list[dict[str, str]] = [
        {"PYTHONHASHSEED": "4711", "TZ": "Pacific/Kiritimati", "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8"},
        {"PYTHONHASHSEED": "1", "TZ": "America/St_Johns", "PYTHONUTF8": "0", "LC_ALL": "POSIX", "HOME": str(tmp_path)},
    ]
    for changes in settings:
        environment: dict[str, str] = {**os.environ, "GEOCAIRN_CACHE": str(tmp_path / "cache"), **changes}
        command = [sys.executable, "-m", "geocairn.flows.command_line", "-C", str(elsewhere), "status", "plan.json"]
        ended = subprocess.run(
            [*command, "--store", finished.store_url, "--json"], env=environment, capture_output=True
        )
        assert ended.returncode == 0, ended.stderr.decode()
        said: dict[str, Any] = json.loads(ended.stdout.decode("utf-8"))
        assert {entry["name"]: entry["fingerprint"] for entry in [*said["steps"], *said["sources"]]} == wanted
        assert [step["outcome"] for step in said["steps"]] == ["reuse"] * 7
        if "PYTHONUTF8" in changes:  # a terminal that knows no more than ASCII
            told = subprocess.run(
                [*command, "--store", finished.store_url, "--set", "reach.distance=950"],
                env=environment,
                capture_output=True,
            )
            assert told.returncode == 0, told.stderr.decode()
            assert b"params.distance: 900.0" in told.stdout
        shutil.rmtree(tmp_path / "cache")
