"""A folder of GeoParquet files as one layer."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from pyarrow import parquet
from shapely import LineString, Point, Polygon

from geocairn.failure import InputFailure
from geocairn.filters.evaluation import matching
from geocairn.sources.describe import describe
from geocairn.sources.geoparquet.pruning import matching_groups
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version


def at(path: Path, **options: Any) -> gpd.GeoDataFrame:
    return read(Source.model_validate({"uri": str(path), **options}))


def points(*numbers: int, crs: str = "EPSG:5070", **columns: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": list(numbers), **columns}, geometry=[Point(n, n) for n in numbers], crs=crs)


def put(folder: Path, **layers: gpd.GeoDataFrame) -> Path:
    for name, layer in layers.items():
        path = folder / f"{name.replace('__', '/').replace('_eq_', '=')}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        layer.to_parquet(path, index=False, write_covering_bbox=True)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "towns.parquet"


def test_rows_come_by_the_path_of_their_file(folder: Path) -> None:
    put(folder, c=points(5, 6), a__z=points(3), b=points(4), a__b__c=points(1, 2))
    assert at(folder)["n"].tolist() == [1, 2, 3, 4, 5, 6]
    facts = describe(Source(uri=str(folder)))
    assert (facts.rows, facts.kinds) == (6, ("point",))


def test_what_is_no_part_is_left_out(folder: Path) -> None:
    put(folder, a=points(1))
    version = resolve_version(Source(uri=str(folder)))
    for name in ("_metadata", "_common_metadata", "_SUCCESS", ".a.parquet.crc", ".hidden.parquet"):
        (folder / name).write_bytes(b"PAR1 nothing of worth")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "b.parquet").write_bytes(b"half")
    assert at(folder)["n"].tolist() == [1]
    assert resolve_version(Source(uri=str(folder))).text == version.text


def test_keys_in_the_folders_names_are_columns(folder: Path) -> None:
    for keys, layer in (
        ("year=2023/name=a%2Fb", points(1)),
        ("year=2024/name=Z%C3%BCrich", points(2, 3)),
        ("year=2024/name=__HIVE_DEFAULT_PARTITION__", points(4)),
    ):
        (folder / keys).mkdir(parents=True)
        layer.to_parquet(folder / keys / "0.parquet", index=False)
    layer = at(folder).sort_values("n")
    assert list(layer.columns) == ["n", "geometry", "year", "name"]
    assert layer["year"].tolist() == [2023, 2024, 2024, 2024]
    assert layer["year"].dtype == np.dtype("int64")
    assert layer["name"].tolist()[:3] == ["a/b", "Zürich", "Zürich"]
    assert layer["name"].isna().tolist() == [False, False, False, True]
    facts = describe(Source(uri=str(folder)))
    assert (facts.columns["year"], facts.columns["name"]) == ("integer", "text")
    assert at(folder, where="year = 2024 AND name IS NULL")["n"].tolist() == [4]
    assert at(folder, where="name = 'a/b'", columns=["year"])["year"].tolist() == [2023]
    with pytest.raises(InputFailure, match="no column 'years'; did you mean 'year'"):
        at(folder, columns=["years"])


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["1", "20"], [1, 20]),
        (["01", "20"], ["01", "20"]),
        (["1", "x"], ["1", "x"]),
        (["1", "__HIVE_DEFAULT_PARTITION__"], [1, None]),
        (["-5", "0"], [-5, 0]),
        (["123456789012345678901", "1"], ["1", "123456789012345678901"]),
    ],
)
def test_a_key_is_a_whole_number_only_where_nothing_is_lost(folder: Path, values: list[str], wanted: list[Any]) -> None:
    for value in values:
        (folder / f"k={value}").mkdir(parents=True)
        points(1).to_parquet(folder / f"k={value}" / "0.parquet", index=False)
    found = [None if pd.isna(value) else value for value in at(folder)["k"].tolist()]
    assert found == wanted
    # The same type, whichever of the files is read.
    assert str(at(folder, where="k IS NULL")["k"].dtype).lower() == str(at(folder)["k"].dtype).lower()


def test_a_column_that_the_file_has_goes_before_the_folders_key(folder: Path) -> None:
    (folder / "n=7").mkdir(parents=True)
    points(1).to_parquet(folder / "n=7" / "0.parquet", index=False)
    assert at(folder, where="n = 1")["n"].tolist() == [1]


@pytest.mark.parametrize(
    ("types", "wider"),
    [
        (("int32", "int64"), "int64"),
        (("int64", "int8"), "int64"),
        (("uint8", "int16"), "int16"),
        (("float32", "float64"), "float64"),
        (("int32", "float64"), "float64"),
    ],
)
def test_a_type_is_widened_where_no_value_changes(folder: Path, types: tuple[str, str], wider: str) -> None:
    put(folder, a=points(1, v=np.array([3], dtype=types[0])), b=points(2, v=np.array([4], dtype=types[1])))
    layer = at(folder)
    assert layer["v"].tolist() == [3, 4]
    assert layer["v"].dtype == np.dtype(wider)
    assert describe(Source(uri=str(folder))).columns["v"] == ("number" if "float" in wider else "integer")


@pytest.mark.parametrize(
    "values",
    [(np.array([3]), ["text"]), (np.array([2**60]), np.array([0.5])), (np.array([1], dtype="uint64"), np.array([-1]))],
)
def test_types_that_do_not_go_together_are_refused_by_name(folder: Path, values: tuple[Any, Any]) -> None:
    put(folder, a=points(1, v=values[0]), b=points(2, v=values[1]))
    for attempt in (lambda: at(folder), lambda: describe(Source(uri=str(folder)))):
        with pytest.raises(InputFailure, match=r"towns.parquet/b.parquet: its column 'v' is .*leave it out"):
            attempt()


def test_files_that_do_not_go_together_are_refused_by_name(folder: Path) -> None:
    put(folder, a=points(1, v=[1], w=[1]))
    for name, layer, words in (
        ("b", points(2, v=[1]), "differs in its columns.*it has no 'w'"),
        ("b", points(2, v=[1], w=[1], x=[1]), "has 'x', which that has not"),
        ("b", points(2, v=[1], w=[1], crs="EPSG:4326"), "differs in CRS.*EPSG:4326, and there EPSG:5070"),
        ("b", points(2, v=[1], w=[1]).rename_geometry("shape"), "differs in its geometry column.*'shape'"),
        ("k_eq_1__b", points(2, v=[1], w=[1]), r"lies in folders of the keys k, and the first file of \(none\)"),
    ):
        put(folder, **{name: layer})
        with pytest.raises(InputFailure, match=words):
            at(folder)
        for path in (folder / "b.parquet", folder / "k=1" / "b.parquet"):
            path.unlink(missing_ok=True)
    (folder / "b.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(InputFailure, match=r"towns.parquet/b.parquet: is not a sound Parquet file"):
        at(folder)
    pd.DataFrame({"n": [1]}).to_parquet(folder / "b.parquet")
    with pytest.raises(InputFailure, match=r"b.parquet: is a Parquet table without geometry"):
        at(folder)


def test_columns_in_another_order_and_kinds_of_all_files(folder: Path) -> None:
    line = gpd.GeoDataFrame({"v": [2], "n": [2]}, geometry=[LineString([(0, 0), (1, 1)])], crs="EPSG:5070")
    put(folder, a=points(1, v=[1]), b=line)
    layer = at(folder)
    assert list(layer.columns) == ["n", "v", "geometry"]
    assert layer["v"].tolist() == [1, 2]
    assert describe(Source(uri=str(folder))).kinds == ("point", "line")


def test_geometry_is_held_against_the_metadata_of_its_own_file(folder: Path) -> None:
    put(folder, a=points(1), b=points(2))
    table = parquet.read_table(folder / "b.parquet")
    geo = json.loads(table.schema.metadata[b"geo"])
    geo["columns"]["geometry"]["geometry_types"] = ["Polygon"]
    changed = table.replace_schema_metadata({**table.schema.metadata, b"geo": json.dumps(geo).encode()})
    parquet.write_table(changed, folder / "b.parquet")
    with pytest.raises(InputFailure, match=r"b.parquet: its 'geo' metadata declares Polygon, and there is Point"):
        at(folder)


def test_a_table_in_a_folder(folder: Path) -> None:
    for key in ("x", "y"):
        (folder / f"k={key}").mkdir(parents=True)
        pd.DataFrame({"n": pd.array([1, None], dtype="Int64")}).to_parquet(folder / f"k={key}" / "0.parquet")
    table = read(Source(uri=str(folder), table=True, where="k = 'y'"))
    assert table["n"].tolist() == [1, pd.NA]
    assert table["k"].tolist() == ["y", "y"]
    assert not isinstance(table, gpd.GeoDataFrame)


def test_categories_of_several_files(folder: Path) -> None:
    put(folder, a=points(1, c=pd.Categorical(["x"])), b=points(2, c=pd.Categorical(["y"])))
    assert at(folder)["c"].astype(str).tolist() == ["x", "y"]


def test_data_in_other_files_are_refused(tmp_path: Path) -> None:
    points(1).to_parquet(tmp_path / "a.parquet", index=False)
    metadata = parquet.read_metadata(tmp_path / "a.parquet")
    metadata.set_file_path("../elsewhere.parquet")
    metadata.write_metadata_file(tmp_path / "b.parquet")
    with pytest.raises(InputFailure, match="whose data lie in other files"):
        at(tmp_path / "b.parquet")


ROWS = 40


def strips(path: Path, encoding: str = "WKB", **options: Any) -> gpd.GeoDataFrame:
    """Forty small squares in a row (or points), one to a row group."""
    places = np.arange(ROWS)
    shapes = shapely.box(places, 0, places + 0.5, 1) if encoding == "WKB" else shapely.points(places, 0)
    layer = gpd.GeoDataFrame({"n": places}, geometry=shapes, crs="EPSG:5070")
    layer.to_parquet(path, index=False, row_group_size=1, geometry_encoding=encoding, **options)
    return layer


def read_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the row groups that are read from here on."""
    from geocairn.sources.geoparquet.dataset import ParquetFile

    real, found = ParquetFile.read, []

    def watched(self: ParquetFile, groups: list[int], columns: list[str]) -> Any:
        found.extend(groups)
        return real(self, groups, columns)

    monkeypatch.setattr(ParquetFile, "read", watched)
    return found


@pytest.mark.parametrize(
    ("options", "pruned"),
    [({"write_covering_bbox": True}, True), ({"encoding": "geoarrow"}, True), ({}, False)],
)
def test_a_box_reads_the_row_groups_that_can_meet_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], pruned: bool
) -> None:
    strips(tmp_path / "a.parquet", **options)
    found = read_groups(monkeypatch)
    assert at(tmp_path / "a.parquet", bbox=[9.9, 0, 12, 1])["n"].tolist() == [10, 11, 12]
    assert found == ([10, 11, 12] if pruned else list(range(ROWS)))


def test_bounds_of_single_precision_are_taken_with_care(tmp_path: Path) -> None:
    # 16777217 becomes 16777216 in single precision: below the box, although the point is in it.
    layer = gpd.GeoDataFrame({"n": [1]}, geometry=[Point(16777217, 0)], crs="EPSG:5070")
    layer.to_parquet(tmp_path / "a.parquet", write_covering_bbox=True)
    table = parquet.read_table(tmp_path / "a.parquet")
    place = table.schema.names.index("bbox")
    single = table.column("bbox").cast(pa.struct([(name, pa.float32()) for name in ("xmin", "ymin", "xmax", "ymax")]))
    parquet.write_table(table.set_column(place, "bbox", single), tmp_path / "a.parquet")
    assert at(tmp_path / "a.parquet", bbox=[16777216.5, 0, 16777218, 0])["n"].tolist() == [1]


def test_bounds_that_go_round_by_the_antimeridian_leave_nothing_out(tmp_path: Path) -> None:
    layer = gpd.GeoDataFrame(
        {"n": [1, 2]}, geometry=[Polygon([(170, 0), (-170, 0), (-170, 5), (170, 5)]), Point(10, 10)], crs="EPSG:4326"
    )
    layer.to_parquet(tmp_path / "a.parquet", write_covering_bbox=True, row_group_size=1)
    table = parquet.read_table(tmp_path / "a.parquet")
    bounds = table.column("bbox").to_pylist()
    bounds[0] = {**bounds[0], "xmin": 170.0, "xmax": -170.0}
    place = table.schema.names.index("bbox")
    changed = table.set_column(place, "bbox", pa.array(bounds, table.schema.field("bbox").type))
    parquet.write_table(changed, tmp_path / "a.parquet", row_group_size=1)
    whole = at(tmp_path / "a.parquet")
    box = (100.0, 1.0, 110.0, 2.0)
    inside = whole[whole.intersects(shapely.box(*box))]["n"].tolist()
    assert at(tmp_path / "a.parquet", bbox=box)["n"].tolist() == inside == [1]


VALUES: dict[str, Any] = {
    "whole": st.integers(-4, 4),
    "huge": st.sampled_from([2**53, 2**53 + 1, 2**53 + 2, -(2**62)]),
    "number": st.sampled_from([-1.5, 0.1, 0.1 + 1e-17, 0.30000000000000004, 2.0, float("nan")]),
    "single": st.sampled_from([np.float32(0.1), np.float32(2.5), np.float32(-7)]),
    "text": st.sampled_from(["", "a", "b", "Z", "é", "ab"]),
    "yes": st.booleans(),
    "day": st.sampled_from([datetime.date(2024, 1, day) for day in (1, 2, 3, 4)]),
    "at": st.sampled_from([datetime.datetime(2024, 1, day, 23, 30, tzinfo=datetime.UTC) for day in (1, 2, 3)]),
}
TYPES = {
    "whole": pa.int64(),
    "huge": pa.int64(),
    "number": pa.float64(),
    "single": pa.float32(),
    "text": pa.string(),
    "yes": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}
LITERALS = {
    "whole": ["-2", "0", "1.5", "4"],
    "huge": ["9007199254740992", "9007199254740993", "9007199254740993.0"],
    "number": ["0.1", "0.3", "2", "-1.5"],
    "single": ["0.1", "2.5", "-7.0"],
    "text": ["'a'", "''", "'é'", "'aa'"],
    "yes": ["true", "false"],
    "day": ["DATE('2024-01-02')", "DATE('2024-01-04')"],
    "at": ["TIMESTAMP('2024-01-02T00:00:00Z')", "TIMESTAMP('2024-01-01T23:30:00Z')"],
}


@st.composite
def conditions(draw: Any, depth: int = 0) -> str:
    if depth < 2 and draw(st.booleans()):
        left, right = draw(conditions(depth=depth + 1)), draw(conditions(depth=depth + 1))
        text = f"({left} {draw(st.sampled_from(['AND', 'OR']))} {right})"
        return f"NOT {text}" if draw(st.booleans()) else text
    name = draw(st.sampled_from(sorted(VALUES)))
    value, other = (draw(st.sampled_from(LITERALS[name])) for _ in range(2))
    forms = [f"{name} {sign} {value}" for sign in ("=", "<>", "<", ">", "<=", ">=")]
    forms += [f"{value} < {name}", f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} IN ({value}, {other})"]
    if name not in ("text", "yes"):
        forms.append(f"{name} BETWEEN {value} AND {other}")
    if name == "yes":
        forms = [form for form in forms if "<" not in form.replace("<>", "") and ">" not in form.replace("<>", "")]
    return str(draw(st.sampled_from(forms)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_pruning_never_leaves_out_a_row_that_matches(data: st.DataObject) -> None:
    size, group = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    arrays = {
        name: pa.array([data.draw(st.none() | values) for _ in range(size)], TYPES[name])
        for name, values in VALUES.items()
    }
    table = pa.table({"row": pa.array(range(size)), **arrays})
    where = data.draw(conditions())
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, row_group_size=group)
    file = parquet.ParquetFile(pa.BufferReader(sink.getvalue()))
    from geocairn.filters.language import parse
    from geocairn.sources.vector import nullable_types

    groups = matching_groups(file.metadata, where=parse(where))
    frame = table.to_pandas(types_mapper=nullable_types().get)
    wanted = frame[matching(frame, where)]["row"].tolist()  # type: ignore[arg-type]
    read_rows = file.read_row_groups(groups).column("row").to_pylist() if groups else []
    assert set(wanted) <= set(read_rows)


def test_filters_prune_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strips(tmp_path / "a.parquet")
    for where, groups in (
        ("n = 7", [7]),
        ("n > 37", [37, 38, 39]),  # equality may be rounding
        ("NOT n = 7", list(range(ROWS))),
        ("n IN (3, 5) AND n < 5", [3, 5]),
        ("n + 1 = 7", list(range(ROWS))),
    ):
        found = read_groups(monkeypatch)
        expected = at(tmp_path / "a.parquet")["n"]
        found.clear()
        layer = at(tmp_path / "a.parquet", where=where)
        assert found == groups
        assert set(layer["n"]) <= set(expected)


def test_what_is_no_number_is_missing_and_is_not_left_out(tmp_path: Path) -> None:
    points(1, 2).to_parquet(tmp_path / "a.parquet", index=False)
    table = parquet.read_table(tmp_path / "a.parquet")
    parquet.write_table(table.append_column("v", pa.array([float("nan"), 1.0])), tmp_path / "a.parquet")
    assert at(tmp_path / "a.parquet", where="v IS NULL")["n"].tolist() == [1]


def test_further_geometry_columns_have_one_crs_too(folder: Path) -> None:
    for name, crs in (("a", "EPSG:5070"), ("b", "EPSG:4326")):
        put(folder, **{name: points(1, label=gpd.GeoSeries([Point(0, 0)], crs=crs))})
    with pytest.raises(InputFailure, match=r"b.parquet: differs in CRS.*EPSG:4326, and there EPSG:5070"):
        at(folder)


def test_the_folder_gives_what_one_file_would(tmp_path: Path, folder: Path) -> None:
    whole = points(*range(30), t=[f"v{n}" if n % 4 else None for n in range(30)])
    whole["m"] = pd.array([n if n % 3 else None for n in range(30)], dtype="Int64")
    put(tmp_path, one=whole)
    put(folder, a=whole[:11], b=whole[11:12], c=whole[12:])
    for options in ({}, {"columns": ["m", "n"]}, {"bbox": [3, 3, 15, 15]}, {"where": "m > 5 AND t <> 'v7'"}):
        assert_frame_equal(at(folder, **options), at(tmp_path / "one.parquet", **options))
