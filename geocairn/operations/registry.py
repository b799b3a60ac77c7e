"""Which operations exist: the project's own by theme, and those that installed packages declare.

A package declares operations by an entry point in the group `geocairn.operations`, whose value is a module (all
operations in it) or a single operation. A name can be taken once: an entry point that claims a taken one is refused,
so that nobody's plan silently changes its meaning.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from types import ModuleType

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.operations.contract import Operation

ENTRY_POINT_GROUP = "geocairn.operations"

THEMES = (
    "reading_writing",
    "projection",
    "geometry",
    "buffers",
    "hulls",
    "vertices",
    "snapping",
    "coordinates",
    "validity",
    "multipart",
    "lines",
    "splitting",
    "overlay",
    "joins",
    "attribute_joins",
    "selection",
    "extent",
    "columns",
    "combination",
    "aggregation",
    "summaries",
    "tessellation",
    "grids",
)

BACKENDS = "geocairn.backends"
"""The package that says, when imported, which operations the other backends claim; it loads no engine."""


class Operations(Mapping[str, Operation]):
    """All operations by name, found when first asked for."""

    @cached_property
    def _found(self) -> dict[str, Operation]:
        found: dict[str, Operation] = {}
        for theme in THEMES:
            found.update(_operations_of(importlib.import_module(f"geocairn.operations.{theme}")))
        importlib.import_module(BACKENDS)
        for entry in entry_points(group=ENTRY_POINT_GROUP):
            target = entry.load()
            declared = {target.name: target} if isinstance(target, Operation) else _operations_of(target)
            for name, operation in declared.items():
                if name in found and found[name] is not operation:
                    raise ValueError(
                        f"entry point {entry.name!r} of {ENTRY_POINT_GROUP} declares the operation {name!r}, "
                        "which exists already: give it another name"
                    )
                found[name] = operation
        return found

    def __getitem__(self, name: str) -> Operation:
        try:
            return self._found[name]
        except KeyError:
            raise KeyError(f"there is no operation {name!r}{did_you_mean(name, self._found)}") from None

    def get_known(self, name: str) -> Operation:
        """Return the operation of that name.

        Raises
        ------
        InputFailure : when there is none, with the nearest right name.
        """
        if name not in self._found:
            raise InputFailure(f"there is no operation {name!r}{did_you_mean(name, self._found)}")
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found


def _operations_of(module: ModuleType) -> dict[str, Operation]:
    return {
        value.name: value
        for value in vars(module).values()
        if isinstance(value, Operation) and value.function.__module__ == module.__name__
    }


operations = Operations()
