"""Repair by the gate: invalid geometry is mended in its own kind, and the reader is told how much that changed.

What always holds: rows stay rows, only invalid ones are touched, the promised kind is kept, and the count and the change in
area are in the caveat.
"""

from __future__ import annotations

from typing import Any


def repaired(layer: Any, invalid: Any) -> tuple[Any, str]:
    """Return a copy of `layer` with its invalid geometries mended, and the caveat that tells of it.

    Uses GEOS's structure method (`shapely.make_valid`), which keeps rings as rings. Parts of a lower dimension that mending
    leaves behind are dropped.

    Parameters
    ----------
    layer : a GeoDataFrame.
    invalid : which of its rows are invalid.
    """
    import numpy as np
    import shapely

    values = np.asarray(layer.geometry.values).copy()
    before = values[invalid]
    mended = shapely.make_valid(before, method="structure", keep_collapsed=False)
    for place in np.flatnonzero(shapely.get_type_id(mended) == 7):
        mended[place] = _parts_of_dimension(mended[place], int(shapely.get_dimensions(before[place])))
    values[invalid] = mended
    result = layer.copy()
    result[layer.active_geometry_name] = type(layer.geometry.values)(values, crs=layer.crs)
    count = int(invalid.sum())
    change = float(shapely.area(mended).sum() - shapely.area(before).sum())
    return result, (
        f"{count} invalid {'geometry was' if count == 1 else 'geometries were'} repaired, "
        f"area changed by {change:+.6g} square units of the CRS"
    )


def _parts_of_dimension(collection: Any, dimension: int) -> Any:
    import shapely

    parts = [part for part in shapely.get_parts(collection) if shapely.get_dimensions(part) == dimension]
    joined = shapely.union_all(parts) if parts else shapely.from_wkt("POLYGON EMPTY")
    return joined
