"""A filter applied to a layer: the syntax tree of CQL2 evaluated over whole columns.

What always holds: a comparison with a missing value is neither true nor false (Kleene's logic), so only rows for which
the whole expression is true are kept; a comparison of things that cannot be compared is an error, not false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure
from geocairn.filters.language import COMPARISONS, EXACT_INTEGER, SPATIAL, TEXT, parse
from geocairn.filters.values import aligned, instant, literal_geometry, pattern_of, shown, type_word, utc
from geocairn.nearest import did_you_mean

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

_EXACT = 2**53
_WHERE = "filter"

_TEMPORAL: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "t_after": lambda a, b, c, d: a > d,
    "t_before": lambda a, b, c, d: b < c,
    "t_contains": lambda a, b, c, d: (a < c) & (b > d),
    "t_disjoint": lambda a, b, c, d: (a > d) | (b < c),
    "t_during": lambda a, b, c, d: (a > c) & (b < d),
    "t_equals": lambda a, b, c, d: (a == c) & (b == d),
    "t_finishedby": lambda a, b, c, d: (a < c) & (b == d),
    "t_finishes": lambda a, b, c, d: (a > c) & (b == d),
    "t_intersects": lambda a, b, c, d: (a <= d) & (b >= c),
    "t_meets": lambda a, b, c, d: b == c,
    "t_metby": lambda a, b, c, d: a == d,
    "t_overlappedby": lambda a, b, c, d: (a > c) & (a < d) & (b > d),
    "t_overlaps": lambda a, b, c, d: (a < c) & (b > c) & (b < d),
    "t_startedby": lambda a, b, c, d: (a == c) & (b > d),
    "t_starts": lambda a, b, c, d: (a == c) & (b < d),
}
"""From start and end of the one and start and end of the other; an instant starts and ends at once."""


def matching(layer: GeoDataFrame, where: str) -> Any:
    """Return a mask of the rows for which the filter is true.

    Raises
    ------
    InputFailure : for wrong syntax, an unknown column (with the nearest right name), or types that cannot be compared.
    """
    import numpy as np

    try:
        tree = parse(where)
    except ValueError as error:
        raise InputFailure(str(error), where=_WHERE) from None
    truth = Evaluation(layer).truth(tree)
    return np.asarray(truth.fillna(False), dtype=bool)


class Evaluation:
    """One filter over one layer. Values are pandas Series, or Python values where all rows would have the same.

    Parameters
    ----------
    layer : whose rows it is about, a table too.
    what, where : the expression and the operation, for complaints.
    """

    def __init__(self, layer: GeoDataFrame, what: str = "the filter", where: str = _WHERE) -> None:
        self.layer = layer.reset_index(drop=True)
        self.what = what
        self.where = where

    def truth(self, node: Any) -> Any:
        """Return a Series of type `boolean`, missing where it is unknown."""
        import pandas as pd

        value = self.value(node)
        if isinstance(value, pd.Series):
            if not pd.api.types.is_bool_dtype(value.dtype):
                raise self._complaint(f"{shown(node)} is no condition", "compare it with something")
            return value.astype("boolean")
        if value is not None and not isinstance(value, bool):
            raise self._complaint(f"{shown(node)} is no condition", "compare it with something")
        return pd.Series(pd.array([value] * len(self.layer), dtype="boolean"))

    def value(self, node: Any) -> Any:
        """Return the value of a part of the expression."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return int(node) if isinstance(node, float) and node.is_integer() and abs(node) < _EXACT else node
        if "property" in node:
            return self._column(str(node["property"]))
        if "op" in node:
            return self._applied(str(node["op"]), node["args"])
        if "timestamp" in node or "date" in node:
            return instant(node.get("timestamp", node.get("date")), self.what, self.where)
        if "interval" in node:
            return tuple(instant(bound, self.what, self.where) for bound in node["interval"])
        return literal_geometry(node, self.what, self.where)

    def _column(self, name: str) -> Any:
        import pandas as pd

        if name not in self.layer.columns:
            raise InputFailure(
                f"the layer has no column {name!r}{did_you_mean(name, [str(c) for c in self.layer.columns])}",
                where=self.where,
            )
        column = pd.Series(self.layer[name])
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.astype(column.dtype.categories.dtype)
        return column

    def _applied(self, name: str, args: list[Any]) -> Any:
        if name == EXACT_INTEGER:
            return int(args[0])
        if name in ("and", "or"):
            result = self.truth(args[0])
            for arg in args[1:]:
                result = result & self.truth(arg) if name == "and" else result | self.truth(arg)
            return result
        if name == "not":
            return ~self.truth(args[0])
        if name == "isNull":
            return self._missing(self.value(args[0]))
        if name in SPATIAL:
            return self._spatial(SPATIAL[name], *args)
        if name in _TEMPORAL:
            return self._temporal(name, *args)
        values = [self.value(arg) for arg in args]
        if name in COMPARISONS:
            return self._compared(name, *values)
        if name == "between":
            return self._compared(">=", values[0], values[1]) & self._compared("<=", values[0], values[2])
        if name == "in":
            result = self._compared("=", values[0], values[1][0])
            for item in values[1][1:]:
                result = result | self._compared("=", values[0], item)
            return result
        if name == "like":
            return self._like(*values)
        if name in TEXT:
            return self._text(name, values[0])
        return self._calculated(name, *values)

    def _missing(self, value: Any) -> Any:
        import pandas as pd

        if isinstance(value, pd.Series):
            return value.isna().astype("boolean")
        return pd.Series(pd.array([value is None] * len(self.layer), dtype="boolean"))

    def _compared(self, sign: str, left: Any, right: Any) -> Any:
        import operator

        import pandas as pd

        compare = {
            "=": operator.eq,
            "<>": operator.ne,
            "<": operator.lt,
            ">": operator.gt,
            "<=": operator.le,
            ">=": operator.ge,
        }[sign]
        unknown = self._missing(left) | self._missing(right)
        if left is None or right is None:
            return pd.Series(pd.array([None] * len(self.layer), dtype="boolean"))
        left, right = aligned(left, right)
        kinds = type_word(left), type_word(right)
        if kinds[0] != kinds[1] and None not in kinds:
            raise self._complaint(
                f"{kinds[0]} cannot be compared with {kinds[1]} ({sign})",
                "text stands in single quotes, numbers and true or false in none, times in TIMESTAMP('…') or DATE('…')",
            )
        if "geometry" in kinds:
            raise self._complaint(
                "geometries cannot be compared by " + sign, "use s_equals or another spatial predicate"
            )
        try:
            result = compare(left, right)
        except TypeError as error:
            raise self._complaint(
                f"the values cannot be compared by {sign} ({error})", "check the columns' types"
            ) from None
        if not isinstance(result, pd.Series):
            result = pd.Series([bool(result)] * len(self.layer), dtype="boolean")
        return result.astype("boolean").mask(unknown.to_numpy(dtype=bool))

    def _like(self, value: Any, pattern: Any) -> Any:
        import pandas as pd
        import pyarrow as pa
        import pyarrow.compute as pc

        if not isinstance(pattern, str):
            raise self._complaint("the pattern of LIKE must be text", "write it in single quotes")
        text = self._as_text(value, "LIKE")
        unknown = text.isna()
        try:
            # Arrow's matcher takes time in proportion to the text; Python's may take for ever over several %.
            letters = pa.array(text.where(~unknown, "").tolist(), type=pa.large_string())
            found = pc.match_substring_regex(letters, pattern_of(pattern))
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            raise self._complaint(f"LIKE cannot be decided: {error}", "shorten the pattern, check the text") from None
        return pd.Series(found.to_numpy(zero_copy_only=False)).astype("boolean").mask(unknown.to_numpy(dtype=bool))

    def _text(self, name: str, value: Any) -> Any:
        import pandas as pd

        if isinstance(value, str):
            return str(self._text(name, pd.Series([value]))[0])
        text = self._as_text(value, name)
        if name == "casei":
            return text.str.casefold()
        return text.str.normalize("NFKD").str.replace("[\u0300-\u036f]", "", regex=True)

    def _as_text(self, value: Any, name: str) -> Any:
        import pandas as pd

        if isinstance(value, str):
            return pd.Series([value] * len(self.layer))
        if type_word(value) not in ("text", None) or not isinstance(value, pd.Series):
            raise self._complaint(f"{name} is for text, not for {type_word(value)}", "name a column of text")
        return value.astype(object) if value.dtype == object else value

    def _calculated(self, sign: str, left: Any, right: Any) -> Any:
        import operator

        import pandas as pd

        for value in (left, right):
            if type_word(value) not in ("a number", None):
                raise self._complaint(f"{sign} is for numbers, not for {type_word(value)}", "check the columns' types")
        compute = {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "/": operator.truediv,
            "%": operator.mod,
            "div": operator.floordiv,
            "^": operator.pow,
        }[sign]
        if sign in ("^", "/", "div", "%") or not any(isinstance(value, pd.Series) for value in (left, right)):
            # Floats in a column: no division by zero raises, and no power grows without bound.
            left = pd.Series([left] * len(self.layer), dtype="Float64") if not isinstance(left, pd.Series) else left
            if sign == "^":
                left = left.astype("Float64")
                right = float(right) if not isinstance(right, pd.Series) else right
        return compute(left, right)

    def _spatial(self, predicate: str, first: Any, second: Any) -> Any:
        import numpy as np
        import pandas as pd
        import shapely

        sides = []
        for node in (first, second):
            value = self.value(node)
            if type_word(value) != "geometry":
                raise self._complaint(
                    f"s_{predicate} is for geometries, and {shown(node)} is {type_word(value)}",
                    f"the layer's geometry column is {getattr(self.layer, 'active_geometry_name', None)!r}",
                )
            sides.append(np.asarray(value.array, dtype=object) if isinstance(value, pd.Series) else value)
        a, b = sides
        if not isinstance(a, np.ndarray):
            shapely.prepare(a)
        if not isinstance(b, np.ndarray):
            shapely.prepare(b)
            inverse = {"within": "contains", "contains": "within"}.get(predicate, predicate)
            if isinstance(a, np.ndarray):  # the prepared one first: that is what preparing speeds up
                a, b, predicate = b, a, inverse
        try:
            found = np.broadcast_to(getattr(shapely, predicate)(a, b), len(self.layer))
        except shapely.errors.GEOSException as error:
            said = f"in {self.what}, s_{predicate} could not be decided: {error}"
            raise engine_failure(error, said, self.where, "make_valid before") from error
        unknown = np.zeros(len(self.layer), dtype=bool)
        for side in (a, b):
            unknown |= np.broadcast_to(shapely.is_missing(side), len(self.layer))
        return pd.Series(found).astype("boolean").mask(unknown)

    def _temporal(self, name: str, first: Any, second: Any) -> Any:
        import pandas as pd

        bounds: list[Any] = []
        unknown = pd.Series([False] * len(self.layer))
        for node in (first, second):
            value = self.value(node)
            if isinstance(value, pd.Series):
                if value.dtype == object:
                    value = pd.to_datetime(value, errors="coerce", utc=True)
                if value.dtype.kind != "M":
                    raise self._complaint(
                        f"{name} is for times, and {shown(node)} is {type_word(value)}", "check its type"
                    )
                value = utc(value)
                unknown |= value.isna()
            start, end = value if isinstance(value, tuple) else (value, value)
            if isinstance(start, str) or isinstance(end, str):
                raise self._complaint(
                    f"{name} is for times, and {shown(node)} is text", "write TIMESTAMP('…') or DATE('…')"
                )
            far = pd.Timestamp.min.tz_localize("UTC"), pd.Timestamp.max.tz_localize("UTC")
            bounds += [far[0] if start is None else start, far[1] if end is None else end]
        result = _TEMPORAL[name](*bounds)
        if not isinstance(result, pd.Series):
            result = pd.Series([bool(result)] * len(self.layer))
        return result.astype("boolean").mask(unknown.to_numpy(dtype=bool))

    def _complaint(self, what: str, remedy: str) -> InputFailure:
        return InputFailure(f"in {self.what}, {what}", where=self.where, remedy=remedy)
