"""Selecting by extent: filter_extent, by a box in the layer's CRS or in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure, MissingGrid
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import BBox, CrsText
from geocairn.operations.proj_environment import proj_environment

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

SEGMENTS = 1000
"""Pieces that the longer side of a box is cut into before it is brought into another CRS."""
_SAMPLES = 11
_WHERE = "filter_extent"
_REMEDY = "give the box in the layer's CRS (leave crs out), or a smaller one"


@operation(
    version=1,
    result="same",
    rows="some",
    drops_missing=True,
    environment=proj_environment,
    example={"layer": "parcels", "bbox": [20, 10, 70, 50], "clip": True},
)
def filter_extent(
    layer: GeoDataFrame,
    *,
    bbox: Annotated[BBox, Field(description="xmin, ymin, xmax, ymax in `crs`: x (longitude) first")],
    crs: Annotated[CrsText | None, Field(description="CRS of the box; none: that of the layer")] = None,
    clip: Annotated[
        bool, Field(description="cut the geometries to the box; else those that meet it are kept whole")
    ] = False,
    allow_ballpark: Annotated[
        bool, Field(description="where `crs` needs a grid that is not installed: go on without, and tell the accuracy")
    ] = False,
) -> GeoDataFrame:
    """Keep the rows whose geometry meets a box, its edge included.

    A box in another CRS is brought into the layer's with its sides cut into many pieces (the longer into 1,000), since
    a straight side there is a curve here: rows are held against that shape, not against its bounds. A box across
    longitude 180 is two boxes: filter by each, and merge.

    With `clip` the geometries are cut to the box as the operation `clip` cuts: only parts of a geometry's own kind
    stay, and rows that the box only touches are left out. Rows of missing or empty geometry meet nothing.

    Raises
    ------
    InputFailure : for a box that cannot be brought into the layer's CRS, a layer of unknown CRS where `crs` is given,
        geometry too broken to decide on, and (clip) invalid polygons or collections.
    CapabilityFailure : when a grid is missing for the change of CRS.
    """
    import shapely

    from geocairn.operations.layers import assemble, geometry_name, geometry_values, pick_rows

    box = shapely.box(*bbox) if crs is None else _brought(bbox, crs, layer.crs, allow_ballpark)
    shapely.prepare(box)
    values = geometry_values(layer)
    try:
        meets = shapely.intersects(box, values)
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"what meets the box could not be decided: {error}", _WHERE, "make_valid before this step"
        ) from error
    kept = pick_rows(layer, meets)
    if not clip:
        return kept
    import pandas as pd

    from geocairn.operations.overlay import clip as clip_operation

    mask = assemble(pd.DataFrame(index=pd.RangeIndex(1)), geometry_name(layer), [box], layer.crs)
    return clip_operation.function(kept, mask)


def _brought(bbox: tuple[float, float, float, float], text: str, target: Any, allow_ballpark: bool) -> Any:
    """Return the box as a polygon in the CRS `target`.

    Raises
    ------
    InputFailure, MissingGrid : when it cannot be brought there.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import off_grid
    from geocairn.operations.preconditions import UNKNOWN_CRS_REMEDY
    from geocairn.operations.transformation import Transformation, parse_crs

    source = parse_crs(text, _WHERE)
    box = shapely.box(*bbox)
    if target is None:
        raise InputFailure(
            "the layer's CRS is unknown, so that no box can be brought into it", _WHERE, UNKNOWN_CRS_REMEDY
        )
    if source == target or source.equals(target, ignore_axis_order=True):
        return box
    xmin, ymin, xmax, ymax = bbox
    fine = shapely.segmentize(box, max(xmax - xmin, ymax - ymin) / SEGMENTS)
    # Points well inside, to see that the shape encloses what the box does.
    x, y = np.meshgrid(np.linspace(xmin, xmax, _SAMPLES)[1:-1], np.linspace(ymin, ymax, _SAMPLES)[1:-1])
    samples = shapely.points(x.ravel(), y.ravel())
    transformation = Transformation(source, target, accuracy=None, allow_ballpark=allow_ballpark)
    try:
        shape, *moved = transformation.apply(np.array([fine, *samples], dtype=object))
    except MissingGrid as failure:
        raise MissingGrid(f"the box: {failure.what}", where=_WHERE, remedy=failure.remedy) from failure.__cause__
    except InputFailure as failure:
        raise InputFailure(
            f"the box cannot be brought into the layer's CRS: {failure.what}", where=_WHERE, remedy=_REMEDY
        ) from failure.__cause__
    west, south, east, north = shapely.bounds(shape)
    size = np.hypot(east - west, north - south)
    # Round a pole two sides lie on each other, but for rounding: on a grid they do, and fall away.
    shape = off_grid(shapely.set_precision(shape, size * 1e-10))
    shape = shapely.simplify(shape, size * 1e-8)
    if not shapely.intersects(shape, moved).all():
        raise InputFailure(
            "the box cannot be brought into the layer's CRS: it is torn or turned inside out there",
            where=_WHERE,
            remedy=_REMEDY,
        )
    return shape
