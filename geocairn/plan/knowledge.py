"""What is known of a result before it is computed: CRS and geometry kinds, carried from sources through the steps.

What always holds: what is not known is left open, never guessed, so that a plan is refused beforehand only for what
the run would refuse too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from geocairn.crs import describe_crs
from geocairn.operations.contract import KINDS, Operation, Role
from geocairn.sources.source import Source

_AUTHORITY_CODE = re.compile(r"[A-Z][A-Z0-9_]*:[A-Za-z0-9_.]+\Z")


class KnownSource(Protocol):
    """What a description of a source must tell."""

    crs_name: str | None
    geographic: bool | None
    kinds: tuple[str, ...]


Describe = Callable[[Source], KnownSource | None]
"""Returns what is known of a source; raises InputFailure for one that cannot be used; None where nothing is known."""


@dataclass(frozen=True)
class Known:
    """What is known of a node's result before it is computed."""

    crs: str | None = None
    """`EPSG:5070`, or the CRS's name where it has no authority code."""
    geographic: bool | None = None
    crs_known: bool = False
    kinds: tuple[str, ...] = ()
    """Geometry kinds that may occur; none when that is not known."""
    definition: str | None = None
    """PROJJSON, WKT or an authority code: what to compare the CRS by."""
    table: bool = False
    """Whether it is a table without geometry."""


def known_of_crs(text: str, kinds: tuple[str, ...] = ()) -> Known:
    """Return what is known of a layer in the CRS that `text` names.

    Raises
    ------
    InputFailure : when PROJ does not know it.
    """
    facts = describe_crs(text)
    return Known(facts.name, facts.geographic, True, kinds, text)


def known_of_source(described: KnownSource) -> Known:
    """Return what is known of a source from its description."""
    if getattr(described, "table", False):
        return Known(table=True)
    definition = getattr(described, "crs", None) or described.crs_name
    return Known(
        described.crs_name, described.geographic, described.crs_name is not None, tuple(described.kinds), definition
    )


def known_of_result(operation: Operation, parameters: BaseModel, first: Known) -> Known:
    """Return what is known of an operation's result from what is known of its first input."""
    promise = operation.promised(parameters)
    if promise.kind == "table" or (promise.kind == "same" and first.table):
        return Known(table=True)
    kinds = first.kinds if promise.kind == "same" else (promise.kind,) if promise.kind in KINDS else ()
    if promise.crs == "same":
        return Known(first.crs, first.geographic, first.crs_known, kinds, first.definition)
    stated: Any = getattr(parameters, promise.crs, None)
    return known_of_crs(stated, kinds) if isinstance(stated, str) else Known(kinds=kinds)


def wrong_kinds(role: Role, facts: Known) -> list[str]:
    """Return the kinds for which a layer cannot be this input; none where some kind will do, or none is known."""
    if not facts.kinds or set(facts.kinds) & set(role.kinds):
        return []
    return sorted(set(facts.kinds) - set(role.kinds))


def differ_in_crs(left: Known, right: Known) -> bool:
    """Return whether two layers are known to be in different CRS, compared as the run compares them."""
    if not (left.crs_known and right.crs_known) or left.definition == right.definition:
        return False
    if left.crs == right.crs and _is_code(left):
        return False
    if left.definition is None or right.definition is None:
        return _is_code(left) and _is_code(right)
    from pyproj import CRS

    return bool(CRS.from_user_input(left.definition) != CRS.from_user_input(right.definition))


def _is_code(known: Known) -> bool:
    return known.crs is not None and _AUTHORITY_CODE.match(known.crs) is not None
