"""Types that several operations' parameters share: what a user may write, and the one form that it is normalised to.

What always holds: two ways of writing the same value (`5070`, `"epsg:5070"`; `"state"`, `["state"]`) become one
value, so that they give one fingerprint; and the JSON Schema shows every way that is accepted.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from geocairn.crs_files import hold_crs_text

_AUTHORITY_CODE = re.compile(r"([A-Za-z][A-Za-z0-9_]*)\s*:\s*([A-Za-z0-9_.]+)")
_URN = re.compile(r"urn:ogc:def:crs:([A-Za-z][A-Za-z0-9_]*):[0-9.]*:([A-Za-z0-9_.]+)", re.IGNORECASE)
_URL = re.compile(r"https?://www\.opengis\.net/def/crs/([A-Za-z][A-Za-z0-9_]*)/[0-9.]+/([A-Za-z0-9_.]+)", re.IGNORECASE)

Predicate = Literal[
    "intersects",
    "within",
    "contains",
    "contains_properly",
    "overlaps",
    "crosses",
    "touches",
    "covers",
    "covered_by",
    "equals",
    "disjoint",
    "dwithin",
]
"""The OGC's spatial predicates, read from left to right (`left within right`), and two more that GEOS has."""

LengthUnit = Literal["m", "km", "ft", "us-ft", "yd", "mi", "nmi"]
METRES_IN: dict[str, float] = {
    "m": 1.0,
    "km": 1000.0,
    "ft": 0.3048,
    "us-ft": 1200.0 / 3937.0,
    "yd": 0.9144,
    "mi": 1609.344,
    "nmi": 1852.0,
}


def normalise_crs(value: Any) -> Any:
    """Return the CRS's one form: `EPSG:5070` for a code however written, other text (WKT, PROJJSON, PROJ) trimmed."""
    if isinstance(value, bool):
        raise ValueError("a CRS is a text such as 'EPSG:5070'")
    if isinstance(value, int):
        return f"EPSG:{value}"
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.isdigit():
        return f"EPSG:{int(text)}"
    for pattern in (_AUTHORITY_CODE, _URN, _URL):
        found = pattern.fullmatch(text)
        if found:
            return f"{found[1].upper()}:{found[2].upper()}"
    if not text:
        raise ValueError("the CRS is empty: give a code such as 'EPSG:5070', WKT or PROJJSON")
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _distinct(names: list[str]) -> list[str]:
    if not names:
        raise ValueError("name at least one column, or leave it out")
    if len(set(names)) != len(names):
        raise ValueError("a column is named twice")
    return names


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _differing(suffixes: tuple[str, str]) -> tuple[str, str]:
    if suffixes[0] == suffixes[1]:
        raise ValueError("the two suffixes must differ")
    return suffixes


def _ordered(bbox: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    if bbox[0] >= bbox[2] or bbox[1] >= bbox[3]:
        raise ValueError("a bounding box is [xmin, ymin, xmax, ymax], with xmin < xmax and ymin < ymax")
    return bbox


CrsText = Annotated[
    str, BeforeValidator(normalise_crs, json_schema_input_type=str | int), AfterValidator(hold_crs_text)
]
"""A CRS: an authority code (`EPSG:5070`, or 5070 for EPSG), WKT, PROJJSON or a PROJ string."""

Number = Annotated[float, BeforeValidator(_no_truth_value, json_schema_input_type=float)]
"""A finite number; true and false are none."""

ColumnName = Annotated[str, Field(min_length=1)]

ColumnNames = Annotated[
    list[ColumnName],
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
    AfterValidator(_distinct),
]
"""One column's name, or several; the order counts."""

Suffixes = Annotated[
    tuple[str, str],
    AfterValidator(_differing),
    Field(description="appended to column names that both inputs have: the left's and the right's suffix"),
]

BBox = Annotated[tuple[Number, Number, Number, Number], AfterValidator(_ordered)]
"""xmin, ymin, xmax, ymax in the units of the layer's CRS."""

GridSize = Annotated[
    Number | None,
    Field(
        gt=0,
        description="side of the grid that the result's vertices are rounded to, in units of the CRS",
    ),
]
