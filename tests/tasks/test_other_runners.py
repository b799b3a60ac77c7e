"""Steps in processes of their own: Prefect's process pool, and a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flow_samples import metric, points, records, state_names
from own_steps import flaky_step, grow, processes
from prefect import flow, unmapped
from prefect.task_runners import ProcessPoolTaskRunner

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.stores.opening import open_store
from geocairn.tasks import buffer, overlay, read_layer, reproject, step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

pytestmark = pytest.mark.prefect_server


@pytest.fixture(scope="module")
def dask_runner(prefect_api: str) -> Iterator[Any]:
    """A task runner on a Dask cluster of two processes on loopback, which import what tests import."""
    prefect_dask = pytest.importorskip("prefect_dask")
    from distributed import LocalCluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster:
            yield prefect_dask.DaskTaskRunner(address=cluster.scheduler_address)


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
    def covered() -> tuple[Checkpoint, list[str]]:
        sources = [read_layer.submit(str(place / name)) for name in ("counties.gpkg", "cities.geojson")]
        counties, cities = (reproject.submit(source, crs="EPSG:5070") for source in sources)
        reach = buffer.submit(cities, distance=50_000)
        made = overlay.submit(counties, reach, how="intersection")
        made.wait()
        return made.result(), [future.state.name for future in (*sources, counties, cities, reach, made)]

    return covered


def test_the_chain_runs_on_dask_under_the_same_fingerprints(
    place: Path, dask_runner: Any, on_store: Callable[[Any], Any]
) -> None:
    made, states = on_store(chain_flow(place, task_runner=dask_runner))()
    assert made.facts.rows == 4
    assert states == ["Completed"] * 6
    kept = records(place / "store")
    assert len(kept) == 6
    assert on_store(chain_flow(place, task_runner=dask_runner))() == (made, ["Cached"] * 6)
    state: Any = on_store(chain_flow(place))(return_state=True)
    assert state.result() == (made, ["Cached"] * 6)
    assert state_names(state, 6) == ["Cached"] * 6
    assert records(place / "store") == kept


def test_a_step_runs_in_a_process_pool(place: Path) -> None:
    """The default store is that of the process that runs the flow, as it is for a step in a thread."""
    counter = place / "calls"

    @flow(task_runner=ProcessPoolTaskRunner(max_workers=1))
    def there() -> Checkpoint:
        made: Checkpoint = flaky_step.submit(metric(), counter=str(counter), fails=1).result()
        return made

    made = there()
    assert made.attempts == 2
    assert processes(str(counter)).isdisjoint({os.getpid()})
    assert records(place / ".geocairn") == [made.fingerprint]
    state: Any = flaky_step(metric(), counter=str(counter), fails=1, return_state=True)
    assert (state.name, state.result()) == ("Cached", made)


def test_the_hook_frames_own_steps_and_options_work_on_dask(
    place: Path, dask_runner: Any, on_store: Callable[[Any], Any]
) -> None:
    counter = place / "calls"

    def local(layer: GeoDataFrame, *, add: int) -> GeoDataFrame:
        layer["n"] += add
        return layer

    closure = step(local, step_name="local")

    @flow(task_runner=dask_runner)
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
    here = closure.with_options(result_storage=CheckpointStoreBlock(url=str(place / "store")))
    assert here(never, add=5) == last  # the same code has the same version


def test_all_processes_of_a_run_hold_a_source_to_one_version(
    place: Path, dask_runner: Any, on_store: Callable[[Any], Any]
) -> None:
    source = place / "cities.geojson"

    @flow(task_runner=dask_runner)
    def twice() -> set[str]:
        found = {read_layer.submit(str(source)).result().fingerprint}
        points().iloc[::-1].to_file(source)
        found |= {made.fingerprint for made in read_layer.map([str(source)] * 4).result()}
        found.add(read_layer(str(source)).fingerprint)
        return found

    first = on_store(twice)()
    assert len(first) == 1
    assert on_store(twice)() != first
