"""The survey of a layer: one vectorised pass that gives its facts, and which of its rows are missing, empty or invalid.

What always holds: the layer is not changed; facts are plain JSON values; where nothing is wrong no coordinate is
looked at twice (validity and bounds come from the geometry engine, and only what it calls invalid is searched for
coordinates that are not finite).
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

from geocairn.checkpoint import LayerFacts
from geocairn.crs import crs_label

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


class Survey:
    """One pass over a layer's geometry."""

    def __init__(self, layer: Any) -> None:
        import numpy as np
        import shapely

        self.layer = layer
        self.crs = layer.crs
        self.values = np.asarray(layer.geometry.values)
        self.missing = shapely.is_missing(self.values)
        self.empty = shapely.is_empty(self.values)
        self.present = ~(self.missing | self.empty)
        self.bounds = shapely.bounds(self.values)
        """Of each row; NaN where there are no coordinates."""
        self.invalid = self.present & ~shapely.is_valid(self.values)
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
        """Bounds of the whole layer; None where it has no coordinates, or one that is not finite."""
        import numpy as np

        seen = self.bounds[self.present]
        if not len(seen) or not np.isfinite(seen).all():
            return None
        return [float(value) for value in (*seen[:, :2].min(axis=0), *seen[:, 2:].max(axis=0))]

    @cached_property
    def geometry_types(self) -> list[str]:
        """Such as `Polygon`, `MultiPolygon Z`, in alphabetical order; missing and empty rows count for none."""
        import numpy as np
        import shapely

        seen = self.values[self.present]
        codes = np.unique(shapely.get_type_id(seen) * 2 + shapely.has_z(seen))
        return sorted(f"{TYPE_NAMES[code // 2]}{' Z' if code % 2 else ''}" for code in codes)

    @cached_property
    def crs_name(self) -> str | None:
        """`EPSG:5070`, or the CRS's name where it has no authority code."""
        return crs_label(self.crs) if self.crs is not None else None

    @cached_property
    def facts(self) -> LayerFacts:
        """The facts, but for the rows outside the CRS's area of use."""
        return LayerFacts(
            rows=len(self.values),
            columns=column_types(self.layer),
            geometry_column=str(self.layer.active_geometry_name),
            geometry_types=self.geometry_types,
            crs=self.crs.to_json() if self.crs is not None else None,
            crs_name=self.crs_name,
            bounds=self.total,
            missing=int(self.missing.sum()),
            empty=int(self.empty.sum()),
            invalid=int(self.invalid.sum()),
            gate=GATE_VERSION,
        )

    def finished(self) -> LayerFacts:
        """Return the facts with the count of rows outside the CRS's area of use."""
        from geocairn.globe import outside_area_of_use

        if self.crs is None or self.total is None:
            return self.facts
        count = outside_area_of_use(self.crs, self.total, self.bounds[self.present])
        return dataclasses.replace(self.facts, outside_area=count)


def survey_facts(layer: Any) -> LayerFacts:
    """Return the facts of a layer, without judging it."""
    return Survey(layer).finished()
