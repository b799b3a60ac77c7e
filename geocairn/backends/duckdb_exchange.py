"""Geometry and numbers into DuckDB and back, as Arrow: only these pass through it, and the rest stays in the frame.

What always holds: a row is known by its number in the layer, so that attributes are taken from the reference's frame
and no type can change; missing geometries are NULL. What DuckDB would not give back as it came (M values, linear
rings, coordinates that are not finite) is refused at the door.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from geocairn.failure import CapabilityFailure

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_LINEAR_RING = 2
_REMEDY = "use backend geopandas for this step"


def place(
    database: Any,
    name: str,
    values: Array,
    where: str,
    rows: Array | None = None,
    *,
    more: bool = False,
    **columns: Any,
) -> None:
    """Make a table of geometries: `row`, `g`, and the further columns.

    Parameters
    ----------
    more : whether the table is there, and gets more rows.
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
    into = f"INSERT INTO {name}" if more else f"CREATE OR REPLACE TEMP TABLE {name} AS"
    database.execute(f"{into} SELECT * EXCLUDE (wkb), ST_GeomFromWKB(wkb) AS g FROM incoming")  # noqa: S608
    database.unregister("incoming")


def fetch_parts(
    database: Any, query: str, parameters: list[Any] | None = None, *, rows: int
) -> Iterator[dict[str, Array]]:
    """Yield a query's columns as arrays, by name, at most so many rows at a time.

    Until the last is fetched the connection can answer nothing else.
    """
    reader = database.execute(query, parameters or []).to_arrow_reader(rows)
    for batch in reader:
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            yield {name: part.column(name).to_numpy(zero_copy_only=False) for name in part.schema.names}


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


def refuse_touching_rings(values: Array, where: str) -> None:
    """Refuse polygons in which two rings touch, for which GEOS 3.14 contradicts itself.

    It answers `a contains b` and `b within a` differently for a line along such a ring, so that what an engine says
    depends on which side it happens to prepare.

    Raises
    ------
    CapabilityFailure : naming the rows.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import POLYGON, dimensions, single_parts

    parts, places = single_parts(values)
    polygons = np.flatnonzero(dimensions(parts) == POLYGON)
    rings, inner = shapely.get_rings(parts[polygons], return_index=True)
    at = polygons[inner]
    # The parts of a multipolygon must not touch either; those of a collection may lie as they like.
    owners = np.where(dimensions(values)[places[at]] == POLYGON, places[at], len(values) + at)
    several = np.flatnonzero(np.bincount(owners, minlength=1)[owners] > 1)
    several = several[np.argsort(owners[several], kind="stable")]
    mask = np.zeros(len(values), dtype=bool)
    if len(several):
        _, first, numbers = np.unique(owners[several], return_index=True, return_inverse=True)
        touching = ~shapely.is_simple(shapely.multilinestrings(rings[several], indices=numbers))
        mask[places[at[several[first[touching]]]]] = True
    refuse_rows(mask, "polygons whose rings touch each other here", where)


def refuse_empty_parts(values: Array, where: str) -> None:
    """Refuse geometries with an empty part beside others.

    DuckDB measures a distance of 0 from them, and GEOS 3.14 ends the process where a prepared rectangle meets one.

    Raises
    ------
    CapabilityFailure : naming the rows.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import present, single_parts

    several = np.flatnonzero((shapely.get_num_geometries(values) > 1) & present(values))
    parts, owners = single_parts(values[several])
    mask = np.zeros(len(values), dtype=bool)
    mask[several[owners[shapely.is_empty(parts)]]] = True
    refuse_rows(mask, "geometries with an empty part here", where)


def refuse_solid(values: Array, where: str) -> None:
    """Refuse geometries with Z, where the Z of a new vertex would depend on the order of others.

    Raises
    ------
    CapabilityFailure : naming the rows.
    """
    import shapely

    refuse_rows(shapely.has_z(values), "geometries with Z here", where)
