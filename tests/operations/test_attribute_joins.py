"""attribute_join: keys of one type, exact numbers, nulls that equal nothing, order, what each `validate` refuses."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sample_layers import BIG, layer

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.attribute_joins import attribute_join

POINTS = ["POINT (0 0)", "POINT (1 0)", "POINT (2 0)", "POINT (3 0)"]


def join(left_key: Any, right_key: Any, **options: Any) -> Any:
    left = layer(POINTS[: len(left_key)], key=left_key)
    right = pd.DataFrame({"code": right_key, "row": np.arange(len(right_key))})
    return attribute_join(left, right, left_on="key", right_on="code", **options)


def rows(result: Any) -> list[tuple[int, int | None]]:
    return [(one, None if pd.isna(two) else int(two)) for one, two in zip(result["id"], result["row"], strict=True)]


def test_rows_come_by_left_and_then_by_right_and_those_without_a_partner_stay() -> None:
    result = join(["b", "a", "c", "b"], ["a", "b", "a", "b"])
    assert rows(result) == [(0, 1), (0, 3), (1, 0), (1, 2), (2, None), (3, 1), (3, 3)]
    assert str(result.dtypes["row"]) == "Int64"
    assert list(result.columns) == ["id", "key", "geometry", "code", "row"]
    inner = join(["b", "a", "c", "b"], ["a", "b", "a", "b"], how="inner")
    assert rows(inner) == [(0, 1), (0, 3), (1, 0), (1, 2), (3, 1), (3, 3)]
    assert str(inner.dtypes["row"]) == "int64"


def test_a_missing_value_equals_nothing() -> None:
    assert rows(join(["a", None], [None, "a"])) == [(0, 1), (1, None)]
    assert rows(join([1.5, np.nan], [np.nan, 1.5])) == [(0, 1), (1, None)]
    two = layer(POINTS[:2], a=["x", "x"], b=pd.array([1, None], dtype="Int64"))
    right = pd.DataFrame({"a": ["x", "x"], "b": pd.array([None, 1], dtype="Int64"), "row": [0, 1]})
    assert rows(attribute_join(two, right, left_on=["a", "b"], right_on=["a", "b"])) == [(0, 1), (1, None)]


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        (pd.array([BIG, BIG + 1], dtype="Int64"), np.array([BIG + 1, BIG]), [(0, 1), (1, 0)]),
        (np.array([BIG], dtype="int64"), np.array([float(2**53), float(BIG + 1)]), [(0, None)]),
        (np.array([2**63 + 5], dtype="uint64"), np.array([-(2**63) + 5, 7]), [(0, None)]),
        (np.array([1, 2]), np.array([2.0, 2.5]), [(0, None), (1, 0)]),
        (pd.Categorical(["x", "y"]), ["y", "x"], [(0, 1), (1, 0)]),
        (pd.array(["é"], dtype="string[pyarrow]"), ["é"], [(0, 0)]),
        ([dt.date(2026, 1, 2)], [dt.date(2026, 1, 2)], [(0, 0)]),
        (
            pd.to_datetime(["2026-07-01T12:00:00"]).tz_localize("Europe/Paris"),
            pd.to_datetime(["2026-07-01T10:00:00"]).tz_localize("UTC").as_unit("ms"),
            [(0, 0)],
        ),
        ([None, None], [1, 2], [(0, None), (1, None)]),
    ],
)
def test_keys_of_one_kind_are_compared_exactly(left: Any, right: Any, pairs: list[Any]) -> None:
    assert rows(join(left, right)) == pairs


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (["01", "02"], [1, 2], r"'key' is text .*'code' is a number.*lpad\(text\(code\)"),
        ([True, False], [1, 0], "true or false"),
        ([dt.date(2026, 1, 2)], pd.to_datetime(["2026-01-02"]), "a date"),
        (pd.to_datetime(["2026-01-02"]), pd.to_datetime(["2026-01-02"]).tz_localize("UTC"), "without a zone"),
        (pd.Series(["a", 1], dtype=object), ["a", "b"], "several types"),
    ],
)
def test_keys_of_two_types_are_refused(left: Any, right: Any, said: str) -> None:
    with pytest.raises(InputFailure, match=said):
        join(left, right)


def test_validate_names_the_key_that_occurs_more_than_once() -> None:
    with pytest.raises(InputFailure, match=r"right once, and 1 occur more often: code = a in rows 0, 2"):
        join(["a"], ["a", "b", "a"], validate="many_to_one")
    with pytest.raises(InputFailure, match="left once"):
        join(["a", "a"], ["a"], validate="one_to_many")
    assert rows(join(["a", None, None], ["a", None, None], validate="one_to_one")) == [(0, 0), (1, None), (2, None)]
    promised = attribute_join.promised
    keys = {"left_on": "a", "right_on": "b"}
    assert promised(attribute_join.normalise({**keys, "validate": "many_to_one"})).rows == "each"
    assert promised(attribute_join.normalise({**keys, "validate": "one_to_one", "how": "inner"})).rows == "some"
    assert promised(attribute_join.normalise(keys)).rows == "any"


def test_columns_names_and_the_geometry_of_the_right() -> None:
    left = layer(POINTS[:2], name=["p", "q"])
    right = layer(POINTS[:2], crs="EPSG:4326", name=["p", "q"], n=[5, 6])
    result = attribute_join(left, right, left_on="name", right_on="name")
    assert list(result.columns) == ["id_left", "name", "geometry", "id_right", "n"]
    assert result.crs == left.crs
    chosen = attribute_join(left, right, left_on="name", right_on="name", columns=["n", "name"], suffixes=("", "_r"))
    assert list(chosen.columns) == ["id", "name", "geometry", "n", "name_r"]
    with pytest.raises(InputFailure, match="right has no column 'nam'; did you mean 'name'"):
        attribute_join(left, right, left_on="name", right_on="nam")
    with pytest.raises(InputFailure, match="go in pairs"):
        attribute_join(left, right, left_on=["name", "id"], right_on="name")


def test_what_found_no_partner_is_told() -> None:
    with collecting() as notes:
        join(["a", "b"], ["a"])
    assert notes.facts["unmatched_rows"] == 1
    assert not notes.caveats
    with collecting() as notes:
        join(["a", "b"], ["A"])
    assert "no row found a partner" in notes.caveats[0]


def test_a_table_as_the_left_is_refused() -> None:
    table = pd.DataFrame({"a": [1]})
    with pytest.raises(InputFailure, match="'left' must be a layer, and a table"):
        attribute_join(table, table, left_on="a", right_on="a")
