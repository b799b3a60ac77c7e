"""The survey of a layer: one vectorised pass that gives its facts, and which of its rows are missing, empty or invalid.

What always holds: the layer is not changed; facts are plain JSON values; where nothing is wrong no coordinate is
looked at twice (validity and bounds come from the geometry engine, and only what it calls invalid is searched for
coordinates that are not finite).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from geocairn.checkpoint import LayerFacts
from geocairn.crs import crs_label
from geocairn.parallel import row_by_row

GATE_VERSION = 2
"""Raised when the gate sees more or judges otherwise; a record of an older gate is read and gated again."""

TYPE_NAMES = (
    "Point",
    "LineString",
    "LinearRing",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
)
"""By the number that the geometry engine gives each type."""


def has_geometry(layer: Any) -> bool:
    """Return whether `layer` is a GeoDataFrame whose active geometry column is there."""
    name = getattr(layer, "active_geometry_name", None)
    return name is not None and name in layer.columns


def column_types(layer: Any) -> dict[str, str]:
    """Return the attribute columns and the type of each; the active geometry is none."""
    geometry = layer.active_geometry_name if has_geometry(layer) else None
    return {str(name): str(dtype) for name, dtype in zip(layer.columns, layer.dtypes, strict=True) if name != geometry}


def table_facts(table: Any) -> LayerFacts:
    """Return the facts of a table without geometry."""
    return LayerFacts(rows=len(table), columns=column_types(table), gate=GATE_VERSION)


SHOWN = 5


class Places:
    """Rows of a layer: how many, and the first of them by number."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, mask: Any, start: int) -> None:
        """Add the rows of a batch where the mask is true; the batch begins with row `start`."""
        import numpy as np

        if mask.any():
            places = np.flatnonzero(mask)
            self.count += len(places)
            self.first += [start + int(place) for place in places[: SHOWN - len(self.first)]]

    @classmethod
    def united(cls, several: Iterable[Places]) -> Places:
        """Return the rows of all, which are none twice."""
        result = cls()
        for one in several:
            result.count += one.count
            result.first = sorted([*result.first, *one.first])[:SHOWN]
        return result

    def told(self, rows: int) -> str:
        """Return `3 of 10 rows (rows 2, 5, 7, counted from 0)`."""
        shown = ", ".join(map(str, self.first))
        more = ", …" if self.count > SHOWN else ""
        return f"{self.count} of {rows} rows (row{'s' if self.count > 1 else ''} {shown}{more}, counted from 0)"


class Survey:
    """One pass over a layer's geometry, or a batch of it."""

    def __init__(self, layer: Any) -> None:
        import numpy as np
        import shapely

        self.layer = layer
        self.crs = layer.crs
        self.values = np.asarray(layer.geometry.values)
        self.missing = shapely.is_missing(self.values)
        self.empty = shapely.is_empty(self.values)
        self.present = ~(self.missing | self.empty)
        self.bounds = row_by_row(shapely.bounds, self.values)
        """Of each row; NaN where there are no coordinates."""
        self.invalid = self.present & ~row_by_row(shapely.is_valid, self.values)
        """Those with coordinates that are not finite included."""
        self.endless = self._endless()
        """Which rows have a coordinate that is not finite."""

    def _endless(self) -> Any:
        import numpy as np
        import shapely

        found = np.zeros(len(self.values), dtype=bool)
        suspects = np.flatnonzero(self.invalid)  # the engine calls every geometry invalid that has such an x or y
        if len(suspects):
            coordinates, places = shapely.get_coordinates(self.values[suspects], return_index=True)
            found[suspects[np.unique(places[~np.isfinite(coordinates).all(axis=1)])]] = True
        deep = np.flatnonzero(self.present & shapely.has_z(self.values))
        if len(deep):  # it does not look at z; a z of NaN is one that is not known, and no fault
            heights, places = shapely.get_coordinates(self.values[deep], include_z=True, return_index=True)
            found[deep[np.unique(places[np.isinf(heights[:, 2])])]] = True
        return found

    @cached_property
    def total(self) -> list[float] | None:
        """Bounds of the whole; None where it has no coordinates, or one that is not finite."""
        import numpy as np

        seen = self.bounds[self.present]
        if not len(seen) or not np.isfinite(seen).all():
            return None
        return [float(value) for value in (*seen[:, :2].min(axis=0), *seen[:, 2:].max(axis=0))]

    @cached_property
    def type_codes(self) -> list[int]:
        """The types that occur: twice the geometry engine's number, and one more with Z; missing and empty for none."""
        import numpy as np
        import shapely

        seen = self.values[self.present]
        return [int(code) for code in np.unique(shapely.get_type_id(seen) * 2 + shapely.has_z(seen))]


class Tally:
    """The facts of a layer, from the survey of the whole or of one batch after the other."""

    def __init__(self) -> None:
        self.rows = 0
        self.crs: Any = None
        self.total: list[float] | None = None
        """Bounds; None where there are no coordinates."""
        self._columns: dict[str, str] = {}
        self._geometry_column: str | None = None
        self._codes: set[int] = set()
        self._missing = self._empty = self._invalid = 0

    def add(self, survey: Survey) -> None:
        """Add a batch."""
        self.rows += len(survey.values)
        self.crs = survey.crs
        self._columns = column_types(survey.layer)
        self._geometry_column = str(survey.layer.active_geometry_name)
        self._codes.update(survey.type_codes)
        self._missing += int(survey.missing.sum())
        self._empty += int(survey.empty.sum())
        self._invalid += int(survey.invalid.sum())
        if survey.total is not None:
            west, south, east, north = survey.total
            old = self.total or survey.total
            self.total = [min(west, old[0]), min(south, old[1]), max(east, old[2]), max(north, old[3])]

    @property
    def geometry_types(self) -> list[str]:
        """Such as `Polygon`, `MultiPolygon Z`, in alphabetical order."""
        return sorted(f"{TYPE_NAMES[code // 2]}{' Z' if code % 2 else ''}" for code in self._codes)

    @cached_property
    def crs_name(self) -> str | None:
        """`EPSG:5070`, or the CRS's name where it has no authority code."""
        return crs_label(self.crs) if self.crs is not None else None

    def facts(self, boxes: Iterable[Any]) -> LayerFacts:
        """Return the facts.

        Parameters
        ----------
        boxes : the bounds of the rows, in one array or several; NaN for a row without coordinates.
        """
        import numpy as np

        from geocairn.globe import outside_area_of_use

        outside = 0
        if self.crs is not None and self.total is not None:
            for bounds in boxes:
                there = bounds[np.isfinite(bounds).all(axis=1)]
                outside += outside_area_of_use(self.crs, self.total, there)
        return LayerFacts(
            rows=self.rows,
            columns=self._columns,
            geometry_column=self._geometry_column,
            geometry_types=self.geometry_types,
            crs=self.crs.to_json() if self.crs is not None else None,
            crs_name=self.crs_name,
            bounds=self.total,
            missing=self._missing,
            empty=self._empty,
            invalid=self._invalid,
            outside_area=outside,
            gate=GATE_VERSION,
        )


def survey_facts(layer: Any) -> LayerFacts:
    """Return the facts of a layer, or of a table, without judging it."""
    if not has_geometry(layer):
        return table_facts(layer)
    survey, tally = Survey(layer), Tally()
    tally.add(survey)
    return tally.facts([survey.bounds])
