"""A layer's columns as PostgreSQL takes them: the type of each, and its values in the binary form of COPY.

What always holds: a value is stored as it is, or the column is told or refused by name. Types go by Arrow's view of a
column, so that pandas' many ways of holding one kind of value come to the same type. Not-a-number stands for a missing
number, as everywhere in pandas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from geocairn.failure import InputFailure
from geocairn.notes import caveat

_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
_LARGEST = (1 << 63) - 1
_LISTED = {"bool": "boolean", "int64": "bigint", "double": "double precision", "text": "text"}
_UTC = re.compile(r"UTC|Etc/UTC|[+-]00:00")

Encode = Callable[[int, int], "Sequence[bytes | None]"]
"""Returns the values of the rows from one to before another."""


@dataclass(frozen=True)
class Cells:
    """A column to be written."""

    name: str
    type: str
    """PostgreSQL's type."""
    encode: Encode


def cells_of(name: str, column: Any, where: str) -> Cells:
    """Return a column that holds no geometry as it is to be written.

    Raises
    ------
    InputFailure : for a column that mixes types, or holds what no type of PostgreSQL can.
    """
    import pandas as pd
    import pyarrow as pa

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype if column.notna().all() else object)
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputFailure(
            f"column {name!r} cannot be written to a database: {error}",
            where=where,
            remedy="convert the column to one type (numbers, text, times, booleans) before",
        ) from error
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    type_name, encode = _chosen(name, array, where)
    return Cells(name, type_name, encode)


def geometry_cells(name: str, type_name: str, coded: Sequence[bytes | None]) -> Cells:
    """Return a column of geometry from its extended WKB."""
    return Cells(name, type_name, lambda start, stop: coded[start:stop])


def row_numbers(name: str) -> Cells:
    """Return a column that numbers the rows from 1 on."""
    import numpy as np

    return Cells(name, "bigint", lambda start, stop: list(_cut(np.arange(start + 1, stop + 1, dtype=">i8"), 8)))


def _chosen(name: str, array: Any, where: str) -> tuple[str, Encode]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_null(kind):
        return "text", lambda start, stop: [None] * (stop - start)
    if pa.types.is_boolean(kind):
        return "boolean", _numbers(array.cast(pa.int8()), ">i1")
    if kind == pa.uint64() and (pc.max(array).as_py() or 0) > _LARGEST:
        return "numeric(20, 0)", _dumped([None if value is None else str(value) for value in array.to_pylist()])
    if pa.types.is_integer(kind):
        width = 2 if kind in (pa.int8(), pa.int16(), pa.uint8()) else 4 if kind in (pa.int32(), pa.uint16()) else 8
        type_name = {2: "smallint", 4: "integer", 8: "bigint"}[width]
        return type_name, _numbers(array.cast(getattr(pa, f"int{8 * width}")()), f">i{width}")
    if pa.types.is_floating(kind):
        if kind == pa.float64():
            return "double precision", _numbers(array, ">f8")
        return "real", _numbers(array.cast(pa.float32()), ">f4")
    if pa.types.is_decimal(kind):
        return "numeric", _dumped([None if value is None else str(value) for value in array.to_pylist()])
    if _is_text(kind):
        return "text", _texts(name, array, where)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytea", lambda start, stop: array.slice(start, stop - start).to_pylist()
    if pa.types.is_temporal(kind):
        return _moments(name, array, where)
    return _nested(name, array, where)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _moments(name: str, array: Any, where: str) -> tuple[str, Encode]:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_date(kind):
        return "date", _numbers(array.cast(pa.date32()).cast(pa.int32()), ">i4", -_DAYS_TO_2000)
    target = (
        pa.time64("us")
        if pa.types.is_time(kind)
        else pa.duration("us")
        if pa.types.is_duration(kind)
        else pa.timestamp("us", kind.tz)
    )
    rounded = array.cast(target, safe=False)
    if kind.unit == "ns" and not rounded.cast(kind, safe=False).equals(array):
        caveat(f"{where}: PostgreSQL keeps microseconds: what is finer in column {name!r} is cut")
    counts = rounded.cast(pa.int64())
    if pa.types.is_time(kind):
        return "time", _numbers(counts, ">i8")
    if pa.types.is_duration(kind):
        encode = _numbers(counts, ">i8")
        after = bytes(8)  # no days, no months
        return "interval", lambda start, stop: [
            value if value is None else value + after for value in encode(start, stop)
        ]
    if kind.tz is not None and not _UTC.fullmatch(kind.tz):
        caveat(f"{where}: the times of column {name!r} are kept as moments; the time zone {kind.tz} is lost")
    return (
        "timestamp" if kind.tz is None else "timestamp with time zone",
        _numbers(counts, ">i8", -_MICROSECONDS_TO_2000),
    )


def _nested(name: str, array: Any, where: str) -> tuple[str, Encode]:
    """Write lists of plain values as arrays, everything deeper as JSON."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = kind.value_type
        element = "text" if _is_text(inner) else str(inner)
        if pa.types.is_integer(inner) and inner != pa.uint64():
            element = "int64"
        elif pa.types.is_floating(inner):
            element = "double"
        if element in _LISTED:
            values = array.to_pylist()
            if element == "text" and any("\0" in text for value in values for text in value or () if text):
                raise _zero_byte(name, where)
            return f"{_LISTED[element]}[]", _dumped_lists(values, element)
    if not (pa.types.is_nested(kind)):
        raise InputFailure(
            f"column {name!r} cannot be written to a database: its type is {kind}",
            where=where,
            remedy="convert it to numbers, text, times or booleans before",
        )
    try:
        coded = [
            None if value is None else b"\x01" + json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
            for value in array.to_pylist()
        ]
    except (TypeError, ValueError) as error:
        raise InputFailure(
            f"column {name!r} cannot be written as JSON: {error}", where=where, remedy="convert it to text before"
        ) from error
    return "jsonb", lambda start, stop: coded[start:stop]


def _numbers(array: Any, dtype: str, shift: int = 0) -> Encode:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = array.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False)
    width = np.dtype(dtype).itemsize
    any_missing = bool(missing.any())

    def encode(start: int, stop: int) -> Sequence[bytes | None]:
        part = values[start:stop]
        cut = list(_cut((part + part.dtype.type(shift) if shift else part).astype(dtype), width))
        if any_missing:
            return [None if gone else value for gone, value in zip(missing[start:stop], cut, strict=True)]
        return cut

    return encode


def _cut(values: Any, width: int) -> Iterator[bytes]:
    raw = values.tobytes()
    return (raw[place : place + width] for place in range(0, len(raw), width))


def _texts(name: str, array: Any, where: str) -> Encode:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring(array.cast(pa.large_string()), "\0")).as_py():
        raise _zero_byte(name, where)
    return lambda start, stop: array.slice(start, stop - start).cast(pa.large_binary()).to_pylist()


def _zero_byte(name: str, where: str) -> InputFailure:
    return InputFailure(
        f"column {name!r} holds text with a zero byte, which PostgreSQL does not take",
        where=where,
        remedy="remove it from the text before",
    )


def _dumped(texts: Sequence[str | None]) -> Encode:
    from decimal import Decimal

    from psycopg.types.numeric import DecimalBinaryDumper

    dumper = DecimalBinaryDumper(Decimal)
    return lambda start, stop: [
        None if text is None else bytes(dumper.dump(Decimal(text)) or b"") for text in texts[start:stop]
    ]


def _dumped_lists(values: Sequence[Any], element: str) -> Encode:
    import struct

    number, code = {"bool": (16, ">?"), "int64": (20, ">q"), "double": (701, ">d"), "text": (25, "")}[element]

    def coded(value: Any) -> bytes:
        parts = [struct.pack(">iiI", 1 if len(value) else 0, int(any(item is None for item in value)), number)]
        if len(value):
            parts.append(struct.pack(">ii", len(value), 1))
        for item in value:
            raw = b"" if item is None else struct.pack(code, item) if code else item.encode("utf-8")
            parts.append(struct.pack(">i", -1 if item is None else len(raw)) + raw)
        return b"".join(parts)

    return lambda start, stop: [None if value is None else coded(value) for value in values[start:stop]]
