"""Layers read in batches, and written batch by batch: the same layer, and the very same file, as at once."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import shapely

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.stores import layer_batches, layers
from geocairn.stores.layer_batches import opened_layer
from geocairn.stores.layer_spool import LayerSpool
from geocairn.stores.layers import read_layer_file, write_layer_file

SHAPES = [
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    None,
    "POLYGON EMPTY",
    "MULTIPOLYGON Z (((5 5 1, 15 5 1, 15 15 1, 5 5 1)))",
    "POINT (1 2)",
    "LINESTRING (0 0, 4 4)",
    None,
    "GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (0 0, 3 4))",
]
COUNT = len(SHAPES)


def objects(values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype=object)


def awkward_columns() -> gpd.GeoDataFrame:
    """Columns whose type a batch alone would not show, and those that pandas' metadata would lose."""
    some = [None if i % 3 == 2 else i for i in range(COUNT)]
    late = [None] * (COUNT - 2)
    frame = pd.DataFrame(
        {
            "whole": np.arange(COUNT, dtype="int32"),
            "nullable": pd.array(some, dtype="Int64"),
            "flag": pd.array([None if v is None else v % 2 == 0 for v in some], dtype="boolean"),
            "real": [np.nan if v is None else v / 2 for v in some],
            "when": pd.to_datetime(["2026-10-25T01:30:00Z"] * COUNT).tz_convert("Europe/Paris"),
            "seconds": pd.to_datetime(pd.Series(["2020-01-01"] * COUNT)).astype("datetime64[s]"),
            "kind": pd.Categorical([None if v is None else v % 2 + 5 for v in some], categories=[6, 5], ordered=True),
            "arrow": pd.array([None if v is None else f"é{v}" for v in some], dtype="string[pyarrow]"),
            "text": pd.Series([None if v is None else f"t{v}" for v in some], dtype="str"),
            "bbox": range(COUNT),
            "object_integers": objects([*range(COUNT - 1), None]),
            "object_truths": objects([None, *[i % 2 == 0 for i in range(COUNT - 1)]]),
            "object_texts": objects([*late, "x", "y"]),
            "dates": objects([*late, dt.date(2020, 1, 1), None]),
            "decimals": objects([decimal.Decimal(10**i) / 4 for i in range(COUNT)]),
            "lists": objects([*late, [1, 2], [3]]),
            "nothing": objects([None] * COUNT),
        }
    )
    frame["shape"] = gpd.GeoSeries.from_wkt(SHAPES, crs=5070)
    frame["mark"] = gpd.GeoSeries(shapely.points(np.arange(COUNT), 0), crs=4326)
    return gpd.GeoDataFrame(frame, geometry="shape")


def whole_and_parts(layer: Any, path: Path, rows: int) -> tuple[Any, list[Any]]:
    write_layer_file(layer, path)
    with opened_layer(path, rows) as file:
        assert file.rows == len(layer)
        assert file.crs == layer.crs
        assert file.nothing().dtypes.equals(read_layer_file(path).dtypes)
        return read_layer_file(path), list(file.batches())


def without_shapes(layer: Any) -> pd.DataFrame:
    return pd.DataFrame(layer.drop(columns=["shape", "mark"], errors="ignore"))


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
@pytest.mark.parametrize("named", [False, True])
def test_batches_are_the_layer_in_every_type(rows: int, named: bool, tmp_path: Path) -> None:
    layer = awkward_columns()
    if named:
        layer.index = pd.Index([f"row{i}" for i in range(COUNT)], name="key")
    whole, parts = whole_and_parts(layer, tmp_path / "a.parquet", rows)
    assert [len(part) for part in parts] == [min(rows, COUNT - start) for start in range(0, COUNT, rows)]
    for part in parts:
        assert part.dtypes.equals(whole.dtypes)
        assert (part.crs, part["mark"].crs, part.geometry.name) == (whole.crs, whole["mark"].crs, "shape")
    again = pd.concat(parts)
    pd.testing.assert_frame_equal(without_shapes(again), without_shapes(whole), check_exact=True)
    for name in ("shape", "mark"):
        assert shapely.to_wkb(again[name].to_numpy()).tolist() == shapely.to_wkb(whole[name].to_numpy()).tolist()


def test_a_layer_of_no_rows_is_one_batch(tmp_path: Path) -> None:
    whole, parts = whole_and_parts(awkward_columns().iloc[:0], tmp_path / "a.parquet", 7)
    (part,) = parts
    assert len(part) == 0
    assert part.dtypes.equals(whole.dtypes)


def test_some_columns_come_without_geometry_and_index(tmp_path: Path) -> None:
    layer = awkward_columns().set_index("text", drop=False)
    write_layer_file(layer, tmp_path / "a.parquet")
    with opened_layer(tmp_path / "a.parquet", 3) as file:
        parts = list(file.batches(["whole", "kind"]))
    assert [list(part.columns) for part in parts] == [["whole", "kind"]] * 3
    assert not any(isinstance(part, gpd.GeoDataFrame) for part in parts)
    assert pd.concat(parts)["whole"].tolist() == list(range(COUNT))


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
@pytest.mark.parametrize("columns", ["all", "geometry alone", "no rows"])
def test_a_spool_writes_the_very_same_file(rows: int, columns: str, tmp_path: Path) -> None:
    layer = awkward_columns()
    layer = {"all": layer, "geometry alone": layer[["shape"]], "no rows": layer.iloc[:0]}[columns]
    whole, parts = whole_and_parts(layer, tmp_path / "a.parquet", rows)
    write_layer_file(whole, tmp_path / "b.parquet")
    numbers = itertools.count()
    spool = LayerSpool(lambda suffix: tmp_path / f"spool-{next(numbers)}{suffix}")
    for part in parts:
        spool.add(part)
    boxes = np.concatenate([np.empty((0, 4)), *spool.boxes()])
    assert np.array_equal(boxes, shapely.bounds(whole.geometry.to_numpy()).reshape(-1, 4), equal_nan=True)
    assert np.array_equal(np.concatenate([np.empty((0, 4)), *spool.boxes()]), boxes, equal_nan=True)
    spool.write(tmp_path / "c.parquet")
    assert (tmp_path / "c.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert not list(tmp_path.glob("spool-*"))


def test_row_groups_are_small_where_geometries_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "ROW_GROUP_BYTES", 2000)
    layer = gpd.GeoDataFrame(geometry=shapely.buffer(shapely.points(np.arange(40), 0), 1), crs=5070)
    write_layer_file(layer, tmp_path / "a.parquet")
    spool = LayerSpool(lambda suffix: tmp_path / f"spool{suffix}")
    for start in range(0, 40, 7):
        spool.add(layer.iloc[start : start + 7])
    spool.write(tmp_path / "b.parquet")
    files = [pq.ParquetFile(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    groups = [[file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] for file in files]
    assert groups[0] == groups[1]
    assert 1 < groups[0][0] < 10


def test_batches_are_small_where_rows_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_batches, "BATCH_BYTES", 100_000)
    # A text that repeats is in the file once, and in memory as often as there are rows.
    text = pd.Series(["x" * 10_000], dtype="str").repeat(50).reset_index(drop=True)
    layer = gpd.GeoDataFrame({"text": text}, geometry=shapely.points(np.arange(50), 0), crs=5070)
    write_layer_file(layer, tmp_path / "a.parquet")
    with opened_layer(tmp_path / "a.parquet") as file:
        assert 5 <= file.batch_rows <= 10


def test_values_of_several_types_are_refused_as_at_once(tmp_path: Path) -> None:
    points = gpd.GeoSeries(shapely.points([0, 1], 0), crs=5070)
    spool = LayerSpool(lambda suffix: tmp_path / f"{id(object())}{suffix}")
    spool.add(gpd.GeoDataFrame({"a": objects(["x"])}, geometry=points[:1].reset_index(drop=True)))
    spool.add(gpd.GeoDataFrame({"a": objects([[1]])}, geometry=points[1:].reset_index(drop=True)))
    with pytest.raises(InputFailure, match="a column holds values of several types"):
        spool.write(tmp_path / "a.parquet")
    spool.close()
    assert not list(tmp_path.glob("*.arrow"))


def test_batches_of_other_columns_or_types_are_refused(tmp_path: Path) -> None:
    layer = awkward_columns()
    for other in (layer.drop(columns="real"), layer.astype({"whole": "int64"}), layer.rename(columns={"real": "r"})):
        spool = LayerSpool(lambda suffix: tmp_path / f"x{suffix}")
        spool.add(layer)
        with pytest.raises(CapabilityFailure, match="batches of the result differ in columns or types"):
            spool.add(other)
        spool.close()


def test_a_table_has_no_batches_of_a_layer(tmp_path: Path) -> None:
    write_layer_file(pd.DataFrame({"a": [1]}), tmp_path / "a.parquet")
    with (
        pytest.raises(CapabilityFailure, match="no layer that can be read in batches"),
        opened_layer(tmp_path / "a.parquet"),
    ):
        pass
