"""A step computed batch by batch, for layers that do not fit in memory: read, compute, gate, keep, one batch at a time.

When a step runs on a backend that can stream it, its inputs' layers are at rest in the store, and they are too large
for memory (or memory did not suffice in the attempt before), it takes this way. What always holds: rows, types, facts,
notes and caveats are those of the way through whole layers, and so is the file; nothing is written to the store before
the gate has passed the whole.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geocairn.available_memory import available_memory, give_back, parse_bytes
from geocairn.backends.claims import Stream, stream_of
from geocairn.backends.sides import FrameSide, Side
from geocairn.came_in import PassingLayer, PassingLayers
from geocairn.checkpoint import Checkpoint, LayerFacts
from geocairn.failure import CapabilityFailure, FatalFailure
from geocairn.gate import Admission, Passed, Terms
from geocairn.notes import Notes, collecting
from geocairn.operations.contract import parameter_values
from geocairn.operations.preconditions import check_inputs, check_kinds
from geocairn.step_call import StepCall
from geocairn.stores.layer_batches import BATCH_ROWS, opened_layer
from geocairn.stores.layer_spool import LayerSpool

VARIABLE = "GEOCAIRN_STREAM_FROM"
"""From what size of its inputs' files on (bytes, or as in `200MB`) a step on a backend that can stream is streamed."""

EXPANSION = 20
"""How many times the size of its file a layer may take in memory while a step is computed from it as a whole (measured:
13 to 27 times, for polygons and points)."""

SHARE = 0.5
"""The share of the memory available that a step's layers may take as a whole, where no size is stated."""


@dataclass(frozen=True)
class Computed:
    """What computing a step gave, once it has passed the gate."""

    passed: Passed
    """Its layer is a `LayerSpool` where it was computed batch by batch."""
    notes: Notes
    seconds: float
    """Of computing, without gate and storing."""


def stream_for(call: StepCall) -> Stream | None:
    """Return the streamed implementation of a step if it is to be computed that way.

    Raises
    ------
    FatalFailure : when the setting that says from what size on is no size.
    """
    inputs = list(call.inputs.values())
    stream = stream_of(call.operation, call.parameters, call.backend)
    if stream is None or any(isinstance(item, list | tuple) for item in inputs):
        return None
    size = sum(item.layer.size for item in inputs if isinstance(item, Checkpoint) and item.layer is not None)
    return stream if size and (call.after_memory or size >= _least_size()) else None


def _least_size() -> float:
    stated = os.environ.get(VARIABLE, "").strip()
    if stated:
        size = parse_bytes(stated)
        if size is None:
            raise FatalFailure(
                f"{stated!r} is no size", where=VARIABLE, remedy="write it as bytes, or with a unit, such as 200MB"
            )
        return size
    available = available_memory()
    return float("inf") if available is None else available * SHARE / EXPANSION


def streamed(
    call: StepCall,
    stream: Stream,
    spool: LayerSpool,
    at_end: ExitStack,
    *,
    opened: Callable[[Checkpoint], AbstractContextManager[Path]],
    loaded: Callable[[Any], Any],
    batch_rows: int | None = None,
) -> Computed:
    """Compute a step batch by batch, and pass the gate.

    Parameters
    ----------
    spool : where the result is kept; empty.
    at_end : closes what stays open until then.
    opened : gives the file of a layer at rest.
    loaded : gives a layer that is not at rest, as a whole.
    batch_rows : rows in a batch; by default as many as fit well in memory.

    Raises
    ------
    InputFailure : for wrong inputs, or an unsound result.
    CapabilityFailure : when the backend cannot compute it.
    """
    sides: dict[str, _Watched] = {}
    for role, item in call.inputs.items():
        side: Any
        if isinstance(item, Checkpoint) and item.layer is not None:
            side = at_end.enter_context(opened_layer(at_end.enter_context(opened(item)), batch_rows))
        else:
            side = FrameSide(loaded(item), batch_rows or BATCH_ROWS)
        sides[role] = _Watched(side, item.facts if isinstance(item, Checkpoint) else None)
    check_inputs(call.operation, {role: side.nothing() for role, side in sides.items()}, call.parameters)
    for role, side in sides.items():
        check_kinds(call.operation, role, side.kinds)
    settings = call.settings
    terms = Terms(
        call.where, call.operation, call.parameters, (), settings.expect, settings.allow_empty, settings.repair
    )
    admission = Admission(terms, PassingLayers([side.passing for side in sides.values()]))
    pieces = stream(**sides, **parameter_values(call.parameters))
    notes = Notes()
    columns: list[str] = []
    seconds = 0.0
    while True:
        started = time.perf_counter()
        with collecting() as more:
            piece = next(pieces, None)
        seconds += time.perf_counter() - started
        add_notes(notes, more)
        if piece is None:
            break
        columns = columns or list(piece.layer.columns)
        spool.add(admission.take(piece.layer, piece.before))
    for value in notes.facts.values():
        if _by_rows(value) and all("column" in item for item in value):
            value.sort(key=lambda item: columns.index(item["column"]))
    return Computed(admission.passed(spool, spool.boxes()), notes, seconds)


class _Watched:
    """A side whose batches are seen by the gate, once each, as they pass by."""

    def __init__(self, side: Side, facts: LayerFacts | None) -> None:
        self._side = side
        self.rows = side.rows
        self.batch_rows = side.batch_rows
        self.passing = PassingLayer(side.nothing().crs, side.rows, facts)
        self._kinds = set(self.passing.kinds) if facts is not None else side.kinds

    @property
    def kinds(self) -> set[str]:
        """The geometry kinds of the whole."""
        return self._kinds

    def nothing(self) -> Any:
        """Return the layer without its rows."""
        return self._side.nothing()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the layer batch by batch."""
        for batch in self._side.batches(columns):
            self.passing.take(batch)
            yield batch


def add_notes(notes: Notes, more: Notes) -> None:
    """Add what was reported of the next batch: numbers add up, and so do the rows of what is told by rows.

    Raises
    ------
    CapabilityFailure : for a fact that differs between batches and does not add up.
    """
    notes.caveats += [text for text in more.caveats if text not in notes.caveats]
    for name, value in more.facts.items():
        before = notes.facts.get(name)
        if before is None or before == value == []:
            notes.facts[name] = value
        elif _is_number(before) and _is_number(value):
            notes.facts[name] = before + value
        elif _by_rows(before) and _by_rows(value):
            notes.facts[name] = _added_by_rows(before, value)
        elif before != value:
            raise CapabilityFailure(
                f"the batches of the layer differ in {name}: {before!r} and {value!r}",
                remedy="use backend geopandas for this step",
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _by_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) and "rows" in item for item in value)


def _added_by_rows(before: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    result = [dict(item) for item in before]
    for item in more:
        rest = {name: value for name, value in item.items() if name != "rows"}
        same = [one for one in result if {**one, "rows": 0} == {**rest, "rows": 0}]
        if same:
            same[0]["rows"] += item["rows"]
        else:
            result.append(dict(item))
    return result


def let_layers_go(error: BaseException) -> None:
    """Free what an error's traceback holds: the layers of an attempt that failed are in the way of the next one."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        current = current.__cause__ or current.__context__
    give_back()
