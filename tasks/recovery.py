"""The recovery hook: the one place where the class of a failure becomes an action.

`recover` is the `retry_condition_fn` of every step and `ended` its `on_failure` hook. Under the run's policy a
transient failure is tried again on the same backend after a delay, a capability failure goes to the next backend that
claims the operation, and everything else ends the step. What always holds: each attempt's error is logged and kept at
once, the last one's too; Prefect's own count of retries never decides; and what is kept of a task run goes when Prefect
lets the task run go, however it ended.
"""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prefect.context import TaskRunContext
from prefect.logging.loggers import task_run_logger

from geocairn.classification import Classification, classify, retry_after, text_of
from geocairn.failure import Failure, HoldersDied, UnsoundResult
from geocairn.policy import DEFAULT_POLICY, RecoveryPolicy
from geocairn.recoveries import Recovery
from geocairn.tasks.flow_trace import step_entry
from geocairn.tasks.runs import FlowRun, known_run

if TYPE_CHECKING:
    from geocairn.step_call import StepCall


@dataclass
class Progress:
    """The attempts of one task run. The whole loop of a task run stays in one process, so they are kept in memory."""

    attempts: list[dict[str, Any]] = field(default_factory=list)
    """Of each failed attempt: backend, class, whether a rule knew it, error."""
    retries: int = 0
    reroutes: int = 0
    delay: float = 0.0
    eligible: tuple[str, ...] = ()
    """The backends that may compute it, in order; none before the first attempt."""
    call: StepCall | None = None
    """The step's call, made once for all attempts."""
    error: Exception | None = None
    """What prevented the call when Prefect asked for the key; the body raises it."""
    began: float | None = None
    """When the first attempt began, by the monotonic clock."""
    after_memory: bool = False
    """Whether memory did not suffice in an attempt before."""

    def backend(self, eligible: tuple[str, ...]) -> str:
        """Return the backend of the present attempt."""
        return eligible[min(self.reroutes, len(eligible) - 1)]

    def begin(self) -> float:
        """Note that an attempt begins, and return the seconds since the first one began."""
        now = time.monotonic()
        if self.began is None:
            self.began = now
        return now - self.began


_lock = threading.Lock()
_progress: dict[str, Progress] = {}


def progress_of(task_run: Any) -> Progress:
    """Return the progress of a task run: it begins with the first question and lasts as long as the task run object."""
    key = str(task_run.id)
    with _lock:
        found = _progress.get(key)
        if found is None:
            found = _progress[key] = Progress()
            weakref.finalize(task_run, _progress.pop, key, None)
        return found


class DelayOfClass(list[float]):
    """The delay before the next attempt. Prefect asks for it right after the hook, which has just decided it."""

    def __getitem__(self, index: Any) -> Any:
        """Return the delay that the hook decided for the current task run."""
        context = TaskRunContext.get()
        return progress_of(context.task_run).delay if context is not None else 0.0


def retries_told(stated: int | None, eligible: tuple[str, ...]) -> int:
    """Return how many retries Prefect is told of: one more than all budgets together, so that the hook decides last.

    Parameters
    ----------
    stated : the step's own budget for retries; None where the policy's counts.
    eligible : the backends that it may go to.
    """
    run = known_run() if TaskRunContext.get() is not None else None
    policy = run.policy if run is not None else DEFAULT_POLICY
    return (stated if stated is not None else policy.retries) + len(eligible)


def step_name(task: Any) -> str:
    """Return what a step is called in traces and events."""
    return str(task.settings.name or task.operation.name)


def recover(task: Any, task_run: Any, state: Any) -> bool:
    """Decide what happens after a failed attempt: true for another one, with its delay and backend set.

    The `retry_condition_fn` of every step.
    """
    return _Attempt(task, task_run, state).decide()


def ended(task: Any, task_run: Any, state: Any) -> None:
    """Tell that a step's failure ended its task run. The `on_failure` hook of every step."""
    attempt = _Attempt(task, task_run, state)
    attempt.note()
    if attempt.in_place:  # else what the step belongs to goes on, and counts what it does
        attempt.tell(Recovery.ROLLED_BACK, error=attempt.text)
        attempt.tell(Recovery.HALTED, **{"class": attempt.found.failure_class.value, "error": attempt.text})


class _Attempt:
    """An attempt that failed, and what the policy makes of it."""

    def __init__(self, task: Any, task_run: Any, state: Any) -> None:
        data = getattr(state.data, "result", state.data)  # of a final state, Prefect may have wrapped it
        self.error = data if isinstance(data, BaseException) else RuntimeError(state.message or "the attempt failed")
        self.found = classify(self.error)
        self.in_place = not isinstance(self.error, Failure) or self.error.in_place
        self.task = task
        self.task_run = task_run
        self.progress = progress_of(task_run)
        self.run = known_run()
        self.policy: RecoveryPolicy = self.run.policy if self.run is not None else DEFAULT_POLICY
        self.action = self.policy.action(self.found.failure_class)
        self.eligible = self.progress.eligible or task.eligible_backends
        self.backend = self.progress.backend(self.eligible)
        self.log = task_run_logger(task_run, task=task)

    @property
    def said(self) -> str:
        """What the error says."""
        return text_of(self.error)

    @property
    def text(self) -> str:
        """The error's type and what it says."""
        return f"{type(self.error).__name__}: {self.said}"

    def decide(self) -> bool:
        record = attempt_record(self.backend, self.found, self.error)
        self.progress.attempts.append(record)
        if self.run is not None:
            self.run.recoveries.add_attempt(step_name(self.task), record)
        if isinstance(self.error, UnsoundResult):
            self.tell(Recovery.GATE_FAILED, error=self.text)
        if self.in_place and self.action == "retry":
            return self._retry()
        if self.in_place and self.action == "reroute" and self._reroute():
            return True
        if self.found.known:
            self.log.error("%s failure (%s): %s", self.found.failure_class, self.action, self.said)
        else:
            name = type(self.error).__name__
            self.log.error("a failure that no rule knows, so it halts: %s: %s", name, self.said, exc_info=self.error)
        return False

    def _retry(self) -> bool:
        stated = self.task.settings.retries
        budget = stated if stated is not None else self.policy.retries
        reason, done = self.found.reason, self.progress.retries
        asked = retry_after(self.error)
        if done >= budget:
            spent = f"after {budget} retries" if budget else "and no retries are allowed"
            self.log.error("transient failure (%s) %s: %s", reason, spent, self.said)
            return False
        if asked is not None and asked > self.policy.longest_wait_seconds:
            limit = self.policy.longest_wait_seconds
            self.log.error(
                "transient failure (%s): the service asks to wait %.0f s, the policy waits %.0f s at most: %s",
                reason,
                asked,
                limit,
                self.said,
            )
            return False
        delay = max(self.policy.delay(done), asked or 0.0)
        self.progress.delay = delay
        self.progress.retries = done + 1
        count = f"retry {done + 1} of {budget} in {delay:.1f} s"
        self.log.warning("transient failure (%s): %s: %s", reason, count, self.said)
        self.tell(Recovery.RETRIED, backend=self.backend, retry=done + 1, delay=round(delay, 3), error=self.text)
        return True

    def _reroute(self) -> bool:
        progress = self.progress
        if progress.reroutes + 1 >= len(self.eligible) or progress.reroutes >= self.policy.reroutes:
            return False
        progress.reroutes += 1
        progress.delay = 0.0
        progress.error = None
        progress.after_memory |= isinstance(self.error, HoldersDied) or "memory" in self.found.reason
        following = progress.backend(self.eligible)
        self.log.warning("%s cannot do it: rerouted to %s: %s", self.backend, following, self.said)
        self.tell(Recovery.REROUTED, **{"from": self.backend, "to": following, "error": self.text})
        return True

    def note(self) -> None:
        """Note in the trace of a flow in Python that the step failed."""
        if isinstance(self.run, FlowRun):
            name, operation = step_name(self.task), self.task.operation.name
            self.run.note(self.task_run, step_entry(name, operation, "failed", None, self.progress.attempts))

    def tell(self, recovery: Recovery, **details: Any) -> None:
        """Count a recovery and let the run's listener hear of it."""
        if self.run is not None:
            self.run.recoveries.add(step_name(self.task), recovery, **details)


def attempt_record(backend: str, found: Classification, error: BaseException) -> dict[str, Any]:
    """Return what is kept of a failed attempt."""
    return {
        "backend": backend,
        "class": found.failure_class.value,
        "known": found.known,
        "error": f"{type(error).__name__}: {text_of(error)}",
    }
