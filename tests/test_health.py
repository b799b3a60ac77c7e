"""Health over many runs: from traces to a report, and from a store to traces."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from click.testing import CliRunner

from geocairn.checkpoint import format_time
from geocairn.flows.command_line import main
from geocairn.health import COUNTS, ChainHealth, Health, StepHealth, health
from geocairn.s3 import S3Settings
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.folder import FolderObjects
from geocairn.stores.traces import DamagedTrace, read_traces, write_trace

LOST = {"backend": "duckdb", "class": "transient", "known": True, "error": "ConnectionResetError: reset by peer"}


def step(name: str, outcome: str = "computed", **more: Any) -> dict[str, Any]:
    entry = {"name": name, "op": "buffer", "fingerprint": f"fp-{name}", "outcome": outcome, "backend": "geopandas"}
    return {**entry, "attempts": [], "seconds": 1.0, **more}


_number = iter(range(10**6))


def trace(*steps: dict[str, Any], plan: str = "reach", status: str = "completed", **more: Any) -> dict[str, Any]:
    number = next(_number)
    answer = {"status": status, "plan": plan, "steps": list(steps), "outputs": {}, "sources": []}
    failed = [one["name"] for one in steps if one["outcome"] == "failed"]
    if failed:
        answer["failure"] = {"step": failed[0], "class": "fatal"}
    return {
        "run_id": f"run-{number}",
        "started": format_time(1_800_000_000 + number),
        "plan": {"name": plan},
        "answer": {**answer, **more.pop("answer", {})},
        "notices": [],
        "attempts": {one["name"]: one["attempts"] for one in steps if one["attempts"]},
        "counts": {},
        **more,
    }


def recovered(name: str, **more: Any) -> dict[str, Any]:
    """A run in which a step lost its connection once, and was computed."""
    return trace(step(name, attempts=[LOST]), step("after"), counts={name: {"retries": 1}}, **more)


def only(found: Health) -> ChainHealth:
    assert len(found.chains) == 1
    return found.chains[0]


def of_step(found: Health, name: str) -> StepHealth:
    return only(found).steps[name]


# A defect that is being absorbed


def test_a_step_that_recovers_on_four_of_five_runs_is_named() -> None:
    runs = [*(recovered("reach") for _ in range(4)), trace(step("reach"), step("after"))]
    found = health(runs)
    [(chain, one)] = found.absorbed
    assert (chain.name, one.name, one.ran, one.recovered, one.counts["retries"]) == ("reach", "reach", 5, 4, 4)
    last = {"class": "transient", "error": LOST["error"], "backend": "duckdb"}
    assert one.last == {**last, "run_id": runs[3]["run_id"], "started": runs[3]["started"]}
    [told] = found.as_json()["absorbed"]
    assert told == {"plan": "reach", "step": "reach", "ran": 5, "recovered": 4, **one.last}


@pytest.mark.parametrize(
    ("recoveries", "sound", "named"),
    [(3, 0, True), (2, 1, True), (2, 0, False), (1, 1, False), (2, 2, False), (3, 2, True), (0, 5, False)],
)
def test_most_runs_and_at_least_three(recoveries: int, sound: int, named: bool) -> None:
    runs = [*(recovered("reach") for _ in range(recoveries)), *(trace(step("reach")) for _ in range(sound))]
    assert bool(health(runs).absorbed) is named


def test_runs_that_reused_the_step_say_nothing_of_it() -> None:
    runs = [*(recovered("reach") for _ in range(3)), *(trace(step("reach", "reused")) for _ in range(20))]
    found = health(runs)
    assert [one.name for _, one in found.absorbed] == ["reach"]
    assert (of_step(found, "reach").ran, of_step(found, "reach").reused) == (3, 20)


def test_a_failure_in_the_end_is_no_recovery() -> None:
    runs = [
        trace(step("reach", "failed", attempts=[LOST, LOST]), status="halted", counts={"reach": {"retries": 1}})
        for _ in range(3)
    ]
    found = health(runs)
    assert not found.absorbed
    [(_, one)] = found.always_failing
    assert (one.name, one.failed, one.recovered, one.counts["retries"]) == ("reach", 3, 0, 3)


@pytest.mark.parametrize(("failures", "others", "named"), [(2, 0, True), (1, 0, False), (5, 1, False)])
def test_a_step_that_always_fails(failures: int, others: int, named: bool) -> None:
    runs = [trace(step("reach", "failed", attempts=[LOST]), status="halted") for _ in range(failures)]
    runs += [trace(step("reach")) for _ in range(others)]
    assert bool(health(runs).always_failing) is named


def test_a_source_can_be_what_recovers() -> None:
    sources = [{"name": "cities", "outcome": "read"}]
    runs = [trace(step("reach"), answer={"sources": sources}, attempts={"cities": [LOST]}) for _ in range(3)]
    assert [one.name for _, one in health(runs).absorbed] == ["cities"]


@pytest.mark.parametrize("of_step", ["reach", "map"])
def test_an_output_can_be_what_recovers(of_step: str) -> None:
    """An output's recoveries stand under its bare name, which may be that of the step that it comes from."""
    reused = step("reach", "reused", attempts=[LOST] if of_step == "reach" else [])
    more: dict[str, Any] = {"attempts": {of_step: [LOST]}, "counts": {of_step: {"retries": 2}}}
    runs = [trace(reused, answer={"outputs": {of_step: {"outcome": "written"}}}, **more) for _ in range(3)]
    found = health(runs)
    assert [(one.name, one.counts["retries"]) for _, one in found.absorbed] == [(f"output:{of_step}", 6)]
    assert sorted(only(found).steps) == sorted({"reach", f"output:{of_step}"})


@pytest.mark.parametrize("of_step", ["reach", "map"])
def test_an_output_that_failed_is_no_recovery_of_its_step(of_step: str) -> None:
    computed = step("reach", attempts=[LOST] if of_step == "reach" else [])
    more: dict[str, Any] = {"attempts": {of_step: [LOST]}, "answer": {"failure": {"step": of_step}}}
    found = health([trace(computed, status="halted", **more) for _ in range(3)])
    assert not found.absorbed
    assert [one.name for _, one in found.always_failing] == [f"output:{of_step}"]


# Runs and reuse


def test_kinds_of_runs() -> None:
    a, b, c = "abc"
    found = health(
        [
            trace(step(a), step(b), step(c)),
            trace(step(a, "reused"), step(b, "failed"), step(c, "not_reached"), status="needs_input"),
            trace(step(a, "not_needed"), step(b, "reused"), step(c)),
            trace(step(a, "reused"), step(b), step(c)),
            trace(step(a, "not_needed"), step(b, "not_needed"), step(c, "reused")),
        ]
    )
    chain = only(found)
    assert (chain.clean, chain.resumed, chain.unchanged, chain.failed, chain.runs) == (1, 2, 1, 1, 5)
    assert chain.resumed_to_clean == 2
    assert chain.depth == 3 / 6
    assert (chain.computed_steps, chain.reused_steps) == (6, 4)
    assert chain.reuse_rate == 4 / 10
    told = chain.as_json()
    assert (told["depth_of_resumption"], told["steps_skipped_when_resumed"], told["reuse_rate"]) == (0.5, 1.5, 0.4)
    assert json.loads(json.dumps(found.as_json()))["runs"] == 5


def test_ratios_of_nothing_are_none() -> None:
    chain = only(health([trace(step("a", "failed"), status="halted")]))
    assert (chain.resumed_to_clean, chain.depth, chain.reuse_rate) == (None, None, None)
    assert chain.as_json()["steps_skipped_when_resumed"] is None


@pytest.mark.parametrize("turned", [False, True])
def test_whose_results_are_reused(turned: bool) -> None:
    runs = [
        trace(step("a"), plan="one"),
        trace(step("mine", "reused", fingerprint="fp-a"), step("b"), plan="two"),
        trace(step("a", "reused"), plan="one"),
        trace(step("old", "reused"), plan="one"),  # made before these traces begin
        trace(step("x", fingerprint="fp-x"), step("y", "reused", fingerprint="fp-x"), plan="two"),  # twice in one run
    ]
    found = health(reversed(runs) if turned else runs)
    one, two = found.chains
    assert (one.name, one.cross_run, one.cross_chain) == ("one", 2, 0)
    assert (two.name, two.cross_run, two.cross_chain, two.reused_steps) == ("two", 1, 1, 2)
    alone = only(health(runs, name="two"))
    assert alone == two


def test_a_plan_and_a_flow_of_one_name_are_two_and_uses_in_one_run_are_one() -> None:
    mapped = [step("buffer", attempts=[LOST], fingerprint=str(number)) for number in range(3)]
    flows = [trace(*mapped, counts={"buffer": {"retries": 3}}) | {"plan": None, "flow": "reach"} for _ in range(3)]
    found = health([trace(step("buffer")), *flows])
    chains = [(chain.kind, chain.name, chain.runs) for chain in found.chains]
    assert chains == [("flow", "reach", 3), ("plan", "reach", 1)]
    one = found.chains[0].steps["buffer"]
    assert (one.ran, one.recovered, one.counts["retries"]) == (3, 3, 9)


def test_all_counts_are_summed_and_expirations_seen() -> None:
    gone = [{"component": "checkpoint", "before": "present", "now": "expired"}]
    other = [{"component": "checkpoint", "before": "present", "now": "missing"}]
    counts = {name: number for number, name in enumerate(COUNTS, 1)}
    found = health(
        [
            trace(
                step("a", because=gone), step("b", because=other), counts={"a": counts, "b": {"retries": 5, "new": 9}}
            ),
            trace(step("a", because=gone), counts={"a": counts}),
        ]
    )
    told = only(found).as_json()
    assert {name: told[name] for name in COUNTS} == {
        name: 2 * number + (5 if name == "retries" else 0) for name, number in counts.items()
    }
    assert told["expirations"] == 2
    assert (of_step(found, "a").expirations, of_step(found, "b").expirations) == (2, 0)


@pytest.mark.parametrize(
    ("backends", "outcome", "retries", "reroutes"),
    [
        (["geopandas"], "computed", 1, 0),
        (["duckdb"], "computed", 0, 1),
        (["geopandas", "geopandas"], "failed", 1, 0),
        (["duckdb", "duckdb", "geopandas"], "computed", 2, 1),
        ([], "computed", 0, 0),
    ],
)
def test_a_trace_without_counts_is_counted_by_its_attempts(
    backends: list[str], outcome: str, retries: int, reroutes: int
) -> None:
    old = trace(step("a", outcome, attempts=[{**LOST, "backend": backend} for backend in backends]))
    del old["counts"]
    one = of_step(health([old]), "a")
    assert (one.counts["retries"], one.counts["reroutes"]) == (retries, reroutes)


def test_a_run_counts_once_and_old_ones_not_at_all() -> None:
    first, second = trace(step("a")), trace(step("a"))
    assert health([second, first, second]).runs == 2
    assert health([second, first], since=second["started"]).runs == 1


@pytest.mark.parametrize(
    "damage",
    [
        {"answer": None},
        {"answer": {"status": "completed", "plan": "reach"}},
        {"answer": {"status": "completed", "plan": "reach", "steps": [{"name": "a"}]}},
        {"answer": {"status": "completed", "plan": "reach", "steps": "odd"}},
        {"plan": None},
        {"started": "yesterday"},
        {"counts": {"a": {"retries": "many"}}},
        {"attempts": {"a": 5, "b": 5}},
    ],
)
def test_a_damaged_trace_is_told_and_spoils_nothing(damage: dict[str, Any]) -> None:
    sound = [trace(step("a")), trace(step("a", "reused"))]
    broken = {**trace(step("a")), **damage}
    found = health([sound[0], broken, DamagedTrace("traces/x", "odd"), sound[1]], since="2020-01-01T00:00:00Z")
    assert [one.key for one in found.damaged] == [f"run {broken['run_id']}", "traces/x"]
    assert only(found) == only(health(sound))
    assert len(found.as_json()["damaged"]) == 2


# From the store


def written(store: CheckpointStore, traces: Iterable[dict[str, Any]], day: str, scopes: Iterable[str] = ()) -> None:
    for one in traces:
        one["started"] = f"{day}T12:00:00Z"
        write_trace(store, one["run_id"], one, scopes, started=one["started"])


def test_traces_are_read_by_day_and_scope(store: CheckpointStore) -> None:
    old, new, foreign = trace(step("a")), [trace(step("a")) for _ in range(30)], trace(step("a"))
    written(store, [old], "2026-10-31")
    written(store, new, "2026-11-02", ["mine"])
    written(store, [foreign], "2026-11-02", ["mine", "theirs"])
    store.objects.write(keys.trace("broken", "2026-11-03"), b"{half")
    store.objects.write(keys.trace("strange", "2026-11-01"), b'{"format": "geocairn-trace/9"}')
    everything = list(read_traces(store, {"mine"}))
    found = [one["run_id"] for one in everything if isinstance(one, dict)]
    assert sorted(found) == sorted(one["run_id"] for one in [old, *new])
    assert found[-1] == old["run_id"], "the newest day comes first"
    assert [one.key for one in everything if isinstance(one, DamagedTrace)] == [
        keys.trace("broken", "2026-11-03"),
        keys.trace("strange", "2026-11-01"),
    ]
    later = [one["run_id"] for one in read_traces(store, {"mine"}, since="2026-11-02") if isinstance(one, dict)]
    assert sorted(later) == sorted(one["run_id"] for one in new)
    for since, number in (("2026-10-31", 31), ("2026-11-01", 30), ("2026-11-03", 0)):
        assert health(read_traces(store, {"mine"}, since=since)).runs == number
    assert [one for one in read_traces(store, set()) if isinstance(one, dict)] == [old]
    assert health(read_traces(store, {"mine"})).runs == 31


def test_many_traces_are_read_at_once_and_few_are_held(
    store_of_folder: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store_of_folder, (trace(step("a")) for _ in range(200)), "2026-11-02")
    lock, together, begun = threading.Lock(), threading.Barrier(8, timeout=30), [0]
    plain = FolderObjects.read

    def read(self: FolderObjects, key: str) -> Any:
        with lock:
            begun[0] += 1
            number = begun[0]
        if number <= 8:
            together.wait()  # passes only where eight reads are under way
        return plain(self, key)

    monkeypatch.setattr(FolderObjects, "read", read)
    traces = read_traces(store_of_folder, ())
    next(traces)
    assert begun[0] <= 80, "reading runs ahead by a bounded number"
    assert len(list(traces)) == 199
    assert begun[0] == 200


@pytest.fixture
def store_of_folder(tmp_path: Any) -> CheckpointStore:
    return CheckpointStore(FolderObjects(tmp_path / "store"))


@pytest.mark.s3
def test_what_the_store_refuses_is_a_failure(s3_bucket: str, proxied_settings: S3Settings, fault_proxy: Any) -> None:
    from geocairn.failure import FatalFailure
    from geocairn.stores.opening import open_store

    store = open_store(f"s3://{s3_bucket}", settings=proxied_settings)
    written(store, [trace(step("a"))], "2026-11-02")
    fault_proxy.fail(method="GET", path="/traces/2026", status=403)
    with pytest.raises(FatalFailure):
        list(read_traces(store, ()))


# The command


def ran(folder: Any, *arguments: str) -> Any:
    return CliRunner().invoke(main, ["-C", str(folder), "health", "--store", "store", *arguments])


def test_the_command(store_of_folder: CheckpointStore, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    day = format_time(store_of_folder.objects.now())[:10]
    written(store_of_folder, [*(recovered("reach") for _ in range(4)), trace(step("reach"), step("after"))], day)
    written(store_of_folder, [trace(step("b"), plan="other")], day)
    written(store_of_folder, [trace(step("b"), plan="other")], "2020-01-01")
    store_of_folder.objects.write(keys.trace("broken", day), b"{half")
    told = ran(tmp_path)
    assert told.exit_code == 0, told.output
    assert "step reach of plan reach failed and recovered on 4 of 5 runs: a defect is being absorbed" in told.output
    assert "transient on duckdb: ConnectionResetError: reset by peer" in told.output
    assert "plan other: 1 run: 1 clean" in told.output
    assert "6 runs in the last 30d" in told.output
    assert "a damaged trace, left out" in told.output

    (tmp_path / "plan.yaml").write_text("name: reach\nsources: {}\nsteps: []\n")
    for stated in ("reach", "plan.yaml"):
        one = json.loads(ran(tmp_path, stated, "--json", "--since", "52w").stdout)
        assert [chain["name"] for chain in one["chains"]] == ["reach"]
        assert one["absorbed"][0]["step"] == "reach"
    assert json.loads(ran(tmp_path, "--json", "--since", "2000w").stdout)["runs"] == 7
    assert ran(tmp_path, "--since", "soon").exit_code == 2
