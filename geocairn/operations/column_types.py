"""One type for a column that several layers have: widened where nothing is lost, else refused.

What always holds: a whole number is never rounded, a text never taken for a number; the type depends on the layers'
types, and on values only where a type holds some and not others (integers above 2^53 beside floats).
"""

from __future__ import annotations

from typing import Any

from geocairn.failure import InputFailure

_EXACT = 2**53


def united_column(name: str, parts: list[Any], counts: list[int], labels: list[str], where: str) -> Any:
    """Return one column from several.

    Parameters
    ----------
    parts : the column in each layer; None where a layer does not have it.
    counts : rows of each layer.
    labels : what the layers are called, for complaints.

    Raises
    ------
    InputFailure : for types that have no common one, naming both layers.
    """
    import pandas as pd

    there = [(label, _settled(part)) for label, part in zip(labels, parts, strict=True) if part is not None]
    known = [item for item in there if item[1] is not None]
    dtype = known[0][1].dtype if known else None
    for number, (label, part) in enumerate(known[1:], 1):
        dtype = _common(name, dtype, part, [known[at][1] for at in range(number)], known[0][0], label, where)
    if dtype is None:
        return pd.Series([None] * sum(counts), dtype=object)
    if len(known) < len(parts):
        dtype = _nullable(dtype)
    columns = []
    for part, count in zip(parts, counts, strict=True):
        settled = _settled(part) if part is not None else None
        columns.append(pd.Series([None] * count, dtype=dtype) if settled is None else _cast(settled, dtype))
    return pd.concat(columns, ignore_index=True)


def _settled(part: Any) -> Any:
    """Return a column by its own type; None where neither type nor values say what it holds."""
    import pandas as pd

    if not pd.api.types.is_object_dtype(part.dtype):
        return part
    found = pd.api.types.infer_dtype(part, skipna=True)
    if found == "empty":
        return None
    return part.astype("str") if found == "string" else part


def _common(name: str, dtype: Any, part: Any, before: list[Any], first: str, label: str, where: str) -> Any:
    import pandas as pd
    from pandas.api import types

    other = part.dtype
    if dtype == other:
        return dtype
    numbers = [types.is_numeric_dtype(one) and not types.is_bool_dtype(one) for one in (dtype, other)]
    if all(numbers):
        return _common_number(name, dtype, part, before, first, label, where)
    if all(types.is_bool_dtype(one) and not types.is_object_dtype(one) for one in (dtype, other)):
        return pd.BooleanDtype()
    texts = [_is_text(one) for one in (dtype, other)]
    if all(texts):
        categories = [isinstance(one, pd.CategoricalDtype) for one in (dtype, other)]
        if all(categories) and not dtype.ordered and not other.ordered:
            return pd.CategoricalDtype(dtype.categories.union(other.categories, sort=False))
        return pd.Series([], dtype="str").dtype
    zones = [_zone(one) for one in (dtype, other)]
    if None not in zones and (zones[0] == "") == (zones[1] == ""):
        zone = zones[0] if zones[0] == zones[1] else "UTC"
        finer = max((_unit(dtype), _unit(other)), key=("s", "ms", "us", "ns").index)
        return pd.Series(pd.DatetimeIndex([]).as_unit(finer).tz_localize(zone or None)).dtype
    raise InputFailure(
        f"column {name!r} is {dtype} in {first} and {other} in {label}",
        where=where,
        remedy="bring them to one type before (compute_columns with replace), or drop or rename one (select_columns)",
    )


def _common_number(name: str, dtype: Any, part: Any, before: list[Any], first: str, label: str, where: str) -> Any:
    import pandas as pd
    from pandas.api import types

    both = (dtype, part.dtype)
    nullable = any(types.is_extension_array_dtype(one) for one in both)
    if all(types.is_integer_dtype(one) for one in both):
        unsigned = [str(one).lower().startswith("u") for one in both]
        size = max(one.itemsize for one in both)
        if unsigned[0] != unsigned[1]:
            wide = next(one.itemsize for one, u in zip(both, unsigned, strict=True) if u)
            size = max(size, min(2 * wide, 8))
            if wide == 8:
                for column in (*before, part):
                    if str(column.dtype).lower().startswith("u") and len(column.dropna()) and column.max() >= 2**63:
                        _refuse(name, dtype, part, first, label, where, "a number above 2^63 - 1")
        base = "UInt" if all(unsigned) else "Int"
        chosen = f"{base}{8 * size}"
        return pd.api.types.pandas_dtype(chosen if nullable else chosen.lower())
    for column in (*before, part):
        if types.is_integer_dtype(column.dtype):
            known = column.dropna()
            if len(known) and max(abs(int(known.max())), abs(int(known.min()))) > _EXACT:
                _refuse(name, dtype, part, first, label, where, "a whole number above 2^53, which a float would round")
    return pd.Float64Dtype() if nullable else pd.api.types.pandas_dtype("float64")


def _refuse(name: str, dtype: Any, part: Any, first: str, label: str, where: str, what: str) -> None:
    raise InputFailure(
        f"column {name!r} is {dtype} in {first} and {part.dtype} in {label}, and holds {what}",
        where=where,
        remedy="bring them to one type before (compute_columns with replace: integer(…) or text(…))",
    )


def _is_text(dtype: Any) -> bool:
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _is_text(dtype.categories.dtype)
    return bool(not pd.api.types.is_object_dtype(dtype) and pd.api.types.is_string_dtype(dtype))


def _zone(dtype: Any) -> str | None:
    """Return the time zone of times, "" for none; None for what is no time."""
    import pandas as pd

    if not pd.api.types.is_datetime64_any_dtype(dtype):
        return None
    zone = getattr(dtype, "tz", None) or getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None)
    return "" if zone is None else str(zone)


def _unit(dtype: Any) -> str:
    import numpy as np

    arrow = getattr(dtype, "pyarrow_dtype", None)
    if arrow is not None:
        return str(arrow.unit)
    return str(getattr(dtype, "unit", None) or np.datetime_data(dtype)[0])


def _nullable(dtype: Any) -> Any:
    """Return the type that holds missing values as well: integers and truth values become nullable ones."""
    import numpy as np
    import pandas as pd

    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        return pd.api.types.pandas_dtype(f"{'U' if dtype.kind == 'u' else ''}Int{8 * dtype.itemsize}")
    return pd.BooleanDtype() if isinstance(dtype, np.dtype) and dtype.kind == "b" else dtype


def _cast(part: Any, dtype: Any) -> Any:
    import pandas as pd

    if part.dtype == dtype:
        return part.reset_index(drop=True)
    if getattr(dtype, "tz", None) is not None:
        return part.dt.tz_convert(dtype.tz).astype(dtype).reset_index(drop=True)
    if isinstance(part.dtype, pd.CategoricalDtype) and not isinstance(dtype, pd.CategoricalDtype):
        part = part.astype(part.dtype.categories.dtype)
    return part.astype(dtype).reset_index(drop=True)
