"""Making layers from layers: what every operation keeps, in one place.

What always holds: an input is never changed; a result has a fresh index from 0, its active geometry column keeps its
name and its place, and column types survive. Where rows may lack a partner, integers and truth values become pandas'
nullable types, so that a missing value never turns a number into a float.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.notes import first_row

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from geopandas import GeoDataFrame

SHOWN_ROWS = 5


def geometry_values(layer: GeoDataFrame) -> np.ndarray[Any, Any]:
    """Return the active geometry column as an array of shapely geometries (None where missing)."""
    import numpy as np

    return np.asarray(layer.geometry.values, dtype=object)


def geometry_name(layer: GeoDataFrame) -> str:
    """Return the active geometry column's name."""
    return str(layer.geometry.name)


def with_geometry(layer: GeoDataFrame, values: Any, crs: Any = None) -> GeoDataFrame:
    """Return the layer with other geometries in its active column, row for row, in `crs` (its own unless given)."""
    import pandas as pd

    frame = pd.DataFrame(layer).reset_index(drop=True)
    return assemble(frame, geometry_name(layer), values, layer.crs if crs is None else crs)


def assemble(frame: pd.DataFrame, name: str, values: Any, crs: Any) -> GeoDataFrame:
    """Return a layer of the frame's columns and a geometry column, which replaces one of that name or comes last."""
    import geopandas as gpd
    from geopandas.array import from_shapely

    frame = frame.copy(deep=False)
    frame[name] = from_shapely(values, crs=crs)
    return gpd.GeoDataFrame(frame, geometry=name)


def pick_rows(layer: Any, positions: Any) -> Any:
    """Return the rows at these positions, in this order, with a fresh index; a layer stays a layer."""
    return layer.iloc[positions].reset_index(drop=True)


def partner_rows(frame: pd.DataFrame, positions: Any) -> pd.DataFrame:
    """Return the rows at these positions, all values missing where the position is -1.

    Integers and truth values become nullable (`Int64`, `boolean`) whether or not a position is -1, so that the types do
    not depend on the data.
    """
    import numpy as np
    import pandas as pd

    columns = []
    for place in range(frame.shape[1]):
        array = frame.iloc[:, place].array
        dtype = frame.dtypes.iloc[place]
        if isinstance(dtype, np.dtype) and dtype.kind in "iub":
            array = pd.Series(array).astype(_nullable(dtype)).array
        elif isinstance(dtype, np.dtype) and dtype.kind == "O":
            columns.append(pd.Series(array.take(positions, allow_fill=True, fill_value=None), dtype=object))
            continue
        columns.append(pd.Series(array.take(positions, allow_fill=True)))
    result = pd.DataFrame(dict(enumerate(columns)), index=pd.RangeIndex(len(positions)))
    result.columns = frame.columns
    return result


def _nullable(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return "boolean"
    return f"{'U' if dtype.kind == 'u' else ''}Int{dtype.itemsize * 8}"


def attributes(layer: GeoDataFrame) -> pd.DataFrame:
    """Return all columns but the active geometry column, with a fresh index."""
    import pandas as pd

    return pd.DataFrame(layer.drop(columns=geometry_name(layer))).reset_index(drop=True)


def join_columns(
    left: pd.DataFrame, right: pd.DataFrame, suffixes: tuple[str, str], geometry: str, where: str
) -> pd.DataFrame:
    """Return the left's columns and then the right's, row for row, with suffixes where both have a name.

    The column named `geometry` keeps its name; a right column of that name gets its suffix.

    Raises
    ------
    InputFailure : when a suffixed name is taken as well.
    """
    import pandas as pd

    both = set(left.columns) & (set(right.columns) | {geometry})
    both |= set(right.columns) & {geometry}
    both_left = {name for name in both if name != geometry and name in set(right.columns)}
    left = left.rename(columns={name: f"{name}{suffixes[0]}" for name in both_left})
    right = right.rename(columns={name: f"{name}{suffixes[1]}" for name in both if name in set(right.columns)})
    names = (
        [*left.columns, *right.columns, geometry] if geometry not in left.columns else [*left.columns, *right.columns]
    )
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise InputFailure(
            f"the result would have two columns {', '.join(map(repr, twice))}",
            where=where,
            remedy="choose other suffixes, or rename the columns (select_columns) before",
        )
    return pd.concat([left, right], axis=1)


def check_columns(layer: Any, names: Iterable[str], where: str, *, role: str = "layer") -> None:
    """Refuse names of columns that the layer does not have.

    Raises
    ------
    InputFailure : naming them, each with the nearest right name.
    """
    known = [str(column) for column in layer.columns]
    missing = [name for name in names if name not in known]
    if missing:
        said = "; ".join(f"{role} has no column {name!r}{did_you_mean(name, known)}" for name in missing)
        raise InputFailure(said, where=where)


def check_new_columns(layer: Any, names: Iterable[str], where: str) -> None:
    """Refuse names for new columns that the layer has already: nothing is overwritten silently."""
    taken = [name for name in names if name in layer.columns]
    if taken:
        raise InputFailure(
            f"the layer has a column {', '.join(map(repr, taken))} already",
            where=where,
            remedy="choose another name, or rename or drop that column (select_columns) before",
        )


def name_rows(mask: Any) -> str:
    """Return `row 3` or `rows 3, 8 and 2 more` for the true places of a mask, counted from the layer's first as 0."""
    import numpy as np

    places = np.flatnonzero(mask) + first_row()
    shown = ", ".join(str(place) for place in places[:SHOWN_ROWS])
    if len(places) > SHOWN_ROWS:
        shown += f" and {len(places) - SHOWN_ROWS} more"
    return f"row{'' if len(places) == 1 else 's'} {shown}"


def group_codes(layer: Any, by: list[str]) -> np.ndarray[Any, Any]:
    """Return each row's group, numbered in order of first appearance; missing values are values of their own."""
    codes: np.ndarray[Any, Any] = (
        layer[by].groupby(by, dropna=False, sort=False, observed=True).ngroup().to_numpy().astype("int64")
    )
    return codes


def added(layer: GeoDataFrame, columns: Mapping[str, Any]) -> GeoDataFrame:
    """Return the layer with more columns at its end, and a fresh index."""
    result = layer.reset_index(drop=True)
    for name, values in columns.items():
        result[name] = values
    return result
