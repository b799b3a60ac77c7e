"""The design's flow: cached as a whole on the second run, and one with the same chain as a plan."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from flow_samples import PLAN, Watch, metric, points, records, state_names, task_runs
from prefect import flow, unmapped

from geocairn.checkpoint import Checkpoint
from geocairn.failure import InputFailure
from geocairn.flows.run_chain import run_chain
from geocairn.tasks import buffer, filter, overlay, read_layer, recovery, reproject, runs, write_layer

pytestmark = pytest.mark.prefect_server


@flow
def covered(counties: str, cities: str) -> Checkpoint:
    reach = buffer(reproject(read_layer(cities), crs="EPSG:5070"), distance=50_000)
    return overlay(reproject(read_layer(counties), crs="EPSG:5070"), reach, how="intersection")


@flow
def written(counties: str) -> Checkpoint:
    return write_layer(reproject(read_layer(counties), crs="EPSG:5070"), uri="out/counties.parquet")


COMPUTED = ["buffer", "overlay", "reproject", "reproject"]
SOURCES = ["counties.gpkg", "cities.geojson"]


def test_the_second_run_is_cached_reads_nothing_and_returns_the_same(place: Path, watch: Watch) -> None:
    first: Any = covered(*SOURCES, return_state=True)
    assert sorted(state_names(first, 6)) == ["Completed"] * 6
    assert watch.taken() == (COMPUTED, sorted(SOURCES))

    second: Any = covered(*SOURCES, return_state=True)
    assert state_names(second, 6) == ["Cached"] * 6
    assert watch.taken() == ([], [])
    assert isinstance(second.result(), Checkpoint)
    assert second.result() == first.result()
    assert second.result().facts.rows == 4
    assert second.result().facts.geometry_types == ["Polygon"]


def test_another_parameter_runs_its_tail_only(place: Path, watch: Watch) -> None:
    covered(*SOURCES)
    watch.taken()

    @flow
    def other() -> Checkpoint:
        reach = buffer(reproject(read_layer(SOURCES[1]), crs="EPSG:5070"), distance=40_000)
        return overlay(reproject(read_layer(SOURCES[0]), crs="EPSG:5070"), reach, how="intersection")

    state: Any = other(return_state=True)
    assert sorted(state_names(state, 6)) == ["Cached"] * 4 + ["Completed"] * 2
    assert watch.taken()[0] == ["buffer", "overlay"]


def test_a_plan_reuses_what_a_flow_computed(place: Path, watch: Watch) -> None:
    covered(*SOURCES)
    kept = records(place / ".geocairn")
    watch.taken()
    answer = run_chain(PLAN)
    assert watch.taken() == ([], [])
    assert {step["outcome"] for step in answer["steps"]} <= {"reused", "not_needed"}
    assert records(place / ".geocairn") == kept


def test_a_flow_reuses_what_a_plan_computed(place: Path, watch: Watch) -> None:
    answer = run_chain(PLAN)
    assert watch.taken()[0] == COMPUTED
    checkpoint = covered(*SOURCES)
    assert watch.taken() == ([], [])
    assert checkpoint.fingerprint == {step["name"]: step["fingerprint"] for step in answer["steps"]}["covered"]


def test_a_publication_is_reused_while_it_stands(place: Path, watch: Watch) -> None:
    written(SOURCES[0])
    target = place / "out" / "counties.parquet"
    assert target.exists()
    state: Any = written(SOURCES[0], return_state=True)
    assert state_names(state, 3) == ["Cached"] * 3
    target.unlink()
    state = written(SOURCES[0], return_state=True)
    assert sorted(state_names(state, 3)) == ["Cached", "Cached", "Completed"]
    assert target.exists()
    assert state.result().publication is not None


def test_a_publication_is_no_layer_for_another_step(place: Path) -> None:
    @flow
    def wrong() -> None:
        buffer(written.fn(SOURCES[0]), distance=1.0)

    with pytest.raises(InputFailure, match="publication, which has no layer"):
        wrong()


def test_submit_and_map_give_the_checkpoints_of_a_call(place: Path, watch: Watch) -> None:
    @flow
    def called() -> list[Checkpoint]:
        cities = reproject(read_layer(SOURCES[1]), crs="EPSG:5070")
        return [buffer(cities, distance=distance) for distance in (10_000, 20_000, 30_000)]

    @flow
    def submitted() -> list[Checkpoint]:
        cities = reproject.submit(read_layer.submit(SOURCES[1]), crs="EPSG:5070")
        return [buffer.submit(cities, distance=distance).result() for distance in (10_000, 20_000, 30_000)]

    @flow
    def mapped() -> list[Checkpoint]:
        cities = reproject.submit(read_layer.submit(SOURCES[1]), crs="EPSG:5070")
        return list(buffer.map(unmapped(cities), distance=[10_000, 20_000, 30_000]).result())

    @flow
    def mapped_layers() -> list[Checkpoint]:
        layers = reproject.map(read_layer.map(SOURCES), crs="EPSG:5070")
        return list(buffer.map(layers, distance=unmapped(10_000)).result())

    expected = submitted()
    assert watch.taken()[0] == ["buffer", "buffer", "buffer", "reproject"]
    assert [made.fingerprint for made in called()] == [made.fingerprint for made in expected]
    assert [made.fingerprint for made in mapped()] == [made.fingerprint for made in expected]
    assert watch.taken() == ([], [])
    assert mapped_layers()[1].fingerprint == expected[0].fingerprint


def test_a_layer_of_many_rows_is_not_mapped_over(place: Path) -> None:
    @flow
    def wrong() -> None:
        buffer.map(metric(), distance=[1.0, 2.0]).result()

    with pytest.raises(InputFailure, match=r"no layer but a str.*unmapped"):
        wrong()


def test_options_reach_the_task_run_and_the_step(place: Path, watch: Watch) -> None:
    @flow
    def optioned(least: int) -> Checkpoint:
        cities = reproject(read_layer(SOURCES[1]), crs="EPSG:5070")
        chosen = buffer.with_options(
            task_run_name="reach of {distance}", expect={"min_rows": least, "geometry": "polygon"}, tags=["wide"]
        )
        return chosen.with_options(step_name="reach {x}", task_run_name="reach of {distance}")(cities, distance=7.0)

    state: Any = optioned(1, return_state=True)
    (run,) = [run for run in task_runs(state, 3) if run.name.startswith("reach")]
    assert run.name == "reach of 7.0"
    assert run.tags == ["wide"]
    assert state.result().step == "reach {x}"


def test_an_expectation_is_enforced_on_a_reused_checkpoint(place: Path) -> None:
    @flow
    def expecting(least: int) -> Checkpoint:
        cities = reproject(read_layer(SOURCES[1]), crs="EPSG:5070")
        return buffer.with_options(expect={"min_rows": least})(cities, distance=7.0)

    expecting(1)
    with pytest.raises(InputFailure, match="at least 3 rows were expected"):
        expecting(3)


def test_an_empty_result_is_refused_unless_allowed(place: Path) -> None:
    @flow
    def emptied(allowed: bool) -> Checkpoint:
        return filter.with_options(allow_empty=allowed)(read_layer(SOURCES[0]), where="people > 1000")

    with pytest.raises(InputFailure, match=r"no rows|empty"):
        emptied(False)
    assert emptied(True).facts.rows == 0
    with pytest.raises(InputFailure, match=r"no rows|empty"):
        emptied(False)


def test_a_checkpoint_that_is_never_stored_serves_its_run_alone(place: Path, watch: Watch) -> None:
    @flow
    def passing(distance: float) -> Checkpoint:
        cities = reproject.with_options(checkpoint="never")(read_layer(SOURCES[1]), crs="EPSG:5070")
        again = reproject.with_options(checkpoint="never")(read_layer(SOURCES[1]), crs="EPSG:5070")
        assert again == cities
        return buffer(cities, distance=distance)

    passing(1.0)
    assert watch.taken()[0] == ["buffer", "reproject"]
    assert len(records(place / ".geocairn")) == 2  # the source and the buffer
    state: Any = passing(1.0, return_state=True)
    assert sorted(state_names(state, 5)) == ["Cached"] * 3 + ["Completed"] * 2
    assert watch.taken()[0] == ["reproject"]

    gc.collect()
    runs.remove_what_ended()
    assert [path for path in (place / ".geocairn" / "runs").rglob("*") if path.is_file()] == []


def test_retention_decides_when_it_expires(place: Path) -> None:
    @flow
    def kept(retention: str) -> Checkpoint:
        layer = read_layer(SOURCES[0])
        return reproject.with_options(retention=retention)(layer, crs="EPSG:5070" if retention != "1h" else "EPSG:3857")

    assert kept("pinned").expires is None
    made = kept("1h")
    from geocairn.checkpoint import parse_time

    assert made.expires is not None
    assert 3500 < parse_time(made.expires) - parse_time(made.created) < 3700


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expct": {}}, "did you mean 'expect'"),
        ({"checkpoint": "nevr"}, "did you mean 'never'"),
        ({"on_invalid": "mend"}, "'fail' or 'repair'"),
        ({"retention": "soon"}, "not a duration"),
        ({"expect": {"min_row": 1}}, "min_row"),
        ({"retries": -1}, "negative"),
        ({"refresh_cache": True}, "new version"),
        ({"persist_result": False}, 'checkpoint="never"'),
        ({"retry_delay_seconds": 3}, "class of a failure"),
        ({"result_storage": "local-file-system/x"}, "checkpoint store"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        buffer.with_options(**options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distanse": 1.0}, "no parameter 'distanse'; did you mean 'distance'.*parameter 'distance' is missing"),
        ({}, "parameter 'distance' is missing"),
        ({"layer": 1, "distance": 1.0}, "'layer' was given twice"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_runs(arguments: dict[str, Any], message: str) -> None:
    layer = metric()
    for way in (buffer, buffer.submit, buffer.map):
        with pytest.raises(InputFailure, match=message):
            way(layer, **arguments)


def test_a_position_too_many_is_refused() -> None:
    with pytest.raises(InputFailure, match=r"takes 1 arguments by position .layer., 2 were given"):
        buffer(metric(), 5.0)


def test_a_wrong_value_is_refused_by_name(place: Path) -> None:
    with pytest.raises(InputFailure, match=r"'quad_segs'.*integer.*'many'"):
        buffer(metric(), distance=1.0, quad_segs="many")
    with pytest.raises(InputFailure, match=r"'quad_segs'.*integer.*None"):
        buffer(metric(), distance=1.0, quad_segs=None)
    assert records(place / ".geocairn") == []


def test_an_async_flow_calls_steps(place: Path, watch: Watch) -> None:
    covered(*SOURCES)
    watch.taken()

    @flow
    async def covered_async() -> Checkpoint:
        cities = reproject.submit(read_layer.submit(SOURCES[1]), crs="EPSG:5070")
        reach = buffer(cities, distance=50_000)
        return overlay(reproject(read_layer(SOURCES[0]), crs="EPSG:5070"), reach, how="intersection")

    state: Any = asyncio.run(covered_async(return_state=True))
    assert state_names(state, 6) == ["Cached"] * 6
    assert watch.taken() == ([], [])


def test_a_subflow_takes_and_returns_checkpoints_and_sees_the_same_versions(place: Path, watch: Watch) -> None:
    @flow
    def cities_m(uri: str) -> Checkpoint:
        return reproject(read_layer(uri), crs="EPSG:5070")

    @flow
    def reach_of(layer: Checkpoint, distance: float) -> Checkpoint:
        return buffer(layer, distance=distance)

    @flow
    def whole() -> tuple[Checkpoint, Checkpoint]:
        first = cities_m(SOURCES[1])
        points_moved(place)
        again = cities_m(SOURCES[1])  # the source is another by now, but the run holds to its version
        return first, again

    def points_moved(folder: Path) -> None:
        moved = points()
        moved["city"] = ["z", "z"]
        moved.to_file(folder / SOURCES[1])

    first, again = whole()
    assert first == again

    @flow
    def later() -> Checkpoint:
        return reach_of(cities_m(SOURCES[1]), 1.0)

    assert later().inputs["layer"] != first.fingerprint
    assert watch.taken()[0] == ["buffer", "reproject", "reproject"]


def test_a_step_outside_any_flow_is_computed_once(place: Path, watch: Watch) -> None:
    first = buffer(reproject(read_layer(SOURCES[1]), crs="EPSG:5070"), distance=5.0)
    assert watch.taken()[0] == ["buffer", "reproject"]
    state: Any = buffer(reproject(read_layer(SOURCES[1]), crs="EPSG:5070"), distance=5.0, return_state=True)
    assert state.name == "Cached"
    assert state.result() == first
    assert watch.taken() == ([], [])


def test_nothing_of_an_ended_run_is_kept_in_memory(place: Path) -> None:
    kept = set(recovery._progress), set(runs._runs)
    covered(*SOURCES)
    gc.collect()
    runs.remove_what_ended()
    assert set(recovery._progress) <= kept[0]
    assert set(runs._runs) <= kept[1]
    assert not (place / ".geocairn" / "runs").exists() or not list((place / ".geocairn" / "runs").rglob("*.*"))
