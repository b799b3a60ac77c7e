"""How much memory this process can still take: what the machine has left, its container grants, its limits allow.

What always holds: the least of what is known counts; where nothing is known, that is said and no number made up.
"""

from __future__ import annotations

import ctypes
import gc
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (
    ("memory.max", "memory.current"),  # version 2 of control groups
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # version 1
)


def available_memory() -> int | None:
    """Return the bytes that this process can still take; None where the system does not tell."""
    return min(_known(), default=None)


def parse_bytes(text: str) -> int | None:
    """Return the number of bytes of a text such as `512MiB`, `2GB` or `1000`; None where it is no such amount."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    return None if match is None else int(float(match[1]) * _UNITS[match[2].upper()])


def give_back() -> None:
    """Give the system back what this process has freed and still holds in reserve, where its libraries can do that."""
    gc.collect()
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)


def _known() -> Iterator[int]:
    machine = _kibibytes(Path("/proc/meminfo"), "MemAvailable")
    if machine is not None:
        yield machine
    for limit, used in _LIMITS:
        most, taken = _number(_GROUPS / limit), _number(_GROUPS / used)
        if most is not None and taken is not None:
            yield max(0, most - taken)
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    size = _kibibytes(Path("/proc/self/status"), "VmSize")
    if soft != resource.RLIM_INFINITY and size is not None:
        yield max(0, soft - size)


def _kibibytes(path: Path, name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s*(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found is not None else None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max" is no limit
