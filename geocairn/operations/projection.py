"""Operations on the coordinate reference system: reproject the coordinates, or state what they are in.

What always holds: coordinates are x, y (longitude, latitude) whatever the authority's axis order; no coordinate becomes
infinite or is wrapped round the world without a word; which pipeline PROJ used is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.parameter_types import CrsText, Number
from geocairn.operations.proj_environment import proj_environment

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@operation(
    version=1,
    result="same",
    crs="crs",
    rows="each",
    environment=proj_environment,
    example={"layer": "stations", "crs": "EPSG:5070"},
)
def reproject(
    layer: GeoDataFrame,
    *,
    crs: Annotated[CrsText, Field(description="the CRS to transform to")],
    source_crs: Annotated[
        CrsText | None,
        Field(description="the CRS of a layer that has none; contradicting the layer's is refused"),
    ] = None,
    accuracy: Annotated[
        Number | None,
        Field(
            ge=0,
            description="metres that suffice: a pipeline of worse or unknown accuracy is refused, within them a "
            "missing better grid is no failure; none: the best that PROJ knows is required",
        ),
    ] = None,
    allow_ballpark: Annotated[
        bool,
        Field(description="go on without a missing grid, or by a ballpark transformation, and tell it as a caveat"),
    ] = False,
) -> GeoDataFrame:
    """Transform the coordinates to another CRS.

    Every geometry column is transformed, each from its own CRS. Z is kept. PROJ chooses a pipeline for each point;
    those used are recorded with their accuracy (note `pipeline`). Where the result is geographic, lines and polygons
    across the antimeridian are split there; where it is projected, a shape that the projection tears apart is
    refused.

    Raises
    ------
    InputFailure : for an unknown CRS, a coordinate that cannot be transformed, M values (which cannot be kept), or a
        torn shape; rows are named.
    CapabilityFailure : when a grid that PROJ knows to be better is not installed, only a ballpark transformation
        exists, or `accuracy` is not reached.
    """
    import pandas as pd

    from geocairn.operations.layers import assemble, geometry_name, name_rows
    from geocairn.operations.transformation import Transformation, parse_crs

    target = parse_crs(crs, "reproject")
    stated = parse_crs(source_crs, "reproject") if source_crs is not None else None
    if stated is not None and layer.crs is not None and layer.crs != stated:
        raise InputFailure(
            f"source_crs says {crs_label(stated)}, and the layer is in {crs_label(layer.crs)}",
            where="reproject",
            remedy="leave source_crs out, or correct the layer with assign_crs (override: true) before",
        )
    active = geometry_name(layer)
    frame = pd.DataFrame(layer).reset_index(drop=True)
    columns = [name for name in frame.columns if frame.dtypes[name].name == "geometry"]
    records: list[dict[str, Any]] = []
    import numpy as np
    import shapely
    from geopandas.array import from_shapely

    for name in columns:
        source = frame[name].array.crs
        if source is None:
            source = stated
        if source is None:
            raise InputFailure(
                "the layer's CRS is unknown" if name == active else f"the CRS of geometry column {name!r} is unknown",
                where="reproject",
                remedy="state it: source_crs here, or assign_crs before"
                if name == active
                else "drop the column before (select_columns)",
            )
        values = np.asarray(frame[name].array, dtype=object)
        with_m = shapely.has_m(values)
        if with_m.any():
            raise InputFailure(
                f"geometry column {name!r} has M values, which would be lost: {name_rows(with_m)}",
                where="reproject",
                remedy="drop M before (force_2d)" if name == active else "drop the column before (select_columns)",
            )
        transformation = Transformation(source, target, accuracy=accuracy, allow_ballpark=allow_ballpark)
        frame[name] = from_shapely(transformation.apply(values), crs=target)
        records += [{"column": name, **used} for used in transformation.used]
    from geocairn.notes import note

    note("pipeline", records)
    return assemble(frame, active, np.asarray(frame[active].array, dtype=object), target)


@operation(
    version=1,
    result="same",
    crs="crs",
    rows="each",
    example={"layer": "stations", "crs": "EPSG:4269", "override": True},
)
def assign_crs(
    layer: GeoDataFrame,
    *,
    crs: Annotated[CrsText, Field(description="the CRS that the coordinates are in")],
    override: Annotated[bool, Field(description="replace a different CRS that the layer states")] = False,
) -> GeoDataFrame:
    """State the CRS of a layer; no coordinate changes.

    Other geometry columns that share the layer's present CRS (or have none) get it too.

    Raises
    ------
    InputFailure : when the layer states another CRS and `override` is false.
    """
    import numpy as np
    import pandas as pd
    from geopandas.array import from_shapely

    from geocairn.operations.layers import assemble, geometry_name, geometry_values
    from geocairn.operations.transformation import parse_crs

    target = parse_crs(crs, "assign_crs")
    before = layer.crs
    if before is not None and before != target and not override:
        raise InputFailure(
            f"the layer is in {crs_label(before)}, not {crs_label(target)}",
            where="assign_crs",
            remedy="reproject to change the coordinates, or set override: true if the stated CRS is wrong",
        )
    frame = pd.DataFrame(layer).reset_index(drop=True)
    for name in frame.columns:
        if frame.dtypes[name].name == "geometry" and frame[name].array.crs in (None, before):
            frame[name] = from_shapely(np.asarray(frame[name].array, dtype=object), crs=target)
    return assemble(frame, geometry_name(layer), geometry_values(layer), target)
