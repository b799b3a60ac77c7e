"""Recoveries as Prefect events, as an automation would see them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from flow_samples import metric
from own_steps import flaky_step
from prefect import flow

from geocairn.failure import InputFailure

pytestmark = [pytest.mark.prefect_server, pytest.mark.usefixtures("no_delay")]


def events(api: str, prefix: str, plan: str, wanted: int) -> list[dict[str, Any]]:
    """The events of a prefix about a plan or flow on the server, oldest first, waited for."""
    end = time.monotonic() + 60
    while True:
        answer = httpx.post(f"{api}/events/filter", json={"filter": {"event": {"prefix": [prefix]}}, "limit": 50})
        told = answer.raise_for_status().json()["events"]
        found = [event for event in told if event["resource"]["geocairn.plan"] == plan]
        if len(found) >= wanted or time.monotonic() > end:
            return sorted(found, key=lambda event: str(event["occurred"]))
        time.sleep(0.3)


def test_each_recovery_is_an_event(prefect_api: str, place: Path) -> None:
    counter = place / "calls"
    counter.touch()

    @flow
    def told_of() -> None:
        flaky_step.with_options(step_name="tried")(metric(1), counter=str(counter), fails=1)
        flaky_step.with_options(step_name="moved")(metric(2), counter=str(counter), fails=99, failure="capability")
        flaky_step.with_options(step_name="lost")(metric(3), counter=str(counter), fails=99, failure="input")

    with pytest.raises(InputFailure):
        told_of()
    found = events(prefect_api, "geocairn.step.", "told-of", 4)
    seen = [(event["event"], event["resource"]["geocairn.step"]) for event in found]
    assert seen == [
        ("geocairn.step.retried", "tried"),
        ("geocairn.step.rerouted", "moved"),
        ("geocairn.step.rolled-back", "lost"),
        ("geocairn.step.halted", "lost"),
    ]
    assert found[0]["resource"]["geocairn.plan"] == "told-of"
    assert found[1]["payload"]["to"] == "second"
    assert found[3]["payload"]["class"] == "input"
    roles = {resource["prefect.resource.role"] for event in found for resource in event["related"]}
    assert "flow-run" in roles
