"""Make the committed files of the Soho example from the libpysal wheel: `python prepare.py libpysal-4.14.1-*.whl`.

The shapefiles are copied byte for byte. They have no names for the pumps, so `pump_names.csv` is made here: the
thirteen names that the literature uses are known with their places on Dodson and Tobler's digitisation of Snow's map,
which has units of its own. A similarity (shift, turn, one scale) is fitted between that drawing and the pumps of
the shapefile; each name goes to the pump that its place falls on, and no name is written unless the match is one to
one and clear.
"""

from __future__ import annotations

import csv
import shutil
import sys
import zipfile
from pathlib import Path

import geopandas
import numpy

FOLDER = Path(__file__).resolve().parent / "data"
IN_WHEEL = "libpysal/examples/snow_maps"
SHAPEFILES = ("SohoPeople", "SohoWater", "Soho_Network")
SIDECARS = ("shp", "shx", "dbf", "prj")

# Place on the drawing (x, y; about 54 metres to the unit), to a tenth of a unit. The labels of that data set are
# written out where there is no doubt ("Gt Marlborough" is Great Marlborough Street); "So Soho" and "Crown Chapel" stay.
NAMES = {
    "Oxford Market": (8.7, 17.9),
    "Castle Street East": (11.0, 18.5),
    "Oxford Street 1": (13.4, 17.4),
    "Oxford Street 2": (14.9, 17.8),
    "Great Marlborough Street": (8.7, 14.9),
    "Crown Chapel": (8.9, 12.8),
    "Broad Street": (12.6, 11.7),
    "Warwick Street": (10.7, 7.4),
    "Bridle Street": (13.5, 8.0),
    "So Soho": (16.4, 9.3),
    "Dean Street": (18.9, 9.7),
    "Coventry Street": (16.0, 5.0),
    "Vigo Street": (9.0, 5.1),
}
FARTHEST = 10.0  # metres between a name's place and its pump
CLEARANCE = 5.0  # how many times farther the next pump must be


def copy_shapefiles(wheel: Path) -> None:
    """Copy the three shapefiles, the four needed files of each, and the licence."""
    with zipfile.ZipFile(wheel) as archive:
        licence = next(name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE.txt"))
        (FOLDER.parent / "LICENSE-libpysal.txt").write_bytes(archive.read(licence))
        for name in SHAPEFILES:
            for ending in SIDECARS:
                with (
                    archive.open(f"{IN_WHEEL}/{name}.{ending}") as source,
                    (FOLDER / f"{name}.{ending}").open("wb") as to,
                ):
                    shutil.copyfileobj(source, to)


def match_names() -> list[tuple[str, float, float, float, float]]:
    """Return name, x, y (EPSG:3857) of each pump, and the metres from the name's place to it and to the next one."""
    pumps = geopandas.read_file(FOLDER / "SohoWater.shp")
    metric = pumps.to_crs("EPSG:27700").geometry
    here = metric.x.to_numpy() + 1j * metric.y.to_numpy()
    there = numpy.array([complex(*place) for place in NAMES.values()])
    # A first guess from centre and spread; then nearest pump and least squares, until nothing moves.
    fitted = (there - there.mean()) * (numpy.std(here) / numpy.std(there)) + here.mean()
    chosen = None
    while True:
        nearest = numpy.abs(fitted[:, None] - here[None, :]).argmin(axis=1)
        if chosen is not None and (nearest == chosen).all():
            break
        chosen = nearest
        matrix = numpy.column_stack([there, numpy.ones(len(there))])
        fitted = matrix @ numpy.linalg.lstsq(matrix, here[chosen], rcond=None)[0]
    distances = numpy.sort(numpy.abs(fitted[:, None] - here[None, :]), axis=1)
    if len(set(chosen)) != len(here):
        raise SystemExit("the names do not fall on the pumps one to one; no names were written")
    if distances[:, 0].max() > FARTHEST or (distances[:, 1] < CLEARANCE * distances[:, 0]).any():
        raise SystemExit("a name falls too far from its pump, or nearly as near to another; no names were written")
    return [
        (name, pumps.geometry.x[pump], pumps.geometry.y[pump], float(near), float(following))
        for name, pump, (near, following) in zip(NAMES, chosen, distances[:, :2], strict=True)
    ]


def main() -> None:
    """Write the shapefiles and the names, and show how well each name fell on its pump."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    copy_shapefiles(Path(sys.argv[1]))
    matches = match_names()
    with (FOLDER / "pump_names.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["x", "y", "pump"])
        writer.writerows([f"{x:.3f}", f"{y:.3f}", name] for name, x, y, _, _ in matches)
    for name, _, _, near, following in matches:
        print(f"{name:26} {near:5.1f} m from its pump, {following:6.1f} m from the next")


if __name__ == "__main__":
    main()
