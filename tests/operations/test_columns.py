"""compute_columns: exact whole numbers, nulls, what has no value, types, functions, one sentence for each mistake."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from sample_layers import BIG, layer

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.columns import compute_columns


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return layer(
        ["POINT (0 0)", "POINT (1 0)", "POINT (2 0)", None],
        pop=pd.array([7, -7, 0, None], dtype="Int64"),
        big=np.array([BIG, BIG, 1, 2**62]),
        area=np.array([2.0, 0.5, 0.0, 4.0]),
        code=pd.Series(["1", "02", "7 ", None], dtype="str"),
        kind=pd.Categorical(["b", "a", "b", None], categories=["b", "a"]),
        yes=pd.array([True, False, None, True], dtype="boolean"),
        when=pd.to_datetime(["2026-01-01", "2026-06-01", None, "2027-01-01"]).tz_localize("Europe/Paris"),
    )


def made(towns: Any, text: str) -> tuple[list[Any], str]:
    column = compute_columns(towns, columns={"new": text})["new"]
    return [None if pd.isna(value) else value for value in column], str(column.dtype)


@pytest.mark.parametrize(
    ("text", "values", "dtype"),
    [
        ("pop + 1", [8, -6, 1, None], "Int64"),
        ("pop * 2.0", [14, -14, 0, None], "Int64"),
        ("pop * 0.5", [3.5, -3.5, 0.0, None], "Float64"),
        ("pop / 2", [3.5, -3.5, 0.0, None], "Float64"),
        ("pop div 2", [3, -4, 0, None], "Int64"),
        ("pop % 4", [3, 1, 0, None], "Int64"),
        ("2 ^ pop", [128.0, 2.0**-7, 1.0, None], "Float64"),
        ("-pop", [-7, 7, 0, None], "Int64"),
        ("pop - 2 - 3", [2, -12, -5, None], "Int64"),
        ("1 / pop", [1 / 7, -1 / 7, None, None], "Float64"),
        ("7 div pop", [1, -1, None, None], "Int64"),
        ("pop / area", [3.5, -14.0, None, None], "Float64"),
        ("big + 2", [BIG + 2, BIG + 2, 3, 2**62 + 2], "Int64"),
        ("big - 9007199254740993", [0, 0, 1 - BIG, 2**62 - BIG], "Int64"),
        ("area > 1", [True, False, False, True], "boolean"),
        ("pop > 0 OR yes", [True, False, None, True], "boolean"),
        ("pop IS NULL", [False, False, False, True], "boolean"),
        ("kind = 'b'", [True, False, True, None], "boolean"),
        ("kind", ["b", "a", "b", None], "category"),
        ("'x'", ["x"] * 4, "str"),
        ("3", [3] * 4, "Int64"),
        ("2.5", [2.5] * 4, "Float64"),
        ("true", [True] * 4, "boolean"),
        ("sqrt(pop)", [7**0.5, None, 0.0, None], "Float64"),
        ("abs(pop)", [7, 7, 0, None], "Int64"),
        ("round(area * 0.25)", [1.0, 0.0, 0.0, 1.0], "Float64"),
        ("round(-area * 1.25, 1)", [-2.5, -0.6, 0.0, -5.0], "Float64"),
        ("floor(pop / 2)", [3, -4, 0, None], "Int64"),
        ("ceil(pop / 2)", [4, -3, 0, None], "Int64"),
        ("coalesce(pop, 0)", [7, -7, 0, 0], "Int64"),
        ("coalesce(pop, area)", [7.0, -7.0, 0.0, 4.0], "Float64"),
        ("coalesce(kind, 'none')", ["b", "a", "b", "none"], "str"),
        ("integer(code)", [1, 2, 7, None], "Int64"),
        ("number(code) / 2", [0.5, 1.0, 3.5, None], "Float64"),
        ("integer(yes)", [1, 0, None, 1], "Int64"),
        ("lpad(text(pop), 3, '0')", ["007", "0-7", "000", None], "str"),
        ("text(big)", [str(BIG), str(BIG), "1", str(2**62)], "str"),
        ("text(yes)", ["true", "false", None, "true"], "str"),
        ("concat(trim(code), '/', upper(kind))", ["1/B", "02/A", "7/B", None], "str"),
        ("T_AFTER(when, TIMESTAMP('2026-03-01T00:00:00Z'))", [False, True, None, True], "boolean"),
    ],
)
def test_values_and_types(towns: gpd.GeoDataFrame, text: str, values: list[Any], dtype: str) -> None:
    found, kind = made(towns, text)
    assert kind == dtype
    assert [None if value is None else pytest.approx(value) for value in values] == found


@pytest.mark.parametrize(
    "text", ["pop + 1", "pop / area", "kind = 'b'", "integer(code)", "when", "coalesce(pop, 0)", "'x'"]
)
def test_no_rows_and_one_row_give_the_same_types(towns: gpd.GeoDataFrame, text: str) -> None:
    full = compute_columns(towns, columns={"new": text})
    for some in (towns.iloc[:0], towns.iloc[3:]):
        assert list(map(str, compute_columns(some, columns={"new": text}).dtypes)) == list(map(str, full.dtypes))


def test_what_has_no_value_is_counted(towns: gpd.GeoDataFrame) -> None:
    with collecting() as notes:
        compute_columns(towns, columns={"a": "1 / pop", "b": "pop + 1"})
    assert notes.facts["undefined_values"] == {"a": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("big * 4", r"'new', a result of \* does not fit in 64 bits"),
        ("99999999999999999999 + pop", "does not fit in 64 bits"),
        ("(0 - big) * 4", "does not fit in 64 bits"),
        ("pop + code", r"\+ is for numbers, not for text; concat"),
        ("popp + 1", "no column 'popp'; did you mean 'pop'"),
        ("pop +", r"column 'new': the expression 'pop \+' cannot be read at its end"),
        ("pop == 1", "compares with a single ="),
        ("rond(area)", "no function 'rond'; did you mean 'round'"),
        ("round(area, pop)", "decimals must be a whole number"),
        ("abs()", "abs takes 1 argument, not 0"),
        ("abs(pop, 1)", "abs takes 1 argument, not 2"),
        ("integer(kind)", r"integer: 'b' is no whole number \(row 0 and 2 more\)"),
        ("integer(area)", r"integer: '0.5' is no whole number.*\(row 1\)"),
        ("number(kind)", "is no number"),
        ("lower(pop)", r"lower is for text, not for a number; text\("),
        ("coalesce(pop, code)", "one type, not a number and text"),
        ("coalesce(big, area)", r"above 2\^53"),
        ("geometry", "is a geometry"),
        ("null", "no value to make a column of"),
        ("__import__('os')", "cannot be read|no function"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(towns: gpd.GeoDataFrame, text: str, said: str) -> None:
    with pytest.raises(InputFailure, match=said):
        made(towns, text)


def test_expressions_read_what_came_in_and_replace_only_when_asked(towns: gpd.GeoDataFrame) -> None:
    before = towns.copy(deep=True)
    result = compute_columns(towns, columns={"pop": "pop * 2", "twice": "pop"}, replace=True)
    assert list(result.columns) == [*towns.columns, "twice"]
    assert result["pop"].dropna().tolist() == [14, -14, 0]
    assert result["twice"].dropna().tolist() == [7, -7, 0]
    assert towns.equals(before)
    with pytest.raises(InputFailure, match="column 'pop' already"):
        compute_columns(towns, columns={"pop": "1"})
    with pytest.raises(InputFailure, match="'geometry' is the geometry"):
        compute_columns(towns, columns={"geometry": "1"}, replace=True)
    with pytest.raises(InputFailure, match="no column 'a'"):
        compute_columns(towns, columns={"a": "1", "b": "a + 1"})


def test_a_table_stays_a_table() -> None:
    table = pd.DataFrame({"a": [1, 2]}, index=[7, 8])
    result = compute_columns(table, columns={"b": "a + 1", "c": 5})
    assert type(result) is pd.DataFrame
    assert result.to_dict("list") == {"a": [1, 2], "b": [2, 3], "c": [5, 5]}


def test_wrong_syntax_needs_no_layer() -> None:
    with pytest.raises(InputFailure, match="column 'z': the expression"):
        compute_columns.normalise({"columns": {"z": "("}})
