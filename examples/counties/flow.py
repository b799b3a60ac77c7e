"""US counties within 50 km of a large city, as a Prefect flow: the chain of plan.yaml, written in Python.

    cd examples/counties
    python flow.py

Each call is a Prefect task whose result is a checkpoint, under the same fingerprint as the plan's step: what the plan
has computed is reused here, and the other way round. Change `reach` or `population` and only what depends on it runs.
"""

from __future__ import annotations

from prefect import flow

from geocairn.checkpoint import Checkpoint
from geocairn.tasks import (
    buffer,
    dissolve,
    filter,
    make_valid,
    measure,
    overlay,
    read_layer,
    remove_empty,
    reproject,
    write_layer,
)

CONTIGUOUS = "NOT (fips LIKE '02%' OR fips LIKE '15%' OR fips > '57')"


@flow
def counties_near_cities(reach: float = 50_000, population: int = 250_000) -> Checkpoint:
    """Return the land within `reach` metres of a city of at least `population`, by state."""
    counties = read_layer(uri="data/us-counties.gpkg", layer="counties", crs="EPSG:4269")
    cities = read_layer(uri="data/us-cities.csv", crs="EPSG:4326")

    counties_there = remove_empty(make_valid(counties))
    counties_m = reproject(filter(counties_there, where=CONTIGUOUS), crs="EPSG:5070")

    large = filter(cities, where=f"population >= {population} AND state NOT IN ('AK', 'HI')")
    discs = buffer(reproject(large, crs="EPSG:5070", accuracy=5), distance=reach)

    near = overlay(counties_m, dissolve(discs), how="intersection")
    near_counties = measure(near, area="area_km2", unit="km")
    near_states = dissolve(near_counties, by=["state"], aggregates={"area_km2": "sum"})

    write_layer(near_counties, uri="out/near_counties.parquet")
    write_layer(near_states, uri="out/near_states.parquet")
    return near_states


if __name__ == "__main__":
    states = counties_near_cities()
    print(f"{states.facts.rows} states have land within reach; checkpoint {states.fingerprint[:16]}")
