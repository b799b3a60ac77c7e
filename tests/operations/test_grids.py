"""create_grid: cells that cover the layer, fit together without gaps, and are cut to it."""

from __future__ import annotations

import math

import geopandas as gpd
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import CRS, layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.operations.grids import create_grid

BOX = ["POLYGON ((10 20, 40 20, 40 40, 10 40, 10 20))"]


def test_squares_over_the_extent() -> None:
    result = create_grid(layer(BOX), size=10)
    assert result.columns.tolist() == ["cell", "row", "column", "geometry"]
    assert result["row"].tolist() == [0, 0, 0, 1, 1, 1]
    assert result["column"].tolist() == [0, 1, 2, 0, 1, 2]
    assert result["cell"].tolist() == list(range(6))
    assert same_shape(result.geometry[5], shapely.box(30, 30, 40, 40))
    assert len(create_grid(layer(BOX), size=8)) == 12
    assert len(create_grid(layer(BOX), size=0.1, clip=False)) == 300 * 200


def test_clipping_cuts_to_polygons_and_keeps_cells_of_points_whole() -> None:
    triangle = layer(["POLYGON ((0 0, 30 0, 0 30, 0 0))"])
    whole = create_grid(triangle, size=10, clip=False)
    assert whole.area.tolist() == [100] * 9
    cut = create_grid(triangle, size=10)
    assert cut.area.sum() == pytest.approx(450)
    assert cut["cell"].tolist() == [0, 1, 2, 3, 4, 6]
    assert wkts(cut)[0] == wkts(whole)[0]
    mixed = create_grid(
        layer(["POLYGON ((0 0, 30 0, 0 30, 0 0))", "POINT (28 28)", None, "LINESTRING (15 15, 16 16)"]), size=10
    )
    assert mixed["cell"].tolist() == [0, 1, 2, 3, 4, 6, 8]
    assert mixed.area.tolist() == [100, 100, 50, 100, 100, 50, 100]


def test_few_places() -> None:
    for clip in (True, False):
        assert create_grid(layer(["POINT (3 3)"]), size=2, clip=clip).area.tolist() == [4]
        assert len(create_grid(layer([None, "POINT EMPTY"]), size=2, clip=clip)) == 0
    (hexagon,) = create_grid(layer(["POINT (3 3)"]), size=2, kind="hexagon").geometry
    assert hexagon.area == pytest.approx(6 * math.sqrt(3))
    assert hexagon.centroid.distance(shapely.Point(3, 3)) < 1e-9
    assert len(create_grid(layer(["LINESTRING (0 5, 10 5)"]), size=2)) == 5


def test_grids_of_one_origin_fit_together() -> None:
    one = create_grid(layer(BOX), size=7, origin=[0, 0], kind="hexagon", clip=False)
    other = create_grid(layer(["POINT (17 25)", "POINT (60 60)"]), size=7, origin=[0, 0], kind="hexagon", clip=False)
    both = one.merge(other, on=["row", "column"])
    assert len(both) > 3
    assert shapely.equals_exact(both["geometry_x"].values, both["geometry_y"].values).all()
    shifted = create_grid(layer(BOX), size=7, origin=[3, 3], clip=False)
    assert ((shifted.bounds["minx"] - 3) % 7 == 0).all()
    assert shifted.total_bounds.tolist() == [10, 17, 45, 45]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-500, 500), st.integers(-500, 500)), min_size=1, max_size=6),
    st.sampled_from(["square", "hexagon"]),
    st.floats(20, 400),
    st.none() | st.tuples(st.integers(-99, 99), st.integers(-99, 99)),
)
def test_cells_cover_the_extent_once(
    places: list[tuple[int, int]], kind: str, size: float, origin: tuple[int, int] | None
) -> None:
    points = gpd.GeoDataFrame(geometry=shapely.points(np.array(places)), crs=CRS)
    grid = create_grid(points, kind=kind, size=size, origin=origin, clip=False)
    cells = grid.geometry.values
    assert shapely.coverage_is_valid(cells)
    together = shapely.union_all(cells)
    assert together.area == pytest.approx(shapely.area(cells).sum())
    assert together.buffer(1e-6).covers(shapely.box(*points.total_bounds))
    met = create_grid(points, kind=kind, size=size, origin=origin)
    assert met["cell"].tolist() == grid["cell"][grid.intersects(points.union_all())].tolist()


def test_complaints() -> None:
    with pytest.raises(
        InputFailure, match=r"size 0\.001 makes some 6e\+08 cells over an extent of 30 by 20.*size of 0\.012 or more"
    ):
        create_grid(layer(BOX), size=0.001)
    with pytest.raises(InputFailure, match="makes some"):
        create_grid(layer(BOX), size=1e-300, kind="hexagon")
    with pytest.raises(InputFailure, match="greater than 0"):
        create_grid(layer(BOX), size=0)
    with pytest.raises(InputFailure, match="degrees"):
        create_grid(layer(BOX, crs=4326), size=1)
    with pytest.raises(InputFailure, match="invalid polygons: row 0"):
        create_grid(layer(["POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))"]), size=1)
    with pytest.raises(InputFailure, match="geometry column is named 'row'"):
        create_grid(layer(BOX).rename_geometry("row"), size=10)
