"""Facts about a CRS by its name, remembered on this machine so that a plan can be checked without loading PROJ again.

The memory is keyed by the version of pyproj beside the name, so that another PROJ database is asked again.
"""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from geocairn.failure import InputFailure
from geocairn.memory import Memory


@dataclass(frozen=True)
class CRSFacts:
    """What the plan check needs to know of a CRS."""

    name: str
    """`EPSG:5070`, or the CRS's name where it has no authority code."""
    geographic: bool
    """Whether its coordinates are degrees."""
    unit: str | None
    """Name of the unit of its first axis."""


@cache
def proj_signature() -> str | None:
    """Return what tells this PROJ installation from another, without loading it: its database's size and time.

    None where the database does not lie within pyproj: then nothing about PROJ can be remembered.
    """
    spec = importlib.util.find_spec("pyproj")
    if spec is None or spec.origin is None:
        return None
    database = Path(spec.origin).parent / "proj_dir" / "share" / "proj" / "proj.db"
    try:
        status = database.stat()
    except OSError:
        return None
    return f"{spec.origin} {status.st_size} {status.st_mtime_ns}"


def describe_crs(text: str, memory: Memory | None = None) -> CRSFacts:
    """Return the facts of the CRS that `text` names (an authority code, WKT, PROJJSON or a PROJ string).

    Raises
    ------
    InputFailure : when PROJ does not know it.
    """
    signature = proj_signature()
    memory = memory or Memory()
    key = f"{signature}\n{text}"
    known = memory.get("crs", key) if signature is not None else None
    if known is not None and set(known) == {"name", "geographic", "unit"}:
        return CRSFacts(**known)
    facts = _ask_proj(text)
    if signature is not None:
        memory.put("crs", key, asdict(facts))
    return facts


def crs_label(crs: Any) -> str:
    """Return `EPSG:5070` where the CRS has an authority code, else its name."""
    if crs is None:
        return "an unknown CRS"
    authority = crs.to_authority(min_confidence=100)
    return ":".join(authority) if authority else str(crs.name)


def _ask_proj(text: str) -> CRSFacts:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        crs = CRS.from_user_input(text)
    except CRSError as error:
        raise InputFailure(
            f"PROJ knows no CRS {text!r}",
            remedy="write an authority code such as EPSG:5070, or WKT",
        ) from error
    authority = crs.to_authority(min_confidence=100)
    unit = crs.axis_info[0].unit_name if crs.axis_info else None
    return CRSFacts(":".join(authority) if authority else crs.name, bool(crs.is_geographic), unit)
