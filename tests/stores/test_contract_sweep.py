"""What a sweep removes and what it leaves, on a folder and on a real S3 server."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from store_samples import Script, checkpoint, fingerprint, keys_under, layer, overwrite
from sweep_samples import AT_ONCE, all_sound, commit, contents, elsewhere, expired, later, orphan, removed, swept

from geocairn.checkpoint import RECORD_FORMAT
from geocairn.failure import InputFailure
from geocairn.s3 import S3Settings
from geocairn.stores import keys, leases
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.leases import Held, acquire, deaths, owner, release_all
from geocairn.stores.opening import open_store
from geocairn.stores.quarantine import list_quarantine, set_aside
from geocairn.stores.runs import RunInFlight
from geocairn.stores.sweep import Retention, sweep
from geocairn.stores.sweep.budget import parse_size
from geocairn.stores.traces import write_decision, write_trace

ONE = fingerprint("one")


def record(name: object) -> str:
    return keys.SHARED.record(fingerprint(name))


def layer_key(store: CheckpointStore, name: object) -> str:
    found = store.look_up(fingerprint(name)).found
    assert found is not None
    assert found.layer is not None
    return found.layer.key


def test_an_empty_store_has_nothing_to_sweep(store: CheckpointStore) -> None:
    found = swept(store)
    assert (found.removed, found.kept, found.left) == ([], {}, [])
    assert contents(store) == {}


def test_what_expired_goes_with_its_layer_and_the_rest_stays(store: CheckpointStore) -> None:
    for name in ("old", "younger", "pinned"):
        commit(store, name, pinned=name == "pinned", ttl=dt.timedelta(days=20) if name == "younger" else None)
    old = layer_key(store, "old")
    sizes = {key: info.size for key in (record("old"), old) if (info := store.objects.head(key))}
    assert swept(store, grace=AT_ONCE).removed == []
    later(store, days=8)
    found = swept(store)
    assert [(one.kind, one.key, one.size, one.step) for one in found.removed] == [
        ("checkpoint", record("old"), sizes[record("old")], "old"),
        ("layer", old, sizes[old], "old"),
    ]
    assert found.removed[0].reason.startswith("expired at ")
    assert {kind: one.count for kind, one in found.kept.items()} == {"checkpoint": 2, "layer": 2}
    assert found.kept_size == sum(info.size for info in store.objects.list(""))
    younger = layer_key(store, "younger")
    later(store, days=3650)
    assert removed(swept(store)) == {record("younger"), younger}
    all_sound(store)
    assert store.get(fingerprint("pinned")) is not None


def test_the_layer_of_what_has_just_expired_waits_for_the_grace_period(store: CheckpointStore) -> None:
    """A run that believed it in its last minute is in flight by then."""
    commit(store, "one", ttl=dt.timedelta(days=1))
    key = layer_key(store, "one")
    later(store, days=1, minutes=5)
    assert removed(swept(store)) == {record("one")}
    assert keys_under(store, keys.LAYERS) == [key]
    later(store, hours=1)
    assert removed(swept(store)) == {key}


def test_a_record_without_a_layer_expires_too(store: CheckpointStore) -> None:
    store.commit(checkpoint("source", kind="source", source={"uri": "x"}))
    later(store, days=8)
    assert removed(swept(store)) == {record("source")}


def test_layers_that_no_record_names_go_when_they_are_old(store: CheckpointStore) -> None:
    kept = layer_key(store, commit(store, "one").step)
    lost, alone = orphan(store, "one", "beaten"), orphan(store, "two")
    assert removed(swept(store)) == set()
    later(store, minutes=59)
    found = swept(store)
    assert (removed(found), dict(found.spared)) == (set(), {"younger than the grace period": 2})
    later(store, minutes=2)
    found = swept(store)
    assert removed(found) == {lost, alone}
    assert {one.reason for one in found.removed} == {"no record names it"}
    assert keys_under(store, keys.LAYERS) == [kept]
    all_sound(store)


def test_what_a_run_in_flight_names_stays_with_its_layers(store: CheckpointStore) -> None:
    expired(store, "one")
    orphan(store, "two")
    before = contents(store)
    with RunInFlight(store, "run-1", [ONE, fingerprint("two")]):
        found = swept(store, grace=AT_ONCE)
        assert found.removed == []
        assert found.spared["expired, but a run in flight may read it"] == 1
        assert contents(store).items() >= before.items()
    assert removed(swept(store, grace=AT_ONCE)) == set(before)


def test_what_is_held_by_a_lease_stays(store: CheckpointStore) -> None:
    expired(store, "one")
    lease = acquire(store.objects, ONE, elsewhere(), interval=60)
    assert isinstance(lease, Held)
    before = contents(store)
    found = swept(store, grace=AT_ONCE)
    assert found.removed == []
    assert found.spared["expired, but somebody is computing it"] == 1
    assert contents(store) == before
    lease.release()
    assert len(swept(store, grace=AT_ONCE).removed) == 2


def test_a_lease_goes_once_its_deaths_are_forgotten(store: CheckpointStore) -> None:
    dead = acquire(store.objects, ONE, elsewhere(), interval=3600)
    counted = acquire(store.objects, fingerprint("two"), elsewhere(backend="duckdb"), interval=3600, ttl=0)
    assert isinstance(dead, Held)
    assert isinstance(counted, Held)
    later(store, minutes=1)
    again = acquire(store.objects, fingerprint("two"), owner("run-2", "geopandas"))
    assert isinstance(again, Held)
    again.release()  # written without an owner, since a death was counted
    later(store, hours=23)
    found = swept(store)
    assert (removed(found), dict(found.spared)) == (set(), {"a lease whose count of deaths still matters": 2})
    assert deaths(store.objects, fingerprint("two")) == {"duckdb": 1}
    taken = acquire(store.objects, ONE, owner("run-2", "geopandas"))
    assert isinstance(taken, Held)
    assert taken.deaths == {"geopandas": 1}  # the sweep has not made the death forgotten
    taken.release()
    later(store, hours=2)
    assert removed(swept(store)) == {keys.lease(fingerprint("two"))}
    later(store, hours=24)
    assert removed(swept(store)) == {keys.lease(ONE)}
    release_all()


def test_a_lease_that_is_not_understood_holds_for_a_while(store: CheckpointStore) -> None:
    store.objects.write(keys.lease(ONE), b'{"format": "geocairn-lease/2"}')
    key = orphan(store, "one")
    assert removed(swept(store, grace=AT_ONCE)) == set()
    later(store, seconds=leases.TTL + 2)
    assert removed(swept(store, grace=AT_ONCE)) == {key}
    later(store, hours=25)
    assert removed(swept(store)) == {keys.lease(ONE)}


def test_what_a_run_kept_for_itself_goes_when_the_run_is_over(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None
) -> None:
    body = f"""
        from geocairn.stores.runs import RunInFlight
        with RunInFlight(store, "killed", [{ONE!r}], ttl=3600):
            store.put_run_layer("killed", fingerprint("own"), layer(), checkpoint("own"))
            ready()
            import time; time.sleep(60)
    """
    process = Script(body, store_url, store_settings)
    process.wait_until_ready()
    assert len(contents(store)) == 3
    assert swept(store, grace=AT_ONCE).removed == []
    process.kill()
    assert swept(store).removed == []  # what it kept is younger than the grace period
    later(store, hours=1)
    found = swept(store)
    assert [one.kind for one in found.removed] == ["run file", "run file", "run"]
    assert "/checkpoints/" in found.removed[0].key
    assert contents(store) == {}


def test_a_run_that_is_only_asleep_keeps_what_it_has_for_the_grace_period(store: CheckpointStore) -> None:
    body = json.dumps(
        {"process": elsewhere(), "started": 0, "expires": store.objects.now() + 300, "fingerprints": [ONE]}
    )
    store.objects.write(keys.run("asleep"), body.encode())
    later(store, minutes=30)
    store.put_run_layer("asleep", ONE, layer(), checkpoint("one"))
    for minutes in (0, 30):
        later(store, minutes=minutes)
        assert swept(store).removed == []
    later(store, minutes=10)
    assert len(swept(store).removed) == 3


def test_a_folder_of_a_run_that_never_signed_on_stays_a_day_and_as_long_as_it_computes(store: CheckpointStore) -> None:
    store.put_run_layer("quiet", ONE, layer(), checkpoint("one"))
    later(store, hours=23)
    assert swept(store).removed == []
    later(store, hours=2)
    lease = acquire(store.objects, fingerprint("next"), owner("quiet", "geopandas"), interval=60)
    assert isinstance(lease, Held)
    assert swept(store).removed == []
    lease.release()
    assert len(swept(store).removed) == 2


def test_traces_and_quarantine_have_a_time_of_their_own_and_plans_stay(store: CheckpointStore) -> None:
    trace = write_trace(store, "run-1", {"status": "completed"})
    aside = set_aside(store.objects, ONE, b"{", "damaged")
    plan = write_decision(store, "default", "plan", {"nodes": {}})
    later(store, days=29)
    assert swept(store).removed == []
    later(store, days=2)
    assert removed(swept(store)) == {aside}
    later(store, days=60)
    assert removed(swept(store)) == {trace}
    assert list(contents(store)) == [plan]
    again = write_trace(store, "run-2", {"status": "completed"})
    assert removed(swept(store, retention=Retention(traces=AT_ONCE))) == {again}


def test_a_damaged_record_stays_for_a_person_to_see_and_is_then_set_aside(store: CheckpointStore) -> None:
    commit(store, "one")
    layer_of_it = layer_key(store, "one")
    overwrite(store, record("one"), b'{"format": "geocairn-checkpoint/1", "trunc')
    later(store, days=29)
    found = swept(store)
    assert found.removed == []
    assert sum(found.spared.values()) == 2
    later(store, days=2)
    told = sweep(store, dry_run=True)
    found = sweep(store)
    assert found.removed == told.removed
    assert removed(found) == {record("one"), layer_of_it}
    (aside,) = list_quarantine(store.objects, ONE)
    assert aside["record"].endswith('"trunc')
    assert keys_under(store, keys.LAYERS) == []


@pytest.mark.parametrize("change", [{"format": "geocairn-checkpoint/2"}, {"scheme": 2}, {"new_field": 1}])
def test_a_record_of_another_version_stays_with_its_layers(store: CheckpointStore, change: dict[str, object]) -> None:
    commit(store, "one")
    stored = store.objects.read(record("one"))
    assert stored is not None
    body = json.loads(stored.data)
    assert body["format"] == RECORD_FORMAT
    overwrite(store, record("one"), json.dumps({**body, **change}).encode())
    before = contents(store)
    later(store, days=3650)
    assert swept(store).removed == []
    assert contents(store) == before


def test_what_is_no_key_of_ours_is_not_touched(store: CheckpointStore) -> None:
    for key in ("layers/notes.txt", "layers/ab/notes.txt", "checkpoints/readme.json", "traces/x.json", "mine/x.json"):
        store.objects.write(key, b"mine")
    store.objects.write(f"layers/00/{ONE}/x.parquet", b"in the wrong folder")
    later(store, days=3650)
    assert swept(store, grace=AT_ONCE).removed == []


def test_the_report_names_steps_and_sizes_and_nothing_of_content(store: CheckpointStore) -> None:
    expired(store, "one", parameters={"where": "owner = 'Mrs Secret'"}, scopes=["hidden"], caveats=["Mrs Secret"])
    found = sweep(store, grace=AT_ONCE).as_json()
    text = json.dumps(found)
    assert "Secret" not in text
    assert found["removed_count"] == 2
    assert {one["fingerprint"] for one in found["removed"]} == {ONE}
    assert {one["step"] for one in found["removed"]} == {"one"}
    assert found["removed_size"] == sum(one["size"] for one in found["removed"]) > 0


# A size budget


def sized(store: CheckpointStore, name: object, days: float) -> int:
    """Commit a checkpoint that expires in so many days; return the size of record and layer."""
    made = commit(store, name, ttl=dt.timedelta(days=days))
    assert made.layer is not None
    head = store.objects.head(record(name))
    assert head is not None
    return head.size + made.layer.size


def test_a_size_budget_takes_what_expires_soonest_and_no_more_than_it_must(store: CheckpointStore) -> None:
    sizes = {name: sized(store, name, days) for name, days in (("late", 9), ("soon", 2), ("later", 20))}
    commit(store, "pinned", pinned=True)
    store.commit(checkpoint("source", kind="source", source={"uri": "x"}))
    later(store, hours=2)
    everything = sum(info.size for info in store.objects.list(""))
    assert swept(store, size_budget=everything).removed == []
    found = swept(store, size_budget=everything - 1)
    assert [one.step for one in found.removed] == ["soon", "soon"]
    assert found.over_budget == 0
    found = swept(store, size_budget=everything - sizes["soon"] - sizes["late"])
    assert {one.step for one in found.removed} == {"late"}
    assert found.kept_size == everything - sizes["soon"] - sizes["late"]
    found = swept(store, size_budget=0)
    assert {one.step for one in found.removed} == {"later"}
    assert found.over_budget == found.kept_size > 0
    all_sound(store)
    assert store.get(fingerprint("pinned")) is not None


def test_a_size_budget_spares_what_is_young_or_in_use(store: CheckpointStore) -> None:
    for name in ("flown", "leased", "free"):
        commit(store, name)
    assert swept(store, size_budget=0).removed == []
    later(store, hours=2)
    store.objects.write("traces/2020/01/01/x.json", b"{}")
    lease = acquire(store.objects, fingerprint("leased"), owner("run-2", "geopandas"), interval=60, ttl=9999)
    assert isinstance(lease, Held)
    with RunInFlight(store, "run-1", [fingerprint("flown")]), lease:
        assert {one.step for one in swept(store, size_budget=0).removed} == {"free"}
    assert store.get(fingerprint("flown")) is not None
    assert store.get(fingerprint("leased")) is not None


def test_what_goes_anyway_counts_for_the_budget(store: CheckpointStore) -> None:
    commit(store, "kept")
    kept = sum(info.size for info in store.objects.list(""))
    expired(store, "one")
    orphan(store, "two")
    later(store, hours=2)
    assert "kept" not in {one.step for one in swept(store, size_budget=kept).removed}


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("1.5 kB", 1500), ("2MB", 2_000_000), ("1GiB", 1 << 30), ("1T", 10**12)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1 XB", "1e3", "GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputFailure, match="not a size"):
        parse_size(text)


def test_negative_periods_and_sizes_are_refused(tmp_path: object) -> None:
    store = open_store(str(tmp_path))
    for wrong in ({"grace": -dt.timedelta(1)}, {"size_budget": -1}, {"retention": Retention(traces=-dt.timedelta(1))}):
        with pytest.raises(InputFailure, match="negative"):
            sweep(store, **wrong)  # type: ignore[arg-type]
