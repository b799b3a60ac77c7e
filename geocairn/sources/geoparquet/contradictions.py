"""Geometry that contradicts what its file's metadata says of it.

What always holds: what is declared (types, Z, orientation, edges) is held against every geometry that was read, and a
contradiction is refused with both sides of it.
"""

from __future__ import annotations

from typing import Any, NoReturn

from geocairn.failure import InputFailure
from geocairn.notes import caveat
from geocairn.sources.geoparquet.metadata import REMEDY, declares_z, primary_of, types_in

_TYPE_NAMES = {
    0: "Point",
    1: "LineString",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}


def hold_against(values: Any, geo: dict[str, Any], uri: str) -> None:
    """Refuse geometry that contradicts what the metadata says of the active geometry column.

    Parameters
    ----------
    values : array of shapely geometries, None among them.

    Raises
    ------
    InputFailure : with what is declared and what is there.
    """
    import numpy as np
    import shapely

    described = primary_of(geo)
    values = values[~shapely.is_missing(values)]
    declared = types_in(described)
    if declared and len(values):
        flat = {name.removesuffix(" ZM").removesuffix(" Z").removesuffix(" M") for name in declared}
        actual = {_TYPE_NAMES[int(number)] for number in np.unique(shapely.get_type_id(values))}
        if not flat & {"Unknown", "Geometry"} and not actual <= flat:
            _contradicted(f"declares {', '.join(declared)}, and there is {', '.join(sorted(actual - flat))}", uri)
        with_z = {name.endswith((" Z", " ZM")) for name in declared}
        found = {bool(flag) for flag in np.unique(shapely.has_z(values[~shapely.is_empty(values)]))}
        if declares_z(geo) and not found <= with_z:
            says, has = ("x, y, z", "x, y") if True in with_z else ("x, y", "x, y, z")
            _contradicted(f"declares coordinates {says}, and there are coordinates {has}", uri)
    if described.get("orientation") == "counterclockwise":
        polygons = shapely.get_parts(values[np.isin(shapely.get_type_id(values), (3, 6))])
        rings = shapely.get_exterior_ring(polygons[~shapely.is_empty(polygons)])
        if not shapely.is_ccw(rings).all():
            _contradicted("declares counterclockwise rings, and there are clockwise ones", uri)
    if described.get("edges") == "spherical" and len(values):
        _hold_against_sphere(values, uri)


def _hold_against_sphere(values: Any, uri: str) -> None:
    """Look for edges that go one way round the world as great circles, and the other way as straight lines.

    On the equator the straight line is a great circle too, so that the declaration contradicts the coordinates;
    elsewhere it does not, and the reader is told.
    """
    import numpy as np
    import shapely

    points, of = shapely.get_coordinates(values[shapely.get_dimensions(values) > 0], return_index=True)
    if not len(points):
        return
    inner = np.diff(of) == 0
    long = inner & (np.abs(np.diff(points[:, 0])) > 180)
    equator = long & (points[:-1, 1] == 0) & (points[1:, 1] == 0)
    if equator.any():
        _contradicted("declares spherical edges, and an edge on the equator goes the long way round the globe", uri)
    if long.any():
        caveat(
            f"{uri}: {int(long.sum())} edges span more than 180 degrees of longitude: as great circles they cross the "
            "antimeridian, taken as straight lines they go the other way round the world; split them there first"
        )


def _contradicted(how: str, uri: str) -> NoReturn:
    raise InputFailure(f"its 'geo' metadata {how}", where=uri, remedy=REMEDY)
