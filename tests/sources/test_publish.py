from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import geopandas as gpd
import pandas as pd
import pyogrio
import pytest
from pyarrow import parquet
from shapely import LineString, MultiPoint, Point, box

from geocairn.failure import FatalFailure, InputFailure
from geocairn.notes import collecting
from geocairn.operations.reading_writing import read_layer, write_layer
from geocairn.sources import publish as publish_module
from geocairn.sources.publish import Published, Target, inspect, matches, publish
from geocairn.sources.read import read
from geocairn.sources.source import Source

NAMES = ("a.parquet", "a.gpkg", "a.fgb", "a.geojson", "a.shp", "a.csv")
LINEAGE = {"fingerprint": "f1", "steps": [{"name": "é"}]}


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"name": ["a", "b"]}, geometry=[Point(0.1, 0), Point(1, 1)], crs="EPSG:5070")


def back(path: Path) -> gpd.GeoDataFrame:
    return read(Source.model_validate({"uri": str(path), "crs": 5070 if path.suffix == ".csv" else None}))


def holds(target: Target, done: Published, fingerprint: str = "f1") -> bool:
    return matches(target, fingerprint, done.size, done.sha256)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_what_was_published_is_read_back_and_recognised(tmp_path: Path, towns: gpd.GeoDataFrame, name: str) -> None:
    target = Target(str(tmp_path / "out" / name))
    done = publish(towns, target, LINEAGE)
    layer = back(tmp_path / "out" / name)
    if name == "a.fgb":
        layer = layer.sort_values("name")  # its index orders the rows
    assert layer["name"].tolist() == ["a", "b"]
    assert layer.geometry.x.tolist() == [0.1, 1.0]
    assert layer.crs == towns.crs
    assert holds(target, done)
    assert inspect(target) == done
    assert done.fingerprint == "f1"
    assert done.size == sum((tmp_path / "out" / file).stat().st_size for file in done.files)
    if len(done.files) == 1:
        assert done.sha256 == hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest()
    sidecar = {f"{name}.lineage.json"} if name != "a.parquet" else set()
    assert files(tmp_path / "out") == set(done.files) | sidecar, "nothing else is left"


@pytest.mark.parametrize("name", NAMES)
def test_an_edited_or_deleted_output_is_not_taken_for_ours(tmp_path: Path, towns: gpd.GeoDataFrame, name: str) -> None:
    target = Target(str(tmp_path / name))
    for part in publish(towns, target, LINEAGE).files:
        done = publish(towns, target, LINEAGE)
        content = bytearray((tmp_path / part).read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / part).write_bytes(content)
        assert not holds(target, done), f"{part} was edited"
        (tmp_path / part).unlink()
        assert not holds(target, done), f"{part} was deleted"
    done = publish(towns, target, LINEAGE)
    assert holds(target, done)
    if name != "a.parquet":
        assert not holds(target, done, "f2"), "the sidecar names another fingerprint"
        (tmp_path / f"{name}.lineage.json").write_text("{")
        assert not holds(target, done), "the sidecar is damaged"
        (tmp_path / f"{name}.lineage.json").unlink()
        assert not holds(target, done), "the sidecar is gone"


def test_a_geoparquet_output_carries_its_lineage(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    publish(towns, Target(str(tmp_path / "a.parquet")), LINEAGE)
    metadata = parquet.read_metadata(tmp_path / "a.parquet")
    assert json.loads(metadata.metadata[b"geocairn"]) == LINEAGE
    geo = json.loads(metadata.metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    assert geo["columns"]["geometry"]["covering"]["bbox"]["xmin"] == ["bbox", "xmin"]
    assert geo["columns"]["geometry"]["crs"]["id"] == {"authority": "EPSG", "code": 5070}
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_sidecar_tells_the_output(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    done = publish(towns, Target(str(tmp_path / "a.shp")), LINEAGE)
    sidecar = json.loads((tmp_path / "a.shp.lineage.json").read_text(encoding="utf-8"))
    assert sidecar["lineage"] == LINEAGE
    assert sidecar["output"]["sha256"] == done.sha256
    assert {part["name"]: part["size"] for part in sidecar["output"]["files"]} == {
        name: (tmp_path / name).stat().st_size for name in done.files
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moved", range(7))
def test_a_crash_at_any_move_is_never_believed(
    tmp_path: Path, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch, name: str, moved: int
) -> None:
    target = Target(str(tmp_path / name))
    old = publish(towns, target, LINEAGE)
    new_layer = towns.assign(name=["x", "y"])
    count = 0
    real = os.replace

    def crashing(source: Any, destination: Any) -> None:
        nonlocal count
        if count == moved:
            raise KeyboardInterrupt
        count += 1
        real(source, destination)

    with monkeypatch.context() as patch:
        patch.setattr(publish_module.os, "replace", crashing)
        try:
            done = publish(new_layer, target, {"fingerprint": "f2"})
        except KeyboardInterrupt:
            done = None
    if moved == 0:
        assert holds(target, old), "the old output is whole"
        assert sorted(back(tmp_path / name)["name"]) == ["a", "b"]
    if done is None and moved > 0:
        found = inspect(target)
        believed = found is not None and matches(target, "f2", found.size, found.sha256)
        assert not believed
    again = publish(new_layer, target, {"fingerprint": "f2"})
    assert holds(target, again, "f2")
    assert sorted(back(tmp_path / name)["name"]) == ["x", "y"]
    assert not [left for left in files(tmp_path) if left.startswith(".geocairn")]


def test_leftovers_of_a_killed_publication_are_cleared(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    import socket
    import subprocess

    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = tmp_path / f".geocairn-a.gpkg-{socket.gethostname()}-{gone.pid}-abc"
    alive = tmp_path / f".geocairn-a.gpkg-{socket.gethostname()}-{os.getpid()}-abc"
    elsewhere = tmp_path / ".geocairn-a.gpkg-another.host-1-abc"
    for folder in (dead, alive, elsewhere):
        folder.mkdir()
        (folder / "a.gpkg").touch()
    publish(towns, Target(str(tmp_path / "a.gpkg")), LINEAGE)
    assert [folder.exists() for folder in (dead, alive, elsewhere)] == [False, True, True]


def test_stale_companions_of_the_old_output_go(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    for stale in ("a.qix", "a.sbn", "a.CPG", "a.shp", "a.shx", "a.dbf", "ab.qix"):
        (tmp_path / stale).write_bytes(b"old")
    publish(towns, Target(str(tmp_path / "a.shp")), LINEAGE)
    assert {"a.qix", "a.sbn", "a.CPG"} & files(tmp_path) == set()
    assert "ab.qix" in files(tmp_path)
    (tmp_path / "b.gpkg").write_bytes(b"old")
    (tmp_path / "b.gpkg-wal").write_bytes(b"old")
    publish(towns, Target(str(tmp_path / "b.gpkg")), LINEAGE)
    assert "b.gpkg-wal" not in files(tmp_path)
    assert back(tmp_path / "b.gpkg")["name"].tolist() == ["a", "b"]


def test_mode_error_refuses_what_is_not_ours(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    for name in NAMES:
        target = Target(str(tmp_path / name), mode="error")
        publish(towns, target, LINEAGE)
        publish(towns, target, {"fingerprint": "f2"})
        towns.to_parquet(tmp_path / name) if name == "a.parquet" else (tmp_path / name).write_bytes(b"PAR1 mine")
        with pytest.raises(InputFailure, match="did not write"):
            publish(towns, target, LINEAGE)


def test_other_layers_of_a_geopackage_are_not_lost(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    path = tmp_path / "a.gpkg"
    towns.to_file(path, layer="precious")
    with pytest.raises(InputFailure, match="precious"):
        publish(towns, Target(str(path), layer="towns"), LINEAGE)
    assert pyogrio.list_layers(path)[:, 0].tolist() == ["precious"]
    path.unlink()
    publish(towns, Target(str(path), layer="before"), LINEAGE)
    publish(towns, Target(str(path), layer="after"), LINEAGE)
    assert pyogrio.list_layers(path)[:, 0].tolist() == ["after"], "our own output goes under another name"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target("a.txt"), "no format that geocairn writes"),
        (Target("a.gdb"), "no format that geocairn writes"),
        (Target("a.gpkg", driver="GPK"), "no driver 'GPK'"),
        (Target("a.gpkg", driver="FlatGeobuf"), "does not end in .fgb"),
        (Target("a.parquet", layer="x"), "layer names a layer in a GeoPackage"),
        (Target("folder.gpkg"), "is a folder"),
        (Target("file/a.gpkg"), "is a file"),
        (Target("https://example.org/a.gpkg"), "cannot be written to"),
    ],
)
def test_a_target_that_cannot_be_is_told(tmp_path: Path, towns: gpd.GeoDataFrame, target: Target, words: str) -> None:
    (tmp_path / "folder.gpkg").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InputFailure) as caught:
        publish(towns, target, LINEAGE, base=tmp_path)
    assert words in str(caught.value)
    assert files(tmp_path) == {"folder.gpkg", "file"}


def test_a_folder_that_may_not_be_written_is_fatal(
    tmp_path: Path, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(publish_module.tempfile, "mkdtemp", refuse)
    with pytest.raises(FatalFailure, match="may not be written"):
        publish(towns, Target(str(tmp_path / "a.gpkg")), LINEAGE)


def test_a_table_without_geometry_or_crs_is_never_written(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    for layer in (pd.DataFrame({"a": [1]}), gpd.GeoDataFrame({"a": [1]})):
        with pytest.raises(InputFailure, match="table without geometry"):
            publish(layer, Target(str(tmp_path / "a.gpkg")), LINEAGE)
    with pytest.raises(InputFailure, match="no CRS"):
        publish(towns.set_crs(None, allow_override=True), Target(str(tmp_path / "a.gpkg")), LINEAGE)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.fgb", "a.shp"])
def test_an_empty_layer_keeps_columns_and_crs_and_has_no_bounds(
    tmp_path: Path, towns: gpd.GeoDataFrame, name: str
) -> None:
    publish(towns[:0], Target(str(tmp_path / name)), LINEAGE, kinds=("polygon",))
    layer = back(tmp_path / name)
    assert (len(layer), layer.crs) == (0, towns.crs)
    assert "name" in layer.columns
    if name == "a.parquet":
        geo = json.loads(parquet.read_metadata(tmp_path / name).metadata[b"geo"])
        assert "bbox" not in geo["columns"]["geometry"]
    else:
        assert "Polygon" in pyogrio.read_info(tmp_path / name)["geometry_type"]


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_geometry_stay(tmp_path: Path, towns: gpd.GeoDataFrame, name: str) -> None:
    layer = towns.set_geometry([None, Point(1, 1)], crs=towns.crs)
    publish(layer, Target(str(tmp_path / name)), LINEAGE)
    assert back(tmp_path / name).geometry.tolist() == [None, Point(1, 1)]


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.shp"])
def test_single_and_multiple_parts_are_written_as_one_type(tmp_path: Path, name: str) -> None:
    layer = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(0, 0), MultiPoint([(1, 1), (2, 2)])], crs="EPSG:5070")
    publish(layer, Target(str(tmp_path / name)), LINEAGE)
    assert pyogrio.read_info(tmp_path / name)["geometry_type"] in ("MultiPoint",)
    assert set(back(tmp_path / name).geom_type) == {"MultiPoint"}


def test_a_shapefile_of_two_kinds_is_refused(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(0, 0), box(0, 0, 1, 1)], crs="EPSG:5070")
    with pytest.raises(InputFailure, match=r"one kind of geometry.*point and polygon"):
        publish(layer, Target(str(tmp_path / "a.shp")), LINEAGE)
    publish(layer, Target(str(tmp_path / "a.gpkg")), LINEAGE)
    assert set(back(tmp_path / "a.gpkg").geom_type) == {"Point", "Polygon"}


def told(layer: gpd.GeoDataFrame, path: Path) -> str:
    with collecting() as notes:
        publish(layer, Target(str(path)), LINEAGE)
    return "\n".join(notes.caveats)


def test_what_a_shapefile_cuts_is_told(tmp_path: Path) -> None:
    columns = {
        "population_density": [1],
        "population_growth": [2],
        "Population_": [3],
        "größenverhältnis": [4],
        "text": ["x" * 300],
        "at": pd.to_datetime(["2024-03-31T01:30"]),
    }
    layer = gpd.GeoDataFrame(columns, geometry=[Point(0, 0)], crs="EPSG:5070")
    text = told(layer, tmp_path / "a.shp")
    assert "population_density → population" in text
    assert "population_growth → populati_1" in text
    assert "Population_ → Populati_2" in text
    assert "größenverhältnis → größenve" in text
    assert "1 values of 'text' are cut" in text
    assert "'at' is written as text" in text
    layer = back(tmp_path / "a.shp")
    assert [layer[name].iloc[0] for name in ("population", "populati_1", "Populati_2", "größenve")] == [1, 2, 3, 4]
    assert layer["at"].iloc[0] == "2024-03-31T01:30:00"
    assert told(layer.drop(columns=["at", "text"]), tmp_path / "b.shp") == "", "nothing to tell"


def test_a_time_zone_that_is_lost_is_told_and_the_instant_kept(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    at = pd.to_datetime(["2024-03-31T00:30Z", "2024-03-31T01:30Z"]).tz_convert("Europe/Berlin")
    layer = towns.assign(at=at)
    for name in ("a.gpkg", "a.fgb", "a.geojson"):
        assert "'at' (Europe/Berlin)" in told(layer, tmp_path / name)
        assert sorted(back(tmp_path / name)["at"]) == list(at), name
    assert told(layer, tmp_path / "a.parquet") == ""
    assert str(back(tmp_path / "a.parquet")["at"].dt.tz) == "Europe/Berlin"
    assert told(towns.assign(at=at.tz_convert("UTC")), tmp_path / "b.gpkg") == ""


def test_large_integers_with_nulls_survive(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    layer = towns.assign(n=pd.array([2**53 + 1, None], dtype="Int64"))
    for name in NAMES:
        publish(layer, Target(str(tmp_path / name)), LINEAGE)
        assert set(back(tmp_path / name)["n"].dropna()) == {2**53 + 1}, name


def test_geometry_columns_that_do_not_fit_are_told(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    layer = towns.assign(label=gpd.GeoSeries([Point(5, 5)] * 2, crs="EPSG:5070"))
    assert "'label' left out" in told(layer, tmp_path / "a.gpkg")
    assert told(layer, tmp_path / "a.parquet") == ""
    assert told(layer, tmp_path / "a.csv") == ""
    assert "POINT (5 5)" in (tmp_path / "a.csv").read_text()


def test_projected_geojson_is_told(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    assert "reproject to EPSG:4326" in told(towns, tmp_path / "a.geojson")
    assert told(towns.to_crs(4326), tmp_path / "b.geojson") == ""
    exact = towns.set_geometry([Point(0.12345678901234, 1), Point(1, 2)], crs=4326)
    publish(exact, Target(str(tmp_path / "c.geojson")), LINEAGE)
    assert back_geographic(tmp_path / "c.geojson").geometry.x.iloc[0] == 0.12345678901234


def back_geographic(path: Path) -> gpd.GeoDataFrame:
    return read(Source(uri=str(path)))


def test_a_column_called_bbox_is_data(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    publish(towns.assign(bbox=[1, 2]), Target(str(tmp_path / "a.parquet")), LINEAGE)
    assert back(tmp_path / "a.parquet")["bbox"].tolist() == [1, 2]


def test_z_is_written(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[LineString([(0, 0, 5), (1, 1, 6)])], crs="EPSG:5070")
    for name in NAMES:
        publish(layer, Target(str(tmp_path / name)), LINEAGE)
        assert back(tmp_path / name).geometry.iloc[0].coords[1] == (1, 1, 6), name


def test_the_written_geopackage_is_valid_sqlite_without_a_log(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    publish(towns.rename_geometry("shape"), Target(str(tmp_path / "a.gpkg"), layer="towns"), LINEAGE)
    connection = sqlite3.connect(tmp_path / "a.gpkg")
    assert connection.execute("select table_name, column_name from gpkg_geometry_columns").fetchall() == [
        ("towns", "shape")
    ]
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()


def test_reading_and_writing_compute_without_a_run(
    tmp_path: Path, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = towns.copy()
    assert write_layer.compute(towns, uri="out/a.gpkg", layer_name="towns") is towns
    pd.testing.assert_frame_equal(towns, before)
    assert read_layer.compute(uri="out/a.gpkg", layer="towns", columns=["name"])["name"].tolist() == ["a", "b"]
    with pytest.raises(InputFailure, match="no parameter 'url'; did you mean 'uri'"):
        read_layer.compute(url="out/a.gpkg")


def test_a_moved_output_is_told_from_the_recorded_one(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    done = publish(towns, Target("a.gpkg"), LINEAGE, base=tmp_path)
    (tmp_path / "elsewhere").mkdir()
    assert not matches(Target("a.gpkg"), "f1", done.size, done.sha256, base=tmp_path / "elsewhere")
    for name in ("a.gpkg", "a.gpkg.lineage.json"):
        shutil.copy(tmp_path / name, tmp_path / "elsewhere")
    assert matches(Target("a.gpkg"), "f1", done.size, done.sha256, base=tmp_path / "elsewhere")
