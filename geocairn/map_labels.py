"""Labels on a map: where each feature's text goes, and which are left out for want of room.

What always holds: no two labels overlap, none crosses the frame, and those given first are placed first, so that the
important ones have the room.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

MOST_LABELS = 150
"""More would not be read, and measuring text takes time."""
LONGEST = 40
"""Characters of a label; the rest is cut."""
# Where the middle of a label may be, in pieces of its own width and height from the feature's point; the first that is
# free of symbols is taken.
_PLACES = (
    (0.0, 0.0),
    *((0.0, sign * step) for step in (1.2, 2.0, 2.8) for sign in (1, -1)),
    *((sideways, up) for up in (1.3, -1.3, 2.0, -2.0) for sideways in (0.4, -0.4)),
)
_BESIDE_POINT = ((0.0, 1.1), (0.0, -1.1), (0.6, 0.0), (-0.6, 0.0))
_GAP = 2.0  # pixels between two labels
_CLOSE = 1.2  # heights of a label within which it is read as belonging to its point
_SYMBOL = 4.0  # pixels from a symbol's middle to its rim


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def printable(text: str) -> str:
    """Return a text with a box for each character that the map's typeface does not have.

    Matplotlib would draw the box too, and warn; a warning reaches whoever else is listening in the process.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if one.isprintable() and ord(one) in _glyphs() else " " if one.isspace() else "□" for one in text
    )


def text_of(value: Any) -> str:
    """Return a value as a label; a missing one is empty."""
    import pandas

    if value is None or (not hasattr(value, "__len__") and bool(pandas.isna(value))):
        return ""
    if isinstance(value, float):
        if not math.isfinite(value):
            return ""
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def place_labels(axes: Any, geometry: Any, labels: list[tuple[int, str]], obstacles: list[Any]) -> None:
    """Write labels at a point inside their features, off each other and, where there is a choice, off `obstacles`.

    Parameters
    ----------
    axes : the matplotlib axes, limits set.
    geometry : the features, an array.
    labels : number of the feature and its text, the most important first.
    obstacles : arrays of points whose symbols should stay in sight.
    """
    import numpy
    import shapely
    from matplotlib.patheffects import withStroke

    labels = labels[:MOST_LABELS]
    if not labels:
        return
    chosen = geometry[[place for place, _ in labels]]
    points = shapely.get_coordinates(_inside(chosen))
    pixels = axes.transData.transform(points)
    symbols = [axes.transData.transform(shapely.get_coordinates(some)) for some in obstacles if len(some)]
    hidden = numpy.vstack(symbols) if symbols else numpy.empty((0, 2))
    renderer = axes.figure.canvas.get_renderer()
    frame = axes.bbox
    taken: list[tuple[float, float, float, float]] = []
    for (_, text), feature, (x, y) in zip(labels, chosen, pixels, strict=True):
        drawn = axes.text(
            0,
            0,
            text,
            fontsize=7.5,
            ha="center",
            va="center",
            color="#111111",
            zorder=8,
            parse_math=False,
            path_effects=[withStroke(linewidth=2.2, foreground="white")],
        )
        extent = drawn.get_window_extent(renderer)
        places = _BESIDE_POINT if shapely.get_dimensions(feature) == 0 else _PLACES
        best: tuple[int, tuple[float, float, float, float], float, float] | None = None
        for right, up in places:
            middle_x, middle_y = x + right * extent.width, y + up * extent.height
            half_width, half_height = extent.width / 2 + _GAP, extent.height / 2 + _GAP
            box = (middle_x - half_width, middle_y - half_height, middle_x + half_width, middle_y + half_height)
            if box[0] < frame.x0 or box[1] < frame.y0 or box[2] > frame.x1 or box[3] > frame.y1:
                continue
            if any(_overlap(box, other) for other in taken):
                continue
            if places is _PLACES and abs(up) > _CLOSE:
                middle = axes.transData.inverted().transform((middle_x, middle_y))
                if not shapely.contains_xy(feature, *middle):  # it would be read as the neighbour's name
                    continue
            near_x = (hidden[:, 0] >= box[0] - _SYMBOL) & (hidden[:, 0] <= box[2] + _SYMBOL)
            near_y = (hidden[:, 1] >= box[1] - _SYMBOL) & (hidden[:, 1] <= box[3] + _SYMBOL)
            covered = int((near_x & near_y).sum())
            if best is None or covered < best[0]:
                best = (covered, box, middle_x, middle_y)
            if covered == 0:
                break
        if best is None:
            drawn.remove()
            continue
        taken.append(best[1])
        drawn.set_position(axes.transData.inverted().transform(best[2:]))


def _inside(geometry: Any) -> Any:
    """Return a point inside each feature: on the line, or the point itself."""
    import numpy
    import shapely

    points = shapely.point_on_surface(geometry)
    # An invalid polygon may have none; the middle of its bounds does for a label.
    missing = shapely.is_missing(points) | shapely.is_empty(points)
    if missing.any():
        west, south, east, north = shapely.bounds(geometry[missing]).T
        points = numpy.array(points, dtype=object)
        points[missing] = shapely.points((west + east) / 2, (south + north) / 2)
    return points


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
