"""Geometry and numbers into DuckDB and back, as Arrow: only these pass through it, and the rest stays in the frame.

What always holds: a row is known by its number in the layer, so that attributes are taken from the reference's frame
and no type can change; missing geometries are NULL. What DuckDB would not give back as it came (M values, linear
rings, coordinates that are not finite) is refused at the door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.failure import CapabilityFailure

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_LINEAR_RING = 2
_REMEDY = "use backend geopandas for this step"


def place(database: Any, name: str, values: Array, where: str, rows: Array | None = None, **columns: Any) -> None:
    """Make a table of geometries: `row`, `g`, and the further columns.

    Parameters
    ----------
    rows : the geometries' numbers in their layer; from 0 where not given.
    columns : further columns, as Arrow or numpy arrays.

    Raises
    ------
    CapabilityFailure : for geometry that does not pass through DuckDB unchanged; rows are named.
    """
    import numpy as np
    import pyarrow as pa
    import shapely

    numbers = np.arange(len(values)) if rows is None else rows
    check_passable(values, where, numbers)
    arrays = {
        "row": pa.array(numbers, pa.int64()),
        "wkb": pa.array(shapely.to_wkb(values, flavor="iso"), pa.large_binary()),
        **{key: column if isinstance(column, pa.Array) else pa.array(column) for key, column in columns.items()},
    }
    database.register("incoming", pa.table(arrays))
    database.execute(
        f"CREATE TEMP TABLE {name} AS SELECT * EXCLUDE (wkb), ST_GeomFromWKB(wkb) AS g FROM incoming"  # noqa: S608
    )
    database.unregister("incoming")


def place_present(database: Any, name: str, values: Array, where: str) -> None:
    """Make a table of the geometries that are neither missing nor empty, under their numbers in the layer."""
    import numpy as np

    from geocairn.operations.parts import present

    rows = np.flatnonzero(present(values))
    place(database, name, values[rows], where, rows)


def fetch(database: Any, query: str, parameters: list[Any] | None = None) -> dict[str, Array]:
    """Return a query's columns as arrays, by name."""
    table = database.execute(query, parameters or []).to_arrow_table()
    return {name: table.column(name).to_numpy() for name in table.column_names}


def shapes(column: Array) -> Array:
    """Return the geometries of a column of WKB."""
    import numpy as np
    import shapely

    return np.asarray(shapely.from_wkb(np.asarray(column, dtype=object)), dtype=object)


def check_passable(values: Array, where: str, rows: Array | None = None) -> None:
    """Refuse geometry that does not pass through DuckDB unchanged.

    Raises
    ------
    CapabilityFailure : naming the rows.
    """
    import numpy as np
    import shapely

    coordinates, owners = shapely.get_coordinates(values, return_index=True)
    endless = np.zeros(len(values), dtype=bool)
    endless[owners[~np.isfinite(coordinates).all(axis=1)]] = True
    refuse_rows(shapely.has_m(values), "M values", where, rows)
    refuse_rows(shapely.get_type_id(values) == _LINEAR_RING, "linear rings", where, rows)
    refuse_rows(endless, "coordinates that are not finite", where, rows)


def refuse_rows(mask: Array, what: str, where: str, rows: Array | None = None) -> None:
    """Refuse the rows where the mask is true, if there are any.

    Raises
    ------
    CapabilityFailure : `DuckDB does not take WHAT: rows 3, 8`.
    """
    import numpy as np

    from geocairn.operations.layers import name_rows

    if mask.any():
        if rows is not None and len(rows):
            full = np.zeros(int(rows.max()) + 1, dtype=bool)
            full[rows[mask]] = True
            mask = full
        raise CapabilityFailure(f"backend duckdb does not take {what}: {name_rows(mask)}", where=where, remedy=_REMEDY)


def refuse_invalid(values: Array, where: str) -> None:
    """Refuse invalid polygons, for which two engines decide a relation differently.

    Raises
    ------
    CapabilityFailure : naming the rows.
    """
    import shapely

    from geocairn.operations.parts import POLYGON, dimensions

    refuse_rows((dimensions(values) >= POLYGON) & ~shapely.is_valid(values), "invalid polygons here", where)


def refuse_empty_parts(values: Array, where: str) -> None:
    """Refuse geometries with an empty part beside others, from which DuckDB measures a distance of 0.

    Raises
    ------
    CapabilityFailure : naming the rows.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import present, single_parts

    parts, owners = single_parts(values)
    mask = np.zeros(len(values), dtype=bool)
    mask[owners[shapely.is_empty(parts)]] = True
    refuse_rows(mask & present(values), "geometries with an empty part here", where)
