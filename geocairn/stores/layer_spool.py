"""A layer that comes batch by batch: kept in a temporary file until the whole is known, then written as any layer.

What always holds: the file that is written in the end is the one that `write_layer_file` would write of the whole
layer: schema, metadata, row groups, types, also where a batch alone does not show a column's type (texts that are all
missing in one batch). The temporary files are Arrow; nobody reads them but the spool, and they go with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from geocairn.failure import CapabilityFailure, InputFailure
from geocairn.stores.layers import GeometryColumn, encode_layer, file_metadata, open_writer, row_group_rows

_REMEDY = "use backend geopandas for this step"


class LayerSpool:
    """Batches of a layer on their way to a file. Close it in the end, whatever happened.

    Parameters
    ----------
    scratch : gives a new path for a temporary file, by its ending.
    """

    def __init__(self, scratch: Callable[[str], Path]) -> None:
        self._scratch = scratch
        self._segments: list[Path] = []  # a new one wherever the schema of a batch differs from that of the one before
        self._schemas: list[Any] = []
        self._writer: Any = None
        self._geometry: dict[str, GeometryColumn] = {}
        self._active = ""
        self._described: dict[str, Any] = {}
        self._frame: dict[str, Any] = {}
        self._entries: dict[str, Any] = {}  # pandas' metadata by column
        self._types: dict[str, Any] | None = None
        self.rows = 0
        self.size = 0
        """Bytes in Arrow."""

    def add(self, layer: Any) -> None:
        """Add a batch, whose index is not kept.

        Raises
        ------
        InputFailure : for what no file can hold.
        CapabilityFailure : when the batch has other columns or types than those before.
        """
        self._check_alike(layer)
        table, description, self._active = encode_layer(layer.reset_index(drop=True), self._geometry)
        self._described.update(description["columns"])
        frame = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
        for entry in frame.get("columns", []):
            if self._entries.get(entry["name"], {"pandas_type": "empty"})["pandas_type"] == "empty":
                self._entries[entry["name"]] = entry
        self._frame = frame or self._frame
        table = table.replace_schema_metadata(None)
        if not self._schemas or self._schemas[-1] != table.schema:
            self._begin(table.schema)
        self._writer.write_table(table)
        self.rows += len(layer)
        self.size += table.nbytes

    def boxes(self) -> Boxes:
        """Return the bounds of the rows, to be gone through as often as need be. No batch can be added any more."""
        self._end()
        return Boxes(self._segments)

    def write(self, path: Path) -> None:
        """Write the whole as a layer's file, and let the temporary files go.

        Raises
        ------
        InputFailure : for a column whose batches have no type in common, or what Parquet cannot hold.
        """
        import pyarrow as pa

        self._end()
        try:
            unified = pa.unify_schemas(self._schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise InputFailure(
                f"a column holds values of several types: {error}",
                remedy="convert the column to one type (numbers, text, times, booleans) before this step",
            ) from error
        schema = unified.with_metadata(self._metadata(unified))
        rows = row_group_rows(self.rows, sum(column.size for column in self._geometry.values()))
        with open_writer(path, schema) as writer:
            for table in self._groups(schema, rows):
                writer.write_table(table, row_group_size=rows)
        self.close()

    def close(self) -> None:
        """Let the temporary files go. May be called again."""
        try:
            self._end()
        finally:  # what cannot be finished on a full disk must not stay on it
            while self._segments:
                self._segments.pop().unlink(missing_ok=True)

    def _check_alike(self, layer: Any) -> None:
        types = dict(zip(layer.columns, layer.dtypes, strict=True))
        if self._types is None:
            self._types = types
        elif list(types) != list(self._types) or any(types[name] != self._types[name] for name in types):
            raise CapabilityFailure("batches of the result differ in columns or types", remedy=_REMEDY)

    def _begin(self, schema: Any) -> None:
        import pyarrow as pa

        self._end()
        path = self._scratch(".arrow")
        self._segments.append(path)
        self._schemas.append(schema)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema, options=options)

    def _end(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                writer.close()
            finally:
                self._sink.close()

    def _metadata(self, schema: Any) -> dict[bytes, bytes]:
        """Return the metadata of the whole: each column's, in the columns' order."""
        plain = [name for name in schema.names if name in self._entries and name not in self._described]
        entries = [{**self._entries[name], **_decimal(schema.field(name).type)} for name in plain]
        pandas = {**self._frame, "columns": entries} if entries else None
        described = {name: self._described[name] for name in schema.names if name in self._described}
        table = schema.with_metadata({b"pandas": json.dumps(pandas).encode()} if pandas else None).empty_table()
        description = {"index": {"range": [0, self.rows, 1], "names": [None]}, "columns": described}
        return file_metadata(table, description, self._geometry, self._active, self.rows)

    def _groups(self, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the whole in tables of so many rows."""
        import pyarrow as pa

        waiting: list[Any] = []
        count = 0
        for batch in _batches(self._segments):
            waiting.append(pa.Table.from_batches([batch]).cast(schema))
            count += batch.num_rows
            while count >= rows:
                table = pa.concat_tables(waiting)
                yield table.slice(0, rows)
                count -= rows
                waiting = [table.slice(rows)]
        if count or not self.rows:
            yield pa.concat_tables(waiting) if waiting else schema.empty_table()


def _decimal(kind: Any) -> dict[str, Any]:
    """Return what pandas' metadata says of a decimal type beside its name; nothing of any other."""
    import pyarrow as pa

    return {"metadata": {"precision": kind.precision, "scale": kind.scale}} if pa.types.is_decimal(kind) else {}


class Boxes:
    """The bounds of a spooled layer's rows: arrays of four columns, NaN for a row without coordinates."""

    def __init__(self, segments: list[Path]) -> None:
        self._segments = segments

    def __iter__(self) -> Iterator[Any]:
        """Yield them part by part."""
        import numpy as np

        for batch in _batches(self._segments, only_last=True):
            corners = [batch.column(0).field(number) for number in range(4)]
            columns = [corner.to_numpy(zero_copy_only=False) for corner in corners]
            yield np.column_stack(columns).astype("float64")


def _batches(segments: list[Path], *, only_last: bool = False) -> Iterator[Any]:
    import pyarrow as pa

    for path in segments:
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_file(source) as whole:
            options = pa.ipc.IpcReadOptions(included_fields=[len(whole.schema) - 1] if only_last else None)
            reader = pa.ipc.open_file(source, options=options)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
