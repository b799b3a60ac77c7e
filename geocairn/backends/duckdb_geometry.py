"""Geometry row by row in DuckDB: buffer, simplify, centroid, convex hull, make_valid.

What always holds: the geometry column alone goes through DuckDB, row for row; a row that DuckDB is known to answer
otherwise than the reference is refused, not answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from geocairn.backends.claims import ROUNDING, claimed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, place, refuse_rows, shapes
from geocairn.operations.geometry import buffer, centroid, convex_hull, make_valid, simplify

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


def mapped(values: Array, expression: str, where: str, parameters: list[Any] | None = None, **columns: Array) -> Array:
    """Return an SQL expression of `g`, and of the further columns, for each geometry; missing ones stay missing."""
    with connection(where) as database:
        place(database, "layer", values, where, more=False, **columns)
        query = f"SELECT ST_AsWKB({expression}) AS shape FROM layer ORDER BY row"  # noqa: S608 - an expression of ours
        return shapes(fetch(database, query, parameters)["shape"])


@claimed(
    buffer,
    "duckdb",
    tolerance=ROUNDING,
    limit=lambda parameters: "DuckDB has no single-sided buffer" if parameters.single_sided else None,
    streams="rows",
    whole=lambda parameters: "all buffers are united" if parameters.dissolve else None,
)
def buffer_duckdb(
    layer: GeoDataFrame,
    *,
    distance: float | str,
    quad_segs: int = 16,
    cap_style: Literal["round", "flat", "square"] = "round",
    join_style: Literal["round", "mitre", "bevel"] = "round",
    mitre_limit: float = 5.0,
    single_sided: bool = False,
    dissolve: bool = False,
) -> GeoDataFrame:
    """Widen or shrink each geometry, as the reference does."""
    import numpy as np
    import pandas as pd

    from geocairn.backends.duckdb_aggregation import united
    from geocairn.operations.geometry import column_distances
    from geocairn.operations.layers import assemble, geometry_name, geometry_values, with_geometry
    from geocairn.operations.parts import empty_of, present

    values = geometry_values(layer)
    reach = column_distances(layer, distance) if isinstance(distance, str) else np.full(len(values), float(distance))
    styles = [quad_segs, f"CAP_{cap_style.upper()}", f"JOIN_{join_style.upper()}", float(mitre_limit)]
    result = mapped(values, "ST_Buffer(g, reach, $1, $2, $3, $4)", "buffer", styles, reach=reach)
    if not dissolve:
        return with_geometry(layer, result)
    buffers = result[present(result)]
    some = bool(present(values).any())
    whole = united(buffers, np.zeros(len(buffers), "int64"), 1, "buffer") if len(buffers) else empty_of(np.array([2]))
    return assemble(pd.DataFrame(index=pd.RangeIndex(int(some))), geometry_name(layer), whole[: int(some)], layer.crs)


@claimed(simplify, "duckdb", streams="rows")
def simplify_duckdb(layer: GeoDataFrame, *, tolerance: float, preserve_topology: bool = True) -> GeoDataFrame:
    """Leave out vertices, as the reference does."""
    from geocairn.operations.layers import geometry_values, with_geometry

    function = "ST_SimplifyPreserveTopology" if preserve_topology else "ST_Simplify"
    return with_geometry(layer, mapped(geometry_values(layer), f"{function}(g, $1)", "simplify", [float(tolerance)]))


@claimed(centroid, "duckdb", tolerance=ROUNDING, streams="rows")
def centroid_duckdb(layer: GeoDataFrame) -> GeoDataFrame:
    """Replace each geometry by its centroid, as the reference does.

    Raises
    ------
    CapabilityFailure : for lines of no length and polygons of no area, of which DuckDB's centroid is empty, and for
        collections, in which it weighs by the highest dimension even where that has no extent.
    """
    import shapely

    from geocairn.notes import caveat
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import COLLECTION, POINT, dimensions, present

    values = geometry_values(layer)
    refuse_rows((dimensions(values) == COLLECTION) & present(values), "geometry collections here", "centroid")
    result = mapped(values, "ST_Centroid(ST_Force2D(g))", "centroid")
    refuse_rows(present(values) & shapely.is_empty(result), "lines of no length or polygons of no area", "centroid")
    if layer.crs is not None and layer.crs.is_geographic and (dimensions(values) > POINT).any():
        caveat(
            "centroids were computed on longitude and latitude as if these were flat: reproject before for true ones"
        )
    return with_geometry(layer, result)


@claimed(
    convex_hull,
    "duckdb",
    streams="rows",
    whole=lambda parameters: None if parameters.by is None else "a hull is of a group of rows",
)
def convex_hull_duckdb(layer: GeoDataFrame, *, by: list[str] | None = None) -> GeoDataFrame:
    """Replace each geometry, or each group of rows, by its convex hull, as the reference does.

    Raises
    ------
    CapabilityFailure : for groups of flat geometries and such with Z, whose missing Z would become 0.
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
        return with_geometry(layer, mapped(values, "ST_ConvexHull(g)", "convex_hull"))
    check_columns(layer, by, "convex_hull")
    codes = group_codes(layer, by)
    _, first = np.unique(codes, return_index=True)
    some = present(values)
    solid = shapely.has_z(values)
    refuse_rows(solid & bool((some & ~solid).any()), "geometries with Z beside flat ones here", "convex_hull")
    hulls = np.full(len(first), None, dtype=object)
    with connection("convex_hull") as database:
        place(database, "layer", values[some], "convex_hull", np.flatnonzero(some), code=codes[some])
        found = fetch(
            database,
            "SELECT code, ST_AsWKB(ST_ConvexHull(ST_Collect(list(g ORDER BY row)))) AS shape FROM layer GROUP BY code",
        )
    hulls[found["code"]] = shapes(found["shape"])
    return assemble(pick_rows(layer[by], first), geometry_name(layer), hulls, layer.crs)


def _make_valid_limit(parameters: Any) -> str | None:
    return None if parameters.method == "linework" else f"DuckDB has no make_valid by method {parameters.method}"


@claimed(make_valid, "duckdb", tolerance=ROUNDING, limit=_make_valid_limit, streams="rows")
def make_valid_duckdb(
    layer: GeoDataFrame,
    *,
    method: Literal["structure", "linework"] = "structure",
    keep_collapsed: bool = False,
    keep_geometry_kind: bool = True,
) -> GeoDataFrame:
    """Make invalid geometries valid by their linework, as the reference does.

    Raises
    ------
    CapabilityFailure : for another method, and for coordinates that are not finite, which the reference refuses as
        well.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import dimensions, empty_of, keep_kind

    values = geometry_values(layer)
    with connection("make_valid") as database:
        place(database, "layer", values, "make_valid")
        found = fetch(
            database,
            "SELECT row, ST_AsWKB(ST_MakeValid(g)) AS shape FROM layer WHERE NOT ST_IsValid(g) ORDER BY row",
        )
    broken = found["row"]
    before = values[broken]
    mended = shapes(found["shape"])
    dropped = 0
    if keep_geometry_kind:
        mended, dropped = keep_kind(mended, dimensions(before))
        collapsed = shapely.is_empty(mended)
        mended[collapsed] = empty_of(dimensions(before))[collapsed]
    result = values.copy()
    result[broken] = mended
    note("mended", len(broken))
    note("dropped_parts", dropped)
    note("area_change", float(np.sum(shapely.area(mended)) - np.sum(shapely.area(before))))
    return with_geometry(layer, result)
