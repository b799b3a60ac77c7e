from __future__ import annotations

import datetime
import shutil
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely
from shapely import LineString, Point

from geocairn.failure import InputFailure, SourceChanged
from geocairn.notes import collecting
from geocairn.sources import read as read_module
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version

BIG = 2**53 + 1


@pytest.fixture
def mixed() -> gpd.GeoDataFrame:
    """What readers lose: large integers with nulls, null booleans, time zones, dates, Z, null geometry."""
    return gpd.GeoDataFrame(
        {
            "n": pd.array([BIG, None, 3], dtype="Int64"),
            "yes": pd.array([True, None, False], dtype="boolean"),
            "whole": np.array([1, 2, 3], dtype="int32"),
            "text": ["a", None, "Zürich"],
            "at": pd.to_datetime(["2024-03-01T01:30Z", None, "2024-10-01T00:00Z"]),
            "day": [datetime.date(2024, 1, 1), None, datetime.date(2023, 1, 1)],
        },
        geometry=[Point(0, 0.1, 7), None, Point(1, 1, 8)],
        crs="EPSG:5070",
    )


def at(path: Path, **options: Any) -> gpd.GeoDataFrame:
    return read(Source.model_validate({"uri": str(path), **options}))


def write(layer: gpd.GeoDataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        layer.to_parquet(path)
    else:
        options = {".fgb": {"SPATIAL_INDEX": "NO"}, ".gpkg": {"GEOMETRY_NAME": "geometry"}}.get(path.suffix, {})
        pyogrio.write_dataframe(layer, path, use_arrow=True, layer_options=options)


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.geojson", "a.parquet"])
def test_types_survive(tmp_path: Path, mixed: gpd.GeoDataFrame, name: str) -> None:
    write(mixed, tmp_path / name)
    layer = at(tmp_path / name)
    assert list(layer.columns) == list(mixed.columns)
    assert layer["n"].tolist() == [BIG, pd.NA, 3]
    assert str(layer["n"].dtype) == "Int64"
    assert layer["yes"].tolist() == [True, pd.NA, False]
    assert layer["whole"].dtype == np.dtype("int32")
    assert layer["text"].tolist()[2] == "Zürich"
    assert layer["at"].dt.tz is not None
    assert layer["at"].tolist()[0] == pd.Timestamp("2024-03-01T01:30Z")
    assert pd.Timestamp(layer["day"].tolist()[2]) == pd.Timestamp("2023-01-01")
    assert layer.geometry.tolist()[1] is None
    assert layer.geometry.iloc[2].z == 8
    assert layer.crs == "EPSG:5070"
    assert isinstance(layer.index, pd.RangeIndex)


def test_a_shapefile_keeps_what_it_can(tmp_path: Path, mixed: gpd.GeoDataFrame) -> None:
    write(mixed.drop(columns="at"), tmp_path / "a.shp")
    layer = at(tmp_path / "a.shp")
    assert layer["n"].tolist() == [BIG, pd.NA, 3]
    assert layer.geometry.iloc[0].z == 7
    assert layer["text"].tolist()[2] == "Zürich"


@pytest.mark.parametrize("inner", ["", "deep/er/"])
def test_a_zipped_shapefile_is_read(tmp_path: Path, inner: str) -> None:
    layer = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")
    layer.to_file(tmp_path / "towns.shp")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for part in tmp_path.glob("towns.*"):
            archive.write(part, f"{inner}{part.name}")
    assert at(tmp_path / "a.zip")["n"].tolist() == [1, 2]
    assert at(tmp_path / "a.zip", layer="towns").crs == "EPSG:5070"
    with pytest.raises(InputFailure, match="no layer 'town'; did you mean 'towns'"):
        at(tmp_path / "a.zip", layer="town")


def test_an_archive_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    layer.to_file(tmp_path / "a.shp")
    layer.to_file(tmp_path / "b.shp")
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        for part in (*tmp_path.glob("a.*"), *tmp_path.glob("b.*")):
            archive.write(part, part.name)
    with pytest.raises(InputFailure, match="holds 2 shapefiles: a, b"):
        at(tmp_path / "both.zip")
    with zipfile.ZipFile(tmp_path / "part.zip", "w") as archive:
        archive.write(tmp_path / "a.shp", "a.shp")
    with pytest.raises(InputFailure, match=r"without its \.shx"):
        at(tmp_path / "part.zip")
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputFailure, match="holds no shapefile"):
        at(tmp_path / "none.zip")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "both.zip").read_bytes()[:100])
    with pytest.raises(InputFailure, match="damaged zip"):
        at(tmp_path / "cut.zip")


def test_a_file_geodatabase_is_read(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")
    pyogrio.write_dataframe(layer, tmp_path / "a.gdb", driver="OpenFileGDB", layer="towns", geometry_type="Point")
    assert at(tmp_path / "a.gdb")["n"].tolist() == [1, 2]


def test_the_geometry_keeps_its_name_where_the_format_has_one(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070").rename_geometry("shape")
    layer.to_parquet(tmp_path / "a.parquet")
    pyogrio.write_dataframe(layer, tmp_path / "a.gpkg", layer_options={"GEOMETRY_NAME": "shape"})
    assert at(tmp_path / "a.parquet").geometry.name == "shape"
    assert at(tmp_path / "a.gpkg").geometry.name == "shape"


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.geojson", "a.shp", "a.parquet"])
def test_a_box_keeps_what_meets_it_whatever_the_format(tmp_path: Path, name: str) -> None:
    # The diagonal's own box meets the small one, and the line does not: every format must agree on that.
    lines = [LineString([(0, 0), (10, 10)]), LineString([(1, 1), (2, 1)]), LineString([(20, 20), (30, 30)])]
    layer = gpd.GeoDataFrame({"n": [1, 2, 3]}, geometry=lines, crs="EPSG:5070")
    if name.endswith("parquet"):
        layer.to_parquet(tmp_path / name, write_covering_bbox=True)
    else:
        layer.to_file(tmp_path / name)
    assert at(tmp_path / name, bbox=[8, 0, 9, 1])["n"].tolist() == []
    assert sorted(at(tmp_path / name, bbox=[0, 0, 3, 3])["n"].tolist()) == [1, 2]
    assert at(tmp_path / name, bbox=[25, 25, 25, 25])["n"].tolist() == [3]


@pytest.mark.parametrize("name", ["a.gpkg", "a.parquet", "a.csv"])
def test_columns_come_in_the_order_asked_for_and_where_may_use_others(tmp_path: Path, name: str) -> None:
    if name.endswith("csv"):
        (tmp_path / name).write_text("n,m,x,y\n1,5,0,0\n2,6,1,1\n3,,2,2\n")
    else:
        layer = gpd.GeoDataFrame(
            {"n": [1, 2, 3], "m": pd.array([5, 6, None], dtype="Int64"), "z": ["a", "b", "c"]},
            geometry=[Point(i, i) for i in range(3)],
            crs="EPSG:5070",
        )
        write(layer, tmp_path / name)
    crs = {"crs": 5070} if name.endswith("csv") else {}
    layer = at(tmp_path / name, columns=["n"], where="m > 5", **crs)
    assert layer["n"].tolist() == [2]
    assert [column for column in layer.columns if column != layer.geometry.name] == ["n"]
    assert list(at(tmp_path / name, columns=["m", "n"], **crs).columns)[:2] == ["m", "n"]
    with pytest.raises(InputFailure, match="where: has no column 'mm'"):
        at(tmp_path / name, where="mm > 5", **crs)


def test_a_folder_of_parquet_is_one_layer_in_the_order_of_its_names(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": range(6)}, geometry=[Point(i, i) for i in range(6)], crs="EPSG:5070")
    folder = tmp_path / "towns.parquet"
    for name, rows in (("kind=b", layer[3:]), ("kind=a", layer[:3])):
        (folder / name).mkdir(parents=True)
        rows.to_parquet(folder / name / "0.parquet", index=False)
    read_back = at(folder)
    assert read_back["n"].tolist() == list(range(6))
    assert read_back["kind"].astype(str).tolist() == ["a"] * 3 + ["b"] * 3
    assert list(at(folder, columns=["kind"]).columns) == ["kind", "geometry"]
    layer.to_crs(4326).to_parquet(folder / "kind=b" / "1.parquet")
    with pytest.raises(InputFailure, match="differs in CRS"):
        at(folder)


def test_a_named_index_is_data_and_an_unnamed_one_is_not(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")
    layer.set_index(pd.Index(["x", "y"], name="code")).to_parquet(tmp_path / "a.parquet")
    layer.set_index(pd.Index([5, 6])).to_parquet(tmp_path / "b.parquet")
    assert at(tmp_path / "a.parquet")["code"].tolist() == ["x", "y"]
    assert list(at(tmp_path / "b.parquet").columns) == ["n", "geometry"]


def test_reading_leaves_a_geopackage_with_a_log_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "live.gpkg"
    gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070").to_file(path, layer="towns")
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma wal_autocheckpoint=0")
    for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        connection.execute(f'drop trigger "{name}"')
    connection.execute("update towns set n = 42")
    connection.commit()
    (tmp_path / "copy").mkdir()
    for part in ("live.gpkg", "live.gpkg-wal"):
        shutil.copy(tmp_path / part, tmp_path / "copy")
    connection.close()
    copied = tmp_path / "copy" / "live.gpkg"
    before = {path.name: path.stat().st_mtime_ns for path in copied.parent.iterdir()}
    assert at(copied)["n"].tolist() == [42], "what only the log holds is read"
    assert {path.name: path.stat().st_mtime_ns for path in copied.parent.iterdir()} == before


@pytest.mark.parametrize("name", ["a.gpkg", "a.parquet", "a.shp"])
def test_another_content_than_the_pinned_one_is_not_read(tmp_path: Path, name: str) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    write(layer, tmp_path / name)
    source = Source(uri=str(tmp_path / name))
    pinned = resolve_version(source)
    layer["n"] = [2]
    write(layer, tmp_path / name)
    with pytest.raises(SourceChanged, match="no longer what it was"):
        read(source, pinned)
    with pytest.raises(SourceChanged):
        read(source, pinned.text)
    assert read(source, resolve_version(source))["n"].tolist() == [2]


@pytest.mark.parametrize("version", [None, "2024"])
def test_a_change_while_reading_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    path = tmp_path / "a.gpkg"
    layer.to_file(path)
    real = read_module.header_of

    def changing(*arguments: Any) -> Any:
        header = real(*arguments)
        path.unlink()
        layer.assign(n=[2]).to_file(path)
        return header

    monkeypatch.setattr(read_module, "header_of", changing)
    with pytest.raises(SourceChanged):
        read(Source(uri=str(path), version=version))


@pytest.mark.parametrize("bbox", [None, [0, 0, 100, 100]])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.gpkg", "a.gpkg"),
        ("a.parquet", "a.parquet"),
        ("a.geojson", "a.geojson"),
        ("a.fgb", "a.fgb"),
        ("a.shp", "a.shp"),
        ("a.shp", "a.shx"),
        ("a.shp", "a.dbf"),
    ],
)
def test_a_file_cut_short_is_refused(tmp_path: Path, name: str, part: str, bbox: list[float] | None) -> None:
    layer = gpd.GeoDataFrame({"n": range(500)}, geometry=[Point(i, i) for i in range(500)], crs="EPSG:5070")
    write(layer, tmp_path / name)
    at(tmp_path / name, bbox=bbox)
    content = (tmp_path / part).read_bytes()
    for share in (0.4, 0.9):
        (tmp_path / part).write_bytes(content[: int(len(content) * share)])
        with pytest.raises(InputFailure):
            at(tmp_path / name, bbox=bbox)


def test_parts_of_two_shapefiles_are_refused(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": range(9)}, geometry=[Point(i, i) for i in range(9)], crs="EPSG:5070")
    layer.to_file(tmp_path / "a.shp")
    layer[:5].to_file(tmp_path / "b.shp")
    shutil.copy(tmp_path / "b.dbf", tmp_path / "a.dbf")
    with pytest.raises(InputFailure, match=r"do not belong together: 9 geometries in \.shx, 5 rows in \.dbf"):
        at(tmp_path / "a.shp")


def test_text_without_a_stated_encoding_is_told(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"name": ["Zürich – Süd"]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    pyogrio.write_dataframe(layer, tmp_path / "a.shp", encoding="cp1252")
    (tmp_path / "a.cpg").unlink()
    with (tmp_path / "a.dbf").open("r+b") as dbf:
        dbf.seek(29)
        dbf.write(b"\0")
    with collecting() as notes:
        at(tmp_path / "a.shp")
    assert any("encoding" in caveat and "'name'" in caveat for caveat in notes.caveats)
    with collecting() as notes:
        assert at(tmp_path / "a.shp", encoding="cp1252")["name"].tolist() == ["Zürich – Süd"]
    assert notes.caveats == []


def test_text_that_was_decoded_wrongly_is_suspected(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"name": ["Zürich".encode().decode("cp1252")]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    layer.to_file(tmp_path / "a.gpkg")
    with collecting() as notes:
        at(tmp_path / "a.gpkg")
    assert len(notes.caveats) == 1
    assert "wrong encoding" in notes.caveats[0]


def test_csv_by_coordinates(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("fips,Lon,LAT,n,day,empty\n01001,1.5,2,9007199254740993,2024-01-31,\n36061,,,,,\n")
    layer = at(path, crs=4326)
    assert layer["fips"].tolist() == ["01001", "36061"], "a leading zero is part of a code"
    assert layer["n"].tolist() == [BIG, pd.NA]
    assert layer["day"].tolist() == [datetime.date(2024, 1, 31), None]
    assert layer.geometry.tolist() == [Point(1.5, 2), None]
    with pytest.raises(InputFailure, match="has no CRS"):
        at(path)


def test_csv_by_wkt_and_other_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("name;WKT\nZürich;POINT (1 2)\nnone;\n".encode("cp1252"))
    layer = at(path, crs=5070, encoding="cp1252")
    assert layer["name"].tolist() == ["Zürich", "none"]
    assert layer.geometry.tolist() == [Point(1, 2), None]
    assert layer.geometry.name == "WKT"
    with pytest.raises(InputFailure, match=r"not utf-8.*state its encoding"):
        at(path, crs=5070)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('x,y\n1,2\n"3,5",4\n', "no number in row 2: '3,5'.*point, not a comma"),
        ("wkt\nPOINT (1 2)\nPOINT (1\n", "no WKT in row 2"),
        ("x,y,x\n1,2,3\n", "column 'x' twice"),
        ("x,y\n1,2,3\n", "not a sound CSV"),
        ("a,b\n1,2\n", "neither a WKT column nor x and y"),
    ],
)
def test_csv_says_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputFailure, match=words):
        at(tmp_path / "a.csv", crs=4326)


def test_an_attribute_called_geometry_is_not_mistaken_for_it(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"kind": ["text"], "n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    layer = layer.rename_geometry("shape").rename(columns={"kind": "geometry"})
    pyogrio.write_dataframe(layer, tmp_path / "a.gpkg", layer_options={"GEOMETRY_NAME": "shape"})
    with pytest.raises(InputFailure, match="attribute column named 'geometry'"):
        at(tmp_path / "a.gpkg")
    assert at(tmp_path / "a.gpkg", columns=["n"]).geometry.tolist() == [Point(0, 0)]


def test_an_empty_layer_keeps_columns_and_crs(tmp_path: Path, mixed: gpd.GeoDataFrame) -> None:
    for name in ("a.gpkg", "a.fgb", "a.parquet"):
        write(mixed[:0], tmp_path / name)
        layer = at(tmp_path / name)
        assert (len(layer), layer.crs, list(layer.columns)) == (0, mixed.crs, list(mixed.columns))


def test_other_geometry_columns_stay(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:5070")
    layer["label"] = gpd.GeoSeries([Point(9, 9)], crs="EPSG:4326")
    layer.to_parquet(tmp_path / "a.parquet")
    back = at(tmp_path / "a.parquet")
    assert shapely.equals(back["label"].iloc[0], Point(9, 9))
    assert back["label"].crs == "EPSG:4326"
