"""concave_hull, envelope, minimum_rotated_rectangle, minimum_bounding_circle, point_on_surface; groups of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import shapely
from sample_layers import layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.notes import collecting
from geocairn.operations.geometry import point_on_surface
from geocairn.operations.hulls import concave_hull, envelope, minimum_bounding_circle, minimum_rotated_rectangle

BENT = "MULTIPOINT (0 0, 4 0, 10 0, 10 6, 10 10, 7 3)"


def test_concave_hull_follows_the_points() -> None:
    points = layer([BENT])
    assert concave_hull(points, ratio=1).geometry[0].area == pytest.approx(50)
    closest = concave_hull(points, ratio=0).geometry[0]
    assert closest.area < 50
    assert closest.covers(shapely.from_wkt(BENT))
    with pytest.raises(InputFailure, match="less than or equal to 1"):
        concave_hull(points, ratio=2)


def test_concave_hull_of_groups_keeps_z() -> None:
    points = layer(
        ["POINT Z (0 0 1)", "POINT Z (4 0 2)", None, "POINT Z (0 4 3)", "POINT Z (9 9 9)"],
        kind=["a", "a", "b", "a", None],
    )
    result = concave_hull(points, by="kind")
    assert result["kind"].fillna("none").tolist() == ["a", "b", "none"]
    assert result.geometry[0].has_z
    assert same_shape(result.geometry[0], "POLYGON ((0 0, 4 0, 0 4, 0 0))")
    assert result.geometry[1] is None
    assert result.geometry[2].wkt == "POINT Z (9 9 9)"


def test_concave_hull_with_holes() -> None:
    around = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    ring = np.concatenate([np.c_[np.cos(around), np.sin(around)] * radius for radius in (9, 10)])
    points = layer([shapely.multipoints(ring).wkt])
    assert concave_hull(points, ratio=0.1, allow_holes=True).geometry[0].interiors
    assert not concave_hull(points, ratio=0.1).geometry[0].interiors


def test_envelope_is_never_invalid() -> None:
    mixed = layer(
        [
            "LINESTRING (0 0, 4 2)",
            "LINESTRING (0 0, 0 5)",
            "MULTIPOINT (1 1, 3 1)",
            "POINT Z (1 2 3)",
            None,
            "LINESTRING EMPTY",
        ]
    )
    result = envelope(mixed)
    assert result.geometry[0].equals(shapely.box(0, 0, 4, 2))
    assert wkts(result)[1:5] == ["LINESTRING (0 0, 0 5)", "LINESTRING (1 1, 3 1)", "POINT (1 2)", None]
    assert result.geometry[5].is_empty
    assert result.geometry.dropna().is_valid.all()
    admit(result, Terms("box", envelope, envelope.normalise({}), [mixed]))


def test_envelope_of_groups() -> None:
    points = layer(["POINT (0 0)", "POINT (9 9)", "POINT (2 3)", None], kind=["a", "b", "a", "c"], more=[1, 2, 1, 2])
    result = envelope(points, by=["kind", "more"])
    assert result.columns.tolist() == ["kind", "more", "geometry"]
    assert result.geometry[0].equals(shapely.box(0, 0, 2, 3))
    assert result.geometry[1].wkt == "POINT (9 9)"
    assert result.geometry[2] is None
    with pytest.raises(InputFailure, match="envelope: layer has no column 'knid'; did you mean 'kind'"):
        envelope(points, by="knid")


def test_smallest_rectangle_is_turned() -> None:
    diamond = layer(["POLYGON ((0 5, 5 0, 15 10, 10 15, 0 5))", "LINESTRING (0 0, 10 0, 10 4)"])
    result = minimum_rotated_rectangle(diamond)
    assert same_shape(result.geometry[0], diamond.geometry[0])
    assert result.geometry[1].area == pytest.approx(40)


def test_smallest_circle() -> None:
    result = minimum_bounding_circle(layer(["LINESTRING (0 0, 10 0)", "POLYGON ((0 0, 6 0, 6 8, 0 8, 0 0))"]))
    assert result.geometry[0].bounds == pytest.approx((0, -5, 10, 5))
    assert result.geometry[1].centroid.coords[0] == pytest.approx((3, 4))
    assert result.geometry[1].area == pytest.approx(16 * math.sin(math.pi / 16) * 25)


@pytest.mark.parametrize("operation", [minimum_rotated_rectangle, minimum_bounding_circle])
def test_what_has_no_area_leaves_an_empty_polygon(operation) -> None:
    flat = layer(["POINT (1 2)", "LINESTRING (1 1, 1 1)", "MULTIPOINT (3 3, 3 3)", None, "POINT EMPTY"])
    with collecting() as notes:
        result = operation(flat)
    assert wkts(result) == ["POLYGON EMPTY"] * 3 + [None, "POLYGON EMPTY"]
    assert notes.facts["without_area"] == 3
    assert not notes.caveats
    admit(result, Terms("around", operation, operation.normalise({}), [flat]))


@pytest.mark.parametrize("operation", [minimum_rotated_rectangle, minimum_bounding_circle])
def test_degrees_taken_as_flat_are_told(operation) -> None:
    with collecting() as notes:
        operation(layer(["LINESTRING (10 60, 20 61, 15 50)"], crs=4326))
    assert "as if these were flat" in notes.caveats[0]


def test_a_straight_line_has_no_rectangle() -> None:
    assert wkts(minimum_rotated_rectangle(layer(["LINESTRING (0 0, 1 1, 5 5)"]))) == ["POLYGON EMPTY"]


def test_nearly_straight_lines_give_no_invalid_rectangle() -> None:
    """GEOS gives rectangles that cross themselves, where the width is lost in the rounding of coordinates."""
    rng = np.random.default_rng(0)
    along, angle = rng.uniform(0, 10, (500, 4)), rng.uniform(0, 2 * math.pi, (500, 1))
    places = np.stack([along * np.cos(angle), along * np.sin(angle)], axis=-1) + rng.uniform(-1e5, 1e5, (500, 1, 2))
    lines = shapely.linestrings(places)
    assert not shapely.is_valid(shapely.minimum_rotated_rectangle(lines)).all()
    result = minimum_rotated_rectangle(layer([shapely.to_wkt(line, rounding_precision=-1) for line in lines]))
    assert result.geometry.is_valid.all()
    assert set(result.geom_type) == {"Polygon"}


def test_point_on_surface_lies_inside() -> None:
    ring = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 9 1, 9 9, 1 9, 1 1))"
    mixed = layer(
        [ring, "LINESTRING (0 0, 4 0, 9 0)", "POINT Z (1 2 3)", "MULTIPOINT (0 0, 9 9)", None, "POLYGON EMPTY"]
    )
    result = point_on_surface(mixed)
    assert result.geom_type.dropna().unique().tolist() == ["Point"]
    assert mixed.geometry[0].contains(result.geometry[0])
    assert not mixed.geometry[0].contains(mixed.geometry[0].centroid)
    assert wkts(result)[1:3] == ["POINT (4 0)", "POINT Z (1 2 3)"]
    assert mixed.geometry[3].intersects(result.geometry[3])
    assert result.geometry[4] is None
    assert result.geometry[5].is_empty
