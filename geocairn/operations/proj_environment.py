"""What of PROJ decides coordinates: its version, its database, its grids. It is part of reproject's fingerprint.

What always holds: PROJ's network access is off wherever geocairn transforms, so that the same plan gives the same
coordinates with and without a connection.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from geocairn.crs import proj_signature
from geocairn.memory import Memory

_GRID_SUFFIXES = (".tif", ".gsb", ".gtx", ".gvb", ".lla", ".los", ".las", ".ct2", ".json")
_METADATA = (
    "DATABASE.LAYOUT.VERSION.MAJOR",
    "DATABASE.LAYOUT.VERSION.MINOR",
    "EPSG.VERSION",
    "ESRI.VERSION",
    "IGNF.VERSION",
    "NKG.VERSION",
    "PROJ_DATA.VERSION",
)


_VARIABLES = ("PROJ_DATA", "PROJ_LIB", "PROJ_USER_WRITABLE_DIRECTORY", "XDG_DATA_HOME", "HOME")


@functools.cache
def proj_environment() -> dict[str, Any]:
    """Return PROJ's version, its database's, the grids present by name and size, and that the network is off.

    Versions and folders are remembered on this machine as long as the database is the same file, so that an unchanged
    rerun need not load PROJ; the grids are looked for each time.
    """
    signature = proj_signature()
    memory = Memory()
    key = repr((signature, [os.environ.get(name) for name in _VARIABLES]))
    known = memory.get("proj", key) if signature is not None else None
    if known is None or set(known) != {"proj", "database", "folders"}:
        known = _ask_proj()
        if signature is not None:
            memory.put("proj", key, known)
    return {
        "proj": known["proj"],
        "database": known["database"],
        "grids": _grids(known["folders"]),
        "network": False,
    }


def _ask_proj() -> dict[str, Any]:
    import pyproj
    import pyproj.database
    import pyproj.datadir

    network_off()
    folders: Any = pyproj.datadir
    return {
        "proj": pyproj.proj_version_str,
        "database": {name: pyproj.database.get_database_metadata(name) for name in _METADATA},
        "folders": [*folders.get_data_dir().split(os.pathsep), folders.get_user_data_dir(create=False)],
    }


def network_off() -> None:
    """Keep PROJ from fetching grids in this process."""
    import pyproj.network

    network: Any = pyproj.network
    if network.is_network_enabled():
        network.set_network_enabled(False)


def _grids(folders: list[str]) -> dict[str, int]:
    """Return the files that can be grids, with their sizes; the first folder that has a name counts, as in PROJ."""
    found: dict[str, int] = {}
    for folder in folders:
        path = Path(folder)
        if not path.is_dir():
            continue
        for file in sorted(path.iterdir()):
            if file.suffix.lower() in _GRID_SUFFIXES and not file.name.endswith(".schema.json"):
                found.setdefault(file.name, file.stat().st_size)
    return dict(sorted(found.items()))
