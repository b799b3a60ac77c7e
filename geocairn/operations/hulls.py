"""Operations that put a simple shape around a geometry, or around all geometries of a group.

What always holds: where several places have no area between them (one place, places in a line), the shape is the point
or the line, or, where polygons are promised, an empty polygon, and never an invalid one; a missing geometry stays
missing, an empty one empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnNames, Number
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

THIN = 1e-3
"""Area over squared circumference below which a polygon may be thinner than its coordinates are exact."""

Groups = Annotated[
    ColumnNames | None,
    Field(description="column or columns whose values make groups: one shape for each; none: one for each row"),
]


def grouped_promise(parameters: Any) -> dict[str, Any]:
    """Return what of the promise depends on whether rows are grouped."""
    return {"rows": "any"} if parameters.by is not None else {}


def shape_around(
    layer: GeoDataFrame, by: list[str] | None, shape: Callable[[Array], Array], where: str
) -> GeoDataFrame:
    """Replace each geometry, or all geometries of each group, by the shape around it.

    By groups, the result has the columns `by` and the geometry, in order of the groups' first appearance; a missing
    value is a group of its own. A group without any geometry keeps a row, its geometry missing.

    Parameters
    ----------
    shape : from geometries to the shapes around them; a group is given as a collection.
    where : the operation, for messages.

    Raises
    ------
    InputFailure : for a column that is not there.
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import (
        assemble,
        check_columns,
        geometry_name,
        geometry_values,
        group_codes,
        pick_rows,
        with_geometry,
    )
    from geocairn.operations.parts import present

    values = geometry_values(layer)
    if by is None:
        return with_geometry(layer, shape(values))
    check_columns(layer, by, where)
    codes = group_codes(layer, by)
    _, first = np.unique(codes, return_index=True)
    order = np.argsort(codes, kind="stable")
    order = order[present(values)[order]]
    shapes = np.full(len(first), None, dtype=object)
    if len(order):
        groups, inner = np.unique(codes[order], return_inverse=True)
        shapes[groups] = shape(shapely.geometrycollections(values[order], indices=inner))
    return assemble(pick_rows(layer[by], first), geometry_name(layer), shapes, layer.crs)


@operation(version=1, result="any", rows="each", varies=grouped_promise, example={"layer": "parcels", "ratio": 0.2})
def concave_hull(
    layer: GeoDataFrame,
    *,
    ratio: Annotated[
        Number,
        Field(
            ge=0,
            le=1,
            description="how long edges may be, from the shortest possible (0: the closest hull) to the longest "
            "(1: the convex hull)",
        ),
    ] = 0.3,
    allow_holes: Annotated[bool, Field(description="let the hull have holes")] = False,
    by: Groups = None,
) -> GeoDataFrame:
    """Replace each geometry, or each group of rows, by a concave hull of its vertices.

    All vertices lie in the hull; the edges between them may not. Z is kept. The hull of a single place is a point, of
    places in a line a line. By groups, the result has the columns `by` and the geometry, in order of the groups' first
    appearance; a missing value is a group of its own, and a group without any geometry keeps a row, its geometry
    missing. The points of a whole layer come in one hull after `collect`.

    Raises
    ------
    InputFailure : for a column that is not there.
    """
    import shapely

    return shape_around(
        layer,
        by,
        lambda values: row_by_row(shapely.concave_hull, values, ratio=ratio, allow_holes=allow_holes),
        "concave_hull",
    )


@operation(version=1, result="any", rows="each", varies=grouped_promise, example={"layer": "roads"})
def envelope(layer: GeoDataFrame, *, by: Groups = None) -> GeoDataFrame:
    """Replace each geometry, or each group of rows, by its bounding box.

    The result is flat (no Z). The box of a single place is a point, of a line along an axis a line. By groups, the
    result has the columns `by` and the geometry, in order of the groups' first appearance; a missing value is a group
    of its own, and a group without any geometry keeps a row, its geometry missing.

    Raises
    ------
    InputFailure : for a column that is not there.
    """
    return shape_around(layer, by, _boxes, "envelope")


def _boxes(values: Array) -> Array:
    import numpy as np
    import shapely

    boxes: Array = shapely.envelope(values)
    bounds = shapely.bounds(values)
    width, height = bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]
    thin = np.flatnonzero((width == 0) != (height == 0))  # GEOS gives a polygon without area, which is invalid
    thin = thin[np.isfinite(bounds[thin]).all(axis=1)]
    if len(thin):
        boxes[thin] = shapely.linestrings(bounds[thin].reshape(-1, 2, 2))
    return boxes


@operation(version=1, result="polygon", rows="each", empties=True, example={"layer": "roads"})
def minimum_rotated_rectangle(layer: GeoDataFrame) -> GeoDataFrame:
    """Replace each geometry by the smallest rectangle around it, at any angle.

    The result is flat (no Z). A single place, or places in a line (as exactly as coordinates can tell), have no
    rectangle: their row stays with an empty polygon, and the note `without_area` counts them. In a geographic CRS
    degrees are taken as if flat, which a caveat says.
    """
    import shapely

    return _polygons_around(layer, shapely.minimum_rotated_rectangle, "rectangles")


@operation(version=1, result="polygon", rows="each", empties=True, example={"layer": "parcels"})
def minimum_bounding_circle(layer: GeoDataFrame) -> GeoDataFrame:
    """Replace each geometry by the smallest circle around it, as a polygon of 32 vertices on the circle.

    The result is flat (no Z). A single place has no circle: its row stays with an empty polygon, and the note
    `without_area` counts them. In a geographic CRS degrees are taken as if flat, which a caveat says.
    """
    import shapely

    return _polygons_around(layer, shapely.minimum_bounding_circle, "circles")


def _polygons_around(layer: GeoDataFrame, shape: Callable[[Array], Array], what: str) -> GeoDataFrame:
    import numpy as np
    import shapely

    from geocairn.notes import caveat, note
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import POLYGON, dimensions, empty_of, present

    values = geometry_values(layer)
    there = present(values)
    if layer.crs is not None and layer.crs.is_geographic and there.any():
        caveat(
            f"{what} were computed on longitude and latitude as if these were flat: reproject before for the smallest "
            "on the ground"
        )
    shapes = shape(values)
    flat = (dimensions(shapes) != POLYGON) & ~shapely.is_missing(shapes)
    thin = np.flatnonzero(shapely.area(shapes) < THIN * shapely.length(shapes) ** 2)
    flat[thin] |= ~shapely.is_valid(
        shapes[thin]
    )  # of nearly straight lines GEOS gives rectangles that cross themselves
    shapes[flat] = empty_of(np.array([POLYGON]))[0]
    note("without_area", int((shapely.is_empty(shapes) & there).sum()))
    return with_geometry(layer, shapes)
