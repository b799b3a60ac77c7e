"""The chain that the scenarios are told with, and the four ways in which it is run.

    towns (GeoJSON on S3) -> reproject -> buffer -+
    parcels (GeoPackage) -------------------------+-> overlay -+
    districts (GeoPackage) ------------------------------------+-> clip -> dissolve

Every step has an operation of its own, by which it is named here, and all of them can run on two backends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.states import State
from prefect.task_runners import ThreadPoolTaskRunner
from scenarios import STEPS

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.classification import classify
from geocairn.flows.run_chain import ChainHalted, run_chain
from geocairn.operations import operations
from geocairn.tasks import step

PARAMETERS: dict[str, dict[str, Any]] = {
    "reproject": {"crs": "EPSG:32633"},
    "buffer": {"distance": 900.0, "quad_segs": 4},
    "overlay": {"how": "intersection"},
    "clip": {},
    "dissolve": {"by": ["zone"], "aggregates": {"value": "sum", "count": "max"}},
}
INPUTS: dict[str, Any] = {
    "reproject": "towns",
    "buffer": "reproject",
    "overlay": {"left": "parcels", "right": "buffer"},
    "clip": {"layer": "overlay", "mask": "districts"},
    "dissolve": "clip",
}


@dataclass(frozen=True)
class Ended:
    """How a run of the chain ended, whichever way it ran."""

    result: Checkpoint | None
    """The last step's checkpoint."""
    failure_class: str | None
    action: str | None
    answer: Mapping[str, Any] | None
    """What `run_chain` answered; a flow in Python has none."""


def plan(sources: Mapping[str, str]) -> dict[str, Any]:
    """The chain as a plan; its sources by name."""
    return {
        "name": "matrix",
        "sources": {name: {"uri": uri} for name, uri in sources.items()},
        "steps": [{"name": name, "op": name, "inputs": INPUTS[name], "params": PARAMETERS[name]} for name in STEPS],
    }


def chain(sources: Mapping[str, str], start: Callable[[Any], Callable[..., Any]]) -> list[Any]:
    """Start the chain in a flow, and return what each step gave; `start` says how: called, or submitted."""
    made = {name: start(step(operations["read_layer"]))(uri) for name, uri in sources.items()}
    for name in STEPS:
        inputs = INPUTS[name] if isinstance(INPUTS[name], dict) else {"layer": INPUTS[name]}
        given = {role: made[source] for role, source in inputs.items()}
        made[name] = start(step(operations[name]))(**given, **PARAMETERS[name])
    return [made[name] for name in STEPS]


def run(way: str, sources: Mapping[str, str], block: CheckpointStoreBlock, dask_runner: Any = None) -> Ended:
    """Run the chain one way, to its end."""
    if way == "run_chain":
        run_chain.result_storage = block
        try:
            return _ended_chain(run_chain(plan=plan(sources), return_state=True), block)
        finally:
            run_chain.result_storage = None
    if way == "calls":

        @flow(name="matrix-calls")
        def told() -> Checkpoint:
            made: Checkpoint = chain(sources, lambda task: task)[-1]
            return made
    else:

        @flow(name=f"matrix-{way}", task_runner=dask_runner if way == "dask" else ThreadPoolTaskRunner(max_workers=4))
        def told() -> Checkpoint:
            # In order, so that the flow fails of the step that failed and not of one that was never ready.
            made: list[Checkpoint] = [future.result() for future in chain(sources, lambda task: task.submit)]
            return made[-1]

    told.result_storage = block
    return _ended(told(return_state=True))


def _ended(state: State[Any]) -> Ended:
    found: Any = state.result(raise_on_failure=False)
    if not isinstance(found, BaseException):
        return Ended(found, None, None, None)
    said = classify(found)
    return Ended(None, said.failure_class.value, said.action, None)


def _ended_chain(state: State[Any], block: CheckpointStoreBlock) -> Ended:
    found: Any = state.result(raise_on_failure=False)
    if isinstance(found, ChainHalted):
        failure = found.answer["failure"]
        return Ended(None, failure["class"], failure["action"], found.answer)
    if isinstance(found, BaseException):
        raise found
    last = next(entry for entry in found["steps"] if entry["name"] == "dissolve")
    return Ended(block.store.get(last["fingerprint"]), None, None, found)


def make_sources(folder: Path) -> Path:
    """Write the two local sources into a folder, and the third, which is to lie on S3, beside them; return that."""
    import geopandas as gpd
    from seven_steps import make_data
    from shapely.geometry import Point

    make_data(folder)
    parcels = gpd.read_file(folder / "parcels.shp")
    parcels.to_file(folder / "parcels.gpkg", layer="parcels")
    middles = [(501_100, 5_500_900), (502_500, 5_502_400), (502_900, 5_503_000), (505_100, 5_504_800)]
    towns = gpd.GeoDataFrame({"town": list("abcd")}, geometry=[Point(x, y) for x, y in middles], crs="EPSG:32633")
    towns.to_crs("EPSG:4326").to_file(folder / "towns.geojson")
    return folder / "towns.geojson"
