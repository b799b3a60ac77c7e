"""Operations that take geometries apart and put them together: single parts, multiparts, vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnNames

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@operation(
    version=1,
    result="same",
    rows="any",
    varies=lambda parameters: {} if parameters.keep_empty else {"drops_missing": True},
    example={"layer": "parcels"},
)
def explode(
    layer: GeoDataFrame,
    *,
    keep_empty: Annotated[
        bool, Field(description="keep rows whose geometry is missing or empty; else they are left out and counted")
    ] = True,
) -> GeoDataFrame:
    """Make one row of each single part, attributes repeated.

    Collections are opened however deep they are nested. Rows are in the order of the layer, parts in the order of their
    geometry; empty parts beside others are left out. Without `keep_empty` the note `rows_removed` counts what is left
    out.
    """
    import numpy as np
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import dimensions, empty_of, present, single_parts

    values = geometry_values(layer)
    parts, places = single_parts(values)
    full = ~shapely.is_empty(parts)
    parts, places = parts[full], places[full]
    bare = np.flatnonzero(~present(values))
    if keep_empty and len(bare):
        empties = values[bare]
        there = ~shapely.is_missing(empties)
        empties[there] = empty_of(dimensions(empties))[there]
        parts, places = np.concatenate([parts, empties]), np.concatenate([places, bare])
        order = np.argsort(places, kind="stable")
        parts, places = parts[order], places[order]
    if not keep_empty:
        note("rows_removed", len(bare))
    return with_geometry(pick_rows(layer, places), parts)


@operation(version=1, result="same", rows="any", example={"layer": "places", "by": "kind"})
def collect(
    layer: GeoDataFrame,
    *,
    by: Annotated[
        ColumnNames | None,
        Field(description="column or columns whose values make groups: one multipart for each; none: one of all rows"),
    ] = None,
) -> GeoDataFrame:
    """Make one multipart geometry of each group of rows, without uniting anything.

    Every part is kept as it is, in the order of the rows; parts that overlap still do, which makes a polygon invalid:
    `dissolve` unites. The result is a multipart geometry even of one part. It has the columns `by` and the geometry,
    one row for each group, in order of first appearance; a missing value is a group of its own. A group without any
    geometry keeps a row, its geometry missing. Where some parts have Z and others not, these get NaN.

    Raises
    ------
    InputFailure : for a column that is not there or holds geometry, and for groups that mix kinds of geometry; rows of
        the result are named.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.layers import (
        assemble,
        check_columns,
        geometry_name,
        geometry_values,
        group_codes,
        name_rows,
        pick_rows,
    )
    from geocairn.operations.parts import LINE, POINT, POLYGON, dimensions, single_parts

    keys = by or []
    check_columns(layer, keys, "collect")
    for name in keys:
        if layer.dtypes[name].name == "geometry":
            raise InputFailure(f"{name!r} is a geometry column, which is no key", where="collect")
    codes = group_codes(layer, keys) if keys else np.zeros(len(layer), dtype="int64")
    _, first = np.unique(codes, return_index=True)
    parts, places = single_parts(geometry_values(layer))
    full = ~shapely.is_empty(parts)
    parts, groups = parts[full], codes[places[full]]
    kinds = dimensions(parts)
    result = np.full(len(first), None, dtype=object)
    held = np.zeros(len(first), dtype="int64")
    makers = {POINT: shapely.multipoints, LINE: shapely.multilinestrings, POLYGON: shapely.multipolygons}
    for kind, make in makers.items():
        mask = kinds == kind
        if mask.any():
            order = np.argsort(groups[mask], kind="stable")
            targets, inner = np.unique(groups[mask][order], return_inverse=True)
            result[targets] = make(parts[mask][order], indices=inner)
            held[targets] += 1
    if (held > 1).any():
        raise InputFailure(
            f"a group mixes kinds of geometry: result {name_rows(held > 1)}",
            where="collect",
            remedy="collect each kind on its own (filter before), or group by a column that tells them apart",
        )
    table = pick_rows(pd.DataFrame(layer[keys]), first) if keys else pd.DataFrame(index=pd.RangeIndex(len(first)))
    return assemble(table, geometry_name(layer), result, layer.crs)


@operation(version=1, result="point", rows="any", example={"layer": "parcels"})
def extract_vertices(layer: GeoDataFrame) -> GeoDataFrame:
    """Make one row of each vertex, as a point, attributes repeated.

    Two columns are added: `vertex_index` counts the vertices of a row's geometry and `part_index` its single parts,
    both from 0. Rows are in the order of the layer, vertices along their line, from part to part, a polygon's shell
    before its holes; the vertex that closes a ring is there twice, as its first and its last. Z and M are kept. Rows of
    missing or empty geometry stay, an empty one as an empty point, without indices.

    Raises
    ------
    InputFailure : when the layer has a column `vertex_index` or `part_index` already.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.layers import added, check_new_columns, geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import POINT, empty_of, present, single_parts
    from geocairn.operations.strands import number_within, points_of, vertices_of

    check_new_columns(layer, ["vertex_index", "part_index"], "extract_vertices")
    values = geometry_values(layer)
    parts, places = single_parts(values)
    full = ~shapely.is_empty(parts)
    parts, places = parts[full], places[full]
    vertices = vertices_of(parts)
    rows = places[vertices.owner]
    indices = [number_within(rows), number_within(places)[vertices.owner]]
    points = points_of(vertices.ordinates, vertices.has_z[vertices.owner], vertices.has_m[vertices.owner])
    bare = np.flatnonzero(~present(values))
    empties = values[bare]
    empties[~shapely.is_missing(empties)] = empty_of(np.array([POINT]))[0]
    rows = np.concatenate([rows, bare])
    order = np.argsort(rows, kind="stable")
    made = with_geometry(pick_rows(layer, rows[order]), np.concatenate([points, empties])[order])
    unknown = np.concatenate([np.zeros(len(points), dtype=bool), np.ones(len(bare), dtype=bool)])[order]
    padded = [np.concatenate([index, np.zeros(len(bare), dtype="int64")])[order] for index in indices]
    columns = [pd.arrays.IntegerArray(index.astype("int64"), unknown.copy()) for index in padded]
    return added(made, {"vertex_index": columns[0], "part_index": columns[1]})
