"""Areas and lengths in metres: in the plane of a CRS, or along geodesics on its ellipsoid."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def planar_measures(values: Array, crs: Any, asked: tuple[str, ...]) -> dict[str, Array]:
    """Return `area`, `length`, `perimeter`, as asked, of each geometry, in metres or their square."""
    import shapely

    metres = crs.axis_info[0].unit_conversion_factor if crs.axis_info else 1.0
    found: dict[str, Array] = {}
    if "area" in asked:
        found["area"] = shapely.area(values) * metres**2
    if "length" in asked:
        found["length"] = shapely.length(_only(values, 1)) * metres
    if "perimeter" in asked:
        found["perimeter"] = shapely.length(_only(values, 2)) * metres
    return found


def ellipsoidal_measures(values: Array, crs: Any, asked: tuple[str, ...]) -> dict[str, Array]:
    """Return the same along geodesics of the CRS's ellipsoid.

    Lengths are computed for all edges at once; areas ring by ring, because PROJ offers no more.
    """
    import numpy as np
    import shapely

    geod = crs.get_geod()
    values = _in_degrees(values, crs)
    found: dict[str, Array] = {}
    if "length" in asked:
        found["length"] = _edge_sums(_only(values, 1), geod, rings=False)
    if "perimeter" in asked:
        found["perimeter"] = _edge_sums(_only(values, 2), geod, rings=True)
    if "area" in asked:
        polygons, owners = _parts_of(values, 2)
        rings, inner = shapely.get_rings(polygons, return_index=True)
        coordinates, numbers = shapely.get_coordinates(rings, return_index=True)
        starts = np.searchsorted(numbers, np.arange(len(rings) + 1))
        areas = np.array(
            [
                abs(geod.polygon_area_perimeter(coordinates[start:end, 0], coordinates[start:end, 1])[0])
                for start, end in itertools.pairwise(starts)
            ],
            dtype=float,
        )
        # The first ring of a polygon is its shell; the others are holes.
        shell = np.ones(len(rings), dtype=bool)
        shell[1:] = inner[1:] != inner[:-1]
        signed = np.where(shell, areas, -areas)
        found["area"] = np.bincount(owners[inner], weights=signed, minlength=len(values))
    return found


def _only(values: Array, kind: int) -> Array:
    """Return the geometries with only their parts of one kind (1 lines, 2 polygons): lengths of others do not count."""
    import numpy as np

    from geocairn.operations.parts import keep_kind

    kept, _ = keep_kind(values, np.full(len(values), kind))
    return kept


def _parts_of(values: Array, kind: int) -> tuple[Array, Array]:
    from geocairn.operations.parts import dimensions, single_parts

    parts, owners = single_parts(values)
    chosen = dimensions(parts) == kind
    return parts[chosen], owners[chosen]


def _edge_sums(values: Array, geod: Any, *, rings: bool) -> Array:
    """Return the geodesic length of all edges of each geometry."""
    import numpy as np
    import shapely

    lines, owners = _parts_of(values, 2 if rings else 1)
    if rings:
        lines, inner = shapely.get_rings(lines, return_index=True)
        owners = owners[inner]
    coordinates, numbers = shapely.get_coordinates(lines, return_index=True)
    inside = numbers[1:] == numbers[:-1]
    start, end = coordinates[:-1][inside], coordinates[1:][inside]
    if not len(start):
        return np.zeros(len(values))
    _, _, lengths = geod.inv(start[:, 0], start[:, 1], end[:, 0], end[:, 1])
    return np.bincount(owners[numbers[:-1][inside]], weights=lengths, minlength=len(values))


def _in_degrees(values: Array, crs: Any) -> Array:
    """Return the geometries in degrees on the CRS's own datum: no datum shift, so no grid, is involved."""
    import numpy as np
    import pyproj
    import shapely

    geographic = crs if crs.is_geographic else crs.geodetic_crs
    factor = math.degrees(geographic.axis_info[0].unit_conversion_factor) if geographic.axis_info else 1.0
    transformer = None if crs.is_geographic else pyproj.Transformer.from_crs(crs, geographic, always_xy=True)

    def convert(coordinates: Array) -> Array:
        if transformer is not None:
            coordinates = np.column_stack(transformer.transform(coordinates[:, 0], coordinates[:, 1]))
        return coordinates * factor

    return np.asarray(shapely.transform(values, convert), dtype=object)
