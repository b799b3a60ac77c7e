"""The digest of a layer that is handed to a task in memory: of its content in canonical Arrow form, CRS included.

What always holds: two frames of the same columns, types, values, geometries and CRS have one digest, however their
memory is laid out (chunks, offsets, what lies under a null, a pickle round trip); any other difference gives another
digest.
"""

from __future__ import annotations

import hashlib
import json
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
    import shapely

    found = hashlib.sha256()
    for coded in shapely.to_wkb(values, flavor="iso", byte_order=1, include_srid=False):
        if coded is None:
            found.update(b"-")
        else:
            found.update(str(len(coded)).encode("ascii") + b":")
            found.update(coded)
    return found.hexdigest()


def _column_digest(column: Any) -> str:
    """Return the digest of a column's values, whatever its chunks and what lies under its nulls."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = hashlib.sha256(str(column.type).encode("utf-8"))
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_nested(whole.type) or pa.types.is_decimal(whole.type) or pa.types.is_null(whole.type):
        found.update(digest([_plain(value) for value in whole.to_pylist()]).encode("ascii"))
        return found.hexdigest()
    found.update(whole.is_null().to_numpy(zero_copy_only=False).tobytes())
    if pa.types.is_string(whole.type) or pa.types.is_large_string(whole.type) or pa.types.is_string_view(whole.type):
        whole = whole.cast(pa.large_string()).cast(pa.large_binary())
    if pa.types.is_binary(whole.type) or pa.types.is_large_binary(whole.type):
        lengths = pc.fill_null(pc.binary_length(whole), 0).cast(pa.int64())
        found.update(lengths.to_numpy(zero_copy_only=False).tobytes())
        found.update(b"".join(pc.fill_null(whole, b"").to_pylist()))
        return found.hexdigest()
    if pa.types.is_temporal(whole.type):
        whole = whole.cast(pa.int64() if whole.type.bit_width == 64 else pa.int32())
    if pa.types.is_boolean(whole.type):
        whole = whole.cast(pa.int8())
    values = pc.fill_null(whole, pa.scalar(0, whole.type)).to_numpy(zero_copy_only=False)
    found.update(values.tobytes())
    return found.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    return value
