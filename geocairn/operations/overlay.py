"""Operations that cut one layer by another: clip, overlay, and the points where their lines meet.

What always holds of clip and overlay: the kind of each result row is that of the row it is cut from (unless the caller
wants all kinds), so slivers of lower dimension never turn a result into a collection; they are counted. Invalid
polygons are refused, because no engine gives a dependable answer for them. Rows of missing or empty geometry meet
nothing, and stay wherever the rows that meet nothing stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import GridSize, Suffixes
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

KeepKind = Annotated[
    bool,
    Field(description="keep only parts of the kind that the (left) layer has; others are dropped and counted"),
]


def _kind_promise(parameters: Any) -> dict[str, Any]:
    return {} if parameters.keep_geometry_kind else {"kind": "any"}


def _overlay_promise(parameters: Any) -> dict[str, Any]:
    return {**_kind_promise(parameters), "drops_missing": parameters.how == "intersection"}


@operation(
    version=2,
    result="same",
    kinds={"mask": ("polygon",)},
    rows="some",
    varies=_kind_promise,
    example={"layer": "roads", "mask": "zones"},
)
def clip(layer: GeoDataFrame, mask: GeoDataFrame, *, keep_geometry_kind: KeepKind = True) -> GeoDataFrame:
    """Keep what of each geometry lies inside the mask.

    Rows wholly outside are left out; rows wholly inside one polygon of the mask stay exactly as they are. Rows of
    missing or empty geometry stay. The order is that of the layer. Dropped parts are told by the note
    `dropped_parts`.

    Raises
    ------
    InputFailure : for invalid polygons in either input, and for collections; rows are named.
    """
    import numpy as np

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import check_no_collections, check_no_m, check_valid, dimensions, keep_kind, present

    values, masks = geometry_values(layer), geometry_values(mask)
    if keep_geometry_kind:
        check_no_collections(values, "layer", "clip")
    check_valid(values, "layer", "clip")
    check_no_m(values, "layer", "clip")
    check_valid(masks, "mask", "clip")
    clipped = cut_to(values, masks, "clip")
    dropped = 0
    if keep_geometry_kind:
        clipped, dropped = keep_kind(clipped, dimensions(values))
    note("dropped_parts", dropped)
    keep = np.flatnonzero(present(clipped) | ~present(values))
    return with_geometry(pick_rows(layer, keep), clipped[keep])


def cut_to(values: Array, masks: Array, where: str) -> Array:
    """Return each geometry's part inside the union of the masks: empty where there is none, of any kind."""
    import numpy as np
    import shapely

    from geocairn.operations.pairs import related
    from geocairn.operations.parts import dimensions, empty_of, present, union_groups

    result = empty_of(dimensions(values))
    result[~present(values)] = values[~present(values)]
    inside, _ = related(values, masks, "covered_by", None, where)
    inside = np.unique(inside)
    result[inside] = values[inside]
    crossing = np.setdiff1d(np.flatnonzero(present(values)), inside)
    places, others = related(values[crossing], masks, "intersects", None, where)
    met, codes = np.unique(places, return_inverse=True)
    neighbours = union_groups(masks[others], codes, len(met))
    rows = crossing[met]
    result[rows] = _computed(lambda: row_by_row(shapely.intersection, values[rows], neighbours), where)
    return result


@operation(
    version=2,
    result="same",
    rows="any",
    varies=_overlay_promise,
    example={"left": "parcels", "right": "zones", "how": "union"},
)
def overlay(
    left: GeoDataFrame,
    right: GeoDataFrame,
    *,
    how: Annotated[
        Literal["intersection", "union", "difference", "symmetric_difference", "identity"],
        Field(
            description="intersection: parts in both; difference: of the left outside the right; identity: both of "
            "these; symmetric_difference: in one alone; union: everything"
        ),
    ],
    keep_geometry_kind: KeepKind = True,
    grid_size: GridSize = None,
    suffixes: Suffixes = ("_left", "_right"),
) -> GeoDataFrame:
    """Cut two layers by each other.

    Rows come in this order: the parts in common (by left row, then by right row), what remains of the left rows, what
    remains of the right rows. Columns are the left's, then (but for `difference`) the right's, then the geometry;
    where a row can lack a partner, integers and truth values of that side are nullable types. Other geometry columns
    stay as they are. Rows of missing or empty geometry meet nothing, so they are among what remains. Parts of another
    kind than the left's are dropped and told by the note `dropped_parts`.

    Raises
    ------
    InputFailure : for invalid polygons or collections in either input; rows are named.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import attributes, geometry_values
    from geocairn.operations.pairs import related
    from geocairn.operations.parts import (
        check_no_collections,
        check_no_m,
        check_valid,
        dimensions,
        keep_kind,
        off_grid,
        on_grid,
        present,
    )

    sides = []
    for role, layer in (("left", left), ("right", right)):
        values = geometry_values(layer)
        check_no_collections(values, role, "overlay")
        check_valid(values, role, "overlay")
        check_no_m(values, role, "overlay")
        sides.append(on_grid(values, grid_size))
    a, b = sides
    first, second = related(a, b, "intersects", None, "overlay")
    dropped = 0
    pieces: list[tuple[Array, Array, Array]] = []  # positions in the left, in the right (-1 none), geometries
    if how in ("intersection", "union", "identity"):
        shared = _computed(
            lambda: row_by_row(shapely.intersection, a[first], b[second], grid_size=grid_size), "overlay"
        )
        if keep_geometry_kind:
            shared, dropped = keep_kind(shared, dimensions(a)[first])
        some = present(shared)
        pieces.append((first[some], second[some], shared[some]))
    if how != "intersection":
        rest, places, lost = _remainder(a, b, first, second, grid_size, keep_geometry_kind)
        dropped += lost
        pieces.append((places, np.full(len(places), -1), rest))
    if how in ("union", "symmetric_difference"):
        order = np.lexsort((first, second))
        rest, places, lost = _remainder(b, a, second[order], first[order], grid_size, keep_geometry_kind)
        dropped += lost
        if keep_geometry_kind:
            kinds = np.unique(dimensions(a)[present(a)])
            right_kind = ~present(rest) | np.isin(dimensions(rest), kinds if len(kinds) else [0, 1, 2])
            dropped += int(shapely.get_num_geometries(rest[~right_kind]).sum())
            rest, places = rest[right_kind], places[right_kind]
        pieces.append((np.full(len(places), -1), places, rest))
    note("dropped_parts", dropped)
    at_left, at_right, geometries = (np.concatenate(column) for column in zip(*pieces, strict=True))
    if grid_size is not None:
        geometries = off_grid(geometries)
    return assembled_pieces(
        left, attributes(right), how, suffixes, at_left.astype("int64"), at_right.astype("int64"), geometries
    )


def _remainder(
    values: Array, others: Array, first: Array, second: Array, grid_size: float | None, keep_geometry_kind: bool
) -> tuple[Array, Array, int]:
    """Return what is left of `values` outside those of `others` that they meet, their positions, and parts dropped.

    The engine may leave a line where two polygons all but meet, so that what is left has a kind to be held to as well.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import dimensions, keep_kind, present, union_groups

    result = values.copy()
    dropped = 0
    met, codes = np.unique(first, return_inverse=True)
    if len(met):
        neighbours = _computed(lambda: union_groups(others[second], codes, len(met), grid_size), "overlay")
        result[met] = _computed(
            lambda: row_by_row(shapely.difference, values[met], neighbours, grid_size=grid_size), "overlay"
        )
        if keep_geometry_kind:
            result[met], dropped = keep_kind(result[met], dimensions(values)[met])
    keep = np.flatnonzero(present(result) | ~present(values))
    return result[keep], keep, dropped


def assembled_pieces(
    left: GeoDataFrame,
    right: pd.DataFrame,
    how: str,
    suffixes: tuple[str, str],
    at_left: Array,
    at_right: Array,
    geometries: Array,
) -> GeoDataFrame:
    """Return an overlay's rows, from the left layer, the right's attributes, and the positions in both (-1 none)."""
    from geocairn.operations.layers import (
        assemble,
        attributes,
        geometry_name,
        join_columns,
        partner_rows,
        pick_rows,
        with_geometry,
    )

    if how == "difference":
        return with_geometry(pick_rows(left, at_left), geometries)
    name = geometry_name(left)
    left_take = partner_rows if how in ("union", "symmetric_difference") else pick_rows
    right_take = pick_rows if how == "intersection" else partner_rows
    columns = join_columns(left_take(attributes(left), at_left), right_take(right, at_right), suffixes, name, "overlay")
    return assemble(columns, name, geometries, left.crs)


@operation(
    version=1,
    result="point",
    kinds={"left": ("line", "polygon"), "right": ("line", "polygon")},
    rows="any",
    drops_missing=True,
    example={"left": "roads", "right": "zones"},
)
def line_intersections(
    left: GeoDataFrame, right: GeoDataFrame, *, suffixes: Suffixes = ("_left", "_right")
) -> GeoDataFrame:
    """Make a point of each place where lines of the left layer meet lines of the right.

    Polygons count by their outlines, so invalid ones do too. Lines meet where they cross or touch; of a stretch that
    they share the ends are taken, so two equal closed lines meet in no point. Each pair of rows has rows of its own,
    in order of the left row, the right row, x and y; a place where several pairs meet is there for each. Columns are
    the left's, then the right's, then the point. Z and M of a point are interpolated along both lines and averaged.
    """
    import numpy as np
    import shapely

    from geocairn.operations.layers import (
        assemble,
        attributes,
        geometry_name,
        geometry_values,
        join_columns,
        pick_rows,
    )
    from geocairn.operations.pairs import related
    from geocairn.operations.parts import LINE, POINT, dimensions, single_parts

    a, b = outlines(geometry_values(left)), outlines(geometry_values(right))
    first, second = related(a, b, "intersects", None, "line_intersections")
    shared, pair = single_parts(_computed(lambda: shapely.intersection(a[first], b[second]), "line_intersections"))
    kinds = dimensions(shared)
    ends, of = _ends(shared[kinds == LINE], pair[kinds == LINE])
    points = np.concatenate([shared[kinds == POINT], ends])
    pair = np.concatenate([pair[kinds == POINT], of])
    order = np.lexsort((shapely.get_y(points), shapely.get_x(points), pair))
    points, pair = points[order], pair[order]
    name = geometry_name(left)
    columns = join_columns(
        pick_rows(attributes(left), first[pair]),
        pick_rows(attributes(right), second[pair]),
        suffixes,
        name,
        "line_intersections",
    )
    return assemble(columns, name, points, left.crs)


def outlines(values: Array) -> Array:
    """Return the geometries with polygons replaced by their outlines; collections, missing and empty ones stay."""
    import shapely

    from geocairn.operations.parts import POLYGON, dimensions, present

    result = values.copy()
    areas = (dimensions(values) == POLYGON) & present(values)
    result[areas] = shapely.boundary(values[areas])
    return result


def _ends(lines: Array, owner: Array) -> tuple[Array, Array]:
    """Return the end points of each owner's lines taken together, and the owner of each; `owner` is sorted."""
    import numpy as np
    import shapely

    if not len(lines):
        return lines, owner
    owners, inner = np.unique(owner, return_inverse=True)
    together = shapely.multilinestrings(lines, indices=inner)
    points, of = shapely.get_parts(shapely.boundary(together), return_index=True)
    return points, owners[of]


def _computed(compute: Any, where: str) -> Any:
    """Return what `compute` gives; an engine's error for a geometry becomes a failure with a class."""
    import shapely

    try:
        return compute()
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error,
            f"the geometry engine gave up: {error}",
            where,
            "make_valid before this step, or (overlay) set grid_size",
        ) from error
