"""A small picture of an example: its inputs, and beside them its result, as SVG.

What always holds: both halves have one scale and one extent, so that a reader sees what moved; the same example gives
the same bytes; text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from geocairn.handbook.examples import Example

Box = tuple[float, float, float, float]

_SIDE = 220.0
_MARGIN = 14.0
_CAPTION = 22.0
_INPUTS = ("#4477aa", "#cc6677", "#999933")
_RESULT = "#117733"
_GHOST = "#d0d0d0"
"""Of the inputs behind the result."""
_HALO = 0.35


def picture(example: Example) -> str | None:
    """Return the picture of an example as SVG, or None where neither side has a geometry to draw."""
    inputs = [layer for value in example.inputs.values() for layer in (value if isinstance(value, list) else [value])]
    names = [name for value in example.names.values() for name in (value if isinstance(value, list) else [value])]
    before = [_geometries(layer) for layer in inputs]
    after = [_geometries(example.result)]
    same_crs = len({_crs_text(layer) for layer in [*inputs, example.result]} - {None}) <= 1
    left, right = _extent(before), _extent(after)
    if left is None and right is None:
        return None
    if same_crs and left is not None and right is not None:
        left = right = _united(left, right)
    halves = []
    if left is not None:
        halves.append((left, list(zip(before, _INPUTS * len(before), strict=False)), " + ".join(names)))
    if right is not None:
        ghosts = [(layer, _GHOST) for layer in before] if same_crs else []
        halves.append((right, [*ghosts, (after[0], _RESULT)], example.operation.name))
    tall = max((box[3] - box[1]) * _scale(box) for box, _, _ in halves)
    drawn = [_half(box, layers, caption, place, tall) for place, (box, layers, caption) in enumerate(halves)]
    width, height = (_SIDE + 2 * _MARGIN) * len(halves), tall + 2 * _MARGIN + _CAPTION
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="13">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _scale(box: Box) -> float:
    """Return how many units of the picture one unit of the CRS takes."""
    return _SIDE / max(box[2] - box[0], box[3] - box[1], 1e-9)


def _half(box: Box, layers: Sequence[tuple[list[Any], str]], caption: str, place: int, tall: float) -> str:
    scale = _scale(box)
    shift = place * (_SIDE + 2 * _MARGIN) + _MARGIN

    def at(x: float, y: float) -> str:
        return f"{shift + (x - box[0]) * scale:.1f} {_MARGIN + (box[3] - y) * scale:.1f}"

    shapes = [_shape(part, colour, at) for geometries, colour in layers for part in geometries]
    words = f'<text x="{shift:.0f}" y="{tall + 2 * _MARGIN + 8:.0f}" fill="#333333">{escape(caption)}</text>'
    return "\n".join([*shapes, words])


def _shape(geometry: Any, colour: str, at: Any) -> str:
    import shapely

    kind = shapely.get_dimensions(geometry)
    if kind == 0:
        x, y = at(*shapely.get_coordinates(geometry)[0]).split()
        return f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>'
    if kind == 1:
        return f'<path d="{_path(geometry, at)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    rings = [geometry.exterior, *geometry.interiors]
    outline = " ".join(f"{_path(ring, at)} Z" for ring in rings)
    return (
        f'<path d="{outline}" fill="{colour}" fill-opacity="{_HALO}" fill-rule="evenodd" stroke="{colour}" '
        'stroke-width="1.2"/>'
    )


def _path(line: Any, at: Any) -> str:
    import shapely

    return "M" + " L".join(at(x, y) for x, y in shapely.get_coordinates(line))


def _geometries(layer: Any) -> list[Any]:
    """Return the single parts of a layer that can be drawn; none of a table."""
    import numpy as np
    import shapely

    if not hasattr(layer, "geometry"):
        return []
    parts = np.asarray(layer.geometry.values, dtype=object)
    while (shapely.get_type_id(parts) >= _MULTI).any():
        parts = shapely.get_parts(parts)
    return [part for part in parts if part is not None and not part.is_empty]


_MULTI = 4
"""From this type id on (MULTIPOINT) a geometry has parts."""


def _crs_text(layer: Any) -> str | None:
    crs = getattr(layer, "crs", None)
    return None if crs is None else str(crs.to_wkt())


def _extent(layers: Iterable[list[Any]]) -> Box | None:
    import shapely

    parts = [part for layer in layers for part in layer]
    if not parts:
        return None
    west, south, east, north = (float(value) for value in shapely.total_bounds(parts))
    return (west, south, east, north)


def _united(one: Box, other: Box) -> Box:
    return (min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3]))
