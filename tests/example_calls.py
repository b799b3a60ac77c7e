"""Every operation of the catalogue as its documentation shows it, with the samples' rows as a test wants them.

What always holds: an operation that somebody adds, with its example, is found here without being named. The result of
a call is held to the operation's promise by the gate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geocairn.failure import Failure
from geocairn.gate import Passed, Terms, admit
from geocairn.operations.contract import Operation, Role
from geocairn.operations.registry import operations
from geocairn.operations.samples import sample

Change = Callable[[Any, Role], Any]
"""What a test makes of a sample for a role."""


def computing() -> list[Operation]:
    """All operations of the catalogue that compute a layer from layers."""
    return [operation for operation in operations.values() if not (operation.reads or operation.effect)]


def named() -> list[str]:
    """The names of those that have an example."""
    return [operation.name for operation in computing() if operation.example is not None]


def parameters_of(operation: Operation) -> dict[str, Any]:
    """The parameters of its example."""
    roles = {role.name for role in operation.roles}
    return {name: value for name, value in (operation.example or {}).items() if name not in roles}


def inputs_of(operation: Operation, change: Change = lambda layer, role: layer) -> dict[str, Any]:
    """The inputs of its example by role, each changed; a list of layers where the role takes many."""
    found: dict[str, Any] = {}
    for role in operation.roles:
        names = (operation.example or {}).get(role.name)
        if names is not None:
            layers = [change(sample(name), role) for name in ([names] if isinstance(names, str) else names)]
            found[role.name] = layers if role.many else layers[0]
    return found


def first_role(operation: Operation) -> str:
    """The name of the role that rows are promised of."""
    return operation.roles[0].name


def flat(inputs: dict[str, Any]) -> list[Any]:
    """All layers, in the order of roles."""
    return [layer for value in inputs.values() for layer in (value if isinstance(value, list) else [value])]


def gated(
    operation: Operation, inputs: dict[str, Any], parameters: dict[str, Any] | None = None, backend: str = "geopandas"
) -> Passed:
    """Compute an operation and let its result pass the gate, which may find it empty."""
    given = parameters_of(operation) if parameters is None else parameters
    result = operation.compute(**inputs, backend=backend, **given)
    terms = Terms(operation.name, operation, operation.normalise(given), flat(inputs), allow_empty=True)
    return admit(result, terms)


def attempt(compute: Callable[[], Any]) -> Any:
    """What a computation gives, or the failure that it raises."""
    try:
        return compute()
    except Failure as failure:
        return failure


def is_layer(layer: Any) -> bool:
    """Whether it has geometry."""
    return isinstance(layer, gpd.GeoDataFrame)


def with_shapes(layer: Any, values: Any) -> Any:
    """The layer with other geometries, row for row."""
    series = gpd.GeoSeries(np.asarray(values, dtype=object), index=layer.index, crs=layer.crs)
    return layer.set_geometry(series.rename(layer.geometry.name))


def shapes(layer: Any) -> Any:
    """The geometries as an array."""
    return np.asarray(layer.geometry.values, dtype=object)


def lifted(values: Any, *, m: bool) -> Any:
    """The geometries with Z 7 and, if wanted, M 3, at every vertex."""
    if not m:
        return shapely.force_3d(values, 7.0)
    texts = shapely.to_wkt(shapely.force_2d(values), rounding_precision=-1)
    number = r"-?[0-9.]+(?:e-?[0-9]+)?"
    pair = re.compile(rf"({number} {number})")
    return shapely.from_wkt(
        [None if text is None else pair.sub(r"\1 7 3", text).replace(" (", " ZM (", 1) for text in texts]
    )


def tiled(layer: Any, copies: int) -> Any:
    """Copies of a layer side by side, in the samples' metres; in degrees a hair apart."""
    if not is_layer(layer):
        return layer
    step = 200.0 if layer.crs is None or layer.crs.is_projected else 1e-4
    width = int(np.ceil(np.sqrt(copies)))
    count = len(layer)
    tile = np.repeat(np.arange(copies), count)
    values = np.tile(shapes(layer), copies)
    coordinates, rows = shapely.get_coordinates(values, return_index=True)
    moved = coordinates + step * np.stack([tile[rows] % width, tile[rows] // width], axis=1)
    result = layer.iloc[np.tile(np.arange(count), copies)].reset_index(drop=True)
    return with_shapes(result, shapely.set_coordinates(values.copy(), moved))


def same_columns(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two results have the same columns, of the same types."""
    return list(one.columns) == list(other.columns) and list(map(str, one.dtypes)) == list(map(str, other.dtypes))
