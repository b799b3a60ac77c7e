"""Runs in flight, traces and decisions, on a folder and on a real S3 server."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from geopandas.testing import assert_geodataframe_equal
from store_samples import Script, checkpoint, fingerprint, keys_under, layer, overwrite

from geocairn.failure import InputFailure, TransientFailure
from geocairn.s3 import S3Settings
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore, LayerLost
from geocairn.stores.runs import RunInFlight, list_in_flight
from geocairn.stores.traces import list_traces, read_decision, read_trace, write_decision, write_trace

ONE, TWO = fingerprint("one"), fingerprint("two")


def test_a_run_is_in_flight_while_it_lasts(store: CheckpointStore) -> None:
    assert list_in_flight(store) == []
    with RunInFlight(store, "run-1", [ONE]) as run:
        run.add([TWO])
        (seen,) = list_in_flight(store)
        assert (seen.run_id, seen.fingerprints, seen.live) == ("run-1", {ONE, TWO}, True)
        with RunInFlight(store, "run-2"):
            assert {one.run_id for one in list_in_flight(store)} == {"run-1", "run-2"}
    assert list_in_flight(store) == []
    assert keys_under(store, "runs/") == []


def test_layers_kept_for_a_run_are_not_runs(store: CheckpointStore) -> None:
    store.objects.write("runs/run-1/checkpoints/x.json", b"{}")
    assert list_in_flight(store) == []


def test_the_heartbeat_of_a_run_goes_on_and_survives_a_refusal(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunInFlight(store, "run-1", [ONE], interval=0.05):
        first = json.loads(store.objects.read("runs/run-1.json").data)["beat"]
        time.sleep(0.4)
        assert json.loads(store.objects.read("runs/run-1.json").data)["beat"] > first

        def refuse(*_: Any, **__: Any) -> str:
            raise TransientFailure("503")

        with monkeypatch.context() as broken:
            broken.setattr(store.objects, "write", refuse)
            time.sleep(0.2)
        second = json.loads(store.objects.read("runs/run-1.json").data)["beat"]
        time.sleep(0.4)
        assert json.loads(store.objects.read("runs/run-1.json").data)["beat"] > second


def test_a_run_that_cannot_say_that_it_is_in_flight_does_not_begin(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise TransientFailure("503")

    monkeypatch.setattr(store.objects, "write", refuse)
    with pytest.raises(TransientFailure), RunInFlight(store, "run-1"):
        pytest.fail("the body ran")


def test_a_run_that_was_killed_or_has_expired_is_not_live(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None
) -> None:
    body = f"""
        from geocairn.stores.runs import RunInFlight
        with RunInFlight(store, "killed", [{ONE!r}], ttl=3600):
            ready()
            import time; time.sleep(60)
    """
    process = Script(body, store_url, store_settings)
    process.wait_until_ready()
    assert [run.live for run in list_in_flight(store)] == [True]
    process.kill()
    (seen,) = list_in_flight(store)
    assert (seen.live, seen.fingerprints) == (False, {ONE})
    store.objects.delete("runs/killed.json")
    with RunInFlight(store, "slow", interval=60, ttl=30):
        now = store.objects.now()
        store.objects.now = lambda: now + 31  # type: ignore[method-assign]
        assert [run.live for run in list_in_flight(store)] == [False]


def test_a_damaged_run_is_told_and_protects_nothing(store: CheckpointStore) -> None:
    store.objects.write("runs/broken.json", b"{")
    (seen,) = list_in_flight(store)
    assert (seen.run_id, seen.fingerprints, seen.live) == ("broken", frozenset(), True)


# Layers for a run alone


def test_a_run_s_own_layer_is_seen_by_that_run_alone(store: CheckpointStore) -> None:
    made = store.put_run_layer("run-1", ONE, layer(), checkpoint("one"))
    assert made.expires is None
    assert store.get_run_layer("run-1", ONE) == made
    assert store.get_run_layer("run-2", ONE) is None
    assert store.get(ONE) is None
    assert_geodataframe_equal(store.load(made), layer())
    store.put_run_layer("run-2", ONE, layer(1), checkpoint("one"))
    assert store.clear_run("run-1") == 2
    assert store.get_run_layer("run-1", ONE) is None
    assert store.get_run_layer("run-2", ONE) is not None


def test_a_run_s_lost_layer_spares_the_shared_checkpoint(store: CheckpointStore) -> None:
    shared = store.commit(checkpoint("one"), layer())
    made = store.put_run_layer("run-1", ONE, layer(), checkpoint("one"))
    assert made.layer is not None
    overwrite(store, made.layer.key, b"x" * made.layer.size)
    with pytest.raises(LayerLost):
        store.load(made)
    assert store.get_run_layer("run-1", ONE) is None
    assert store.get(ONE) == shared


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".x", "x" * 200])
def test_an_id_that_would_lead_elsewhere_is_refused(store: CheckpointStore, run_id: str) -> None:
    with pytest.raises(InputFailure, match="no id"):
        store.clear_run(run_id)


# Traces


def test_a_trace_comes_back_by_its_id_and_by_the_beginning_of_it(store: CheckpointStore) -> None:
    key = write_trace(store, "abc-1", {"status": "completed"}, started="2026-11-30T23:59:59Z")
    assert key == "traces/2026/11/30/abc-1.json"
    write_trace(store, "abd-2", {"status": "halted"}, started="2026-12-01T00:00:00Z")
    assert read_trace(store, "abc-1", []) == {"status": "completed"}
    assert read_trace(store, "abc", ["default"]) == {"status": "completed"}
    with pytest.raises(InputFailure, match="2 runs"):
        read_trace(store, "ab", [])
    for unknown in ("x", ""):
        with pytest.raises(InputFailure, match="no trace"):
            read_trace(store, unknown, [])
    assert [(entry.run_id, entry.day) for entry in list_traces(store)] == [
        ("abd-2", "2026-12-01"),
        ("abc-1", "2026-11-30"),
    ]


def test_a_whole_id_is_found_though_others_begin_with_it(store: CheckpointStore) -> None:
    write_trace(store, "run-1", {"n": 1})
    write_trace(store, "run-10", {"n": 10})
    assert read_trace(store, "run-1", []) == {"n": 1}


def test_a_trace_is_given_only_to_who_may_read_every_scope_behind_it(store: CheckpointStore) -> None:
    write_trace(store, "secret-1", {"n": 1}, ["a", "b"])
    assert read_trace(store, "secret-1", ["a", "b", "c"]) == {"n": 1}
    for scopes in ([], ["a"], ["c"]):
        with pytest.raises(InputFailure, match="no trace"):
            read_trace(store, "secret-1", scopes)
    write_trace(store, "secret-2", {"n": 2}, ["c"])
    assert read_trace(store, "secret", ["c"]) == {"n": 2}  # what may not be read does not make it ambiguous


def test_a_trace_written_again_replaces_itself(store: CheckpointStore) -> None:
    for status in ("running", "completed"):
        write_trace(store, "run-1", {"status": status}, started="2026-11-30T10:00:00Z")
    assert read_trace(store, "run-1", []) == {"status": "completed"}
    assert len(keys_under(store, "traces/")) == 1


def test_what_is_no_json_is_refused(store: CheckpointStore) -> None:
    with pytest.raises(InputFailure, match="not JSON"):
        write_trace(store, "run-1", {"n": float("nan")})
    with pytest.raises(InputFailure, match="not JSON"):
        write_decision(store, "default", "plan", {"n": object()})


# Decisions


@pytest.mark.parametrize("name", ["plan", "a/b", "../x", ".hidden", "Ä plan", "", "x" * 300, "a.b", "a=2e", "="])
def test_a_decision_comes_back_under_any_name(store: CheckpointStore, name: str) -> None:
    assert read_decision(store, "default", name) is None
    write_decision(store, "default", name, {"steps": [name.encode("utf-8", "replace").decode()]})
    write_decision(store, "other", name, {"steps": []})
    found = read_decision(store, "default", name)
    assert found == {"steps": [name.encode("utf-8", "replace").decode()]}
    assert read_decision(store, "default/x", name) is None
    assert all(key.count("/") == 2 for key in keys_under(store, "plans/"))


def test_names_that_differ_have_keys_that_differ() -> None:
    names = ["a", "A", "a.", "a/", "a=", "a=2f", "=2f", "/", "", "é", "e\u0301", "x" * 200, "x" * 201]
    assert len({keys.decision("default", name) for name in names}) == len(names)


def test_a_damaged_decision_is_none(store: CheckpointStore) -> None:
    write_decision(store, "default", "plan", {"steps": []})
    for damage in (b"", b"[]", b"{}", b'{"scope": "default", "name": "plan"}'):
        store.objects.write(keys.decision("default", "plan"), damage)
        assert read_decision(store, "default", "plan") is None
