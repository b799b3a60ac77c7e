"""The functions that an expression which makes a column may call, besides those of every filter.

What always holds: they look at nothing but their arguments, give one value for each row, and, but for `coalesce`, null
where an argument is null. A value that a function cannot take is a complaint that names the row, never a null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geocairn.filters.arithmetic import EXACT, Numbers, calculate, numbers_of, rounded, whole_of
from geocairn.filters.values import type_word
from geocairn.notes import first_row


class Unfit(ValueError):
    """An argument that a function cannot take."""


def call(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    """Return a function's value, as a column, and for how many rows it has none though the arguments have.

    Raises
    ------
    Unfit : for a wrong number of arguments, or values that it cannot take.
    """
    least, most, function = _FUNCTIONS[name]
    if not least <= len(arguments) <= (most or len(arguments)):
        wanted = f"{least}" if least == most else f"{least} to {most}" if most else f"at least {least}"
        raise Unfit(f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(arguments)}")
    return function(name, arguments, rows)


def _numbers(name: str, value: Any, rows: int) -> Numbers:
    if type_word(value) not in ("a number", None):
        raise Unfit(f"{name} is for numbers, not for {type_word(value)}")
    return numbers_of(value, rows)


def _texts(name: str, value: Any, rows: int) -> Any:
    import pandas as pd

    if value is None or isinstance(value, str):
        return pd.Series([value] * rows, dtype="str")
    if type_word(value) not in ("text", None):
        raise Unfit(f"{name} is for text, not for {type_word(value)}; text(…) makes text of it")
    return value.astype("str") if value.dtype != "str" else value


def _constant(name: str, value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise Unfit(f"{name}: {what} must be a whole number from 0 to 100, and no column")
    return value


def _abs(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    import numpy as np

    numbers = _numbers(name, arguments[0], rows)
    if numbers.whole and (numbers.values == np.iinfo("int64").min).any():
        raise Unfit("abs: a result does not fit in 64 bits")
    return Numbers(np.abs(numbers.values), numbers.missing).series(), 0


def _round(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    digits = _constant(name, arguments[1], "the number of decimals") if len(arguments) > 1 else 0
    return rounded(_numbers(name, arguments[0], rows), digits).series(), 0


def _to_whole(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    import numpy as np

    numbers = _numbers(name, arguments[0], rows)
    if not numbers.whole:
        step = np.floor if name == "floor" else np.ceil
        numbers, wrong = whole_of(Numbers(step(numbers.values), numbers.missing))
        _refuse(wrong, arguments[0], "is no number that fits in 64 bits", name)
    return numbers.series(), 0


def _root(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    numbers, undefined = calculate("^", _numbers(name, arguments[0], rows), numbers_of(0.5, rows))
    return numbers.series(), undefined


def _integer(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    import pandas as pd

    value = arguments[0]
    if type_word(value) == "true or false":
        return pd.Series([value] * rows if isinstance(value, bool) else value).astype("boolean").astype("Int64"), 0
    if type_word(value) == "text":
        texts = _texts(name, value, rows).str.strip()
        wrong = texts.notna() & ~texts.str.fullmatch("[+-]?[0-9]{1,19}").fillna(False).astype(bool)
        _refuse(wrong.to_numpy(), texts, "is no whole number", name)
        whole = [None if pd.isna(text) else int(text) for text in texts]
        beyond = [number is not None and not -(2**63) <= number < 2**63 for number in whole]
        _refuse(pd.Series(beyond, dtype=bool).to_numpy(), texts, "does not fit in 64 bits", name)
        return pd.Series(pd.array(whole, dtype="Int64")), 0
    numbers, wrong = whole_of(_numbers(name, value, rows))
    _refuse(wrong, value, "is no whole number (round, floor or ceil it first)", name)
    return numbers.series(), 0


def _number(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    import pandas as pd

    value = arguments[0]
    if type_word(value) != "text":
        return _numbers(name, value, rows).as_floats().series(), 0
    texts = _texts(name, value, rows).str.strip()
    pattern = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    wrong = texts.notna() & ~texts.str.fullmatch(pattern).fillna(False).astype(bool)
    _refuse(wrong.to_numpy(), texts, "is no number (decimals are written with a point)", name)
    found = pd.to_numeric(texts).astype("float64")
    return Numbers(found.fillna(0).to_numpy(), texts.isna().to_numpy(dtype=bool)).series(), 0


def _text(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    import pandas as pd

    value = arguments[0]
    column = value if isinstance(value, pd.Series) else pd.Series([value] * rows)
    word = type_word(value)
    if word in ("text", None):
        return _texts(name, value, rows), 0
    if word == "true or false":
        return column.astype("boolean").map({True: "true", False: "false"}).astype("str"), 0
    if word == "a number" and numbers_of(value, rows).whole:
        column = numbers_of(value, rows).series()
    elif word == "geometry":
        raise Unfit("text: a geometry has no short text")
    return column.astype(object).map(str, na_action="ignore").where(column.notna(), None).astype("str"), 0


def _of_text(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    texts = _texts(name, arguments[0], rows)
    return {"lower": texts.str.lower, "upper": texts.str.upper, "trim": texts.str.strip}[name](), 0


def _pad(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    width = _constant(name, arguments[1], "the width")
    fill = arguments[2]
    if not isinstance(fill, str) or len(fill) != 1:
        raise Unfit("lpad: what fills up must be one letter in single quotes")
    return _texts(name, arguments[0], rows).str.pad(width, side="left", fillchar=fill), 0


def _concat(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    result = _texts(name, arguments[0], rows)
    for value in arguments[1:]:
        result = result + _texts(name, value, rows)
    return result, 0


def _coalesce(name: str, arguments: list[Any], rows: int) -> tuple[Any, int]:
    import numpy as np
    import pandas as pd

    known = {word for word in map(type_word, arguments) if word is not None}
    if len(known) != 1:
        said = " and ".join(sorted(known)) or "nothing"
        raise Unfit(f"coalesce takes values of one type, not {said}")
    if known == {"a number"}:
        several = [numbers_of(value, rows) for value in arguments if type_word(value) is not None]
        if not all(one.whole for one in several):
            long = any(one.whole and (np.abs(one.values) > EXACT).any() for one in several)
            if long:
                raise Unfit("coalesce would round whole numbers above 2^53, since others are floats")
            several = [one.as_floats() for one in several]
        result = several[0]
        for one in several[1:]:
            values = np.where(result.missing, one.values, result.values)
            result = Numbers(values, result.missing & one.missing)
        return result.series(), 0
    columns = [value if isinstance(value, pd.Series) else pd.Series([value] * rows) for value in arguments]
    columns = [column.astype("str") for column in columns] if known == {"text"} else columns
    found = columns[0]
    for column in columns[1:]:
        found = found.where(found.notna(), column)
    return found, 0


def _refuse(wrong: Any, value: Any, said: str, name: str) -> None:
    import pandas as pd

    if wrong.any():
        first = int(wrong.argmax())
        shown = value.iloc[first] if isinstance(value, pd.Series) else value
        others = f" and {int(wrong.sum()) - 1} more" if wrong.sum() > 1 else ""
        raise Unfit(f"{name}: {str(shown)[:40]!r} {said} (row {first + first_row()}{others})")


_Function = Callable[[str, list[Any], int], tuple[Any, int]]
_FUNCTIONS: dict[str, tuple[int, int | None, _Function]] = {
    "abs": (1, 1, _abs),
    "round": (1, 2, _round),
    "floor": (1, 1, _to_whole),
    "ceil": (1, 1, _to_whole),
    "sqrt": (1, 1, _root),
    "integer": (1, 1, _integer),
    "number": (1, 1, _number),
    "text": (1, 1, _text),
    "lower": (1, 1, _of_text),
    "upper": (1, 1, _of_text),
    "trim": (1, 1, _of_text),
    "lpad": (3, 3, _pad),
    "concat": (1, None, _concat),
    "coalesce": (1, None, _coalesce),
}
"""By name: the least and the greatest number of arguments (None for any), and what computes it."""

FUNCTIONS = tuple(_FUNCTIONS)
