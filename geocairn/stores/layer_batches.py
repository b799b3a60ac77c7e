"""A layer at rest read in batches of rows, so that it is never in memory as a whole.

What always holds: the batches, one after the other, are the layer that `read_layer_file` gives, in every type, even
where a batch alone would not show it (a column of whole numbers whose only missing value lies in another batch).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from geocairn.failure import CapabilityFailure
from geocairn.stores.layers import column_crs, covering_columns, decode_layer, read_metadata

BATCH_BYTES = 1 << 22
"""Bytes of a batch before it is decoded, about: 4 MiB. As geometries it takes some times as much."""
BATCH_ROWS = 65_536
"""Most rows of a batch."""
SAMPLED_ROWS = 64
"""Rows that are looked at to tell how large a row is."""
_BUFFER = 1 << 20


class LayerFile:
    """A layer's file, open for reading in batches. Close it in the end.

    Parameters
    ----------
    path : the file; written by `write_layer_file` or a `LayerSpool`.
    batch_rows : rows in a batch; by default as many as `BATCH_BYTES` hold on average.

    Raises
    ------
    CapabilityFailure : for a table without geometry, which has no batches of a layer.
    """

    def __init__(self, path: Path, batch_rows: int | None = None) -> None:
        import pyarrow.parquet as pq

        self.path = path
        # Otherwise whole row groups would be fetched for their first batch, and kept until the file is closed.
        self._file = pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False, memory_map=False)
        geo, self._description = read_metadata(self._file.schema_arrow)
        if geo is None or not self._description:
            self.close()
            raise CapabilityFailure("it is no layer that can be read in batches", where=str(path))
        self._geo: dict[str, Any] = geo
        self._crs = {name: column_crs(described) for name, described in geo["columns"].items()}
        self.rows: int = self._file.metadata.num_rows
        self.batch_rows = batch_rows or max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(self._row_bytes(), 1))))

    @property
    def crs(self) -> Any:
        """The CRS of the active geometry."""
        return self._crs[self._geo["primary_column"]]

    def _row_bytes(self) -> float:
        """Return how many bytes a row takes on average, at least: in the whole file, and in a few rows as decoded.

        The file alone does not tell: a text that repeats is there once.
        """
        metadata = self._file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        means: list[float] = [sum(group.total_byte_size for group in groups) / max(self.rows, 1)]
        for number in {0, len(groups) // 2, len(groups) - 1} if self.rows else ():
            batches = self._file.iter_batches(SAMPLED_ROWS, row_groups=[number], columns=self._names(None))
            sample = next(batches, None)
            if sample is not None and sample.num_rows:
                means.append(sample.nbytes / sample.num_rows)
        return max(means)

    def nothing(self) -> Any:
        """Return the layer without its rows: columns, types, CRS."""
        return self._decoded(self._file.schema_arrow.empty_table().select(self._names(None)), 0)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the layer batch by batch, one of no rows if it has none.

        Parameters
        ----------
        columns : yield frames of these columns alone, without the layer's geometry and index; at least one.
        """
        import pyarrow as pa

        names = self._names(columns)
        start = 0
        for batch in self._file.iter_batches(self.batch_rows, columns=names):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(self._file.schema_arrow.metadata)
            yield self._decoded(table.select(names), start, bare=columns is not None)
            start += table.num_rows
        if not start:
            yield self._decoded(self._file.schema_arrow.empty_table().select(names), 0, bare=columns is not None)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        hidden = covering_columns(self._geo)
        names = [name for name in self._file.schema_arrow.names if name not in hidden]
        if columns is None:
            return names
        return [name for name in names if name in columns]

    def _decoded(self, table: Any, start: int, *, bare: bool = False) -> Any:
        import pandas as pd

        description = {**self._description, "index": {}} if bare else self._of_rows(start, table.num_rows)
        layer = decode_layer(table, self._geo, description, self._crs, self.path)
        for name in self._objects & set(layer.columns):
            if layer[name].dtype != object:
                layer[name] = pd.Series(layer[name].astype(object), dtype=object)
        return layer

    def _of_rows(self, start: int, count: int) -> dict[str, Any]:
        """Return the description of some of the rows: their part of a range that is the index."""
        index = self._description.get("index", {})
        if "range" not in index:
            return self._description
        first, _, step = index["range"]
        begin = first + start * step
        return {**self._description, "index": {**index, "range": [begin, begin + count * step, step]}}

    @cached_property
    def _objects(self) -> set[str]:
        """The columns that are of type object as a whole, because a value is missing in some batch."""
        import pyarrow as pa

        schema = self._file.schema_arrow
        pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        objects = {entry["name"] for entry in pandas.get("columns", []) if entry["numpy_type"] == "object"}
        described = self._description.get("columns", {})
        return {
            field.name
            for field in schema
            if field.name in objects
            and field.name not in described
            and (pa.types.is_integer(field.type) or pa.types.is_boolean(field.type))
            and self._has_missing(field.name)
        }

    def _has_missing(self, name: str) -> bool:
        groups = self._file.metadata
        for number in range(groups.num_row_groups):
            group = groups.row_group(number)
            for place in range(group.num_columns):
                column = group.column(place)
                if column.path_in_schema == name and (column.statistics is None or column.statistics.null_count):
                    return True
        return False


@contextmanager
def opened_layer(path: Path, batch_rows: int | None = None) -> Iterator[LayerFile]:
    """Open a layer's file for reading in batches, and close it in the end."""
    file = LayerFile(path, batch_rows)
    try:
        yield file
    finally:
        file.close()
