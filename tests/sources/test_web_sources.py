from __future__ import annotations

import logging
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas as gpd
import pytest
from shapely import Point
from web_server import LONG_AGO, Request, WebServer

from geocairn.classification import classify, retry_after
from geocairn.failure import Failure, FailureClass, FatalFailure, InputFailure, SourceChanged, TransientFailure
from geocairn.memory import Memory
from geocairn.sources.describe import describe
from geocairn.sources.publish import Target, inspect, matches, publish
from geocairn.sources.read import read
from geocairn.sources.remote import remote_files
from geocairn.sources.source import Source
from geocairn.sources.uri import canonical_uri, parse
from geocairn.sources.version import resolve_version


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"name": ["a", "b"]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")


def written(folder: Path, towns: gpd.GeoDataFrame, name: str = "a.gpkg") -> bytes:
    path = folder / name
    towns.to_parquet(path) if name.endswith(".parquet") else towns.to_file(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.geojson", "a.fgb"])
def test_a_file_on_a_web_server_is_described_and_read(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, name: str
) -> None:
    uri = web.put(f"/data/{name}", written(tmp_path, towns, name))
    source = Source(uri=uri)
    version = resolve_version(source)
    assert version.text == f"etag:{web.resources[f'/data/{name}'].tag}/{len(web.resources[f'/data/{name}'].content)}"
    assert not version.is_content_digest
    facts = describe(source, version)
    assert (facts.crs_name, facts.kinds, facts.rows) == ("EPSG:5070", ("point",), 2)
    layer = read(source, version)
    assert sorted(layer["name"]) == ["a", "b"]
    assert read(source, version.text).equals(layer)


def test_a_shapefile_is_fetched_with_its_parts(tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer) -> None:
    written(tmp_path, towns, "a.shp")
    for path in tmp_path.glob("a.*"):
        web.put(f"/d/{path.name}", path.read_bytes())
    source = Source(uri=f"{web.url}/d/a.shp")
    version = resolve_version(source)
    assert read(source, version)["name"].tolist() == ["a", "b"]
    web.put("/d/a.dbf", web.resources["/d/a.dbf"].content.replace(b"b ", b"c "))
    assert resolve_version(source).text != version.text
    with pytest.raises(SourceChanged):
        read(source, version)
    del web.resources["/d/a.dbf"]
    with pytest.raises(InputFailure, match=r"without its \.dbf"):
        resolve_version(source)


def test_the_date_and_size_are_the_version_where_there_is_no_strong_etag(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer
) -> None:
    uri = web.put("/a.gpkg", written(tmp_path, towns), etag="weak", modified=LONG_AGO)
    source = Source(uri=uri)
    version = resolve_version(source)
    assert version.text.startswith("modified:Tue, 14 Nov 2023 22:13:20 GMT/")
    assert read(source, version)["name"].tolist() == ["a", "b"]
    web.resources["/a.gpkg"].modified = LONG_AGO + 1
    assert resolve_version(source).text != version.text
    with pytest.raises(SourceChanged):
        read(source, version)


@pytest.mark.parametrize("options", [{"etag": None}, {"etag": "weak"}, {"etag": None, "modified": "now"}])
def test_the_content_is_the_version_where_the_server_tells_none_that_can_be_relied_on(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, options: dict[str, Any]
) -> None:
    content = written(tmp_path, towns)
    if options.get("modified") == "now":  # another change within the same second would have the same date
        options = {**options, "modified": time.time() + 3}
    source = Source(uri=web.put("/a.gpkg", content, **options))
    version = resolve_version(source)
    assert version == resolve_version(source)
    assert version.is_content_digest
    assert version.text == resolve_version(Source(uri=str(tmp_path / "a.gpkg"))).text
    web.requests.clear()
    assert read(source, version)["name"].tolist() == ["a", "b"]
    assert web.sent == len(content), "fetched once"
    towns["name"] = ["c", "d"]
    (tmp_path / "a.gpkg").unlink()
    web.put("/a.gpkg", written(tmp_path, towns), **options)
    with pytest.raises(SourceChanged):
        read(source, version)


def test_a_stated_version_is_trusted_and_what_is_read_is_what_was_seen(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer
) -> None:
    source = Source(uri=web.put("/a.gpkg", written(tmp_path, towns), etag=None), version="2024")
    web.requests.clear()
    assert resolve_version(source).text == "stated:2024"
    assert web.sent == 0
    assert read(source)["name"].tolist() == ["a", "b"]


@pytest.mark.parametrize("head", [403, 405, 501])
def test_get_is_asked_where_head_is_refused(tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, head: int) -> None:
    source = Source(uri=web.put("/a.gpkg", written(tmp_path, towns), head=head))
    assert resolve_version(source).text.startswith('etag:"')
    assert read(source)["name"].tolist() == ["a", "b"]


@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize("name", ["a.gpkg", "a.parquet"])
@pytest.mark.parametrize("told", [{}, {"etag": None, "modified": LONG_AGO}])
def test_a_change_between_look_up_and_reading_is_noticed(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, name: str, conditions: bool, told: dict[str, Any]
) -> None:
    content = written(tmp_path, towns, name)
    source = Source(uri=web.put(f"/{name}", content, conditions=conditions, **told), columns=["name"])
    version = resolve_version(source)

    def change(asked: Request) -> None:
        if asked.method == "GET":
            later = {**told, "modified": LONG_AGO + 9} if told else {}
            web.put(f"/{name}", content[::-1], conditions=conditions, **later)

    web.before = change
    with pytest.raises(SourceChanged):
        read(source, version)
    del web.resources[f"/{name}"]
    with pytest.raises(InputFailure, match="does not exist"):
        read(source, version)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (404, InputFailure),
        (410, InputFailure),
        (401, FatalFailure),
        (403, FatalFailure),
        (429, TransientFailure),
        (500, TransientFailure),
        (502, TransientFailure),
        (503, TransientFailure),
        (504, TransientFailure),
        (418, FatalFailure),
    ],
)
def test_an_answer_that_is_no_success_has_its_class(web: WebServer, status: int, wanted: type[Failure]) -> None:
    uri = web.put("/a.gpkg", b"x", status=status)
    for attempt in (resolve_version, describe, read):
        with pytest.raises(Failure) as caught:
            attempt(Source(uri=uri))
        assert caught.value.failure_class is wanted.failure_class
        assert "/a.gpkg" in str(caught.value)


def test_how_long_to_wait_is_told_with_a_refusal(web: WebServer) -> None:
    uri = web.put("/a.gpkg", b"x", status=429, headers={"Retry-After": "7"})
    with pytest.raises(TransientFailure) as caught:
        resolve_version(Source(uri=uri))
    assert retry_after(caught.value) == 7


def test_a_server_that_is_not_there_is_a_transient_failure() -> None:
    server = WebServer()
    server.stop()
    with pytest.raises(TransientFailure, match="cannot be fetched") as caught:
        resolve_version(Source(uri=f"{server.url}/a.gpkg"))
    assert classify(caught.value).failure_class is FailureClass.TRANSIENT


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("columns", [None, ["name"]])
@pytest.mark.parametrize("name", ["a.geojson", "a.parquet"])
def test_a_body_cut_short_is_a_transient_failure(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, name: str, columns: list[str] | None, share: float
) -> None:
    content = written(tmp_path, towns, name)
    uri = web.put(f"/{name}", content, cut=int(len(content) * share))
    with pytest.raises(TransientFailure):
        read(Source(uri=uri, columns=columns))


def test_what_is_no_data_is_refused(tmp_path: Path, web: WebServer) -> None:
    page = {"headers": {"Content-Type": "text/html; charset=utf-8"}}
    with pytest.raises(InputFailure, match=r"web page \(text/html\), not with data"):
        read(Source(uri=web.put("/a.csv", b"<html>Please log in</html>", **page), crs="EPSG:4326"))
    with pytest.raises(InputFailure, match="its content is of another kind"):
        read(Source(uri=web.put("/a.gpkg", b"<html>Please log in</html>")))
    with pytest.raises(InputFailure, match=r"is empty \(0 bytes\)"):
        read(Source(uri=web.put("/b.gpkg", b"")))
    with pytest.raises(InputFailure, match="does not list a folder"):
        resolve_version(Source(uri=f"{web.url}/folder.parquet/"))
    with pytest.raises(InputFailure, match=r"does not list a folder, which a file geodatabase is"):
        resolve_version(Source(uri=f"{web.url}/folder.gdb"))
    assert not [asked for asked in web.requests if asked.path.startswith("/folder")]


def test_compressed_on_its_way_is_read_as_it_is(tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer) -> None:
    import gzip

    content = written(tmp_path, towns, "a.geojson")
    uri = web.put("/a.geojson", gzip.compress(content), headers={"Content-Encoding": "gzip"}, ranges=False)
    assert read(Source(uri=uri))["name"].tolist() == ["a", "b"]


def test_redirects_are_followed_hop_by_hop(tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer) -> None:
    web.put("/real/b.bin", written(tmp_path, towns))
    web.put("/hop", b"", status=302, location="/real/b.bin?X-Amz-Signature=topsecret")
    uri = web.put("/a.gpkg", b"", status=301, location=f"{web.url}/hop")
    asked: list[str] = []
    remote = remote_files(parse(uri), allowed=asked.append)
    (tmp_path / "there").mkdir()
    assert remote.fetch(tmp_path / "there").name == "a.gpkg"
    assert asked == [f"{web.url}/{path}" for path in ("a.gpkg", "hop", "real/b.bin")] * 2
    assert read(Source(uri=uri))["name"].tolist() == ["a", "b"]

    def refuse(url: str) -> None:
        if "real" in url:
            raise FatalFailure("may not be asked", where=url)

    web.requests.clear()
    with pytest.raises(FatalFailure, match="may not be asked"):
        remote_files(parse(uri), allowed=refuse)
    assert [request.path for request in web.requests] == ["/a.gpkg", "/hop"]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/a.gpkg", "redirected more than 5 times"),
        ("file:///etc/passwd", "which is no web address"),
        ("http://user:topsecret@127.0.0.1:9/x", "which is no web address"),
        ("", "redirected to no address"),
    ],
)
def test_a_redirect_that_leads_astray_is_refused(web: WebServer, location: str, words: str) -> None:
    uri = web.put("/a.gpkg", b"", status=302, location=location)
    with pytest.raises(FatalFailure, match=words) as caught:
        resolve_version(Source(uri=uri))
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "sig=topsecret&sv=2024",
        "X-Amz-Algorithm=AWS4&X-Amz-Signature=topsecret",
        "token=topsecret",
        "access_token=topsecret",
        "api_key=topsecret",
        "KEY=topsecret",
        "layer=1;password=topsecret",
        "layer=1#token=topsecret",
    ],
)
def test_a_secret_in_an_address_is_refused_without_telling_it(query: str) -> None:
    uri = f"https://data.example.org/a.gpkg?{query}"
    for attempt in (lambda: parse(uri), lambda: canonical_uri(uri), lambda: resolve_version(Source(uri=uri))):
        with pytest.raises(InputFailure, match="looks like a secret") as caught:
            attempt()
        assert "topsecret" not in str(caught.value)
        assert "GEOCAIRN_WEB_QUERY_DATA_EXAMPLE_ORG" in str(caught.value)


def test_other_parameters_are_part_of_the_address(tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer) -> None:
    uri = web.put("/a.gpkg", written(tmp_path, towns), query="release=2024&keys=all") + "?release=2024&keys=all"
    assert canonical_uri(uri) == uri
    assert read(Source(uri=uri))["name"].tolist() == ["a", "b"]


def test_credentials_come_from_the_environment_and_go_to_their_host_alone(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    other = WebServer()
    try:
        other.put("/a.gpkg", written(tmp_path, towns))
        uri = web.put("/a.gpkg", b"", query="v=1&sig=topsecret", status=302, location=f"{other.url}/a.gpkg") + "?v=1"
        with pytest.raises(FatalFailure, match=r"answers 403.*GEOCAIRN_WEB_QUERY_127_0_0_1_\d+"):
            read(Source(uri=uri))
        suffix = web.url.removeprefix("http://").replace(".", "_").replace(":", "_")
        monkeypatch.setenv(f"GEOCAIRN_WEB_QUERY_{suffix}", "?sig=topsecret")
        monkeypatch.setenv(f"GEOCAIRN_WEB_TOKEN_{suffix}", "topsecret")
        layer = read(Source(uri=uri))
    finally:
        other.stop()
    assert layer["name"].tolist() == ["a", "b"]
    assert web.requests[-1].headers["Authorization"] == "Bearer topsecret"
    assert not [asked for asked in other.requests if "Authorization" in asked.headers or "topsecret" in asked.query]
    assert "topsecret" not in caplog.text
    assert "topsecret" not in canonical_uri(uri)


def test_netrc_is_heeded(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = web.put("/a.gpkg", written(tmp_path, towns), authorization="Basic bWU6c2VjcmV0")
    with pytest.raises(FatalFailure, match="answers 401"):
        read(Source(uri=uri))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\ndefault login x password y\n")
    (tmp_path / "netrc").chmod(0o600)
    assert read(Source(uri=uri))["name"].tolist() == ["a", "b"]


def test_facts_are_remembered_for_the_version_that_they_are_of(
    tmp_path: Path, towns: gpd.GeoDataFrame, web: WebServer
) -> None:
    source, memory = Source(uri=web.put("/a.gpkg", written(tmp_path, towns))), Memory(tmp_path / "memory")
    version = resolve_version(source)
    first = describe(source, version, memory=memory)
    web.requests.clear()
    assert describe(source, version, memory=memory) == first
    assert web.requests == []
    (tmp_path / "a.gpkg").unlink()
    web.put("/a.gpkg", written(tmp_path, towns[:1]))
    fresh = Memory(tmp_path / "another")
    describe(source, version, memory=fresh)  # of what is there now, so that it is not remembered for the old version
    web.requests.clear()
    describe(source, version, memory=fresh)
    assert web.requests


def test_nothing_is_written_to_a_web_server(towns: gpd.GeoDataFrame, web: WebServer) -> None:
    target = Target(f"{web.url}/out.gpkg")
    attempts: list[Any] = [
        lambda: publish(towns, target, {"fingerprint": "f"}),
        lambda: inspect(target),
        lambda: matches(target, "f", 1, "x"),
    ]
    for attempt in attempts:
        with pytest.raises(InputFailure, match="a web server cannot be written to"):
            attempt()
    assert web.requests == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_certificate_must_be_trusted(
    tmp_path: Path, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = WebServer((certificate, key))
    plain = WebServer()
    try:
        uri = server.put("/a.gpkg", written(tmp_path, towns))
        with pytest.raises(FatalFailure, match="certificate"):
            read(Source(uri=uri))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert read(Source(uri=uri))["name"].tolist() == ["a", "b"]
        server.put("/down.gpkg", b"", status=302, location=f"{plain.url}/a.gpkg")
        with pytest.raises(FatalFailure, match="redirected from https to http"):
            read(Source(uri=f"{server.url}/down.gpkg"))
        assert plain.requests == []
    finally:
        server.stop()
        plain.stop()
