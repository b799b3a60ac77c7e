"""Shapes that a transformation tears apart: found, and split at the antimeridian or refused.

A transformation moves vertices and leaves the edges between them straight. Where an edge crosses the seam of the target
(longitude 180, the edge of a world map), its ends land on opposite sides, and the polygon is turned inside out. What
always holds: no such shape leaves `mend_torn` as it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.notes import note
from geocairn.operations.layers import name_rows

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LONG_EDGE = 100_000.0
"""Metres (in the target) from which an edge is looked at: a torn one is as long as the map is wide."""
TORN_SHARE = 0.45
"""An edge is torn when its true middle lies further from its drawn one than this share of its length. An arc of a
circle gets there at 170 degrees; a torn edge has about a half, or no length to speak of."""


def mend_torn(
    before: Array,
    after: Array,
    coordinates: Array,
    moved: Array,
    rows: Array,
    transformer: Any,
    source: Any,
    target: Any,
    *,
    where: str,
) -> Array:
    """Return the transformed geometries, those split that cross the antimeridian of a geographic target.

    Parameters
    ----------
    before, after : the geometries before and after the transformation.
    coordinates, moved, rows : their coordinates before and after, and the row of each.

    Raises
    ------
    InputFailure : naming rows that would be torn apart and cannot be split.
    """
    import numpy as np

    suspects = _suspects(coordinates, moved, rows, source, target, len(before))
    if not suspects.any():
        return after
    places = np.flatnonzero(suspects)
    if target.is_geographic:
        jumps = _jumping(before[places], after[places], source, target)
        return _split(after, places[jumps], target, where)
    torn = np.zeros(len(before), dtype=bool)
    torn[places] = _torn(before[places], after[places], transformer)
    if torn.any():
        raise InputFailure(
            f"{name_rows(torn)} would be torn apart or turned inside out: a shape crosses the seam of "
            f"{target.name}, or has an edge too long to be drawn straight in it",
            where=where,
            remedy="cut these shapes at the antimeridian or give their edges more vertices (densify) before, or choose "
            "a CRS whose seam lies elsewhere",
        )
    return after


def _half_turn(crs: Any) -> float:
    """Return 180 degrees in the units of a geographic CRS."""
    factor = crs.axis_info[0].unit_conversion_factor if crs.axis_info else math.radians(1)
    return round(math.pi / factor, 9)


def _suspects(coordinates: Array, moved: Array, rows: Array, source: Any, target: Any, count: int) -> Array:
    """Return the rows with an edge that may be torn. Steps from one part to the next are taken for edges here."""
    import numpy as np

    mask = np.zeros(count, dtype=bool)
    if len(rows) < 2:
        return mask
    same = rows[1:] == rows[:-1]
    step = np.abs(moved[1:, :2] - moved[:-1, :2])
    if target.is_geographic:
        wide = step[:, 0] > _half_turn(target)
    else:
        factor = target.axis_info[0].unit_conversion_factor if target.axis_info else 1.0
        wide = np.hypot(step[:, 0], step[:, 1]) * factor > LONG_EDGE
        if source.is_geographic:
            wide |= np.abs(coordinates[1:, 0] - coordinates[:-1, 0]) > _half_turn(source) / 2
    mask[rows[1:][same & wide]] = True
    return mask


def _edges(values: Array) -> tuple[Array, Array, Array]:
    """Return start and end of all edges of lines and rings, and the place of each one's geometry."""
    import numpy as np
    import shapely

    from geocairn.operations.parts import LINE, POLYGON, dimensions, single_parts

    parts, places = single_parts(values)
    kinds = dimensions(parts)
    rings, inner = shapely.get_rings(parts[kinds == POLYGON], return_index=True)
    lines = np.concatenate([parts[kinds == LINE], rings])
    owners = np.concatenate([places[kinds == LINE], places[kinds == POLYGON][inner]])
    coordinates, numbers = shapely.get_coordinates(lines, return_index=True)
    inside = numbers[1:] == numbers[:-1]
    return coordinates[:-1][inside], coordinates[1:][inside], owners[numbers[:-1][inside]]


def _jumping(before: Array, after: Array, source: Any, target: Any) -> Array:
    """Return which geometries have an edge of over half a turn that was shorter before."""
    import numpy as np

    start, end, owners = _edges(after)
    wide = np.abs(end[:, 0] - start[:, 0]) > _half_turn(target)
    if source.is_geographic:
        # An edge drawn round the world in the source (a world's frame, Antarctica's lower edge) is meant as it is.
        start, end, _ = _edges(before)
        wide &= np.abs(end[:, 0] - start[:, 0]) <= _half_turn(source)
    mask = np.zeros(len(after), dtype=bool)
    mask[owners[wide]] = True
    return mask


def _torn(before: Array, after: Array, transformer: Any) -> Array:
    """Return which geometries have an edge whose middle is not where its ends put it."""
    import numpy as np

    start, end, owners = _edges(before)
    moved_start, moved_end, _ = _edges(after)
    middle = (start + end) / 2
    true_middle = np.column_stack(transformer.transform(middle[:, 0], middle[:, 1]))
    drawn_middle = (moved_start + moved_end) / 2
    length = np.hypot(*(moved_end - moved_start).T)
    away = np.hypot(*(true_middle - drawn_middle).T)
    torn = ~(away <= np.maximum(TORN_SHARE * length, 1.0))  # a middle at infinity is torn as well
    mask = np.zeros(len(before), dtype=bool)
    mask[owners[torn]] = True
    return mask


def _split(after: Array, places: Array, target: Any, where: str) -> Array:
    """Return the geometries, those at `places` unrolled across longitude 180, cut there and put back in two parts."""
    import numpy as np
    import shapely

    from geocairn.operations.parts import collect_parts, dimensions, single_parts

    if not len(places):
        return after
    half = _half_turn(target)

    def unroll(coordinates: Array) -> Array:
        coordinates = coordinates.copy()
        coordinates[coordinates[:, 0] < 0, 0] += 2 * half
        return coordinates

    def back(coordinates: Array) -> Array:
        coordinates = coordinates.copy()
        coordinates[:, 0] -= 2 * half
        return coordinates

    unrolled = _transform_each(after[places], unroll)
    start, end, owners = _edges(unrolled)
    failed = np.zeros(len(after), dtype=bool)
    failed[places[owners[np.abs(end[:, 0] - start[:, 0]) > half]]] = True
    failed[places[shapely.is_valid(after[places]) & ~shapely.is_valid(unrolled)]] = True
    if not failed.any():
        try:
            east = shapely.intersection(unrolled, shapely.box(0, -half, half, half))
            west = _transform_each(shapely.intersection(unrolled, shapely.box(half, -half, 2 * half, half)), back)
        except shapely.errors.GEOSException:
            failed[places] = True
    if failed.any():
        raise InputFailure(
            f"{name_rows(failed)}: a shape goes round a pole, or crosses the antimeridian so that it cannot be split",
            where=where,
            remedy="cut these shapes at the antimeridian before",
        )
    kinds = dimensions(after[places])
    parts, owners = single_parts(np.concatenate([east, west]))
    owners = owners % len(places)
    right = (dimensions(parts) == kinds[owners]) & ~shapely.is_empty(parts)
    order = np.argsort(owners[right], kind="stable")
    result = after.copy()
    result[places] = collect_parts(parts[right][order], owners[right][order], kinds)
    note("split_at_antimeridian", len(places))
    return result


def _transform_each(values: Array, change: Any) -> Array:
    """Return the geometries with changed coordinates, Z kept."""
    import numpy as np
    import shapely

    return np.asarray(shapely.transform(values, change, include_z=None), dtype=object)
