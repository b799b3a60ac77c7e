"""Trying again outside of any step: what is asked of sources and the store before the first step runs.

What always holds: only a transient failure is tried again, under the same budget and with the same delays as a step's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from geocairn.classification import classify, retry_after, text_of
from geocairn.failure import FailureClass
from geocairn.policy import RecoveryPolicy

T = TypeVar("T")


def patiently(call: Callable[[], T], policy: RecoveryPolicy, say: Callable[[str], None]) -> T:
    """Return what a call returns, trying again while it fails for a transient reason.

    Parameters
    ----------
    call : what is tried; it must leave nothing half done when it fails.
    policy : budget, delays, and how long a service may ask to wait.
    say : told of each failure that is followed by another attempt.

    Raises
    ------
    Exception : what the last attempt raised.
    """
    retries = 0
    while True:
        try:
            return call()
        except Exception as error:
            asked = retry_after(error) or 0.0
            transient = classify(error).failure_class is FailureClass.TRANSIENT and policy.on_transient == "retry"
            if not transient or retries >= policy.retries or asked > policy.longest_wait_seconds:
                raise
            delay = max(policy.delay(retries), asked)
            retries += 1
            say(f"retry {retries} of {policy.retries} in {delay:.1f} s: {text_of(error)}")
        time.sleep(delay)
