"""Which unsound geometry a step introduced, and which came in with its inputs and is only passed on.

What always holds: a defect that came in is never laid at a step's door, whatever the step does with rows; and where
rows map to rows, one that the step introduced is always found. Where they do not, a row of the result cannot be
traced: then a defect counts as brought along as far as the inputs can account for it.

- Each row from a row (`rows: each`): judged row by row.
- A part of the rows (`some`): no more may go out than came in with the first input.
- Anything else (`any`: a join repeats rows, a dissolve makes one of many): missing geometry is introduced when none
  came in at all. Invalid geometry is passed on when the very same came in; of the rest there may be as many as the
  invalid inputs have single parts, since taking a multipart apart is the most that makes more of them.

A result may come in batches: suspects are noted batch by batch, and judged when all is known of what came in.
"""

from __future__ import annotations

from typing import Any

from geocairn.came_in import CameIn, digests, is_bare
from geocairn.layer_survey import Places, Survey
from geocairn.operations.contract import Promise


class Introduced:
    """Unsound geometry of a result, and whether its step introduced it."""

    def __init__(self, promise: Promise, came_in: CameIn) -> None:
        self._promise = promise
        self._came_in = came_in
        self._invalid = Places()
        self._invalid_in_all = 0
        self._lost = Places()
        self._traced = True
        self.reason = ""
        """Why the first geometry among the suspects is invalid."""

    def take(self, survey: Survey, start: int, before: Any | None, collapsed: Any) -> None:
        """Note the suspects of a batch.

        Parameters
        ----------
        start : the number of the batch's first row.
        before : the geometries that its rows come from, one for each; None where they cannot be told.
        collapsed : rows that a repair has emptied.
        """
        import numpy as np

        if self._promise.rows != "each":
            before = None
        elif before is None:
            before = self._came_in.before(len(survey.values))
        self._traced = self._traced and before is not None
        suspects = self._invalid_of(survey, before)
        if suspects.any() and not self._invalid.count:
            import shapely

            self.reason = str(shapely.is_valid_reason(survey.values[int(np.flatnonzero(suspects)[0])]))
        self._invalid.add(suspects, start)
        self._invalid_in_all += int(survey.invalid.sum())
        self._lost.add(self._lost_of(survey, before) & ~collapsed, start)

    def invalid(self) -> Places:
        """Return the rows whose invalid geometry the step introduced."""
        promise = self._promise
        if not self._invalid.count or promise.validity == "mended" or self._traced:
            return self._invalid
        came_in = self._came_in.invalid(first=promise.rows == "some")
        if promise.rows == "some":
            return self._invalid if self._invalid_in_all > came_in.count else Places()
        return self._invalid if self._invalid.count > came_in.parts else Places()

    def missing(self) -> Places:
        """Return the rows whose missing or empty geometry it introduced; an emptied one may be part of the promise."""
        promise = self._promise
        if not self._lost.count or promise.drops_missing or self._traced:
            return self._lost
        came_in = self._came_in.bare(first=promise.rows == "some")
        accounted = came_in > 0 and (promise.rows != "some" or self._lost.count <= came_in)
        return Places() if accounted else self._lost

    def _invalid_of(self, survey: Survey, before: Any | None) -> Any:
        import numpy as np
        import shapely

        invalid = survey.invalid
        if not invalid.any() or self._promise.validity == "mended":
            return invalid
        places = np.flatnonzero(invalid)
        found = np.zeros_like(invalid)
        if before is not None:
            found[places] = shapely.is_valid(before[places]) | shapely.is_missing(before[places])
        else:
            known = self._came_in.invalid(first=self._promise.rows == "some").known
            found[places] = [coded not in known for coded in digests(survey.values[places])]
        return found

    def _lost_of(self, survey: Survey, before: Any | None) -> Any:
        import shapely

        lost = survey.missing if self._promise.empties else survey.missing | survey.empty
        if not lost.any() or self._promise.drops_missing or before is None:
            return lost
        lost = lost & ~is_bare(before)
        if self._promise.validity == "mended":  # mending may leave nothing of a geometry without extent
            lost = lost & (survey.missing | shapely.is_valid(before))
        return lost
