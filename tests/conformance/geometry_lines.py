"""From a line of a geometry-level suite to geocairn's operations, and what is wrong with their answer.

Such a suite knows no rows: it asks for the union of two geometries, or whether one touches the other. The operations
answer with rows; what is compared is all that the rows cover, and that no two of them cover the same place where the
operation promises that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from case_index import Line
from comparison import same_geometry, united
from translation import Params, Steps

from geocairn.operations.parts import POLYGON, dimensions
from geocairn.operations.registry import operations

Answer = Callable[[Steps, Line, Params], Any]
"""What our operations say to a line: a geometry, a number, or true or false."""

PREDICATES = {
    "predicate contains": "contains",
    "predicate coveredby": "covered_by",
    "predicate covers": "covers",
    "predicate crosses": "crosses",
    "predicate disjoint": "disjoint",
    "predicate equalstopo": "equals",
    "predicate intersects": "intersects",
    "predicate overlaps": "overlaps",
    "predicate touches": "touches",
    "predicate within": "within",
}


def wrong(steps: Steps, line: Line) -> str | None:
    """What is wrong with our answer to a line, in words; None where it is right.

    Raises
    ------
    LookupError : for words that say no operation of ours.
    """
    if line.words not in ANSWERS:
        raise LookupError(f"no translation of {line.words!r}")
    params = Params(line.params())
    found = ANSWERS[line.words][1](steps, line, params)
    params.check_understood()
    expected = _expected(line, found)
    if isinstance(found, bool | float):
        close = found == expected or math.isclose(found, expected, rel_tol=line.tolerance, abs_tol=line.tolerance)
        return None if close else f"{found}, expected {expected}"
    return None if same_geometry(found, expected, line.tolerance) else f"{_text(found)}, expected {_text(expected)}"


def uses(words: str) -> tuple[str, ...]:
    """The operations that some words may use; none for unknown words."""
    return ANSWERS[words][0] if words in ANSWERS else ()


def _text(shape: Any) -> str:
    return "nothing" if shape is None else str(shape.wkt)[:400]


def _expected(line: Line, found: Any) -> Any:
    expected = line.record["expected"]
    if line.words in ("relate (DE-9IM)", "overlay area identity"):
        return True
    if isinstance(expected, str):
        return shapely.from_wkt(expected)
    return bool(expected) if isinstance(found, bool) else float(expected)


def _predicate(name: str) -> Answer:
    def answer(steps: Steps, line: Line, params: Params) -> bool:
        a, b = line.layers()
        joined = len(steps("spatial_join", a, b, predicate=name, how="inner"))
        if steps.backend == "geopandas":  # tests/backends holds both operations equal to these, and takes its time
            filtered = len(steps("spatial_filter", a, b, predicate=name))
            assert joined == filtered, f"spatial_join finds {joined}, spatial_filter {filtered}"
        return bool(joined)

    return answer


def _related(steps: Steps, line: Line, params: Params) -> bool:
    """Whether each predicate says what the matrix of the relation says."""
    pattern = params.take("pattern")
    a, b = line.layers()
    if not line.record["expected"]:
        raise ValueError("a relation that does not hold says nothing of the predicates")
    one, two = (int(shapely.get_dimensions(layer.geometry.iloc[0])) for layer in (a, b))
    for name, holds in _by_matrix(pattern, one, two).items():
        found = bool(len(steps("spatial_filter", a, b, predicate=name)))
        assert found == holds, f"{name} is {found}, and {pattern} says {holds}"
    return True


def _by_matrix(pattern: str, one: int, two: int) -> dict[str, bool]:
    """What the standard's definitions make of a matrix, with the dimensions of both geometries."""
    ii, ib, ie, bi, bb, be, ei, eb, _ = (mark != "F" for mark in pattern)
    touching = ii or ib or bi or bb
    if one != two:
        crosses = ii and (ie if one < two else ei)
    else:
        crosses = one == 1 and pattern[0] == "0"
    return {
        "intersects": touching,
        "disjoint": not touching,
        "contains": ii and not ei and not eb,
        "within": ii and not ie and not be,
        "covers": touching and not ei and not eb,
        "covered_by": touching and not ie and not be,
        "touches": not ii and touching,
        "crosses": crosses,
        "overlaps": one == two and ie and ei and (pattern[0] == "1" if one == 1 else ii),
    }


def _within_distance(steps: Steps, line: Line, params: Params) -> bool:
    options = {"predicate": "dwithin", "distance": params.take("distance")}
    joined = len(steps("spatial_join", *line.layers(), how="inner", **options))
    if "distance" in operations["spatial_filter"].parameters.model_fields:
        assert joined == len(steps("spatial_filter", *line.layers(), **options))
    return bool(joined)


def _distance(steps: Steps, line: Line, params: Params) -> float:
    """The distance to the nearest; none at all is an infinite one."""
    found = steps("nearest_join", *line.layers())["distance"].iloc[0]
    return math.inf if pd.isna(found) else float(found)


def _whole(layers: list[gpd.GeoDataFrame], steps: Steps) -> list[gpd.GeoDataFrame]:
    """The layers; one with collections, which no overlay takes, as single parts."""
    return [steps("explode", layer) if (layer.geom_type == "GeometryCollection").any() else layer for layer in layers]


def _overlaid(how: str, *, keep: bool = False) -> Answer:
    def answer(steps: Steps, line: Line, params: Params) -> Any:
        grid = params.take("grid_size", None)
        layers = _whole(line.layers(), steps)
        result = steps("overlay", *layers, how=how, keep_geometry_kind=keep, grid_size=grid)
        whole = united(result)
        if all(len(layer) == 1 for layer in layers):
            _check_apart(result, whole)
        return whole

    return answer


def _check_apart(result: gpd.GeoDataFrame, whole: Any) -> None:
    area = float(result.geometry.area.sum())
    assert math.isclose(area, whole.area, rel_tol=1e-6, abs_tol=1e-9), f"rows overlap: {area} against {whole.area}"


def _union(steps: Steps, line: Line, params: Params) -> Any:
    """By dissolve, kind by kind; and of two geometries without a grid by overlay, which must say the same."""
    grid = line.record.get("grid_size")
    rows = pd.concat(_whole(line.layers(), steps), ignore_index=True)
    kinds = dimensions(np.asarray(rows.geometry.values, dtype=object))
    if grid is not None and len(set(kinds)) > 1:
        return _overlaid("union")(steps, line, params)
    params.take("grid_size", None)
    if not line.record.get("a_valid", True):
        rows = steps("make_valid", rows)
    dissolved = pd.concat(
        [steps("dissolve", rows[kinds == kind].reset_index(drop=True), grid_size=grid) for kind in np.unique(kinds)]
    )
    found = united(dissolved)
    if grid is None and len(line.layers()) == 2 and set(kinds) == {POLYGON}:
        overlaid = _overlaid("union", keep=True)(steps, line, params)
        assert same_geometry(overlaid, found, 1e-9), f"overlay gives {_text(overlaid)}, dissolve {_text(found)}"
    return found


def _area_identity(steps: Steps, line: Line, params: Params) -> bool:
    layers = _whole(line.layers(), steps)
    areas = {
        how: float(steps("overlay", *layers, how=how, keep_geometry_kind=False).geometry.area.sum())
        for how in ("union", "intersection", "symmetric_difference", "difference", "identity")
    }
    a, b = (float(layer.geometry.area.sum()) for layer in layers)
    for one, other in (
        (a + b, areas["union"] + areas["intersection"]),
        (areas["symmetric_difference"], areas["union"] - areas["intersection"]),
        (areas["difference"], a - areas["intersection"]),
        (areas["identity"], a),
    ):
        assert math.isclose(one, other, rel_tol=line.tolerance, abs_tol=line.tolerance * max(a, b)), (areas, a, b)
    return True


def _row(name: str, **given: str) -> Answer:
    """One operation on the first geometry; `given` says which of the line's parameters is which of the operation's."""

    def answer(steps: Steps, line: Line, params: Params) -> Any:
        parameters = {ours: params.take(theirs) for ours, theirs in given.items()}
        return steps(name, line.layers()[0], **parameters).geometry.iloc[0]

    return answer


def _mitred(steps: Steps, line: Line, params: Params) -> Any:
    parameters = {name: params.take(name) for name in ("distance", "quad_segs")}
    return steps("buffer", line.layers()[0], join_style="mitre", **parameters).geometry.iloc[0]


def _simplified(preserve: bool) -> Answer:
    def answer(steps: Steps, line: Line, params: Params) -> Any:
        tolerance = params.take("simplify_tolerance")
        layer = line.layers()[0]
        return steps("simplify", layer, tolerance=tolerance, preserve_topology=preserve).geometry.iloc[0]

    return answer


def _mended(steps: Steps, line: Line, params: Params) -> Any:
    layer = line.layers()[0]
    options = {"method": "linework", "keep_collapsed": True, "keep_geometry_kind": False}
    return steps("make_valid", layer, **options).geometry.iloc[0]


def _valid(steps: Steps, line: Line, params: Params) -> bool:
    found = steps("check_validity", line.layers()[0])
    assert bool(found["is_valid"].iloc[0]) == bool(
        pd.isna(found["validity_reason"].iloc[0]) or found["validity_reason"].iloc[0] in ("", "Valid Geometry")
    )
    return bool(found["is_valid"].iloc[0])


ANSWERS: dict[str, tuple[tuple[str, ...], Answer]] = {
    **{words: (("spatial_join", "spatial_filter"), _predicate(name)) for words, name in PREDICATES.items()},
    "relate (DE-9IM)": ((), _related),  # the reference alone: ten predicates a line
    "within distance": (("spatial_filter", "spatial_join"), _within_distance),
    "distance": (("nearest_join",), _distance),
    "intersection": (("overlay", "explode"), _overlaid("intersection")),
    "difference": (("overlay", "explode"), _overlaid("difference")),
    "symmetrical difference": (("overlay", "explode"), _overlaid("symmetric_difference")),
    "union": (("overlay", "explode", "dissolve"), _union),
    "overlay area identity": (("overlay", "explode"), _area_identity),
    "buffer": (("buffer",), _row("buffer", distance="distance", quad_segs="quad_segs")),
    "buffer mitre join": (("buffer",), _mitred),
    "boundary": (("boundary",), _row("boundary")),
    "centroid": (("centroid",), _row("centroid")),
    "convex hull": (("convex_hull",), _row("convex_hull")),
    "point on surface": (("point_on_surface",), _row("point_on_surface")),
    "densify by max distance": (("densify",), _row("densify", max_segment_length="max_distance")),
    "simplify (Douglas-Peucker)": (("simplify",), _simplified(preserve=False)),
    "simplify preserving topology": (("simplify",), _simplified(preserve=True)),
    "fix geometries (make valid, linework)": (("make_valid",), _mended),
    "check validity": (("check_validity",), _valid),
}
