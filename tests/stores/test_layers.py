"""Layers through GeoParquet and through memory: equal in every type, whatever they hold."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from pyproj import CRS

from geocairn.failure import InputFailure
from geocairn.stores.layers import handed_over, read_layer_file, write_layer_file

ZONE = "Europe/Berlin"
SIX = ["a", "b", None, "ä", "", "a"]

COLUMNS: dict[str, Any] = {
    "int64": np.array([1, -2, 3, 2**62, 0, 5]),
    "uint8": np.array([1, 2, 3, 255, 0, 5], dtype="uint8"),
    "float32": np.array([1, np.nan, np.inf, -0.0, 5e-324, 1], dtype="float32"),
    "float16": np.array([1, 2, 3, 4, 5, 6], dtype="float16"),
    "bool": np.array([True, False] * 3),
    "Int64": pd.array([1, None, 2**60 + 1, None, 0, -1], dtype="Int64"),
    "UInt8": pd.array([1, None, 255, None, 0, 1], dtype="UInt8"),
    "Float64": pd.array([1.5, None, 2, None, 0, -1], dtype="Float64"),
    "boolean": pd.array([True, None, False, None, True, True], dtype="boolean"),
    "str": pd.array(SIX, dtype="str"),
    "string": pd.array(SIX, dtype="string[pyarrow]"),
    "string of Python": pd.array(SIX, dtype="string[python]"),
    "object text": pd.Series(SIX, dtype=object),
    "integers above 2**53 with nulls": pd.Series([2**60 + 1, None, 1, 2, None, 3], dtype=object),
    "booleans with nulls": pd.Series([True, None, False, None, True, True], dtype=object),
    "dates": pd.Series([dt.date(2020, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31), None, None], dtype=object),
    "times of day": pd.Series([dt.time(1, 2, 3), None, dt.time(0), None, None, None], dtype=object),
    "decimals": pd.Series([decimal.Decimal("1.10"), None, decimal.Decimal("-2.22"), None, None, None], dtype=object),
    "bytes": pd.Series([b"x", None, b"", b"\xff", None, b"x"], dtype=object),
    "nothing": pd.Series([None] * 6, dtype=object),
    "lists": pd.Series([[1, 2], None, [], [3], None, [4]], dtype=object),
    "mappings": pd.Series([{"a": 1}, None, {"b": "x"}, None, None, {"a": 2}], dtype=object),
    **{
        f"datetime64[{unit}]": pd.Series(["2020-01-01", None, "1969-12-31 23:59:59", None, None, "2262-01-01"]).astype(
            f"datetime64[{unit}]"
        )
        for unit in ("s", "ms", "us", "ns")
    },
    **{
        f"zoned {unit}": pd.to_datetime(
            pd.Series(["2021-10-31 00:30", "2021-10-31 01:30", None, "2021-03-28 01:00", None, "2021-01-01 00:00"]),
            utc=True,
        )
        .dt.tz_convert(ZONE)
        .dt.as_unit(unit)
        for unit in ("s", "ms", "us", "ns")
    },
    "fixed offset": pd.to_datetime(pd.Series(["2021-01-01 00:00+02:00"] * 6)),
    **{
        f"timedelta64[{unit}]": pd.Series([1, None, -5, 0, 7, 10**6], dtype="Int64").astype(f"timedelta64[{unit}]")
        for unit in ("s", "ms", "us", "ns")
    },
    "category": pd.Categorical(SIX, categories=["unused", "b", "a", "ä", ""], ordered=True),
    "category of integers": pd.Categorical([3, None, 1, 3, 3, 1], categories=[9, 3, 1]),
    "category of booleans": pd.Categorical([True, None, False, True, True, True]),
    "category of times": pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01", None] * 2).tz_localize(ZONE)),
    "category of intervals": pd.cut([1, 2, 3, 4, 5, 6], 3),
    "category of nothing": pd.Categorical([None] * 6),
    "period": pd.period_range("2020-01", periods=6, freq="M"),
    "interval": pd.interval_range(0, 6),
    "Arrow int64": pd.array([1, None, 3, None, 2**60, 0], dtype="int64[pyarrow]"),
    "Arrow seconds": pd.array([dt.datetime(2020, 1, 1), *[None] * 5], dtype=pd.ArrowDtype(pa.timestamp("s", ZONE))),
    "Arrow dates": pd.array([dt.date(2020, 1, 1), *[None] * 5], dtype=pd.ArrowDtype(pa.date32())),
    "Arrow lists": pd.array([[1], None, [2, None], [], None, [3]], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
    "Arrow structs": pd.array([{"a": 1}, None] * 3, dtype=pd.ArrowDtype(pa.struct([("a", pa.int64())]))),
    "Arrow decimals": pd.array([decimal.Decimal("1.1"), None] * 3, dtype=pd.ArrowDtype(pa.decimal128(5, 1))),
    "Arrow text": pd.array(SIX, dtype=pd.ArrowDtype(pa.string())),
}

# What pandas holds as plain objects comes back as what Arrow makes of it: arrays for lists, whole mappings.
CHANGED = {"lists", "mappings"}

POINTS = shapely.points(np.arange(12.0).reshape(6, 2))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "layer.parquet"


def through_a_file(layer: Any, path: Path, **more: Any) -> Any:
    write_layer_file(layer, path)
    return read_layer_file(path, **more)


def assert_same(one: Any, other: Any) -> None:
    """Assert that two layers have the same types, values, index, geometry columns, CRS and geometry bytes."""
    assert type(one) is type(other)
    assert list(one.columns) == list(other.columns)
    geometry = [name for name, dtype in one.dtypes.items() if str(dtype) == "geometry"]
    assert geometry == [name for name, dtype in other.dtypes.items() if str(dtype) == "geometry"]
    rest = [name for name in one.columns if name not in geometry]
    assert_frame_equal(
        pd.DataFrame(one[rest]), pd.DataFrame(other[rest]), check_exact=True, check_freq=False, check_column_type=False
    )
    for name, dtype in one[rest].dtypes.items():
        assert dtype == other.dtypes[name], name
        assert getattr(dtype, "storage", None) == getattr(other.dtypes[name], "storage", None), name
    if geometry:
        assert one.geometry.name == other.geometry.name
    for name in geometry:
        assert one[name].crs == other[name].crs
        coded = [list(shapely.to_wkb(frame[name].to_numpy(), include_srid=True)) for frame in (one, other)]
        assert coded[0] == coded[1]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_comes_back_from_a_file_and_from_memory(name: str, path: Path) -> None:
    layer = geopandas.GeoDataFrame({"value": COLUMNS[name]}, geometry=POINTS, crs="EPSG:5070")
    read, handed = through_a_file(layer, path), handed_over(layer)
    assert_same(handed, read)
    if name not in CHANGED:
        assert_same(read, layer)
    empty = layer.iloc[:0]
    read = through_a_file(empty, path)
    assert_same(handed_over(empty), read)
    assert read.crs == layer.crs
    if str(layer["value"].dtype) != "object":
        assert read["value"].dtype == layer["value"].dtype


@pytest.mark.parametrize("name", ["Int64", "str", "category of integers", "zoned s", "datetime64[s]", "Arrow seconds"])
def test_an_index_of_each_type_comes_back(name: str, path: Path) -> None:
    layer = geopandas.GeoDataFrame({"key": COLUMNS[name], "n": range(6)}, geometry=POINTS, crs=3857).set_index("key")
    read = through_a_file(layer, path)
    assert_same(read, layer)
    assert_same(handed_over(layer), read)
    several = layer.set_index(pd.Index(list("xyxyxy"), name="letter"), append=True)
    read = through_a_file(several, path)
    assert_same(read, several)
    assert_same(handed_over(several), read)
    assert_same(through_a_file(layer, path, columns=["n"]), layer)


def test_a_selection_keeps_its_labels_and_a_range_its_steps(path: Path) -> None:
    layer = geopandas.GeoDataFrame({"n": range(6)}, geometry=POINTS, crs=3857)
    for part in (layer[layer["n"].isin([1, 4])], layer.iloc[1::2], layer.rename_axis("fid")):
        read = through_a_file(part, path)
        assert_same(read, part)
        assert_same(handed_over(part), read)


_WELL_KNOWN = [
    "POINT (1 2)",
    "POINT EMPTY",
    "POINT Z (1 2 3)",
    "POINT M (1 2 4)",
    "POINT ZM (1 2 3 4)",
    "LINESTRING ZM (0 0 1 2, 1 1 2 3)",
    "POLYGON ((0 0, 1 0, 1 1, 0 0))",
    "POLYGON Z EMPTY",
    "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), EMPTY)",
    "MULTIPOINT (1 1, 2 2)",
    "GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (0 0, 1 1))",
    "GEOMETRYCOLLECTION EMPTY",
    "LINEARRING (0 0, 1 0, 1 1, 0 0)",
    "POINT (nan nan)",
    "LINESTRING (nan nan, 1 1)",
    "POINT (inf 1)",
]
_ODD = [None, shapely.set_srid(shapely.Point(1, 2), 4326), shapely.Point(0.1 + 0.2, 1e-300)]
GEOMETRIES = [*shapely.from_wkt(_WELL_KNOWN).tolist(), *_ODD]


@pytest.mark.parametrize("number", range(len(GEOMETRIES)))
def test_each_kind_of_geometry_comes_back(number: int, path: Path) -> None:
    layer = geopandas.GeoDataFrame({"n": [1, 2]}, geometry=[GEOMETRIES[number], None], crs="EPSG:4326")
    read = through_a_file(layer, path)
    assert_same(handed_over(layer), read)
    geometry = GEOMETRIES[number]
    if geometry is not None and not shapely.get_srid(geometry) and geometry.geom_type != "LinearRing":
        assert read.geometry[0] == geometry or np.isnan(shapely.get_coordinates(geometry)).any()
        assert (shapely.has_z(read.geometry[0]), shapely.has_m(read.geometry[0])) == (
            shapely.has_z(geometry),
            shapely.has_m(geometry),
        )
    assert read.geometry[1] is None


CUSTOM = CRS.from_proj4("+proj=laea +lat_0=12.5 +lon_0=7.25 +x_0=1000 +y_0=2000 +ellps=GRS80 +units=m +no_defs")


@pytest.mark.parametrize("crs", [None, "EPSG:4326", "EPSG:5070", "OGC:CRS84", "ESRI:102003", CUSTOM, "EPSG:5773+4326"])
def test_a_crs_comes_back_whole(crs: Any, path: Path) -> None:
    if crs == "EPSG:5773+4326":
        crs = "EPSG:4326+5773"
    layer = geopandas.GeoDataFrame({"n": range(6)}, geometry=POINTS, crs=crs)
    read = through_a_file(layer, path)
    assert read.crs == layer.crs
    assert handed_over(layer).crs == read.crs
    if crs is not None:
        assert read.crs.to_json_dict() == layer.crs.to_json_dict()


def test_several_geometry_columns_keep_their_crs_and_the_active_one_its_name(path: Path) -> None:
    layer = geopandas.GeoDataFrame({"n": range(6)}, geometry=POINTS, crs="EPSG:5070").rename_geometry("shape")
    layer.insert(0, "centre", geopandas.GeoSeries(POINTS, crs="EPSG:4326"))
    layer["unknown"] = geopandas.GeoSeries([None] * 6)
    read = through_a_file(layer, path)
    assert_same(read, layer)
    assert_same(handed_over(layer), read)
    assert [read[name].crs for name in ("centre", "unknown")] == [CRS("EPSG:4326"), None]
    assert list(read_layer_file(path, columns=["n"]).columns) == ["n", "shape"]
    assert list(read_layer_file(path, columns=["centre"]).columns) == ["centre", "shape"]


def test_an_attribute_named_like_the_covering_comes_back(path: Path) -> None:
    layer = geopandas.GeoDataFrame({"bbox": range(6), "_bbox": list("abcdef")}, geometry=POINTS, crs=3857)
    assert_same(through_a_file(layer, path), layer)
    index = layer.assign(__index_level_0__=1.5).set_index("bbox")
    assert_same(through_a_file(index, path), index)


def test_a_layer_without_attributes_and_a_table_without_geometry(path: Path) -> None:
    alone = geopandas.GeoDataFrame(geometry=POINTS, crs=3857)
    read = through_a_file(alone, path)
    assert_same(read, alone)
    assert_same(handed_over(alone), read)
    for table in (pd.DataFrame({"n": [1, None], "s": ["a", None]}), pd.DataFrame(index=pd.RangeIndex(3))):
        read = through_a_file(table, path)
        assert_same(read, table)
        assert_same(handed_over(table), read)
        assert b"geo" not in pq.read_schema(path).metadata


def test_the_file_is_geoparquet_that_others_read(path: Path) -> None:
    geometry = [shapely.Point(1, 2), None, shapely.Polygon(), shapely.box(0, 0, 5, 6)]
    layer = geopandas.GeoDataFrame({"n": range(4)}, geometry=geometry, crs="EPSG:5070")
    write_layer_file(layer, path)
    file = pq.ParquetFile(path)
    geo = json.loads(file.schema_arrow.metadata[b"geo"])
    assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
    column = geo["columns"]["geometry"]
    assert column["encoding"] == "WKB"
    assert column["geometry_types"] == ["Point", "Polygon"]
    assert column["bbox"] == [0, 0, 5, 6]
    assert column["crs"]["id"] == {"authority": "EPSG", "code": 5070}
    assert column["covering"]["bbox"]["xmin"] == ["bbox", "xmin"]
    boxes = file.read(["bbox"]).column(0).to_pylist()
    assert boxes == [
        {"xmin": 1, "ymin": 2, "xmax": 1, "ymax": 2},
        None,
        None,
        {"xmin": 0, "ymin": 0, "xmax": 5, "ymax": 6},
    ]
    assert {file.metadata.row_group(0).column(n).compression for n in range(file.metadata.num_columns)} == {"ZSTD"}
    other = geopandas.read_parquet(path)
    assert_same(other, layer)
    assert len(geopandas.read_parquet(path, bbox=(4, 4, 9, 9))) == 1
    file.close()


def test_an_empty_layer_has_schema_and_crs_and_no_bounds(path: Path) -> None:
    layer = geopandas.GeoDataFrame({"n": pd.array([], dtype="Int64")}, geometry=[], crs="EPSG:5070")
    read = through_a_file(layer, path)
    assert_same(read, layer)
    geo = json.loads(pq.read_schema(path).metadata[b"geo"])
    assert "bbox" not in geo["columns"]["geometry"]
    assert geo["columns"]["geometry"]["geometry_types"] == []
    json.loads(pq.read_schema(path).metadata[b"geo"], parse_constant=pytest.fail)


def test_attributes_that_pandas_carries_beside_are_left_behind(path: Path) -> None:
    layer = geopandas.GeoDataFrame({"n": range(6)}, geometry=POINTS, crs=3857)
    layer.attrs["secret"] = 1
    assert through_a_file(layer, path).attrs == {}
    assert handed_over(layer).attrs == {}
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda layer: layer.rename(columns={"n": 1}), "must be text"),
        (lambda layer: pd.concat([layer, layer[["n"]]], axis=1), "two columns named 'n'"),
        (lambda layer: layer.assign(m=[1, "two", None, 3, 4, 5]), "'m'"),
        (lambda layer: layer.assign(m=[object()] * 6), "'m'"),
        (lambda layer: layer.assign(m=[1 + 2j] * 6), "'m'"),
        (lambda layer: layer.assign(m=pd.Series(["\ud800"] * 6, dtype=object)), "'m'"),
        (lambda layer: layer.rename_axis(5), "index"),
        (lambda layer: geopandas.GeoDataFrame(layer.drop(columns="geometry")), "active geometry"),
        (lambda layer: pd.DataFrame(layer), "geometry column 'geometry'"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_name(change: Any, said: str, path: Path) -> None:
    layer = geopandas.GeoDataFrame({"n": range(6)}, geometry=POINTS, crs=3857)
    changed = change(layer)
    with pytest.raises(InputFailure, match=said):
        write_layer_file(changed, path)


def test_an_unknown_column_is_refused_with_the_nearest(path: Path) -> None:
    write_layer_file(geopandas.GeoDataFrame({"population": range(6)}, geometry=POINTS, crs=3857), path)
    with pytest.raises(InputFailure, match="'population'"):
        read_layer_file(path, columns=["populaton"])


# Any frame at all

_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
_floats = st.floats(allow_subnormal=True)


@st.composite
def _columns(draw: Any, rows: int) -> Any:
    """Draw one column: its values and its type."""

    def several(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    kind = draw(st.sampled_from(["int", "Int", "float", "str", "string", "python", "object", "time", "cat", "arrow"]))
    if kind == "int":
        dtype = draw(st.sampled_from(["int8", "int32", "int64", "uint16"]))
        return pd.Series(several(st.integers(0, 100)), dtype=dtype)
    if kind == "Int":
        dtype = draw(st.sampled_from(["Int8", "Int64", "UInt32"]))
        return pd.Series(several(st.none() | st.integers(0, 100)), dtype=dtype)
    if kind == "float":
        return pd.Series(several(_floats), dtype="float64")
    if kind in ("str", "string", "python"):
        dtype = {"str": "str", "string": "string[pyarrow]", "python": "string[python]"}[kind]
        return pd.Series(several(st.none() | _texts), dtype=dtype)
    if kind == "object":
        values = draw(
            st.sampled_from([_texts, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.dates(), st.binary()])
        )
        return pd.Series(several(st.none() | values), dtype=object)
    if kind == "time":
        unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
        moments = pd.Series(pd.to_datetime(several(st.none() | _moments)), dtype="datetime64[us]").dt.as_unit(unit)
        zone = draw(st.sampled_from([None, "UTC", ZONE, "Asia/Kathmandu"]))
        return moments.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else moments
    if kind == "cat":
        values = draw(st.sampled_from([_texts, st.integers(-9, 9), _moments, st.booleans()]))
        categories = draw(st.lists(values, unique=True, max_size=5))
        codes = several(st.integers(-1, len(categories) - 1))
        return pd.Series(pd.Categorical.from_codes(codes, categories=categories, ordered=draw(st.booleans())))
    dtype = draw(st.sampled_from([pa.int64(), pa.timestamp("s"), pa.string(), pa.list_(pa.float32())]))
    values = {
        pa.int64(): st.integers(-9, 9),
        pa.timestamp("s"): _moments.map(lambda moment: moment.replace(microsecond=0)),
        pa.string(): _texts,
        pa.list_(pa.float32()): st.lists(st.floats(0, 1, width=32), max_size=3),
    }[dtype]
    return pd.Series(several(st.none() | values), dtype=pd.ArrowDtype(dtype))


@st.composite
def _layers(draw: Any) -> Any:
    rows = draw(st.integers(0, 5))
    names = draw(st.lists(_texts.filter(lambda name: name != "geometry"), unique=True, max_size=4))
    frame = pd.DataFrame({name: draw(_columns(rows)) for name in names}, index=pd.RangeIndex(rows))
    index = draw(st.sampled_from(["range", "labels", "column"]))
    if index == "labels":
        frame.index = pd.Index(draw(st.lists(st.integers(-9, 9), min_size=rows, max_size=rows)), dtype="int64")
    elif index == "column":
        frame.index = pd.Index(draw(_columns(rows)), name=draw(st.none() | _texts))
    if draw(st.booleans()) and draw(st.booleans()):
        return frame
    chosen = draw(st.lists(st.integers(0, len(GEOMETRIES) - 1), min_size=rows, max_size=rows))
    crs = draw(st.sampled_from([None, "EPSG:4326", "EPSG:5070"]))
    geometry = np.array([GEOMETRIES[number] for number in chosen], dtype=object)
    layer = geopandas.GeoDataFrame(frame, geometry=geopandas.GeoSeries(geometry, index=frame.index, crs=crs))
    if draw(st.booleans()):
        layer.insert(0, "geometry too", geopandas.GeoSeries(geometry[::-1], index=frame.index, crs="EPSG:3857"))
    return layer


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(layer=_layers())
def test_handing_over_equals_writing_and_reading(layer: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    read = through_a_file(layer, path)
    assert_same(handed_over(layer), read)
    assert list(read.columns) == list(layer.columns)
    assert [str(dtype) for dtype in read.dtypes] == [
        str(was) if str(was) != "object" else str(now) for was, now in zip(layer.dtypes, read.dtypes, strict=True)
    ]
    assert read.index.names == layer.index.names
    assert_same(handed_over(read), read)  # nothing changes a second time
