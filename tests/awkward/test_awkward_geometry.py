"""Awkward geometry. The numbers are those of README.md beside this module."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pytest
import shapely
from example_calls import attempt, gated, inputs_of, is_layer, named, shapes, with_shapes

from geocairn.failure import CapabilityFailure, Failure, InputFailure
from geocairn.gate import Terms, admit
from geocairn.notes import collecting
from geocairn.operations.registry import operations

CRS = "EPSG:5070"
SQUARE = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"
CLAW = "POLYGON ((2 1, 6 1, 6 4, 4 4, 4 3, 5 3, 5 2, 2 2, 2 1))"
"""Overlaps the square, and touches it along an edge elsewhere."""
BOW_TIE = "POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))"
HOWS = ("intersection", "union", "difference", "symmetric_difference", "identity")


def layer(wkt: list[str | None], **columns: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(
        {"n": np.arange(len(wkt)), **columns}, geometry=gpd.GeoSeries.from_wkt(wkt, crs=CRS), crs=CRS
    )


def compute(name: str, *layers: Any, backend: str = "geopandas", **parameters: Any) -> gpd.GeoDataFrame:
    operation = operations[name]
    result = operation.compute(*layers, backend=backend, **parameters)
    return admit(result, Terms(name, operation, operation.normalise(parameters), list(layers), allow_empty=True)).layer


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("backend", operations["overlay"].backends)
def test_trap_2_polygons_that_overlap_and_touch_give_polygons(how: str, backend: str) -> None:
    multi = f"MULTIPOLYGON ({CLAW.removeprefix('POLYGON ')}, ((-3 0, 0 0, 0 1, -3 1, -3 0)))"
    for right in (CLAW, multi):
        one, other = layer([SQUARE]), layer([right])
        result = compute("overlay", one, other, how=how, backend=backend)
        assert set(result.geom_type) <= {"Polygon", "MultiPolygon"}
        whole = {
            "intersection": shapely.intersection,
            "union": shapely.union,
            "difference": shapely.difference,
            "symmetric_difference": shapely.symmetric_difference,
            "identity": lambda a, b: a,
        }[how](one.geometry[0], other.geometry[0])
        assert result.area.sum() == pytest.approx(whole.area)


@pytest.mark.parametrize("backend", operations["clip"].backends)
def test_trap_2_clip_of_what_also_touches(backend: str) -> None:
    with collecting() as notes:
        result = compute("clip", layer([CLAW, SQUARE]), layer([SQUARE]), backend=backend)
    assert result.geom_type.tolist() == ["Polygon", "Polygon"]
    assert notes.facts["dropped_parts"] == 1


@pytest.mark.parametrize("first", [None, "POLYGON EMPTY", "POINT (1 1)", "LINESTRING (0 1, 9 1)"])
@pytest.mark.parametrize("how", HOWS)
def test_trap_3_the_first_row_decides_no_kind(how: str, first: str | None) -> None:
    left = layer([first, SQUARE])
    result = compute("overlay", left, layer([CLAW]), how=how)
    mine = result[result["n" if how == "difference" else "n_left"] == 1]
    assert len(mine)
    assert set(mine.geom_type) <= {"Polygon", "MultiPolygon"}
    turned = compute("overlay", left.iloc[::-1], layer([CLAW]), how=how)
    assert len(turned) == len(result)


def test_trap_3_an_invalid_first_row_is_named_and_decides_nothing() -> None:
    for how in HOWS:
        with pytest.raises(InputFailure, match=r"row 0 .*make_valid"):
            compute("overlay", layer([BOW_TIE, SQUARE]), layer([CLAW]), how=how)


@pytest.mark.parametrize("backend", ["geopandas", "duckdb"])
@pytest.mark.parametrize(
    ("name", "second", "parameters"),
    [
        ("clip", "mask", {}),
        ("overlay", "right", {"how": "difference"}),
        ("spatial_join", "right", {}),
        ("spatial_filter", "by", {}),
        ("simplify", None, {"tolerance": 0.1}),
        ("explode", None, {}),
        ("filter", None, {"where": "n >= 0"}),
        ("make_valid", None, {}),
        ("remove_empty", None, {}),
    ],
)
def test_trap_15_z_is_kept(name: str, second: str | None, parameters: dict[str, Any], backend: str) -> None:
    if backend not in operations[name].backends:
        pytest.skip("not claimed")
    left = layer(["POLYGON Z ((0 0 7, 4 0 7, 4 4 7, 0 4 7, 0 0 7))", "POLYGON Z ((9 9 1, 10 9 2, 10 10 3, 9 9 1))"])
    inputs = [left] if second is None else [left, layer(["POLYGON ((2 2, 12 2, 12 12, 2 12, 2 2))"])]
    result = attempt(lambda: compute(name, *inputs, backend=backend, **parameters))
    if isinstance(result, CapabilityFailure):
        assert backend != "geopandas", result
        return
    values = shapes(result)
    assert shapely.has_z(values).all()
    known = shapely.get_coordinates(values, include_z=True)
    old = {(x, y): z for x, y, z in shapely.get_coordinates(shapes(left), include_z=True)}
    assert all(z == old[x, y] for x, y, z in known if (x, y) in old), "a vertex that was there keeps its Z"
    assert np.isfinite(known).all()


@pytest.mark.parametrize(
    "wkt",
    [
        ["MULTIPOINT ((0 0), (1 1))", None, "MULTIPOINT EMPTY", "POINT EMPTY"],
        ["GEOMETRYCOLLECTION (POINT (0 0), GEOMETRYCOLLECTION EMPTY)", "GEOMETRYCOLLECTION EMPTY", None],
        ["MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), EMPTY)", "POLYGON EMPTY", None],
        [None, None],
    ],
)
@pytest.mark.parametrize("backend", operations["explode"].backends)
def test_trap_16_no_row_vanishes_when_parts_are_taken_apart(wkt: list[str | None], backend: str) -> None:
    before = layer(wkt)
    result = compute("explode", before, backend=backend)
    assert set(result["n"]) == set(before["n"])
    bare = before.geometry.isna() | before.geometry.is_empty
    for row in np.flatnonzero(bare):
        mine = result[result["n"] == row].geometry
        assert len(mine) == 1
        assert mine.isna().all() == before.geometry.isna()[row]
    with collecting() as notes:
        fewer = compute("explode", before, keep_empty=False, backend=backend)
    assert set(fewer["n"]) == set(before["n"][~bare])
    assert notes.facts["rows_removed"] == int(bare.sum())


@pytest.mark.parametrize("method", ["structure", "linework"])
@pytest.mark.parametrize(
    ("wkt", "area"),
    [
        ("MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((9 9, 10 9, 9 9)))", 16),
        ("MULTIPOLYGON (((0 0, 2 0, 1 0, 0 0)), ((9 9, 10 9, 9 9)))", 0),
        ("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (4 2, 6 2, 4 2))", 16),
        ("POLYGON ((0 0, 2 0, 2 2, 2 3, 2 2, 0 2, 0 0))", 4),
        ("POLYGON Z ((0 0 1, 4 4 1, 4 0 1, 0 4 1, 0 0 1))", 8),
    ],
)
def test_trap_17_what_is_mended_stays_a_polygon_and_the_change_is_told(wkt: str, area: float, method: str) -> None:
    before = layer([SQUARE, None])
    before.loc[2] = {"n": 2, "geometry": shapely.from_wkt(wkt, on_invalid="ignore")}
    before = before.set_crs(CRS, allow_override=True)
    with collecting() as notes:
        result = compute("make_valid", before, method=method, keep_collapsed=method == "linework")
    shape = result.geometry[2]
    assert shape.geom_type in ("Polygon", "MultiPolygon")
    assert shape.is_valid
    assert shape.area == pytest.approx(area)
    assert notes.facts["mended"] == 1
    assert notes.facts["area_change"] == pytest.approx(area - before.geometry[2].area)


NEIGHBOURS = [
    "POLYGON ((0 0, 5 0, 5.4 2, 4.6 4, 5.3 6, 4.8 8, 5 10, 0 10, 0 0))",
    "POLYGON ((5 0, 10 0, 10 10, 5 10, 4.8 8, 5.3 6, 4.6 4, 5.4 2, 5 0))",
]


def test_trap_18_neighbours_simplified_together_keep_their_common_edge() -> None:
    alone = compute("simplify", layer(NEIGHBOURS), tolerance=2)
    together = compute("simplify_coverage", layer([*NEIGHBOURS, None]), tolerance=2)
    assert shapely.coverage_is_valid(shapes(together)[:2])
    assert together.area.sum() == pytest.approx(100)
    assert shapely.get_num_coordinates(together.geometry[0]) < shapely.get_num_coordinates(
        layer(NEIGHBOURS).geometry[0]
    )
    assert together.geometry[2] is None
    assert "simplify_coverage" in operations["simplify"].documentation, "offered by name where it is looked for"
    assert len(alone) == 2


@pytest.mark.parametrize(
    "wkt",
    [
        ["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((1 0, 3 0, 3 2, 1 2, 1 0))"],
        ["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((2 0, 3 0, 3 2, 2 2, 2 1, 2 0))"],
        [SQUARE, SQUARE],
    ],
    ids=["overlap", "edge with another vertex", "twice the same"],
)
def test_trap_19_a_coverage_that_is_none_is_refused(wkt: list[str]) -> None:
    with pytest.raises(InputFailure, match=r"row"):
        compute("dissolve", layer(wkt), method="coverage")
    with pytest.raises(InputFailure, match=r"row"):
        compute("simplify_coverage", layer(wkt), tolerance=1)
    united = compute("dissolve", layer(wkt))
    assert united.area[0] == pytest.approx(shapely.union_all(shapes(layer(wkt))).area)


def broken_calls() -> list[tuple[str, str, str]]:
    return [
        (name, role.name, backend)
        for name in named()
        for role in operations[name].roles
        if "polygon" in role.kinds and role.name in inputs_of(operations[name])
        for backend in operations[name].backends
    ]


@pytest.mark.parametrize(("name", "role", "backend"), broken_calls())
def test_trap_20_bow_ties_are_refused_with_the_remedy_or_pass_soundly(name: str, role: str, backend: str) -> None:
    """Whatever a role is given: an input failure that names rows and make_valid, or a result that the gate passes."""
    operation = operations[name]

    def tied(one: Any, its: Any) -> Any:
        if not is_layer(one) or its.name != role or one.crs.is_geographic:
            return one
        scaled = shapely.transform(shapely.from_wkt(BOW_TIE), lambda xy: xy * 15)
        values = shapes(one).copy()
        if "Polygon" not in values[0].geom_type:
            values = shapely.box(20 * np.arange(len(values)), 0, 20 * np.arange(len(values)) + 15, 15)
        values[-1] = scaled
        return with_shapes(one, values)

    found = attempt(lambda: gated(operation, inputs_of(operation, tied), backend=backend))
    if isinstance(found, CapabilityFailure):
        assert backend != "geopandas", found
    elif isinstance(found, Failure):
        assert isinstance(found, InputFailure)
        assert "make_valid" in str(found), found
        assert "row" in str(found), found


@pytest.mark.parametrize("name", named())
def test_trap_23_single_and_multiple_parts_are_one_kind(name: str) -> None:
    operation = operations[name]
    multi = {"Point": shapely.multipoints, "LineString": shapely.multilinestrings, "Polygon": shapely.multipolygons}

    def half_multi(one: Any, role: Any) -> Any:
        if not is_layer(one):
            return one
        values = shapes(one).copy()
        if values[0].geom_type in multi:
            values[0] = multi[values[0].geom_type]([values[0]])
        return with_shapes(one, values)

    plain = gated(operation, inputs_of(operation)).layer
    found = attempt(lambda: gated(operation, inputs_of(operation, half_multi)))
    assert not isinstance(found, Failure), f"a multipart of one part is refused: {found}"
    mixed = found.layer
    assert len(mixed) == len(plain)
    if is_layer(plain):
        both = zip(shapes(plain), shapes(mixed), strict=True)
        assert all((a is None and b is None) or shapely.equals(a, b) for a, b in both)
