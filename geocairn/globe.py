"""Where on the globe a layer lies: coordinates that no place has, and places outside a CRS's area of use.

Judged from bounds, by PROJ: a grid over the whole layer first, each row only where that leaves a doubt. What always
holds: degrees are compared with degrees east of Greenwich, whatever unit and meridian the CRS counts from.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

_TOLERANCE = 1e-6
"""Degrees by which rounding may carry a coordinate past 180 or 90."""

_GRID = 9
"""Points a side of the grid that stands for the whole layer."""

_MARGIN = 0.05
"""How far past the image of the globe a geometry that begins on it may reach, as a share of the image's size: a buffer
or a hull at the edge of a map does."""


def off_globe(crs: Any, total: list[float], bounds: Any) -> Any:
    """Return which rows have coordinates that no place on the globe has in this CRS, or None when none has.

    A geographic CRS is judged by its degrees. In a projected one a point is no place where PROJ cannot take it to
    degrees, or where the way there and back ends elsewhere; a row is off when the corners and the middle of its box
    all are, or when a corner is and the box reaches far past the image of the globe. So a world map whose box has
    corners off the globe, and a buffer across the map's edge, are on it; a box with one wild vertex is not.

    Parameters
    ----------
    crs : the layer's CRS.
    total : bounds of the whole layer.
    bounds : bounds of each row; NaN for one without coordinates.
    """
    import numpy as np

    if crs.is_geographic:
        half = 180.0 / _degrees_of_unit(crs)
        slack = _TOLERANCE / _degrees_of_unit(crs)
        limits = np.array([-half - slack, -half / 2 - slack, half + slack, half / 2 + slack])
        if (np.array(total[:2]) >= limits[:2]).all() and (np.array(total[2:]) <= limits[2:]).all():
            return None
        return (bounds[:, :2] < limits[:2]).any(axis=1) | (bounds[:, 2:] > limits[2:]).any(axis=1)
    if not crs.is_projected:
        return None
    west, south, east, north = total
    x, y = np.meshgrid(np.linspace(west, east, _GRID), np.linspace(south, north, _GRID))
    if _are_places(crs, x, y).all():
        return None
    mask = np.zeros(len(bounds), dtype=bool)
    present = np.flatnonzero(np.isfinite(bounds).all(axis=1))
    boxes = bounds[present]
    good = _are_places(crs, *_corners_and_middle(boxes))
    image = _image_of_globe(crs)
    margin = _MARGIN * np.array([image[2] - image[0], image[3] - image[1]])
    wild = (boxes[:, :2] < image[:2] - margin).any(axis=1) | (boxes[:, 2:] > image[2:] + margin).any(axis=1)
    mask[present] = ~good.any(axis=0) | (wild & ~good.all(axis=0))
    return mask


def outside_area_of_use(crs: Any, total: list[float], bounds: Any) -> int:
    """Return how many rows lie outside the CRS's area of use; 0 where the area is not known.

    A row is outside when the middle of its box is, unless all four corners are inside (a row on both sides of the 180th
    meridian).
    """
    import numpy as np

    area = crs.area_of_use
    if area is None or not (crs.is_geographic or crs.is_projected):
        return 0
    if area.west <= -180.0 and area.south <= -90.0 and area.east >= 180.0 and area.north >= 90.0:
        return 0
    if area.west <= area.east:  # else the corners may be inside and what lies between them is not
        west, south, east, north = total
        x, y = np.meshgrid(np.linspace(west, east, _GRID), np.linspace(south, north, _GRID))
        if _inside(crs, area, x, y).all():
            return 0
    x, y = _corners_and_middle(bounds)
    outside = np.flatnonzero(~_inside(crs, area, x[4], y[4]))
    corners = _inside(crs, area, x[:4, outside], y[:4, outside])
    return int((~corners.all(axis=0)).sum())


def _corners_and_middle(boxes: Any) -> tuple[Any, Any]:
    """Return x and y of each box's four corners and of its middle (5 × n)."""
    import numpy as np

    x = np.stack([boxes[:, 0], boxes[:, 2], boxes[:, 0], boxes[:, 2], (boxes[:, 0] + boxes[:, 2]) / 2])
    y = np.stack([boxes[:, 1], boxes[:, 3], boxes[:, 3], boxes[:, 1], (boxes[:, 1] + boxes[:, 3]) / 2])
    return x, y


def _inside(crs: Any, area: Any, x: Any, y: Any) -> Any:
    import numpy as np

    lon, lat = (x, y) if crs.is_geographic else _to_degrees(crs).transform(x, y)
    unit, meridian = _unit_and_meridian(crs)
    with np.errstate(invalid="ignore"):
        lon, lat = (lon * unit + meridian + 180.0) % 360.0 - 180.0, lat * unit
    # 180 degrees east are 180 west: the modulo makes -180 of both
    north_south = (lat >= area.south - _TOLERANCE) & (lat <= area.north + _TOLERANCE)
    from_west = lon >= area.west - _TOLERANCE
    to_east = lon <= area.east + _TOLERANCE
    east_west = (from_west & to_east) if area.west <= area.east else (from_west | to_east)
    if area.east >= 180.0 - _TOLERANCE:
        east_west |= lon <= -180.0 + _TOLERANCE
    return np.isfinite(lon) & np.isfinite(lat) & north_south & east_west


def _are_places(crs: Any, x: Any, y: Any) -> Any:
    """Return for each point of a projected CRS whether it is a place: there and back ends where it began."""
    import numpy as np

    transformer = _to_degrees(crs)
    lon, lat = transformer.transform(x, y)
    half = 180.0 / _unit_and_meridian(crs)[0]
    scale = max(1.0, float(np.abs(x).max(initial=1.0)), float(np.abs(y).max(initial=1.0)))
    found = _returns(transformer, lon, lat, x, y, scale)
    edge = ~found & np.isfinite(lon) & (np.abs(np.abs(lon) - half) <= _TOLERANCE)
    if edge.any():  # the map's two edges are one meridian
        found[edge] = _returns(transformer, -lon[edge], lat[edge], x[edge], y[edge], scale)
    return found


def _returns(transformer: Any, lon: Any, lat: Any, x: Any, y: Any, scale: float) -> Any:
    import numpy as np

    back_x, back_y = transformer.transform(lon, lat, direction="INVERSE")
    found = np.isfinite(lon) & np.isfinite(lat) & np.isfinite(back_x) & np.isfinite(back_y)
    near = np.abs(back_x - x)[found] <= 1e-4 * scale
    found[found] = near & (np.abs(back_y - y)[found] <= 1e-4 * scale)
    return found


@lru_cache(maxsize=32)
def _image_of_globe(crs: Any) -> Any:
    """Return the bounds, in a projected CRS, of a grid over the globe from 89 degrees south to 89 north.

    The poles are left out: in some projections they are further away than any other place.
    """
    import numpy as np

    half = 180.0 / _unit_and_meridian(crs)[0]
    lon, lat = np.meshgrid(np.linspace(-half, half, 73), np.linspace(-half / 2, half / 2, 181)[1:-1])
    x, y = _to_degrees(crs).transform(lon.ravel(), lat.ravel(), direction="INVERSE")
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any():
        return np.array([-math.inf, -math.inf, math.inf, math.inf])
    return np.array([x[there].min(), y[there].min(), x[there].max(), y[there].max()])


@lru_cache(maxsize=32)
def _to_degrees(crs: Any) -> Any:
    from pyproj import Transformer

    return Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)


def _unit_and_meridian(crs: Any) -> tuple[float, float]:
    """Return how many degrees a unit of the CRS's geographic base has, and its prime meridian in degrees east."""
    base = crs if crs.is_geographic else crs.geodetic_crs
    meridian = base.prime_meridian
    if meridian is None:
        return _degrees_of_unit(base), 0.0
    return _degrees_of_unit(base), meridian.longitude * math.degrees(meridian.unit_conversion_factor)


def _degrees_of_unit(crs: Any) -> float:
    factor = crs.axis_info[0].unit_conversion_factor if crs.axis_info else 0.0
    return math.degrees(factor) if factor else 1.0
