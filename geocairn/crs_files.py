"""Which files the definition of a CRS would have PROJ open, and the rule that only PROJ's own grids may be among them.

A CRS is text that comes with a plan or inside a data file, and PROJ opens what it names: grids by `+nadgrids=/path`, by
a WKT `PARAMETERFILE`, by a PROJJSON parameter, by a PROJ string inside any of them, or a file of definitions by
`+init=/path:name`. What always holds: a definition that names a file by a path or an address is refused before PROJ
sees it; a bare name (`conus`, `us_noaa_conus.tif`) is looked for among the grids that are installed, and is fine.
"""

from __future__ import annotations

import re

from geocairn.failure import InputFailure

_FILE_PARAMETERS = re.compile(
    r"(?<![a-z0-9_])(?:nadgrids|geoidgrids|grids|xy_grids|z_grids|catalog|file|init)\s*=\s*[\"']?([^\s\"'+]+)",
    re.IGNORECASE,
)
"""Parameters of a PROJ string that name files, wherever the string stands: `EXTENSION`, the name of a method."""
_WKT_FILE = re.compile(r"PARAMETERFILE\s*[\[(]\s*\"[^\"]*\"\s*,\s*\"([^\"]*)\"", re.IGNORECASE)
_JSON_FILE = re.compile(r"\"value\"\s*:\s*\"((?:[^\"\\]|\\.)*)\"")
_JSON_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(/)")


def files_named(definition: str) -> list[str]:
    """Return the files outside PROJ's own folders that a CRS definition names: those given by a path or an address."""
    plain = _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], definition)
    named: list[str] = []
    for pattern in (_FILE_PARAMETERS, _WKT_FILE, _JSON_FILE):
        for values in pattern.findall(plain):
            named += [value.strip().lstrip("@") for value in str(values).split(",")]
    return [name for name in named if "/" in name or "\\" in name or name.startswith(("~", "."))]


def hold_crs_text(definition: str) -> str:
    """Return a CRS definition that names no file but PROJ's own grids.

    Raises
    ------
    ValueError : for one that names a file by a path or an address.
    """
    named = files_named(definition)
    if named:
        raise ValueError(f"names the file {named[0]!r}; {_REMEDY}")
    return definition


def hold_crs(crs: object, where: str) -> None:
    """Hold the CRS that a source carries, a pyproj CRS, to the same rule.

    Raises
    ------
    InputFailure : for one that names a file by a path or an address.
    """
    text = str(getattr(crs, "to_json", str)()) if crs is not None else ""
    named = files_named(text)
    if named:
        raise InputFailure(f"its CRS names the file {named[0]!r}", where=where, remedy=_REMEDY)


_REMEDY = "a grid goes by its bare name, and is looked for among those that PROJ has installed (projsync)"
