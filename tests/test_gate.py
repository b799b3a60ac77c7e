"""The gate: what it refuses and what it accepts."""

from __future__ import annotations

import dataclasses
import sys

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from gate_samples import BOW, FAR, FLAT, PARTLY_FLAT, SOURCE, SQUARE, layer, refusal, terms

from geocairn.expectation import Expect
from geocairn.gate import GATE_VERSION, Terms, admit
from geocairn.operations.registry import operations

# --- there is a layer, and it is not empty


@pytest.mark.parametrize("result", [None, 5, "x", [1], {"columns": 1}, gpd.GeoSeries([shapely.Point(0, 0)])])
def test_what_is_no_layer_is_refused(result):
    assert "there is no layer" in refusal(result, SOURCE)


def test_a_table_is_refused_where_a_layer_is_promised():
    assert "no geometry column" in refusal(pd.DataFrame({"a": [1]}), terms())
    assert "no geometry column" in refusal(gpd.GeoDataFrame({"a": [1]}), SOURCE)
    bare = layer([SQUARE]).drop(columns="geometry")
    assert "no geometry column" in refusal(bare, SOURCE)


def test_a_table_is_gated_as_one_where_it_is_promised():
    table = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    passed = admit(table, terms(kind="table"))
    assert passed.facts.rows == 2
    assert passed.facts.columns == {"a": "int64", "b": "str"}
    assert passed.facts.geometry_column is None
    assert passed.facts.gate == GATE_VERSION
    expecting = dataclasses.replace(terms(kind="table"), expect=Expect(columns=["c"]))
    assert "column 'c' is missing" in refusal(table, expecting)
    assert "is empty" in refusal(table.iloc[:0], terms(kind="table"))
    expecting = dataclasses.replace(terms(kind="table"), expect=Expect(geometry="point"))
    assert "table without geometry" in refusal(table, expecting)


def test_a_table_operation_may_give_a_layer_and_then_it_is_gated_as_one():
    assert "not finite" in refusal(layer(["POINT (1 1)"]).set_geometry([shapely.Point(np.nan, 1)]), terms(kind="table"))


def test_an_empty_layer_is_refused_unless_it_is_accepted():
    empty = layer([])
    assert "is empty" in refusal(empty, SOURCE)
    passed = admit(empty, dataclasses.replace(SOURCE, allow_empty=True))
    assert passed.facts.rows == 0
    assert passed.facts.bounds is None
    assert passed.facts.geometry_types == []
    assert passed.facts.crs_name == "EPSG:5070"
    assert admit(empty, dataclasses.replace(SOURCE, expect=Expect(rows=0))).facts.rows == 0
    assert admit(empty, dataclasses.replace(SOURCE, expect=Expect(max_rows=0))).facts.rows == 0


# --- coordinates


@pytest.mark.parametrize(
    "geometry",
    [
        shapely.Point(np.nan, 1),
        shapely.Point(np.inf, 1),
        shapely.Point(np.nan, np.nan),
        shapely.MultiPoint([(0, 0), (np.nan, 1)]),
        shapely.LineString([(0, 0), (1, -np.inf), (2, 2)]),
        shapely.Polygon([(0, 0), (1, 0), (np.nan, np.nan), (1, 1)]),
        shapely.Polygon([(0, 0), (9, 0), (9, 9)], [[(1, 1), (2, 1), (np.inf, 2)]]),
        shapely.GeometryCollection([shapely.Point(0, 0), shapely.Point(np.nan, 1)]),
        shapely.Point(0, 0, np.inf),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_coordinates_that_are_not_finite_are_refused_with_their_row(geometry):
    result = gpd.GeoDataFrame(geometry=[shapely.Point(0, 0), geometry, None], crs="EPSG:5070")
    for repair in (False, True):
        said = refusal(result, dataclasses.replace(SOURCE, repair=repair))
        assert "not finite in 1 of 3 rows (row 1" in said


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_z_that_is_not_known_is_no_fault():
    result = gpd.GeoDataFrame(geometry=[shapely.Point(0, 1e6, np.nan), shapely.Point(0, 1e6, 5)], crs="EPSG:5070")
    assert admit(result, SOURCE).facts.bounds == [0, 1e6, 0, 1e6]


@pytest.mark.parametrize(
    ("crs", "wkt"),
    [
        ("EPSG:4326", "POINT (0 90.5)"),
        ("EPSG:4326", "POINT (181 0)"),
        ("EPSG:4326", "POINT (-71 -100)"),
        ("EPSG:4326", "POINT (40.7 -174)"),  # latitude and longitude exchanged
        ("EPSG:4326", "LINESTRING (0 0, 5 91)"),
        ("EPSG:4807", "POINT (0 101)"),  # in grads
        ("EPSG:3857", "POINT (3e7 0)"),
        ("EPSG:3857", "POLYGON ((0 0, 1e9 0, 1e9 1, 0 0))"),
        ("EPSG:5070", "POINT (1e9 1e9)"),
        ("EPSG:5070", "POLYGON ((0 1e6, 1e8 1e6, 1 2e6, 0 1e6))"),  # one wild vertex
        ("ESRI:54009", "POINT (17000000 8000000)"),
        ("EPSG:6933", "POINT (0 7400000)"),
        ("EPSG:32633", "POINT (-71 4e9)"),
    ],
)
def test_what_lies_off_the_globe_is_refused_with_its_row(crs, wkt):
    result = layer([None, wkt, "POINT (1 1)"], crs)
    said = refusal(result, SOURCE)
    assert f"off the globe in {crs}: 1 of 3 rows (row 1" in said
    assert "x and y exchanged" in said


@pytest.mark.parametrize(
    ("crs", "bounds"),
    [
        ("EPSG:4326", (-180, -90, 180, 90)),
        ("EPSG:4326", (-180 - 1e-9, -90, 180, 90 + 1e-9)),
        ("EPSG:4807", (-200, -100, 200, 100)),
        ("EPSG:3857", (-20037508.342789244, -20048966.104014594, 20037508.342789244, 20048966.104014594)),
        ("EPSG:6933", (-17367530.44516137, -7314540.79860646, 17367530.44516137, 7314540.79860646)),
        ("ESRI:54009", (-18040095.69614729, -9020047.84789776, 18040095.69614729, 9020047.84789776)),
        ("ESRI:54030", (-17005833.33, -8625154.66, 17005833.33, 8625154.66)),
        ("ESRI:54052", (-20037508.34, -8683259.71, 20037508.34, 8683259.71)),
        ("EPSG:3857", (19900000, -2100000, 20100000, -1900000)),  # a buffer across the edge, in Fiji
        ("EPSG:5070+5703", (0, 1e6, 10, 1.1e6)),
        ("EPSG:27572", (600000, 2300000, 610000, 2310000)),
        ("EPSG:3031", (-1e6, -1e6, 1e6, 1e6)),
        ("EPSG:2193", (1.5e6, 5.4e6, 1.6e6, 5.5e6)),
    ],
)
def test_what_lies_on_the_globe_is_accepted(crs, bounds):
    for geometry in (shapely.box(*bounds), shapely.LineString([bounds[:2], bounds[2:]])):
        admit(gpd.GeoDataFrame(geometry=[geometry], crs=crs), SOURCE)


def test_a_world_map_in_an_equal_area_projection_is_accepted():
    edge = shapely.segmentize(shapely.box(-180, -90, 180, 90), 1)
    islands = shapely.points([-179.99, 179.99, 0, 0, 100], [-60, 60, 89.9, -89.9, 10]).tolist()
    world = gpd.GeoDataFrame(geometry=[edge, *islands], crs="EPSG:4326")
    for crs in ("EPSG:6933", "ESRI:54009", "EPSG:8857", "ESRI:54030"):
        passed = admit(world.to_crs(crs), SOURCE)
        assert passed.facts.rows == 6


def test_a_layer_of_a_local_or_unknown_crs_has_no_globe():
    local = 'ENGCRS["site",EDATUM["site"],CS[Cartesian,2],AXIS["x",east],AXIS["y",north],LENGTHUNIT["metre",1]]'
    for crs in (local, None):
        passed = admit(layer(["POINT (1e12 0)"], crs), SOURCE)
        assert passed.facts.outside_area == 0


def test_alaska_outside_the_area_of_use_is_a_warning_with_the_count():
    places = gpd.GeoDataFrame(
        geometry=[*gpd.points_from_xy([-150, -149, -100], [61, 64, 40]), None], crs="EPSG:4326"
    ).to_crs("EPSG:5070")
    passed = admit(places, SOURCE)
    assert passed.facts.outside_area == 2
    assert passed.warnings == ["2 of 4 rows lie outside the area of use of EPSG:5070"]
    assert passed.caveats == []
    said = refusal(places, dataclasses.replace(SOURCE, expect=Expect(area_of_use=True)))
    assert "2 of 4 rows lie outside the area of use of EPSG:5070" in said
    assert admit(places.iloc[2:], dataclasses.replace(SOURCE, expect=Expect(area_of_use=True))).warnings == []


# --- what the operation promises


def test_a_crs_other_than_promised_is_refused():
    before = layer([SQUARE])
    assert "promises EPSG:5070, the result is in EPSG:6350" in refusal(
        layer([SQUARE], "EPSG:6350"), terms(None, before)
    )
    assert "the result is in an unknown CRS" in refusal(layer([SQUARE], None), terms(None, before))
    admit(layer([SQUARE], "EPSG:6350"), terms(None, before, crs="any"))
    reproject = operations["reproject"]
    to = Terms("step s", reproject, reproject.normalise({"crs": "EPSG:6350"}), [before])
    admit(layer([SQUARE], "EPSG:6350"), to)
    assert "promises EPSG:6350" in refusal(before, to)


@pytest.mark.parametrize(
    ("kind", "before", "after", "fits"),
    [
        ("polygon", "POINT (0 0)", SQUARE, True),
        ("polygon", "POINT (0 0)", "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))", True),
        ("polygon", "POINT (0 0)", "POINT (0 0)", False),
        ("polygon", "POINT (0 0)", "GEOMETRYCOLLECTION (POINT (0 0))", False),
        ("polygon", "POINT (0 0)", None, True),
        ("same", SQUARE, FAR, True),
        ("same", SQUARE, "LINESTRING (0 0, 1 1)", False),
        ("same", SQUARE, f"GEOMETRYCOLLECTION ({SQUARE}, POINT (0 0))", False),
        ("same", None, SQUARE, False),
        ("same", f"GEOMETRYCOLLECTION ({SQUARE}, POINT (0 0))", SQUARE, True),
        ("same", f"GEOMETRYCOLLECTION ({SQUARE}, POINT (0 0))", "LINESTRING (0 0, 1 1)", False),
        ("same", "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (0 0)))", "POINT (0 0)", True),
        ("any", SQUARE, "GEOMETRYCOLLECTION (POINT (0 0))", True),
        ("line", SQUARE, "MULTILINESTRING Z ((0 0 1, 1 1 2))", True),
    ],
)
def test_a_kind_other_than_promised_is_refused(kind, before, after, fits):
    to = terms(None, layer([before]), kind=kind, empties=True)
    if fits:
        admit(layer([after]), dataclasses.replace(to, inputs=[layer([before if after else None])]))
    else:
        said = refusal(layer([after]), to)
        assert "promises" in said
        assert "1 of 1 rows (row 0" in said


def test_the_promise_is_that_of_the_parameters():
    buffer = operations["buffer"]
    before = layer(["POINT (0 0)", None, "POINT (9 9)"])
    united = buffer.compute(before, distance=1, dissolve=True)
    passed = admit(united, Terms("step s", buffer, buffer.normalise({"distance": 1, "dissolve": True}), [before]))
    assert passed.facts.rows == 1
    assert "a row for each row" in refusal(united, Terms("step s", buffer, buffer.normalise({"distance": 1}), [before]))


def test_rows_other_than_promised_are_refused():
    before = layer([SQUARE, FAR])
    assert "2 came in, 1 went out" in refusal(before.iloc[:1], terms(None, before, rows="each"))
    assert "2 came in, 4 went out" in refusal(pd.concat([before, before]), terms(None, before, rows="some"))
    admit(before.iloc[:1], terms(None, before, rows="some"))
    admit(pd.concat([before, before]), terms(None, before, rows="any"))


@pytest.mark.parametrize("rows", ["each", "some", "any"])
def test_invalid_geometry_that_came_in_is_counted_and_passed_on(rows):
    before = layer([BOW, SQUARE, FLAT])
    passed = admit(before.copy(), terms(None, before, rows=rows))
    assert passed.facts.invalid == 2
    assert passed.caveats == []


@pytest.mark.parametrize("rows", ["each", "some", "any"])
def test_invalid_geometry_that_the_step_introduced_is_refused(rows):
    before = layer([SQUARE, SQUARE, FAR])
    said = refusal(layer([SQUARE, BOW, FAR]), terms(None, before, rows=rows))
    assert "made invalid geometry in 1 of 3 rows (row 1" in said
    assert "Self-intersection" in said
    assert "on_invalid: repair" in said


def test_row_by_row_one_defect_does_not_hide_another():
    before = layer([BOW, SQUARE])
    said = refusal(layer([BOW, BOW]), terms(None, before, rows="each"))
    assert "1 of 2 rows (row 1" in said
    said = refusal(layer([SQUARE, BOW]), terms(None, before, rows="each"))
    assert "1 of 2 rows (row 1" in said


def test_a_join_may_repeat_what_came_in_and_no_more():
    before, other = layer([BOW, SQUARE]), layer([SQUARE])
    admit(layer([BOW, BOW, BOW, SQUARE]), terms(None, before, other, rows="any"))
    admit(layer([SQUARE, BOW]), terms(None, other, before, rows="any"))
    mirrored = "POLYGON ((0 0, 2 -2, 2 0, 0 -2, 0 0))"
    assert "2 of 3 rows (rows 1, 2" in refusal(layer([BOW, mirrored, mirrored]), terms(None, before, rows="any"))


def test_a_part_of_what_came_in_may_be_invalid():
    before = layer([PARTLY_FLAT])
    admit(operations["explode"].compute(before), terms(None, before, rows="any"))


def test_no_geometry_may_be_invalid_where_mending_is_promised():
    before = layer([BOW])
    assert "made invalid" in refusal(before, terms(None, before, rows="each", validity="mended"))


@pytest.mark.parametrize("gone", [None, "POLYGON EMPTY"])
@pytest.mark.parametrize("rows", ["each", "some", "any"])
def test_missing_geometry_that_the_step_introduced_is_refused(rows, gone):
    before = layer([SQUARE, FAR, SQUARE])
    said = refusal(layer([SQUARE, gone, SQUARE]), terms(None, before, rows=rows))
    assert "lost geometry: it is missing or empty in 1 of 3 rows (row 1" in said


@pytest.mark.parametrize("gone", [None, "POLYGON EMPTY"])
@pytest.mark.parametrize("rows", ["each", "some", "any"])
def test_missing_geometry_that_came_in_is_counted_and_passed_on(rows, gone):
    before = layer([SQUARE, gone])
    facts = admit(before.copy(), terms(None, before, rows=rows)).facts
    assert (facts.missing, facts.empty) == ((1, 0) if gone is None else (0, 1))


def test_missing_geometry_by_rows():
    before = layer([None, SQUARE])
    assert "row 1" in refusal(layer([SQUARE, None]), terms(None, before, rows="each"))
    assert "2 of 2" in refusal(layer([None, None]), terms(None, before, rows="some"))
    admit(layer([None, None, None]), terms(None, before, rows="any"))  # a join repeats rows
    admit(layer([SQUARE, None]), terms(None, layer([SQUARE]), before, rows="any"))  # a union takes rows of both


def test_an_emptied_geometry_may_be_part_of_the_promise_a_null_one_is_not():
    before = layer([SQUARE])
    admit(layer(["POLYGON EMPTY"]), terms(None, before, rows="each", empties=True))
    assert "lost geometry" in refusal(layer([None]), terms(None, before, rows="each", empties=True))


def test_missing_geometry_that_should_have_been_dropped_is_refused():
    before = layer([SQUARE, None])
    assert "lost geometry" in refusal(before, terms(None, before, rows="some", drops_missing=True))


def test_a_source_may_hold_what_a_step_is_there_to_mend():
    passed = admit(layer([BOW, None, "POLYGON EMPTY", SQUARE]), SOURCE)
    assert (passed.facts.invalid, passed.facts.missing, passed.facts.empty) == (1, 1, 1)


def test_the_gate_looks_at_no_row_by_itself(monkeypatch):
    """The number of calls into the geometry engine does not grow with the number of rows."""
    counts = []
    for number in (10, 1000):
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        result = layer([SQUARE, BOW, None, "POLYGON EMPTY", FLAT] * number)
        to = dataclasses.replace(terms(None, result, rows="each"))
        sys.setprofile(count)
        try:
            admit(result, to)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[1] < 1.5 * counts[0]
