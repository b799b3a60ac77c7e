"""The recovery policy: what it refuses, and the delays that it gives."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from geocairn.failure import ACTIONS, FailureClass
from geocairn.policy import DEFAULT_POLICY, RecoveryPolicy


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"on_input": "retry"}, "the same inputs give the same unsound result"),
        ({"on_input": "reroute"}, "another backend gives the same unsound result"),
        ({"on_transient": "reroute"}, "another backend meets the same outage"),
        ({"on_capability": "retry"}, "the same backend fails on the same layer again"),
        ({"on_fatal": "retry"}, "stays so until a person has acted"),
        ({"on_fatal": "replan"}, "the plan is not at fault"),
        ({"on_transient": "ignore"}, "'retry' or 'halt'"),
        ({"retries": -1}, "greater than or equal to 0"),
        ({"retries": 1000}, "less than or equal to 100"),
        ({"longest_delay_seconds": 0.5}, "shorter than the first"),
        ({"decision_seconds": 0}, "greater than 0"),
        ({"fallbacks": "always"}, "'granted', 'confirmed' or 'never'"),
        ({"retrys": 3}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_reason(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as found:
        RecoveryPolicy(**fields)
    assert told in str(found.value)


def test_the_default_policy_takes_the_designs_actions() -> None:
    assert {each: DEFAULT_POLICY.action(each) for each in FailureClass} == ACTIONS
    assert RecoveryPolicy(on_capability="halt").action(FailureClass.CAPABILITY) == "halt"


def test_the_delay_grows_and_is_spread_and_bounded() -> None:
    policy = RecoveryPolicy(first_delay_seconds=1.0, longest_delay_seconds=30.0)
    for retries, (least, most) in {0: (0.5, 1.5), 2: (2.0, 6.0), 9: (15.0, 45.0), 90: (15.0, 45.0)}.items():
        delays = {policy.delay(retries) for _ in range(50)}
        assert least <= min(delays) < max(delays) <= most


def test_each_field_is_titled_and_described_for_the_form() -> None:
    for name, field in RecoveryPolicy.model_fields.items():
        assert field.title, name
        assert field.description, name
