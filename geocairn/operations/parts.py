"""Kinds and parts of geometries: telling them, taking collections apart, keeping the kind that is promised.

A kind is a dimension here: 0 points, 1 lines, 2 polygons, 3 a collection of several; -1 where the geometry is
missing. All functions work on whole arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.operations.layers import name_rows
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MISSING, POINT, LINE, POLYGON, COLLECTION = -1, 0, 1, 2, 3
KIND_NAMES = {POINT: "point", LINE: "line", POLYGON: "polygon", COLLECTION: "collection"}
_OF_TYPE = (POINT, LINE, LINE, POLYGON, POINT, LINE, POLYGON, COLLECTION, MISSING)  # the last for type -1
_MULTIPART = (4, 5, 6, 7)


def dimensions(values: Array) -> Array:
    """Return each geometry's kind, as a number (-1 missing, 3 a collection)."""
    import numpy as np
    import shapely

    kinds: Array = np.asarray(_OF_TYPE)[shapely.get_type_id(values)]
    return kinds


def present(values: Array) -> Array:
    """Return where there is a geometry that is neither missing nor empty."""
    import shapely

    mask: Array = ~(shapely.is_missing(values) | shapely.is_empty(values))
    return mask


def empty_of(kinds: Array) -> Array:
    """Return the empty geometry of each kind."""
    import numpy as np
    import shapely

    empties = shapely.from_wkt(["POINT EMPTY", "LINESTRING EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY"])
    chosen: Array = np.asarray(empties, dtype=object)[kinds]
    return chosen


def single_parts(values: Array) -> tuple[Array, Array]:
    """Return all single parts, nested collections opened, and for each its geometry's place; missing ones have none."""
    import numpy as np
    import shapely

    parts, places = shapely.get_parts(values, return_index=True)
    while True:
        nested = np.isin(shapely.get_type_id(parts), _MULTIPART)
        if not nested.any():
            return parts, places
        parts, inner = shapely.get_parts(parts, return_index=True)
        places = places[inner]


def collect_parts(parts: Array, places: Array, kinds: Array) -> Array:
    """Return a geometry for each kind given, from the parts at its place; one part stays single, none is an empty one.

    `places` must be sorted, and each part must be of its place's kind.
    """
    import numpy as np
    import shapely

    result = empty_of(kinds)
    counts = np.bincount(places, minlength=len(kinds)) if len(places) else np.zeros(len(kinds), dtype="int64")
    single = counts[places] == 1 if len(places) else np.zeros(0, dtype=bool)
    result[places[single]] = parts[single]
    makers = {POINT: shapely.multipoints, LINE: shapely.multilinestrings, POLYGON: shapely.multipolygons}
    for kind, make in makers.items():
        mask = ~single & (kinds[places] == kind)
        if mask.any():
            targets, codes = np.unique(places[mask], return_inverse=True)
            result[targets] = make(parts[mask], indices=codes)
    return result


def by_bounds(values: Array) -> Array:
    """Return the geometries in the order of their bounds: xmin, then ymin, xmax, ymax."""
    import numpy as np
    import shapely

    ordered: Array = values[np.lexsort(shapely.bounds(values).reshape(-1, 4).T[::-1])]
    return ordered


def keep_kind(values: Array, kinds: Array) -> tuple[Array, int]:
    """Return the geometries with only the parts of the kind given for each, and how many parts fell away.

    What has no such part becomes the empty geometry of that kind; missing and empty geometries stay as they are.
    """
    import numpy as np
    import shapely

    found = dimensions(values)
    wrong = present(values) & (found != kinds) & (kinds != MISSING) & (kinds != COLLECTION)
    if not wrong.any():
        return values, 0
    places = np.flatnonzero(wrong)
    parts, inner = single_parts(values[places])
    wanted = kinds[places]
    right = (dimensions(parts) == wanted[inner]) & ~shapely.is_empty(parts)
    result = values.copy()
    result[places] = collect_parts(parts[right], inner[right], wanted)
    return result, int((~right & ~shapely.is_empty(parts)).sum())


def check_valid(values: Array, role: str, where: str) -> None:
    """Refuse invalid polygons, which overlay and union give wrong answers for, or none.

    Raises
    ------
    InputFailure : naming the rows, what is wrong with the first, and the remedy.
    """
    import numpy as np
    import shapely

    invalid = (dimensions(values) >= POLYGON) & ~row_by_row(shapely.is_valid, values)
    if invalid.any():
        first = values[np.flatnonzero(invalid)[0]]
        raise InputFailure(
            f"input {role!r} has invalid polygons: {name_rows(invalid)} ({shapely.is_valid_reason(first)})",
            where=where,
            remedy="make_valid before this step",
        )


def check_no_collections(values: Array, role: str, where: str) -> None:
    """Refuse geometry collections, whose kind cannot be kept.

    Raises
    ------
    InputFailure : naming the rows and the remedy.
    """
    mixed = (dimensions(values) == COLLECTION) & present(values)
    if mixed.any():
        raise InputFailure(
            f"input {role!r} has geometry collections: {name_rows(mixed)}",
            where=where,
            remedy="explode before this step, and keep one kind",
        )


def check_no_m(values: Array, role: str, where: str) -> None:
    """Refuse M values, where the engine cannot carry them. Where no M is known at all, none is lost.

    Raises
    ------
    InputFailure : naming the rows and the remedy.
    """
    import numpy as np
    import shapely

    having = np.flatnonzero(shapely.has_m(values))
    if not len(having):
        return
    coordinates, places = shapely.get_coordinates(values[having], include_m=True, return_index=True)
    measured = np.zeros(len(values), dtype=bool)
    measured[having[places[np.isfinite(coordinates[:, -1])]]] = True
    if measured.any():
        raise InputFailure(
            f"input {role!r} has M values, which would be lost: {name_rows(measured)}",
            where=where,
            remedy="drop M before (force_2d)",
        )


def union_groups(values: Array, codes: Array, count: int, grid_size: float | None = None) -> Array:
    """Return the union of each group's geometries; `codes` must be sorted. A group of none is missing."""
    import numpy as np
    import shapely

    result = np.full(count, None, dtype=object)
    if not len(values):
        return result
    numbers = np.bincount(codes, minlength=count)
    # One polygon is its own union; lines go through it all the same, since union also nodes them. On a grid, the
    # engine leaves a lone polygon as it is, so it is rounded here.
    alone = (numbers[codes] == 1) & (dimensions(values) != LINE)
    result[codes[alone]] = on_grid(values[alone], grid_size)
    if not alone.all():
        groups, inner = np.unique(codes[~alone], return_inverse=True)
        collected = shapely.geometrycollections(values[~alone], indices=inner)
        result[groups] = shapely.union_all(collected.reshape(-1, 1), axis=1, grid_size=grid_size)
    return result


def on_grid(values: Array, grid_size: float | None) -> Array:
    """Return the geometries rounded to a grid, polygons kept valid; unchanged without one."""
    import shapely

    if grid_size is None:
        return values
    rounded: Array = row_by_row(shapely.set_precision, values, grid_size)
    return rounded


def off_grid(values: Array) -> Array:
    """Return the geometries without the memory of a grid, which no file keeps, coordinates untouched."""
    import shapely

    free: Array = shapely.set_precision(values, 0, mode="pointwise")
    return free
