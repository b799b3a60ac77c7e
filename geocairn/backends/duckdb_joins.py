"""Relations between two layers by DuckDB's spatial join: spatial_join, nearest_join, spatial_filter.

What always holds: DuckDB finds which rows go together; rows, columns and types are then made as the reference makes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from geocairn.backends.claims import claimed
from geocairn.backends.duckdb_pairs import nearest_duckdb, related_duckdb
from geocairn.operations.joins import (
    joined_rows,
    nearest_join,
    right_table,
    spatial_filter,
    spatial_join,
    with_unmatched,
)

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


def _join_limit(parameters: Any) -> str | None:
    if parameters.predicate == "disjoint":
        return "DuckDB has no index for predicate disjoint"
    if parameters.match == "largest":
        return "match: largest is not claimed: the last digit of an area would decide between equal ones"
    return None


@claimed(spatial_join, "duckdb", limit=_join_limit)
def spatial_join_duckdb(
    left: GeoDataFrame,
    right: GeoDataFrame,
    *,
    predicate: str = "intersects",
    distance: float | None = None,
    how: Literal["left", "inner"] = "left",
    columns: list[str] | None = None,
    suffixes: tuple[str, str] = ("_left", "_right"),
    match: Literal["all", "first", "largest"] = "all",
) -> GeoDataFrame:
    """Add the columns of the right rows that stand in a spatial relation to each left row, as the reference does."""
    from geocairn.operations.layers import geometry_values
    from geocairn.operations.pairs import first_of_each

    table = right_table(right, columns, "spatial_join")
    first, second = related_duckdb(geometry_values(left), geometry_values(right), predicate, distance, "spatial_join")
    if match == "first":
        chosen = first_of_each(first)
        first, second = first[chosen], second[chosen]
    if how == "left":
        first, second, _ = with_unmatched(len(left), first, second)
    return joined_rows(left, table, first, second, suffixes, how == "left", "spatial_join")


@claimed(nearest_join, "duckdb")
def nearest_join_duckdb(
    left: GeoDataFrame,
    right: GeoDataFrame,
    *,
    k: int = 1,
    max_distance: float | None = None,
    distance_column: str = "distance",
    columns: list[str] | None = None,
    suffixes: tuple[str, str] = ("_left", "_right"),
) -> GeoDataFrame:
    """Add the columns of the k nearest right rows, and the distance, as the reference does."""
    import numpy as np

    from geocairn.operations.layers import added, check_new_columns, geometry_values

    table = right_table(right, columns, "nearest_join")
    first, second, distances = nearest_duckdb(
        geometry_values(left), geometry_values(right), k, max_distance, "nearest_join"
    )
    first, second, order = with_unmatched(len(left), first, second)
    joined = joined_rows(left, table, first, second, suffixes, True, "nearest_join")
    check_new_columns(joined, [distance_column], "nearest_join")
    filled = np.concatenate([distances, np.full(len(first) - len(distances), np.nan)])[order]
    return added(joined, {distance_column: filled})


@claimed(spatial_filter, "duckdb")
def spatial_filter_duckdb(
    layer: GeoDataFrame,
    by: GeoDataFrame,
    *,
    predicate: str = "intersects",
    distance: float | None = None,
    invert: bool = False,
) -> GeoDataFrame:
    """Keep the rows that stand in a spatial relation to at least one row of another layer, as the reference does."""
    import numpy as np

    from geocairn.operations.layers import geometry_values, pick_rows
    from geocairn.operations.parts import present

    values = geometry_values(layer)
    asked = "intersects" if predicate == "disjoint" else predicate
    first, _ = related_duckdb(values, geometry_values(by), asked, distance, "spatial_filter")
    holds = np.zeros(len(values), dtype=bool)
    holds[first] = True
    if predicate == "disjoint":
        holds = present(values) & ~holds
    return pick_rows(layer, holds != invert)
