"""Small layers, the chain of the design as a plan, and ways to see what was computed and what the API says of it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State, TaskRun

PLAN: dict[str, Any] = {
    "name": "covered",
    "sources": {"counties": {"uri": "counties.gpkg"}, "cities": {"uri": "cities.geojson"}},
    "steps": [
        {"name": "counties_m", "op": "reproject", "inputs": "counties", "params": {"crs": "EPSG:5070"}},
        {"name": "cities_m", "op": "reproject", "inputs": "cities", "params": {"crs": "EPSG:5070"}},
        {"name": "reach", "op": "buffer", "inputs": "cities_m", "params": {"distance": 50000}},
        {
            "name": "covered",
            "op": "overlay",
            "inputs": {"left": "counties_m", "right": "reach"},
            "params": {"how": "intersection"},
        },
    ],
}
"""The chain that the design writes as a flow."""


def squares(crs: str = "EPSG:4326") -> Any:
    """Return four squares of one degree in Kansas."""
    import geopandas
    from shapely.geometry import box

    corners = [(-99, 38), (-98, 38), (-99, 39), (-98, 39)]
    return geopandas.GeoDataFrame(
        {"name": ["a", "b", "c", "d"], "people": [10, 20, 30, 40]},
        geometry=[box(x, y, x + 1, y + 1) for x, y in corners],
        crs=crs,
    )


def points(crs: str = "EPSG:4326") -> Any:
    """Return two points in those squares."""
    import geopandas
    from shapely.geometry import Point

    return geopandas.GeoDataFrame({"city": ["x", "y"]}, geometry=[Point(-98.5, 38.5), Point(-97.5, 39.5)], crs=crs)


def metric(rows: int = 3) -> Any:
    """Return squares of 10 m, in metres, near the middle of EPSG:5070."""
    import geopandas
    from shapely.geometry import box

    shapes = [box(20 * i, 1_800_000, 20 * i + 10, 1_800_010) for i in range(rows)]
    return geopandas.GeoDataFrame({"n": list(range(rows))}, geometry=shapes, crs="EPSG:5070")


def write_sources(folder: Path) -> None:
    """Write the sources of the chain into a folder."""
    squares().to_file(folder / "counties.gpkg", layer="counties")
    points().to_file(folder / "cities.geojson")


class Watch:
    """What this process computes (operations whose implementation ran) and reads (layers from stores, sources)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.computed: list[str] = []
        self.read: list[str] = []
        lock = threading.Lock()
        import geocairn.execution as execution
        from geocairn import source_step
        from geocairn.stores.checkpoints import CheckpointStore

        computed, load, read_pinned = execution._computed, CheckpointStore.load, source_step.read_pinned

        def computing(call: Any, *more: Any) -> Any:
            with lock:
                self.computed.append(call.operation.name)
            return computed(call, *more)

        def loading(store: Any, checkpoint: Any, columns: Any = None) -> Any:
            with lock:
                self.read.append(checkpoint.operation)
            return load(store, checkpoint, columns)

        def reading(source: Any, version: Any, run: Any) -> Any:
            with lock:
                self.read.append(Path(source.uri).name)
            return read_pinned(source, version, run)

        monkeypatch.setattr(execution, "_computed", computing)
        monkeypatch.setattr(CheckpointStore, "load", loading)
        monkeypatch.setattr(source_step, "read_pinned", reading)

    def taken(self) -> tuple[list[str], list[str]]:
        """Return what was computed and read since the last question, sorted."""
        found = sorted(self.computed), sorted(self.read)
        self.computed.clear()
        self.read.clear()
        return found


def task_runs(state: State[Any], count: int, *, seconds: float = 60.0) -> list[TaskRun]:
    """Return the task runs of a flow run as the server knows them, once it knows `count` of them to have ended."""
    flow_run_id = state.state_details.flow_run_id
    assert flow_run_id is not None
    end = time.monotonic() + seconds
    while True:
        with get_client(sync_client=True) as client:
            found = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id])))
        ended = [run for run in found if run.state and (run.state.is_final() or run.state_name == "NotReady")]
        if len(ended) >= count:
            return ended
        assert time.monotonic() < end, f"{len(ended)} of {count} task runs have ended: {[r.state_name for r in found]}"
        time.sleep(0.2)


def state_names(state: State[Any], count: int) -> list[str]:
    """Return the names of the states in which the task runs of a flow run ended."""
    return [str(run.state_name) for run in task_runs(state, count)]


def records(folder: Path) -> list[str]:
    """Return the fingerprints that a folder store holds records of, sorted."""
    return sorted(path.stem for path in (folder / "checkpoints").glob("*/*.json"))


def leases(folder: Path) -> list[Path]:
    """Return the leases that lie in a folder store."""
    return sorted((folder / "leases").glob("*/*.json"))
