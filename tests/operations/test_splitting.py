"""split: lines by points and lines, polygons by lines; what each row's pieces are, and what stays whole."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import CRS, layer, same_shape

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.operations.splitting import split


def pieces(shapes: list[str | None], splitter: list[str | None], **parameters: Any) -> list[tuple[int, str | None]]:
    """Row and geometry of each piece."""
    result = split(layer(shapes), layer(splitter), **parameters)
    return [
        (int(row), None if shape is None else shape.wkt)
        for row, shape in zip(result["id"], result.geometry, strict=True)
    ]


def of(row: int, *texts: str) -> list[tuple[int, str]]:
    return [(row, f"LINESTRING {text}") for text in texts]


FLAT = ["LINESTRING (0 0, 5 0, 10 0)"]


@pytest.mark.parametrize(
    ("splitter", "expected"),
    [
        (["LINESTRING (2 -1, 2 1)"], ["(0 0, 2 0)", "(2 0, 5 0, 10 0)"]),
        (["LINESTRING (2 -1, 2 0)"], ["(0 0, 2 0)", "(2 0, 5 0, 10 0)"]),  # touches
        (["LINESTRING (5 -1, 5 1)", "POINT (5 0)"], ["(0 0, 5 0)", "(5 0, 10 0)"]),  # at a vertex, twice
        (["LINESTRING (0 -1, 0 1)", "POINT (10 0)"], ["(0 0, 5 0, 10 0)"]),  # at the ends
        (["POLYGON ((2 -1, 8 -1, 8 1, 2 1, 2 -1))"], ["(0 0, 2 0)", "(2 0, 5 0, 8 0)", "(8 0, 10 0)"]),
        (["MULTIPOINT (8 0, 3 0)", "POINT (3 0.5)"], ["(0 0, 3 0)", "(3 0, 5 0, 8 0)", "(8 0, 10 0)"]),
        ([None, "LINESTRING EMPTY", "LINESTRING (0 5, 10 5)"], ["(0 0, 5 0, 10 0)"]),
        # in common: cut at its ends, whatever vertices it has
        (["LINESTRING (2 0, 3 0, 7 0)"], ["(0 0, 2 0)", "(2 0, 5 0, 7 0)", "(7 0, 10 0)"]),
        (["LINESTRING (7 3, 7 0, 4 0, 2 0, 2 -3)"], ["(0 0, 2 0)", "(2 0, 5 0, 7 0)", "(7 0, 10 0)"]),
        (["LINESTRING (-5 0, 20 0)"], ["(0 0, 5 0, 10 0)"]),
    ],
)
def test_a_line(splitter: list[str | None], expected: list[str]) -> None:
    assert pieces(FLAT, splitter) == of(0, *expected)


def test_a_line_that_crosses_itself_is_cut_on_both_ways_and_only_by_others() -> None:
    loop = ["LINESTRING (0 0, 4 4, 4 0, 0 4)"]
    assert pieces(loop, loop) == of(0, "(0 0, 4 4, 4 0, 0 4)")
    assert pieces(loop, ["LINESTRING (2 0, 2 9)"]) == of(0, "(0 0, 2 2)", "(2 2, 4 4, 4 0, 2 2)", "(2 2, 0 4)")
    assert pieces(loop, ["POINT (2 2)"]) == of(0, "(0 0, 2 2)", "(2 2, 4 4, 4 0, 2 2)", "(2 2, 0 4)")
    assert len(pieces(loop, ["LINESTRING (0 1, 9 1)"])) == 4


def test_a_layer_is_split_by_itself() -> None:
    network = ["LINESTRING (0 0, 5 0, 10 0)", "LINESTRING (2 -2, 2 2)", "LINESTRING (20 0, 21 0)"]
    assert pieces(network, [*network]) == [
        *of(0, "(0 0, 2 0)", "(2 0, 5 0, 10 0)"),
        *of(1, "(2 -2, 2 0)", "(2 0, 2 2)"),
        *of(2, "(20 0, 21 0)"),
    ]


def test_a_closed_line_keeps_its_start() -> None:
    square = ["LINESTRING (0 0, 4 0, 4 4, 0 4, 0 0)"]
    assert pieces(square, ["LINESTRING (2 -1, 2 5)"]) == of(0, "(0 0, 2 0)", "(2 0, 4 0, 4 4, 2 4)", "(2 4, 0 4, 0 0)")
    assert pieces(square, ["POINT (0 0)"]) == of(0, "(0 0, 4 0, 4 4, 0 4, 0 0)")


def test_rows_and_parts() -> None:
    shapes = ["MULTILINESTRING ((0 0, 9 0), (0 9, 9 9))", None, "LINESTRING EMPTY", "MULTILINESTRING ((0 3, 1 3))"]
    assert pieces(shapes, ["POINT (5 0)"]) == [
        *of(0, "(0 0, 5 0)", "(5 0, 9 0)", "(0 9, 9 9)"),
        (1, None),
        (2, "LINESTRING EMPTY"),
        (3, "MULTILINESTRING ((0 3, 1 3))"),
    ]


def test_z_and_m_are_interpolated_along_the_line() -> None:
    shapes = ["LINESTRING ZM (0 0 0 10, 9 0 9 19)", "LINESTRING M (0 0 10, 9 0 19)", "LINESTRING (0 0, 9 0)"]
    assert [text for _, text in pieces(shapes, ["LINESTRING Z (3 -1 77, 3 1 77)"])] == [
        "LINESTRING ZM (0 0 0 10, 3 0 3 13)",
        "LINESTRING ZM (3 0 3 13, 9 0 9 19)",
        "LINESTRING M (0 0 10, 3 0 13)",
        "LINESTRING M (3 0 13, 9 0 19)",
        "LINESTRING (0 0, 3 0)",
        "LINESTRING (3 0, 9 0)",
    ]


def test_vertices_in_one_place_leave_no_piece_without_length() -> None:
    stuttering = ["LINESTRING (0 0, 0 0, 5 0, 5 0, 9 0, 9 0)"]
    result = split(layer(stuttering), layer(["POINT (5 0)", "POINT (0 0)", "POINT (9 0)"]))
    assert result.length.tolist() == [5, 4]
    assert result.geometry.is_valid.all()


def test_points_off_the_line() -> None:
    slope = layer(["LINESTRING (500000 5000000, 500010 5000003)"])
    on_it = slope.geometry.interpolate([3.3], normalized=False)
    assert len(split(slope, gpd.GeoDataFrame(geometry=on_it, crs=CRS))) == 2
    assert pieces(FLAT, ["POINT (3 1)"]) == of(0, "(0 0, 5 0, 10 0)")
    assert pieces(FLAT, ["POINT (3 1)"], tolerance=1) == of(0, "(0 0, 3 0)", "(3 0, 5 0, 10 0)")
    with pytest.raises(InputFailure, match="degrees"):
        split(layer(FLAT, crs=4326), layer(["POINT (3 1)"], crs=4326), tolerance=1)
    assert len(split(layer(FLAT, crs=4326), layer(["POINT (3 0)"], crs=4326))) == 2


RING = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (4 4, 6 4, 6 6, 4 6, 4 4))"


def test_a_polygon_with_a_hole_and_one_of_two_parts() -> None:
    parts = "MULTIPOLYGON (((0 20, 2 20, 2 22, 0 22, 0 20)), ((4 -1, 6 -1, 6 0, 4 0, 4 -1)))"
    result = split(layer([RING, parts]), layer(["LINESTRING (5 -5, 5 15)"]))
    assert result["id"].tolist() == [0, 0, 1, 1, 1]
    assert result.area.tolist() == [48, 48, 4, 1, 1]
    assert same_shape(result.geometry[0], "POLYGON ((0 0, 5 0, 5 4, 4 4, 4 6, 5 6, 5 10, 0 10, 0 0))")


def test_what_does_not_part_a_polygon_leaves_it_as_it_was() -> None:
    for line in (
        "LINESTRING (5 -5, 5 3)",
        "LINESTRING (5 -5, 5 5)",
        "LINESTRING (0 0, 10 0)",
        "LINESTRING (0 -1, 0 0)",
    ):
        result = split(layer([RING, None, "POLYGON EMPTY"]), layer([line]))
        assert [None if shape is None else shape.wkt for shape in result.geometry] == [RING, None, "POLYGON EMPTY"]


def test_a_polygon_by_the_outline_of_another() -> None:
    result = split(
        layer(["POLYGON Z ((0 0 1, 10 0 2, 10 10 3, 0 10 4, 0 0 1))"]),
        layer(["POLYGON ((5 5, 15 5, 15 15, 5 15, 5 5))"]),
    )
    assert result.area.tolist() == [75, 25]
    assert np.isfinite(shapely.get_coordinates(result.geometry.values, include_z=True)).all()


def test_complaints() -> None:
    with pytest.raises(InputFailure, match="points cut lines, not polygons"):
        split(layer([RING]), layer(["POINT (1 1)"]))
    bow_tie = "POLYGON ((20 0, 24 4, 24 0, 20 4, 20 0))"
    with pytest.raises(InputFailure, match=r"invalid polygons: row 1 .*make_valid"):
        split(layer([RING, bow_tie]), layer(["LINESTRING (0 1, 30 1)"]))
    assert len(split(layer([RING, bow_tie]), layer(["LINESTRING (0 1, 11 1)"]))) == 3
    with pytest.raises(InputFailure, match="has M values, which would be lost: row 0"):
        split(layer(["POLYGON M ((0 0 1, 4 0 2, 0 4 3, 0 0 1))"]), layer(["LINESTRING (-1 1, 9 1)"]))
    with pytest.raises(InputFailure, match="got point"):
        split(layer(["POINT (1 1)"]), layer(["LINESTRING (0 0, 1 1)"]))


TRACK = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=6, unique=True)


@settings(max_examples=80, deadline=None)
@given(st.lists(TRACK, min_size=1, max_size=4), st.lists(TRACK, min_size=1, max_size=4))
def test_pieces_make_up_the_line_and_nothing_crosses_them(
    tracks: list[list[tuple[int, int]]], cutting: list[list[tuple[int, int]]]
) -> None:
    lines = gpd.GeoDataFrame(
        {"id": range(len(tracks))}, geometry=[shapely.LineString(track) for track in tracks], crs=CRS
    )
    blades = gpd.GeoDataFrame(geometry=[shapely.LineString(track) for track in cutting], crs=CRS)
    result = admit(split(lines, blades), Terms("split", split, None, (lines, blades))).layer
    lengths = result.length.groupby(result["id"]).sum()
    assert lengths.tolist() == pytest.approx(lines.length.tolist())
    for row, whole in zip(lines["id"], lines.geometry, strict=True):
        parts = result.geometry[result["id"] == row].tolist()
        joined = np.concatenate([shapely.get_coordinates(part)[bool(place) :] for place, part in enumerate(parts)])
        assert shapely.hausdorff_distance(shapely.LineString(joined), whole) < 1e-9
    assert not any(piece.crosses(blade) for piece in result.buffer(0).geometry for blade in blades.geometry)


@settings(max_examples=60, deadline=None)
@given(st.lists(TRACK, min_size=1, max_size=4))
def test_pieces_make_up_the_polygon(cutting: list[list[tuple[int, int]]]) -> None:
    squares = layer(["POLYGON ((3 3, 17 3, 17 17, 3 17, 3 3), (8 8, 12 8, 12 12, 8 12, 8 8))"])
    blades = gpd.GeoDataFrame(geometry=[shapely.LineString(track) for track in cutting], crs=CRS)
    result = admit(split(squares, blades), Terms("split", split, None, (squares, blades))).layer
    assert result.area.sum() == pytest.approx(squares.area.sum())
    assert result.union_all().area == pytest.approx(squares.area.sum())
    through = blades.intersection(squares.geometry[0]).length.sum() > 0
    assert through or len(result) == 1
