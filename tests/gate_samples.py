"""What tests of the gate share: small layers, sound and not, and operations of which only the promise counts."""

from __future__ import annotations

import dataclasses
from typing import Any

import geopandas as gpd
import numpy as np
import pytest

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.operations.contract import Operation, Promise
from geocairn.operations.registry import operations

SQUARE = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))"
FAR = "POLYGON ((20 0, 30 0, 30 10, 20 10, 20 0))"
BOW = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
FLAT = "POLYGON ((0 0, 1 1, 2 2, 0 0))"
PARTLY_FLAT = "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 6, 7 7, 5 5)))"


def layer(wkt: list[str | None], crs: Any = "EPSG:5070", **columns: Any) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(
        {"id": np.arange(len(wkt)), **columns}, geometry=gpd.GeoSeries.from_wkt(wkt, crs=crs), crs=crs
    )


def promising(**promise: Any) -> Operation:
    """An operation of which only the promise counts."""
    return dataclasses.replace(operations["centroid"], name="made_up", promise=Promise(**promise), varies=None)


def terms(result: Any = None, *inputs: Any, **promise: Any) -> Terms:
    return Terms("step s", promising(**promise), None, inputs)


def refusal(result: Any, to: Terms) -> str:
    with pytest.raises(InputFailure) as caught:
        admit(result, to)
    assert caught.value.where == to.where
    return str(caught.value)


SOURCE = Terms("step s")
