"""Steps of a user's own module, as tests and their worker processes import them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from geocairn.failure import CapabilityFailure, InputFailure, TransientFailure
from geocairn.operations import implements, operation
from geocairn.tasks import step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@step(version=1, result="polygon")
def grow(
    layer: GeoDataFrame,
    *,
    distance: Annotated[float, Field(gt=0, description="Metres")],
    cap: Literal["round", "flat"] = "round",
) -> GeoDataFrame:
    """Grow each geometry by a distance."""
    return layer.set_geometry(layer.buffer(distance, cap_style=cap))


@step(version=1)
def stacked(layers: list[GeoDataFrame], *, sort_by: str | None = None) -> GeoDataFrame:
    """Put layers one under the other."""
    import pandas

    whole = pandas.concat(layers, ignore_index=True)
    return whole.sort_values(sort_by, ignore_index=True) if sort_by else whole


@step(version=1)
def masked(layer: GeoDataFrame, mask: GeoDataFrame | None = None) -> GeoDataFrame:
    """Keep what intersects a mask, if there is one."""
    return layer if mask is None else layer[layer.intersects(mask.union_all())]


@step(version=1, result="polygon")
def centres(layer: GeoDataFrame) -> GeoDataFrame:
    """Break the promise to return polygons."""
    return layer.set_geometry(layer.centroid)


@operation(version=1)
def flaky(layer: GeoDataFrame, *, counter: str, fails: int, failure: str = "transient") -> GeoDataFrame:
    """Fail the first times that it is called, counted in a file: processes share the count."""
    kinds = {
        "transient": TransientFailure("the service is busy", where="service", remedy="wait"),
        "capability": CapabilityFailure("too large for this engine"),
        "input": InputFailure("there is no such column"),
        "unknown": LookupError("nobody knows this"),
    }
    if count(counter) <= fails:
        raise kinds[failure]
    return layer


@implements(flaky, "second")
def flaky_second(layer: GeoDataFrame, *, counter: str, fails: int, failure: str = "transient") -> GeoDataFrame:
    """Do the same on another backend, without failing."""
    return layer


flaky_step = step(flaky)


def count(counter: str) -> int:
    """Add one to the number in a file and return it."""
    with Path(counter).open("ab") as file:
        file.write(f"{os.getpid()}\n".encode())
    return len(Path(counter).read_bytes().splitlines())


def processes(counter: str) -> set[int]:
    """Return the processes that counted."""
    return {int(line) for line in Path(counter).read_text().splitlines()}
