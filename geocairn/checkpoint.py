"""The checkpoint: the committed record of one step, a reference to its layer and the facts about it.

A record is JSON and closes with a digest of itself, so that a truncated or altered one is told from a whole one. It
never holds the data. What always holds: a record is written only after its layer is at rest, it is never changed
afterwards, and `parse_record` gives back a checkpoint that is whole or raises.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEME = 1
"""Number of the fingerprint scheme; part of every key. A change of rule raises it, and `status` says so in words."""

RECORD_FORMAT = "geocairn-checkpoint/1"

_CLOSE = b',\n "record_sha256": "'
"""Before the digest that closes a record; what stands before it, closed by a brace, is what the digest is of."""

_FINGERPRINT = re.compile(r"[0-9a-f]{64}\Z")


class DamagedRecord(ValueError):
    """A record that does not parse, is not whole, or speaks of another fingerprint."""


def is_fingerprint(text: object) -> bool:
    """Return whether `text` is a fingerprint: 64 lower-case hexadecimal digits."""
    return isinstance(text, str) and _FINGERPRINT.match(text) is not None


@dataclass(frozen=True)
class LayerReference:
    """Where a layer lies in the store, and what must be found there."""

    key: str
    """The object's key in the store."""
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True)
class LayerFacts:
    """What the gate saw of a layer."""

    rows: int
    columns: dict[str, str] = field(default_factory=dict)
    """Attribute columns and their types."""
    geometry_column: str | None = None
    geometry_types: list[str] = field(default_factory=list)
    """Such as `Polygon`, `MultiPolygon Z`; those of null and empty geometries are not counted."""
    crs: str | None = None
    """PROJJSON text."""
    crs_name: str | None = None
    """`EPSG:5070`, or the CRS's name where it has no authority code."""
    bounds: list[float] | None = None
    """minx, miny, maxx, maxy in the CRS's units; None for a layer with no coordinates."""
    missing: int = 0
    """Rows of null geometry."""
    empty: int = 0
    """Rows of empty geometry."""
    invalid: int = 0
    outside_area: int = 0
    """Rows outside the CRS's area of use (on the globe)."""
    gate: int = 0
    """Version of the gate that saw it."""


@dataclass(frozen=True)
class Publication:
    """An output: where it was published and what must be found there."""

    uri: str
    driver: str
    size: int
    sha256: str
    highlight: list[dict[str, Any]] | None = None
    """The rows that the plan wants told with the answer."""


@dataclass(frozen=True)
class Checkpoint:
    """The committed record of one step, source or publication. See the module's documentation."""

    fingerprint: str
    kind: Literal["step", "source", "publication"]
    operation: str
    version: str
    """The operation's version."""
    parameters: dict[str, Any]
    """With defaults filled in, as JSON values."""
    inputs: dict[str, Any]
    """Fingerprints by role: one, or a list of them."""
    facts: LayerFacts
    layer: LayerReference | None = None
    """None for a source, whose layer is the source itself, and for a publication."""
    source: dict[str, Any] | None = None
    """For a source: its read parameters, canonical URI and pinned version."""
    publication: Publication | None = None
    step: str = ""
    """The name of the step that first made it; not part of the fingerprint."""
    scopes: list[str] = field(default_factory=list)
    """Who may read it: the scopes of the private sources behind it. Empty: everybody."""
    caveats: list[str] = field(default_factory=list)
    """What changes the meaning of the data, the inputs' caveats included."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the operation reported: dropped parts, the pipeline used, …"""
    seconds: float = 0.0
    """Time to compute, without storing."""
    backend: str = ""
    attempts: int = 1
    libraries: dict[str, str] = field(default_factory=dict)
    created: str = ""
    """UTC, ISO 8601."""
    expires: str | None = None
    """UTC, ISO 8601; None for a pinned one."""
    environment: dict[str, Any] = field(default_factory=dict)
    """What of the environment is part of the fingerprint."""
    repair: bool = False
    """Whether the gate was told to repair (on_invalid)."""
    fallback_for: dict[str, str] | None = None
    """For a fallback: fingerprint and operation of the step whose place it took, and why it may (because)."""

    def expired(self, now: float) -> bool:
        """Return whether it has expired at `now` (seconds since the epoch)."""
        return self.expires is not None and parse_time(self.expires) <= now

    def readable_by(self, scopes: set[str]) -> bool:
        """Return whether someone with these scopes may read it."""
        return set(self.scopes) <= scopes

    def replaced(self, **changes: Any) -> Checkpoint:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def format_time(seconds: float) -> str:
    """Return seconds since the epoch as ISO 8601 in UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> float:
    """Return the seconds since the epoch of an ISO 8601 time."""
    return dt.datetime.fromisoformat(text).timestamp()


def write_record(checkpoint: Checkpoint) -> bytes:
    """Return the record of a checkpoint as JSON, closed by a digest of itself.

    Raises
    ------
    ValueError : when a value in it is not JSON.
    """
    body = {"format": RECORD_FORMAT, "scheme": SCHEME, **dataclasses.asdict(checkpoint)}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1)
    check = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return text[:-2].encode("utf-8") + _CLOSE + f'{check}"\n}}\n'.encode("ascii")


def parse_record(data: bytes, fingerprint: str | None = None) -> Checkpoint:
    """Return the checkpoint that a record holds.

    Raises
    ------
    DamagedRecord : when it is not whole, was altered, is of another format, or names another fingerprint.
    """
    text, mark, close = data.rpartition(_CLOSE)
    check = hashlib.sha256(text + b"\n}").hexdigest()
    if not mark or close != f'{check}"\n}}\n'.encode("ascii"):
        raise DamagedRecord("the record is not whole, or was altered: it does not close with its digest")
    try:
        body = json.loads(text + b"\n}")
    except ValueError as error:
        raise DamagedRecord(f"the record is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise DamagedRecord("the record is not a JSON object")
    if body.pop("format", None) != RECORD_FORMAT or body.pop("scheme", None) != SCHEME:
        raise DamagedRecord("the record is of another format")
    try:
        facts = LayerFacts(**body.pop("facts"))
        layer = body.pop("layer")
        publication = body.pop("publication")
        checkpoint = Checkpoint(
            **body,
            facts=facts,
            layer=LayerReference(**layer) if layer else None,
            publication=Publication(**publication) if publication else None,
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise DamagedRecord(f"the record does not have the fields of its format: {error}") from error
    if not is_fingerprint(checkpoint.fingerprint) or (fingerprint and checkpoint.fingerprint != fingerprint):
        raise DamagedRecord("the record speaks of another fingerprint")
    return checkpoint


def json_values(value: Any) -> Any:
    """Return a value as JSON holds it: mappings of text, lists, numbers; geometry as WKT."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_values(item) for item in value]
    if hasattr(value, "wkt"):
        return str(value.wkt)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return str(value)
