"""Arithmetic over whole columns as an expression that makes a column needs it: exact, and with nulls.

What always holds: a null gives a null; whole numbers are exact in 64 bits or refused, never rounded and never wrapped
round; what has no value (a division by zero, the root of a negative number) is null and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

EXACT = 2**53
"""Whole numbers up to this are exact as floats."""
_LEAST, _MOST = -(2**63), 2**63 - 1


class OutOfRange(ValueError):
    """A whole number that 64 bits do not hold."""


@dataclass
class Numbers:
    """A column of numbers: `int64` or `float64` values, and where there is none."""

    values: Array
    missing: Array

    @property
    def whole(self) -> bool:
        """Whether they are integers."""
        return bool(self.values.dtype.kind == "i")

    def series(self) -> Any:
        """Return a pandas column of type `Int64` or `Float64`."""
        import pandas as pd

        kind = pd.arrays.IntegerArray if self.whole else pd.arrays.FloatingArray
        return pd.Series(kind(self.values, self.missing))

    def as_floats(self) -> Numbers:
        """Return them as floats, the nearest where an integer is too long for one."""
        return Numbers(self.values.astype("float64"), self.missing) if self.whole else self


def numbers_of(value: Any, rows: int) -> Numbers:
    """Return a column, or one number for all rows, as numbers.

    Raises
    ------
    OutOfRange : for a whole number that does not fit in 64 bits.
    """
    import numpy as np
    import pandas as pd

    if value is None:
        return Numbers(np.zeros(rows, dtype="int64"), np.ones(rows, dtype=bool))
    if not isinstance(value, pd.Series):
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise OutOfRange(f"{value} does not fit in 64 bits")
        kind = "int64" if isinstance(value, int) else "float64"
        return Numbers(np.full(rows, value, dtype=kind), np.zeros(rows, dtype=bool))
    missing = value.isna().to_numpy(dtype=bool)
    whole = pd.api.types.is_integer_dtype(value.dtype)
    if value.dtype == object:
        whole = pd.api.types.infer_dtype(value, skipna=True) == "integer"
    if not whole:
        return Numbers(value.to_numpy(dtype="float64", na_value=np.nan), missing)
    if not missing.all() and (value.dtype == object or getattr(value.dtype, "kind", "") == "u"):
        most, least = int(value.max()), int(value.min())
        if most > _MOST or least < _LEAST:
            raise OutOfRange(f"{most if most > _MOST else least} does not fit in 64 bits")
    if value.dtype == object:
        value = value.astype("Int64")
    return Numbers(value.to_numpy(dtype="int64", na_value=0), missing)


def calculate(sign: str, left: Numbers, right: Numbers) -> tuple[Numbers, int]:
    """Return `left SIGN right`, and for how many rows it has no value though both sides have one.

    `+ - *` and, rounded down, `div` and `%` (with the sign of the divisor) keep integers integers; `/` and `^` give
    floats.

    Raises
    ------
    OutOfRange : when a whole number leaves 64 bits.
    """
    missing = left.missing | right.missing
    if left.whole and right.whole and sign not in ("/", "^"):
        values, undefined = _of_integers(sign, left.values, right.values, missing)
    else:
        values, undefined = _of_floats(sign, left.as_floats().values, right.as_floats().values)
    undefined &= ~missing
    missing = missing | undefined
    values[missing] = 0
    return Numbers(values, missing), int(undefined.sum())


def _of_integers(sign: str, a: Array, b: Array, missing: Array) -> tuple[Array, Array]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    none = np.zeros(len(a), dtype=bool)
    if sign in ("div", "%"):
        undefined = b == 0
        if ((a == _LEAST) & (b == -1) & ~missing).any():
            raise OutOfRange(f"{-_LEAST} does not fit in 64 bits")
        safe = np.where(undefined | missing, 1, b)
        values = np.floor_divide(a, safe) if sign == "div" else np.mod(a, safe)
        return values, undefined
    compute = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}[sign]
    a, b = np.where(missing, 0, a), np.where(missing, 0, b)
    try:
        return np.array(compute(pa.array(a), pa.array(b))), none
    except pa.ArrowInvalid:
        raise OutOfRange(f"a result of {sign} does not fit in 64 bits") from None


def _of_floats(sign: str, a: Array, b: Array) -> tuple[Array, Array]:
    import numpy as np

    compute = {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "/": np.divide,
        "div": np.floor_divide,
        "%": np.mod,
        "^": np.power,
    }[sign]
    with np.errstate(all="ignore"):
        values = np.array(compute(a, b))
    return values, ~np.isfinite(values) & np.isfinite(a) & np.isfinite(b)


def rounded(numbers: Numbers, digits: int) -> Numbers:
    """Return them rounded to so many decimals, halves away from zero; integers stay as they are."""
    import numpy as np

    if numbers.whole:
        return numbers
    factor = 10.0**digits
    with np.errstate(all="ignore"):
        values = np.copysign(np.floor(np.abs(numbers.values) * factor + 0.5) / factor, numbers.values)
    # What is too large for it has no decimals to round.
    return Numbers(np.where(np.isfinite(values), values, numbers.values), numbers.missing)


def whole_of(numbers: Numbers) -> tuple[Numbers, Array]:
    """Return floats as integers, and which of them are none."""
    import numpy as np

    if numbers.whole:
        return numbers, np.zeros(len(numbers.values), dtype=bool)
    values = np.where(numbers.missing, 0.0, numbers.values)
    wrong = ~(np.isfinite(values) & (np.floor(values) == values) & (values >= _LEAST) & (values < -float(_LEAST)))
    return Numbers(np.where(wrong, 0.0, values).astype("int64"), numbers.missing), wrong
