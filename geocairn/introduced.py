"""Which unsound geometry a step introduced, and which came in with its inputs and is only passed on.

What always holds: a defect that came in is never laid at a step's door, whatever the step does with rows; and where
rows map to rows, one that the step introduced is always found. Where they do not, a row of the result cannot be
traced: then a defect counts as brought along as far as the inputs can account for it.

- Each row from a row (`rows: each`): judged row by row.
- A part of the rows (`some`): no more may go out than came in with the first input.
- Anything else (`any`: a join repeats rows, a dissolve makes one of many): missing geometry is introduced when none
  came in at all. Invalid geometry is passed on when the very same came in; of the rest there may be as many as the
  invalid inputs have single parts, since taking a multipart apart is the most that makes more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geocairn.layer_survey import Survey, has_geometry
from geocairn.operations.contract import Promise


def introduced_invalid(survey: Survey, promise: Promise, inputs: Sequence[Any]) -> Any:
    """Return which rows' invalid geometry this step introduced."""
    import numpy as np
    import shapely

    invalid = survey.invalid
    nothing = np.zeros_like(invalid)
    if not invalid.any() or promise.validity == "mended":
        return invalid
    places = np.flatnonzero(invalid)
    before = _rows_before(survey, promise, inputs)
    if before is not None:
        found = nothing.copy()
        found[places] = shapely.is_valid(before[places]) | shapely.is_missing(before[places])
        return found
    sources = [_values(layer) for layer in (inputs[:1] if promise.rows == "some" else inputs) if has_geometry(layer)]
    came_in = [values[~shapely.is_missing(values) & ~shapely.is_valid(values)] for values in sources]
    known = {coded for values in came_in for coded in shapely.to_wkb(values)}
    new = nothing.copy()
    new[places] = [coded not in known for coded in shapely.to_wkb(survey.values[places])]
    if promise.rows == "some":
        allowance = sum(len(values) for values in came_in)
        return new if int(invalid.sum()) > allowance else nothing
    allowance = sum(int(shapely.get_num_geometries(values).sum()) for values in came_in)
    return new if int(new.sum()) > allowance else nothing


def introduced_missing(survey: Survey, promise: Promise, inputs: Sequence[Any]) -> Any:
    """Return which rows' missing or empty geometry this step introduced; an emptied one may be part of the promise."""
    import numpy as np
    import shapely

    lost = survey.missing if promise.empties else survey.missing | survey.empty
    if not lost.any() or promise.drops_missing:
        return lost
    before = _rows_before(survey, promise, inputs)
    if before is not None:
        lost = lost & ~_bare(before)
        if promise.validity == "mended":  # mending may leave nothing of a geometry without extent
            lost = lost & (survey.missing | shapely.is_valid(before))
        return lost
    sources = inputs[:1] if promise.rows == "some" else inputs
    came_in = sum(int(_bare(_values(layer)).sum()) for layer in sources if has_geometry(layer))
    accounted = came_in > 0 and (promise.rows != "some" or int(lost.sum()) <= came_in)
    return np.zeros_like(lost) if accounted else lost


def _rows_before(survey: Survey, promise: Promise, inputs: Sequence[Any]) -> Any | None:
    """Return the geometries that the result's rows come from, one for each; None where they cannot be told."""
    if promise.rows != "each" or not inputs or not has_geometry(inputs[0]):
        return None
    before = _values(inputs[0])
    return before if len(before) == len(survey.values) else None


def _values(layer: Any) -> Any:
    import numpy as np

    return np.asarray(layer.geometry.values)


def _bare(values: Any) -> Any:
    import shapely

    return shapely.is_missing(values) | shapely.is_empty(values)
