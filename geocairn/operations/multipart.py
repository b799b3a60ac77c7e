"""Operations between multipart and single-part geometries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from geocairn.operations.contract import operation

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@operation(
    version=1,
    result="same",
    rows="any",
    varies=lambda parameters: {} if parameters.keep_empty else {"drops_missing": True},
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
