"""Joins, overlays and counts in DuckDB batch by batch: the first layer passes by, the other lies in a table.

What always holds: the geometries of both layers are never in memory as a whole, nor is the result; DuckDB holds the
other's, and spills them under its memory limit. Attributes of the other layer, and numbers of its rows, stay in memory.
Pieces come in the order of the result; each is made as the implementation on whole layers makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from geocairn.backends.claims import streamed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, refuse_invalid
from geocairn.backends.duckdb_pairs import COUNTED_PAIRS, nearest_to, pairs_in_parts, refuse_unrelatable
from geocairn.backends.duckdb_selection import measurable, measure_duckdb, measured
from geocairn.backends.duckdb_tables import Placed, place_present, place_side
from geocairn.backends.sides import Piece, Side, numbered
from geocairn.notes import rows_from
from geocairn.operations.aggregation import (
    add_to_sums,
    column_of_sums,
    count_points,
    no_sums,
    point_weights,
)
from geocairn.operations.joins import (
    joined_rows,
    nearest_join,
    right_table,
    spatial_filter,
    spatial_join,
    with_unmatched,
)
from geocairn.operations.selection import measure

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


@streamed(measure, "duckdb")
def measure_stream(
    *, layer: Side, area: str | None, length: str | None, perimeter: str | None, unit: str, method: Any
) -> Iterator[Piece]:
    """Measure batch by batch: whether there is something to measure is asked of the whole."""
    from geocairn.operations.layers import geometry_values

    asked = {"area": area, "length": length, "perimeter": perimeter}
    columns = {what: name for what, name in asked.items() if name is not None}
    measure_duckdb(layer.nothing(), **asked, unit=unit, method=method)
    for first, batch in numbered(layer):
        with rows_from(first):
            if measurable(layer.kinds, columns):
                result = measured(batch, columns, unit)
            else:
                result = measure_duckdb(batch, **asked, unit=unit, method=method)  # which says what is wrong
        yield Piece(result, geometry_values(batch))


class Related:
    """A layer passing by, in table `a`, and another in table `b`: the pairs of rows in a relation."""

    def __init__(
        self, database: Any, left: Side, right: Side, predicate: str, distance: float | None, where: str
    ) -> None:
        self._database = database
        self._left = left
        self._predicate = predicate
        self._distance = distance
        self._where = where
        alone = left.kinds <= {"point"}
        self._right_alone = right.kinds <= {"point"}
        self._placed, self.right_attributes = place_side(
            database,
            "b",
            right,
            where,
            lambda values: refuse_unrelatable(values, predicate, where, points_alone=alone),
        )

    def batches(self, *, first: bool) -> Iterator[tuple[GeoDataFrame, Iterator[tuple[Array, Array]]]]:
        """Yield each batch of the left, and its pairs in parts: positions in the batch, and in the right.

        Parameters
        ----------
        first : only the first pair of each row of the left.
        """
        from geocairn.operations.layers import geometry_values

        for start, batch in numbered(self._left):
            with rows_from(start):
                values = geometry_values(batch)
                refuse_unrelatable(values, self._predicate, self._where, points_alone=self._right_alone)
                placed = place_present(self._database, "a", values, self._where, self._left.rows)
            yield batch, self._pairs(placed, first)

    def _pairs(self, placed: Placed, first: bool) -> Iterator[tuple[Array, Array]]:
        return pairs_in_parts(
            self._database,
            placed,
            self._placed,
            self._predicate,
            self._distance,
            rows=self._left.batch_rows,
            first=first,
        )


@streamed(spatial_filter, "duckdb")
def spatial_filter_stream(
    *, layer: Side, by: Side, predicate: str, distance: float | None, invert: bool
) -> Iterator[Piece]:
    """Keep rows batch by batch."""
    import numpy as np

    from geocairn.operations.layers import geometry_values, pick_rows
    from geocairn.operations.parts import present

    asked = "intersects" if predicate == "disjoint" else predicate
    with connection("spatial_filter") as database:
        related = Related(database, layer, by, asked, distance, "spatial_filter")
        for batch, parts in related.batches(first=True):
            holds = np.zeros(len(batch), dtype=bool)
            for first, _ in parts:
                holds[first] = True
            if predicate == "disjoint":
                holds = present(geometry_values(batch)) & ~holds
            yield Piece(pick_rows(batch, holds != invert))


@streamed(spatial_join, "duckdb")
def spatial_join_stream(
    *,
    left: Side,
    right: Side,
    predicate: str,
    distance: float | None,
    how: str,
    columns: list[str] | None,
    suffixes: tuple[str, str],
    match: str,
) -> Iterator[Piece]:
    """Join batch by batch, and within a batch part by part, however many partners its rows have."""
    where = "spatial_join"
    right_table(right.nothing(), columns, where)
    with connection(where) as database:
        related = Related(database, left, right, predicate, distance, where)
        attributes = related.right_attributes
        table = attributes if columns is None else attributes[columns]
        for batch, parts in related.batches(first=match == "first"):
            for first, second in _every_row(len(batch), parts) if how == "left" else _at_least_one(parts):
                yield _joined(batch, table, first, second, suffixes, how == "left", where)


def _every_row(count: int, parts: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Yield the pairs with the left rows that are in none, in order; for these the right's position is -1."""
    import numpy as np

    reached = 0
    for first, second in parts:
        if len(first):
            last = int(first[-1]) + 1
            both, partners, _ = with_unmatched(last - reached, first - reached, second)
            yield both + reached, partners
            reached = last
    rest = np.arange(reached, count)
    if len(rest) or not count:
        yield rest, np.full(len(rest), -1)


def _at_least_one(parts: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Yield the parts, or one of no pairs if there are none."""
    import numpy as np

    none = np.zeros(0, dtype="int64")
    some = False
    for part in parts:
        some = True
        yield part
    if not some:
        yield none, none


def _joined(
    batch: GeoDataFrame,
    table: pd.DataFrame,
    first: Array,
    second: Array,
    suffixes: tuple[str, str],
    partial: bool,
    where: str,
) -> Piece:
    from geocairn.operations.layers import geometry_values

    return Piece(joined_rows(batch, table, first, second, suffixes, partial, where), geometry_values(batch)[first])


@streamed(nearest_join, "duckdb")
def nearest_join_stream(
    *,
    left: Side,
    right: Side,
    k: int,
    max_distance: float | None,
    distance_column: str,
    columns: list[str] | None,
    suffixes: tuple[str, str],
) -> Iterator[Piece]:
    """Join batch by batch."""
    import numpy as np

    from geocairn.operations.layers import added, check_new_columns, geometry_values

    where = "nearest_join"
    right_table(right.nothing(), columns, where)
    with connection(where) as database:
        placed, attributes = place_side(database, "b", right, where, lambda values: refuse_invalid(values, where))
        table = attributes if columns is None else attributes[columns]
        for start, batch in numbered(left):
            values = geometry_values(batch)
            with rows_from(start):
                refuse_invalid(values, where)
                place_present(database, "a", values, where)
            first, second, distances = nearest_to(database, values, placed, k, max_distance)
            first, second, order = with_unmatched(len(batch), first, second)
            filled = np.concatenate([distances, np.full(len(first) - len(distances), np.nan)])[order]
            for begin in range(0, max(len(first), 1), left.batch_rows):
                some = slice(begin, begin + left.batch_rows)
                piece = _joined(batch, table, first[some], second[some], suffixes, True, where)
                check_new_columns(piece.layer, [distance_column], where)
                yield Piece(added(piece.layer, {distance_column: filled[some]}), piece.before)


@streamed(count_points, "duckdb")
def count_points_stream(
    *, polygons: Side, points: Side, column: str, weight: str | None, by: list[str] | None
) -> Iterator[Piece]:
    """Count batch by batch of the polygons; of the points only their owners and weights stay in memory."""
    import numpy as np
    import shapely

    from geocairn.operations.layers import added, check_columns, check_new_columns, geometry_values

    where = "count_points"
    check_columns(points.nothing(), [] if weight is None else [weight], where, role="points")
    check_new_columns(polygons.nothing(), [column], where)
    with connection(where) as database:
        placed = Placed(database, "b", where)
        owners: list[Array] = []
        weights: list[Array | None] = []
        for start, batch in numbered(points):
            places, rows = shapely.get_parts(geometry_values(batch), return_index=True)
            placed.add(places)
            owners.append(rows + start)
            weights.append(point_weights(batch, weight))
        owner = np.concatenate(owners)
        weighed = None if weight is None else np.concatenate([one for one in weights if one is not None])
        for start, batch in numbered(polygons):
            values = geometry_values(batch)
            with rows_from(start):
                refuse_unrelatable(values, "intersects", where, points_alone=True)
                counted = place_present(database, "a", values, where, polygons.rows)
            sums = no_sums(weighed, len(batch))
            if weighed is None:
                met = fetch(database, COUNTED_PAIRS)
                sums[met["i"]] = met["number"]
            else:
                for first, second in pairs_in_parts(
                    database, counted, placed, "intersects", None, rows=polygons.batch_rows, first=False
                ):
                    add_to_sums(sums, first, owner[second], weighed)
            yield Piece(added(batch, {column: column_of_sums(sums)}), values)
