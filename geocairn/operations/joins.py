"""Operations that relate two layers by place: spatial join, nearest join, spatial filter.

What always holds: rows are in the order of the left layer, and where one left row has several partners, in a documented
order of the right; equal inputs give equal results, ties included. The right's geometry is not carried over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnName, ColumnNames, Number, Predicate, Suffixes

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

Distance = Annotated[Number | None, Field(ge=0, description="for predicate dwithin: in units of the CRS")]
RightColumns = Annotated[
    ColumnNames | None,
    Field(description="the right's columns to carry over, in this order; none: all but its geometry"),
]


def _check_distance(parameters: Any) -> None:
    if parameters.predicate == "dwithin" and parameters.distance is None:
        raise ValueError("predicate dwithin needs a distance")
    if parameters.predicate != "dwithin" and parameters.distance is not None:
        raise ValueError(f"distance goes with predicate dwithin, not with {parameters.predicate}")


def _check_join(parameters: Any) -> None:
    _check_distance(parameters)
    if parameters.match == "largest" and parameters.predicate in ("disjoint", "dwithin", "touches"):
        raise ValueError(
            f"match: largest compares the parts in common, and {parameters.predicate} need not have any: use first"
        )


def _by_distance(parameters: Any) -> bool:
    return bool(parameters.predicate == "dwithin")


def _join_promise(parameters: Any) -> dict[str, Any]:
    inner = {"drops_missing": True} if parameters.how == "inner" else {}
    if parameters.match == "all":
        return {"rows": "any", **inner}
    return {"rows": "some" if parameters.how == "inner" else "each", **inner}


@operation(
    version=1,
    result="same",
    rows="any",
    planar=_by_distance,
    validate=_check_join,
    varies=_join_promise,
    example={"left": "places", "right": "parcels", "columns": ["parcel", "use"]},
)
def spatial_join(
    left: GeoDataFrame,
    right: GeoDataFrame,
    *,
    predicate: Annotated[Predicate, Field(description="what must hold, read from left to right")] = "intersects",
    distance: Distance = None,
    how: Annotated[
        Literal["left", "inner"], Field(description="left: rows without a partner stay, inner: they are left out")
    ] = "left",
    columns: RightColumns = None,
    suffixes: Suffixes = ("_left", "_right"),
    match: Annotated[
        Literal["all", "first", "largest"],
        Field(
            description="all: a row for each partner; first: the first of the right's rows; largest: the one with the "
            "largest part in common (by area, then by length, then the first)"
        ),
    ] = "all",
) -> GeoDataFrame:
    """Add the columns of the right rows that stand in a spatial relation to each left row.

    Rows are ordered by left row, then by right row. With `how: left`, the right's integers and truth values become
    nullable types, whether or not a partner is missing. Rows of missing or empty geometry have no partner.

    Raises
    ------
    InputFailure : for a column that is not there, a name that would be there twice, or geometry too broken to decide
        on.
    """
    from geocairn.operations.layers import geometry_values
    from geocairn.operations.pairs import first_of_each, largest_of_each, related

    table = right_table(right, columns, "spatial_join")
    a, b = geometry_values(left), geometry_values(right)
    first, second = related(a, b, predicate, distance, "spatial_join")
    if match == "first":
        chosen = first_of_each(first)
        first, second = first[chosen], second[chosen]
    elif match == "largest":
        chosen = largest_of_each(a, b, first, second, "spatial_join")
        first, second = first[chosen], second[chosen]
    if how == "left":
        first, second, _ = with_unmatched(len(left), first, second)
    return joined_rows(left, table, first, second, suffixes, how == "left", "spatial_join")


@operation(
    version=1,
    result="same",
    rows="each",
    planar=True,
    varies=lambda parameters: {} if parameters.k == 1 else {"rows": "any"},
    example={"left": "places", "right": "roads", "max_distance": 30, "columns": "road"},
)
def nearest_join(
    left: GeoDataFrame,
    right: GeoDataFrame,
    *,
    k: Annotated[int, Field(ge=1, description="how many nearest rows to join")] = 1,
    max_distance: Annotated[
        Number | None,
        Field(ge=0, description="how far to look, in units of the CRS, the limit included; none: anywhere"),
    ] = None,
    distance_column: Annotated[
        ColumnName, Field(description="column for the distance, in units of the CRS")
    ] = "distance",
    columns: RightColumns = None,
    suffixes: Suffixes = ("_left", "_right"),
) -> GeoDataFrame:
    """Add the columns of the k nearest right rows, and the distance.

    Rows are ordered by left row, then by distance, then by right row: at equal distances the earlier right row wins,
    and there are never more than k. Left rows without a partner (none within `max_distance`, no geometry) stay, with
    missing values; the right's integers and truth values become nullable types.

    Raises
    ------
    InputFailure : for a column that is not there, or a name that would be there twice.
    """
    import numpy as np

    from geocairn.operations.layers import added, check_new_columns, geometry_values
    from geocairn.operations.pairs import nearest

    table = right_table(right, columns, "nearest_join")
    a, b = geometry_values(left), geometry_values(right)
    first, second, distances = nearest(a, b, k, max_distance)
    first, second, order = with_unmatched(len(left), first, second)
    joined = joined_rows(left, table, first, second, suffixes, True, "nearest_join")
    check_new_columns(joined, [distance_column], "nearest_join")
    filled = np.concatenate([distances, np.full(len(first) - len(distances), np.nan)])[order]
    return added(joined, {distance_column: filled})


@operation(
    version=1,
    result="same",
    rows="some",
    drops_missing=True,
    planar=_by_distance,
    validate=_check_distance,
    varies=lambda parameters: {"drops_missing": not parameters.invert},
    example={"layer": "places", "by": "zones", "predicate": "within"},
)
def spatial_filter(
    layer: GeoDataFrame,
    by: GeoDataFrame,
    *,
    predicate: Annotated[
        Predicate, Field(description="what must hold between a row and at least one row of `by`")
    ] = "intersects",
    distance: Distance = None,
    invert: Annotated[bool, Field(description="keep the rows for which it does not hold")] = False,
) -> GeoDataFrame:
    """Keep the rows that stand in a spatial relation to at least one row of another layer.

    `disjoint` keeps those that intersect no row at all. Rows of missing or empty geometry stand in no relation: they
    are kept by `invert`, which gives exactly the other rows, and by nothing else.

    Raises
    ------
    InputFailure : for geometry too broken to decide on.
    """
    import numpy as np

    from geocairn.operations.layers import geometry_values, pick_rows
    from geocairn.operations.pairs import related
    from geocairn.operations.parts import present

    values = geometry_values(layer)
    holds = np.zeros(len(values), dtype=bool)
    if predicate == "disjoint":
        first, _ = related(values, geometry_values(by), "intersects", None, "spatial_filter")
        holds = present(values)
        holds[first] = False
    else:
        first, _ = related(values, geometry_values(by), predicate, distance, "spatial_filter")
        holds[first] = True
    return pick_rows(layer, holds != invert)


def right_table(right: GeoDataFrame, columns: list[str] | None, where: str) -> pd.DataFrame:
    """Return the right's columns that a join carries over."""
    from geocairn.operations.layers import attributes, check_columns

    table = attributes(right)
    if columns is None:
        return table
    check_columns(table, columns, where, role="right")
    return table[columns]


def with_unmatched(count: int, first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Return the pairs and, with -1 for the right, the left rows in no pair, by left row; and the order taken."""
    import numpy as np

    paired = np.zeros(count, dtype=bool)
    paired[first[(first >= 0) & (first < count)]] = True  # pairs of rows of another batch pass through
    alone = np.flatnonzero(~paired)
    every = np.concatenate([first, alone])
    order = np.argsort(every, kind="stable")
    return every[order], np.concatenate([second, np.full(len(alone), -1)])[order], order


def joined_rows(
    left: GeoDataFrame,
    table: pd.DataFrame,
    first: Array,
    second: Array,
    suffixes: tuple[str, str],
    partial: bool,
    where: str,
) -> GeoDataFrame:
    """Return the left's rows at these positions with the table's beside them.

    Parameters
    ----------
    second : positions in the table; -1 for none, if `partial`.
    """
    import pandas as pd

    from geocairn.operations.layers import (
        assemble,
        geometry_name,
        geometry_values,
        join_columns,
        partner_rows,
        pick_rows,
    )

    name = geometry_name(left)
    rows = pick_rows(pd.DataFrame(left), first)
    partners = partner_rows(table, second) if partial else pick_rows(table, second)
    columns = join_columns(rows, partners, suffixes, name, where)
    return assemble(columns, name, geometry_values(left)[first], left.crs)
