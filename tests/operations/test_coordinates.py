"""affine_transform, swap_xy, force_2d, orient_polygons, normalize."""

from __future__ import annotations

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from sample_layers import layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.operations.coordinates import affine_transform, force_2d, normalize, orient_polygons, swap_xy

CLOCKWISE = "POLYGON ((0 0, 0 9, 9 9, 9 0, 0 0), (1 1, 2 1, 2 2, 1 1))"
MIXED = ["POINT (1 2)", "POINT Z (1 2 3)", None, "LINESTRING EMPTY"]


def test_affine_by_six_and_by_twelve_numbers() -> None:
    turned = affine_transform(layer(MIXED), matrix=[0, -1, 1, 0, 10, 20])
    assert wkts(turned) == ["POINT (8 21)", "POINT Z (8 21 3)", None, "LINESTRING EMPTY"]
    raised = affine_transform(layer(MIXED), matrix=[1, 0, 1, 0, 1, 0, 0, 0, 2, 10, 20, 30])
    assert wkts(raised) == ["POINT (11 22)", "POINT Z (14 22 36)", None, "LINESTRING EMPTY"]


def test_affine_agrees_with_shapely() -> None:
    from shapely.affinity import affine_transform as one

    matrix = [1.5, 0.25, -0.5, 2, 3, -4]
    areas = layer([CLOCKWISE, "MULTILINESTRING Z ((0 0 1, 1 1 2), (5 5 3, 6 7 4))"])
    found = affine_transform(areas, matrix=matrix).geometry
    for before, after in zip(areas.geometry, found, strict=True):
        assert shapely.equals_exact(one(before, matrix), after, 1e-12)
    facade = [1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]
    upright = layer(["LINESTRING Z (0 0 0, 1 5 9)"])
    assert shapely.equals_exact(
        one(upright.geometry[0], facade), affine_transform(upright, matrix=facade).geometry[0], 0
    )


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([1, 0, 0, 1], "at least 6"),
        ([1, 0, 0, 1, 0, 0, 0], "has 7 numbers: give six"),
        ([1, 2, 2, 4, 0, 0], "in one line"),
        ([1, 2, 3, 2, 4, 6, 0, 0, 1, 0, 0, 0], "in one line"),
        ([1, 0, 0, True, 0, 0], "not true or false"),
    ],
)
def test_affine_complaints(matrix: list[float], message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        affine_transform(layer(["POINT (0 0)"]), matrix=matrix)


def test_swap() -> None:
    result = swap_xy(layer([*MIXED, "POLYGON ((0 1, 2 1, 2 5, 0 1))"], crs=4326))
    assert wkts(result)[:4] == ["POINT (2 1)", "POINT Z (2 1 3)", None, "LINESTRING EMPTY"]
    assert result.geometry[4].exterior.coords[1] == (1, 2)
    assert result.crs == "EPSG:4326"


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_swapping_twice_changes_nothing(x: float, y: float, z: float) -> None:
    points = layer([shapely.Point(x, y).wkt, shapely.Point(x, y, z).wkt])
    twice = swap_xy(swap_xy(points))
    assert twice.geometry.to_wkb().tolist() == points.geometry.to_wkb().tolist()


@pytest.mark.parametrize(
    ("operation", "parameters"), [(swap_xy, {}), (affine_transform, {"matrix": [1, 0, 0, 1, 1, 1]})]
)
def test_m_values_are_refused(operation, parameters) -> None:
    with pytest.raises(InputFailure, match="M values, which would be lost: row 1; drop M before"):
        operation(layer(["POINT (0 0)", "POINT ZM (1 2 3 4)"]), **parameters)


def test_force_2d_drops_z_and_m() -> None:
    result = force_2d(layer(["POINT Z (1 2 3)", "POINT M (1 2 3)", "LINESTRING ZM (0 0 1 2, 1 1 3 4)", None]))
    assert wkts(result) == ["POINT (1 2)", "POINT (1 2)", "LINESTRING (0 0, 1 1)", None]


def test_rings_turn_the_way_that_is_asked() -> None:
    areas = layer(
        [CLOCKWISE, "MULTIPOLYGON Z (((0 0 1, 0 9 1, 9 9 1, 0 0 1)))", "LINESTRING (0 0, 0 1, 1 1, 0 0)", None]
    )
    result = orient_polygons(areas)
    assert result.geometry[0].exterior.is_ccw
    assert not result.geometry[0].interiors[0].is_ccw
    assert result.geometry[1].geoms[0].exterior.is_ccw
    assert result.geometry[1].has_z
    assert result.geometry[2].wkt == areas.geometry[2].wkt
    assert same_shape(result.geometry[0], CLOCKWISE)
    assert not orient_polygons(result, exterior_cw=True).geometry[0].exterior.is_ccw


def test_normalize_makes_the_same_shape_the_same() -> None:
    drawn = layer(
        [
            "POLYGON ((0 0, 4 0, 4 4, 0 0))",
            "POLYGON ((4 4, 0 0, 4 0, 4 4))",
            "MULTIPOINT Z (1 1 5, 0 0 6)",
            "LINESTRING M (5 5 1, 0 0 2)",
            None,
        ]
    )
    result = normalize(drawn)
    assert result.geometry[0].wkt == result.geometry[1].wkt
    assert result.geometry[2].wkt == shapely.normalize(drawn.geometry[2]).wkt
    assert result.geometry[3].wkt == "LINESTRING M (0 0 2, 5 5 1)"
    assert result.geometry[4] is None
