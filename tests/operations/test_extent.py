"""filter_extent: the box's edge included, a box of another CRS with curved sides, cutting."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import pytest
import shapely
from sample_layers import layer, rich, wkts

from geocairn.failure import InputFailure
from geocairn.operations.extent import filter_extent


def ids(result: Any) -> list[int]:
    return result["id"].tolist()


def test_what_meets_the_box_or_its_edge_is_kept_whole() -> None:
    some = layer(["POINT (1 1)", "POINT (2 1)", "POINT (2.001 1)", None, "POINT EMPTY", "LINESTRING (-5 1, 9 1)"])
    result = filter_extent(some, bbox=[0, 0, 2, 2])
    assert ids(result) == [0, 1, 5]
    assert result.geometry.iloc[2].wkt == "LINESTRING (-5 1, 9 1)"


def test_cutting_keeps_the_kind_and_drops_what_only_touches() -> None:
    squares = rich(
        ["POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "POLYGON ((4 0, 8 0, 8 4, 4 4, 4 0))", "POLYGON ((2 2, 3 2, 3 3, 2 2))"]
    )
    result = filter_extent(squares, bbox=[2, 2, 4, 9], clip=True)
    assert wkts(result) == ["POLYGON ((2 2, 2 4, 4 4, 4 2, 2 2))", "POLYGON ((2 2, 3 3, 3 2, 2 2))"]
    assert list(result.dtypes) == list(squares.dtypes)


def test_a_box_in_degrees_has_curved_sides_in_metres() -> None:
    # The parallel 40 N bows south between the box's corners: bounds alone would take in the first point.
    inside = shapely.points([[-96, 40.001], [-120, 40.001]])
    outside = shapely.points([[-96, 39.9], [-120, 39.999], [-69.99, 45]])
    degrees = gpd.GeoDataFrame({"id": range(5)}, geometry=[*inside, *outside], crs="EPSG:4326")
    albers = degrees.to_crs("EPSG:5070")
    assert ids(filter_extent(albers, bbox=[-122, 40, -70, 50], crs=4326)) == [0, 1]
    assert ids(filter_extent(degrees, bbox=[-122, 40, -70, 50], crs="EPSG:4326")) == [0, 1]


def test_a_box_round_the_pole() -> None:
    degrees = gpd.GeoDataFrame(
        {"id": range(4)}, geometry=shapely.points([[0, 80], [180, 75], [-100, 69], [10, 90]]), crs="EPSG:4326"
    )
    polar = degrees.to_crs("EPSG:3995")
    assert ids(filter_extent(polar, bbox=[-180, 70, 180, 90], crs="EPSG:4326")) == [0, 1, 3]


def test_a_box_that_cannot_be_brought_there_is_refused() -> None:
    mercator = layer(["POINT (0 0)"], crs="EPSG:3857")
    with pytest.raises(InputFailure, match=r"box cannot be brought into the layer's CRS.*leave crs out"):
        filter_extent(mercator, bbox=[-180, -90, 180, 90], crs="EPSG:4326")
    with pytest.raises(InputFailure, match="CRS is unknown"):
        filter_extent(layer(["POINT (0 0)"], crs=None), bbox=[0, 0, 1, 1], crs="EPSG:4326")
    with pytest.raises(InputFailure, match="xmin < xmax"):
        filter_extent(mercator, bbox=[170, 0, -170, 1])
