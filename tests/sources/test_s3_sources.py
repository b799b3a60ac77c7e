from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import geopandas as gpd
import pytest
from fault_proxy import FaultProxy, Rule
from shapely import Point

from geocairn.failure import Failure, FailureClass, FatalFailure, InputFailure, SourceChanged
from geocairn.memory import Memory
from geocairn.s3 import S3Settings, client
from geocairn.sources import objects as objects_module
from geocairn.sources.describe import describe
from geocairn.sources.publish import Target, inspect, matches, publish
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version

pytestmark = pytest.mark.s3


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"name": ["a", "b"]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")


def put(settings: S3Settings, bucket: str, key: str, content: bytes) -> None:
    client(settings).put_object(Bucket=bucket, Key=key, Body=content)


def upload(settings: S3Settings, bucket: str, folder: Path, prefix: str = "some/") -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            put(settings, bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.shp", "a.geojson", "folder.parquet"])
def test_objects_are_described_and_read(
    tmp_path: Path, towns: gpd.GeoDataFrame, s3_settings: S3Settings, s3_bucket: str, name: str
) -> None:
    if name == "folder.parquet":
        (tmp_path / name / "kind=x").mkdir(parents=True)
        towns.to_parquet(tmp_path / name / "kind=x" / "0.parquet")
    else:
        towns.to_parquet(tmp_path / name) if name == "a.parquet" else towns.to_file(tmp_path / name)
    upload(s3_settings, s3_bucket, tmp_path)
    source = Source(uri=f"s3://{s3_bucket}/some/{name}")
    version = resolve_version(source, s3=s3_settings)
    assert version.text.startswith("s3:")
    assert not version.is_content_digest
    assert resolve_version(source, s3=s3_settings) == version
    facts = describe(source, version, s3=s3_settings)
    assert (facts.crs_name, facts.kinds, facts.rows) == ("EPSG:5070", ("point",), 2)
    layer = read(source, version, s3=s3_settings)
    assert layer["name"].tolist() == ["a", "b"]
    assert read(source, version.text, s3=s3_settings).equals(layer)


def test_the_version_is_that_of_every_part(
    tmp_path: Path, towns: gpd.GeoDataFrame, s3_settings: S3Settings, s3_bucket: str
) -> None:
    towns.to_file(tmp_path / "a.shp")
    upload(s3_settings, s3_bucket, tmp_path)
    source = Source(uri=f"s3://{s3_bucket}/some/a.shp")
    before = resolve_version(source, s3=s3_settings)
    put(s3_settings, s3_bucket, "some/a.qix", b"index")
    put(s3_settings, s3_bucket, "some/ab.dbf", b"neighbour")
    assert resolve_version(source, s3=s3_settings).text == before.text
    put(s3_settings, s3_bucket, "some/a.dbf", (tmp_path / "a.dbf").read_bytes().replace(b"b ", b"c "))
    assert resolve_version(source, s3=s3_settings).text != before.text
    client(s3_settings).delete_object(Bucket=s3_bucket, Key="some/a.dbf")
    with pytest.raises(InputFailure, match=r"without its \.dbf object"):
        resolve_version(source, s3=s3_settings)


def test_a_missing_object_is_an_input_failure(s3_settings: S3Settings, s3_bucket: str) -> None:
    for uri in (f"s3://{s3_bucket}/none.gpkg", f"s3://{s3_bucket}/none.parquet"):
        with pytest.raises(InputFailure, match="does not exist"):
            resolve_version(Source(uri=uri), s3=s3_settings)
        with pytest.raises(InputFailure, match="does not exist"):
            resolve_version(Source(uri=uri, version="1"), s3=s3_settings)


@pytest.mark.parametrize("name", ["a.gpkg", "a.shp"])
@pytest.mark.parametrize(("status", "wanted"), [(403, FailureClass.FATAL), (503, FailureClass.TRANSIENT)])
def test_a_refused_or_failed_look_up_is_never_taken_for_missing(
    tmp_path: Path,
    towns: gpd.GeoDataFrame,
    s3_settings: S3Settings,
    proxied_settings: S3Settings,
    fault_proxy: FaultProxy,
    s3_bucket: str,
    name: str,
    status: int,
    wanted: FailureClass,
) -> None:
    towns.to_file(tmp_path / name)
    upload(s3_settings, s3_bucket, tmp_path)
    source = Source(uri=f"s3://{s3_bucket}/some/{name}")
    target = Target(f"s3://{s3_bucket}/some/{name}")
    version = resolve_version(source, s3=proxied_settings)
    for method in ("HEAD", "GET"):
        rule = Rule(method=method, path="some", status=status)
        fault_proxy.rules[:] = [rule]
        attempts: list[Any] = [lambda: read(source, version, s3=proxied_settings)]
        if method == "HEAD" or name == "a.shp":
            attempts += [
                lambda: resolve_version(source, s3=proxied_settings),
                lambda: matches(target, "f", 1, "x", s3=proxied_settings),
                lambda: inspect(target, s3=proxied_settings),
            ]
        for attempt in attempts:
            with pytest.raises(Failure) as caught:
                attempt()
            assert caught.value.failure_class is wanted
        assert rule.fired
    fault_proxy.rules.clear()


def test_a_refusal_says_which_permission_is_wanting(
    proxied_settings: S3Settings, fault_proxy: FaultProxy, s3_bucket: str
) -> None:
    fault_proxy.rules[:] = [Rule(status=403)]
    with pytest.raises(FatalFailure, match=r"s3:GetObject.*s3:ListBucket"):
        resolve_version(Source(uri=f"s3://{s3_bucket}/a.gpkg"), s3=proxied_settings)


def test_a_body_cut_short_is_not_read(
    tmp_path: Path,
    towns: gpd.GeoDataFrame,
    s3_settings: S3Settings,
    proxied_settings: S3Settings,
    fault_proxy: FaultProxy,
    s3_bucket: str,
) -> None:
    towns.to_file(tmp_path / "a.geojson")
    upload(s3_settings, s3_bucket, tmp_path)
    fault_proxy.rules[:] = [Rule(method="GET", path="a.geojson", action="cut")]
    with pytest.raises(Failure) as caught:
        read(Source(uri=f"s3://{s3_bucket}/some/a.geojson"), s3=proxied_settings)
    assert caught.value.failure_class is FailureClass.TRANSIENT


@pytest.mark.parametrize("version", [None, "2024"])
@pytest.mark.parametrize("part", ["a.shp", "a.dbf"])
def test_a_change_between_look_up_and_reading_is_noticed(
    tmp_path: Path,
    towns: gpd.GeoDataFrame,
    s3_settings: S3Settings,
    s3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    version: str | None,
) -> None:
    towns.to_file(tmp_path / "a.shp")
    upload(s3_settings, s3_bucket, tmp_path)
    source = Source(uri=f"s3://{s3_bucket}/some/a.shp", version=version)
    real = objects_module.fetch

    def late(*arguments: Any) -> Path:
        put(s3_settings, s3_bucket, f"some/{part}", b"another")
        return real(*arguments)

    monkeypatch.setattr(objects_module, "fetch", late)
    with pytest.raises(SourceChanged):
        read(source, s3=s3_settings)


def test_another_version_than_the_pinned_one_is_not_read(
    tmp_path: Path, towns: gpd.GeoDataFrame, s3_settings: S3Settings, s3_bucket: str
) -> None:
    towns.to_file(tmp_path / "a.geojson")
    upload(s3_settings, s3_bucket, tmp_path)
    source = Source(uri=f"s3://{s3_bucket}/some/a.geojson")
    pinned = resolve_version(source, s3=s3_settings)
    put(s3_settings, s3_bucket, "some/a.geojson", b"{}")
    with pytest.raises(SourceChanged):
        read(source, pinned, s3=s3_settings)
    client(s3_settings).delete_object(Bucket=s3_bucket, Key="some/a.geojson")
    with pytest.raises(InputFailure, match="does not exist"):
        read(source, pinned, s3=s3_settings)


def test_facts_of_an_object_are_remembered(
    tmp_path: Path,
    towns: gpd.GeoDataFrame,
    s3_settings: S3Settings,
    proxied_settings: S3Settings,
    fault_proxy: FaultProxy,
    s3_bucket: str,
) -> None:
    towns.to_file(tmp_path / "a.geojson")
    upload(s3_settings, s3_bucket, tmp_path)
    source, memory = Source(uri=f"s3://{s3_bucket}/some/a.geojson"), Memory(tmp_path / "memory")
    version = resolve_version(source, s3=proxied_settings)
    first = describe(source, version, s3=proxied_settings, memory=memory)
    fault_proxy.rules[:] = [Rule(status=503)]
    assert describe(source, version, s3=proxied_settings, memory=memory) == first


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.shp"])
def test_an_output_is_uploaded_and_recognised(
    towns: gpd.GeoDataFrame, s3_settings: S3Settings, s3_bucket: str, name: str
) -> None:
    target = Target(f"s3://{s3_bucket}/out/{name}")
    assert inspect(target, s3=s3_settings) is None
    done = publish(towns, target, {"fingerprint": "f1"}, s3=s3_settings)
    assert done.uri.endswith(f"/{s3_bucket}/out/{name}")
    assert matches(target, "f1", done.size, done.sha256, s3=s3_settings)
    found = inspect(target, s3=s3_settings)
    assert found is not None
    assert (found.size, found.sha256, found.files) == (done.size, done.sha256, done.files)
    assert read(Source(uri=target.uri), s3=s3_settings)["name"].tolist() == ["a", "b"]
    service = client(s3_settings)
    for part in done.files:
        key = f"out/{part}"
        content = service.get_object(Bucket=s3_bucket, Key=key)["Body"].read()
        put(s3_settings, s3_bucket, key, content)
        assert not matches(target, "f1", done.size, done.sha256, s3=s3_settings), "another upload is not ours"
        service.delete_object(Bucket=s3_bucket, Key=key)
        assert not matches(target, "f1", done.size, done.sha256, s3=s3_settings)
        publish(towns, target, {"fingerprint": "f1"}, s3=s3_settings)
    if name != "a.parquet":
        again = publish(towns, target, {"fingerprint": "f2"}, s3=s3_settings)
        assert not matches(target, "f1", again.size, again.sha256, s3=s3_settings)
        service.delete_object(Bucket=s3_bucket, Key=f"out/{name}.lineage.json")
        assert not matches(target, "f2", again.size, again.sha256, s3=s3_settings)
    put(s3_settings, s3_bucket, f"out/{name}", b"mine")
    with pytest.raises(InputFailure, match="did not write"):
        publish(towns, Target(target.uri, mode="error"), {"fingerprint": "f1"}, s3=s3_settings)


@pytest.mark.parametrize(("status", "wanted"), [(403, FailureClass.FATAL), (503, FailureClass.TRANSIENT)])
def test_an_upload_that_fails_has_its_class(
    towns: gpd.GeoDataFrame,
    proxied_settings: S3Settings,
    fault_proxy: FaultProxy,
    s3_bucket: str,
    status: int,
    wanted: FailureClass,
) -> None:
    fault_proxy.rules[:] = [Rule(method="PUT|POST", status=status)]
    with pytest.raises(Failure) as caught:
        publish(towns, Target(f"s3://{s3_bucket}/out/a.gpkg"), {"fingerprint": "f1"}, s3=proxied_settings)
    assert caught.value.failure_class is wanted


def test_the_log_of_a_geopackage_counts_and_a_new_output_drops_it(
    tmp_path: Path, towns: gpd.GeoDataFrame, s3_settings: S3Settings, s3_bucket: str
) -> None:
    towns.to_file(tmp_path / "a.gpkg")
    connection = sqlite3.connect(tmp_path / "a.gpkg")
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma wal_autocheckpoint=0")
    for name in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        connection.execute(f'drop trigger "{name[0]}"')
    connection.execute("update a set name = 'later'")
    connection.commit()
    uri = f"s3://{s3_bucket}/log/a.gpkg"
    put(s3_settings, s3_bucket, "log/a.gpkg", (tmp_path / "a.gpkg").read_bytes())
    before = resolve_version(Source(uri=uri), s3=s3_settings)
    put(s3_settings, s3_bucket, "log/a.gpkg-wal", (tmp_path / "a.gpkg-wal").read_bytes())
    connection.close()
    assert resolve_version(Source(uri=uri), s3=s3_settings) != before
    assert read(Source(uri=uri), s3=s3_settings)["name"].tolist() == ["later", "later"]
    publish(towns, Target(uri), {"fingerprint": "f1"}, s3=s3_settings)
    assert read(Source(uri=uri), s3=s3_settings)["name"].tolist() == ["a", "b"]
