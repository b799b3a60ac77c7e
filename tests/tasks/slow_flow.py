"""A flow with a slow step, to be interrupted: `python slow_flow.py call|submit|thread BEGAN SECONDS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from flow_samples import metric
from prefect import flow

from geocairn.tasks import step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@step(version=1)
def slow(layer: GeoDataFrame, *, began: str, key: str) -> GeoDataFrame:
    """Say that it has begun, and take as long as the file says."""
    path = Path(began)
    seconds = float(path.read_text())
    path.with_suffix(".began").touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
    return layer


@flow
def slowly(how: str, began: str) -> str:
    """Run the step in one way or another."""
    if how == "call":
        return slow(metric(), began=began, key=how).fingerprint
    return slow.submit(metric(), began=began, key=how).result().fingerprint


if __name__ == "__main__":
    print(slowly(*sys.argv[1:3]))
