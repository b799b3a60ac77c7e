"""Operations that draw vertices to given places: to a grid, or to the vertices of another layer.

What always holds: rows stay in their order with their attributes, Z is kept; a missing geometry stays missing, an empty
one empty; M values, which the engine cannot carry, are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import Number
from geocairn.operations.vertices import refuse_metres
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


@operation(
    version=1,
    result="same",
    rows="each",
    empties=True,
    varies=lambda parameters: {"empties": False} if parameters.mode == "pointwise" else {},
    example={"layer": "roads", "grid_size": 10},
)
def snap_to_grid(
    layer: GeoDataFrame,
    *,
    grid_size: Annotated[
        Number,
        Field(gt=0, description="side of the grid's squares in units of the CRS, degrees where it is geographic"),
    ],
    mode: Annotated[
        Literal["valid_output", "pointwise", "keep_collapsed"],
        Field(
            description="valid_output: polygons stay valid, what collapses goes; pointwise: each vertex on its own, "
            "polygons may become invalid; keep_collapsed: as valid_output, but lines that collapse stay, of no length"
        ),
    ] = "valid_output",
) -> GeoDataFrame:
    """Round x and y of all vertices to a grid through the origin.

    Z is kept as it is. In `valid_output`, vertices that fall together become one, and a line or polygon that collapses
    wholly leaves its row with an empty geometry. `pointwise` keeps every vertex, however many fall together.

    Raises
    ------
    InputFailure : for invalid polygons that cannot be rounded to valid ones, and for M values, which cannot be kept;
        rows are named. For a grid of more than 180 degrees.
    """
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import check_no_m, check_valid, off_grid

    refuse_metres(layer, grid_size, "grid_size", "snap_to_grid")
    values = geometry_values(layer)
    check_no_m(values, "layer", "snap_to_grid")
    try:
        rounded = row_by_row(shapely.set_precision, values, grid_size, mode=mode)
    except shapely.errors.GEOSException as error:
        check_valid(values, "layer", "snap_to_grid")
        raise engine_failure(
            error,
            f"the vertices could not be rounded: {error}",
            "snap_to_grid",
            "make_valid before this step, or use mode: pointwise",
        ) from error
    return with_geometry(layer, off_grid(rounded))


@operation(
    version=1,
    result="same",
    rows="each",
    planar=True,
    example={"layer": "roads", "reference": "places", "tolerance": 8},
)
def snap(
    layer: GeoDataFrame,
    reference: GeoDataFrame,
    *,
    tolerance: Annotated[
        Number, Field(gt=0, description="in units of the CRS: how far a vertex or an edge may be drawn")
    ],
) -> GeoDataFrame:
    """Draw vertices and edges to the vertices of a reference layer that lie within a tolerance.

    A vertex moves to the nearest vertex of the reference; an edge that has none near its ends gets one where a vertex
    of the reference is near. All rows of the reference count, and the places where their lines and edges cross. Where a
    moved vertex has Z, it takes that of the reference, or keeps its own where the reference has none. How many rows
    were moved is told by the note `snapped`.

    Raises
    ------
    InputFailure : for M values, which cannot be kept; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import POLYGON, check_no_m, dimensions

    values = geometry_values(layer)
    check_no_m(values, "layer", "snap")
    result = values.copy()
    places = _snap_places(geometry_values(reference))
    areal = dimensions(values) == POLYGON
    outlines = values.copy()
    outlines[areal] = shapely.boundary(values[areal])  # what lies deep inside draws nothing
    rows, near = shapely.STRtree(places).query(outlines, predicate="dwithin", distance=tolerance)
    order = np.lexsort((near, rows))
    targets, codes = np.unique(rows[order], return_inverse=True)
    if len(targets):
        drawn = shapely.multipoints(places[near[order]], indices=codes)
        result[targets] = _with_heights(values[targets], shapely.snap(values[targets], drawn, tolerance))
    note("snapped", int((~shapely.equals_identical(result[targets], values[targets])).sum()))
    return with_geometry(layer, result)


def _snap_places(values: Array) -> Array:
    """Return the vertices of all geometries and the crossings of their lines and edges, as points, each place once."""
    import numpy as np
    import shapely

    from geocairn.operations.parts import POINT, POLYGON, dimensions, single_parts

    parts, _ = single_parts(values)
    kinds = dimensions(parts)
    parts[kinds == POLYGON] = shapely.boundary(parts[kinds == POLYGON])
    crossed = shapely.union_all(parts[kinds != POINT])
    work = np.array([*parts[kinds == POINT], crossed], dtype=object)
    coordinates = shapely.get_coordinates(work, include_z=bool(shapely.has_z(work).any()))
    _, first = np.unique(coordinates[:, :2], axis=0, return_index=True)
    places: Array = shapely.points(coordinates[np.sort(first)])
    return places


def _with_heights(before: Array, after: Array) -> Array:
    """Return the snapped geometries with the Z that snapping lost where the reference had none."""
    import numpy as np
    import shapely

    from geocairn.operations.parts import POINT, POLYGON, dimensions

    high = np.flatnonzero(shapely.has_z(before))
    kinds = dimensions(before[high])
    result = after.copy()
    points = high[kinds == POINT]  # snapping moves points and keeps their number
    own = shapely.get_coordinates(before[points], include_z=True)[:, 2]
    result[points] = _filled(after[points], lambda coordinates, _: own[np.isnan(coordinates[:, 2])])
    lines = high[kinds != POINT]
    courses = before[lines]
    courses[kinds[kinds != POINT] == POLYGON] = shapely.boundary(courses[kinds[kinds != POINT] == POLYGON])

    def interpolated(coordinates: Array, owners: Array) -> Array:
        lost = np.isnan(coordinates[:, 2])
        course, place = courses[owners[lost]], shapely.points(coordinates[lost, :2])
        nearest = shapely.line_interpolate_point(course, shapely.line_locate_point(course, place))
        heights: Array = shapely.get_z(nearest)
        return heights

    result[lines] = _filled(after[lines], interpolated)
    return result


def _filled(values: Array, heights: Callable[[Array, Array], Array]) -> Array:
    """Return the geometries with Z, where it is not a number taken from `heights` (coordinates, their owners)."""
    import numpy as np
    import shapely

    if not len(values):
        return values
    coordinates, owners = shapely.get_coordinates(values, include_z=True, return_index=True)
    coordinates[np.isnan(coordinates[:, 2]), 2] = heights(coordinates, owners)
    filled: Array = shapely.set_coordinates(shapely.force_3d(values), coordinates)
    return filled
