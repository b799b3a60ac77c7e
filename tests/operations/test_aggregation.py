"""dissolve and count_points: missing keys, aggregates and their types, coverages, boundaries, weights."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import BIG, layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.aggregation import count_points, dissolve

CELLS = [f"POLYGON (({x} 0, {x + 1} 0, {x + 1} 1, {x} 1, {x} 0))" for x in range(5)]


def test_missing_keys_are_a_group() -> None:
    cells = layer(CELLS, key=["b", None, "a", "b", None])
    result = dissolve(cells, by="key")
    assert result["key"].fillna("?").tolist() == ["b", "?", "a"]
    assert result.area.tolist() == [2, 2, 1]
    with collecting() as notes:
        fewer = dissolve(cells, by="key", keep_null_keys=False)
    assert fewer["key"].tolist() == ["b", "a"]
    assert notes.facts["rows_removed"] == 2
    two = dissolve(
        layer(CELLS, a=[1, 1, 2, 1, 2], b=pd.Categorical(["x", "x", None, "y", None], categories=["z", "y", "x"])),
        by=["a", "b"],
    )
    assert two["a"].tolist() == [1, 2, 1]
    assert two["b"].dtype.name == "category"


def test_all_rows_in_one() -> None:
    result = dissolve(layer([*CELLS, None]))
    assert result.columns.tolist() == ["geometry"]
    assert same_shape(result.geometry[0], "POLYGON ((0 0, 5 0, 5 1, 0 1, 0 0))")
    assert wkts(dissolve(layer([None, None], key=["a", "b"]), by="key")) == [None, None]


def test_aggregates_and_their_types() -> None:
    cells = layer(
        CELLS,
        key=["a", "a", "b", "b", "c"],
        big=pd.array([BIG, 1, None, 5, None], dtype="Int64"),
        n=np.array([1, 2, 3, 4, 5], dtype="int64"),
        kind=pd.Categorical(["u", "v", None, "u", None]),
        when=pd.to_datetime(["2026-01-01", None, "2026-03-01", "2026-02-01", None], format="ISO8601").tz_localize(
            "Europe/Paris"
        ),
        text=pd.array(["q", "p", None, "s", None], dtype="string[pyarrow]"),
    )
    result = dissolve(
        cells,
        by="key",
        aggregates={
            "big": "sum",
            "n": ["sum", "mean", "std", "median", "count", "nunique"],
            "kind": "first",
            "when": ["min", "last"],
            "text": ["first", "max"],
        },
    )
    assert result.columns.tolist() == [
        *("key", "big", "n_sum", "n_mean", "n_std", "n_median", "n_count", "n_nunique"),
        *("kind", "when_min", "when_last", "text_first", "text_max", "geometry"),
    ]
    assert result["big"].tolist()[:2] == [BIG + 1, 5]
    assert result["big"].isna().tolist() == [False, False, True]
    assert str(result["big"].dtype) == "Int64"
    assert str(result["n_sum"].dtype) == "int64"
    assert result["kind"].dtype.name == "category"
    assert result["kind"].tolist()[:2] == ["u", "u"]
    assert str(result["when_min"].dtype) == str(cells["when"].dtype)
    assert result["when_min"].dt.month.tolist()[:2] == [1, 2]
    assert str(result["text_max"].dtype) == str(cells["text"].dtype)
    assert result["text_first"].tolist()[:2] == ["q", "s"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"by": "kye"}, "no column 'kye'; did you mean 'key'"),
        ({"by": "key", "aggregates": {"text": "sum"}}, "sum is for numbers"),
        ({"by": "key", "aggregates": {"kind": "max"}}, "max cannot be taken of column 'kind'"),
        ({"by": "key", "aggregates": {"n": "average"}}, "aggregates"),
        ({"by": "key", "aggregates": {"m": "sum"}}, "no column 'm'"),
        ({"by": "key", "aggregates": {"key": "first"}}, "'key' is a column to dissolve by"),
        ({"by": "key", "aggregates": {"n": ["sum", "sum"]}}, "named twice"),
        ({"by": "key", "aggregates": {"geometry": "first"}}, "geometry column"),
        ({"method": "coverage", "grid_size": 1}, "grid_size goes with method unary"),
    ],
)
def test_dissolve_complaints(parameters: dict[str, Any], message: str) -> None:
    cells = layer(CELLS, key=list("aabbc"), text=list("vwxyz"), n=range(5), kind=pd.Categorical(list("uvuvu")))
    with pytest.raises(InputFailure, match=message):
        dissolve(cells, **parameters)


def test_coverage_is_checked_first() -> None:
    overlapping = layer(["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((1 0, 3 0, 3 2, 1 2, 1 0))"], key=["a", "a"])
    with pytest.raises(InputFailure, match=r"polygons of a group overlap.*use method unary"):
        dissolve(overlapping, by="key", method="coverage")
    assert dissolve(overlapping, by="key").area.tolist() == [6]
    apart = dissolve(overlapping.assign(key=["a", "b"]), by="key", method="coverage")
    assert apart.area.tolist() == [4, 4]
    cells = layer(CELLS, key=list("aabab"))
    for a, b in zip(
        dissolve(cells, by="key", method="coverage").geometry, dissolve(cells, by="key").geometry, strict=True
    ):
        assert same_shape(a, b)
    with pytest.raises(InputFailure, match="coverage is for polygons"):
        dissolve(layer(["POINT (0 0)"]), method="coverage")


def test_broken_and_mixed_geometry() -> None:
    with pytest.raises(InputFailure, match="invalid polygons: row 1"):
        dissolve(layer([CELLS[0], "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"]))
    mixed = layer([CELLS[0], "POINT (9 9)", CELLS[1], "POINT (8 8)"], key=["a", "b", "a", "b"])
    assert dissolve(mixed, by="key").geom_type.tolist() == ["Polygon", "MultiPoint"]
    with pytest.raises(InputFailure, match="mixes kinds of geometry: result row 0"):
        dissolve(mixed)


def test_dissolve_on_a_grid_and_with_z() -> None:
    result = dissolve(
        layer(["POLYGON ((0 0, 1.04 0, 1 1, 0 1, 0 0))", "POLYGON ((1 0, 2 0, 2 1, 1 1, 1 0))"]), grid_size=0.5
    )
    assert same_shape(result.geometry[0], "POLYGON ((0 0, 2 0, 2 1, 0 1, 0 0))")
    assert shapely.get_precision(result.geometry[0]) == 0
    assert (
        dissolve(layer(["POLYGON Z ((0 0 3, 1 0 3, 1 1 3, 0 0 3))", "POLYGON Z ((1 0 3, 2 0 3, 1 1 3, 1 0 3))"]))
        .geometry[0]
        .has_z
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["a", "b", None])),
        min_size=1,
        unique_by=lambda c: c[:2],
    )
)
def test_dissolve_keeps_the_area(cells: list[tuple[int, int, str | None]]) -> None:
    squares = gpd.GeoDataFrame(
        {"key": [key for *_, key in cells]}, geometry=[shapely.box(x, y, x + 1, y + 1) for x, y, _ in cells], crs=5070
    )
    for method in ("unary", "coverage"):
        result = dissolve(squares, by="key", method=method)
        assert result.area.sum() == pytest.approx(len(cells))
        assert result.geometry.is_valid.all()


def test_count_points() -> None:
    cells = layer([*CELLS[:3], None, "POLYGON EMPTY"])
    points = layer(
        ["POINT (0.5 0.5)", "POINT (1 0.5)", None, "MULTIPOINT (1.2 0.5, 1.4 0.5)", "POINT (90 90)"],
        n=pd.array([BIG, 1, 5, None, 7], dtype="Int64"),
        x=[0.5, 1.5, 1, 2, np.nan],
    )
    result = count_points(cells, points)
    assert result["count"].tolist() == [2, 3, 0, 0, 0]  # the point on the edge counts on both sides
    assert str(result["count"].dtype) == "Int64"
    weighted = count_points(cells, points, weight="n", column="sum")
    assert weighted["sum"].tolist() == [BIG + 1, 1, 0, 0, 0]
    assert str(weighted["sum"].dtype) == "Int64"
    floats = count_points(cells, points, weight="x")
    assert floats["count"].tolist() == [2, 5.5, 0, 0, 0]
    assert str(floats["count"].dtype) == "float64"


def test_count_points_by_value() -> None:
    cells = layer(CELLS[:2]).rename(columns={"id": "cell"})
    points = layer(["POINT (0.5 0.5)", "POINT (0.6 0.5)", "POINT (0.7 0.5)"], kind=["b", None, "b"], rank=[2, 3, 4])
    result = count_points(cells, points, by="kind")
    assert result["cell"].tolist() == [0, 0, 1]
    assert result["kind"].fillna("?").tolist() == ["b", "?", "?"]
    assert result["count"].tolist() == [2, 1, 0]
    assert count_points(cells, points, by="kind", weight="rank")["count"].tolist() == [6, 3, 0]


def test_count_points_complaints() -> None:
    cells, points = layer(CELLS), layer(["POINT (0 0)"], name=["x"])
    with pytest.raises(InputFailure, match="'polygons' takes polygon geometry, got point"):
        count_points(points, points)
    with pytest.raises(InputFailure, match="a column 'id' already"):
        count_points(cells, points, column="id")
    with pytest.raises(InputFailure, match=r"'name' is of type .*, not a number"):
        count_points(cells, points, weight="name")
    with pytest.raises(InputFailure, match="points has no column 'nam'"):
        count_points(cells, points, weight="nam")
