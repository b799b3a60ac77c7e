"""What a plan says of a layer that geocairn did not make: where it is and how to read it.

The fields of `Source` are the parameters of the operation `read_layer`, by the same annotated types, so that a plan's
`sources:` and a Python flow's `read_layer(...)` mean the same. What always holds: values are normalised here, once
(`epsg:5070`, `5070` and `EPSG:5070` are one CRS; a version `2024` is the text `"2024"`), and blank text is refused
rather than taken for "not given".
"""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from geocairn.crs_files import hold_crs_text

_AUTHORITY_CODE = re.compile(r"([A-Za-z]+)\s*:\s*([0-9A-Za-z_.]+)")
_URN = re.compile(r"urn:ogc:def:crs:([A-Za-z]+):[0-9.]*:([0-9A-Za-z_.]+)", re.IGNORECASE)


def normalise_crs(value: Any) -> Any:
    """Return the CRS as text: a number or `epsg:N` as `EPSG:N`, an OGC URN as `AUTHORITY:CODE`, other text as it is.

    Definitions (WKT, PROJJSON, PROJ strings) stay as they are; whether PROJ knows the CRS is found when the source is
    described. Coordinates are always x, y, whatever axis order the authority gives.
    """
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return f"EPSG:{value}"
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.isdecimal():
        return f"EPSG:{int(text)}"
    found = _AUTHORITY_CODE.fullmatch(text) or _URN.fullmatch(text)
    return f"{found[1].upper()}:{found[2]}" if found else text


def number_as_text(value: Any) -> Any:
    """Take what YAML makes of `2024` or `2024-05-01` for the text that was written."""
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else value


def not_blank(value: str | None) -> str | None:
    """Refuse text of nothing but white space.

    Raises
    ------
    ValueError : for blank text.
    """
    if value is not None and not value.strip():
        raise ValueError("is blank; leave it out or fill it in")
    return value


def _only_own_grids(value: str | None) -> str | None:
    return value if value is None else hold_crs_text(value)


def _columns(value: list[str] | None) -> list[str] | None:
    if value is None:
        return value
    repeated = sorted({name for name in value if value.count(name) > 1})
    if repeated:
        raise ValueError(f"names {', '.join(map(repr, repeated))} twice")
    return value


def _box(value: tuple[float, float, float, float] | None) -> tuple[float, float, float, float] | None:
    if value is not None and (value[0] > value[2] or value[1] > value[3]):
        raise ValueError("must be minx, miny, maxx, maxy with each minimum at most its maximum")
    return value


Uri = Annotated[
    str,
    BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value),
    AfterValidator(not_blank),
    Field(
        description="Where the layer is: a path (from the working directory), file://, s3://bucket/key, "
        "https://host/path or postgresql://host/database (with layer or sql). The format of a file goes by the "
        "extension: .parquet .gpkg .fgb .geojson .json .shp .zip .shz .gdb .gml .csv .dbf"
    ),
]
LayerName = Annotated[
    str | None,
    BeforeValidator(number_as_text),
    AfterValidator(not_blank),
    Field(
        description="The layer inside the file, needed where there is more than one; of a database schema.table, or "
        "table for one in the schema public"
    ),
]
Columns = Annotated[
    list[str] | None,
    AfterValidator(_columns),
    Field(description="The attribute columns to read, in this order; all when left out. The geometry always comes"),
]
Where = Annotated[
    str | None,
    AfterValidator(not_blank),
    Field(description="Which rows to read: CQL2 text, as for the operation filter; it may use columns not read"),
]
BoundingBox = Annotated[
    tuple[float, float, float, float] | None,
    AfterValidator(_box),
    Field(description="Only features whose geometry meets this box: minx, miny, maxx, maxy in the source's CRS"),
]
Sql = Annotated[
    str | None,
    AfterValidator(not_blank),
    Field(
        description="Of a database, the SELECT that gives the layer, in place of a table named by layer; it runs "
        "read-only. Names without a schema mean public"
    ),
]
VersionSql = Annotated[
    str | None,
    AfterValidator(not_blank),
    Field(
        description="Of a database, a SELECT of one value that is another whenever the content is (such as "
        "SELECT max(changed_at) FROM roads); without it the server digests all that would be read, each time"
    ),
]
StatedCrs = Annotated[
    str | None,
    BeforeValidator(normalise_crs),
    AfterValidator(not_blank),
    AfterValidator(_only_own_grids),
    Field(
        description="The CRS of a source that carries none (EPSG:5070, 5070, WKT or PROJJSON); "
        "refused where it contradicts what the source says"
    ),
]
StatedVersion = Annotated[
    str | None,
    BeforeValidator(number_as_text),
    AfterValidator(not_blank),
    Field(
        description="The version as you state it, trusted in place of a digest of the content: change it whenever "
        "the content changes"
    ),
]
Public = Annotated[
    bool, Field(description="Whether results made from this source are shared by all scopes; no when left out")
]
Scope = Annotated[
    str | None,
    BeforeValidator(number_as_text),
    AfterValidator(not_blank),
    Field(description="Whoever may read this source; results made from it are shared within this scope only"),
]
TextEncoding = Annotated[
    str | None,
    BeforeValidator(number_as_text),
    AfterValidator(not_blank),
    Field(description="The encoding of the text in a shapefile or CSV (cp1252, latin-1, utf-8) where it is not told"),
]

AsTable = Annotated[
    bool,
    Field(
        description="Whether to read a table: the attributes alone, of a file with or without geometry, "
        "to be joined (attribute_join) or summarized"
    ),
]


class Source(BaseModel):
    """A layer that geocairn did not make. Its version is resolved when a run starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    uri: Uri
    layer: LayerName = None
    columns: Columns = None
    where: Where = None
    bbox: BoundingBox = None
    crs: StatedCrs = None
    version: StatedVersion = None
    public: Public = False
    scope: Scope = None
    encoding: TextEncoding = None
    table: AsTable = False
    sql: Sql = None
    version_sql: VersionSql = None
