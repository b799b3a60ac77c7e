"""Keys that cannot be made, look-ups that fail, and checkpoints as values that pass through Prefect."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from fault_proxy import FaultProxy
from flow_samples import Watch, metric, records
from own_steps import grow
from prefect import flow, task
from prefect.utilities.collections import visit_collection

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.failure import FatalFailure, InputFailure, TransientFailure
from geocairn.s3 import S3Settings
from geocairn.tasks import StepTask, buffer, read_layer

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

pytestmark = pytest.mark.prefect_server


def test_a_key_that_cannot_be_made_stops_the_run(place: Path, watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    """Prefect would run such a task uncached."""
    with pytest.raises(InputFailure, match=r"missing.gpkg"):
        read_layer("missing.gpkg")
    assert watch.taken() == ([], [])
    assert records(place / ".geocairn") == []
    assert "result will not be persisted" not in caplog.text


def test_a_failed_key_is_made_again_on_the_next_attempt(
    place: Path, no_delay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import geocairn.pinning as pinning

    asked = []
    resolve = pinning.resolve_version

    def busy(*args: Any, **kwargs: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise TransientFailure("the service is busy", where="version")
        return resolve(*args, **kwargs)

    monkeypatch.setattr(pinning, "resolve_version", busy)
    made = read_layer("counties.gpkg")
    assert made.facts.rows == 4
    assert len(asked) == 2


@pytest.mark.s3
@pytest.mark.parametrize(("status", "kind"), [(403, FatalFailure), (503, TransientFailure)])
def test_a_look_up_that_fails_is_no_miss(
    place: Path,
    watch: Watch,
    no_delay: None,
    fault_proxy: FaultProxy,
    s3_bucket: str,
    proxied_settings: S3Settings,
    status: int,
    kind: type[Exception],
) -> None:
    settings = proxied_settings.model_dump(exclude_none=True)
    block = CheckpointStoreBlock(url=f"s3://{s3_bucket}/x", **settings)
    stored = buffer.with_options(result_storage=block, retries=1)
    made = stored(metric(), distance=1.0)
    assert watch.taken()[0] == ["buffer"]
    fault_proxy.fail(method="GET", path="/checkpoints/", status=status)
    with pytest.raises(kind):
        stored(metric(), distance=1.0)
    assert watch.taken() == ([], [])
    fault_proxy.heal()
    assert stored(metric(), distance=1.0) == made


@pytest.fixture
def made(place: Path) -> Checkpoint:
    """A checkpoint."""
    return buffer(metric(), distance=1.0)


def test_a_checkpoint_is_one_value(made: Checkpoint) -> None:
    assert not isinstance(made, Iterable)
    with pytest.raises(TypeError):
        iter(made)  # type: ignore[call-overload]
    for library in (pickle, cloudpickle):
        assert library.loads(library.dumps(made)) == made
    seen: list[Any] = []
    kept = visit_collection(made, visit_fn=lambda value: seen.append(value) or value, return_data=True)
    assert kept == made
    assert isinstance(kept, Checkpoint)


def test_a_checkpoint_passes_through_flow_parameters(made: Checkpoint, watch: Watch) -> None:
    @flow
    def given(layer: Checkpoint) -> Checkpoint:
        return buffer(layer, distance=2.0)

    direct = given(made)
    # As a deployment gets it: JSON, as the API keeps a run's parameters.
    stored = json.loads(json.dumps(given.serialize_parameters({"layer": made})))
    assert given(**stored) == direct
    assert watch.taken()[0] == ["buffer"]


def test_a_checkpoint_passes_through_other_tasks_and_their_results(made: Checkpoint, tmp_path: Path) -> None:
    @task(persist_result=True, result_storage=tmp_path / "results", result_serializer="json")
    def measured(layer: Checkpoint) -> dict[str, Any]:
        return {"layer": layer, "rows": layer.facts.rows}

    @task
    def passed(layer: Checkpoint) -> Checkpoint:
        return layer

    @flow
    def mixed() -> Checkpoint:
        future = passed.submit(buffer.submit(made, distance=3.0))
        assert measured(future)["rows"] == 3
        return buffer(future, distance=1.0)

    assert mixed().facts.rows == 3


def test_nothing_in_the_store_is_pickled(place: Path) -> None:
    @flow(persist_result=True)
    def several() -> dict[str, Any]:
        kept = buffer(metric(), distance=1.0)
        try:
            grow(kept, distance=-1)
        except InputFailure:
            return {"layer": kept}
        raise AssertionError("a negative distance was taken")

    several.result_storage = CheckpointStoreBlock(url=str(place / "store"))
    several()
    files = [path for path in (place / "store").rglob("*") if path.is_file() and path.stat().st_size]
    assert files
    for path in files:
        head = path.read_bytes()[:4]
        assert path.suffix in (".json", ".parquet")
        assert head == b"PAR1" if path.suffix == ".parquet" else json.loads(path.read_bytes()) is not None


class Trap:
    """Leaves a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def test_a_record_that_names_another_serializer_is_not_obeyed(place: Path, watch: Watch, tmp_path: Path) -> None:
    made = buffer(metric(), distance=1.0)
    watch.taken()
    (path,) = (place / ".geocairn" / "checkpoints").glob("*/*.json")
    blob = base64.encodebytes(pickle.dumps(Trap(tmp_path / "trapped"))).decode("ascii")
    pickled = {"type": "pickle", "picklelib": "cloudpickle"}
    crafted = {
        "metadata": {"storage_key": made.fingerprint, "serializer": pickled, "prefect_version": "3.9.1"},
        "result": blob,
    }
    path.write_text(json.dumps(crafted), encoding="utf-8")
    again = buffer(metric(), distance=1.0)
    assert not (tmp_path / "trapped").exists()
    assert watch.taken()[0] == ["buffer"]
    assert again.fingerprint == made.fingerprint

    # A record of ours that carries such fields beside its own is damaged.
    body = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**body, **crafted}), encoding="utf-8")
    assert buffer(metric(), distance=1.0).fingerprint == made.fingerprint
    assert not (tmp_path / "trapped").exists()
    assert watch.taken()[0] == ["buffer"]


def test_a_step_travels_by_name_and_keeps_its_options(place: Path) -> None:
    for original in (buffer, grow):
        optioned = original.with_options(
            step_name="far", expect={"min_rows": 2}, retries=5, tags=["x"], timeout_seconds=30, on_invalid="repair"
        )
        data = cloudpickle.dumps(optioned)
        assert len(data) < 4000
        back = cloudpickle.loads(data)
        assert isinstance(back, StepTask)
        assert back.operation is original.operation
        assert back.settings == optioned.settings
        assert (back.tags, back.timeout_seconds, back.task_run_name) == ({"x"}, 30, optioned.task_run_name)
        assert back.retries == optioned.retries
        assert back(metric(), distance=1.0) == optioned(metric(), distance=1.0)


def test_a_step_of_a_script_travels_with_its_code_and_its_version(place: Path) -> None:
    def local(layer: GeoDataFrame, *, add: int = 1) -> GeoDataFrame:
        layer["n"] += add
        return layer

    from geocairn.tasks import step

    made = step(local)
    back = cloudpickle.loads(cloudpickle.dumps(made))
    assert back(metric()) == made(metric())
    assert back.operation.version.startswith("code:")
