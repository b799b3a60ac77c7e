"""What others do while a sweep is at work, on a folder and on a real S3 server: nothing believed loses its layer.

The sweeps here have no grace period, so that nothing but the order of looking and removing protects.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from store_samples import checkpoint, fingerprint, in_processes, in_threads, keys_under, layer
from sweep_samples import (
    AT_ONCE,
    NOTHING_KEPT,
    all_sound,
    at,
    commit,
    contents,
    elsewhere,
    expired,
    orphan,
    removed,
)

from geocairn.checkpoint import Checkpoint, LayerReference, write_record
from geocairn.s3 import S3Settings
from geocairn.stores import checkpoints, keys, leases
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.layers import write_layer_file
from geocairn.stores.leases import Held, acquire, owner
from geocairn.stores.objects import Info
from geocairn.stores.opening import open_store
from geocairn.stores.runs import RunInFlight
from geocairn.stores.sweep import removal, sweep
from geocairn.stores.waiting import lease_or_result

ONE = fingerprint("one")
RECORD = keys.SHARED.record(ONE)


class Writer:
    """One who commits in two parts: `upload` stores the layer, `finish` writes the record."""

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self.key = keys.SHARED.layer(ONE, "half")

    def upload(self) -> None:
        path = self.store.objects.scratch(".parquet")
        write_layer_file(layer(), path)
        self.reference = LayerReference(self.key, path.stat().st_size, checkpoints._digest(path))
        self.store.objects.upload(self.key, path, take=True)
        path.unlink(missing_ok=True)

    def finish(self) -> Checkpoint:
        whole = checkpoint("one").replaced(layer=self.reference, created="2026-11-30T00:00:00Z")
        self.store.objects.write(RECORD, write_record(whole), if_absent=True)
        return whole


def whole(store: CheckpointStore, made: Checkpoint) -> None:
    assert store.get(ONE) == made
    store.load(made)


@pytest.fixture
def writer(store: CheckpointStore) -> Writer:
    made = Writer(store)
    made.upload()
    return made


def test_a_record_that_comes_between_the_listings_keeps_its_layer(
    store: CheckpointStore, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were records listed before layers, this layer would be listed and its record not."""
    listed = store.objects.list
    order: list[str] = []

    def listing(prefix: str, **more: Any) -> Iterator[Info]:
        found = list(listed(prefix, **more))
        if not order:
            writer.finish()
        order.append(prefix)
        return iter(found)

    monkeypatch.setattr(store.objects, "list", listing)
    found = sweep(store, grace=AT_ONCE)
    assert found.removed == []
    assert found.spared == {}  # it was not a second look that saved it
    assert store.get(ONE) is not None
    all_sound(store)


def test_a_lease_protects_a_layer_from_before_it_was_listed_until_its_record_is_there(
    store: CheckpointStore, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = acquire(store.objects, ONE, elsewhere(), interval=60)
    assert isinstance(lease, Held)

    def finish() -> Checkpoint:
        made = writer.finish()
        lease.release()
        return made

    done = at("looked again", monkeypatch, finish)
    key = orphan(store, "two")
    assert removed(sweep(store, grace=AT_ONCE)) == {key}
    whole(store, done[0])


def test_a_lease_that_is_released_between_records_and_runs_has_protected(
    store: CheckpointStore, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were leases read after records, neither the record nor the lease would be seen."""
    lease = acquire(store.objects, ONE, elsewhere(), interval=60)
    assert isinstance(lease, Held)
    listed = store.objects.list

    def listing(prefix: str, **more: Any) -> Iterator[Info]:
        found = list(listed(prefix, **more))
        if prefix == keys.CHECKPOINTS and store.objects.head(RECORD) is None:
            writer.finish()
            lease.release()
        return iter(found)

    monkeypatch.setattr(store.objects, "list", listing)
    found = sweep(store, grace=AT_ONCE)
    assert found.removed == []
    assert dict(found.spared) == {"no record names it, but somebody is computing it": 1, "a lease that is held": 1}
    assert store.get(ONE) is not None


@pytest.mark.parametrize("point", ["looked", "records removed"])
def test_a_record_without_a_lease_is_seen_by_the_second_look(
    store: CheckpointStore, writer: Writer, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    done = at(point, monkeypatch, writer.finish)
    found = sweep(store, grace=AT_ONCE)
    assert found.removed == []
    assert list(found.spared.values()) == [1]
    whole(store, done[0])


def test_a_checkpoint_that_is_renewed_in_between_stays(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    old = expired(store, "one")
    renewed = old.replaced(expires=None)
    done = at("looked", monkeypatch, lambda: store.renew(renewed, store.look_up(ONE)))
    found = sweep(store, grace=AT_ONCE)
    assert found.removed == []
    assert done == [renewed]
    whole(store, renewed)


def test_a_checkpoint_that_is_renewed_after_its_record_went_keeps_its_layer(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = expired(store, "one")
    renewed = old.replaced(expires=None)
    standing = store.look_up(ONE)
    done = at("records removed", monkeypatch, lambda: store.renew(renewed, standing))
    assert removed(sweep(store, grace=AT_ONCE)) == {RECORD}
    assert done == [renewed]
    whole(store, renewed)


@pytest.mark.parametrize("point", ["looked", "records removed", "looked again", "layers removed"])
def test_a_checkpoint_that_is_computed_again_in_between_stays(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    expired(store, "one")
    done = at(point, monkeypatch, lambda: commit(store, "one", 7, replace=store.look_up(ONE)))
    sweep(store, grace=AT_ONCE)
    whole(store, done[0])
    sweep(store, grace=AT_ONCE, retention=NOTHING_KEPT)
    whole(store, done[0])
    assert len(contents(store)) == 2


def test_a_run_that_starts_in_between_keeps_the_layers_that_it_names(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = expired(store, "one")
    assert old.layer is not None
    run = RunInFlight(store, "run-1", [ONE])
    at("records removed", monkeypatch, run.start)
    assert removed(sweep(store, grace=AT_ONCE)) == {RECORD}
    store.load(old)  # as it was decided, while the record stood
    run.end()
    assert removed(sweep(store, grace=AT_ONCE)) == {old.layer.key}


def test_a_run_that_starts_in_between_keeps_what_a_size_budget_would_take(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = commit(store, "one")
    assert made.layer is not None
    with RunInFlight(store, "run-1") as run:
        at(f"removing {RECORD}", monkeypatch, lambda: run.add([ONE]))
        found = sweep(store, grace=AT_ONCE, size_budget=0)
        assert removed(found) == {RECORD}
        assert found.over_budget > 0
        store.load(made)


def test_a_lease_that_is_taken_in_between_stays(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = acquire(store.objects, ONE, elsewhere(), interval=60, ttl=0)
    assert isinstance(dead, Held)
    done = at("layers removed", monkeypatch, lambda: acquire(store.objects, ONE, owner("run-2", "geopandas")))
    store.objects.now = lambda now=store.objects.now: now() + 3  # type: ignore[method-assign, misc]
    assert sweep(store, grace=AT_ONCE, retention=NOTHING_KEPT).removed == []
    assert isinstance(done[0], Held)
    assert leases.holder(store.objects, ONE) is not None
    done[0].release()


def test_a_run_that_wakes_up_in_between_stays_in_flight(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunInFlight(store, "run-1", [ONE], ttl=-10)
    run.start()
    awake = RunInFlight(store, "run-1", [ONE])
    at("layers removed", monkeypatch, awake.start)
    assert sweep(store, grace=AT_ONCE).removed == []
    assert keys_under(store, keys.RUNS) == [keys.run("run-1")]
    run.end()
    awake.end()


def test_deletions_and_writes_side_by_side_in_one_folder_get_on(store: CheckpointStore) -> None:
    """A folder that has become empty goes, while another deletes the last file in it or writes the next."""

    def come_and_go(number: int) -> list[bool]:
        gone = []
        for attempt in range(15):
            key = orphan(store, "one", f"{number}-{attempt}")
            gone.append(store.objects.delete(key))
        return gone

    assert in_threads(come_and_go, *[(number,) for number in range(6)]) == [[True] * 15] * 6


# Two sweeps at once


@pytest.mark.parametrize("point", ["looked", "records removed", "looked again", "layers removed"])
def test_a_sweep_within_a_sweep_removes_what_the_first_would_have(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    kept = commit(store, "kept")
    for name in ("one", "two"):
        expired(store, name)
    orphan(store, "three")
    done = at(point, monkeypatch, lambda: sweep(store, grace=AT_ONCE))
    found = sweep(store, grace=AT_ONCE)
    assert not found.left
    assert not done[0].left
    assert kept.layer is not None
    assert set(contents(store)) == {keys.SHARED.record(kept.fingerprint), kept.layer.key}
    store.load(kept)


def sweep_there(url: str, settings: S3Settings | None) -> list[str]:
    found = sweep(open_store(url, settings=settings), grace=AT_ONCE, retention=NOTHING_KEPT)
    return [one.why for one in found.left]


def commit_there(url: str, settings: S3Settings | None) -> list[str]:
    """Commit again what has expired, under a lease, as runs do; return what is lost of it."""
    store = open_store(url, settings=settings)
    lost = []
    for number in range(6):
        print_ = fingerprint(number)
        made = lease_or_result(store, print_, owner("run", "geopandas"))
        if isinstance(made, Held):
            with made:
                made = store.commit(checkpoint(number), layer(number), replace=store.look_up(print_))
        try:
            store.load(made)
        except checkpoints.LayerLost as failure:
            lost.append(str(failure))
    return lost


def test_sweeps_and_commits_of_several_processes_get_on(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None
) -> None:
    for number in range(6):
        expired(store, number)
        orphan(store, f"orphan {number}")
    here = (store_url, store_settings)
    told = in_processes(call, ("sweep", *here), ("commit", *here), ("sweep", *here), ("commit", *here))
    assert told == [[], [], [], []]
    for number in range(6):
        found = store.get(fingerprint(number))
        assert found is not None
        store.load(found)
    sweep(store, grace=AT_ONCE, retention=NOTHING_KEPT)
    assert len(contents(store)) == 12


def call(what: str, url: str, settings: S3Settings | None) -> list[str]:
    return {"sweep": sweep_there, "commit": commit_there}[what](url, settings)


# A sweep that is cut off


def cut_off(name: str, point: str) -> None:
    if name.startswith(point):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "point",
    ["looked", "removing checkpoints/", "records removed", "looked again", "removing layers/", "layers removed"],
)
def test_a_sweep_that_is_cut_off_at_any_point_is_finished_by_the_next(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    kept = [commit(store, "kept"), commit(store, "pinned", pinned=True)]
    for name in range(4):
        expired(store, name)
    orphan(store, "three")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(removal, "stage", lambda name: cut_off(name, point))
        with pytest.raises(KeyboardInterrupt):
            sweep(store, grace=AT_ONCE)
    for print_ in [fingerprint(name) for name in range(4)]:
        found = store.look_up(print_)
        assert found.reason in ("expired", "missing")
        if found.found is not None and found.found.layer is not None:
            store.load(found.found)  # a record that is still there has its layer
    for made in kept:
        store.load(made)
    sweep(store, grace=AT_ONCE)
    assert len(contents(store)) == 4
    all_sound(store)


def test_no_grace_is_needed_by_a_commit_that_takes_a_day(store: CheckpointStore, writer: Writer) -> None:
    """The lease is renewed all the while; the layer of a slow writer is not taken for an orphan."""
    lease = acquire(store.objects, ONE, elsewhere(), interval=60, ttl=2 * 86400)
    assert isinstance(lease, Held)
    now = store.objects.now
    store.objects.now = lambda: now() + 86400  # type: ignore[method-assign]
    assert sweep(store, grace=dt.timedelta(hours=1)).removed == []
    whole(store, writer.finish())
    lease.release()
