"""Steps run through their whole life from layers at rest in a store; in this process, or in a child with limits.

As a script: `python streamed_runs.py WHAT STORE [BACKEND]`, for what needs a process of its own: one that is killed,
whose memory is measured, or whose address space is limited.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geocairn.checkpoint import Checkpoint
from geocairn.classification import classify
from geocairn.execution import execute
from geocairn.failure import FailureClass
from geocairn.fingerprint import fingerprint, step_record
from geocairn.layer_survey import survey_facts
from geocairn.operations.registry import operations
from geocairn.plan.model import Step
from geocairn.step_call import Run, StepCall, StepSettings
from geocairn.stores.memory import HandOver
from geocairn.streaming import VARIABLE
from geocairn.workspace import Workspace, open_workspace

CRS = "EPSG:5070"
MIB = 1 << 20


def committed(workspace: Workspace, name: str, layer: Any) -> Checkpoint:
    """A layer as a step's checkpoint in the store."""
    print_ = fingerprint({"made": name})
    draft = Checkpoint(print_, "step", name, "1", {}, {}, survey_facts(layer), step=name, scopes=["default"])
    return workspace.store.get(print_) or workspace.store.commit(draft, layer)


def a_call(
    name: str, inputs: Mapping[str, Checkpoint], parameters: Mapping[str, Any], backend: str = "duckdb", **told: Any
) -> StepCall:
    """A call of an operation; what is told beside goes to the call, or to the step's settings."""
    operation = operations[name]
    model = operation.normalise(parameters)
    prints = {role: checkpoint.fingerprint for role, checkpoint in inputs.items()}
    record = step_record(Step(name="s", op=name), operation, model, prints)
    known = {key: told.pop(key) for key in ("attempt", "after_memory") if key in told}
    return StepCall(
        operation, model, inputs, fingerprint(record), record["environment"], StepSettings(**told), backend, **known
    )


def a_run(workspace: Workspace) -> Run:
    """A run that hands nothing over in memory."""
    return Run("run", workspace, HandOver(0))


def wide(count: int, letters: int) -> gpd.GeoDataFrame:
    """Squares along a line, each with a text of so many letters: the same for all, so that a file of it is small."""
    text = pd.Series(["x" * letters], dtype="str").repeat(count).reset_index(drop=True)
    west = np.arange(count) * 2.0
    return gpd.GeoDataFrame({"id": np.arange(count), "text": text}, geometry=shapely.box(west, 0, west + 1, 1), crs=CRS)


def polygons(count: int, vertices: int, seed: int = 1) -> gpd.GeoDataFrame:
    """Polygons of so many vertices in a square of 1000 units."""
    rng = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, vertices, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    radii = rng.random((count, 1, 1)) * 5 + 1
    places = rng.random((count, 1, 2)) * 1000
    shapes = shapely.polygons(places + circle * radii)
    return gpd.GeoDataFrame({"id": np.arange(count)}, geometry=shapes, crs=CRS)


# What runs in a child


def child(
    what: str, store: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this file in a process of its own."""
    return subprocess.run(
        [sys.executable, __file__, what, store, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system", **(environment or {})},
        check=False,
    )


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _warm(workspace: Workspace) -> Run:
    """Load everything that a step needs, so that what is measured afterwards is the step's own."""
    run = a_run(workspace)
    small = committed(workspace, f"small {os.getpid()}", polygons(5, 4))
    execute(a_call("simplify", {"layer": small}, {"tolerance": 0.1}, after_memory=True), run)
    execute(a_call("buffer", {"layer": small}, {"distance": 0.1}, "geopandas"), run)
    return run


def _die_when(workspace: Workspace, moment: str) -> None:
    """Compute a step batch by batch, and be killed: at a point of the commit, or in the second batch."""
    from geocairn.stores import checkpoints, layer_batches, layer_spool

    def die(name: str) -> None:
        if name == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.stage = die
    layer_batches.BATCH_ROWS = 3
    real = layer_spool.LayerSpool.add

    def add(spool: Any, layer: Any) -> None:
        real(spool, layer)
        if spool.rows > len(layer):
            die("second batch")

    layer_spool.LayerSpool.add = add  # type: ignore[method-assign]
    source = committed(workspace, "many", polygons(50, 6))
    execute(a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True), a_run(workspace))


def _measure(workspace: Workspace, name: str, backend: str) -> dict[str, Any]:
    """How much memory a step takes beyond what is loaded anyway: on `duckdb` batch by batch, else as a whole."""
    layer = workspace.store.get(fingerprint({"made": name}))
    assert layer is not None
    run = _warm(workspace)
    before = _status("VmHWM")
    run.notices.clear()
    parameters = {"tolerance": 0.001, "preserve_topology": False}
    made = execute(a_call("simplify", {"layer": layer}, parameters, backend, after_memory=True), run)
    return {"grew": _status("VmHWM") - before, "rows": made.facts.rows, "batches": "batch by batch" in str(run.notices)}


def _limited(workspace: Workspace, room: int) -> dict[str, Any]:
    """An overlay in an address space of so many bytes more: on geopandas, and after it failed on the next backend."""
    sides = {role: workspace.store.get(fingerprint({"made": role})) for role in ("left", "right")}
    run = _warm(workspace)
    limit = _status("VmSize") + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    told: dict[str, Any] = {}
    after_memory = False
    for attempt, backend in enumerate(("geopandas", "duckdb"), start=1):
        call = a_call("overlay", sides, {"how": "intersection"}, backend, attempt=attempt, after_memory=after_memory)
        try:
            made = execute(call, run)
        except Exception as error:
            found = classify(error)
            told[backend] = [found.failure_class.value, found.reason]
            if found.failure_class is not FailureClass.CAPABILITY:
                raise
            after_memory = "memory" in found.reason
            continue
        told[backend] = ["done", made.fingerprint]
        break
    return told


def main(what: str, store: str, *arguments: str) -> None:
    """Do what is asked, and print what came of it as JSON."""
    workspace = open_workspace(store)
    if what == "die":
        _die_when(workspace, *arguments)
    elif what == "measure":
        print(json.dumps(_measure(workspace, *arguments)))
    elif what == "limited":
        print(json.dumps(_limited(workspace, int(arguments[0]))))
    else:
        raise SystemExit(f"unknown: {what}")


if __name__ == "__main__":
    os.environ.setdefault(VARIABLE, "1TB")  # so that only what memory did not suffice for is streamed
    main(*sys.argv[1:])
