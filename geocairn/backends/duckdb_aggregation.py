"""Many rows made one, and points counted, in DuckDB: dissolve, count_points.

What always holds: DuckDB unites geometries and finds which points lie in which polygon; keys, aggregates and counts are
made by the reference, from its own columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from geocairn.backends.claims import ROUNDING, claimed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, place, refuse_rows, shapes
from geocairn.backends.duckdb_pairs import related_duckdb
from geocairn.operations.aggregation import NO_AGGREGATES, Aggregates, count_points, dissolve, point_weights, summed

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


def united(values: Array, codes: Array, count: int, where: str) -> Array:
    """Return the union of each group's geometries; a group of none is missing.

    A single polygon or point is its own union, exactly as it came; a line is not, since union also nodes it.

    Raises
    ------
    CapabilityFailure : for flat geometries beside such with Z.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import LINE, dimensions

    solid = shapely.has_z(values)
    refuse_rows(solid & bool((~solid).any()), "geometries with Z beside flat ones here", where)
    result = np.full(count, None, dtype=object)
    numbers = np.bincount(codes, minlength=count)
    alone = (numbers[codes] == 1) & (dimensions(values) != LINE)
    result[codes[alone]] = values[alone]
    several = np.flatnonzero(~alone)
    if len(several):
        with connection(where) as database:
            place(database, "layer", values[several], where, several, code=codes[several])
            found = fetch(
                database, "SELECT code, ST_AsWKB(ST_Union_Agg(g ORDER BY row)) AS shape FROM layer GROUP BY code"
            )
        result[found["code"]] = shapes(found["shape"])
    return result


def _dissolve_limit(parameters: Any) -> str | None:
    if parameters.method != "unary":
        return "method coverage is not claimed: DuckDB does not check the coverage as the reference does"
    return None if parameters.grid_size is None else "DuckDB has no union on a grid (grid_size)"


@claimed(dissolve, "duckdb", tolerance=ROUNDING, limit=_dissolve_limit)
def dissolve_duckdb(
    layer: GeoDataFrame,
    *,
    by: list[str] | None = None,
    aggregates: Aggregates = NO_AGGREGATES,
    keep_null_keys: bool = True,
    method: Literal["unary", "coverage"] = "unary",
    grid_size: float | None = None,
) -> GeoDataFrame:
    """Unite the geometries of each group of rows, as the reference does."""
    import numpy as np

    from geocairn.operations.layers import assemble, geometry_name, geometry_values, group_codes, with_geometry
    from geocairn.operations.parts import check_valid, dimensions, present

    asked = {"by": by, "aggregates": aggregates, "keep_null_keys": keep_null_keys}
    values = geometry_values(layer)
    # The reference makes keys and aggregates, and has its say on them, on the same rows without their geometry.
    bare = with_geometry(layer, np.full(len(layer), None, dtype=object))
    table = dissolve.function(bare, **asked)
    frame = layer.reset_index(drop=True)
    if by and not keep_null_keys:
        complete = frame[by].notna().all(axis=1).to_numpy()
        frame, values = frame[complete].reset_index(drop=True), values[complete]
    check_valid(values, "layer", "dissolve")
    codes = group_codes(frame, by) if by else np.zeros(len(frame), dtype="int64")
    order = np.argsort(codes, kind="stable")
    order = order[present(values)[order]]
    kinds = dimensions(values)[order]
    if _mixed(kinds, codes[order], len(table)):
        return dissolve.function(layer, **asked)  # which says so
    return assemble(table, geometry_name(layer), united(values[order], codes[order], len(table), "dissolve"), layer.crs)


def _mixed(kinds: Array, codes: Array, count: int) -> bool:
    """Return whether a group has geometries of several kinds, or a collection."""
    import numpy as np

    from geocairn.operations.parts import COLLECTION

    lowest, highest = np.full(count, COLLECTION), np.full(count, -1)
    np.minimum.at(lowest, codes, kinds)
    np.maximum.at(highest, codes, kinds)
    return bool(((lowest < highest) & (highest >= 0)).any() or (kinds == COLLECTION).any())


def _count_limit(parameters: Any) -> str | None:
    return None if parameters.by is None else "counting by columns (by) is not claimed"


@claimed(count_points, "duckdb", limit=_count_limit)
def count_points_duckdb(
    polygons: GeoDataFrame,
    points: GeoDataFrame,
    *,
    column: str = "count",
    weight: str | None = None,
    by: list[str] | None = None,
) -> GeoDataFrame:
    """Count the points in each polygon, or sum a column of theirs, as the reference does."""
    import shapely

    from geocairn.operations.layers import added, check_columns, check_new_columns, geometry_values

    check_columns(points, [] if weight is None else [weight], "count_points", role="points")
    check_new_columns(polygons, [column], "count_points")
    weights = point_weights(points, weight)
    places, owners = shapely.get_parts(geometry_values(points), return_index=True)
    first, second = related_duckdb(geometry_values(polygons), places, "intersects", None, "count_points")
    return added(polygons, {column: summed(first, owners[second], weights, len(polygons))})
