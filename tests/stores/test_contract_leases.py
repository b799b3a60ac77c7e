"""Leases on a folder and on a real S3 server: exclusion, heartbeat, take-over, deaths, release, waiting."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from store_samples import Script, checkpoint, fingerprint, in_threads, keys_under, layer

from geocairn.failure import InputFailure, TransientFailure
from geocairn.s3 import S3Settings
from geocairn.stores import keys, leases
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.leases import Busy, Held, acquire, deaths, holder, owner, release_all
from geocairn.stores.waiting import lease_or_result

FP = fingerprint("leased")
KEY = keys.lease(FP)


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    """Leases that a test leaves behind, as a dead holder would, do not beat on."""
    yield
    release_all()


def take(store: CheckpointStore, run_id: str = "run-1", backend: str = "geopandas", **more: Any) -> Held | Busy:
    return acquire(store.objects, FP, owner(run_id, backend), **more)


def elsewhere(run_id: str = "far", backend: str = "geopandas") -> dict[str, Any]:
    """An owner on another machine, of which nothing can be known but its heartbeat."""
    return {**owner(run_id, backend), "host": "elsewhere", "boot": "another"}


def wait_until(condition: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_holds_and_others_are_told_who(store: CheckpointStore) -> None:
    with take(store) as held:
        assert isinstance(held, Held)
        busy = take(store, "run-2")
        assert isinstance(busy, Busy)
        assert busy.owner["run_id"] == "run-1"
        assert busy.owner["backend"] == "geopandas"
        assert "run run-1" in str(busy)
        assert holder(store.objects, FP) == busy
    assert keys_under(store, "leases/") == []
    assert holder(store.objects, FP) is None
    again = take(store, "run-2")
    assert isinstance(again, Held)
    again.release()


def test_of_threads_that_take_it_one_wins(store: CheckpointStore) -> None:
    for _ in range(5):
        taken = in_threads(take, *[(store, f"run-{number}") for number in range(6)])
        held = [one for one in taken if isinstance(one, Held)]
        assert len(held) == 1
        held[0].release()


def test_of_those_that_take_over_one_wins(store: CheckpointStore) -> None:
    far = acquire(store.objects, FP, elsewhere(), interval=60, ttl=0.01)
    assert isinstance(far, Held)
    time.sleep(1.1 if "s3" in store.url else 0.05)
    taken = in_threads(take, *[(store, f"run-{number}") for number in range(6)])
    held = [one for one in taken if isinstance(one, Held)]
    assert len(held) == 1
    assert held[0].deaths == {"geopandas": 1}
    held[0].release()


def test_a_heartbeat_keeps_it_beyond_its_ttl(store: CheckpointStore) -> None:
    held = acquire(store.objects, FP, elsewhere(), interval=0.2, ttl=2.5)
    assert isinstance(held, Held)
    before = store.objects.read(KEY)
    time.sleep(3.2)
    after = store.objects.read(KEY)
    assert before is not None
    assert after is not None
    assert after.tag != before.tag
    assert json.loads(after.data)["beat"] >= 3
    assert isinstance(take(store), Busy)
    assert not held.lost.is_set()
    held.release()
    assert store.objects.read(KEY) is None


def test_without_a_heartbeat_it_expires_by_the_store_s_clock_and_counts_as_a_death(store: CheckpointStore) -> None:
    far = acquire(store.objects, FP, elsewhere(backend="duckdb"), interval=60, ttl=30)
    assert isinstance(far, Held)
    assert isinstance(take(store), Busy)
    now = store.objects.now()
    store.objects.now = lambda: now + 31  # type: ignore[method-assign]
    held = take(store)
    assert isinstance(held, Held)
    assert held.deaths == {"duckdb": 1}
    held.release()


def test_deaths_are_forgotten_some_time_after_the_last_one(store: CheckpointStore) -> None:
    clock = store.objects.now
    for days, counted in ((0, 1), (0.5, 2), (2, 1)):
        far = acquire(store.objects, FP, elsewhere(), interval=60, ttl=30)
        assert isinstance(far, Held)
        store.objects.now = lambda days=days: clock() + days * 86400 + 31  # type: ignore[method-assign, misc]
        held = take(store)
        assert isinstance(held, Held)
        assert held.deaths == {"geopandas": counted}
        held.release()


def test_a_forked_child_does_not_give_back_what_its_parent_holds(store: CheckpointStore) -> None:
    held = take(store)
    assert isinstance(held, Held)
    child = os.fork()
    if child == 0:
        held.release()
        os._exit(release_all())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert holder(store.objects, FP) is not None
    held.release()
    assert holder(store.objects, FP) is None


def test_a_lost_lease_tells_its_holder_and_spares_the_new_one(store: CheckpointStore) -> None:
    far = acquire(store.objects, FP, elsewhere(), interval=0.1, ttl=30)
    assert isinstance(far, Held)
    now = store.objects.now
    store.objects.now = lambda: now() + 3600  # type: ignore[method-assign]
    held = take(store, ttl=7200)
    assert isinstance(held, Held)
    assert far.lost.wait(5)
    far.release()
    current = holder(store.objects, FP)
    assert current is not None
    assert current.owner["run_id"] == "run-1"
    held.release()


@pytest.mark.parametrize("deaths_before", [0, 1])
def test_a_killed_holder_of_this_machine_is_taken_over_at_once(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, deaths_before: int
) -> None:
    body = """
        from geocairn.stores.leases import acquire, owner
        held = acquire(store.objects, fingerprint("leased"), owner("killed", "geopandas"), ttl=3600)
        ready()
        import time; time.sleep(60)
    """
    for _ in range(deaths_before + 1):
        process = Script(body, store_url, store_settings)
        process.wait_until_ready()
        assert isinstance(take(store), Busy)
        process.kill()
    held = take(store, backend="duckdb")
    assert isinstance(held, Held)
    assert held.deaths == {"geopandas": deaths_before + 1}
    assert deaths(store.objects, FP) == held.deaths
    held.release()
    assert deaths(store.objects, FP) == held.deaths  # the count outlives the lease
    assert holder(store.objects, FP) is None
    again = take(store)
    assert isinstance(again, Held)
    assert again.deaths == held.deaths
    again.release()


@pytest.mark.parametrize("way", ["KeyboardInterrupt", "SystemExit", "ValueError"])
def test_the_way_out_of_a_body_is_no_death(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, way: str
) -> None:
    body = f"""
        from geocairn.stores.leases import acquire, owner
        with acquire(store.objects, fingerprint("leased"), owner("interrupted", "geopandas")):
            raise {way}
    """
    Script(body, store_url, store_settings).wait()
    assert keys_under(store, "leases/") == []


def test_a_process_that_only_has_the_number_of_the_holder_is_not_the_holder(store: CheckpointStore) -> None:
    reused = {**owner("gone", "geopandas"), "started": "1"}
    far = acquire(store.objects, FP, reused, interval=60, ttl=3600)
    assert isinstance(far, Held)
    held = take(store)
    assert isinstance(held, Held)
    assert held.deaths == {"geopandas": 1}
    held.release()


def test_all_leases_of_a_process_can_be_released(store: CheckpointStore) -> None:
    held = [acquire(store.objects, fingerprint(name), owner("run-1", "geopandas")) for name in ("three", "four")]
    assert all(isinstance(one, Held) for one in held)
    assert release_all() == 2
    assert holder(store.objects, fingerprint("three")) is None
    assert holder(store.objects, fingerprint("four")) is None


def test_a_damaged_lease_is_free(store: CheckpointStore) -> None:
    for damage in (b"", b"{}", b"[]", b'{"format": "geocairn-lease/1", "fingerprint": "x"}'):
        store.objects.write(KEY, damage)
        held = take(store)
        assert isinstance(held, Held)
        assert held.deaths == {}
        held.release()


def test_a_write_whose_answer_was_lost_still_gives_the_lease(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store.objects.write

    def sent_twice(key: str, data: bytes, **condition: Any) -> str:
        real(key, data, **condition)
        return real(key, data, **condition)

    monkeypatch.setattr(store.objects, "write", sent_twice)
    held = acquire(store.objects, FP, owner("run-1", "geopandas"), interval=0.05)
    assert isinstance(held, Held)
    time.sleep(0.4)  # the heartbeat, too, finds its own writes again
    assert not held.lost.is_set()
    monkeypatch.undo()
    held.release()
    assert store.objects.read(KEY) is None


def test_a_lease_that_cannot_be_renewed_is_lost_when_it_expires(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = acquire(store.objects, FP, owner("run-1", "geopandas"), interval=0.05, ttl=0.6)
    assert isinstance(held, Held)

    def refuse(*_: Any, **__: Any) -> str:
        raise TransientFailure("503")

    monkeypatch.setattr(store.objects, "write", refuse)
    assert not held.lost.wait(0.2)
    assert held.lost.wait(5)
    held.release()


def test_a_release_that_the_store_refuses_is_left_to_expire(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> bool:
        raise TransientFailure("503")

    held = take(store)
    assert isinstance(held, Held)
    monkeypatch.setattr(store.objects, "delete", refuse)
    held.release()
    assert "will expire" in caplog.text


# Waiting


def test_a_waiter_says_for_whom_it_waits_and_adopts_the_result(store: CheckpointStore) -> None:
    held = take(store)
    assert isinstance(held, Held)
    told: list[Busy] = []
    made = []

    def finish() -> None:
        wait_until(lambda: told)
        made.append(store.commit(checkpoint("leased"), layer()))
        held.release()

    worker = threading.Thread(target=finish)
    worker.start()
    result = lease_or_result(store, FP, owner("run-2", "geopandas"), waits_for=told.append, timeout=20)
    worker.join()
    assert result == made[0]
    assert [busy.owner["run_id"] for busy in told] == ["run-1"]


def test_a_waiter_gets_the_lease_when_the_holder_fails(store: CheckpointStore) -> None:
    held = take(store)
    assert isinstance(held, Held)
    worker = threading.Timer(0.3, held.release)
    worker.start()
    result = lease_or_result(store, FP, owner("run-2", "geopandas"), timeout=20)
    assert isinstance(result, Held)
    result.release()
    worker.join()


def test_what_was_committed_before_the_lease_was_taken_is_not_made_again(store: CheckpointStore) -> None:
    made = store.commit(checkpoint("leased"), layer())
    assert lease_or_result(store, FP, owner("run-2", "geopandas")) == made
    assert keys_under(store, "leases/") == []


def test_a_run_waits_for_its_own_layers_too(store: CheckpointStore) -> None:
    made = store.put_run_layer("run-1", FP, layer(), checkpoint("leased"))
    assert lease_or_result(store, FP, owner("run-1", "geopandas"), run_id="run-1") == made


def test_waiting_ends_in_time_or_when_it_is_cancelled(store: CheckpointStore) -> None:
    held = take(store)
    assert isinstance(held, Held)
    with pytest.raises(TransientFailure, match="run run-1"):
        lease_or_result(store, FP, owner("run-2", "geopandas"), timeout=0.3)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(TransientFailure, match="cancelled"):
        lease_or_result(store, FP, owner("run-2", "geopandas"), cancelled=cancelled)
    held.release()


def test_a_lease_on_what_is_no_fingerprint_is_refused(store: CheckpointStore) -> None:
    with pytest.raises(InputFailure, match="fingerprint"):
        acquire(store.objects, "../x", owner("run-1", "geopandas"))


def test_the_intervals_leave_room_for_several_beats() -> None:
    assert leases.TTL >= 3 * leases.INTERVAL
