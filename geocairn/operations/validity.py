"""Telling which geometries are valid; `make_valid` mends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geocairn.operations.contract import operation
from geocairn.parallel import row_by_row

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

NO_GEOMETRY = "No geometry"
"""The reason told for a row whose geometry is missing."""


@operation(version=1, result="same", rows="each", example={"layer": "drawn"})
def check_validity(layer: GeoDataFrame) -> GeoDataFrame:
    """Add the columns `is_valid` (true or false) and `validity_reason` (text: what is wrong, and where).

    The reason is missing where the geometry is valid. A row whose geometry is missing is not valid, as geopandas has
    it, and says `No geometry`; an empty geometry is valid. No geometry is changed; how many are not valid is told by
    the note `not_valid`.

    Raises
    ------
    InputFailure : when the layer has a column of one of these names already.
    """
    import numpy as np
    import pandas as pd
    import shapely

    from geocairn.notes import note
    from geocairn.operations.layers import added, check_new_columns, geometry_values

    check_new_columns(layer, ["is_valid", "validity_reason"], "check_validity")
    values = geometry_values(layer)
    valid = row_by_row(shapely.is_valid, values)
    wrong = np.flatnonzero(~valid)
    reasons = np.full(len(values), None, dtype=object)
    reasons[wrong] = shapely.is_valid_reason(values[wrong])
    reasons[shapely.is_missing(values)] = NO_GEOMETRY
    note("not_valid", len(wrong))
    return added(layer, {"is_valid": valid, "validity_reason": pd.Series(reasons, dtype="str")})
