from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import geopandas as gpd
import pytest
from shapely import Point

from geocairn.failure import FatalFailure, InputFailure
from geocairn.memory import Memory
from geocairn.sources import version as version_module
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"name": ["a", "b"], "n": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")


def text_of(path: Path, memory: Memory | None = None) -> str:
    return resolve_version(Source(uri=str(path)), memory=memory).text


def age(path: Path, seconds: float = 60) -> None:
    """Give the file an mtime in the past; its ctime stays that of now."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_single_file_has_the_digest_that_sha256sum_gives(tmp_path: Path) -> None:
    file = tmp_path / "a.geojson"
    file.write_bytes(b'{"type": "FeatureCollection", "features": []}')
    assert text_of(file) == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def test_name_place_and_touch_do_not_count(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    towns.to_file(tmp_path / "a.shp")
    (tmp_path / "other").mkdir()
    for part in tmp_path.glob("a.*"):
        shutil.copy(part, tmp_path / "other" / f"renamed{part.suffix}")
    before = text_of(tmp_path / "a.shp")
    age(tmp_path / "a.shp")
    assert text_of(tmp_path / "a.shp") == before == text_of(tmp_path / "other" / "renamed.shp")


@pytest.mark.parametrize("part", [".shp", ".shx", ".dbf", ".prj", ".cpg"])
def test_every_part_of_a_shapefile_that_changes_the_data_counts(
    tmp_path: Path, towns: gpd.GeoDataFrame, part: str
) -> None:
    towns.to_file(tmp_path / "a.shp")
    before = text_of(tmp_path / "a.shp")
    content = bytearray((tmp_path / f"a{part}").read_bytes())
    content[-1] ^= 1
    (tmp_path / f"a{part}").write_bytes(content)
    assert text_of(tmp_path / "a.shp") != before


def test_indexes_and_neighbours_of_a_shapefile_do_not_count(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    towns.to_file(tmp_path / "a.shp")
    before = text_of(tmp_path / "a.shp")
    for name in ("a.qix", "a.shp.xml", "ab.dbf", "a_1.dbf"):
        (tmp_path / name).write_bytes(b"x")
    assert text_of(tmp_path / "a.shp") == before
    (tmp_path / "a.prj").unlink()
    assert text_of(tmp_path / "a.shp") != before


def test_parts_in_capitals_are_parts(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    towns.to_file(tmp_path / "a.shp")
    before = text_of(tmp_path / "a.shp")
    for part in list(tmp_path.glob("a.*")):
        part.rename(part.with_suffix(part.suffix.upper()))
    assert text_of(tmp_path / "a.SHP") == before


@pytest.mark.parametrize("part", [".shx", ".dbf"])
def test_a_shapefile_without_a_part_is_refused(tmp_path: Path, towns: gpd.GeoDataFrame, part: str) -> None:
    towns.to_file(tmp_path / "a.shp")
    (tmp_path / f"a{part}").unlink()
    with pytest.raises(InputFailure, match=rf"without its \{part} file"):
        text_of(tmp_path / "a.shp")


def test_what_stands_in_the_write_ahead_log_counts(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    file = tmp_path / "a.gpkg"
    towns.to_file(file)
    before = text_of(file)
    connection = sqlite3.connect(file)
    connection.execute("pragma journal_mode=wal")
    plain = text_of(file)
    connection.execute("update gpkg_contents set description = 'changed'")
    connection.commit()
    assert (tmp_path / "a.gpkg-wal").stat().st_size > 0
    assert len({before, plain, text_of(file)}) == 3
    connection.close()


def test_every_file_of_a_folder_counts_by_its_place_in_it(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    folder = tmp_path / "towns.parquet"
    for name, rows in (("part=1", towns[:1]), ("part=2", towns[1:])):
        (folder / name).mkdir(parents=True)
        rows.to_parquet(folder / name / "0.parquet")
    before = text_of(folder)
    (folder / "_SUCCESS").touch()
    (folder / ".0.parquet.crc").touch()
    assert text_of(folder) == before
    (folder / "part=1").rename(folder / "part=3")
    assert text_of(folder) != before


def test_a_digest_is_remembered_only_once_the_file_has_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, memory = tmp_path / "a.geojson", Memory(tmp_path / "memory")
    file.write_text('{"a": 1}')
    age(file)  # mtime says old, ctime says new: not to be trusted
    first = text_of(file, memory)
    assert text_of(file, memory) == first
    assert list((tmp_path / "memory").rglob("*.json")) == []
    later = time.time() + 10
    monkeypatch.setattr(version_module.time, "time", lambda: later)
    assert text_of(file, memory) == first
    (entry,) = (tmp_path / "memory").rglob("*.json")
    entry.write_text(entry.read_text().replace(first.removeprefix("sha256:"), "f" * 64))
    assert text_of(file, memory) == "sha256:" + "f" * 64, "the remembered digest was used"


def test_content_changed_under_the_same_size_and_mtime_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, memory = tmp_path / "a.geojson", Memory(tmp_path / "memory")
    file.write_text('{"a": 1}')
    age(file)
    later = time.time() + 10
    monkeypatch.setattr(version_module.time, "time", lambda: later)
    before, facts = text_of(file, memory), file.stat()
    file.write_text('{"a": 2}')
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert file.stat().st_mtime_ns == facts.st_mtime_ns
    assert text_of(file, memory) != before


@pytest.mark.skipif(os.name != "posix", reason="file permissions of POSIX")
def test_permission_is_asked_for_even_where_the_digest_is_known(tmp_path: Path) -> None:
    file = tmp_path / "a.geojson"
    file.write_text('{"a": 1}')
    script = (
        "import sys, os, time\n"
        "from pathlib import Path\n"
        "from geocairn.sources import version\n"
        "from geocairn.memory import Memory\n"
        "from geocairn.sources.source import Source\n"
        "from geocairn.failure import FatalFailure\n"
        "later = time.time() + 10\n"
        "version.time.time = lambda: later\n"
        "source, memory = Source(uri=sys.argv[1]), Memory(Path(sys.argv[2]))\n"
        "version.resolve_version(source, memory=memory)\n"
        "refused = lambda path, mode: False\n"
        "version.os.access = refused\n"
        "try:\n"
        "    version.resolve_version(source, memory=memory)\n"
        "except FatalFailure as failure:\n"
        "    print(failure)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), str(tmp_path / "memory")], capture_output=True, text=True, check=True
    )
    assert "may not be read" in done.stdout


def test_a_stated_version_is_taken_and_the_file_must_exist(tmp_path: Path) -> None:
    file = tmp_path / "a.geojson"
    file.write_text('{"a": 1}')
    stated = resolve_version(Source.model_validate({"uri": str(file), "version": 2024}))
    assert (stated.text, stated.is_content_digest) == ("stated:2024", False)
    assert stated.files == (("a.geojson", 8),)
    with pytest.raises(InputFailure, match="does not exist"):
        resolve_version(Source.model_validate({"uri": str(tmp_path / "b.geojson"), "version": 2024}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("countis.geojson", "did you mean 'counties.geojson'"),
        ("nowhere/counties.geojson", "has no folder 'nowhere'"),
        ("empty.gpkg", "is empty"),
        ("folder.gpkg", "is a folder"),
        ("counties.txt", "extension '.txt'"),
        ("counties", "no extension"),
        ("folder.parquet", "without a GeoParquet file"),
        ("file.gdb", "is a folder"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest_that_is(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "counties.geojson").write_text("{}")
    (tmp_path / "empty.gpkg").touch()
    (tmp_path / "file.gdb").write_text("x")
    (tmp_path / "folder.gpkg").mkdir()
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputFailure) as caught:
        resolve_version(Source(uri=name), base=tmp_path)
    assert words in str(caught.value)
    assert "working directory" in str(caught.value) or "does not exist" not in str(caught.value)


def test_an_unreadable_folder_is_fatal_and_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.shp"
    file.write_bytes(b"x")

    def refuse(path: object) -> list[str]:
        raise PermissionError(13, "denied", str(path))

    monkeypatch.setattr("geocairn.sources.formats.os.listdir", refuse)
    with pytest.raises(FatalFailure, match="may not be read"):
        text_of(file)


def test_resolving_loads_no_library(tmp_path: Path) -> None:
    (tmp_path / "a.geojson").write_text("{}")
    script = (
        "import sys\n"
        "from geocairn.sources.source import Source\n"
        "from geocairn.sources.version import resolve_version\n"
        "from geocairn.sources.describe import describe\n"
        "from geocairn.sources.target import matches, Target\n"
        "resolve_version(Source(uri=sys.argv[1]))\n"
        "matches(Target(sys.argv[1]), 'f', 2, 'x')\n"
        "heavy = ('numpy', 'pandas', 'geopandas', 'pyproj', 'pyarrow', 'boto3')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.geojson")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
