"""GML: XML that is looked at before GDAL opens it, and opened so that nothing beside it counts.

What always holds: coordinates come x, y. GDAL exchanges them where the file names its CRS by an OGC URN or address,
which go by the authority's order (latitude first for EPSG:4326). A file cut short is refused: GDAL reads it as a layer
without a row. The file is read from a copy in a folder of its own: GDAL would take a schema (`.xsd`) or its own notes
(`.gfs`) beside it for the truth, and writes the latter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from geocairn.failure import InputFailure

OPTIONS = {"WRITE_GFS": "NO", "DOWNLOAD_SCHEMA": "NO", "SKIP_CORRUPTED_FEATURES": "NO"}
"""How GDAL opens it: no schema is fetched, and a broken feature is an error."""

_NAMESPACE = "http://www.opengis.net/gml"
_OF_GDAL = ("OGR", "GDAL", "VRT", "WFS_")
"""How the names of elements begin by which GDAL knows instructions of its own, and addresses to ask."""


class _Declares(Exception):
    """A document type is declared."""


def check_gml(path: Path, where: str) -> None:
    """Refuse XML that is no GML, or is not whole.

    Raises
    ------
    InputFailure : for another kind of XML, one with declarations of its own (which may name other files), and one that
        is not sound.
    """
    parser = expat.ParserCreate()
    roots: list[str] = []
    namespaces: list[str] = []

    def begins(name: str, attributes: dict[str, str]) -> None:
        if not roots:
            roots.append(name.rpartition(":")[2])
        namespaces.extend(value for key, value in attributes.items() if key.startswith("xmlns"))

    def declares(*_: Any) -> None:
        raise _Declares

    parser.StartElementHandler = begins
    parser.StartDoctypeDeclHandler = declares
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except _Declares:
        raise InputFailure(
            "declares a document type, which GML does not need and which may name other files",
            where=where,
            remedy="write it again without <!DOCTYPE",
        ) from None
    except expat.ExpatError as error:
        raise InputFailure(f"is not sound XML: {error}", where=where, remedy="copy or fetch it again") from error
    if roots[0].startswith(_OF_GDAL) or not any(name.startswith(_NAMESPACE) for name in namespaces):
        raise InputFailure(
            "is not GML, as its extension says: it is another kind of XML",
            where=where,
            remedy="give it the extension of what it is, or write it again",
        )
