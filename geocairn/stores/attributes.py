"""Attributes between pandas and Arrow, with types that are equal on both sides.

A layer's attributes go through here on their way to a file and back, and when they are handed over in memory, so that
both ways give the same types. What always holds: `decode(*encode(frame))` has the dtypes and the index of `frame`,
and so it has when the table went through Parquet in between. What pandas' own metadata would lose (categories that
are not text, seconds as the unit of a time, the storage of strings, Arrow types) is restored from our description,
which is JSON.
"""

from __future__ import annotations

import base64
from typing import Any

from geocairn.failure import InputFailure

_REMEDY = "convert the column to one type (numbers, text, times, booleans) before this step"


def check_names(frame: Any) -> None:
    """Refuse a frame whose column names are not text, or not unique."""
    odd = [name for name in frame.columns if not isinstance(name, str)]
    if odd:
        raise InputFailure(
            f"column names must be text; {odd[0]!r} is of type {type(odd[0]).__name__}",
            remedy="rename the column, as in layer.rename(columns=str)",
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InputFailure(f"there are two columns named {twice!r}", remedy="rename one of them")


def encode(frame: Any) -> tuple[Any, dict[str, Any]]:
    """Return a frame without geometry as an Arrow table, and the description that `decode` needs.

    Raises
    ------
    InputFailure : for a column that no Arrow type can hold, such as one that mixes numbers and text.
    """
    import pandas as pd
    import pyarrow as pa

    description: dict[str, Any] = {"index": _describe_index(frame), "columns": {}}
    series = {name: frame[name] for name in frame.columns}
    for level, name in enumerate(description["index"].get("levels", [])):
        series[name] = pd.Series(frame.index.get_level_values(level), index=frame.index, name=name)
    arrays: dict[str, Any] = {}
    for name, column in series.items():
        try:
            arrays[name] = _special(name, column, description["columns"])
            if arrays[name] is None:
                plain = pd.DataFrame({name: column.reset_index(drop=True)})
                arrays[name] = pa.Table.from_pandas(plain, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputFailure(f"column {name!r} cannot be stored: {error}", remedy=_REMEDY) from error
    return _assemble(arrays), description


def decode(table: Any, description: dict[str, Any], rows: int) -> Any:
    """Return the frame of a table of attributes; `rows` is its length, which a table without columns does not know."""
    import pandas as pd

    special = {name: kind for name, kind in description.get("columns", {}).items() if name in table.column_names}
    plain = [name for name in table.column_names if name not in special]
    frame = table.select(plain).to_pandas(integer_object_nulls=True)
    if not plain:
        frame = pd.DataFrame(index=pd.RangeIndex(rows))
    restored = {name: _restore(table.column(name), special[name]) for name in special}
    columns: dict[str, Any] = {name: restored[name] if name in restored else frame[name] for name in table.column_names}
    index = description.get("index", {})
    levels = index.get("levels", [])
    whole = pd.DataFrame({name: column for name, column in columns.items() if name not in levels}, index=frame.index)
    whole.columns = pd.Index([name for name in table.column_names if name not in levels], dtype="str")
    if levels:
        names = index["names"]
        if len(levels) == 1:
            whole.index = pd.Index(columns[levels[0]]).rename(names[0])
        else:
            whole.index = pd.MultiIndex.from_arrays([columns[name] for name in levels], names=names)
    elif "range" in index:
        start, stop, step = index["range"]
        whole.index = pd.RangeIndex(start, stop, step, name=index["names"][0])
    return whole


def _describe_index(frame: Any) -> dict[str, Any]:
    import pandas as pd

    index = frame.index
    names = list(index.names)
    if any(name is not None and not isinstance(name, str) for name in names):
        raise InputFailure(f"the index is named {names!r}; names must be text", remedy="call reset_index, or rename it")
    if isinstance(index, pd.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "names": names}
    levels: list[str] = []
    for number in range(index.nlevels):
        name = f"__index_level_{number}__"
        while name in frame.columns or name in levels:
            name = "_" + name
        levels.append(name)
    return {"levels": levels, "names": names}


def _special(name: str, column: Any, described: dict[str, Any]) -> Any:
    """Return the Arrow array of a column that needs a description of ours, noting it; None for any other."""
    import pandas as pd
    import pyarrow as pa

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        values = dtype.categories
        table, inner = encode(pd.DataFrame({"categories": values.to_series(index=pd.RangeIndex(len(values)))}))
        described[name] = {"categories": _pack(table), "inner": inner, "ordered": bool(dtype.ordered)}
        # The codes are what is stored: the categories may be of any type, and may repeat nothing.
        return pa.array(column.cat.codes.to_numpy().astype("int32"), mask=column.cat.codes.to_numpy() < 0)
    if isinstance(dtype, pd.ArrowDtype):
        array = pa.chunked_array(column.array.__arrow_array__())
        schema = pa.schema([pa.field("value", array.type)])
        described[name] = {"arrow": base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")}
        return array
    if isinstance(dtype, pd.StringDtype) and dtype.storage == "python":
        described[name] = {"string": "python", "missing": "NA" if dtype.na_value is pd.NA else "nan"}
        return pa.array(column, type=pa.large_string(), from_pandas=True)
    if pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(column, skipna=True) == "string":
        described[name] = {"object": "text"}
        return pa.array(column, type=pa.large_string(), from_pandas=True)
    if dtype.kind == "M" and str(dtype).startswith("datetime64[s"):
        described[name] = {"time": str(dtype)}
        array = pa.array(column, from_pandas=True)
        return array.cast(pa.timestamp("ms", tz=array.type.tz))
    return None


def _restore(column: Any, kind: dict[str, Any]) -> Any:
    import pandas as pd
    import pyarrow as pa

    if "categories" in kind:
        table = _unpack(kind["categories"])
        categories = pd.Index(decode(table, kind["inner"], table.num_rows)["categories"]).rename(None)
        codes = column.fill_null(-1).to_numpy()
        return pd.Series(pd.Categorical.from_codes(codes, categories=categories, ordered=kind["ordered"]))
    if "arrow" in kind:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kind["arrow"])))
        whole = column if column.type == schema.field(0).type else column.cast(schema.field(0).type)
        return pd.Series(pd.arrays.ArrowExtensionArray(whole))
    if "string" in kind:
        missing = pd.NA if kind["missing"] == "NA" else float("nan")
        dtype = pd.StringDtype("python", na_value=missing)
        return pd.Series(column.to_pandas().astype(object), dtype=dtype)
    if "object" in kind:
        texts = column.to_pylist()
        return pd.Series(texts, dtype=object, index=pd.RangeIndex(len(texts)))
    return column.to_pandas().astype(kind["time"])


def _assemble(arrays: dict[str, Any]) -> Any:
    """Put columns and one-column tables together, keeping what pandas' metadata says of each."""
    import json

    import pyarrow as pa

    fields, columns, described = [], [], []
    metadata: dict[str, Any] = {}
    for name, array in arrays.items():
        if isinstance(array, pa.Table):
            fields.append(array.schema.field(0))
            columns.append(array.column(0))
            metadata = json.loads(array.schema.metadata[b"pandas"])
            described.extend(metadata["columns"])
        else:
            fields.append(pa.field(name, array.type))
            columns.append(array)
    pandas = {**metadata, "columns": described, "index_columns": [], "attributes": {}} if metadata else None
    schema = pa.schema(fields, metadata={b"pandas": json.dumps(pandas).encode()} if pandas else None)
    return pa.Table.from_arrays(columns, schema=schema)


def _pack(table: Any) -> str:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode("ascii")


def _unpack(text: str) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_all()
