"""Joining by attributes: attribute_join, of a layer and a table or another layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnNames, Suffixes

if TYPE_CHECKING:
    from geopandas import GeoDataFrame
    from pandas import DataFrame

Validate = Literal["one_to_one", "one_to_many", "many_to_one", "many_to_many"]
_WHERE = "attribute_join"


def _check_keys(parameters: Any) -> None:
    left, right = len(parameters.left_on), len(parameters.right_on)
    if left != right:
        raise ValueError(f"left_on names {left} columns and right_on {right}: they go in pairs")


def _rows_promise(parameters: Any) -> dict[str, Any]:
    if parameters.validate in ("one_to_one", "many_to_one"):
        return {"rows": "some" if parameters.how == "inner" else "each"}
    return {}


@operation(
    version=1,
    result="same",
    rows="any",
    same_crs=False,
    validate=_check_keys,
    varies=_rows_promise,
    example={"left": "parcels", "right": "owners", "left_on": "parcel", "right_on": "parcel"},
)
def attribute_join(
    left: GeoDataFrame,
    right: GeoDataFrame | DataFrame,
    *,
    left_on: Annotated[ColumnNames, Field(description="column or columns of the left that make its key")],
    right_on: Annotated[ColumnNames, Field(description="columns of the right to compare them with, in the same order")],
    how: Annotated[
        Literal["left", "inner"], Field(description="left: rows without a partner stay, inner: they are left out")
    ] = "left",
    columns: Annotated[
        ColumnNames | None,
        Field(
            description="the right's columns to carry over, in this order; none: all but its geometry and the key "
            "columns that are called the same on the left"
        ),
    ] = None,
    suffixes: Suffixes = ("_left", "_right"),
    validate: Annotated[
        Validate | None,
        Field(
            description="what must hold of the keys, read from left to right: one_to_one, one_to_many and many_to_one "
            "refuse a key that occurs more than once where it says one"
        ),
    ] = None,
) -> GeoDataFrame:
    """Add the columns of the right rows whose key is equal.

    The right may be a table (a source with `table: true`). Rows are ordered by left row, then by right row; a left row
    with several partners is repeated. A missing value in a key equals nothing. With `how: left`, the right's integers
    and truth values become nullable types, whether or not a partner is missing. The CRS is the left's; the right's
    geometry is not carried over. Text is compared letter by letter; a whole number equals a float of the same value.

    How many left rows found no partner is told by the note `unmatched_rows`; that none found one, by a caveat.

    Raises
    ------
    InputFailure : for a column that is not there, keys of two types (text "01" and the number 1), a key that occurs
        more than once against `validate`, or a name that would be there twice.
    """
    import numpy as np
    import pandas as pd

    from geocairn.notes import caveat, note
    from geocairn.operations.joins import joined_rows, with_unmatched
    from geocairn.operations.keys import check_unique, matched, partners
    from geocairn.operations.layers import check_columns

    check_columns(left, left_on, _WHERE, role="left")
    check_columns(right, [*right_on, *(columns or [])], _WHERE, role="right")
    table = pd.DataFrame(right).reset_index(drop=True)
    frame = pd.DataFrame(left).reset_index(drop=True)
    first_codes, second_codes = matched(frame, table, left_on, right_on, _WHERE)
    if validate in ("one_to_one", "one_to_many"):
        check_unique(first_codes, "left", left_on, frame, validate, _WHERE)
    if validate in ("one_to_one", "many_to_one"):
        check_unique(second_codes, "right", right_on, table, validate, _WHERE)
    first, second = partners(first_codes, second_codes)
    alone = int((np.bincount(first, minlength=len(left)) == 0).sum())
    note("unmatched_rows", alone)
    if alone and alone == len(left) and len(right):
        caveat(
            f"no row found a partner: no {', '.join(left_on)} of the left equals a {', '.join(right_on)} of the right"
        )
    if how == "left":
        first, second, _ = with_unmatched(len(left), first, second)
    carried = table[_carried(right, left_on, right_on, columns)]
    return joined_rows(left, carried, first, second, suffixes, how == "left", _WHERE)


def _carried(right: Any, left_on: list[str], right_on: list[str], columns: list[str] | None) -> list[str]:
    if columns is not None:
        return columns
    same = {name for name, other in zip(right_on, left_on, strict=True) if name == other}
    geometry = getattr(right, "active_geometry_name", None)
    return [name for name in right.columns if name not in same and name != geometry]
