"""Operations that add or leave out vertices and rings: densified lines, shared edges made simpler, outlines, holes.

What always holds: rows stay in their order with their attributes; a missing geometry stays missing, an empty one empty;
an invalid polygon is never silently taken for another shape; M values that the engine cannot carry are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

WIDEST_DEGREES = 180
"""A length on longitudes and latitudes that no one means: it is in metres."""


@operation(
    version=1,
    result="polygon",
    kinds=("polygon",),
    rows="each",
    planar=True,
    example={"layer": "districts", "tolerance": 6},
)
def simplify_coverage(
    layer: GeoDataFrame,
    *,
    tolerance: Annotated[
        Number,
        Field(
            ge=0,
            description="in units of the CRS: a corner may go when the triangle that it makes with its neighbours has "
            "less area than the square of this",
        ),
    ],
    simplify_boundary: Annotated[
        bool, Field(description="simplify the outer boundary of the whole as well; else only the edges between rows")
    ] = True,
) -> GeoDataFrame:
    """Leave out vertices of polygons that tile an area, so that the edges they share stay shared.

    No gaps and no overlaps appear, and no polygon vanishes (`simplify` does each row on its own). The polygons must
    be such a tiling to begin with: none overlaps another, and neighbours have the same vertices along their edge.

    Raises
    ------
    InputFailure : for invalid polygons, for polygons that overlap or whose shared edges do not match vertex by vertex,
        and for M values, which cannot be kept; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import geometry_values, name_rows, with_geometry
    from geocairn.operations.parts import check_no_m, check_valid, present

    values = geometry_values(layer)
    check_no_m(values, "layer", "simplify_coverage")
    check_valid(values, "layer", "simplify_coverage")
    there = np.flatnonzero(present(values))
    tiles = values[there]
    if not shapely.coverage_is_valid(tiles):
        wrong = np.zeros(len(values), dtype=bool)
        wrong[there[~shapely.is_empty(shapely.coverage_invalid_edges(tiles))]] = True
        raise InputFailure(
            f"polygons overlap, or their shared edges do not have the same vertices: {name_rows(wrong)}",
            where="simplify_coverage",
            remedy="bring the edges together before this step (snap, snap_to_grid), take the overlaps out (overlay), "
            "or use simplify, which does each row on its own",
        )
    result = values.copy()
    if len(there):
        result[there] = shapely.coverage_simplify(tiles, tolerance, simplify_boundary=simplify_boundary)
    return with_geometry(layer, result)


@operation(version=1, result="same", rows="each", example={"layer": "roads", "max_segment_length": 8})
def densify(
    layer: GeoDataFrame,
    *,
    max_segment_length: Annotated[
        Number, Field(gt=0, description="in units of the CRS, degrees where it is geographic: no segment stays longer")
    ],
) -> GeoDataFrame:
    """Add vertices along lines and edges, so that no segment is longer than a length.

    Longer segments are parted into equal ones; all vertices that were there stay, and Z is interpolated. Points stay as
    they are. In a geographic CRS the length is in degrees: lines that are to keep their course through a reprojection
    are densified before it.

    Raises
    ------
    InputFailure : for M values, which cannot be kept, invalid polygons in collections, and multilines with a part of
        no length (such a line alone stays as it is); rows are named. For a length of more than 180 degrees.
    """
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import COLLECTION, POLYGON, check_no_m, check_valid, dimensions, present

    refuse_metres(layer, max_segment_length, "max_segment_length", "densify")
    values = geometry_values(layer)
    check_no_m(values, "layer", "densify")
    kinds = dimensions(values)
    areal = (kinds == POLYGON) & present(values)
    result = values.copy()
    if (kinds == COLLECTION).any():
        check_valid(_only(values, kinds == COLLECTION), "layer", "densify")
    result[~areal] = _segmented(_only(values, ~areal), max_segment_length)[~areal]
    # Ring by ring: of a whole polygon that is invalid, GEOS keeps only a part, and says nothing.
    result[areal] = rebuilt(values[areal], lambda rings, owners: (_segmented(rings, max_segment_length), owners))
    return with_geometry(layer, result)


def _segmented(values: Array, longest: float) -> Array:
    import shapely

    from geocairn.operations.layers import name_rows

    try:
        dense: Array = shapely.segmentize(values, longest)
    except shapely.errors.GEOSException:  # a line of no length, which GEOS cannot part
        long = shapely.length(values) > 0
        dense = values.copy()
        try:
            dense[long] = shapely.segmentize(values[long], longest)
        except shapely.errors.GEOSException as error:
            raise engine_failure(
                error,
                f"some parts have no length: {name_rows(~shapely.is_valid(values) & long)}",
                "densify",
                "explode before this step, or make_valid, which leaves them out",
            ) from error
    return dense


def rebuilt(polygons: Array, choose: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    """Return the polygons with other rings; multipolygons stay such, empty parts among their parts are left out.

    Parameters
    ----------
    polygons : polygons and multipolygons, none of them missing or empty.
    choose : from all rings, and for each the number of its polygon (ascending, the outer ring first), to those that
        stay; called for the polygons and for the parts of the multipolygons.
    """
    import shapely

    def made(singles: Array) -> Array:
        rings, owners = choose(*shapely.get_rings(singles, return_index=True))
        drawn: Array = shapely.polygons(rings, indices=owners)
        return drawn

    result = polygons.copy()
    single = shapely.get_type_id(polygons) == shapely.GeometryType.POLYGON
    if single.any():
        result[single] = made(polygons[single])
    if not single.all():
        parts, places = shapely.get_parts(polygons[~single], return_index=True)
        full = ~shapely.is_empty(parts)
        result[~single] = shapely.multipolygons(made(parts[full]), indices=places[full])
    return result


def _only(values: Array, mask: Array) -> Array:
    """Return the values with nothing where the mask is false, so that rows keep their numbers."""
    chosen = values.copy()
    chosen[~mask] = None
    return chosen


def refuse_metres(layer: GeoDataFrame, length: float, name: str, where: str) -> None:
    """Refuse a length that can only be in metres on a layer in degrees.

    Raises
    ------
    InputFailure : with the remedy.
    """
    if layer.crs is not None and layer.crs.is_geographic and length > WIDEST_DEGREES:
        raise InputFailure(
            f"{name} is {length:g}, and the layer's CRS is in degrees",
            where=where,
            remedy="give degrees, or reproject to a projected CRS before",
        )


@operation(
    version=1,
    result="any",
    kinds=("line", "polygon"),
    rows="each",
    empties=True,
    example={"layer": "parcels"},
)
def boundary(layer: GeoDataFrame) -> GeoDataFrame:
    """Replace each polygon by its rings, as lines, and each line by its end points.

    Z and M are kept. A closed line has no ends: its row stays, with an empty point geometry.
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import LINE, POLYGON, dimensions, empty_of

    values = geometry_values(layer)
    result = shapely.boundary(values)
    kinds = dimensions(values)
    # Only empty ones are left of other kinds; GEOS gives none for a collection, and a collection for a point.
    odd = ~np.isin(kinds, (LINE, POLYGON)) & ~shapely.is_missing(values)
    result[odd] = empty_of(kinds[odd])
    return with_geometry(layer, result)


@operation(
    version=1,
    result="polygon",
    kinds=("polygon",),
    rows="each",
    planar=lambda parameters: parameters.max_area is not None,
    example={"layer": "parcels"},
)
def remove_holes(
    layer: GeoDataFrame,
    *,
    max_area: Annotated[
        Number | None,
        Field(gt=0, description="fill holes up to this area, in square units of the CRS; none: all holes"),
    ] = None,
) -> GeoDataFrame:
    """Fill the holes of polygons: all of them, or those up to an area.

    Z and M are kept. A part of a multipolygon that lies as an island in a hole becomes one with what fills the hole.
    How many holes were filled is told by the note `filled_holes`.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.pairs import first_of_each

    values = geometry_values(layer)
    holes = shapely.get_num_interior_rings(values)
    several = shapely.get_type_id(values) == shapely.GeometryType.MULTIPOLYGON
    if several.any():
        parts, places = shapely.get_parts(values[several], return_index=True)
        holes[several] = np.bincount(places, shapely.get_num_interior_rings(parts), int(several.sum()))
    holed = np.flatnonzero(holes)
    filled = 0

    def choose(rings: Array, owners: Array) -> tuple[Array, Array]:
        nonlocal filled
        stays = first_of_each(owners)
        if max_area is not None:
            stays |= shapely.area(shapely.polygons(rings)) > max_area
        filled += int((~stays).sum())
        return rings[stays], owners[stays]

    before = values[holed]
    after = rebuilt(before, choose)
    united = np.flatnonzero(shapely.get_num_geometries(after) > 1)
    covered = united[shapely.is_valid(before[united]) & ~shapely.is_valid(after[united])]
    if len(covered):
        after[covered] = shapely.union_all(after[covered].reshape(-1, 1), axis=1)
    result = values.copy()
    result[holed] = after
    note("filled_holes", filled)
    return with_geometry(layer, result)
