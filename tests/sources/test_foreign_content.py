"""Content that is not what its extension says, or leads elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import geopandas as gpd
import pytest
from shapely import Point, Polygon

from geocairn.failure import InputFailure
from geocairn.sources.describe import describe
from geocairn.sources.read import read
from geocairn.sources.source import Source

POINT = {"type": "Point", "coordinates": [0, 0]}
FEATURE = {"type": "Feature", "geometry": POINT, "properties": {"v": 1}}


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"v": [1, 2]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:27700")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def nobody_called(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def command(listener: socket.socket) -> str:
    return f"gdal vector pipeline ! read /vsicurl/http://127.0.0.1:{listener.getsockname()[1]}/x.geojson"


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "gdal_streamed_alg", "command_line": "COMMAND"}',
        '{"type": "FeatureCollection", "features": [], "type": "gdal_streamed_alg", "command_line": "COMMAND"}',
        '{"command_line": "COMMAND", "a": {"type": "Feature"}, "type": "gdal_streamed_alg"}',
        '{"a": "' + " " * 70_000 + '", "type": "gdal_streamed_alg", "command_line": "COMMAND"}',
        '{"type": "Topology", "objects": {}, "arcs": []}',
        '{"type": 5}',
        '{"features": []}',
        "{not json",
        '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>/x</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>',
    ],
)
@pytest.mark.parametrize("name", ["a.geojson", "a.gdalg.json"])
def test_json_that_is_no_geojson_is_refused_before_gdal_sees_it(
    tmp_path: Path, listener: socket.socket, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text.replace("COMMAND", command(listener)))
    with pytest.raises(InputFailure, match=r"not (a )?GeoJSON|not sound JSON"):
        describe(Source(uri=str(tmp_path / name)))
    assert nobody_called(listener)


def test_a_shapefile_in_a_zip_is_held_against_its_first_bytes(
    tmp_path: Path, towns: gpd.GeoDataFrame, listener: socket.socket
) -> None:
    towns.to_file(tmp_path / "z.shp")
    body = b'{"_pad_0123456789ab":"12' + "é".encode()
    body += f'ab","type":"gdal_streamed_alg","command_line":"{command(listener)}"}}'.encode() + b" " * 200
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("z.shp", body)
        for extension in ("shx", "dbf", "prj"):
            archive.write(tmp_path / f"z.{extension}", f"z.{extension}")
    with pytest.raises(InputFailure, match="of another kind"):
        describe(Source(uri=str(tmp_path / "z.zip")))
    assert nobody_called(listener)


def test_a_vsicurl_name_is_not_followed_by_gdal(listener: socket.socket) -> None:
    """In a process of its own, which GDAL's answer would otherwise be remembered from."""
    port = listener.getsockname()[1]
    code = (
        "import pyogrio\nfrom geocairn.sources.vector import prepare_gdal\nprepare_gdal()\n"
        f"try: pyogrio.read_info('/vsicurl/http://127.0.0.1:{port}/x.geojson')\n"
        "except pyogrio.errors.DataSourceError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "refused", done.stderr
    assert nobody_called(listener)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "FeatureCollection", "features": [FEATURE]},
        {"name": "x", "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}, "features": [FEATURE]},
        FEATURE,
        POINT,
        {"a": "x" * 1_000, "type": "FeatureCollection", "features": [FEATURE]},
    ],
)
def test_every_form_of_geojson_is_read(tmp_path: Path, value: dict[str, object]) -> None:
    whole = {**value, "type": value.get("type", "FeatureCollection")}
    (tmp_path / "a.geojson").write_text(json.dumps(whole))
    assert len(read(Source(uri=str(tmp_path / "a.geojson")))) == 1


@pytest.mark.parametrize(("first", "told"), [("", "no layer that can be read"), ("limit_gdal()", "0 rows")])
def test_json_fg_without_a_feature_is_told_or_read_as_geojson(tmp_path: Path, first: str, told: str) -> None:
    """Which of the two depends on whether GDAL has its driver, so each is tried in a process of its own."""
    conforms = ["http://www.opengis.net/spec/json-fg-1/0.1/conf/core"]
    (tmp_path / "a.json").write_text(json.dumps({"type": "FeatureCollection", "conformsTo": conforms, "features": []}))
    code = (
        "from geocairn.sources.describe import describe\nfrom geocairn.sources.gdal_settings import limit_gdal\n"
        f"from geocairn.sources.source import Source\n{first}\n"
        "try: print(describe(Source(uri='a.json')).rows, 'rows')\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert told in done.stdout


def test_a_folder_that_is_no_geodatabase_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gdb").mkdir()
    (tmp_path / "a.gdb" / "x.vrt").write_text("<OGRVRTDataSource/>")
    with pytest.raises(InputFailure, match="without the tables"):
        describe(Source(uri=str(tmp_path / "a.gdb")))


def test_an_index_beside_a_shapefile_does_not_decide_what_a_box_gives(tmp_path: Path) -> None:
    for name, shift in (("wrong.shp", 900_000), ("a.shp", 0)):
        layer = gpd.GeoDataFrame(
            {"v": range(200)}, geometry=[Point(i + shift, i) for i in range(200)], crs="EPSG:27700"
        )
        layer.to_file(tmp_path / name, SPATIAL_INDEX="YES")
    shutil.copy(tmp_path / "wrong.qix", tmp_path / "a.qix")
    found = read(Source(uri=str(tmp_path / "a.shp"), bbox=(10, 10, 20, 20)))
    assert found["v"].tolist() == list(range(10, 21))


def test_a_linked_folder_in_a_folder_is_not_entered(tmp_path: Path, towns: gpd.GeoDataFrame) -> None:
    (tmp_path / "f.parquet").mkdir()
    towns.to_parquet(tmp_path / "f.parquet" / "a.parquet")
    assert len(read(Source(uri=str(tmp_path / "f.parquet")))) == 2
    (tmp_path / "f.parquet" / "loop").symlink_to(".")
    with pytest.raises(InputFailure, match="symbolic link: 'loop'"):
        read(Source(uri=str(tmp_path / "f.parquet")))


@pytest.mark.parametrize(
    "setting", [{"OGR_ORGANIZE_POLYGONS": "SKIP"}, {"SHAPE_ENCODING": "CP1251"}, {"SHAPE_ENCODING": ""}]
)
def test_gdal_settings_of_the_environment_do_not_change_what_is_read(tmp_path: Path, setting: dict[str, str]) -> None:
    ring = [(0, 0), (0, 10), (10, 10), (10, 0)]
    layer = gpd.GeoDataFrame(
        {"n": ["é"]}, geometry=[Polygon(ring, [[(2, 2), (4, 2), (4, 4), (2, 4)]])], crs="EPSG:27700"
    )
    layer.to_file(tmp_path / "a.shp", encoding="ISO-8859-1")
    code = (
        "import sys\nfrom geocairn.sources.read import read\nfrom geocairn.sources.source import Source\n"
        "layer = read(Source(uri=sys.argv[1]))\nprint(ascii(layer['n'][0]), layer.area[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.shp")],
        env={**os.environ, **setting},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == [r"'\xe9'", "96.0"], done.stderr
