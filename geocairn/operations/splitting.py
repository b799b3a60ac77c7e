"""Cutting lines and polygons where others meet them.

What always holds: the pieces of a row together are what it was, each with the row's attributes; rows that nothing cuts
stay exactly as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    from geocairn.operations.strands import Segments, Vertices

    Array = np.ndarray[Any, Any]

ROUNDING = 1e-12
"""How far apart two places may be computed that are the same, as a share of the largest coordinate."""


@operation(
    version=1,
    result="same",
    kinds={"layer": ("line", "polygon")},
    rows="any",
    planar=lambda parameters: parameters.tolerance > 0,
    example={"layer": "parcels", "splitter": "roads"},
)
def split(
    layer: GeoDataFrame,
    splitter: GeoDataFrame,
    *,
    tolerance: Annotated[
        Number,
        Field(
            ge=0,
            description="how far a point may lie off a line and still cut it, at the nearest place; in units of the "
            "CRS. 0: no farther than coordinates are rounded",
        ),
    ] = 0,
) -> GeoDataFrame:
    """Cut lines at the points and lines of another layer, and polygons along its lines; one row for each piece.

    Polygons of the splitter cut by their outlines. A row that is cut becomes a row for each piece, and one for each
    other part if it has several; a row that nothing cuts stays as it is. Rows are in the order of the layer, a line's
    pieces along it, a polygon's in the order of their bounds (xmin, then ymin, xmax, ymax). A line is cut where the
    splitter crosses or touches it, and at the ends of what it shares with one of the splitter's lines, so a layer may
    be split by itself; where it only crosses itself it is not cut. A line that is closed keeps its start as an end of
    pieces. A polygon is cut only by lines that part it wholly; what ends inside does nothing. Z (and a line's M) of a
    new vertex is interpolated.

    Raises
    ------
    InputFailure : for points that are to split polygons, for invalid polygons, and for polygons with M, which the
        engine would lose; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import LINE, POINT, POLYGON, dimensions, single_parts
    from geocairn.operations.strands import strands

    values = geometry_values(layer)
    parts, rows = single_parts(values)
    full = ~shapely.is_empty(parts)
    parts, rows = parts[full], rows[full]
    kinds = dimensions(parts)
    others = geometry_values(splitter)
    cutting, _ = strands(others)
    points, _ = single_parts(others)
    points = points[(dimensions(points) == POINT) & ~shapely.is_empty(points)]
    lines, areas = np.flatnonzero(kinds == LINE), np.flatnonzero(kinds == POLYGON)
    if len(points) and len(areas):
        raise InputFailure(
            "points cut lines, not polygons: the splitter has points and the layer polygons",
            where="split",
            remedy="leave the points out of the splitter, or the polygons out of the layer (filter)",
        )
    try:
        pieces, owner = _split_lines(parts[lines], cutting, points, tolerance)
        faces, of = _split_polygons(parts[areas], cutting, rows[areas], len(values))
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"the geometry engine gave up: {error}", "split", "make_valid before this step"
        ) from error
    made, source = np.concatenate([pieces, faces]), np.concatenate([lines[owner], areas[of]])
    # What was not cut comes out once, with itself as its only piece.
    cut_rows = np.zeros(len(values), dtype=bool)
    cut_rows[rows[np.flatnonzero(np.bincount(source, minlength=len(parts)) > 1)]] = True
    kept = cut_rows[rows[source]]
    whole = np.flatnonzero(~cut_rows)
    geometries = np.concatenate([made[kept], values[whole]])
    positions = np.concatenate([rows[source[kept]], whole])
    order = np.lexsort((np.concatenate([source[kept], np.zeros(len(whole), dtype="int64")]), positions))
    return with_geometry(pick_rows(layer, positions[order]), geometries[order])


def _split_lines(lines: Array, cutting: Array, points: Array, tolerance: float) -> tuple[Array, Array]:
    """Return the pieces of single lines and the line of each, in order; what is not cut is one piece, as it was."""
    import numpy as np
    import shapely

    from geocairn.operations.strands import cut, lines_of, segment_lines, segments_of, vertices_of

    if not len(lines):
        return lines, np.zeros(0, dtype="int64")
    rounding = ROUNDING * float(np.abs(shapely.total_bounds(lines)).max())
    reach = max(tolerance, rounding)
    by_line, by = shapely.STRtree(cutting).query(lines, predicate="intersects")
    _, by_point = shapely.STRtree(lines).query(points, predicate="dwithin", distance=reach)
    met = np.union1d(by_line, by_point)
    vertices = vertices_of(lines[met])
    segments = segments_of(vertices)
    straight = segment_lines(vertices, segments, flat=True)
    crossings = _crossings(vertices, segments, straight, cutting[np.unique(by)], rounding)
    hits = _hits(vertices, segments, straight, points, reach, rounding)
    strand, position, xy = (np.concatenate(column) for column in zip(crossings, hits, strict=True))
    strand, position, xy = _apart(strand, position, xy, rounding)
    pieces = cut(vertices, np.zeros((len(vertices.owner), 0)), strand, position, xy)
    # Between two vertices in one place a cut at both would leave a piece without length.
    long = pieces.have_length()
    several = np.bincount(pieces.strand[long], minlength=len(met))[pieces.strand] > 1
    keep = long & several
    mask = keep[pieces.owner]
    new = lines_of(
        pieces.ordinates[mask],
        (np.cumsum(keep) - 1)[pieces.owner[mask]],
        vertices.has_z[pieces.strand[keep]],
        vertices.has_m[pieces.strand[keep]],
    )
    owner = met[pieces.strand[keep]]
    uncut = np.setdiff1d(np.arange(len(lines)), owner)
    order = np.argsort(np.concatenate([owner, uncut]), kind="stable")
    return np.concatenate([new, lines[uncut]])[order], np.concatenate([owner, uncut])[order]


Cuts = tuple["Array", "Array", "Array"]
"""Strands, the positions on them, and the x and y of the places."""


def _crossings(vertices: Vertices, segments: Segments, straight: Array, cutting: Array, rounding: float) -> Cuts:
    """Return where lines cross or touch the strands, and the ends of what they share with them."""
    import numpy as np
    import shapely

    from geocairn.operations.strands import segment_lines, segments_of, vertices_of

    others = vertices_of(cutting)
    other_segments = segments_of(others)
    other_lines = segment_lines(others, other_segments, flat=True)
    mine, theirs = shapely.STRtree(other_lines).query(straight, predicate="intersects")
    shared = shapely.intersection(straight[mine], other_lines[theirs])
    xy, pair = shapely.get_coordinates(shared, return_index=True)
    position, xy = _position(vertices, segments, mine[pair], xy, rounding)
    strand = segments.strand[mine[pair]]
    splitter = other_segments.strand[theirs[pair]]
    overlap = shapely.get_type_id(shared)[pair] == shapely.GeometryType.LINESTRING
    stretches = _stretches(strand[overlap], splitter[overlap], position[overlap], xy[overlap])
    alone = ~overlap
    alone[alone] = ~_inside(strand[alone], splitter[alone], position[alone], stretches)
    return (
        np.concatenate([strand[alone], stretches.strand, stretches.strand]),
        np.concatenate([position[alone], stretches.start, stretches.end]),
        np.concatenate([xy[alone], stretches.start_xy, stretches.end_xy]),
    )


@dataclass(frozen=True)
class _Stretches:
    """What strands share with strands of the splitter, as stretches between two positions."""

    strand: Array
    splitter: Array
    start: Array
    end: Array
    start_xy: Array
    end_xy: Array


def _stretches(strand: Array, splitter: Array, position: Array, xy: Array) -> _Stretches:
    """Return the longest stretches, from the two ends of each segment in common, one after the other."""
    import numpy as np
    import pandas as pd

    low = np.where(position[::2] <= position[1::2], 0, 1) + np.arange(0, len(position), 2)
    high = np.where(position[::2] <= position[1::2], 1, 0) + np.arange(0, len(position), 2)
    order = np.lexsort((position[low], splitter[low], strand[low]))
    low, high = low[order], high[order]
    pairs = pd.DataFrame({"strand": strand[low], "splitter": splitter[low], "end": position[high]})
    reached = pairs.groupby(["strand", "splitter"], sort=False)["end"].cummax().to_numpy()
    begins = np.ones(len(low), dtype=bool)
    same = (strand[low][1:] == strand[low][:-1]) & (splitter[low][1:] == splitter[low][:-1])
    begins[1:] = ~same | (position[low][1:] > reached[:-1])
    first = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    farthest = np.lexsort((position[high], number))  # the last of each stretch reaches farthest
    last = high[farthest[np.append(first, len(low))[1:] - 1]]
    first = low[first]
    return _Stretches(strand[first], splitter[first], position[first], position[last], xy[first], xy[last])


def _inside(strand: Array, splitter: Array, position: Array, stretches: _Stretches) -> Array:
    """Return which positions lie within a stretch that is shared with the same strand of the splitter."""
    import numpy as np
    import pandas as pd

    result = np.zeros(len(strand), dtype=bool)
    if not len(stretches.strand) or not len(strand):
        return result
    places = pd.DataFrame(
        {"strand": strand, "splitter": splitter, "position": position, "place": np.arange(len(strand))}
    )
    known = pd.DataFrame(
        {"strand": stretches.strand, "splitter": stretches.splitter, "start": stretches.start, "end": stretches.end}
    )
    found = pd.merge_asof(
        places.sort_values("position", kind="stable"),
        known.sort_values("start", kind="stable"),
        left_on="position",
        right_on="start",
        by=["strand", "splitter"],
    )
    within = (found["start"] < found["position"]) & (found["position"] < found["end"])
    result[found["place"].to_numpy()[within.to_numpy()]] = True
    return result


def _hits(
    vertices: Vertices, segments: Segments, straight: Array, points: Array, reach: float, rounding: float
) -> Cuts:
    """Return where points lie on lines, or the nearest places to those within reach."""
    import numpy as np
    import shapely

    point, mine = shapely.STRtree(straight).query(points, predicate="dwithin", distance=reach)
    strand = segments.strand[mine]
    distance = shapely.distance(points[point], straight[mine])
    pairs, inner = np.unique(np.stack([strand, point]), axis=1, return_inverse=True)
    nearest = np.full(pairs.shape[1], np.inf)
    np.minimum.at(nearest, inner.reshape(-1), distance)
    keep = distance <= nearest[inner.reshape(-1)] + rounding
    xy = shapely.get_coordinates(points)[point[keep]]
    xy = np.where((distance[keep] <= rounding)[:, None], xy, np.nan)
    position, xy = _position(vertices, segments, mine[keep], xy, rounding, shapely.get_coordinates(points)[point[keep]])
    return strand[keep], position, xy


def _position(
    vertices: Vertices, segments: Segments, which: Array, xy: Array, rounding: float, towards: Array | None = None
) -> tuple[Array, Array]:
    """Return the positions on strands of places on (or, `towards`, near) their segments, and the places.

    A place that is a vertex but for rounding has that vertex's position.
    """
    import numpy as np

    first = segments.first[which]
    begin, end = vertices.ordinates[first, :2], vertices.ordinates[first + 1, :2]
    place = xy if towards is None else towards
    along = end - begin
    share = np.clip(((place - begin) * along).sum(axis=1) / (along * along).sum(axis=1), 0.0, 1.0)
    on_line = begin + share[:, None] * along
    share[np.hypot(*(on_line - begin).T) <= rounding] = 0.0
    share[np.hypot(*(on_line - end).T) <= rounding] = 1.0
    return segments.number[which] + share, np.where(np.isnan(xy), on_line, xy)


def _apart(strand: Array, position: Array, xy: Array, rounding: float) -> Cuts:
    """Leave out cuts that are at the place of the one before but for rounding, computed twice."""
    import numpy as np

    order = np.lexsort((position, strand))
    strand, position, xy = strand[order], position[order], xy[order]
    near = np.hypot(*(xy[1:] - xy[:-1]).T) <= rounding
    same = np.zeros(len(strand), dtype=bool)
    same[1:] = (strand[1:] == strand[:-1]) & (np.floor(position[1:]) == np.floor(position[:-1])) & near
    return strand[~same], position[~same], xy[~same]


def _split_polygons(areas: Array, cutting: Array, rows: Array, count: int) -> tuple[Array, Array]:
    """Return the pieces of single polygons and the polygon of each, in order; what is not cut is one, as it was.

    `rows` says each one's row, of `count`, for messages.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import check_no_m, check_valid, union_groups
    from geocairn.operations.strands import segment_lines, segments_of, vertices_of

    everything = np.arange(len(areas))
    if not len(areas):
        return areas, everything
    met, by = shapely.STRtree(cutting).query(areas, predicate="intersects")
    places = np.unique(met)
    shown = np.full(count, None, dtype=object)
    shown[rows[places]] = areas[places]
    check_no_m(shown, "layer", "split")
    invalid = places[~shapely.is_valid(areas[places])]
    if len(invalid):
        shown[:] = None
        shown[rows[invalid]] = areas[invalid]
        check_valid(shown, "layer", "split")
    # Segments, and not what of them lies inside: their ends, computed, might not reach the outline.
    others = vertices_of(cutting[np.unique(by)])
    straight = segment_lines(others, segments_of(others), flat=True)
    inside, which = shapely.STRtree(straight).query(areas[places], predicate="intersects")
    work = np.concatenate([shapely.boundary(areas[places]), straight[which]])
    owner = np.concatenate([np.arange(len(places)), inside])
    order = np.argsort(owner, kind="stable")
    noded = union_groups(work[order], owner[order], len(places))
    faces, of = shapely.get_parts(shapely.polygonize(noded.reshape(-1, 1)), return_index=True)
    within = shapely.intersects(areas[places[of]], shapely.point_on_surface(faces))
    faces, of = faces[within], of[within]
    parted = np.bincount(of, minlength=len(places))[of] > 1
    faces, of = faces[parted], places[of[parted]]
    bounds = shapely.bounds(faces).reshape(-1, 4)
    order = np.lexsort((*bounds.T[::-1], of))
    faces, of = faces[order], of[order]
    uncut = np.setdiff1d(everything, of)
    order = np.argsort(np.concatenate([of, uncut]), kind="stable")
    return np.concatenate([faces, areas[uncut]])[order], np.concatenate([of, uncut])[order]
