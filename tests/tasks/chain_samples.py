"""Small layers and the chain of the design, for tests of steps as tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PLAN = """
name: covered
sources:
  counties: {uri: counties.gpkg}
  cities: {uri: cities.geojson}
steps:
  - {name: counties_m, op: reproject, inputs: counties, params: {crs: "EPSG:5070"}}
  - {name: cities_m, op: reproject, inputs: cities, params: {crs: "EPSG:5070"}}
  - {name: reach, op: buffer, inputs: cities_m, params: {distance: 50000}}
  - {name: covered, op: overlay, inputs: {left: counties_m, right: reach}, params: {how: intersection}}
"""


def squares(crs: str = "EPSG:4326") -> Any:
    """Return four squares of one degree in Kansas."""
    import geopandas
    from shapely.geometry import box

    corners = [(-99, 38), (-98, 38), (-99, 39), (-98, 39)]
    return geopandas.GeoDataFrame(
        {"name": ["a", "b", "c", "d"], "people": [10, 20, 30, 40]},
        geometry=[box(x, y, x + 1, y + 1) for x, y in corners],
        crs=crs,
    )


def points(crs: str = "EPSG:4326") -> Any:
    """Return two points in those squares."""
    import geopandas
    from shapely.geometry import Point

    return geopandas.GeoDataFrame({"city": ["x", "y"]}, geometry=[Point(-98.5, 38.5), Point(-97.5, 39.5)], crs=crs)


def metric(rows: int = 3) -> Any:
    """Return squares of 10 m, in metres."""
    import geopandas
    from shapely.geometry import box

    return geopandas.GeoDataFrame(
        {"n": list(range(rows))}, geometry=[box(20 * i, 0, 20 * i + 10, 10) for i in range(rows)], crs="EPSG:5070"
    )


def write_sources(folder: Path) -> None:
    """Write the sources of the chain into a folder."""
    squares().to_file(folder / "counties.gpkg", layer="counties")
    points().to_file(folder / "cities.geojson")
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
