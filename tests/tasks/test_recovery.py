"""The recovery hook: what happens after an attempt has failed, by the class of its failure."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flow_samples import metric, records, state_names
from own_steps import flaky, flaky_step
from prefect import flow, unmapped

from geocairn.failure import CapabilityFailure, InputFailure, TransientFailure
from geocairn.flows.run_chain import ChainHalted, run_chain
from geocairn.operations import operations
from geocairn.policy import DEFAULT_POLICY
from geocairn.tasks import StepTask
from geocairn.tasks.recovery import DelayOfClass

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

RETRIES = DEFAULT_POLICY.retries

pytestmark = [pytest.mark.prefect_server, pytest.mark.usefixtures("no_delay")]


def calls(counter: str) -> int:
    return len(Path(counter).read_bytes().splitlines())


def test_a_transient_failure_is_tried_again_until_it_passes(place: Path, counter: str) -> None:
    made = flaky_step(metric(), counter=counter, fails=RETRIES)
    assert calls(counter) == RETRIES + 1
    assert (made.attempts, made.backend) == (RETRIES + 1, "geopandas")
    assert records(place / ".geocairn") == [made.fingerprint]


def test_its_budget_is_its_own_and_the_steps_retries_set_it(place: Path, counter: str) -> None:
    with pytest.raises(TransientFailure, match="service: the service is busy; wait"):
        flaky_step(metric(), counter=counter, fails=100)
    assert calls(counter) == RETRIES + 1
    with pytest.raises(TransientFailure):
        flaky_step.with_options(retries=1)(metric(), counter=counter, fails=100)
    assert calls(counter) == RETRIES + 1 + 2
    with pytest.raises(TransientFailure):
        flaky_step.with_options(retries=0)(metric(), counter=counter, fails=100)
    assert calls(counter) == RETRIES + 1 + 2 + 1
    # More than Prefect itself would be told of by default.
    assert flaky_step.with_options(retries=12)(metric(), counter=counter, fails=18).attempts == 12
    assert records(place / ".geocairn") != []


def test_outside_a_task_run_no_delay_was_decided() -> None:
    assert DelayOfClass([0.0])[3] == 0.0


def test_a_capability_failure_goes_to_the_next_backend(place: Path, counter: str) -> None:
    arguments: dict[str, Any] = {"counter": counter, "fails": 100, "failure": "capability"}
    made = flaky_step(metric(), **arguments)
    assert (calls(counter), made.backend, made.attempts) == (1, "second", 2)
    assert records(place / ".geocairn") == [made.fingerprint]
    only_first = flaky_step.with_options(backends=["geopandas"])
    assert only_first(metric(), **arguments) == made  # the same answer under the same fingerprint

    with pytest.raises(CapabilityFailure, match="too large"):
        only_first(metric(2), **arguments)
    second_first = flaky_step.with_options(backends=["second", "geopandas"])
    assert second_first(metric(2), **arguments).attempts == 1


def test_a_backend_that_does_not_claim_the_operation_is_refused(place: Path, counter: str) -> None:
    with pytest.raises(CapabilityFailure, match="'duckdb' does not implement flaky; use one of geopandas, second"):
        flaky_step.with_options(backends=["duckdb"])(metric(), counter=counter, fails=0)


@pytest.mark.parametrize(("failure", "kind"), [("input", InputFailure), ("unknown", LookupError)])
def test_what_trying_again_does_not_help_is_not_tried_again(
    place: Path, counter: str, failure: str, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(kind):
        flaky_step(metric(), counter=counter, fails=100, failure=failure)
    assert calls(counter) == 1
    told = [record for record in caplog.records if record.filename == "recovery.py"]
    assert len(told) == 1
    assert told[0].levelno == logging.ERROR
    assert (told[0].exc_info is not None) == (failure == "unknown")
    assert records(place / ".geocairn") == []


def test_each_attempt_is_told_when_it_fails(place: Path, counter: str, caplog: pytest.LogCaptureFixture) -> None:
    flaky_step(metric(), counter=counter, fails=2)
    told = [record.getMessage() for record in caplog.records if record.filename == "recovery.py"]
    assert [text[: text.index(" in ")] for text in told] == [
        "transient failure (the service is busy): retry 1 of 3",
        "transient failure (the service is busy): retry 2 of 3",
    ]


def test_the_hook_works_in_submit_and_map_and_beside_the_users_own_hooks(place: Path, counter: str) -> None:
    heard: list[str] = []

    def mine(task: Any, task_run: Any, state: Any) -> None:
        heard.append(state.name)

    @flow
    def several() -> int:
        noisy = flaky_step.with_options(on_completion=[mine], on_failure=[mine])
        one = noisy.submit(metric(1), counter=counter, fails=2)
        assert one.result().attempts == 3
        layers = [metric(2), metric(3)]
        futures = flaky_step.map(layers, counter=unmapped(counter), fails=100, failure="capability")
        return sum(made.attempts for made in futures.result())

    state: Any = several(return_state=True)
    assert state.result() == 4
    assert heard == ["Completed"]
    assert state_names(state, 3) == ["Completed"] * 3


def test_a_steps_time_limit_is_a_transient_failure(place: Path, counter: str) -> None:
    import time

    from own_steps import count

    from geocairn.tasks import step

    @step(version=1)
    def slow(layer: GeoDataFrame, *, counter: str) -> GeoDataFrame:
        end = time.monotonic() + (30 if count(counter) < 2 else 0)
        while time.monotonic() < end:
            time.sleep(0.02)
        return layer

    made = slow.with_options(timeout_seconds=0.5)(metric(), counter=counter)
    assert (calls(counter), made.attempts) == (2, 2)


PLAN: dict[str, Any] = {
    "name": "flaky",
    "sources": {"squares": {"uri": "counties.gpkg"}},
    "steps": [{"name": "tried", "op": "flaky", "inputs": "squares"}],
}


def plan(counter: str, **params: Any) -> dict[str, Any]:
    step = {**PLAN["steps"][0], "params": {"counter": counter, **params}}
    return {**PLAN, "steps": [step]}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """`flaky` is one of the operations that plans know."""
    monkeypatch.setitem(operations._found, "flaky", flaky)


def test_attempts_stand_in_the_answer_of_a_plan(place: Path, counter: str, registered: None) -> None:
    answer = run_chain(plan(counter, fails=1))
    (step,) = answer["steps"]
    assert step["outcome"] == "computed"
    assert step["attempts"] == [
        {
            "backend": "geopandas",
            "class": "transient",
            "known": True,
            "error": "TransientFailure: service: the service is busy; wait",
        }
    ]


def test_a_reroute_stands_in_the_answer_of_a_plan(place: Path, counter: str, registered: None) -> None:
    answer = run_chain(plan(counter, fails=100, failure="capability"))
    (step,) = answer["steps"]
    assert (step["backend"], [attempt["class"] for attempt in step["attempts"]]) == ("second", ["capability"])


def test_the_last_attempt_stands_in_the_answer_of_a_plan_that_halts(
    place: Path, counter: str, registered: None
) -> None:
    with pytest.raises(ChainHalted) as halted:
        run_chain(plan(counter, fails=100, failure="unknown"))
    answer = halted.value.answer
    assert [attempt["class"] for attempt in answer["steps"][0]["attempts"]] == ["fatal"]
    assert answer["failure"]["class"] == "fatal"


@pytest.mark.parametrize("params", [{"fails": 1}, {"fails": 100, "failure": "capability"}])
def test_without_the_hook_nothing_is_recovered(
    place: Path, counter: str, registered: None, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]
) -> None:
    """So the tests above speak of the hook."""
    original = StepTask.__init__

    def without(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.retry_condition_fn = lambda task, task_run, state: False

    monkeypatch.setattr(StepTask, "__init__", without)
    with pytest.raises(ChainHalted):
        run_chain(plan(counter, **params))
    assert calls(counter) == 1
