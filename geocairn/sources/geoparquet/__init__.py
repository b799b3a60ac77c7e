"""GeoParquet as a source: one file or a folder of files, on this machine or where only ranges of it are fetched."""

from geocairn.sources.geoparquet.reading import (
    parquet_header,
    parquet_table_header,
    read_parquet,
    read_parquet_table,
)

__all__ = ["parquet_header", "parquet_table_header", "read_parquet", "read_parquet_table"]
