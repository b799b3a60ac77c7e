"""Whether two backends gave the same answer: rows, columns, types, notes, and geometry within the stated tolerance."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.notes import Notes, collecting
from geocairn.operations.contract import Operation


def answer(operation: Operation, inputs: list[Any], parameters: dict[str, Any], backend: str) -> tuple[Any, Notes]:
    """What a backend gives: a layer, or the failure that it raises."""
    with collecting() as notes:
        try:
            return operation.compute(*inputs, backend=backend, **parameters), notes
        except (InputFailure, CapabilityFailure) as failure:
            return failure, notes


def differences(expected: tuple[Any, Notes], found: tuple[Any, Notes], tolerance: float) -> list[str]:
    """What differs between the reference's answer and another backend's, in words; nothing where they are equal."""
    (one, one_notes), (other, other_notes) = expected, found
    if isinstance(one, Exception) or isinstance(other, Exception):
        same = type(one) is type(other) and str(one) == str(other)
        return [] if same else [f"{_outcome(one)} / {_outcome(other)}"]
    said = _frames(one, other, tolerance)
    if one_notes.caveats != other_notes.caveats:
        said.append(f"caveats {one_notes.caveats} / {other_notes.caveats}")
    if one_notes.facts.keys() != other_notes.facts.keys():
        said.append(f"notes {one_notes.facts} / {other_notes.facts}")
    for name in one_notes.facts.keys() & other_notes.facts.keys():
        a, b = one_notes.facts[name], other_notes.facts[name]
        same = np.isclose(a, b, rtol=1e-9, atol=1e-9) if isinstance(a, float) else a == b
        if not same:
            said.append(f"note {name}: {a} / {b}")
    return said


def _outcome(value: Any) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, Exception) else f"a layer of {len(value)} rows"


def _frames(one: gpd.GeoDataFrame, other: gpd.GeoDataFrame, tolerance: float) -> list[str]:
    if not isinstance(other, gpd.GeoDataFrame) or list(one.columns) != list(other.columns):
        return [f"columns {list(one.columns)} / {list(other.columns)}"]
    if len(one) != len(other):
        return [f"{len(one)} rows / {len(other)}"]
    said = []
    if not isinstance(other.index, pd.RangeIndex) or not one.index.equals(other.index):
        said.append(f"index {one.index} / {other.index}")
    if one.geometry.name != other.geometry.name or one.crs != other.crs:
        said.append(f"geometry {one.geometry.name} in {one.crs} / {other.geometry.name} in {other.crs}")
    for name in one.columns:
        a, b = one[name], other[name]
        if a.dtype != b.dtype:
            said.append(f"{name}: type {a.dtype} / {b.dtype}")
        elif a.dtype.name == "geometry":
            said += [f"{name}: {text}" for text in shape_differences(a.array, b.array, tolerance)]
        elif a.dtype == "float64":
            if not np.allclose(a, b, rtol=tolerance, atol=0, equal_nan=True):
                said.append(f"{name}: {a.tolist()} / {b.tolist()}")
        elif not a.equals(b):
            said.append(f"{name}: {a.tolist()} / {b.tolist()}")
    return said


def shape_differences(one: Any, other: Any, tolerance: float) -> list[str]:
    """The rows in which two arrays of geometries differ: missing, type, Z, or a coordinate after normalisation."""
    a, b = (np.asarray(values, dtype=object) for values in (one, other))
    said = []
    kinds = (shapely.get_type_id(a) != shapely.get_type_id(b)) | (shapely.is_empty(a) != shapely.is_empty(b))
    kinds |= shapely.has_z(a) != shapely.has_z(b)
    for row in range(len(a)):
        if kinds[row] or not _near(a[row], b[row], tolerance):
            said.append(f"row {row}: {_shown(a[row])} / {_shown(b[row])}")
    return said


def _shown(shape: Any) -> str:
    return "missing" if shape is None else str(shape.wkt)[:300]


def _near(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two geometries have the same vertices, each as near as the tolerance says."""
    if one is None or other is None:
        return one is other
    a, b = (shapely.get_coordinates(shapely.normalize(shape), include_z=shape.has_z) for shape in (one, other))
    if a.shape == b.shape:
        size = np.abs(np.nan_to_num(a)).max(initial=1.0)
        if np.allclose(a, b, rtol=0, atol=tolerance * size, equal_nan=True):
            return True
    return False
