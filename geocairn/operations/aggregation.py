"""Operations that make one row of many, or count many into one: dissolve, count_points."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnName, ColumnNames, GridSize

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

AggregateFunction = Literal["first", "last", "min", "max", "sum", "mean", "median", "std", "count", "nunique"]
Aggregates = dict[
    ColumnName,
    Annotated[
        list[AggregateFunction],
        Field(min_length=1),
        BeforeValidator(
            lambda value: [value] if isinstance(value, str) else value,
            json_schema_input_type=AggregateFunction | list[AggregateFunction],
        ),
    ],
]
NO_AGGREGATES: Aggregates = {}
_OF_NUMBERS = ("sum", "mean", "median", "std")


def _check_dissolve(parameters: Any) -> None:
    if parameters.method == "coverage" and parameters.grid_size is not None:
        raise ValueError("grid_size goes with method unary: a coverage's edges are used as they are")
    for column, functions in parameters.aggregates.items():
        if len(set(functions)) != len(functions):
            raise ValueError(f"aggregates: a function is named twice for {column!r}")
        if parameters.by is not None and column in parameters.by:
            raise ValueError(f"aggregates: {column!r} is a column to dissolve by")


@operation(
    version=2,
    result="same",
    rows="any",
    validate=_check_dissolve,
    example={"layer": "parcels", "by": "use", "aggregates": {"value": "sum"}},
)
def dissolve(
    layer: GeoDataFrame,
    *,
    by: Annotated[
        ColumnNames | None, Field(description="column or columns whose values make groups; none: all rows")
    ] = None,
    aggregates: Annotated[
        Aggregates,
        Field(
            description="by column, a function or several for the result's attributes; with one function the column "
            "keeps its name, with several it becomes name_function"
        ),
    ] = NO_AGGREGATES,
    keep_null_keys: Annotated[
        bool,
        Field(description="rows whose key is missing make a group of their own; else they are left out and counted"),
    ] = True,
    method: Annotated[
        Literal["unary", "coverage"],
        Field(
            description="coverage is faster, for polygons that share edges exactly and do not overlap; that is checked"
        ),
    ] = "unary",
    grid_size: GridSize = None,
) -> GeoDataFrame:
    """Unite the geometries of each group of rows.

    The result has the columns `by`, the aggregates in the order given, and the geometry; one row for each group, in
    order of first appearance. Other attributes are left out, since no single row's value stands for a group.
    Functions pass over missing values (`first` is the first that is not missing); the sum of none is missing. Missing
    geometries are passed over; a group without any keeps its row, its geometry missing.

    Raises
    ------
    InputFailure : for a column that is not there or that a function cannot take, invalid polygons, a group that mixes
        kinds of geometry, or (coverage) polygons that overlap or do not meet exactly.
    """
    import numpy as np
    import pandas as pd

    from geocairn.notes import note
    from geocairn.operations.layers import (
        assemble,
        check_columns,
        geometry_name,
        geometry_values,
        group_codes,
        pick_rows,
    )
    from geocairn.operations.parts import check_no_m, check_valid, off_grid, present

    where = "dissolve"
    keys = by or []
    check_columns(layer, [*keys, *aggregates], where)
    active = geometry_name(layer)
    for name in (*keys, *aggregates):
        if layer.dtypes[name].name == "geometry":
            raise InputFailure(f"{name!r} is a geometry column, which is no key and has no aggregate", where=where)
    frame = layer.reset_index(drop=True)
    if keys and not keep_null_keys:
        complete = frame[keys].notna().all(axis=1).to_numpy()
        note("rows_removed", int((~complete).sum()))
        frame = pick_rows(frame, complete)
    values = geometry_values(frame)
    check_valid(values, "layer", where)
    check_no_m(values, "layer", where)
    codes = group_codes(frame, keys) if keys else np.zeros(len(frame), dtype="int64")
    _, first = np.unique(codes, return_index=True)
    order = np.argsort(codes, kind="stable")
    order = order[present(values)[order]]
    united = _united(values[order], codes[order], len(first), method, grid_size)
    if grid_size is not None:
        united = off_grid(united)
    table = pick_rows(pd.DataFrame(frame[keys]), first) if keys else pd.DataFrame(index=pd.RangeIndex(len(first)))
    for name, values_of in aggregated(pd.DataFrame(frame), codes, aggregates, where).items():
        if name in table.columns or name == active:
            raise InputFailure(
                f"the result would have two columns {name!r}", where=where, remedy="rename one before (select_columns)"
            )
        table[name] = values_of
    return assemble(table, active, united, layer.crs)


def _united(values: Array, codes: Array, count: int, method: str, grid_size: float | None) -> Array:
    import numpy as np
    import shapely

    from geocairn.operations.parts import COLLECTION, dimensions, union_groups

    mixed = np.zeros(count, dtype=bool)
    kinds = dimensions(values)
    if len(kinds) and (kinds != kinds[0]).any():
        lowest, highest = np.full(count, COLLECTION), np.full(count, -1)
        np.minimum.at(lowest, codes, kinds)
        np.maximum.at(highest, codes, kinds)
        mixed = (lowest < highest) & (highest >= 0)
    mixed[codes[kinds == COLLECTION]] = True
    refuse_mixed_groups(mixed)
    try:
        return (
            _coverage(values, codes, count) if method == "coverage" else union_groups(values, codes, count, grid_size)
        )
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"the geometry engine gave up: {error}", "dissolve", "make_valid before, or set grid_size"
        ) from error


def refuse_mixed_groups(mixed: Array) -> None:
    """Refuse groups with several kinds of geometry, or a collection.

    Raises
    ------
    InputFailure : naming the rows of the result.
    """
    from geocairn.operations.layers import name_rows

    if mixed.any():
        raise InputFailure(
            f"a group mixes kinds of geometry: result {name_rows(mixed)}",
            where="dissolve",
            remedy="explode, and dissolve each kind on its own",
        )


def _coverage(values: Array, codes: Array, count: int) -> Array:
    """Return the union of each group's polygons by leaving out the edges that two share."""
    import numpy as np
    import shapely

    from geocairn.operations.layers import name_rows
    from geocairn.operations.parts import POLYGON, dimensions, single_parts

    if (dimensions(values) != POLYGON).any():
        raise InputFailure("method coverage is for polygons", where="dissolve", remedy="use method unary")
    parts, owners = single_parts(values)
    groups = codes[owners]
    starts = np.searchsorted(groups, np.arange(count + 1))
    if not shapely.coverage_is_valid(parts):
        # Rows of different groups may overlap; only within a group it matters.
        broken = np.array(
            [not shapely.coverage_is_valid(parts[start:end]) for start, end in itertools.pairwise(starts)],
            dtype=bool,
        )
        if broken.any():
            raise InputFailure(
                f"polygons of a group overlap, or do not meet edge to edge: result {name_rows(broken)}",
                where="dissolve",
                remedy="use method unary",
            )
    result = np.full(count, None, dtype=object)
    if len(parts):
        numbers, inner = np.unique(groups, return_inverse=True)
        collected = shapely.geometrycollections(parts, indices=inner)
        result[numbers] = shapely.coverage_union_all(collected.reshape(-1, 1), axis=1)
    return result


def aggregated(
    frame: pd.DataFrame, codes: Array, aggregates: Mapping[str, Sequence[str]], where: str
) -> dict[str, Any]:
    """Return the columns of the aggregates, a value for each code that occurs, in order of the codes.

    Raises
    ------
    InputFailure : for a function that a column's type does not take.
    """
    import pandas as pd

    found: dict[str, Any] = {}
    for column, functions in aggregates.items():
        series = frame[column]
        numeric = pd.api.types.is_numeric_dtype(series.dtype)
        groups = series.groupby(codes, sort=True, observed=True)
        for function in functions:
            if function in _OF_NUMBERS and not numeric:
                raise InputFailure(
                    f"{function} is for numbers, and column {column!r} is of type {series.dtype}",
                    where=where,
                )
            try:
                result = groups.sum(min_count=1) if function == "sum" else getattr(groups, function)()
            except TypeError as error:
                raise InputFailure(
                    f"{function} cannot be taken of column {column!r} of type {series.dtype} ({error})",
                    where=where,
                ) from None
            name = column if len(functions) == 1 else f"{column}_{function}"
            found[name] = result.array
    return found


def _check_count(parameters: Any) -> None:
    if parameters.by is not None and parameters.column in parameters.by:
        raise ValueError("column and by need different names")


@operation(
    version=1,
    result="polygon",
    kinds={"polygons": ("polygon",), "points": ("point",)},
    rows="each",
    validate=_check_count,
    varies=lambda parameters: {} if parameters.by is None else {"rows": "any"},
    example={"polygons": "parcels", "points": "places", "weight": "people", "column": "people"},
)
def count_points(
    polygons: GeoDataFrame,
    points: GeoDataFrame,
    *,
    column: Annotated[ColumnName, Field(description="column for the count, or for the sum of the weights")] = "count",
    weight: Annotated[
        ColumnName | None,
        Field(description="column of the points to sum instead of counting; missing weights are passed over"),
    ] = None,
    by: Annotated[
        ColumnNames | None,
        Field(
            description="columns of the points: count each of their values alone, in a row for each polygon and value"
        ),
    ] = None,
) -> GeoDataFrame:
    """Count the points in each polygon, or sum a column of theirs.

    A point on a boundary counts for every polygon that it touches; each point of a multipoint counts. The count is of
    type `Int64`; a sum is `Int64` for integers and float else; without points both are 0. With `by`, a polygon has a
    row for each value among its points, in order of the values' first appearance in the points, and one row with a
    missing value and 0 if it has none.

    Raises
    ------
    InputFailure : for a column that is not there, a weight that is no number, or a name that would be there twice.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.layers import (
        added,
        check_columns,
        check_new_columns,
        geometry_values,
        group_codes,
        partner_rows,
        pick_rows,
    )
    from geocairn.operations.pairs import related

    where = "count_points"
    keys = by or []
    check_columns(points, [*([] if weight is None else [weight]), *keys], where, role="points")
    check_new_columns(polygons, [column, *keys], where)
    weights = point_weights(points, weight)
    places, owners = shapely.get_parts(geometry_values(points), return_index=True)
    first, second = related(geometry_values(polygons), places, "intersects", None, where)
    rows = owners[second]
    if not keys:
        sums = summed(first, rows, weights, len(polygons))
        return added(polygons, {column: sums})
    codes = group_codes(points, keys)
    width = int(codes.max()) + 1 if len(codes) else 1
    pairs, inner = np.unique(first * width + codes[rows], return_inverse=True)
    sums = summed(inner, rows, weights, len(pairs))
    _, example = np.unique(codes, return_index=True)
    alone = np.setdiff1d(np.arange(len(polygons)), first)
    at = np.concatenate([pairs // width, alone])
    shown = np.concatenate([example[pairs % width] if len(pairs) else pairs, np.full(len(alone), -1)]).astype("int64")
    order = np.argsort(at, kind="stable")
    table = partner_rows(pd.DataFrame(points)[keys].reset_index(drop=True), shown[order])
    result = added(pick_rows(polygons, at[order]), {name: table[name] for name in keys})
    padded = pd.concat([pd.Series(sums), pd.Series(np.zeros(len(alone))).astype(sums.dtype)], ignore_index=True)
    return added(result, {column: padded.array[order]})


def point_weights(points: GeoDataFrame, weight: str | None) -> Array | None:
    """Return the weights as integers or floats, missing ones 0; None to count."""
    import pandas as pd

    if weight is None:
        return None
    series = points[weight]
    if not pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_bool_dtype(series.dtype):
        raise InputFailure(f"weight column {weight!r} is of type {series.dtype}, not a number", where="count_points")
    whole = pd.api.types.is_integer_dtype(series.dtype)
    filled: Array = series.fillna(0).to_numpy(dtype="int64" if whole else "float64")
    return filled


def summed(groups: Array, rows: Array, weights: Array | None, count: int) -> Any:
    """Return the sum of the weights in each group, exact for integers; without weights the number of rows."""
    sums = no_sums(weights, count)
    add_to_sums(sums, groups, rows, weights)
    return column_of_sums(sums)


def no_sums(weights: Array | None, count: int) -> Array:
    """Return sums of nothing, for so many groups."""
    import numpy as np

    sums: Array = np.zeros(count, dtype="int64" if weights is None else weights.dtype)
    return sums


def add_to_sums(sums: Array, groups: Array, rows: Array, weights: Array | None) -> None:
    """Add to each group's sum the weights of its rows, one after the other."""
    import numpy as np

    if weights is None:
        sums += np.bincount(groups, minlength=len(sums))
    else:
        np.add.at(sums, groups, weights[rows])


def column_of_sums(sums: Array) -> Any:
    """Return sums as the column that count_points adds."""
    import pandas as pd

    return pd.array(sums, dtype="Int64") if sums.dtype.kind == "i" else pd.Series(sums).array
