"""From a case's plain words to geocairn's operations: which chain gives what the words ask for.

A translation goes by the operation's words and the case's parameters, never by the case's name. What always holds: a
parameter that a translation does not know fails the case, and words that nothing here knows fail it as well, unless
they are the name of an operation (`line merge`, `overlay`): that is then called with the parameters as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import geopandas as gpd
import numpy as np
import shapely
from case_index import CRS
from comparison import Strictness

from geocairn.backends.claims import claims
from geocairn.operations.registry import operations

ABOUT = frozenset(
    {"operation", "source", "licence", "verification", "note", "notes", "crs", "description", "expected_is"}
)
"""What `params.json` says about a case, that is no parameter."""

FIXED = {
    "units": None,  # beside a distance that is given in metres too
    "method": None,  # the words of how the distance is measured
    "high_quality": False,
    "multipart": False,
    "exterior": "counterclockwise",
    "ring_closing_vertex": "included or n/a",
    "keep_geom_type": "polygon only",
}
"""Parameters that say what the chain does anyway, and the only value for which that is so (None: any)."""


class Steps:
    """Computes operations on one backend, or on the reference where the backend does not claim them."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.engaged = backend == "geopandas"
        """Whether the backend has computed anything."""
        self.used: set[str] = set()

    def __call__(self, name: str, *layers: Any, **parameters: Any) -> gpd.GeoDataFrame:
        operation = operations.get_known(name)
        self.used.add(name)
        backend = "geopandas"
        if self.backend in operation.backends and claims(operation, parameters, self.backend):
            backend, self.engaged = self.backend, True
        return operation.compute(*layers, backend=backend, **parameters)


class Params:
    """A case's parameters; what is never taken was not understood."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = {name: value for name, value in found.items() if name not in ABOUT}

    def take(self, name: str, *default: Any) -> Any:
        """The parameter's value, which counts as understood; the default where the case has none."""
        if name in self._found:
            return self._found.pop(name)
        if default:
            return default[0]
        raise ValueError(f"the case has no parameter {name!r}")

    def take_all(self) -> dict[str, Any]:
        """All that are left."""
        rest, self._found = self._found, {}
        return rest

    def check_understood(self) -> None:
        """Refuse a case with a parameter that was not taken."""
        unknown = {
            name: value
            for name, value in self._found.items()
            if name not in FIXED or (FIXED[name] is not None and FIXED[name] != value)
        }
        if unknown:
            raise ValueError(f"parameters that the translation does not know: {unknown}")


Chain = Callable[[Steps, list[gpd.GeoDataFrame], Params], gpd.GeoDataFrame]


@dataclass(frozen=True)
class Translation:
    """What to compute for some words, and how strictly to compare."""

    chain: Chain
    uses: tuple[str, ...]
    """The operations that the chain may use."""
    strictness: Strictness = "shape"
    ordered: bool = False
    """Whether the case's order of rows is one that the operation promises."""
    whole_schema: bool = False
    """Whether result and expectation have the same columns."""


def translation(words: str) -> Translation:
    """The translation of an operation in plain words.

    Raises
    ------
    LookupError : for words that say no operation of ours.
    """
    if words.startswith("overlay ") and words not in TABLE:
        return TABLE["overlay ..."]
    if words in TABLE:
        return TABLE[words]
    name = words.replace(" ", "_")
    if name in operations:
        return Translation(_by_name(name), (name,), "vertices", True, True)
    raise LookupError(f"no translation of {words!r}")


def _by_name(name: str) -> Chain:
    def chain(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
        inputs = [layers] if operations[name].roles[0].many else layers
        return steps(name, *inputs, **params.take_all())

    return chain


def _two(layers: list[gpd.GeoDataFrame]) -> list[gpd.GeoDataFrame]:
    """Two layers; where the case has one, its first feature and its second."""
    return layers if len(layers) == 2 else [layers[0].iloc[[0]], layers[0].iloc[[1]]]


def _overlay(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    keep = params.take("keep_geom_type", True)
    return steps("overlay", *layers, how=params.take("how"), keep_geometry_kind=keep, suffixes=("_1", "_2"))


def _pair(how: str) -> Chain:
    return lambda steps, layers, params: steps("overlay", *_two(layers), how=how)


def _rectangle(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    extent = params.take("extent")
    mask = gpd.GeoDataFrame(geometry=[shapely.box(*extent)], crs=CRS)
    by_mask = steps("clip", layers[0], mask)
    by_extent = steps("filter_extent", layers[0], bbox=extent, clip=True)
    same = shapely.equals(np.asarray(by_mask.geometry), np.asarray(by_extent.geometry))
    assert len(by_mask) == len(by_extent)
    assert same.all(), "clip and filter_extent differ"
    return by_extent


def _dissolve_parts(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    by = params.take("by", None)
    by = by if by in layers[0].columns else None
    return steps("explode", steps("dissolve", layers[0], by=by))


def _dissolve_all(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("dissolve", layers[0], by=params.take("by", None))


def _simplify(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    keep = params.take("preserve_topology", True)
    return steps("simplify", layers[0], tolerance=params.take("tolerance"), preserve_topology=keep)


def _in_one_group(layer: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    return layer[["geometry"]].assign(group=0)


def _hull(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("convex_hull", _in_one_group(layers[0]), by="group")


def _vertex_mean(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    """The centroid of all vertices as points, the one that closes a ring left out."""
    vertices = steps("extract_vertices", steps("explode", layers[0][["geometry"]].assign(row=range(len(layers[0])))))
    closing = _closes_a_ring(layers[0], vertices)
    return steps("centroid", steps("collect", _in_one_group(vertices[~closing])))


def _closes_a_ring(layer: gpd.GeoDataFrame, vertices: gpd.GeoDataFrame) -> np.ndarray[Any, Any]:
    flags = []
    for shape in layer.geometry:
        for part in shapely.get_parts(shape):
            rings = shapely.get_rings(part) if part.geom_type == "Polygon" else [part]
            for ring in rings:
                count = shapely.get_num_coordinates(ring)
                flags += [part.geom_type == "Polygon" and place == count - 1 for place in range(count)]
    assert len(flags) == len(vertices)
    return np.array(flags, dtype=bool)


def _extent_centre(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("centroid", steps("envelope", _in_one_group(layers[0]), by="group"))


def _mended_parts(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("explode", steps("make_valid", layers[0], method="linework", keep_collapsed=True))


def _voronoi(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("voronoi", layers[0], extent=params.take("extent"))


def _rounded(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    layer = layers[0]
    if params.take("coordinate_dims", 3) == 2:
        layer = steps("force_2d", layer)
    return steps("snap_to_grid", layer, grid_size=10.0 ** -params.take("decimals"), mode="pointwise")


def _line_crossings(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    """One row a place, rounded as far as the case says its own are."""
    digits = params.take("precision", 6)
    found = steps("line_intersections", *(layer[["geometry"]] for layer in layers))
    rounded = steps("snap_to_grid", found, grid_size=10.0**-digits, mode="pointwise")
    return steps("deduplicate", rounded[["geometry"]])


def _split(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("explode", steps("split", *layers))


def _lines_to_polygons(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    faces = steps("polygonize", layers[0], node=False)
    return steps("collect", _in_one_group(faces), by="group")


def _shared_line_work(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    if params.take("tolerance", 0):
        raise ValueError("shared line work within a tolerance is no chain of ours (snap moves what is not shared)")
    lines = [layer if (layer.geom_type.str.contains("Line")).all() else steps("boundary", layer) for layer in layers]
    shared = steps("overlay", *(line[["geometry"]] for line in lines), how="intersection")
    return steps("explode", steps("line_merge", steps("dissolve", shared)))


def _without_needless(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    return steps("simplify", layers[0], tolerance=params.take("tolerance", 0))


def _ground_buffer(steps: Steps, layers: list[gpd.GeoDataFrame], params: Params) -> gpd.GeoDataFrame:
    """By way of a projection that keeps distances from the middle of the layer, on the sphere of the suite."""
    params.take("distance", None)  # the same in the units of the suite
    layer = steps("assign_crs", layers[0], crs="EPSG:4326", override=True)
    if (layer.geom_type == "GeometryCollection").any():
        layer = steps("explode", layer)
    xmin, ymin, xmax, ymax = layer.total_bounds
    local = f"+proj=aeqd +lat_0={(ymin + ymax) / 2} +lon_0={(xmin + xmax) / 2} +R=6371008.8 +units=m"
    there = steps("reproject", layer, crs=local, allow_ballpark=True)
    around = steps("buffer", there, distance=params.take("distance_m"), quad_segs=params.take("quad_segs"))
    return steps("reproject", around, crs="EPSG:4326", allow_ballpark=True)


def _on_each(name: str) -> Chain:
    return lambda steps, layers, params: steps(name, layers[0])


TABLE: dict[str, Translation] = {
    "overlay ...": Translation(_overlay, ("overlay",), whole_schema=True),
    "clip to extent (rectangle)": Translation(_rectangle, ("clip", "filter_extent"), ordered=True),
    "intersection (two polygons)": Translation(_pair("intersection"), ("overlay",)),
    "difference (first minus second)": Translation(_pair("difference"), ("overlay",)),
    "dissolve all (union of all features)": Translation(_dissolve_all, ("dissolve",)),
    "dissolve by field then single parts": Translation(_dissolve_parts, ("dissolve", "explode")),
    "simplify (Douglas-Peucker)": Translation(_simplify, ("simplify",), "vertices", True),
    "convex hull of layer": Translation(_hull, ("convex_hull",)),
    "centroid": Translation(_on_each("centroid"), ("centroid",), ordered=True),
    "mean coordinates (vertex mean)": Translation(_vertex_mean, ("explode", "extract_vertices", "collect", "centroid")),
    "centre of extent": Translation(_extent_centre, ("envelope", "centroid")),
    "extract vertices": Translation(_on_each("extract_vertices"), ("extract_vertices",), "directed", True),
    "multipart to single parts": Translation(_on_each("explode"), ("explode",), "directed", True),
    "polygonize lines": Translation(_on_each("polygonize"), ("polygonize",), "vertices"),
    "line intersections (points)": Translation(
        _line_crossings, ("line_intersections", "snap_to_grid", "deduplicate"), "vertices"
    ),
    "split lines by geometry": Translation(_split, ("split", "explode")),
    "lines to polygons": Translation(_lines_to_polygons, ("polygonize", "collect")),
    "polygons to lines": Translation(
        lambda steps, layers, params: steps("boundary", steps("explode", layers[0])),
        ("boundary", "explode"),
        "vertices",
    ),
    "fix geometries (split self-crossing polygon into simple polygons)": Translation(
        _mended_parts, ("make_valid", "explode")
    ),
    "voronoi polygons clipped to extent": Translation(_voronoi, ("voronoi",), ordered=True),
    "round coordinates (snap vertices to decimal grid)": Translation(
        _rounded, ("force_2d", "snap_to_grid"), "directed", True
    ),
    "swap x and y": Translation(_on_each("swap_xy"), ("swap_xy",), "directed", True),
    "explode lines into segments": Translation(_on_each("explode_lines"), ("explode_lines",), "directed", True),
    "force polygon ring orientation": Translation(_on_each("orient_polygons"), ("orient_polygons",), "directed", True),
    "remove duplicate and collinear vertices": Translation(_without_needless, ("simplify",), "vertices", True),
    "shared line work (intersection of lines, line parts only)": Translation(
        _shared_line_work, ("overlay", "boundary", "dissolve", "line_merge", "explode")
    ),
    "buffer by ground distance (geographic input)": Translation(
        _ground_buffer, ("assign_crs", "explode", "reproject", "buffer"), ordered=True
    ),
}
