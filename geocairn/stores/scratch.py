"""Temporary files that can be told from those of a process that is gone.

What always holds: a name begins with host, boot, process id and start time, so that `clean` removes what a killed
process left behind and nothing that a living one still writes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import stat
import tempfile
from pathlib import Path

from geocairn.stores.process import is_gone, this_process

FOREIGN_AGE = 24 * 3600.0
"""Seconds after which a temporary file of another machine counts as left behind."""

_counter = itertools.count()


class Scratch:
    """A folder of temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, suffix: str = "") -> Path:
        """Return a path that no other file has; the folder must be there."""
        name = this_process()
        parts = [_place(name), str(name["pid"]), str(name["started"]), str(next(_counter)), secrets.token_hex(4)]
        return self.folder / ("~".join(parts) + suffix)

    def clean(self, now: float) -> int:
        """Remove the files of processes that are gone, and old ones of other machines; return how many."""
        found = self.left_behind(now)
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)

    def left_behind(self, now: float) -> list[Path]:
        """Return the files of processes that are gone, and old ones of other machines."""
        found: list[Path] = []
        try:
            entries = list(os.scandir(self.folder))
        except FileNotFoundError:
            return []
        here = this_process()
        for entry in entries:
            parts = entry.name.split("~")
            if len(parts) != 5 or not parts[1].isdigit():
                continue
            if parts[0] == _place(here):
                left = is_gone({**here, "pid": int(parts[1]), "started": parts[2]})
            else:
                try:
                    left = entry.stat().st_mtime < now - FOREIGN_AGE
                except FileNotFoundError:
                    continue
            if left:
                found.append(Path(entry.path))
        return found


def _place(name: dict[str, object]) -> str:
    text = "\0".join(str(name[part]) for part in ("host", "boot", "namespace"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def private_folder() -> Path:
    """Return a folder for temporary files that only this user can enter, for stores that are not on this machine."""
    folder = Path(tempfile.gettempdir()) / f"geocairn-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="geocairn-"))
    return folder
