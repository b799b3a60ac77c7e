"""A small local memory of facts that are dear to find and never change: digests, CRS facts, what a source holds.

What always holds: losing the memory costs time, never an answer. A damaged entry is a miss, a folder that cannot be
written or that others may write is done without, and every entry carries its own key, so that a wrong file in its place
is seen. Entries are JSON, one file each, replaced atomically.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

_LAYOUT = "memory-1"


class Memory:
    """Facts by namespace and key, in a folder that only its owner may use.

    Parameters
    ----------
    folder : where to keep it; `$GEOCAIRN_CACHE`, else `$XDG_CACHE_HOME/geocairn`, else `~/.cache/geocairn`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @cached_property
    def root(self) -> Path | None:
        """The folder in use, made when first asked for; None where it cannot be had or is not safe to trust."""
        try:
            root = (self._folder or default_folder()) / _LAYOUT
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = root.stat()
        except (OSError, RuntimeError):  # RuntimeError: no home folder
            return None
        theirs = hasattr(os, "getuid") and facts.st_uid != os.getuid()
        writable_by_others = os.name == "posix" and stat.S_IMODE(facts.st_mode) & 0o022
        return None if theirs or writable_by_others else root

    def get(self, namespace: str, key: str) -> dict[str, Any] | None:
        """Return the value remembered under the key, or None."""
        path = self._path(namespace, key)
        if path is None:
            return None
        try:
            entry = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(entry, dict) or entry.get("key") != key or not isinstance(entry.get("value"), dict):
            return None
        value: dict[str, Any] = entry["value"]
        return value

    def put(self, namespace: str, key: str, value: dict[str, Any]) -> None:
        """Remember a JSON-able value under the key; where that is not possible, go on without."""
        path = self._path(namespace, key)
        if path is None:
            return
        text = json.dumps({"key": key, "value": value}, ensure_ascii=False)
        temporary = None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _path(self, namespace: str, key: str) -> Path | None:
        if self.root is None:
            return None
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return self.root / namespace / name[:2] / f"{name}.json"


def default_folder() -> Path:
    """Return the folder of geocairn's local caches, by the environment."""
    own = os.environ.get("GEOCAIRN_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "geocairn"
