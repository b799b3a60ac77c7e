"""Columns of two tables as keys: whether they can be compared at all, and which rows have equal ones.

What always holds: keys of two types are refused, never found to match nowhere; whole numbers are compared exactly,
however long; a missing value equals nothing, not even another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Array = np.ndarray[Any, Any]

_REMEDIES = {
    frozenset(("a number", "text")): "bring them to one type before (compute_columns: integer(code), "
    "lpad(text(code), 5, '0'))",
}
_REMEDY = "bring them to one type before (compute_columns)"


def matched(
    left: pd.DataFrame, right: pd.DataFrame, left_on: list[str], right_on: list[str], where: str
) -> tuple[Array, Array]:
    """Return each row's key as a number, equal where keys are equal, and -1 where a part of the key is missing.

    Raises
    ------
    InputFailure : for keys whose types cannot be compared, or of a type that is no key.
    """
    import numpy as np
    import pandas as pd

    codes: Array | None = None
    missing = np.zeros(len(left) + len(right), dtype=bool)
    for first, second in zip(left_on, right_on, strict=True):
        part, uniques = pd.factorize(_one_type(left[first], right[second], where))
        missing |= part < 0
        # Numbered anew after each column, so that no product of counts overflows.
        codes = part if codes is None else pd.factorize(codes * (len(uniques) + 1) + part)[0]
    assert codes is not None  # a key has at least one column
    codes[missing] = -1
    return codes[: len(left)], codes[len(left) :]


def partners(left: Array, right: Array) -> tuple[Array, Array]:
    """Return the positions of all pairs of rows with equal keys, by left row and then by right row."""
    import numpy as np

    order = np.argsort(right, kind="stable")
    order = order[np.searchsorted(right[order], 0) :]  # without the missing
    most = max(left.max(initial=-1), right.max(initial=-1)) + 1
    held = np.bincount(right[right >= 0], minlength=most + 1)  # one more, for the missing of the left
    begins = np.cumsum(held) - held
    counts, start = held[left], begins[left]
    first = np.repeat(np.arange(len(left)), counts)
    if (counts <= 1).all():
        return first, order[start[first]]
    within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, order[np.repeat(start, counts) + within]


def check_unique(codes: Array, side: str, names: list[str], frame: pd.DataFrame, validate: str, where: str) -> None:
    """Refuse keys that occur more than once.

    Raises
    ------
    InputFailure : naming the first such key and its rows.
    """
    import numpy as np

    from geocairn.operations.layers import name_rows

    present = codes[codes >= 0]
    counts = np.bincount(present) if len(present) else np.zeros(0, dtype="int64")
    again = (counts > 1)[codes] & (codes >= 0) if len(counts) else np.zeros(len(codes), dtype=bool)
    if again.any():
        row = int(np.flatnonzero(again)[0])
        shown = ", ".join(f"{name} = {frame[name].iloc[row]}" for name in names)
        raise InputFailure(
            f"{validate} wants each key of the {side} once, and {int((counts > 1).sum())} occur more often: {shown} in "
            f"{name_rows(codes == codes[row])}",
            where=where,
            remedy="deduplicate or summarize before, or say what is right with validate",
        )


def _one_type(left: pd.Series, right: pd.Series, where: str) -> Any:
    """Return the values of both, one after the other, as one array of comparable values."""
    import pandas as pd

    left, right = _plain(left), _plain(right)
    words = key_word(left), key_word(right)
    for series, word in zip((left, right), words, strict=True):
        if word in ("geometry", "mixed"):
            said = "holds values of several types" if word == "mixed" else "is a geometry"
            raise InputFailure(f"key column {str(series.name)!r} {said}", where=where, remedy="name another column")
    if None not in words and words[0] != words[1]:
        raise InputFailure(
            f"the keys cannot be compared: left {str(left.name)!r} is {words[0]} ({left.dtype}), right "
            f"{str(right.name)!r} is {words[1]} ({right.dtype})",
            where=where,
            remedy=_REMEDIES.get(frozenset(map(str, words)), _REMEDY),
        )
    word = words[0] or words[1]
    if word == "a number":
        return _numbers(left, right)
    if word == "a time with a zone":
        both = [pd.to_datetime(series, utc=True).astype("datetime64[ns, UTC]") for series in (left, right)]
    elif word == "a time without a zone":
        both = [pd.to_datetime(series).astype("datetime64[ns]") for series in (left, right)]
    else:
        both = [series.astype(object).where(series.notna(), None) for series in (left, right)]
    return pd.concat(both, ignore_index=True).array


def _plain(series: pd.Series) -> pd.Series:
    """Return a column with categories turned into what they stand for."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        return series.astype(series.dtype.categories.dtype)
    return series


def _numbers(left: pd.Series, right: pd.Series) -> Any:
    import numpy as np
    import pandas as pd

    both = [left, right]
    whole = [pd.api.types.is_integer_dtype(series.dtype) for series in both]
    if all(whole):
        unsigned = [getattr(series.dtype, "kind", "") == "u" for series in both]
        if not any(unsigned) or all(unsigned):
            kind = "UInt64" if all(unsigned) else "Int64"
            return pd.concat([series.astype(kind) for series in both], ignore_index=True).array
    elif not any(whole):
        return pd.concat([pd.Series(series.to_numpy("float64", na_value=np.nan)) for series in both]).to_numpy()
    # Python compares a float with an integer of any length exactly, and hashes equal ones alike.
    return pd.concat([series.astype(object).where(series.notna(), None) for series in both]).to_numpy()


def key_word(series: pd.Series) -> str | None:
    """Return what a column's values are, as far as keys go; None where all are missing and the type says nothing."""
    import pandas as pd

    dtype = series.dtype
    if str(dtype) == "geometry":
        return "geometry"
    if pd.api.types.is_bool_dtype(dtype) and not pd.api.types.is_object_dtype(dtype):
        return "true or false"
    if pd.api.types.is_numeric_dtype(dtype):
        return "a number"
    if pd.api.types.is_datetime64_any_dtype(dtype) or getattr(dtype, "kind", "") == "M":
        zone = getattr(dtype, "tz", None) or getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None)
        return "a time with a zone" if zone is not None else "a time without a zone"
    if not pd.api.types.is_object_dtype(dtype):
        kind = str(getattr(dtype, "pyarrow_dtype", ""))
        return "a date" if kind.startswith("date") else "text" if pd.api.types.is_string_dtype(dtype) else str(dtype)
    found = pd.api.types.infer_dtype(series, skipna=True)
    words = {
        "empty": None,
        "string": "text",
        "integer": "a number",
        "floating": "a number",
        "mixed-integer-float": "a number",
        "decimal": "a number",
        "boolean": "true or false",
        "date": "a date",
    }
    return words.get(found, "mixed")
