"""The canonical encoding: one form for each value, no two values with the same."""

import datetime as dt
import decimal
import enum
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geocairn.canonical import NotCanonical, digest, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(max_size=20)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
)


def _same(left, right):
    """Equality with types: 1 is not True and not 1.0; -0.0 is 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        keys = {(type(key), key) for key in left}
        return keys == {(type(key), key) for key in right} and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right


@given(values, values)
def test_two_values_have_one_encoding_only_when_they_are_one(left, right):
    assert (encode(left) == encode(right)) == _same(left, right)


@given(st.dictionaries(st.text(), scalars, max_size=6), st.randoms())
def test_the_order_of_a_mapping_does_not_matter(mapping, random):
    items = list(mapping.items())
    random.shuffle(items)
    assert encode(dict(items)) == encode(mapping)


@given(st.lists(st.integers(), min_size=2, unique=True))
def test_the_order_of_a_list_matters(numbers):
    assert encode(numbers) != encode(numbers[::-1])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({1: "x"}, {"1": "x"}),
        ({"a": None}, {}),
        ({"a": {"b": 1}}, {"a.b": 1}),
        ({"a": {"b": 1}}, {"a": "b1"}),
        (["ab", "c"], ["a", "bc"]),
        ([["a"], "b"], [["a", "b"]]),
        (1, "1"),
        (1, True),
        (1, 1.0),
        (0, False),
        ("", None),
        (b"a", "a"),
        (dt.date(2024, 5, 1), "2024-05-01"),
        (decimal.Decimal("1.5"), 1.5),
        ({1, 2}, [1, 2]),
    ],
)
def test_these_differ(left, right):
    assert encode(left) != encode(right)


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("left", "right"),
    [((1, 2), [1, 2]), (-0.0, 0.0), (Colour.RED, "red"), ({"b": 1, "a": 2}, {"a": 2, "b": 1}), ({3, 1}, {1, 3})],
)
def test_these_are_one(left, right):
    assert encode(left) == encode(right)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, decimal.Decimal("NaN"), object(), "\ud800", {1: object()}]
)
def test_what_cannot_be_encoded_raises(value):
    with pytest.raises(NotCanonical):
        encode(value)


def test_the_message_names_the_place():
    with pytest.raises(NotCanonical, match=r"value\.a\[1\]"):
        encode({"a": [1, math.nan]})


def test_geometry_keeps_its_direction_and_its_z():
    import shapely

    line = shapely.LineString([(0, 0), (1, 1)])
    assert encode(line) == encode(shapely.LineString([(0, 0), (1, 1)]))
    assert encode(line) != encode(line.reverse())
    assert encode(line) != encode(shapely.LineString([(0, 0, 0), (1, 1, 0)]))


def test_numpy_scalars_are_plain_numbers():
    import numpy as np

    assert encode(np.int64(3)) == encode(3)
    assert encode(np.float64(0.1)) == encode(0.1)
    assert encode(np.bool_(True)) == encode(True)
    with pytest.raises(NotCanonical):
        encode(np.array([1, 2]))


def test_golden_digests():
    """These pin the encoding: a change here invalidates everybody's checkpoints and needs a new scheme number."""
    assert digest(None) == "1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9"
    golden = {
        "text": "é",
        "number": 1e-6,
        "whole": 12345678901234567890,
        "nothing": None,
        "list": [True, {"k": [1, 2.5]}],
        "bytes": b"\x00",
    }
    assert digest(golden) == "979b3c9a13bda7a7f27fe596413213d0c7ab2f97c8b24634c84b02dee6e28e17"
