"""collect and extract_vertices: putting geometries together as they are, and taking them apart into points."""

from __future__ import annotations

import pytest
import shapely
from sample_layers import layer

from geocairn.failure import InputFailure
from geocairn.operations.multipart import collect, explode, extract_vertices


def test_collect_keeps_parts_in_order_and_null_is_a_group() -> None:
    points = layer(
        ["POINT (9 9)", "MULTIPOINT (1 1, 2 2)", None, "POINT (0 0)", "POINT EMPTY", "POINT (9 9)"],
        place=["b", None, "c", "b", "b", "b"],
    )
    result = collect(points, by="place")
    assert result.columns.tolist() == ["place", "geometry"]
    assert result["place"].tolist()[0::2] == ["b", "c"]
    assert result["place"].isna().tolist() == [False, True, False]
    assert result.geometry[0].wkt == "MULTIPOINT ((9 9), (0 0), (9 9))"
    assert result.geometry[1].wkt == "MULTIPOINT ((1 1), (2 2))"
    assert result.geometry[2] is None


def test_collect_all_rows_is_one_row_and_explode_takes_it_apart_again() -> None:
    lines = layer(["LINESTRING Z (0 0 1, 1 1 2)", "LINESTRING M (2 2 7, 3 3 8)", "LINESTRING (4 4, 5 5)"])
    together = collect(lines)
    assert together.columns.tolist() == ["geometry"]
    assert together.geometry[0].geom_type == "MultiLineString"
    apart = explode(together)
    assert shapely.equals(apart.geometry.values, lines.geometry.values).all()
    assert shapely.get_coordinates(apart.geometry.values, include_m=True)[2, 2] == 7


def test_one_part_becomes_a_multipart_and_nothing_is_united() -> None:
    squares = layer(["POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((1 1, 3 1, 3 3, 1 3, 1 1))"], k=[1, 2])
    assert collect(squares, by="k").geom_type.tolist() == ["MultiPolygon", "MultiPolygon"]
    assert collect(squares).area.tolist() == [8]


def test_collect_complaints() -> None:
    mixed = layer(["POINT (0 0)", "LINESTRING (0 0, 1 1)", "POINT (1 1)"], k=["x", "x", "y"])
    with pytest.raises(InputFailure, match=r"mixes kinds of geometry: result row 0; collect each kind on its own"):
        collect(mixed, by="k")
    with pytest.raises(InputFailure, match="mixes kinds"):
        collect(layer(["GEOMETRYCOLLECTION (POINT (0 0), LINESTRING (0 0, 1 1))"]))
    with pytest.raises(InputFailure, match="no column 'kk'; did you mean 'k'"):
        collect(mixed, by="kk")
    with pytest.raises(InputFailure, match="'geometry' is a geometry column"):
        collect(mixed, by="geometry")


def test_vertices_of_every_kind() -> None:
    result = extract_vertices(
        layer(
            [
                "MULTIPOLYGON (((0 0, 9 0, 0 9, 0 0), (1 1, 2 1, 1 2, 1 1)), ((20 0, 21 0, 20 1, 20 0)))",
                None,
                "POINT Z (5 5 7)",
                "LINESTRING EMPTY",
                "LINESTRING M (0 0 1, 1 1 2)",
                "GEOMETRYCOLLECTION (POINT (3 3), MULTILINESTRING ((0 0, 1 0), EMPTY, (2 2, 3 2)))",
            ]
        )
    )
    assert result["id"].value_counts(sort=False).tolist() == [12, 1, 1, 1, 2, 5]
    assert result["vertex_index"].dtype == result["part_index"].dtype == "Int64"
    shown = [result[result["id"] == row] for row in range(6)]
    assert shown[0]["vertex_index"].tolist() == list(range(12))
    assert shown[0]["part_index"].tolist() == [0] * 8 + [1] * 4
    assert shown[0].geometry.tolist()[4].wkt == "POINT (1 1)"
    assert shown[0].geometry.tolist()[7].wkt == "POINT (1 1)"
    assert shown[1].geometry.isna().all()
    assert shown[1]["vertex_index"].isna().all()
    assert shown[2].geometry.tolist()[0].wkt == "POINT Z (5 5 7)"
    assert shown[3].geometry.tolist()[0].wkt == "POINT EMPTY"
    assert shown[4].geometry.tolist()[1].wkt == "POINT M (1 1 2)"
    assert shown[5]["part_index"].tolist() == [0, 1, 1, 2, 2]


def test_vertices_do_not_overwrite_columns() -> None:
    with pytest.raises(InputFailure, match="has a column 'vertex_index' already"):
        extract_vertices(layer(["POINT (0 0)"], vertex_index=[3]))
