"""voronoi: each point in its cell, cells that fill the extent, awkward points. delaunay: triangles over all points."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.operations.tessellation import delaunay, voronoi

PLACES = ["POINT (1 1)", None, "POINT (9 1)", "POINT EMPTY", "POINT (5 8)"]


def test_cells_belong_to_their_points() -> None:
    points = layer(PLACES, name=list("abcde"))
    result = voronoi(points, extent=[0, 0, 10, 10])
    assert result["name"].tolist() == list("abcde")
    assert wkts(result)[1] is None
    assert wkts(result)[3] == "POLYGON EMPTY"
    assert result.area.sum() == pytest.approx(100)
    for row in (0, 2, 4):
        assert result.geometry[row].contains(points.geometry[row])
    assert voronoi(points, keep_columns=False).columns.tolist() == ["geometry"]


def test_clip_to_a_second_layer() -> None:
    mask = layer(["POLYGON ((0 0, 10 0, 10 2, 0 2, 0 0))", "POLYGON ((0 2, 2 2, 2 4, 0 4, 0 2))"])
    result = voronoi(layer(["POINT (1 1)", "POINT (9 1)", "POINT (500 500)"]), mask)
    assert result.area.sum() == pytest.approx(24)
    assert wkts(result)[2] == "POLYGON EMPTY"
    both = voronoi(layer(["POINT (1 1)", "POINT (9 1)"]), clip_to=mask, extent=[0, 0, 4, 1])
    assert both.area.tolist() == pytest.approx([4, 0])


def test_few_points() -> None:
    with pytest.raises(InputFailure, match="single point is the whole plane; give extent or clip_to"):
        voronoi(layer(["POINT (1 1)"]))
    assert same_shape(voronoi(layer(["POINT (1 1)"]), extent=[0, 0, 2, 2]).geometry[0], shapely.box(0, 0, 2, 2))
    two = voronoi(layer(["POINT (1 1)", "POINT (3 1)"]), extent=[0, 0, 4, 2])
    assert two.area.tolist() == pytest.approx([4, 4])
    line = voronoi(layer(["POINT (1 1)", "POINT (3 1)", "POINT (5 1)"]), extent=[0, 0, 6, 2])
    assert line.area.tolist() == pytest.approx([4, 4, 4])


def test_complaints() -> None:
    with pytest.raises(InputFailure, match=r"points share a place.*rows 0, 2"):
        voronoi(layer(["POINT (1 1)", "POINT (2 2)", "POINT (1 1)"]))
    with pytest.raises(InputFailure, match="multipoints have no single cell: row 0; explode"):
        voronoi(layer(["MULTIPOINT (0 0, 1 1)"]))
    assert len(voronoi(layer(["MULTIPOINT (0 0)", "POINT (3 3)"]))) == 2
    with pytest.raises(InputFailure, match="degrees"):
        voronoi(layer(PLACES, crs=4326))
    with pytest.raises(InputFailure, match="takes point geometry, got line"):
        voronoi(layer(["LINESTRING (0 0, 1 1)"]))
    with pytest.raises(InputFailure, match="xmin < xmax"):
        voronoi(layer(PLACES), extent=[5, 0, 1, 1])
    with pytest.raises(InputFailure, match="differ in CRS"):
        voronoi(layer(PLACES), layer(["POLYGON ((0 0, 1 0, 1 1, 0 0))"], crs=3857))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=40, unique=True))
def test_cells_fill_the_extent(places: list[tuple[int, int]]) -> None:
    points = gpd.GeoDataFrame(geometry=shapely.points(places), crs=5070)
    result = voronoi(points, extent=[-1, -1, 1001, 1001])
    assert result.area.sum() == pytest.approx(1002**2)
    assert result.geometry.is_valid.all()
    assert shapely.intersects(result.geometry.values, points.geometry.values).all()


def test_triangles_of_a_square() -> None:
    corners = layer(["POINT (0 0)", None, "MULTIPOINT (4 0, 4 4)", "POINT EMPTY", "POINT (0 4)", "POINT (2 1)"])
    result = delaunay(corners)
    assert result.columns.tolist() == ["geometry"]
    assert result.area.tolist() == [4, 2, 6, 4]
    assert wkts(result)[1] == "POLYGON ((0 0, 2 1, 4 0, 0 0))"
    heights = delaunay(layer(["POINT Z (0 0 1)", "POINT Z (4 0 2)", "POINT Z (0 4 3)"]))
    assert wkts(heights) == ["POLYGON Z ((0 0 1, 0 4 3, 4 0 2, 0 0 1))"]


def test_places_without_triangles_and_near_ones() -> None:
    assert len(delaunay(layer(["POINT (0 0)", "POINT (1 1)"]))) == 0
    assert len(delaunay(layer(["POINT (0 0)", "POINT (1 1)", "POINT (3 3)"]))) == 0
    assert len(delaunay(layer(["POINT (0 0)", "POINT (9 0)", "POINT (0 9)", "POINT (0.1 0)"]))) == 2
    crowd = layer([f"POINT ({x} {y})" for x in range(9) for y in range(9)])
    assert len(delaunay(crowd)) == 128
    assert 0 < len(delaunay(crowd, tolerance=1.5)) < 100
    assert delaunay(layer(["POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"])).area.sum() == 16
    with pytest.raises(InputFailure, match="degrees"):
        delaunay(layer(PLACES, crs=4326))
    with pytest.raises(InputFailure, match="has M values"):
        delaunay(layer(["POINT M (0 0 1)"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=3, max_size=30, unique=True))
def test_triangles_fill_the_hull_and_no_point_lies_in_their_circles(places: list[tuple[int, int]]) -> None:
    points = gpd.GeoDataFrame(geometry=shapely.points(places), crs=5070)
    triangles = delaunay(points).geometry.values
    assert shapely.area(triangles).sum() == pytest.approx(points.union_all().convex_hull.area)
    corners = shapely.get_coordinates(triangles).reshape(-1, 4, 2)[:, :3]
    ax, ay, bx, by, cx, cy = (corners[:, i // 2, i % 2] for i in range(6))
    turn = 2 * (ax * (by - cy) + bx * (cy - ay) + cx * (ay - by))
    squares = [x**2 + y**2 for x, y in ((ax, ay), (bx, by), (cx, cy))]
    x = (squares[0] * (by - cy) + squares[1] * (cy - ay) + squares[2] * (ay - by)) / turn
    y = (squares[0] * (cx - bx) + squares[1] * (ax - cx) + squares[2] * (bx - ax)) / turn
    radius = np.hypot(ax - x, ay - y)
    distance = np.hypot(*(np.array(places)[:, :, None] - np.stack([x, y])[None]).transpose(1, 0, 2))
    assert (distance >= radius * (1 - 1e-9) - 1e-6).all()
