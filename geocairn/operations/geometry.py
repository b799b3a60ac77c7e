"""Operations on geometry, row by row: buffer, simplify, centroid, hull, mending, and leaving out what is empty.

What always holds: rows stay in their order with their attributes; a missing geometry stays missing, an empty one empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.hulls import Groups, grouped_promise, shape_around
from geocairn.operations.parameter_types import ColumnName, Number
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame


def _check_buffer(parameters: Any) -> None:
    if parameters.single_sided and parameters.dissolve:
        raise ValueError("single_sided gives a side of each line: it does not go with dissolve: true")


def _buffer_promise(parameters: Any) -> dict[str, Any]:
    return {"rows": "any", "drops_missing": True} if parameters.dissolve else {}


@operation(
    version=1,
    result="polygon",
    rows="each",
    empties=True,
    planar=True,
    validate=_check_buffer,
    varies=_buffer_promise,
    example={"layer": "places", "distance": 8},
)
def buffer(
    layer: GeoDataFrame,
    *,
    distance: Annotated[
        Number | ColumnName,
        Field(description="in units of the CRS, or the name of a column that holds it; negative shrinks polygons"),
    ],
    quad_segs: Annotated[int, Field(ge=1, le=1024, description="segments of a quarter circle")] = 16,
    cap_style: Annotated[Literal["round", "flat", "square"], Field(description="form of the ends of lines")] = "round",
    join_style: Annotated[Literal["round", "mitre", "bevel"], Field(description="form of the corners")] = "round",
    mitre_limit: Annotated[
        Number, Field(gt=0, description="longest mitred corner, as a ratio to the distance; beyond it is bevelled")
    ] = 5.0,
    single_sided: Annotated[
        bool, Field(description="only one side of a line: left for a positive distance, right for a negative one")
    ] = False,
    dissolve: Annotated[bool, Field(description="unite all buffers in one row, without attributes")] = False,
) -> GeoDataFrame:
    """Widen (or, for polygons, shrink) each geometry by a distance.

    The result is flat (no Z). A negative distance that empties a polygon leaves its row with an empty polygon. With
    `dissolve`, the result is one row of geometry alone, or none if nothing has geometry.

    Raises
    ------
    InputFailure : for a distance column that is not there, not numeric, or has missing values; rows are named.
    """
    import shapely

    from geocairn.operations.layers import assemble, geometry_name, geometry_values, with_geometry
    from geocairn.operations.parts import empty_of, present, union_groups

    values = geometry_values(layer)
    reach = column_distances(layer, distance) if isinstance(distance, str) else distance
    result = row_by_row(
        shapely.buffer,
        values,
        reach,
        quad_segs=quad_segs,
        cap_style=cap_style,
        join_style=join_style,
        mitre_limit=mitre_limit,
        single_sided=single_sided,
    )
    if not dissolve:
        return with_geometry(layer, result)
    import numpy as np
    import pandas as pd

    buffers = result[present(result)]
    some = bool(present(values).any())
    united = (
        union_groups(buffers, np.zeros(len(buffers), dtype="int64"), 1) if len(buffers) else empty_of(np.array([2]))
    )
    return assemble(pd.DataFrame(index=pd.RangeIndex(int(some))), geometry_name(layer), united[: int(some)], layer.crs)


def column_distances(layer: GeoDataFrame, column: str, where: str = "buffer") -> np.ndarray[Any, Any]:
    """Return the distances that a column holds.

    Parameters
    ----------
    where : the operation, for messages.

    Raises
    ------
    InputFailure : for a column that is not there, not numeric, or has missing values; rows are named.
    """
    import numpy as np
    import pandas as pd

    from geocairn.operations.layers import check_columns, name_rows

    check_columns(layer, [column], where)
    values = layer[column]
    if not pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
        raise InputFailure(
            f"distance column {column!r} is of type {values.dtype}, not a number",
            where=where,
            remedy="name a numeric column, or give a number",
        )
    numbers: np.ndarray[Any, Any] = values.to_numpy(dtype="float64", na_value=np.nan)
    unusable = ~np.isfinite(numbers)
    if unusable.any():
        raise InputFailure(
            f"distance column {column!r} has missing or infinite values: {name_rows(unusable)}",
            where=where,
            remedy="leave these rows out (filter) or give the column a value there",
        )
    return numbers


@operation(
    version=1,
    result="same",
    rows="each",
    planar=True,
    varies=lambda parameters: {} if parameters.preserve_topology else {"empties": True},
    example={"layer": "roads", "tolerance": 4},
)
def simplify(
    layer: GeoDataFrame,
    *,
    tolerance: Annotated[
        Number, Field(ge=0, description="how far the result may lie from the original, in units of the CRS")
    ],
    preserve_topology: Annotated[
        bool, Field(description="keep polygons valid; without it they may become invalid or vanish, but it is faster")
    ] = True,
) -> GeoDataFrame:
    """Leave out vertices, so that no line moves by more than the tolerance.

    Each row is simplified on its own: between neighbouring polygons gaps and overlaps appear. To keep shared edges
    shared use `simplify_coverage`.
    """
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry

    return with_geometry(
        layer,
        row_by_row(shapely.simplify, geometry_values(layer), tolerance, preserve_topology=preserve_topology),
    )


@operation(version=1, result="point", rows="each", example={"layer": "parcels"})
def centroid(layer: GeoDataFrame) -> GeoDataFrame:
    """Replace each geometry by its centroid: of the area, else of the length, else of the points.

    The result is flat (no Z). In a geographic CRS degrees are taken as if flat, which a caveat says.
    """
    import shapely

    from geocairn.notes import caveat
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import POINT, dimensions

    values = geometry_values(layer)
    if layer.crs is not None and layer.crs.is_geographic and (dimensions(values) > POINT).any():
        caveat(
            "centroids were computed on longitude and latitude as if these were flat: reproject before for true ones"
        )
    return with_geometry(layer, shapely.centroid(values))


@operation(version=1, result="point", rows="each", example={"layer": "parcels"})
def point_on_surface(layer: GeoDataFrame) -> GeoDataFrame:
    """Replace each geometry by a point of it: inside a polygon, a vertex of a line, one of several points.

    Unlike the centroid it never lies outside. Z is kept of lines and points, a polygon's point is flat; a row that is
    a point already stays exactly as it is.
    """
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry

    values = geometry_values(layer)
    points = shapely.get_type_id(values) == shapely.GeometryType.POINT
    result = values.copy()
    result[~points] = shapely.point_on_surface(values[~points])
    return with_geometry(layer, result)


@operation(version=1, result="any", rows="each", varies=grouped_promise, example={"layer": "roads"})
def convex_hull(layer: GeoDataFrame, *, by: Groups = None) -> GeoDataFrame:
    """Replace each geometry, or each group of rows, by its convex hull.

    The hull of a single place is a point, of places in a line a line. By groups, the result has the columns `by` and
    the geometry, in order of the groups' first appearance; a missing value is a group of its own. A group without any
    geometry keeps a row, its geometry missing.

    Raises
    ------
    InputFailure : for a column that is not there.
    """
    import shapely

    return shape_around(layer, by, shapely.convex_hull, "convex_hull")


def _check_make_valid(parameters: Any) -> None:
    if parameters.method == "linework" and not parameters.keep_collapsed:
        raise ValueError(
            "method linework always keeps what collapsed: set keep_collapsed: true, or use method structure"
        )


@operation(
    version=2,
    result="same",
    rows="each",
    validity="mended",
    empties=True,
    validate=_check_make_valid,
    varies=lambda parameters: {} if parameters.keep_geometry_kind else {"kind": "any", "empties": False},
    example={"layer": "drawn"},
)
def make_valid(
    layer: GeoDataFrame,
    *,
    method: Annotated[
        Literal["structure", "linework"],
        Field(
            description="structure: rings are made valid, shells united, holes taken out; linework: enclosed faces are "
            "by turns inside and outside"
        ),
    ] = "structure",
    keep_collapsed: Annotated[
        bool,
        Field(
            description="keep what collapsed to a line or a point; with keep_geometry_kind it falls away all the same"
        ),
    ] = False,
    keep_geometry_kind: Annotated[
        bool,
        Field(description="keep only the parts of the row's own kind, so that a polygon never becomes a collection"),
    ] = True,
) -> GeoDataFrame:
    """Make invalid geometries valid; valid ones stay exactly as they are.

    How many were mended, how many parts fell away and the change in area (in units of the CRS, as if flat) are told by
    the notes `mended`, `dropped_parts` and `area_change`. A polygon that collapses wholly leaves an empty polygon.

    Raises
    ------
    InputFailure : for coordinates that are not finite, which nothing mends; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, name_rows, with_geometry
    from geocairn.operations.parts import check_no_m, dimensions, keep_kind

    values = geometry_values(layer)
    broken = ~row_by_row(shapely.is_valid, values) & ~shapely.is_missing(values)
    before = values[broken]
    coordinates, rows = shapely.get_coordinates(before, return_index=True)
    endless = np.unique(rows[~np.isfinite(coordinates).all(axis=1)])
    if len(endless):
        mask = np.zeros(len(values), dtype=bool)
        mask[np.flatnonzero(broken)[endless]] = True
        raise InputFailure(
            f"coordinates are not finite: {name_rows(mask)}",
            where="make_valid",
            remedy="leave these rows out before (their coordinates cannot be known)",
        )
    to_mend = values.copy()
    to_mend[~broken] = None
    check_no_m(to_mend, "layer", "make_valid")
    mended = row_by_row(shapely.make_valid, before, method=method, keep_collapsed=keep_collapsed)
    dropped = 0
    if keep_geometry_kind:
        mended, dropped = keep_kind(mended, dimensions(before))
        collapsed = shapely.is_empty(mended)
        if collapsed.any():
            from geocairn.operations.parts import empty_of

            mended[collapsed] = empty_of(dimensions(before))[collapsed]
    result = values.copy()
    result[broken] = mended
    note("mended", int(broken.sum()))
    note("dropped_parts", dropped)
    note("area_change", float(shapely.area(mended).sum() - shapely.area(before).sum()))
    return with_geometry(layer, result)


@operation(version=1, result="same", rows="some", drops_missing=True, example={"layer": "parcels"})
def remove_empty(layer: GeoDataFrame) -> GeoDataFrame:
    """Leave out the rows whose geometry is missing or empty; how many is told by the note `rows_removed`."""
    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, pick_rows
    from geocairn.operations.parts import present

    keep = present(geometry_values(layer))
    note("rows_removed", int((~keep).sum()))
    return pick_rows(layer, keep)
