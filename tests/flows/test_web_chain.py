"""A chain on a source that lies on a web server, through the command line: reuse, change, refusal, no secret told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import geopandas as gpd
import pytest
from forked_runs import Ended, Runs
from shapely import Point

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))
from web_server import WebServer

PLAN = """name: discs
sources:
  towns: {{uri: "{uri}", columns: [name]}}
steps:
  - {{name: discs, op: buffer, inputs: towns, params: {{distance: 5}}}}
outputs:
  - {{from: discs, uri: out.parquet}}
"""


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.stop()


@pytest.fixture
def geocairn(runs: Runs, tmp_path: Path, web: WebServer) -> Callable[..., Ended]:
    def run(*arguments: str, **environment: str) -> Ended:
        given = {"GEOCAIRN_CACHE": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1", **environment}
        return runs.start([*arguments, "--allow", web.url], tmp_path, environment=given).wait()

    return run


def content(folder: Path, *names: str) -> bytes:
    points = [Point(1e6 + number, 1e6) for number in range(len(names))]
    layer = gpd.GeoDataFrame({"name": list(names), "other": 1}, geometry=points, crs="EPSG:5070")
    layer.to_parquet(folder / "layer", index=False)
    return (folder / "layer").read_bytes()


def test_a_source_on_a_web_server_is_read_once_and_read_again_when_it_changed(
    tmp_path: Path, web: WebServer, geocairn: Callable[..., Ended]
) -> None:
    first = content(tmp_path, "a", "b")
    uri = web.put("/towns.parquet", first, query="release=1&sig=topsecret") + "?release=1"
    (tmp_path / "plan.yaml").write_text(PLAN.format(uri=uri))
    host = web.url.removeprefix("http://").replace(".", "_").replace(":", "_")
    secret = {f"GEOCAIRN_WEB_QUERY_{host}": "sig=topsecret"}
    refused = geocairn("run", "plan.yaml", "--json")
    assert refused.code == 1
    assert "answers 403" in refused.stdout + refused.stderr
    done = geocairn("run", "plan.yaml", "--json", **secret)
    assert done.code == 0, done.stderr
    assert done.outcomes() == {"discs": "computed"}
    web.requests.clear()
    again = geocairn("run", "plan.yaml", "--json", **secret)
    assert again.answer["unchanged"] is True
    assert web.sent == 0, "its version is asked for, its content is not"
    assert {asked.method for asked in web.requests} == {"HEAD"}
    web.put("/towns.parquet", content(tmp_path, "a", "b", "c"), query="release=1&sig=topsecret")
    status = geocairn("status", "plan.yaml", "--json", **secret)
    assert [step["outcome"] for step in status.answer["steps"]] == ["compute"]
    changed = geocairn("run", "plan.yaml", "--json", **secret)
    assert changed.answer["outputs"]["discs"]["rows"] == 3
    told = "".join(ended.stdout + ended.stderr for ended in (refused, done, again, status, changed))
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "topsecret" not in told
    assert b"topsecret" not in kept


def test_a_secret_in_the_plan_is_refused_before_anything_is_asked(
    tmp_path: Path, web: WebServer, geocairn: Callable[..., Ended]
) -> None:
    uri = web.put("/towns.parquet", content(tmp_path, "a")) + "?token=topsecret"
    (tmp_path / "plan.yaml").write_text(PLAN.format(uri=uri))
    for command in ("check", "status", "run"):
        ended = geocairn(command, "plan.yaml")
        assert ended.code == 2
        assert "looks like a secret" in ended.stdout + ended.stderr
        assert "topsecret" not in ended.stdout + ended.stderr
    assert web.requests == []
