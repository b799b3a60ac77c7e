"""A filter in CQL2 as a condition in SQL, for the part of the language that both sides understand alike.

Comparisons, BETWEEN and IN of columns and literals, LIKE, IS NULL, AND, OR, NOT, and spatial predicates of the
layer's geometry with a literal. What always holds: literals go in as parameters, never as text; missing values follow
the same three-valued logic; whatever is not translated is refused, and a type that cannot be compared is left to the
reference to complain of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from geocairn.failure import CapabilityFailure
from geocairn.filters.language import COMPARISONS, EXACT_INTEGER, SPATIAL, parse

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

_WHERE = "filter"
_LONGEST_INTEGER = 2**63
_EXACT = 2**53
_SPATIAL_FUNCTIONS = {name: f"ST_{predicate.title()}" for name, predicate in SPATIAL.items()}
_LITERALS = {bool: "truth", int: "whole", float: "real", str: "text"}
_SQL_TYPES = {"truth": "BOOLEAN", "whole": "BIGINT", "real": "DOUBLE", "text": "VARCHAR"}


def filter_refusal(where: str) -> str | None:
    """Return what in a filter DuckDB is not asked; None where all of it can be translated.

    Raises
    ------
    ValueError : for wrong syntax.
    """
    return _refused(parse(where))


def _refused(node: Any) -> str | None:
    name = node.get("op") if isinstance(node, dict) else None
    if name is None:
        return "a filter that is a column or a literal alone is not claimed"
    args = node["args"]
    if name in ("and", "or", "not"):
        return next((found for found in map(_refused, args) if found is not None), None)
    if name in SPATIAL:
        shapes = [arg for arg in args if isinstance(arg, dict) and ("bbox" in arg or "coordinates" in arg)]
        taken = len(shapes) == 1 and any(_is_column(arg) for arg in args)
        return None if taken else f"{name} is claimed for a column and a literal geometry only"
    if name == "isNull":
        return None if _is_column(args[0]) else "IS NULL is claimed for columns only"
    if name == "like":
        taken = _is_column(args[0]) and isinstance(args[1], str) and not _ends_escaped(args[1])
        return None if taken else "LIKE is claimed for a column and a pattern that does not end in a backslash"
    if name in (*COMPARISONS, "between", "in"):
        operands = [*args[:1], *args[1]] if name == "in" else args
        taken = any(map(_is_column, operands)) and all(_is_column(one) or _is_literal(one) for one in operands)
        return None if taken else f"{name} is claimed for columns with literals or other columns only"
    return f"{name} is not claimed in a filter"


def _is_column(node: Any) -> bool:
    return isinstance(node, dict) and "property" in node


def _is_literal(node: Any) -> bool:
    if isinstance(node, dict):
        return node.get("op") == EXACT_INTEGER and abs(int(node["args"][0])) < _LONGEST_INTEGER
    return isinstance(node, bool | int | float | str)


def _ends_escaped(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


class Condition:
    """A filter on a layer as SQL over a table of its columns.

    Raises
    ------
    InputFailure : as the reference does, for unknown columns and types that cannot be compared.
    CapabilityFailure : for a column of a type, or geometry, that DuckDB would compare otherwise.
    """

    def __init__(self, layer: GeoDataFrame, where: str) -> None:
        self.layer = layer.reset_index(drop=True)
        self.where = where
        self.columns: dict[str, Any] = {}
        """The columns that the SQL reads, as Arrow arrays, under names of ours."""
        self.values: list[Any] = []
        """The literals: `$1` and so on."""
        self.reads_geometry = False
        self.sql = self._condition(parse(where))

    def _condition(self, node: Any) -> str:
        name, args = node["op"], node["args"]
        if name in ("and", "or"):
            return "(" + f" {name.upper()} ".join(self._condition(arg) for arg in args) + ")"
        if name == "not":
            return f"(NOT {self._condition(args[0])})"
        if name == "isNull":
            return f"{self._missing(args[0]['property'])}"
        if name in SPATIAL:
            return self._spatial(name, *args)
        if name == "like":
            kind, column = self._operand(args[0])
            if kind != "text":
                raise self._doubt(f"LIKE of a column of type {kind}")
            return f"({column} LIKE {self._parameter(args[1], 'text')} ESCAPE '\\')"
        if name == "between":
            return f"({self._compared('>=', args[0], args[1])} AND {self._compared('<=', args[0], args[2])})"
        if name == "in":
            return "(" + " OR ".join(self._compared("=", args[0], item) for item in args[1]) + ")"
        return self._compared(name, *args)

    def _compared(self, sign: str, left: Any, right: Any) -> str:
        (one, first), (other, second) = self._operand(left), self._operand(right)
        if {one, other} == {"whole", "real"}:  # as numpy has it
            first, second = f"CAST({first} AS DOUBLE)", f"CAST({second} AS DOUBLE)"
        elif one != other:
            raise self._doubt(f"{one} compared with {other}")
        if one == "truth" and sign not in ("=", "<>"):
            raise self._doubt(f"true or false compared by {sign}")
        return f"({first} {sign} {second})"

    def _operand(self, node: Any) -> tuple[str, str]:
        """Return the type and the SQL of a column or a literal."""
        if _is_column(node):
            return self._column(str(node["property"]))
        value = int(node["args"][0]) if isinstance(node, dict) else node
        if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
            value = int(value)
        kind = _LITERALS[type(value)]
        return kind, self._parameter(value, kind)

    def _parameter(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"CAST(${len(self.values)} AS {_SQL_TYPES[kind]})"

    def _series(self, name: str) -> Any:
        import pandas as pd

        if name not in self.layer.columns:
            raise self._doubt(f"an unknown column {name!r}")
        column = pd.Series(self.layer[name])
        return column.astype(column.dtype.categories.dtype) if isinstance(column.dtype, pd.CategoricalDtype) else column

    @cached_property
    def _named(self) -> dict[tuple[str, str], str]:
        return {}

    def _keep(self, name: str, use: str, array: Any) -> str:
        chosen = self._named.setdefault((name, use), f"c{len(self._named)}")
        self.columns[chosen] = array
        return chosen

    def _missing(self, name: str) -> str:
        import pyarrow as pa

        return self._keep(name, "missing", pa.array(self._series(name).isna().to_numpy(dtype=bool)))

    def _column(self, name: str) -> tuple[str, str]:
        import numpy as np
        import pandas as pd
        import pyarrow as pa

        series = self._series(name)
        missing = series.isna().to_numpy(dtype=bool)
        dtype = series.dtype
        if str(dtype) == "object":
            raise self._doubt(f"column {name!r} of type {dtype}")
        if pd.api.types.is_bool_dtype(dtype):
            kind, values = "truth", series.fillna(False).to_numpy(dtype=bool)
        elif pd.api.types.is_integer_dtype(dtype) and str(dtype).lower() != "uint64":
            kind, values = "whole", series.fillna(0).to_numpy(dtype="int64")
        elif str(dtype) in ("float64", "Float64"):
            kind, values = "real", series.to_numpy(dtype="float64", na_value=np.nan)
            if (np.isnan(values) & ~missing).any():
                raise self._refusal(f"column {name!r}, which has NaN beside missing values")
        elif pd.api.types.is_string_dtype(dtype):
            kind, values = "text", series.astype(object).to_numpy()
        else:
            raise self._doubt(f"column {name!r} of type {dtype}")
        types = {"truth": pa.bool_(), "whole": pa.int64(), "real": pa.float64(), "text": pa.large_string()}
        return kind, self._keep(name, "value", pa.array(values, types[kind], mask=missing))

    def _spatial(self, name: str, first: Any, second: Any) -> str:
        import numpy as np

        from geocairn.backends.duckdb_exchange import refuse_empty_parts, refuse_invalid, refuse_touching_rings
        from geocairn.operations.layers import geometry_values

        sides, shapes = [], []
        for node in (first, second):
            if _is_column(node):
                if node["property"] != self.layer.geometry.name:
                    raise self._doubt(f"{name} of column {node['property']!r}, which is not the layer's geometry")
                self.reads_geometry = True
                sides.append("g")
                shapes.append(geometry_values(self.layer))
            else:
                sql, shape = self._literal_geometry(node)
                sides.append(sql)
                shapes.append(np.array([shape], dtype=object))
        for values in shapes:
            refuse_invalid(values, _WHERE)
            refuse_empty_parts(values, _WHERE)
            if name not in ("s_intersects", "s_disjoint"):
                refuse_touching_rings(values, _WHERE)
        return f"{_SPATIAL_FUNCTIONS[name]}({sides[0]}, {sides[1]})"

    def _literal_geometry(self, node: Mapping[str, Any]) -> tuple[str, Any]:
        import numpy as np
        import shapely

        from geocairn.backends.duckdb_exchange import check_passable
        from geocairn.filters.values import literal_geometry

        shape = literal_geometry(dict(node))
        if shape.is_empty:
            raise self._refusal("an empty literal geometry")
        check_passable(np.array([shape], dtype=object), _WHERE)
        self.values.append(shapely.to_wkb(shape, flavor="iso"))
        return f"ST_GeomFromWKB(CAST(${len(self.values)} AS BLOB))", shape

    def _doubt(self, what: str) -> CapabilityFailure:
        """Let the reference complain of what is wrong; return a refusal where it finds nothing wrong."""
        from geocairn.filters.evaluation import matching

        matching(self.layer, self.where)
        return self._refusal(what)

    def _refusal(self, what: str) -> CapabilityFailure:
        return CapabilityFailure(
            f"backend duckdb does not take {what}", where=_WHERE, remedy="use backend geopandas for this step"
        )
