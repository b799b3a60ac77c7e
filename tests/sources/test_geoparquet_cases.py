"""GeoParquet files that public suites keep, good and broken; and small ones of our own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import geopandas as gpd
import pyarrow as pa
import pytest
from pyarrow import parquet
from shapely import LineString, Point

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.sources.read import read
from geocairn.sources.source import Source

SHARED = Path(os.environ.get("GEOCAIRN_SHARED") or Path(__file__).resolve().parents[2] / ".." / "shared")
CASES = SHARED / "cases"

WORDS = {
    "crs-invalid-projjson": "not valid PROJJSON: 'Not a real CRS'",
    "edges-spherical-with-planar-antimeridian-line": "declares spherical edges",
    "epoch-on-unsupported-crs": "epoch 2024.5",
    "geo-invalid-utf8": "not UTF-8",
    "geometry-types-mismatch-declared-point-actual-linestring": "declares Point, and there is LineString",
    "geometry-types-missing-actual-type": "declares Polygon, and there is MultiPolygon",
    "missing-columns": "has no 'columns'",
    "missing-primary-column": "has no 'primary_column'",
    "missing-version": "has no 'version'",
    "orientation-ccw-declared-rings-cw": "declares counterclockwise rings",
    "version-unknown": "unknown version '99.0.0'",
    "wkb-truncated": "cannot be decoded in row 1",
    "zm-declared-xy-actual-xyz": "declares coordinates x, y, and there are coordinates x, y, z",
    "zm-declared-xyz-actual-xy": "declares coordinates x, y, z, and there are coordinates x, y",
}

CONTRADICTORY = "data-zm-linestring-xyz-native-geometry"
"""Counted as good by its suite, with the very defect for which another suite's zm-declared-xy-actual-xyz is bad."""


def cases(kind: str) -> list[Any]:
    found = sorted((CASES / f"geoparquet-{kind}").glob("*/*.parquet"))
    if not found:
        return [pytest.param(None, marks=pytest.mark.skip(reason="needs the shared cases"))]
    return [pytest.param(path, id=path.parent.name) for path in found]


@pytest.mark.parametrize("path", cases("bad"))
def test_a_bad_file_is_refused_with_what_is_wrong(path: Path) -> None:
    with pytest.raises(InputFailure) as caught:
        read(Source(uri=str(path)))
    assert WORDS[path.parent.name] in str(caught.value)


@pytest.mark.parametrize("path", cases("good"))
def test_a_good_file_is_read(path: Path) -> None:
    if path.parent.name == CONTRADICTORY:
        with pytest.raises(InputFailure, match="declares coordinates x, y, and there are coordinates x, y, z"):
            read(Source(uri=str(path)))
        return
    layer = read(Source(uri=str(path)))
    assert len(layer) == parquet.read_metadata(path).num_rows
    assert layer.crs is not None


def described(path: Path, layer: gpd.GeoDataFrame, **changes: Any) -> Path:
    """Write GeoParquet whose metadata says of its geometry column what the test wants."""
    layer.to_parquet(path)
    table = parquet.read_table(path)
    geo = json.loads(table.schema.metadata[b"geo"])
    column = geo["columns"]["geometry"]
    for name, value in changes.items():
        (geo if name in ("version", "creator") else column)[name] = value
    parquet.write_table(
        table.replace_schema_metadata({**table.schema.metadata, b"geo": json.dumps(geo).encode()}), path
    )
    return path


@pytest.fixture
def point() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": [1]}, geometry=[Point(1, 2)], crs="EPSG:4326")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "3.0.0"}, "unknown version '3.0.0'"),
        ({"encoding": "WKT"}, "unknown encoding 'WKT'"),
        ({"edges": "curly"}, "unknown edges 'curly'"),
        ({"orientation": "clockwise"}, "unknown orientation"),
        ({"geometry_types": ["Polygon"]}, "declares Polygon, and there is Point"),
        ({"geometry_types": ["Point Z"]}, "declares coordinates x, y, z"),
        ({"epoch": "soon"}, "epoch that is no number"),
        ({"epoch": 2020.5}, "whose datum ensemble has none"),
    ],
)
def test_metadata_that_breaks_the_specification_is_refused(
    tmp_path: Path, point: gpd.GeoDataFrame, changes: dict[str, Any], words: str
) -> None:
    path = described(tmp_path / "a.parquet", point, **changes)
    with pytest.raises(InputFailure) as caught:
        read(Source(uri=str(path)))
    assert words in str(caught.value)


def test_z_that_an_older_geopandas_did_not_declare_is_read(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(1, 2, 3)], crs="EPSG:4326")
    creator = {"library": "geopandas", "version": "0.14.4"}
    path = described(tmp_path / "a.parquet", layer, geometry_types=["Point"], creator=creator)
    assert read(Source(uri=str(path))).geometry.iloc[0].z == 3


def test_spherical_edges_are_told(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[LineString([(170, 10), (-170, 10)])], crs="EPSG:4326")
    path = described(tmp_path / "a.parquet", layer, edges="spherical")
    with collecting() as notes:
        read(Source(uri=str(path)))
    assert [words for words in ("great circles", "1 edges span more than 180 degrees") if words in str(notes)] == [
        "great circles",
        "1 edges span more than 180 degrees",
    ]


def test_geometry_that_cannot_be_decoded_is_told_with_its_row(tmp_path: Path, point: gpd.GeoDataFrame) -> None:
    path = tmp_path / "a.parquet"
    point.to_parquet(path)
    table = parquet.read_table(path)
    good = table.column("geometry")[0].as_py()
    broken = pa.table({"n": [1, 2, 3], "geometry": pa.array([good, None, good[:-3]], pa.binary())})
    parquet.write_table(broken.replace_schema_metadata({b"geo": table.schema.metadata[b"geo"]}), path)
    with pytest.raises(InputFailure, match="cannot be decoded in row 3"):
        read(Source(uri=str(path)))


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path, point: gpd.GeoDataFrame) -> None:
    path = tmp_path / "a.parquet"
    point.to_parquet(path)
    table = parquet.read_table(path)
    geo = {"columns": {"geometry": {"encoding": "WKT"}, "gone": {"encoding": "WKB"}}, "primary_column": "none"}
    parquet.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo).encode()}), path)
    with pytest.raises(InputFailure) as caught:
        read(Source(uri=str(path)))
    for words in ("no 'version'", "'none', which is not among", "'gone' that the file does not have", "'WKT'"):
        assert words in str(caught.value)
