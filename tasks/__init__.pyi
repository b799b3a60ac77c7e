"""Every operation as a Prefect task; written by tests/tasks/record_task_types.py from the contracts."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeAlias

from geopandas import GeoDataFrame
from pandas import DataFrame
from prefect.futures import PrefectFuture

from geocairn.cartography import MapStyle
from geocairn.checkpoint import Checkpoint
from geocairn.highlight import Highlight
from geocairn.tasks.step import StepTask as StepTask
from geocairn.tasks.step import step as step

_P = ParamSpec("_P")
Layer: TypeAlias = Checkpoint | PrefectFuture[Checkpoint] | GeoDataFrame
Table: TypeAlias = Layer | DataFrame

def _task(function: Callable[_P, Checkpoint], /) -> StepTask[_P]: ...
def __getattr__(name: str) -> StepTask[...]: ...

_Validate: TypeAlias = Literal[
    "one_to_one",
    "one_to_many",
    "many_to_one",
    "many_to_many",
]
_Aggregates: TypeAlias = Literal[
    "first",
    "last",
    "min",
    "max",
    "sum",
    "mean",
    "median",
    "std",
    "count",
    "nunique",
]
_How: TypeAlias = Literal[
    "intersection",
    "union",
    "difference",
    "symmetric_difference",
    "identity",
]
_Predicate: TypeAlias = Literal[
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
    "disjoint",
    "dwithin",
]

@_task
def affine_transform(layer: Layer, *, matrix: list[float]) -> Checkpoint: ...
@_task
def assign_crs(layer: Layer, *, crs: str | int, override: bool = False) -> Checkpoint: ...
@_task
def attribute_join(
    left: Layer,
    right: Table,
    *,
    left_on: str | list[str],
    right_on: str | list[str],
    how: Literal["left", "inner"] = "left",
    columns: str | list[str] | None = None,
    suffixes: tuple[str, str] | list[str] = ...,
    validate: _Validate | None = None,
) -> Checkpoint: ...
@_task
def boundary(layer: Layer) -> Checkpoint: ...
@_task
def buffer(
    layer: Layer,
    *,
    distance: float | str,
    quad_segs: int = 16,
    cap_style: Literal["round", "flat", "square"] = "round",
    join_style: Literal["round", "mitre", "bevel"] = "round",
    mitre_limit: float = 5.0,
    single_sided: bool = False,
    dissolve: bool = False,
) -> Checkpoint: ...
@_task
def centroid(layer: Layer) -> Checkpoint: ...
@_task
def check_validity(layer: Layer) -> Checkpoint: ...
@_task
def clip(layer: Layer, mask: Layer, *, keep_geometry_kind: bool = True) -> Checkpoint: ...
@_task
def collect(layer: Layer, *, by: str | list[str] | None = None) -> Checkpoint: ...
@_task
def compute_columns(
    layer: Table,
    *,
    columns: Mapping[str, str | int | float],
    replace: bool = False,
) -> Checkpoint: ...
@_task
def concave_hull(
    layer: Layer,
    *,
    ratio: float = 0.3,
    allow_holes: bool = False,
    by: str | list[str] | None = None,
) -> Checkpoint: ...
@_task
def convex_hull(layer: Layer, *, by: str | list[str] | None = None) -> Checkpoint: ...
@_task
def count_points(
    polygons: Layer,
    points: Layer,
    *,
    column: str = "count",
    weight: str | None = None,
    by: str | list[str] | None = None,
) -> Checkpoint: ...
@_task
def create_grid(
    layer: Layer,
    *,
    kind: Literal["square", "hexagon"] = "square",
    size: float,
    clip: bool = True,
    origin: tuple[float, float] | list[float] | None = None,
) -> Checkpoint: ...
@_task
def deduplicate(
    layer: Layer,
    *,
    by: str | list[str] | None = None,
    geometry: bool = True,
    tolerance: float = 0.0,
) -> Checkpoint: ...
@_task
def delaunay(layer: Layer, *, tolerance: float = 0) -> Checkpoint: ...
@_task
def densify(layer: Layer, *, max_segment_length: float) -> Checkpoint: ...
@_task
def dissolve(
    layer: Layer,
    *,
    by: str | list[str] | None = None,
    aggregates: Mapping[str, _Aggregates | list[_Aggregates]] = ...,
    keep_null_keys: bool = True,
    method: Literal["unary", "coverage"] = "unary",
    grid_size: float | None = None,
) -> Checkpoint: ...
@_task
def envelope(layer: Layer, *, by: str | list[str] | None = None) -> Checkpoint: ...
@_task
def explode(layer: Layer, *, keep_empty: bool = True) -> Checkpoint: ...
@_task
def explode_lines(layer: Layer) -> Checkpoint: ...
@_task
def extract_vertices(layer: Layer) -> Checkpoint: ...
@_task
def filter(layer: Layer, *, where: str) -> Checkpoint: ...
@_task
def filter_extent(
    layer: Layer,
    *,
    bbox: tuple[float, float, float, float] | list[float],
    crs: str | int | None = None,
    clip: bool = False,
    allow_ballpark: bool = False,
) -> Checkpoint: ...
@_task
def force_2d(layer: Layer) -> Checkpoint: ...
@_task
def line_intersections(left: Layer, right: Layer, *, suffixes: tuple[str, str] | list[str] = ...) -> Checkpoint: ...
@_task
def line_merge(layer: Layer, *, directed: bool = False) -> Checkpoint: ...
@_task
def line_substring(
    layer: Layer,
    *,
    start: float | str,
    end: float | str,
    normalized: bool = False,
) -> Checkpoint: ...
@_task
def make_valid(
    layer: Layer,
    *,
    method: Literal["structure", "linework"] = "structure",
    keep_collapsed: bool = False,
    keep_geometry_kind: bool = True,
) -> Checkpoint: ...
@_task
def measure(
    layer: Layer,
    *,
    area: str | None = None,
    length: str | None = None,
    perimeter: str | None = None,
    unit: Literal["m", "km", "ft", "us-ft", "yd", "mi", "nmi"] = "m",
    method: Literal["planar", "ellipsoidal"] = "planar",
) -> Checkpoint: ...
@_task
def merge_layers(
    layers: list[Layer],
    *,
    fields: Literal["union", "intersection"] = "union",
    source_column: str | None = None,
    source_names: str | list[str] | None = None,
) -> Checkpoint: ...
@_task
def minimum_bounding_circle(layer: Layer) -> Checkpoint: ...
@_task
def minimum_rotated_rectangle(layer: Layer) -> Checkpoint: ...
@_task
def multi_ring_buffer(
    layer: Layer,
    *,
    distances: list[float],
    dissolve: bool = True,
    quad_segs: int = 16,
    distance_column: str = "distance",
) -> Checkpoint: ...
@_task
def nearest_join(
    left: Layer,
    right: Layer,
    *,
    k: int = 1,
    max_distance: float | None = None,
    distance_column: str = "distance",
    columns: str | list[str] | None = None,
    suffixes: tuple[str, str] | list[str] = ...,
) -> Checkpoint: ...
@_task
def normalize(layer: Layer) -> Checkpoint: ...
@_task
def offset_curve(
    layer: Layer,
    *,
    distance: float | str,
    quad_segs: int = 16,
    join_style: Literal["round", "mitre", "bevel"] = "round",
    mitre_limit: float = 5.0,
) -> Checkpoint: ...
@_task
def orient_polygons(layer: Layer, *, exterior_cw: bool = False) -> Checkpoint: ...
@_task
def overlay(
    left: Layer,
    right: Layer,
    *,
    how: _How,
    keep_geometry_kind: bool = True,
    grid_size: float | None = None,
    suffixes: tuple[str, str] | list[str] = ...,
) -> Checkpoint: ...
@_task
def point_on_surface(layer: Layer) -> Checkpoint: ...
@_task
def polygonize(layer: Layer, *, node: bool = True) -> Checkpoint: ...
@_task
def read_layer(
    uri: str,
    *,
    layer: str | None = None,
    columns: list[str] | None = None,
    where: str | None = None,
    bbox: tuple[float, float, float, float] | list[float] | None = None,
    crs: str | None = None,
    version: str | None = None,
    public: bool = False,
    scope: str | None = None,
    encoding: str | None = None,
    table: bool = False,
    sql: str | None = None,
    version_sql: str | None = None,
) -> Checkpoint: ...
@_task
def remove_empty(layer: Layer) -> Checkpoint: ...
@_task
def remove_holes(layer: Layer, *, max_area: float | None = None) -> Checkpoint: ...
@_task
def reproject(
    layer: Layer,
    *,
    crs: str | int,
    source_crs: str | int | None = None,
    accuracy: float | None = None,
    allow_ballpark: bool = False,
) -> Checkpoint: ...
@_task
def select_columns(
    layer: Layer,
    *,
    keep: str | list[str] | None = None,
    drop: str | list[str] | None = None,
    rename: Mapping[str, str] | None = None,
) -> Checkpoint: ...
@_task
def simplify(layer: Layer, *, tolerance: float, preserve_topology: bool = True) -> Checkpoint: ...
@_task
def simplify_coverage(layer: Layer, *, tolerance: float, simplify_boundary: bool = True) -> Checkpoint: ...
@_task
def snap(layer: Layer, reference: Layer, *, tolerance: float) -> Checkpoint: ...
@_task
def snap_to_grid(
    layer: Layer,
    *,
    grid_size: float,
    mode: Literal["valid_output", "pointwise", "keep_collapsed"] = "valid_output",
) -> Checkpoint: ...
@_task
def spatial_filter(
    layer: Layer,
    by: Layer,
    *,
    predicate: _Predicate = "intersects",
    distance: float | None = None,
    invert: bool = False,
) -> Checkpoint: ...
@_task
def spatial_join(
    left: Layer,
    right: Layer,
    *,
    predicate: _Predicate = "intersects",
    distance: float | None = None,
    how: Literal["left", "inner"] = "left",
    columns: str | list[str] | None = None,
    suffixes: tuple[str, str] | list[str] = ...,
    match: Literal["all", "first", "largest"] = "all",
) -> Checkpoint: ...
@_task
def split(layer: Layer, splitter: Layer, *, tolerance: float = 0) -> Checkpoint: ...
@_task
def sum_line_lengths(
    polygons: Layer,
    lines: Layer,
    *,
    length_column: str = "length",
    count_column: str = "count",
) -> Checkpoint: ...
@_task
def summarize(
    layer: Table,
    *,
    by: str | list[str],
    statistics: Mapping[str, _Aggregates | list[_Aggregates]],
    geometry: Literal["none", "first", "collect"] = "none",
    count_column: str | None = None,
) -> Checkpoint: ...
@_task
def summarize_within(
    polygons: Layer,
    layer: Layer,
    *,
    statistics: Mapping[str, _Aggregates | list[_Aggregates]],
    weight: Literal["area", "length"] | None = None,
    count_column: str = "count",
) -> Checkpoint: ...
@_task
def swap_xy(layer: Layer) -> Checkpoint: ...
@_task
def voronoi(
    layer: Layer,
    clip_to: Layer | None = None,
    *,
    extent: tuple[float, float, float, float] | list[float] | None = None,
    keep_columns: bool = True,
) -> Checkpoint: ...
@_task
def write_layer(
    layer: Table,
    context: list[Layer] | None = None,
    *,
    uri: str,
    driver: str | None = None,
    layer_name: str | None = None,
    mode: Literal["replace", "error"] = "replace",
    map: MapStyle | Mapping[str, Any] | None = None,
    highlight: Highlight | Mapping[str, Any] | None = None,
) -> Checkpoint: ...
