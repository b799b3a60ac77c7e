from __future__ import annotations

from pathlib import Path

import pytest

from geocairn.failure import InputFailure
from geocairn.s3 import S3Settings
from geocairn.sources.uri import LocalPlace, S3Place, canonical_uri, parse


def test_one_file_has_one_canonical_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "a b.gpkg"
    file.touch()
    (tmp_path / "link.gpkg").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    ways = ["data/a b.gpkg", "./data/../data/a b.gpkg", str(file), "link.gpkg", f"file://{tmp_path}/data/a%20b.gpkg"]
    assert {canonical_uri(way) for way in ways} == {str(file.resolve())}
    monkeypatch.chdir("/")
    assert canonical_uri("data/a b.gpkg", base=tmp_path) == str(file.resolve())


def test_parts_lie_beside_the_name_and_not_beside_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "3f2a").touch()
    (tmp_path / "a.shp").symlink_to(tmp_path / "store" / "3f2a")
    place = parse("a.shp", tmp_path)
    assert isinstance(place, LocalPlace)
    assert place.path.name == "a.shp"


def test_the_folder_above_a_linked_folder_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "short").symlink_to(tmp_path / "real" / "deep")
    place = parse("short/../x.gpkg", tmp_path)
    assert isinstance(place, LocalPlace)
    assert place.path == (tmp_path / "real" / "x.gpkg").resolve()


@pytest.mark.parametrize(
    ("endpoint", "service"),
    [
        (None, "aws"),
        ("https://s3.eu-central-1.amazonaws.com", "aws"),
        ("http://Store.example:9000/", "store.example:9000"),
        ("https://user:secret@store.example:443", "store.example"),
        ("https://store.example/s3/", "store.example/s3"),
    ],
)
def test_an_object_is_named_by_its_service_without_secrets(endpoint: str | None, service: str) -> None:
    settings = S3Settings(endpoint=endpoint, secret_key="hush", access_key="me")
    assert canonical_uri("s3://b/some/key.parquet", s3=settings) == f"s3+{service}/b/some/key.parquet"


def test_a_key_keeps_its_slashes() -> None:
    assert parse("s3://b/x//y.gpkg") == S3Place("b", "x//y.gpkg")
    assert parse("s3://b/x/parts/").name == "parts"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("https://user:secret@example.org/a.gpkg", "holds a password"),
        ("https://secret@example.org/a.gpkg", "holds a user name"),
        ("https://example.org/", "names no file"),
        ("https://example.org:port/a.gpkg", "no sound URL"),
        ("postgresql://me:secret@host/db", "holds a password"),
        ("postgresql://host/", "names no database"),
        ("postgresql://host/db?sslmode=require", "settings after '?'"),
        ("htps://example.org/a.gpkg", "did you mean https"),
        ("gs://bucket/a.gpkg", "s3://bucket/key"),
        ("s3://bucket", "s3://bucket/key"),
        ("file://host/a.gpkg", "another machine"),
    ],
)
def test_other_schemes_are_refused_with_those_that_work(uri: str, words: str) -> None:
    with pytest.raises(InputFailure) as caught:
        parse(uri)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_name_may_hold_a_colon(tmp_path: Path) -> None:
    (tmp_path / "run:2.gpkg").touch()
    assert parse("run:2.gpkg", tmp_path).name == "run:2.gpkg"


def test_one_web_address_however_written() -> None:
    assert (
        canonical_uri("HTTPS://Example.org:443/Data/a.gpkg?year=2024#top")
        == "https://example.org/Data/a.gpkg?year=2024"
    )
    assert parse("http://[::1]:8080/a.gpkg").name == "a.gpkg"


def test_a_database_is_the_same_whoever_connects() -> None:
    assert canonical_uri("postgres://me@Host/geo") == canonical_uri("postgresql://host:5432/geo")
