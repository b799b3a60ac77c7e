"""Where on the globe: off it, and outside a CRS's area of use, judged from bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyproj import CRS

from geocairn.globe import off_globe, outside_area_of_use


def boxes(*values: tuple[float, float, float, float]) -> tuple[list[float], Any]:
    bounds = np.array(values, dtype="float64")
    seen = bounds[np.isfinite(bounds).all(axis=1)]
    return [*seen[:, :2].min(axis=0).tolist(), *seen[:, 2:].max(axis=0).tolist()], bounds


NOTHING = (np.nan, np.nan, np.nan, np.nan)


@pytest.mark.parametrize(
    ("crs", "values", "off"),
    [
        ("EPSG:4326", [(0, 0, 1, 1), (0, 90.5, 0, 91), NOTHING, (-181, 0, 0, 0)], [1, 3]),
        ("EPSG:4326", [(0, 0, 1, 1), NOTHING], []),
        ("EPSG:3857", [(0, 0, 1, 1), (3e7, 0, 3e7, 0), NOTHING], [1]),
        # a wild vertex: some corners of the box are places, and it reaches far past the globe's image
        ("EPSG:3857", [(0, 0, 1e9, 10)], [0]),
        # across the map's edge: one side is a place
        ("EPSG:3857", [(1.99e7, 0, 2.01e7, 1e5)], []),
        ("EPSG:3857", [(2.01e7, 0, 2.02e7, 1e5)], [0]),
        ("ESRI:54009", [(-18040095, -9020047, 18040095, 9020047), (1.7e7, 8e6, 1.8e7, 9e6)], [1]),
        ("EPSG:5070", [(-2e6, 3e5, 2e6, 3e6), (1e9, 1e9, 1e9, 1e9)], [1]),
    ],
)
def test_rows_off_the_globe(crs, values, off):
    mask = off_globe(CRS(crs), *boxes(*values))
    assert ([] if mask is None else np.flatnonzero(mask).tolist()) == off


@pytest.mark.parametrize(
    ("crs", "values", "count"),
    [
        ("EPSG:4326", [(-180, -90, 180, 90)], 0),
        ("EPSG:4269", [(-100, 40, -99, 41), (10, 50, 11, 51)], 1),
        # NAD83's area spans the 180th meridian: the Aleutians on its other side are in it, what lies between is not
        ("EPSG:4269", [(172, 52, 173, 53), (-170, 52, -169, 53), (0, 52, 1, 53)], 1),
        # one row on both sides of it
        ("EPSG:4269", [(-179.9, 52, 179.9, 53)], 0),
        ("EPSG:5070", [(0, 1.5e6, 1e3, 1.6e6), (-3.3e6, 4e6, -3.2e6, 4.1e6)], 1),
        # degrees east of Greenwich, though the CRS counts grads east of Paris
        ("EPSG:27572", [(600000, 2300000, 610000, 2310000)], 0),
        ("EPSG:4807", [(0, 51, 1, 52), (100, 51, 101, 52)], 1),
        ("EPSG:2193", [(1.5e6, 5.4e6, 1.6e6, 5.5e6)], 0),
        ("EPSG:3832", [(5e6, 0, 6e6, 1e6), (-1.5e7, 0, -1.4e7, 1e6)], 1),
        ("EPSG:3031", [(0, 1e6, 1e5, 1.1e6)], 0),
        ("EPSG:3031", [(0, 9e6, 1e5, 9.1e6)], 1),
        ("+proj=laea +lat_0=50 +lon_0=10", [(0, 0, 1, 1)], 0),
        ("EPSG:4978", [(0, 0, 1, 1)], 0),
    ],
)
def test_rows_outside_the_area_of_use_are_counted(crs, values, count):
    assert outside_area_of_use(CRS(crs), *boxes(*values)) == count


def test_a_crs_without_a_globe_has_nothing_off_it():
    assert off_globe(CRS("EPSG:4978"), *boxes((0, 0, 1e9, 1e9))) is None
