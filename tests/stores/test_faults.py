"""Faults between the store and the S3 service: never a miss, never half a commit, always a class."""

from __future__ import annotations

from typing import Any

import pytest
from fault_proxy import FaultProxy
from geopandas.testing import assert_geodataframe_equal
from s3_server import GUEST_KEY, GUEST_SECRET
from store_samples import checkpoint, fingerprint, keys_under, layer

from geocairn.classification import classify
from geocairn.failure import Failure, FailureClass, FatalFailure, TransientFailure
from geocairn.s3 import S3Settings
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.leases import Held, acquire, owner
from geocairn.stores.opening import open_store
from geocairn.stores.refusals import refusal

FP = fingerprint("step")
RECORD = keys.SHARED.record(FP)

FAULTS: dict[str, tuple[dict[str, Any], type[Failure]]] = {
    "403": ({"status": 403}, FatalFailure),
    "503": ({"status": 503}, TransientFailure),
    "500": ({"status": 500}, TransientFailure),
    "dropped": ({"action": "drop"}, TransientFailure),
    "slow": ({"action": "delay", "seconds": 1.2}, TransientFailure),
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that do not wait long."""
    from botocore.config import Config

    real = Config.__init__

    def short(self: Any, *args: Any, **given: Any) -> None:
        real(self, *args, **{**given, "read_timeout": 0.4})

    monkeypatch.setattr(Config, "__init__", short)


@pytest.fixture
def store(impatient: None, s3_bucket: str, proxied_settings: S3Settings) -> CheckpointStore:
    """A store behind the fault proxy."""
    return open_store(f"s3://{s3_bucket}/prefix", settings=proxied_settings)


@pytest.fixture
def sound(s3_bucket: str, s3_settings: S3Settings) -> CheckpointStore:
    """The same store, seen without the proxy."""
    return open_store(f"s3://{s3_bucket}/prefix", settings=s3_settings)


pytestmark = pytest.mark.s3


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("present", [True, False])
def test_a_faulty_look_up_is_a_failure_and_no_miss(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy, fault: str, present: bool
) -> None:
    rule, kind = FAULTS[fault]
    if present:
        sound.commit(checkpoint("step"), layer())
    fault_proxy.fail(method="GET", path="/checkpoints/", **rule)
    with pytest.raises(kind) as raised:
        store.look_up(FP)
    assert raised.value.__cause__ is not None
    assert RECORD in str(raised.value)
    assert raised.value.remedy
    with pytest.raises(kind):
        store.get(FP)
    with pytest.raises(kind):
        store.look_up_many([FP])
    fault_proxy.heal()
    assert store.look_up(FP).present is present


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_look_at_the_layer_is_a_failure_and_no_miss(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy, fault: str
) -> None:
    rule, kind = FAULTS[fault]
    sound.commit(checkpoint("step"), layer())
    fault_proxy.fail(method="HEAD", path="/layers/", **rule)
    with pytest.raises(kind):
        store.look_up(FP)
    fault_proxy.heal()
    assert store.look_up(FP).present


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_listing_is_a_failure(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy, fault: str
) -> None:
    rule, kind = FAULTS[fault]
    sound.commit(checkpoint("step"), layer())
    fault_proxy.fail(method="GET", path="list-type=2", **rule)
    with pytest.raises(kind):
        store.look_up_many([FP, *(fingerprint(number) for number in range(20))])
    with pytest.raises(kind):
        list(store.objects.list("checkpoints/"))


def test_the_second_page_of_a_listing_counts_too(
    store: CheckpointStore, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geocairn.stores.s3.PAGE", 2)
    for number in range(5):
        store.objects.write(f"p/{number}", b"x")
    fault_proxy.fail(method="GET", path="continuation-token", status=503)
    with pytest.raises(TransientFailure):
        list(store.objects.list("p/"))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("part", ["/layers/", "/checkpoints/"])
def test_a_faulty_commit_leaves_nothing_that_is_believed(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy, fault: str, part: str
) -> None:
    rule, kind = FAULTS[fault]
    fault_proxy.fail(method="PUT", path=part, **rule)
    with pytest.raises(kind):
        store.commit(checkpoint("step"), layer(1))
    fault_proxy.heal()
    if fault == "slow":  # the answer came too late, but the object may have been stored: then it is stored whole
        found = sound.look_up(FP)
        assert found.reason in ("missing", "present")
    else:
        assert sound.look_up(FP).reason == "missing"
    made = store.commit(checkpoint("step"), layer(1))
    assert sound.get(FP) == made
    assert_geodataframe_equal(sound.load(made), layer(1))


def test_a_layer_whose_arrival_cannot_be_confirmed_is_not_committed(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fail(method="HEAD", path="/layers/", status=503)
    with pytest.raises(TransientFailure):
        store.commit(checkpoint("step"), layer())
    assert sound.look_up(FP).reason == "missing"
    assert keys_under(sound, "checkpoints/") == []


def test_a_single_fault_is_ridden_out_by_the_client(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fail(status=503, count=1)
    made = store.commit(checkpoint("step"), layer())
    assert sound.get(FP) == made


@pytest.mark.parametrize("part", ["/layers/", "/checkpoints/"])
def test_an_answer_that_was_lost_is_no_lost_commit(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy, part: str
) -> None:
    """The service stored it, the connection broke, the client asks again and meets its own object."""
    rule = fault_proxy.fail(method="PUT", path=part, action="lose answer", count=1)
    made = store.commit(checkpoint("step"), layer())
    assert rule.fired == 1
    assert sound.get(FP) == made
    assert keys_under(sound, "layers/") == [made.layer.key if made.layer else None]


def test_a_lease_whose_answer_was_lost_is_held(store: CheckpointStore, fault_proxy: FaultProxy) -> None:
    fault_proxy.fail(method="PUT", path="/leases/", action="lose answer", count=1)
    held = acquire(store.objects, FP, owner("run-1", "geopandas"))
    assert isinstance(held, Held)
    held.release()
    assert store.objects.read(keys.lease(FP)) is None


def test_a_lease_cannot_be_taken_where_the_store_refuses(store: CheckpointStore, fault_proxy: FaultProxy) -> None:
    fault_proxy.fail(path="/leases/", status=403)
    with pytest.raises(FatalFailure, match=r"s3:GetObject"):
        acquire(store.objects, FP, owner("run-1", "geopandas"))


def test_a_body_that_is_cut_short_is_a_failure(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy
) -> None:
    made = sound.commit(checkpoint("step"), layer())
    fault_proxy.fail(method="GET", path="/checkpoints/", action="cut")
    with pytest.raises(TransientFailure):
        store.look_up(FP)
    fault_proxy.heal()
    fault_proxy.fail(method="GET", path="/layers/", action="cut")
    with pytest.raises(TransientFailure):
        store.load(made)
    fault_proxy.heal()
    assert sound.get(FP) == made  # a layer that did not come down whole is not condemned
    assert_geodataframe_equal(store.load(made), layer())


@pytest.mark.parametrize("status", [403, 503])
def test_a_layer_that_may_not_be_read_is_not_lost(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy, status: int
) -> None:
    made = sound.commit(checkpoint("step"), layer())
    fault_proxy.fail(method="GET", path="/layers/", status=status)
    with pytest.raises(FatalFailure if status == 403 else TransientFailure):
        store.load(made)
    assert sound.get(FP) == made


def test_no_temporary_file_stays_behind(
    store: CheckpointStore, sound: CheckpointStore, fault_proxy: FaultProxy
) -> None:
    made = sound.commit(checkpoint("step"), layer())
    folder = store.objects.scratch().parent
    before = set(folder.iterdir())
    fault_proxy.fail(path="/layers/", status=503)
    with pytest.raises(TransientFailure):
        store.load(made)
    with pytest.raises(TransientFailure):
        store.commit(checkpoint("another"), layer())
    assert set(folder.iterdir()) <= before


# Refusals say what is wanting


def test_a_refusal_names_the_permission_and_warns_of_missing_keys(
    s3_bucket: str, s3_settings: S3Settings, sound: CheckpointStore
) -> None:
    guest = S3Settings(**{**s3_settings.model_dump(), "access_key": GUEST_KEY, "secret_key": GUEST_SECRET})
    store = open_store(f"s3://{s3_bucket}/prefix", settings=guest)
    with pytest.raises(FatalFailure, match=r"s3:GetObject; without s3:ListBucket a missing key answers 403"):
        store.look_up(FP)
    with pytest.raises(FatalFailure, match=r"s3:PutObject"):
        store.commit(checkpoint("step"), layer())
    with pytest.raises(FatalFailure, match=r"s3:ListBucket"):
        list(store.objects.list(""))


def test_a_bucket_that_is_not_there_is_no_miss(s3_settings: S3Settings) -> None:
    store = open_store("s3://no-such-bucket-anywhere", settings=s3_settings)
    for ask in (lambda: store.look_up(FP), lambda: store.objects.head("a"), lambda: list(store.objects.list(""))):
        with pytest.raises(FatalFailure, match="bucket"):
            ask()
    with pytest.raises(FatalFailure, match="create the bucket"):
        store.objects.write("a", b"")


def test_wrong_and_missing_keys_are_told_without_secrets(s3_bucket: str, s3_settings: S3Settings) -> None:
    wrong = S3Settings(**{**s3_settings.model_dump(), "secret_key": "not-the-secret"})
    with pytest.raises(FatalFailure, match="secret key") as raised:
        open_store(f"s3://{s3_bucket}", settings=wrong).look_up(FP)
    assert "not-the-secret" not in str(raised.value)
    none = S3Settings(endpoint=s3_settings.endpoint, region="us-east-1")
    with pytest.raises(FatalFailure, match="AWS_ACCESS_KEY_ID"):
        open_store(f"s3://{s3_bucket}", settings=none).look_up(FP)


def test_a_service_that_is_down_is_transient() -> None:
    down = S3Settings(endpoint="http://127.0.0.1:1", access_key="a", secret_key="b")
    with pytest.raises(TransientFailure):
        open_store("s3://bucket", settings=down).look_up(FP)


def test_an_unknown_error_is_fatal_and_named() -> None:
    failure = refusal(RuntimeError("strange"), doing="read", where="x")
    assert classify(failure).failure_class is FailureClass.FATAL
    assert "RuntimeError" in str(failure)
