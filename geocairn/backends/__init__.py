"""Other implementations of the catalogue's operations: `duckdb` (DuckDB spatial) beside the reference, geopandas.

What always holds: importing this package registers which operations a backend claims, and loads no engine; a claim
means the reference's answer (rows, order, ties, types, geometry within a stated tolerance), and what a backend cannot
answer so is a CapabilityFailure, never another answer.
"""

from geocairn.backends import (
    duckdb_aggregation,
    duckdb_geometry,
    duckdb_joins,
    duckdb_overlay,
    duckdb_overlay_streams,
    duckdb_projection,
    duckdb_selection,
    duckdb_streams,
)
from geocairn.backends.claims import claims, refusal

__all__ = [
    "claims",
    "duckdb_aggregation",
    "duckdb_geometry",
    "duckdb_joins",
    "duckdb_overlay",
    "duckdb_overlay_streams",
    "duckdb_projection",
    "duckdb_selection",
    "duckdb_streams",
    "refusal",
]
