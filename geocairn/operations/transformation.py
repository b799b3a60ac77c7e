"""One transformation between two CRS, held to account: the pipelines used, their accuracy, what could not be done.

What always holds: x before y; PROJ's network is off; a ballpark transformation is used only where it is allowed, and is
told as a caveat; a coordinate that fails is an error that names its row.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from geocairn.crs import crs_label
from geocairn.failure import InputFailure, MissingGrid
from geocairn.notes import caveat, note
from geocairn.operations.antimeridian import mend_torn
from geocairn.operations.layers import name_rows
from geocairn.operations.proj_environment import network_off

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_WHERE = "reproject"
_MOST_PIPELINES = 50


def parse_crs(text: str, where: str) -> Any:
    """Return the pyproj CRS that the text names.

    Raises
    ------
    InputFailure : when PROJ does not know it.
    """
    import pyproj

    try:
        return pyproj.CRS.from_user_input(text)
    except pyproj.exceptions.CRSError as error:
        shown = text if len(text) <= 60 else f"{text[:57]}…"
        raise InputFailure(
            f"there is no CRS {shown!r} ({str(error).splitlines()[0].rstrip('.')})",
            where=where,
            remedy="give a code such as 'EPSG:5070', WKT, PROJJSON or a PROJ string",
        ) from None


class Transformation:
    """The transformation from one CRS to another.

    Parameters
    ----------
    accuracy : metres that suffice, or None for the best that PROJ knows.
    allow_ballpark : whether to go on without a missing grid.
    """

    def __init__(self, source: Any, target: Any, *, accuracy: float | None, allow_ballpark: bool) -> None:
        self.source = source
        self.target = target
        self.accuracy = accuracy
        self.allow_ballpark = allow_ballpark
        self.used: list[dict[str, Any]] = []
        """The pipelines used: description, definition, accuracy in metres (None unknown), number of rows."""
        self._from_to = f"from {crs_label(source)} to {crs_label(target)}"

    def apply(self, values: Array) -> Array:
        """Return the geometries with their coordinates transformed.

        Raises
        ------
        InputFailure, MissingGrid : as `reproject` says.
        """
        import shapely

        if self.source == self.target:
            self.used = [{"description": "none needed", "definition": "noop", "accuracy": 0.0, "rows": len(values)}]
            return values
        network_off()
        strict = self._transformer(allow_ballpark=False)
        transformer = strict or self._ballpark()
        coordinates, rows = shapely.get_coordinates(values, include_z=True, return_index=True)
        _check_finite(_endless(coordinates), "is not finite as it comes", coordinates, rows, len(values))
        moved = moved_coordinates(transformer, coordinates)
        transformer = self._hold_failures(transformer, strict is None, coordinates, moved, rows, len(values))
        self._account(transformer, coordinates, moved, rows)
        result = _replaced(values, moved)
        return mend_torn(values, result, coordinates, moved, rows, transformer, self.source, self.target, where=_WHERE)

    def _transformer(self, allow_ballpark: bool) -> Any:
        import pyproj

        try:
            return pyproj.Transformer.from_crs(self.source, self.target, always_xy=True, allow_ballpark=allow_ballpark)
        except pyproj.exceptions.ProjError as error:
            if not allow_ballpark:
                return None
            raise InputFailure(f"PROJ knows no transformation {self._from_to} ({error})", where=_WHERE) from error

    def _ballpark(self) -> Any:
        if not self.allow_ballpark:
            grids = self._missing_grids(None)
            raise MissingGrid(
                f"only a ballpark transformation is to be had {self._from_to}"
                + (f": grid {', '.join(grids[:3])} is not installed" if grids else ""),
                where=_WHERE,
                remedy=_grid_remedy(grids),
            )
        return self._transformer(allow_ballpark=True)

    def _hold_failures(
        self, transformer: Any, is_ballpark: bool, coordinates: Array, moved: Array, rows: Array, count: int
    ) -> Any:
        """Deal with coordinates that got no finite answer; return the transformer to account for."""
        failed = _endless(moved)
        if not failed.any():
            return transformer
        if not is_ballpark:
            # Either nothing can transform them, or only what was not allowed could.
            loose = self._transformer(allow_ballpark=True)
            again = moved_coordinates(loose, coordinates[failed])
            if not _endless(again).any() and not self.allow_ballpark:
                raise MissingGrid(
                    f"only a ballpark transformation is to be had {self._from_to} for "
                    f"{name_rows(_owners(failed, rows, count))}",
                    where=_WHERE,
                    remedy=_grid_remedy(self._missing_grids(None)),
                )
            moved[failed] = again
            transformer = loose
        _check_finite(_endless(moved), f"cannot be transformed {self._from_to}", coordinates, rows, count)
        return transformer

    def _account(self, transformer: Any, coordinates: Array, moved: Array, rows: Array) -> None:
        """Find out which pipelines were used, and refuse, or tell, those that are not good enough."""
        import numpy as np

        if not len(rows):
            return
        # One coordinate stands for its row: its first.
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        firsts = coordinates[starts]
        labels, pipelines = self._pipelines(transformer, firsts, moved[starts])
        for number, pipeline in enumerate(pipelines):
            self.used.append({**pipeline, "rows": int((labels == number).sum())})
        accuracies = np.array([np.inf if p["accuracy"] is None else p["accuracy"] for p in pipelines])[labels]
        grids = self._missing_grids((firsts, accuracies))
        if self.accuracy is not None:
            short = accuracies > self.accuracy
            if short.any() and not self.allow_ballpark:
                raise MissingGrid(
                    f"the transformation {self._from_to} is accurate to {_metres(accuracies[short].max())}, and "
                    f"{self.accuracy:g} m are asked for ({int(short.sum())} of {len(short)} rows)",
                    where=_WHERE,
                    remedy=_grid_remedy(grids) if grids else "ask for less (accuracy), or choose another CRS",
                )
            if not short.any():
                grids = []
        if grids and not self.allow_ballpark:
            raise MissingGrid(
                f"the best transformation {self._from_to} needs grid {', '.join(grids[:3])}, which is not installed; "
                f"without it the accuracy is {_metres(accuracies.max())}",
                where=_WHERE,
                remedy=_grid_remedy(grids),
            )
        if grids or not np.isfinite(accuracies).all():
            reason = (
                f"grid {', '.join(grids[:3])} is not installed" if grids else "only a ballpark transformation exists"
            )
            caveat(f"coordinates were transformed {self._from_to}, accurate to {_metres(accuracies.max())}: {reason}")
            note("grids_missing", grids)

    def _pipelines(self, transformer: Any, firsts: Array, moved: Array) -> tuple[Array, list[dict[str, Any]]]:
        """Return for each row the number of its pipeline: that which gives exactly its result."""
        import numpy as np
        import pyproj

        labels = np.full(len(firsts), -1)
        pipelines: list[dict[str, Any]] = []
        while (labels < 0).any():
            open_rows = np.flatnonzero(labels < 0)
            x, y = firsts[open_rows[0], :2]
            transformer.transform(x, y)
            try:
                one = transformer.get_last_used_operation()
            except pyproj.exceptions.ProjError:
                one = transformer  # a single pipeline: there was nothing to choose
            pipelines.append(described_pipeline(one))
            again = moved_coordinates(one, firsts[open_rows])
            same = (again[:, :2] == moved[open_rows, :2]).all(axis=1)
            same[0] = True
            if one is transformer or len(pipelines) == _MOST_PIPELINES:
                same[:] = True
            labels[open_rows[same]] = len(pipelines) - 1
        return labels, pipelines

    def _missing_grids(self, rows: tuple[Array, Array] | None) -> list[str]:
        """Return the names of grids that are not installed and would do better.

        With rows (first coordinates, accuracies) only those count that cover one of them and are more accurate there,
        and only if PROJ ranks one of them first for the pair of CRS.
        """
        import numpy as np

        if rows is not None and not (rows[1] > 0).any():
            return []  # nothing is more accurate than what is exact
        best_available, unavailable = _unavailable(self.source, self.target)
        if best_available and rows is not None:
            return []
        names: list[str] = []
        place = _longitude_latitude(self.source, rows[0]) if rows is not None else None
        for area, accuracy, grids in unavailable:
            if rows is not None and place is not None:
                better = (rows[1] > accuracy) if accuracy >= 0 else np.zeros(len(place), dtype=bool)
                if not np.any(_inside(area, place) & better):
                    continue
            names += [grid for grid in grids if grid not in names]
        return names


@functools.lru_cache(maxsize=64)
def _unavailable(source: Any, target: Any) -> tuple[bool, list[tuple[Any, float, list[str]]]]:
    """Return whether PROJ's best pipeline can be used, and those that cannot: area of use, accuracy, grids missing."""
    import pyproj

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyproj warns that the best is missing: that is what is being asked
        group = pyproj.transformer.TransformerGroup(source, target, always_xy=True)
    missing = [
        (one.area_of_use, float(one.accuracy), [grid.short_name for grid in one.grids if not grid.available])
        for one in group.unavailable_operations
    ]
    return group.best_available, missing


def _endless(coordinates: Array) -> Array:
    """Return where x or y is not finite."""
    import numpy as np

    return np.asarray(~np.isfinite(coordinates[:, :2]).all(axis=1))


def _owners(mask: Array, rows: Array, count: int) -> Array:
    """Return which of `count` rows have a coordinate where the mask is true."""
    import numpy as np

    owning = np.zeros(count, dtype=bool)
    owning[rows[mask]] = True
    return owning


def _check_finite(bad: Array, said: str, coordinates: Array, rows: Array, count: int) -> None:
    if bad.any():
        x, y = coordinates[bad][0, :2]
        raise InputFailure(
            f"a coordinate {said}: {name_rows(_owners(bad, rows, count))}, first ({x:.10g}, {y:.10g})",
            where=_WHERE,
            remedy="correct or leave out these rows, or choose a CRS that reaches them",
        )


def _inside(area: Any, place: Array) -> Any:
    import numpy as np

    if area is None:
        return np.ones(len(place), dtype=bool)
    across = area.west > area.east  # an area across the antimeridian
    east, west = place[:, 0] <= area.east, place[:, 0] >= area.west
    return ((east | west) if across else (east & west)) & (place[:, 1] >= area.south) & (place[:, 1] <= area.north)


def _longitude_latitude(crs: Any, coordinates: Array) -> Array:
    import numpy as np
    import pyproj

    if crs.is_geographic or crs.geodetic_crs is None:
        return coordinates[:, :2]
    to_degrees = pyproj.Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
    return np.column_stack(to_degrees.transform(coordinates[:, 0], coordinates[:, 1]))


def moved_coordinates(transformer: Any, coordinates: Array) -> Array:
    """Return x, y, z transformed; z is NaN where there is none."""
    import numpy as np

    result = np.full_like(coordinates, np.nan)
    flat = np.isnan(coordinates[:, 2])
    result[flat, 0], result[flat, 1] = transformer.transform(coordinates[flat, 0], coordinates[flat, 1])
    if not flat.all():
        solid = ~flat
        result[solid, 0], result[solid, 1], result[solid, 2] = transformer.transform(
            coordinates[solid, 0], coordinates[solid, 1], coordinates[solid, 2]
        )
    return result


def _replaced(values: Array, moved: Array) -> Array:
    """Return the geometries with these coordinates; what was flat stays flat."""
    import numpy as np
    import shapely

    solid = shapely.has_z(values)
    result = values.copy()
    if not solid.any():
        return np.asarray(shapely.set_coordinates(result, moved[:, :2]), dtype=object)
    counts = shapely.get_num_coordinates(values)
    of_solid = np.repeat(solid, counts)
    result[~solid] = shapely.set_coordinates(values[~solid].copy(), moved[~of_solid, :2])
    result[solid] = shapely.set_coordinates(values[solid].copy(), moved[of_solid])
    return result


def described_pipeline(pipeline: Any) -> dict[str, Any]:
    """Return what the note `pipeline` says of one: description, definition, accuracy in metres (None unknown)."""
    accuracy = float(pipeline.accuracy)
    return {
        "description": str(pipeline.description),
        "definition": str(pipeline.definition),
        "accuracy": accuracy if accuracy >= 0 else None,
    }


def _metres(accuracy: float) -> str:
    return f"{accuracy:g} m" if accuracy != float("inf") else "unknown size"


def _grid_remedy(grids: list[str]) -> str:
    if not grids:
        return "choose a CRS whose datum is stated (such as +datum=WGS84), or set allow_ballpark: true"
    install = f"install the grid (projsync --file {grids[0]})"
    return f"{install}, state the metres that suffice (accuracy), or set allow_ballpark: true"
