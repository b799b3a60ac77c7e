"""select_columns and measure."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pyproj
import pytest
import shapely
from sample_layers import layer, rich

from geocairn.failure import InputFailure
from geocairn.operations.selection import measure, select_columns

SQUARE = "POLYGON ((0 0, 1000 0, 1000 1000, 0 1000, 0 0), (100 100, 200 100, 200 200, 100 200, 100 100))"


def test_select_columns() -> None:
    shapes = rich(["POINT (0 0)", "POINT (1 1)"])
    assert select_columns(shapes, keep=["text", "whole"]).columns.tolist() == ["text", "whole", "shape"]
    assert select_columns(shapes, keep=["shape", "mark"]).columns.tolist() == ["shape", "mark"]
    dropped = select_columns(shapes, drop=["mark", "real"], rename={"whole": "n", "shape": "geom"})
    assert dropped.geometry.name == "geom"
    assert "n" in dropped.columns
    assert "mark" not in dropped.columns
    assert dropped.crs == shapes.crs
    swapped = select_columns(shapes, keep=["text", "arrow"], rename={"text": "arrow", "arrow": "text"})
    assert swapped.columns.tolist() == ["arrow", "text", "shape"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"keep": ["txt"]}, "no column 'txt'; did you mean 'text'"),
        ({"drop": "shape"}, "is the geometry"),
        ({"rename": {"whole": "text"}}, "two columns 'text'"),
        ({"rename": {"wole": "x"}}, "did you mean 'whole'"),
        ({"keep": ["text"], "rename": {"whole": "x"}}, "no column 'whole'"),
        ({"keep": ["text"], "drop": ["whole"]}, "keep or drop, not both"),
        ({"keep": ["text", "text"]}, "named twice"),
        ({}, "give keep, drop or rename"),
    ],
)
def test_select_columns_complaints(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        select_columns(rich(["POINT (0 0)"]), **parameters)


@pytest.mark.parametrize(
    ("crs", "unit", "side"),
    [
        (5070, "m", 1000),
        (5070, "km", 1),
        (5070, "ft", 1000 / 0.3048),
        (2263, "us-ft", 1000),
        (2263, "m", 1000 * 1200 / 3937),
    ],
)
def test_planar_measures_are_converted(crs: int, unit: str, side: float) -> None:
    result = measure(layer([SQUARE, None, "POLYGON EMPTY"], crs=crs), area="a", perimeter="p", unit=unit)
    assert result["a"].tolist()[0] == pytest.approx(side**2 * 0.99)
    assert result["p"].tolist()[0] == pytest.approx(side * 4.4)
    assert np.isnan(result["a"][1])
    assert result["a"][2] == 0


def test_each_measures_its_own_kind() -> None:
    mixed = layer(
        [SQUARE, "LINESTRING (0 0, 3 4)", "POINT (0 0)", f"GEOMETRYCOLLECTION (LINESTRING (0 0, 3 4), {SQUARE})"]
    )
    result = measure(mixed, area="a", length="l", perimeter="p")
    assert result["l"].tolist() == [0, 5, 0, 5]
    assert result["a"].tolist() == [990_000, 0, 0, 990_000]
    assert result["p"].tolist() == [4400, 0, 0, 4400]


def test_ellipsoidal_as_pyproj() -> None:
    shapes = [
        "POLYGON ((0 50, 1 50, 1 51, 0 51, 0 50), (0.2 50.2, 0.4 50.2, 0.4 50.4, 0.2 50.2))",
        "LINESTRING (0 0, 1 1, 2 0)",
        "MULTIPOLYGON (((10 10, 10 11, 11 11, 10 10)), ((20 10, 21 10, 21 11, 20 10)))",
    ]
    result = measure(layer(shapes, crs=4326), area="a", length="l", perimeter="p", method="ellipsoidal")
    geod = pyproj.Geod(ellps="WGS84")
    for row, wkt in enumerate(shapes):
        shape = shapely.orient_polygons(shapely.from_wkt(wkt)) if "POLYGON" in wkt else shapely.from_wkt(wkt)
        area = geod.geometry_area_perimeter(shape)[0] if "POLYGON" in wkt else 0
        perimeter = geod.geometry_length(shapely.boundary(shape)) if "POLYGON" in wkt else 0
        length = geod.geometry_length(shape) if "LINE" in wkt else 0
        assert result["a"][row] == pytest.approx(abs(area))
        assert result["l"][row] == pytest.approx(length)
        assert result["p"][row] == pytest.approx(perimeter)
    projected = gpd.GeoDataFrame(geometry=layer(shapes[:1], crs=4326).to_crs(3857).geometry)
    assert measure(projected, area="a", method="ellipsoidal")["a"][0] == pytest.approx(result["a"][0])


def test_measure_complaints() -> None:
    square = layer([SQUARE])
    with pytest.raises(InputFailure, match="at least one column"):
        measure(square)
    with pytest.raises(InputFailure, match="a column 'id' already"):
        measure(square, area="id")
    with pytest.raises(InputFailure, match=r"length measures lines.*perimeter"):
        measure(square, length="l")
    with pytest.raises(InputFailure, match="different names"):
        measure(square, area="x", perimeter="x")
    with pytest.raises(InputFailure, match=r"degrees.*ellipsoidal"):
        measure(layer([SQUARE], crs=4326), area="a")
    with pytest.raises(InputFailure, match="CRS is unknown"):
        measure(layer([SQUARE], crs=None), area="a", method="ellipsoidal")
