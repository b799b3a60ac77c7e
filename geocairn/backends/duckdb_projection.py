"""Reprojection in DuckDB, where there is nothing to choose: one pipeline, without a step from datum to datum.

DuckDB has a PROJ of its own, of another version, without grids, and takes no pipeline; so it can honour the reference's
only where PROJ knows a single one and that is pure mathematics (a projection, its inverse, units, axes). What always
holds: the CRS are handed over whole (WKT), x comes before y, and the first coordinate of every row is held against
pyproj; a difference is a CapabilityFailure.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from geocairn.backends.claims import ROUNDING, claimed
from geocairn.backends.duckdb_connection import connection
from geocairn.backends.duckdb_exchange import check_passable, fetch
from geocairn.failure import CapabilityFailure
from geocairn.operations.projection import reproject
from geocairn.operations.transformation import Transformation, described_pipeline, moved_coordinates

if TYPE_CHECKING:
    import numpy as np
    from geopandas import GeoDataFrame

    Array = np.ndarray[Any, Any]

TOLERANCE = 1e-6
"""How far from pyproj a coordinate may lie: in units of a projected CRS, in 1e-5 of a degree (about a metre) else."""
_DATUM_STEPS = re.compile(
    r"proj=(helmert|molodensky|molobadekas|[hvxyz]*gridshift|tinshift|defmodel|deformation|horner|cart|affine|geogoffset)"
)


@claimed(reproject, "duckdb", tolerance=ROUNDING, streams="rows")
def reproject_duckdb(
    layer: GeoDataFrame,
    *,
    crs: str,
    source_crs: str | None = None,
    accuracy: float | None = None,
    allow_ballpark: bool = False,
) -> GeoDataFrame:
    """Transform the coordinates to another CRS of the same datum, as the reference does.

    Raises
    ------
    CapabilityFailure : when PROJ knows several pipelines or the one that it knows changes the datum, for a CRS with a
        height, and for M values.
    """
    import numpy as np
    import pandas as pd
    from geopandas.array import from_shapely

    from geocairn.notes import note
    from geocairn.operations.layers import assemble, geometry_name
    from geocairn.operations.transformation import parse_crs

    # The reference's own checks of the two CRS, column by column, on no rows at all.
    reproject.function(layer.iloc[:0], crs=crs, source_crs=source_crs, accuracy=accuracy, allow_ballpark=allow_ballpark)
    target = parse_crs(crs, "reproject")
    stated = parse_crs(source_crs, "reproject") if source_crs is not None else None
    active = geometry_name(layer)
    frame = pd.DataFrame(layer).reset_index(drop=True)
    records: list[dict[str, Any]] = []
    for name in [name for name in frame.columns if frame.dtypes[name].name == "geometry"]:
        source = frame[name].array.crs
        values = np.asarray(frame[name].array, dtype=object)
        check_passable(values, "reproject")
        conversion = Conversion(source if source is not None else stated, target)
        frame[name] = from_shapely(conversion.apply(values), crs=target)
        records += [{"column": name, **used} for used in conversion.used]
    note("pipeline", records)
    return assemble(frame, active, np.asarray(frame[active].array, dtype=object), target)


class Conversion(Transformation):
    """The transformation between two CRS of one datum, its coordinates computed by DuckDB."""

    def __init__(self, source: Any, target: Any) -> None:
        super().__init__(source, target, accuracy=None, allow_ballpark=False)

    def _transformer(self, allow_ballpark: bool) -> Any:
        import pyproj

        if len(self.source.axis_info) != 2 or len(self.target.axis_info) != 2:
            raise self._refusal("a CRS with a height is not taken")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyproj warns that a grid is missing: that is refused below
            group = pyproj.transformer.TransformerGroup(self.source, self.target, always_xy=True, allow_ballpark=False)
        if len(group.transformers) != 1 or group.unavailable_operations:
            raise self._refusal("there are several pipelines to choose from, or one that lacks a grid")
        if _DATUM_STEPS.search(group.transformers[0].definition):
            raise self._refusal("the datum changes")
        return _Mover(group.transformers[0], self.source.to_wkt(), self.target.to_wkt())

    def _account(self, transformer: Any, coordinates: Array, moved: Array, rows: Array) -> None:
        import numpy as np

        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]]) if len(rows) else rows
        pipeline = transformer.pipeline
        expected = moved_coordinates(pipeline, coordinates[starts])
        unit = 1e-5 if self.target.is_geographic else 1.0
        away = np.abs(expected[:, :2] - moved[starts, :2])
        if len(starts) and not (away <= TOLERANCE * unit).all():
            raise self._refusal(f"DuckDB's result differs from PROJ {pipeline.definition!r} by up to {away.max():g}")
        if len(starts):
            self.used = [{**described_pipeline(pipeline), "rows": len(starts)}]

    def _refusal(self, reason: str) -> CapabilityFailure:
        return CapabilityFailure(
            f"backend duckdb does not transform {self._from_to}: {reason}",
            where="reproject",
            remedy="use backend geopandas for this step",
        )


class _Mover:
    """What Transformation asks of a transformer, answered by DuckDB."""

    def __init__(self, pipeline: Any, source: str, target: str) -> None:
        self.pipeline = pipeline
        self._crs = [source, target]

    def transform(self, x: Array, y: Array, z: Array | None = None) -> tuple[Array, ...]:
        """Return the coordinates moved; z stays, as it does wherever neither CRS has a height."""
        import numpy as np
        import pyarrow as pa

        heights = () if z is None else (z,)
        if not len(x):
            return (x, y, *heights)
        with connection("reproject") as database:
            database.register("places", pa.table({"row": np.arange(len(x)), "x": x, "y": y}))
            found = fetch(
                database,
                "SELECT ST_X(p) AS x, ST_Y(p) AS y FROM (SELECT row, ST_Transform(ST_Point(x, y), $1, $2, true) AS p "
                "FROM places) ORDER BY row",
                self._crs,
            )
            database.unregister("places")
        return (found["x"], found["y"], *heights)
