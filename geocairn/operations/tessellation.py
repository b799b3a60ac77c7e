"""Operations that divide the plane: the Voronoi cells of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import BBox

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
