"""An operation of somebody else's package, found by its entry point, is like the rest.

The package hub_lines beside this file is built and installed into a folder; each command runs in a process of its own
that has the folder on its path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import geopandas as gpd
import pytest

from geocairn.operations.samples import sample

PACKAGE = Path(__file__).parent / "hub_lines"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed in, with its entry point."""
    copy, out = tmp_path_factory.mktemp("source") / "hub_lines", tmp_path_factory.mktemp("dist")
    shutil.copytree(PACKAGE, copy)
    script = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", script, str(out)], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    site = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(next(out.glob("*.whl"))).extractall(site)
    return site


@pytest.fixture
def geocairn(installed: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Call the command line where the package is installed."""

    def call(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        if arguments[0] == "run":
            environment["PREFECT_API_URL"] = request.getfixturevalue("prefect_api")
        command = [sys.executable, "-m", "geocairn.flows.command_line", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


def write_plan(folder: Path, **step: Any) -> None:
    for name in ("places", "roads"):
        sample(name).to_parquet(folder / f"{name}.parquet")
    values = {
        "name": "spokes",
        "sources": {name: {"uri": f"{name}.parquet"} for name in ("places", "roads")},
        "steps": [{"name": "spokes", "op": "hub_lines", "inputs": {"layer": "places", "hubs": "roads"}, **step}],
        "outputs": [{"from": "spokes", "uri": "spokes.parquet"}],
    }
    (folder / "plan.json").write_text(json.dumps(values))


def test_it_is_listed_and_explained(geocairn):
    assert "hub_lines          Join each place to its nearest hub" in geocairn("operations").stdout
    told = geocairn("operations", "hub_lines").stdout
    assert "input layer: point" in told
    assert "max_length (default null): leave out longer lines" in told
    assert "backends: geopandas, tree" in told
    schema = json.loads(geocairn("operations", "hub_lines", "--json-schema").stdout)
    assert schema["parameters"]["properties"]["max_length"]["anyOf"][0]["exclusiveMinimum"] == 0


def test_it_is_documented_with_the_others(geocairn, tmp_path):
    geocairn("operations", "--handbook", str(tmp_path / "handbook"))
    page = (tmp_path / "handbook" / "geocairn_hub_lines.md").read_text()
    assert "## hub_lines" in page
    assert "| `max_length` | number > 0 | `null` | leave out longer lines" in page
    assert "(pictures/hub_lines.svg)" in page
    picture = (tmp_path / "handbook" / "pictures" / "hub_lines.svg").read_text()
    assert picture.count("<path") == 3 + 3 + 4  # roads, and again behind the lines
    assert "geocairn_hub_lines.md#hub_lines" in (tmp_path / "handbook" / "README.md").read_text()


def test_its_step_is_checked_like_any_other(geocairn, tmp_path):
    write_plan(tmp_path, params={"max_lenght": 3, "max_length": -1}, backends=["tree", "bush"])
    told = geocairn("check", "plan.json", code=2).stderr
    assert "has no parameter 'max_lenght'; did you mean 'max_length'?" in told
    assert "must be greater than 0, not -1" in told
    assert "'bush'" in told


@pytest.mark.parametrize("backend", ["geopandas", "tree"])
def test_its_step_runs_on_each_backend_and_is_reused(geocairn, tmp_path, backend):
    write_plan(tmp_path, backends=[backend])
    answer = json.loads(geocairn("run", "plan.json", "--json").stdout)
    (step,) = [entry for entry in answer["steps"] if entry["name"] == "spokes"]
    assert (answer["status"], step["outcome"], step["backend"]) == ("completed", "computed", backend)
    lines = gpd.read_parquet(tmp_path / "spokes.parquet")
    assert list(lines.geometry.length.round(3)) == pytest.approx(
        list(sample("places").geometry.distance(sample("roads").union_all()).round(3))
    )
    again = json.loads(geocairn("run", "plan.json", "--json").stdout)
    assert [entry["outcome"] for entry in again["steps"] if entry["name"] == "spokes"] == ["reused"]


def test_the_gate_holds_it_to_its_promise(geocairn, tmp_path):
    write_plan(tmp_path, params={"max_length": 1})
    answer = json.loads(geocairn("run", "plan.json", "--json", code=3).stdout)
    assert "missing" in answer["failure"]["message"] or "null" in answer["failure"]["message"]


def test_a_flow_finds_it_among_the_tasks(installed, tmp_path):
    code = (
        "from geocairn.tasks import hub_lines\n"
        "from geocairn.operations.samples import sample\n"
        "print(hub_lines.name, len(hub_lines.operation(sample('places'), sample('roads'))))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["hub_lines", "6"]
