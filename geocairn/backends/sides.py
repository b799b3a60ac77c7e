"""What a streamed computation reads and gives: layers in batches, and pieces of a result.

What always holds: the batches of a side, one after the other, are its layer; a side of no rows gives one batch of no
rows; and the pieces of a result, one after the other, are the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Side(Protocol):
    """One input of a streamed computation."""

    rows: int
    """In all."""
    batch_rows: int
    """In a batch, but for the last."""

    @property
    def kinds(self) -> set[str]:
        """The geometry kinds of the whole; missing and empty geometries count for none."""

    def nothing(self) -> Any:
        """Return the layer without its rows: columns, types, CRS."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the layer batch by batch; with `columns` frames of these alone. It can be gone through again."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a result, those that come next."""

    layer: Any
    before: Array | None = None
    """The geometries of the first input that its rows come from, one for each, where that is so."""


class FrameSide:
    """A layer in memory, in batches."""

    def __init__(self, layer: Any, batch_rows: int) -> None:
        self._layer = layer
        self.rows = len(layer)
        self.batch_rows = batch_rows

    @property
    def kinds(self) -> set[str]:
        """The geometry kinds of the whole."""
        from geocairn.kinds import kinds_of

        return kinds_of(self._layer)

    def nothing(self) -> Any:
        """Return the layer without its rows."""
        return self._layer.iloc[:0]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the layer batch by batch."""
        import pandas as pd

        layer = self._layer if columns is None else pd.DataFrame(self._layer)[list(columns)]
        for start in range(0, max(self.rows, 1), self.batch_rows):
            yield layer.iloc[start : start + self.batch_rows]


def numbered(side: Side) -> Iterator[tuple[int, Any]]:
    """Yield each batch of a side with the number of its first row."""
    start = 0
    for batch in side.batches():
        yield start, batch
        start += len(batch)
