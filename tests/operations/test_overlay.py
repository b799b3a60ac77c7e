"""clip and overlay: the promised kind, invalid polygons, rows without geometry, types, areas that add up."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_layers import BIG, layer, same_shape, wkts

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.overlay import clip, overlay

HOWS = ("intersection", "union", "difference", "symmetric_difference", "identity")
BOW_TIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
SQUARE = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"
# Overlaps the square in its lower left, and touches it along a part of its right edge.
CLAW = "POLYGON ((-1 -1, 5 -1, 5 3, 4 3, 4 0.5, 2 0.5, 2 1, -1 1, -1 -1))"


@pytest.mark.parametrize("how", HOWS)
def test_rows_come_in_the_documented_order(how: str) -> None:
    left = layer(["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))"], a=["x", "y"])
    right = layer(["POLYGON ((3 3, 5 3, 5 5, 3 5, 3 3))", "POLYGON ((1 1, 3 1, 3 3, 1 3, 1 1))"], b=["p", "q"])
    result = overlay(left, right, how=how)
    shared, of_left, of_right = (
        [("x", "q"), ("y", "p"), ("y", "q")],
        [("x", None), ("y", None)],
        [(None, "p"), (None, "q")],
    )
    expected = {
        "intersection": shared,
        "union": shared + of_left + of_right,
        "symmetric_difference": of_left + of_right,
        "identity": shared + of_left,
    }
    if how == "difference":
        assert result.columns.tolist() == ["id", "a", "geometry"]
        assert result["a"].tolist() == ["x", "y"]
        return
    assert result.columns.tolist() == ["id_left", "a", "id_right", "b", "geometry"]
    found = [
        (a if isinstance(a, str) else None, b if isinstance(b, str) else None)
        for a, b in zip(result["a"], result["b"], strict=True)
    ]
    assert found == expected[how]


@pytest.mark.parametrize("how", HOWS)
def test_parts_of_lower_dimension_are_dropped_and_counted(how: str) -> None:
    left, right = layer([SQUARE]), layer([CLAW, "POLYGON ((4 4, 5 4, 5 5, 4 5, 4 4))"])
    assert left.geometry[0].intersection(right.geometry[0]).geom_type == "GeometryCollection"
    with collecting() as notes:
        result = overlay(left, right, how=how)
    assert set(result.geom_type) <= {"Polygon", "MultiPolygon"}
    if how in ("intersection", "union", "identity"):
        assert notes.facts["dropped_parts"] >= 2
    kept = overlay(left, right, how=how, keep_geometry_kind=False)
    assert overlay.promised(overlay.normalise({"how": how, "keep_geometry_kind": False})).kind == "any"
    if how == "intersection":
        assert set(kept.geom_type) == {"GeometryCollection", "Point"}


def test_kind_of_the_first_row_decides_nothing() -> None:
    left = layer(["POLYGON EMPTY", "LINESTRING (0 1, 9 1)", SQUARE])
    result = overlay(left, layer([CLAW]), how="intersection")
    assert result["id_left"].tolist() == [1, 2]
    assert [kind.replace("Multi", "") for kind in result.geom_type] == ["LineString", "Polygon"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_invalid_polygons_are_refused_by_row(how: str, side: str) -> None:
    good, bad = layer([SQUARE]), layer([SQUARE, BOW_TIE])
    left, right = (bad, good) if side == "left" else (good, bad)
    with pytest.raises(
        InputFailure, match=rf"'{side}' has invalid polygons: row 1 \(Self-intersection.*make_valid before"
    ):
        overlay(left, right, how=how)


def test_invalid_polygons_in_clip() -> None:
    with pytest.raises(InputFailure, match="'mask' has invalid polygons: row 0"):
        clip(layer([SQUARE]), layer([BOW_TIE]))
    with pytest.raises(InputFailure, match="'layer' has invalid polygons: row 0"):
        clip(layer([BOW_TIE]), layer([SQUARE]))
    with pytest.raises(InputFailure, match="takes polygon geometry"):
        clip(layer([SQUARE]), layer(["POINT (0 0)"]))


def test_large_integers_stay_integers() -> None:
    left = layer([SQUARE, "POLYGON ((9 9, 10 9, 10 10, 9 9))"], big=np.array([BIG, BIG + 2]), yes=[True, False])
    right = layer([CLAW], count=pd.array([BIG], dtype="Int64"))
    result = overlay(left, right, how="union")
    assert str(result["big"].dtype) == "Int64"
    assert str(result["yes"].dtype) == "boolean"
    assert result["big"].tolist()[:3] == [BIG, BIG, BIG + 2]
    assert result["count"].tolist()[0] == BIG
    assert result["count"].isna().tolist() == [False, True, True, False]
    assert str(overlay(left, right, how="intersection")["big"].dtype) == "int64"


def test_rows_without_geometry_are_among_what_remains() -> None:
    left, right = layer([None, SQUARE, "POLYGON EMPTY"]), layer([CLAW, None])
    assert overlay(left, right, how="difference")["id"].tolist() == [0, 1, 2]
    union = overlay(left, right, how="union")
    assert union["id_left"].astype(object).where(union["id_left"].notna(), None).tolist() == [1, 0, 1, 2, None, None]
    assert wkts(union)[1] is None
    assert len(overlay(left, right, how="intersection")) == 1


def test_clashing_names() -> None:
    left, right = layer([SQUARE], name=["l"]), layer([CLAW], name=["r"])
    assert overlay(left, right, how="intersection", suffixes=["", "_2"]).columns.tolist() == [
        "id",
        "name",
        "id_2",
        "name_2",
        "geometry",
    ]
    with pytest.raises(InputFailure, match="two suffixes must differ"):
        overlay(left, right, how="intersection", suffixes=["_a", "_a"])
    with pytest.raises(InputFailure, match="two columns 'name_left'"):
        overlay(left.assign(name_left=1), right, how="intersection")
    renamed = right.rename_geometry("shape").assign(geometry=[7])
    assert overlay(left, renamed, how="intersection").columns.tolist()[-2:] == ["geometry_right", "geometry"]


def test_two_crs_are_refused() -> None:
    with pytest.raises(InputFailure, match="'left' is in EPSG:5070, 'right' in EPSG:3857"):
        overlay(layer([SQUARE]), layer([CLAW], crs=3857), how="union")
    with pytest.raises(InputFailure, match=r"EPSG:5070.*an unknown CRS"):
        clip(layer([SQUARE]), layer([CLAW], crs=None))


def test_z_is_kept() -> None:
    left = layer(["POLYGON Z ((0 0 7, 4 0 7, 4 4 7, 0 4 7, 0 0 7))", "POLYGON Z ((90 0 7, 94 0 7, 94 4 7, 90 0 7))"])
    for result in (overlay(left, layer([CLAW]), how="union"), clip(left, layer([CLAW]))):
        first = result.geometry[0]
        assert first.has_z
        assert set(shapely.get_coordinates(first, include_z=True)[:, 2]) == {7.0}


def test_grid_size() -> None:
    left, right = layer(["POLYGON ((0 0, 1 0, 1 3, 0 0))"]), layer(["POLYGON ((0 1, 5 1, 5 2, 0 2, 0 1))"])
    result = overlay(left, right, how="union", grid_size=0.5)
    coordinates = shapely.get_coordinates(result.geometry)
    assert np.array_equal(coordinates, np.round(coordinates * 2) / 2)
    assert (shapely.get_precision(result.geometry.values) == 0).all()
    with pytest.raises(InputFailure, match="greater than 0"):
        overlay(left, right, how="union", grid_size=0)


def test_collections_are_refused() -> None:
    with pytest.raises(InputFailure, match=r"geometry collections: row 0.*explode"):
        overlay(layer(["GEOMETRYCOLLECTION (POINT (0 0))"]), layer([SQUARE]), how="union")


def test_clip() -> None:
    shapes = layer(
        [SQUARE, "LINESTRING (-5 1, 5 1)", "POINT (1 1)", "POINT (30 30)", None, "POLYGON ((5 0, 9 0, 9 4, 5 4, 5 0))"]
    )
    mask = layer(["POLYGON ((-1 -1, 2 -1, 2 5, -1 5, -1 -1))", "POLYGON ((2 -1, 5 -1, 5 5, 2 5, 2 -1))"])
    with collecting() as notes:
        result = clip(shapes, mask)
    assert result["id"].tolist() == [0, 1, 2, 4]
    assert same_shape(result.geometry[0], SQUARE)
    assert same_shape(result.geometry[1], "LINESTRING (-1 1, 5 1)")
    assert notes.facts["dropped_parts"] == 1  # the edge that the last polygon shares with the mask
    assert len(clip(shapes, mask, keep_geometry_kind=False)) == 5
    inside = clip(shapes, layer(["POLYGON ((-9 -9, 99 -9, 99 99, -9 99, -9 -9))"]))
    assert all(shapely.equals_identical(inside.geometry.dropna().values, shapes.geometry.dropna().values))


@st.composite
def boxes(draw: Any) -> gpd.GeoDataFrame:
    corners = draw(st.lists(st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 8)] * 2), min_size=1, max_size=6))
    shapes = [shapely.box(x, y, x + w, y + h) for x, y, w, h in corners]
    return gpd.GeoDataFrame({"n": range(len(shapes))}, geometry=shapes, crs="EPSG:5070")


@settings(max_examples=50, deadline=None)
@given(boxes(), boxes())
def test_areas_add_up(left: gpd.GeoDataFrame, right: gpd.GeoDataFrame) -> None:
    area = {how: overlay(left, right, how=how).area.sum() for how in HOWS}
    inverse = overlay(right, left, how="difference").area.sum()
    clipped = clip(left, right).area.sum()
    assert area["difference"] + clipped == pytest.approx(left.area.sum())
    assert area["identity"] == pytest.approx(area["intersection"] + area["difference"])
    assert area["symmetric_difference"] == pytest.approx(area["difference"] + inverse)
    assert area["union"] == pytest.approx(area["intersection"] + area["symmetric_difference"])


@settings(max_examples=25, deadline=None)
@given(boxes(), boxes())
def test_same_as_geopandas(left: gpd.GeoDataFrame, right: gpd.GeoDataFrame) -> None:
    right = right.rename(columns={"n": "m"})
    for how in HOWS:
        ours = overlay(left, right, how=how)
        theirs = gpd.overlay(left, right, how=how)
        keys = [name for name in ("n", "m") if name in theirs.columns]

        def areas(result: gpd.GeoDataFrame, keys: list[str] = keys) -> dict[Any, float]:
            return result.assign(area=result.area).groupby(keys, dropna=False)["area"].sum().round(6).to_dict()

        def plain(found: dict[Any, float]) -> list[Any]:
            return sorted(
                (str(key).replace("<NA>", "nan").replace(".0", ""), value) for key, value in found.items() if value
            )

        assert plain(areas(ours)) == plain(areas(theirs))
