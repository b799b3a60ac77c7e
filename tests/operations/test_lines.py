"""Lines: merged, cut to a part, taken apart into segments, and the faces that they enclose."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import CRS, layer, wkts
from shapely.ops import substring

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.lines import explode_lines, line_merge, line_substring, polygonize


def texts(result: gpd.GeoDataFrame) -> list[str | None]:
    """The geometries as text, as they are."""
    return [None if shape is None else shape.wkt for shape in result.geometry]


def test_lines_merge_where_two_meet() -> None:
    result = line_merge(
        layer(
            [
                "MULTILINESTRING ((0 0, 1 0), (1 0, 2 0))",
                "MULTILINESTRING ((0 0, 1 0), (1 0, 2 0), (1 0, 1 1))",
                "LINESTRING M (0 0 4, 1 0 5)",
                None,
                "MULTILINESTRING EMPTY",
                "LINESTRING EMPTY",
                "MULTILINESTRING Z ((0 0 1, 1 0 2), (5 5 1, 1 0 2))",
            ]
        )
    )
    assert result["id"].tolist() == list(range(7))
    found = texts(result)
    assert found[0] == "LINESTRING (0 0, 1 0, 2 0)"
    assert shapely.get_num_geometries(result.geometry[1]) == 3
    assert found[2:6] == ["LINESTRING M (0 0 4, 1 0 5)", None, "MULTILINESTRING EMPTY", "LINESTRING EMPTY"]
    assert wkts(result)[6] == "LINESTRING Z (0 0 1, 1 0 2, 5 5 1)"


def test_directed_merging_turns_no_line() -> None:
    heads = layer(["MULTILINESTRING ((0 0, 1 0), (2 0, 1 0))"])
    assert texts(line_merge(heads)) == ["LINESTRING (0 0, 1 0, 2 0)"]
    assert shapely.get_num_geometries(line_merge(heads, directed=True).geometry[0]) == 2


def test_merging_does_not_lose_m() -> None:
    with pytest.raises(InputFailure, match="has M values, which would be lost: row 1"):
        line_merge(layer(["LINESTRING M (0 0 4, 1 0 5)", "MULTILINESTRING M ((0 0 1, 1 0 2), (1 0 2, 2 0 3))"]))


LONG = ["LINESTRING Z (0 0 0, 10 0 10)", "MULTILINESTRING ((0 0, 2 0, 4 0), (10 0, 16 0))", None, "LINESTRING EMPTY"]


@pytest.mark.parametrize(
    ("start", "end", "first", "second"),
    [
        (2, 5, "LINESTRING Z (2 0 2, 5 0 5)", "MULTILINESTRING ((2 0, 4 0), (10 0, 11 0))"),
        (5, 2, "LINESTRING Z (5 0 5, 2 0 2)", "MULTILINESTRING ((11 0, 10 0), (4 0, 2 0))"),
        (-4, -1, "LINESTRING Z (6 0 6, 9 0 9)", "LINESTRING (12 0, 15 0)"),
        (-100, 100, "LINESTRING Z (0 0 0, 10 0 10)", "MULTILINESTRING ((0 0, 2 0, 4 0), (10 0, 16 0))"),
        (4, 100, "LINESTRING Z (4 0 4, 10 0 10)", "LINESTRING (10 0, 16 0)"),
        (3, 3, "LINESTRING EMPTY", "LINESTRING EMPTY"),
        (20, 30, "LINESTRING EMPTY", "LINESTRING EMPTY"),
    ],
)
def test_part_of_a_line(start: float, end: float, first: str, second: str) -> None:
    assert texts(line_substring(layer(LONG), start=start, end=end)) == [first, second, None, "LINESTRING EMPTY"]


def test_shares_of_the_length_and_columns() -> None:
    halves = line_substring(layer(LONG), start=0.5, end=1, normalized=True)
    assert texts(halves)[:2] == ["LINESTRING Z (5 0 5, 10 0 10)", "LINESTRING (11 0, 16 0)"]
    lines = layer(["LINESTRING M (0 0 0, 10 0 20)", "LINESTRING (0 0, 10 0)"], a=[1, 4], b=[2.5, 2])
    assert texts(line_substring(lines, start="a", end="b")) == [
        "LINESTRING M (1 0 2, 2.5 0 5)",
        "LINESTRING (4 0, 2 0)",
    ]
    with pytest.raises(InputFailure, match="no column 'c'"):
        line_substring(lines, start="c", end="b")
    with pytest.raises(InputFailure, match="degrees"):
        line_substring(layer(LONG, crs=4326), start=0, end=1)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=8, unique=True),
    st.floats(-60, 60),
    st.floats(-60, 60),
)
def test_part_is_what_shapely_cuts_out(places: list[tuple[int, int]], start: float, end: float) -> None:
    line = shapely.LineString(places)
    result = line_substring(gpd.GeoDataFrame(geometry=[line], crs=CRS), start=start, end=end).geometry[0]
    expected = substring(line, start, end)
    if expected.length < 1e-12:
        assert result.length < 1e-9
        return
    assert result.is_valid
    assert result.length == pytest.approx(expected.length, abs=1e-9)
    assert shapely.hausdorff_distance(result, expected) < 1e-9
    assert shapely.distance(shapely.get_point(result, 0), shapely.get_point(expected, 0)) < 1e-9


def test_segments_of_lines_and_rings() -> None:
    shapes = layer(
        [
            "MULTILINESTRING Z ((0 0 1, 1 0 2, 1 0 9, 1 1 3), (5 5 5, 6 6 6))",
            "POLYGON ((0 0, 9 0, 0 9, 0 0), (1 1, 2 1, 1 2, 1 1))",
            None,
            "POLYGON EMPTY",
            "POINT (1 1)",
            "GEOMETRYCOLLECTION (POINT (3 3), LINESTRING M (0 0 1, 1 0 2))",
        ]
    )
    with collecting() as notes:
        result = explode_lines(shapes)
    assert result["id"].tolist() == [0] * 3 + [1] * 6 + [2, 3, 5]
    assert texts(result)[:4] == [
        "LINESTRING Z (0 0 1, 1 0 2)",
        "LINESTRING Z (1 0 9, 1 1 3)",
        "LINESTRING Z (5 5 5, 6 6 6)",
        "LINESTRING (0 0, 9 0)",
    ]
    assert texts(result)[8:] == ["LINESTRING (1 2, 1 1)", None, "LINESTRING EMPTY", "LINESTRING M (0 0 1, 1 0 2)"]
    assert notes.facts == {"dropped_parts": 2, "segments_without_length": 1}
    assert result[result["id"] != 3].geometry.dropna().is_valid.all()


CROSSING = ["LINESTRING (0 1, 5 1)", "LINESTRING (0 4, 5 4)", "LINESTRING (1 0, 1 5)", "LINESTRING (4 0, 4 5)"]


def test_faces_between_crossing_lines() -> None:
    with collecting() as notes:
        result = polygonize(layer([*CROSSING, None, "LINESTRING (2 2, 3 2, 3 3, 2 3, 2 2)"]))
    assert result.columns.tolist() == ["geometry"]
    assert result.crs == CRS
    assert result.area.tolist() == [8, 1]  # the inner square is a hole of the outer one, and a face
    assert notes.facts == {"cut_edges": 0, "dangles": 8, "invalid_rings": 0}
    assert len(polygonize(layer(CROSSING), node=False)) == 0


def test_faces_of_lines_that_share_their_ends() -> None:
    ends = layer(["LINESTRING Z (0 0 1, 2 0 2, 2 2 3)", "LINESTRING Z (2 2 3, 0 2 4, 0 0 1)"])
    for node in (True, False):
        result = polygonize(ends, node=node)
        assert result.area.tolist() == [4]
        assert sorted(set(shapely.get_coordinates(result.geometry.values, include_z=True)[:, 2])) == [1, 2, 3, 4]


def test_faces_complaints() -> None:
    with pytest.raises(InputFailure, match="has M values"):
        polygonize(layer(["LINESTRING M (0 0 1, 1 1 2)"]))
    with pytest.raises(InputFailure, match="takes line geometry, got polygon"):
        polygonize(layer(["POLYGON ((0 0, 1 0, 0 1, 0 0))"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=5), min_size=1))
def test_faces_do_not_overlap(tracks: list[list[tuple[int, int]]]) -> None:
    lines = gpd.GeoDataFrame(geometry=[shapely.LineString(track) for track in tracks], crs=CRS)
    faces = polygonize(lines).geometry.values
    assert np.sum(shapely.area(faces)) == pytest.approx(shapely.area(shapely.union_all(faces)), abs=1e-9)
