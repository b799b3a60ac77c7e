"""What was not believed, kept aside for a person to see.

What always holds: a record is written here before it is replaced or removed, and it is replaced or removed only under
the tag that was read, so that nothing is lost to a race.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geocairn.checkpoint import format_time
from geocairn.stores import keys
from geocairn.stores.objects import Objects

FORMAT = "geocairn-quarantine/1"


def set_aside(objects: Objects, fingerprint: str, record: bytes, reason: str) -> str:
    """Keep a record aside with the reason, and return its key. The record itself stays where it is."""
    time = format_time(objects.now())
    body: dict[str, Any] = {"format": FORMAT, "fingerprint": fingerprint, "reason": reason, "set_aside": time}
    try:
        body["record"] = record.decode("utf-8")
    except UnicodeDecodeError:
        body["record_base64"] = base64.b64encode(record).decode("ascii")
    key = keys.quarantine(fingerprint, time, "json")
    objects.write(key, json.dumps(body, indent=1).encode("utf-8"), if_absent=True)
    return key


def set_layer_aside(objects: Objects, fingerprint: str, path: Path) -> str:
    """Keep a layer aside that is not what its record says, and return its key."""
    key = keys.quarantine(fingerprint, format_time(objects.now()), "parquet")
    objects.upload(key, path)
    return key


def list_quarantine(objects: Objects, fingerprint: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield what was set aside: the fingerprint, reason, time and record (text, or base64 for what is no text)."""
    prefix = keys.QUARANTINE + (keys.check_fingerprint(fingerprint) if fingerprint else "")
    for info in objects.list(prefix):
        if info.key.endswith(".json"):
            stored = objects.read(info.key)
            if stored is not None:
                yield {"key": info.key, **json.loads(stored.data)}
