"""Many look-ups at once: the same answers as single ones, for a few listings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fault_proxy import FaultProxy
from store_samples import checkpoint, fingerprint, layer, overwrite

from geocairn.checkpoint import LayerReference, write_record
from geocairn.memory import Memory
from geocairn.s3 import S3Settings
from geocairn.stores import keys, survey
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store


def mixed(store: CheckpointStore) -> list[str]:
    """Fill a store with checkpoints of every fate; return their fingerprints."""
    names = ["present", "missing", "expired", "damaged", "gone", "shorter", *range(8)]
    made = {name: store.commit(checkpoint(name), layer()) for name in names if name != "missing"}
    old = made["expired"].replaced(expires="2020-01-01T00:00:00Z")
    overwrite(store, keys.SHARED.record(old.fingerprint), write_record(old))
    overwrite(store, keys.SHARED.record(fingerprint("damaged")), b"\xff\xfe damage")
    store.objects.delete(made["gone"].layer.key)
    overwrite(store, made["shorter"].layer.key, b"x")
    return [fingerprint(name) for name in names]


def test_the_answers_are_those_of_single_look_ups(store: CheckpointStore) -> None:
    wanted = mixed(store)
    single = {one: store.look_up(one) for one in wanted}
    assert {found.reason for found in single.values()} == {
        "present",
        "missing",
        "expired",
        "damaged",
        "layer missing",
        "layer differs",
    }
    for _ in range(2):  # the second time from memory
        assert store.look_up_many(wanted) == single
    assert store.look_up_many(wanted[:3]) == {one: single[one] for one in wanted[:3]}
    assert store.look_up_many([]) == {}
    assert store.look_up_many([wanted[0], wanted[0]]) == {wanted[0]: single[wanted[0]]}


def test_what_changed_since_is_seen(store: CheckpointStore) -> None:
    wanted = mixed(store)
    before = store.look_up_many(wanted)
    present = fingerprint("present")
    store.discard(present, "changed")
    again = store.commit(checkpoint("present"), layer(3))
    store.discard(fingerprint(1), "gone")
    after = store.look_up_many(wanted)
    assert before[present].checkpoint != after[present].checkpoint == again
    assert (before[fingerprint(1)].reason, after[fingerprint(1)].reason) == ("present", "missing")


@pytest.mark.s3
def test_a_store_that_holds_far_more_is_not_listed_to_its_end(
    s3_bucket: str, proxied_settings: S3Settings, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"s3://{s3_bucket}", settings=proxied_settings)
    wanted = mixed(store)
    single = {one: store.look_up(one) for one in wanted}
    for module in ("s3", "survey"):
        monkeypatch.setattr(f"geocairn.stores.{module}.PAGE", 2)
    fault_proxy.requests.clear()
    assert store.look_up_many(wanted) == single
    listings = [path for _, path in fault_proxy.requests if "list-type=2" in path]
    assert len(listings) <= 2 * (survey._pages(len(wanted)) + 1)


def synthetic(store: CheckpointStore, count: int) -> list[str]:
    """Put many small checkpoints there, with layers of one byte."""

    def put(number: int) -> str:
        made = checkpoint(f"many {number}")
        key = keys.SHARED.layer(made.fingerprint, "0")
        store.objects.write(key, b"x")
        whole = made.replaced(layer=LayerReference(key, 1, "0" * 64), created="2026-11-30T00:00:00Z")
        store.objects.write(keys.SHARED.record(made.fingerprint), write_record(whole))
        return made.fingerprint

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(put, range(count)))


@pytest.mark.s3
def test_a_second_look_up_of_a_thousand_costs_listings_only(
    s3_bucket: str, s3_settings: S3Settings, proxied_settings: S3Settings, fault_proxy: FaultProxy
) -> None:
    wanted = synthetic(open_store(f"s3://{s3_bucket}", settings=s3_settings), 1000)
    store = open_store(f"s3://{s3_bucket}", settings=proxied_settings)
    first = store.look_up_many(wanted)
    assert all(found.present for found in first.values())
    assert len(fault_proxy.requests) <= 1000 + 4
    fault_proxy.requests.clear()
    assert store.look_up_many(wanted) == first
    assert len(fault_proxy.requests) <= 4
    assert all("list-type=2" in path for _, path in fault_proxy.requests)


@pytest.mark.s3
def test_a_wrong_memory_costs_no_right_answer(
    s3_bucket: str, s3_settings: S3Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"s3://{s3_bucket}", settings=s3_settings)
    wanted = mixed(store)
    right = store.look_up_many(wanted)

    class Broken(Memory):
        def get(self, namespace: str, key: str) -> dict[str, Any] | None:
            return {"another": "shape"}

    monkeypatch.setattr(store, "_memory", Broken())
    assert store.look_up_many(wanted) == right
