"""This process as others can know it, and whether a process that is named so is gone.

A name holds host, boot, process-id namespace, process id and start time. What always holds: a process is called gone
only where that is certain, which it can be only on the same host, boot and namespace.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import Any

_PROC = Path("/proc")


def this_process() -> dict[str, Any]:
    """Return the name of this process: host, boot, namespace, pid and start time."""
    return _named(os.getpid())


@cache
def _named(pid: int) -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _boot(),
        "namespace": _namespace(),
        "pid": pid,
        "started": _start_time(pid) or "",
    }


def is_gone(name: dict[str, Any]) -> bool:
    """Return whether the process of this name has certainly ended."""
    here = this_process()
    if not here["boot"] or any(name.get(part) != here[part] for part in ("host", "boot", "namespace")):
        return False
    pid = name.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it exists and belongs to somebody else: its start time tells whether it is the same
    started = _start_time(pid)
    return started is None or bool(name.get("started") and started != name["started"])


def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """Return the start time in ticks since boot, '' where it cannot be known, None for a process that has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except FileNotFoundError:
        return None if _PROC.joinpath("self").exists() else ""
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    # A killed process stays in the table until its parent has waited for it: it is gone all the same.
    return None if fields[0] in ("Z", "X") else fields[19]
