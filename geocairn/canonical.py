"""The canonical encoding: one sequence of bytes for each value, and no two values with the same.

What always holds: every value is written with its type and its length, so `{1: x}` differs from `{"1": x}`, a missing
value from null, a nested key from a flat one, `1` from `True` and from `"1"`. The order of a mapping does not matter,
the order of a list does. What cannot be encoded raises `NotCanonical`: there is never a partial key.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import hashlib
import math
from collections.abc import Mapping
from typing import Any


class NotCanonical(ValueError):
    """A value that has no canonical encoding: NaN, infinity, or a type whose identity is not known."""


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical encoding of `value`, as 64 hexadecimal digits.

    Raises
    ------
    NotCanonical : when `value`, or something in it, cannot be encoded.
    """
    return hashlib.sha256(encode(value)).hexdigest()


def encode(value: Any) -> bytes:
    """Return the canonical encoding of `value`.

    Encodes None, bool, int, float, str, bytes, date and time values, Decimal, enumerations (by value), lists and tuples
    (alike), sets, mappings and shapely geometries (by ISO WKB). Negative zero is zero.
    """
    parts: list[bytes] = []
    _write(value, parts, "value")
    return b"".join(parts)


def _frame(tag: bytes, body: bytes) -> bytes:
    return tag + str(len(body)).encode("ascii") + b":" + body


def _write(value: Any, parts: list[bytes], where: str) -> None:
    if value is None:
        parts.append(b"n")
    elif isinstance(value, enum.Enum):
        _write(value.value, parts, where)
    elif isinstance(value, bool):
        parts.append(b"b1" if value else b"b0")
    elif isinstance(value, int):
        parts.append(_frame(b"i", str(value).encode("ascii")))
    elif isinstance(value, float):
        parts.append(_frame(b"f", _float_text(value, where).encode("ascii")))
    elif isinstance(value, str):
        parts.append(_frame(b"s", _utf8(value, where)))
    elif isinstance(value, bytes | bytearray):
        parts.append(_frame(b"y", bytes(value)))
    elif isinstance(value, datetime.datetime | datetime.date | datetime.time | datetime.timedelta):
        parts.append(_frame(b"t", f"{type(value).__name__} {value!s}".encode()))
    elif isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise NotCanonical(f"{where} is {value}, which is not a number")
        parts.append(_frame(b"d", str(value.normalize()).encode("ascii")))
    elif isinstance(value, Mapping):
        _write_mapping(value, parts, where)
    elif isinstance(value, list | tuple):
        parts.append(_frame(b"l", b"") + str(len(value)).encode("ascii") + b";")
        for index, item in enumerate(value):
            _write(item, parts, f"{where}[{index}]")
    elif isinstance(value, set | frozenset):
        items = sorted(encode(item) for item in value)
        parts.append(_frame(b"S", b"".join(items)))
    else:
        parts.append(_foreign(value, where))


def _write_mapping(value: Mapping[Any, Any], parts: list[bytes], where: str) -> None:
    entries: dict[bytes, Any] = {}
    for key, item in value.items():
        coded = encode(key)
        if coded in entries:
            raise NotCanonical(f"{where} has the key {key!r} twice")
        entries[coded] = (key, item)
    body: list[bytes] = []
    for coded in sorted(entries):
        key, item = entries[coded]
        body.append(coded)
        _write(item, body, f"{where}.{key}")
    parts.append(_frame(b"m", b"".join(body)))


def _foreign(value: Any, where: str) -> bytes:
    """Encode a value of a library that may not be loaded: numpy scalars, shapely geometries."""
    module = type(value).__module__.partition(".")[0]
    if module == "numpy" and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return encode(value.item())
    if module == "shapely" and hasattr(value, "geom_type"):
        import shapely

        coded: bytes = shapely.to_wkb(value, byte_order=1, flavor="iso", include_srid=False)
        return _frame(b"g", coded)
    raise NotCanonical(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which has no canonical form: "
        "use plain numbers, text, lists and mappings"
    )


def _float_text(value: float, where: str) -> str:
    if math.isnan(value) or math.isinf(value):
        raise NotCanonical(f"{where} is {value}, which is not a number")
    return repr(float(value) + 0.0)  # plain, since a numpy number has another repr; adding zero turns -0.0 into 0.0


def _utf8(value: str, where: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCanonical(f"{where} holds text that is not Unicode") from error
