"""Every operation as a Prefect task: `from geocairn.tasks import buffer, overlay, step`.

Each name of the catalogue is a task; those of installed packages too. `step` makes one of your own function. What type
checkers see of them stands in `__init__.pyi`.
"""

from __future__ import annotations

from typing import Any

from geocairn.nearest import did_you_mean
from geocairn.operations.registry import operations
from geocairn.tasks.step import StepTask, step

__all__ = ["StepTask", "step"]

_made: dict[str, StepTask] = {}


def __getattr__(name: str) -> Any:
    """Return the task of an operation, made when it is first asked for."""
    if name in _made:
        return _made[name]
    if name.startswith("_") or name not in operations:
        hint = "" if name.startswith("_") else did_you_mean(name, operations)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return _made.setdefault(name, step(operations[name]))


def __dir__() -> list[str]:
    return sorted([*__all__, *operations])
