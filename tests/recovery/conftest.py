"""Fixtures of the scenario matrix: a server, an S3 store behind the fault proxy, a Dask cluster, points for faults."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect_server import real_server

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "flows")]

import fault_points  # noqa: E402
from chains import Chain, s3_environment  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from forked_runs import Runs  # noqa: E402
from played_scenario import Matrix  # noqa: E402
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server  # noqa: E402
from seven_steps import STEPS, make_data  # noqa: E402

from geocairn.s3 import S3Settings  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests on one worker, so that server, cluster and store are started once."""
    for item in items:
        if Path(item.fspath).parent == HERE:
            item.add_marker(pytest.mark.xdist_group("recovery"))


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The API of a real Prefect server."""
    with real_server() as url:
        yield url


@pytest.fixture(scope="session")
def proxied(s3_server: S3Server) -> Iterator[tuple[FaultProxy, S3Settings]]:
    """One fault proxy for all scenarios, and settings that reach the S3 server through it."""
    proxy = FaultProxy("127.0.0.1", s3_server.port)
    yield (
        proxy,
        S3Settings(endpoint=proxy.endpoint, region="us-east-1", access_key=ACCESS_KEY, secret_key=SECRET_KEY),
    )
    proxy.stop()


@pytest.fixture(scope="session")
def faults_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def dask_runner(prefect_api: str, faults_folder: Path) -> Iterator[Any]:
    """A task runner on a Dask worker of its own process, with points for faults in it."""
    prefect_dask = pytest.importorskip("prefect_dask")
    from distributed import Client, LocalCluster

    with pytest.MonkeyPatch.context() as patch:
        paths = [str(HERE), str(HERE.parent), str(HERE.parent / "flows"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        with LocalCluster(
            n_workers=1, threads_per_worker=2, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster:
            with Client(cluster) as client:
                client.run(fault_points.install_in_worker, str(faults_folder))
            yield prefect_dask.DaskTaskRunner(address=cluster.scheduler_address)


@pytest.fixture(scope="session")
def made_matrix(
    proxied: tuple[FaultProxy, S3Settings], faults_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Matrix:
    """What all scenarios share; its reference is run when it is first asked for."""
    return Matrix(*proxied, faults_folder, tmp_path_factory.mktemp("matrix"))


@pytest.fixture
def matrix(made_matrix: Matrix, prefect_api: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Matrix]:
    """The matrix, with points for faults in this process."""
    monkeypatch.chdir(made_matrix.folder)
    remove = fault_points.install(str(made_matrix.faults))
    try:
        yield made_matrix
    finally:
        made_matrix.heal()
        remove()


@pytest.fixture(scope="session")
def runs(prefect_api: str) -> Iterator[Runs]:
    """Starts runs, each in a process of its own."""
    made = Runs({"PREFECT_API_URL": prefect_api})
    yield made
    made.stop()


@pytest.fixture
def new_chain(
    runs: Runs, made_data: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Chain]:
    """Makes chains of seven steps: `new_chain(store_url, settings)`."""

    def make(store_url: str, settings: S3Settings | None = None, name: str = "work") -> Chain:
        folder = tmp_path / name
        shutil.copytree(made_data, folder / "data")
        environment = {"GEOCAIRN_CACHE": str(own_cache), **s3_environment(settings)}
        return Chain(folder, store_url, settings, runs, environment, monkeypatch)

    return make


@pytest.fixture(scope="session")
def right(runs: Runs, made_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an uninterrupted run of the chain of seven steps publishes."""
    place = tmp_path_factory.mktemp("right") / "work"
    shutil.copytree(made_data, place / "data")
    environment = {"GEOCAIRN_CACHE": str(tmp_path_factory.mktemp("right-cache"))}
    whole = Chain(place, str(place / "store"), None, runs, environment, pytest.MonkeyPatch())
    assert whole.run().computed == sorted(STEPS)
    return whole.outputs()


@pytest.fixture(scope="session")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_data(folder)
    return folder
