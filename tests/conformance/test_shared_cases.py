"""The cases beside the project: what well-known public suites expect of operations that exist here.

The folder is found beside the project or by GEOCAIRN_SHARED; without it these tests are skipped. Only cases marked as a
match run. The cases are planar, so each layer is given a projected CRS, but for buffers, which are on a sphere there.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

from geocairn.operations.aggregation import dissolve
from geocairn.operations.geometry import buffer, centroid, convex_hull, simplify
from geocairn.operations.multipart import explode
from geocairn.operations.overlay import clip, overlay
from geocairn.operations.projection import reproject
from geocairn.operations.tessellation import voronoi

_BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared"
CASES = Path(os.environ.get("GEOCAIRN_SHARED", _BESIDE)) / "cases"
CRS = "EPSG:3857"


def _rows() -> list[dict[str, str]]:
    index = CASES / "INDEX.tsv"
    if not index.exists():
        return []
    with index.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row for row in rows if row["source"] in ("geopandas-overlay", "turf") and row["status"] == "match"]


def _layer(path: Path) -> gpd.GeoDataFrame:
    content = json.loads(path.read_text(encoding="utf-8"))
    features = content["features"] if content["type"] == "FeatureCollection" else [content]
    features = [f if f["type"] == "Feature" else {"geometry": f, "properties": {}} for f in features]
    shapes = [None if f["geometry"] is None else shapely.from_geojson(json.dumps(f["geometry"])) for f in features]
    frame = pd.DataFrame([f.get("properties") or {} for f in features], index=range(len(features)))
    return gpd.GeoDataFrame(frame, geometry=np.array(shapes, dtype=object), crs=CRS)


def _inputs(case: Path) -> list[gpd.GeoDataFrame]:
    return [_layer(case / name) for name in ("input.geojson", "overlay.geojson") if (case / name).exists()]


def _two(case: Path, how: str) -> gpd.GeoDataFrame:
    inputs = _inputs(case)
    first, second = inputs if len(inputs) == 2 else (inputs[0].iloc[[0]], inputs[0].iloc[[1]])
    return overlay(first, second, how=how)


def _overlay(case: Path, params: dict[str, Any]) -> gpd.GeoDataFrame:
    left, right = _inputs(case)
    keep = params.get("keep_geom_type", True)
    return overlay(left, right, how=params["how"], keep_geometry_kind=keep, suffixes=("_1", "_2"))


def _clip(case: Path, params: dict[str, Any]) -> gpd.GeoDataFrame:
    mask = gpd.GeoDataFrame(geometry=[shapely.box(*params["extent"])], crs=CRS)
    return clip(_inputs(case)[0], mask)


def _simplify(case: Path, params: dict[str, Any]) -> gpd.GeoDataFrame:
    parameters = {"tolerance": params["tolerance"], "preserve_topology": params.get("preserve_topology", True)}
    return simplify(_inputs(case)[0], **parameters)


def _dissolve(case: Path, params: dict[str, Any]) -> gpd.GeoDataFrame:
    layer = _inputs(case)[0]
    return explode(dissolve(layer, by=params["by"] if params["by"] in layer.columns else None))


def _hull(case: Path, params: dict[str, Any]) -> gpd.GeoDataFrame:
    return convex_hull(_inputs(case)[0].assign(all=0), by="all")


def _ground_buffer(case: Path, params: dict[str, Any]) -> gpd.GeoDataFrame:
    layer = _inputs(case)[0].set_crs("EPSG:4326", allow_override=True)
    if (layer.geom_type == "GeometryCollection").any():
        layer = explode(layer)
    xmin, ymin, xmax, ymax = layer.total_bounds
    local = f"+proj=aeqd +lat_0={(ymin + ymax) / 2} +lon_0={(xmin + xmax) / 2} +R=6371008.8 +units=m"
    there = reproject(layer, crs=local, allow_ballpark=True)
    around = buffer(there, distance=params["distance_m"], quad_segs=params["quad_segs"])
    return reproject(around, crs="EPSG:4326", allow_ballpark=True)


RUN: dict[str, Callable[[Path, dict[str, Any]], gpd.GeoDataFrame]] = {
    "overlay": _overlay,
    "clip to extent (rectangle)": _clip,
    "intersection (two polygons)": lambda case, params: _two(case, "intersection"),
    "difference (first minus second)": lambda case, params: _two(case, "difference"),
    "dissolve all (union of all features)": lambda case, params: dissolve(_inputs(case)[0]),
    "dissolve by field then single parts": _dissolve,
    "simplify (Douglas-Peucker)": _simplify,
    "convex hull of layer": _hull,
    "buffer by ground distance (geographic input)": _ground_buffer,
    "centroid": lambda case, params: centroid(_inputs(case)[0]),
    "multipart to single parts": lambda case, params: explode(_inputs(case)[0]),
    "voronoi polygons clipped to extent": lambda case, params: voronoi(_inputs(case)[0], extent=params["extent"]),
}


def _chosen() -> list[Any]:
    found = []
    for row in _rows():
        operation = "overlay" if row["operation"].startswith("overlay ") else row["operation"]
        name = f"{row['source']}/{row['case']}"
        if operation in RUN:
            found.append(pytest.param(operation, CASES / name, float(row["tolerance"] or 0), id=name))
    return found


def _values(row: Any, columns: list[str]) -> tuple[Any, ...]:
    return tuple(None if pd.isna(row[name]) else row[name] for name in columns)


def _close(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two geometries are equal within the tolerance, their order and direction aside."""
    if one is None or other is None:
        return one is other
    if one.is_empty or other.is_empty:
        return bool(one.is_empty and other.is_empty)
    if shapely.equals(one, other):
        return True
    scale = max(1.0, *(abs(value) for value in other.bounds))
    if one.area or other.area:
        return bool(one.symmetric_difference(other).area <= tolerance * max(other.area, 1e-3))
    return bool(one.hausdorff_distance(other) <= tolerance * scale)


@pytest.mark.skipif(not CASES.exists(), reason="the cases are not beside the project")
@pytest.mark.parametrize(("operation", "case", "tolerance"), _chosen())
def test_as_expected(operation: str, case: Path, tolerance: float) -> None:
    params = json.loads((case / "params.json").read_text(encoding="utf-8"))
    result = RUN[operation](case, params)
    expected = _layer(case / "expected.geojson")
    assert len(result) == len(expected)
    columns = [name for name in expected.columns if name != "geometry" and name in result.columns]
    if operation == "overlay" and len(expected):
        assert set(expected.columns) == set(result.columns)
    remaining = list(range(len(expected)))
    for place in range(len(result)):
        values = _values(result.iloc[place], columns)
        match = next(
            (
                other
                for other in remaining
                if _values(expected.iloc[other], columns) == values
                and _close(result.geometry.iloc[place], expected.geometry.iloc[other], tolerance)
            ),
            None,
        )
        assert match is not None, f"row {place} of the result is not expected: {values}, {result.geometry.iloc[place]}"
        remaining.remove(match)
