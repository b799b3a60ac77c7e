"""Trying again before the first step: transient failures alone, within the policy's budget."""

from __future__ import annotations

import pytest

from geocairn.failure import FatalFailure, TransientFailure
from geocairn.patience import patiently
from geocairn.policy import RecoveryPolicy

QUICK = RecoveryPolicy(first_delay_seconds=0, longest_delay_seconds=0, longest_wait_seconds=5)


class Service:
    """Fails as many times as told, then answers."""

    def __init__(self, times: int, error: Exception) -> None:
        self.times, self.error, self.calls = times, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.times:
            raise self.error
        return "answer"


def test_a_transient_failure_is_tried_again_within_the_budget() -> None:
    told: list[str] = []
    service = Service(3, TransientFailure("busy"))
    assert patiently(service, QUICK, told.append) == "answer"
    assert (service.calls, len(told)) == (4, 3)
    assert told[0] == "retry 1 of 3 in 0.0 s: busy"
    service = Service(9, TransientFailure("busy"))
    with pytest.raises(TransientFailure):
        patiently(service, QUICK, told.append)
    assert service.calls == 4


@pytest.mark.parametrize(
    ("error", "policy"),
    [
        (FatalFailure("denied"), QUICK),
        (TransientFailure("busy", retry_after=60), QUICK),
        (TransientFailure("busy"), RecoveryPolicy(on_transient="halt")),
        (LookupError("unknown"), QUICK),
    ],
)
def test_nothing_else_is_tried_again(error: Exception, policy: RecoveryPolicy) -> None:
    service = Service(1, error)
    with pytest.raises(type(error)):
        patiently(service, policy, lambda text: None)
    assert service.calls == 1
