"""Measure `status` of a 1,000-step plan, cold and with every checkpoint there, without importing Prefect.

    uv run python benchmarks/status_thousand.py

The goal is under a second. The checkpoints are one small layer each, committed by the store itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 1000


def plan() -> dict[str, object]:
    """Return a plan of ten chains of a hundred steps."""
    steps = []
    for number in range(STEPS):
        before = f"s{number - 1}" if number % 100 else "points"
        steps.append({"name": f"s{number}", "op": "buffer", "inputs": before, "params": {"distance": 1 + number}})
    return {
        "name": "thousand",
        "sources": {"points": {"uri": "points.gpkg"}},
        "steps": steps,
    }


def main() -> None:
    import geopandas

    with tempfile.TemporaryDirectory(prefix="geocairn-bench-") as name:
        folder = Path(name)
        layer = geopandas.GeoDataFrame({"a": [1]}, geometry=geopandas.points_from_xy([0], [0]), crs="EPSG:5070")
        layer.to_file(folder / "points.gpkg", layer="points")
        (folder / "plan.json").write_text(json.dumps(plan()), encoding="utf-8")
        environment = {**os.environ, "GEOCAIRN_CACHE": str(folder / "cache")}
        command = [sys.executable, "-m", "geocairn.flows.command_line", "status", "plan.json", "--json"]

        def measured() -> tuple[float, dict[str, object]]:
            started = time.perf_counter()
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
            return time.perf_counter() - started, json.loads(done.stdout)

        measured()
        missing, status = min((measured() for _ in range(3)), key=lambda pair: pair[0])
        assert not status["unchanged"]
        commit_all(folder / ".geocairn", status, layer)
        present, status = min((measured() for _ in range(3)), key=lambda pair: pair[0])
        assert status["unchanged"], "every checkpoint is there"
    print(f"status of {STEPS} steps, none there: {missing:.2f} s; all there: {present:.2f} s; goal: under 1 s")


def commit_all(store_folder: Path, status: dict[str, object], layer: object) -> None:
    """Commit a checkpoint for every fingerprint of a status."""
    from geocairn.checkpoint import Checkpoint
    from geocairn.gate import survey_facts
    from geocairn.stores.opening import open_store

    store = open_store(store_folder)
    facts = survey_facts(layer)
    for kind, part in (("step", "steps"), ("source", "sources")):
        for entry in status[part]:  # type: ignore[attr-defined]
            draft = Checkpoint(
                fingerprint=entry["fingerprint"],
                kind=kind,  # type: ignore[arg-type]
                operation=entry["op"],
                version="1",
                parameters={},
                inputs={},
                facts=facts,
                scopes=["default"],
            )
            store.commit(draft, layer if kind == "step" else None)


if __name__ == "__main__":
    main()
