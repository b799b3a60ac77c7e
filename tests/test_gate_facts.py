"""The gate: repair, the facts of a layer, and what a plan expects of them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent / "operations"))

from gate_samples import BOW, FLAT, PARTLY_FLAT, SOURCE, SQUARE, layer, refusal, terms
from geopandas.testing import assert_geodataframe_equal
from sample_layers import rich

from geocairn.expectation import Expect
from geocairn.failure import InputFailure
from geocairn.gate import GATE_VERSION, admit, hold_recorded, survey_facts

# --- repair


def test_repair_mends_invalid_rows_and_touches_no_other():
    before = layer([SQUARE, SQUARE, SQUARE, None])
    result = layer([BOW, "POLYGON ((0 0, 0 10, 10 10, 10 0, 0 0))", PARTLY_FLAT, None], name=list("abcd"))
    kept = result.copy()
    passed = admit(result, dataclasses.replace(terms(None, before, kind="polygon", rows="each"), repair=True))
    assert_geodataframe_equal(result, kept)
    mended = passed.layer
    assert [None if g is None else g.geom_type for g in mended.geometry] == ["MultiPolygon", "Polygon", "Polygon", None]
    assert mended.geometry[1].wkt == kept.geometry[1].wkt
    assert list(mended["name"]) == list("abcd")
    assert mended.crs == kept.crs
    assert passed.facts.invalid == 0
    assert mended.geometry[0].area == pytest.approx(2)
    assert passed.caveats == [
        "step s: 2 invalid geometries were repaired, area changed by +2 square units of the CRS"
    ]  # the bow's two halves counted against each other before


def test_repair_of_sound_geometry_is_none():
    before = layer([SQUARE])
    passed = admit(before, dataclasses.replace(terms(None, before), repair=True))
    assert passed.caveats == []
    assert passed.layer is before


def test_repair_that_leaves_nothing_says_so():
    before = layer([SQUARE, SQUARE])
    to = dataclasses.replace(terms(None, before, kind="polygon", rows="each"), repair=True)
    passed = admit(layer([FLAT, SQUARE]), to)
    assert passed.layer.geometry[0].wkt == "POLYGON EMPTY"
    assert passed.facts.empty == 1
    assert "1 invalid geometry was repaired" in passed.caveats[0]
    assert "1 of them had nothing left and is empty now" in passed.caveats[0]
    assert "lost geometry" in refusal(layer([FLAT, None]), to)


def test_repair_of_lines_and_collections_keeps_the_kind():
    lines = layer(["LINESTRING (0 0, 0 0)", "MULTILINESTRING ((0 0, 0 0), (1 1, 2 2))"])
    passed = admit(lines, dataclasses.replace(terms(None, lines, kind="line", rows="each"), repair=True))
    assert [g.wkt for g in passed.layer.geometry] == ["LINESTRING EMPTY", "LINESTRING (1 1, 2 2)"]
    assert "area" not in passed.caveats[0]
    mixed = layer([f"GEOMETRYCOLLECTION ({BOW}, POINT (0 0))"])
    passed = admit(mixed, dataclasses.replace(terms(None, mixed, kind="any"), repair=True))
    assert passed.layer.geometry[0].geom_type == "GeometryCollection"
    assert passed.layer.geometry[0].is_valid


def test_repair_keeps_index_other_geometries_and_z():
    result = rich([BOW, SQUARE, "POLYGON Z ((0 0 1, 2 2 1, 2 0 1, 0 2 1, 0 0 1))"])
    passed = admit(result, dataclasses.replace(SOURCE, repair=True))
    assert list(passed.layer.index) == list(result.index)
    assert passed.layer.active_geometry_name == "shape"
    assert passed.layer["mark"].geom_equals(result["mark"]).all()
    assert passed.layer.dtypes.to_dict() == result.dtypes.to_dict()
    assert passed.facts.geometry_types == ["MultiPolygon", "MultiPolygon Z", "Polygon"]


# --- facts and expectations


def test_facts_are_those_of_the_layer():
    result = layer(
        ["POINT (1 2)", "MULTIPOINT ((-5 7), (3 4))", "POINT Z (9 -8 7)", None, "POINT EMPTY", f"{BOW}"],
        name=["a"] * 6,
        big=pd.array([1, None] * 3, dtype="Int64"),
    )
    facts = survey_facts(result)
    assert facts.rows == 6
    assert facts.columns == {"id": "int64", "name": "str", "big": "Int64"}
    assert facts.geometry_column == "geometry"
    assert facts.geometry_types == ["MultiPoint", "Point", "Point Z", "Polygon"]
    assert facts.bounds == [-5, -8, 9, 7]
    assert (facts.missing, facts.empty, facts.invalid) == (1, 1, 1)
    assert facts.crs_name == "EPSG:5070"
    assert facts.gate == GATE_VERSION
    from pyproj import CRS

    assert CRS.from_json(facts.crs) == CRS("EPSG:5070")
    assert admit(result, SOURCE).facts == facts


def test_facts_are_plain_values():
    import json

    facts = survey_facts(layer([SQUARE, None]))
    assert json.loads(json.dumps(dataclasses.asdict(facts))) == dataclasses.asdict(facts)


EXPECTATIONS = [
    ({"rows": 2}, {"rows": 3}, "3 rows were expected, there are 2"),
    ({"min_rows": 2}, {"min_rows": 3}, "at least 3 rows"),
    ({"max_rows": 2}, {"max_rows": 1}, "at most 1 row was expected, there are 2"),
    ({"extent": [0, 0, 30, 10]}, {"extent": [0, 0, 29.5, 10]}, "the extent 0, 0, 30, 10 is not within 0, 0, 29.5, 10"),
    ({"geometry": "polygon"}, {"geometry": ["point", "line"]}, "point or line geometry was expected, there is polygon"),
    ({"columns": ["id", "geometry"]}, {"columns": ["idd"]}, "column 'idd' is missing; did you mean 'id'?"),
    ({"columns": {"id": "int64", "t": "text", "x": "number"}}, {"columns": {"id": "text"}}, "to be text, it is int64"),
    ({"columns": {"id": "integer", "x": "float64"}}, {"columns": {"x": "integer"}}, "to be integer, it is float64"),
    ({"crs": "EPSG:5070"}, {"crs": "EPSG:4326"}, "CRS EPSG:4326 was expected, it is EPSG:5070"),
    ({"crs": 5070}, {"crs": "EPSG:99999"}, "was expected"),
    ({"valid": False}, {"valid": True}, "1 of 2 geometries are invalid"),
    ({"missing_geometry": True}, {}, None),
    ({"area_of_use": False}, {}, None),
]


@pytest.mark.parametrize(("met", "unmet", "about"), EXPECTATIONS)
def test_expectations(met, unmet, about):
    bow = "POLYGON ((20 0, 30 10, 30 0, 20 10, 20 0))"
    result = layer([SQUARE, bow], t=["a", "b"], x=[1.5, 2.5])
    admit(result, dataclasses.replace(SOURCE, expect=Expect(**met)))
    if about is not None:
        assert about in refusal(result, dataclasses.replace(SOURCE, expect=Expect(**unmet)))


def test_missing_geometry_may_be_expected_not_to_be():
    said = refusal(layer([SQUARE, None]), dataclasses.replace(SOURCE, expect=Expect(missing_geometry=False)))
    assert "1 of 2 rows have no geometry" in said


def test_all_expectations_that_fail_are_told_at_once():
    expect = Expect(rows=5, geometry="point", columns=["x"])
    said = refusal(layer([SQUARE]), dataclasses.replace(SOURCE, expect=expect))
    assert said.count(";") >= 2


def test_recorded_facts_are_held_like_fresh_ones():
    result = layer([SQUARE])
    facts = admit(result, SOURCE).facts
    hold_recorded(facts, Expect(rows=1), allow_empty=False, where="step s")
    with pytest.raises(InputFailure, match="2 rows were expected, there is 1"):
        hold_recorded(facts, Expect(rows=2), allow_empty=False, where="step s")
