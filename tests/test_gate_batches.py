"""The gate on a result that comes batch by batch: verdict and facts are those on the whole, in the same words."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pytest
import shapely

from geocairn.came_in import PassingLayer, PassingLayers
from geocairn.expectation import Expect
from geocairn.failure import UnsoundResult
from geocairn.gate import Admission, Passed, Terms, admit, survey_facts
from geocairn.operations.contract import Promise, operation

SQUARE = shapely.box(0, 0, 1, 1)
FAR = shapely.box(5, 5, 7, 7)
BOW = shapely.from_wkt("POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))")
OTHER_BOW = shapely.from_wkt("POLYGON ((0 0, 3 3, 3 0, 0 3, 0 0))")
EMPTY = shapely.from_wkt("POLYGON EMPTY")
HIGH = shapely.force_3d(SQUARE, 3)
NO_PLACE = shapely.box(1e9, 1e9, 2e9, 2e9)
BOTH = shapely.GeometryCollection([shapely.Point(0, 0), SQUARE])


def layer(values: list[Any], crs: Any = 5070) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": np.arange(len(values))}, geometry=gpd.GeoSeries(values, crs=crs))


def with_promise(**promise: Any) -> Any:
    chosen = Promise(**promise)

    @operation(
        version=1,
        result=chosen.kind,
        crs=chosen.crs,
        rows=chosen.rows,
        validity=chosen.validity,
        drops_missing=chosen.drops_missing,
        empties=chosen.empties,
    )
    def made(layer: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
        """Give something."""
        return layer

    return made


CASES: dict[str, tuple[dict[str, Any], list[Any], list[Any], dict[str, Any]]] = {
    # promise, what came in, what went out, further terms
    "sound": ({"rows": "each"}, [SQUARE, FAR, None, EMPTY], [SQUARE, FAR, None, EMPTY], {}),
    "high and flat": ({"rows": "each"}, [SQUARE, HIGH, FAR], [SQUARE, HIGH, FAR], {}),
    "passed on": ({"rows": "each"}, [SQUARE, BOW, FAR], [SQUARE, BOW, FAR], {}),
    "introduced": ({"rows": "each"}, [SQUARE, SQUARE, FAR, FAR], [SQUARE, BOW, FAR, OTHER_BOW], {}),
    "mended not": ({"rows": "each", "validity": "mended"}, [SQUARE, FAR, BOW], [SQUARE, FAR, BOW], {}),
    "lost": ({"rows": "each"}, [SQUARE, FAR, None, FAR], [SQUARE, None, None, EMPTY], {}),
    "emptied": ({"rows": "each", "empties": True}, [SQUARE, FAR], [SQUARE, EMPTY], {}),
    "some, passed on": ({"rows": "some"}, [SQUARE, BOW, FAR, OTHER_BOW], [BOW, OTHER_BOW], {}),
    "some, too many": ({"rows": "some"}, [SQUARE, BOW, FAR, FAR], [OTHER_BOW, BOW, FAR], {}),
    "some, more rows": ({"rows": "some"}, [SQUARE], [SQUARE, FAR], {}),
    "some, missing": ({"rows": "some"}, [SQUARE, None, FAR], [SQUARE, None], {}),
    "some, one missing more": ({"rows": "some"}, [SQUARE, None, FAR], [None, None], {}),
    "any, passed on twice": ({}, [SQUARE, BOW], [BOW, BOW, BOW, SQUARE], {}),
    "any, new ones": ({}, [SQUARE, BOW, FAR], [OTHER_BOW, OTHER_BOW, SQUARE], {}),
    "any, one new one": ({}, [SQUARE, BOW, FAR], [SQUARE, OTHER_BOW, SQUARE], {}),
    "any, missing": ({}, [SQUARE, FAR], [SQUARE, None, FAR, None], {}),
    "kind": ({}, [SQUARE, FAR], [SQUARE, FAR, shapely.Point(0, 0), shapely.Point(1, 1)], {}),
    "kinds of a collection": ({}, [FAR, BOTH], [shapely.Point(0, 0), SQUARE], {}),
    "promised kind": ({"kind": "point"}, [SQUARE], [shapely.Point(0, 0), FAR, HIGH, shapely.Point(1, 1)], {}),
    "off the globe": ({}, [SQUARE], [SQUARE, FAR, NO_PLACE, NO_PLACE, SQUARE], {}),
    "repaired": ({"rows": "each"}, [SQUARE] * 4, [BOW, SQUARE, OTHER_BOW, FAR], {"repair": True}),
    "repaired away": (
        {"rows": "each"},
        [FAR] * 3,
        [shapely.polygons([[0, 0], [1, 1], [2, 2]]), FAR, BOW],
        {"repair": True},
    ),
    "expected rows": ({}, [SQUARE], [SQUARE, FAR, FAR], {"expect": Expect(rows=2)}),
    "expected extent": ({}, [SQUARE], [SQUARE, FAR], {"expect": Expect(extent=(0, 0, 3, 3))}),
    "expected validity": ({"rows": "each"}, [SQUARE, BOW], [SQUARE, BOW], {"expect": Expect(valid=True)}),
    "nothing": ({"rows": "some"}, [SQUARE], [], {}),
    "nothing allowed": ({"rows": "some"}, [SQUARE], [], {"allow_empty": True}),
}


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_that_on_the_whole(case: str, recorded: bool, rows: int) -> None:
    promise, came, went, further = CASES[case]
    operation = with_promise(**promise)
    terms = Terms("step s", operation, inputs=(layer(came),), **further)
    expected = outcome(lambda: admit(layer(went), terms))
    found = outcome(lambda: in_batches(layer(came), layer(went), terms, rows, recorded=recorded))
    if isinstance(expected, Passed) and isinstance(found, Passed):
        assert (found.facts, found.caveats, found.warnings) == (expected.facts, expected.caveats, expected.warnings)
    else:
        assert str(found) == str(expected)


def in_batches(came: Any, went: Any, terms: Terms, rows: int, *, recorded: bool) -> Passed:
    passing = PassingLayer(came.crs, len(came), survey_facts(came) if recorded else None)
    admission = Admission(terms, PassingLayers([passing]))
    each = terms.promise is not None and terms.promise.rows == "each"
    boxes = []
    for start in range(0, max(len(came), len(went), 1), rows):
        part = slice(start, start + rows)
        passing.take(came.iloc[part])
        if start < len(went) or not len(went):
            admission.take(went.iloc[part], came.geometry.to_numpy()[part] if each else None)
            boxes.append(admission.bounds)
    return admission.passed(went, boxes)


def outcome(compute: Any) -> Any:
    try:
        return compute()
    except UnsoundResult as failure:
        return failure


def test_a_layer_that_passes_twice_counts_once() -> None:
    came = layer([SQUARE, None, BOW])
    passing = PassingLayer(came.crs, len(came), None)
    for _ in range(2):
        for start in range(3):
            passing.take(came.iloc[start : start + 1])
    assert (passing.bare, passing.invalid.count, passing.kinds) == (1, 1, {"polygon"})


def test_coordinates_that_are_not_finite_end_it_at_once() -> None:
    endless = shapely.polygons([[0, 0], [np.inf, 1], [1, 0]])
    terms = Terms("step s", with_promise(rows="each"), inputs=())
    admission = Admission(terms, PassingLayers([PassingLayer(None, 100, None)]))
    admission.take(layer([SQUARE, FAR]), None)
    with pytest.raises(UnsoundResult, match=r"not finite in 1 of 4 rows \(row 3, counted from 0\)"):
        admission.take(layer([SQUARE, endless]), None)
