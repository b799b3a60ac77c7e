"""The gate: every result is untrusted until shown sound, and nothing is committed without it.

One vectorised pass over a layer gives its facts, and holds them to what the operation promises and what the plan
expects. What always holds: a refused result is an input failure that names what is wrong, how many rows and the first
of them; the layers that came in are not changed; facts go into the record, so that a reused result can be held
against other expectations without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from geocairn.checkpoint import LayerFacts
from geocairn.crs import crs_label
from geocairn.expectation import Expect, kinds_of_types, unmet
from geocairn.failure import InputFailure
from geocairn.introduced import introduced_invalid, introduced_missing
from geocairn.kinds import kinds_of
from geocairn.layer_survey import GATE_VERSION, TYPE_NAMES, Survey, has_geometry, survey_facts, table_facts
from geocairn.operations.contract import Operation, Promise
from geocairn.repair import repaired

__all__ = ["GATE_VERSION", "Passed", "Terms", "admit", "hold_recorded", "survey_facts"]


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

    @property
    def promise(self) -> Promise | None:
        """What the operation promises with these parameters; None for a source."""
        if self.operation is None:
            return None
        return self.operation.promised(self.parameters) if self.parameters is not None else self.operation.promise


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
    InputFailure : when it is unsound.
    """
    import numpy as np
    import pandas as pd

    promise = terms.promise
    if not isinstance(layer, pd.DataFrame):
        raise InputFailure(
            f"there is no layer: the result is {type(layer).__name__}",
            where=terms.where,
            remedy="the operation must return a GeoDataFrame",
        )
    if not has_geometry(layer):
        if promise is None or promise.kind != "table":
            raise InputFailure(
                "the result has no geometry column, so it is no layer",
                where=terms.where,
                remedy="return a GeoDataFrame",
            )
        facts = table_facts(layer)
        hold_recorded(facts, terms.expect, allow_empty=terms.allow_empty, where=terms.where)
        return Passed(layer, facts)
    survey = Survey(layer)
    _refuse_endless(survey, terms)
    _refuse_endless_elsewhere(layer, terms)
    caveats: list[str] = []
    collapsed = np.zeros(len(layer), dtype=bool)
    if terms.repair and survey.invalid.any():
        mended = repaired(layer, survey.invalid)
        layer, collapsed = mended.layer, mended.collapsed
        caveats.append(f"{terms.where}: {mended.caveat}")
        survey = Survey(layer)
    if promise is not None:
        _hold_crs(survey, promise, terms)
        _hold_kind(survey, promise, terms)
        _hold_rows(survey, promise, terms)
        _hold_validity(survey, promise, terms)
        _hold_presence(survey, promise, terms, collapsed)
    _refuse_lost_crs(layer, terms)
    _refuse_off_globe(survey, terms)
    facts = survey.finished()
    warnings = []
    if facts.outside_area:
        warnings.append(f"{facts.outside_area} of {facts.rows} rows lie outside the area of use of {facts.crs_name}")
    hold_recorded(facts, terms.expect, allow_empty=terms.allow_empty, where=terms.where)
    return Passed(layer, facts, caveats, warnings)


def hold_recorded(facts: LayerFacts, expect: Expect | None, *, allow_empty: bool, where: str) -> None:
    """Hold a checkpoint's recorded facts against the plan's present expectations.

    Raises
    ------
    InputFailure : when one does not hold; computing the step again would give the same.
    """
    found = unmet(expect, facts, allow_empty=allow_empty)
    if found:
        raise InputFailure("; ".join(found), where=where)


def _name(terms: Terms) -> str:
    return terms.operation.name if terms.operation is not None else "the source"


def _rows(mask: Any) -> str:
    """Return `3 of 10 rows (rows 2, 5, 7)`, counted from 0."""
    import numpy as np

    places = np.flatnonzero(mask)
    shown = ", ".join(str(int(place)) for place in places[:5])
    plural = "s" if len(places) > 1 else ""
    return f"{len(places)} of {len(mask)} rows (row{plural} {shown}{', …' if len(places) > 5 else ''}, counted from 0)"


def _refuse_endless_elsewhere(layer: Any, terms: Terms) -> None:
    """Hold the geometry columns beside the active one to finite coordinates."""
    import numpy as np
    import shapely

    for name, dtype in zip(layer.columns, layer.dtypes, strict=True):
        if str(dtype) == "geometry" and name != layer.active_geometry_name:
            values = layer[name].to_numpy()
            bounds = shapely.bounds(values).reshape(-1, 4)
            endless = ~np.isfinite(bounds).all(axis=1) & ~(shapely.is_missing(values) | shapely.is_empty(values))
            if endless.any():
                raise InputFailure(
                    f"coordinates of the column {name!r} are not finite in {_rows(endless)}",
                    where=terms.where,
                    remedy="leave the column out, or correct it",
                )


def _refuse_lost_crs(layer: Any, terms: Terms) -> None:
    """Refuse a result without a CRS that was made from layers with one, whatever the operation promises."""
    if layer.crs is None and any(getattr(item, "crs", None) is not None for item in terms.inputs):
        raise InputFailure(
            "the result has no CRS, and what it was made from has one", where=terms.where, remedy="set it on the result"
        )


def _refuse_endless(survey: Survey, terms: Terms) -> None:
    if survey.endless.any():
        raise InputFailure(
            f"coordinates are not finite in {_rows(survey.endless)}",
            where=terms.where,
            remedy="leave these rows out, or correct them, before this step",
        )


def _refuse_off_globe(survey: Survey, terms: Terms) -> None:
    from geocairn.globe import off_globe

    if survey.crs is None or survey.total is None:
        return
    mask = off_globe(survey.crs, survey.total, survey.bounds)
    if mask is None or not mask.any():
        return
    import numpy as np

    west, south, east, north = survey.bounds[int(np.flatnonzero(mask)[0])]
    raise InputFailure(
        f"coordinates lie off the globe in {survey.crs_name}: {_rows(mask)}; the first spans "
        f"x {west:.7g} to {east:.7g}, y {south:.7g} to {north:.7g}",
        where=terms.where,
        remedy="the CRS may be wrong, x and y exchanged, or longitudes counted from 0 to 360",
    )


def _hold_crs(survey: Survey, promise: Promise, terms: Terms) -> None:
    if promise.crs == "any":
        return
    if promise.crs == "same":
        layers = [layer for layer in terms.inputs if has_geometry(layer)]
        if not layers:
            return
        wanted = layers[0].crs
    else:
        stated = getattr(terms.parameters, promise.crs, None)
        if stated is None:
            return
        from pyproj import CRS

        wanted = CRS.from_user_input(stated)
    if survey.crs != wanted:
        raise InputFailure(
            f"{_name(terms)} promises {crs_label(wanted)}, the result is in {crs_label(survey.crs)}",
            where=terms.where,
            remedy="this is a fault of the operation: it must set the CRS that it promises",
        )


def _hold_kind(survey: Survey, promise: Promise, terms: Terms) -> None:
    allowed = _promised_kinds(promise, terms)
    kinds = kinds_of_types(survey.geometry_types)
    if allowed is None or set(kinds) <= allowed:
        return
    import numpy as np
    import shapely

    wrong = [name for name in survey.geometry_types if kinds_of_types([name])[0] not in allowed]
    flat = {name.partition(" ")[0] for name in wrong}
    codes = [code for code, name in enumerate(TYPE_NAMES) if name in flat]
    mask = survey.present & np.isin(shapely.get_type_id(survey.values), codes)
    raise InputFailure(
        f"{_name(terms)} promises {' or '.join(sorted(allowed)) or 'no'} geometry, there is {' and '.join(wrong)} in "
        f"{_rows(mask)}",
        where=terms.where,
        remedy="keep one kind: explode before this step, or leave these rows out",
    )


def _promised_kinds(promise: Promise, terms: Terms) -> set[str] | None:
    """Return the kinds that the result may have; None for any.

    What a collection holds may come out of it; and where the first input has no geometry that decides, the others do.
    """
    if promise.kind in ("any", "table"):
        return None
    if promise.kind != "same":
        return {promise.kind}
    layers = [layer for layer in terms.inputs if has_geometry(layer)]
    if not layers:
        return None
    kinds = _kinds_within(layers[0])
    if not kinds and promise.rows != "each":
        kinds = set().union(*(_kinds_within(layer) for layer in layers))
    return kinds


def _kinds_within(layer: Any) -> set[str]:
    kinds = kinds_of(layer)
    if "collection" in kinds:
        from geocairn.operations.parts import KIND_NAMES, dimensions, single_parts

        parts, _ = single_parts(layer.geometry.values)
        kinds |= {KIND_NAMES[number] for number in {int(number) for number in dimensions(parts)} & set(KIND_NAMES)}
    return kinds


def _hold_rows(survey: Survey, promise: Promise, terms: Terms) -> None:
    first = terms.inputs[0] if terms.inputs else None
    if first is None or promise.rows == "any":
        return
    came, went = len(first), len(survey.values)
    if promise.rows == "each" and came != went:
        raise InputFailure(
            f"{_name(terms)} promises a row for each row of its input: {came} came in, {went} went out",
            where=terms.where,
        )
    if promise.rows == "some" and went > came:
        raise InputFailure(
            f"{_name(terms)} promises a part of its input's rows: {came} came in, {went} went out", where=terms.where
        )


def _hold_validity(survey: Survey, promise: Promise, terms: Terms) -> None:
    import numpy as np
    import shapely

    introduced = introduced_invalid(survey, promise, terms.inputs)
    if introduced.any():
        reason = shapely.is_valid_reason(survey.values[int(np.flatnonzero(introduced)[0])])
        raise InputFailure(
            f"the step made invalid geometry in {_rows(introduced)}: {reason}",
            where=terms.where,
            remedy="on_invalid: repair mends it and says so, or choose parameters that keep it valid",
        )


def _hold_presence(survey: Survey, promise: Promise, terms: Terms, collapsed: Any) -> None:
    introduced = introduced_missing(survey, promise, terms.inputs) & ~collapsed
    if introduced.any():
        raise InputFailure(
            f"the step lost geometry: it is missing or empty in {_rows(introduced)}",
            where=terms.where,
            remedy="choose other parameters, or leave these rows out before this step",
        )
