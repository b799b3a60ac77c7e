"""Which row groups of a Parquet file can hold a row that is asked for, by the bounds that the file states of each.

What always holds: this only leaves out what cannot match; the exact filters are applied to what is read. So whatever
is not understood, or not stated, may match: a condition on anything but one column and fixed values, bounds that are
not there, values of another type, numbers so close that rounding might decide.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from geocairn.filters.language import EXACT_INTEGER

Box = tuple[float, float, float, float]
_DAY = datetime.timedelta(days=1)
"""More than any time zone or the difference between a day and its start makes."""
_WITHOUT_NAN = ("BOOLEAN", "INT32", "INT64", "INT96", "BYTE_ARRAY")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Bounds:
    """What is known of a column's values in one row group."""

    low: Any = None
    high: Any = None
    """Both None where it is not known."""
    nulls: int | None = None
    """How many values are missing; None where that is not known."""
    only_nulls: bool = False
    single: bool = False
    """Whether the numbers have single precision, so that what they are compared with is rounded to it."""


def matching_groups(
    metadata: Any,
    *,
    box: Box | None = None,
    corners: Mapping[str, list[str]] | None = None,
    where: Any = None,
    fixed: Mapping[str, Any] | None = None,
) -> list[int]:
    """Return the numbers of the row groups that may hold a matching row.

    Parameters
    ----------
    metadata : pyarrow's of the file.
    box : minx, miny, maxx, maxy that geometries must meet.
    corners : the paths of the columns that bound the geometries: `xmin ymin xmax ymax`; none where there are none.
    where : the syntax tree of a filter.
    fixed : columns that have one value in the whole file, by name.
    """
    if metadata.num_row_groups == 0:
        return []
    first = metadata.row_group(0)
    places: dict[str, list[int]] = {}
    for number in range(first.num_columns):
        places.setdefault(first.column(number).path_in_schema, []).append(number)
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)

        def bounds(name: str, group: Any = group) -> Bounds:
            if fixed and name in fixed:
                value = fixed[name]
                return Bounds(value, value, int(value is None) * group.num_rows, value is None)
            columns = places.get(name, [])
            return _bounds(group.column(columns[0]), group.num_rows) if len(columns) == 1 else Bounds()

        if where is not None and not may_match(where, bounds):
            continue
        if box is not None and corners and not _may_meet(box, corners, bounds):
            continue
        found.append(number)
    return found


def may_match(node: Any, bounds: Callable[[str], Bounds]) -> bool:
    """Return whether a row within these bounds may make the condition true."""
    if not isinstance(node, dict) or "op" not in node:
        return True
    name, args = str(node["op"]), node["args"]
    if name == "and":
        return all(may_match(arg, bounds) for arg in args)
    if name == "or":
        return any(may_match(arg, bounds) for arg in args)
    if name == "isNull" and _is_column(args[0]):
        return bounds(str(args[0]["property"])).nulls != 0
    if name == "not" and isinstance(args[0], dict) and args[0].get("op") == "isNull" and _is_column(args[0]["args"][0]):
        return not bounds(str(args[0]["args"][0]["property"])).only_nulls
    if name in _MIRRORED and len(args) == 2:
        column, value, relation = args[0], args[1], name
        if not _is_column(column):
            column, value, relation = args[1], args[0], _MIRRORED[name]
        return not _is_column(column) or _compared(bounds(str(column["property"])), relation, _literal(value))
    if name == "between" and _is_column(args[0]):
        known = bounds(str(args[0]["property"]))
        return _compared(known, ">=", _literal(args[1])) and _compared(known, "<=", _literal(args[2]))
    if name == "in" and _is_column(args[0]) and isinstance(args[1], list):
        known = bounds(str(args[0]["property"]))
        return any(_compared(known, "=", _literal(item)) for item in args[1])
    return True


def _is_column(node: Any) -> bool:
    return isinstance(node, dict) and "property" in node


def _literal(node: Any) -> Any:
    """Return the value of a literal, None for anything else."""
    if isinstance(node, str | bool | float | int):
        return node
    if isinstance(node, dict) and node.get("op") == EXACT_INTEGER:
        return int(node["args"][0])
    text = node.get("date", node.get("timestamp")) if isinstance(node, dict) else None
    if isinstance(text, str):
        try:
            return datetime.datetime.fromisoformat(text)
        except ValueError:
            return None
    return None


def _compared(known: Bounds, relation: str, value: Any) -> bool:
    """Return whether a value within the bounds may stand in this relation; equality may always be rounding."""
    if known.only_nulls:
        return False
    if value is None or known.low is None or known.high is None:
        return True
    if isinstance(value, int | float) and known.single:
        value = _as_single(float(value))
    ends = [_comparable(end) for end in (known.low, known.high, value)]
    low, high, wanted = ends
    if low is None or high is None or wanted is None or len({type(end) for end in ends}) > 1:
        return True
    slack = _DAY if isinstance(wanted, datetime.datetime) else None
    above = low - slack > wanted if slack else low > wanted
    below = high + slack < wanted if slack else high < wanted
    return not ((above and relation in ("=", "<", "<=")) or (below and relation in ("=", ">", ">=")))


def _comparable(value: Any) -> Any:
    """Return the value as a type that is ordered as the filter orders it, None for what is not compared here."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        number = float(value) if abs(value) < 1e300 else math.nan
        return None if math.isnan(number) else number
    if isinstance(value, datetime.datetime):
        if not datetime.datetime(2, 1, 1) < value.replace(tzinfo=None) < datetime.datetime(9998, 1, 1):
            return None
        return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, datetime.date):
        return _comparable(datetime.datetime(value.year, value.month, value.day))
    return None


def _as_single(value: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _bounds(chunk: Any, rows: int) -> Bounds:
    """Return what a column chunk's statistics say; nothing where there are none that can be used."""
    statistics = chunk.statistics
    if statistics is None:
        return Bounds()
    nulls = int(statistics.null_count) if statistics.has_null_count else None
    only_nulls = nulls == rows
    if chunk.physical_type not in _WITHOUT_NAN:
        nulls = None  # NaN is missing too, and is not counted
    low = high = None
    if statistics.has_min_max:
        try:
            low, high = statistics.min, statistics.max
        except (ValueError, TypeError, OverflowError, NotImplementedError):  # a logical type that Python has not
            low = high = None
    return Bounds(low, high, nulls, only_nulls, chunk.physical_type == "FLOAT")


def _may_meet(box: Box, corners: Mapping[str, list[str]], bounds: Callable[[str], Bounds]) -> bool:
    """Return whether a geometry whose bounds lie within the columns' own may meet the box."""
    known = {corner: bounds(".".join(path)) for corner, path in corners.items()}
    if any(
        not isinstance(end, int | float) or math.isnan(end) for one in known.values() for end in (one.low, one.high)
    ):
        return True
    if known["xmin"].low > known["xmax"].low or known["xmin"].high > known["xmax"].high:
        return True  # bounds that go round by the antimeridian, which is another order
    slack = 0.0
    if any(one.single for one in known.values()):  # rounded to single precision, not always outwards
        slack = 2.0**-22 * max(abs(end) for one in known.values() for end in (one.low, one.high))
    return bool(
        known["xmin"].low <= box[2] + slack
        and known["xmax"].high >= box[0] - slack
        and known["ymin"].low <= box[3] + slack
        and known["ymax"].high >= box[1] - slack
    )
