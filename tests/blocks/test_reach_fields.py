"""What the checkpoint store block lists is what plans on it may read and write; a served run is closed without it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from prefect import flow

from geocairn.blocks import CheckpointStoreBlock, served_runs
from geocairn.sources.reach import Reach


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


def reach(of_a_plan: bool, **fields: object) -> Reach:
    return CheckpointStoreBlock(url="store", **fields).workspace(of_a_plan=of_a_plan).reach


def test_a_local_plan_has_the_working_directory_and_a_local_flow_everything(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reach(True).read == reach(True).write == (str(place),)
    assert reach(False).everything
    monkeypatch.setenv("GEOCAIRN_ALLOW", "/srv s3://geo/a")
    assert reach(True).read == (str(place), "/srv", "s3://geo/a")


@pytest.mark.parametrize("of_a_plan", [True, False])
@pytest.mark.usefixtures("served")
def test_a_served_run_is_closed_but_for_what_its_worker_allows(
    place: Path, monkeypatch: pytest.MonkeyPatch, of_a_plan: bool
) -> None:
    closed = reach(of_a_plan)
    assert (closed.read, closed.write, closed.everything, closed.served) == ((), (), False, True)
    monkeypatch.setenv("GEOCAIRN_ALLOW", "data https://example.org")
    assert reach(of_a_plan).read == (str(place / "data"), "https://example.org:443")


@pytest.mark.parametrize("of_a_plan", [True, False])
@pytest.mark.parametrize("environment", [{}, {"PREFECT__FLOW_RUN_ID": "x"}])
def test_what_the_block_lists_is_all(
    place: Path, monkeypatch: pytest.MonkeyPatch, of_a_plan: bool, environment: dict[str, str]
) -> None:
    monkeypatch.setenv("GEOCAIRN_ALLOW", "/srv")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = reach(of_a_plan, may_read=["data", "s3://geo"])
    assert (found.read, found.write, found.everything) == ((str(place / "data"), "s3://geo"), (), False)
    assert reach(of_a_plan, may_write=["out"]).read == ()


def test_the_stores_objects_are_out_of_reach(place: Path) -> None:
    assert str(place / "store" / "layers") in reach(True).kept
    found = CheckpointStoreBlock(url="s3://geo/some%20prefix", may_read=["s3://geo"]).workspace().reach
    assert "s3://geo/some prefix/layers" in found.kept


def test_a_list_is_part_of_the_blocks_identity_and_its_entries_are_checked(place: Path) -> None:
    plain, listed = CheckpointStoreBlock(url="store"), CheckpointStoreBlock(url="store", may_read=["data"])
    assert plain.identity != listed.identity
    with pytest.raises(ValueError, match="nothing that can be allowed"):
        CheckpointStoreBlock(url="store", may_write=["ftp://example.org"])


def test_a_run_of_a_deployment_is_told_from_a_local_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not served_runs.is_served_run()
    from prefect.context import FlowRunContext

    def context(deployment: str | None, **more: object) -> SimpleNamespace:
        run = SimpleNamespace(deployment_id=deployment, parent_task_run_id=more.pop("parent", None))
        return SimpleNamespace(flow_run=run, _token=None, detached=False, **more)

    for deployment, served in ((None, False), ("a", True)):
        monkeypatch.setattr(FlowRunContext, "get", classmethod(lambda cls, d=deployment: context(d)))
        assert served_runs.is_served_run() is served


@pytest.mark.prefect_server
def test_a_subflow_of_a_served_flow_on_another_machine_counts_as_served(
    prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the subflow's own context is all there is: its root is asked of the server."""
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext

    seen: dict[str, bool] = {}

    @flow
    def inner(name: str) -> None:
        here = FlowRunContext.get()
        assert here is not None
        alone = SimpleNamespace(flow=here.flow, flow_run=here.flow_run, _token=None, detached=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FlowRunContext, "get", classmethod(lambda cls: alone))
            seen[name] = served_runs.is_served_run()

    @flow
    def outer(name: str) -> None:
        inner(name)

    outer("local")
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(outer)
        deployment = client.create_deployment(flow_id=flow_id, name="served-outer")
        run = client.create_flow_run_from_deployment(deployment, parameters={"name": "served"})
    from prefect.flow_engine import run_flow

    run_flow(outer, flow_run=run, parameters={"name": "served"})
    assert seen == {"local": False, "served": True}
