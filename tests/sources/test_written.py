from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import geopandas as gpd
import pyogrio
import pytest
from shapely import Point

from geocairn.classification import classify
from geocairn.failure import FailureClass, FatalFailure, InputFailure
from geocairn.sources import writing as writing_module
from geocairn.sources.formats import format_of
from geocairn.sources.publish import Target, publish
from geocairn.sources.written import check_written

NAMES = ("a.parquet", "a.gpkg", "a.fgb", "a.geojson", "a.shp", "a.csv")
BY_GDAL = ("a.gpkg", "a.fgb", "a.geojson", "a.shp")
LINEAGE = {"fingerprint": "f1"}


@pytest.fixture
def places() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(
        {"v": range(300), "t": [f"name {i * 7919 % 3001}" for i in range(300)]},
        geometry=[Point(i % 97 * 1.37, i % 89 * 3.1) for i in range(300)],
        crs="EPSG:5070",
    )


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system refuse to write more, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


@pytest.mark.parametrize("missing", [10, 300, 5000])
@pytest.mark.parametrize("name", NAMES)
def test_an_output_for_which_there_is_no_room_is_a_fatal_failure(
    tmp_path: Path, places: gpd.GeoDataFrame, name: str, missing: int
) -> None:
    (tmp_path / "whole").mkdir()
    publish(places, Target(str(tmp_path / "whole" / name)), LINEAGE)
    (tmp_path / "cut").mkdir()
    largest = max(file.stat().st_size for file in (tmp_path / "whole").iterdir())
    failure: BaseException | None = None
    with files_of_at_most(largest - missing):
        try:
            publish(places, Target(str(tmp_path / "cut" / name)), LINEAGE)
        except BaseException as error:
            failure = error
    assert isinstance(failure, FatalFailure), failure
    assert "the disk is full, or a quota" in str(failure)
    assert list((tmp_path / "cut").iterdir()) == [], "nothing is left, and nothing looks like an output"


def cut(number: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, path.stat().st_size - number)


def without_index(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("delete from gpkg_extensions where extension_name = 'gpkg_rtree_index'")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("name", "part", "damage"),
    [
        ("a.fgb", "a.fgb", cut(1)),
        ("a.fgb", "a.fgb", cut(500)),
        ("a.geojson", "a.geojson", cut(3)),
        ("a.geojson", "a.geojson", cut(500)),
        ("a.gpkg", "a.gpkg", cut(4096)),
        ("a.gpkg", "a.gpkg", without_index),
        ("a.shp", "a.shp", cut(8)),
        ("a.shp", "a.shx", cut(8)),
        ("a.shp", "a.dbf", cut(50)),
        ("a.shp", "a.prj", cut(5)),
        ("a.shp", "a.cpg", cut(1)),
    ],
)
def test_a_file_that_is_not_what_was_to_be_written_is_refused(
    tmp_path: Path, places: gpd.GeoDataFrame, name: str, part: str, damage: Callable[[Path], None]
) -> None:
    publish(places, Target(str(tmp_path / name)), LINEAGE)
    check_written(tmp_path / name, format_of(name), places, "a")
    damage(tmp_path / part)
    with pytest.raises(FatalFailure, match="was not written whole"):
        check_written(tmp_path / name, format_of(name), places, "a")


@pytest.mark.parametrize("rows", [0, 1, 16, 17, 257])
@pytest.mark.parametrize("name", BY_GDAL)
def test_layers_of_any_size_with_and_without_null_geometry_pass(
    tmp_path: Path, places: gpd.GeoDataFrame, name: str, rows: int
) -> None:
    publish(places[:rows], Target(str(tmp_path / name)), LINEAGE, kinds=("point",))
    with_null = places[:rows].copy()
    if rows:
        with_null.loc[0, "geometry"] = None
    publish(with_null, Target(str(tmp_path / name)), LINEAGE, kinds=("point",))
    assert len(pyogrio.read_dataframe(tmp_path / name)) == rows


def test_what_the_format_cannot_hold_stays_an_input_failure(
    tmp_path: Path, places: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyogrio.errors import DataLayerError

    def refuses(*args: object, **options: object) -> None:
        raise DataLayerError("there is no such layer")

    monkeypatch.setattr(pyogrio, "write_dataframe", refuses)
    with pytest.raises(InputFailure, match="there is no such layer") as caught:
        publish(places, Target(str(tmp_path / "a.gpkg")), LINEAGE)
    assert classify(caught.value).failure_class is FailureClass.INPUT
    assert writing_module.lack_of_room(OSError("No space left on device"), tmp_path / "a", places) is not None


@pytest.mark.parametrize("content", ['{"type": "FeatureCollection", "features": []}', "notes of mine", '{"a": 1}'])
def test_a_file_that_is_no_sidecar_is_not_replaced_by_one(
    tmp_path: Path, places: gpd.GeoDataFrame, content: str
) -> None:
    (tmp_path / "a.fgb.lineage.json").write_text(content)
    with pytest.raises(InputFailure, match="geocairn did not write"):
        publish(places, Target(str(tmp_path / "a.fgb")), LINEAGE)
    assert (tmp_path / "a.fgb.lineage.json").read_text() == content
    assert not (tmp_path / "a.fgb").exists()


@pytest.mark.parametrize("name", ["a.fgb", "a.shp", "a.parquet"])
def test_an_output_that_is_a_link_goes_to_what_it_leads_to(tmp_path: Path, places: gpd.GeoDataFrame, name: str) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / f"b{Path(name).suffix}"
    (tmp_path / name).symlink_to(real)
    for _ in range(2):  # the link leads nowhere yet, then to a file
        done = publish(places, Target(str(tmp_path / name)), LINEAGE)
        assert (tmp_path / name).is_symlink()
        assert done.uri == str(real)
        assert real.is_file()
        assert done.files[0] == real.name
    if name != "a.parquet":
        assert json.loads(real.with_name(f"{real.name}.lineage.json").read_text())["fingerprint"] == "f1"
    (tmp_path / "c.fgb").symlink_to("c.fgb")
    with pytest.raises(InputFailure, match="in a circle"):
        publish(places, Target(str(tmp_path / "c.fgb")), LINEAGE)
