"""Layers cut by each other in DuckDB: clip and overlay.

What always holds: DuckDB finds the pairs and computes the pieces; which parts are kept, in what order the rows come and
what columns they have is as in the reference. Invalid polygons are refused, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from geocairn.backends.claims import ROUNDING, claimed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, refuse_solid, shapes
from geocairn.backends.duckdb_tables import place_present
from geocairn.operations.overlay import assembled_pieces, clip, overlay

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

_NEIGHBOURS = (
    "(SELECT i, CASE WHEN count(*) = 1 AND any_value(ST_Dimension(b.g)) <> 1 THEN any_value(b.g) "
    "ELSE ST_Union_Agg(b.g ORDER BY j) END AS g "
    "FROM pairs JOIN b ON j = b.row GROUP BY i) n"
)
"""For each row of `a` in a pair, the union of its partners; a line goes through it alone too, since that nodes it."""


SHARED = (
    "SELECT i, j, ST_AsWKB(ST_Intersection(a.g, b.g)) AS shape FROM pairs JOIN a ON i = a.row JOIN b ON j = b.row "
    "WHERE number BETWEEN $1 AND $2 ORDER BY number"
)
"""What each of the pairs from one number to another has in common."""


@claimed(clip, "duckdb", tolerance=ROUNDING)
def clip_duckdb(layer: GeoDataFrame, mask: GeoDataFrame, *, keep_geometry_kind: bool = True) -> GeoDataFrame:
    """Keep what of each geometry lies inside the mask, as the reference does.

    Raises
    ------
    CapabilityFailure : for geometries with Z, since which Z a new vertex gets depends on the order of the mask's
        vertices.
    """
    from geocairn.operations.layers import geometry_values

    values, masks = geometry_values(layer), geometry_values(mask)
    check_clipped(values, keep_geometry_kind)
    check_mask(masks)
    with connection("clip") as database:
        place_present(database, "a", values, "clip")
        place_present(database, "b", masks, "clip")
        return clipped_to(database, layer, keep_geometry_kind)


def check_clipped(values: Array, keep_geometry_kind: bool) -> None:
    """Refuse what cannot be clipped."""
    from geocairn.operations.parts import check_no_collections, check_valid

    if keep_geometry_kind:
        check_no_collections(values, "layer", "clip")
    check_valid(values, "layer", "clip")
    refuse_solid(values, "clip")


def check_mask(values: Array) -> None:
    """Refuse what cannot be clipped to."""
    from geocairn.operations.parts import check_valid

    check_valid(values, "mask", "clip")
    refuse_solid(values, "clip")


def clipped_to(database: Any, layer: GeoDataFrame, keep_geometry_kind: bool) -> GeoDataFrame:
    """Return the layer, whose geometries are in table `a`, clipped to those in table `b`."""
    import numpy as np

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import dimensions, keep_kind, present

    values = geometry_values(layer)
    clipped = _cut_to(database, values)
    dropped = 0
    if keep_geometry_kind:
        clipped, dropped = keep_kind(clipped, dimensions(values))
    note("dropped_parts", dropped)
    keep = np.flatnonzero(present(clipped) | ~present(values))
    return with_geometry(pick_rows(layer, keep), clipped[keep])


def _cut_to(database: Any, values: Array) -> Array:
    """Return each geometry's part inside the union of the masks: empty where there is none, of any kind."""
    from geocairn.operations.parts import dimensions, empty_of, present

    result = empty_of(dimensions(values))
    result[~present(values)] = values[~present(values)]
    inside = fetch(database, "SELECT DISTINCT a.row AS i FROM a JOIN b ON ST_CoveredBy(a.g, b.g)")["i"]
    result[inside] = values[inside]
    database.execute(
        "CREATE OR REPLACE TEMP TABLE pairs AS SELECT a.row AS i, b.row AS j FROM a JOIN b ON ST_Intersects(a.g, b.g) "
        "WHERE a.row NOT IN (SELECT a.row FROM a JOIN b ON ST_CoveredBy(a.g, b.g))"
    )
    found = fetch(
        database,
        f"SELECT i, ST_AsWKB(ST_Intersection(a.g, n.g)) AS shape FROM {_NEIGHBOURS} JOIN a ON a.row = i",  # noqa: S608
    )
    result[found["i"]] = shapes(found["shape"])
    return result


def _overlay_limit(parameters: Any) -> str | None:
    return None if parameters.grid_size is None else "DuckDB has no overlay on a grid (grid_size)"


@claimed(overlay, "duckdb", tolerance=ROUNDING, limit=_overlay_limit)
def overlay_duckdb(
    left: GeoDataFrame,
    right: GeoDataFrame,
    *,
    how: Literal["intersection", "union", "difference", "symmetric_difference", "identity"],
    keep_geometry_kind: bool = True,
    grid_size: float | None = None,
    suffixes: tuple[str, str] = ("_left", "_right"),
) -> GeoDataFrame:
    """Cut two layers by each other, as the reference does.

    Raises
    ------
    CapabilityFailure : for geometries with Z, but for `how: intersection`: what is taken away is a union, and which Z a
        new vertex gets depends on the order of its vertices.
    """
    import numpy as np

    from geocairn.notes import note
    from geocairn.operations.layers import attributes, geometry_values
    from geocairn.operations.parts import dimensions, keep_kind, present

    a, b = geometry_values(left), geometry_values(right)
    for role, values in (("left", a), ("right", b)):
        check_side(values, role, how)
    dropped = 0
    pieces: list[tuple[Array, Array, Array]] = []  # positions in the left, in the right (-1 none), geometries
    with connection("overlay") as database:
        place_present(database, "a", a, "overlay")
        place_present(database, "b", b, "overlay")
        count = pair_sides(database)
        if how in ("intersection", "union", "identity"):
            found = fetch(database, SHARED, [1, count])
            first, second, shared = found["i"], found["j"], shapes(found["shape"])
            if keep_geometry_kind:
                shared, dropped = keep_kind(shared, dimensions(a)[first])
            some = present(shared)
            pieces.append((first[some], second[some], shared[some]))
        if how != "intersection":
            rest, places, lost = remainder(database, a, keep_geometry_kind)
            dropped += lost
            pieces.append((places, np.full(len(places), -1), rest))
        if how in ("union", "symmetric_difference"):
            _exchange_sides(database)
            rest, places, lost = remainder(database, b, keep_geometry_kind)
            dropped += lost
            if keep_geometry_kind:
                right_kind, fallen = of_kinds(rest, np.unique(dimensions(a)[present(a)]))
                dropped += fallen
                rest, places = rest[right_kind], places[right_kind]
            pieces.append((np.full(len(places), -1), places, rest))
    note("dropped_parts", dropped)
    at_left, at_right, geometries = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return assembled_pieces(
        left, attributes(right), how, suffixes, at_left.astype("int64"), at_right.astype("int64"), geometries
    )


def check_side(values: Array, role: str, how: str) -> None:
    """Refuse what cannot be overlaid."""
    from geocairn.operations.parts import check_no_collections, check_valid

    check_no_collections(values, role, "overlay")
    check_valid(values, role, "overlay")
    if how != "intersection":
        refuse_solid(values, "overlay")


def pair_sides(database: Any) -> int:
    """Make table `pairs` of the rows of `a` and `b` that meet, numbered in their order; return how many there are."""
    database.execute(
        "CREATE OR REPLACE TEMP TABLE pairs AS SELECT i, j, row_number() OVER (ORDER BY i, j) AS number "
        "FROM (SELECT a.row AS i, b.row AS j FROM a JOIN b ON ST_Intersects(a.g, b.g))"
    )
    return int(database.execute("SELECT count(*) FROM pairs").fetchone()[0])


def of_kinds(values: Array, kinds: Array) -> tuple[Array, int]:
    """Return which geometries are of these kinds (any, where there are none), and how many parts the others have."""
    import numpy as np
    import shapely

    from geocairn.operations.parts import dimensions, present

    right_kind = ~present(values) | np.isin(dimensions(values), kinds if len(kinds) else [0, 1, 2])
    return right_kind, int(shapely.get_num_geometries(values[~right_kind]).sum())


def remainder(database: Any, values: Array, keep_geometry_kind: bool) -> tuple[Array, Array, int]:
    """Return what is left of the geometries of `a` outside their partners, their positions, and parts dropped."""
    import numpy as np

    from geocairn.operations.parts import dimensions, keep_kind, present

    found = fetch(
        database,
        f"SELECT i, ST_AsWKB(ST_Difference(a.g, n.g)) AS shape FROM {_NEIGHBOURS} JOIN a ON a.row = i",  # noqa: S608
    )
    result, dropped = values.copy(), 0
    left_over = shapes(found["shape"])
    if keep_geometry_kind:
        left_over, dropped = keep_kind(left_over, dimensions(values)[found["i"]])
    result[found["i"]] = left_over
    keep = np.flatnonzero(present(result) | ~present(values))
    return result[keep], keep, dropped


def _exchange_sides(database: Any) -> None:
    """Let `a` be the right and `b` the left."""
    for statement in (
        "ALTER TABLE a RENAME TO c",
        "ALTER TABLE b RENAME TO a",
        "ALTER TABLE c RENAME TO b",
        "CREATE TEMP TABLE turned AS SELECT j AS i, i AS j FROM pairs",
        "DROP TABLE pairs",
        "ALTER TABLE turned RENAME TO pairs",
    ):
        database.execute(statement)
