"""The recovery hook: the one place where the class of a failure becomes an action.

It is the `retry_condition_fn` of every step. A transient failure is tried again on the same backend after a delay; a
capability failure goes to the next backend that claims the operation; everything else ends the step. What always
holds: each attempt's error is logged and kept at once, the last one's too; Prefect's own count of retries never
decides; and what is kept of a task run goes when Prefect lets the task run go, however it ended.
"""

from __future__ import annotations

import random
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prefect.context import TaskRunContext
from prefect.logging.loggers import task_run_logger

from geocairn.classification import Classification, classify
from geocairn.failure import ACTIONS, FailureClass, MissingGrid
from geocairn.stores.belief import LayerLost
from geocairn.tasks.runs import known_run

if TYPE_CHECKING:
    from geocairn.step_call import StepCall

TRANSIENT_RETRIES = 3
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0


@dataclass
class Progress:
    """The attempts of one task run. The whole loop of a task run stays in one process, so they are kept in memory."""

    attempts: list[dict[str, Any]] = field(default_factory=list)
    """Of each failed attempt: backend, class, error."""
    retries: int = 0
    reroutes: int = 0
    delay: float = 0.0
    eligible: tuple[str, ...] = ()
    """The backends that may compute it, in order; none before the first attempt."""
    call: StepCall | None = None
    """The step's call, made once for all attempts."""
    error: Exception | None = None
    """What prevented the call when Prefect asked for the key; the body raises it."""

    def backend(self, eligible: tuple[str, ...]) -> str:
        """Return the backend of the present attempt."""
        return eligible[min(self.reroutes, len(eligible) - 1)]


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


def retries_of(stated: int | None, eligible: tuple[str, ...]) -> int:
    """Return how many retries Prefect is told of: one more than all budgets together, so that the hook decides last."""
    return _budget(stated) + len(eligible)


def _budget(stated: int | None) -> int:
    return stated if stated is not None else TRANSIENT_RETRIES


def recover(task: Any, task_run: Any, state: Any) -> bool:
    """Decide what happens after a failed attempt: true for another one, with its delay and backend set.

    The `retry_condition_fn` of every step.
    """
    progress = progress_of(task_run)
    error = state.data if isinstance(state.data, BaseException) else RuntimeError(state.message or "the attempt failed")
    found = classify(error)
    eligible = progress.eligible or task.eligible_backends
    backend = progress.backend(eligible)
    attempt = attempt_record(backend, found, error)
    progress.attempts.append(attempt)
    run = known_run()
    if run is not None:
        run.attempts.setdefault(task.settings.name or task.operation.name, []).append(attempt)
    logger = task_run_logger(task_run, task=task)
    if found.failure_class is FailureClass.TRANSIENT and not isinstance(error, LayerLost):
        budget = _budget(task.settings.retries)
        if progress.retries < budget:
            progress.delay = _delay(progress.retries)
            progress.retries += 1
            count = f"retry {progress.retries} of {budget} in {progress.delay:.1f} s"
            logger.warning("transient failure (%s): %s: %s", found.reason, count, error)
            return True
        spent = f"after {budget} retries" if budget else "and no retries are allowed"
        logger.error("transient failure (%s) %s: %s", found.reason, spent, error)
        return False
    rerouted = found.failure_class is FailureClass.CAPABILITY and not isinstance(error, MissingGrid)
    if rerouted and progress.reroutes + 1 < len(eligible):
        progress.reroutes += 1
        progress.delay = 0.0
        progress.error = None
        logger.warning("%s cannot do it: rerouted to %s: %s", backend, progress.backend(eligible), error)
        return True
    if found.known:
        logger.error("%s failure (%s): %s", found.failure_class, ACTIONS[found.failure_class], error)
    else:
        logger.error("a failure that no rule knows, so it halts: %s: %s", type(error).__name__, error, exc_info=error)
    return False


def _delay(retries: int) -> float:
    """Return the seconds before a retry: doubling, bounded, and spread, so that steps that failed together part."""
    spread = 0.5 + random.random()  # noqa: S311 - no secret
    return min(FIRST_DELAY_SECONDS * 2.0**retries, LONGEST_DELAY_SECONDS) * spread


def attempt_record(backend: str, found: Classification, error: BaseException) -> dict[str, Any]:
    """Return what is kept of a failed attempt."""
    return {
        "backend": backend,
        "class": found.failure_class.value,
        "known": found.known,
        "error": f"{type(error).__name__}: {error}",
    }
