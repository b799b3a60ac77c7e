"""A case for each row about the geometry stack: shapely, pyproj, pyogrio, geopandas, pandas, pyarrow, DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from code_cases import Case
from misbehaving import C, F, I, T, gdal_reads, gdal_reads_s3


def geometry_cases() -> Iterator[Case]:
    """Yield the cases."""
    for part in (_shapely, _pyproj, _pyogrio, _geopandas, _arrow, _duckdb):
        for row, failure_class, call in part():
            yield f"{'message' if ': ' in row else 'type'} {row}", failure_class, call


def _shapely() -> Iterator[Case]:
    import shapely
    from shapely.geometry import GeometryCollection, Point, Polygon, box

    bow_tie, crossed = Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), Polygon([(0, 0.2), (1, 0.8), (1, 0.2), (0, 0.8)])
    mixed = GeometryCollection([Point(0, 0), box(0, 0, 1, 1)])
    e = "shapely.errors.GEOSException: "
    yield f"{e}TopologyException", I, lambda s, _: shapely.intersection(bow_tie, crossed)
    yield f"{e}ParseException", I, lambda s, _: shapely.from_wkt("POLYGON ((0 0")
    yield f"{e}ParseException", I, lambda s, _: shapely.from_wkb(b"junk")
    yield f"{e}IllegalArgumentException", I, lambda s, _: shapely.LineString([(0, 0)])
    yield f"{e}IllegalArgumentException", I, lambda s, _: shapely.from_wkt("POLYGON ((0 0, 0 0))")
    yield f"{e}mixed-dimension", C, lambda s, _: shapely.difference(mixed, box(0, 0, 2, 2), grid_size=0.1)
    yield f"{e}bad_alloc", C, lambda s, _: shapely.errors.GEOSException("std::bad_alloc")
    yield "shapely.errors.ShapelyError", C, lambda s, _: shapely.errors.UnsupportedGEOSVersionError("needs GEOS 3.99")
    yield "builtins.ValueError: linearring requires at least", I, lambda s, _: Polygon([(0, 0), (1, 1)])


def _pyproj() -> Iterator[Case]:
    import pyproj

    far = pyproj.Transformer.from_crs(4326, 5070, always_xy=True)
    gridded = "+proj=hgridshift +grids=none.tif"
    e = "pyproj.exceptions.ProjError"
    yield "pyproj.exceptions.CRSError", I, lambda s, _: pyproj.CRS("EPSG:999999")
    yield "pyproj.exceptions.CRSError", I, lambda s, _: pyproj.CRS("nonsense")
    yield e, I, lambda s, _: far.transform(0, 1e30, errcheck=True)
    yield f"{e}: File not found or invalid", C, lambda s, _: pyproj.Transformer.from_pipeline(gridded)
    text = "transform error: Network error when accessing a remote resource"
    yield f"{e}: Network error", T, lambda s, _: pyproj.exceptions.ProjError(text)
    yield (
        f"{e}: Cannot find proj.db",
        F,
        lambda s, _: pyproj.exceptions.ProjError("Internal Proj Error: Cannot find proj.db"),
    )
    yield "pyproj.exceptions.GeodError", I, lambda s, _: pyproj.exceptions.GeodError("no such ellipsoid")
    yield "pyproj.exceptions.DataDirError", F, lambda s, _: pyproj.exceptions.DataDirError("no folder")


def _pyogrio() -> Iterator[Case]:
    import geopandas
    import numpy
    import pyogrio
    import pyogrio._err as gdal
    import pyogrio.errors as errors
    import shapely
    from shapely.geometry import box

    def layer(folder: Path) -> Path:
        geopandas.GeoDataFrame({"a": [1]}, geometry=[box(0, 0, 1, 1)], crs=4326).to_file(folder / "a.gpkg")
        return folder / "a.gpkg"

    def write(folder: Path, shape: Any, crs: str) -> Any:
        column = numpy.array([shape], dtype=object)
        return pyogrio.raw.write(str(folder / "b.gpkg"), column, [], [], geometry_type="Polygon", crs=crs)

    read = pyogrio.read_dataframe
    d, c = "pyogrio.errors.DataSourceError", "pyogrio._err.CPLE_"
    yield d, I, lambda s, p: read(p / "none.gpkg")
    yield "pyogrio.errors.DataLayerError", I, lambda s, p: read(layer(p), layer="b")
    yield "pyogrio.errors.FeatureError", I, lambda s, p: read(layer(p), where="zz > 1")
    yield "pyogrio.errors.FeatureError", I, lambda s, p: read(layer(p), fids=[99])
    yield "pyogrio.errors.FieldError", I, lambda s, p: errors.FieldError("Could not set field 'a' at index 0")
    yield "pyogrio.errors.GeometryError", I, lambda s, p: write(p, b"junk", "EPSG:4326")
    yield "pyogrio.errors.CRSError", I, lambda s, p: write(p, shapely.to_wkb(box(0, 0, 1, 1)), "NONE:1")

    yield f"{d}: CURL error", T, lambda s, p: gdal_reads(s.refused())
    yield f"{d}: CURL error", T, lambda s, p: gdal_reads(s.url(None))
    busy = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    head = f"HTTP/1.1 400 x\r\nContent-Length: {len(busy)}\r\n\r\n"
    yield f"{d}: reduce your request rate", T, lambda s, p: gdal_reads_s3(s.url((head + busy).encode()))
    yield f"{c}AWSObjectNotFoundError", I, lambda s, p: gdal_reads_s3(s.status(404, "NoSuchKey"))
    yield f"{c}AWSBucketNotFoundError", F, lambda s, p: gdal_reads_s3(s.status(404, "NoSuchBucket"))
    yield f"{c}AWSAccessDeniedError", F, lambda s, p: gdal_reads_s3(s.status(403, "AccessDenied"))
    yield f"{c}AWSSignatureDoesNotMatchError", F, lambda s, p: gdal_reads_s3(s.status(403, "SignatureDoesNotMatch"))
    yield f"{c}AWSError", F, lambda s, p: gdal_reads_s3(s.status(403, "InvalidAccessKeyId"))
    keyless = {"AWS_SECRET_ACCESS_KEY": "", "AWS_ACCESS_KEY_ID": "", "AWS_EC2_METADATA_DISABLED": "YES"}
    yield f"{c}AWSInvalidCredentialsError", F, lambda s, p: gdal_reads_s3(s.refused(), **keyless)
    # What cannot be brought about here: GDAL's own text and types, as pyogrio hands them on.
    yield f"{d}: database is locked", T, lambda s, p: errors.DataSourceError("sqlite3_step() : database is locked")
    yield f"{d}: Permission denied", F, lambda s, p: errors.DataSourceError("/a.gpkg: Permission denied")
    yield f"{d}: No space left on device", F, lambda s, p: errors.DataSourceError("/a.fgb: No space left on device")
    full = "failed to execute insert : database or disk is full"
    yield "pyogrio.errors.DataLayerError: database or disk is full", F, lambda s, p: errors.FeatureError(full)
    for name, failure_class in (("OutOfMemoryError", C), ("NoWriteAccessError", F)):
        yield f"{c}{name}", failure_class, lambda s, p, n=name: _hiding(errors, getattr(gdal, f"CPLE_{n}")(3, 2, "m"))


def _hiding(errors: Any, said: BaseException) -> Any:
    """Do as pyogrio does with what GDAL said."""
    try:
        raise said
    except type(said) as error:
        raise errors.DataSourceError(str(error)) from None


def _geopandas() -> Iterator[Case]:
    import geopandas
    import pandas
    from pydantic import TypeAdapter
    from shapely.geometry import Point, box

    def frame(crs: Any = 4326) -> Any:
        return geopandas.GeoDataFrame({"a": [1]}, geometry=[box(0, 0, 1, 1)], crs=crs)

    def without_geometry(folder: Path) -> Any:
        pandas.DataFrame({"a": [1]}).to_parquet(folder / "a.parquet")
        return geopandas.read_parquet(folder / "a.parquet")

    def from_database(folder: Path) -> Any:
        import sqlalchemy

        with sqlalchemy.create_engine("sqlite://").connect() as connection:
            return geopandas.read_postgis("select 1 as a", connection)

    def mixed() -> Any:
        return geopandas.GeoDataFrame(geometry=[Point(0, 0), box(0, 0, 1, 1)], crs=4326)

    def table(text: str) -> Callable[..., Any]:
        return lambda s, p: (p / "a.csv").write_text(text) and pandas.read_csv(p / "a.csv")

    one, another = pandas.DataFrame({"a": [1]}), pandas.DataFrame({"b": [1]})
    v = "builtins.ValueError: "
    yield f"{v}Cannot transform naive geometries", I, lambda s, p: frame(None).to_crs(3857)
    yield f"{v}Missing geo metadata", I, lambda s, p: without_geometry(p)
    yield f"{v}Query missing geometry column", I, lambda s, p: from_database(p)
    yield "builtins.AttributeError: the active geometry column", I, lambda s, p: geopandas.GeoDataFrame({"a": [1]}).area
    yield "builtins.KeyError: not in index", I, lambda s, p: frame()[["a", "zz"]]
    yield "builtins.KeyError: are in the [columns]", I, lambda s, p: frame()[["zz"]]
    yield "builtins.NotImplementedError", C, lambda s, p: geopandas.overlay(mixed(), frame())
    yield "pandas.errors.ParserError", I, table("a,b\n1,2\n1,2,3,4\n")
    yield "pandas.errors.EmptyDataError", I, table("\n")
    yield "pandas.errors.MergeError", I, lambda s, p: one.merge(another)
    yield "pandas.errors.UndefinedVariableError", I, lambda s, p: one.query("zz > 1")
    yield "pydantic_core._pydantic_core.ValidationError", I, lambda s, p: TypeAdapter(int).validate_python("x")


def _arrow() -> Iterator[Case]:
    import numpy
    import pyarrow
    import pyarrow.parquet

    def no_parquet(folder: Path) -> Any:
        (folder / "text.parquet").write_text("no Parquet, but long enough to have a footer")
        return pyarrow.parquet.read_table(folder / "text.parquet")

    a = "pyarrow.lib.Arrow"
    yield f"{a}Invalid", I, lambda s, p: no_parquet(p)
    yield f"{a}Invalid", I, lambda s, p: pyarrow.array(["x"]).cast(pyarrow.int64())
    yield f"{a}TypeError", I, lambda s, p: pyarrow.array([1], type=pyarrow.string())
    yield f"{a}KeyError", I, lambda s, p: pyarrow.lib.ArrowKeyError("no field named 'zz'")
    yield f"{a}IndexError", I, lambda s, p: pyarrow.lib.ArrowIndexError("index out of bounds")
    yield f"{a}SerializationError", I, lambda s, p: pyarrow.lib.ArrowSerializationError("not a message")
    yield f"{a}NotImplementedError", C, lambda s, p: pyarrow.compute.sum(pyarrow.array(["a"]))
    yield (
        f"{a}CapacityError",
        C,
        lambda s, p: pyarrow.lib.ArrowCapacityError("array cannot contain more than 2147483646"),
    )
    yield f"{a}Cancelled", F, lambda s, p: pyarrow.lib.ArrowCancelled("stopped")
    yield "builtins.FileNotFoundError", I, lambda s, p: pyarrow.parquet.read_table(p / "none.parquet")
    yield "builtins.MemoryError", C, lambda s, p: pyarrow.allocate_buffer(2**60)
    yield "builtins.MemoryError", C, lambda s, p: numpy.empty(10**15)


def _duckdb() -> Iterator[Case]:
    import duckdb

    def said(text: str, **settings: Any) -> Any:
        with duckdb.connect(config=settings) as connection:
            return connection.execute(text).fetchall()

    def interrupted() -> Any:
        import threading

        with duckdb.connect() as connection:
            threading.Timer(0.2, connection.interrupt).start()
            return connection.execute("select sum(a.range * b.range) from range(99999) a, range(99999) b").fetchall()

    def of_closed() -> Any:
        connection = duckdb.connect()
        connection.close()
        return connection.execute("select 1")

    def rivals(folder: Path) -> Any:
        with duckdb.connect(folder / "a.duckdb") as first:
            first.execute("create table t as select 1 a")
            second = first.cursor()
            for one in (first, second):
                one.execute("begin")
                one.execute("update t set a = a + 1")

    small: dict[str, Any] = {"memory_limit": "10MB", "temp_directory": "", "threads": 1}
    large = "create table t as select range a, random() b, hash(range) c from range(3000000)"
    error = duckdb.HTTPException
    i, e = "_duckdb.IOException: ", "_duckdb."
    yield f"{e}ProgrammingError", I, lambda s, p: said("select zz from (select 1 a)")
    yield f"{e}ProgrammingError", I, lambda s, p: said("select * from zz")
    yield f"{e}ProgrammingError", I, lambda s, p: said("selec 1")
    yield f"{e}ProgrammingError", I, lambda s, p: said("select regexp_matches('a', '(')")
    yield f"{e}DataError", I, lambda s, p: said("select 'x'::int")
    yield f"{e}DataError", I, lambda s, p: said("select 9223372036854775807::bigint + 1")
    yield (
        f"{e}IntegrityError",
        I,
        lambda s, p: said("create table t (a int primary key); insert into t values (1), (1)"),
    )
    yield f"{e}OutOfMemoryException", C, lambda s, p: said(large, **small)
    yield f"{e}Error", C, lambda s, p: duckdb.NotImplementedException("Not implemented Error: no such type")
    yield f"{e}Error", C, lambda s, p: duckdb.InternalException("INTERNAL Error: attempted to dereference")
    yield (
        f"{e}Error: install the required extension",
        C,
        lambda s, p: said(
            "select * from 'http://h/a.parquet'", extension_directory=str(p), autoinstall_known_extensions=False
        ),
    )
    yield (
        f"{e}CatalogException: but it exists in the",
        C,
        lambda s, p: said("select st_point(0, 0)", extension_directory=str(p), autoload_known_extensions=False),
    )
    yield f'{i}Extension "', C, lambda s, p: said("load spatial", extension_directory=str(p))
    yield (
        f'{i}Extension "',
        C,
        lambda s, p: said("install httpfs", extension_directory=str(p), custom_extension_repository=s.refused()),
    )
    yield f"{e}HTTPException", T, lambda s, p: error("HTTP Error: Could not establish connection")
    yield f"{i}No files found", I, lambda s, p: said(f"select * from read_parquet('{p}/none.parquet')")
    yield f"{i}No such file or directory", I, lambda s, p: said("copy (select 1) to '/proc/none.csv' (format csv)")
    yield (
        f"{i}No space left on device",
        F,
        lambda s, p: said("copy (select range from range(99999)) to '/dev/full' (format csv)"),
    )
    yield (
        f"{i}Permission denied",
        F,
        lambda s, p: duckdb.IOException('IO Error: Cannot open file "/a": Permission denied'),
    )
    yield (
        f"{i}Could not set lock",
        T,
        lambda s, p: duckdb.IOException('IO Error: Could not set lock on file "/a.duckdb"'),
    )
    yield (
        f"{i}Could not open GDAL dataset",
        I,
        lambda s, p: duckdb.IOException("IO Error: Could not open GDAL dataset at: /a.gpkg"),
    )
    yield f"{e}IOException", F, lambda s, p: duckdb.IOException("IO Error: Could not read from file")
    yield f"{e}ConnectionException", F, lambda s, p: of_closed()
    yield f"{e}TransactionException", F, lambda s, p: said("commit")
    yield f"{e}TransactionException: Conflict", T, lambda s, p: rivals(p)
    yield f"{e}PermissionException", F, lambda s, p: said("select * from '/a.parquet'", enable_external_access=False)
    yield f"{e}InterruptException", F, lambda s, p: interrupted()
    invalid = "Invalid Input Error: TopologyException: side location conflict"
    yield f"{e}InvalidInputException: TopologyException", I, lambda s, p: duckdb.InvalidInputException(invalid)
