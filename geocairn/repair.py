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
    count: int
    """How many geometries were mended."""
    change: float
    """Of the area, in square units of the CRS."""
    polygons: bool
    """Whether there were polygons among them."""


class Repairs:
    """Repairs of a layer, whole or batch by batch, to be told in one sentence."""

    def __init__(self) -> None:
        self.count = 0
        self._change = 0.0
        self._gone = 0
        self._polygons = False
        self._unit = ""

    def add(self, repair: Repair) -> None:
        """Add the repair of a layer, or of the next batch of it."""
        crs = repair.layer.crs
        self._unit = "square degrees" if crs is not None and crs.is_geographic else "square units of the CRS"
        self.count += repair.count
        self._change += repair.change
        self._gone += int(repair.collapsed.sum())
        self._polygons |= repair.polygons

    def told(self) -> str:
        """Return the caveat."""
        told = f"{self.count} invalid {'geometry was' if self.count == 1 else 'geometries were'} repaired"
        if self._polygons:
            told += f", area changed by {self._change:+.6g} {self._unit}"
        if self._gone:
            some = "is" if self._gone == 1 else "are"
            told += f"; {self._gone} of them had nothing left and {some} empty now"
        return told


def repaired(layer: Any, invalid: Any) -> Repair:
    """Return a copy of `layer` with its invalid geometries mended, and how much that changed.

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
    change = float(shapely.area(mended).sum() - shapely.area(before).sum())
    return Repair(result, collapsed, len(before), change, bool((shapely.get_dimensions(before) == 2).any()))
