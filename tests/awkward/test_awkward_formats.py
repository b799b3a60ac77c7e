"""Awkward files, and what is kept of a layer. The numbers are those of README.md beside this module."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from example_calls import attempt
from pyarrow import parquet
from shapely import Point

from geocairn.failure import Failure, InputFailure, UnsoundResult
from geocairn.frame_digest import frame_digest
from geocairn.gate import Terms, admit
from geocairn.notes import collecting
from geocairn.sources.publish import Target, publish
from geocairn.sources.read import read
from geocairn.sources.source import Source

CRS = "EPSG:5070"
LINEAGE = {"fingerprint": "f"}


def layer(values: list[Any], **columns: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": np.arange(len(values)), **columns}, geometry=np.array(values, dtype=object), crs=CRS)


def at(path: Path, **options: Any) -> gpd.GeoDataFrame:
    return read(Source.model_validate({"uri": str(path), **options}))


@pytest.mark.parametrize("values", [[], [None, None], [Point(), Point()]], ids=["no rows", "null", "empty"])
def test_trap_9_a_layer_without_coordinates_has_no_bounds(tmp_path: Path, values: list[Any]) -> None:
    publish(layer(values), Target(str(tmp_path / "a.parquet")), LINEAGE, kinds=("point",))
    geo = json.loads(parquet.read_metadata(tmp_path / "a.parquet").metadata[b"geo"])
    assert "bbox" not in geo["columns"]["geometry"]
    found = at(tmp_path / "a.parquet")
    assert (len(found), found.crs, list(found.columns)) == (len(values), CRS, ["n", "geometry"])
    facts = admit(found, Terms("step s", allow_empty=True)).facts
    assert facts.bounds is None
    assert (facts.missing, facts.empty) == (values.count(None), len(values) - values.count(None))


def test_trap_9_the_gate_decides_on_emptiness() -> None:
    with pytest.raises(UnsoundResult, match="empty"):
        admit(layer([]), Terms("step s"))


def written(tmp_path: Path, **columns: Any) -> tuple[gpd.GeoDataFrame, str]:
    with collecting() as notes:
        publish(gpd.GeoDataFrame(columns, geometry=[Point(0, 0)], crs=CRS), Target(str(tmp_path / "a.shp")), LINEAGE)
    return at(tmp_path / "a.shp", encoding="utf-8"), " ".join(notes.caveats)


def test_trap_13_a_dozen_names_that_begin_alike(tmp_path: Path) -> None:
    names = [f"measurement_{number}" for number in range(12)]
    found, told = written(tmp_path, **{name: [number] for number, name in enumerate(names)})
    assert sorted(found.drop(columns="geometry").iloc[0]) == list(range(12)), "no value is lost"
    assert len({name.lower() for name in found.columns}) == 13
    assert all(name in told for name in names)


def test_trap_13_a_cut_name_meets_one_that_is_there(tmp_path: Path) -> None:
    found, told = written(tmp_path, population_total=[1], population=[2], POPULATI_1=[3], populations=[4])
    assert sorted(found.drop(columns="geometry").iloc[0]) == [1, 2, 3, 4]
    assert "population_total →" in told
    assert "populations →" in told


@pytest.mark.parametrize("name", ["ÅÄÖåäöÅÄÖ", "日本語の名前です", "naïveté_étendue", "x" * 300])
def test_trap_13_accents_at_the_edge_of_the_cut(tmp_path: Path, name: str) -> None:
    found, told = written(tmp_path, **{name: [1]})
    (short,) = [column for column in found.columns if column != "geometry"]
    assert name.startswith(short)
    assert len(short.encode()) <= 10
    assert found[short].tolist() == [1]
    assert f"{name} → {short}" in told


@pytest.mark.parametrize(
    ("text", "whole"), [("é" * 127, True), ("é" * 128, False), ("a" * 254, True), ("a" * 255, False)]
)
def test_trap_13_text_is_measured_in_bytes(tmp_path: Path, text: str, whole: bool) -> None:
    found, told = written(tmp_path, text=[text])
    assert (found["text"][0] == text) == whole
    assert ("1 values of 'text' are cut" in told) != whole


def test_trap_25_a_digest_is_of_the_content_and_of_nothing_else() -> None:
    """Neither the extent nor the number of rows makes two layers one; nor does a pickle make one layer two."""
    frame = [Point(0, 0), Point(5, 5), Point(9, 9)]
    one, other = layer(frame), layer([frame[0], Point(5, 6), frame[2]])
    assert (one.total_bounds == other.total_bounds).all()
    assert frame_digest(one) != frame_digest(other)
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(one))))
    assert frame_digest(again) == frame_digest(one)
    assert frame_digest(one.iloc[::-1]) != frame_digest(one), "the order of rows counts"
    assert frame_digest(one.set_crs("EPSG:3857", allow_override=True)) != frame_digest(one)


@pytest.mark.parametrize(
    "text", ["x,y,v\n1.5,2,3\n", "x;y;v\n1,5;2,25;3\n", "lon;lat;v\n1,5;2,25;3\n"], ids=["points", "commas", "lon"]
)
def test_trap_28_a_decimal_comma_is_read_or_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    if ";" not in text:
        assert at(tmp_path / "a.csv", crs=4326).geometry[0] == Point(1.5, 2)
        return
    found = attempt(lambda: at(tmp_path / "a.csv", crs=4326))
    if isinstance(found, Failure):
        assert isinstance(found, InputFailure)
        assert "," in str(found)
        assert "a.csv" in str(found)
    else:
        assert found.geometry[0] == Point(1.5, 2.25)


def test_trap_28_x_and_y_exchanged_name_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n47.2,8.5\n47.3,120.0\n47.1,9\n48,121\n")
    found = at(tmp_path / "a.csv", crs=4326)
    with pytest.raises(UnsoundResult, match=r"off the globe.*exchanged") as caught:
        admit(found, Terms("source places"))
    assert "2 of 4 rows" in str(caught.value)
    assert "1" in str(caught.value)


@pytest.mark.parametrize("prj", [None, "", "nonsense", 'LOCAL_CS["site grid",UNIT["metre",1]]'])
def test_trap_29_a_shapefile_whose_prj_says_nothing(tmp_path: Path, prj: str | None) -> None:
    pyogrio.write_dataframe(layer([Point(0, 0)]), tmp_path / "a.shp")
    (tmp_path / "a.prj").unlink()
    if prj is not None:
        (tmp_path / "a.prj").write_text(prj)
    if prj is not None and prj.startswith("LOCAL_CS"):
        with pytest.raises(InputFailure, match=r"EPSG:5070"):
            at(tmp_path / "a.shp", crs=5070)
        return
    with pytest.raises(InputFailure) as caught:
        at(tmp_path / "a.shp")
    assert "crs" in str(caught.value).lower()
    assert at(tmp_path / "a.shp", crs=5070).crs == CRS


def test_trap_29_a_prj_of_another_datum_contradicts(tmp_path: Path) -> None:
    pyogrio.write_dataframe(layer([Point(0, 0)]), tmp_path / "a.shp")
    for other in (6350, 3857, 4326):
        with pytest.raises(InputFailure, match="EPSG:5070"):
            at(tmp_path / "a.shp", crs=other)


@pytest.mark.parametrize(
    ("encoding", "text"), [("cp1252", "Zürich – Süd"), ("cp1250", "Łódź"), ("cp1251", "Москва"), ("utf-8", "Łódź")]
)
@pytest.mark.parametrize("beside", [False, True], ids=["no cpg", "cpg"])
def test_trap_30_text_in_any_encoding_when_it_is_stated_or_told(
    tmp_path: Path, encoding: str, text: str, beside: bool
) -> None:
    pyogrio.write_dataframe(layer([Point(0, 0)], name=[text]), tmp_path / "a.shp", encoding=encoding)
    if not beside:
        (tmp_path / "a.cpg").unlink()
        with (tmp_path / "a.dbf").open("r+b") as table:
            table.seek(29)  # the language driver: none
            table.write(b"\0")
    with collecting() as notes:
        stated = at(tmp_path / "a.shp", encoding=encoding)
    assert stated["name"].tolist() == [text]
    assert notes.caveats == []
    with collecting() as notes:
        found = attempt(lambda: at(tmp_path / "a.shp"))
    if isinstance(found, Failure):
        assert "encoding" in str(found)
        return
    assert found["name"].tolist() == [text] or any("encoding" in caveat for caveat in notes.caveats)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_trap_30_a_csv_in_cp1252(tmp_path: Path, delimiter: str) -> None:
    rows = delimiter.join(["x", "y", "name"]) + "\n" + delimiter.join(["1", "2", "Zürich"]) + "\n"
    (tmp_path / "a.csv").write_bytes(rows.encode("cp1252"))
    assert at(tmp_path / "a.csv", crs=4326, encoding="cp1252")["name"].tolist() == ["Zürich"]
    with pytest.raises(InputFailure, match="encoding"):
        at(tmp_path / "a.csv", crs=4326)
    assert shapely.equals(at(tmp_path / "a.csv", crs=4326, encoding="cp1252").geometry[0], Point(1, 2))
