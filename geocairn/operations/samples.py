"""Small layers that the examples of operations are about: by them an example can be run, checked and drawn.

What always holds: the layers are small enough to be read, sound where their name does not say otherwise, and in metres
(EPSG:27700, near its origin, in the open sea) but for the one that is there to be reprojected. Each call makes them
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geopandas import GeoDataFrame
    from pandas import DataFrame

CRS = "EPSG:27700"


def sample(name: str) -> GeoDataFrame | DataFrame:
    """Return the sample of that name: a layer, or a table.

    Raises
    ------
    KeyError : when there is none of that name.
    """
    return _SAMPLES[name]()


def sample_names() -> tuple[str, ...]:
    """Return the names of all samples."""
    return tuple(_SAMPLES)


def _layer(columns: Mapping[str, list[Any]], wkt: list[str], crs: str = CRS) -> GeoDataFrame:
    import geopandas as gpd

    return gpd.GeoDataFrame(dict(columns), geometry=gpd.GeoSeries.from_wkt(wkt, crs=crs), crs=crs)


def _parcels() -> GeoDataFrame:
    """Four polygons: two neighbours, one with a hole, one of two parts."""
    return _layer(
        {"parcel": ["P1", "P2", "P3", "P4"], "use": ["wood", "field", "wood", None], "value": [10, 40, 25, 5]},
        [
            "POLYGON ((0 0, 40 0, 40 30, 0 30, 0 0))",
            "POLYGON ((40 0, 80 0, 80 30, 40 30, 40 0))",
            "POLYGON ((0 30, 50 30, 50 70, 0 70, 0 30), (15 42, 35 42, 35 58, 15 58, 15 42))",
            "MULTIPOLYGON (((60 40, 90 40, 90 55, 60 55, 60 40)), ((60 60, 90 60, 90 70, 60 70, 60 60)))",
        ],
    )


def _zones() -> GeoDataFrame:
    """Two polygons that overlap."""
    return _layer(
        {"zone": ["north", "south"]},
        ["POLYGON ((10 25, 100 25, 100 75, 10 75, 10 25))", "POLYGON ((20 10, 70 -10, 100 35, 60 45, 20 10))"],
    )


def _districts() -> GeoDataFrame:
    """Three polygons that tile an area: neighbours have the same vertices along their crooked edges."""
    return _layer(
        {"district": ["west", "east", "north"]},
        [
            "POLYGON ((0 0, 45 0, 48 8, 44 15, 50 24, 46 30, 50 40, 38 43, 25 38, 12 42, 0 40, 0 0))",
            "POLYGON ((45 0, 95 0, 97 20, 94 41, 80 37, 64 42, 50 40, 46 30, 50 24, 44 15, 48 8, 45 0))",
            "POLYGON ((0 40, 12 42, 25 38, 38 43, 50 40, 64 42, 80 37, 94 41, 93 70, 60 73, 30 69, 0 70, 0 40))",
        ],
    )


def _places() -> GeoDataFrame:
    """Six points."""
    return _layer(
        {
            "name": ["Aby", "Bow", "Cam", "Dow", "Ely", "Fen"],
            "people": [120, 45, 300, 80, 15, 60],
            "kind": ["town", "farm", "town", "farm", "farm", "town"],
        },
        [
            "POINT (10 12)",
            "POINT (25 20)",
            "POINT (60 15)",
            "POINT (8 50)",
            "POINT (75 48)",
            "POINT (95 65)",
        ],
    )


def _roads() -> GeoDataFrame:
    """Three lines that cross, one of them with a bend of many vertices."""
    return _layer(
        {"road": ["R1", "R2", "R3"], "lanes": [2, 4, 2]},
        [
            "LINESTRING (-5 20, 20 22, 40 18, 60 21, 105 20)",
            "LINESTRING (30 -10, 32 20, 28 50, 30 80)",
            "LINESTRING (55 75, 60 60, 58 50, 70 35, 72 10)",
        ],
    )


def _streets() -> GeoDataFrame:
    """Lines that enclose blocks: two of several parts that meet end to end, and one that ends blind."""
    return _layer(
        {"street": ["S1", "S2", "S3", "S4"]},
        [
            "MULTILINESTRING ((0 10, 40 12), (40 12, 100 10))",
            "LINESTRING (0 50, 60 55, 100 50)",
            "MULTILINESTRING ((10 0, 12 60), (70 70, 70 30), (70 30, 75 0))",
            "LINESTRING (5 30, 70 30, 70 45, 50 45)",
        ],
    )


def _drawn() -> GeoDataFrame:
    """Polygons as careless hands draw them: a bow-tie, and a sound one."""
    return _layer(
        {"sketch": ["bow-tie", "square"]},
        ["POLYGON ((0 0, 40 40, 40 0, 0 40, 0 0))", "POLYGON ((55 5, 90 5, 90 35, 55 35, 55 5))"],
    )


def _stations() -> GeoDataFrame:
    """Points in longitude and latitude."""
    return _layer(
        {"station": ["west", "middle", "east"]},
        ["POINT (-100 40)", "POINT (-96 38)", "POINT (-90 41)"],
        crs="EPSG:4326",
    )


def _owners() -> DataFrame:
    """A table without geometry."""
    import pandas as pd

    return pd.DataFrame({"parcel": ["P1", "P2", "P4"], "owner": ["Ada", "Ben", "Ada"], "since": [1999, 2015, 2020]})


_SAMPLES: dict[str, Callable[[], Any]] = {
    "parcels": _parcels,
    "zones": _zones,
    "districts": _districts,
    "places": _places,
    "roads": _roads,
    "streets": _streets,
    "drawn": _drawn,
    "stations": _stations,
    "owners": _owners,
}
