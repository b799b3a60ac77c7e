"""What a plan expects of a step's result, beyond what the operation promises.

Expectations are no part of a fingerprint: they say whether a result is acceptable, not what it is. They are held
against fresh results by the gate and against reused checkpoints from their recorded facts, by the same function,
which loads no geometry library unless two spellings of a CRS must be compared.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from geocairn.checkpoint import LayerFacts
from geocairn.nearest import did_you_mean
from geocairn.operations.parameter_types import CrsText

GeometryKind = Literal["point", "line", "polygon"]

_FAMILIES: dict[str, tuple[str, ...]] = {
    "integer": ("int", "uint"),
    "number": ("int", "uint", "float", "double", "decimal"),
    "float": ("float", "double"),
    "text": ("str", "string", "large_string"),
    "boolean": ("bool",),
    "datetime": ("datetime", "timestamp"),
    "date": ("date32", "date64"),
    "category": ("category",),
    "geometry": ("geometry",),
}
"""Words for types that a reader need not know pandas for, and how the names of pandas' types for them begin."""
_SYNONYMS = {"string": "text", "str": "text", "bool": "boolean", "int": "integer"}


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _ordered(extent: tuple[float, float, float, float] | None) -> tuple[float, float, float, float] | None:
    if extent is not None and (extent[0] > extent[2] or extent[1] > extent[3]):
        raise ValueError("an extent is [minx, miny, maxx, maxy], with minx <= maxx and miny <= maxy")
    return extent


class Expect(BaseModel):
    """Expectations of a step's result; each that is stated must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    geometry: Annotated[
        list[GeometryKind] | None,
        BeforeValidator(_as_list, json_schema_input_type=GeometryKind | list[GeometryKind] | None),
    ] = Field(None, description="Geometry kinds that may occur: point, line, polygon; one or a list")
    rows: int | None = Field(None, ge=0, description="Exact number of rows")
    min_rows: int | None = Field(None, ge=0, description="Least number of rows")
    max_rows: int | None = Field(None, ge=0, description="Greatest number of rows")
    extent: Annotated[tuple[float, float, float, float] | None, AfterValidator(_ordered)] = Field(
        None, description="minx, miny, maxx, maxy that must hold all geometry, in the result's CRS"
    )
    columns: list[str] | dict[str, str] | None = Field(
        None,
        description="Columns that must be there; as a mapping, with their types: integer, number, text, boolean, "
        "datetime, date, category, or a pandas type (int64, Int64, datetime64[us, UTC])",
    )
    crs: CrsText | None = Field(None, description="CRS that the result must have, such as EPSG:5070")
    valid: bool | None = Field(
        None, description="True: no geometry may be invalid, one that came with the source included"
    )
    missing_geometry: bool | None = Field(None, description="False: no geometry may be null or empty")
    area_of_use: bool | None = Field(None, description="True: all geometry must lie in the CRS's area of use")

    @model_validator(mode="after")
    def _rows_can_hold(self) -> Expect:
        if self.min_rows is not None and self.max_rows is not None and self.min_rows > self.max_rows:
            raise ValueError(f"min_rows {self.min_rows} is more than max_rows {self.max_rows}, so no result can do")
        return self


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
    if facts.rows == 0 and not allow_empty and not (expect and (expect.rows == 0 or expect.max_rows == 0)):
        found.append("the result is empty (allow_empty: true accepts that)")
    if expect is None:
        return found
    found += _rows(expect, facts)
    found += _places(expect, facts)
    found += _columns(expect, facts)
    if expect.valid and facts.invalid:
        found.append(f"{facts.invalid} of {facts.rows} geometries are invalid")
    if expect.missing_geometry is False and facts.missing + facts.empty:
        found.append(f"{facts.missing + facts.empty} of {facts.rows} rows have no geometry")
    return found


def _rows(expect: Expect, facts: LayerFacts) -> list[str]:
    found = []
    if expect.rows is not None and facts.rows != expect.rows:
        found.append(f"{_count(expect.rows)} expected, there {_are(facts.rows)}")
    if expect.min_rows is not None and facts.rows < expect.min_rows:
        found.append(f"at least {_count(expect.min_rows)} expected, there {_are(facts.rows)}")
    if expect.max_rows is not None and facts.rows > expect.max_rows:
        found.append(f"at most {_count(expect.max_rows)} expected, there {_are(facts.rows)}")
    return found


def _count(number: int) -> str:
    return f"{number} row was" if number == 1 else f"{number} rows were"


def _are(number: int) -> str:
    return f"is {number}" if number == 1 else f"are {number}"


def _places(expect: Expect, facts: LayerFacts) -> list[str]:
    """Return what is wrong with kind, extent, CRS and area of use."""
    asked = [name for name in ("geometry", "extent", "crs", "area_of_use") if getattr(expect, name)]
    if facts.geometry_column is None:
        return [f"{' and '.join(asked)} cannot hold: the result is a table without geometry"] if asked else []
    found = []
    kinds = kinds_of_types(facts.geometry_types)
    if expect.geometry is not None and not set(kinds) <= set(expect.geometry):
        found.append(f"{' or '.join(expect.geometry) or 'no'} geometry was expected, there is {' and '.join(kinds)}")
    if expect.extent is not None and facts.bounds is not None:
        low, high = expect.extent[:2], expect.extent[2:]
        if any(facts.bounds[i] < low[i] or facts.bounds[i + 2] > high[i] for i in (0, 1)):
            found.append(f"the extent {_numbers(facts.bounds)} is not within {_numbers(expect.extent)}")
    if expect.crs is not None and not _same_crs(expect.crs, facts):
        found.append(f"CRS {expect.crs} was expected, it is {facts.crs_name or 'unknown'}")
    if expect.area_of_use and facts.outside_area:
        found.append(f"{facts.outside_area} of {facts.rows} rows lie outside the area of use of {facts.crs_name}")
    return found


def _same_crs(expected: str, facts: LayerFacts) -> bool:
    if facts.crs is None:
        return False
    if facts.crs_name == expected:
        return True
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        return bool(CRS.from_user_input(expected) == CRS.from_json(facts.crs))
    except CRSError:
        return False  # one that PROJ does not know is nobody's CRS; the plan check says so before


def _columns(expect: Expect, facts: LayerFacts) -> list[str]:
    found = []
    wanted = expect.columns or []
    types = wanted if isinstance(wanted, dict) else {}
    known = {**facts.columns, **({facts.geometry_column: "geometry"} if facts.geometry_column else {})}
    for name in wanted:
        if name not in known:
            found.append(f"column {name!r} is missing{did_you_mean(name, known)}")
        elif types.get(name) and not _is_of_type(known[name], types[name]):
            found.append(f"column {name!r} was expected to be {types[name]}, it is {known[name]}")
    return found


def _is_of_type(found: str, wanted: str) -> bool:
    """Return whether a pandas type is the one that is wanted: by its own name, or by a word such as `integer`."""
    if found == wanted:
        return True
    family = _FAMILIES.get(_SYNONYMS.get(wanted.lower(), wanted.lower()))
    return family is not None and found.lower().startswith(family) and not found.startswith("interval")


def _numbers(values: list[float] | tuple[Any, ...]) -> str:
    return ", ".join(f"{value:.10g}" for value in values)
