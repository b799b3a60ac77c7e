"""Serves a flow with a step that takes as long as a file says: `python served_slow.py`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import flow

from geocairn.tasks import read_layer, step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


@step(version=1)
def slow(layer: GeoDataFrame, *, folder: str) -> GeoDataFrame:
    """Say that it has begun, and take the seconds that stand in a file."""
    seconds = float(Path(folder, "seconds").read_text())
    Path(folder, "began").touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
    return layer


@flow
def slowly(source: str, folder: str) -> str:
    """Run the step in a thread."""
    return slow.submit(read_layer(uri=source), folder=folder).result().fingerprint


if __name__ == "__main__":
    slowly.serve(name=sys.argv[1], print_starting_message=False)
