"""Operations that select rows or columns, or add measured ones: filter, select_columns, measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.failure import InputFailure
from geocairn.filters.language import check_syntax
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import METRES_IN, ColumnName, ColumnNames, LengthUnit

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@operation(
    version=1,
    result="same",
    rows="some",
    validate=lambda parameters: check_syntax(parameters.where),
    example={"layer": "places", "where": "people > 50 AND kind = 'town'"},
)
def filter(
    layer: GeoDataFrame,
    *,
    where: Annotated[
        str,
        Field(
            min_length=1,
            description="a condition in CQL2 text, such as: population > 100000 AND state IN ('NY', 'NJ') AND "
            "S_INTERSECTS(geometry, BBOX(-75, 40, -73, 42)); geometries in it are in the layer's CRS",
        ),
    ],
) -> GeoDataFrame:
    """Keep the rows for which a condition is true.

    The condition is CQL2 text, the OGC's filter language: comparisons, AND, OR, NOT, BETWEEN, IN, LIKE, IS NULL,
    arithmetic, CASEI, ACCENTI, spatial (S_INTERSECTS …) and temporal (T_AFTER …) predicates. A comparison with a
    missing value is not true, nor is its negation. Times without a zone are in UTC.

    Raises
    ------
    InputFailure : for wrong syntax, an unknown column or function (with the nearest right name), or types that cannot
        be compared.
    """
    from geocairn.filters.evaluation import matching
    from geocairn.operations.layers import pick_rows

    return pick_rows(layer, matching(layer, where))


def _check_selection(parameters: Any) -> None:
    if parameters.keep is not None and parameters.drop is not None:
        raise ValueError("give keep or drop, not both")
    if parameters.keep is None and parameters.drop is None and not parameters.rename:
        raise ValueError("give keep, drop or rename")


@operation(
    version=1,
    result="same",
    rows="each",
    validate=_check_selection,
    example={"layer": "parcels", "keep": ["use", "parcel"], "rename": {"use": "land_use"}},
)
def select_columns(
    layer: GeoDataFrame,
    *,
    keep: Annotated[
        ColumnNames | None, Field(description="columns to keep, in this order; the geometry stays, last unless named")
    ] = None,
    drop: Annotated[ColumnNames | None, Field(description="columns to leave out")] = None,
    rename: Annotated[
        dict[ColumnName, ColumnName] | None, Field(description="new names by present ones, after keep or drop")
    ] = None,
) -> GeoDataFrame:
    """Keep, leave out and rename columns. The active geometry column always stays; it can be renamed.

    Raises
    ------
    InputFailure : for a column that is not there, the geometry in `drop`, or a name that would be there twice.
    """
    import geopandas as gpd
    import pandas as pd

    from geocairn.operations.layers import check_columns, geometry_name

    where = "select_columns"
    active = geometry_name(layer)
    check_columns(layer, [*(keep or []), *(drop or [])], where)
    frame = pd.DataFrame(layer).reset_index(drop=True)
    if drop is not None:
        if active in drop:
            raise InputFailure(f"{active!r} is the geometry, which a layer cannot be without", where=where)
        frame = frame.drop(columns=drop)
    elif keep is not None:
        frame = frame[keep if active in keep else [*keep, active]]
    if rename:
        check_columns(frame, rename, where)
        names = [rename.get(name, name) for name in frame.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputFailure(f"the result would have two columns {', '.join(map(repr, twice))}", where=where)
        frame.columns = pd.Index(names)
        active = rename.get(active, active)
    return gpd.GeoDataFrame(frame, geometry=active)


def _check_measure(parameters: Any) -> None:
    names = [name for name in (parameters.area, parameters.length, parameters.perimeter) if name is not None]
    if not names:
        raise ValueError("name at least one column to add: area, length or perimeter")
    if len(set(names)) != len(names):
        raise ValueError("area, length and perimeter need columns of different names")


@operation(
    version=1,
    result="same",
    rows="each",
    planar=lambda parameters: bool(parameters.method == "planar"),
    validate=_check_measure,
    example={"layer": "parcels", "area": "area_m2", "perimeter": "outline_m"},
)
def measure(
    layer: GeoDataFrame,
    *,
    area: Annotated[
        ColumnName | None, Field(description="column for the area of polygons, in the unit's square")
    ] = None,
    length: Annotated[ColumnName | None, Field(description="column for the length of lines")] = None,
    perimeter: Annotated[
        ColumnName | None, Field(description="column for the length of polygons' outlines, holes included")
    ] = None,
    unit: Annotated[LengthUnit, Field(description="unit of lengths; areas are in its square")] = "m",
    method: Annotated[
        Literal["planar", "ellipsoidal"],
        Field(description="planar: in the plane of the CRS; ellipsoidal: along geodesics, in any CRS"),
    ] = "planar",
) -> GeoDataFrame:
    """Add columns of area, length or perimeter.

    Each measures its own kind: the area of a line is 0, as is the length of a polygon (its outline is `perimeter`). A
    missing geometry measures nothing (a missing value), an empty one 0. Planar measures are converted from the CRS's
    unit.

    Raises
    ------
    InputFailure : when the layer has a column of that name, when nothing in it is of the kind that is asked to be
        measured, or (ellipsoidal) when its CRS is unknown.
    """
    import numpy as np
    import shapely

    from geocairn.kinds import kinds_of
    from geocairn.operations.layers import added, check_new_columns, geometry_values
    from geocairn.operations.measurement import ellipsoidal_measures, planar_measures
    from geocairn.operations.preconditions import UNKNOWN_CRS_REMEDY

    asked = {"area": area, "length": length, "perimeter": perimeter}
    columns = {measured: name for measured, name in asked.items() if name is not None}
    check_new_columns(layer, columns.values(), "measure")
    kinds = kinds_of(layer)
    for measured in columns:
        kind = "line" if measured == "length" else "polygon"
        if kinds and not kinds & {kind, "collection"}:
            raise InputFailure(
                f"{measured} measures {kind}s, and the layer has {' and '.join(sorted(kinds))} geometry",
                where="measure",
                remedy="for the outlines of polygons use perimeter" if measured == "length" else "ask for length",
            )
    if layer.crs is None:
        raise InputFailure("the layer's CRS is unknown", where="measure", remedy=UNKNOWN_CRS_REMEDY)
    values = geometry_values(layer)
    compute = planar_measures if method == "planar" else ellipsoidal_measures
    metres = compute(values, layer.crs, tuple(columns))
    result = {}
    for measured, name in columns.items():
        factor = METRES_IN[unit] ** (2 if measured == "area" else 1)
        result[name] = np.where(shapely.is_missing(values), np.nan, metres[measured] / factor)
    return added(layer, result)
