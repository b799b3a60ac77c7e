"""Whether a result is what a case expects: rows, attributes, and geometry within the case's tolerance.

Geometry is held to in one of three ways, from loose to strict: the same places (`shape`), the same vertices after
normalisation (`vertices`), the same vertices in the same direction (`directed`). A multipart of one part is that part.
"""

from __future__ import annotations

from typing import Any, Literal

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geocairn.operations.parts import dimensions, single_parts

Strictness = Literal["shape", "vertices", "directed"]

NUMBERS = 1e-9
"""How far numbers among attributes may differ, as a share of their size."""


def differences(
    result: gpd.GeoDataFrame,
    expected: gpd.GeoDataFrame,
    tolerance: float,
    strictness: Strictness,
    *,
    ordered: bool,
    columns: Literal["same", "shared"],
) -> list[str]:
    """What differs, in words; nothing where the result is as expected."""
    name = result.geometry.name
    names = [column for column in expected.columns if column != "geometry"]
    if columns == "same" and len(expected) and set(names) != set(result.columns) - {name}:
        return [f"columns {sorted(set(result.columns) - {name})}, expected {sorted(names)}"]
    shared = [column for column in names if column in result.columns]
    if len(result) != len(expected):
        return [f"{len(result)} rows, expected {len(expected)}: {_shown(result)}"]
    said = []
    open_rows = list(range(len(expected)))
    for row in range(len(result)):
        for candidate in [row] if ordered else open_rows:
            if _same_row(result, row, expected, candidate, shared, tolerance, strictness):
                open_rows.remove(candidate)
                break
        else:
            said.append(f"row {row} is not expected: {_shown(result.iloc[[row]])}")
    return said + [f"row {row} is missing: {_shown(expected.iloc[[row]])}" for row in open_rows]


def same_geometry(one: Any, other: Any, tolerance: float, strictness: Strictness = "shape") -> bool:
    """Whether two geometries are equal within the tolerance (a share of the size of their coordinates)."""
    if one is None or other is None:
        return one is other
    if one.is_empty or other.is_empty:
        return bool(one.is_empty and other.is_empty)
    if strictness == "shape":
        return _same_places(one, other, tolerance)
    one, other = _alone(one), _alone(other)
    if strictness == "vertices":
        one, other = shapely.normalize(one), shapely.normalize(other)
    if one.geom_type != other.geom_type or one.has_z != other.has_z:
        return False
    a, b = (shapely.get_coordinates(shape, include_z=shape.has_z) for shape in (one, other))
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=tolerance * _size(other), equal_nan=True))


def same_value(one: Any, other: Any) -> bool:
    """Whether two attributes are equal; any missing one equals any other."""
    if _missing(one) or _missing(other):
        return _missing(one) and _missing(other)
    if isinstance(one, int | float | np.number) and isinstance(other, int | float | np.number):
        return bool(np.isclose(float(one), float(other), rtol=NUMBERS, atol=0))
    return bool(one == other)


def united(layer: gpd.GeoDataFrame) -> Any:
    """All places of a layer as one geometry; for what a geometry-level case expects of rows that were cut apart."""
    return shapely.union_all(shapely.force_2d(np.asarray(layer.geometry.values, dtype=object)))


def _same_row(
    result: gpd.GeoDataFrame,
    row: int,
    expected: gpd.GeoDataFrame,
    candidate: int,
    names: list[str],
    tolerance: float,
    strictness: Strictness,
) -> bool:
    for name in names:
        if not same_value(result[name].iloc[row], expected[name].iloc[candidate]):
            return False
    return same_geometry(result.geometry.iloc[row], expected.geometry.iloc[candidate], tolerance, strictness)


def _same_places(one: Any, other: Any, tolerance: float) -> bool:
    """Whether the parts of each dimension lie in the same places."""
    for number, kind in enumerate(("points", "lines", "polygons")):
        a, b = (_of_dimension(shape, number) for shape in (one, other))
        if (a is None) != (b is None):
            return False
        if a is None or shapely.equals(a, b):
            continue
        if kind == "polygons":
            if shapely.area(shapely.symmetric_difference(a, b)) > tolerance * max(b.area, 1e-3):
                return False
        elif a.hausdorff_distance(b) > tolerance * _size(b) or abs(a.length - b.length) > (
            tolerance * (b.length + _size(b))
        ):
            return False
    return True


def _of_dimension(shape: Any, dimension: int) -> Any:
    parts, _ = single_parts(np.array([shape], dtype=object))
    chosen = parts[(dimensions(parts) == dimension) & ~shapely.is_empty(parts)]
    if not len(chosen):
        return None
    flat = shapely.make_valid(shapely.force_2d(chosen)) if dimension == 2 else shapely.force_2d(chosen)
    return shapely.union_all(flat)


def _alone(shape: Any) -> Any:
    while shapely.get_type_id(shape) > 3 and shapely.get_num_geometries(shape) == 1:
        shape = shapely.get_geometry(shape, 0)
    return shape


def _size(shape: Any) -> float:
    return max(1.0, *(abs(value) for value in shape.bounds))


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (np.isscalar(value) and bool(pd.isna(value)))


def _shown(layer: gpd.GeoDataFrame) -> str:
    rows = []
    for row in range(min(len(layer), 3)):
        shape = layer.geometry.iloc[row]
        values = {name: layer[name].iloc[row] for name in layer.columns if name != layer.geometry.name}
        rows.append(f"{values} {'no geometry' if shape is None else shape.wkt[:300]}")
    return "; ".join(rows)
