"""Columns made by expressions: the filter language's arithmetic, comparisons and text, and a few functions more.

What always holds: an expression reads the columns of its row and nothing else; the type of its result depends on the
expression and the columns' types alone. Integers become `Int64`, other numbers `Float64`, conditions `boolean`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.filters.arithmetic import OutOfRange, calculate, numbers_of
from geocairn.filters.evaluation import Evaluation
from geocairn.filters.functions import FUNCTIONS, Unfit, call
from geocairn.filters.language import parse
from geocairn.filters.values import type_word

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

WHAT = "expression"


def check_expression(text: str) -> None:
    """Refuse an expression that cannot be read; needs neither the layer nor any geospatial library.

    Raises
    ------
    ValueError : for wrong syntax, naming the place, and for a function that the language does not have.
    """
    parse(text, WHAT, FUNCTIONS)


def calculated(layer: GeoDataFrame, text: str, name: str, where: str) -> tuple[Any, int]:
    """Return the column that an expression gives, and for how many rows it has no value though its parts have.

    Parameters
    ----------
    layer : a layer, or a table.
    name : of the column that is made, for complaints.
    where : the operation.

    Raises
    ------
    InputFailure : for wrong syntax, an unknown column (with the nearest right name), or values that an operator or a
        function cannot take.
    """
    import pandas as pd

    try:
        tree = parse(text, WHAT, FUNCTIONS)
    except ValueError as error:
        raise InputFailure(f"column {name!r}: {error}", where=where) from None
    evaluation = _Calculation(layer, f"the expression of {name!r}", where)
    value = evaluation.value(tree)
    if isinstance(tree, dict) and "property" in tree:
        value = pd.Series(evaluation.layer[tree["property"]])  # as it is, a category too
    if type_word(value) == "geometry":
        raise InputFailure(f"{evaluation.what} is a geometry", where=where, remedy="columns are made of attributes")
    return evaluation.column(value), evaluation.undefined


class _Calculation(Evaluation):
    """One expression over one layer."""

    def __init__(self, layer: GeoDataFrame, what: str, where: str) -> None:
        super().__init__(layer, what, where)
        self.undefined = 0
        """How many values a division by zero, or the like, left without."""

    def column(self, value: Any) -> Any:
        """Return a value as a column."""
        import pandas as pd

        rows = len(self.layer)
        if isinstance(value, pd.Series):
            return value
        if isinstance(value, bool):
            return pd.Series(pd.array([value] * rows, dtype="boolean"))
        if isinstance(value, int | float):
            return numbers_of(value, rows).series()
        if isinstance(value, str):
            return pd.Series([value] * rows, dtype="str")
        if isinstance(value, pd.Timestamp):
            return pd.Series(pd.DatetimeIndex([value] * rows, dtype="datetime64[us, UTC]"))
        raise self._complaint("there is no value to make a column of", "write a column, number, text or condition")

    def _applied(self, name: str, args: list[Any]) -> Any:
        if name not in FUNCTIONS:
            return super()._applied(name, args)
        try:
            value, undefined = call(name, [self.value(arg) for arg in args], len(self.layer))
        except (Unfit, OutOfRange) as error:
            raise self._complaint(str(error), "correct the values, or leave these rows out") from None
        self.undefined += undefined
        return value

    def _calculated(self, sign: str, left: Any, right: Any) -> Any:
        for value in (left, right):
            if type_word(value) not in ("a number", None):
                remedy = "concat(…) joins text" if sign == "+" else "number(…) and integer(…) make numbers of text"
                raise self._complaint(f"{sign} is for numbers, not for {type_word(value)}", remedy)
        rows = len(self.layer)
        try:
            result, undefined = calculate(sign, numbers_of(left, rows), numbers_of(right, rows))
        except OutOfRange as error:
            raise self._complaint(str(error), "compute with floats: number(…)") from None
        self.undefined += undefined
        return result.series()
