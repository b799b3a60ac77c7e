"""The gate: every result is untrusted until shown sound, and nothing is committed without it.

One vectorised pass over a layer, whole or in batches, gives its facts, and holds them to what the operation promises
and what the plan expects. What always holds: a refused result is an input failure that names what is wrong, how many
rows and the first of them; the layers that came in are not changed; facts go into the record, so that a reused result
can be held against other expectations without being read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from geocairn.came_in import CameIn, WholeLayers, is_bare
from geocairn.checkpoint import LayerFacts
from geocairn.crs import crs_label
from geocairn.expectation import Expect, kinds_of_types, unmet
from geocairn.failure import UnsoundResult
from geocairn.introduced import Introduced
from geocairn.layer_survey import (
    GATE_VERSION,
    TYPE_NAMES,
    Places,
    Survey,
    Tally,
    has_geometry,
    survey_facts,
    table_facts,
)
from geocairn.operations.contract import Operation, Promise
from geocairn.repair import Repairs, repaired

__all__ = ["GATE_VERSION", "Admission", "Passed", "Terms", "admit", "hold_recorded", "survey_facts"]


@dataclass(frozen=True)
class Terms:
    """What a result is held to."""

    where: str
    """The step, for messages."""
    operation: Operation | None = None
    parameters: Any = None
    inputs: Sequence[Any] = ()
    """The layers that the result was made from, in the order of roles; empty for a source."""
    expect: Expect | None = None
    allow_empty: bool = False
    repair: bool = False
    table: bool = False
    """For a result without an operation: whether it was asked for as a table."""

    @property
    def promise(self) -> Promise | None:
        """What the operation promises with these parameters; None for a source."""
        if self.operation is None:
            return None
        return self.operation.promised(self.parameters) if self.parameters is not None else self.operation.promise

    @property
    def takes_table(self) -> bool:
        """Whether the result may be a table: where one is promised, or the same as a table that came in."""
        promise = self.promise
        if promise is None:
            return self.table
        if promise.kind == "same" and self.inputs:
            return not has_geometry(self.inputs[0])
        return promise.kind == "table"


@dataclass
class Passed:
    """A result that passed the gate."""

    layer: Any
    facts: LayerFacts
    caveats: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What the log should say and the reader need not hear."""


def admit(layer: Any, terms: Terms) -> Passed:
    """Hold a result against its promise and the plan's expectations.

    Raises
    ------
    UnsoundResult : when it is unsound.
    """
    import pandas as pd

    promise = terms.promise
    if not isinstance(layer, pd.DataFrame):
        raise UnsoundResult(
            f"there is no layer: the result is {type(layer).__name__}",
            where=terms.where,
            remedy="the operation must return a GeoDataFrame",
        )
    if not has_geometry(layer):
        if not terms.takes_table:
            raise UnsoundResult(
                "the result has no geometry column, so it is no layer",
                where=terms.where,
                remedy="return a GeoDataFrame",
            )
        if promise is not None and terms.operation is not None and terms.inputs:
            _hold_rows(promise, len(terms.inputs[0]), len(layer), terms.operation.name, terms.where)
        facts = table_facts(layer)
        hold_recorded(facts, terms.expect, allow_empty=terms.allow_empty, where=terms.where)
        return Passed(layer, facts)
    admission = Admission(terms, WholeLayers(terms.inputs))
    layer = admission.take(layer)
    return admission.passed(layer, [admission.bounds])


class Admission:
    """A result at the gate, whole or batch by batch: the verdict is one, on the whole, and in the same words.

    Parameters
    ----------
    terms : what it is held to.
    came_in : what it was made from.
    """

    def __init__(self, terms: Terms, came_in: CameIn) -> None:
        self._terms = terms
        self._came_in = came_in
        self._promise = terms.promise
        self._tally = Tally()
        self._introduced = Introduced(self._promise, came_in) if self._promise is not None else None
        self._repairs = Repairs()
        self._types: dict[int, Places] = {}
        self.bounds: Any = None
        """Of each row of the last batch; NaN where there are no coordinates."""

    def take(self, layer: Any, before: Any | None = None) -> Any:
        """Look at a result, or the next batch of it; return it, repaired where that was asked for.

        Parameters
        ----------
        before : the geometries that the batch's rows come from, one for each, where the promise is such and the
            layers that came in pass by in batches.

        Raises
        ------
        UnsoundResult : for coordinates that are not finite, with which nothing can go on.
        """
        import numpy as np

        start = self._tally.rows
        survey = Survey(layer)
        self._refuse_endless(survey.endless, start, "coordinates are")
        self._refuse_endless_elsewhere(layer, start)
        collapsed = np.zeros(len(layer), dtype=bool)
        if self._terms.repair and survey.invalid.any():
            mended = repaired(layer, survey.invalid)
            layer, collapsed = mended.layer, mended.collapsed
            self._repairs.add(mended)
            survey = Survey(layer)
        self._tally.add(survey)
        self.bounds = survey.bounds
        if self._introduced is not None:
            self._introduced.take(survey, start, before, collapsed)
            self._note_types(survey, start)
        return layer

    def passed(self, layer: Any, boxes: Iterable[Any]) -> Passed:
        """Give the verdict on the whole.

        Parameters
        ----------
        layer : what passed, or stands for it.
        boxes : the bounds of all rows, in one array or several; gone through twice.

        Raises
        ------
        UnsoundResult : when it is unsound.
        """
        terms = self._terms
        if self._promise is not None:
            self._hold_crs(self._promise)
            self._hold_kind(self._promise)
            self._hold_rows(self._promise)
            self._hold_introduced()
        if self._tally.crs is None and any(crs is not None for crs in self._came_in.crs()):
            raise UnsoundResult(
                "the result has no CRS, and what it was made from has one",
                where=terms.where,
                remedy="set it on the result",
            )
        self._refuse_off_globe(boxes)
        facts = self._tally.facts(boxes)
        warnings = []
        if facts.outside_area:
            rows = f"{facts.outside_area} of {facts.rows} rows"
            warnings.append(f"{rows} lie outside the area of use of {facts.crs_name}")
        hold_recorded(facts, terms.expect, allow_empty=terms.allow_empty, where=terms.where)
        caveats = [f"{terms.where}: {self._repairs.told()}"] if self._repairs.count else []
        return Passed(layer, facts, caveats, warnings)

    def _refuse_endless(self, mask: Any, start: int, what: str, remedy: str = "") -> None:
        endless = Places()
        endless.add(mask, start)
        if endless.count:
            raise UnsoundResult(
                f"{what} not finite in {endless.told(start + len(mask))}",
                where=self._terms.where,
                remedy=remedy or "leave these rows out, or correct them, before this step",
            )

    def _refuse_endless_elsewhere(self, layer: Any, start: int) -> None:
        """Hold the geometry columns beside the active one to finite coordinates."""
        import numpy as np
        import shapely

        for name, dtype in zip(layer.columns, layer.dtypes, strict=True):
            if str(dtype) == "geometry" and name != layer.active_geometry_name:
                values = layer[name].to_numpy()
                bounds = shapely.bounds(values).reshape(-1, 4)
                endless = ~np.isfinite(bounds).all(axis=1) & ~is_bare(values)
                what = f"coordinates of the column {name!r} are"
                self._refuse_endless(endless, start, what, "leave the column out, or correct it")

    def _note_types(self, survey: Survey, start: int) -> None:
        import numpy as np
        import shapely

        numbers = sorted({code // 2 for code in survey.type_codes})
        kinds = shapely.get_type_id(survey.values) if len(numbers) > 1 else None
        for number in numbers:
            mask = survey.present if kinds is None else survey.present & np.equal(kinds, number)
            self._types.setdefault(number, Places()).add(mask, start)

    def _hold_crs(self, promise: Promise) -> None:
        if promise.crs == "any":
            return
        if promise.crs == "same":
            came = self._came_in.crs()
            if not came:
                return
            wanted = came[0]
        else:
            stated = getattr(self._terms.parameters, promise.crs, None)
            if stated is None:
                return
            from pyproj import CRS

            wanted = CRS.from_user_input(stated)
        found = self._tally.crs
        if found != wanted:
            raise UnsoundResult(
                f"{self._name} promises {crs_label(wanted)}, the result is in {crs_label(found)}",
                where=self._terms.where,
                remedy="this is a fault of the operation: it must set the CRS that it promises",
            )

    def _hold_kind(self, promise: Promise) -> None:
        types = self._tally.geometry_types
        allowed = self._promised_kinds(promise)
        if allowed is None or set(kinds_of_types(types)) <= allowed:
            return
        wrong = [name for name in types if kinds_of_types([name])[0] not in allowed]
        flat = {name.partition(" ")[0] for name in wrong}
        places = Places.united(self._types[code] for code, name in enumerate(TYPE_NAMES) if name in flat)
        raise UnsoundResult(
            f"{self._name} promises {' or '.join(sorted(allowed)) or 'no'} geometry, there is {' and '.join(wrong)} in "
            f"{places.told(self._tally.rows)}",
            where=self._terms.where,
            remedy="keep one kind: explode before this step, or leave these rows out",
        )

    def _promised_kinds(self, promise: Promise) -> set[str] | None:
        """Return the kinds that the result may have; None for any.

        What a collection holds may come out of it; and where the first input has no geometry that decides, the others
        do.
        """
        if promise.kind in ("any", "table"):
            return None
        if promise.kind != "same":
            return {promise.kind}
        came = self._came_in.kinds()
        if not came:
            return None
        return came[0] if came[0] or promise.rows == "each" else set().union(*came)

    def _hold_rows(self, promise: Promise) -> None:
        _hold_rows(promise, self._came_in.rows(), self._tally.rows, self._name, self._terms.where)

    def _hold_introduced(self) -> None:
        assert self._introduced is not None
        invalid = self._introduced.invalid()
        if invalid.count:
            raise UnsoundResult(
                f"the step made invalid geometry in {invalid.told(self._tally.rows)}: {self._introduced.reason}",
                where=self._terms.where,
                remedy="on_invalid: repair mends it and says so, or choose parameters that keep it valid",
            )
        missing = self._introduced.missing()
        if missing.count:
            raise UnsoundResult(
                f"the step lost geometry: it is missing or empty in {missing.told(self._tally.rows)}",
                where=self._terms.where,
                remedy="choose other parameters, or leave these rows out before this step",
            )

    def _refuse_off_globe(self, boxes: Iterable[Any]) -> None:
        from geocairn.globe import off_globe

        crs, total = self._tally.crs, self._tally.total
        if crs is None or total is None:
            return
        off, spans, start = Places(), None, 0
        for bounds in boxes:
            mask = off_globe(crs, total, bounds)
            if mask is None:
                return  # the whole is on it
            off.add(mask, start)
            if spans is None and off.count:
                spans = bounds[off.first[0] - start]
            start += len(bounds)
        if spans is not None:
            west, south, east, north = spans
            raise UnsoundResult(
                f"coordinates lie off the globe in {self._tally.crs_name}: {off.told(start)}; the first spans "
                f"x {west:.7g} to {east:.7g}, y {south:.7g} to {north:.7g}",
                where=self._terms.where,
                remedy="the CRS may be wrong, x and y exchanged, or longitudes counted from 0 to 360",
            )

    @property
    def _name(self) -> str:
        return self._terms.operation.name if self._terms.operation is not None else "the source"


def _hold_rows(promise: Promise, came: int | None, went: int, name: str, where: str) -> None:
    """Hold the number of rows to what is promised of it; `came` is the first input's."""
    if came is None or promise.rows == "any":
        return
    if promise.rows == "each" and came != went:
        raise UnsoundResult(
            f"{name} promises a row for each row of its input: {came} came in, {went} went out", where=where
        )
    if promise.rows == "some" and went > came:
        raise UnsoundResult(f"{name} promises a part of its input's rows: {came} came in, {went} went out", where=where)


def hold_recorded(facts: LayerFacts, expect: Expect | None, *, allow_empty: bool, where: str) -> None:
    """Hold a checkpoint's recorded facts against the plan's present expectations.

    Raises
    ------
    InputFailure : when one does not hold; computing the step again would give the same.
    """
    found = unmet(expect, facts, allow_empty=allow_empty)
    if found:
        raise UnsoundResult("; ".join(found), where=where)
