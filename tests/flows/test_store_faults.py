"""A store that refuses or does not answer: a failure of its class, never a recomputation, never a wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import Chain
from fault_proxy import FaultProxy
from seven_steps import STEPS

from geocairn.s3 import S3Settings


@pytest.fixture
def proxied(
    new_chain: Callable[..., Chain], s3_bucket: str, proxied_settings: S3Settings, fault_proxy: FaultProxy
) -> Chain:
    """The chain on S3 behind a fault proxy, run to its end."""
    chain = new_chain(f"s3://{s3_bucket}/store", proxied_settings)
    assert chain.run().computed == sorted(STEPS)
    return chain


LOOK_UPS: list[tuple[str, dict[str, Any]]] = [
    ("records, by GET", {"method": "GET", "path": r"/checkpoints/[0-9a-f]{2}/"}),
    ("layers, by HEAD", {"method": "HEAD", "path": r"/layers/"}),
    ("listings", {"method": "GET", "path": r"[?&]prefix=[^&]*(checkpoints|layers)"}),
    ("everything", {}),
]

CHANGED = ("--set", "by_zone.aggregates={value: max}")


@pytest.mark.s3
def test_refused_and_failed_look_ups_are_never_taken_for_misses(proxied: Chain, fault_proxy: FaultProxy) -> None:
    for status, code, kind in ((403, 1, "fatal"), (503, 4, "transient")):
        for what, rule in LOOK_UPS:
            failing = fault_proxy.fail(status=status, **rule)
            unchanged = proxied.run(code=None, interference=[("quick_retries", {})])
            assert unchanged.log == [], (status, what)
            if failing.fired:
                assert unchanged.code == code, (status, what)
                assert unchanged.answer["failure"]["class"] == kind, (status, what)
                assert not unchanged.answer.get("outputs"), (status, what)
            changed = proxied.run(*CHANGED, code=None, interference=[("quick_retries", {})])
            assert failing.fired, (status, what)
            assert changed.code == code, (status, what)
            assert changed.answer["failure"]["class"] == kind, (status, what)
            assert set(changed.computed) <= {"by_zone"}, (status, what)
            fault_proxy.heal()
    # The fault is gone: the unchanged plan is unchanged, the changed one costs its tail.
    assert proxied.run().answer["unchanged"] is True
    assert proxied.run(*CHANGED).computed == ["by_zone"]


@pytest.mark.s3
def test_a_fault_inside_the_run_halts_it_and_the_next_run_goes_on(
    proxied: Chain, fault_proxy: FaultProxy
) -> None:
    # The decision is made; then look-ups of single records by the steps are refused.
    before = len(fault_proxy.requests)
    assert proxied.status(*CHANGED)["unchanged"] is False
    looked_up = sum("/checkpoints/" in path for _, path in fault_proxy.requests[before:])
    for status, code in ((403, 1), (503, 4)):
        fault_proxy.fail(status=status, method="GET", path=r"/checkpoints/[0-9a-f]{2}/", skip=2 * looked_up + 1)
        ended = proxied.run(*CHANGED, code=None, interference=[("quick_retries", {})])
        assert ended.code == code, ended.stderr
        assert ended.computed == []
        fault_proxy.heal()
    assert proxied.run(*CHANGED).computed == ["by_zone"]


@pytest.mark.s3
def test_a_short_burst_of_503_is_absorbed(proxied: Chain, fault_proxy: FaultProxy) -> None:
    interference: list[Any] = [("quick_retries", {})]
    # One failure of a look-up is nothing that anybody hears of.
    rule = fault_proxy.fail(status=503, method="GET", path=r"/checkpoints/", count=1)
    assert proxied.run().answer["unchanged"] is True
    assert rule.fired == 1
    # Several in a row, while a step commits, cost it another attempt.
    rule = fault_proxy.fail(status=503, method="PUT", path=r"/checkpoints/", count=3)
    ended = proxied.run(*CHANGED, interference=interference)
    assert rule.fired == 3
    assert set(ended.computed) == {"by_zone"}
    told = {step["name"]: [attempt["class"] for attempt in step["attempts"]] for step in ended.answer["steps"]}
    assert told["by_zone"] == ["transient"]


@pytest.mark.s3
def test_a_cut_or_dropped_layer_is_read_again_or_fails_and_is_not_thrown_away(
    proxied: Chain, fault_proxy: FaultProxy
) -> None:
    for action in ("cut", "drop"):
        rule = fault_proxy.fail(method="GET", path=r"/layers/[0-9a-f]{2}/", action=action, count=2)
        ended = proxied.run("--set", f"by_zone.aggregates={{value: {'min' if action == 'cut' else 'mean'}}}")
        assert rule.fired == 2
        assert set(ended.computed) == {"by_zone"}
        assert list(proxied.store.objects.list("quarantine/")) == []
        fault_proxy.heal()


@pytest.mark.s3
def test_what_is_only_for_the_next_status_does_not_cost_a_run_its_answer(
    proxied: Chain, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fail(status=503, method="PUT", path=r"/(plans|traces)/")
    ended = proxied.run(*CHANGED, interference=[("quick_retries", {})])
    assert ended.answer["status"] == "completed"
    assert ended.computed == ["by_zone"]
    assert proxied.run(*CHANGED).answer["unchanged"] is True
    fault_proxy.heal()


@pytest.mark.s3
def test_the_listing_of_a_large_store_is_paged_and_single_requests_are_few(
    proxied: Chain, fault_proxy: FaultProxy
) -> None:
    plan = proxied.values
    plan["steps"] = [
        {"name": f"s{number}", "op": "simplify", "inputs": "parcels", "params": {"tolerance": 1.0 + number}}
        for number in range(1000)
    ]
    plan["sources"] = {"parcels": plan["sources"]["parcels"]}
    plan["outputs"] = []
    before = len(fault_proxy.requests)
    said = proxied.status()
    assert sum(step["outcome"] == "compute" for step in said["steps"]) == 1000
    asked = fault_proxy.requests[before:]
    # A listing of records and one of layers, and a little beside them: no request for each step.
    assert len(asked) <= 10, asked
