"""A grid of cells over a layer: squares or hexagons.

What always holds: cells lie on one lattice, so that neighbours share their edges exactly, vertex for vertex, and
together leave no gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

MAX_CELLS = 5_000_000
"""Most cells that a grid may have before it is clipped: beyond it the size is a mistake more often than meant."""

_SLACK = 1e-9
"""A cell more is not worth having for less than this share of a cell."""


@operation(
    version=1,
    result="polygon",
    rows="any",
    drops_missing=True,
    planar=True,
    example={"layer": "zones", "size": 10, "kind": "hexagon"},
)
def create_grid(
    layer: GeoDataFrame,
    *,
    kind: Annotated[Literal["square", "hexagon"], Field(description="form of the cells; hexagons lie on a side")] = (
        "square"
    ),
    size: Annotated[Number, Field(gt=0, description="length of a cell's side, in units of the CRS")],
    clip: Annotated[
        bool,
        Field(
            description="only cells that meet the layer, cut to its polygons; without it whole cells over all of the "
            "layer's extent"
        ),
    ] = True,
    origin: Annotated[
        tuple[Number, Number] | None,
        Field(
            description="x and y of a lattice point, in the layer's CRS: grids with one origin and size fit together; "
            "none: the lower left corner of the layer's extent"
        ),
    ] = None,
) -> GeoDataFrame:
    """Make a grid of square or hexagonal cells over the layer's extent.

    With `clip`, cells that do not meet the layer are left out, a cell that meets points or lines stays whole, and one
    that meets polygons alone is cut to them. (For whole cells: `clip: false`, then `spatial_filter`.) The lattice point
    is the lower left corner of the square, and the middle of the hexagon, in row 0 and column 0.

    The result has the columns `cell` (a number from 0, the same with and without `clip`), `row` (from the bottom up)
    and `column` (from left to right), and the geometry; cells come row by row. A layer without any geometry has no
    cells.

    Raises
    ------
    InputFailure : when the extent would take more than five million cells; and with `clip` for invalid polygons, whose
        rows are named.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.layers import assemble, geometry_name, geometry_values
    from geocairn.operations.parts import present

    values = geometry_values(layer)
    there = values[present(values)]
    if len(there):
        lattice = _Lattice.over(shapely.total_bounds(there), kind, size, origin)
        columns, rows = lattice.places()
        cells = lattice.cells(columns, rows)
    else:
        columns = rows = np.zeros(0, dtype="int64")
        cells = np.zeros(0, dtype=object)
    number = np.arange(len(cells))
    if clip:
        cells, kept = _clipped(cells, values)
        number, rows, columns = number[kept], rows[kept], columns[kept]
    table = pd.DataFrame({"cell": number, "row": rows, "column": columns})
    name = geometry_name(layer)
    if name in table.columns:
        raise InputFailure(
            f"the layer's geometry column is named {name!r}, and so is a column of the grid",
            where="create_grid",
            remedy="rename the geometry column (select_columns) before",
        )
    return assemble(table, name, cells, layer.crs)


@dataclass(frozen=True)
class _Lattice:
    """Where the cells lie: columns and rows from the first to the last, from the origin."""

    kind: str
    size: float
    origin: tuple[float, float]
    columns: tuple[int, int]
    rows: tuple[int, int]

    @classmethod
    def over(cls, extent: Array, kind: str, size: float, origin: tuple[float, float] | None) -> _Lattice:
        """Return the lattice of the cells that cover the extent.

        Raises
        ------
        InputFailure : when they are too many.
        """
        import math

        xmin, ymin, xmax, ymax = (float(value) for value in extent)
        x0, y0 = origin if origin is not None else (xmin, ymin)
        if kind == "square":
            column, row = size, size
            west, east = (xmin - x0) / column, (xmax - x0) / column - 1
            south, north = (ymin - y0) / row, (ymax - y0) / row - 1
        else:  # a column holds its middle third alone; every other one is half a row higher
            column, row = 1.5 * size, math.sqrt(3) * size
            west, east = (xmin - x0 + size / 2) / column, (xmax - x0 - size / 2) / column
            south, north = (ymin - y0) / row, (ymax - y0) / row - 0.5
        estimate = (max(east - west, 0) + 2) * (max(north - south, 0) + 2)
        if estimate > MAX_CELLS:
            raise InputFailure(
                f"size {size:g} makes some {estimate:.2g} cells over an extent of {xmax - xmin:.6g} by "
                f"{ymax - ymin:.6g}; at most {MAX_CELLS:,} are allowed",
                where="create_grid",
                remedy=f"give a size of {size * math.sqrt(estimate / MAX_CELLS) * 1.1:.2g} or more",
            )
        first = math.floor(west + _SLACK), math.floor(south + _SLACK)
        last = math.ceil(east - _SLACK), math.ceil(north - _SLACK)
        return cls(kind, size, (x0, y0), (first[0], max(first[0], last[0])), (first[1], max(first[1], last[1])))

    def places(self) -> tuple[Array, Array]:
        """Return each cell's column and row, row by row."""
        import numpy as np

        columns = np.arange(self.columns[0], self.columns[1] + 1)
        rows = np.arange(self.rows[0], self.rows[1] + 1)
        return np.tile(columns, len(rows)), np.repeat(rows, len(columns))

    def cells(self, columns: Array, rows: Array) -> Array:
        """Return the cells. A vertex that several share is computed from the same whole numbers for each."""
        import math

        import numpy as np
        import shapely

        x0, y0 = self.origin
        if self.kind == "square":
            squares: Array = shapely.box(
                x0 + columns * self.size,
                y0 + rows * self.size,
                x0 + (columns + 1) * self.size,
                y0 + (rows + 1) * self.size,
            )
            return squares
        across = 3 * columns[:, None] + np.array([2, 1, -1, -2, -1, 1, 2])
        up = (2 * rows + columns % 2)[:, None] + np.array([0, 1, 1, 0, -1, -1, 0])
        ring = np.stack([x0 + across * (self.size / 2), y0 + up * (self.size * math.sqrt(3) / 2)], axis=2)
        hexagons: Array = shapely.polygons(ring)
        return hexagons


def _clipped(cells: Array, values: Array) -> tuple[Array, Array]:
    """Return the cells that meet the geometries, cut where these are polygons alone, and their places."""
    import numpy as np

    from geocairn.operations.overlay import cut_to
    from geocairn.operations.pairs import related
    from geocairn.operations.parts import POLYGON, check_no_m, check_valid, dimensions, keep_kind, present, single_parts

    check_valid(values, "layer", "create_grid")
    check_no_m(values, "layer", "create_grid")
    parts, _ = single_parts(values)
    areas = dimensions(parts) == POLYGON
    whole, _ = related(cells, parts[~areas], "intersects", None, "create_grid")
    touched, _ = related(cells, parts[areas], "intersects", None, "create_grid")
    whole = np.unique(whole)
    cut = np.setdiff1d(touched, whole)
    pieces, _ = keep_kind(cut_to(cells[cut], parts[areas], "create_grid"), np.full(len(cut), POLYGON))
    full = present(pieces)
    result = cells.copy()
    result[cut[full]] = pieces[full]
    kept = np.sort(np.concatenate([whole, cut[full]]))
    return result[kept], kept
