"""Expectations on recorded facts: what is compared, in which words, and without loading a geometry library."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from geocairn.checkpoint import LayerFacts
from geocairn.expectation import Expect, kinds_of_types, unmet

FACTS = LayerFacts(
    rows=3,
    columns={
        "a": "int64",
        "b": "Int32",
        "c": "str",
        "d": "double[pyarrow]",
        "e": "datetime64[us, UTC]",
        "f": "category",
    },
    geometry_column="geom",
    geometry_types=["MultiPolygon Z", "Polygon"],
    crs="{}",
    crs_name="EPSG:5070",
    bounds=[0, 0, 10, 5],
    missing=1,
    empty=1,
)


def said(**expected: object) -> list[str]:
    return unmet(Expect(**expected), FACTS, allow_empty=False)


@pytest.mark.parametrize(
    "columns",
    [
        ["a", "geom"],
        {"a": "int64", "b": "Int32", "c": "str"},
        {"a": "integer", "b": "integer", "c": "text", "d": "number", "e": "datetime", "f": "category"},
        {"a": "number", "c": "string", "d": "float", "geom": "geometry"},
        {"a": "int", "e": "datetime64[us, UTC]"},
    ],
)
def test_columns_and_types_that_are_there(columns):
    assert said(columns=columns) == []


@pytest.mark.parametrize(
    ("columns", "about"),
    [
        (["A"], "column 'A' is missing; did you mean 'a'?"),
        ({"a": "int32"}, "column 'a' was expected to be int32, it is int64"),
        ({"a": "float"}, "to be float, it is int64"),
        ({"a": "text"}, "to be text"),
        ({"d": "integer"}, "it is double[pyarrow]"),
        ({"c": "boolean"}, "it is str"),
        ({"a": "whatever"}, "to be whatever, it is int64"),
    ],
)
def test_columns_and_types_that_are_not(columns, about):
    assert [about in text for text in said(columns=columns)] == [True]


def test_an_interval_is_no_integer():
    facts = LayerFacts(rows=1, columns={"a": "interval[int64, right]"})
    assert unmet(Expect(columns={"a": "integer"}), facts, allow_empty=False)


@pytest.mark.parametrize("crs", ["EPSG:5070", "epsg:5070", 5070, "5070", "urn:ogc:def:crs:EPSG::5070"])
def test_a_crs_may_be_spelled_in_any_way(crs):
    assert said(crs=crs) == []


def test_a_crs_without_a_code_is_compared_as_a_whole():
    from pyproj import CRS

    custom = CRS("+proj=laea +lat_0=50 +lon_0=10 +datum=WGS84")
    facts = LayerFacts(rows=1, geometry_column="g", crs=custom.to_json(), crs_name=custom.name)
    assert unmet(Expect(crs=custom.to_wkt()), facts, allow_empty=False) == []
    assert unmet(Expect(crs="EPSG:3035"), facts, allow_empty=False) == ["CRS EPSG:3035 was expected, it is unknown"]
    unknown = LayerFacts(rows=1, geometry_column="g")
    assert unmet(Expect(crs="EPSG:3035"), unknown, allow_empty=False) == ["CRS EPSG:3035 was expected, it is unknown"]


def test_what_needs_geometry_does_not_hold_of_a_table():
    table = LayerFacts(rows=1, columns={"a": "int64"})
    assert unmet(Expect(rows=1, columns=["a"]), table, allow_empty=False) == []
    assert "table without geometry" in unmet(Expect(geometry="point"), table, allow_empty=False)[0]
    assert "extent and crs" in unmet(Expect(extent=[0, 0, 1, 1], crs=5070), table, allow_empty=False)[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_rows": 3, "max_rows": 2},
        {"extent": [1, 0, 0, 1]},
        {"extent": [0, 0, float("nan"), 1]},
        {"geometry": "polygn"},
        {"rows": -1},
        {"rowz": 1},
    ],
)
def test_what_no_result_can_meet_is_refused(wrong):
    with pytest.raises(ValidationError):
        Expect(**wrong)


def test_an_empty_result():
    empty = LayerFacts(rows=0)
    assert "is empty" in unmet(None, empty, allow_empty=False)[0]
    assert unmet(None, empty, allow_empty=True) == []
    assert unmet(Expect(rows=0), empty, allow_empty=False) == []
    assert unmet(Expect(max_rows=0), empty, allow_empty=False) == []
    assert len(unmet(Expect(min_rows=1), empty, allow_empty=True)) == 1


def test_kinds_of_type_names():
    assert kinds_of_types(["MultiPolygon Z", "Polygon", "LinearRing", "GeometryCollection"]) == [
        "collection",
        "line",
        "polygon",
    ]


def test_recorded_facts_are_judged_without_geometry_libraries():
    code = (
        "import sys\nfrom geocairn.expectation import Expect, unmet\nfrom geocairn.checkpoint import LayerFacts\n"
        "unmet(Expect(geometry='point', crs=5070, rows=1), LayerFacts(rows=1, geometry_column='g', "
        "geometry_types=['Point'], crs='{}', crs_name='EPSG:5070', bounds=[0, 0, 0, 0]), allow_empty=False)\n"
        "print([name for name in ('numpy', 'pandas', 'shapely', 'geopandas', 'pyproj') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
