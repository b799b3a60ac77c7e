"""Lines between places: an operation that is no part of geocairn, and a backend for it.

Like geocairn's own operations, importing this module loads no library that computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from geocairn.operations import implements, operation

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame


@operation(
    version=1,
    result="line",
    kinds={"layer": ("point",)},
    rows="each",
    planar=True,
    example={"layer": "places", "hubs": "roads", "max_length": 14},
)
def hub_lines(
    layer: GeoDataFrame,
    hubs: GeoDataFrame,
    *,
    max_length: Annotated[
        float | None, Field(gt=0, description="leave out longer lines, in units of the CRS; no limit when left out")
    ] = None,
) -> GeoDataFrame:
    """Join each place to its nearest hub by the shortest line; to the first of equally near ones.

    A place without a geometry, or too far from any hub, keeps its row without a line.
    """
    import numpy as np
    import shapely

    places, goals = np.asarray(layer.geometry.values), _there(hubs)
    nearest = np.full(len(places), len(goals))
    for row in np.flatnonzero(~(shapely.is_missing(places) | shapely.is_empty(places))) if len(goals) else ():
        nearest[row] = np.argmin(shapely.distance(places[row], goals))
    return _lines(layer, goals, nearest, max_length)


@implements(hub_lines, "tree")
def hub_lines_by_tree(layer: GeoDataFrame, hubs: GeoDataFrame, *, max_length: float | None = None) -> GeoDataFrame:
    """Find the nearest hubs by a tree, which is faster where there are many."""
    import numpy as np
    import shapely

    places, goals = np.asarray(layer.geometry.values), _there(hubs)
    nearest = np.full(len(places), len(goals))
    rows, found = shapely.STRtree(goals).query_nearest(places, all_matches=True)
    np.minimum.at(nearest, rows, found)
    return _lines(layer, goals, nearest, max_length)


def _there(hubs: GeoDataFrame) -> np.ndarray:
    import numpy as np
    import shapely

    goals = np.asarray(hubs.geometry.values)
    return goals[~(shapely.is_missing(goals) | shapely.is_empty(goals))]


def _lines(layer: GeoDataFrame, goals: np.ndarray, nearest: np.ndarray, max_length: float | None) -> GeoDataFrame:
    import geopandas as gpd
    import numpy as np
    import shapely

    places = np.asarray(layer.geometry.values)
    lines = np.full(len(places), None, dtype=object)
    matched = nearest < len(goals)
    lines[matched] = shapely.shortest_line(places[matched], goals[nearest[matched]])
    if max_length is not None:
        lines[shapely.length(lines) > max_length] = None
    return layer.set_geometry(gpd.GeoSeries(lines, index=layer.index, crs=layer.crs, name=layer.geometry.name))
