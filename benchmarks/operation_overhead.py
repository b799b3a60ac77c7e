"""Measure what geocairn's operations and its gate cost beside the bare geopandas call, at 100,000 rows.

    uv run python benchmarks/operation_overhead.py [--rows N] [--repeat N] [--json] [NAME ...]

For each operation: seconds of the bare geopandas or shapely call, of `operations[name].compute` (contract and
preconditions included), and of the gate on its result: each by the clock, the median of several turns. The last line is
the sum over all, which is what a chain of them pays. Data is made anew with a fixed seed: polygons of some thirty
vertices, as parcels or counties have, in EPSG:5070.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geocairn.gate import Terms, admit
from geocairn.operations import operations

CRS = "EPSG:5070"
Bare = Callable[..., Any]


def polygons(rows: int, *, vertices: int = 30, spread: float = 1.0) -> gpd.GeoDataFrame:
    """Star-shaped polygons of a grid, each within its cell (a spread over 0.5 makes neighbours overlap)."""
    random = np.random.default_rng(1)
    side = int(np.ceil(np.sqrt(rows)))
    x, y = np.divmod(np.arange(rows), side)
    angles = np.linspace(0, 2 * np.pi, vertices, endpoint=False)
    radius = spread * 40 * random.uniform(0.6, 1.0, (rows, vertices))
    rings = np.stack([x[:, None] * 100 + radius * np.cos(angles), y[:, None] * 100 + radius * np.sin(angles)], axis=2)
    rings = np.concatenate([rings, rings[:, :1]], axis=1)
    return attributed(shapely.polygons(rings))


def points(rows: int) -> gpd.GeoDataFrame:
    """Points spread over the square that the polygons of as many rows take."""
    extent = 100 * np.ceil(np.sqrt(rows))
    return attributed(shapely.points(np.random.default_rng(2).uniform(0, extent, (rows, 2))))


def lines(rows: int, *, vertices: int = 30) -> gpd.GeoDataFrame:
    """Random walks, 5 units a step."""
    random = np.random.default_rng(3)
    starts = random.uniform(0, 100 * np.ceil(np.sqrt(rows)), (rows, 1, 2))
    return attributed(shapely.linestrings(starts + random.normal(0, 5, (rows, vertices, 2)).cumsum(axis=1)))


def attributed(shapes: Any) -> gpd.GeoDataFrame:
    """A layer with a number, a text and a group of a hundred."""
    numbers = np.arange(len(shapes))
    columns = {"id": numbers, "name": pd.Series(numbers.astype(str)), "group": numbers % 100, "value": numbers / 7}
    return gpd.GeoDataFrame(columns, geometry=shapes, crs=CRS)


def geometry(call: Callable[[Any], Any]) -> Bare:
    """The bare way to change geometry row by row: a copy of the frame with new values."""
    return lambda layer: layer.set_geometry(
        gpd.GeoSeries(call(layer.geometry.values), crs=layer.crs, index=layer.index)
    )


def cases(rows: int) -> dict[str, tuple[dict[str, Any], dict[str, Any], Bare]]:
    """By operation: inputs, parameters, and the bare call of the inputs."""
    areas, places, ways, wide = polygons(rows), points(rows), lines(rows), polygons(rows, spread=1.4)
    cells = attributed(
        shapely.box(
            *(np.indices((20, 20)).reshape(2, -1) * (5 * np.sqrt(rows))),
            *((np.indices((20, 20)).reshape(2, -1) + 1) * (5 * np.sqrt(rows))),
        )
    )
    box = (0.0, 0.0, 50 * np.sqrt(rows), 50 * np.sqrt(rows))
    return {
        "reproject": ({"layer": areas}, {"crs": "EPSG:4326"}, lambda layer: layer.to_crs("EPSG:4326")),
        "buffer": ({"layer": areas}, {"distance": 5}, geometry(lambda values: shapely.buffer(values, 5, quad_segs=16))),
        "simplify": ({"layer": areas}, {"tolerance": 5}, geometry(lambda values: shapely.simplify(values, 5))),
        "densify": (
            {"layer": areas},
            {"max_segment_length": 3},
            geometry(lambda values: shapely.segmentize(values, 3)),
        ),
        "snap_to_grid": (
            {"layer": areas},
            {"grid_size": 0.1},
            geometry(lambda values: shapely.set_precision(values, 0.1)),
        ),
        "centroid": ({"layer": areas}, {}, geometry(shapely.centroid)),
        "point_on_surface": ({"layer": areas}, {}, geometry(shapely.point_on_surface)),
        "convex_hull": ({"layer": areas}, {}, geometry(shapely.convex_hull)),
        "concave_hull": ({"layer": areas}, {"ratio": 0.3}, geometry(lambda values: shapely.concave_hull(values, 0.3))),
        "make_valid": ({"layer": areas}, {}, geometry(lambda values: shapely.make_valid(values, method="structure"))),
        "check_validity": (
            {"layer": areas},
            {},
            lambda layer: layer.assign(is_valid=layer.is_valid, reason=layer.is_valid_reason()),
        ),
        "minimum_rotated_rectangle": ({"layer": areas}, {}, geometry(shapely.oriented_envelope)),
        "offset_curve": (
            {"layer": ways},
            {"distance": 3},
            geometry(lambda values: shapely.offset_curve(values, 3, quad_segs=16)),
        ),
        "explode": ({"layer": areas}, {}, lambda layer: layer.explode(ignore_index=True)),
        "clip": ({"layer": areas, "mask": cells}, {}, lambda layer, mask: gpd.clip(layer, mask)),
        "overlay": (
            {"left": areas, "right": wide},
            {"how": "intersection"},
            lambda left, right: gpd.overlay(left, right, how="intersection"),
        ),
        "spatial_join": ({"left": places, "right": areas}, {}, lambda left, right: gpd.sjoin(left, right, how="left")),
        "nearest_join": ({"left": places, "right": areas}, {}, lambda left, right: gpd.sjoin_nearest(left, right)),
        "dissolve": (
            {"layer": areas},
            {"by": "group"},
            lambda layer: layer[["group", "geometry"]].dissolve(by="group"),
        ),
        "filter_extent": ({"layer": areas}, {"bbox": box}, lambda layer: layer[layer.intersects(shapely.box(*box))]),
        "measure": ({"layer": areas}, {"area": "area"}, lambda layer: layer.assign(area=layer.area)),
        "count_points": ({"polygons": areas, "points": places}, {}, counted),
    }


def counted(areas: gpd.GeoDataFrame, places: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    """How many places each area holds, as geopandas users count them."""
    found = gpd.sjoin(places, areas, predicate="within")["index_right"].value_counts()
    return areas.assign(count=found.reindex(areas.index, fill_value=0))


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of a call, and its result."""
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def turn(name: str, inputs: dict[str, Any], parameters: dict[str, Any], bare: Bare) -> tuple[float, float, float]:
    """Seconds of one turn: the bare call, the operation, the gate."""
    operation = operations[name]
    plain, _ = seconds(lambda: bare(*inputs.values()))
    ours, result = seconds(lambda: operation.compute(**inputs, **parameters))
    terms = Terms(name, operation, operation.normalise(parameters), list(inputs.values()), allow_empty=True)
    gate, _ = seconds(lambda: admit(result, terms))
    return plain, ours, gate


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found: dict[str, list[float]] = {}
    for name, case in cases(chosen.rows).items():
        if chosen.names and name not in chosen.names:
            continue
        turns = [turn(name, *case) for _ in range(chosen.repeat)]
        found[name] = [statistics.median(column) for column in zip(*turns, strict=True)]
        if not chosen.json:
            print(line(name, *found[name]), flush=True)
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    if chosen.json:
        print(json.dumps({**found, "all": total}))
    else:
        print(line("all", *total))


def line(name: str, plain: float, ours: float, gate: float) -> str:
    """One operation's figures."""
    return f"{name:26} bare {plain:7.3f}  operation {ours:7.3f}  gate {gate:6.3f}  ratio {(ours + gate) / plain:6.2f}"


if __name__ == "__main__":
    main()
