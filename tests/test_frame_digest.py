"""The digest of a layer in memory: one for equal content, another for every difference."""

from __future__ import annotations

import decimal
import pickle
import sys
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from geocairn.failure import InputFailure
from geocairn.frame_digest import frame_digest
from geocairn.stores.layers import handed_over, read_layer_file, write_layer_file

sys.path.insert(0, str(Path(__file__).parent / "operations"))

from sample_layers import rich

WKT = [
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    None,
    "POLYGON EMPTY",
    "MULTIPOLYGON Z (((4 0 1, 8 0 2, 8 4 3, 4 0 1)))",
    "LINESTRING (0 0, 1 1)",
]


def sample() -> gpd.GeoDataFrame:
    layer = rich(WKT).drop(columns="thing")
    layer["list"] = pd.array([[1, 2], None, [], [3], [4]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    layer["money"] = pd.array(
        [decimal.Decimal("1.10"), None, decimal.Decimal(2), None, None], dtype=pd.ArrowDtype(pa.decimal128(10, 2))
    )
    layer["raw"] = pd.array([b"a\0", None, b"", b"c", b"d"], dtype=pd.ArrowDtype(pa.binary()))
    layer["fixed"] = pd.array([b"ab", None, b"cd", b"ef", b"gh"], dtype=pd.ArrowDtype(pa.binary(2)))
    layer["clock"] = pd.array([1, None, 3, 4, 5], dtype=pd.ArrowDtype(pa.time32("s")))
    layer["span"] = pd.to_timedelta([1, None, 3, 4, 5], unit="s")
    layer["nothing"] = pd.array([None] * 5, dtype=pd.ArrowDtype(pa.null()))
    layer["half"] = np.array([1, 2, np.nan, 4, 5], dtype="float16").astype("float32")
    layer["ordered"] = pd.Categorical(["a", "b", "a", None, "a"], categories=["b", "a"], ordered=True)
    return layer


GOLDEN = frame_digest(sample())


def test_it_holds_under_a_pickle_round_trip():
    once = pickle.loads(pickle.dumps(sample()))
    assert frame_digest(once) == GOLDEN
    assert frame_digest(pickle.loads(pickle.dumps(once))) == GOLDEN


def test_it_holds_under_a_copy_a_slice_and_another_index():
    layer = sample()
    assert frame_digest(layer.copy()) == GOLDEN
    assert frame_digest(layer.reset_index(drop=True)) == GOLDEN
    twice = pd.concat([layer, layer])
    assert frame_digest(twice.iloc[5:]) == GOLDEN
    assert frame_digest(twice.iloc[:5]) == GOLDEN
    assert frame_digest(twice.iloc[::-1].iloc[::-1].iloc[:5]) == GOLDEN
    with_index = layer.set_index(pd.MultiIndex.from_arrays([range(5), list("abcde")]))
    assert frame_digest(with_index) == GOLDEN


def test_it_holds_whatever_the_chunks():
    parts = [pa.array(["a", None]), pa.array([], type=pa.string()), pa.array(["é", "", "d"])]
    numbers = [pa.array([1.5, None]), pa.array([np.nan, -0.0, 2.0], from_pandas=False)]
    one = pd.DataFrame(
        {
            "text": pd.array(pa.concat_arrays(parts).to_pylist(), dtype=pd.ArrowDtype(pa.string())),
            "number": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.concat_arrays(numbers)])),
        }
    )
    other = pd.DataFrame(
        {
            "text": pd.arrays.ArrowExtensionArray(pa.chunked_array(parts)),
            "number": pd.arrays.ArrowExtensionArray(pa.chunked_array(numbers)),
        }
    )
    assert frame_digest(one) == frame_digest(other)


def test_what_lies_under_a_null_and_the_bits_of_nan_do_not_count():
    one, other = np.array([1.0, np.nan]), np.array([1.0, np.nan])
    other.view("uint64")[1] ^= 1 << 63
    assert one.tobytes() != other.tobytes()
    assert frame_digest(pd.DataFrame({"a": one})) == frame_digest(pd.DataFrame({"a": other}))
    masked = [pd.arrays.IntegerArray(np.array([1, under], dtype="int64"), np.array([False, True])) for under in (0, 99)]
    assert frame_digest(pd.DataFrame({"a": masked[0]})) == frame_digest(pd.DataFrame({"a": masked[1]}))


def test_it_holds_through_a_geoparquet_file_and_a_hand_over(tmp_path):
    path = tmp_path / "layer.parquet"
    write_layer_file(sample(), path)
    assert frame_digest(read_layer_file(path)) == GOLDEN
    assert frame_digest(handed_over(sample())) == GOLDEN


def change(name: str, value: object) -> gpd.GeoDataFrame:
    layer = sample()
    layer[name] = value
    return layer


def differing() -> dict[str, gpd.GeoDataFrame]:
    layer = sample()
    swapped = list(layer.columns)
    swapped[0], swapped[1] = swapped[1], swapped[0]
    reversed_ring = layer.geometry.copy()
    reversed_ring.iloc[0] = shapely.reverse(reversed_ring.iloc[0])
    turned = layer.geometry.copy()
    turned.iloc[4] = shapely.reverse(turned.iloc[4])
    flat = layer.geometry.copy()
    flat.iloc[3] = shapely.force_2d(flat.iloc[3])
    empty = layer.geometry.copy()
    empty.iloc[1] = shapely.from_wkt("POLYGON EMPTY")
    other_empty = layer.geometry.copy()
    other_empty.iloc[2] = shapely.from_wkt("POINT EMPTY")
    nudged = layer.geometry.copy()
    nudged.iloc[4] = shapely.from_wkt("LINESTRING (0 0, 1 1.0000000000000002)")
    return {
        "a value": change("whole", [0, 1, 2, 3, 5]),
        "a big integer by one": change("big", layer["big"] + 1),
        "int32 and int64": change("whole", layer["whole"].astype("int64")),
        "int32 and Int32": change("whole", layer["whole"].astype("Int32")),
        "int and float": change("whole", layer["whole"].astype("float64")),
        "bool and int": change("flag", layer["flag"].astype("int8")),
        "text and category": change("text", layer["text"].astype("category")),
        "text of two storages": change("text", layer["text"].astype("string[python]")),
        "text and object": change("text", layer["text"].astype(object)),
        "null and empty text": change("text", layer["text"].fillna("")),
        "a null less": change("real", layer["real"].fillna(0)),
        "the order of categories": change("kind", layer["kind"].cat.reorder_categories(["a", "b", "c"])),
        "an unused category": change("kind", layer["kind"].cat.remove_unused_categories()),
        "ordered categories": change("ordered", layer["ordered"].cat.as_unordered()),
        "the zone of times": change("when", layer["when"].dt.tz_convert("UTC")),
        "the unit of times": change("day", layer["day"].dt.as_unit("ms")),
        "a duration": change("span", layer["span"] * 2),
        "an item of a list": change(
            "list", pd.array([[1, 3], None, [], [3], [4]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
        ),
        "an empty list and null": change(
            "list", pd.array([[1, 2], [], [], [3], [4]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
        ),
        "bytes of one width": change(
            "fixed", pd.array([b"ab", None, b"cd", b"ef", b"gi"], dtype=pd.ArrowDtype(pa.binary(2)))
        ),
        "the order of rows": layer.iloc[::-1],
        "a row less": layer.iloc[:4],
        "the order of columns": layer[swapped],
        "a column's name": layer.rename(columns={"whole": "hole"}),
        "a column less": layer.drop(columns="whole"),
        "the active geometry": layer.set_geometry("mark"),
        "the geometry's name": layer.rename_geometry("geometry"),
        "the CRS": layer.set_crs("EPSG:6350", allow_override=True),
        "no CRS": layer.set_crs(None, allow_override=True),
        "the CRS of another geometry": change("mark", layer["mark"].set_crs("EPSG:6350", allow_override=True)),
        "the direction of a ring": layer.set_geometry(reversed_ring),
        "the direction of a line": layer.set_geometry(turned),
        "Z": layer.set_geometry(flat),
        "null and empty geometry": layer.set_geometry(empty),
        "the kind of an empty geometry": layer.set_geometry(other_empty),
        "the last bit of a coordinate": layer.set_geometry(nudged),
        "a table": pd.DataFrame(layer.drop(columns=["shape", "mark"])),
    }


def test_every_difference_gives_another_digest():
    found = {name: frame_digest(layer) for name, layer in differing().items()}
    found["nothing"] = GOLDEN
    alike: dict[str, list[str]] = {}
    for name, value in found.items():
        alike.setdefault(value, []).append(name)
    assert [names for names in alike.values() if len(names) > 1] == []


def test_null_and_not_a_number_differ_where_the_type_tells_them_apart():
    def of(values: list, kind: object) -> str:
        return frame_digest(pd.DataFrame({"a": pd.array(values, dtype=kind)}))

    arrays = [pa.chunked_array([pa.array([1.0, last], from_pandas=False)]) for last in (None, float("nan"))]
    null, nan = (frame_digest(pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(array)})) for array in arrays)
    assert null != nan
    assert of([1.0, None], "float64") == of([1.0, np.nan], "float64")
    assert of(["a", None], "string[pyarrow]") != of(["a", "nan"], "string[pyarrow]")


def test_texts_do_not_run_into_each_other():
    def of(*texts: str | None) -> str:
        return frame_digest(pd.DataFrame({"a": pd.array(list(texts), dtype="str")}))

    assert len({of("ab", "c"), of("a", "bc"), of("", "abc"), of("abc", ""), of("abc", None), of(None, "abc")}) == 6


def test_columns_do_not_run_into_each_other():
    one = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert frame_digest(one) != frame_digest(pd.DataFrame({"a": [1, 2], "b": [4, 3]}))
    assert frame_digest(one) != frame_digest(pd.DataFrame({"b": [1, 2], "a": [3, 4]}))


_tables = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
        st.floats(allow_nan=False),
        st.none() | st.booleans(),
    ),
    max_size=8,
)


def frame_of(rows: list[tuple]) -> pd.DataFrame:
    whole, text, real, flag = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    return pd.DataFrame(
        {
            "whole": pd.array(whole, dtype="Int64"),
            "text": pd.array(text, dtype="str"),
            "real": np.array(real, dtype="float64"),
            "flag": pd.array(flag, dtype="boolean"),
        }
    )


@given(_tables, _tables)
@settings(max_examples=150, deadline=None)
def test_digests_are_equal_exactly_when_the_content_is(one, other):
    same = frame_digest(frame_of(one)) == frame_digest(frame_of(other))
    assert same == (one == other)


@given(_tables, st.data())
@settings(max_examples=100, deadline=None)
def test_slices_and_joins_do_not_count(rows, data):
    cut = data.draw(st.integers(0, len(rows)))
    whole = frame_of(rows)
    joined = pd.concat([whole.iloc[:cut], whole.iloc[cut:]]) if rows else whole
    assert frame_digest(joined) == frame_digest(whole)
    assert frame_digest(pickle.loads(pickle.dumps(whole))) == frame_digest(whole)


def test_what_cannot_be_stored_is_refused():
    with pytest.raises(InputFailure):
        frame_digest(pd.DataFrame({"a": [1, "x"]}))
    with pytest.raises(InputFailure, match="column names must be text"):
        frame_digest(pd.DataFrame({1: [1]}))


def test_it_holds_across_processes():
    import os
    import subprocess

    code = (
        "import geopandas as gpd, shapely\nfrom geocairn.frame_digest import frame_digest\n"
        "print(frame_digest(gpd.GeoDataFrame({'a': [1, 2], 'b': ['x', None]}, "
        "geometry=[shapely.Point(0, 1), None], crs='EPSG:5070')))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1
