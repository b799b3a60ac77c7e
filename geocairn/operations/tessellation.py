"""Operations that divide the plane by points: Voronoi cells and Delaunay triangles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import BBox, Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


@operation(
    version=1,
    result="polygon",
    kinds={"layer": ("point",), "clip_to": ("polygon",)},
    rows="each",
    empties=True,
    planar=True,
    example={"layer": "places", "extent": [0, 0, 100, 75]},
)
def voronoi(
    layer: GeoDataFrame,
    clip_to: GeoDataFrame | None = None,
    *,
    extent: Annotated[
        BBox | None, Field(description="[xmin, ymin, xmax, ymax] in the layer's CRS that the cells fill and are cut to")
    ] = None,
    keep_columns: Annotated[bool, Field(description="keep the points' attributes; else the geometry alone")] = True,
) -> GeoDataFrame:
    """Replace each point by its Voronoi cell: the places that are nearer to it than to any other point.

    Cells are cut to `extent`, to the second input `clip_to`, or to both; with neither they end at a box around the
    points. The cell of a point far outside may be cut away wholly: its row stays, with an empty polygon. A row of
    missing or empty geometry has no cell: its geometry is missing or empty in the result too. Distances are planar,
    in the CRS.

    Raises
    ------
    InputFailure : for multipoints of several points, two points in one place, invalid polygons in `clip_to`, or a
        single point without extent or clip_to; rows are named.
    CapabilityFailure : when the engine does not give each point its cell (points closer together than it can tell
        apart).
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.overlay import cut_to
    from geocairn.operations.parts import POLYGON, check_valid, empty_of, keep_kind, present

    values = geometry_values(layer)
    there = present(values)
    coordinates = _one_place_each(values, there)
    result = values.copy()
    result[~there & ~shapely.is_missing(values)] = empty_of(np.array([POLYGON]))[0]
    masks = geometry_values(clip_to) if clip_to is not None else None
    if masks is not None:
        check_valid(masks, "clip_to", "voronoi")
    if len(coordinates):
        cells = _cells(coordinates, _frame(coordinates, extent, masks))
        if extent is not None:
            cells = cut_to(cells, np.array([shapely.box(*extent)], dtype=object), "voronoi")
        if masks is not None:
            cells = cut_to(cells, masks, "voronoi")
        result[there], _ = keep_kind(cells, np.full(len(cells), POLYGON))
    cut = with_geometry(layer, result)
    return cut if keep_columns else cut.loc[:, [cut.geometry.name]]


def _one_place_each(values: Array, there: Array) -> Array:
    """Return the place of each point, in order; refuse several in one row and several rows in one place."""
    import numpy as np
    import shapely

    from geocairn.operations.layers import name_rows

    several = there & (shapely.get_num_geometries(values) > 1)
    if several.any():
        raise InputFailure(
            f"multipoints have no single cell: {name_rows(several)}", where="voronoi", remedy="explode before this step"
        )
    coordinates: Array = shapely.get_coordinates(values[there])
    _, inverse, counts = np.unique(coordinates, axis=0, return_inverse=True, return_counts=True)
    shared = np.zeros(len(values), dtype=bool)
    shared[there] = counts[inverse.reshape(-1)] > 1
    if shared.any():
        raise InputFailure(
            f"points share a place, so that no cell is theirs alone: {name_rows(shared)}",
            where="voronoi",
            remedy="keep one of them (deduplicate) before this step",
        )
    return coordinates


def _frame(coordinates: Array, extent: tuple[float, float, float, float] | None, masks: Array | None) -> Any:
    """Return a box that holds all points and all that the cells are cut to; None where the points alone decide."""
    import numpy as np
    import shapely

    boxes = [np.concatenate([coordinates.min(axis=0), coordinates.max(axis=0)])]
    if extent is not None:
        boxes.append(np.asarray(extent))
    if masks is not None and np.isfinite(bounds := shapely.total_bounds(masks)).all():
        boxes.append(bounds)
    if len(boxes) == 1:
        if len(coordinates) == 1:
            raise InputFailure(
                "the cell of a single point is the whole plane", where="voronoi", remedy="give extent or clip_to"
            )
        return None
    every = np.array(boxes)
    return shapely.box(*every[:, :2].min(axis=0), *every[:, 2:].max(axis=0))


def _cells(coordinates: Array, frame: Any) -> Array:
    """Return the cell of each place, in order."""
    import numpy as np
    import shapely

    if len(coordinates) == 1:
        return np.array([frame], dtype=object)
    try:
        cells = shapely.get_parts(
            shapely.voronoi_polygons(shapely.multipoints(coordinates), extend_to=frame, ordered=True)
        )
    except shapely.errors.GEOSException as error:
        raise _not_matched(str(error)) from error
    places = shapely.points(coordinates)
    if len(cells) != len(places) or not shapely.intersects(cells, places).all():
        raise _not_matched(f"{len(cells)} cells for {len(places)} points")
    return np.asarray(cells, dtype=object)


def _not_matched(reason: str) -> CapabilityFailure:
    return CapabilityFailure(
        f"the engine did not give each point its cell ({reason})",
        where="voronoi",
        remedy="leave out points that lie closer together than the coordinates' precision (snap_to_grid, deduplicate)",
    )


@operation(
    version=1,
    result="polygon",
    rows="any",
    drops_missing=True,
    planar=True,
    example={"layer": "places", "tolerance": 0},
)
def delaunay(
    layer: GeoDataFrame,
    *,
    tolerance: Annotated[
        Number,
        Field(
            ge=0,
            description="a point that lies nearer than this to a corner beside it is left out, in units of the CRS",
        ),
    ] = 0,
) -> GeoDataFrame:
    """Make the Delaunay triangles of all points of the layer.

    No point lies inside the circle through a triangle's corners. Of lines and polygons the
    vertices count. The triangles belong to no single row: the result has the geometry alone, in the order of the
    triangles' bounds (xmin, then ymin, xmax, ymax). Fewer than three places, or places that are all in one line, have
    no triangle. The engine does not find every point that is nearer than the tolerance to another: to be sure of that,
    snap_to_grid and deduplicate before. Z is kept; distances are planar, in the CRS.

    Raises
    ------
    InputFailure : for M, which the engine would lose; rows are named.
    """
    import pandas as pd
    import shapely

    from geocairn.operations.layers import assemble, geometry_name, geometry_values
    from geocairn.operations.parts import by_bounds, check_no_m

    values = geometry_values(layer)
    check_no_m(values, "layer", "delaunay")
    coordinates = shapely.get_coordinates(values, include_z=bool(shapely.has_z(values).any()))
    try:
        found = shapely.delaunay_triangles(shapely.multipoints(coordinates), tolerance=tolerance)
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"the points could not be triangulated: {error}", "delaunay", "snap_to_grid before this step"
        ) from error
    triangles = by_bounds(shapely.get_parts(found))
    return assemble(pd.DataFrame(index=pd.RangeIndex(len(triangles))), geometry_name(layer), triangles, layer.crs)
