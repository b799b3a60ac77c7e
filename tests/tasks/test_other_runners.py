"""Steps in processes of their own: Prefect's process pool, and a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_samples import metric, points, records, state_names
from own_steps import flaky_step, grow, processes
from prefect import flow, unmapped
from prefect.task_runners import ProcessPoolTaskRunner

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.stores.opening import open_store
from geocairn.tasks import buffer, overlay, read_layer, reproject, step

pytestmark = pytest.mark.prefect_server

Runner = Callable[[], Any]


@pytest.fixture(scope="module")
def dask_address(prefect_api: str) -> Iterator[str]:
    """A Dask cluster of two processes on loopback, which import what tests import."""
    pytest.importorskip("prefect_dask")
    from distributed import LocalCluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster:
            yield cluster.scheduler_address


@pytest.fixture(params=["processes", "dask"])
def runner(request: pytest.FixtureRequest) -> Runner:
    """Makes a task runner whose tasks run in other processes."""
    if request.param == "processes":
        return lambda: ProcessPoolTaskRunner(max_workers=2)
    address = request.getfixturevalue("dask_address")
    from prefect_dask import DaskTaskRunner

    return lambda: DaskTaskRunner(address=address)


@pytest.fixture
def on_store(place: Path) -> Callable[[Any], Any]:
    """Gives a flow a store by its full path: the cluster was started in another folder."""

    def give(made: Any) -> Any:
        made.result_storage = CheckpointStoreBlock(url=str(place / "store"))
        return made

    return give


def chain_flow(place: Path, **options: Any) -> Any:
    """Return the design's flow with every step submitted."""

    @flow(**options)
    def covered() -> Checkpoint:
        counties = reproject.submit(read_layer.submit(str(place / "counties.gpkg")), crs="EPSG:5070")
        cities = reproject.submit(read_layer.submit(str(place / "cities.geojson")), crs="EPSG:5070")
        reach = buffer.submit(cities, distance=50_000)
        made: Checkpoint = overlay.submit(counties, reach, how="intersection").result()
        return made

    return covered


def test_the_chain_runs_in_other_processes_under_the_same_fingerprints(
    place: Path, runner: Runner, on_store: Callable[[Any], Any]
) -> None:
    there: Any = on_store(chain_flow(place, task_runner=runner()))(return_state=True)
    assert there.result().facts.rows == 4
    kept = records(place / "store")
    assert len(kept) == 6
    again: Any = on_store(chain_flow(place, task_runner=runner()))(return_state=True)
    assert state_names(again, 6) == ["Cached"] * 6
    here: Any = on_store(chain_flow(place))(return_state=True)
    assert state_names(here, 6) == ["Cached"] * 6
    assert here.result() == there.result()
    assert records(place / "store") == kept


def test_the_hook_frames_own_steps_and_options_work_there(
    place: Path, runner: Runner, on_store: Callable[[Any], Any]
) -> None:
    counter = place / "calls"

    def local(layer: "GeoDataFrame", *, add: int) -> "GeoDataFrame":  # type: ignore[name-defined]  # noqa: F821
        layer["n"] += add
        return layer

    closure = step(local, step_name="local")

    @flow(task_runner=runner())
    def several() -> list[Checkpoint]:
        tried = flaky_step.with_options(retries=2).submit(metric(), counter=str(counter), fails=1)
        rerouted = flaky_step.submit(tried, counter=str(counter), fails=100, failure="capability")
        never = grow.with_options(checkpoint="never", step_name="passing").submit(rerouted, distance=1)
        last = closure.submit(never, add=5)
        mapped = buffer.map(unmapped(last), distance=[1.0, 2.0])
        return [tried.result(), rerouted.result(), never.result(), last.result(), *mapped.result()]

    made = on_store(several)()
    tried, rerouted, never, last, first, second = made
    assert (tried.attempts, rerouted.backend, never.step, last.step) == (2, "second", "passing", "local")
    assert processes(str(counter)).isdisjoint({os.getpid()})
    assert sorted(records(place / "store")) == sorted(
        {entry.fingerprint for entry in (tried, rerouted, last, first, second)}
    )
    assert open_store(place / "store").load(last)["n"].tolist() == [5, 6, 7]
    assert closure(never, add=5).fingerprint == last.fingerprint  # the same code, the same version


def test_all_processes_of_a_run_hold_a_source_to_one_version(
    place: Path, runner: Runner, on_store: Callable[[Any], Any]
) -> None:
    source = place / "cities.geojson"

    @flow(task_runner=runner())
    def twice() -> set[str]:
        found = {read_layer.submit(str(source)).result().fingerprint}
        points().iloc[::-1].to_file(source)
        found |= {made.fingerprint for made in read_layer.map([str(source)] * 4).result()}
        found.add(read_layer(str(source)).fingerprint)
        return found

    first = on_store(twice)()
    assert len(first) == 1
    assert on_store(twice)() != first
