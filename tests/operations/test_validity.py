"""check_validity."""

from __future__ import annotations

import pytest
from sample_layers import layer

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.notes import collecting
from geocairn.operations.validity import check_validity


def test_each_row_is_told_what_is_wrong_and_where() -> None:
    drawn = layer(
        [
            "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))",
            "POINT (1 1)",
            None,
            "LINESTRING (3 4, 3 4)",
            "POLYGON EMPTY",
            "POLYGON ((0 0, 9 0, 9 9, 0 0), (20 20, 21 20, 21 21, 20 20))",
        ]
    )
    with collecting() as notes:
        result = check_validity(drawn)
    assert result.columns.tolist() == ["id", "geometry", "is_valid", "validity_reason"]
    assert result["is_valid"].tolist() == [False, True, False, False, True, False]
    reasons = result["validity_reason"]
    assert reasons[0] == "Self-intersection[1 1]"
    assert reasons.isna().tolist() == [False, True, False, False, True, False]
    assert reasons[2] == "No geometry"
    assert reasons[3].startswith("Too few points")
    assert reasons[5].startswith("Hole lies outside shell")
    assert notes.facts["not_valid"] == 4
    admit(result, Terms("check", check_validity, check_validity.normalise({}), [drawn]))


def test_types_do_not_depend_on_the_data() -> None:
    sound, nothing = check_validity(layer(["POINT (1 1)"])), check_validity(layer([]))
    for result in (sound, nothing):
        assert str(result.dtypes["is_valid"]) == "bool"
        assert str(result.dtypes["validity_reason"]) == "str"


def test_a_column_of_the_name_is_not_overwritten() -> None:
    with pytest.raises(InputFailure, match="column 'is_valid' already"):
        check_validity(layer(["POINT (1 1)"], is_valid=[1]))
