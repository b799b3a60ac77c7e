"""The `crs` member of a GeoJSON file, which before RFC 7946 could be a link: GDAL would fetch what it names.

What always holds: a file whose `crs` is anything but a name is refused before GDAL sees it. Where the bytes do not
plainly tell (other quotes, escaped letters, members in another order), the file is parsed whole.
"""

from __future__ import annotations

import json
import mmap
import re
from typing import Any

from geocairn.failure import InputFailure

_MEMBER = re.compile(rb"""["']crs["']""", re.IGNORECASE)
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7][0-9a-fA-F]")
"""An ASCII letter that is written as an escape, which no writer does but one that hides it."""
_PLAIN = re.compile(
    rb'"crs"\s*:\s*(?:null|"[^"\\]*"|-?[0-9.]+\s*[,}]'
    rb'|\{\s*"type"\s*:\s*"(?:name|EPSG)"\s*,\s*"properties"\s*:\s*\{[^{}\\]*\}\s*\})'
)
_BY_NAME = ("name", "epsg", "ogc")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def hold_geojson_crs(content: mmap.mmap, where: str) -> None:
    """Refuse a GeoJSON file whose `crs` leads elsewhere.

    Raises
    ------
    InputFailure : for a link, and for JSON that is not sound.
    """
    hidden = _ESCAPED_LETTER.search(content) is not None
    if not hidden and all(_PLAIN.match(content, found.start()) for found in _MEMBER.finditer(content)):
        return
    linked: list[Any] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, value in pairs:
            if name.lower() == "crs" and isinstance(value, dict):
                kind = value.get("type")
                if not isinstance(kind, str) or kind.lower() not in _BY_NAME:
                    linked.append(kind)
        return dict(pairs)

    try:
        json.loads(content[:].removeprefix(_BYTE_ORDER_MARK), object_pairs_hook=look)
    except (ValueError, RecursionError) as error:
        raise InputFailure(f"is not sound JSON: {error}", where=where, remedy="check that the file is whole") from error
    if linked:
        raise InputFailure(
            f"its CRS is not told by name but by {str(linked[0])[:20]!r}, which may lead anywhere",
            where=where,
            remedy="write the file without the member crs, and state it in the plan",
        )
