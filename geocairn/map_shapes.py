"""Geometry as ink: polygons, lines and points of a layer drawn on the axes of a map.

What always holds: rows without drawable geometry are left out, never an error; collections are drawn part by part; what
is finer than half a pixel is thinned before it is drawn, so that a layer of many vertices costs what can be seen of it;
and what is smaller than a pixel is a dot instead of vanishing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from geocairn.map_frame import Frame

DOTS_PER_INCH = 130
PAPER = "#ffffff"
_CROWD = 5000  # shapes, above which outlines would hide what they surround


@dataclass(frozen=True)
class Ground:
    """What is drawn upon: matplotlib axes whose limits are the frame, and the units of the CRS in one pixel."""

    axes: Any
    frame: Frame
    pixel: float

    def seen(self, rows: tuple[Any, Any], dimension: int) -> tuple[Any, Any]:
        """Return the single parts of one dimension that lie in the frame, with the number of the row of each."""
        import shapely

        geometry, number = parts_of(rows, dimension)
        west, south, east, north = shapely.bounds(geometry).T
        frame = self.frame
        inside = (east >= frame.west) & (west <= frame.east) & (north >= frame.south) & (south <= frame.north)
        return geometry[inside], number[inside]

    def polygons(self, rows: tuple[Any, Any], shades: Any, *, face: str, edge: str, order: float) -> None:
        """Draw the polygons among `rows`, holes left out; `shades` has a colour a row of the layer, or is None."""
        import numpy
        import shapely
        from matplotlib.collections import PathCollection
        from matplotlib.path import Path as Outline

        geometry, number = self.seen(rows, 2)
        if not len(geometry):
            return
        # Half a pixel is not seen; what is smaller than that is drawn as a dot, so that it does not vanish.
        outline = shapely.simplify(geometry, self.pixel / 2, preserve_topology=False)
        gone = shapely.is_empty(outline) | (shapely.get_type_id(outline) != 3)
        if gone.any():
            dots = shapely.get_point(shapely.get_exterior_ring(geometry[gone]), 0)
            dots_shade = face if shades is None else shades[number[gone]]
            self._scatter(dots, dots_shade, ("s", face, (72.0 / DOTS_PER_INCH) ** 2), order)
        # Holes are told by the direction of their rings.
        outline, number = shapely.orient_polygons(outline[~gone]), number[~gone]
        if not len(outline):
            return
        _, places, (rings, polygons) = shapely.to_ragged_array(outline)
        places = places[:, :2]
        codes = numpy.full(len(places), Outline.LINETO, dtype=Outline.code_type)
        codes[rings[:-1]] = Outline.MOVETO
        codes[rings[1:] - 1] = Outline.CLOSEPOLY
        cuts = rings[polygons]
        paths = [Outline(places[a:b], codes[a:b]) for a, b in itertools.pairwise(cuts)]
        # An outline takes its share of a shape; where shapes are small it would hide the colours.
        area = shapely.area(outline)
        across = float(numpy.sqrt((area**2).sum() / max(area.sum(), self.pixel**2))) / self.pixel
        thick = min(0.6, across / 30)
        crowded = thick < 0.12
        fill = face if shades is None else shades[number]
        edges: Any = "face" if crowded else edge if shades is None else "#5b5b5b"
        self.axes.add_collection(
            PathCollection(
                paths, facecolors=fill, edgecolors=edges, linewidths=0.25 if crowded else thick, zorder=order
            ),
            autolim=False,
        )

    def lines(self, rows: tuple[Any, Any], shades: Any, colour: str, width: float, *, order: float) -> None:
        """Draw the lines among `rows`, `width` in points."""
        import shapely
        from matplotlib.collections import LineCollection

        geometry, number = self.seen(rows, 1)
        if not len(geometry):
            return
        geometry = shapely.simplify(geometry, self.pixel / 2, preserve_topology=False)
        places, owner = shapely.get_coordinates(geometry, return_index=True)
        cuts = [*(owner[1:] != owner[:-1]).nonzero()[0] + 1]
        runs = [places[a:b] for a, b in zip([0, *cuts], [*cuts, len(places)], strict=True)]
        ink = colour if shades is None else shades[number]
        if shades is not None and len(runs) <= _CROWD:  # a pale line needs a dark one under it to be seen
            self.axes.add_collection(
                LineCollection(runs, colors="#5b5b5b", linewidths=width + 0.9, zorder=order), autolim=False
            )
        self.axes.add_collection(LineCollection(runs, colors=ink, linewidths=width, zorder=order), autolim=False)

    def points(self, rows: tuple[Any, Any], shades: Any, symbol: tuple[str, str, float], *, order: float) -> None:
        """Draw the points among `rows`, each with the symbol: shape, colour, area in square points."""
        geometry, number = self.seen(rows, 0)
        if len(geometry):
            rim = PAPER if shades is None else "#5b5b5b"
            self._scatter(geometry, symbol[1] if shades is None else shades[number], symbol, order, 0.4, rim)

    def _scatter(
        self,
        points: Any,
        shades: Any,
        symbol: tuple[str, str, float],
        order: float,
        edge: float = 0.0,
        rim: str = "none",
    ) -> None:
        import shapely

        places = shapely.get_coordinates(points)
        style = {"marker": symbol[0], "s": symbol[2], "linewidths": edge, "edgecolors": rim}
        self.axes.scatter(places[:, 0], places[:, 1], c=shades, zorder=order, **style)


def drawable(geometry: Any) -> tuple[Any, Any]:
    """Return the geometry that can be drawn (there, not empty, finite, flat) and the number of the row of each."""
    import numpy
    import shapely

    values = shapely.force_2d(numpy.asarray(geometry.array, dtype=object))
    kept = numpy.isfinite(shapely.bounds(values)).all(axis=1)  # null and empty have bounds that are no numbers
    return values[kept], kept.nonzero()[0]


def bounds_of(layers: Sequence[tuple[Any, Any]]) -> tuple[float, float, float, float] | None:
    """Return west, south, east and north of the drawable geometry of all `layers`; None when there is none."""
    import numpy
    import shapely

    found = [shapely.total_bounds(geometry) for geometry, _ in layers if len(geometry)]
    if not found:
        return None
    bounds = numpy.array(found)
    (west, south), (east, north) = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
    return float(west), float(south), float(east), float(north)


def parts_of(rows: tuple[Any, Any], dimension: int) -> tuple[Any, Any]:
    """Return the single parts of one dimension (0 points, 1 lines, 2 polygons), collections opened."""
    import shapely

    geometry, number = rows
    while (shapely.get_type_id(geometry) > 3).any():
        geometry, owner = shapely.get_parts(geometry, return_index=True)
        number = number[owner]
    kept = (shapely.get_dimensions(geometry) == dimension) & ~shapely.is_empty(geometry)
    return geometry[kept], number[kept]


def has_dimension(geometry: Any, dimension: int) -> bool:
    """Return whether a GeoSeries has geometry of this dimension (0 points, 1 lines, 2 polygons)."""
    import shapely

    return bool((shapely.get_dimensions(geometry.array) == dimension).any())
