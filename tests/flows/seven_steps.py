"""A chain of seven steps on small made-up layers: a shapefile, a GeoPackage and a CSV.

    sites (CSV) -> 1 sites_m -> 2 reach -+-> 3 area ---+
                                         +-> 4 hulls --|--------------------------------> hulls.parquet
    parcels (shapefile) ------------------------------ +-> 5 covered -+
    districts (GeoPackage) -------------------------------------------+-> 6 inside -> 7 by_zone -> by_zone.gpkg

Steps three to seven all depend on the second, and none of them on the first alone.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

STEPS = ["sites_m", "reach", "area", "hulls", "covered", "inside", "by_zone"]

PLAN: dict[str, Any] = {
    "name": "seven-steps",
    "sources": {
        "parcels": {"uri": "data/parcels.shp"},
        "districts": {"uri": "data/districts.gpkg", "layer": "districts"},
        "sites": {"uri": "data/sites.csv", "crs": "EPSG:4326"},
    },
    "steps": [
        {"name": "sites_m", "op": "reproject", "inputs": "sites", "params": {"crs": "EPSG:32633"}},
        {"name": "reach", "op": "buffer", "inputs": "sites_m", "params": {"distance": 900.0, "quad_segs": 4}},
        {"name": "area", "op": "dissolve", "inputs": "reach"},
        {"name": "hulls", "op": "convex_hull", "inputs": "reach"},
        {
            "name": "covered",
            "op": "overlay",
            "inputs": {"left": "parcels", "right": "area"},
            "params": {"how": "intersection"},
        },
        {"name": "inside", "op": "clip", "inputs": {"layer": "covered", "mask": "districts"}},
        {
            "name": "by_zone",
            "op": "dissolve",
            "inputs": "inside",
            "params": {"by": ["zone"], "aggregates": {"value": "sum", "count": "max"}},
        },
    ],
    "outputs": [
        {"from": "by_zone", "uri": "out/by_zone.gpkg"},
        {"from": "hulls", "uri": "out/hulls.parquet"},
    ],
}


def plan() -> dict[str, Any]:
    """The plan, to be changed at will."""
    return copy.deepcopy(PLAN)


def step_of(values: dict[str, Any], name: str) -> dict[str, Any]:
    return next(step for step in values["steps"] if step["name"] == name)


def write_plan(values: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
    return path


def make_data(folder: Path) -> None:
    """Write the three sources into a folder."""
    import geopandas as gpd
    import pandas as pd
    from shapely.geometry import Polygon, box

    folder.mkdir(parents=True, exist_ok=True)
    size, west, south = 1000.0, 500_000.0, 5_500_000.0
    cells = [(column, row) for row in range(6) for column in range(6)]
    parcels = gpd.GeoDataFrame(
        {
            "zone": [["farm", "wood", "town"][(column + row) % 3] for column, row in cells],
            "value": [1.5 * column + row for column, row in cells],
            "count": pd.array([column * row for column, row in cells], dtype="int32"),
        },
        geometry=[
            box(west + c * size, south + r * size, west + (c + 1) * size, south + (r + 1) * size) for c, r in cells
        ],
        crs="EPSG:32633",
    )
    parcels.to_file(folder / "parcels.shp")
    districts = gpd.GeoDataFrame(
        {"district": ["one", "two"]},
        geometry=[
            Polygon([(west, south), (west + 5200, south), (west + 2600, south + 5200), (west, south + 5200)]),
            box(west + 4000, south + 4000, west + 6000, south + 6000),
        ],
        crs="EPSG:32633",
    )
    districts.to_file(folder / "districts.gpkg", layer="districts")
    sites = gpd.GeoSeries.from_xy(
        [west + 1100, west + 2500, west + 2900, west + 5100], [south + 900, south + 2400, south + 3000, south + 4800]
    )
    degrees = sites.set_crs("EPSG:32633").to_crs("EPSG:4326")
    lines = ["site,x,y", *(f"s{i},{point.x:.12f},{point.y:.12f}" for i, point in enumerate(degrees))]
    (folder / "sites.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
