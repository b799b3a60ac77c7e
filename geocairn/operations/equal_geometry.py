"""Which geometries of a layer are equal, exactly or within a tolerance, without comparing each with each.

What always holds: missing and empty geometries equal none; the first of equal ones is the one that counts, so that the
answer depends on the order of rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.engine_errors import engine_failure

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_REMEDY = "make_valid before this step"


def classes_of_equals(values: Array, codes: Array, where: str) -> Array:
    """Return a number for each row, the same for rows of one code whose geometries cover the same places.

    Geometries that are written alike after normalisation are equal; of the rest only those with the same bounds are
    compared, and none with Z.

    Raises
    ------
    InputFailure : when the geometry engine cannot decide.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.parts import dimensions, present

    classes = np.arange(len(values))
    rows = np.flatnonzero(present(values))
    if not len(rows):
        return classes
    # Z and M are written too, so that they count.
    written = shapely.to_wkb(shapely.normalize(values[rows]), output_dimension=4)
    same = _numbered(codes[rows], pd.factorize(written)[0])
    firsts = rows[_firsts(same)]
    joined = np.arange(len(firsts))
    bounds = shapely.bounds(values[firsts])
    boxes = _numbered(codes[firsts], *(pd.factorize(side)[0] for side in bounds.T))
    alike = np.flatnonzero((np.bincount(boxes)[boxes] > 1) & ~shapely.has_z(values[firsts]))
    if len(alike):
        shown = values[firsts[alike]]
        joined[alike] = alike[_merged(shown, _numbered(boxes[alike], dimensions(shown)), where)]
    classes[rows] = firsts[joined][same]
    return classes


def _numbered(*columns: Array) -> Array:
    """Return each row's group, by first appearance, from whole numbers that must agree."""
    import numpy as np
    import pandas as pd

    result = columns[0]
    for column in columns[1:]:
        result = pd.factorize(result * (int(column.max(initial=0)) + 1) + column)[0]
    numbers: Array = np.asarray(pd.factorize(result)[0])
    return numbers


def _firsts(groups: Array) -> Array:
    """Return the first row of each group."""
    import numpy as np

    result: Array = np.unique(groups, return_index=True)[1]
    return result


def _merged(values: Array, boxes: Array, where: str) -> Array:
    """Return for each geometry the first that equals it among those of its box."""
    import numpy as np
    import shapely

    result = np.arange(len(values))
    open_rows = np.arange(len(values))
    while len(open_rows):
        groups, starts = np.unique(boxes[open_rows], return_index=True)
        lead = open_rows[starts][np.searchsorted(groups, boxes[open_rows])]
        try:
            equal = shapely.equals(values[lead], values[open_rows])
        except shapely.errors.GEOSException as error:
            raise engine_failure(error, f"geometries could not be compared: {error}", where, _REMEDY) from error
        equal |= lead == open_rows
        result[open_rows[equal]] = lead[equal]
        open_rows = open_rows[~equal]
    return result


def kept_apart(values: Array, codes: Array, tolerance: float, where: str) -> Array:
    """Return a mask of the rows to keep: each that lies within the tolerance of none that is kept before it.

    Raises
    ------
    InputFailure : when the geometry engine cannot decide.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import dimensions

    keep: Array = np.ones(len(values), dtype=bool)
    try:
        first, second = shapely.STRtree(values).query(values, predicate="dwithin", distance=tolerance)
        chosen = (first < second) & (codes[first] == codes[second])
        first, second = first[chosen], second[chosen]
        kinds = dimensions(values)
        bounds = np.concatenate([shapely.bounds(values), _heights(values)], axis=1)
        chosen = kinds[first] == kinds[second]
        for side in range(bounds.shape[1]):
            apart = np.abs(bounds[first, side] - bounds[second, side]) > tolerance
            chosen &= ~apart & (np.isnan(bounds[first, side]) == np.isnan(bounds[second, side]))
        first, second = first[chosen], second[chosen]
        near = shapely.hausdorff_distance(values[first], values[second]) <= tolerance
    except shapely.errors.GEOSException as error:
        raise engine_failure(error, f"geometries could not be compared: {error}", where, _REMEDY) from error
    first, second = first[near], second[near]
    order = np.argsort(first, kind="stable")
    first, second = first[order], second[order]
    ends = np.searchsorted(first, np.arange(len(values)), "right")
    starts = np.searchsorted(first, np.arange(len(values)), "left")
    for row in np.unique(first):
        if keep[row]:
            keep[second[starts[row] : ends[row]]] = False
    return keep


def _heights(values: Array) -> Array:
    """Return the lowest and highest Z of each geometry; NaN without."""
    import numpy as np
    import shapely

    result = np.full((len(values), 2), np.nan)
    solid = np.flatnonzero(shapely.has_z(values))
    if len(solid):
        coordinates, owners = shapely.get_coordinates(values[solid], include_z=True, return_index=True)
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        rows = solid[owners[starts]]
        result[rows, 0] = np.fmin.reduceat(coordinates[:, 2], starts)
        result[rows, 1] = np.fmax.reduceat(coordinates[:, 2], starts)
    return result
