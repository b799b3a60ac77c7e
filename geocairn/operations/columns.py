"""Columns made from columns: compute_columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from geocairn.failure import InputFailure
from geocairn.filters.calculation import calculated, check_expression
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnName

if TYPE_CHECKING:
    from geopandas import GeoDataFrame
    from pandas import DataFrame

_WHERE = "compute_columns"


def _as_text(value: Any) -> Any:
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Expression = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int | float), Field(min_length=1)]
"""An expression; a number stands for itself."""


def _check_expressions(parameters: Any) -> None:
    for name, text in parameters.columns.items():
        try:
            check_expression(text)
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None


@operation(
    version=1,
    result="same",
    rows="each",
    validate=_check_expressions,
    example={"layer": "parcels", "columns": {"per_mille": "round(value / 80 * 1000, 1)", "dear": "value > 20"}},
)
def compute_columns(
    layer: GeoDataFrame | DataFrame,
    *,
    columns: Annotated[
        dict[ColumnName, Expression],
        Field(
            min_length=1,
            description="by the name of the column to add, an expression, such as: population / area_km2, "
            "round(100 * part / whole, 1), lpad(text(code), 5, '0'), name = 'Aix' AND pop > 1000",
        ),
    ],
    replace: Annotated[
        bool, Field(description="whether a column of that name that is there already is replaced, in its place")
    ] = False,
) -> GeoDataFrame:
    """Add columns that are computed from others, row by row.

    The language is that of `filter` (CQL2): column names, numbers, text in single quotes, `+ - * / ^ %` and `div`,
    comparisons and conditions; and these functions: abs, round(x, decimals), floor, ceil, sqrt, coalesce(a, b, …),
    concat(a, b, …), lower, upper, trim, lpad(text, width, letter), and text, number, integer to change the type. All
    expressions read the columns as they come in, none another's result. A table stays a table.

    Integers become `Int64`, exact in 64 bits or refused; other numbers `Float64`; conditions `boolean`; text `str`.
    `/` and `^` give floats (7 / 2 is 3.5); `div` rounds down, and `%` has the sign of the divisor. A missing value
    gives a missing one, as does what has no value (a division by zero): how often is told by the note
    `undefined_values`. Halves are rounded away from zero.

    Raises
    ------
    InputFailure : for wrong syntax, an unknown column or function (with the nearest right name), values of a type that
        an operator or function does not take, whole numbers beyond 64 bits, or a name that is there already.
    """
    from geocairn.notes import note
    from geocairn.operations.layers import check_new_columns

    active = getattr(layer, "active_geometry_name", None)
    if active in columns:
        raise InputFailure(f"{active!r} is the geometry, which no expression makes", where=_WHERE)
    if not replace:
        check_new_columns(layer, columns, _WHERE)
    made, undefined = {}, {}
    for name, text in columns.items():
        made[name], count = calculated(layer, text, name, _WHERE)
        if count:
            undefined[name] = count
    if undefined:
        note("undefined_values", undefined)
    result = layer.reset_index(drop=True)
    for name, column in made.items():
        result[name] = column.array
    return result
