"""The geometry kinds of a layer: point, line, polygon; whether parts are single or multiple does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


def kinds_of(layer: GeoDataFrame) -> set[str]:
    """Return the geometry kinds present in the layer; null and empty geometries count for none."""
    import numpy as np
    import shapely

    values = layer.geometry.values
    present = ~(shapely.is_missing(values) | shapely.is_empty(values))
    names = {0: "point", 1: "line", 2: "line", 3: "polygon", 4: "point", 5: "line", 6: "polygon", 7: "collection"}
    return {names.get(int(number), "other") for number in np.unique(shapely.get_type_id(values[present]))}
