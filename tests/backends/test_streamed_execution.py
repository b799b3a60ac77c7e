"""The life of a step that is computed batch by batch: its record, the gate, failures, kills, and memory."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import awkward_layers as awkward
import numpy as np
import pytest
import shapely
from streamed_runs import CRS, MIB, a_call, a_run, child, committed, polygons, wide
from streamed_steps import storable

from geocairn.backends.claims import _streams
from geocairn.backends.sides import Piece
from geocairn.execution import execute
from geocairn.expectation import Expect
from geocairn.failure import InputFailure
from geocairn.s3 import S3Settings
from geocairn.step_call import Run
from geocairn.stores import layer_batches
from geocairn.stores.layer_spool import LayerSpool
from geocairn.workspace import Workspace, open_workspace

pytest.importorskip("duckdb")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_batches, "BATCH_ROWS", 3)


@pytest.fixture
def workspace(store_url: str, store_settings: S3Settings | None) -> Workspace:
    return open_workspace(store_url, s3=store_settings)


@pytest.fixture
def folder(tmp_path: Path) -> Workspace:
    return open_workspace(str(tmp_path / "store"))


def scratch_files(workspace: Workspace) -> list[Path]:
    place = workspace.store.objects.scratch().parent
    alone = place.name == ".tmp"  # else a folder that all stores of this user share
    return [path for path in place.iterdir() if alone or path.name.split("~")[1:2] == [str(os.getpid())]]


def by_batches(run: Run) -> bool:
    return any("batch by batch" in notice["notice"] for notice in run.notices)


def layers_of(run: Run, fingerprint: str) -> list[str]:
    return [info.key for info in run.workspace.store.objects.list(f"layers/{fingerprint[:2]}/{fingerprint}")]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("buffer", {"distance": 1.5}), ("overlay", {"how": "union"}), ("spatial_join", {"match": "all"})],
)
def test_the_record_is_that_of_the_way_through_whole_layers(
    name: str, parameters: dict[str, Any], workspace: Workspace
) -> None:
    run = a_run(workspace)
    one = committed(workspace, "one", storable(awkward.layer(awkward.POLYGONS)))
    two = committed(workspace, "two", storable(awkward.layer(awkward.OTHERS, prefix="r_")))
    roles = {"buffer": {"layer": one}}.get(name, {"left": one, "right": two})
    call = a_call(name, roles, parameters)
    whole = execute(call, run)
    assert not by_batches(run)
    workspace.store.discard(call.fingerprint, "to be made again")
    streamed = execute(a_call(name, roles, parameters, after_memory=True), run)
    assert by_batches(run)
    alike = {"layer": None, "seconds": 0.0, "created": "", "expires": ""}
    assert streamed.replaced(**alike) == whole.replaced(**alike)
    assert streamed.layer.key != whole.layer.key
    assert (streamed.layer.size, streamed.layer.sha256) == (whole.layer.size, whole.layer.sha256)
    assert workspace.store.get(call.fingerprint) == streamed
    assert call.fingerprint in run.computed
    assert not scratch_files(workspace)


def test_a_layer_for_the_run_alone_is_streamed_too(workspace: Workspace) -> None:
    run = a_run(workspace)
    source = committed(workspace, "one", polygons(10, 5))
    call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True, checkpoint="never")
    made = execute(call, run)
    assert run.keeps
    assert workspace.store.get(call.fingerprint) is None
    assert workspace.store.get_run_layer("run", call.fingerprint) == made
    assert len(workspace.store.load(made)) == 10


def test_a_lost_input_is_told_and_set_aside(folder: Workspace) -> None:
    run = a_run(folder)
    source = committed(folder, "one", polygons(10, 5))
    path = folder.store.objects.local(source.layer.key)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True)
    with pytest.raises(Exception, match="it is not what was written"):
        execute(call, run)
    assert folder.store.get(source.fingerprint) is None


def unsound_at_last(monkeypatch: pytest.MonkeyPatch, unsound: Any) -> None:
    """Let the backend give an unsound geometry in the last row of all."""

    def stream(*, layer: Any, **_: Any) -> Any:
        for number, batch in enumerate(layer.batches(), start=1):
            values = np.asarray(batch.geometry.values, dtype=object).copy()
            before = values.copy()
            if number * layer.batch_rows >= layer.rows:
                values[-1] = unsound
            yield Piece(batch.set_geometry(values, crs=CRS).reset_index(drop=True), before)

    monkeypatch.setitem(_streams, ("simplify", "duckdb"), (stream, None))


@pytest.mark.parametrize(
    ("unsound", "said"),
    [
        (shapely.from_wkt("POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"), r"made invalid geometry in 1 of 10 rows \(row 9,"),
        (None, r"lost geometry: it is missing or empty in 1 of 10 rows \(row 9,"),
        (shapely.Point(1, 1), r"promises polygon geometry, there is Point in 1 of 10 rows \(row 9,"),
        (shapely.box(1e9, 1e9, 2e9, 2e9), r"off the globe in EPSG:5070: 1 of 10 rows \(row 9,"),
        (shapely.polygons([[0, 0], [np.inf, 1], [1, 0]]), "not finite"),
    ],
)
def test_an_unsound_row_in_the_last_batch_leaves_nothing(
    unsound: Any, said: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsound_at_last(monkeypatch, unsound)
    run = a_run(workspace)
    source = committed(workspace, "one", polygons(10, 5))
    call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True)
    with pytest.raises(InputFailure, match=said):
        execute(call, run)
    assert workspace.store.look_up(call.fingerprint).reason == "missing"
    assert not layers_of(run, call.fingerprint)
    assert not scratch_files(workspace)


def test_a_repair_is_told_of_the_whole(folder: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    unsound_at_last(monkeypatch, shapely.from_wkt("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))"))
    source = committed(folder, "one", polygons(10, 5))
    call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True, repair=True)
    made = execute(call, a_run(folder))
    assert made.caveats == [
        "step simplify: 1 invalid geometry was repaired, area changed by +50 square units of the CRS"
    ]
    assert (made.facts.rows, made.facts.invalid) == (10, 0)


def test_what_the_plan_expects_is_asked_of_the_whole(folder: Workspace) -> None:
    source = committed(folder, "one", polygons(10, 5))
    for expect, sound in ((Expect(rows=10), True), (Expect(max_rows=9), False)):
        call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True, expect=expect)
        if not sound:
            folder.store.discard(call.fingerprint, "to be made again")
            with pytest.raises(InputFailure, match="at most 9 rows were expected, there are 10"):
                execute(call, a_run(folder))
            assert folder.store.get(call.fingerprint) is None
        else:
            assert execute(call, a_run(folder)).facts.rows == 10


def test_a_full_disk_leaves_nothing_that_is_believed(folder: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(spool: Any, path: Path) -> None:
        path.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    source = committed(folder, "one", polygons(10, 5))
    call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True)
    real = LayerSpool.write
    monkeypatch.setattr(LayerSpool, "write", full)
    with pytest.raises(OSError, match="No space left"):
        execute(call, a_run(folder))
    assert folder.store.look_up(call.fingerprint).reason == "missing"
    assert not scratch_files(folder)
    monkeypatch.setattr(LayerSpool, "write", real)
    assert execute(call, a_run(folder)).facts.rows == 10


@pytest.mark.parametrize("moment", ["second batch", "layer written", "layer uploaded"])
def test_a_kill_leaves_nothing_that_is_believed(moment: str, folder: Workspace, tmp_path: Path) -> None:
    ended = child("die", str(tmp_path / "store"), moment)
    assert ended.returncode == -9, ended.stderr
    source = committed(folder, "many", polygons(50, 6))
    call = a_call("simplify", {"layer": source}, {"tolerance": 0.1}, after_memory=True)
    assert folder.store.look_up(call.fingerprint).reason == "missing"
    made = execute(call, a_run(folder))
    assert len(folder.store.load(made)) == 50
    assert not scratch_files(folder)  # the dead process's are cleared away


# Memory


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a layer that takes some 150 MB as geometries, and one whose texts take 400 MB."""
    store = tmp_path_factory.mktemp("large") / "store"
    workspace = open_workspace(str(store))
    committed(workspace, "large", polygons(40_000, 200))
    committed(workspace, "half", polygons(20_000, 200))
    committed(workspace, "left", wide(40_000, 10_000))
    committed(
        workspace,
        "right",
        wide(40_000, 1)
        .iloc[10_000:10_003][["geometry"]]
        .set_geometry(shapely.box([19_999, 20_001, 70_000], 0, [20_000.5, 20_004, 70_001], 1), crs=CRS),
    )
    return store


def test_memory_does_not_grow_with_the_layer(large: Path) -> None:
    told = {}
    for name, backend in (("large", "geopandas"), ("large", "duckdb"), ("half", "duckdb")):
        ended = child("measure", str(large), name, backend)
        assert ended.returncode == 0, ended.stderr
        told[name, backend] = json.loads(ended.stdout)
        store = open_workspace(str(large)).store
        for info in list(store.objects.list("checkpoints/")):  # the other way must compute it again
            found = store.get(Path(info.key).stem)
            if found is not None and found.operation == "simplify":
                store.discard(found.fingerprint, "to be made again")
    whole, batches, half = told.values()
    assert whole["rows"] == batches["rows"] == 40_000
    assert (whole["batches"], batches["batches"], half["batches"]) == (False, True, True)
    assert whole["grew"] > 400 * MIB
    assert batches["grew"] < 0.4 * whole["grew"], told
    # Half of the layer takes more than that as geometries alone, and the way through whole layers some times as much.
    assert batches["grew"] - half["grew"] < 50 * MIB, told


def test_an_overlay_that_memory_does_not_suffice_for_ends_on_duckdb(large: Path) -> None:
    ended = child("limited", str(large), str(300 * MIB), environment={"GEOCAIRN_DUCKDB_MEMORY": "100MB"})
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["geopandas"][0] == "capability"
    assert "memory" in told["geopandas"][1]
    assert told["duckdb"][0] == "done", told
    store = open_workspace(str(large)).store
    result = store.load(store.get(told["duckdb"][1]))
    assert result["id"].tolist() == [10_000, 10_001, 35_000]
    assert result.area.tolist() == [0.5, 1.0, 1.0]
    assert result["text"].str.len().tolist() == [10_000] * 3
