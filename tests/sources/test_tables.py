"""Sources read as tables: the same types as a layer's, whatever the format, and no geometry among the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas as gpd
import pandas as pd
import pyogrio
import pytest
from shapely import Point

from geocairn.failure import InputFailure
from geocairn.sources.describe import describe
from geocairn.sources.read import read
from geocairn.sources.source import Source

BIG = 2**53 + 1


@pytest.fixture
def owners() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "code": ["01", "02", "10"],
            "n": pd.array([1, None, BIG], dtype="Int64"),
            "share": [0.5, 1.5, 2.5],
            "day": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]),
        }
    )


def of(path: Path, **options: Any) -> Source:
    return Source.model_validate({"uri": str(path), "table": True, **options})


def written(folder: Path, name: str, table: pd.DataFrame) -> Path:
    path = folder / name
    if name.endswith("csv"):
        table.to_csv(path, index=False)
    elif name.endswith("parquet"):
        table.to_parquet(path)
    else:
        pyogrio.write_dataframe(table, path, driver="ESRI Shapefile" if name.endswith("dbf") else None)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.gpkg", "a.dbf"])
def test_a_table_of_any_format(tmp_path: Path, owners: pd.DataFrame, name: str) -> None:
    path = written(tmp_path, name, owners)
    facts = describe(of(path))
    assert (facts.table, facts.crs, facts.crs_name, facts.kinds, facts.rows) == (True, None, None, (), 3)
    assert facts.columns["code"] == "text"
    assert facts.columns["n"] == "integer"
    table = read(of(path))
    assert type(table) is pd.DataFrame
    assert table["code"].tolist() == ["01", "02", "10"]
    assert table["n"].tolist()[::2] == [1, BIG]
    assert str(table.dtypes["n"]) == "Int64"
    some = read(of(path, columns=["share", "code"], where="n > 1"))
    assert some.to_dict("list") == {"share": [2.5], "code": ["10"]}
    with pytest.raises(InputFailure, match="no column 'cod'; did you mean 'code'"):
        read(of(path, columns=["cod"]))


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.shp", "a.geojson", "a.fgb"])
def test_the_attributes_of_a_layer(tmp_path: Path, name: str) -> None:
    layer = gpd.GeoDataFrame({"n": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:4326")
    path = tmp_path / name
    layer.to_parquet(path, write_covering_bbox=True) if name.endswith("parquet") else layer.to_file(path)
    table = read(of(path))
    assert sorted(table["n"]) == [1, 2]
    assert list(table.columns) == ["n"]
    assert list(describe(of(path)).columns) == ["n"]


def test_a_csv_keeps_what_would_be_its_geometry(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,wkt\n1,2,POINT (1 2)\n")
    assert read(of(tmp_path / "a.csv")).to_dict("list") == {"x": [1], "y": [2], "wkt": ["POINT (1 2)"]}


def test_a_folder_of_parquet_files(tmp_path: Path, owners: pd.DataFrame) -> None:
    folder = tmp_path / "all.parquet"
    folder.mkdir()
    for number in range(2):
        owners.to_parquet(folder / f"{number}.parquet")
    assert len(read(of(folder))) == 6
    assert describe(of(folder)).rows == 6


def test_a_geopackage_of_tables_and_layers(tmp_path: Path, owners: pd.DataFrame) -> None:
    path = tmp_path / "a.gpkg"
    gpd.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:4326").to_file(path, layer="towns")
    assert list(read(of(path)).columns) == ["n"]
    pyogrio.write_dataframe(owners, path, layer="owners", append=True)
    pyogrio.write_dataframe(owners, path, layer="layer_styles", append=True)
    assert "code" in read(of(path)).columns
    assert list(read(of(path, layer="towns")).columns) == ["n"]
    pyogrio.write_dataframe(owners, path, layer="others", append=True)
    with pytest.raises(InputFailure, match="holds 2 tables: owners, others"):
        read(of(path))
    with pytest.raises(InputFailure, match=r"table without geometry.*table: true"):
        read(of(path, layer="owners", table=False))


def test_a_dbase_file_is_read_without_the_shapefile_beside_it(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"name": ["é", "ü"]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:4326")
    layer.to_file(tmp_path / "a.shp", encoding="cp1252")
    (tmp_path / "a.shp").write_bytes(b"broken")
    assert read(of(tmp_path / "a.dbf")).to_dict("list") == {"name": ["é", "ü"]}
    whole = (tmp_path / "a.dbf").read_bytes()
    (tmp_path / "a.dbf").write_bytes(whole[:-40])
    with pytest.raises(InputFailure, match="is cut short"):
        read(of(tmp_path / "a.dbf"))
    with pytest.raises(InputFailure, match="table: true"):
        describe(Source(uri=str(tmp_path / "a.dbf")))


@pytest.mark.parametrize("options", [{"bbox": [0, 0, 1, 1]}, {"crs": "EPSG:4326"}])
def test_what_speaks_of_geometry_is_refused(tmp_path: Path, owners: pd.DataFrame, options: dict[str, Any]) -> None:
    path = written(tmp_path, "a.csv", owners)
    for act in (read, describe):
        with pytest.raises(InputFailure, match=f"{next(iter(options))}: a table has no geometry"):
            act(of(path, **options))
    with pytest.raises(InputFailure, match="table: true"):
        read(of(path, table=False))
