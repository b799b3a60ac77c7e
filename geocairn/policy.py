"""The recovery policy: which action a class of failure gets, and the budgets and delays of each.

An operator edits it as a block in the Prefect UI. What always holds: it is read when a run starts or is resumed, and
never from a checkpoint; it is no part of a fingerprint; and an action that cannot help a class is refused with the
reason, so that no policy retries what comes out the same again.
"""

from __future__ import annotations

import random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from geocairn.failure import FailureClass

MOST_RETRIES = 100
MOST_REROUTES = 20

_REASONS: dict[str, dict[str, str]] = {
    "on_transient": {
        "reroute": "another backend meets the same outage",
        "replan": "the plan is not at fault",
    },
    "on_capability": {
        "retry": "the same backend fails on the same layer again",
        "replan": "the plan is not at fault: another backend may do it",
    },
    "on_input": {
        "retry": "the same inputs give the same unsound result",
        "reroute": "another backend gives the same unsound result",
    },
    "on_fatal": {
        "retry": "what is denied, full or broken stays so until a person has acted",
        "reroute": "what is denied, full or broken is so for every backend",
        "replan": "the plan is not at fault",
    },
}
"""Why an action does not help a class."""


class RecoveryPolicy(BaseModel):
    """Which action for which class of failure, with budgets, delays and what needs a person's word."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_transient: Literal["retry", "halt"] = Field(
        "retry", title="On a transient failure", description="Throttling, time-outs, lost connections: retry or halt"
    )
    on_capability: Literal["reroute", "halt"] = Field(
        "reroute",
        title="On a capability failure",
        description="Out of memory, an engine's own error: reroute to the next backend, or halt",
    )
    on_input: Literal["replan", "halt"] = Field(
        "replan",
        title="On an input failure",
        description="An unsound result, a wrong parameter, a source gone: replan (a fallback, the planner, a person), "
        "or halt",
    )
    on_fatal: Literal["halt"] = Field(
        "halt", title="On a fatal failure", description="Access denied, disk full, an error in code: always halt"
    )
    retries: int = Field(
        3, ge=0, le=MOST_RETRIES, title="Retries", description="Retries of one step, where the step itself states none"
    )
    reroutes: int = Field(
        3, ge=0, le=MOST_REROUTES, title="Reroutes", description="How often one step may go to another backend"
    )
    first_delay_seconds: float = Field(
        1.0, ge=0, le=3600, title="First delay", description="Seconds before the first retry; each next one doubles it"
    )
    longest_delay_seconds: float = Field(
        30.0, ge=0, le=3600, title="Longest delay", description="Seconds that the doubling stops at"
    )
    longest_wait_seconds: float = Field(
        300.0,
        ge=0,
        le=86400,
        title="Longest wait",
        description="Seconds that a service may ask to wait (Retry-After); where it asks for more, the step halts",
    )
    deaths: int = Field(
        2,
        ge=0,
        le=100,
        title="Deaths",
        description="Workers that died computing a step on a backend before the next backend is taken; 0 counts none",
    )
    deaths_within_hours: float = Field(
        24.0, gt=0, le=8760, title="Memory of deaths", description="Hours after the last death when all are forgotten"
    )
    replans: int = Field(
        3, ge=0, le=20, title="Replans", description="How often a planner or a person may change the plan of one run"
    )
    fallbacks: Literal["granted", "confirmed", "never"] = Field(
        "granted",
        title="Fallbacks",
        description="granted: where the plan grants it or a person confirms; confirmed: where a person confirms; never",
    )
    decision_seconds: float = Field(
        86400.0,
        gt=0,
        le=30 * 86400,
        title="Time to decide",
        description="Seconds that a suspended run waits for a person's parameters",
    )
    slow_recovery_seconds: float = Field(
        300.0,
        ge=0,
        title="Slow recovery",
        description="Seconds spent on recovery above which the answer says so as a caveat",
    )

    @model_validator(mode="before")
    @classmethod
    def _sensible(cls, values: Any) -> Any:
        """Refuse an action that does not help its class, with the reason."""
        if isinstance(values, dict):
            for name, reasons in _REASONS.items():
                reason = reasons.get(values.get(name))  # type: ignore[arg-type]
                if reason is not None:
                    raise ValueError(f"{name}: {values[name]} does not help, since {reason}")
        return values

    @field_validator("longest_delay_seconds")
    @classmethod
    def _ordered(cls, value: float, info: Any) -> float:
        first = info.data.get("first_delay_seconds")
        if first is not None and value < first:
            raise ValueError(f"the longest delay ({value:g} s) is shorter than the first ({first:g} s)")
        return value

    def action(self, failure_class: FailureClass) -> str:
        """Return the action for a class of failure: retry, reroute, replan or halt."""
        return str(getattr(self, f"on_{failure_class.value}"))

    def delay(self, retries: int) -> float:
        """Return the seconds before a retry after `retries` before it.

        Exponential backoff, bounded, and spread by half up and down, so that steps that failed together part.
        """
        spread = 0.5 + random.random()  # noqa: S311 - no secret
        return min(self.first_delay_seconds * 2.0**retries, self.longest_delay_seconds) * spread


DEFAULT_POLICY = RecoveryPolicy()
"""What counts where nobody has stated a policy."""
