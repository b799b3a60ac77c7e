"""The recovery policy block: saved, loaded fresh at each start, and refused where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from pydantic import ValidationError

from geocairn.blocks import CheckpointStoreBlock, RecoveryPolicyBlock
from geocairn.blocks.recovery_policy import policy_named
from geocairn.failure import InputFailure
from geocairn.policy import DEFAULT_POLICY, RecoveryPolicy

pytestmark = pytest.mark.prefect_server


def test_it_has_the_policys_fields_and_gives_the_policy() -> None:
    stated = {"retries": 7, "on_input": "halt", "fallbacks": "never"}
    assert RecoveryPolicyBlock(**stated).policy() == RecoveryPolicy(**stated)
    assert set(RecoveryPolicy.model_fields) <= set(RecoveryPolicyBlock.model_fields)
    with pytest.raises(ValidationError, match="the same inputs give the same unsound result"):
        RecoveryPolicyBlock(on_input="retry")


def test_the_form_offers_only_actions_that_there_are() -> None:
    fields = RecoveryPolicyBlock.model_json_schema()["properties"]
    assert fields["on_transient"]["enum"] == ["retry", "halt"]
    assert all(field["description"] and field["title"] for field in fields.values())


def test_a_saved_policy_is_read_fresh_at_each_run(prefect_api: str, tmp_path: Path) -> None:
    block = CheckpointStoreBlock(url=str(tmp_path / "store"), recovery_policy="patient")
    RecoveryPolicyBlock(retries=9).save("patient", overwrite=True)
    assert block.policy().retries == 9
    RecoveryPolicyBlock(retries=1).save("patient", overwrite=True)
    assert block.policy().retries == 1
    assert policy_named("geocairn-recovery-policy/patient").retries == 1
    assert CheckpointStoreBlock(url=str(tmp_path / "store")).policy() == DEFAULT_POLICY


def test_a_policy_that_is_not_there_is_one_clear_failure(prefect_api: str, tmp_path: Path) -> None:
    with pytest.raises(InputFailure, match="there is no recovery policy 'nowhere'"):
        policy_named("nowhere")


def test_a_run_goes_by_the_policy_that_is_named(prefect_api: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A step that fails once halts where the policy says so, and passes where it says to try again."""
    import geopandas as gpd
    from shapely import Point

    from geocairn.failure import TransientFailure
    from geocairn.tasks import step

    calls: list[int] = []

    @step(version=1)
    def once(layer: gpd.GeoDataFrame, *, key: int) -> gpd.GeoDataFrame:
        calls.append(key)
        if calls.count(key) == 1:
            raise TransientFailure("busy")
        return layer

    layer = gpd.GeoDataFrame({"a": [1]}, geometry=[Point(1, 1)], crs=32633)
    RecoveryPolicyBlock(first_delay_seconds=0.01, longest_delay_seconds=0.01).save("quick", overwrite=True)
    RecoveryPolicyBlock(on_transient="halt").save("strict", overwrite=True)

    def run(policy: str, key: int) -> Any:
        store = CheckpointStoreBlock(url=str(tmp_path / "store"), recovery_policy=policy)
        store.save(f"store-{policy}", overwrite=True)

        @flow(result_storage=store)
        def one() -> int:
            return int(once(layer, key=key).attempts)

        return one(return_state=True)

    assert run("quick", 1).result() == 2
    assert run("strict", 2).is_failed()
    assert calls == [1, 1, 2]
