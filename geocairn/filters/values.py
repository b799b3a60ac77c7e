"""The values that an expression compares and calculates with: what they are, times in UTC, geometries, patterns.

What always holds: a value is told by the same few words in every complaint; times are compared in UTC, and one without
a zone is taken to be in UTC.
"""

from __future__ import annotations

import json
import re
from typing import Any

from geocairn.failure import InputFailure


def shown(node: Any) -> str:
    """Return a part of an expression in words, for a complaint."""
    if isinstance(node, dict) and "property" in node:
        return f"column {node['property']!r}"
    return repr(node) if not isinstance(node, dict) else f"the part with {next(iter(node.values()))!r}"


def type_word(value: Any) -> str | None:
    """Return what a value is, in words for a complaint; None where it cannot be known (a column of missing values)."""
    import datetime

    import numpy as np
    import pandas as pd

    if isinstance(value, pd.Series):
        dtype = value.dtype
        if dtype.name == "geometry":
            return "geometry"
        if pd.api.types.is_bool_dtype(dtype):
            return "true or false"
        if pd.api.types.is_numeric_dtype(dtype):
            return "a number"
        if getattr(dtype, "kind", "") == "M" or pd.api.types.is_datetime64_any_dtype(dtype):
            return "a time"
        if dtype.kind != "O" or not isinstance(dtype, np.dtype):
            return "text" if pd.api.types.is_string_dtype(dtype) else None
        first = value.dropna()
        return type_word(first.iloc[0]) if len(first) else None
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, datetime.date):
        return "a time"
    return "geometry" if hasattr(value, "geom_type") else None


def aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both sides of a comparison of times in UTC; anything else as it is."""
    if "a time" not in (type_word(left), type_word(right)):
        return left, right
    return utc(left), utc(right)


def utc(value: Any) -> Any:
    """Return times in UTC; a time without a zone is taken to be in UTC."""
    import pandas as pd

    if isinstance(value, pd.Series) and type_word(value) == "a time":
        return pd.to_datetime(value, utc=True)
    return value


def instant(text: Any, what: str, where: str) -> Any:
    """Return the moment that an expression states, in UTC; None for an open end.

    Raises
    ------
    InputFailure : for text that is no time.
    """
    import pandas as pd

    if text == "..":
        return None
    if isinstance(text, dict):
        text = text.get("timestamp", text.get("date"))
    try:
        moment = pd.Timestamp(str(text))
    except ValueError:
        raise InputFailure(
            f"in {what}, {text!r} is no time", where=where, remedy="write it as 2026-11-30 or 2026-11-30T12:00:00Z"
        ) from None
    return moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")


def literal_geometry(node: dict[str, Any], what: str = "the filter", where: str = "filter") -> Any:
    """Return the geometry that an expression states: a box, or GeoJSON.

    Raises
    ------
    InputFailure : for one that cannot be read.
    """
    import shapely

    if "bbox" in node:
        box = node["bbox"]
        return shapely.box(box[0], box[1], box[len(box) // 2], box[len(box) // 2 + 1])
    try:
        return shapely.from_geojson(json.dumps(node))
    except shapely.errors.GEOSException as error:
        raise InputFailure(
            f"in {what}, a geometry cannot be read: {error}", where=where, remedy="write it as WKT: POINT(10 50)"
        ) from None


def pattern_of(pattern: str) -> str:
    """Return the regular expression (RE2's) of a LIKE pattern: % any text, _ one letter, \\ before a plain one."""
    out: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == "\\":
            out.append(re.escape(next(letters, "\\")))
        elif letter == "%":
            if not out or out[-1] != ".*":
                out.append(".*")
        else:
            out.append("." if letter == "_" else re.escape(letter))
    return rf"(?s)\A{''.join(out)}\z"
