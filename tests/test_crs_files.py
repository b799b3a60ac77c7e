"""A CRS is text that may have PROJ open files: only its own grids, by their bare names."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas as gpd
import pyproj
import pytest
from shapely import Point

from geocairn.crs_files import files_named, hold_crs_text
from geocairn.failure import InputFailure
from geocairn.operations.registry import operations
from geocairn.sources.read import read
from geocairn.sources.source import Source

GRID = "+proj=longlat +ellps=GRS80 +nadgrids={} +type=crs"


def forms(path: str) -> list[str]:
    """One CRS that names the file, in each way of writing it."""
    crs = pyproj.CRS.from_user_input(GRID.format(path))
    escaped = json.dumps(crs.to_json_dict()).replace("/", "\\u002f")
    return [GRID.format(path), crs.to_wkt("WKT2_2019"), crs.to_wkt("WKT1_GDAL"), crs.to_json(), escaped]


@pytest.mark.parametrize("path", ["/etc/passwd", "@/etc/passwd", "./grid.gsb", "../grid.gsb", "~/grid.gsb"])
def test_a_file_is_found_however_the_crs_is_written(path: str) -> None:
    for text in forms(path):
        assert files_named(text) == [path.lstrip("@")] * len(files_named(text)) != [], text
        with pytest.raises(ValueError, match="names the file"):
            hold_crs_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "+proj=longlat +geoidgrids=/tmp/a.gtx +type=crs",
        "+proj=longlat +nadgrids=@null,/tmp/a.gsb +type=crs",
        "+proj=longlat +NADGRIDS = '/tmp/a.gsb'",
        "+init=/tmp/definitions:one",
        "init=./definitions:one",
        "+proj=pipeline +step +proj=hgridshift +grids=https://example.org/a.tif",
        "+proj=pipeline +step +proj=deformation +xy_grids=/a +z_grids=/b +t_epoch=2000",
        'PROJCRS["x", METHOD["PROJ-based operation method: +proj=pipeline +step +proj=gridshift +grids=/etc/passwd"]]',
        "+proj=tinshift +file=/tmp/a.json",
        "+proj=longlat +nadgrids=C:\\a.gsb",
    ],
)
def test_every_parameter_that_names_a_file_is_known(text: str) -> None:
    assert files_named(text)


@pytest.mark.parametrize(
    "text",
    [
        "EPSG:5070",
        "+init=epsg:4326",
        "+proj=longlat +nadgrids=@null +type=crs",
        "+proj=longlat +geoidgrids=us_noaa_g2012bu0.tif +type=crs",
        "+proj=utm +zone=33 +to_meter=1200/3937",
        pyproj.CRS("EPSG:32633").to_wkt(),
        pyproj.CRS("EPSG:32633").to_json(),
        pyproj.CRS("EPSG:5514").to_json(),
    ],
)
def test_what_names_no_file_is_taken(text: str) -> None:
    assert hold_crs_text(text) == text


def test_parameters_and_sources_are_held_to_it() -> None:
    with pytest.raises(InputFailure, match="names the file"):
        operations["reproject"].normalise({"crs": GRID.format("/etc/passwd")})
    with pytest.raises(ValueError, match="names the file"):
        Source(uri="a.gpkg", crs=GRID.format("/etc/passwd"))


def test_a_crs_that_comes_in_a_file_is_held_to_it_too(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame({"v": [1]}, geometry=[Point(0, 0)], crs=GRID.format("/etc/passwd"))
    layer.to_parquet(tmp_path / "a.parquet")
    layer.to_file(tmp_path / "a.gpkg")
    (tmp_path / "b.csv").write_text("x,y\n0,0\n")
    for name in ("a.parquet", "a.gpkg"):
        with pytest.raises(InputFailure, match="its CRS names the file '/etc/passwd'"):
            read(Source(uri=str(tmp_path / name)))
