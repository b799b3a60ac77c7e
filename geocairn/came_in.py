"""What a result was made from, as far as the gate asks after it: kinds, CRS, rows, and the defects that were there.

Two ways to know the same: from whole layers, looked at only when a question is asked; and from layers that pass by in
batches, where a checkpoint's recorded facts answer what they can, and the rest is gathered as the batches go by. What
always holds: both ways answer alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from geocairn.checkpoint import LayerFacts
from geocairn.expectation import kinds_of_types
from geocairn.kinds import kinds_of
from geocairn.layer_survey import has_geometry


@dataclass
class Invalid:
    """The invalid geometries that came in."""

    known: set[bytes] = field(default_factory=set)
    """Digests of their Well-Known Binary."""
    count: int = 0
    parts: int = 0
    """Their single parts."""

    def add(self, values: Any) -> None:
        """Look for more among these geometries."""
        import shapely

        found = values[~shapely.is_missing(values) & ~shapely.is_valid(values)]
        self.known.update(digests(found))
        self.count += len(found)
        self.parts += int(shapely.get_num_geometries(found).sum())


class CameIn(Protocol):
    """What the gate asks of the layers that a result was made from."""

    def crs(self) -> list[Any]:
        """The CRS of each layer that has geometry."""

    def rows(self) -> int | None:
        """The number of rows of the first; None where there is none."""

    def kinds(self) -> list[set[str]]:
        """The geometry kinds of each layer that has geometry, those within collections included."""

    def before(self, count: int) -> Any | None:
        """The geometries that a result of `count` rows for rows came from, one for each; None where not known."""

    def invalid(self, *, first: bool) -> Invalid:
        """The invalid geometries of the first layer, or of all."""

    def bare(self, *, first: bool) -> int:
        """How many geometries of the first layer, or of all, are missing or empty."""


class WholeLayers:
    """Layers in memory."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self._layers = layers
        self._with_geometry = [layer for layer in layers if has_geometry(layer)]
        self._invalid: dict[bool, Invalid] = {}

    def crs(self) -> list[Any]:
        """Return the CRS of each layer that has geometry."""
        return [layer.crs for layer in self._with_geometry]

    def rows(self) -> int | None:
        """Return the number of rows of the first."""
        return len(self._layers[0]) if self._layers else None

    def kinds(self) -> list[set[str]]:
        """Return the geometry kinds of each layer that has geometry."""
        return [kinds_within(layer) for layer in self._with_geometry]

    def before(self, count: int) -> Any | None:
        """Return the geometries of the first layer, if it has so many rows."""
        if not self._layers or not has_geometry(self._layers[0]):
            return None
        values = geometries(self._layers[0])
        return values if len(values) == count else None

    def invalid(self, *, first: bool) -> Invalid:
        """Return the invalid geometries."""
        if first not in self._invalid:
            found = self._invalid[first] = Invalid()
            for layer in self._asked(first):
                found.add(geometries(layer))
        return self._invalid[first]

    def bare(self, *, first: bool) -> int:
        """Return how many geometries are missing or empty."""
        return sum(int(is_bare(geometries(layer)).sum()) for layer in self._asked(first))

    def _asked(self, first: bool) -> Iterable[Any]:
        return [layer for layer in self._layers[: 1 if first else None] if has_geometry(layer)]


class PassingLayer:
    """One layer that passes by in batches.

    Parameters
    ----------
    crs : its CRS.
    rows : how many rows it has in all.
    facts : what its checkpoint's record says of it; None where there is none.
    """

    def __init__(self, crs: Any, rows: int, facts: LayerFacts | None) -> None:
        self.crs = crs
        self.rows = rows
        self.kinds: set[str] = set(kinds_of_types(facts.geometry_types)) if facts is not None else set()
        self.bare = facts.missing + facts.empty if facts is not None else 0
        self.invalid = Invalid()
        self._facts = facts
        self._seen = 0

    def take(self, layer: Any) -> None:
        """Note what the record does not say of the next batch. A layer may pass twice: it is looked at once."""
        if self._seen >= self.rows or not has_geometry(layer):
            return
        self._seen += len(layer)
        values = geometries(layer)
        if self._facts is None:
            self.bare += int(is_bare(values).sum())
        if self._facts is None or "collection" in self.kinds:
            self.kinds |= kinds_within(layer)
        if self._facts is None or self._facts.invalid:
            self.invalid.add(values)


class PassingLayers:
    """Layers that pass by in batches, in the order of roles."""

    def __init__(self, layers: Sequence[PassingLayer]) -> None:
        self._layers = layers

    def crs(self) -> list[Any]:
        """Return the CRS of each layer."""
        return [layer.crs for layer in self._layers]

    def rows(self) -> int | None:
        """Return the number of rows of the first."""
        return self._layers[0].rows if self._layers else None

    def kinds(self) -> list[set[str]]:
        """Return the geometry kinds of each layer."""
        return [layer.kinds for layer in self._layers]

    def before(self, count: int) -> Any | None:
        """Return nothing: each batch of a result is told what it came from."""
        return None

    def invalid(self, *, first: bool) -> Invalid:
        """Return the invalid geometries that have passed so far."""
        asked = self._layers[: 1 if first else None]
        if len(asked) == 1:
            return asked[0].invalid
        found = [layer.invalid for layer in asked]
        return Invalid(
            set().union(*(one.known for one in found)),
            sum(one.count for one in found),
            sum(one.parts for one in found),
        )

    def bare(self, *, first: bool) -> int:
        """Return how many geometries are missing or empty."""
        return sum(layer.bare for layer in self._layers[: 1 if first else None])


def kinds_within(layer: Any) -> set[str]:
    """Return the kinds of a layer, and those of what its collections hold."""
    kinds = kinds_of(layer)
    if "collection" in kinds:
        from geocairn.operations.parts import KIND_NAMES, dimensions, single_parts

        parts, _ = single_parts(layer.geometry.values)
        kinds |= {KIND_NAMES[number] for number in {int(number) for number in dimensions(parts)} & set(KIND_NAMES)}
    return kinds


def geometries(layer: Any) -> Any:
    """Return the active geometry column as an array of geometries."""
    import numpy as np

    return np.asarray(layer.geometry.values)


def is_bare(values: Any) -> Any:
    """Return which geometries are missing or empty."""
    import shapely

    return shapely.is_missing(values) | shapely.is_empty(values)


def digests(values: Any) -> list[bytes]:
    """Return a digest of each geometry's Well-Known Binary."""
    import shapely

    return [hashlib.blake2b(coded, digest_size=16).digest() for coded in shapely.to_wkb(values)]
