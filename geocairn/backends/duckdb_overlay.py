"""Layers cut by each other in DuckDB: clip and overlay.

What always holds: DuckDB finds the pairs and computes the pieces; which parts are kept, in what order the rows come and
what columns they have is as in the reference. Invalid polygons are refused, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from geocairn.backends.claims import ROUNDING, claimed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, place_present, refuse_solid, shapes
from geocairn.operations.overlay import _assembled, clip, overlay

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


@claimed(clip, "duckdb", tolerance=ROUNDING)
def clip_duckdb(layer: GeoDataFrame, mask: GeoDataFrame, *, keep_geometry_kind: bool = True) -> GeoDataFrame:
    """Keep what of each geometry lies inside the mask, as the reference does.

    Raises
    ------
    CapabilityFailure : for geometries with Z, since which Z a new vertex gets depends on the order of the mask's
        vertices.
    """
    import numpy as np

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values, pick_rows, with_geometry
    from geocairn.operations.parts import check_no_collections, check_valid, dimensions, keep_kind, present

    values, masks = geometry_values(layer), geometry_values(mask)
    if keep_geometry_kind:
        check_no_collections(values, "layer", "clip")
    check_valid(values, "layer", "clip")
    check_valid(masks, "mask", "clip")
    refuse_solid(np.concatenate([values, masks]), "clip")
    clipped = _cut_to(values, masks)
    dropped = 0
    if keep_geometry_kind:
        clipped, dropped = keep_kind(clipped, dimensions(values))
    note("dropped_parts", dropped)
    keep = np.flatnonzero(present(clipped) | ~present(values))
    return with_geometry(pick_rows(layer, keep), clipped[keep])


def _cut_to(values: Array, masks: Array) -> Array:
    """Return each geometry's part inside the union of the masks: empty where there is none, of any kind."""
    from geocairn.operations.parts import dimensions, empty_of, present

    result = empty_of(dimensions(values))
    result[~present(values)] = values[~present(values)]
    with connection("clip") as database:
        place_present(database, "a", values, "clip")
        place_present(database, "b", masks, "clip")
        inside = fetch(database, "SELECT DISTINCT a.row AS i FROM a JOIN b ON ST_CoveredBy(a.g, b.g)")["i"]
        result[inside] = values[inside]
        database.execute(
            "CREATE TEMP TABLE pairs AS SELECT a.row AS i, b.row AS j FROM a JOIN b ON ST_Intersects(a.g, b.g) "
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
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import geometry_values
    from geocairn.operations.parts import check_no_collections, check_valid, dimensions, keep_kind, present

    a, b = geometry_values(left), geometry_values(right)
    for role, values in (("left", a), ("right", b)):
        check_no_collections(values, role, "overlay")
        check_valid(values, role, "overlay")
        if how != "intersection":
            refuse_solid(values, "overlay")
    dropped = 0
    pieces: list[tuple[Array, Array, Array]] = []  # positions in the left, in the right (-1 none), geometries
    with connection("overlay") as database:
        place_present(database, "a", a, "overlay")
        place_present(database, "b", b, "overlay")
        database.execute(
            "CREATE TEMP TABLE pairs AS SELECT a.row AS i, b.row AS j FROM a JOIN b ON ST_Intersects(a.g, b.g)"
        )
        if how in ("intersection", "union", "identity"):
            first, second, shared = _shared(database)
            if keep_geometry_kind:
                shared, dropped = keep_kind(shared, dimensions(a)[first])
            some = present(shared)
            pieces.append((first[some], second[some], shared[some]))
        if how != "intersection":
            rest, places = _remainder(database, a)
            pieces.append((places, np.full(len(places), -1), rest))
        if how in ("union", "symmetric_difference"):
            _exchange_sides(database)
            rest, places = _remainder(database, b)
            if keep_geometry_kind:
                kinds = np.unique(dimensions(a)[present(a)])
                right_kind = ~present(rest) | np.isin(dimensions(rest), kinds if len(kinds) else [0, 1, 2])
                dropped += int(shapely.get_num_geometries(rest[~right_kind]).sum())
                rest, places = rest[right_kind], places[right_kind]
            pieces.append((np.full(len(places), -1), places, rest))
    note("dropped_parts", dropped)
    at_left, at_right, geometries = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return _assembled(left, right, how, suffixes, at_left.astype("int64"), at_right.astype("int64"), geometries)


def _shared(database: Any) -> tuple[Array, Array, Array]:
    """Return the pairs and what each has in common."""
    found = fetch(
        database,
        "SELECT i, j, ST_AsWKB(ST_Intersection(a.g, b.g)) AS shape FROM pairs JOIN a ON i = a.row JOIN b ON j = b.row "
        "ORDER BY i, j",
    )
    return found["i"], found["j"], shapes(found["shape"])


def _remainder(database: Any, values: Array) -> tuple[Array, Array]:
    """Return what is left of the geometries of `a` outside their partners, and their positions."""
    import numpy as np

    from geocairn.operations.parts import present

    found = fetch(
        database,
        f"SELECT i, ST_AsWKB(ST_Difference(a.g, n.g)) AS shape FROM {_NEIGHBOURS} JOIN a ON a.row = i",  # noqa: S608
    )
    result = values.copy()
    result[found["i"]] = shapes(found["shape"])
    keep = np.flatnonzero(present(result) | ~present(values))
    return result[keep], keep


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
