"""The life of a step without Prefect: where a source lies now, who won a race, how long a result is kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import geopandas
import pytest
from shapely.geometry import Point

from geocairn.checkpoint import Checkpoint, format_time
from geocairn.decide import decide
from geocairn.execution import execute, kept_longer, load
from geocairn.failure import InputFailure
from geocairn.fingerprint import fingerprint, step_record
from geocairn.operations import operations
from geocairn.pinning import pin
from geocairn.plan.check import graph_of
from geocairn.plan.model import Step
from geocairn.published import target_uri
from geocairn.sources.source import Source
from geocairn.step_call import Run, StepCall, StepSettings
from geocairn.stores.memory import HandOver
from geocairn.workspace import Workspace, open_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    geopandas.GeoDataFrame({"a": [1, 2]}, geometry=[Point(0, 0), Point(5, 5)], crs=5070).to_file(tmp_path / "p.gpkg")
    return open_workspace(str(tmp_path / "store"), base=tmp_path)


def a_run(workspace: Workspace, name: str = "run") -> Run:
    return Run(name, workspace, HandOver(0))


def read_call(run: Run, uri: str) -> StepCall:
    pinned = run.pin(Source(uri=uri))
    operation = operations["read_layer"]
    settings = StepSettings(pinned=pinned)
    return StepCall(operation, operation.normalise({"uri": uri}), {}, pinned.fingerprint, {}, settings)


def buffer_call(run: Run, source: Checkpoint, **settings: object) -> StepCall:
    operation = operations["buffer"]
    parameters = operation.normalise({"distance": 1})
    record = step_record(Step(name="b", op="buffer"), operation, parameters, {"layer": source.fingerprint})
    return StepCall(operation, parameters, {"layer": source}, fingerprint(record), {}, StepSettings(**settings))


def test_a_moved_source_is_read_where_this_run_found_it(workspace, tmp_path):
    first = a_run(workspace)
    execute(read_call(first, "p.gpkg"), first)
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "p.gpkg", tmp_path / "elsewhere" / "q.gpkg")
    second = a_run(workspace, "second")
    reused = execute(read_call(second, "elsewhere/q.gpkg"), second)
    assert reused.source["uri"].endswith("p.gpkg")  # the record is the first run's
    assert len(load(reused, second)) == 2


def test_the_loser_of_a_race_goes_on_with_the_winners_layer(workspace, monkeypatch):
    run = Run("loser", workspace, HandOver())
    source = execute(read_call(run, "p.gpkg"), run)
    call = buffer_call(run, source)
    winner = a_run(workspace, "winner")
    real = workspace.store.commit

    def beaten(draft, layer=None, **options):
        monkeypatch.setattr(workspace.store, "commit", real)
        real(draft.replaced(seconds=123.0), layer.assign(a=[7, 8]))
        return real(draft, layer, **options)

    monkeypatch.setattr(workspace.store, "commit", beaten)
    checkpoint = execute(call, run)
    assert checkpoint.seconds == 123.0
    assert list(load(checkpoint, run)["a"]) == list(load(checkpoint, winner)["a"]) == [7, 8]
    assert call.fingerprint not in run.computed


def test_a_longer_retention_is_applied_to_a_result_that_is_there(workspace):
    run = a_run(workspace)
    source = execute(read_call(run, "p.gpkg"), run)
    first = execute(buffer_call(run, source), run)
    assert first.expires is not None
    pinned = execute(buffer_call(run, source, retention="pinned"), run)
    assert pinned.expires is None
    assert workspace.store.get(first.fingerprint).expires is None
    again = execute(buffer_call(run, source, retention="7d"), run)
    assert again.expires is None  # what is kept longer stays so


def test_retention_renews_only_what_ends_clearly_sooner():
    from geocairn.checkpoint import LayerFacts

    def until(seconds):
        return Checkpoint(
            "ab" * 32, "step", "buffer", "1", {}, {}, LayerFacts(1), expires=format_time(1000.0 + seconds)
        )

    assert kept_longer(until(3600), "1h", 1000.0) is None
    assert kept_longer(until(3500), "1h", 1000.0) is None
    assert kept_longer(until(60), "1h", 1000.0).expires == format_time(4600.0)
    assert kept_longer(until(60), None, 1000.0) is None


def test_one_bad_read_does_not_lose_a_layer(workspace, monkeypatch):
    from geocairn.stores import checkpoints

    run = a_run(workspace)
    source = execute(read_call(run, "p.gpkg"), run)
    made = execute(buffer_call(run, source), run)
    real, calls = checkpoints._digest, []

    def once_wrong(path):
        calls.append(path)
        return "00" * 32 if len(calls) == 1 else real(path)

    monkeypatch.setattr(checkpoints, "_digest", once_wrong)
    assert len(workspace.store.load(made)) == 2
    assert workspace.store.get(made.fingerprint) is not None


@pytest.mark.parametrize("uri", ["store/layers/ab/x.parquet", "store/x.geojson", "store/../store/checkpoints/x.gpkg"])
def test_an_output_cannot_lie_in_the_store(workspace, uri):
    with pytest.raises(InputFailure, match="cannot lie in the checkpoint store"):
        target_uri(operations["write_layer"].normalise({"uri": uri}), workspace)
    plan = {"name": "p", "sources": {"s": {"uri": "p.gpkg"}}, "outputs": [{"from": "s", "uri": uri}]}
    with pytest.raises(InputFailure, match="cannot lie in the checkpoint store"):
        decide(graph_of(plan), workspace)


def test_lineage_names_where_this_run_found_a_source(workspace, tmp_path):
    from geocairn.lineage import lineage_of, planned

    first = a_run(workspace)
    source = execute(read_call(first, "p.gpkg"), first)
    made = execute(buffer_call(first, source), first)
    shutil.copy(tmp_path / "p.gpkg", tmp_path / "mine.gpkg")
    plan = {
        "name": "p",
        "sources": {"s": {"uri": "mine.gpkg"}},
        "steps": [{"name": "b", "op": "buffer", "inputs": "s", "params": {"distance": 1}}],
    }
    decision = decide(graph_of(plan), workspace)
    said = {v.fingerprint: planned(v.node, v.record, v.pinned) for v in decision.verdicts.values()}
    assert made.fingerprint in said
    (entry,) = lineage_of(made, workspace.store, None, said)["sources"].values()
    assert entry["uri"].endswith("mine.gpkg")
    assert pin(Source(uri="mine.gpkg"), workspace).fingerprint == source.fingerprint
