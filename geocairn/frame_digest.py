"""The digest of a layer that is handed to a task in memory: of its content in canonical Arrow form, CRS included.

What always holds: two frames of the same columns, types, values, geometries and CRS have one digest, however their
memory is laid out (chunks, offsets, byte order, what lies under a null, a pickle round trip); any other difference
gives another digest. Not-a-number is one value, whatever its bits; zero and negative zero are one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from geocairn.canonical import digest
from geocairn.stores.attributes import check_names, encode


def frame_digest(layer: Any) -> str:
    """Return the SHA-256 of a GeoDataFrame's (or DataFrame's) content, as 64 hexadecimal digits.

    The index does not count: it never reaches a checkpoint.

    Raises
    ------
    InputFailure : for column names that are not text, or a column that no Arrow type can hold.
    """
    import pandas as pd

    check_names(layer)
    parts: dict[str, Any] = {"rows": len(layer), "order": list(layer.columns)}
    geometry = [name for name, dtype in zip(layer.columns, layer.dtypes, strict=True) if str(dtype) == "geometry"]
    parts["active"] = getattr(layer, "_geometry_column_name", None)
    for name in geometry:
        crs = layer[name].crs
        parts[f"geometry {name}"] = [
            json.loads(crs.to_json()) if crs is not None else None,
            _geometry_digest(layer[name].to_numpy()),
        ]
    attributes = pd.DataFrame(layer.drop(columns=geometry)).reset_index(drop=True)
    table, description = encode(attributes)
    for name in table.column_names:
        parts[f"attribute {name}"] = [
            str(attributes.dtypes[name]),
            description["columns"].get(name),
            _column_digest(table.column(name)),
        ]
    return digest(parts)


def _geometry_digest(values: Any) -> str:
    import numpy as np
    import shapely

    coded = shapely.to_wkb(values, flavor="iso", byte_order=1, include_srid=False)
    lengths = np.fromiter((-1 if item is None else len(item) for item in coded), dtype="<i8", count=len(coded))
    found = hashlib.sha256(lengths.tobytes())
    for item in coded:
        if item is not None:
            found.update(item)
    return found.hexdigest()


def _column_digest(column: Any) -> str:
    """Return the digest of a column's values, whatever its chunks and what lies under its nulls."""
    import pyarrow as pa

    kind = column.type
    missing, content = hashlib.sha256(), hashlib.sha256()
    if _is_flat(kind):
        for chunk in column.chunks:
            missing.update(chunk.is_null().to_numpy(zero_copy_only=False).tobytes())
            for part in _plain_bytes(chunk):
                content.update(part)
    elif _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        for chunk in column.chunks:
            lengths, data = _lengths_and_data(chunk)
            missing.update(lengths)
            content.update(data)
    else:
        content.update(digest([_plain(value) for value in column.to_pylist()]).encode("ascii"))
    return digest([_type_name(kind), missing.hexdigest(), content.hexdigest()])


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _type_name(kind: Any) -> str:
    """Return the name of an Arrow type; all layouts of text are one, as pandas' type tells them apart."""
    return "text" if _is_text(kind) else str(kind)


def _is_flat(kind: Any) -> bool:
    """Return whether a type's values are numbers of one width."""
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        return bool(kind.bit_width in (32, 64)) and not pa.types.is_interval(kind)
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _plain_bytes(chunk: Any) -> Iterable[bytes]:
    """Return the values of a chunk of numbers, nulls as zero, in one byte order."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_temporal(chunk.type):
        chunk = chunk.cast(pa.int64() if chunk.type.bit_width == 64 else pa.int32())
    if pa.types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.int8())
    values = pc.fill_null(chunk, pa.scalar(0, chunk.type)).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values + 0.0)
    yield values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _lengths_and_data(chunk: Any) -> tuple[bytes, Any]:
    """Return the lengths of a chunk of texts or bytes (-1 for a null) and all of them in a row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    binary = (
        chunk.cast(pa.large_string()).cast(pa.large_binary()) if _is_text(chunk.type) else chunk.cast(pa.large_binary())
    )
    lengths = pc.fill_null(pc.binary_length(binary).cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    full = pc.fill_null(binary, b"")
    _, offsets, data = full.buffers()
    if data is None or not len(full):
        return lengths.astype("<i8").tobytes(), b""
    ends = np.frombuffer(offsets, dtype="int64")[full.offset : full.offset + len(full) + 1]
    return lengths.astype("<i8").tobytes(), memoryview(data)[int(ends[0]) : int(ends[-1])]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return ["not a number"]
    return value
