"""A layer that is lost in a flow in Python: its step runs again in its place, or the flow ends and passes when run
again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flow_samples import Watch, metric, records
from prefect import flow

from geocairn.checkpoint import Checkpoint
from geocairn.stores.belief import LayerLost
from geocairn.stores.opening import open_store
from geocairn.tasks import buffer, centroid, read_layer, reproject, runs, step
from geocairn.tasks import convex_hull as hull

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

pytestmark = pytest.mark.prefect_server


@pytest.fixture(autouse=True)
def from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing passes in memory, as in another process."""
    from geocairn.stores.memory import HandOver

    monkeypatch.setattr(runs, "_hand_over", HandOver(0))


def spoil(folder: Path, checkpoint: Checkpoint) -> None:
    """Flip a byte of a layer: its size stays, so its record is still believed."""
    assert checkpoint.layer is not None
    path = folder / ".geocairn" / checkpoint.layer.key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(data)


@flow
def chain(distance: float) -> tuple[Checkpoint, Checkpoint, Checkpoint]:
    projected = reproject(read_layer("counties.gpkg"), crs="EPSG:5070")
    grown = buffer.with_options(step_name="grown")(projected, distance=1.0)
    return projected, grown, buffer(grown, distance=distance)


def test_the_step_of_a_lost_layer_runs_again_in_its_place(
    place: Path, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    projected, grown, _ = chain(2.0)
    watch.taken()
    spoil(place, grown)
    spoil(place, projected)
    again = chain(3.0)
    assert watch.taken()[0] == ["buffer", "buffer", "reproject"]
    assert [made.fingerprint for made in again[:2]] == [projected.fingerprint, grown.fingerprint]
    assert "step grown: its layer is lost, so it runs again" in caplog.text
    store = open_store(place / ".geocairn")
    for before in (projected, grown):
        now = store.get(before.fingerprint)
        assert now is not None
        assert now.layer is not None
        assert now.layer != before.layer
        store.load(now)
    chain(4.0)
    assert watch.taken()[0] == ["buffer"]


def test_consumers_that_miss_it_at_once_compute_it_once(place: Path, watch: Watch) -> None:
    chain(2.0)
    watch.taken()

    @flow
    def many() -> int:
        projected = reproject(read_layer("counties.gpkg"), crs="EPSG:5070")
        kept = buffer(projected, distance=1.0)
        spoil(place, kept)
        futures = [buffer.submit(kept, distance=distance) for distance in (5.0, 6.0, 7.0, 8.0)]
        return len({future.result().fingerprint for future in futures})

    assert many() == 4
    assert watch.taken()[0] == ["buffer"] * 5


def test_a_users_own_step_runs_again_too(place: Path, watch: Watch) -> None:
    @step
    def shifted(layer: GeoDataFrame, *, by: float = 1.0) -> GeoDataFrame:
        return layer.set_geometry(layer.translate(by))

    @flow
    def own(distance: float) -> Checkpoint:
        made = shifted(read_layer("counties.gpkg"), by=0.5)
        if distance > 1:
            spoil(place, made)
        return hull(made) if distance <= 1 else centroid(made)

    own(1.0)
    watch.taken()
    own(2.0)
    assert watch.taken()[0] == ["centroid", "shifted"]


def test_what_cannot_be_computed_again_ends_the_flow_and_passes_when_it_is_run_again(place: Path, watch: Watch) -> None:
    """The layer was made from a frame, which no record holds."""

    @flow
    def framed(distance: float, spoilt: bool) -> Checkpoint:
        made = buffer(metric(), distance=1.0)
        if spoilt:
            spoil(place, made)
        return buffer(made, distance=distance)

    framed(2.0, False)
    watch.taken()
    with pytest.raises(LayerLost, match=r"lost.*an input of it is not in the store; run the flow again"):
        framed(3.0, True)
    assert watch.taken()[0] == ["buffer"]
    assert framed(3.0, False).facts.rows == 3
    assert watch.taken()[0] == ["buffer", "buffer"]


def test_a_layer_that_is_lost_again_and_again_ends_the_flow(
    place: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from geocairn.stores.checkpoints import CheckpointStore

    projected, grown, _ = chain(2.0)
    watch.taken()
    load = CheckpointStore.load

    def losing(store: Any, checkpoint: Checkpoint, columns: Any = None) -> Any:
        if checkpoint.fingerprint == grown.fingerprint:
            spoil(place, checkpoint)
        return load(store, checkpoint, columns)

    monkeypatch.setattr(CheckpointStore, "load", losing)
    with pytest.raises(LayerLost):
        chain(3.0)
    assert len(watch.taken()[0]) <= 4
    assert projected.fingerprint in records(place / ".geocairn")
