"""Where on the globe a layer lies: coordinates that no place has, and places outside a CRS's area of use.

Judged from bounds, by PROJ: the corners of the whole layer first, each row only where they leave a doubt.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_TOLERANCE = 1e-6
"""Degrees by which rounding may carry a coordinate past 180 or 90."""


def off_globe(crs: Any, total: list[float], bounds: Any) -> Any:
    """Return which rows have coordinates that no place on the globe has in this CRS, or None when none has.

    A geographic CRS is judged by its degrees. In a projected one a coordinate is off the globe where PROJ cannot take it
    to degrees, or where the way there and back ends elsewhere.

    Parameters
    ----------
    crs : the layer's CRS.
    total : bounds of the whole layer.
    bounds : bounds of each row; NaN for one without coordinates.
    """
    import numpy as np

    if crs.is_geographic:
        half = 180.0 / _degrees_of_unit(crs)
        limits = np.array([-half, -half / 2, half, half / 2]) + np.array([-1, -1, 1, 1]) * _TOLERANCE
        outside = np.array(total[:2]) < limits[:2], np.array(total[2:]) > limits[2:]
        if not (outside[0].any() or outside[1].any()):
            return None
        return (bounds[:, :2] < limits[:2]).any(axis=1) | (bounds[:, 2:] > limits[2:]).any(axis=1)
    if not crs.is_projected or _good_corners(crs, np.array([total])).all():
        return None
    mask = np.zeros(len(bounds), dtype=bool)
    present = np.isfinite(bounds).all(axis=1)
    mask[present] = ~_good_corners(crs, bounds[present]).any(axis=0)
    return mask


def outside_area_of_use(crs: Any, total: list[float], bounds: Any) -> int:
    """Return how many rows lie outside the CRS's area of use; 0 where the area is not known.

    A row is outside when the middle of its bounds is, and not all of the layer is judged where the whole is inside.
    """
    import numpy as np

    area = crs.area_of_use
    if area is None or not (crs.is_geographic or crs.is_projected):
        return 0
    if (area.west, area.south, area.east, area.north) == (-180.0, -90.0, 180.0, 90.0):
        return 0
    west, south, east, north = total
    corners = np.array([[west, south], [east, north], [west, north], [east, south]])
    if _inside(crs, area, corners).all():
        return 0
    middles = (bounds[:, :2] + bounds[:, 2:]) / 2
    return int((~_inside(crs, area, middles)).sum())


def _inside(crs: Any, area: Any, points: Any) -> Any:
    import numpy as np

    if crs.is_geographic:
        lon, lat = points[:, 0] * _degrees_of_unit(crs), points[:, 1] * _degrees_of_unit(crs)
    else:
        lon, lat = _to_degrees(crs).transform(points[:, 0], points[:, 1])
    margin = 1e-6
    north_south = (lat >= area.south - margin) & (lat <= area.north + margin)
    if area.west <= area.east:
        east_west = (lon >= area.west - margin) & (lon <= area.east + margin)
    else:  # the area spans the 180th meridian
        east_west = (lon >= area.west - margin) | (lon <= area.east + margin)
    return np.isfinite(lon) & np.isfinite(lat) & north_south & east_west


def _good_corners(crs: Any, bounds: Any) -> Any:
    """Return for the corners and the middle of each box (5 × n) whether it is a place: there and back ends where it began.

    A box may have corners off the globe though its geometry is on it (a world map in an equal-area projection), so a row
    is off only where its corners and its middle all are.
    """
    import numpy as np

    x = np.stack([bounds[:, 0], bounds[:, 2], bounds[:, 0], bounds[:, 2], (bounds[:, 0] + bounds[:, 2]) / 2])
    y = np.stack([bounds[:, 1], bounds[:, 3], bounds[:, 3], bounds[:, 1], (bounds[:, 1] + bounds[:, 3]) / 2])
    transformer = _to_degrees(crs)
    lon, lat = transformer.transform(x, y)
    back_x, back_y = transformer.transform(lon, lat, direction="INVERSE")
    scale = max(1.0, float(np.abs(bounds).max(initial=1.0)))
    finite = np.isfinite(lon) & np.isfinite(lat) & np.isfinite(back_x) & np.isfinite(back_y)
    near = np.zeros_like(finite)
    near[finite] = (np.abs(back_x - x)[finite] <= 1e-4 * scale) & (np.abs(back_y - y)[finite] <= 1e-4 * scale)
    return near


@lru_cache(maxsize=32)
def _to_degrees(crs: Any) -> Any:
    from pyproj import Transformer

    return Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)


def _degrees_of_unit(crs: Any) -> float:
    import math

    factor = crs.axis_info[0].unit_conversion_factor if crs.axis_info else 0.0
    return math.degrees(factor) if factor else 1.0
