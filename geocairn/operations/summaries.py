"""Operations that sum up many rows in a few figures: summarize, summarize_within, sum_line_lengths.

What always holds: functions pass over missing values, and the sum of none is missing; a group is in order of its first
row; where a polygon may have no figure, integers and truth values are nullable types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.engine_errors import engine_failure
from geocairn.failure import InputFailure
from geocairn.operations.aggregation import Aggregates
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnName, ColumnNames

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from geopandas import GeoDataFrame
    from pandas import DataFrame

    Array = np.ndarray[Any, Any]

Statistics = Annotated[
    Aggregates,
    Field(
        description="by column, a function or several of its values; with one function the column keeps its name, with "
        "several it becomes name_function"
    ),
]
_UNWEIGHTED = ("median", "std")


def _check_functions(statistics: Mapping[str, Sequence[str]]) -> None:
    for column, functions in statistics.items():
        if len(set(functions)) != len(functions):
            raise ValueError(f"statistics: a function is named twice for {column!r}")


def _check_summarize(parameters: Any) -> None:
    _check_functions(parameters.statistics)
    for column, functions in parameters.statistics.items():
        if column in parameters.by and len(functions) == 1:
            raise ValueError(f"statistics: {column!r} is a column of by, and its figure would be called the same")
    if parameters.count_column is not None and parameters.count_column in parameters.by:
        raise ValueError("count_column and by need different names")


def _summary_promise(parameters: Any) -> dict[str, Any]:
    return {} if parameters.geometry == "none" else {"kind": "same"}


@operation(
    version=1,
    result="table",
    rows="any",
    validate=_check_summarize,
    varies=_summary_promise,
    example={"layer": "places", "by": "kind", "statistics": {"people": ["sum", "mean"]}, "count_column": "places"},
)
def summarize(
    layer: GeoDataFrame | DataFrame,
    *,
    by: Annotated[ColumnNames, Field(description="column or columns whose values make groups")],
    statistics: Statistics,
    geometry: Annotated[
        Literal["none", "first", "collect"],
        Field(
            description="the geometry of a group: none (the result is a table); first: of its first row that has one; "
            "collect: all of them, as one multipart geometry (polygons that overlap are united by dissolve alone)"
        ),
    ] = "none",
    count_column: Annotated[
        ColumnName | None, Field(description="column to add for the number of rows of each group")
    ] = None,
) -> DataFrame:
    """Compute figures of each group of rows.

    The result has the columns `by`, the figures in the order given, the count, and the geometry if one is asked for;
    one row for each group, in order of first appearance. A missing value makes a group of its own. Without a geometry
    the result is a table: join it to a layer (attribute_join) or write it as CSV or Parquet. The layer may be a table.

    Raises
    ------
    InputFailure : for a column that is not there or that a function cannot take, a name that would be there twice, a
        geometry asked of a table, or (collect) a group that mixes kinds of geometry.
    """
    import numpy as np
    import pandas as pd

    from geocairn.operations.aggregation import aggregated
    from geocairn.operations.layers import assemble, check_columns, geometry_values, group_codes, pick_rows
    from geocairn.operations.multipart import collect

    where = "summarize"
    active = getattr(layer, "active_geometry_name", None)
    check_columns(layer, [*by, *statistics], where)
    _check_attributes(layer, [*by, *statistics], where)
    if active is None and geometry != "none":
        raise InputFailure("a table has no geometry to give", where=where, remedy="leave geometry out")
    frame = pd.DataFrame(layer).reset_index(drop=True)
    codes = group_codes(frame, by)
    _, first = np.unique(codes, return_index=True)
    table = pick_rows(frame[by], first)
    made = aggregated(frame, codes, statistics, where)
    if count_column is not None:
        _add(made, count_column, pd.array(np.bincount(codes, minlength=len(first)), dtype="Int64"), where)
    for name, values in made.items():
        if name in table.columns or (name == active and geometry != "none"):
            raise InputFailure(
                f"the result would have two columns {name!r}", where=where, remedy="rename one before (select_columns)"
            )
        table[name] = values
    if geometry == "none":
        return table
    if geometry == "first":
        shapes = _first_geometry(layer, codes, len(first))
    else:
        shapes = geometry_values(collect.function(layer, by=by))
    return assemble(table, str(active), shapes, layer.crs)


def _first_geometry(layer: GeoDataFrame, codes: Array, count: int) -> Array:
    """Return the geometry of each group's first row that has one; missing where none has."""
    import numpy as np

    from geocairn.operations.layers import geometry_values
    from geocairn.operations.parts import present

    values = geometry_values(layer)
    rows = np.flatnonzero(present(values))
    groups, starts = np.unique(codes[rows], return_index=True)
    result = np.full(count, None, dtype=object)
    result[groups] = values[rows[starts]]
    return result


def _check_within(parameters: Any) -> None:
    _check_functions(parameters.statistics)
    for column, functions in parameters.statistics.items():
        for function in functions:
            if parameters.weight is not None and function in _UNWEIGHTED:
                raise ValueError(f"statistics: {function} of {column!r} has no weighted form: leave weight out")


@operation(
    version=1,
    result="same",
    kinds={"polygons": ("polygon",)},
    rows="each",
    planar=lambda parameters: parameters.weight is not None,
    validate=_check_within,
    example={"polygons": "zones", "layer": "parcels", "statistics": {"value": "sum"}, "weight": "area"},
)
def summarize_within(
    polygons: GeoDataFrame,
    layer: GeoDataFrame,
    *,
    statistics: Statistics,
    weight: Annotated[
        Literal["area", "length"] | None,
        Field(
            description="how much a feature counts: none: whole, wherever a part of it lies; area, length: by the "
            "share of its area or length that lies in the polygon"
        ),
    ] = None,
    count_column: Annotated[ColumnName, Field(description="column for the number of features")] = "count",
) -> GeoDataFrame:
    """Compute figures of the features in each polygon.

    Without `weight` a feature counts whole for each polygon that holds a part of it: a point on a boundary for every
    polygon that it touches, a line or polygon that only touches one for none. With `weight: area` (for polygons) or
    `weight: length` (for lines) a feature counts by the share of it that lies in the polygon: sums add up value times
    share, means are weighted by the shares; the other functions take each feature with a share as it is, as does the
    count. Median and standard deviation have no weighted form here.

    The count is 0 where there is none, and the figures are missing. Sums by share are floats.

    Raises
    ------
    InputFailure : for a column that is not there or that a function cannot take, a name that would be there twice,
        features that have no area or length to be weighted by, or invalid polygons.
    """
    import numpy as np
    import pandas as pd

    from geocairn.operations.layers import (
        added,
        attributes,
        check_columns,
        check_new_columns,
        geometry_values,
        partner_rows,
    )
    from geocairn.operations.parts import check_valid

    where = "summarize_within"
    check_columns(layer, statistics, where)
    _check_attributes(layer, statistics, where)
    a, b = geometry_values(polygons), geometry_values(layer)
    check_valid(a, "polygons", where)
    first, second, shares = _held(a, b, weight, where)
    frame = attributes(layer).iloc[second].reset_index(drop=True)
    places, codes = np.unique(first, return_inverse=True)
    made = _weighted(frame, codes, statistics, shares, where)
    _add(made, count_column, pd.array(np.bincount(first, minlength=len(a)), dtype="Int64"), where)
    check_new_columns(polygons, made, where)
    position = np.full(len(a), -1)
    position[places] = np.arange(len(places))
    count = made.pop(count_column)
    table = partner_rows(pd.DataFrame(made, index=pd.RangeIndex(len(places))), position)
    return added(polygons, {**{name: table[name] for name in table.columns}, count_column: count})


def _held(polygons: Array, values: Array, weight: str | None, where: str) -> tuple[Array, Array, Array | None]:
    """Return the pairs of polygons and features that count for them, and the features' shares."""
    import numpy as np
    import shapely

    from geocairn.operations.pairs import related
    from geocairn.operations.parts import LINE, POINT, POLYGON, check_valid, dimensions, present

    kinds = dimensions(values)
    if weight is None:
        first, second = related(polygons, values, "intersects", None, where)
        wide = kinds[second] != POINT
        if not wide.any():
            return first, second, None
        try:
            alone = ~wide
            alone[wide] = ~shapely.touches(polygons[first[wide]], values[second[wide]])
        except shapely.errors.GEOSException as error:
            raise engine_failure(
                error, f"what lies within could not be decided: {error}", where, "make_valid before this step"
            ) from error
        return first[alone], second[alone], None
    wanted, measure = (POLYGON, shapely.area) if weight == "area" else (LINE, shapely.length)
    if (present(values) & (kinds != wanted)).any():
        raise InputFailure(
            f"weight: {weight} is for {'polygons' if weight == 'area' else 'lines'}, and the layer has other geometry",
            where=where,
            remedy="leave weight out, or keep one kind",
        )
    check_valid(values, "layer", where)
    first, second = related(polygons, values, "intersects", None, where)
    parts = _parts(polygons, values, first, second, measure, where)
    whole = measure(values[second])
    with np.errstate(all="ignore"):
        shares = np.where(whole > 0, parts / whole, 0.0)
    counted = shares > 0
    return first[counted], second[counted], np.minimum(shares[counted], 1.0)


def _parts(polygons: Array, values: Array, first: Array, second: Array, measure: Any, where: str) -> Array:
    """Return how much (area or length) of each pair's feature lies in its polygon."""
    import numpy as np
    import shapely

    from geocairn.operations.pairs import related

    inside_first, inside_second = related(polygons, values, "covers", None, where)
    width = len(values)
    inside = np.isin(first * width + second, inside_first * width + inside_second)
    result: Array = np.zeros(len(first))
    result[inside] = measure(values[second[inside]])
    try:
        cut = shapely.intersection(values[second[~inside]], polygons[first[~inside]])
    except shapely.errors.GEOSException as error:
        raise engine_failure(
            error, f"the parts within could not be computed: {error}", where, "make_valid before this step"
        ) from error
    result[~inside] = measure(cut)
    return result


def _weighted(
    frame: pd.DataFrame, codes: Array, statistics: Mapping[str, Sequence[str]], shares: Array | None, where: str
) -> dict[str, Any]:
    """Return the figures of each group, sums and means by the shares where there are any."""
    import numpy as np
    import pandas as pd

    from geocairn.operations.aggregation import aggregated

    made = aggregated(frame, codes, statistics, where)
    if shares is None:
        return made
    count = int(codes.max()) + 1 if len(codes) else 0
    for column, functions in statistics.items():
        for function in functions:
            if function not in ("sum", "mean"):
                continue
            values = frame[column].to_numpy(dtype="float64", na_value=np.nan)
            known = ~np.isnan(values)
            total = np.bincount(codes[known], weights=values[known] * shares[known], minlength=count)
            weights = np.bincount(codes[known], weights=shares[known], minlength=count)
            with np.errstate(all="ignore"):
                figure = total if function == "sum" else total / weights
            name = column if len(functions) == 1 else f"{column}_{function}"
            made[name] = pd.Series(np.where(weights > 0, figure, np.nan)).array
    return made


@operation(
    version=1,
    result="same",
    kinds={"polygons": ("polygon",), "lines": ("line",)},
    rows="each",
    planar=True,
    example={"polygons": "zones", "lines": "roads"},
)
def sum_line_lengths(
    polygons: GeoDataFrame,
    lines: GeoDataFrame,
    *,
    length_column: Annotated[
        ColumnName, Field(description="column for the length of the lines inside, in units of the CRS")
    ] = "length",
    count_column: Annotated[
        ColumnName, Field(description="column for the number of lines that meet the polygon")
    ] = "count",
) -> GeoDataFrame:
    """Measure the lines inside each polygon, and count them.

    The length is that of the parts inside the polygon, its boundary included: a line along a border counts for both
    sides. The count is of rows, each once, and of those that only touch too. Without lines both are 0.

    Raises
    ------
    InputFailure : for invalid polygons, or a name that is there already.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.operations.layers import added, check_new_columns, geometry_values
    from geocairn.operations.pairs import related
    from geocairn.operations.parts import check_valid

    where = "sum_line_lengths"
    if length_column == count_column:
        raise InputFailure("length_column and count_column need different names", where=where)
    check_new_columns(polygons, [length_column, count_column], where)
    a, b = geometry_values(polygons), geometry_values(lines)
    check_valid(a, "polygons", where)
    first, second = related(a, b, "intersects", None, where)
    parts = _parts(a, b, first, second, shapely.length, where)
    lengths = np.bincount(first, weights=parts, minlength=len(a)).astype("float64")
    counts = pd.array(np.bincount(first, minlength=len(a)), dtype="Int64")
    return added(polygons, {length_column: lengths, count_column: counts})


def _check_attributes(layer: Any, names: Any, where: str) -> None:
    for name in names:
        if str(layer.dtypes[name]) == "geometry":
            raise InputFailure(f"{name!r} is a geometry column, which is no key and has no figures", where=where)


def _add(made: dict[str, Any], name: str, values: Any, where: str) -> None:
    if name in made:
        raise InputFailure(
            f"the result would have two columns {name!r}", where=where, remedy="choose another count_column"
        )
    made[name] = values
