"""Fixtures of the scenarios: a Prefect server for the whole session, runs in processes of their own, a chain to run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fault_proxy import FaultProxy
from forked_runs import Ended, Interference, Running, Runs
from s3_server import ACCESS_KEY, SECRET_KEY
from seven_steps import STEPS, make_data, plan, step_of, write_plan

from geocairn.flows import local_server
from geocairn.s3 import S3Settings, client
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The API of a real Prefect server on loopback, of the tests' own PREFECT_HOME."""
    server, _ = local_server.launch()
    local_server.wait_until_healthy(server, 180)
    yield server.url
    local_server.stop()


@pytest.fixture(scope="session")
def runs(prefect_api: str) -> Iterator[Runs]:
    """Starts runs, each in a process of its own."""
    made = Runs({"PREFECT_API_URL": prefect_api})
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_data(folder)
    return folder


def s3_environment(settings: S3Settings | None) -> dict[str, str]:
    """The variables by which a process reaches the S3 server."""
    if settings is None:
        return {}
    return {
        "AWS_ENDPOINT_URL_S3": str(settings.endpoint),
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


@dataclass
class Chain:
    """A plan in a folder, with a store to run it on. Change `values` and run it again."""

    folder: Path
    store_url: str
    settings: S3Settings | None
    runs: Runs
    environment: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    values: dict[str, Any] = field(default_factory=plan)

    @property
    def store(self) -> CheckpointStore:
        return open_store(self.store_url, settings=self.settings)

    def step(self, name: str) -> dict[str, Any]:
        return step_of(self.values, name)

    def path(self, name: str) -> Path:
        return self.folder / name

    def start(
        self,
        *arguments: str,
        interference: Sequence[Interference] = (),
        environment: Mapping[str, str] | None = None,
        store: str | None = None,
        folder: Path | None = None,
    ) -> Running:
        """Start `geocairn run` on the plan as it is now, in a process of its own."""
        where = folder or self.folder
        write_plan(self.values, where / "plan.json")
        command = ["run", "plan.json", "--store", store or self.store_url, "--json", *arguments]
        return self.runs.start(
            command, where, environment={**self.environment, **(environment or {})}, interference=interference
        )

    def run(self, *arguments: str, code: int | None = 0, **more: Any) -> Ended:
        """Run it to its end, which must be this exit code."""
        ended = self.start(*arguments, **more).wait()
        assert code is None or ended.code == code, f"exit code {ended.code}\n{ended.stdout}\n{ended.stderr}"
        return ended

    def command(self, *arguments: str, code: int | None = 0) -> str:
        """Call another command in this process, and return what it printed on standard output."""
        from geocairn.flows.command_line import main

        for name, value in self.environment.items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.chdir(self.folder)
        write_plan(self.values, self.folder / "plan.json")
        result = CliRunner().invoke(main, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, f"exit code {result.exit_code}: {result.output}"
        return result.stdout

    def status(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.command("status", "plan.json", "--store", self.store_url, "--json", *arguments)
        )
        return found

    def to_compute(self, *arguments: str) -> list[str]:
        """The steps that `status` would compute, sorted."""
        return sorted(step["name"] for step in self.status(*arguments)["steps"] if step["outcome"] == "compute")

    def fingerprints(self) -> dict[str, str]:
        found = self.status()
        return {entry["name"]: entry["fingerprint"] for entry in [*found["steps"], *found["sources"]]}

    def outputs(self, folder: Path | None = None) -> dict[str, Any]:
        """The published layers by file name, normalised so that they can be compared."""
        import geopandas as gpd

        found = {}
        for path in sorted(((folder or self.folder) / "out").iterdir()):
            if path.suffix == ".parquet":
                found[path.name] = normalised(gpd.read_parquet(path))
            elif path.suffix in (".gpkg", ".geojson", ".fgb"):
                found[path.name] = normalised(gpd.read_file(path))
        return found

    # The store from beneath

    def record_path(self, name: str) -> Path:
        """The file of a step's record, in a folder store."""
        print_ = self.fingerprints()[name]
        return Path(self.store_url) / "checkpoints" / print_[:2] / f"{print_}.json"

    def layer_paths(self, name: str) -> list[Path]:
        """The files of a step's layers, in a folder store."""
        print_ = self.fingerprints()[name]
        return sorted((Path(self.store_url) / "layers" / print_[:2] / print_).glob("*.parquet"))

    def committed(self) -> list[str]:
        """The names of the steps whose checkpoint is believed, sorted."""
        store = self.store
        steps = {step["name"] for step in self.values["steps"]}
        found = store.look_up_many(self.fingerprints().values())
        return sorted(name for name, print_ in self.fingerprints().items() if name in steps and found[print_].present)


def normalised(layer: Any) -> tuple[bytes, str, list[bytes]]:
    """The attributes of a layer as Arrow bytes, with its CRS, and its geometries normalised."""
    import pyarrow as pa
    import shapely

    table = pa.Table.from_pandas(layer.drop(columns=layer.geometry.name), preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    geometries = [shapely.to_wkb(shapely.normalize(shapely.set_precision(g, 1e-6))) for g in layer.geometry]
    return sink.getvalue().to_pybytes(), layer.crs.to_string(), geometries


@pytest.fixture
def new_chain(
    runs: Runs,
    made_data: Path,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Chain]:
    """Makes chains: `new_chain(store_url, settings)`."""

    def make(store_url: str, settings: S3Settings | None = None, name: str = "work") -> Chain:
        folder = tmp_path / name
        shutil.copytree(made_data, folder / "data")
        environment = {"GEOCAIRN_CACHE": str(own_cache), **s3_environment(settings)}
        return Chain(folder, store_url, settings, runs, environment, monkeypatch)

    return make


@pytest.fixture
def chain(new_chain: Callable[..., Chain], store_url: str, store_settings: S3Settings | None) -> Chain:
    """The chain of seven steps, on each kind of store."""
    return new_chain(store_url, store_settings)


@pytest.fixture
def folder_chain(new_chain: Callable[..., Chain], tmp_path: Path) -> Chain:
    """The chain of seven steps on an empty folder store, for what does not depend on the kind of store."""
    return new_chain(str(tmp_path / "store"))


@dataclass
class Finished:
    """The chain as it was when an uninterrupted run of it had ended, on a folder store; and what that run gave."""

    kept: Path
    place: Path
    """Where it ran. Outputs are known by their place, so every test that goes on from here does so there."""
    answer: dict[str, Any]
    outputs: dict[str, Any]


@pytest.fixture(scope="session")
def finished_once(runs: Runs, made_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    place = tmp_path_factory.mktemp("finished") / "work"
    shutil.copytree(made_data, place / "data")
    environment = {"GEOCAIRN_CACHE": str(tmp_path_factory.mktemp("finished-cache"))}
    whole = Chain(place, str(place / "store"), None, runs, environment, pytest.MonkeyPatch())
    ended = whole.run()
    assert ended.computed == sorted(STEPS)
    kept = place.with_name("kept")
    shutil.copytree(place, kept)
    return Finished(kept, place, ended.answer, whole.outputs())


@pytest.fixture
def finished(finished_once: Finished, runs: Runs, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """The chain of seven steps on a folder store, just when its first run has ended."""
    shutil.rmtree(finished_once.place)
    shutil.copytree(finished_once.kept, finished_once.place)
    place = finished_once.place
    return Chain(place, str(place / "store"), None, runs, {"GEOCAIRN_CACHE": str(own_cache)}, monkeypatch)


@pytest.fixture
def finished_on_s3(
    finished: Chain,
    fault_proxy: FaultProxy,
    proxied_settings: S3Settings,
    s3_settings: S3Settings,
    s3_bucket: str,
) -> Chain:
    """The same, with its store on S3 behind the fault proxy: a store is the same wherever its objects lie."""
    folder = finished.path("store")
    for path in sorted(folder.rglob("*")):
        key = str(path.relative_to(folder))
        if path.is_file() and not key.startswith("."):
            client(s3_settings).put_object(Bucket=s3_bucket, Key=f"store/{key}", Body=path.read_bytes())
    finished.store_url, finished.settings = f"s3://{s3_bucket}/store", proxied_settings
    finished.environment |= s3_environment(proxied_settings)
    return finished


@pytest.fixture
def right_outputs(finished_once: Finished) -> dict[str, Any]:
    """What an uninterrupted run of the chain publishes."""
    return finished_once.outputs
