"""A chain of seven steps in a folder, with a store to run it on: what the scenarios are told with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from forked_runs import Ended, Interference, Running, Runs
from s3_server import ACCESS_KEY, SECRET_KEY
from seven_steps import plan, step_of, write_plan

from geocairn.s3 import S3Settings
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store


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

    def committed(self, fingerprints: Mapping[str, str] | None = None) -> list[str]:
        """The names of the steps whose checkpoint is believed, sorted."""
        prints = fingerprints or self.fingerprints()
        steps = {step["name"] for step in self.values["steps"]}
        found = self.store.look_up_many(prints.values())
        return sorted(name for name, print_ in prints.items() if name in steps and found[print_].present)


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
