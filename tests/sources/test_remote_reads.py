"""What moves when a GeoParquet that lies elsewhere is read: the bytes are counted where they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pytest
import shapely
from fault_proxy import FaultProxy, Rule
from pandas.testing import assert_frame_equal
from web_server import Request, WebServer

from geocairn.failure import Failure, FailureClass, SourceChanged
from geocairn.s3 import S3Settings, client
from geocairn.sources.describe import describe
from geocairn.sources.read import read
from geocairn.sources.source import Source

SIDE = 256
"""Points a side; every one of 64 row groups is a strip of four rows of them."""


@dataclass
class Remote:
    """A place from which one layer is read, and what it cost."""

    put: Callable[[str, bytes], str]
    counted: Callable[[], int]
    s3: S3Settings | None = None

    def read(self, **options: Any) -> tuple[gpd.GeoDataFrame, int]:
        before = self.counted()
        layer = read(Source.model_validate(options), s3=self.s3)
        return layer, self.counted() - before


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.stop()


@pytest.fixture(params=["web", pytest.param("s3", marks=pytest.mark.s3)])
def remote(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Remote:
    if request.param == "web":
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        web: WebServer = request.getfixturevalue("web")
        return Remote(lambda name, content: web.put(f"/{name}", content), lambda: web.sent)
    proxy: FaultProxy = request.getfixturevalue("fault_proxy")
    settings: S3Settings = request.getfixturevalue("proxied_settings")
    bucket: str = request.getfixturevalue("s3_bucket")

    def put(name: str, content: bytes) -> str:
        client(settings).put_object(Bucket=bucket, Key=name, Body=content)
        return f"s3://{bucket}/{name}"

    return Remote(put, lambda: proxy.sent, settings)


@pytest.fixture(scope="module")
def grid() -> gpd.GeoDataFrame:
    """Points sorted by y, with two small columns and eight large ones."""
    rows = SIDE * SIDE
    y, x = np.divmod(np.arange(rows), SIDE)
    random = np.random.default_rng(1)
    columns = {"n": np.arange(rows), "kind": [f"k{value}" for value in y // 64]}
    columns |= {f"large{number}": random.random(rows) for number in range(8)}
    return gpd.GeoDataFrame(columns, geometry=shapely.points(x, y), crs="EPSG:5070")


@pytest.fixture(scope="module")
def content(grid: gpd.GeoDataFrame, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("grid") / "grid.parquet"
    grid.to_parquet(path, write_covering_bbox=True, row_group_size=SIDE * 4, index=False)
    return path.read_bytes()


def share(moved: int, content: bytes) -> float:
    return moved / len(content)


def test_describing_moves_the_footer_only(remote: Remote, content: bytes, grid: gpd.GeoDataFrame) -> None:
    uri = remote.put("grid.parquet", content)
    before = remote.counted()
    facts = describe(Source(uri=uri), s3=remote.s3)
    assert (facts.rows, facts.crs_name, list(facts.columns)) == (len(grid), "EPSG:5070", list(grid.columns[:-1]))
    assert share(remote.counted() - before, content) < 0.03


def test_a_box_of_one_percent_moves_less_than_a_tenth(remote: Remote, content: bytes, grid: gpd.GeoDataFrame) -> None:
    uri = remote.put("grid.parquet", content)
    layer, moved = remote.read(uri=uri, bbox=[0, 100, 255, 102.5])
    expected = grid[(grid.geometry.y >= 100) & (grid.geometry.y <= 102)].reset_index(drop=True)
    assert_frame_equal(layer, expected)
    assert share(len(expected), grid) == pytest.approx(0.012, abs=0.001)  # type: ignore[arg-type]
    assert share(moved, content) < 0.1


def test_two_of_ten_columns_move_what_they_are(remote: Remote, content: bytes, grid: gpd.GeoDataFrame) -> None:
    uri = remote.put("grid.parquet", content)
    layer, moved = remote.read(uri=uri, columns=["n", "kind"])
    assert_frame_equal(layer, grid[["n", "kind", "geometry"]])
    plain = [name for name in grid.columns if name.startswith("large")]
    assert share(moved, content) < 1 - grid[plain].memory_usage(index=False).sum() / len(content) + 0.05


def test_two_of_ten_columns_move_less_than_a_tenth_where_the_others_are_large(remote: Remote, tmp_path: Path) -> None:
    rows = 4000
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {"n": np.arange(rows), "kind": ["a", "b"] * (rows // 2)}
    columns |= {f"large{number}": [random.bytes(75).hex() for _ in range(rows)] for number in range(8)}
    layer = gpd.GeoDataFrame(columns, geometry=shapely.points(np.arange(rows), 0), crs="EPSG:5070")
    layer.to_parquet(tmp_path / "a.parquet", row_group_size=1000, index=False)
    content = (tmp_path / "a.parquet").read_bytes()
    found, moved = remote.read(uri=remote.put("a.parquet", content), columns=["n", "kind"])
    assert_frame_equal(found, layer[["n", "kind", "geometry"]])
    assert share(moved, content) < 0.1


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("n >= 1000 AND n < 3000", 3),
        ("n BETWEEN 5 AND 6 OR n = 65535", 2),
        ("5 > n", 1),
        ("n IN (7, 70000)", 1),
        ("n = 123456789012345678", 0),
        ("kind = 'k1' AND n < 17000", 1),
        ("n < -1", 0),
        ("n IS NULL", 0),
    ],
)
def test_a_comparison_moves_the_row_groups_that_can_match(
    remote: Remote, content: bytes, grid: gpd.GeoDataFrame, where: str, groups: int
) -> None:
    uri = remote.put("grid.parquet", content)
    layer, moved = remote.read(uri=uri, where=where)
    whole, _ = remote.read(uri=uri)
    from geocairn.filters.evaluation import matching

    assert layer["n"].tolist() == whole[matching(whole, where)]["n"].tolist()
    footer = int.from_bytes(content[-8:-4], "little")
    assert moved < len(content) * groups / 64 * 1.1 + footer + 1000


def test_a_small_file_is_one_answer(remote: Remote, grid: gpd.GeoDataFrame, tmp_path: Path, web: WebServer) -> None:
    grid[:100].to_parquet(tmp_path / "a.parquet", write_covering_bbox=True)
    content = (tmp_path / "a.parquet").read_bytes()
    layer, moved = remote.read(uri=remote.put("a.parquet", content), bbox=[0, 0, 9, 0], columns=["n"])
    assert layer["n"].tolist() == list(range(10))
    assert moved == len(content)


def test_a_server_without_ranges_sends_the_whole_once(
    web: WebServer, content: bytes, grid: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    uri = web.put("/grid.parquet", content, ranges=False)
    assert read(Source(uri=uri, bbox=(0, 0, 9, 0)))["n"].tolist() == list(range(10))
    assert web.sent == len(content)


def test_every_range_is_of_the_state_that_was_seen(
    web: WebServer, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for conditions in (True, False):
        uri = web.put("/grid.parquet", content, conditions=conditions)
        gets: list[Request] = []

        def change(asked: Request, gets: list[Request] = gets, conditions: bool = conditions) -> None:
            gets.extend([asked] if asked.method == "GET" else [])
            if len(gets) == 2:  # the footer was read
                web.put("/grid.parquet", content[:-1] + b"2", conditions=conditions)

        web.before = change
        with pytest.raises(SourceChanged):
            read(Source(uri=uri, bbox=(0, 0, 9, 0)))
        web.before = None
        assert len(gets) == 2
        assert all(asked.headers["If-Match"] and asked.headers["Range"] for asked in gets)


@pytest.mark.s3
def test_every_range_of_an_object_is_of_the_state_that_was_seen(
    s3_bucket: str, proxied_settings: S3Settings, fault_proxy: FaultProxy, content: bytes, monkeypatch: Any
) -> None:
    service = client(proxied_settings)
    service.put_object(Bucket=s3_bucket, Key="grid.parquet", Body=content)
    from geocairn.sources.objects import ObjectRanges

    real, calls = ObjectRanges.get, []

    def late(self: ObjectRanges, start: int, end: int) -> bytes:
        calls.append((start, end))
        if len(calls) == 2:
            service.put_object(Bucket=s3_bucket, Key="grid.parquet", Body=content[:-1] + b"2")
        return real(self, start, end)

    monkeypatch.setattr(ObjectRanges, "get", late)
    with pytest.raises(SourceChanged):
        read(Source(uri=f"s3://{s3_bucket}/grid.parquet", bbox=(0, 0, 9, 0)), s3=proxied_settings)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"status": 403}, FailureClass.FATAL),
        ({"status": 503}, FailureClass.TRANSIENT),
        ({"action": "cut"}, FailureClass.TRANSIENT),
    ],
)
def test_a_failure_within_reading_keeps_its_class(
    s3_bucket: str,
    proxied_settings: S3Settings,
    fault_proxy: FaultProxy,
    content: bytes,
    rule: dict[str, Any],
    wanted: FailureClass,
) -> None:
    client(proxied_settings).put_object(Bucket=s3_bucket, Key="grid.parquet", Body=content)
    fault_proxy.rules[:] = [Rule(method="GET", path="grid.parquet", skip=1, **rule)]
    with pytest.raises(Failure) as caught:
        read(Source(uri=f"s3://{s3_bucket}/grid.parquet", bbox=(0, 0, 9, 0)), s3=proxied_settings)
    assert caught.value.failure_class is wanted


def test_a_folder_in_s3_moves_what_is_needed(
    s3_bucket: str, proxied_settings: S3Settings, fault_proxy: FaultProxy, grid: gpd.GeoDataFrame, tmp_path: Path
) -> None:
    service, total = client(proxied_settings), 0
    for kind, part in grid.groupby("kind"):
        part.drop(columns="kind").to_parquet(tmp_path / "part.parquet", index=False)
        body = (tmp_path / "part.parquet").read_bytes()
        total += len(body)
        service.put_object(Bucket=s3_bucket, Key=f"grid.parquet/kind={kind}/0.parquet", Body=body)
    source = Source(uri=f"s3://{s3_bucket}/grid.parquet", where="kind = 'k1'", columns=["n", "kind"])
    fault_proxy.sent = 0
    layer = read(source, s3=proxied_settings)
    assert layer["n"].tolist() == grid[grid["kind"] == "k1"]["n"].tolist()
    assert set(layer["kind"]) == {"k1"}
    assert fault_proxy.sent < total / 4
