"""Geometries of a layer in a table of DuckDB, to be joined: from arrays in memory, or batch by batch.

What always holds: a row is under its number in the layer, and only geometries that are neither missing nor empty are
in the table; what is asked of the layer beside SQL (its bounds, a few of its geometries) is answered alike whether
its geometries are in memory or in the table alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from geocairn.backends.duckdb_exchange import fetch, place, refuse_empty_parts, shapes
from geocairn.backends.sides import Side, numbered
from geocairn.notes import first_row, rows_from

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

Check = Callable[["Array"], None]


class Placed:
    """A layer whose geometries were placed in a table.

    Parameters
    ----------
    name : of the table; what was under that name goes.
    where : what failures are about: the operation.
    rows : how many the layer has, where not all of them are placed.
    """

    def __init__(self, database: Any, name: str, where: str, rows: int | None = None) -> None:
        import numpy as np

        self.name = name
        self.there = 0
        """Geometries in the table."""
        self.bounds = np.full(4, np.nan)
        """Of all of them; NaN where there are none."""
        self._database = database
        self._where = where
        self._whole = rows
        self._placed = 0
        self._values: Array | None = None

    @property
    def rows(self) -> int:
        """The number of rows of the layer."""
        return self._placed if self._whole is None else self._whole

    def add(self, values: Array, *, keep: bool = False) -> None:
        """Place the layer's next geometries.

        Parameters
        ----------
        keep : whether they stay in memory, where they are at hand; for the first ones only.

        Raises
        ------
        CapabilityFailure : for what does not pass through DuckDB unchanged, and for geometries with an empty part.
        """
        import numpy as np
        import shapely

        from geocairn.operations.parts import present

        with rows_from(first_row() + self._placed):
            refuse_empty_parts(values, self._where)
        rows = np.flatnonzero(present(values))
        numbers = rows + self._placed
        place(self._database, self.name, values[rows], self._where, numbers, more=self._placed > 0)
        if len(rows):
            bounds = np.vstack([self.bounds, shapely.total_bounds(values[rows])])
            self.bounds = np.r_[np.nanmin(bounds[:, :2], axis=0), np.nanmax(bounds[:, 2:], axis=0)]
        self._values = values if keep and not self._placed else None
        self._placed += len(values)
        self.there += len(rows)

    def shapes_at(self, rows: Array) -> Array:
        """Return the geometries of rows that are in the table."""
        import numpy as np
        import pyarrow as pa

        if self._values is not None:
            return np.asarray(self._values[rows], dtype=object)
        wanted, places = np.unique(rows, return_inverse=True)
        self._database.register("wanted", pa.table({"row": wanted}))
        query = f"SELECT ST_AsWKB(g) AS shape FROM {self.name} JOIN wanted USING (row) ORDER BY row"  # noqa: S608
        found = shapes(fetch(self._database, query)["shape"])
        self._database.unregister("wanted")
        return np.asarray(found[places], dtype=object)


def place_present(database: Any, name: str, values: Array, where: str, rows: int | None = None) -> Placed:
    """Place geometries that are at hand.

    Parameters
    ----------
    rows : how many the layer has of which they are a batch.

    Raises
    ------
    CapabilityFailure : as `Placed.add` does.
    """
    placed = Placed(database, name, where, rows)
    placed.add(values, keep=True)
    return placed


def place_side(database: Any, name: str, side: Side, where: str, *checks: Check) -> tuple[Placed, pd.DataFrame]:
    """Place a side batch by batch, so that its geometries need not fit in memory; return it and its attributes.

    Attributes (geometry columns beside the active one among them) stay in memory.

    Parameters
    ----------
    checks : what each batch's geometries are held to.
    """
    import pandas as pd

    from geocairn.operations.layers import attributes, geometry_values

    placed = Placed(database, name, where)
    tables = []
    for first, batch in numbered(side):
        values = geometry_values(batch)
        with rows_from(first):
            for check in checks:
                check(values)
        placed.add(values)
        tables.append(attributes(batch))
    return placed, tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)
