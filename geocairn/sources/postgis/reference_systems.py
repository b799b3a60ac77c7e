"""Between a CRS and the numbers (SRIDs) by which PostGIS knows it, through the database's table `spatial_ref_sys`.

What always holds: an SRID is taken for what the database's own table says of it, never for the EPSG code of the same
number; SRID 0 is no CRS. A CRS that the table lacks is added to it whole, or the output is refused.
"""

# ruff: noqa: S608 - every name in a statement is quoted, and a plan's SQL stands where only a SELECT can

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.sources.stated_crs import crs_of, same_crs

if TYPE_CHECKING:
    from geocairn.sources.postgis.connection import Session

_OWN_FIRST, _OWN_LAST = 990_000, 998_999
"""Where numbers for CRSs without one of their own are taken from: PostGIS allows up to 998,999."""
_LONGEST_TEXT = 2048


def crs_of_srid(session: Session, srid: int, where: str) -> Any:
    """Return the pyproj CRS that an SRID stands for; None for SRID 0.

    Raises
    ------
    InputFailure : when the database does not say, or PROJ does not know it.
    """
    if srid == 0:
        return None
    rows = session.rows(
        f"select auth_name, auth_srid, srtext, proj4text from {session.postgis}.spatial_ref_sys where srid = %s", [srid]
    )
    if not rows:
        raise InputFailure(
            f"its SRID {srid} is not in the database's table spatial_ref_sys",
            where=where,
            remedy="have it added there, or cast in sql: ST_SetSRID(geom, …)",
        )
    authority, code, text, proj4 = rows[0]
    for form in (f"{authority}:{code}" if authority and code is not None else None, text, proj4):
        if form and form.strip():
            try:
                return crs_of(form.strip(), where)
            except InputFailure:
                continue
    raise InputFailure(
        f"PROJ knows nothing that spatial_ref_sys says of SRID {srid}", where=where, remedy="have that row corrected"
    )


def srid_of_crs(session: Session, crs: Any, where: str) -> int:
    """Return the SRID of a CRS, adding it to the database's table where it has none.

    Raises
    ------
    InputFailure : when the CRS cannot be told in that table, or the role may not add to it.
    """
    table = f"{session.postgis}.spatial_ref_sys"
    for authority, code in _codes(crs):
        rows = session.rows(
            f"select srid from {table} where upper(auth_name) = %s and auth_srid = %s order by srid limit 1",
            [authority, code],
        )
        if rows:
            return int(rows[0][0])
    text = _definition(crs, where)
    rows = session.rows(f"select srid from {table} where srtext = %s order by srid limit 1", [text])
    return int(rows[0][0]) if rows else _add(session, table, crs, text, where)


def _codes(crs: Any) -> list[tuple[str, int]]:
    """Return authority codes that stand for the CRS, its own first; x goes first in all of them."""
    found = []
    stated = crs.to_authority(min_confidence=100)
    if stated is not None and stated[1].isdecimal():
        found.append((stated[0].upper(), int(stated[1])))
    code = crs.to_epsg(min_confidence=70)
    if code is None and same_crs(crs, crs_of("EPSG:4326")):
        code = 4326
    if code is not None and ("EPSG", code) not in found and same_crs(crs, crs_of(f"EPSG:{code}")):
        found.append(("EPSG", code))
    return found


def _definition(crs: Any, where: str) -> str:
    """Return the CRS as text that PostGIS and PROJ read back as the same one."""
    from pyproj.enums import WktVersion
    from pyproj.exceptions import CRSError

    for version in (WktVersion.WKT1_GDAL, WktVersion.WKT2_2019):
        try:
            text = str(crs.to_wkt(version))
            if len(text) <= _LONGEST_TEXT and same_crs(crs_of(text), crs):
                return text
        except (CRSError, InputFailure):
            continue
    raise InputFailure(
        f"its CRS {crs_label(crs)} cannot be told in the database's table spatial_ref_sys",
        where=where,
        remedy="reproject it to a CRS with an EPSG code before",
    )


def _add(session: Session, table: str, crs: Any, text: str, where: str) -> int:
    from psycopg.errors import InsufficientPrivilege

    stated = crs.to_authority(min_confidence=100)
    authority, code = stated if stated is not None and stated[1].isdecimal() else (None, None)
    session.run("savepoint reference_system")
    try:
        session.rows("select pg_advisory_xact_lock(hashtextextended('geocairn spatial_ref_sys', 0))")
        number = session.rows(
            f"select least(greatest(max(srid) + 1, {_OWN_FIRST}), {_OWN_LAST + 1}) from {table} "
            f"where srid between {_OWN_FIRST} and {_OWN_LAST}"
        )[0][0]
        srid = int(number) if number is not None else _OWN_FIRST
        if srid > _OWN_LAST:
            raise InputFailure(f"the numbers from {_OWN_FIRST} to {_OWN_LAST} of {table} are all taken", where=where)
        session.rows(
            f"insert into {table} (srid, auth_name, auth_srid, srtext, proj4text) values (%s, %s, %s, %s, '')",
            [srid, authority, int(code) if code is not None else None, text],
        )
    except InsufficientPrivilege as error:
        session.run("rollback to savepoint reference_system")
        raise InputFailure(
            f"its CRS {crs_label(crs)} is not in the database's table spatial_ref_sys, and the role {session.role} "
            "may not add it",
            where=where,
            remedy="let the table's owner add it or grant the right to, or reproject to a CRS with an EPSG code",
        ) from error
    session.run("release savepoint reference_system")
    return srid
