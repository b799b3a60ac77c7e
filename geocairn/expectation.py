"""What a plan expects of a step's result, beyond what the operation promises.

Expectations are no part of a fingerprint: they say whether a result is acceptable, not what it is. They are held against
fresh results by the gate and against reused checkpoints from their recorded facts, by the same function.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from geocairn.checkpoint import LayerFacts
from geocairn.nearest import did_you_mean

GeometryKind = Literal["point", "line", "polygon"]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class Expect(BaseModel):
    """Expectations of a step's result; each that is stated must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    geometry: Annotated[list[GeometryKind] | None, BeforeValidator(_as_list)] = Field(
        None, description="Geometry kinds that may occur: point, line, polygon; one or a list"
    )
    rows: int | None = Field(None, ge=0, description="Exact number of rows")
    min_rows: int | None = Field(None, ge=0, description="Least number of rows")
    max_rows: int | None = Field(None, ge=0, description="Greatest number of rows")
    extent: tuple[float, float, float, float] | None = Field(
        None, description="minx, miny, maxx, maxy that must hold all geometry, in the result's CRS"
    )
    columns: list[str] | dict[str, str] | None = Field(
        None, description="Columns that must be there; as a mapping, with their types (int64, string, …)"
    )
    crs: str | None = Field(None, description="CRS that the result must have, such as EPSG:5070")
    valid: bool | None = Field(None, description="Whether no geometry may be invalid, one that came with the source included")
    missing_geometry: bool | None = Field(None, description="False: no geometry may be null or empty")
    area_of_use: bool | None = Field(None, description="True: all geometry must lie in the CRS's area of use")


_KIND_OF_TYPE = {
    "Point": "point",
    "MultiPoint": "point",
    "LineString": "line",
    "LinearRing": "line",
    "MultiLineString": "line",
    "Polygon": "polygon",
    "MultiPolygon": "polygon",
}


def kinds_of_types(geometry_types: list[str]) -> list[str]:
    """Return the kinds of geometry types such as `MultiPolygon Z`; a collection is `collection`."""
    return sorted({_KIND_OF_TYPE.get(name.partition(" ")[0], "collection") for name in geometry_types})


def unmet(expect: Expect | None, facts: LayerFacts, *, allow_empty: bool) -> list[str]:
    """Return what the facts of a layer fail of the expectations: sentences, none when all hold."""
    found: list[str] = []
    if facts.rows == 0 and not allow_empty and not (expect and expect.rows == 0):
        found.append("the result is empty (allow_empty accepts that)")
    if expect is None:
        return found
    found += _rows(expect, facts)
    kinds = kinds_of_types(facts.geometry_types)
    if expect.geometry is not None and not set(kinds) <= set(expect.geometry):
        found.append(f"{' and '.join(expect.geometry)} geometry was expected, there is {' and '.join(kinds)}")
    if expect.extent is not None and facts.bounds is not None:
        low, high = expect.extent[:2], expect.extent[2:]
        if any(facts.bounds[i] < low[i] or facts.bounds[i + 2] > high[i] for i in (0, 1)):
            found.append(f"the extent {_numbers(facts.bounds)} is not within {_numbers(expect.extent)}")
    found += _columns(expect, facts)
    if expect.crs is not None and facts.crs_name is not None and expect.crs.upper() != facts.crs_name.upper():
        found.append(f"CRS {expect.crs} was expected, it is {facts.crs_name}")
    if expect.valid and facts.invalid:
        found.append(f"{facts.invalid} of {facts.rows} geometries are invalid")
    if expect.missing_geometry is False and facts.missing + facts.empty:
        found.append(f"{facts.missing + facts.empty} of {facts.rows} rows have no geometry")
    if expect.area_of_use and facts.outside_area:
        found.append(f"{facts.outside_area} of {facts.rows} rows lie outside the area of use of {facts.crs_name}")
    return found


def _rows(expect: Expect, facts: LayerFacts) -> list[str]:
    found = []
    if expect.rows is not None and facts.rows != expect.rows:
        found.append(f"{expect.rows} rows were expected, there are {facts.rows}")
    if expect.min_rows is not None and facts.rows < expect.min_rows:
        found.append(f"at least {expect.min_rows} rows were expected, there are {facts.rows}")
    if expect.max_rows is not None and facts.rows > expect.max_rows:
        found.append(f"at most {expect.max_rows} rows were expected, there are {facts.rows}")
    return found


def _columns(expect: Expect, facts: LayerFacts) -> list[str]:
    found = []
    wanted = expect.columns or []
    types = wanted if isinstance(wanted, dict) else {}
    for name in wanted:
        if name not in facts.columns:
            found.append(f"column {name!r} is missing{did_you_mean(name, facts.columns)}")
        elif types.get(name) and types[name] != facts.columns[name]:
            found.append(f"column {name!r} was expected to be {types[name]}, it is {facts.columns[name]}")
    return found


def _numbers(values: list[float] | tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
