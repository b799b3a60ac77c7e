"""What may be read and written: granted places, links, `..`, forms of hosts, and refusals that tell nothing."""

from __future__ import annotations

import os
from pathlib import Path

import geopandas as gpd
import pytest
from shapely import Point

from geocairn.failure import FailureClass, InputFailure, NotAllowed
from geocairn.sources.describe import describe
from geocairn.sources.publish import Target, inspect, matches, publish
from geocairn.sources.reach import EVERYTHING, Reach, canonical_grant, stated_grants
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.uri import DatabasePlace, S3Place, WebPlace, parse
from geocairn.sources.version import resolve_version


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"v": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:27700")


@pytest.fixture
def folder(tmp_path: Path, towns: gpd.GeoDataFrame) -> Path:
    """`inside` is allowed; `outside` lies beside it."""
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        towns.to_parquet(tmp_path / name / "a.parquet")
        towns.to_file(tmp_path / name / "a.shp")
    return tmp_path


@pytest.fixture
def reach(folder: Path) -> Reach:
    return Reach.local(folder / "inside")


def refused(uri: str, reach: Reach, base: Path) -> str:
    """Return the one message with which every way of reading refuses."""
    messages = set()
    for ask in (resolve_version, describe, read):
        with pytest.raises(NotAllowed) as caught:
            ask(Source(uri=uri), base=base, reach=reach)
        messages.add(str(caught.value))
    assert len(messages) == 1
    return messages.pop()


def test_what_lies_in_an_allowed_folder_is_read_and_written(
    folder: Path, reach: Reach, towns: gpd.GeoDataFrame
) -> None:
    base = folder / "inside"
    for uri in ("a.parquet", "./a.shp", str(base / "a.parquet"), (base / "a.shp").as_uri(), "x/../a.parquet"):
        assert len(read(Source(uri=uri), base=base, reach=reach)) == 2
    published = publish(towns, Target("new/b.gpkg"), {"fingerprint": "f"}, base=base, reach=reach)
    assert published.uri == str(base / "new" / "b.gpkg")
    assert matches(Target("new/b.gpkg"), "f", published.size, published.sha256, base=base, reach=reach)


@pytest.mark.parametrize("name", ["a.parquet", "a.shp", "no-such.parquet", "no-such-folder/a.parquet"])
@pytest.mark.parametrize(
    "way", ["{outside}/{name}", "../outside/{name}", "file://{outside}/{name}", "x/../../outside/{name}"]
)
def test_what_lies_outside_is_refused_alike_whether_it_is_there_or_not(
    folder: Path, reach: Reach, way: str, name: str
) -> None:
    uri = way.format(outside=folder / "outside", name=name)
    message = refused(uri, reach, folder / "inside")
    there = way.format(outside=folder / "outside", name="NAME")
    assert message.replace(uri, there) == refused(
        there.replace("NAME", "gone.parquet"), reach, folder / "inside"
    ).replace(there.replace("NAME", "gone.parquet"), there)
    assert f"--allow {uri}" in message


def test_a_folder_whose_name_only_begins_alike_is_not_allowed(folder: Path, reach: Reach) -> None:
    (folder / "inside-too").mkdir()
    refused(str(folder / "inside-too" / "a.parquet"), reach, folder / "inside")


def test_a_link_does_not_leave_the_allowed_folder(folder: Path, reach: Reach, towns: gpd.GeoDataFrame) -> None:
    base = folder / "inside"
    (base / "file.parquet").symlink_to("../outside/a.parquet")
    (base / "folder").symlink_to("../outside")
    (base / "dangling.parquet").symlink_to("../outside/gone.parquet")
    (base / "chain.parquet").symlink_to("file.parquet")
    for name in ("file.parquet", "folder/a.parquet", "dangling.parquet", "chain.parquet"):
        assert "symbolic link" in refused(name, reach, base)
        target = Target(name)
        with pytest.raises(NotAllowed):
            publish(towns, target, {}, base=base, reach=reach)
        with pytest.raises(NotAllowed):
            inspect(target, base=base, reach=reach)
    assert len(read(Source(uri="folder/a.parquet"), base=base, reach=Reach.local(base, ["folder"]))) == 2


def test_a_part_that_is_a_link_does_not_leave_it_either(folder: Path, reach: Reach) -> None:
    base = folder / "inside"
    (base / "a.dbf").unlink()
    (base / "a.dbf").symlink_to("../outside/a.dbf")
    assert "'a.dbf' is a link" in refused("a.shp", reach, base)
    (base / "many.parquet").mkdir()
    (base / "many.parquet" / "1.parquet").symlink_to("../../outside/a.parquet")
    assert "'1.parquet' is a link" in refused("many.parquet", reach, base)
    (base / "x.gdb").mkdir()
    (base / "x.gdb" / "a00000001.gdbtable").symlink_to("/etc/hostname")
    assert "is a link" in refused("x.gdb", reach, base)


def test_a_link_within_the_folder_is_followed(folder: Path, reach: Reach) -> None:
    (folder / "inside" / "b.parquet").symlink_to("a.parquet")
    assert len(read(Source(uri="b.parquet"), base=folder / "inside", reach=reach)) == 2


def test_steps_up_from_outside_tell_nothing_of_links_there(folder: Path, reach: Reach) -> None:
    """`outside/link/../../inside/a.parquet` leads inside only where `link` is no link."""
    (folder / "outside" / "link").symlink_to("/")
    for name in ("link", "no-such"):
        refused(f"{folder}/outside/{name}/../../inside/a.parquet", reach, folder / "inside")


def test_a_link_that_appears_before_the_move_is_not_followed(
    folder: Path, reach: Reach, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = folder / "inside"
    from geocairn.sources import writing

    whole = writing.write_file

    def swap(*arguments: object, **more: object) -> None:
        whole(*arguments, **more)  # type: ignore[arg-type]
        (base / "out").rename(base / "moved")
        (base / "out").symlink_to(folder / "outside")
        # What was written goes with the folder, so that the move itself would work.
        for part in (base / "moved").iterdir():
            os.symlink(part, folder / "outside" / part.name)

    monkeypatch.setattr(writing, "write_file", swap)
    with pytest.raises(NotAllowed):
        publish(towns, Target("out/b.parquet"), {}, base=base, reach=reach)
    assert not (folder / "outside" / "b.parquet").exists()


def test_a_file_may_be_allowed_with_its_parts_and_nothing_else(folder: Path) -> None:
    reach = Reach.local(folder / "inside", [str(folder / "outside" / "a.shp")])
    assert len(read(Source(uri=str(folder / "outside" / "a.shp")), base=folder / "inside", reach=reach)) == 2
    refused(str(folder / "outside" / "a.parquet"), reach, folder / "inside")


def test_reading_and_writing_are_granted_apart(folder: Path, towns: gpd.GeoDataFrame) -> None:
    base = folder / "inside"
    reach = Reach.of(read=["../outside"], write=["."], base=base)
    assert len(read(Source(uri="../outside/a.parquet"), base=base, reach=reach)) == 2
    refused("a.parquet", reach, base)
    publish(towns, Target("a.parquet"), {}, base=base, reach=reach)
    with pytest.raises(NotAllowed, match="may not be written"):
        publish(towns, Target("../outside/a.parquet"), {}, base=base, reach=reach)


def test_the_name_of_a_virtual_file_is_refused_whatever_is_allowed(towns: gpd.GeoDataFrame) -> None:
    for uri in ("/vsicurl/http://127.0.0.1:9/a.gpkg", "/vsimem/a.gpkg", "//vsizip/a.gpkg", "/VSIS3/b/a.gpkg"):
        with pytest.raises(NotAllowed, match="virtual file"):
            read(Source(uri=uri), reach=EVERYTHING)
        with pytest.raises(NotAllowed, match="virtual file"):
            publish(towns, Target(uri), {}, reach=Reach.local(Path("/")))


@pytest.mark.parametrize(
    ("grant", "uri"),
    [
        ("s3://geo", "s3://geo/a/b.parquet"),
        ("s3://geo/", "s3://geo/a/b.parquet"),
        ("s3://geo/a", "s3://geo/a/b.parquet"),
        ("s3://geo/a/b.parquet", "s3://geo/a/b.parquet"),
        ("https://example.org", "https://EXAMPLE.org:443/x/a.parquet"),
        ("http://example.org", "https://example.org/x/a.parquet"),
        ("https://example.org/x/", "https://example.org./x/a.parquet"),
        ("https://127.0.0.1:8443", "https://[::ffff:127.0.0.1]:8443/a.parquet"),
        ("http://127.0.0.1", "http://2130706433/a.parquet"),
        ("https://[::1]", "https://[0::1]/a.parquet"),
        ("postgresql://db", "postgresql://me@DB:5432/geo"),
        ("postgres://db:5433/geo", "postgresql://db:5433/geo"),
        ("postgresql://%2Frun%2Fpostgresql", "postgresql://%2Frun%2Fpostgresql/geo"),
    ],
)
def test_what_a_grant_covers(grant: str, uri: str) -> None:
    Reach.of(read=[grant]).may_read(parse(uri), uri)


@pytest.mark.parametrize(
    ("grant", "uri"),
    [
        ("s3://geo/a", "s3://geo/ab.parquet"),
        ("s3://geo/a", "s3://geo2/a/b.parquet"),
        ("s3://geo/a", "s3://geo/a/../b.parquet"),
        ("s3://geo/a", "s3://GEO/a/b.parquet"),
        ("https://example.org", "http://example.org/a.parquet"),
        ("https://example.org", "https://example.org:8443/a.parquet"),
        ("https://example.org", "https://sub.example.org/a.parquet"),
        ("https://example.org", "https://example.org.evil.org/a.parquet"),
        ("https://example.org/x", "https://example.org/xy/a.parquet"),
        ("https://example.org/x", "https://example.org/x/../a.parquet"),
        ("https://example.org/x", "https://example.org/x/%2e%2e/a.parquet"),
        ("https://example.org/x", "https://example.org/x%5c..%5ca.parquet"),
        ("http://localhost", "http://127.0.0.1/a.parquet"),
        ("https://example.org", "http://169.254.169.254/a.parquet"),
        ("https://example.org", "https://[::ffff:a9fe:a9fe]/a.parquet"),
        ("postgresql://db/geo", "postgresql://db/other"),
        ("postgresql://db", "postgresql://db:5433/geo"),
        ("postgresql://db", "postgresql://db2/geo"),
        ("postgresql://db", "postgresql://db,evil/geo"),
    ],
)
def test_what_it_does_not(grant: str, uri: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        Reach.of(read=[grant]).may_read(parse(uri), uri)
    assert caught.value.failure_class is FailureClass.FATAL
    assert "--allow" in caught.value.remedy


def test_a_web_address_is_told_without_its_query() -> None:
    with pytest.raises(NotAllowed) as caught:
        Reach().may_ask("https://example.org/a.parquet?token=hush")
    assert "hush" not in str(caught.value)
    assert "--allow https://example.org " in str(caught.value)


def test_in_a_served_run_the_operator_is_named_and_no_folder_of_the_machine(folder: Path) -> None:
    reach = Reach.of(read=[str(folder / "inside")], served=True)
    with pytest.raises(NotAllowed) as caught:
        reach.may_read(parse("/etc/passwd"), "/etc/passwd")
    assert "checkpoint store block" in caught.value.remedy
    assert "--allow" not in str(caught.value)
    assert str(folder) not in str(caught.value)


def test_nothing_is_allowed_unless_it_is_said(folder: Path) -> None:
    for place in (parse("a.parquet"), S3Place("b", "k"), WebPlace("https://h/x"), DatabasePlace("h", 5432, "d")):
        for ask in (Reach().may_read, Reach().may_write):
            with pytest.raises(NotAllowed):
                ask(place)
        EVERYTHING.may_read(place)


def test_the_stores_own_objects_are_out_of_reach(folder: Path) -> None:
    reach = Reach.local(folder).keeping([str(folder / "store" / "layers"), "s3://geo/store/layers"])
    (folder / "store" / "layers").mkdir(parents=True)
    (folder / "into").symlink_to("store/layers")
    for uri in ("store/layers/ab/x.parquet", "store/LAYERS/x.parquet", "into/x.parquet", "store/layers"):
        with pytest.raises(NotAllowed, match="checkpoint store"):
            reach.may_read(parse(uri, folder), uri, folder)
    reach.may_read(parse("store/other/x.parquet", folder), base=folder)
    bucket = Reach.of(read=["s3://geo"]).keeping(["s3://geo/store/layers"])
    with pytest.raises(NotAllowed, match="checkpoint store"):
        bucket.may_read(S3Place("geo", "store/layers/ab/x.parquet"))
    bucket.may_read(S3Place("geo", "store/layers-of-mine/x.parquet"))


@pytest.mark.parametrize(
    "grant",
    [
        *("", "  ", "s3://", "ftp://example.org", "https://", "https://user:word@example.org"),
        *("https://example.org/?a=b", "https://a..b", "https://example.org:port", "file://elsewhere/x"),
        "postgresql:///geo",
    ],
)
def test_what_is_no_place_cannot_be_allowed(grant: str) -> None:
    with pytest.raises(InputFailure, match="nothing that can be allowed"):
        canonical_grant(grant)


def test_grants_of_the_environment_are_separated_by_blanks() -> None:
    assert stated_grants({"GEOCAIRN_ALLOW": "/srv/data 's3://b/a b' https://example.org"}) == [
        "/srv/data",
        "s3://b/a b",
        "https://example.org",
    ]
    assert stated_grants({}) == []
    with pytest.raises(InputFailure, match="GEOCAIRN_ALLOW"):
        stated_grants({"GEOCAIRN_ALLOW": "'open"})


def test_it_travels_as_json(folder: Path) -> None:
    reach = Reach.of(["s3://b", "."], ["out"], base=folder).keeping(["/x"])
    assert Reach.model_validate_json(reach.model_dump_json()) == reach
    with pytest.raises(ValueError):
        reach.read = ()  # type: ignore[misc]
