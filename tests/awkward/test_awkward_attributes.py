"""Awkward attributes. The numbers are those of README.md beside this module."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

from geocairn.operations.registry import operations

CRS = "EPSG:5070"
BIG = 2**53 + 1
SQUARES = [shapely.box(x, 0, x + 1, 1) for x in (0, 1, 2, 3, 10)]


def layer(values: list[Any] = SQUARES, **columns: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(columns, geometry=np.array(values, dtype=object), crs=CRS)


KEYS = {
    "text": pd.array(["a", None, "a", None, ""], dtype="str"),
    "arrow": pd.array(["a", None, "a", None, ""], dtype="string[pyarrow]"),
    "object": pd.Series(["a", None, "a", None, ""], dtype=object).array,
    "nullable": pd.array([1, None, 1, None, BIG], dtype="Int64"),
    "real": np.array([1.5, np.nan, 1.5, np.nan, 0.0]),
    "category": pd.Categorical(["a", None, "a", None, "b"], categories=["b", "a", "unused"]),
    "truth": pd.array([True, None, True, None, False], dtype="boolean"),
    "time": pd.to_datetime(["2026-01-01", None, "2026-01-01", None, "2026-01-02"]),
    "zoned": pd.to_datetime(["2026-01-01T00:00Z", None, "2026-01-01T00:00Z", None, "2026-01-02T00:00Z"]).tz_convert(
        "Europe/Paris"
    ),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("dissolve", {"by": "k"}),
        ("collect", {"by": "k"}),
        ("convex_hull", {"by": "k"}),
        ("envelope", {"by": "k"}),
        ("summarize", {"by": "k", "statistics": {"v": ["sum"]}}),
    ],
)
def test_trap_1_a_missing_key_is_a_group_whatever_its_type(name: str, parameters: dict[str, Any], kind: str) -> None:
    rows = layer(k=KEYS[kind], v=[1, 10, 100, 1000, 10000])
    result = operations[name].compute(rows, **parameters)
    assert len(result) == 3
    assert result["k"].isna().tolist() == [False, True, False], "groups come in order of first appearance"
    assert str(result["k"].dtype) == str(rows["k"].dtype)
    if name in ("dissolve", "collect"):
        assert result.area.sum() == pytest.approx(rows.area.sum()), "the area in is the area out"
    if name == "summarize":
        summed = next(column for column in result.columns if column != "k" and result[column].sum() == 11111)
        assert result[summed].tolist() == [101, 1010, 10000]


def test_trap_1_two_keys_of_which_one_is_missing() -> None:
    rows = layer(a=["x", None, "x", None, None], b=[1.0, 1.0, np.nan, np.nan, 1.0])
    result = operations["dissolve"].compute(rows, by=["a", "b"])
    assert len(result) == 4
    assert result.area.sum() == pytest.approx(5)


BIGS = {
    "Int64": pd.array([BIG, None, BIG + 2, BIG + 4, None], dtype="Int64"),
    "int64": np.array([BIG, BIG + 2, BIG + 4, BIG + 6, BIG + 8]),
    "UInt64": pd.array([2**64 - 1, None, 2**64 - 3, 2**63 + 1, None], dtype="UInt64"),
}


@pytest.mark.parametrize("kind", BIGS)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("spatial_join", {}),
        ("nearest_join", {"max_distance": 0.5}),
        ("attribute_join", {"left_on": "key", "right_on": "key"}),
        ("overlay", {"how": "union"}),
        ("overlay", {"how": "identity"}),
    ],
)
def test_trap_12_large_integers_stay_what_they_are_where_partners_are_missing(
    name: str, parameters: dict[str, Any], kind: str
) -> None:
    left = layer(key=["a", "b", "c", "d", "e"])
    right = layer(key=["a", "c", "b", "x", "y"], big=BIGS[kind]).iloc[:3]
    result = operations[name].compute(left, right, **parameters)
    assert pd.api.types.is_integer_dtype(result["big"].dtype), result["big"].dtype
    assert isinstance(result["big"].dtype, pd.api.extensions.ExtensionDtype), "nullable"
    known = set(right["big"].dropna())
    assert set(result["big"].dropna()) == known, "no value was rounded"
    assert result["big"].isna().any()


@pytest.mark.parametrize("backend", operations["dissolve"].backends)
def test_trap_12_sums_extremes_filters_and_counts_are_exact(backend: str) -> None:
    rows = layer(k=["a", "a", "b", "b", "b"], big=BIGS["Int64"])
    result = operations["dissolve"].compute(
        rows, by="k", aggregates={"big": ["sum", "min", "max", "first"]}, backend=backend
    )
    assert result["big_sum"].tolist() == [BIG, 2 * BIG + 6]
    assert result["big_max"].tolist() == [BIG, BIG + 4]
    assert result["big_first"].tolist() == [BIG, BIG + 2]
    kept = operations["filter"].compute(rows, where=f"big > {BIG}", backend=backend)
    assert kept["big"].tolist() == [BIG + 2, BIG + 4]
    counted = operations["count_points"].compute(
        layer([shapely.box(0, 0, 20, 20)], n=[1]),
        layer(list(shapely.centroid(SQUARES)), weight=BIGS["Int64"]),
        weight="weight",
    )
    assert counted["count"].tolist() == [3 * BIG + 6]


def test_trap_12_merging_widens_and_never_rounds() -> None:
    one, other = layer(big=BIGS["int64"]), layer(other=[1, 2, 3, 4, 5])
    result = operations["merge_layers"].compute([one, other])
    assert result["big"].dropna().tolist() == list(BIGS["int64"])
    assert pd.api.types.is_integer_dtype(result["big"].dtype)


def test_trap_14_both_hours_of_the_change_of_the_clock_stay_two() -> None:
    """In Paris 02:30 comes twice on 25 October 2026."""
    twice = pd.to_datetime(["2026-10-25T00:30Z", "2026-10-25T01:30Z", None, "2026-03-29T01:00Z", "2026-07-01T00:00Z"])
    rows = layer(k=["a", "a", "b", "b", "b"], at=twice.tz_convert("Europe/Paris"))
    assert rows["at"].dt.hour.tolist()[:2] == [2, 2]
    results = [
        operations["buffer"].compute(rows, distance=1)["at"],
        operations["spatial_join"].compute(layer(), rows, match="first", predicate="equals")["at"],
        operations["overlay"].compute(rows, layer([shapely.box(0, 0, 100, 100)]), how="identity")["at"],
        operations["nearest_join"].compute(layer(list(shapely.centroid(SQUARES))), rows, columns=["at"])["at"],
    ]
    for found in results:
        assert str(found.dtype.tz) == "Europe/Paris"
        assert found.tolist()[:2] == rows["at"].tolist()[:2]
    united = operations["dissolve"].compute(rows, by="k", aggregates={"at": ["min", "max"]})
    assert str(united["at_min"].dtype.tz) == "Europe/Paris"
    assert united["at_min"].tolist()[0] == rows["at"][0]
    assert united["at_max"].tolist()[0] == rows["at"][1]


COLUMNS = {
    "small": (np.array([1, 2], dtype="uint8"), "UInt8"),
    "whole": (np.array([1, 2], dtype="int32"), "Int32"),
    "truth": (np.array([True, False]), "boolean"),
    "real": (np.array([0.5, 1.5], dtype="float32"), "float32"),
    "text": (pd.array(["a", "b"], dtype="str"), "str"),
    "arrow": (pd.array(["a", "b"], dtype="string[pyarrow]"), "string"),
    "kind": (pd.Categorical(["a", "b"], categories=["b", "a"]), "category"),
    "when": (pd.to_datetime(["2026-01-01T00:00Z", "2026-01-02T00:00Z"]).tz_convert("Europe/Paris"), None),
}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("spatial_join", {}),
        ("nearest_join", {"max_distance": 0.1}),
        ("attribute_join", {"left_on": "key", "right_on": "key"}),
        ("overlay", {"how": "identity"}),
    ],
)
def test_trap_27_types_do_not_depend_on_whether_a_partner_is_missing(name: str, parameters: dict[str, Any]) -> None:
    right = layer(SQUARES[:2], key=["a", "b"], **{column: values for column, (values, _) in COLUMNS.items()})
    some = operations[name].compute(layer(key=["a", "b", "c", "d", "e"]), right, **parameters)
    every = operations[name].compute(layer(SQUARES[:2], key=["a", "b"]), right, **parameters)
    for column, (values, wanted) in COLUMNS.items():
        assert str(some[column].dtype) == str(every[column].dtype), column
        assert str(some[column].dtype) == (wanted or str(pd.Series(values).dtype)), column
    assert some["small"].isna().any()
    assert some["kind"].cat.categories.tolist() == ["b", "a"]
