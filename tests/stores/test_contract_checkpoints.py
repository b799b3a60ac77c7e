"""Look-up, commit, belief, loading and quarantine, on a folder and on a real S3 server."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import pickle
from typing import Any

import pytest
from geopandas.testing import assert_geodataframe_equal
from store_samples import (
    checkpoint,
    commit_number,
    fingerprint,
    in_processes,
    in_threads,
    keys_under,
    layer,
    overwrite,
    replace_number,
)

from geocairn.checkpoint import LayerReference, Publication, parse_record, parse_time, write_record
from geocairn.classification import classify
from geocairn.failure import FailureClass, FatalFailure, InputFailure
from geocairn.s3 import S3Settings
from geocairn.stores import checkpoints, keys
from geocairn.stores.checkpoints import CheckpointStore, LayerLost
from geocairn.stores.opening import open_store
from geocairn.stores.quarantine import list_quarantine

FP = fingerprint("step")
RECORD = keys.SHARED.record(FP)


def commit(store: CheckpointStore, name: str = "step", number: int = 0, **more: Any) -> Any:
    return store.commit(checkpoint(name), layer(number), **more)


def test_nothing_is_there_at_first(store: CheckpointStore) -> None:
    found = store.look_up(FP)
    assert (found.reason, found.checkpoint, found.tag) == ("missing", None, None)
    assert store.get(FP) is None


def test_a_commit_is_believed_and_its_layer_comes_back(store: CheckpointStore) -> None:
    made = commit(store)
    found = store.look_up(FP)
    assert (found.reason, found.checkpoint) == ("present", made)
    assert made.layer is not None
    assert made.layer.key.startswith(f"layers/{FP[:2]}/{FP}/")
    assert f"checkpoints/{FP[:2]}/{FP}.json" == RECORD
    assert_geodataframe_equal(store.load(made), layer())
    assert list(store.load(made, columns=[]).columns) == ["geometry"]


def test_times_are_the_store_s_and_expiry_follows_the_ttl(store_url: str, store_settings: S3Settings | None) -> None:
    store = open_store(store_url, settings=store_settings, ttl=dt.timedelta(hours=2))
    made = commit(store)
    assert made.expires is not None
    assert parse_time(made.expires) - parse_time(made.created) == pytest.approx(7200)
    assert abs(parse_time(made.created) - store.objects.now()) < 5
    assert commit(store, "pinned", pinned=True).expires is None
    assert commit(open_store(store_url, settings=store_settings, ttl=None), "for ever").expires is None


def test_a_second_commit_adopts_the_first_and_leaves_no_layer_behind(store: CheckpointStore) -> None:
    first = commit(store, number=1)
    assert commit(store, number=2) == first
    assert keys_under(store, "layers/") == [first.layer.key]


def test_a_source_and_a_publication_have_a_record_alone(store: CheckpointStore) -> None:
    source = store.commit(checkpoint("source", kind="source", source={"uri": "data.gpkg"}))
    assert source.layer is None
    assert store.get(source.fingerprint) == source
    published = Publication("out.parquet", "parquet", 10, "0" * 64)
    publication = store.commit(checkpoint("out", kind="publication", publication=published))
    assert store.get(publication.fingerprint) == publication
    assert keys_under(store, "layers/") == []
    with pytest.raises(FatalFailure, match="no layer"):
        store.load(source)


def test_a_step_without_a_layer_is_not_committed(store: CheckpointStore) -> None:
    with pytest.raises(FatalFailure, match="needs a layer"):
        store.commit(checkpoint("step"))
    assert keys_under(store, "") == []


def test_a_layer_can_be_written_by_another_function(store: CheckpointStore) -> None:
    from geocairn.stores.layers import write_layer_file

    made = store.commit(checkpoint("step"), layer(5), write=lambda given, path: write_layer_file(given.head(1), path))
    assert len(store.load(made)) == 1


def test_what_cannot_be_stored_commits_nothing(store: CheckpointStore) -> None:
    with pytest.raises(InputFailure, match="'mixed'"):
        store.commit(checkpoint("step"), layer().assign(mixed=[1, "two", b"three"]))
    assert keys_under(store, "") == []
    with pytest.raises(ValueError, match="JSON"):
        store.commit(checkpoint("step", parameters={"distance": float("nan")}), layer())
    assert store.look_up(FP).reason == "missing"


# Belief


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[: len(data) // 2], "not whole"),
        (lambda data: b"", "not whole"),
        (lambda data: b"\xff\xfe\x00", ""),
        (lambda data: data.replace(b'"rows": 3', b'"rows": 4'), "altered"),
        (lambda data: b"[]", "not whole"),
        (lambda data: b"{}", "altered"),
    ],
)
def test_a_damaged_record_is_a_miss_that_says_so(store: CheckpointStore, change: Any, said: str) -> None:
    commit(store)
    stored = store.objects.read(RECORD)
    assert stored is not None
    overwrite(store, RECORD, change(stored.data))
    found = store.look_up(FP)
    assert (found.reason, found.checkpoint) == ("damaged", None)
    assert said in found.detail
    assert found.tag is not None


def test_a_record_of_another_fingerprint_is_not_believed(store: CheckpointStore) -> None:
    commit(store, "other")
    stored = store.objects.read(keys.SHARED.record(fingerprint("other")))
    assert stored is not None
    overwrite(store, RECORD, stored.data)
    assert store.look_up(FP).reason == "damaged"


def test_a_record_that_names_another_s_layer_is_not_believed(store: CheckpointStore) -> None:
    other = commit(store, "other")
    overwrite(store, RECORD, write_record(checkpoint("step", layer=other.layer, created=other.created)))
    assert store.look_up(FP).reason == "damaged"
    overwrite(store, RECORD, write_record(checkpoint("step", layer=None, created=other.created)))
    assert store.look_up(FP).reason == "damaged"


def test_an_expired_record_is_a_miss_but_tells_what_it_was(store: CheckpointStore) -> None:
    made = expired(store)
    found = store.look_up(FP)
    assert (found.reason, found.checkpoint, found.found) == ("expired", None, made)


def expired(store: CheckpointStore) -> Any:
    made = commit(store, number=9)
    old = made.replaced(created="2020-01-01T00:00:00Z", expires="2020-01-08T00:00:00Z")
    overwrite(store, RECORD, write_record(old))
    return old


def test_a_time_that_is_none_is_damage(store: CheckpointStore) -> None:
    made = commit(store)
    overwrite(store, RECORD, write_record(made.replaced(expires="soon")))
    assert store.look_up(FP).reason == "damaged"


def test_a_layer_that_is_gone_or_shorter_is_a_miss(store: CheckpointStore) -> None:
    made = commit(store)
    store.objects.delete(made.layer.key)
    assert store.look_up(FP).reason == "layer missing"
    overwrite(store, made.layer.key, b"short")
    assert store.look_up(FP).reason == "layer differs"


# Loading


def flip(store: CheckpointStore, key: str) -> None:
    stored = store.objects.read(key)
    assert stored is not None
    changed = bytearray(stored.data)
    changed[len(changed) // 2] ^= 1
    overwrite(store, key, bytes(changed))


def test_a_flipped_byte_is_found_and_set_aside(store: CheckpointStore) -> None:
    made = commit(store)
    flip(store, made.layer.key)
    assert store.look_up(FP).reason == "present"  # its size is right; only reading can tell
    with pytest.raises(LayerLost) as raised:
        store.load(made)
    assert raised.value.fingerprint == FP
    assert classify(raised.value).failure_class is FailureClass.TRANSIENT
    assert store.look_up(FP).reason == "missing"
    assert keys_under(store, "layers/") == []
    aside = keys_under(store, "quarantine/")
    assert [key.rpartition(".")[2] for key in aside].count("parquet") == 1
    (record,) = list_quarantine(store.objects, FP)
    assert parse_record(record["record"].encode(), FP) == made
    assert "not what was written" in record["reason"]
    again = commit(store)
    assert_geodataframe_equal(store.load(again), layer())


def test_a_lost_layer_is_found_when_it_is_read(store: CheckpointStore) -> None:
    made = commit(store)
    store.objects.delete(made.layer.key)
    with pytest.raises(LayerLost):
        store.load(made)
    assert store.look_up(FP).reason == "missing"


def test_the_record_of_another_attempt_outlives_a_lost_layer(store: CheckpointStore) -> None:
    stale = commit(store)
    store.discard(FP, "made again")
    made = commit(store, number=4)
    store.objects.delete(stale.layer.key)
    with pytest.raises(LayerLost):
        store.load(stale)
    assert store.get(FP) == made


def test_a_lost_layer_survives_pickling() -> None:
    lost = LayerLost(FP, "it is gone", where="layers/x", remedy="run it again")
    back = pickle.loads(pickle.dumps(lost))
    assert (type(back), back.fingerprint, str(back)) == (LayerLost, FP, str(lost))
    assert back.at("elsewhere").fingerprint == FP


# Replacing what is not believed


@pytest.mark.parametrize("named", [True, False])
def test_what_is_not_believed_is_replaced_and_kept_aside(store: CheckpointStore, named: bool) -> None:
    old = commit(store)
    assert old.layer is not None
    store.objects.delete(old.layer.key)
    made = commit(store, number=2, replace=store.look_up(FP) if named else None)
    assert store.get(FP) == made
    assert made.layer != old.layer
    (aside,) = list_quarantine(store.objects, FP)
    assert parse_record(aside["record"].encode(), FP) == old
    assert "layer" in aside["reason"]


def test_what_has_only_expired_is_replaced_and_not_kept_aside(store: CheckpointStore) -> None:
    expired(store)
    made = commit(store, number=2, replace=store.look_up(FP))
    assert store.get(FP) == made
    assert list(list_quarantine(store.objects, FP)) == []


def test_a_record_that_is_no_text_is_kept_aside_whole(store: CheckpointStore) -> None:
    commit(store)
    overwrite(store, RECORD, b"\xff\xfe\x00")
    made = commit(store)
    assert store.get(FP) == made
    (aside,) = list_quarantine(store.objects, FP)
    assert aside["record_base64"] == "//4A"


def test_a_believed_record_is_never_replaced_under_an_old_look_up(store: CheckpointStore) -> None:
    expired(store)
    seen = store.look_up(FP)
    winner = commit(store, number=2, replace=seen)
    assert commit(store, number=3, replace=seen) == winner
    assert winner.layer is not None
    assert winner.layer.key in keys_under(store, "layers/")


def test_a_believed_record_is_renewed_by_the_look_up_that_names_it(store: CheckpointStore) -> None:
    published = Publication("out.parquet", "parquet", 10, "0" * 64)
    before = checkpoint("out", kind="publication", publication=published)
    store.commit(before)
    seen = store.look_up(before.fingerprint)
    again = store.commit(before.replaced(publication=Publication("out.parquet", "parquet", 11, "1" * 64)), replace=seen)
    assert store.get(before.fingerprint) == again
    assert list(list_quarantine(store.objects)) == []
    assert store.commit(before, replace=seen) == again


def test_of_threads_that_commit_one_wins_and_all_adopt_it(store: CheckpointStore) -> None:
    made = in_threads(lambda number: commit(store, number=number), *[(number,) for number in range(5)])
    assert len({one.layer.key for one in made}) == 1
    assert keys_under(store, "layers/") == [made[0].layer.key]
    assert len(keys_under(store, "checkpoints/")) == 1


def test_of_processes_that_commit_one_wins_and_all_adopt_it(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None
) -> None:
    made = in_processes(commit_number, *[(store_url, store_settings, "step", number) for number in range(3)])
    assert len(set(made)) == 1
    assert keys_under(store, "layers/") == [made[0][0]]


def test_of_those_that_replace_an_expired_record_one_wins(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None
) -> None:
    expired(store)
    calls = [(store_url, store_settings, "step", number) for number in range(4)]
    won = {*in_threads(replace_number, *calls), *in_processes(replace_number, *calls[:2])}
    found = store.get(FP)
    assert found is not None
    assert found.layer is not None
    assert won == {found.layer.key}


def test_a_commit_that_never_wins_gives_up(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer puts a damaged record there before each attempt."""
    writes = iter(range(100))
    real = store.objects.write

    def beaten(key: str, data: bytes, **condition: Any) -> str:
        if key == RECORD:
            real(key, b"damage %d" % next(writes))
        return real(key, data, **condition)

    monkeypatch.setattr(store.objects, "write", beaten)
    with pytest.raises(checkpoints.TransientFailure, match="faster"):
        commit(store)


def test_a_write_whose_answer_was_lost_is_recognised(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = store.objects.write

    def sent_twice(key: str, data: bytes, **condition: Any) -> str:
        if key == RECORD:
            real(key, data, **condition)
        return real(key, data, **condition)

    monkeypatch.setattr(store.objects, "write", sent_twice)
    made = commit(store)
    assert store.get(FP) == made
    assert keys_under(store, "layers/") == [made.layer.key]


def test_discarding_keeps_aside_and_spares_a_newer_record(store: CheckpointStore) -> None:
    assert store.discard(FP, "nothing there") is False
    commit(store)
    seen = store.look_up(FP)
    assert store.discard(FP, "the gate is newer", seen) is True
    assert store.look_up(FP).reason == "missing"
    newer = commit(store)
    assert store.discard(FP, "again", seen) is False
    assert store.get(FP) == newer


def test_what_is_no_fingerprint_is_refused(store: CheckpointStore) -> None:
    for text in ["", "ab", FP.upper(), FP + "0", "../" + FP[3:]]:
        with pytest.raises(InputFailure, match="no fingerprint"):
            store.look_up(text)


def test_everything_at_rest_is_json_or_parquet(store: CheckpointStore) -> None:
    made = commit(store)
    flip(store, made.layer.key)
    with pytest.raises(LayerLost):
        store.load(made)
    commit(store)
    for info in store.objects.list(""):
        stored = store.objects.read(info.key)
        assert stored is not None
        if info.key.endswith(".json"):
            json.loads(stored.data)
        else:
            assert stored.data[:4] == b"PAR1"


def test_the_reference_holds_what_is_stored(store: CheckpointStore) -> None:
    made = commit(store)
    stored = store.objects.read(made.layer.key)
    assert stored is not None
    digest = hashlib.sha256(stored.data).hexdigest()
    assert made.layer == LayerReference(made.layer.key, len(stored.data), digest)
