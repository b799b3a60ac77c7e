"""The trace of a flow in Python: its steps with outcomes and attempts, counts, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flow_samples import metric, records
from own_steps import flaky_step, grow
from prefect import flow

from geocairn.failure import InputFailure
from geocairn.flows.command_line import main
from geocairn.stores.opening import open_store
from geocairn.stores.runs import list_in_flight
from geocairn.stores.traces import list_traces, read_trace

pytestmark = [pytest.mark.prefect_server, pytest.mark.usefixtures("no_delay")]


def traces(place: Path) -> list[dict[str, Any]]:
    """All traces, by start."""
    store = open_store(str(place / ".geocairn"))
    found = [read_trace(store, entry.run_id, {"default"}) for entry in list_traces(store)]
    return sorted(found, key=lambda trace: str(trace["started"]))


def outcomes(trace: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["name"], step["outcome"]) for step in trace["answer"]["steps"]]


def test_a_flow_leaves_one_trace_with_what_recovery_did(place: Path, counter: str) -> None:
    @flow
    def growing() -> None:
        grow(flaky_step(metric(), counter=counter, fails=2), distance=5)

    growing()
    (trace,) = traces(place)
    assert (trace["flow"], trace["answer"]["status"]) == ("growing", "completed")
    assert outcomes(trace) == [("flaky", "computed"), ("grow", "computed")]
    assert trace["counts"] == {"flaky": {"retries": 2}}
    assert [attempt["class"] for attempt in trace["attempts"]["flaky"]] == ["transient", "transient"]
    assert list_in_flight(open_store(str(place / ".geocairn"))) == []

    growing()
    assert outcomes(traces(place)[-1]) == [("flaky", "reused"), ("grow", "reused")]
    assert traces(place)[-1]["counts"] == {}


def test_what_a_flow_reuses_is_named_by_its_run_in_flight(place: Path) -> None:
    store = open_store(str(place / ".geocairn"))
    seen: list[frozenset[str]] = []

    @flow
    def reusing() -> str:
        made = grow(metric(), distance=5)
        seen.extend(run.fingerprints for run in list_in_flight(store))
        return str(made.fingerprint)

    first = reusing()
    assert reusing() == first
    assert first in seen[-1]


def test_it_says_how_a_flow_that_failed_has_ended(place: Path, counter: str) -> None:
    @flow
    def failing() -> None:
        flaky_step(grow(metric(), distance=5), counter=counter, fails=99, failure="input")

    with pytest.raises(InputFailure):
        failing()
    (trace,) = traces(place)
    assert trace["answer"]["status"] == "needs_input"
    assert trace["answer"]["failure"]["class"] == "input"
    assert outcomes(trace) == [("grow", "computed"), ("flaky", "failed")]
    assert trace["counts"]["flaky"] == {"rollbacks": 1}
    shown = CliRunner().invoke(main, ["trace", trace["run_id"], "--store", str(place / ".geocairn")])
    assert shown.exit_code == 0, shown.output
    assert "input failure in flaky" in shown.output


def test_an_unsound_result_counts_as_a_gate_failure(place: Path) -> None:
    from own_steps import centres

    @flow
    def unsound() -> None:
        centres(metric())

    with pytest.raises(InputFailure):
        unsound()
    (trace,) = traces(place)
    assert trace["counts"]["centres"] == {"gate_failures": 1, "rollbacks": 1}


def test_what_worker_processes_saw_is_in_it(place: Path, counter: str) -> None:
    from distributed import LocalCluster
    from prefect_dask import DaskTaskRunner

    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        @flow(task_runner=DaskTaskRunner(address=cluster.scheduler_address))
        def on_dask() -> None:
            tried = flaky_step.submit(metric(), counter=counter, fails=100, failure="capability")
            grow.submit(tried, distance=5).result()

        on_dask()
    (trace,) = traces(place)
    assert sorted(outcomes(trace)) == [("flaky", "computed"), ("grow", "computed")]
    assert trace["counts"] == {"flaky": {"reroutes": 1}}
    assert len(records(place / ".geocairn")) == 2


def test_recovery_that_took_long_is_a_caveat(place: Path, counter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from geocairn.policy import RecoveryPolicy
    from geocairn.tasks import runs

    slow = RecoveryPolicy(slow_recovery_seconds=0.0)
    monkeypatch.setattr(runs.CheckpointStoreBlock, "policy", lambda self: slow)

    @flow
    def slowly() -> None:
        flaky_step(metric(), counter=counter, fails=1)

    slowly()
    (trace,) = traces(place)
    (caveat,) = trace["answer"]["caveats"]
    assert caveat.startswith("step flaky: recovery took ")
