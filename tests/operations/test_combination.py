"""merge_layers and deduplicate: types that lose nothing, one CRS, equal geometry however it is written."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from sample_layers import BIG, layer, rich

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.combination import deduplicate, merge_layers

POINTS = ["POINT (0 0)", "POINT (1 1)"]


def of(values: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"c": values}, geometry=shapely.points(np.zeros((len(values), 2))), crs="EPSG:5070")


def test_rows_and_columns_in_order_and_missing_where_a_layer_has_none() -> None:
    one = layer(POINTS, a=[1, 2], flag=[True, False])
    two = layer(POINTS[:1], a=[3], b=["x"]).rename_geometry("shape")
    result = merge_layers([one, two], source_column="from")
    assert list(result.columns) == ["id", "a", "flag", "b", "from", "geometry"]
    assert result["a"].tolist() == [1, 2, 3]
    assert list(map(str, result.dtypes)) == ["int64", "int64", "boolean", "str", "Int64", "geometry"]
    assert result["flag"].isna().tolist() == [False, False, True]
    assert result["from"].tolist() == [1, 1, 2]
    assert isinstance(result.index, pd.RangeIndex)
    named = merge_layers([one, two], fields="intersection", source_column="from", source_names=["one", "two"])
    assert list(named.columns) == ["id", "a", "from", "geometry"]
    assert named["from"].tolist() == ["one", "one", "two"]


def test_the_same_layer_twice_keeps_every_type() -> None:
    some = rich(POINTS)
    result = merge_layers([some, some])
    assert len(result) == 4
    assert result.geometry.name == "shape"
    assert {name: str(dtype) for name, dtype in result.dtypes.items()} == {
        name: str(dtype) for name, dtype in some.dtypes.items()
    }
    assert result["mark"].crs == some.crs


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        (np.array([1], "int32"), np.array([2], "int64"), "int64"),
        (np.array([1], "uint8"), np.array([-2], "int8"), "int16"),
        (np.array([1], "uint64"), np.array([-2], "int64"), "int64"),
        (np.array([1]), pd.array([None], dtype="Int64"), "Int64"),
        (np.array([1]), np.array([2.5]), "float64"),
        (pd.array([1], dtype="Int64"), np.array([2.5]), "Float64"),
        (np.array([True]), pd.array([None], dtype="boolean"), "boolean"),
        (["a"], pd.array(["b"], dtype="string[pyarrow]"), "str"),
        (pd.Categorical(["a"]), ["b"], "str"),
        (pd.Categorical(["a"]), pd.Categorical(["b"]), "category"),
        (np.array([1]), pd.Series([None], dtype=object), "Int64"),
        (pd.to_datetime(["2026-01-01"]).as_unit("s"), pd.to_datetime(["2026-01-01"]).as_unit("ns"), "datetime64[ns]"),
        (
            pd.to_datetime(["2026-01-01"]).tz_localize("Europe/Paris").as_unit("s"),
            pd.to_datetime(["2026-01-01"]).tz_localize("Asia/Tokyo").as_unit("s"),
            "datetime64[s, UTC]",
        ),
    ],
)
def test_types_are_widened_where_nothing_is_lost(left: Any, right: Any, dtype: str) -> None:
    one, two = of(left), of(right)
    for result in (merge_layers([one, two]), merge_layers([two, one])):
        assert str(result.dtypes["c"]) == dtype
    both = merge_layers([one, two])["c"]
    for found, meant in zip(both, [one["c"].iloc[0], two["c"].iloc[0]], strict=True):
        assert (pd.isna(found) and pd.isna(meant)) or found == meant


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ([1], ["a"], "column 'c' is int64 in layer 1 and str in layer 2"),
        ([True], [1], "is bool in layer 1 and int64 in layer 2"),
        ([BIG], [0.5], r"above 2\^53"),
        (np.array([2**63], "uint64"), np.array([-1]), r"above 2\^63"),
        (pd.to_datetime(["2026-01-01"]), pd.to_datetime(["2026-01-01"]).tz_localize("UTC"), "datetime64"),
    ],
)
def test_types_that_have_nothing_in_common_are_refused(left: Any, right: Any, said: str) -> None:
    for pair in ((left, right), (right, left)):
        with pytest.raises(InputFailure, match=said if pair[0] is left else "column 'c'"):
            merge_layers([of(pair[0]), of(pair[1])])


def test_crs_and_kinds_must_agree() -> None:
    metres, degrees, unknown = layer(POINTS), layer(POINTS, crs="EPSG:4326"), layer(POINTS, crs=None)
    with pytest.raises(InputFailure, match=r"'layers\[0\]' is in EPSG:5070, 'layers\[1\]' in EPSG:4326"):
        merge_layers([metres, degrees])
    with pytest.raises(InputFailure, match=r"'layers\[1\]' is in EPSG:5070, 'layers\[2\]'"):
        merge_layers([metres, metres, unknown])
    with pytest.raises(InputFailure, match="layer 1 has point geometry, layer 3 line"):
        merge_layers([metres, layer([None]), layer(["LINESTRING (0 0, 1 1)"])])
    with pytest.raises(InputFailure, match="no layer to merge"):
        merge_layers([])
    assert len(merge_layers([metres.iloc[:0], metres])) == 2


def test_names_that_clash_are_refused() -> None:
    some = layer(POINTS, a=[1, 2])
    with pytest.raises(InputFailure, match="column 'a' already"):
        merge_layers([some], source_column="a")
    with pytest.raises(InputFailure, match="1 names for 2 layers"):
        merge_layers([some, some], source_column="s", source_names=["x"])
    shape = some.rename_geometry("shape").assign(geometry=["x", "y"])
    with pytest.raises(InputFailure, match="layer 2 has an attribute 'geometry'"):
        merge_layers([some, shape])


SQUARE = "POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))"
SAME_SQUARES = [
    SQUARE,
    "POLYGON ((2 2, 2 0, 0 0, 0 2, 2 2))",
    "POLYGON ((0 0, 1 0, 2 0, 2 2, 0 2, 0 0))",
    "MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2, 0 0)))",
    "POLYGON ((0 0, 2 0, 2 2, 1 1, 0 2, 0 0))",
    "POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0), (0.5 0.5, 1 0.5, 1 1, 0.5 0.5))",
]


def ids(result: Any) -> list[int]:
    return result["id"].tolist()


def test_equal_geometry_is_found_however_it_is_written() -> None:
    assert ids(deduplicate(layer(SAME_SQUARES))) == [0, 4, 5]
    lines = [
        "LINESTRING (0 0, 1 1, 2 2)",
        "LINESTRING (2 2, 0 0)",
        "LINESTRING (0 0, 2 2, 1 1)",
        "LINESTRING (0 2, 2 0)",
    ]
    assert ids(deduplicate(layer(lines))) == [0, 3]
    points = ["POINT (0 0)", "MULTIPOINT ((0 0))", "POINT (-0 0)", "POINT (0 1e-12)"]
    assert ids(deduplicate(layer(points))) == [0, 3]


def test_z_counts() -> None:
    wells = ["POINT Z (0 0 1)", "POINT Z (0 0 2)", "POINT (0 0)", "POINT Z (0 0 1)"]
    assert ids(deduplicate(layer(wells))) == [0, 1, 2]
    assert ids(deduplicate(layer(wells), tolerance=1.5)) == [0, 2]
    assert ids(deduplicate(layer(wells), tolerance=0.5)) == [0, 1, 2]


def test_rows_without_geometry_stay_unless_only_attributes_are_compared() -> None:
    some = layer([None, None, "POINT EMPTY", "POINT EMPTY", "POINT (1 1)", "POINT (1 1)"], k=["a"] * 6)
    assert ids(deduplicate(some)) == [0, 1, 2, 3, 4]
    assert ids(deduplicate(some, tolerance=1)) == [0, 1, 2, 3, 4]
    assert ids(deduplicate(some, by="k", geometry=False)) == [0]


def test_columns_must_agree_too_and_a_missing_value_equals_a_missing_one() -> None:
    some = layer(["POINT (1 1)"] * 5, k=pd.array([1, None, 1, None, BIG], dtype="Int64"))
    with collecting() as notes:
        assert ids(deduplicate(some, by="k")) == [0, 1, 4]
    assert notes.facts["rows_removed"] == 2
    with pytest.raises(InputFailure, match="nothing to compare"):
        deduplicate(some, geometry=False)


def test_a_tolerance_measures_from_what_is_kept() -> None:
    # 0, 0.9, 1.8: the second is near the first and goes, so the third, near the second alone, stays.
    chain = ["POINT (0 0)", "POINT (0.9 0)", "POINT (1.8 0)", "POINT (1.8 1)"]
    assert ids(deduplicate(layer(chain), tolerance=1)) == [0, 2]
    lines = ["LINESTRING (0 0, 10 0)", "LINESTRING (10 0.1, 5 0, 0 0.1)", "LINESTRING (0 0, 10 0, 10 3)"]
    assert ids(deduplicate(layer(lines), tolerance=0.2)) == [0, 2]
    with pytest.raises(InputFailure, match="in degrees"):
        deduplicate(layer(chain, crs="EPSG:4326"), tolerance=1)


def test_a_bow_tie_equals_itself_alone() -> None:
    ties = layer(["POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))", SQUARE, "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"])
    assert ids(deduplicate(ties)) == [0, 1]
