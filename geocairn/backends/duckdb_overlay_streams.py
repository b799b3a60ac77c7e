"""Clip, overlay and dissolve in DuckDB batch by batch.

What always holds: as in `duckdb_streams`, the first layer passes by and the other lies in a table; where the result
begins anew with another part (what remains of the left rows, then of the right), its layer passes by once more. A
dissolve puts all geometries into a table and unites them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from geocairn.backends.claims import streamed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import fetch, fetch_parts, place, refuse_rows, shapes
from geocairn.backends.duckdb_overlay import (
    SHARED,
    check_clipped,
    check_mask,
    check_side,
    clipped_to,
    of_kinds,
    pair_sides,
    remainder,
)
from geocairn.backends.duckdb_tables import place_present, place_side
from geocairn.backends.sides import Piece, Side, numbered
from geocairn.notes import note, rows_from
from geocairn.operations.aggregation import Aggregates, dissolve, refuse_mixed_groups
from geocairn.operations.overlay import assembled_pieces, clip, overlay

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]


@streamed(clip, "duckdb")
def clip_stream(*, layer: Side, mask: Side, keep_geometry_kind: bool) -> Iterator[Piece]:
    """Clip batch by batch."""
    from geocairn.operations.layers import geometry_values

    with connection("clip") as database:
        place_side(database, "b", mask, "clip", check_mask)
        for first, batch in numbered(layer):
            values = geometry_values(batch)
            with rows_from(first):
                check_clipped(values, keep_geometry_kind)
                place_present(database, "a", values, "clip")
                result = clipped_to(database, batch, keep_geometry_kind)
            yield Piece(result)


@streamed(overlay, "duckdb")
def overlay_stream(
    *,
    left: Side,
    right: Side,
    how: str,
    keep_geometry_kind: bool,
    grid_size: float | None,
    suffixes: tuple[str, str],
) -> Iterator[Piece]:
    """Overlay: the parts in common, then what remains of the left, then what remains of the right."""
    import numpy as np

    note("dropped_parts", 0)
    none = left.nothing()
    kinds: set[int] = set()
    with connection("overlay") as database:
        _, table = place_side(database, "b", right, "overlay", lambda values: check_side(values, "right", how))

        def assembled(layer: Any, at_left: Array, at_right: Array, values: Array) -> Piece:
            return Piece(assembled_pieces(layer, table, how, suffixes, at_left, at_right, values))

        # Something of each type comes first, so that the result has its columns even if nothing follows.
        empty = np.zeros(0, dtype="int64")
        yield assembled(none, empty, empty, np.zeros(0, dtype=object))
        if how in ("intersection", "union", "identity"):
            for batch, count in _left_batches(database, left, how, kinds):
                for first, second, shared in _shared(database, batch, count, keep_geometry_kind, left.batch_rows):
                    yield assembled(batch, first, second, shared)
        if how != "intersection":
            for batch, _ in _left_batches(database, left, how, kinds):
                rest, places, lost = remainder(database, _values(batch), keep_geometry_kind)
                note("dropped_parts", lost)
                yield assembled(batch, places, np.full(len(places), -1), rest)
        if how in ("union", "symmetric_difference"):
            place_side(database, "b", left, "overlay")
            for start, batch in numbered(right):
                rest, places = _of_right(database, batch, sorted(kinds), keep_geometry_kind)
                yield assembled(none, np.full(len(places), -1), places + start, rest)


def _values(batch: Any) -> Array:
    from geocairn.operations.layers import geometry_values

    return geometry_values(batch)


def _left_batches(database: Any, left: Side, how: str, kinds: set[int]) -> Iterator[tuple[Any, int]]:
    """Yield the batches of the left, placed in `a` and paired, with the number of pairs; note the kinds there are."""
    from geocairn.operations.parts import dimensions, present

    for start, batch in numbered(left):
        values = _values(batch)
        with rows_from(start):
            check_side(values, "left", how)
            place_present(database, "a", values, "overlay")
        kinds.update(int(kind) for kind in set(dimensions(values)[present(values)]))
        yield batch, pair_sides(database)


def _shared(
    database: Any, batch: Any, count: int, keep_geometry_kind: bool, rows: int
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield what the pairs have in common, part by part: positions in the batch and in the right, geometries."""
    from geocairn.operations.parts import dimensions, keep_kind, present

    kinds = dimensions(_values(batch))
    for number in range(1, count + 1, rows):
        found = fetch(database, SHARED, [number, number + rows - 1])
        first, second, shared = found["i"], found["j"], shapes(found["shape"])
        if keep_geometry_kind:
            shared, dropped = keep_kind(shared, kinds[first])
            note("dropped_parts", dropped)
        some = present(shared)
        yield first[some], second[some], shared[some]


def _of_right(database: Any, batch: Any, kinds: list[int], keep_geometry_kind: bool) -> tuple[Array, Array]:
    """Return what remains of a batch of the right, and its positions there."""
    import numpy as np

    values = _values(batch)
    place_present(database, "a", values, "overlay")
    pair_sides(database)
    rest, places, lost = remainder(database, values, keep_geometry_kind)
    note("dropped_parts", lost)
    if keep_geometry_kind:
        right_kind, dropped = of_kinds(rest, np.array(kinds))
        note("dropped_parts", dropped)
        rest, places = rest[right_kind], places[right_kind]
    return rest, places


_UNITED = (
    "SELECT code, ST_AsWKB(CASE WHEN count(*) = 1 AND any_value(ST_Dimension(g)) <> 1 THEN any_value(g) "
    "ELSE ST_Union_Agg(g ORDER BY row) END) AS shape FROM layer GROUP BY code ORDER BY code"
)
"""The union of each group; a single polygon or point as it came, a line not, since union also nodes it."""


@streamed(dissolve, "duckdb")
def dissolve_stream(
    *,
    layer: Side,
    by: list[str] | None,
    aggregates: Aggregates,
    keep_null_keys: bool,
    method: str,
    grid_size: float | None,
) -> Iterator[Piece]:
    """Unite each group in DuckDB; of the layer only keys and what is aggregated is in memory as a whole."""
    import numpy as np

    from geocairn.operations.layers import assemble, geometry_name, group_codes

    asked: dict[str, Any] = {"by": by, "aggregates": aggregates, "keep_null_keys": keep_null_keys}
    nothing = layer.nothing()
    active = geometry_name(nothing)
    dissolve.function(nothing, **asked)  # it says what is wrong with columns
    frame = _columns(layer, [*(by or []), *aggregates])
    # The reference makes keys and aggregates, on the same rows without their geometry.
    bare = assemble(frame, active, np.full(len(frame), None, dtype=object), nothing.crs)
    table = dissolve.function(bare, **asked)
    complete = frame[by].notna().all(axis=1).to_numpy() if by and not keep_null_keys else np.ones(len(frame), bool)
    codes = np.full(len(frame), -1)
    codes[complete] = group_codes(bare[complete], by) if by else 0
    with connection("dissolve") as database:
        _place_groups(database, layer, codes, len(table))
        done = 0
        for found in fetch_parts(database, _UNITED, rows=layer.batch_rows):
            end = int(found["code"][-1]) + 1
            values = np.full(end - done, None, dtype=object)
            values[found["code"] - done] = shapes(found["shape"])
            yield Piece(assemble(table.iloc[done:end].reset_index(drop=True), active, values, nothing.crs))
            done = end
        rest = np.full(len(table) - done, None, dtype=object)
        yield Piece(assemble(table.iloc[done:].reset_index(drop=True), active, rest, nothing.crs))


def _columns(layer: Side, names: list[str]) -> pd.DataFrame:
    """Return some columns of a layer as a whole, without its geometry."""
    import pandas as pd

    if not names:
        return pd.DataFrame(index=pd.RangeIndex(layer.rows))
    wanted = [name for name in layer.nothing().columns if name in names]
    frames = list(layer.batches(wanted))
    return frames[0].reset_index(drop=True) if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def _place_groups(database: Any, side: Side, codes: Array, count: int) -> None:
    """Place the geometries, each with its group, in table `layer`.

    Raises
    ------
    InputFailure : for invalid polygons, and groups of several kinds of geometry.
    CapabilityFailure : for flat geometries beside such with Z.
    """
    import numpy as np
    import shapely

    from geocairn.operations.parts import COLLECTION, check_valid, dimensions, present

    lowest, highest = np.full(count, COLLECTION), np.full(count, -1)
    flat, solid = False, None
    more = False
    for first, batch in numbered(side):
        values = _values(batch)
        code = codes[first : first + len(values)]
        with rows_from(first):
            values = values.copy()
            values[code < 0] = None
            check_valid(values, "layer", "dissolve")
        some = present(values)
        kinds = dimensions(values)[some]
        np.minimum.at(lowest, code[some], kinds)
        np.maximum.at(highest, code[some], kinds)
        high = shapely.has_z(values) & some
        flat = flat or bool((some & ~high).any())
        solid = (first, high) if solid is None and high.any() else solid
        rows = np.flatnonzero(some) + first
        place(database, "layer", values[some], "dissolve", rows, more=more, code=code[some])
        more = True
    refuse_mixed_groups(((lowest < highest) & (highest >= 0)) | (highest == COLLECTION))
    if flat and solid is not None:
        with rows_from(solid[0]):
            refuse_rows(solid[1], "geometries with Z beside flat ones here", "dissolve")
