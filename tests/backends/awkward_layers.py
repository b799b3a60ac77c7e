"""Small layers, awkward in one way each and together in most: what the pairs of backends are held equal over."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

CRS = "EPSG:5070"
BIG = 2**53 + 1

POLYGONS: list[str | None] = [
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    "POLYGON ((10 0, 20 0, 20 10, 10 10, 10 0))",  # touches the first along an edge
    "POLYGON ((20 10, 30 10, 30 20, 20 20, 20 10))",  # touches the second in a corner
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",  # twice the same
    None,
    "POLYGON ((30 0, 50 0, 50 20, 30 20, 30 0), (35 5, 45 5, 45 15, 35 15, 35 5))",  # a hole
    "POLYGON ((38 8, 42 8, 42 12, 38 12, 38 8))",  # an island in it
    "POLYGON EMPTY",
    "MULTIPOLYGON (((5 5, 15 5, 15 15, 5 15, 5 5)), ((60 60, 61 60, 61 61.5, 60 60)))",
    "POLYGON ((0.1 0.2, 7.3 1.9, 3.7 9.1, 0.1 0.2))",
    "POLYGON ((70 70, 70.001 70, 70.001 70.001, 70 70))",
]
OTHERS: list[str | None] = [
    "POLYGON ((5 -5, 40 -5, 40 5, 5 5, 5 -5))",
    "POLYGON ((10 0, 20 0, 20 10, 10 10, 10 0))",
    None,
    "MULTIPOLYGON (((36 6, 44 6, 44 14, 36 14, 36 6)), ((-5 -5, -1 -5, -1 -1, -5 -5)))",
    "POLYGON EMPTY",
    "POLYGON ((60.3 59.9, 62.1 60.7, 59.8 61.3, 60.3 59.9))",
    "POLYGON ((2 2, 12 2, 12 12, 2 12, 2 2), (4 4, 6 4, 6 6, 4 6, 4 4))",
]
LINES: list[str | None] = [
    "LINESTRING (0 0, 20 20)",
    "LINESTRING (0 10, 10 10, 10 0)",
    "LINESTRING (0 0, 10 10, 0 10, 10 0)",  # crosses itself
    None,
    "LINESTRING EMPTY",
    "MULTILINESTRING ((35 5, 45 5), (40 -3, 40 25))",
    "LINESTRING (0 0, 10 0, 10 10, 0 10, 0 0)",
    "LINESTRING (20 20, 0 0)",
    "LINESTRING (-3.3 1.7, 4.9 6.1, 77.7 61.3)",
]
POINTS: list[str | None] = [
    "POINT (5 5)",
    "POINT (10 5)",  # on an edge that two share
    "POINT (5 5)",
    "POINT (20 10)",  # on a corner
    None,
    "MULTIPOINT ((1 1), (40 10), (33 3))",
    "POINT EMPTY",
    "POINT (40 10)",
    "MULTIPOINT ((5 5), (5 5))",
    "POINT (100.25 -7.75)",
    "POINT (5 15)",
]
SOLIDS: list[str | None] = [
    "POLYGON Z ((0 0 1, 10 0 2, 10 10 3, 0 10 4, 0 0 1))",
    "POLYGON Z ((5 5 7, 15 5 7, 15 15 9, 5 15 9, 5 5 7))",
    None,
    "POLYGON Z ((8 -2 0, 12 -2 0, 12 12 5, 8 -2 0))",
]
MIXED: list[str | None] = [
    "POINT (5 5)",
    "LINESTRING (0 0, 20 20)",
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    None,
    "POLYGON EMPTY",
    "MULTIPOINT ((1 1), (40 10))",
]
COLLECTIONS: list[str | None] = [
    "GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (0 0, 3 4), POLYGON ((0 0, 10 0, 10 10, 0 0)))",
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    "GEOMETRYCOLLECTION EMPTY",
]
BROKEN: list[str | None] = [
    "POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))",
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 5 1, 5 2, 1 2, 1 1))",
    None,
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 1, 0 0)), ((5 5, 6 6, 5 5, 5 5)))",
    "POLYGON ((0 0, 1 1, 2 2, 0 0))",
    "LINESTRING (3 3, 3 3)",
]
WORLD: list[str | None] = [
    "POLYGON ((-100 30, -90 30, -90 40, -100 40, -100 30))",
    "LINESTRING (-120 35, -75 45)",
    "POINT (-96 23)",
    None,
    "POINT EMPTY",
    "POLYGON Z ((-100 30 5, -99 30 6, -99 31 7, -100 30 5))",
    "MULTIPOINT ((-80.123456789 25.987654321), (-66.5 44.75))",
]


def layer(wkt: list[str | None], crs: Any = CRS, prefix: str = "") -> gpd.GeoDataFrame:
    """A layer with a foreign index, columns of every awkward type, its geometry in `shape` and another in `mark`."""
    n = len(wkt)
    some = [None if i % 3 == 2 else i for i in range(n)]
    frame = pd.DataFrame(
        {
            "whole": np.arange(n, dtype="int32"),
            "big": pd.array([None if v is None else BIG + v for v in some], dtype="Int64"),
            "flag": pd.array([None if v is None else v % 2 == 0 for v in some], dtype="boolean"),
            "real": np.array([np.nan if v is None else v / 2 for v in some]),
            "when": pd.to_datetime([None if v is None else f"2026-10-25T0{v % 4}:30:00Z" for v in some]).tz_convert(
                "Europe/Paris"
            ),
            "kind": pd.Categorical([None if v is None else "ab"[v % 2] for v in some], categories=["b", "a", "c"]),
            "arrow": pd.array([None if v is None else f"é{v % 4}" for v in some], dtype="string[pyarrow]"),
            "text": pd.Series([None if v is None else f"t%{v}\n_" for v in some], dtype="str"),
            "thing": pd.Series([None if v is None else ("x", v) for v in some], dtype=object),
        }
    ).add_prefix(prefix)
    frame["shape"] = gpd.GeoSeries.from_wkt(wkt, crs=crs)
    frame[f"{prefix}mark"] = gpd.GeoSeries(shapely.points(np.arange(n), np.arange(n)), crs=crs)
    frame.index = pd.Index([f"row{n - i}" for i in range(n)], name="key")
    return gpd.GeoDataFrame(frame, geometry="shape", crs=crs)


def scattered(count: int, seed: int) -> gpd.GeoDataFrame:
    """A layer of overlapping polygons far from the origin, with coordinates that no float holds exactly."""
    rng = np.random.default_rng(seed)
    centres = shapely.points(4.3e6 + rng.random((count, 2)) * 1000)
    shapes = shapely.buffer(centres, rng.random(count) * 60 + 5, quad_segs=3)
    return gpd.GeoDataFrame({"id": np.arange(count)}, geometry=shapes, crs=CRS)


def lattice(count: int, seed: int) -> gpd.GeoDataFrame:
    """A layer of points on a small grid, so that most have neighbours at equal distances."""
    places = np.random.default_rng(seed).integers(0, 12, (count, 2)).astype(float)
    return gpd.GeoDataFrame({"id": np.arange(count)}, geometry=shapely.points(places), crs=CRS)


def _raised(places: Any) -> Any:
    return np.column_stack([places[:, :2], places[:, :2].sum(axis=1) % 97])


def with_heights(layer: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    """The layer with a Z that differs from vertex to vertex."""
    shapes = shapely.transform(
        shapely.force_3d(np.asarray(layer.geometry.values, dtype=object)), _raised, include_z=True
    )
    return layer.set_geometry(gpd.GeoSeries(shapes, crs=layer.crs))
