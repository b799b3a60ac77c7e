"""The seven-step chain of the benchmarks: US counties within 50 km of a city, as a plan and as a bare geopandas
script.

Both do the same work on the same data (that of `examples/counties`) and write each intermediate as GeoParquet into a
folder. `--heavy` repeats the counties at finer vertices, so that computing outweighs fixed costs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "counties" / "data"
STEPS = ("counties_valid", "counties_there", "counties_m", "cities_m", "reach", "covered", "by_state")

BARE = """
import sys
from pathlib import Path
import geopandas
import shapely

out, first = Path(sys.argv[1]), int(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)

def write(frame, name):
    frame.to_parquet(out / f"{name}.parquet", compression="zstd", write_covering_bbox=True, schema_version="1.1.0")
    return frame

def load(name):
    return geopandas.read_parquet(out / f"{name}.parquet")

if first <= 1:
    counties = geopandas.read_file("data/us-counties.gpkg", layer="counties").set_crs("EPSG:4269", allow_override=True)
    cities = geopandas.read_file("data/us-cities.gpkg")
    valid = counties.copy()
    valid["geometry"] = valid.geometry.make_valid(method="structure", keep_collapsed=False)
    valid = write(valid, "counties_valid")
    there = write(valid[~(valid.geometry.isna() | valid.geometry.is_empty)].reset_index(drop=True), "counties_there")
    counties_m = write(there.to_crs("EPSG:5070"), "counties_m")
    cities_m = write(cities.to_crs("EPSG:5070"), "cities_m")
    reach = cities_m.copy()
    reach["geometry"] = reach.buffer(DISTANCE)
    reach = write(reach, "reach")
else:
    counties_m, reach = load("counties_m"), load("reach")
covered = write(geopandas.overlay(counties_m, reach, how="intersection"), "covered")
by_state = write(covered.dissolve(by="state_1", aggfunc={"population": "sum"}).reset_index(), "by_state")
Path("out").mkdir(exist_ok=True)
by_state.to_parquet("out/by_state.parquet", compression="zstd", write_covering_bbox=True, schema_version="1.1.0")
"""


def plan(distance: float = 50_000) -> dict[str, object]:
    """Return the chain as a plan."""
    return {
        "name": "bench",
        "sources": {
            "counties": {"uri": "data/us-counties.gpkg", "layer": "counties", "crs": "EPSG:4269"},
            "cities": {"uri": "data/us-cities.gpkg"},
        },
        "steps": [
            {"name": "counties_valid", "op": "make_valid", "inputs": "counties"},
            {"name": "counties_there", "op": "remove_empty", "inputs": "counties_valid"},
            {"name": "counties_m", "op": "reproject", "inputs": "counties_there", "params": {"crs": "EPSG:5070"}},
            {"name": "cities_m", "op": "reproject", "inputs": "cities", "params": {"crs": "EPSG:5070", "accuracy": 5}},
            {"name": "reach", "op": "buffer", "inputs": "cities_m", "params": {"distance": distance}},
            {
                "name": "covered",
                "op": "overlay",
                "inputs": {"left": "counties_m", "right": "reach"},
                "params": {"how": "intersection"},
            },
            {
                "name": "by_state",
                "op": "dissolve",
                "inputs": "covered",
                "params": {"by": ["state_left"], "aggregates": {"population": "sum"}},
            },
        ],
        "outputs": [{"from": "by_state", "uri": "out/by_state.parquet"}],
    }


def prepare(folder: Path, *, heavy: bool = False) -> None:
    """Lay data, plan and bare script into a folder."""
    import geopandas

    data = folder / "data"
    data.mkdir(parents=True)
    shutil.copy(EXAMPLE / "us-counties.gpkg", data)
    cities = geopandas.pd.read_csv(EXAMPLE / "us-cities.csv", dtype={"state": str})
    cities = cities[cities["population"] >= (15_000 if heavy else 100_000)].reset_index(drop=True)
    points = geopandas.GeoDataFrame(
        cities, geometry=geopandas.points_from_xy(cities["x"], cities["y"]), crs="EPSG:4326"
    )
    points.to_file(data / "us-cities.gpkg", layer="cities")
    if heavy:
        counties = geopandas.read_file(data / "us-counties.gpkg", layer="counties")
        counties["geometry"] = counties.geometry.segmentize(0.002)
        (data / "us-counties.gpkg").unlink()
        counties.to_file(data / "us-counties.gpkg", layer="counties")
    (folder / "plan.json").write_text(json.dumps(plan()), encoding="utf-8")
    (folder / "bare.py").write_text(BARE.replace("DISTANCE", "50_000"), encoding="utf-8")
