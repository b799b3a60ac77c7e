"""What a file says of itself before it is read: CRS, kinds, columns, rows; in one vocabulary for all formats.

What always holds: column types are told by the same few words whatever the format (`integer`, `number`, `text`,
`boolean`, `date`, `time`, `datetime`, `binary`, `geometry`, `category`, `list`, `other`), kinds by `point`, `line` and
`polygon`, and no kinds at all means that the file does not say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Header:
    """What a file says of itself."""

    columns: dict[str, str]
    """Attribute columns in the file's order, and the type of each; the active geometry column is not among them."""
    geometry_column: str
    """Empty for a table."""
    kinds: tuple[str, ...] = ()
    rows: int | None = None
    crs: Any = None
    """A pyproj CRS; None where the file has none."""
    crs_by_default: bool = False
    """Whether the CRS is what the format supposes, not what the file says."""
    layer: str | None = None
    encoding: str | None = None
    """How the text is to be decoded, where that is not certain."""
    remarks: list[str] = field(default_factory=list)
    """Sentences for the reader about what the file is."""


def kinds_of_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds that geometry type names stand for; none when one of them may be anything."""
    found = set()
    for name in names:
        lowered = name.lower()
        if "point" in lowered:
            found.add("point")
        elif "line" in lowered or ("curve" in lowered and "polygon" not in lowered):
            found.add("line")
        elif "polygon" in lowered or "surface" in lowered or lowered.startswith(("tin", "triangle")):
            found.add("polygon")
        else:
            return ()
    return tuple(kind for kind in ("point", "line", "polygon") if kind in found)


def type_of_ogr(name: str, subtype: str) -> str:
    """Return the word for a GDAL field type."""
    if subtype == "OFSTBoolean":
        return "boolean"
    if name.endswith("List"):
        return "list"
    return {
        "OFTInteger": "integer",
        "OFTInteger64": "integer",
        "OFTReal": "number",
        "OFTString": "text",
        "OFTDate": "date",
        "OFTTime": "time",
        "OFTDateTime": "datetime",
        "OFTBinary": "binary",
    }.get(name, "other")


def type_of_arrow(kind: Any) -> str:
    """Return the word for an Arrow type."""
    from pyarrow import types

    tests = (
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (types.is_floating, "number"),
        (types.is_decimal, "number"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_timestamp, "datetime"),
        (types.is_dictionary, "category"),
        (types.is_nested, "list"),
    )
    for test, word in tests:
        if test(kind):
            return word
    text = str(kind)
    if "string" in text:
        return "text"
    return "binary" if "binary" in text else "other"
