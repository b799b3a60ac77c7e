"""Operations that go along a geometry at a distance: rings of several buffers, and lines beside lines.

What always holds: distances are in units of the CRS, so that a geographic or unknown CRS is refused; results are flat
(no Z); a missing geometry stays missing, an empty one empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from geocairn.operations.contract import operation
from geocairn.operations.geometry import column_distances
from geocairn.operations.parameter_types import ColumnName, Number
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


def _ascending(distances: list[float]) -> list[float]:
    if len(set(distances)) != len(distances):
        raise ValueError("a distance is given twice")
    return sorted(distances)


@operation(
    version=1,
    result="polygon",
    rows="any",
    empties=True,
    drops_missing=True,
    planar=True,
    varies=lambda parameters: {} if parameters.dissolve else {"drops_missing": False},
    example={"layer": "places", "distances": [4, 8, 12]},
)
def multi_ring_buffer(
    layer: GeoDataFrame,
    *,
    distances: Annotated[
        list[Number],
        AfterValidator(_ascending),
        Field(min_length=1, max_length=1000, description="outer distances of the rings, in units of the CRS"),
    ],
    dissolve: Annotated[
        bool,
        Field(description="one ring for each distance around the whole layer; else rings around each row"),
    ] = True,
    quad_segs: Annotated[int, Field(ge=1, le=1024, description="segments of a quarter circle")] = 16,
    distance_column: Annotated[str, Field(min_length=1, description="name of the column of the ring's distance")] = (
        "distance"
    ),
) -> GeoDataFrame:
    """Make rings around each geometry, or around the whole layer, that end at the distances given.

    Each ring begins where the next smaller one ends; the first reaches inward to the geometry and holds it, so a
    leading distance of 0 sets polygons apart from what surrounds them. A negative distance lies inside a polygon.
    Rings are in order of their distances, whatever the order given. With `dissolve` the result has a row for each
    distance and no other columns, and no rows at all if nothing has geometry: rings of different rows are united, and
    nowhere overlap. Without it each row is repeated for each distance with its attributes, rows without geometry
    included, and rings of different rows may overlap. A ring of which nothing is left is an empty polygon.

    Raises
    ------
    InputFailure : when the layer has a column of the new column's name already (with `dissolve`: its geometry).
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.layers import (
        added,
        assemble,
        check_new_columns,
        geometry_name,
        geometry_values,
        pick_rows,
        with_geometry,
    )
    from geocairn.operations.parts import present

    values = geometry_values(layer)
    count = len(distances)
    check_new_columns(layer[[geometry_name(layer)]] if dissolve else layer, [distance_column], "multi_ring_buffer")
    if dissolve:
        there = values[present(values)]
        outer = np.array([_united(shapely.buffer(there, reach, quad_segs=quad_segs)) for reach in distances])
        rows = count if len(there) else 0
        frame = pd.DataFrame({distance_column: np.asarray(distances[:rows], dtype="float64")})
        return assemble(frame, geometry_name(layer), _rings(outer.reshape(1, count))[0, :rows], layer.crs)
    outer = shapely.buffer(values[:, None], np.asarray(distances)[None, :], quad_segs=quad_segs)
    repeated = with_geometry(pick_rows(layer, np.repeat(np.arange(len(values)), count)), _rings(outer).reshape(-1))
    return added(repeated, {distance_column: np.tile(np.asarray(distances, dtype="float64"), len(values))})


def _united(buffers: Array) -> Any:
    """Return the union of polygons: an empty one, if there is nothing in them."""
    import shapely

    full = buffers[~shapely.is_empty(buffers)]
    return shapely.union_all(full) if len(full) else shapely.from_wkt("POLYGON EMPTY")


def _rings(outer: Array) -> Array:
    """Return what each buffer has beyond the one to its left, row by row."""
    import shapely

    rings = outer.copy()
    rings[:, 1:] = shapely.difference(outer[:, 1:], outer[:, :-1])
    return rings


@operation(
    version=1,
    result="line",
    kinds=("line",),
    rows="each",
    empties=True,
    planar=True,
    example={"layer": "roads", "distance": 6},
)
def offset_curve(
    layer: GeoDataFrame,
    *,
    distance: Annotated[
        Number | ColumnName,
        Field(
            description="in units of the CRS, or the name of a column that holds it; positive: to the left of the "
            "line's direction, negative: to the right"
        ),
    ],
    quad_segs: Annotated[
        int, Field(ge=1, le=1024, description="segments of a quarter circle; never fewer than 8")
    ] = 16,
    join_style: Annotated[Literal["round", "mitre", "bevel"], Field(description="form of the corners")] = "round",
    mitre_limit: Annotated[
        Number, Field(gt=0, description="longest mitred corner, as a ratio to the distance; beyond it is bevelled")
    ] = 5.0,
) -> GeoDataFrame:
    """Move each line sideways by a distance.

    The direction of the line is kept. A line that bends more sharply than the distance allows may come out in several
    parts, or leave nothing: then its row stays with an empty line. A distance of 0 leaves a line as it is.

    Raises
    ------
    InputFailure : for a distance column that is not there, not numeric, or has missing values; rows are named.
    """
    import shapely

    from geocairn.operations.layers import geometry_values, with_geometry

    reach = column_distances(layer, distance, "offset_curve") if isinstance(distance, str) else distance
    moved = row_by_row(
        shapely.offset_curve,
        geometry_values(layer),
        reach,
        quad_segs=quad_segs,
        join_style=join_style,
        mitre_limit=mitre_limit,
    )
    return with_geometry(layer, moved)
