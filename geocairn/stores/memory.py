"""Layers handed over in memory within a run, under a byte budget.

What always holds: a layer that is handed over equals in every type what reading it from the store would give; each
consumer has a copy of its own, so that changing one never shows in another; and what does not fit is simply not kept,
for the store has it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

from geocairn.available_memory import parse_bytes
from geocairn.failure import InputFailure

VARIABLE = "GEOCAIRN_MEMORY_BUDGET"

DEFAULT_BUDGET = 1 << 30
"""Bytes: 1 GiB."""

_GEOMETRY_BYTES = 160
"""What a geometry takes beside its coordinates: the Python object and GEOS' own."""


class HandOver:
    """Layers by fingerprint, the least recently used going first. May be used from several threads.

    Parameters
    ----------
    budget : bytes; by default `$GEOCAIRN_MEMORY_BUDGET` (as in `512MiB`), else 1 GiB. 0 keeps nothing.
    """

    def __init__(self, budget: int | None = None) -> None:
        self.budget = budget_from_environment() if budget is None else budget
        self._layers: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes in use, as estimated."""
        return self._used

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._layers

    def put(self, fingerprint: str, layer: Any) -> bool:
        """Keep a layer, letting others go where it needs their room; false where it cannot fit."""
        size = estimate(layer)
        if size > self.budget:
            return False
        from geocairn.stores.layers import handed_over

        kept = handed_over(layer)
        with self._lock:
            self._remove(fingerprint)
            while self._layers and self._used + size > self.budget:
                self._remove(next(iter(self._layers)))
            self._layers[fingerprint] = (kept, size)
            self._used += size
        return True

    def get(self, fingerprint: str) -> Any:
        """Return a copy of the layer that belongs to the caller, or None where it is not kept."""
        with self._lock:
            found = self._layers.get(fingerprint)
            if found is None:
                return None
            self._layers.move_to_end(fingerprint)
        return own_copy(found[0])

    def discard(self, fingerprint: str) -> None:
        """Let a layer go."""
        with self._lock:
            self._remove(fingerprint)

    def clear(self) -> None:
        """Let all layers go."""
        with self._lock:
            self._layers.clear()
            self._used = 0

    def _remove(self, fingerprint: str) -> None:
        found = self._layers.pop(fingerprint, None)
        if found is not None:
            self._used -= found[1]


def own_copy(layer: Any) -> Any:
    """Return a copy whose changes never show in `layer`, nor the other way round; geometries are shared."""
    import copy

    result = layer.copy(deep=True)
    for name in result.columns:
        # A deep copy by pandas copies references: lists and mappings in a column would be shared.
        if result[name].dtype == object and result[name].map(_is_mutable).any():
            result[name] = type(result[name])(
                [copy.deepcopy(value) for value in result[name]], index=result.index, dtype=object
            )
    return result


def _is_mutable(value: Any) -> bool:
    return isinstance(value, list | dict | set | bytearray) or hasattr(value, "__array_interface__")


def estimate(layer: Any) -> int:
    """Return about how many bytes a layer takes in memory, the coordinates of its geometries included."""
    import shapely

    size = int(layer.memory_usage(index=True, deep=True).sum())
    for name, dtype in zip(layer.columns, layer.dtypes, strict=True):
        if str(dtype) == "geometry":
            values = layer[name].to_numpy()
            dimensions = 2 + int(shapely.has_z(values).any()) + int(shapely.has_m(values).any())
            size += int(shapely.get_num_coordinates(values).sum()) * 8 * dimensions + _GEOMETRY_BYTES * len(values)
    return size


def budget_from_environment() -> int:
    """Return the budget that the environment states, in bytes, or the default.

    Raises
    ------
    InputFailure : for something that is not a number of bytes.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT_BUDGET
    size = parse_bytes(text)
    if size is None:
        raise InputFailure(f"{text!r} is no amount of memory", where=VARIABLE, remedy="write bytes, or as in 512MiB")
    return size
