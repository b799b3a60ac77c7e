"""Single lines as arrays of their vertices: taking layers apart into them, cutting them, making lines of them again.

A strand is a single line, or a ring of a polygon. What always holds: Z and M of a vertex stay with it, and are
interpolated where a vertex is put in between two; the direction and the order of vertices are those of the layer. All
functions work on whole arrays.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_LITTLE_ENDIAN, _POINT_TYPE, _LINE_TYPE, _WITH_Z, _WITH_M = 1, 1, 2, 1000, 2000  # of ISO Well-Known Binary


@dataclass(frozen=True)
class Vertices:
    """The vertices of geometries, one after the other."""

    ordinates: Array
    """x, y and, where some geometry has Z or M, also z and m (NaN in those that have none)."""
    owner: Array
    """Of each vertex: the place of its geometry. Sorted."""
    has_z: Array
    has_m: Array
    """Of each geometry."""


def number_within(owner: Array) -> Array:
    """Return each member's number within its owner, from 0; `owner` is sorted."""
    import numpy as np

    counts = np.bincount(owner)
    number: Array = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return number


def vertices_of(geometries: Array) -> Vertices:
    """Return the vertices of geometries; missing and empty ones have none."""
    import numpy as np
    import shapely

    has_z, has_m = shapely.has_z(geometries), shapely.has_m(geometries)
    more = bool(has_z.any() or has_m.any())
    ordinates, owner = shapely.get_coordinates(geometries, include_z=more, include_m=more, return_index=True)
    return Vertices(ordinates, np.asarray(owner, dtype="int64"), has_z, has_m)


def strands(values: Array) -> tuple[Array, Array]:
    """Return all single lines and rings of polygons (shell before holes), and for each its geometry's place."""
    import numpy as np
    import shapely

    from geocairn.operations.parts import LINE, POLYGON, dimensions, single_parts

    parts, places = single_parts(values)
    full = ~shapely.is_empty(parts)
    parts, places = parts[full], places[full]
    kinds = dimensions(parts)
    lines = np.flatnonzero(kinds == LINE)
    areas = np.flatnonzero(kinds == POLYGON)
    if not len(areas):
        return parts[lines], places[lines]
    rings, inner = shapely.get_rings(parts[areas], return_index=True)
    order = np.argsort(np.concatenate([lines, areas[inner]]), kind="stable")
    return np.concatenate([parts[lines], rings])[order], np.concatenate([places[lines], places[areas[inner]]])[order]


@dataclass(frozen=True)
class Segments:
    """The straight segments of strands, those without length left out."""

    first: Array
    """Of each segment: the place of its first vertex among the vertices; the next is its last."""
    strand: Array
    number: Array
    """Of each segment: its number within its strand, from 0, those without length counted."""
    skipped: int
    """How many were left out."""


def segments_of(vertices: Vertices) -> Segments:
    """Return the segments between neighbouring vertices of a strand."""
    import numpy as np

    xy, owner = vertices.ordinates[:, :2], vertices.owner
    joined = owner[:-1] == owner[1:]
    long = (xy[:-1] != xy[1:]).any(axis=1)
    first = np.flatnonzero(joined & long)
    return Segments(first, owner[first], number_within(owner)[first], int((joined & ~long).sum()))


def segment_lines(vertices: Vertices, segments: Segments, *, flat: bool = False) -> Array:
    """Return each segment as a line, with the Z and M that its strand has, or `flat` without."""
    import numpy as np

    pairs = np.stack([vertices.ordinates[segments.first], vertices.ordinates[segments.first + 1]], axis=1)
    count = len(segments.first)
    ordinates = pairs.reshape(2 * count, vertices.ordinates.shape[1])
    owner = np.repeat(np.arange(count), 2)
    if flat:
        return _made(ordinates[:, :2], owner, count)
    return lines_of(ordinates, owner, vertices.has_z[segments.strand], vertices.has_m[segments.strand])


def points_of(ordinates: Array, has_z: Array, has_m: Array) -> Array:
    """Return a point of each row of ordinates, with Z and M where it has them."""
    import numpy as np
    import shapely

    if not has_z.any() and not has_m.any():
        flat: Array = shapely.points(ordinates[:, :2])
        return flat
    result = np.full(len(ordinates), None, dtype=object)
    for z, m, mask in _by_dimension(has_z, has_m):
        if not m:
            result[mask] = shapely.points(ordinates[mask, : 2 + z])
            continue
        head = struct.pack("<BI", _LITTLE_ENDIAN, _POINT_TYPE + z * _WITH_Z + _WITH_M)
        rows = np.ascontiguousarray(ordinates[mask][:, _columns(z)], dtype="<f8")
        result[mask] = shapely.from_wkb([head + row.tobytes() for row in rows])
    return result


def lines_of(ordinates: Array, owner: Array, has_z: Array, has_m: Array) -> Array:
    """Return a line of the vertices of each owner, with Z and M where it has them.

    `owner` is sorted; each has two vertices or more.
    """
    import numpy as np
    import shapely

    if not has_z.any() and not has_m.any():
        return _made(ordinates[:, :2], owner, len(has_z))
    result = np.full(len(has_z), None, dtype=object)
    for z, m, mask in _by_dimension(has_z, has_m):
        wanted = mask[owner]
        number = np.cumsum(mask) - 1
        if not m:
            result[mask] = _made(ordinates[wanted, : 2 + z], number[owner[wanted]], int(mask.sum()))
            continue
        rows = np.ascontiguousarray(ordinates[wanted][:, _columns(z)], dtype="<f8")
        counts = np.bincount(owner[wanted], minlength=len(mask))[mask]
        code = _LINE_TYPE + z * _WITH_Z + _WITH_M
        result[mask] = shapely.from_wkb(
            [
                struct.pack("<BII", _LITTLE_ENDIAN, code, len(part)) + part.tobytes()
                for part in np.split(rows, np.cumsum(counts)[:-1])
            ]
        )
    return result


def _made(ordinates: Array, owner: Array, count: int) -> Array:
    import numpy as np
    import shapely

    if not count:
        return np.zeros(0, dtype=object)
    if len(ordinates) == 2 * count:  # all of two vertices: no indices to go through
        pairs: Array = shapely.linestrings(ordinates.reshape(count, 2, -1))
        return pairs
    made: Array = shapely.linestrings(ordinates, indices=owner)
    return made


def _by_dimension(has_z: Array, has_m: Array) -> list[tuple[bool, bool, Array]]:
    groups = [(z, m, (has_z == z) & (has_m == m)) for z in (False, True) for m in (False, True)]
    return [group for group in groups if group[2].any()]


def _columns(z: bool) -> list[int]:
    """Return the columns of ordinates that a geometry with M has."""
    return [0, 1, 2, 3] if z else [0, 1, 3]


@dataclass(frozen=True)
class Pieces:
    """What strands were cut into, in the order of the strands and along each."""

    ordinates: Array
    owner: Array
    """Of each vertex: its piece."""
    strand: Array
    """Of each piece."""

    def have_length(self) -> Array:
        """Return which pieces have vertices in more places than one."""
        import numpy as np

        begins = np.flatnonzero(np.diff(self.owner, prepend=-1))
        moves = (self.ordinates[:, :2] != self.ordinates[begins[self.owner], :2]).any(axis=1)
        long: Array = np.bincount(self.owner, weights=moves, minlength=len(self.strand)) > 0
        return long


def cut(vertices: Vertices, extra: Array, strand: Array, position: Array, xy: Array) -> Pieces:
    """Cut strands at positions.

    Parameters
    ----------
    vertices : of the strands, each of which has two or more.
    extra : more values of each vertex, interpolated like Z and M; they come as last columns of the result's ordinates.
    strand, position : of each cut: its strand, and where on it. Position 2 is the third vertex, position 2.5 the middle
        between it and the next. Cuts at the ends of a strand do nothing; each place is cut once.
    xy : of each cut: the x and y that the new vertex gets; NaN for the interpolated ones.
    """
    import numpy as np

    values = np.column_stack([vertices.ordinates, extra])
    counts = np.bincount(vertices.owner, minlength=len(vertices.has_z))
    starts = np.cumsum(counts) - counts
    inside = (position > 0) & (position < counts[strand] - 1)
    strand, position, xy = strand[inside], position[inside], xy[inside]
    order = np.lexsort((position, strand))
    strand, position, xy = strand[order], position[order], xy[order]
    again = np.zeros(len(strand), dtype=bool)
    again[1:] = (strand[1:] == strand[:-1]) & (position[1:] == position[:-1])
    strand, position, xy = strand[~again], position[~again], xy[~again]

    whole = np.floor(position).astype("int64")
    share = (position - whole)[:, None]
    at = starts[strand] + whole
    is_cut = np.zeros(len(values), dtype=bool)
    is_cut[at[share[:, 0] == 0]] = True
    between = share[:, 0] > 0
    first = at[between]
    new = values[first] + share[between] * (values[first + 1] - values[first])
    new[:, :2] = np.where(np.isnan(xy[between]), new[:, :2], xy[between])

    owners = np.concatenate([vertices.owner, strand[between]])
    places = np.concatenate([number_within(vertices.owner).astype("float64"), position[between]])
    cuts = np.concatenate([is_cut, np.ones(len(first), dtype=bool)])
    order = np.lexsort((places, owners))
    entry = np.repeat(np.arange(len(order)), 1 + cuts[order])
    everything = np.concatenate([values, new])[order][entry]
    owner = owners[order][entry]
    begins = np.ones(len(entry), dtype=bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (entry[1:] == entry[:-1])
    return Pieces(everything, np.cumsum(begins) - 1, owner[begins])
