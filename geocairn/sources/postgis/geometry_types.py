"""The declared type of a geometry column, from the geometries that it is to hold.

What always holds: single and multiple parts of one kind are one type, the multiple one, to which single ones are
promoted; a mix of kinds is declared as such. Z and M are declared and kept. Where some geometries have them and some
have not, the column is left open and only its SRID is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NAMES = {
    0: "Point",
    1: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_RING = 2
_MULTIPLE = {0: 4, 1: 5, 3: 6}
_OF_KIND = {"point": "MultiPoint", "line": "MultiLineString", "polygon": "MultiPolygon"}


def declared(values: Any, srid: int, kinds: Sequence[str]) -> tuple[str, Any]:
    """Return the type (such as `MultiPolygonZ`; empty where it must be left open), and the extended WKB of each.

    Parameters
    ----------
    values : the geometries; missing ones stay missing.
    srid : what they are marked with.
    kinds : the kinds promised of the layer, for one without any geometry.
    """
    import numpy as np
    import shapely

    there = ~shapely.is_missing(values)
    ids = shapely.get_type_id(values)
    ready = np.array(values, dtype=object)
    for row in np.flatnonzero(ids == _RING):
        ready[row] = shapely.LineString(ready[row])
    ids = np.where(ids == _RING, 1, ids)
    found = {int(number) for number in np.unique(ids[there])}
    for single, multiple in _MULTIPLE.items():
        if found == {single, multiple}:
            for row in np.flatnonzero(ids == single):
                ready[row] = _promoted(ready[row], multiple)
            found = {multiple}
    if not found:
        name = _OF_KIND[kinds[0]] if len(kinds) == 1 and kinds[0] in _OF_KIND else "Geometry"
    else:
        name = _NAMES[found.pop()] if len(found) == 1 else "Geometry"
    ready, suffix = _dimensions(ready, there)
    coded = shapely.to_wkb(shapely.set_srid(ready, srid), include_srid=True, byte_order=1)
    return ("" if suffix is None else name + suffix), list(coded)


def _promoted(geometry: Any, multiple: int) -> Any:
    import shapely

    make = {4: shapely.multipoints, 5: shapely.multilinestrings, 6: shapely.multipolygons}[multiple]
    if not geometry.is_empty:
        return make([geometry])
    return shapely.from_wkt(f"{_NAMES[multiple]} {'Z ' if geometry.has_z else ''}EMPTY")


def _dimensions(values: Any, there: Any) -> tuple[Any, str | None]:
    """Return what to append to the type's name, None where Z or M is not the same throughout."""
    import numpy as np
    import shapely

    if not there.any():
        return values, ""
    z, m = shapely.has_z(values), shapely.has_m(values)
    empty = shapely.is_empty(values)
    full = there & ~empty
    if full.any() and bool(z[full].all()) and not bool(m[full].any()):
        # Nothing is lost when a geometry without coordinates follows the others.
        values = values.copy()
        for row in np.flatnonzero(there & empty & ~z):
            values[row] = shapely.force_3d(values[row])
        z = shapely.has_z(values)
    pairs = {(bool(has_z), bool(has_m)) for has_z, has_m in zip(z[there], m[there], strict=True)}
    if len(pairs) > 1:
        return values, None
    has_z, has_m = pairs.pop()
    return values, ("Z" if has_z else "") + ("M" if has_m else "")
