"""Runs in flight: a heartbeat for each run, and the fingerprints that it may still read.

The sweep leaves alone what a run in flight names. What always holds: the object is there before the run reads
anything, is renewed while the run lives, and is removed at its end; one that is expired, or whose process is
certainly gone, no longer protects anything.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from geocairn.failure import Failure
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.heartbeat import Heartbeat
from geocairn.stores.objects import Objects
from geocairn.stores.process import is_gone, this_process

FORMAT = "geocairn-run/1"

INTERVAL = 30.0
"""Seconds between two heartbeats."""

TTL = 300.0
"""Seconds without a heartbeat after which a run is no longer in flight."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InFlight:
    """A run that said that it is in flight."""

    run_id: str
    process: dict[str, Any]
    started: float
    expires: float
    fingerprints: frozenset[str]
    live: bool
    """Whether it is unexpired and its process is not known to be gone."""


class RunInFlight:
    """Says, while its context lasts, that a run is in flight.

    Parameters
    ----------
    store : where the run reads and writes.
    run_id : the run's id.
    fingerprints : what it may still read; `add` names more.
    interval, ttl : seconds between heartbeats, and after which a run without one counts as gone.
    """

    def __init__(
        self,
        store: CheckpointStore | Objects,
        run_id: str,
        fingerprints: Iterable[str] = (),
        *,
        interval: float = INTERVAL,
        ttl: float = TTL,
    ) -> None:
        self.run_id = run_id
        self._objects = store.objects if isinstance(store, CheckpointStore) else store
        self._key = keys.run(run_id)
        self._fingerprints = {keys.check_fingerprint(fingerprint) for fingerprint in fingerprints}
        self._ttl = ttl
        self._started = 0.0
        self._beat = 0
        self._lock = threading.Lock()
        self._heartbeat = Heartbeat(interval, self._renew, f"run {run_id}")

    def __enter__(self) -> RunInFlight:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        """Say that the run is in flight. Raises where the store refuses: what is not protected must not be read."""
        self._started = self._objects.now()
        self._write()
        self._heartbeat.start()

    def add(self, fingerprints: Iterable[str], *, at_once: bool = True) -> None:
        """Name more fingerprints that the run may read: at once, or with the next heartbeat."""
        with self._lock:
            before = len(self._fingerprints)
            self._fingerprints |= {keys.check_fingerprint(fingerprint) for fingerprint in fingerprints}
            grown = len(self._fingerprints) > before
        if grown and at_once:
            self._write()

    def end(self) -> None:
        """Say that the run is over. Where the store does not answer the object is left to expire."""
        self._heartbeat.stop()
        try:
            self._objects.delete(self._key)
        except Failure as failure:
            _log.warning("run %s could not be signed off and will expire: %s", self.run_id, failure)

    def _write(self) -> None:
        with self._lock:
            self._beat += 1
            body = {
                "format": FORMAT,
                "run_id": self.run_id,
                "process": this_process(),
                "started": self._started,
                "expires": self._objects.now() + self._ttl,
                "beat": self._beat,
                "fingerprints": sorted(self._fingerprints),
            }
            self._objects.write(self._key, json.dumps(body, indent=1).encode("utf-8"))

    def _renew(self) -> bool:
        try:
            self._write()
        except Failure as failure:
            _log.warning("run %s could not renew its heartbeat: %s", self.run_id, failure)
        return True


def list_in_flight(store: CheckpointStore | Objects) -> list[InFlight]:
    """Return the runs that said that they are in flight, those included that are not live any more."""
    objects = store.objects if isinstance(store, CheckpointStore) else store
    found: list[InFlight] = []
    for info in objects.list(keys.RUNS):
        if info.key.count("/") != 1:
            continue
        stored = objects.read(info.key)
        if stored is None:
            continue
        run = _parse(stored.data, info.key, info.modified, objects.now())
        found.append(run)
    return found


def _parse(data: bytes, key: str, modified: float, now: float) -> InFlight:
    """Return the run; a damaged object protects nothing by name, and lives as long as a heartbeat would."""
    run_id = key.removeprefix(keys.RUNS).removesuffix(".json")
    try:
        body = json.loads(data)
        process, expires = body["process"], float(body["expires"])
        live = expires > now and not is_gone(process)
        return InFlight(run_id, process, float(body["started"]), expires, frozenset(body["fingerprints"]), live)
    except (ValueError, KeyError, TypeError, AttributeError):
        expires = modified + TTL
        return InFlight(run_id, {}, modified, expires, frozenset(), expires > now)
