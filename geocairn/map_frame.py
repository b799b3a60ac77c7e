"""The frame of a map: how much of the ground it shows, its coordinates along the edge and the length of its scale bar.

Pure geometry of a rectangle in the layer's CRS; nothing here draws. What always holds: the frame has a positive width
and height whatever went in, north (of the grid) is up, and a scale bar's length is measured on the ellipsoid at the
middle of the frame, so that it is right for degrees, for feet and for a projection that stretches (EPSG:3857 does, by
1.6 in London).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MARGIN = 0.03
"""Room left round the layer, as a part of its larger side."""
NARROWEST = 0.3
"""The least that the shorter side of a frame is of the longer one."""
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Frame:
    """A rectangle in the units of a CRS, and how it is drawn."""

    west: float
    south: float
    east: float
    north: float
    stretch: float
    """The height of one unit northward, drawn, against that of one unit eastward."""

    @property
    def width(self) -> float:
        """Extent eastward, in the units of the CRS."""
        return self.east - self.west

    @property
    def height(self) -> float:
        """Extent northward, in the units of the CRS."""
        return self.north - self.south

    @property
    def middle(self) -> tuple[float, float]:
        """The centre, x and y."""
        return (self.west + self.east) / 2, (self.south + self.north) / 2

    @property
    def ratio(self) -> float:
        """The drawn height against the drawn width."""
        return self.height * self.stretch / self.width


@dataclass(frozen=True)
class ScaleBar:
    """A length on the ground and the same length in the units of the map."""

    metres: float
    units: float
    text: str


def frame_round(bounds: tuple[float, float, float, float], crs: Any) -> Frame:
    """Return the frame to draw for `bounds` (west, south, east, north, finite) in `crs` (a pyproj CRS or None)."""
    west, south, east, north = (float(value) for value in bounds)
    geographic = crs is not None and bool(crs.is_geographic)
    stretch = 1.0
    if geographic:
        latitude = min(85.0, abs((south + north) / 2))
        stretch = 1.0 / math.cos(math.radians(latitude))
    if east - west <= 0 and north - south <= 0:  # one place: about a kilometre round it
        margin = 0.005 if geographic else 500.0 / (_metres_in_unit(crs) or 1.0)
    else:
        margin = MARGIN * max((east - west) / stretch, north - south)
    # Coordinates of a great magnitude need a frame that floating point can tell from a point.
    margin = max(margin, 1e-9 * max(abs(value) for value in (west, south, east, north)), 1e-12)
    west, east = west - margin * stretch, east + margin * stretch
    south, north = south - margin, north + margin
    wanting_height = NARROWEST * (east - west) / stretch - (north - south)
    wanting_width = NARROWEST * (north - south) * stretch - (east - west)
    if wanting_height > 0:
        south, north = south - wanting_height / 2, north + wanting_height / 2
    elif wanting_width > 0:
        west, east = west - wanting_width / 2, east + wanting_width / 2
    return Frame(west, south, east, north, stretch)


def scale_bar(frame: Frame, crs: Any, part: float = 0.25) -> ScaleBar | None:
    """Return the longest round scale bar that is at most `part` of the frame's width; None where the CRS is unknown.

    Where the scale differs by more than a twentieth between the middle and an edge, the text says where it holds.
    """
    x, y = frame.middle
    scale = _scale_at(crs, x, y, frame.width * part / 2)
    if scale is None:
        return None
    longest = scale * frame.width * part
    power = 10.0 ** math.floor(math.log10(longest))
    metres = max(step * power for step in _STEPS if step * power <= longest * (1 + 1e-9))
    text = f"{metres / 1000:,.0f} km" if metres >= 1000 else f"{metres:g} m"
    edges = [_scale_at(crs, x, edge, frame.width * part / 2) for edge in (frame.south, frame.north)]
    if any(edge is None or abs(edge / scale - 1) > 0.05 for edge in edges):
        text += " at the middle"
    return ScaleBar(metres, metres / scale, text)


def _scale_at(crs: Any, x: float, y: float, half: float) -> float | None:
    """Return the metres on the ground of one unit eastward at (x, y), measured over `half` to either side."""
    if crs is None:
        return None
    geodetic = crs.geodetic_crs
    ellipsoid = geodetic.get_geod() if geodetic is not None else None
    if ellipsoid is None:
        return _metres_in_unit(crs)
    from pyproj import Transformer
    from pyproj.exceptions import ProjError

    xs, ys = [x - half, x, x + half], [y, y, y]
    if crs.is_geographic:
        # Degrees or grads; no step of half a turn, whose geodesic would run over the pole.
        factor = math.degrees(crs.axis_info[0].unit_conversion_factor)
        longitudes = [value * factor for value in xs]
        latitudes = [max(-89.9, min(89.9, value * factor)) for value in ys]
    else:
        try:
            longitudes, latitudes = Transformer.from_crs(crs, geodetic, always_xy=True).transform(xs, ys)
        except ProjError:
            return _metres_in_unit(crs)
        if not all(math.isfinite(value) for value in (*longitudes, *latitudes)):
            return _metres_in_unit(crs)
    metres = float(ellipsoid.line_length(longitudes, latitudes))
    return metres / (2 * half) if metres > 0 else None


def _metres_in_unit(crs: Any) -> float | None:
    """Return the metres in one unit of a CRS by its axes alone; None for degrees and for no CRS."""
    if crs is None or crs.is_geographic or not crs.axis_info:
        return None
    factor = float(crs.axis_info[0].unit_conversion_factor)
    return factor if factor > 0 else None


def coordinate_text(value: float, step: float, axis: str, geographic: bool) -> str:
    """Return how a coordinate is written at the frame's edge: `0.14° W`, `529,200`.

    `step` is the distance between two of them, which decides the decimals; `axis` is `x` or `y`.
    """
    decimals = max(0, min(9, math.ceil(-math.log10(step) - 1e-9))) if step > 0 else 0
    if not geographic:
        return f"{value:,.{decimals}f}"
    number = f"{abs(value):.{decimals}f}°"
    if float(f"{abs(value):.{decimals}f}") == 0:
        return number
    return f"{number} {('E' if value > 0 else 'W') if axis == 'x' else ('N' if value > 0 else 'S')}"


def crs_text(crs: Any) -> str:
    """Return what the map says of its CRS: code and name, or that it is unknown."""
    if crs is None:
        return "CRS unknown"
    authority = crs.to_authority()
    return f"{':'.join(authority)} {crs.name}" if authority else str(crs.name)
