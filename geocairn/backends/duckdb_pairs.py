"""Pairs of rows that stand in a spatial relation, found by DuckDB's spatial join; and nearest rows.

What always holds: as in the reference, pairs are sorted by the left's row and then by the right's, and rows of
missing or empty geometry are in none. Where two engines' last digits could decide (a distance at the limit, the order
of nearest rows), DuckDB finds the candidates and the reference's engine decides among those few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, fetch_parts, refuse_invalid, refuse_touching_rings, shapes
from geocairn.backends.duckdb_tables import Placed, place_present

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FUNCTIONS = {
    "intersects": "ST_Intersects",
    "within": "ST_Within",
    "contains": "ST_Contains",
    "contains_properly": "ST_ContainsProperly",
    "overlaps": "ST_Overlaps",
    "crosses": "ST_Crosses",
    "touches": "ST_Touches",
    "covers": "ST_Covers",
    "covered_by": "ST_CoveredBy",
    "equals": "ST_Equals",
}
"""DuckDB's functions for the predicates; `disjoint` is none that an index helps with, `dwithin` has a distance."""
MARGIN = 1e-9
"""Share of the largest coordinate by which two engines' distances may differ, generously."""


_PAIRS = "SELECT a.row AS i, b.row AS j FROM a JOIN b ON {}(a.g, b.g) ORDER BY i, j"
_FIRST_PAIRS = "SELECT a.row AS i, min(b.row) AS j FROM a JOIN b ON {}(a.g, b.g) GROUP BY i ORDER BY i"
COUNTED_PAIRS = "SELECT a.row AS i, count(*) AS number FROM a JOIN b ON ST_Intersects(a.g, b.g) GROUP BY i"
"""How many rows of table `b` each row of `a` meets, for those that meet any."""
_PAIRS_IN_REACH = (
    "SELECT i, j, apart, CASE WHEN close THEN ST_AsWKB(one) END AS one, "
    "CASE WHEN close THEN ST_AsWKB(other) END AS other "
    "FROM (SELECT a.row AS i, b.row AS j, a.g AS one, b.g AS other, ST_Distance_GEOS(a.g, b.g) AS apart, "
    "abs(apart - $2) <= $3 AS close FROM (SELECT row, g, ST_Expand(g, $1) AS reach FROM a) a "
    "JOIN b ON ST_Intersects_Extent(a.reach, b.g) WHERE ST_DWithin_GEOS(a.g, b.g, $1)) ORDER BY i, j"
)
"""The pairs within a distance and a margin ($1), with the geometries of those that are as far as it ($2, $3)."""


def related_duckdb(
    left: Array, right: Array, predicate: str, distance: float | None, where: str
) -> tuple[Array, Array]:
    """Return the positions of all pairs for which `left PREDICATE right` holds.

    Raises
    ------
    CapabilityFailure : for invalid polygons, for geometries with an empty part, and (but for `intersects` and
        `dwithin`) for polygons whose rings touch each other, unless points alone are held against them.
    """
    from geocairn.operations.parts import POINT, dimensions

    for values, others in ((left, right), (right, left)):
        refuse_unrelatable(values, predicate, where, points_alone=not (dimensions(others) > POINT).any())
    with connection(where) as database:
        a = place_present(database, "a", left, where)
        b = place_present(database, "b", right, where)
        if predicate == "dwithin" and distance is not None:
            return _within_distance(fetch(database, *_in_reach(a, b, distance)), a, b, distance)
        found = fetch(database, _PAIRS.format(FUNCTIONS[predicate]))
    return found["i"], found["j"]


def refuse_unrelatable(values: Array, predicate: str, where: str, *, points_alone: bool) -> None:
    """Refuse what the two engines may relate differently.

    Parameters
    ----------
    points_alone : whether there are only points on the other side.
    """
    refuse_invalid(values, where)
    if predicate not in ("intersects", "dwithin") and not points_alone:
        refuse_touching_rings(values, where)


def pairs_in_parts(
    database: Any, a: Placed, b: Placed, predicate: str, distance: float | None, *, rows: int, first: bool
) -> Iterator[tuple[Array, Array]]:
    """Yield the pairs of rows of the tables `a` and `b` that stand in a relation, in order, at most so many at once.

    Parameters
    ----------
    first : only the first pair of each row of `a`.
    """
    from geocairn.operations.pairs import first_of_each

    if predicate != "dwithin" or distance is None:
        query = (_FIRST_PAIRS if first else _PAIRS).format(FUNCTIONS[predicate])
        for part in fetch_parts(database, query, rows=rows):
            yield part["i"], part["j"]
        return
    last = -1
    for part in fetch_parts(database, *_in_reach(a, b, distance), rows=rows):
        one, other = _within_distance(part, a, b, distance)
        if first and len(one):
            chosen = first_of_each(one) & (one != last)
            last = int(one[-1])
            one, other = one[chosen], other[chosen]
        yield one, other


def _in_reach(a: Placed, b: Placed, distance: float) -> tuple[str, list[Any]]:
    margin = _margin(a, b, distance)
    return _PAIRS_IN_REACH, [distance + margin, distance, margin]


def _within_distance(found: dict[str, Array], a: Placed, b: Placed, distance: float) -> tuple[Array, Array]:
    """Return, of the pairs in reach, those within the distance: at the limit the reference's engine decides."""
    import numpy as np
    import shapely

    first, second, apart = found["i"], found["j"], found["apart"]
    holds = apart <= distance
    close = np.flatnonzero(np.abs(apart - distance) <= _margin(a, b, distance))
    if len(close):
        # The side that the reference prepares: a prepared geometry measures by other steps.
        one, other = shapes(found["one"][close]), shapes(found["other"][close])
        if a.rows > b.rows:
            one, other = other, one
        shapely.prepare(one)
        holds[close] = shapely.dwithin(one, other, distance)
    return first[holds], second[holds]


def nearest_duckdb(
    left: Array, right: Array, count: int, max_distance: float | None, where: str
) -> tuple[Array, Array, Array]:
    """Return, for each left row, its `count` nearest right rows and their distances, as the reference orders them."""
    for values in (left, right):
        refuse_invalid(values, where)
    with connection(where) as database:
        place_present(database, "a", left, where)
        b = place_present(database, "b", right, where)
        return nearest_to(database, left, b, count, max_distance)


def nearest_to(
    database: Any, left: Array, b: Placed, count: int, max_distance: float | None
) -> tuple[Array, Array, Array]:
    """Return the same for geometries that are in table `a`, and a layer in table `b`."""
    import numpy as np
    import shapely

    from geocairn.operations.pairs import first_of_each
    from geocairn.operations.parts import present

    if not present(left).any() or not b.there:
        none = np.zeros(0, dtype="int64")
        return none, none, np.zeros(0)
    first, second = _candidates(database, left, b, count, max_distance)
    distance = shapely.distance(left[first], b.shapes_at(second))
    order = np.lexsort((second, distance, first))
    first, second, distance = first[order], second[order], distance[order]
    starts = np.flatnonzero(first_of_each(first))
    rank = np.arange(len(first)) - np.repeat(starts, np.diff([*starts, len(first)]))
    keep = rank < count
    if max_distance is not None:
        keep &= distance <= max_distance
    return first[keep], second[keep], distance[keep]


def _candidates(database: Any, left: Array, b: Placed, count: int, max_distance: float | None) -> tuple[Array, Array]:
    """Return pairs among which each left row's `count` nearest are, with all that are as far as the last of them.

    The reach of the rows that have too few doubles until they have enough.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import present

    active = np.flatnonzero(present(left))
    wanted = min(count, b.there)
    xmin, ymin, xmax, ymax = b.bounds
    spacing = np.hypot(xmax - xmin, ymax - ymin) * np.sqrt(wanted / b.there) / 2
    to_all = shapely.distance(left[active], shapely.box(xmin, ymin, xmax, ymax))
    bounds = shapely.total_bounds(left)
    furthest = np.inf if max_distance is None else max_distance + _widest(bounds, b.bounds, max_distance)
    margin = _widest(bounds, b.bounds, 0.0)
    reach = np.minimum(to_all + spacing + margin, furthest)
    found: list[tuple[Array, Array]] = []
    while len(active):
        final = reach >= furthest
        pairs = _within_reach(database, active, reach, final, wanted, margin)
        found.append((pairs["i"], pairs["j"]))
        going = ~(final | np.isin(active, pairs["i"]))
        active, reach = active[going], np.minimum(reach[going] * 2, furthest)
    return np.concatenate([item[0] for item in found]), np.concatenate([item[1] for item in found])


def _within_reach(
    database: Any, rows: Array, reach: Array, final: Array, wanted: int, margin: float
) -> dict[str, Array]:
    """Return the pairs of the rows that have `wanted` partners well within their reach, or whose reach is final.

    Partners further than the last wanted one are left out, but for those at its distance within the margin.
    """
    import pyarrow as pa

    database.register("reaches", pa.table({"row": rows, "reach": reach, "final": final}))
    found = fetch(
        database,
        "WITH near AS (SELECT a.row AS i, b.row AS j, ST_Distance_GEOS(a.g, b.g) AS apart, reach, final FROM "
        "(SELECT a.row, g, reach, final, ST_Expand(g, reach) AS box FROM a JOIN reaches ON a.row = reaches.row) a "
        "JOIN b ON ST_Intersects_Extent(a.box, b.g)), "
        "ranked AS (SELECT *, row_number() OVER (PARTITION BY i ORDER BY apart, j) AS rank FROM near "
        "WHERE apart <= reach), "
        "limited AS (SELECT *, max(apart) FILTER (rank = $1) OVER (PARTITION BY i) + $2 AS last FROM ranked) "
        "SELECT i, j FROM limited WHERE (last <= reach AND apart <= last) OR "
        "(final AND (last IS NULL OR last > reach)) ORDER BY i, j",
        [wanted, margin],
    )
    database.unregister("reaches")
    return found


def _margin(a: Placed, b: Placed, distance: float) -> float:
    return _widest(a.bounds, b.bounds, distance)


def _widest(bounds: Array, others: Array, distance: float) -> float:
    """Return how far two engines' distances may lie apart, for coordinates and distances of this size."""
    import numpy as np

    return float(np.nanmax(np.abs(np.concatenate([bounds, others, [distance, 1e-12]]))) * MARGIN)
