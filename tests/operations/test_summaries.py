"""summarize, summarize_within, sum_line_lengths: figures worked out by hand, shares, what is missing."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import pandas as pd
import pytest
from sample_layers import BIG, layer, rich

from geocairn.failure import InputFailure
from geocairn.operations.summaries import sum_line_lengths, summarize, summarize_within

BLOCKS = [
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    "POLYGON ((4 0, 8 0, 8 4, 4 4, 4 0))",
    "POLYGON ((50 50, 51 50, 51 51, 50 51, 50 50))",
]


def values(column: Any) -> list[Any]:
    return [None if pd.isna(value) else value for value in column]


def test_groups_in_order_of_appearance_with_null_as_one() -> None:
    some = layer(["POINT (0 0)"] * 5, k=["b", None, "a", "b", None], n=pd.array([1, 2, None, BIG, 3], dtype="Int64"))
    result = summarize(some, by="k", statistics={"n": ["sum", "max", "count"], "id": "first"}, count_column="rows")
    assert type(result) is pd.DataFrame
    assert list(result.columns) == ["k", "n_sum", "n_max", "n_count", "id", "rows"]
    assert values(result["k"]) == ["b", None, "a"]
    assert values(result["n_sum"]) == [BIG + 1, 5, None]
    assert values(result["n_count"]) == [2, 2, 0]
    assert result["rows"].tolist() == [2, 2, 1]


def test_a_geometry_for_each_group() -> None:
    some = layer(["POINT (0 0)", None, "MULTIPOINT ((1 1), (2 2))", "POINT EMPTY"], k=["a", "b", "a", "b"])
    first = summarize(some, by="k", statistics={}, geometry="first")
    assert first.geometry.iloc[0].wkt == "POINT (0 0)"
    assert first.geometry.isna().tolist() == [False, True]
    collected = summarize(some, by="k", statistics={"id": "max"}, geometry="collect")
    assert collected.geometry.iloc[0].wkt == "MULTIPOINT ((0 0), (1 1), (2 2))"
    assert collected.geometry.isna().tolist() == [False, True]
    assert collected.crs == some.crs
    mixed = layer(["POINT (0 0)", "LINESTRING (0 0, 1 1)"], k=["a", "a"])
    with pytest.raises(InputFailure, match="mixes kinds"):
        summarize(mixed, by="k", statistics={}, geometry="collect")


def test_types_of_every_column_and_of_no_rows() -> None:
    some = rich(["POINT (0 0)"] * 4)
    functions = {"big": "max", "when": "min", "day": "first", "text": "last", "arrow": "nunique", "real": "mean"}
    full = summarize(some, by=["kind", "flag"], statistics=functions)
    none = summarize(some.iloc[:0], by=["kind", "flag"], statistics=functions)
    assert len(none) == 0
    assert list(map(str, none.dtypes)) == list(map(str, full.dtypes))
    for name in ("kind", "flag", "big", "when", "day", "text"):
        assert full.dtypes[name] == some.dtypes[name], name


def test_a_table_is_summed_up_and_what_cannot_be_is_told() -> None:
    table = pd.DataFrame({"k": ["a", "a"], "n": [1, 2]})
    assert summarize(table, by="k", statistics={"n": "sum"}).to_dict("list") == {"k": ["a"], "n": [3]}
    with pytest.raises(InputFailure, match="a table has no geometry"):
        summarize(table, by="k", statistics={}, geometry="first")
    with pytest.raises(InputFailure, match="sum is for numbers"):
        summarize(table, by="n", statistics={"k": "sum"})
    with pytest.raises(InputFailure, match="a column of by"):
        summarize(table, by="k", statistics={"k": "count"})
    with pytest.raises(InputFailure, match="no column 'm'"):
        summarize(table, by="k", statistics={"m": "sum"})
    with pytest.raises(InputFailure, match="two columns 'n'"):
        summarize(table, by="k", statistics={"n": "sum"}, count_column="n")
    promised = summarize.promised
    assert promised(summarize.normalise({"by": "k", "statistics": {}})).kind == "table"
    assert promised(summarize.normalise({"by": "k", "statistics": {}, "geometry": "first"})).kind == "same"


def test_points_within_count_for_every_polygon_that_they_touch() -> None:
    places = layer(["POINT (1 1)", "POINT (4 2)", "POINT (9 9)", None], n=pd.array([10, BIG, 1, 5], dtype="Int64"))
    result = summarize_within(layer(BLOCKS), places, statistics={"n": ["sum", "min"]}, count_column="places")
    assert list(result.columns) == ["id", "geometry", "n_sum", "n_min", "places"]
    assert values(result["n_sum"]) == [BIG + 10, BIG, None]
    assert values(result["n_min"]) == [10, BIG, None]
    assert result["places"].tolist() == [2, 1, 0]
    assert str(result.dtypes["n_sum"]) == "Int64"


def test_what_only_touches_does_not_count() -> None:
    neighbours = layer(["POLYGON ((2 0, 4 0, 4 4, 2 4, 2 0))", "POLYGON ((3 0, 5 0, 5 4, 3 4, 3 0))"], n=[1, 2])
    result = summarize_within(layer(BLOCKS), neighbours, statistics={"n": "sum"})
    assert values(result["n"]) == [3, 2, None]
    lines = layer(["LINESTRING (4 0, 4 4)", "LINESTRING (3 1, 5 1)"], n=[1, 2])
    assert summarize_within(layer(BLOCKS), lines, statistics={"n": "sum"})["count"].tolist() == [1, 1, 0]


def test_shares_of_area() -> None:
    fields = layer(
        [
            "POLYGON ((2 0, 6 0, 6 4, 2 4, 2 0))",
            "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))",
            "POLYGON ((7 0, 11 0, 11 1, 7 1, 7 0))",
        ],
        crop=[100, 10, 40],
        name=["x", "y", "z"],
    )
    result = summarize_within(
        layer(BLOCKS), fields, statistics={"crop": ["sum", "mean", "max"], "name": "first"}, weight="area"
    )
    assert values(result["crop_sum"]) == [60.0, 60.0, None]
    # (100 * 0.5 + 10 * 1) / 1.5, (100 * 0.5 + 40 * 0.25) / 0.75
    assert values(result["crop_mean"]) == [40.0, 80.0, None]
    assert values(result["crop_max"]) == [100, 100, None]
    assert values(result["name"]) == ["x", "x", None]
    assert result["count"].tolist() == [2, 2, 0]
    assert fields["crop"].sum() - 40 * 0.75 == result["crop_sum"].sum()


def test_shares_of_length_and_missing_values() -> None:
    lines = layer(["LINESTRING (0 1, 8 1)", "LINESTRING (1 2, 3 2)"], n=[8.0, None])
    result = summarize_within(layer(BLOCKS), lines, statistics={"n": ["sum", "count"]}, weight="length")
    assert values(result["n_sum"]) == [4.0, 4.0, None]
    assert values(result["n_count"]) == [1, 1, None]
    assert result["count"].tolist() == [2, 1, 0]


def test_what_has_no_share_is_refused() -> None:
    blocks = layer(BLOCKS)
    with pytest.raises(InputFailure, match="weight: area is for polygons"):
        summarize_within(blocks, layer(["POINT (1 1)"], n=[1]), statistics={"n": "sum"}, weight="area")
    with pytest.raises(InputFailure, match="median of 'n' has no weighted form"):
        summarize_within(blocks, blocks.assign(n=1), statistics={"n": "median"}, weight="area")
    degrees = blocks.set_crs(4326, allow_override=True)
    with pytest.raises(InputFailure, match="in degrees"):
        summarize_within(degrees, degrees, statistics={"id": "sum"}, weight="area")
    with pytest.raises(InputFailure, match="column 'id' already"):
        summarize_within(blocks, blocks, statistics={"id": "sum"})
    bow_tie = layer(["POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"])
    with pytest.raises(InputFailure, match=r"invalid polygons: row 0"):
        summarize_within(bow_tie, layer(["POINT (1 1)"], n=[1]), statistics={"n": "sum"})


def test_line_lengths() -> None:
    roads = layer(
        [
            "LINESTRING (-1 1, 9 1)",
            "LINESTRING (4 0, 4 4)",
            "MULTILINESTRING ((1 2, 2 2), (2 3, 6 3))",
            "LINESTRING (4 4, 4 9)",
            None,
        ]
    )
    result = sum_line_lengths(layer(BLOCKS), roads, length_column="road", count_column="roads")
    # The border counts for both; the fourth only touches.
    assert result["road"].tolist() == [4 + 4 + 1 + 2, 4 + 4 + 2, 0]
    assert result["roads"].tolist() == [4, 4, 0]
    assert str(result.dtypes["roads"]) == "Int64"


def test_line_lengths_need_metres_and_free_names() -> None:
    degrees = [layer(geometry, crs="EPSG:4326") for geometry in (BLOCKS, ["LINESTRING (0 0, 1 1)"])]
    with pytest.raises(InputFailure, match="in degrees"):
        sum_line_lengths(*degrees)
    lines = layer(["LINESTRING (0 0, 1 1)"])
    with pytest.raises(InputFailure, match="column 'length' already"):
        sum_line_lengths(layer(BLOCKS, length=[1, 2, 3]), lines)
    with pytest.raises(InputFailure, match="takes line geometry, got point"):
        sum_line_lengths(layer(BLOCKS), layer(["POINT (0 0)"]))
    nothing = sum_line_lengths(layer([None, "POLYGON EMPTY"]), lines)
    assert isinstance(nothing, gpd.GeoDataFrame)
    assert nothing["length"].tolist() == [0, 0]
