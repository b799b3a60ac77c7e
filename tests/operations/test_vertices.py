"""simplify_coverage, densify, boundary, remove_holes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from sample_layers import layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.notes import collecting
from geocairn.operations.geometry import simplify
from geocairn.operations.vertices import boundary, densify, remove_holes, simplify_coverage

BOW_TIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
WEST = "POLYGON ((0 0, 10 0, 9 3, 11 6, 10 10, 0 10, 0 5, 0 0))"
EAST = "POLYGON ((11 6, 9 3, 10 0, 20 0, 20 10, 10 10, 11 6))"
HOLED = "POLYGON ((0 0, 20 0, 20 20, 0 20, 0 0), (1 1, 3 1, 3 3, 1 3, 1 1), (5 5, 15 5, 15 15, 5 15, 5 5))"


def test_simplified_neighbours_still_meet() -> None:
    tiles = layer([WEST, None, EAST, "POLYGON EMPTY", "POINT EMPTY"])
    result = simplify_coverage(tiles, tolerance=5)
    west, east = result.geometry[0], result.geometry[2]
    assert len(west.exterior.coords) < 8
    assert shapely.intersection(west, east).area == 0
    assert shapely.coverage_is_valid(np.array([west, east]))
    assert shapely.union_all([west, east]).area == pytest.approx(200)
    assert result.geometry[1] is None
    assert wkts(result)[3:] == ["POLYGON EMPTY", "POINT EMPTY"]
    apart = simplify(tiles, tolerance=1).geometry
    assert not shapely.coverage_is_valid(np.array([apart[0], apart[2]]))
    admit(result, Terms("tiles", simplify_coverage, simplify_coverage.normalise({"tolerance": 5}), [tiles]))


def test_outer_boundary_may_stay() -> None:
    coast = layer(
        ["POLYGON ((0 0, 5 1, 10 0, 9 5, 10 10, 0 10, 0 0))", "POLYGON ((10 0, 20 0, 20 10, 10 10, 9 5, 10 0))"]
    )
    kept = simplify_coverage(coast, tolerance=4, simplify_boundary=False)
    assert (5, 1) in kept.geometry[0].exterior.coords
    assert (9, 5) not in kept.geometry[0].exterior.coords
    assert (5, 1) not in simplify_coverage(coast, tolerance=4).geometry[0].exterior.coords


def test_multipolygons_of_a_coverage_stay_such() -> None:
    parts = layer(["MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((9 9, 12 9, 12 12, 9 9)))"])
    assert simplify_coverage(parts, tolerance=0).geom_type.tolist() == ["MultiPolygon"]


@pytest.mark.parametrize(
    ("wkt", "message"),
    [
        ([WEST, None, "POLYGON ((8 0, 20 0, 20 10, 8 10, 8 0))", "POLYGON ((30 0, 31 0, 31 1, 30 0))"], "rows 0, 2;"),
        (["POLYGON ((0 0, 1 0, 1 2, 0 2, 0 0))", "POLYGON ((1 0, 2 0, 2 1, 1 1, 1 0))"], "same vertices: row"),
        ([WEST, BOW_TIE], "invalid polygons: row 1 .*make_valid"),
        ([WEST, WEST], "polygons overlap"),
        (["LINESTRING (0 0, 1 1)"], "takes polygon geometry, got line"),
    ],
)
def test_what_is_no_coverage_is_refused(wkt: list[str | None], message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        simplify_coverage(layer(wkt), tolerance=1)


def test_densify_parts_segments_into_equal_ones() -> None:
    mixed = layer(["LINESTRING Z (0 0 0, 9 0 3)", "POINT (1 1)", None, "POLYGON EMPTY", "LINESTRING (0 0, 2 0)"])
    result = densify(mixed, max_segment_length=4)
    assert wkts(result) == [
        "LINESTRING Z (0 0 0, 3 0 1, 6 0 2, 9 0 3)",
        "POINT (1 1)",
        None,
        "POLYGON EMPTY",
        "LINESTRING (0 0, 2 0)",
    ]


def test_densify_polygons_ring_by_ring() -> None:
    rings, triangle = HOLED.removeprefix("POLYGON "), "((30 0, 34 0, 34 4, 30 0))"
    areas = layer([HOLED, f"MULTIPOLYGON ({rings}, {triangle})", f"MULTIPOLYGON (EMPTY, {triangle})"])
    result = densify(areas, max_segment_length=2).geometry
    assert shapely.equals_exact(result.values[:2], shapely.segmentize(areas.geometry.values[:2], 2), 0).all()
    assert result[2].wkt.startswith("MULTIPOLYGON (((30 0, 32 0, 34 0, 34 2,")


def test_densify_does_not_lose_half_of_an_invalid_polygon() -> None:
    """GEOS keeps one of the two triangles, without a word."""
    result = densify(layer([BOW_TIE]), max_segment_length=2)
    assert result.geometry[0].wkt == "POLYGON ((0 0, 1 1, 2 2, 2 0, 1 1, 0 2, 0 0))"
    with pytest.raises(InputFailure, match="invalid polygons: row 1"):
        densify(layer(["POINT (0 0)", f"GEOMETRYCOLLECTION ({BOW_TIE})"]), max_segment_length=1)


def test_lines_of_no_length_stay() -> None:
    still = "LINESTRING (3 3, 3 3)"
    result = densify(layer([still, "LINESTRING (0 0, 2 0)"]), max_segment_length=1)
    assert wkts(result) == [still, "LINESTRING (0 0, 1 0, 2 0)"]
    with pytest.raises(InputFailure, match=r"parts have no length: row 2; explode"):
        densify(layer([still, None, "MULTILINESTRING ((3 3, 3 3), (0 0, 2 0))"]), max_segment_length=1)


def test_densify_in_degrees() -> None:
    line = layer(["LINESTRING (0 0, 10 0)"], crs=4326)
    assert len(densify(line, max_segment_length=5).geometry[0].coords) == 3
    with pytest.raises(InputFailure, match="is 1000, and the layer's CRS is in degrees"):
        densify(line, max_segment_length=1000)
    with pytest.raises(InputFailure, match=r"M values.*row 0.*force_2d"):
        densify(layer(["LINESTRING M (0 0 1, 9 0 3)"]), max_segment_length=4)


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=2, max_size=6), st.floats(50, 1e3))
def test_densify_keeps_length_and_vertices(places: list[tuple[float, float]], longest: float) -> None:
    line = shapely.LineString(places)
    dense = densify(layer([line.wkt]), max_segment_length=longest).geometry[0]
    assert dense.length == pytest.approx(line.length)
    steps = np.hypot(*np.diff(shapely.get_coordinates(dense), axis=0).T)
    assert steps.max() <= longest * (1 + 1e-9)


def test_boundary_of_polygons_and_lines() -> None:
    mixed = layer(
        [
            "POLYGON Z ((0 0 1, 4 0 1, 4 4 1, 0 0 1))",
            HOLED,
            "LINESTRING (0 0, 5 5)",
            "LINESTRING (0 0, 5 5, 5 0, 0 0)",
            None,
            "POLYGON EMPTY",
            "GEOMETRYCOLLECTION EMPTY",
        ]
    )
    result = boundary(mixed)
    assert result.geometry[0].has_z
    assert result.geom_type.tolist()[:4] == ["LineString", "MultiLineString", "MultiPoint", "MultiPoint"]
    assert same_shape(result.geometry[2], "MULTIPOINT (0 0, 5 5)")
    assert result.geometry[3].is_empty
    assert result.geometry[4] is None
    assert result.is_empty.tolist()[5:] == [True, True]
    admit(result, Terms("outline", boundary, boundary.normalise({}), [mixed]))
    with pytest.raises(InputFailure, match="takes line and polygon geometry, got point"):
        boundary(layer(["POINT (0 0)"]))


@pytest.mark.parametrize(("max_area", "holes", "area"), [(None, 0, 400), (4, 1, 300), (3.9, 2, 296), (100, 0, 400)])
def test_holes_up_to_an_area(max_area: float | None, holes: int, area: float) -> None:
    with collecting() as notes:
        result = remove_holes(layer([HOLED, "POLYGON ((0 0, 1 0, 1 1, 0 0))"]), max_area=max_area)
    assert len(result.geometry[0].interiors) == holes
    assert result.area.tolist() == pytest.approx([area, 0.5])
    assert notes.facts["filled_holes"] == 2 - holes


def test_holes_of_multipolygons_and_rows_without_geometry() -> None:
    parts = f"MULTIPOLYGON ({HOLED.removeprefix('POLYGON ')}, EMPTY, ((30 0, 34 0, 34 4, 30 0)))"
    rows = layer([parts, None, "POLYGON EMPTY", "POINT EMPTY"])
    with collecting() as notes:
        result = remove_holes(rows)
    assert result.geometry[0].geom_type == "MultiPolygon"
    assert result.geometry[0].area == pytest.approx(408)
    assert notes.facts["filled_holes"] == 2
    assert wkts(result)[1:] == [None, "POLYGON EMPTY", "POINT EMPTY"]


def test_an_island_in_a_hole_becomes_one_with_what_fills_it() -> None:
    atoll = layer([f"MULTIPOLYGON ({HOLED.removeprefix('POLYGON ')}, ((7 7, 9 7, 9 9, 7 9, 7 7)))"])
    result = remove_holes(atoll)
    assert result.geometry[0].is_valid
    assert same_shape(result.geometry[0], shapely.box(0, 0, 20, 20))
    admit(result, Terms("filled", remove_holes, remove_holes.normalise({}), [atoll]))
    small = remove_holes(atoll, max_area=10)
    assert small.geometry[0].area == pytest.approx(400 - 100 + 4)


def test_area_of_holes_in_degrees_is_refused() -> None:
    holed: Any = layer([HOLED], crs=4326)
    assert not remove_holes(holed).geometry[0].interiors
    with pytest.raises(InputFailure, match="degrees"):
        remove_holes(holed, max_area=1)


def test_z_and_m_of_the_rings_stay() -> None:
    ring = "(0 0 1 5, 9 0 1 6, 9 9 2 7, 0 9 2 8, 0 0 1 5), (1 1 1 1, 2 1 1 1, 2 2 1 1, 1 1 1 1)"
    assert wkts(remove_holes(layer([f"POLYGON ZM ({ring})"]))) == [
        shapely.normalize(shapely.from_wkt(f"POLYGON ZM ({ring.partition(', (')[0]})")).wkt
    ]
