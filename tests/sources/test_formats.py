"""What each format brings with it: layers, measures, archives, encodings, names that are too long."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely
from shapely import LineString, Point, from_wkt

from geocairn.failure import InputFailure, SourceChanged
from geocairn.notes import collecting
from geocairn.sources import read as read_module
from geocairn.sources.describe import describe
from geocairn.sources.publish import Target, publish
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version

PRO = {"TARGET_ARCGIS_VERSION": "ARCGIS_PRO_3_2_OR_LATER"}


def at(path: Path, **options: Any) -> gpd.GeoDataFrame:
    return read(Source.model_validate({"uri": str(path), **options}))


def towns(*names: str) -> gpd.GeoDataFrame:
    points = [Point(number, number) for number in range(len(names))]
    return gpd.GeoDataFrame({"name": list(names)}, geometry=points, crs="EPSG:5070")


def geodatabase(path: Path) -> Path:
    layer = gpd.GeoDataFrame(
        {
            "n": pd.array([2**53 + 1, None], dtype="Int64"),
            "größe": [1.5, 2.5],
            "name": ["Zürich", None],
            "at": pd.to_datetime(["2024-03-01T01:30:00Z", None]),
        },
        geometry=[Point(0, 0, 7), None],
        crs="EPSG:5070",
    )
    pyogrio.write_dataframe(
        layer, path, driver="OpenFileGDB", layer="towns", geometry_type="Point Z", layer_options=PRO, use_arrow=True
    )
    roads = gpd.GeoDataFrame({"lanes": np.array([2], dtype="int16")}, geometry=[LineString([(0, 0), (1, 1)])], crs=4326)
    pyogrio.write_dataframe(roads, path, driver="OpenFileGDB", layer="roads", append=True, layer_options=PRO)
    owners = pd.DataFrame({"owner": ["a", "b"]})
    pyogrio.write_dataframe(owners, path, driver="OpenFileGDB", layer="owners", append=True)
    return path


def test_a_file_geodatabase_has_several_layers(tmp_path: Path) -> None:
    path = geodatabase(tmp_path / "a.gdb")
    with pytest.raises(InputFailure, match="holds 2 layers: towns, roads; name one with layer"):
        at(path)
    with pytest.raises(InputFailure, match="no layer 'town'; did you mean 'towns'"):
        at(path, layer="town")
    with pytest.raises(InputFailure, match=r"'owners' is a table without geometry.*table: true"):
        at(path, layer="owners")
    facts = describe(Source(uri=str(path), layer="towns"))
    assert (facts.kinds, facts.crs_name, facts.rows) == (("point",), "EPSG:5070", 2)
    layer = at(path, layer="towns")
    assert layer["n"].tolist() == [2**53 + 1, pd.NA]
    assert layer["größe"].tolist() == [1.5, 2.5]
    assert layer["name"].tolist()[0] == "Zürich"
    assert layer["at"].tolist()[0] == pd.Timestamp("2024-03-01T01:30:00Z")
    assert layer.geometry.tolist() == [Point(0, 0, 7), None]
    assert layer.geometry.iloc[0].z == 7
    assert at(path, layer="roads").crs == "EPSG:4326"
    assert at(path, layer="roads", bbox=[5, 5, 6, 6]).empty
    assert read(Source(uri=str(path), layer="owners", table=True))["owner"].tolist() == ["a", "b"]


def test_the_version_of_a_file_geodatabase_is_that_of_all_its_files_but_locks(tmp_path: Path) -> None:
    path = geodatabase(tmp_path / "a.gdb")
    source = Source(uri=str(path), layer="towns")
    before = resolve_version(source)
    (path / "_gdb.host.1234.5678.sr.lock").write_bytes(b"")
    assert resolve_version(source).text == before.text
    at(path, layer="towns")
    assert resolve_version(source).text == before.text, "reading leaves it as it is"
    (path / "a00000001.gdbtable").write_bytes((path / "a00000001.gdbtable").read_bytes() + b"x")
    assert resolve_version(source).text != before.text
    shutil.rmtree(path)
    path.mkdir()
    (path / "readme").write_text("x")
    with pytest.raises(InputFailure, match="without the tables of a file geodatabase"):
        at(path, layer="towns")


def zipped(archive: Path, folder: Path, *extra: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for part in sorted(folder.rglob("*")):
            if part.is_file():
                file.write(part, part.relative_to(folder).as_posix())
        for name, content in extra:
            file.writestr(name, content)
    return archive


@pytest.mark.parametrize("name", ["a.gdb.zip", "a.zip"])
def test_a_zipped_file_geodatabase_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    geodatabase(tmp_path / "in" / "a.gdb")
    path = zipped(tmp_path / name, tmp_path / "in", ("readme.csv", b"a,b\n"), ("__MACOSX/b.gpkg", b"x"))
    before = sorted(tmp_path.iterdir())
    assert at(path, layer="towns")["name"].tolist()[0] == "Zürich"
    assert describe(Source(uri=str(path), layer="roads")).kinds == ("line",)
    with pytest.raises(InputFailure, match="holds 2 layers"):
        at(path)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["t.gpkg", "t.parquet", "t.geojson", "t.csv"])
def test_other_files_in_an_archive_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    publish(towns("a", "b"), Target(str(tmp_path / "in" / "deep" / name)), {})
    (tmp_path / "in" / "deep" / f"{name}.lineage.json").unlink(missing_ok=True)
    path = zipped(tmp_path / "t.zip", tmp_path / "in")
    assert at(path, **({"crs": 5070} if name.endswith("csv") else {}))["name"].tolist() == ["a", "b"]


def test_an_archive_that_is_not_safe_or_not_clear_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    towns("a").to_file(tmp_path / "in" / "t.gpkg")
    content = (tmp_path / "in" / "t.gpkg").read_bytes()
    two = zipped(tmp_path / "two.zip", tmp_path / "in", ("u.gpkg", content))
    with pytest.raises(InputFailure, match=r"archive of 2 files that could be read: t.gpkg, u.gpkg"):
        at(two)
    for name in ("../t.gpkg", "/t.gpkg", "a/../../t.gpkg", "..\\t.gpkg"):
        with zipfile.ZipFile(tmp_path / "out.zip", "w") as file:
            file.writestr(name, content)
        with pytest.raises(InputFailure, match="leads out of it"):
            at(tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as file:
        entry = zipfile.ZipInfo("t.gpkg")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(entry, "/etc/passwd")
    with pytest.raises(InputFailure, match="symbolic link in it"):
        at(tmp_path / "link.zip")
    (tmp_path / "empty.zip").write_bytes(b"")
    with pytest.raises(InputFailure, match="is empty"):
        at(tmp_path / "empty.zip")


NAMESPACE = "xmlns:g='http://www.opengis.net/gml'"
GML = """<?xml version="1.0" encoding="utf-8"?>
<!-- made by hand -->
<o:FeatureCollection xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:o="http://example.org/o"
 xsi:schemaLocation="http://example.org/o http://127.0.0.1:9/o.xsd" xmlns:gml="http://www.opengis.net/gml/3.2">
<o:featureMember><o:towns gml:id="t.0"><o:geom><gml:Point srsName="{srs}" gml:id="g0"><gml:pos>{pos}</gml:pos>
</gml:Point></o:geom><o:name>Zürich</o:name><o:n>1</o:n></o:towns></o:featureMember>
<o:featureMember><o:towns gml:id="t.1"><o:name>none</o:name><o:n>2</o:n></o:towns></o:featureMember>
</o:FeatureCollection>"""


@pytest.mark.parametrize(
    ("srs", "pos"),
    [
        ("urn:ogc:def:crs:EPSG::4326", "47.4 8.5"),
        ("http://www.opengis.net/def/crs/EPSG/0/4326", "47.4 8.5"),
        ("http://www.opengis.net/gml/srs/epsg.xml#4326", "8.5 47.4"),
        ("EPSG:4326", "8.5 47.4"),
    ],
)
def test_gml_is_read_with_x_first(tmp_path: Path, srs: str, pos: str) -> None:
    path = tmp_path / "a.gml"
    path.write_text(GML.format(srs=srs, pos=pos), encoding="utf-8")
    assert describe(Source(uri=str(path))).crs_name == "EPSG:4326"
    layer = at(path)
    assert layer.geometry.tolist() == [Point(8.5, 47.4), None]
    assert (layer["name"].tolist(), layer["n"].tolist()) == (["Zürich", "none"], [1, 2])
    assert at(path, layer="towns", bbox=[8, 47, 9, 48])["n"].tolist() == [1]


def test_gml_in_a_projected_crs_whose_authority_puts_north_first(tmp_path: Path) -> None:
    path = tmp_path / "a.gml"
    path.write_text(GML.format(srs="urn:ogc:def:crs:EPSG::3006", pos="6580000 674000"), encoding="utf-8")
    layer = at(path)
    assert layer.crs == "EPSG:3006"
    assert layer.geometry.iloc[0] == Point(674000, 6580000)


def test_what_lies_beside_gml_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "a.gml"
    path.write_text(GML.format(srs="EPSG:4326", pos="8.5 47.4"), encoding="utf-8")
    wrong = "<GMLFeatureClassList><GMLFeatureClass><Name>towns</Name><ElementPath>other</ElementPath></GMLFeatureClass>"
    path.with_suffix(".gfs").write_text(f"{wrong}</GMLFeatureClassList>")
    os.utime(path.with_suffix(".gfs"), (4e9, 4e9))
    path.with_suffix(".xsd").write_text("<schema/>")
    before = {found.name: found.read_bytes() for found in tmp_path.iterdir()}
    assert at(path)["n"].tolist() == [1, 2]
    assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html><body>hello</body></html>", "another kind of XML"),
        (f"<OGRWFSDataSource {NAMESPACE}><URL>http://127.0.0.1:9/</URL></OGRWFSDataSource>", "another kind of XML"),
        (f"<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x {NAMESPACE}/>", "document type"),
        ("not XML", "content is of another kind"),
        (GML[:-10], "is not sound XML"),
    ],
)
def test_what_is_no_gml_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.gml").write_text(text.replace("{srs}", "EPSG:4326").replace("{pos}", "1 2"))
    with pytest.raises(InputFailure, match=words):
        at(tmp_path / "a.gml")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.kml", r"extension '.kml' stands for KML, no format that geocairn reads; .*ogr2ogr a.gpkg a.kml"),
        ("a.geojsonl", "one feature a line.*ogr2ogr a.gpkg a.geojsonl"),
        ("a.csv.gz", "compressed.*unpack it"),
        ("a.tsv", "call it a.csv"),
        ("a.tif", "stands for a raster"),
        ("a.xlsx", "spreadsheet"),
        ("a.gpgk", "did you mean '.gpkg'"),
    ],
)
def test_a_format_that_is_not_read_is_told_with_a_way_on(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputFailure, match=words):
        at(tmp_path / name)
    with pytest.raises(InputFailure, match="writes"):
        _ = Target(str(tmp_path / name)).format


MEASURED = {
    "line zm": ["LINESTRING ZM (0 0 1 5, 1 1 2 6)", "LINESTRING ZM (0 0 1 5, 2 2 2 6)"],
    "line m": ["LINESTRING M (0 0 5, 1 1 6)", None],
    "point m late": [None, "POINT M (0 0 5)"],
    "several": ["LINESTRING M (0 0 5, 1 1 6)", "MULTILINESTRING M ((0 0 5, 1 1 6), (3 3 1, 4 4 2))"],
}


@pytest.mark.parametrize("case", sorted(MEASURED))
@pytest.mark.parametrize("name", ["a.gpkg", "a.shp", "a.fgb", "a.geojson", "a.parquet", "a.csv"])
def test_measures_are_kept_or_their_loss_is_told(tmp_path: Path, name: str, case: str) -> None:
    shapes = [from_wkt(text) if text else None for text in MEASURED[case]]
    layer = gpd.GeoDataFrame({"n": range(2)}, geometry=shapes, crs="EPSG:4326")
    with collecting() as notes:
        publish(layer, Target(str(tmp_path / name)), {})
    written = list(notes.caveats)
    with collecting() as notes:
        back = at(tmp_path / name, **({"crs": 4326} if name.endswith("csv") else {})).sort_values("n")
    assert notes.caveats == []
    assert "reading_warnings" not in notes.facts
    measured = [bool(flag) for flag in shapely.has_m(back.geometry.values)]
    told = [text for text in written if "measures (M)" in text]
    if any(measured):
        assert written == []
        assert measured == [text is not None for text in MEASURED[case]]
        wanted = shapely.get_coordinates(shapes, include_z=True, include_m=True)
        found = shapely.get_coordinates(back.geometry.values, include_z=True, include_m=True)
        assert np.array_equal(found, wanted, equal_nan=True)
    else:
        assert len(told) == 1
        solid = any(shape is not None and shape.has_z for shape in shapes)
        assert bool(shapely.has_z(back.geometry.values).any()) == solid
    keeps = {"a.gpkg", "a.parquet", "a.csv"} | ({"a.shp"} if case != "point m late" else set())
    assert any(measured) == (name in keeps)


@pytest.mark.parametrize("encoding", ["latin-1", "latin1", "iso-8859-1", "ISO8859_1", "cp1252", "windows-1252"])
def test_every_name_of_an_encoding_is_understood(tmp_path: Path, encoding: str) -> None:
    pyogrio.write_dataframe(towns("Zürich"), tmp_path / "a.shp", encoding="cp1252")
    (tmp_path / "a.cpg").unlink()
    with (tmp_path / "a.dbf").open("r+b") as dbf:
        dbf.seek(29)
        dbf.write(b"\0")
    assert at(tmp_path / "a.shp", encoding=encoding)["name"].tolist() == ["Zürich"]
    (tmp_path / "a.csv").write_bytes("name,x,y\nZürich,0,0\n".encode("cp1252"))
    assert at(tmp_path / "a.csv", encoding=encoding, crs=5070)["name"].tolist() == ["Zürich"]


def test_an_encoding_that_does_not_exist_or_does_not_count_is_refused(tmp_path: Path) -> None:
    towns("a").to_file(tmp_path / "a.shp")
    (tmp_path / "a.csv").write_text("x,y\n0,0\n")
    for name in ("a.shp", "a.csv"):
        for wrong in ("klingon", "base64"):
            with pytest.raises(InputFailure, match=f"encoding: there is no '{wrong}'"):
                at(tmp_path / name, encoding=wrong, crs=5070)
    for name in ("a.gpkg", "a.parquet", "a.geojson"):
        publish(towns("a"), Target(str(tmp_path / name)), {})
        with pytest.raises(InputFailure, match="says itself how its text is encoded; leave encoding out"):
            describe(Source(uri=str(tmp_path / name), encoding="cp1252"))


def test_the_cpg_file_decides_where_it_is(tmp_path: Path) -> None:
    pyogrio.write_dataframe(towns("Łódź"), tmp_path / "a.shp", encoding="cp1250")
    (tmp_path / "a.cpg").write_text("1250")
    with collecting() as notes:
        assert at(tmp_path / "a.shp")["name"].tolist() == ["Łódź"]
    assert notes.caveats == []


def test_a_csv_of_two_bytes_a_letter_is_read_where_that_is_stated(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("name\tx\ty\nZürich\t0\t0\n".encode("utf-16"))
    assert at(tmp_path / "a.csv", encoding="utf-16", crs=5070)["name"].tolist() == ["Zürich"]
    with pytest.raises(InputFailure, match="content is of another kind"):
        at(tmp_path / "a.csv", crs=5070)


def test_numbers_with_a_comma_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('x;y;rate;name;list\n0;0;"3,5";a,b;1\n1;1;4;c;2\n')
    with collecting() as notes:
        layer = at(tmp_path / "a.csv", crs=5070)
    assert layer["rate"].tolist() == ["3,5", "4"]
    assert [text for text in notes.caveats if "'rate' holds numbers with a comma ('3,5')" in text] == notes.caveats
    with collecting() as notes:
        read(Source(uri=str(tmp_path / "a.csv"), table=True))
    assert len(notes.caveats) == 1


def test_long_and_accented_names_go_into_a_shapefile_with_the_mapping_told(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame(
        {
            "population_2020": [1],
            "population_2021": [2],
            "POPULATION": [3],
            "populatio_1": [4],
            "größenordnung": [5],
            "name": ["ä" * 128],
        },
        geometry=[Point(0, 0)],
        crs="EPSG:5070",
    )
    with collecting() as notes:
        publish(layer, Target(str(tmp_path / "a.shp")), {})
    back = at(tmp_path / "a.shp")
    assert len(back.columns) == len(layer.columns)
    (mapping,) = [text for text in notes.caveats if "field names" in text]
    for name, value in (("population_2020", 1), ("population_2021", 2), ("größenordnung", 5)):
        short = mapping.partition(f"{name} → ")[2].partition(",")[0]
        assert back[short].tolist() == [value]
        assert len(short.encode()) <= 10
    assert back["POPULATION"].tolist() == [3], "what fits stays as it is"
    (cut,) = [text for text in notes.caveats if "254 bytes" in text]
    assert "1 values of 'name' are cut" in cut
    assert back["name"].iloc[0] == "ä" * 127, "cut between letters"


def test_a_change_of_a_zipped_source_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    towns("a").to_file(tmp_path / "in" / "t.gpkg")
    path = zipped(tmp_path / "t.zip", tmp_path / "in")
    real = read_module.header_of

    def changing(*arguments: Any) -> Any:
        path.write_bytes(path.read_bytes() + b"x")
        return real(*arguments)

    monkeypatch.setattr(read_module, "header_of", changing)
    with pytest.raises(SourceChanged):
        at(path)
