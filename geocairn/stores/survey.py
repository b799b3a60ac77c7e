"""Look-ups of many fingerprints at once.

A folder is asked for each. An S3 bucket is listed, a thousand keys a request, records first and layers after them, so
that a record that is seen has its layer in a later listing; records that changed since this machine last read them
are read concurrently. What always holds: the answer is the one that single look-ups would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from geocairn.stores.belief import LookUp, judge
from geocairn.stores.keys import CHECKPOINTS, LAYERS, SHARED
from geocairn.stores.objects import PAGE, Info, Objects, Stored

if TYPE_CHECKING:
    from geocairn.memory import Memory

FEW = 10
"""Up to so many fingerprints are looked up one by one."""

THREADS = 16

_NAMESPACE = "records"


def survey(
    objects: Objects,
    fingerprints: list[str],
    look_up: Callable[[str], LookUp],
    memory: Memory | None = None,
) -> dict[str, LookUp]:
    """Return a look-up for each of `fingerprints`, by the way that costs least."""
    if objects.local(SHARED.record("0" * 64)) is not None:
        return {fingerprint: look_up(fingerprint) for fingerprint in fingerprints}
    if len(fingerprints) <= FEW:
        return dict(zip(fingerprints, _concurrently(look_up, fingerprints), strict=True))
    return _by_listing(objects, fingerprints, memory)


def _by_listing(objects: Objects, fingerprints: list[str], memory: Memory | None) -> dict[str, LookUp]:
    if memory is None:
        from geocairn.memory import Memory

        memory = Memory()
    wanted = {SHARED.record(fingerprint): fingerprint for fingerprint in fingerprints}
    listed = _listing(objects, CHECKPOINTS, _pages(len(wanted)))

    def record(fingerprint: str) -> Stored | None:
        key = SHARED.record(fingerprint)
        if listed is not None:
            info = listed.get(key)
            if info is None:
                return None
            known = memory.get(_NAMESPACE, _remembered(objects, fingerprint, info.tag))
            if known is not None and isinstance(known.get("record"), str):
                return Stored(known["record"].encode("utf-8"), info.tag)
        return objects.read(key)

    stored = dict(zip(fingerprints, _concurrently(record, fingerprints), strict=True))
    for fingerprint, found in stored.items():
        _remember(memory, objects, fingerprint, found, listed)
    sizes = _listing(objects, LAYERS, _pages(len(wanted))) if any(stored.values()) else {}
    now = objects.now()

    def size_of(key: str) -> int | None:
        info = sizes.get(key) if sizes is not None else objects.head(key)
        return info.size if info else None

    def judged(fingerprint: str) -> LookUp:
        return judge(fingerprint, stored[fingerprint], now, size_of)

    if sizes is not None:
        return {fingerprint: judged(fingerprint) for fingerprint in fingerprints}
    return dict(zip(fingerprints, _concurrently(judged, fingerprints), strict=True))


def _pages(wanted: int) -> int:
    """Return how many pages of a listing are worth while: beyond them, asking for each costs less."""
    return 2 + wanted // 100


def _listing(objects: Objects, prefix: str, pages: int) -> dict[str, Info] | None:
    """Return everything under a prefix by key, or None when that would take more than so many pages."""
    found: dict[str, Info] = {}
    for info in objects.list(prefix):
        if len(found) >= pages * PAGE:
            return None
        found[info.key] = info
    return found


def _remembered(objects: Objects, fingerprint: str, tag: str) -> str:
    return f"{objects.url} {fingerprint} {tag}"


def _remember(
    memory: Memory, objects: Objects, fingerprint: str, stored: Stored | None, listed: dict[str, Info] | None
) -> None:
    if stored is None:
        return
    info = listed.get(SHARED.record(fingerprint)) if listed is not None else None
    key = _remembered(objects, fingerprint, stored.tag)
    if info is not None and info.tag == stored.tag and memory.get(_NAMESPACE, key) is not None:
        return
    try:
        memory.put(_NAMESPACE, key, {"record": stored.data.decode("utf-8")})
    except UnicodeDecodeError:
        return  # damaged: it is judged so each time


def _concurrently(work: Callable[[str], Any], fingerprints: Iterable[str]) -> list[Any]:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="look-up") as pool:
        return list(pool.map(work, fingerprints))
