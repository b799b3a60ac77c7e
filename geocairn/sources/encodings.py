"""The encoding of a source's text, where the format does not settle it.

What always holds: a stated encoding that would have no effect is refused, and so is one that does not exist.
"""

from __future__ import annotations

import codecs

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.sources.formats import CSV, DBF, SHAPEFILE, ZIPPED_SHAPEFILE, Format

_UNSETTLED = (SHAPEFILE, ZIPPED_SHAPEFILE, DBF, CSV)
_USUAL = ("utf-8", "cp1252", "latin-1", "cp1250", "cp1251", "cp850", "cp437", "utf-16")
_GDAL_NAMES = {
    "mac-roman": "MACINTOSH",
    "shift-jis": "SHIFT_JIS",
    "big5hkscs": "BIG5-HKSCS",
    "utf-8-sig": "UTF-8",
    "ascii": "US-ASCII",
    "euc-jp": "EUC-JP",
}
"""Names under which GDAL knows an encoding, by Python's with hyphens, where the two differ by more than case."""


def check_encoding(stated: str | None, kind: Format, where: str) -> None:
    """Refuse a stated encoding that does not exist, or that the format settles itself.

    Raises
    ------
    InputFailure : with the nearest right name.
    """
    if stated is None:
        return
    if kind not in _UNSETTLED:
        raise InputFailure(
            f"encoding: a {kind.title} says itself how its text is encoded", where=where, remedy="leave encoding out"
        )
    canonical_encoding(stated, where)


def canonical_encoding(stated: str, where: str) -> str:
    """Return Python's name of an encoding, so that all its names are one.

    Raises
    ------
    InputFailure : when there is none of that name that encodes text.
    """
    try:
        found = codecs.lookup(stated)
        text = getattr(found, "_is_text_encoding", True)
    except LookupError:
        text = False
    if not text:
        raise InputFailure(f"encoding: there is no {stated!r}{did_you_mean(stated, _USUAL)}", where=where)
    return found.name


def gdal_encoding(stated: str, where: str) -> str:
    """Return GDAL's name of an encoding; it takes a name that it does not know for UTF-8 without a word.

    Raises
    ------
    InputFailure : when there is none.
    """
    name = canonical_encoding(stated, where).replace("_", "-")
    return _GDAL_NAMES.get(name, name.upper())
