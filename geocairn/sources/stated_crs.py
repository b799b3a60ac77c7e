"""The rule about a source's CRS: one that the source does not carry must be stated, one that it carries holds.

What always holds: a layer is never read without a CRS, and a stated CRS never overrules what a file says. Where the
file itself says nothing and only its format supposes one (GeoJSON, GeoParquet), the stated one is taken.
"""

from __future__ import annotations

from typing import Any

from geocairn.crs import crs_label
from geocairn.crs_files import hold_crs
from geocairn.failure import InputFailure


def crs_of(text: str, where: str = "") -> Any:
    """Return the pyproj CRS that the text names.

    Raises
    ------
    InputFailure : when PROJ does not know it.
    """
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        return CRS.from_user_input(text)
    except CRSError as error:
        raise InputFailure(
            f"PROJ knows no CRS {text!r}", where=where, remedy="write an authority code such as EPSG:5070, or WKT"
        ) from error


def settle_crs(found: Any, by_default: bool, stated: str | None, where: str) -> Any:
    """Return the CRS in which the source is to be read.

    Parameters
    ----------
    found : the pyproj CRS that the source has; None when it has none.
    by_default : whether `found` is only what the format supposes.
    stated : what the plan states.
    where : the source, for messages.

    Raises
    ------
    InputFailure : when neither says one, or the two differ.
    """
    hold_crs(found, where)
    if stated is None:
        if found is None:
            raise InputFailure(
                "has no CRS",
                where=where,
                remedy="state it with crs (for example crs: EPSG:4326) if you know what its coordinates mean",
            )
        return found
    wanted = crs_of(stated, where)
    if found is None or (by_default and not same_crs(found, wanted)):
        return wanted
    if not same_crs(found, wanted):
        raise InputFailure(
            f"is in {crs_label(found)}, and the plan states {crs_label(wanted)}",
            where=where,
            remedy=f"leave crs out (and reproject to {crs_label(wanted)} in a step); if the file is wrong, correct it",
        )
    return found if found.to_authority(min_confidence=100) or not wanted.to_authority() else wanted


def same_crs(left: Any, right: Any) -> bool:
    """Return whether two CRS mean the same coordinates, given that x goes first in both.

    ESRI's way of writing a CRS counts as the one that PROJ identifies it with.
    """
    if left == right or left.equals(right, ignore_axis_order=True):
        return True
    ours, theirs = left.to_epsg(min_confidence=70), right.to_epsg(min_confidence=70)
    if ours is not None and ours == theirs:
        return True
    # A CRS that came through ESRI's WKT has lost names and codes: held against the other's ESRI form.
    from pyproj.enums import WktVersion
    from pyproj.exceptions import CRSError

    try:
        forms = [crs.to_wkt(WktVersion.WKT1_ESRI) for crs in (left, right)]
    except CRSError:
        return False
    return bool(forms[0]) and forms[0] == forms[1]
