from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import geopandas as gpd
import pandas as pd
import pyogrio
import pytest
from shapely import Point, box

from geocairn.failure import InputFailure
from geocairn.memory import Memory
from geocairn.sources import describe as describe_module
from geocairn.sources.describe import describe
from geocairn.sources.source import Source


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    columns = {"name": ["a", "b"], "n": pd.array([1, None], dtype="Int64"), "big": [1.5, 2.5], "yes": [True, False]}
    return gpd.GeoDataFrame(columns, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:5070")


def of(path: Path, **options: Any) -> Any:
    return describe(Source.model_validate({"uri": str(path), **options}))


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.shp", "a.geojson", "a.parquet"])
def test_the_header_tells_the_same_whatever_the_format(tmp_path: Path, towns: gpd.GeoDataFrame, name: str) -> None:
    path = tmp_path / name
    towns.to_parquet(path) if name.endswith("parquet") else pyogrio.write_dataframe(towns, path)
    facts = of(path)
    assert (facts.crs_name, facts.geographic, facts.kinds, facts.rows) == ("EPSG:5070", False, ("point",), 2)
    assert facts.columns == {"name": "text", "n": "integer", "big": "number", "yes": "boolean"}
    assert json.loads(json.dumps(asdict(facts)))["columns"] == facts.columns
    assert json.loads(facts.crs)["id"]["code"] == 5070


def test_columns_are_those_asked_for_in_that_order(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    towns.to_file(tmp_path / "a.gpkg")
    assert list(of(tmp_path / "a.gpkg", columns=["big", "name"]).columns) == ["big", "name"]
    assert of(tmp_path / "a.gpkg", bbox=[0, 0, 1, 1]).rows is None
    with pytest.raises(InputFailure, match="no column 'nam'; did you mean 'name'"):
        of(tmp_path / "a.gpkg", columns=["nam"])


def test_a_geopackage_of_two_layers_asks_which(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    path = tmp_path / "a.gpkg"
    towns.to_file(path, layer="towns")
    towns.set_geometry(towns.buffer(1)).to_file(path, layer="areas")
    with pytest.raises(InputFailure, match=r"holds 2 layers: .*towns.*name one with layer"):
        of(path)
    assert of(path, layer="areas").kinds == ("polygon",)
    with pytest.raises(InputFailure, match="no layer 'town'; did you mean 'towns'"):
        of(path, layer="town")


def test_a_table_without_geometry_is_no_layer(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    path = tmp_path / "a.gpkg"
    pyogrio.write_dataframe(pd.DataFrame({"n": [1]}), path, layer="plain")
    with pytest.raises(InputFailure, match="no layer with geometry"):
        of(path)
    with pytest.raises(InputFailure, match="table without geometry"):
        of(path, layer="plain")
    towns.to_file(path, layer="towns")
    assert of(path).rows == 2, "the one layer with geometry is meant"
    pd.DataFrame({"n": [1]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputFailure, match="without geometry"):
        of(tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("name,n\na,1\n")
    with pytest.raises(InputFailure, match="no geometry"):
        of(tmp_path / "c.csv", crs=4326)


def test_no_crs_is_refused_unless_it_is_stated(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    towns.to_file(tmp_path / "a.shp")
    (tmp_path / "a.prj").unlink()
    with pytest.raises(InputFailure, match="has no CRS; state it with crs"):
        of(tmp_path / "a.shp")
    assert of(tmp_path / "a.shp", crs=5070).crs_name == "EPSG:5070"
    towns.set_crs(None, allow_override=True).to_file(tmp_path / "b.gpkg")
    with pytest.raises(InputFailure, match="has no CRS"):
        of(tmp_path / "b.gpkg")
    towns.set_crs(None, allow_override=True).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(InputFailure, match="has no CRS"):
        of(tmp_path / "c.parquet")


@pytest.mark.parametrize("name", ["a.shp", "a.gpkg", "a.parquet"])
def test_a_crs_that_contradicts_is_refused(tmp_path: Path, towns: gpd.GeoDataFrame, name: str) -> None:
    path = tmp_path / name
    towns.to_parquet(path) if name.endswith("parquet") else towns.to_file(path)
    with pytest.raises(InputFailure, match="is in EPSG:5070, and the plan states EPSG:4326"):
        of(path, crs=4326)
    assert of(path, crs="epsg:5070").crs_name == "EPSG:5070"


def test_esris_way_of_writing_a_crs_does_not_contradict(tmp_path: Path) -> None:
    for code in (5070, 3857, 27700, 2154, 32633, 4269):
        layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs=code)
        path = tmp_path / f"{code}.shp"
        layer.to_file(path)
        path.with_suffix(".prj").write_text(layer.crs.to_wkt("WKT1_ESRI"))
        assert of(path, crs=code).crs_name == f"EPSG:{code}"


def test_longitude_latitude_in_either_order_is_one_crs_here(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    towns.set_crs("OGC:CRS84", allow_override=True).to_parquet(tmp_path / "a.parquet")
    assert of(tmp_path / "a.parquet", crs="EPSG:4326").crs_name == "OGC:CRS84"


def test_what_only_the_format_supposes_gives_way(tmp_path: Path) -> None:
    feature = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [500000, 200000]}}
    content: dict[str, Any] = {"type": "FeatureCollection", "features": [feature]}
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps(content))
    assert of(path).crs_name == "EPSG:4326"
    assert of(path, crs=27700).crs_name == "EPSG:27700"
    named = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::5070"}}
    path.write_text(json.dumps({**content, "crs": named}))
    with pytest.raises(InputFailure, match="is in EPSG:5070"):
        of(path, crs=27700)


def test_a_crs_without_a_code_is_carried_whole(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    laea = "+proj=laea +lat_0=10 +lon_0=20 +ellps=GRS80 +units=m"
    layer = towns.set_crs(laea, allow_override=True)
    for name in ("a.gpkg", "a.fgb", "a.parquet"):
        layer.to_parquet(tmp_path / name) if name.endswith("parquet") else layer.to_file(tmp_path / name)
        assert '"Latitude of natural origin"' in of(tmp_path / name).crs, name


def test_an_unknown_crs_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InputFailure, match="PROJ knows no CRS 'EPSG:507000'"):
        of(tmp_path / "a.csv", crs="EPSG:507000")


VRT = '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>'


@pytest.mark.parametrize("name", ["a.geojson", "a.json", "a.gpkg", "a.fgb", "a.shp", "a.parquet", "a.zip"])
def test_content_never_chooses_the_driver(tmp_path: Path, towns: gpd.GeoDataFrame, name: str) -> None:
    towns.to_file(tmp_path / "secret.gpkg")
    path = tmp_path / name
    path.write_text(VRT.format(tmp_path / "secret.gpkg"))
    for part in (".shx", ".dbf"):
        path.with_suffix(part).write_text("x")
    with pytest.raises(InputFailure, match=r"is not a .* as its extension says|damaged zip"):
        of(path)


@pytest.mark.parametrize(
    "content",
    [
        '{"type": "gdal_streamed_alg", "command_line": "gdal vector convert a b"}',
        '{"type": "Topology", "objects": {}, "arcs": []}',
        '{"hello": "world"}',
    ],
)
def test_other_json_is_not_geojson(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.geojson").write_text(content)
    with pytest.raises(InputFailure):
        of(tmp_path / "a.geojson")


def test_facts_are_remembered_under_the_version(
    tmp_path: Path, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, memory = tmp_path / "a.gpkg", Memory(tmp_path / "memory")
    towns.to_file(path)
    first = describe(Source(uri=str(path)), memory=memory)
    opened: list[Path] = []
    real = describe_module.header_of

    def opening(path: Path, *rest: Any) -> Any:
        opened.append(path)
        return real(path, *rest)

    monkeypatch.setattr(describe_module, "header_of", opening)
    assert describe(Source(uri=str(path)), memory=memory) == first
    assert opened == []
    assert list(describe(Source(uri=str(path), columns=["n"]), memory=memory).columns) == ["n"]
    assert len(opened) == 1
    path.unlink()
    towns.set_geometry([box(0, 0, 1, 1)] * 2).to_file(path)
    assert describe(Source(uri=str(path)), memory=memory).kinds == ("polygon",)


def test_a_stated_version_does_not_carry_facts_to_another_file(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    memory = Memory(tmp_path / "memory")
    towns.to_file(tmp_path / "a.gpkg")
    towns.set_geometry([box(0, 0, 1, 1)] * 2).to_file(tmp_path / "b.gpkg")
    kinds = [
        describe(Source(uri=str(tmp_path / name), version="1"), memory=memory).kinds for name in ("a.gpkg", "b.gpkg")
    ]
    assert kinds == [("point",), ("polygon",)]


def test_a_wrong_filter_of_a_source_is_a_failure_with_a_message(tmp_path):
    import geopandas
    from shapely.geometry import Point

    geopandas.GeoDataFrame({"a": [1]}, geometry=[Point(0, 0)], crs=4326).to_file(tmp_path / "p.gpkg")
    with pytest.raises(InputFailure, match="where"):
        describe(Source(uri=str(tmp_path / "p.gpkg"), where="a > "))
