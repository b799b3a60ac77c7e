"""Operations on lines: merging them, a part of each, their segments, and the polygons that they enclose.

What always holds: lines keep their direction and their Z; rows of missing or empty geometry stay where rows map to
rows or are taken apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnName, Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    from geocairn.operations.strands import Vertices

    Array = np.ndarray[Any, Any]


@operation(version=1, result="line", kinds=("line",), rows="each", example={"layer": "streets"})
def line_merge(
    layer: GeoDataFrame,
    *,
    directed: Annotated[
        bool, Field(description="join lines only where one ends and the next begins; else they may be reversed")
    ] = False,
) -> GeoDataFrame:
    """Join the lines of each multipart row where two of them meet end to end.

    Where three or more meet they stay apart, and so do lines that cross without ending there. What becomes one line is
    a single part. Rows are looked at one by one: to join lines of several rows, `collect` them before. Single lines
    stay exactly as they are.

    Raises
    ------
    InputFailure : for multipart lines with M, which the engine would lose; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import check_no_m, present

    values = geometry_values(layer)
    multiple = present(values) & (shapely.get_type_id(values) == shapely.GeometryType.MULTILINESTRING)
    shown = values.copy()
    shown[~multiple] = None
    check_no_m(shown, "layer", "line_merge")
    several = np.flatnonzero(multiple)
    merged = shapely.line_merge(values[several], directed=directed)
    full = ~shapely.is_empty(merged)  # the engine leaves nothing of lines without length
    result = values.copy()
    result[several[full]] = merged[full]
    return with_geometry(layer, result)


@operation(
    version=1,
    result="line",
    kinds=("line",),
    rows="each",
    empties=True,
    planar=True,
    example={"layer": "roads", "start": 0.25, "end": 0.75, "normalized": True},
)
def line_substring(
    layer: GeoDataFrame,
    *,
    start: Annotated[
        Number | ColumnName,
        Field(
            description="where the part begins: the distance along the line in units of the CRS, or the name of a "
            "column that holds it; negative: from the line's end"
        ),
    ],
    end: Annotated[
        Number | ColumnName,
        Field(description="where the part ends, like start; before the start it gives the part reversed"),
    ],
    normalized: Annotated[
        bool, Field(description="start and end are shares of each line's length, 0 to 1, not distances")
    ] = False,
) -> GeoDataFrame:
    """Replace each line by the part between two distances along it.

    Distances beyond an end of the line count as that end. Where start and end come to the same place nothing is left,
    and the row stays with an empty line. The parts of a multipart line are measured one after the other, without the
    gaps between them. Z and M are interpolated; lengths are planar, in the CRS.

    Raises
    ------
    InputFailure : for a column that is not there, not numeric, or has missing values; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.operations.geometry import column_distances
    from geocairn.operations.layers import geometry_values, with_geometry
    from geocairn.operations.parts import LINE, collect_parts, present
    from geocairn.operations.strands import cut, lines_of, strands, vertices_of

    values = geometry_values(layer)
    there = present(values)
    lines, rows = strands(values)
    vertices = vertices_of(lines)
    along = _distance_along(vertices, rows, len(values))
    length = np.zeros(len(values))
    np.maximum.at(length, rows[vertices.owner], along)
    first, last = (
        column_distances(layer, limit, "line_substring") if isinstance(limit, str) else np.full(len(values), limit)
        for limit in (start, end)
    )
    low, high, backwards = _bounds(length, first, last, normalized)
    places = [_positions(vertices, along, rows, limit) for limit in (low, high)]
    strand, position = (np.concatenate(column) for column in zip(*places, strict=True))
    pieces = cut(vertices, along, strand, position, np.full((len(strand), 2), np.nan))
    distance = pieces.ordinates[:, -1]
    begins = np.flatnonzero(np.diff(pieces.owner, prepend=-1))
    ends = np.append(begins, len(distance))[1:] - 1
    middle = (distance[begins] + distance[ends]) / 2
    row = rows[pieces.strand]
    kept = (middle > low[row]) & (middle < high[row]) & pieces.have_length()
    mask = kept[pieces.owner]
    chosen = pieces.strand[kept]
    parts = lines_of(
        pieces.ordinates[mask, :-1],
        (np.cumsum(kept) - 1)[pieces.owner[mask]],
        vertices.has_z[chosen],
        vertices.has_m[chosen],
    )
    row = row[kept]
    turned = backwards[row]
    parts[turned] = shapely.reverse(parts[turned])
    order = np.lexsort((np.where(turned, -1, 1) * np.arange(len(row)), row))
    result = values.copy()
    result[there] = collect_parts(parts[order], row[order], np.full(len(values), LINE))[there]
    return with_geometry(layer, result)


def _distance_along(vertices: Vertices, rows: Array, count: int) -> Array:
    """Return each vertex's distance along its row's lines, taken one after the other; `rows` says the row of each."""
    import numpy as np
    import pandas as pd

    xy, owner = vertices.ordinates[:, :2], vertices.owner
    if not len(xy):
        return np.zeros(0)
    step = np.zeros(len(xy))
    step[1:] = np.where(owner[1:] == owner[:-1], np.hypot(*(xy[1:] - xy[:-1]).T), 0.0)
    # Summed row by row: one sum over the whole layer would give the last rows' distances the rounding of all.
    along: Array = pd.Series(step).groupby(rows[owner], sort=False).cumsum().to_numpy()
    return along


def _bounds(length: Array, start: Array, end: Array, normalized: bool) -> tuple[Array, Array, Array]:
    """Return where each row's part begins and ends, the lesser first, and whether they were exchanged."""
    import numpy as np

    scale = length if normalized else np.ones(len(length))
    one, other = (np.clip(at * scale + np.where(at < 0, length, 0.0), 0.0, length) for at in (start, end))
    return np.minimum(one, other), np.maximum(one, other), one > other


def _positions(vertices: Vertices, along: Array, rows: Array, limit: Array) -> tuple[Array, Array]:
    """Return the strand and the position on it of each place that lies at its row's limit."""
    import numpy as np

    from geocairn.operations.strands import number_within

    owner = vertices.owner
    wanted = limit[rows[owner]]
    holds = (owner[1:] == owner[:-1]) & (along[:-1] <= wanted[:-1]) & (along[1:] > wanted[:-1])
    first = np.flatnonzero(holds)
    share = (wanted[first] - along[first]) / (along[first + 1] - along[first])
    return owner[first], number_within(owner)[first] + share


@operation(version=1, result="line", rows="any", example={"layer": "roads"})
def explode_lines(layer: GeoDataFrame) -> GeoDataFrame:
    """Make one row of each straight segment of lines and of polygons' rings, attributes repeated.

    Rows are in the order of the layer; segments run along their line, from part to part, a polygon's shell before its
    holes. Segments between two vertices in the same place have no length and are left out, told by the note
    `segments_without_length`. Points have no segments and fall away, told by the note `dropped_parts`. Rows of missing
    or empty geometry stay, an empty one as an empty line.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import COLLECTION, LINE, POINT, dimensions, empty_of, present, single_parts
    from geocairn.operations.strands import segment_lines, segments_of, strands, vertices_of

    values = geometry_values(layer)
    lines, places = strands(values)
    vertices = vertices_of(lines)
    segments = segments_of(vertices)
    kinds = dimensions(values)
    parts, _ = single_parts(values[(kinds == POINT) | (kinds == COLLECTION)])
    note("dropped_parts", int(((dimensions(parts) == POINT) & ~shapely.is_empty(parts)).sum()))
    note("segments_without_length", segments.skipped)
    made, rows = segment_lines(vertices, segments), places[segments.strand]
    bare = np.flatnonzero(~present(values))
    if len(bare):
        empties = values[bare]
        empties[~shapely.is_missing(empties)] = empty_of(np.array([LINE]))[0]
        made, rows = np.concatenate([made, empties]), np.concatenate([rows, bare])
        order = np.argsort(rows, kind="stable")
        made, rows = made[order], rows[order]
    return with_geometry(pick_rows(layer, rows), made)


@operation(version=1, result="polygon", kinds=("line",), rows="any", drops_missing=True, example={"layer": "streets"})
def polygonize(
    layer: GeoDataFrame,
    *,
    node: Annotated[
        bool,
        Field(
            description="cut the lines where they cross or touch before; without it only lines that share end points "
            "enclose a polygon, but it is faster"
        ),
    ] = True,
) -> GeoDataFrame:
    """Make a polygon of each face that the layer's lines enclose.

    All lines are taken together, and the faces belong to none of them: the result has the geometry alone, in the order
    of the faces' bounds (xmin, then ymin, xmax, ymax). A face within another is a hole there and a row of its own.
    Lines that enclose nothing are told by the notes `dangles` (an end hangs free), `cut_edges` (the same face on both
    sides) and `invalid_rings`. Z is kept, interpolated where lines cross.

    Raises
    ------
    InputFailure : for lines with M, which the engine would lose; and when it cannot node the lines.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import assemble, geometry_name, geometry_values
    from geocairn.operations.parts import by_bounds, check_no_m, present

    values = geometry_values(layer)
    check_no_m(values, "layer", "polygonize")
    lines = values[present(values)]
    try:
        if node:
            lines = np.array([shapely.union_all(lines)], dtype=object)
        found = shapely.polygonize_full(lines)
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"the lines could not be noded: {error}", "polygonize", "snap_to_grid before this step"
        ) from error
    faces, *rest = (shapely.get_parts(collection) for collection in found)
    for name, parts in zip(("cut_edges", "dangles", "invalid_rings"), rest, strict=True):
        note(name, len(parts))
    faces = by_bounds(faces)
    return assemble(pd.DataFrame(index=pd.RangeIndex(len(faces))), geometry_name(layer), faces, layer.crs)
