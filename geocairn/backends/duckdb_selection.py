"""Rows selected and measured in DuckDB: filter, measure.

What always holds: DuckDB decides which rows stay, or measures; the rows are the reference's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from geocairn.backends.claims import ROUNDING, claimed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, place
from geocairn.backends.duckdb_filter import Condition, filter_refusal
from geocairn.operations.selection import filter, measure

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@claimed(filter, "duckdb", limit=lambda parameters: filter_refusal(parameters.where), streams="rows")
def filter_duckdb(layer: GeoDataFrame, *, where: str) -> GeoDataFrame:
    """Keep the rows for which a condition is true, as the reference does."""
    import numpy as np

    from geocairn.operations.layers import geometry_values, pick_rows

    condition = Condition(layer, where)
    with connection("filter") as database:
        geometry = geometry_values(layer) if condition.reads_geometry else np.full(len(layer), None, dtype=object)
        place(database, "layer", geometry, "filter", **condition.columns)
        query = f"SELECT row FROM layer WHERE {condition.sql} ORDER BY row"  # noqa: S608 - values are parameters
        kept = fetch(database, query, condition.values)["row"]
    mask = np.zeros(len(layer), dtype=bool)
    mask[kept] = True
    return pick_rows(layer, mask)


def _measure_limit(parameters: Any) -> str | None:
    if parameters.method == "planar":
        return None
    return "method ellipsoidal is not claimed: DuckDB knows the ellipsoid of WGS 84 alone"


@claimed(measure, "duckdb", tolerance=ROUNDING, limit=_measure_limit)
def measure_duckdb(
    layer: GeoDataFrame,
    *,
    area: str | None = None,
    length: str | None = None,
    perimeter: str | None = None,
    unit: str = "m",
    method: Literal["planar", "ellipsoidal"] = "planar",
) -> GeoDataFrame:
    """Add columns of area, length or perimeter, as the reference does."""
    from geocairn.kinds import kinds_of
    from geocairn.operations.layers import check_new_columns

    asked = {"area": area, "length": length, "perimeter": perimeter}
    columns = {measured: name for measured, name in asked.items() if name is not None}
    check_new_columns(layer, columns.values(), "measure")
    if layer.crs is None or not measurable(kinds_of(layer), columns):
        return measure.function(layer, **asked, unit=unit, method=method)  # which says what is wrong
    return measured(layer, columns, unit)


def measurable(kinds: set[str], asked: Iterable[str]) -> bool:
    """Return whether a layer of these kinds of geometry has what is asked to be measured; one of none has."""
    wanted = [{"line" if measured == "length" else "polygon", "collection"} for measured in asked]
    return not kinds or all(kinds & some for some in wanted)


def measured(layer: GeoDataFrame, columns: Mapping[str, str], unit: str) -> GeoDataFrame:
    """Return the layer with its measures, each in the column that is named."""
    from geocairn.operations.layers import added, geometry_values
    from geocairn.operations.parameter_types import METRES_IN

    with connection("measure") as database:
        place(database, "layer", geometry_values(layer), "measure")
        found = fetch(
            database,
            "SELECT ST_Area(g) AS area, ST_Length(g) AS length, ST_Perimeter(g) AS perimeter FROM layer ORDER BY row",
        )
    metres = layer.crs.axis_info[0].unit_conversion_factor if layer.crs.axis_info else 1.0
    powers = {"area": 2, "length": 1, "perimeter": 1}
    return added(
        layer,
        {
            name: found[what] * metres ** powers[what] / METRES_IN[unit] ** powers[what]
            for what, name in columns.items()
        },
    )
