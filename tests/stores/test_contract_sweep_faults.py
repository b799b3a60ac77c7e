"""A sweep of a store that refuses, does not answer, or is large: nothing goes on doubt, and listings suffice."""

from __future__ import annotations

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fault_proxy import FaultProxy
from store_samples import checkpoint, fingerprint, keys_under
from sweep_samples import AT_ONCE, commit, contents, expired, orphan, removed, swept

from geocairn.checkpoint import LayerReference, write_record
from geocairn.failure import Failure, FailureClass, FatalFailure, TransientFailure
from geocairn.s3 import S3Settings
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store
from geocairn.stores.runs import RunInFlight
from geocairn.stores.sweep import sweep

ONE, TWO = fingerprint("one"), fingerprint("two")


def refusing(monkeypatch: pytest.MonkeyPatch, store: CheckpointStore, method: str, part: str, failure: Failure) -> None:
    """Have the store refuse a method for keys that contain a part."""
    asked = getattr(store.objects, method)

    def ask(key: str, **more: Any) -> Any:
        if part in key:
            raise failure
        return asked(key, **more)

    monkeypatch.setattr(store.objects, method, ask)


def test_a_record_that_cannot_be_read_stays_with_its_layers(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        expired(store, name)
    orphan(store, "one")
    refusing(monkeypatch, store, "read", ONE, TransientFailure("503"))
    found = swept(store, grace=AT_ONCE)
    assert {one.fingerprint for one in found.removed} == {TWO}
    assert [(one.key, one.failure_class) for one in found.left] == [(keys.SHARED.record(ONE), FailureClass.TRANSIENT)]
    assert found.failure_class == FailureClass.TRANSIENT
    assert len(keys_under(store, keys.LAYERS)) == 2


@pytest.mark.parametrize("way", ["refused", "not understood"])
def test_while_it_is_not_known_what_a_run_reads_nothing_of_it_goes(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    expired(store, "one")
    orphan(store, "two")
    with RunInFlight(store, "run-1", [ONE]):
        before = contents(store)
        if way == "refused":
            refusing(monkeypatch, store, "read", "runs/", FatalFailure("403"))
        else:
            store.objects.write(keys.run("run-1"), b'{"format": "geocairn-run/2"}')
            before = contents(store)
        found = swept(store, grace=AT_ONCE)
        assert found.removed == []
        assert contents(store) == before
        assert len(found.left) == 1
        assert found.failure_class is not None
        monkeypatch.undo()


def test_a_lease_that_cannot_be_read_protects(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expired(store, "one")
    store.objects.write(keys.lease(ONE), b"{}")
    refusing(monkeypatch, store, "read", "leases/", TransientFailure("503"))
    found = swept(store, grace=AT_ONCE)
    assert found.removed == []
    assert [one.key for one in found.left] == [keys.lease(ONE)]


@pytest.mark.parametrize("kind", [keys.LAYERS, keys.LEASES, keys.CHECKPOINTS, keys.TRACES])
def test_a_listing_that_is_refused_ends_it_before_anything_goes(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    expired(store, "one")
    before = contents(store)
    with monkeypatch.context() as broken:
        refusing(broken, store, "list", kind, FatalFailure("403"))
        with pytest.raises(FatalFailure):
            sweep(store, grace=AT_ONCE)
    assert contents(store) == before


def test_a_second_look_that_is_refused_leaves_the_layers(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = expired(store, "one")
    assert made.layer is not None
    listed = store.objects.list
    asked: list[str] = []

    def listing(prefix: str, **more: Any) -> Any:
        asked.append(prefix)
        if asked.count(keys.CHECKPOINTS) == 2:
            raise TransientFailure("503")
        return listed(prefix, **more)

    monkeypatch.setattr(store.objects, "list", listing)
    found = sweep(store, grace=AT_ONCE)
    assert removed(found) == {keys.SHARED.record(ONE)}
    assert [one.key for one in found.left] == [keys.CHECKPOINTS]
    store.load(made)


def test_a_deletion_that_is_refused_is_told_and_spares_the_layer(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [expired(store, name) for name in ("one", "two")]
    refusing(monkeypatch, store, "delete", f"checkpoints/{ONE[:2]}/{ONE}", FatalFailure("403", remedy="grant it"))
    found = sweep(store, grace=AT_ONCE)
    assert {one.fingerprint for one in found.removed} == {TWO}
    assert [(one.key, one.why) for one in found.left] == [(keys.SHARED.record(ONE), "403; grant it")]
    assert found.failure_class == FailureClass.FATAL
    store.load(made[0])


def test_it_gives_up_when_every_deletion_is_refused(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    keys_ = [orphan(store, number) for number in range(100)]
    tried: list[str] = []

    def refuse(key: str, **_: Any) -> bool:
        tried.append(key)
        raise TransientFailure("503")

    monkeypatch.setattr(store.objects, "delete", refuse)
    found = sweep(store, grace=AT_ONCE)
    assert found.removed == []
    assert {one.key for one in found.left} == set(keys_)
    assert 20 <= len(tried) <= 40


# Requests


def many(store: CheckpointStore, count: int) -> None:
    """Put many small checkpoints there, half of them expired, with layers of one byte."""

    def put(number: int) -> None:
        made = checkpoint(f"many {number}")
        key = keys.SHARED.layer(made.fingerprint, "0")
        store.objects.write(key, b"x")
        expires = "2020-01-01T00:00:00Z" if number % 2 else None
        complete = made.replaced(layer=LayerReference(key, 1, "0" * 64), expires=expires)
        store.objects.write(keys.SHARED.record(made.fingerprint), write_record(complete))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(count)))


def of_kind(requests: list[tuple[str, str]], kind: str, method: str = "GET", *, listing: bool = False) -> int:
    """Count requests for objects of a kind, or its listings."""
    return sum(
        seen == method and ("list-type=2" in path) == listing and (f"prefix={kind}" if listing else f"/{kind}") in path
        for seen, path in requests
    )


@pytest.mark.s3
def test_each_page_costs_one_listing_and_no_layer_is_asked_for(
    s3_bucket: str,
    s3_settings: S3Settings,
    proxied_settings: S3Settings,
    fault_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("geocairn.stores.s3.PAGE", 100)
    many(open_store(f"s3://{s3_bucket}", settings=s3_settings), 240)
    store = open_store(f"s3://{s3_bucket}", settings=proxied_settings)
    fault_proxy.requests.clear()
    assert len(sweep(store, dry_run=True, grace=AT_ONCE).removed) == 240
    first = list(fault_proxy.requests)
    assert {method for method, _ in first} == {"GET"}
    assert of_kind(first, "layers/") == 0
    assert of_kind(first, "layers/", listing=True) == 3
    assert of_kind(first, "checkpoints/") == 240
    assert of_kind(first, "checkpoints/", listing=True) == 3
    assert len(first) <= 240 + 3 + 3 + 12
    fault_proxy.requests.clear()
    found = sweep(store, grace=AT_ONCE)
    second = list(fault_proxy.requests)
    assert (len(found.removed), found.left) == (240, [])
    assert of_kind(second, "checkpoints/") == 0  # remembered since the dry run
    assert of_kind(second, "layers/") == 0
    assert of_kind(second, "layers/", "HEAD") == 0
    assert of_kind(second, "layers/", "DELETE") == 120
    assert of_kind(second, "checkpoints/", "DELETE") == 120
    assert of_kind(second, "checkpoints/", "HEAD") == 120
    assert of_kind(second, "checkpoints/", listing=True) == 3 + 2  # the second look
    fault_proxy.requests.clear()
    assert sweep(store, grace=AT_ONCE).removed == []
    assert len(fault_proxy.requests) <= 16


@pytest.mark.s3
def test_a_real_outage_in_the_middle_leaves_what_was_not_reached(
    s3_bucket: str, s3_settings: S3Settings, proxied_settings: S3Settings, fault_proxy: FaultProxy
) -> None:
    direct = open_store(f"s3://{s3_bucket}", settings=s3_settings)
    many(direct, 40)
    fault_proxy.fail(method="DELETE", path="checkpoints", status=503, skip=5)
    found = sweep(open_store(f"s3://{s3_bucket}", settings=proxied_settings), grace=AT_ONCE)
    records = {one.fingerprint for one in found.removed if one.kind == "checkpoint"}
    layers = {one.fingerprint for one in found.removed if one.kind == "layer"}
    assert records == layers
    assert 0 < len(records) < 20
    assert found.failure_class == FailureClass.TRANSIENT
    for info in direct.objects.list(keys.CHECKPOINTS):
        stored = direct.objects.read(info.key)
        assert stored is not None
        assert direct.objects.head(json.loads(stored.data)["layer"]["key"]) is not None
    fault_proxy.heal()
    assert len(sweep(direct, grace=AT_ONCE).removed) == 40 - 2 * len(records)


@pytest.mark.s3
def test_listing_without_the_right_to_it_is_told(
    s3_bucket: str, s3_settings: S3Settings, proxied_settings: S3Settings, fault_proxy: FaultProxy
) -> None:
    expired(open_store(f"s3://{s3_bucket}", settings=s3_settings), "one")
    store = open_store(f"s3://{s3_bucket}", settings=proxied_settings)
    fault_proxy.fail(path="uploads", status=403)
    found = sweep(store, grace=AT_ONCE)
    assert len(found.removed) == 2
    assert [one.key for one in found.left] == ["open uploads"]
    assert "ListBucketMultipartUploads" in found.left[0].why
    fault_proxy.fail(path="list-type=2.*prefix=layers/", status=403)
    with pytest.raises(FatalFailure, match="ListBucket"):
        sweep(store, grace=AT_ONCE)


def test_a_store_that_is_read_only_can_be_looked_at(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expired(store, "one")
    commit(store, "two", ttl=dt.timedelta(days=9))

    def refuse(*_: Any, **__: Any) -> Any:
        raise FatalFailure("read-only")

    for method in ("write", "delete", "upload", "clean"):
        monkeypatch.setattr(store.objects, method, refuse)
    assert len(sweep(store, dry_run=True, grace=AT_ONCE).removed) == 2
