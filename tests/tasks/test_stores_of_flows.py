"""Which store a step uses: the flow's, its own, or the default one."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from flow_samples import Watch, metric, records, state_names
from prefect import flow
from prefect.filesystems import LocalFileSystem

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.failure import InputFailure
from geocairn.s3 import S3Settings
from geocairn.stores.opening import open_store
from geocairn.tasks import buffer

pytestmark = pytest.mark.prefect_server


def grown_flow(**options: Any) -> Any:
    """Return a flow of one step."""

    @flow(**options)
    def grown(distance: float = 1.0) -> Checkpoint:
        return buffer.submit(metric(), distance=distance).result()

    return grown


def test_without_a_store_it_is_the_default_one_as_it_is_then(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = grown_flow()()
    assert records(place / ".geocairn") == [made.fingerprint]

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    grown_flow()()
    assert records(elsewhere / ".geocairn") == [made.fingerprint]

    monkeypatch.setenv("GEOCAIRN_STORE", str(tmp_path / "stated"))
    grown_flow()()
    assert records(tmp_path / "stated") == [made.fingerprint]


def test_a_saved_block_an_unsaved_one_and_a_name_serve_as_a_flows_store(place: Path, watch: Watch) -> None:
    name = f"saved-{uuid.uuid4().hex[:8]}"
    saved = CheckpointStoreBlock(url=str(place / "saved"))
    saved.save(name)
    state: Any = grown_flow(result_storage=saved)(return_state=True)
    made = state.result()
    assert records(place / "saved") == [made.fingerprint]

    state = grown_flow(result_storage=f"geocairn-checkpoint-store/{name}")(return_state=True)
    assert state_names(state, 1) == ["Cached"]

    unsaved = grown_flow()
    unsaved.result_storage = CheckpointStoreBlock(url=str(place / "unsaved"))
    assert unsaved() == open_store(place / "unsaved").get(made.fingerprint)
    assert not (place / ".geocairn").exists()
    assert watch.taken()[0] == ["buffer", "buffer"]


def test_a_step_may_have_a_store_of_its_own(place: Path) -> None:
    @flow
    def two() -> None:
        kept = buffer(metric(), distance=1.0)
        apart = buffer.with_options(result_storage=CheckpointStoreBlock(url=str(place / "apart"), scope="apart"))
        other = apart(metric(), distance=1.0)
        assert (kept.scopes, other.scopes) == (["default"], ["apart"])
        assert buffer(metric(), distance=1.0) == kept
        assert apart(metric(), distance=1.0) == other

    two()
    assert len(records(place / ".geocairn")) == len(records(place / "apart")) == 1


def test_two_flows_with_two_stores_in_one_process_share_nothing(place: Path, watch: Watch) -> None:
    flows = {}
    for name in ("one", "two"):
        flows[name] = grown_flow()
        flows[name].result_storage = CheckpointStoreBlock(url=str(place / name), time_to_live_days=None)
    first, second = flows["one"](), flows["two"]()
    assert watch.taken()[0] == ["buffer", "buffer"]
    assert first.layer != second.layer
    assert flows["one"](1.0) == first
    assert flows["two"](1.0) == second
    assert first.expires is None
    assert watch.taken() == ([], [])


def test_another_kind_of_result_storage_of_the_flow_is_left_for_other_results(place: Path, tmp_path: Path) -> None:
    storage = LocalFileSystem(basepath=str(tmp_path / "results"))
    storage.save(f"results-{uuid.uuid4().hex[:8]}")
    made = grown_flow(result_storage=storage)()
    assert records(place / ".geocairn") == [made.fingerprint]
    assert len(list((tmp_path / "results").rglob("*"))) == 1  # the flow's own result


@pytest.mark.parametrize("wrong", ["local-file-system/x", Path("x"), LocalFileSystem(basepath="x"), "checkpoints"])
def test_another_kind_of_result_storage_of_a_step_is_refused(wrong: Any) -> None:
    with pytest.raises(InputFailure, match="a step's result storage is a checkpoint store"):
        buffer.with_options(result_storage=wrong)


@pytest.mark.s3
def test_a_store_on_s3(place: Path, watch: Watch, s3_bucket: str, s3_settings: S3Settings) -> None:
    secret = s3_settings.secret_key
    assert secret is not None
    block = CheckpointStoreBlock(
        url=f"s3://{s3_bucket}/flows",
        endpoint=s3_settings.endpoint,
        region=s3_settings.region,
        access_key=s3_settings.access_key,
        secret_key=secret,
    )
    block.save(f"s3-{uuid.uuid4().hex[:8]}")
    made = grown_flow(result_storage=block)()
    assert open_store(f"s3://{s3_bucket}/flows", settings=s3_settings).get(made.fingerprint) == made
    state: Any = grown_flow(result_storage=block)(return_state=True)
    assert state_names(state, 1) == ["Cached"]
    assert watch.taken()[0] == ["buffer"]
