"""Repair by the gate: invalid geometry is mended in its own kind, and the reader is told how much that changed.

What always holds: rows stay rows, only invalid ones are touched, each keeps its kind, and the count and the change in
area are in the caveat. A geometry of which mending leaves nothing (a polygon without area) becomes an empty one of
its kind, which the caveat counts too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Repair:
    """A layer with its invalid geometries mended."""

    layer: Any
    """A copy; the layer that was given is unchanged."""
    collapsed: Any
    """Which rows are empty now because nothing of them was left."""
    caveat: str


def repaired(layer: Any, invalid: Any) -> Repair:
    """Return a copy of `layer` with its invalid geometries mended, and the caveat that tells of it.

    Uses GEOS's structure method (`shapely.make_valid`), which keeps rings as rings. Parts of a lower dimension that
    mending leaves behind are dropped.

    Parameters
    ----------
    layer : a GeoDataFrame with finite coordinates.
    invalid : which of its rows are invalid.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import dimensions, empty_of, keep_kind

    values = np.asarray(layer.geometry.values).copy()
    before = values[invalid]
    kinds = dimensions(before)
    mended, _ = keep_kind(shapely.make_valid(before, method="structure", keep_collapsed=False), kinds)
    gone = shapely.is_empty(mended)
    mended[gone] = empty_of(kinds)[gone]
    values[invalid] = mended
    result = layer.copy()
    result[layer.active_geometry_name] = type(layer.geometry.values)(values, crs=layer.crs)
    collapsed = np.zeros(len(values), dtype=bool)
    collapsed[np.flatnonzero(invalid)[gone]] = True
    return Repair(result, collapsed, _told(before, mended, int(gone.sum()), layer.crs))


def _told(before: Any, mended: Any, gone: int, crs: Any) -> str:
    import shapely

    count = len(before)
    change = float(shapely.area(mended).sum() - shapely.area(before).sum())
    unit = "square degrees" if crs is not None and crs.is_geographic else "square units of the CRS"
    told = f"{count} invalid {'geometry was' if count == 1 else 'geometries were'} repaired"
    if (shapely.get_dimensions(before) == 2).any():
        told += f", area changed by {change:+.6g} {unit}"
    if gone:
        told += f"; {gone} of them had nothing left and {'is' if gone == 1 else 'are'} empty now"
    return told
