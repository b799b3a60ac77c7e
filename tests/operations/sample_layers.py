"""Layers that tests of operations start from: every awkward column type, a foreign index, two geometry columns."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

BIG = 2**53 + 1
CRS = "EPSG:5070"


def layer(wkt: list[str | None], crs: Any = CRS, **columns: Any) -> gpd.GeoDataFrame:
    """A plain layer of the given geometries."""
    return gpd.GeoDataFrame(
        {"id": np.arange(len(wkt)), **columns}, geometry=gpd.GeoSeries.from_wkt(wkt, crs=crs), crs=crs
    )


def rich(wkt: list[str | None], crs: Any = CRS, prefix: str = "") -> gpd.GeoDataFrame:
    """A layer with a foreign index, columns of every awkward type, its geometry in `shape`, another in `mark`."""
    n = len(wkt)
    some = [None if i % 3 == 2 else i for i in range(n)]
    frame = pd.DataFrame(
        {
            f"{prefix}whole": np.arange(n, dtype="int32"),
            f"{prefix}big": pd.array([None if v is None else BIG + v for v in some], dtype="Int64"),
            f"{prefix}flag": np.arange(n) % 2 == 0,
            f"{prefix}real": np.array([np.nan if v is None else v / 2 for v in some], dtype="float64"),
            f"{prefix}when": pd.to_datetime(
                [None if v is None else f"2026-10-25T0{v % 4}:30:00Z" for v in some]
            ).tz_convert("Europe/Paris"),
            f"{prefix}day": pd.to_datetime([None if v is None else f"2026-01-0{v % 8 + 1}" for v in some]),
            f"{prefix}kind": pd.Categorical(
                [None if v is None else "ab"[v % 2] for v in some], categories=["b", "a", "c"]
            ),
            f"{prefix}arrow": pd.array([None if v is None else f"é{v}" for v in some], dtype="string[pyarrow]"),
            f"{prefix}text": pd.Series([None if v is None else f"t{v}" for v in some], dtype="str"),
            f"{prefix}thing": pd.Series([None if v is None else ("x", v) for v in some], dtype=object),
        }
    )
    frame["shape"] = gpd.GeoSeries.from_wkt(wkt, crs=crs)
    frame[f"{prefix}mark"] = gpd.GeoSeries(shapely.points(np.arange(n), np.arange(n)), crs=crs)
    frame.index = pd.Index([f"row{n - i}" for i in range(n)], name="key")
    return gpd.GeoDataFrame(frame, geometry="shape", crs=crs)


def wkts(result: gpd.GeoDataFrame) -> list[str | None]:
    """The geometries as normalised text."""
    return [None if g is None else shapely.normalize(g).wkt for g in result.geometry]


def same_shape(one: Any, other: Any) -> bool:
    """Whether two geometries cover the same places, whatever the order of their vertices."""
    if isinstance(other, str):
        other = shapely.from_wkt(other)
    return bool(shapely.equals(one, other))
