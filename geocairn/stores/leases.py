"""Leases: who is computing a fingerprint now, until when, and how often a holder died over it.

A lease is an object that is taken by a conditional write and renewed by a heartbeat. What always holds: of those who
take a free lease one wins; a lease that is expired by the store's clock, or whose holder is a process of this machine
that is gone, is taken over in the same write that counts the holder's death for its backend; and the count outlives
the lease: a lease with deaths is released by writing it without an owner. Release on the way out of a body, also by
an interrupt, is no death. A lease keeps work from being done twice; that no record is overwritten rests on the commit
alone.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from geocairn.failure import Failure, TransientFailure
from geocairn.stores import keys
from geocairn.stores.heartbeat import Heartbeat
from geocairn.stores.objects import Conflict, Objects
from geocairn.stores.process import is_gone, this_process

FORMAT = "geocairn-lease/1"

INTERVAL = 5.0
"""Seconds between two heartbeats."""

TTL = 30.0
"""Seconds without a heartbeat after which a holder counts as dead."""

MEMORY = 24 * 3600.0
"""Seconds after the last death when all are forgotten."""

_RACES = 10
_log = logging.getLogger(__name__)
_held: set[Held] = set()  # of this process, for the way out on termination


def owner(run_id: str, backend: str) -> dict[str, Any]:
    """Return who this process is, for a lease: run, backend, host, boot, process id and start time."""
    return {"run_id": run_id, "backend": backend, **this_process()}


@dataclass(frozen=True)
class Busy:
    """Somebody else holds the lease."""

    fingerprint: str
    owner: dict[str, Any]
    acquired: float
    expires: float
    """Seconds since the epoch, by the store's clock; later with each heartbeat."""
    deaths: dict[str, int]

    def __str__(self) -> str:
        who = f"process {self.owner.get('pid')} on {self.owner.get('host')}"
        return f"run {self.owner.get('run_id')} ({who}) is computing it"


@dataclass
class _Lease:
    """The content of a lease object."""

    owner: dict[str, Any] | None
    token: str
    acquired: float
    expires: float
    beat: int = 0
    deaths: dict[str, int] = field(default_factory=dict)
    died: float | None = None
    """When a death was last counted."""

    def data(self, fingerprint: str) -> bytes:
        body = {"format": FORMAT, "fingerprint": fingerprint, **self.__dict__}
        return json.dumps(body, indent=1).encode("utf-8")


def acquire(
    objects: Objects,
    fingerprint: str,
    owner: dict[str, Any],
    *,
    interval: float = INTERVAL,
    ttl: float = TTL,
    memory: float = MEMORY,
) -> Held | Busy:
    """Take the lease on a fingerprint if it is free, expired, or its holder is certainly gone.

    Parameters
    ----------
    owner : who takes it; see the function `owner`.
    interval, ttl : seconds between heartbeats, and after which one that has no heartbeat is expired.
    memory : seconds after the last death when all are forgotten.

    Raises
    ------
    Failure : of its class, where the store refuses or does not answer.
    """
    key = keys.lease(fingerprint)
    token = secrets.token_hex(12)
    for _ in range(_RACES):
        stored = objects.read(key)
        now = objects.now()
        died: str | None = None
        mine = _Lease(owner, token, now, now + ttl)
        if stored is not None:
            standing = _parse(stored.data)
            if standing is not None:
                if standing.died is not None and now - standing.died < memory:
                    mine.deaths, mine.died = dict(standing.deaths), standing.died
                if standing.owner is not None:
                    if standing.token == token:  # our own write, whose answer was lost
                        return Held(objects, fingerprint, standing, stored.tag, interval, ttl)
                    if standing.expires > now and not is_gone(standing.owner):
                        return Busy(
                            fingerprint, standing.owner, standing.acquired, standing.expires, dict(standing.deaths)
                        )
                    died = str(standing.owner.get("backend") or "")
                    mine.deaths[died] = mine.deaths.get(died, 0) + 1
                    mine.died = now
        try:
            data = mine.data(fingerprint)
            if stored is None:
                tag = objects.write(key, data, if_absent=True)
            else:
                tag = objects.write(key, data, if_tag=stored.tag)
        except Conflict:
            continue
        return Held(objects, fingerprint, mine, tag, interval, ttl, died)
    raise TransientFailure("the lease changed hands each time it was tried", where=key, remedy="try again")


def deaths(objects: Objects, fingerprint: str) -> dict[str, int]:
    """Return how often a holder of the lease has died, by backend."""
    stored = objects.read(keys.lease(fingerprint))
    standing = _parse(stored.data) if stored is not None else None
    return dict(standing.deaths) if standing is not None else {}


def holder(objects: Objects, fingerprint: str) -> Busy | None:
    """Return who holds the lease now, without taking it; None where it is free or its holder is gone."""
    stored = objects.read(keys.lease(fingerprint))
    standing = _parse(stored.data) if stored is not None else None
    if standing is None or standing.owner is None or standing.expires <= objects.now() or is_gone(standing.owner):
        return None
    return Busy(fingerprint, standing.owner, standing.acquired, standing.expires, dict(standing.deaths))


class Held:
    """A lease that this process holds. Use it as a context: it is released on the way out, whatever the way.

    Attributes
    ----------
    key : of the lease object.
    lost : set when another has taken it over, or when it could not be renewed until it expired.
    deaths : how often holders before died, by backend.
    taken_from : the backend on which the holder before was computing when it died; None where the lease was free.
    """

    def __init__(
        self,
        objects: Objects,
        fingerprint: str,
        lease: _Lease,
        tag: str,
        interval: float,
        ttl: float,
        taken_from: str | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self.taken_from = taken_from
        self.lost = threading.Event()
        self.deaths = dict(lease.deaths)
        self._objects = objects
        self.key = keys.lease(fingerprint)
        self._lease = lease
        self._tag = tag
        self._ttl = ttl
        self._process = os.getpid()
        self._renewed = time.monotonic()
        self._released = False
        self._lock = threading.Lock()
        self._heartbeat = Heartbeat(interval, self._renew, f"lease {fingerprint[:12]}")
        _held.add(self)
        self._heartbeat.start()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_ours(self) -> bool:
        """Whether this process took it: a forked child has inherited what its parent holds, and does not hold it."""
        return self._process == os.getpid()

    def release(self) -> None:
        """Give the lease back. Where the store does not answer it is left to expire, and the log says so."""
        if not self.is_ours:
            return
        self._heartbeat.stop()
        with self._lock:
            if self._released:
                return
            self._released = True
        _held.discard(self)
        if self.lost.is_set():
            return
        try:
            self._give_back()
        except Conflict:
            self.lost.set()
        except Failure as failure:
            _log.warning("the lease on %s could not be released and will expire: %s", self.fingerprint, failure)

    def _give_back(self) -> None:
        if not self._lease.deaths:
            self._objects.delete(self.key, if_tag=self._tag)
            return
        self._lease.owner = None
        self._lease.beat += 1
        self._objects.write(self.key, self._lease.data(self.fingerprint), if_tag=self._tag)

    def _renew(self) -> bool:
        """Renew once; false when there is no more to renew."""
        try:
            self._lease.beat += 1  # equal content has an equal ETag: the count makes each beat another
            self._lease.expires = self._objects.now() + self._ttl
            self._tag = self._objects.write(self.key, self._lease.data(self.fingerprint), if_tag=self._tag)
        except Conflict:
            return self._found_again()
        except Failure as failure:
            return self._still_ours(failure)
        self._renewed = time.monotonic()
        return True

    def _found_again(self) -> bool:
        """Look whether the conflict was with our own write, whose answer was lost."""
        try:
            stored = self._objects.read(self.key)
        except Failure as failure:
            return self._still_ours(failure)
        standing = _parse(stored.data) if stored is not None else None
        if stored is None or standing is None or standing.token != self._lease.token:
            self.lost.set()
            return False
        self._tag = stored.tag
        self._renewed = time.monotonic()
        return True

    def _still_ours(self, failure: Failure) -> bool:
        """Go on while nobody can have taken it over; then it is lost."""
        if time.monotonic() - self._renewed < self._ttl:
            return True
        _log.warning("the lease on %s could not be renewed: %s", self.fingerprint, failure)
        self.lost.set()
        return False


def release_all() -> int:
    """Release every lease that this process holds: for the way out on termination. Return how many."""
    held = [lease for lease in list(_held) if lease.is_ours]
    for lease in held:
        lease.release()
    return len(held)


def _parse(data: bytes) -> _Lease | None:
    """Return the lease that an object holds; None for a damaged one, which is free to be taken."""
    try:
        body = json.loads(data)
        if body.pop("format") != FORMAT:
            return None
        body.pop("fingerprint")
        lease = _Lease(**body)
        lease.expires = float(lease.expires)
        lease.deaths = {str(backend): int(count) for backend, count in lease.deaths.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return lease if lease.owner is None or isinstance(lease.owner, dict) else None
