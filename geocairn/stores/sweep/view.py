"""What a sweep sees of a store before it removes anything.

The order of looking is what makes it safe: layers are listed first, then leases are read, then records, then runs in
flight. Whoever commits holds the lease from before its layer is there until after its record is: so a layer that was
listed is either named by a record that is seen, or its writer's lease is. What always holds: each thousand keys cost
one listing, no layer costs a request of its own, and a record that this machine has read before under its present tag
is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from geocairn.checkpoint import (
    RECORD_FORMAT,
    SCHEME,
    Checkpoint,
    DamagedRecord,
    is_fingerprint,
    parse_record,
    parse_time,
)
from geocairn.failure import Failure, FailureClass
from geocairn.memory import Memory
from geocairn.stores import keys, leases, runs
from geocairn.stores.objects import Info, Objects
from geocairn.stores.process import is_gone
from geocairn.stores.sweep.account import Left, left

THREADS = 16

RESOLUTION = 1.0
"""Seconds by which the clock of an S3 service and the times that it gives its objects may differ."""

_NAMESPACE = "sweep"

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class RecordSeen:
    """What a sweep has to know of a record.

    Attributes
    ----------
    state : `sound` for one that parses; `damaged`; `foreign` for one of another version of geocairn; `unread` where
        the store did not give it.
    expires : seconds since the epoch; None for a pinned record, or one that is not sound.
    layer : the key of its layer, where it has one.
    """

    info: Info
    fingerprint: str
    state: Literal["sound", "damaged", "foreign", "unread"]
    expires: float | None = None
    layer: str | None = None
    step: str = ""


@dataclass(frozen=True)
class LeaseSeen:
    """What a sweep has to know of a lease.

    Attributes
    ----------
    live : whether somebody holds it, or it could not be read.
    run_id : the holder's run.
    last : when its holder was last heard of or, for a free one, when a death was last counted.
    """

    info: Info
    fingerprint: str | None
    live: bool
    run_id: str | None
    last: float


@dataclass(frozen=True)
class FlightSeen:
    """The runs that said that they are in flight.

    Attributes
    ----------
    runs : by id.
    blind : whether a run may be in flight whose fingerprints are not known, so that nothing may be removed.
    """

    runs: dict[str, runs.InFlight]
    blind: bool = False

    def names(self, fingerprint: str | None) -> bool:
        """Return whether a run in flight may read the checkpoint of this fingerprint."""
        return self.blind or any(run.live and fingerprint in run.fingerprints for run in self.runs.values())


@dataclass
class View:
    """Everything that a sweep saw, and what it could not see."""

    now: float
    """When looking began, by the store's clock."""
    layers: list[Info] = field(default_factory=list)
    runs: list[Info] = field(default_factory=list)
    """Objects under `runs/`: those that say that a run is in flight, and what runs keep for themselves."""
    leases: list[LeaseSeen] = field(default_factory=list)
    records: dict[str, RecordSeen] = field(default_factory=dict)
    """By fingerprint."""
    flight: FlightSeen = field(default_factory=lambda: FlightSeen({}))
    plans: list[Info] = field(default_factory=list)
    traces: list[Info] = field(default_factory=list)
    quarantine: list[Info] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @cached_property
    def leased(self) -> set[str | None]:
        """The fingerprints that somebody may be computing now."""
        return {lease.fingerprint for lease in self.leases if lease.live}


def look(objects: Objects, memory: Memory | None = None) -> View:
    """Return what lies in a store.

    Raises
    ------
    Failure : of its class, where a listing is refused or not answered: then nothing can be removed safely.
    """
    view = View(objects.now())
    view.layers = list(objects.list(keys.LAYERS))
    view.runs = list(objects.list(keys.RUNS))
    view.leases = _leases(objects, view.left)
    view.records = _records(objects, memory, view.left)
    view.flight = in_flight(objects, view.left)
    view.plans = list(objects.list(keys.PLANS))
    view.traces = list(objects.list(keys.TRACES))
    view.quarantine = list(objects.list(keys.QUARANTINE))
    return view


def in_flight(objects: Objects, told: list[Left]) -> FlightSeen:
    """Return the runs in flight. What cannot be read, or understood while it is fresh, may name anything."""
    try:
        found = {run.run_id: run for run in runs.list_in_flight(objects)}
    except Failure as failure:
        told.append(left(keys.RUNS, failure))
        return FlightSeen({}, blind=True)
    unclear = [run for run in found.values() if run.live and not run.process]
    for run in unclear:
        why = "it says that a run is in flight, but not what that may read; a damaged one counts as over in minutes"
        told.append(Left(f"{keys.RUNS}{run.run_id}.json", why, FailureClass.TRANSIENT))
    return FlightSeen(found, blind=bool(unclear))


def _leases(objects: Objects, told: list[Left]) -> list[LeaseSeen]:
    listed = list(objects.list(keys.LEASES))

    def seen(info: Info) -> LeaseSeen | None:
        fingerprint = _leased(info.key)
        try:
            stored = objects.read(info.key)
        except Failure as failure:
            told.append(left(info.key, failure))
            return LeaseSeen(info, fingerprint, True, None, info.modified)
        return _lease(info, fingerprint, stored.data, stored.tag, objects.now()) if stored is not None else None

    return [lease for lease in concurrently(seen, listed) if lease is not None]


def _lease(info: Info, fingerprint: str | None, data: bytes, tag: str, now: float) -> LeaseSeen:
    """Return what a lease says; one that cannot be understood is held as long as a heartbeat would hold it."""
    info = Info(info.key, len(data), tag, info.modified)
    try:
        body = json.loads(data)
        if body["format"] != leases.FORMAT:
            raise ValueError(body["format"])
        owner, expires, died = body["owner"], float(body["expires"]), body.get("died")
        last = info.modified if owner is not None or died is None else float(died)
        live = owner is not None and expires > now and not is_gone(owner)
        run_id = owner.get("run_id") if owner is not None else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return LeaseSeen(info, fingerprint, info.modified + leases.TTL > now, None, info.modified)
    return LeaseSeen(info, fingerprint, live, run_id, last)


def _leased(key: str) -> str | None:
    fingerprint = key.rpartition("/")[2].removesuffix(".json")
    return fingerprint if is_fingerprint(fingerprint) and key == keys.lease(fingerprint) else None


def _records(objects: Objects, memory: Memory | None, told: list[Left]) -> dict[str, RecordSeen]:
    listed = [(info, keys.fingerprint_of(info.key)) for info in objects.list(keys.CHECKPOINTS)]
    remembers = objects.local(keys.SHARED.record("0" * 64)) is None  # reading a file costs no more than remembering it
    memory = memory or Memory()

    def seen(one: tuple[Info, str | None]) -> RecordSeen | None:
        info, fingerprint = one
        if fingerprint is None:
            return None
        remembered = f"{objects.url} {info.key} {info.tag}"
        known = memory.get(_NAMESPACE, remembered) if remembers else None
        record = _from_memory(info, fingerprint, known)
        if record is not None:
            return record
        try:
            stored = objects.read(info.key)
        except Failure as failure:
            told.append(left(info.key, failure))
            return RecordSeen(info, fingerprint, "unread")
        if stored is None:
            return None
        record = _record(Info(info.key, len(stored.data), stored.tag, info.modified), fingerprint, stored.data)
        if remembers and record.state == "sound" and stored.tag == info.tag:
            memory.put(_NAMESPACE, remembered, {"expires": record.expires, "layer": record.layer, "step": record.step})
        return record

    return {record.fingerprint: record for record in concurrently(seen, listed) if record is not None}


def _from_memory(info: Info, fingerprint: str, known: dict[str, Any] | None) -> RecordSeen | None:
    if known is None:
        return None
    expires, layer, step = known.get("expires", ""), known.get("layer", 0), known.get("step")
    if not isinstance(expires, float | None) or not isinstance(layer, str | None) or not isinstance(step, str):
        return None
    return RecordSeen(info, fingerprint, "sound", expires, layer, step)


def _record(info: Info, fingerprint: str, data: bytes) -> RecordSeen:
    try:
        checkpoint = parse_record(data, fingerprint)
        expires = parse_time(checkpoint.expires) if checkpoint.expires is not None else None
    except (DamagedRecord, ValueError, TypeError):
        return RecordSeen(info, fingerprint, "foreign" if _is_foreign(data) else "damaged")
    layer = checkpoint.layer.key if checkpoint.layer is not None else None
    if checkpoint.kind == "step" and not (layer or "").startswith(keys.SHARED.layers(fingerprint)):
        return RecordSeen(info, fingerprint, "damaged")
    return RecordSeen(info, fingerprint, "sound", expires, layer, checkpoint.step)


def _is_foreign(data: bytes) -> bool:
    """Return whether a record that is not understood may be sound for another version of geocairn."""
    try:
        body = json.loads(data)
    except ValueError:
        return False
    if not isinstance(body, dict):
        return False
    known = {"format", "scheme", "record_sha256", *Checkpoint.__dataclass_fields__}
    return (body.get("format"), body.get("scheme")) != (RECORD_FORMAT, SCHEME) or not known.issuperset(body)


def layer_fingerprint(key: str) -> str | None:
    """Return the fingerprint that the key of a shared layer belongs to; None for a key of another form."""
    parts = key.split("/")
    if len(parts) != 4 or not is_fingerprint(parts[2]) or not key.startswith(keys.SHARED.layers(parts[2])):
        return None
    return parts[2]


def fingerprint_in(key: str) -> str | None:
    """Return the fingerprint in the key of a layer or record, shared or a run's own; None where there is none."""
    return next((name for part in key.split("/") if is_fingerprint(name := part.removesuffix(".json"))), None)


def concurrently(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do it for each, several at once, and return the answers in order."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="sweep") as pool:
        return list(pool.map(work, items))
