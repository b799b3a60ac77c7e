"""A GeoParquet source as its files: what each says of itself, and the one layer that they are together.

What always holds: the files come in the order of their paths. They agree in CRS, geometry column and columns, else the
first that differs is refused by name; a column's type may be wider in one file than in another where no value changes
by it (a whole number of 32 bits among 64). The folders' `key=value` are columns: whole numbers where every value is
one that is written without a leading zero, else text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from geocairn.crs import crs_label
from geocairn.failure import InputFailure
from geocairn.sources.formats import PARQUET, check_content, local_parts
from geocairn.sources.geoparquet.metadata import crs_in, geo_metadata
from geocairn.sources.ranges import RangeFile
from geocairn.sources.stated_crs import same_crs

_AT_ONCE = 8
"""Footers that are fetched side by side."""
_WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class ParquetPart:
    """One file of a GeoParquet source."""

    role: str
    """Its path within the folder; empty where the file is the source."""
    content: Path | RangeFile
    """What pyarrow reads."""


Located = Path | Sequence[ParquetPart]
"""A file or folder on this machine, or files that lie elsewhere."""


@dataclass(frozen=True)
class ParquetFile:
    """One file, as its footer tells."""

    part: ParquetPart
    where: str
    schema: Any
    metadata: Any
    geo: dict[str, Any]
    """Its `geo` metadata; without columns where it has none and is read as a table."""

    def read(self, groups: list[int], columns: list[str]) -> Any:
        """Return these row groups and columns as an Arrow table; of a file that is elsewhere nothing else is fetched.

        Raises
        ------
        InputFailure : when it is damaged.
        """
        import pyarrow as pa

        if not groups:
            return self.schema.empty_table().select(columns)
        content = self.part.content
        try:
            if isinstance(content, RangeFile):
                with content.holding(self._ranges(groups, columns)), _opened(self.part, self.where) as file:
                    return file.read_row_groups(groups, columns=columns, use_threads=False)
            with _opened(self.part, self.where) as file:
                return file.read_row_groups(groups, columns=columns)
        except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
            raise _unsound(error, self.where) from error

    def _ranges(self, groups: list[int], columns: list[str]) -> Iterator[tuple[int, int]]:
        """Give where in the file the columns' chunks are."""
        for number in groups:
            group = self.metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                path = chunk.path_in_schema
                if any(path == name or path.startswith(f"{name}.") for name in columns):
                    start = chunk.data_page_offset
                    if chunk.has_dictionary_page:
                        start = min(start, chunk.dictionary_page_offset)
                    yield start, start + chunk.total_compressed_size


@dataclass(frozen=True)
class Dataset:
    """The files of a source, which agree."""

    files: tuple[ParquetFile, ...]

    @property
    def geo(self) -> dict[str, Any]:
        """The metadata of the first file."""
        return self.files[0].geo

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns that the folders' names make; one that a file has itself is not among them."""
        names = self.files[0].schema.names
        return tuple(name for name in _keys(self.files[0].part.role) if name not in names)

    @cached_property
    def key_values(self) -> dict[str, list[Any]]:
        """The value of each key in each file."""
        found: dict[str, list[Any]] = {}
        for key in self.keys:
            texts = [_keys(file.part.role)[key] for file in self.files]
            whole = all(text is None or _WHOLE_NUMBER.fullmatch(text) for text in texts) and any(texts)
            found[key] = [int(text) if whole and text is not None else text for text in texts]
        return found

    @cached_property
    def schema(self) -> Any:
        """The columns of all files, each of the widest type that one of them has.

        Raises
        ------
        InputFailure : for types that do not go together, naming file and column.
        """
        import pyarrow as pa

        first = self.files[0].schema
        fields = []
        for field in first:
            kind = field.type
            for file in self.files[1:]:
                wider = _wider(kind, file.schema.field(field.name).type)
                if wider is None:
                    raise InputFailure(
                        f"its column {field.name!r} is {file.schema.field(field.name).type}, and {kind} in the files "
                        "of its folder before it",
                        where=file.where,
                        remedy="write the files again with one type for the column, or leave it out with columns",
                    )
                kind = wider
            fields.append(pa.field(field.name, kind))
        return pa.schema(fields, metadata=first.metadata)


def open_dataset(located: Located, uri: str, *, table: bool = False) -> Dataset:
    """Return what the footers of all files say.

    Parameters
    ----------
    table : whether files without geometry are meant too.

    Raises
    ------
    InputFailure : for a table without geometry, broken metadata, or files of one folder that do not go together.
    """
    if isinstance(located, Path):
        parts = [ParquetPart(part.role, part.path) for part in local_parts(located, PARQUET)]
        files = [_footer(part, uri, table) for part in parts]
    elif len(located) == 1:
        files = [_footer(located[0], uri, table)]
    else:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            files = list(pool.map(lambda part: _footer(part, uri, table), located))
    for file in files[1:]:
        _check_alike(files[0], file)
    return Dataset(tuple(files))


def _footer(part: ParquetPart, uri: str, table: bool) -> ParquetFile:
    where = uri if not part.role else f"{uri.rstrip('/')}/{part.role}"
    if isinstance(part.content, Path):
        check_content(part.content, PARQUET, where)
    with _opened(part, where) as file:
        schema, metadata = file.schema_arrow, file.metadata
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise InputFailure(f"has the column {repeated[0]!r} twice", where=where, remedy="write it again with one")
    if metadata.num_row_groups and any(
        metadata.row_group(0).column(number).file_path for number in range(metadata.num_columns)
    ):
        raise InputFailure(
            "is a Parquet file whose data lie in other files", where=where, remedy="name the files that hold the data"
        )
    stated = metadata.metadata or {}
    bare = table and b"geo" not in stated
    geo = {"columns": {}, "primary_column": None} if bare else geo_metadata(stated, schema.names, where)
    return ParquetFile(part, where, schema, metadata, geo)


@contextmanager
def _opened(part: ParquetPart, where: str) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(part.content, pre_buffer=isinstance(part.content, Path))
    except (pa.ArrowInvalid, OSError) as error:
        raise _unsound(error, where) from error
    with file:
        yield file


def _unsound(error: Exception, where: str) -> InputFailure:
    return InputFailure(f"is not a sound Parquet file: {error}", where=where, remedy="fetch or write it again")


def _check_alike(first: ParquetFile, file: ParquetFile) -> None:
    if file.geo["primary_column"] != first.geo["primary_column"]:
        raise InputFailure(
            f"differs in its geometry column from the first file of its folder: {file.geo['primary_column']!r}, "
            f"and there {first.geo['primary_column']!r}",
            where=file.where,
        )
    missing = [name for name in first.schema.names if name not in file.schema.names]
    further = [name for name in file.schema.names if name not in first.schema.names]
    if missing or further:
        words = [f"has no {', '.join(map(repr, missing))}"] if missing else []
        words += [f"has {', '.join(map(repr, further))}, which that has not"] if further else []
        raise InputFailure(
            f"differs in its columns from the first file of its folder: it {' and '.join(words)}",
            where=file.where,
            remedy="write the files again with the same columns",
        )
    if list(_keys(file.part.role)) != list(_keys(first.part.role)):
        raise InputFailure(
            f"lies in folders of the keys {', '.join(_keys(file.part.role)) or '(none)'}, and the first file of "
            f"{', '.join(_keys(first.part.role)) or '(none)'}",
            where=file.where,
            remedy="put the files in folders of the same keys (key=value), in one order",
        )
    for name, described in first.geo["columns"].items():
        if name not in file.geo["columns"]:
            raise InputFailure(f"its column {name!r} is no geometry, as it is in the first file", where=file.where)
        if file.geo["columns"][name].get("crs", "absent") == described.get("crs", "absent"):
            continue
        ours, theirs = crs_in(file.geo["columns"][name]), crs_in(described)
        if (ours is None) != (theirs is None) or (ours is not None and not same_crs(ours, theirs)):
            raise InputFailure(
                f"differs in CRS from the first file of its folder: {_crs_words(ours)}, and there {_crs_words(theirs)}",
                where=file.where,
                remedy="reproject the files to one CRS",
            )


def _crs_words(crs: Any) -> str:
    return "none" if crs is None else crs_label(crs)


def _keys(role: str) -> dict[str, str | None]:
    """Return key and value of the folders that are named `key=value`."""
    found: dict[str, str | None] = {}
    for name in role.split("/")[:-1]:
        key, sign, value = name.partition("=")
        if sign and key:
            found[unquote(key)] = None if value == _NO_VALUE else unquote(value)
    return found


def _wider(left: Any, right: Any) -> Any:
    """Return the type that holds every value of both unchanged, None where there is none of them that does."""
    from pyarrow import types

    if left.equals(right):
        return left
    for one, other in ((left, right), (right, left)):
        if any(holds(one, other, types) for holds in _HOLDS):
            return one
    return None


def _text(kind: Any, types: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _whole_in_whole(one: Any, other: Any, types: Any) -> bool:
    if not (types.is_integer(one) and types.is_integer(other)):
        return False
    if types.is_signed_integer(one) == types.is_signed_integer(other):
        return bool(one.bit_width >= other.bit_width)
    return bool(types.is_signed_integer(one) and one.bit_width > other.bit_width)


def _number_in_number(one: Any, other: Any, types: Any) -> bool:
    if not types.is_floating(one):
        return False
    if types.is_floating(other):
        return bool(one.bit_width >= other.bit_width)
    exact = {16: 8, 32: 16, 64: 32}[one.bit_width]
    return bool(types.is_integer(other) and other.bit_width <= exact)


def _same_in_another_form(one: Any, other: Any, types: Any) -> bool:
    if types.is_null(other):
        return True
    if types.is_dictionary(other) and not types.is_dictionary(one):
        return bool(one.equals(other.value_type) or (_text(one, types) and _text(other.value_type, types)))
    if _text(one, types) and _text(other, types):
        return bool(types.is_large_string(one))
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view)
    if any(test(one) for test in binary) and any(test(other) for test in binary):
        return bool(types.is_large_binary(one))
    return False


def _time_in_time(one: Any, other: Any, types: Any) -> bool:
    if types.is_timestamp(one) and types.is_timestamp(other) and one.tz == other.tz:
        finer = ("s", "ms", "us")  # nanoseconds hold fewer years
        return one.unit in finer and other.unit in finer and finer.index(one.unit) >= finer.index(other.unit)
    return False


_HOLDS: tuple[Callable[[Any, Any, Any], bool], ...] = (
    _whole_in_whole,
    _number_in_number,
    _same_in_another_form,
    _time_in_time,
)
