"""Reading and writing: `read_layer` and `write_layer`, the ends of every chain.

In a plan, `sources:` and `outputs:` stand for them. Called without Prefect they read and write at once; the versions,
fingerprints and reuse around them belong to whoever runs the chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from geocairn.cartography import MapStyle
from geocairn.highlight import Highlight
from geocairn.operations.contract import operation
from geocairn.sources.source import (
    AsTable,
    BoundingBox,
    Columns,
    LayerName,
    Public,
    Scope,
    Sql,
    StatedCrs,
    StatedVersion,
    TextEncoding,
    Uri,
    VersionSql,
    Where,
    not_blank,
    number_as_text,
)

if TYPE_CHECKING:
    from geopandas import GeoDataFrame
    from pandas import DataFrame

OutputUri = Annotated[
    str,
    BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value),
    AfterValidator(not_blank),
    Field(
        description="Where to write: a path (from the working directory), file://, s3://bucket/key, or "
        "postgresql://host/database with the table named by layer. A file's format goes by the extension "
        "(.parquet .gpkg .fgb .geojson .shp .csv) unless driver says otherwise"
    ),
]
Driver = Annotated[
    str | None,
    AfterValidator(not_blank),
    Field(
        description="The format to write, where the extension does not tell: parquet, gpkg, fgb, geojson, shp, csv; "
        "postgis for a database"
    ),
]
OutputLayerName = Annotated[
    str | None,
    BeforeValidator(number_as_text),
    AfterValidator(not_blank),
    Field(
        validation_alias=AliasChoices("layer", "layer_name"),
        serialization_alias="layer",
        description="The layer's name inside a GeoPackage; the file's name without extension when left out. In a "
        "database schema.table, or table for one in the schema public",
    ),
]
Mode = Annotated[
    Literal["replace", "error"],
    Field(description="What to do where something is at the target: replace it, or refuse (error) unless it is ours"),
]
MapAppearance = Annotated[MapStyle | None, Field(description="How a map (an output that ends in .png) is drawn")]
Highlighted = Annotated[Highlight | None, Field(description="Rows that are told with the answer of a run")]


@operation(
    version=2,
    result="any",
    crs="any",
    rows="any",
    reads=True,
    varies=lambda parameters: {"kind": "table"} if parameters.table else {},
)
def read_layer(
    *,
    uri: Uri,
    layer: LayerName = None,
    columns: Columns = None,
    where: Where = None,
    bbox: BoundingBox = None,
    crs: StatedCrs = None,
    version: StatedVersion = None,
    public: Public = False,
    scope: Scope = None,
    encoding: TextEncoding = None,
    table: AsTable = False,
    sql: Sql = None,
    version_sql: VersionSql = None,
) -> GeoDataFrame:
    """Read a layer that geocairn did not make.

    GeoParquet (also a folder of files, whose `key=value` folders become columns), GeoPackage, FlatGeobuf, GeoJSON,
    shapefile, file geodatabase (these also zipped), GML, and CSV with a WKT column or x and y columns, from this
    machine, S3-compatible storage or a web server. Rows keep the file's order; integers with nulls stay integers; in a
    CSV, numbers written with leading zeros stay text. Of GeoParquet that lies elsewhere only what `columns`, `bbox` and
    `where` need is fetched.

    A source with no CRS is refused unless `crs` states it, and a stated one that contradicts the source is refused.
    A PostGIS database is read by `layer` (a table or view) or by `sql` (a SELECT, which runs read-only); its rows come
    by the primary key, as the SQL orders them, or sorted by their values.

    `bbox` keeps the features whose geometry meets the box; `where` is applied after it.

    With `table: true` the attributes alone are read, and the result is a table: of a CSV, a Parquet file, a dBASE file
    (.dbf), a table in a GeoPackage or file geodatabase, or of any layer without its geometry.
    """
    from geocairn.memory import Memory
    from geocairn.sources.read import read
    from geocairn.sources.source import Source

    return read(
        Source(
            uri=uri,
            layer=layer,
            columns=columns,
            where=where,
            bbox=bbox,
            crs=crs,
            version=version,
            public=public,
            scope=scope,
            encoding=encoding,
            table=table,
            sql=sql,
            version_sql=version_sql,
        ),
        memory=Memory(),
    )


@operation(version=2, result="same", rows="each", same_crs=False, effect=True)
def write_layer(
    layer: GeoDataFrame | DataFrame,
    context: list[GeoDataFrame] | None = None,
    *,
    uri: OutputUri,
    driver: Driver = None,
    layer_name: OutputLayerName = None,
    mode: Mode = "replace",
    map: MapAppearance = None,
    highlight: Highlighted = None,
) -> GeoDataFrame:
    """Write a layer to where users find it, and return it.

    The old output stays whole until the new one is complete. Beside a format other than GeoParquet lies
    `NAME.lineage.json`, which says what the output is made from. What a format cannot hold (long field names in a
    shapefile, a time zone's name) is told as a caveat. In Python, the parameter `layer` is called `layer_name`.

    In a database a table is staged and swapped in one transaction, and says in its comment what it is made from; one
    that holds the same result already, unedited, is left alone.

    A table without geometry is written as CSV, plain Parquet or to a database; other formats are for layers.

    An output that ends in .png is drawn as a map, with the layers of `context` around it. `highlight` says which rows
    are told with the answer of a run.
    """
    from geocairn.cartography import draw_map
    from geocairn.sources.publish import Target, publish

    style = map.model_dump() if map is not None else {}
    publish(
        layer,
        Target(uri=uri, driver=driver, layer=layer_name, mode=mode),
        {},
        draw=lambda path: draw_map(layer, path, context=context or (), **style),
    )
    return layer
