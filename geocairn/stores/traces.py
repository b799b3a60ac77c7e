"""What happened in a run, kept under its id; and each plan's last decision, which `status` compares with.

What always holds: a trace is given only to someone who may read every scope behind it, and to anybody else it does
not exist; a decision is given only under the very scope and name that it was written for.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from geocairn.checkpoint import format_time, parse_time
from geocairn.failure import InputFailure
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.objects import Objects

TRACE_FORMAT = "geocairn-trace/1"
DECISION_FORMAT = "geocairn-decision/1"

_AT_ONCE = 16
"""Traces that are read at the same time."""


@dataclass(frozen=True)
class TraceEntry:
    """A trace in the list of traces."""

    run_id: str
    key: str
    day: str
    """`YYYY-MM-DD`."""


@dataclass(frozen=True)
class DamagedTrace:
    """A trace that is there and cannot be understood."""

    key: str
    why: str


def write_trace(
    store: CheckpointStore | Objects,
    run_id: str,
    trace: dict[str, Any],
    scopes: Iterable[str] = (),
    *,
    started: str | None = None,
) -> str:
    """Write the trace of a run and return its key. Writing it again under the same start replaces it.

    Parameters
    ----------
    trace : JSON values.
    scopes : the scopes of the private sources behind it; empty for everybody.
    started : when the run started (ISO 8601), which gives the day that it is filed under; by default now.
    """
    objects = _objects(store)
    now = format_time(objects.now())
    day = format_time(parse_time(started))[:10] if started else now[:10]
    key = keys.trace(run_id, day)
    body = {"format": TRACE_FORMAT, "run_id": run_id, "scopes": sorted(set(scopes)), "written": now, "trace": trace}
    objects.write(key, _json(body, f"the trace of run {run_id}"))
    return key


def read_trace(store: CheckpointStore | Objects, run_id: str, scopes: Iterable[str]) -> dict[str, Any]:
    """Return the trace of a run by its id, or by the beginning of it if that is unique.

    Raises
    ------
    InputFailure : where these scopes may read no such trace, or more than one begins so.
    """
    objects = _objects(store)
    allowed = set(scopes)
    found: dict[str, dict[str, Any]] = {}
    for entry in list_traces(objects):
        if entry.run_id.startswith(run_id) and run_id:
            body = _trace_body(objects, entry.key)
            if body is not None and set(body["scopes"]) <= allowed and entry.run_id not in found:
                found[entry.run_id] = body["trace"]
    if run_id in found:
        return found[run_id]
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        shown = ", ".join(sorted(found)[:5])
        raise InputFailure(f"{len(found)} runs begin with {run_id!r}: {shown}", remedy="give more of the id")
    raise InputFailure(
        f"there is no trace of a run {run_id!r} here", remedy="check the run's id, the store and the scope"
    )


def list_traces(store: CheckpointStore | Objects, *, since: str | None = None) -> Iterator[TraceEntry]:
    """Yield the traces, the newest day first. The content is not read, so scopes are not looked at.

    Parameters
    ----------
    since : the first day, `YYYY-MM-DD`; by default all. Earlier days are not even listed.
    """
    after = _before_day(since) if since is not None else None
    listed = [info.key for info in _objects(store).list(keys.TRACES, after=after) if info.key.count("/") == 4]
    by_day = sorted(listed, key=lambda key: key.rsplit("/", 1)[0], reverse=True)
    for key in by_day:
        parts = key.split("/")
        yield TraceEntry(parts[4].removesuffix(".json"), key, "-".join(parts[1:4]))


def _before_day(day: str) -> str:
    """Return a key behind all traces of the days before and before those of this day.

    Behind the day before, and not just before the day's own folder: some services skip a folder of that very name.
    """
    before = (dt.date.fromisoformat(day) - dt.timedelta(days=1)).isoformat()
    return f"{keys.TRACES}{before.replace('-', '/')}~"


def read_traces(
    store: CheckpointStore | Objects, scopes: Iterable[str], *, since: str | None = None
) -> Iterator[dict[str, Any] | DamagedTrace]:
    """Yield the traces that these scopes may read, the newest day first, reading several at once.

    Whose a damaged trace is cannot be known, so it is yielded as such, by its key alone. A read that the store refuses
    or does not answer raises with its class.

    Parameters
    ----------
    scopes : whose traces.
    since : the first day, `YYYY-MM-DD`; by default all.
    """
    objects, allowed = _objects(store), set(scopes)
    pool = ThreadPoolExecutor(_AT_ONCE, "traces")
    reading: deque[Future[dict[str, Any] | DamagedTrace | None]] = deque()

    def next_one() -> Iterator[dict[str, Any] | DamagedTrace]:
        found = reading.popleft().result()
        if isinstance(found, DamagedTrace):
            yield found
        elif found is not None and set(found["scopes"]) <= allowed:
            yield found["trace"]

    try:
        for entry in list_traces(objects, since=since):
            reading.append(pool.submit(_body_or_damage, objects, entry.key))
            if len(reading) >= 4 * _AT_ONCE:  # bounded, so that few are held in memory
                yield from next_one()
        while reading:
            yield from next_one()
    finally:
        pool.shutdown(cancel_futures=True)


def _body_or_damage(objects: Objects, key: str) -> dict[str, Any] | DamagedTrace | None:
    try:
        body = _trace_body(objects, key)
    except InputFailure as failure:
        return DamagedTrace(key, failure.what)
    if body is None and objects.head(key) is not None:
        return DamagedTrace(key, "it is no trace in a form that this version reads")
    return body


def _trace_body(objects: Objects, key: str) -> dict[str, Any] | None:
    stored = objects.read(key)
    if stored is None:
        return None
    try:
        body = json.loads(stored.data)
    except ValueError as error:
        raise InputFailure("the trace is damaged: it is not JSON", where=key, remedy="delete the object") from error
    whole = isinstance(body, dict) and body.get("format") == TRACE_FORMAT and isinstance(body.get("scopes"), list)
    return body if whole and isinstance(body.get("trace"), dict) else None


def write_decision(store: CheckpointStore | Objects, scope: str, name: str, decision: dict[str, Any]) -> str:
    """Write the last decision about a plan and return its key."""
    objects = _objects(store)
    key = keys.decision(scope, name)
    body = {
        "format": DECISION_FORMAT,
        "scope": scope,
        "name": name,
        "written": format_time(objects.now()),
        "decision": decision,
    }
    objects.write(key, _json(body, f"the decision about plan {name!r}"))
    return key


def read_decision(store: CheckpointStore | Objects, scope: str, name: str) -> dict[str, Any] | None:
    """Return the last decision about a plan; None where there is none, or a damaged one."""
    stored = _objects(store).read(keys.decision(scope, name))
    if stored is None:
        return None
    try:
        body = json.loads(stored.data)
    except ValueError:
        return None  # it only serves to explain: the next decision replaces it
    if not isinstance(body, dict) or (body.get("scope"), body.get("name")) != (scope, name):
        return None
    decision = body.get("decision")
    return decision if isinstance(decision, dict) else None


def _objects(store: CheckpointStore | Objects) -> Objects:
    return store.objects if isinstance(store, CheckpointStore) else store


def _json(body: dict[str, Any], what: str) -> bytes:
    try:
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InputFailure(f"{what} holds what is not JSON: {error}") from error
