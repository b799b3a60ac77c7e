"""The cases over which backends are held equal: awkward layers of ours, and the cases beside the project."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import awkward_layers as awkward
import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geocairn.operations.parts import single_parts

_BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared"
SHARED = Path(os.environ.get("GEOCAIRN_SHARED", _BESIDE)) / "cases"


@dataclass(frozen=True)
class Case:
    """One computation: an operation, its inputs in the order of its roles, its parameters."""

    name: str
    operation: str
    inputs: list[Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    refused: bool = False
    """Whether DuckDB refuses it: only where a test of ours is meant to show that."""


ROW_WISE: list[tuple[str, dict[str, Any]]] = [
    ("buffer", {"distance": 1.5}),
    ("buffer", {"distance": -1.5}),
    ("buffer", {"distance": 0}),
    ("buffer", {"distance": 2, "quad_segs": 3, "cap_style": "flat", "join_style": "mitre", "mitre_limit": 1.2}),
    ("buffer", {"distance": 2, "cap_style": "square", "join_style": "bevel"}),
    ("buffer", {"distance": "whole"}),
    ("buffer", {"distance": "real"}),
    ("buffer", {"distance": 3, "dissolve": True}),
    ("simplify", {"tolerance": 0}),
    ("simplify", {"tolerance": 2.5}),
    ("simplify", {"tolerance": 2.5, "preserve_topology": False}),
    ("centroid", {}),
    ("convex_hull", {}),
    ("convex_hull", {"by": ["kind"]}),
    ("convex_hull", {"by": ["kind", "arrow"]}),
    ("make_valid", {"method": "linework", "keep_collapsed": True}),
    ("make_valid", {"method": "linework", "keep_collapsed": True, "keep_geometry_kind": False}),
    ("dissolve", {}),
    ("dissolve", {"by": "kind", "aggregates": {"big": ["sum", "max"], "when": "first", "real": "mean"}}),
    ("dissolve", {"by": ["kind", "flag"], "keep_null_keys": False}),
    ("measure", {"area": "m2", "perimeter": "outline", "unit": "km"}),
    ("measure", {"length": "long", "unit": "ft"}),
    ("measure", {"area": "m2", "length": "long", "perimeter": "outline"}),
    ("reproject", {"crs": "EPSG:4269"}),
    ("reproject", {"crs": "EPSG:5070"}),
    ("filter", {"where": "S_INTERSECTS(shape, BBOX(0, 0, 10, 10)) AND NOT S_WITHIN(shape, BBOX(0, 0, 12, 12))"}),
]
FILTERS = [
    "whole < 3 OR whole >= 7",
    "whole > 2.5",
    "3 <= whole",
    f"big = {awkward.BIG}",
    f"big > {awkward.BIG} OR big IS NULL",
    "NOT (big > 0)",
    "flag = TRUE",
    "flag <> TRUE AND real < 4",
    "real = whole",
    "real BETWEEN 0.5 AND 2",
    "real IN (0.5, 2, 3.5)",
    "kind = 'a'",
    "kind < 'b'",
    "kind IN ('a', 'zz') OR arrow LIKE 'é_'",
    "arrow >= 'é1'",
    "text LIKE 't\\%1%'",
    "text LIKE 't%\n\\_'",
    "NOT (text LIKE '%0%')",
    "thing IS NULL AND shape IS NOT NULL",
    "when IS NOT NULL",
    "S_DISJOINT(shape, POINT(5 5))",
    "NOT S_INTERSECTS(shape, POLYGON((0 0, 10 0, 10 10, 0 10, 0 0)))",
    "S_TOUCHES(shape, POLYGON((0 0, 10 0, 10 10, 0 10, 0 0)))",
    "S_EQUALS(POLYGON((10 0, 10 10, 0 10, 0 0, 10 0)), shape)",
    "S_CONTAINS(BBOX(0, 0, 21, 21), shape)",
    "whole = 'x'",
    "wohle = 1",
    "big = 1 AND flag > 3",
]
PREDICATES = (
    "intersects",
    "within",
    "contains",
    "contains_properly",
    "overlaps",
    "crosses",
    "touches",
    "covers",
    "covered_by",
    "equals",
)
HOW = ("intersection", "union", "difference", "symmetric_difference", "identity")


def awkward_cases() -> Iterator[Case]:
    """Every claimed operation over our own layers, whole, with no rows, and with one."""
    kinds = {
        "polygons": awkward.POLYGONS,
        "lines": awkward.LINES,
        "points": awkward.POINTS,
        "solids": awkward.SOLIDS,
        "mixed": awkward.MIXED,
        "nothing": [None, None],
    }
    layers = {name: awkward.layer(wkt) for name, wkt in kinds.items()}
    others = {
        name: awkward.layer(wkt, prefix="r_")
        for name, wkt in {**kinds, "others": awkward.OTHERS, "polygons": awkward.POLYGONS[2:]}.items()
    }
    for name, layer in layers.items():
        for operation, parameters in ROW_WISE:
            yield Case(f"{operation}-{name}-{_short(parameters)}", operation, [layer], parameters)
            if name == "polygons":
                for count in (0, 1):
                    few = layer.iloc[:count]
                    yield Case(f"{operation}-{count} rows-{_short(parameters)}", operation, [few], parameters)
    for where in FILTERS:
        for name in ("polygons", "points"):
            yield Case(f"filter-{name}-{where!r}", "filter", [layers[name]], {"where": where})
    for name in ("broken", "collections"):
        wkt = awkward.BROKEN if name == "broken" else awkward.COLLECTIONS
        for operation, parameters in ROW_WISE:
            if operation in ("make_valid", "dissolve", "measure"):
                yield Case(f"{operation}-{name}-{_short(parameters)}", operation, [awkward.layer(wkt)], parameters)
    world = awkward.layer(awkward.WORLD, crs="EPSG:4269")
    laea = "+proj=laea +lat_0=45 +lon_0=-100 +ellps=GRS80 +units=us-ft"
    for crs in ("EPSG:5070", "EPSG:26914", "EPSG:2163", laea):
        yield Case(
            f"reproject-world-{crs}", "reproject", [world.set_crs("EPSG:4269", allow_override=True)], {"crs": crs}
        )
    yield from _pair_cases(layers, others)


def _pair_cases(layers: dict[str, Any], others: dict[str, Any]) -> Iterator[Case]:
    pairs = [(one, "others") for one in layers] + [("polygons", two) for two in others if two != "others"]
    pairs += [("lines", "lines"), ("points", "points"), ("points", "lines"), ("lines", "points"), ("solids", "solids")]
    pairs += [("mixed", "mixed"), ("points", "polygons"), ("lines", "polygons"), ("solids", "points")]
    for one, two in pairs:
        left, right = layers[one], others[two]
        for predicate in PREDICATES:
            yield Case(f"spatial_join-{one}-{two}-{predicate}", "spatial_join", [left, right], {"predicate": predicate})
        for how in HOW:
            for keep in (True, False):
                parameters = {"how": how, "keep_geometry_kind": keep}
                solid = "solids" in (one, two) and how != "intersection"
                yield Case(f"overlay-{one}-{two}-{how}-{keep}", "overlay", [left, right], parameters, solid)
        for distance in (0, 5, 7.0710678118654755):
            parameters = {"predicate": "dwithin", "distance": distance, "how": "inner", "match": "first"}
            yield Case(f"spatial_join-{one}-{two}-dwithin {distance}", "spatial_join", [left, right], parameters)
        for k, reach in ((1, None), (3, None), (100, None), (2, 5.0)):
            parameters = {"k": k, "max_distance": reach}
            yield Case(f"nearest_join-{one}-{two}-{k}-{reach}", "nearest_join", [left, right], parameters)
        for predicate, invert in (("intersects", False), ("disjoint", False), ("disjoint", True), ("touches", True)):
            parameters = {"predicate": predicate, "invert": invert}
            yield Case(f"spatial_filter-{one}-{two}-{predicate}-{invert}", "spatial_filter", [left, right], parameters)
        if two in ("polygons", "others", "solids"):
            for keep in (True, False):
                parameters = {"keep_geometry_kind": keep}
                yield Case(f"clip-{one}-{two}-{keep}", "clip", [left, right], parameters, "solids" in (one, two))
        if one in ("polygons", "solids") and two == "points":
            for weight in (None, "r_whole", "r_big", "r_real"):
                yield Case(f"count_points-{one}-{weight}", "count_points", [left, right], {"weight": weight})
    for name, two in (("no rows", others["others"]), ("one row", others["others"])):
        few = layers["polygons"].iloc[: int(name == "one row")]
        for how in HOW:
            yield Case(f"overlay-{name}-{how}", "overlay", [few, two], {"how": how})
            yield Case(f"overlay-by {name}-{how}", "overlay", [two, few], {"how": how})
        for operation in ("clip", "spatial_join", "nearest_join", "spatial_filter"):
            yield Case(f"{operation}-{name}", operation, [few, two])
            yield Case(f"{operation}-by {name}", operation, [two, few])


def many_rows() -> Iterator[Case]:
    """Layers of some hundred rows: overlapping polygons far from the origin, and points at equal distances."""
    shapes, more = awkward.scattered(250, 1), awkward.scattered(200, 2)
    points = awkward.lattice(200, 3)
    around = shapely.buffer(awkward.lattice(150, 4).geometry.values, 0.5, quad_segs=2)
    places = gpd.GeoDataFrame({"r": np.arange(150)}, geometry=around, crs=awkward.CRS)
    for how in HOW:
        yield Case(f"overlay-many-{how}", "overlay", [shapes, more], {"how": how})
    for operation, parameters in (
        ("clip", {}),
        ("spatial_join", {}),
        ("spatial_join", {"predicate": "dwithin", "distance": 20.0}),
        ("nearest_join", {"k": 4}),
        ("nearest_join", {"k": 3, "max_distance": 10.0}),
    ):
        yield Case(f"{operation}-many-{_short(parameters)}", operation, [shapes, more], parameters)
    for k in (1, 2, 5, 50):
        yield Case(f"nearest_join-lattice-{k}", "nearest_join", [points, places], {"k": k})
        yield Case(f"nearest_join-lattice-back-{k}", "nearest_join", [places, points], {"k": k})
        yield Case(f"nearest_join-lattice-self-{k}", "nearest_join", [points, points], {"k": k})
    for distance in (0.5, 1.0, 1.5, 2.23606797749979):
        parameters = {"predicate": "dwithin", "distance": distance}
        yield Case(f"spatial_join-lattice-{distance}", "spatial_join", [points, places], parameters)
        yield Case(f"spatial_join-lattice-back-{distance}", "spatial_join", [places, points], parameters)
    solid = awkward.with_heights(shapes)
    yield Case("dissolve-many solids", "dissolve", [solid])
    yield Case("overlay-many solids", "overlay", [solid, awkward.with_heights(more)], {"how": "intersection"})
    for operation, parameters in ROW_WISE:
        known = {"whole", "real", "kind"} & set(map(str, [*parameters.values(), *parameters.get("by", [])]))
        if not known and operation != "filter" and "by" not in parameters and "length" not in parameters:
            yield Case(f"{operation}-many-{_short(parameters)}", operation, [shapes], parameters)


def _short(parameters: dict[str, Any]) -> str:
    return ",".join(f"{key}={str(value)[:30]}" for key, value in parameters.items())


def shared_cases() -> Iterator[Case]:
    """The cases beside the project that are of an operation here, each over both backends; none without the folder."""
    if not SHARED.exists():
        return
    with (SHARED / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for row in rows:
        folder = SHARED / row["source"] / row["case"]
        name = f"{row['source']}/{row['case']}"
        if row["source"] == "geopandas-overlay" or row["operation"].startswith(("intersection (", "difference (")):
            left, right = _two(folder)
            for how in HOW:
                for keep in (True, False):
                    parameters = {"how": how, "keep_geometry_kind": keep, "suffixes": ("_1", "_2")}
                    yield Case(f"{name}-{how}-{keep}", "overlay", [left, right], parameters)
        elif row["source"] == "turf":
            yield from _turf_cases(name, folder, row["operation"])
    yield from _geos_cases()


def _turf_cases(name: str, folder: Path, what: str) -> Iterator[Case]:
    params = json.loads((folder / "params.json").read_text(encoding="utf-8"))
    layer = _layer(folder / "input.geojson")
    if what.startswith("buffer"):
        yield Case(name, "buffer", [layer], {"distance": 0.01, "quad_segs": params["quad_segs"]})
    elif what.startswith("clip"):
        yield Case(name, "clip", [layer, gpd.GeoDataFrame(geometry=[shapely.box(*params["extent"])], crs=layer.crs)])
    elif what.startswith("dissolve"):
        by = params.get("by")
        yield Case(name, "dissolve", [layer], {"by": by if by in layer.columns else None})
    elif what.startswith("simplify"):
        yield Case(name, "simplify", [layer], {"tolerance": params["tolerance"]})
    elif what.startswith("convex"):
        yield Case(name, "convex_hull", [layer.assign(all=0)], {"by": "all"})
    elif what.startswith(("centroid", "centre")):
        yield Case(name, "centroid", [layer])
    elif what.startswith("fix"):
        yield Case(name, "make_valid", [layer], {"method": "linework", "keep_collapsed": True})


def _layer(path: Path) -> gpd.GeoDataFrame:
    content = json.loads(path.read_text(encoding="utf-8"))
    features = content["features"] if content["type"] == "FeatureCollection" else [content]
    features = [f if f["type"] == "Feature" else {"geometry": f, "properties": {}} for f in features]
    shapes = [None if f["geometry"] is None else shapely.from_geojson(json.dumps(f["geometry"])) for f in features]
    frame = pd.DataFrame([f.get("properties") or {} for f in features], index=range(len(features)))
    return gpd.GeoDataFrame(frame, geometry=np.array(shapes, dtype=object), crs="EPSG:3857")


def _two(folder: Path) -> tuple[Any, Any]:
    first = _layer(folder / "input.geojson")
    if (folder / "overlay.geojson").exists():
        return first, _layer(folder / "overlay.geojson")
    return first.iloc[[0]], first.iloc[[1]]


def geos_lines(operation: str) -> list[dict[str, Any]]:
    """The cases of one file that start from finite, valid geometry of a kind that DuckDB takes."""
    text = (SHARED / "geos" / f"{operation}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _plain(values: list[str | None], crs: str = "EPSG:3857") -> gpd.GeoDataFrame:
    shapes = shapely.from_wkt(np.array(values, dtype=object), on_invalid="ignore")
    return gpd.GeoDataFrame({"n": np.arange(len(shapes))}, geometry=np.asarray(shapes, dtype=object), crs=crs)


def _taken(layer: gpd.GeoDataFrame, *, valid: bool = True, whole: bool = True) -> gpd.GeoDataFrame:
    """The rows with finite coordinates and no linear ring, and (where asked) such as DuckDB relates to others."""
    shapes = np.asarray(layer.geometry.values, dtype=object)
    coordinates, rows = shapely.get_coordinates(shapes, return_index=True)
    keep = ~np.isin(np.arange(len(shapes)), rows[~np.isfinite(coordinates).all(axis=1)])
    keep &= shapely.get_type_id(shapes) != 2
    if valid:
        keep &= shapely.is_valid(shapes) & ~_touching_rings(shapes)
    if whole:
        parts, owners = single_parts(shapes)
        keep &= shapely.is_empty(shapes) | ~np.isin(np.arange(len(shapes)), owners[shapely.is_empty(parts)])
    return layer[keep].reset_index(drop=True)


def _touching_rings(shapes: Any) -> Any:
    """Where a polygon, alone or in a collection, has rings that touch."""
    parts, owners = single_parts(shapes)
    every, places = np.concatenate([shapes, parts]), np.concatenate([np.arange(len(shapes)), owners])
    polygons = np.isin(shapely.get_type_id(every), (3, 6)) & ~shapely.is_empty(every)
    touching = np.zeros(len(every), dtype=bool)
    touching[polygons] = ~shapely.is_simple(shapely.boundary(every[polygons]))
    return np.isin(np.arange(len(shapes)), places[touching])


def _geos_cases() -> Iterator[Case]:
    """GEOS's own: by the layer where the operation is by the row, all with all where it is a relation, else by pair."""
    for file in ("buffer", "buffermitredjoin"):
        for line in geos_lines(file):
            style = {"join_style": "mitre"} if file != "buffer" else {"quad_segs": line["quad_segs"]}
            one = _taken(_plain([line["a"]]), valid=False, whole=False)
            yield Case(
                f"geos/{line['id']}-{line['distance']}", "buffer", [one], {"distance": line["distance"], **style}
            )
    for file, operation, keep in (("simplifydp", "simplify", False), ("simplifytp", "simplify", True)):
        for line in geos_lines(file):
            parameters = {"tolerance": line["simplify_tolerance"], "preserve_topology": keep}
            yield Case(
                f"geos/{file}/{line['id']}",
                operation,
                [_taken(_plain([line["a"]]), valid=False, whole=False)],
                parameters,
            )
    for line in geos_lines("getcentroid"):
        shape = shapely.from_wkt(line["a"])
        extent = shapely.get_dimensions(shape) == 0 or shape.length > 0 or shape.is_empty
        flat = shapely.get_dimensions(shape) == 2 and shape.area == 0
        if extent and not flat and shape.geom_type != "GeometryCollection":
            yield Case(
                f"geos/centroid/{line['id']}", "centroid", [_taken(_plain([line["a"]]), valid=False, whole=False)]
            )
    yield Case("geos/convexhull", "convex_hull", [_taken(_plain([one["a"] for one in geos_lines("convexhull")]))])
    for file in ("makevalid", "isvalid"):
        layer = _taken(_plain([line["a"] for line in geos_lines(file)]), valid=False, whole=False)
        for keep in (True, False):
            parameters = {"method": "linework", "keep_collapsed": True, "keep_geometry_kind": keep}
            yield Case(f"geos/{file}-{keep}", "make_valid", [layer], parameters)
    for predicate, file in (
        *((name, name.replace("_", "")) for name in PREDICATES if name not in ("contains_properly", "equals")),
        ("equals", "equalstopo"),
        ("contains_properly", "contains"),
    ):
        lines = geos_lines(file)
        left, right = (_taken(_plain(sorted({line[side] for line in lines}))) for side in ("a", "b"))
        yield Case(f"geos/{file}-{predicate}", "spatial_join", [left, right], {"predicate": predicate})
        yield Case(f"geos/{file}-{predicate}-back", "spatial_join", [right, left], {"predicate": predicate})
    for line in geos_lines("iswithindistance"):
        left, right = _plain([line["a"]]), _plain([line["b"]])
        parameters = {"predicate": "dwithin", "distance": line["distance"]}
        yield Case(f"geos/dwithin/{line['id']}", "spatial_join", [left, right], parameters)
    for line in geos_lines("distance"):
        left, right = _taken(_plain([line["a"]])), _taken(_plain([line["b"]]))
        yield Case(f"geos/distance/{line['id']}", "nearest_join", [left, right])
    for file in ("intersection", "difference", "union", "symdifference"):
        how = {"symdifference": "symmetric_difference"}.get(file, file)
        for number, line in enumerate(geos_lines(file)):
            left, right = (_taken(_plain([line[side]]), valid=False) for side in ("a", "b"))
            parameters = {"how": how, "keep_geometry_kind": False}
            yield Case(f"geos/{how}/{line['id']}#{number}", "overlay", [left, right], parameters)
