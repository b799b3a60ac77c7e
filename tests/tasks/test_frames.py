"""Layers handed to a step in memory: keyed by what is in them, copied, never changed."""

from __future__ import annotations

import contextvars
import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flow_samples import Watch, metric, squares

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.failure import InputFailure
from geocairn.stores.opening import open_store
from geocairn.tasks import buffer, overlay, step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

pytestmark = pytest.mark.prefect_server


def test_equal_frames_share_a_checkpoint_and_another_does_not(place: Path, watch: Watch) -> None:
    layer = metric()
    first = buffer(layer, distance=1.0)
    for equal in (layer, layer.copy(), metric(), pickle.loads(pickle.dumps(layer)), layer.set_index([[7, 8, 9]])):
        assert buffer(equal, distance=1.0) == first
    assert watch.taken()[0] == ["buffer"]
    assert first.scopes == ["default"]

    other = layer.copy()
    other.loc[0, "n"] = 100
    moved = layer.set_crs("EPSG:3310", allow_override=True)
    renamed = layer.rename_geometry("shape")
    floats = layer.astype({"n": "float64"})
    prints = {buffer(frame, distance=1.0).fingerprint for frame in (layer, other, moved, renamed, floats)}
    assert len(prints) == 5


def test_a_frame_changed_in_place_between_calls_is_another_input(place: Path) -> None:
    layer = metric()
    first = buffer(layer, distance=1.0)
    layer.loc[1, "n"] = -1
    second = buffer(layer, distance=1.0)
    assert second.fingerprint != first.fingerprint
    store = open_store(place / ".geocairn")
    assert store.load(first)["n"].tolist() == [0, 1, 2]
    assert store.load(second)["n"].tolist() == [0, -1, 2]


def test_a_frame_changed_while_its_step_waits_does_not_spoil_the_checkpoint(place: Path) -> None:
    """What is computed is what the fingerprint speaks of, though the flow changes its frame in the meantime."""
    began, go_on = threading.Event(), threading.Event()

    @step(version=1)
    def waiting(layer: GeoDataFrame) -> GeoDataFrame:
        began.set()
        assert go_on.wait(30)
        return layer

    layer = metric()
    made: list[Checkpoint] = []
    context = contextvars.copy_context()  # holds the settings that name the server
    thread = threading.Thread(target=lambda: made.append(context.run(waiting, layer)))
    thread.start()
    assert began.wait(30)
    layer.loc[0, "n"] = 99
    go_on.set()
    thread.join()
    assert open_store(place / ".geocairn").load(made[0])["n"].tolist() == [0, 1, 2]
    go_on.set()
    assert waiting(metric()) == made[0]


def test_a_step_that_changes_its_input_harms_nobody(place: Path) -> None:
    @step(version=1)
    def spoils(layer: GeoDataFrame, *, add: int) -> GeoDataFrame:
        layer["n"] = layer["n"] + add
        layer["tags"].iloc[0][0] = "spoilt"
        layer.geometry.array[0] = layer.geometry.array[1]
        layer.drop(index=2, inplace=True)
        return layer

    @step(version=1)
    def keeps(layer: GeoDataFrame) -> GeoDataFrame:
        return layer

    layer = metric()
    layer["tags"] = [["a"], ["b"], ["c"]]
    before = layer.copy()
    before["tags"] = [["a"], ["b"], ["c"]]
    spoilt = spoils(layer, add=10)
    assert layer.equals(before)
    assert layer["tags"].tolist() == [["a"], ["b"], ["c"]]

    # The same with a checkpoint as input, which passes in memory from one step to the next.
    kept = keeps(layer)
    spoilt_too = spoils(kept, add=10)
    store = open_store(place / ".geocairn")
    assert [list(tags) for tags in store.load(kept)["tags"]] == [["a"], ["b"], ["c"]]
    assert store.load(kept)["n"].tolist() == [0, 1, 2]
    assert store.load(spoilt)["n"].tolist() == store.load(spoilt_too)["n"].tolist() == [10, 11]
    assert [list(tags) for tags in store.load(spoils(kept, add=11))["tags"]] == [["spoilt"], ["b"]]


def test_a_frame_of_one_scope_is_not_that_of_another(place: Path) -> None:
    ours = buffer.with_options(result_storage=CheckpointStoreBlock(url=str(place / "s"), scope="ours"))
    theirs = buffer.with_options(result_storage=CheckpointStoreBlock(url=str(place / "s"), scope="theirs"))
    first, second = ours(metric(), distance=1.0), theirs(metric(), distance=1.0)
    assert first.fingerprint != second.fingerprint
    assert (first.scopes, second.scopes) == (["ours"], ["theirs"])


def test_a_frame_and_a_checkpoint_go_together(place: Path, watch: Watch) -> None:
    left = buffer(metric(), distance=2.0)
    joined = overlay(left, metric(), how="intersection")
    assert overlay(left=left, right=metric(), how="intersection") == joined
    assert watch.taken()[0] == ["buffer", "overlay"]


@pytest.mark.parametrize("wrong", [7, {"a": 1}, [squares()], Path("x"), "counties.gpkg"])
def test_what_is_no_layer_is_refused_by_name(place: Path, wrong: Any) -> None:
    with pytest.raises(InputFailure, match=r"input 'layer' is no layer but a .*; "):
        buffer(wrong, distance=1.0)
