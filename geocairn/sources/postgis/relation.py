"""Which table or query of a database a plan speaks of, held against the other fields before anything is connected.

What always holds: names are taken as they are written, letter case included, and a table without a schema is one of the
schema `public`, whatever the search path of the role that connects; so a plan names the same table for everybody. This
module loads nothing of PostgreSQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geocairn.failure import InputFailure
from geocairn.sources.formats import Format
from geocairn.sources.uri import DatabasePlace, Place

if TYPE_CHECKING:
    from geocairn.sources.source import Source

POSTGIS = Format("postgis", (), None, "PostGIS table", layers=True)
"""The format of a table in a database."""

DEFAULT_SCHEMA = "public"
_NAMES = ("postgis", "postgresql", "postgres", "pg")
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_LONGEST = 63
_WRITE_LAYER = "write layer: schema.table (or table, for one in the schema public)"


@dataclass(frozen=True)
class Relation:
    """A table or view of a database."""

    schema: str
    name: str

    @property
    def sql(self) -> str:
        """How SQL names it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        return ".".join(_shown(part) for part in (self.schema, self.name))


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever letters are in it."""
    return '"' + name.replace('"', '""') + '"'


def relation_named(text: str, where: str = "") -> Relation:
    """Return the relation that `schema.table` or `table` names; a name with a dot in it stands in double quotes.

    Raises
    ------
    InputFailure : for text of another form, or a name longer than PostgreSQL keeps.
    """
    parts, at = [], 0
    while found := _PART.match(text, at):
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2].strip())
        at = found.end()
        if text[at : at + 1] != "." or at + 1 == len(text):
            break
        at += 1
    if at != len(text) or len(parts) not in (1, 2) or not all(parts) or "\0" in text:
        raise InputFailure(f"the layer {text!r} is no table's name", where=where, remedy=_WRITE_LAYER)
    for part in parts:
        if len(part.encode("utf-8")) > _LONGEST:
            raise InputFailure(
                f"the name {part!r} has more than the {_LONGEST} bytes that PostgreSQL keeps",
                where=where,
                remedy="shorten it",
            )
    return Relation(parts[0] if len(parts) == 2 else DEFAULT_SCHEMA, parts[-1])


def target_relation(layer: str | None, where: str) -> Relation:
    """Return the table that an output's `layer` names.

    Raises
    ------
    InputFailure : when it names none.
    """
    if layer is None:
        raise InputFailure("is a database, and layer does not say which table", where=where, remedy=_WRITE_LAYER)
    return relation_named(layer, where)


def table_address(place: DatabasePlace, relation: Relation) -> str:
    """Return the one way of writing where a table is, without who connects."""
    return f"{place}/{relation}"


def check_source(source: Source, place: Place) -> None:
    """Hold the fields that are about databases against where the source is.

    Raises
    ------
    InputFailure : for `sql` or `version_sql` of a file, a database of which neither table nor SQL is said, and fields
        that contradict each other.
    """
    if not isinstance(place, DatabasePlace):
        for name in ("sql", "version_sql"):
            if getattr(source, name) is not None:
                raise InputFailure(
                    f"{name}: is for a database, and this is a file",
                    where=source.uri,
                    remedy=f"leave {name} out (columns, where and bbox say what to read of a file)",
                )
        return
    if source.sql is None and source.layer is None:
        raise InputFailure(
            "is a database, and neither layer nor sql says what to read of it",
            where=source.uri,
            remedy=f"{_WRITE_LAYER}, or sql: a SELECT",
        )
    for one, other in (("sql", "layer"), ("version_sql", "version"), ("encoding", "uri")):
        if getattr(source, one) is not None and getattr(source, other) is not None:
            why = "a database tells its encoding itself" if one == "encoding" else f"{other} says it already"
            raise InputFailure(f"{one}: {why}", where=source.uri, remedy=f"leave {one} out")
    if source.layer is not None:
        relation_named(source.layer, source.uri)


def format_for(driver: str | None, where: str) -> Format:
    """Return the format of an output in a database.

    Raises
    ------
    InputFailure : when `driver` is one for files.
    """
    if driver is not None and not is_postgis(driver):
        raise InputFailure(
            f"driver {driver!r} writes a file, and this is a database",
            where=where,
            remedy="leave driver out, or write postgis",
        )
    return POSTGIS


def is_postgis(driver: str) -> bool:
    """Return whether a driver's name means a table in a database."""
    return driver.lower() in _NAMES


def _shown(name: str) -> str:
    return quoted(name) if "." in name or '"' in name else name
