"""Planners: whoever changes a plan after an input failure. A function, an agent, anything that can be called.

A planner takes the plan, the failed step and a diagnosis, and returns a changed plan. An installed package declares it
by an entry point in the group `geocairn.planners`. What always holds: a plan names a planner and never brings one; what
it states is looked up among the entry points of installed packages, and is imported only when it is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from geocairn.failure import FatalFailure, InputFailure
from geocairn.nearest import did_you_mean
from geocairn.plan.complaint import Complaint, PlanError

if TYPE_CHECKING:
    from geocairn.plan.document import Document
    from geocairn.plan.model import Plan

ENTRY_POINT_GROUP = "geocairn.planners"

Propose = Callable[[dict[str, Any], str, dict[str, Any]], "Mapping[str, Any] | Plan | None"]
"""`planner(plan, step, diagnosis)`: the changed plan; None, or the same plan, when it knows no better one."""


@dataclass(frozen=True)
class Planner:
    """A planner that was found under its name."""

    name: str
    propose: Propose


def declared_planner(name: str) -> EntryPoint:
    """Return the entry point of a planner, without importing it.

    Parameters
    ----------
    name : the name of an entry point in the group `geocairn.planners`, or `module:callable` where an installed entry
        point of that group has exactly this value.

    Raises
    ------
    InputFailure : when no installed package declares it, with those that are declared; or when two do.
    """
    declared = list(entry_points(group=ENTRY_POINT_GROUP))
    found = {_value(entry): entry for entry in declared if name in (entry.name, _value(entry))}
    if not found:
        known = {entry.name for entry in declared}
        none = "" if known else "; none is installed"
        raise InputFailure(
            f"there is no planner {name!r}{did_you_mean(name, known)}{none}",
            remedy=f"a planner is declared by an installed package, as an entry point in the group {ENTRY_POINT_GROUP}",
        )
    if len(found) > 1:
        raise InputFailure(
            f"two installed packages declare a planner {name!r}: {', '.join(sorted(found))}",
            remedy="name it by one of these values",
        )
    return next(iter(found.values()))


def stated_planner(stated: str | None, document: Document) -> str | None:
    """Return the name of a run's planner, which is installed: the command line's or the deployment's, else the plan's.

    Raises
    ------
    InputFailure : for a stated one that is not installed.
    PlanError : for one of the plan that is not installed.
    """
    if stated:
        declared_planner(stated)
        return stated
    named = document.values.get("planner")
    if not isinstance(named, str) or not named:
        return None  # what is no name the check complains of
    try:
        declared_planner(named)
    except InputFailure as failure:
        line = document.line(("planner",))
        raise PlanError([Complaint(str(failure), line=line, field="planner")], document.name) from None
    return named


def load_planner(name: str) -> Planner:
    """Return an installed planner, imported.

    Raises
    ------
    InputFailure : when it is not installed.
    FatalFailure : when it cannot be loaded, or cannot be called.
    """
    entry = declared_planner(name)
    try:
        propose = entry.load()
    except Exception as error:
        told = f"it cannot be loaded from {_value(entry)}: {type(error).__name__}: {error}"
        raise FatalFailure(told, where=f"planner {name}") from error
    if not callable(propose):
        raise FatalFailure(f"{_value(entry)} cannot be called", where=f"planner {name}")
    return Planner(name, propose)


def _value(entry: EntryPoint) -> str:
    """Return `module:callable`, without the extras that an entry point may name."""
    return f"{entry.module}:{entry.attr}" if entry.attr else entry.module
