"""Operations that put layers together, and take out what is there twice: merge_layers, deduplicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import ColumnName, ColumnNames, Number

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]


def _check_merge(parameters: Any) -> None:
    if parameters.source_names is not None and parameters.source_column is None:
        raise ValueError("source_names goes with source_column")


@operation(
    version=1,
    result="same",
    rows="any",
    validate=_check_merge,
    example={"layers": ["parcels", "zones"], "source_column": "from", "source_names": ["parcels", "zones"]},
)
def merge_layers(
    layers: list[GeoDataFrame],
    *,
    fields: Annotated[
        Literal["union", "intersection"],
        Field(
            description="union: the columns that any layer has, missing where one has not; intersection: those of all"
        ),
    ] = "union",
    source_column: Annotated[
        ColumnName | None, Field(description="column to add for the layer that each row comes from")
    ] = None,
    source_names: Annotated[
        ColumnNames | None,
        Field(description="what source_column holds, a text for each layer; none: their numbers, counted from 1"),
    ] = None,
) -> GeoDataFrame:
    """Put the rows of several layers one after the other.

    Columns are matched by name, in order of first appearance; the geometry is called as in the first layer. All layers
    must be in one CRS, and hold no kind of geometry that the first with any does not hold.

    A column of two types becomes one that holds both without loss: the wider integer, floats where integers are below
    2^53, text of categories, UTC of several time zones; else it is refused. Where a layer lacks a column, integers and
    truth values become nullable types.

    Raises
    ------
    InputFailure : for no layer at all, layers in two CRS (or one unknown), kinds of geometry that do not go together,
        a column whose types have nothing in common, or a name for source_column that is there already.
    """
    import pandas as pd

    from geocairn.operations.column_types import united_column
    from geocairn.operations.layers import assemble, geometry_name, geometry_values

    where = "merge_layers"
    if not layers:
        raise InputFailure("there is no layer to merge", where=where, remedy="name at least one")
    if source_names is not None and len(source_names) != len(layers):
        raise InputFailure(
            f"source_names has {len(source_names)} names for {len(layers)} layers", where=where, remedy="name each once"
        )
    labels = [f"layer {number}" for number in range(1, len(layers) + 1)]
    _check_kinds(layers, labels, where)
    active = geometry_name(layers[0])
    frames = [_attributes(layer, active, label, where) for layer, label in zip(layers, labels, strict=True)]
    names = list(dict.fromkeys(str(name) for frame in frames for name in frame.columns))
    if fields == "intersection":
        names = [name for name in names if all(name in frame.columns for frame in frames)]
    counts = [len(frame) for frame in frames]
    columns: dict[str, Any] = {}
    for name in names:
        parts = [frame[name] if name in frame.columns else None for frame in frames]
        spatial = [part is not None and str(part.dtype) == "geometry" for part in parts]
        if any(spatial):
            columns[name] = _geometry(name, parts, counts, labels, where)
        else:
            columns[name] = united_column(name, parts, counts, labels, where)
    if source_column is not None:
        if source_column in names or source_column == active:
            raise InputFailure(
                f"the layers have a column {source_column!r} already",
                where=where,
                remedy="choose another source_column",
            )
        columns[source_column] = _sources(counts, source_names)
    table = pd.DataFrame(columns, index=pd.RangeIndex(sum(counts)))
    return assemble(table, active, _concatenated([geometry_values(layer) for layer in layers]), layers[0].crs)


def _check_kinds(layers: list[GeoDataFrame], labels: list[str], where: str) -> None:
    from geocairn.kinds import kinds_of

    first: tuple[str, set[str]] | None = None
    for layer, label in zip(layers, labels, strict=True):
        kinds = kinds_of(layer)
        if first is None:
            first = (label, kinds) if kinds else None
        elif not kinds <= first[1]:
            raise InputFailure(
                f"{first[0]} has {' and '.join(sorted(first[1]))} geometry, {label} {' and '.join(sorted(kinds))}",
                where=where,
                remedy="merge each kind on its own",
            )


def _attributes(layer: GeoDataFrame, active: str, label: str, where: str) -> Any:
    from geocairn.operations.layers import attributes

    frame = attributes(layer)
    if active in frame.columns:
        raise InputFailure(
            f"{label} has an attribute {active!r}, which is what the geometry of the first is called",
            where=where,
            remedy="rename it before (select_columns)",
        )
    return frame


def _geometry(name: str, parts: list[Any], counts: list[int], labels: list[str], where: str) -> Any:
    import numpy as np
    from geopandas.array import from_shapely

    from geocairn.crs import crs_label

    first: tuple[str, Any] | None = None
    values = []
    for part, count, label in zip(parts, counts, labels, strict=True):
        if part is None:
            values.append(np.full(count, None, dtype=object))
            continue
        if str(part.dtype) != "geometry":
            raise InputFailure(
                f"column {name!r} is a geometry in one layer and {part.dtype} in {label}",
                where=where,
                remedy="rename one before (select_columns)",
            )
        if first is not None and part.array.crs != first[1]:
            raise InputFailure(
                f"column {name!r} is in {crs_label(first[1])} in {first[0]}, in {crs_label(part.array.crs)} in {label}",
                where=where,
                remedy="drop it before (select_columns)",
            )
        first = first or (label, part.array.crs)
        values.append(np.asarray(part.values, dtype=object))
    return from_shapely(_concatenated(values), crs=first[1] if first is not None else None)


def _concatenated(several: list[Array]) -> Array:
    import numpy as np

    result: Array = np.concatenate(several)
    return result


def _sources(counts: list[int], names: list[str] | None) -> Any:
    import numpy as np
    import pandas as pd

    if names is None:
        return pd.array(np.repeat(np.arange(1, len(counts) + 1), counts), dtype="Int64")
    return pd.Series(np.repeat(np.array(names, dtype=object), counts), dtype="str").array


def _check_deduplicate(parameters: Any) -> None:
    if parameters.by is None and not parameters.geometry:
        raise ValueError("there is nothing to compare: name columns in by, or compare the geometry")
    if parameters.tolerance and not parameters.geometry:
        raise ValueError("tolerance is for the geometry, which is not compared")


@operation(
    version=1,
    result="same",
    rows="some",
    planar=lambda parameters: bool(parameters.tolerance > 0),
    validate=_check_deduplicate,
    example={"layer": "places", "by": "kind", "geometry": False},
)
def deduplicate(
    layer: GeoDataFrame,
    *,
    by: Annotated[
        ColumnNames | None, Field(description="columns that must be equal too; none: no attribute is compared")
    ] = None,
    geometry: Annotated[bool, Field(description="whether the geometry must be equal")] = True,
    tolerance: Annotated[
        Number,
        Field(
            ge=0,
            description="how far equal geometries may lie from each other, in units of the CRS; 0: not at all",
        ),
    ] = 0.0,
) -> GeoDataFrame:
    """Keep the first of rows that are equal.

    Rows are equal when they agree in the columns of `by` (a missing value equals a missing one) and in geometry. Two
    geometries are equal when they cover the same places, whatever their first vertex, direction, or vertices on a
    straight edge; with Z, every vertex and its Z must be the same. Geometries of two kinds are never equal. Rows of
    missing or empty geometry equal no other where geometry is compared, and stay.

    With a tolerance, a row is left out when a row that is kept before it is of the same kind and neither has a vertex
    further than the tolerance from the other (Hausdorff distance, in the plane), and their lowest and highest Z agree
    within it. How many rows are left out is told by the note `rows_removed`.

    Raises
    ------
    InputFailure : for a column that is not there, or geometry too broken to compare.
    """
    import numpy as np

    from geocairn.notes import note
    from geocairn.operations.equal_geometry import classes_of_equals, kept_apart
    from geocairn.operations.layers import check_columns, geometry_values, group_codes, pick_rows

    where = "deduplicate"
    check_columns(layer, by or [], where)
    codes = group_codes(layer, by) if by is not None else np.zeros(len(layer), dtype="int64")
    if not geometry:
        keep = _first_of(codes)
    elif tolerance > 0:
        keep = kept_apart(geometry_values(layer), codes, tolerance, where)
    else:
        keep = _first_of(classes_of_equals(geometry_values(layer), codes, where))
    note("rows_removed", int((~keep).sum()))
    return pick_rows(layer, keep)


def _first_of(codes: Array) -> Array:
    """Return a mask of the first row of each class."""
    import numpy as np

    mask: Array = np.zeros(len(codes), dtype=bool)
    mask[np.unique(codes, return_index=True)[1]] = True
    return mask
