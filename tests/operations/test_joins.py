"""spatial_join, nearest_join, spatial_filter: predicates, ties, order, types."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import BIG, layer

from geocairn.failure import InputFailure
from geocairn.operations.joins import nearest_join, spatial_filter, spatial_join

PREDICATES = (
    "intersects",
    "within",
    "contains",
    "contains_properly",
    "overlaps",
    "crosses",
    "touches",
    "covers",
    "covered_by",
    "equals",
    "disjoint",
)
SHAPES = [
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    "POLYGON ((1 1, 2 1, 2 2, 1 2, 1 1))",
    "POLYGON ((4 0, 6 0, 6 4, 4 4, 4 0))",
    "LINESTRING (-1 2, 9 2)",
    "POINT (1 1)",
    None,
    "POINT (0 4)",
    "POLYGON EMPTY",
    "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))",
]


def pairs(result: gpd.GeoDataFrame) -> list[tuple[int, int]]:
    return list(zip(result["id_left"].astype(int), result["id_right"].astype(int), strict=True))


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("swap", [False, True])
def test_every_predicate_as_shapely_has_it(predicate: str, swap: bool) -> None:
    left, right = layer(SHAPES), layer(SHAPES[:4])
    if swap:
        left, right = right, left
    expected = [
        (i, j)
        for i, a in enumerate(left.geometry)
        for j, b in enumerate(right.geometry)
        if a is not None and b is not None and not a.is_empty and not b.is_empty and getattr(shapely, predicate)(a, b)
    ]
    assert pairs(spatial_join(left, right, predicate=predicate, how="inner")) == expected
    chosen = spatial_filter(left, right, predicate=predicate)["id"].tolist()
    if predicate != "disjoint":
        assert chosen == sorted({i for i, _ in expected})
    rest = spatial_filter(left, right, predicate=predicate, invert=True)["id"].tolist()
    assert sorted(chosen + rest) == left["id"].tolist()


def test_dwithin_needs_a_distance_and_a_plane() -> None:
    left, right = layer(["POINT (0 0)", "POINT (9 0)"]), layer(["POINT (3 0)"])
    assert pairs(spatial_join(left, right, predicate="dwithin", distance=3, how="inner")) == [(0, 0)]
    assert spatial_filter(left, right, predicate="dwithin", distance=6)["id"].tolist() == [0, 1]
    with pytest.raises(InputFailure, match="dwithin needs a distance"):
        spatial_join(left, right, predicate="dwithin")
    with pytest.raises(InputFailure, match="distance goes with predicate dwithin"):
        spatial_filter(left, right, distance=3)
    with pytest.raises(InputFailure, match="in degrees"):
        spatial_join(
            left.set_crs(4326, allow_override=True),
            right.set_crs(4326, allow_override=True),
            predicate="dwithin",
            distance=3,
        )
    degrees = spatial_join(left.set_crs(4326, allow_override=True), right.set_crs(4326, allow_override=True))
    assert len(degrees) == 2


def test_left_join_keeps_rows_and_integers() -> None:
    left = layer(["POINT (1 1)", None, "POINT (50 50)", "POINT (3 3)"])
    right = layer(
        ["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"],
        code=np.array([BIG, BIG + 2]),
        ok=[True, False],
    )
    result = spatial_join(left, right)
    assert result["id_left"].tolist() == [0, 0, 1, 2, 3]
    assert result["code"].astype(object).where(result["code"].notna(), None).tolist() == [
        BIG,
        BIG + 2,
        None,
        None,
        BIG + 2,
    ]
    assert (str(result["code"].dtype), str(result["ok"].dtype)) == ("Int64", "boolean")
    assert str(spatial_join(left.iloc[[0]], right)["code"].dtype) == "Int64"
    inner = spatial_join(left, right, how="inner", columns="code")
    assert inner.columns.tolist() == ["id", "geometry", "code"]
    assert str(inner["code"].dtype) == "int64"


def test_match_first_and_largest() -> None:
    left = layer(["POLYGON ((0 0, 10 0, 10 1, 0 1, 0 0))", "POLYGON ((90 0, 91 0, 91 1, 90 0))"])
    right = layer(
        [
            "POLYGON ((0 0, 2 0, 2 1, 0 1, 0 0))",
            "POLYGON ((2 0, 6 0, 6 1, 2 1, 2 0))",
            "POLYGON ((6 0, 10 0, 10 1, 6 1, 6 0))",
        ]
    )
    first = spatial_join(left, right, match="first")
    assert first["id_right"].astype(object).where(first["id_right"].notna(), None).tolist() == [0, None]
    assert (
        spatial_join(left, right, match="largest")["id_right"].tolist()[0] == 1
    )  # as large as the third, and before it
    lines = layer(["LINESTRING (0 0, 1 0)", "LINESTRING (0 0, 9 0)"])
    assert spatial_join(left[:1], lines, match="largest")["id_right"].tolist() == [1]
    assert spatial_join.promised(spatial_join.normalise({"match": "largest"})).rows == "each"
    assert spatial_join.promised(spatial_join.normalise({"match": "first", "how": "inner"})).rows == "some"
    with pytest.raises(InputFailure, match="largest compares"):
        spatial_join(left, right, match="largest", predicate="disjoint")


def test_wrong_columns_and_names() -> None:
    left, right = layer(["POINT (1 1)"], name=["l"]), layer(["POINT (1 1)"], name=["r"])
    with pytest.raises(InputFailure, match="right has no column 'naem'; did you mean 'name'"):
        spatial_join(left, right, columns=["naem"])
    assert spatial_join(left, right, columns="name").columns.tolist() == ["id", "name_left", "geometry", "name_right"]
    with pytest.raises(InputFailure, match="a column 'name_left' already"):
        nearest_join(left, right, distance_column="name_left")
    with pytest.raises(InputFailure, match="differ in CRS"):
        spatial_join(left, right.to_crs(3857))


def test_nearest_ties_limits_and_rows_without_partner() -> None:
    left = layer(["POINT (0 0)", None, "POINT (100 0)", "POINT (5 0)"])
    right = layer(["POINT (2 0)", "POINT (-2 0)", None, "POINT (0 2)", "POINT (8 0)"], code=np.arange(5))
    result = nearest_join(left, right, max_distance=3)
    assert result["code"].astype(object).where(result["code"].notna(), None).tolist() == [0, None, None, 0]
    assert result["distance"].tolist()[0] == 2
    assert result["distance"].isna().tolist() == [False, True, True, False]
    assert str(result["code"].dtype) == "Int64"
    two = nearest_join(left, right, k=2, distance_column="far", columns="code")
    assert list(zip(two["id"], two["code"].fillna(-1), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, -1),
        (2, 4),
        (2, 0),
        (3, 0),
        (3, 4),
    ]
    every = nearest_join(left[:1], right, k=99)
    assert every["code"].tolist() == [0, 1, 3, 4]
    with pytest.raises(InputFailure, match="degrees"):
        nearest_join(left.to_crs(4326), right.to_crs(4326))


def test_nearest_with_nothing_on_the_right() -> None:
    left = layer(["POINT (0 0)"])
    for right in (layer([]), layer([None, "POINT EMPTY"])):
        result = nearest_join(left, right, k=3)
        assert len(result) == 1
        assert result["distance"].isna().all()


place = st.tuples(st.integers(-20, 20), st.integers(-20, 20))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(place, min_size=1, max_size=12),
    st.lists(place, min_size=1, max_size=12),
    st.integers(1, 6),
    st.none() | st.integers(0, 30),
)
def test_nearest_as_by_hand(a: Any, b: Any, k: int, limit: int | None) -> None:
    left = gpd.GeoDataFrame({"l": range(len(a))}, geometry=shapely.points(a), crs=5070)
    right = gpd.GeoDataFrame({"r": range(len(b))}, geometry=shapely.points(b), crs=5070)
    result = nearest_join(left, right, k=k, max_distance=limit)
    expected = []
    for i, p in enumerate(a):
        near = sorted((np.hypot(p[0] - q[0], p[1] - q[1]), j) for j, q in enumerate(b))[:k]
        near = [(d, j) for d, j in near if limit is None or d <= limit]
        expected += [(i, j) for _, j in near] or [(i, None)]
    found = [(i, None if pd.isna(j) else int(j)) for i, j in zip(result["l"], result["r"], strict=True)]
    assert found == expected
