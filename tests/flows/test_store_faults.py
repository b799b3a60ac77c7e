"""A store that refuses or does not answer: a failure of its class, never a recomputation, never a wrong answer."""

from __future__ import annotations

from typing import Any

import pytest
from chains import Chain
from fault_proxy import FaultProxy

LOOK_UPS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("records, by GET", {"method": "GET", "path": r"/checkpoints/[0-9a-f]{2}/"}, (403, 503)),
    ("layers, by HEAD", {"method": "HEAD", "path": r"/layers/"}, (403,)),
    ("listings", {"method": "GET", "path": r"[?&]prefix=[^&]*(checkpoints|layers)"}, (403, 503)),
    ("everything", {}, (403,)),
]

CHANGED = ("--set", "by_zone.aggregates={value: max}")


@pytest.mark.s3
def test_refused_and_failed_look_ups_are_never_taken_for_misses(finished_on_s3: Chain, fault_proxy: FaultProxy) -> None:
    classes = {403: (1, "fatal"), 503: (4, "transient")}
    for what, rule, statuses in LOOK_UPS:
        for status in statuses:
            code, kind = classes[status]
            failing = fault_proxy.fail(status=status, **rule)
            for arguments in ((), CHANGED):
                before = failing.fired
                ended = finished_on_s3.run(*arguments, code=None, interference=[("quick_retries", {})])
                if failing.fired == before and not arguments:
                    assert ended.answer["unchanged"] is True, (status, what)  # it asked for nothing of the kind
                    continue
                assert failing.fired > before, (status, what)
                assert ended.code == code, (status, what, ended.stderr)
                assert ended.answer["failure"]["class"] == kind, (status, what)
                assert not ended.answer.get("outputs"), (status, what)
                assert set(ended.computed) <= {"by_zone"}, (status, what)
                assert ended.did("publish") == [], (status, what)
            fault_proxy.heal()
    # The fault is gone: the unchanged plan is unchanged, the changed one costs its tail.
    assert finished_on_s3.run().answer["unchanged"] is True
    assert finished_on_s3.run(*CHANGED).computed == ["by_zone"]


@pytest.mark.s3
def test_a_fault_inside_the_run_halts_it_and_the_next_run_goes_on(
    finished_on_s3: Chain, fault_proxy: FaultProxy
) -> None:
    # The decision is made; then look-ups of single records by the steps are refused.
    before = len(fault_proxy.requests)
    assert finished_on_s3.status(*CHANGED)["unchanged"] is False
    looked_up = sum("/checkpoints/" in path for _, path in fault_proxy.requests[before:])
    for status, code in ((403, 1), (503, 4)):
        fault_proxy.fail(status=status, method="GET", path=r"/checkpoints/[0-9a-f]{2}/", skip=2 * looked_up + 1)
        ended = finished_on_s3.run(*CHANGED, code=None, interference=[("quick_retries", {})])
        assert ended.code == code, ended.stderr
        assert ended.computed == []
        fault_proxy.heal()
    assert finished_on_s3.run(*CHANGED).computed == ["by_zone"]


@pytest.mark.s3
def test_a_short_burst_of_503_is_absorbed(finished_on_s3: Chain, fault_proxy: FaultProxy) -> None:
    interference: list[Any] = [("quick_retries", {})]
    # One failure of a look-up is nothing that anybody hears of.
    rule = fault_proxy.fail(status=503, method="GET", path=r"/checkpoints/", count=1)
    assert finished_on_s3.run().answer["unchanged"] is True
    assert rule.fired == 1
    # Several in a row, while a step commits, cost it another attempt.
    rule = fault_proxy.fail(status=503, method="PUT", path=r"/checkpoints/", count=3)
    ended = finished_on_s3.run(*CHANGED, interference=interference)
    assert rule.fired == 3
    assert set(ended.computed) == {"by_zone"}
    told = {step["name"]: [attempt["class"] for attempt in step["attempts"]] for step in ended.answer["steps"]}
    assert told["by_zone"] == ["transient"]


@pytest.mark.s3
def test_a_cut_or_dropped_layer_is_read_again_or_fails_and_is_not_thrown_away(
    finished_on_s3: Chain, fault_proxy: FaultProxy
) -> None:
    for action in ("cut", "drop"):
        rule = fault_proxy.fail(method="GET", path=r"/layers/[0-9a-f]{2}/", action=action, count=2)
        ended = finished_on_s3.run("--set", f"by_zone.aggregates={{value: {'min' if action == 'cut' else 'mean'}}}")
        assert rule.fired == 2
        assert set(ended.computed) == {"by_zone"}
        assert list(finished_on_s3.store.objects.list("quarantine/")) == []
        fault_proxy.heal()


@pytest.mark.s3
def test_what_is_only_for_the_next_status_does_not_cost_a_run_its_answer(
    finished_on_s3: Chain, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fail(status=503, method="PUT", path=r"/(plans|traces)/")
    ended = finished_on_s3.run(*CHANGED, interference=[("quick_retries", {})])
    assert ended.answer["status"] == "completed"
    assert ended.computed == ["by_zone"]
    assert finished_on_s3.run(*CHANGED).answer["unchanged"] is True
    fault_proxy.heal()


@pytest.mark.s3
def test_the_listing_of_a_large_store_is_paged_and_single_requests_are_few(
    finished_on_s3: Chain, fault_proxy: FaultProxy
) -> None:
    plan = finished_on_s3.values
    plan["steps"] = [
        {"name": f"s{number}", "op": "simplify", "inputs": "parcels", "params": {"tolerance": 1.0 + number}}
        for number in range(1000)
    ]
    plan["sources"] = {"parcels": plan["sources"]["parcels"]}
    plan["outputs"] = []
    before = len(fault_proxy.requests)
    said = finished_on_s3.status()
    assert sum(step["outcome"] == "compute" for step in said["steps"]) == 1000
    asked = fault_proxy.requests[before:]
    # A listing of records and one of layers, and a little beside them: no request for each step.
    assert len(asked) <= 10, asked
