"""Pairs of rows that stand in a spatial relation, found by an index: what joins, filters, counts and overlays rest on.

What always holds: pairs are sorted by the left's row and then by the right's, and rows of missing or empty geometry
are in none. An engine's error for an invalid geometry becomes an input failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DISJOINT_LIMIT = 100_000_000
"""Most pairs of left and right rows that `disjoint` is worked out for: nearly all of them are in its answer."""

_INVERSE = {
    "intersects": "intersects",
    "within": "contains",
    "contains": "within",
    "overlaps": "overlaps",
    "crosses": "crosses",
    "touches": "touches",
    "covers": "covered_by",
    "covered_by": "covers",
    "dwithin": "dwithin",
}


def related(left: Array, right: Array, predicate: str, distance: float | None, where: str) -> tuple[Array, Array]:
    """Return the positions of all pairs for which `left PREDICATE right` holds.

    Parameters
    ----------
    distance : for `dwithin`, in units of the CRS.

    Raises
    ------
    InputFailure : when the geometry engine cannot decide (an invalid geometry), or `disjoint` has too many pairs.
    """
    import numpy as np
    import shapely

    try:
        if predicate == "disjoint":
            return _disjoint(left, right, where)
        if predicate == "equals":
            first, second = _query(left, right, "intersects", None)
            same = shapely.equals(left[first], right[second])
            first, second = first[same], second[same]
        else:
            first, second = _query(left, right, predicate, distance)
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"{predicate} could not be decided: {error}", where, "make_valid before this step"
        ) from error
    order = np.lexsort((second, first))
    return first[order], second[order]


def _query(left: Array, right: Array, predicate: str, distance: float | None) -> tuple[Array, Array]:
    import shapely

    # The queried side is prepared, and preparing pays when it is the smaller one.
    if len(left) > len(right) and predicate in _INVERSE:
        second, first = shapely.STRtree(left).query(right, predicate=_INVERSE[predicate], distance=distance)
    else:
        first, second = shapely.STRtree(right).query(left, predicate=predicate, distance=distance)
    return first, second


def _disjoint(left: Array, right: Array, where: str) -> tuple[Array, Array]:
    import numpy as np

    from geocairn.operations.parts import present

    if len(left) * len(right) > DISJOINT_LIMIT:
        raise InputFailure(
            f"disjoint would pair most of {len(left)} rows with most of {len(right)}",
            where=where,
            remedy="use spatial_filter with predicate intersects and invert: true",
        )
    apart = present(left)[:, None] & present(right)[None, :]
    apart[_query(left, right, "intersects", None)] = False
    first, second = np.nonzero(apart)
    return first, second


def first_of_each(first: Array) -> Array:
    """Return a mask that is true at the first pair of each left row; `first` must be sorted."""
    import numpy as np

    mask: Array = np.ones(len(first), dtype=bool)
    mask[1:] = first[1:] != first[:-1]
    return mask


def largest_of_each(left: Array, right: Array, first: Array, second: Array, where: str) -> Array:
    """Return a mask that is true at each left row's pair with the largest part in common.

    The part is compared by area, then by length; equal ones by the order of the right rows.
    """
    import numpy as np
    import shapely

    several = np.bincount(first, minlength=len(left))[first] > 1 if len(first) else np.zeros(0, dtype=bool)
    area = np.zeros(len(first))
    length = np.zeros(len(first))
    try:
        shared = shapely.intersection(left[first[several]], right[second[several]])
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"the parts in common could not be computed: {error}", where, "make_valid before this step"
        ) from error
    area[several], length[several] = shapely.area(shared), shapely.length(shared)
    order = np.lexsort((second, -length, -area, first))
    mask: Array = np.zeros(len(first), dtype=bool)
    mask[order[first_of_each(first[order])]] = True
    return mask


def nearest(left: Array, right: Array, count: int, max_distance: float | None) -> tuple[Array, Array, Array]:
    """Return, for each left row, its `count` nearest right rows and their distances.

    Sorted by left row, distance, right row; at equal distances the earlier right row wins. Distances in units of the
    CRS.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import present

    queried = np.flatnonzero(present(left))
    available = int(present(right).sum())
    if not len(queried) or not available:
        none = np.zeros(0, dtype="int64")
        return none, none, np.zeros(0)
    tree = shapely.STRtree(right)
    found = tree.query_nearest(left[queried], return_distance=True, all_matches=True)
    (first, second), distance = found
    if count > 1 and available > 1:
        first, second, distance = _within_growing_reach(
            tree, left[queried], right, first, distance, min(count, available)
        )
    order = np.lexsort((second, distance, first))
    first, second, distance = first[order], second[order], distance[order]
    starts = np.flatnonzero(first_of_each(first))
    rank = np.arange(len(first)) - np.repeat(starts, np.diff([*starts, len(first)]))
    keep = rank < count
    if max_distance is not None:
        keep &= distance <= max_distance
    return queried[first[keep]], second[keep], distance[keep]


def _within_growing_reach(
    tree: Any, left: Array, right: Array, first: Array, distance: Array, count: int
) -> tuple[Array, Array, Array]:
    """Return pairs that contain each left row's `count` nearest: the reach doubles for the rows that have too few."""
    import numpy as np
    import shapely

    closest = np.zeros(len(left))
    closest[first] = distance
    xmin, ymin, xmax, ymax = shapely.total_bounds(right)
    spacing = np.hypot(xmax - xmin, ymax - ymin) * np.sqrt(count / max(len(right), 1)) / 2
    reach = closest * 1.001 + spacing
    active = np.arange(len(left))
    found: list[tuple[Array, Array]] = []
    while len(active):
        inner, second = tree.query(left[active], predicate="dwithin", distance=reach[active])
        enough = np.bincount(inner, minlength=len(active)) >= count
        done = enough[inner]
        found.append((active[inner[done]], second[done]))
        active = active[~enough]
        reach[active] *= 2
    pairs_first = np.concatenate([item[0] for item in found])
    pairs_second = np.concatenate([item[1] for item in found])
    return pairs_first, pairs_second, shapely.distance(left[pairs_first], right[pairs_second])
