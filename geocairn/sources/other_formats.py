"""Formats that are known and not read, and how to make of them what is read.

What always holds: a name that stands for another format is told as that format, with a way on. "Did you mean" would
send the reader to rename the file, which makes it no other.
"""

from __future__ import annotations

import os

_CONVERT = "make a GeoPackage of it: ogr2ogr {stem}.gpkg {name}"
_UNPACK = "unpack it"
_SEPARATED = "call it {stem}.csv: commas, semicolons and tabs are told apart"
_ANOTHER_PROGRAM = "write it as GeoPackage or CSV from the program that made it"
_KNOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "GeoJSON with one feature a line": ((".geojsonl", ".geojsons", ".geojsonseq", ".ndjson", ".jsonl"), _CONVERT),
    "TopoJSON": ((".topojson",), _CONVERT),
    "KML": ((".kml", ".kmz"), _CONVERT),
    "GPX": ((".gpx",), _CONVERT),
    "MapInfo's": ((".tab", ".mif", ".mid"), _CONVERT),
    "DXF": ((".dxf",), _CONVERT),
    "an OpenStreetMap extract": ((".osm", ".pbf"), _CONVERT),
    "SQLite": ((".sqlite", ".db"), _CONVERT),
    "GeoArrow": ((".arrow", ".arrows", ".feather"), "write it as GeoParquet"),
    "map tiles": ((".mbtiles", ".pmtiles", ".mvt"), "name the data that the tiles were made of"),
    "a raster": ((".tif", ".tiff", ".img", ".nc", ".vrt"), "make polygons or points of it first"),
    "text in columns": ((".tsv", ".txt", ".tab.txt"), _SEPARATED),
    "a spreadsheet": ((".xlsx", ".xls", ".ods"), _ANOTHER_PROGRAM),
    "a personal geodatabase": ((".mdb", ".accdb"), _ANOTHER_PROGRAM),
    "compressed": ((".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz"), _UNPACK),
}


def other_format(name: str) -> tuple[str, str] | None:
    """Return what a file's name stands for, and the remedy; None where it is known for nothing else."""
    lowered = name.lower()
    for title, (extensions, remedy) in _KNOWN.items():
        if lowered.endswith(extensions):
            base = name.rstrip("/").rpartition("/")[2]
            return title, remedy.format(stem=os.path.splitext(base)[0], name=base)
    return None
