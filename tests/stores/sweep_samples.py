"""What the tests of the sweep put into a store, and how they look at what it left."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from store_samples import checkpoint, fingerprint, layer, overwrite

from geocairn.checkpoint import Checkpoint, write_record
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.leases import owner
from geocairn.stores.sweep import Retention, Sweep, removal, sweep

AT_ONCE = dt.timedelta(0)
NOTHING_KEPT = Retention(traces=AT_ONCE, quarantine=AT_ONCE, deaths=AT_ONCE, unsigned=AT_ONCE)


def commit(store: CheckpointStore, name: object, number: int = 0, **more: Any) -> Checkpoint:
    return store.commit(checkpoint(name), layer(number), **more)


def expired(store: CheckpointStore, name: object, **changes: Any) -> Checkpoint:
    """Commit a checkpoint, and let it have expired years ago."""
    made = commit(store, name).replaced(**{"expires": "2020-01-08T00:00:00Z", **changes})
    overwrite(store, keys.SHARED.record(made.fingerprint), write_record(made))
    return made


def orphan(store: CheckpointStore, name: object, attempt: str = "0") -> str:
    """Put a layer there that no record names; return its key."""
    key = keys.SHARED.layer(fingerprint(name), attempt)
    store.objects.write(key, b"a layer that was not finished")
    return key


def later(store: CheckpointStore, **passed: float) -> None:
    """Let time pass on the store's clock."""
    now = store.objects.now
    store.objects.now = lambda: now() + dt.timedelta(**passed).total_seconds()  # type: ignore[method-assign]


def elsewhere(run_id: str = "far", backend: str = "geopandas") -> dict[str, Any]:
    """An owner on another machine, of which nothing can be known but its heartbeat."""
    return {**owner(run_id, backend), "host": "elsewhere", "boot": "another"}


def removed(found: Sweep) -> set[str]:
    return {one.key for one in found.removed}


def contents(store: CheckpointStore) -> dict[str, str]:
    """Return everything in the store: its keys and tags."""
    kinds = (keys.CHECKPOINTS, keys.LAYERS, keys.LEASES, keys.RUNS, keys.PLANS, keys.TRACES, keys.QUARANTINE)
    return {info.key: info.tag for kind in kinds for info in store.objects.list(kind)}


def swept(store: CheckpointStore, **more: Any) -> Sweep:
    """Sweep, and see that a dry run had told it right and done nothing."""
    before = contents(store)
    told = sweep(store, dry_run=True, **more)
    assert contents(store) == before
    found = sweep(store, **more)
    assert found.removed == told.removed, f"{told.removed} were told, {found.removed} went"
    assert (found.kept, found.spared, found.left) == (told.kept, told.spared, told.left)
    assert contents(store) == {key: tag for key, tag in before.items() if key not in removed(found)}
    return found


def all_sound(store: CheckpointStore) -> None:
    """See that whatever is believed has its layer, whole."""
    for info in store.objects.list(keys.CHECKPOINTS):
        found = store.get(keys.fingerprint_of(info.key) or "")
        if found is not None and found.layer is not None:
            store.load(found)


def at(point: str, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> list[Any]:
    """Have something done, once, when a sweep comes to a point. Return the list that its answer goes into."""
    done: list[Any] = []

    def stage(name: str) -> None:
        if name == point and not done:
            done.append(None)
            done[0] = act()

    monkeypatch.setattr(removal, "stage", stage)
    return done
