"""The gate: every result is untrusted until shown sound, and nothing is committed without it.

One vectorised pass over a layer gives its facts, and holds them to what the operation promises and what the plan expects.
What always holds: a refused result is an input failure that names what is wrong, how many rows and the first of them; facts
go into the record, so that a reused result can be held against other expectations without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geocairn.checkpoint import LayerFacts
from geocairn.expectation import Expect, kinds_of_types, unmet
from geocairn.failure import InputFailure
from geocairn.operations.contract import Operation
from geocairn.operations.preconditions import crs_label
from geocairn.repair import repaired

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

GATE_VERSION = 1
"""Raised when the gate sees more or judges otherwise; a record of an older gate is read and gated again."""

_TYPE_NAMES = (
    "Point",
    "LineString",
    "LinearRing",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
)


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
    table = terms.operation is not None and terms.operation.promise.kind == "table"
    if layer is None or not hasattr(layer, "columns"):
        raise InputFailure(f"there is no layer: the result is {type(layer).__name__}", where=terms.where)
    if table and not _has_geometry(layer):
        facts = LayerFacts(rows=len(layer), columns=_columns(layer), gate=GATE_VERSION)
        _hold_expectations(facts, terms)
        return Passed(layer, facts)
    if not _has_geometry(layer):
        raise InputFailure(
            "the result has no geometry column, so it is no layer", where=terms.where, remedy="return a GeoDataFrame"
        )
    survey = _Survey(layer)
    caveats: list[str] = []
    if terms.repair and survey.facts.invalid:
        layer, caveat = repaired(layer, survey.invalid)
        caveats.append(f"{terms.where}: {caveat}")
        survey = _Survey(layer)
    _refuse_infinite(survey, terms)
    _refuse_broken_promise(survey, terms)
    _refuse_off_globe(survey, terms)
    facts = survey.finished()
    warnings = []
    if facts.outside_area:
        warnings.append(f"{facts.outside_area} of {facts.rows} rows lie outside the area of use of {facts.crs_name}")
    _hold_expectations(facts, terms)
    return Passed(layer, facts, caveats, warnings)


def survey_facts(layer: GeoDataFrame) -> LayerFacts:
    """Return the facts of a layer, without judging it."""
    return _Survey(layer).finished()


def hold_recorded(facts: LayerFacts, expect: Expect | None, *, allow_empty: bool, where: str) -> None:
    """Hold a reused checkpoint's recorded facts against the plan's present expectations.

    Raises
    ------
    InputFailure : when one does not hold; computing the step again would give the same.
    """
    found = unmet(expect, facts, allow_empty=allow_empty)
    if found:
        raise InputFailure("; ".join(found), where=where)


def _hold_expectations(facts: LayerFacts, terms: Terms) -> None:
    hold_recorded(facts, terms.expect, allow_empty=terms.allow_empty, where=terms.where)


def _has_geometry(layer: Any) -> bool:
    return hasattr(layer, "active_geometry_name") and layer.active_geometry_name in layer.columns


def _columns(layer: Any) -> dict[str, str]:
    geometry = layer.active_geometry_name if _has_geometry(layer) else None
    return {str(name): str(layer.dtypes.iloc[i]) for i, name in enumerate(layer.columns) if name != geometry}


class _Survey:
    """One pass over a layer's geometry."""

    def __init__(self, layer: GeoDataFrame) -> None:
        import numpy as np
        import shapely

        self.layer = layer
        values = np.asarray(layer.geometry.values)
        self.values = values
        self.missing = shapely.is_missing(values)
        self.empty = shapely.is_empty(values)
        present = ~(self.missing | self.empty)
        self.present = present
        self.invalid = np.zeros(len(values), dtype=bool)
        type_ids = shapely.get_type_id(values)
        # points are valid whatever they hold; finite coordinates are looked at by their bounds
        judged = present & (type_ids != 0) & (type_ids != 4)
        self.invalid[judged] = ~shapely.is_valid(values[judged])
        has_z = shapely.has_z(values)
        self.bounds = shapely.bounds(values)
        seen = self.bounds[present]
        self.finite = bool(np.isfinite(seen).all())
        total = None
        if len(seen) and self.finite:
            total = [float(v) for v in (*seen[:, :2].min(axis=0), *seen[:, 2:].max(axis=0))]
        codes = np.unique(type_ids[present] * 2 + has_z[present])
        names = sorted(f"{_TYPE_NAMES[code // 2]}{' Z' if code % 2 else ''}" for code in codes)
        crs = layer.crs
        self.facts = LayerFacts(
            rows=len(layer),
            columns=_columns(layer),
            geometry_column=str(layer.active_geometry_name),
            geometry_types=names,
            crs=crs.to_json() if crs is not None else None,
            crs_name=crs_label(crs) if crs is not None else None,
            bounds=total,
            missing=int(self.missing.sum()),
            empty=int(self.empty.sum()),
            invalid=int(self.invalid.sum()),
            gate=GATE_VERSION,
        )

    def finished(self) -> LayerFacts:
        """Return the facts with the count of rows outside the CRS's area of use."""
        import dataclasses

        from geocairn.globe import outside_area_of_use

        if self.layer.crs is None or self.facts.bounds is None:
            return self.facts
        count = outside_area_of_use(self.layer.crs, self.facts.bounds, self.bounds[self.present])
        return dataclasses.replace(self.facts, outside_area=count)


def _rows(mask: Any) -> str:
    """Return `3 of 10 rows (first: 2, 5, 7)`, counted from 0."""
    import numpy as np

    places = np.flatnonzero(mask)
    shown = ", ".join(str(int(place)) for place in places[:5])
    return f"{len(places)} of {len(mask)} rows (row {shown}{', …' if len(places) > 5 else ''})"


def _refuse_infinite(survey: _Survey, terms: Terms) -> None:
    import numpy as np

    if not survey.finite:
        mask = survey.present & ~np.isfinite(survey.bounds).all(axis=1)
        raise InputFailure(f"coordinates are not finite in {_rows(mask)}", where=terms.where)


def _refuse_off_globe(survey: _Survey, terms: Terms) -> None:
    from geocairn.globe import off_globe

    if survey.layer.crs is None or survey.facts.bounds is None:
        return
    mask = off_globe(survey.layer.crs, survey.facts.bounds, survey.bounds)
    if mask is not None and mask.any():
        raise InputFailure(
            f"coordinates lie off the globe in {survey.facts.crs_name}: {_rows(mask)}",
            where=terms.where,
            remedy="the CRS may be wrong, or x and y exchanged",
        )


def _refuse_broken_promise(survey: _Survey, terms: Terms) -> None:
    import numpy as np

    operation = terms.operation
    if operation is None:
        return
    promise = operation.promise
    _hold_crs(survey, terms)
    kinds = kinds_of_types(survey.facts.geometry_types)
    allowed = _promised_kinds(terms)
    if allowed is not None and not set(kinds) <= allowed:
        raise InputFailure(
            f"{operation.name} promises {' or '.join(sorted(allowed)) or 'no'} geometry, the result has {' and '.join(kinds)}",
            where=terms.where,
        )
    first = terms.inputs[0] if terms.inputs else None
    if promise.rows == "each" and first is not None and len(first) != len(survey.layer):
        raise InputFailure(
            f"{operation.name} promises a row for each row of its input: {len(first)} came in, {len(survey.layer)} went out",
            where=terms.where,
        )
    one_to_one = promise.rows == "each" and _has_geometry(first)
    if survey.facts.invalid:
        introduced = survey.invalid
        if promise.validity == "kept":
            introduced = _introduced_invalid(survey, terms, one_to_one)
        if introduced.any():
            raise InputFailure(
                f"the step made invalid geometry in {_rows(introduced)}: {_first_reason(survey, introduced)}",
                where=terms.where,
                remedy="on_invalid: repair mends it, or put make_valid after this step",
            )
    if survey.missing.any() or (survey.empty.any() and not promise.empties):
        lost = survey.missing if promise.empties else survey.missing | survey.empty
        introduced = lost
        if one_to_one and first is not None:
            import shapely

            before = np.asarray(first.geometry.values)
            introduced = lost & ~(shapely.is_missing(before) | shapely.is_empty(before))
        elif not promise.drops_missing and lost.sum() <= sum(_missing(layer) for layer in terms.inputs):
            introduced = np.zeros(len(lost), dtype=bool)
        if introduced.any():
            raise InputFailure(f"the step lost geometry in {_rows(introduced)}", where=terms.where)


def _promised_kinds(terms: Terms) -> set[str] | None:
    assert terms.operation is not None
    kind = terms.operation.promise.kind
    if kind in ("any", "table"):
        return None
    if kind != "same":
        return {kind}
    from geocairn.operations.preconditions import kinds_of

    layers = [layer for layer in terms.inputs[:1] if _has_geometry(layer)]
    if not layers:
        return None
    return set().union(*(kinds_of(layer) for layer in layers))


def _hold_crs(survey: _Survey, terms: Terms) -> None:
    assert terms.operation is not None
    promised = terms.operation.promise.crs
    crs = survey.layer.crs
    if promised == "any":
        return
    if promised == "same":
        layers = [layer for layer in terms.inputs if _has_geometry(layer)]
        wanted = layers[0].crs if layers else crs
    else:
        stated = getattr(terms.parameters, promised, None)
        if stated is None:
            return
        from pyproj import CRS

        wanted = CRS.from_user_input(stated)
    if crs != wanted:
        raise InputFailure(
            f"{terms.operation.name} promises {crs_label(wanted)}, the result is in {crs_label(crs)}", where=terms.where
        )


def _missing(layer: Any) -> int:
    import shapely

    if not _has_geometry(layer):
        return 0
    values = layer.geometry.values
    return int((shapely.is_missing(values) | shapely.is_empty(values)).sum())


def _introduced_invalid(survey: _Survey, terms: Terms, one_to_one: bool) -> Any:
    """Return which invalid geometries this step introduced: those whose rows came in valid.

    Where rows do not map to rows it is judged by count: no more may go out invalid than came in.
    """
    import numpy as np
    import shapely

    if one_to_one:
        introduced = survey.invalid.copy()
        before = np.asarray(terms.inputs[0].geometry.values)[survey.invalid]
        introduced[survey.invalid] = shapely.is_valid(before)
        return introduced
    came_in = sum(
        int((~shapely.is_valid(layer.geometry.values) & ~shapely.is_missing(layer.geometry.values)).sum())
        for layer in terms.inputs
        if _has_geometry(layer)
    )
    if not terms.inputs or survey.facts.invalid <= came_in:
        return np.zeros(len(survey.invalid), dtype=bool)
    return survey.invalid


def _first_reason(survey: _Survey, mask: Any) -> str:
    import numpy as np
    import shapely

    return str(shapely.is_valid_reason(survey.values[int(np.flatnonzero(mask)[0])]))
