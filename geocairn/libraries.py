"""Versions of the libraries that compute, for records and lineage; no part of a fingerprint."""

from __future__ import annotations

import sys

from geocairn import __version__


def library_versions() -> dict[str, str]:
    """Return the versions of geocairn and of those computing libraries that are loaded."""
    found = {"geocairn": __version__, "python": sys.version.split()[0]}
    for name in ("geopandas", "shapely", "pandas", "pyarrow", "pyogrio", "duckdb"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "unknown"))
    if "shapely" in sys.modules:
        import shapely

        found["geos"] = str(shapely.geos_version_string)
    if "pyproj" in sys.modules:
        import pyproj

        found["pyproj"] = str(pyproj.__version__)
        found["proj"] = str(pyproj.proj_version_str)
    return found
