"""Operations on the coordinates as numbers: moved, exchanged, flattened, or put in a fixed order.

What always holds: the CRS stays as it is stated; rows stay in their order with their attributes; a missing geometry
stays missing, an empty one empty; other geometry columns stay as they are. M values that the engine cannot carry are
refused, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


def _check_matrix(parameters: Any) -> None:
    matrix = parameters.matrix
    if len(matrix) not in (6, 12):
        raise ValueError(
            f"parameter 'matrix' has {len(matrix)} numbers: give six (a, b, d, e, xoff, yoff) or twelve "
            "(a, b, c, d, e, f, g, h, i, xoff, yoff, zoff)"
        )
    if len(matrix) == 6:
        a, b, d, e = matrix[:4]
        flattens = a * e == b * d
    else:
        (a, b, c), (d, e, f) = matrix[:3], matrix[3:6]
        flattens = b * f == c * e and c * d == a * f and a * e == b * d
    if flattens:
        raise ValueError("parameter 'matrix' puts all places in one line: no geometry keeps its shape")


@operation(
    version=1,
    result="same",
    rows="each",
    validate=_check_matrix,
    example={"layer": "parcels", "matrix": [0.8, -0.3, 0.3, 0.8, 20, 5]},
)
def affine_transform(
    layer: GeoDataFrame,
    *,
    matrix: Annotated[
        list[Number],
        Field(
            min_length=6,
            max_length=12,
            description="six numbers a, b, d, e, xoff, yoff: x' = a·x + b·y + xoff, y' = d·x + e·y + yoff; or twelve "
            "a, b, c, d, e, f, g, h, i, xoff, yoff, zoff: x' = a·x + b·y + c·z + xoff, and so on for y' and z'; "
            "offsets in units of the CRS",
        ),
    ],
) -> GeoDataFrame:
    """Move, turn, scale, skew or mirror all geometries by a matrix, about the CRS's origin.

    Six numbers leave Z as it is. Of twelve, those that concern Z do nothing to geometries without it.

    Raises
    ------
    InputFailure : for M values, which cannot be kept; rows are named.
    """
    import numpy as np

    from geocairn.operations.layers import geometry_values, with_geometry

    factors, offsets = np.eye(3), np.zeros(3)
    if len(matrix) == 6:
        factors[:2, :2], offsets[:2] = np.reshape(matrix[:4], (2, 2)), matrix[4:]
    else:
        factors, offsets = np.reshape(matrix[:9], (3, 3)), np.asarray(matrix[9:])

    def transform(coordinates: Array) -> Array:
        size = coordinates.shape[1]
        moved: Array = coordinates @ factors[:size, :size].T + offsets[:size]
        return moved

    return with_geometry(layer, _mapped(geometry_values(layer), transform, "affine_transform"))


@operation(version=1, result="same", rows="each", example={"layer": "roads"})
def swap_xy(layer: GeoDataFrame) -> GeoDataFrame:
    """Exchange x and y of all coordinates: the remedy for data that came with latitude first.

    Z is kept.

    Raises
    ------
    InputFailure : for M values, which cannot be kept; rows are named.
    """
    from geocairn.operations.layers import geometry_values, with_geometry

    def swap(coordinates: Array) -> Array:
        return coordinates[:, [1, 0, 2][: coordinates.shape[1]]]

    return with_geometry(layer, _mapped(geometry_values(layer), swap, "swap_xy"))


def _mapped(values: Array, change: Callable[[Array], Array], where: str) -> Array:
    """Return the geometries with changed coordinates; the change is given two columns, or three where there is Z."""
    import shapely

    from geocairn.operations.parts import check_no_m

    check_no_m(values, "layer", where)
    high = shapely.has_z(values)
    if not high.any():
        flat: Array = shapely.transform(values, change)
        return flat
    result = values.copy()
    result[~high] = shapely.transform(values[~high], change)
    result[high] = shapely.transform(values[high], change, include_z=True)
    return result


@operation(version=1, result="same", rows="each", example={"layer": "parcels"})
def force_2d(layer: GeoDataFrame) -> GeoDataFrame:
    """Drop Z and M of all coordinates of the active geometry column; x and y stay as they are."""
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry

    return with_geometry(layer, shapely.force_2d(geometry_values(layer)))


@operation(version=1, result="same", rows="each", example={"layer": "parcels"})
def orient_polygons(
    layer: GeoDataFrame,
    *,
    exterior_cw: Annotated[
        bool,
        Field(
            description="outer rings clockwise and holes counter-clockwise, as shapefiles have them; else the other "
            "way round, as OGC and GeoJSON (RFC 7946) have them"
        ),
    ] = False,
) -> GeoDataFrame:
    """Turn the rings of polygons so that all run the same way; outer rings counter-clockwise unless said otherwise.

    Z and M are kept. Points and lines stay as they are.
    """
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry

    return with_geometry(layer, shapely.orient_polygons(geometry_values(layer), exterior_cw=exterior_cw))


@operation(version=1, result="same", rows="each", example={"layer": "parcels"})
def normalize(layer: GeoDataFrame) -> GeoDataFrame:
    """Put parts, rings and vertices in a fixed order, so that the same shape drawn differently becomes the same.

    Rings start at their lowest vertex, outer ones run clockwise; a line may come to run the other way. No place
    changes; Z and M are kept.
    """
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry

    return with_geometry(layer, shapely.normalize(geometry_values(layer)))
