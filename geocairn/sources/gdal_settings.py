"""GDAL's settings and drivers, so that neither the environment nor a file decides what is opened.

What always holds: before geocairn opens a file by GDAL, options that change what drivers read are settled, and names of
virtual files on the web lead nowhere. Where a plan's reach is limited, GDAL keeps only the drivers of geocairn's own
formats, from a list of those wanted and not of those unwanted, and reaches no network: its HTTP client is given a proxy
of a kind that does not exist, so that no connection is opened whatever asks for one.

These are settings of the process. A flow of your own whose reach is not limited keeps all drivers.
"""

from __future__ import annotations

import os
import secrets
import threading
from functools import cache

from geocairn.failure import FatalFailure
from geocairn.sources.formats import FORMATS, WRITABLE

NO_PROXY_KIND = "off://geocairn"
"""A proxy of a kind that libcurl does not know: a request ends with an error before anything is looked up or called."""

DRIVERS = frozenset(kind.driver for kind in (*FORMATS, *WRITABLE) if kind.driver is not None)
"""The drivers of geocairn's formats."""

_SETTLED = {
    # GDAL's own Arrow reader for FlatGeobuf crashes on a null geometry (3.12); its general one does not.
    "OGR_FLATGEOBUF_STREAM_BASE_IMPL": "YES",
    "OGR_ORGANIZE_POLYGONS": "DEFAULT",
    "OGR_SQLITE_ALLOW_EXTERNAL_ACCESS": "NO",
    "SHAPE_RESTORE_SHX": "NO",
    "GDAL_PAM_ENABLED": "NO",
    "CPL_CURL_ENABLE_VSIMEM": "NO",
}
_DECIDING = ("OGR_", "OSR_", "SHAPE_", "GPKG_", "OPENFILEGDB_", "FLATGEOBUF_", "GEOJSON_", "GML_")
"""How the names of options begin that change what the drivers read and write."""
_WITHOUT_DEFAULT = (
    "SHAPE_ENCODING",
    "SHAPE_REWIND_ON_WRITE",
    "SHAPE_2GB_LIMIT",
    "OGR_GEOJSON_MAX_OBJ_SIZE",
    "OGR_SQLITE_PRAGMA",
    "OGR_SQLITE_LOAD_EXTENSIONS",
    "ALLOW_OGR_SQL_FUNCTIONS_FROM_TRIGGER_AND_VIEW",
    "OSR_DEFAULT_AXIS_MAPPING_STRATEGY",
    "ATTRIBUTES_SKIP",
    "GEOMETRY_AS_COLLECTION",
    "SQLITE_LIST_ALL_TABLES",
    "SQLITE_USE_OGR_VFS",
    "CPL_VSIL_CURL_ALLOWED_FILENAME",
)
_SKIPPED = "OGR_SKIP"
_limiting = threading.Lock()


def prepare_gdal() -> None:
    """Settle GDAL's options, so that the environment decides neither what a file is read as nor what is opened.

    Variables that have no value which stands for their default are hidden from GDAL: they leave the environment that C
    libraries of this process see. `os.environ`, and children that are started with a copy of it, keep them.
    """
    import pyogrio

    for name in os.environ:
        if name.startswith(_DECIDING) or name in _WITHOUT_DEFAULT:
            os.unsetenv(name)
    for name in _WITHOUT_DEFAULT:  # set by a configuration file of GDAL, or by other code
        if pyogrio.get_gdal_config_option(name) is not None:
            pyogrio.set_gdal_config_options({name: None})
    _settle({**_SETTLED, "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": _no_extension()})


def _settle(wanted: dict[str, str]) -> None:
    import pyogrio

    if any(pyogrio.get_gdal_config_option(name) != _as_told(value) for name, value in wanted.items()):
        pyogrio.set_gdal_config_options(wanted)


@cache
def _no_extension() -> str:
    """Return an extension that nobody's file has.

    So virtual file names of the web are refused; with it, those of hosts that the environment exempts from proxies.
    """
    return f".none-{secrets.token_hex(16)}"


def limit_gdal() -> None:
    """Take from GDAL the network, and every driver for vector data that is not of geocairn's formats.

    It holds for the rest of the process.

    Raises
    ------
    FatalFailure : when GDAL keeps others all the same.
    """
    import pyogrio

    with _limiting:
        _settle({"GDAL_HTTP_PROXY": NO_PROXY_KIND, "GDAL_HTTPS_PROXY": NO_PROXY_KIND})
        unwanted = set(pyogrio.list_drivers()) - DRIVERS
        if not unwanted:
            return
        from pyogrio import _ogr

        # Drivers are skipped when GDAL registers them, and registering them again drops those already there.
        pyogrio.set_gdal_config_options({_SKIPPED: ",".join(sorted(unwanted))})
        getattr(_ogr, "_register_drivers", lambda: None)()
        left = sorted(set(pyogrio.list_drivers()) - DRIVERS)
        if left:
            raise FatalFailure(
                f"GDAL keeps drivers that a plan must not reach: {', '.join(left[:5])}",
                where="gdal",
                remedy="install the version of pyogrio that geocairn was tested with",
            )


def _as_told(value: str) -> str | bool:
    """Return the value as pyogrio gives it back."""
    return {"YES": True, "NO": False}.get(value, value)
