"""The `geo` metadata of a GeoParquet file, held against the specification.

What always holds: a file whose metadata is broken is refused with a sentence that says how. Readers that trust such a
file take coordinates for something else than they are. What the older versions of the format (0.1 to 0.4) wrote
otherwise is understood.
"""

from __future__ import annotations

import json
import re
from typing import Any

from geocairn.crs import crs_label
from geocairn.failure import InputFailure

REMEDY = "have it written again by a tool that follows the GeoParquet specification"

_VERSION = re.compile(r"[012]\.\d+(\.\d+)?([-.]?(dev|alpha|beta|rc)[.\d]*)?")
_ENCODINGS = ("WKB", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")


def geo_metadata(metadata: dict[bytes, bytes], names: list[str], where: str) -> dict[str, Any]:
    """Return the `geo` metadata, checked.

    Raises
    ------
    InputFailure : when it is missing or breaks the specification, with all that is wrong.
    """
    raw = metadata.get(b"geo")
    if raw is None:
        raise InputFailure(
            "is a Parquet table without geometry (no 'geo' metadata)",
            where=where,
            remedy="name a GeoParquet file, or read it as a table (table: true)",
        )
    try:
        geo = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputFailure(f"its 'geo' metadata is not UTF-8: {error.reason}", where=where, remedy=REMEDY) from error
    except ValueError as error:
        raise InputFailure(f"its 'geo' metadata is not JSON: {error}", where=where, remedy=REMEDY) from error
    wrong = _complaints(geo, names) if isinstance(geo, dict) else ["is not a JSON object"]
    if wrong:
        raise InputFailure(f"its 'geo' metadata {'; '.join(wrong)}", where=where, remedy=REMEDY)
    checked: dict[str, Any] = geo
    return checked


def primary_of(geo: dict[str, Any]) -> dict[str, Any]:
    """Return what the metadata says of the active geometry column."""
    described: dict[str, Any] = geo["columns"][geo["primary_column"]]
    return described


def crs_in(described: dict[str, Any]) -> Any:
    """Return the pyproj CRS of a geometry column, None where it states that it has none.

    One that says nothing is in longitude and latitude by the specification.
    """
    from pyproj import CRS

    if "crs" not in described:
        return CRS.from_user_input("OGC:CRS84")
    return None if described["crs"] is None else CRS.from_user_input(described["crs"])


def types_in(described: dict[str, Any]) -> list[str]:
    """Return the geometry types that a column declares; none when it may hold any."""
    types = described.get("geometry_types", described.get("geometry_type", []))
    return [types] if isinstance(types, str) else list(types)


def covering_columns(geo: dict[str, Any]) -> set[str]:
    """Return the columns that only hold the bounds of geometries."""
    found = set()
    for described in geo["columns"].values():
        for corner in (described.get("covering") or {}).get("bbox", {}).values():
            found.add(str(corner[0]))
    return found


def declares_z(geo: dict[str, Any]) -> bool:
    """Whether the writer tells Z in the types' names: before 0.4 the format did not, before 1.0 geopandas did not."""
    creator = geo.get("creator") or {}
    old = creator.get("library") == "geopandas" and str(creator.get("version")).startswith("0.")
    return not old and "geometry_types" in next(iter(geo["columns"].values()))


def _complaints(geo: dict[str, Any], names: list[str]) -> list[str]:
    wrong = []
    version = geo.get("version", geo.get("schema_version"))
    if version is None:
        wrong.append("has no 'version'")
    elif not isinstance(version, str) or not _VERSION.fullmatch(version):
        wrong.append(f"is of an unknown version {version!r}")
    columns = geo.get("columns")
    if not isinstance(columns, dict) or not columns:
        wrong.append("has no 'columns'")
        columns = {}
    primary = geo.get("primary_column")
    if primary is None:
        wrong.append("has no 'primary_column'")
    elif columns and primary not in columns:
        wrong.append(f"names the primary column {primary!r}, which is not among its columns")
    for name, described in columns.items():
        if name not in names:
            wrong.append(f"describes a column {name!r} that the file does not have")
        if not isinstance(described, dict):
            wrong.append(f"describes column {name!r} by no JSON object")
            continue
        wrong.extend(f"{problem} (column {name!r})" for problem in _column_complaints(described))
    return wrong


def _column_complaints(described: dict[str, Any]) -> list[str]:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    wrong = []
    if described.get("encoding") not in _ENCODINGS:
        wrong.append(f"names the unknown encoding {described.get('encoding')!r}")
    if described.get("edges", "planar") not in ("planar", "spherical"):
        wrong.append(f"names unknown edges {described['edges']!r}")
    if described.get("orientation", "counterclockwise") != "counterclockwise":
        wrong.append(f"names an unknown orientation {described['orientation']!r}")
    crs = described.get("crs")
    known: Any = None
    if crs is not None:
        try:
            known = CRS.from_user_input(crs)
        except CRSError:
            label = (crs.get("name") or crs.get("id") or crs) if isinstance(crs, dict) else crs
            wrong.append(f"holds a CRS that is not valid PROJJSON: {label!r}")
            known = _crs_by_id(crs)
    if "epoch" in described:
        epoch = described["epoch"]
        if isinstance(epoch, bool) or not isinstance(epoch, int | float):
            wrong.append(f"has an epoch that is no number: {epoch!r}")
        elif known is not None and "datum_ensemble" in known.to_json_dict():
            wrong.append(f"gives the epoch {epoch} for {crs_label(known)}, whose datum ensemble has none")
    return wrong


def _crs_by_id(crs: Any) -> Any:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    identity = crs.get("id") if isinstance(crs, dict) else None
    if not isinstance(identity, dict):
        return None
    try:
        return CRS.from_authority(str(identity.get("authority")), str(identity.get("code")))
    except CRSError:
        return None
