"""The recovery hook: the one place where the class of a failure becomes an action.

It is the `retry_condition_fn` and the `on_failure` hook of every step. A transient failure is tried again on the same backend
after a delay; a capability failure goes to the next backend that claims the operation; everything else ends the step. What
always holds: each attempt's error is logged and kept at once, and Prefect's own count of retries never decides.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

from prefect.context import TaskRunContext
from prefect.logging.loggers import task_run_logger

from geocairn.failure import Classification, FailureClass, classify

PREFECT_RETRIES = 100
"""Above the sum of all budgets, so that the hook always decides last."""

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
    call: Any = None
    """The step's call, made once for all attempts."""

    def backend(self, eligible: tuple[str, ...]) -> str:
        """Return the backend of the present attempt."""
        return eligible[min(self.reroutes, len(eligible) - 1)]


_lock = threading.Lock()
_progress: dict[str, Progress] = {}


def progress_of(task_run_id: Any) -> Progress:
    """Return the progress of a task run, which begins with the first question."""
    with _lock:
        return _progress.setdefault(str(task_run_id), Progress())


def forget(task_run_id: Any) -> Progress | None:
    """Drop the progress of a task run that has ended, and return it."""
    with _lock:
        return _progress.pop(str(task_run_id), None)


class DelayOfClass(list[float]):
    """The delay before the next attempt. Prefect asks for it right after the hook, which has just decided it."""

    def __getitem__(self, index: Any) -> Any:
        """Return the delay that the hook decided for the current task run."""
        context = TaskRunContext.get()
        return progress_of(context.task_run.id).delay if context is not None else 0.0


def recover(task: Any, task_run: Any, state: Any) -> bool:
    """Decide what happens after a failed attempt: true for another one, with its delay and backend set.

    The `retry_condition_fn` of every step.
    """
    progress = progress_of(task_run.id)
    error = state.data if isinstance(state.data, BaseException) else RuntimeError(state.message or "the attempt failed")
    classification = classify(error)
    eligible = task.eligible_backends
    backend = progress.backend(eligible)
    progress.attempts.append(attempt_record(backend, classification, error))
    logger = task_run_logger(task_run, task=task)
    if classification.failure_class is FailureClass.TRANSIENT:
        budget = task.settings.retries if task.settings.retries is not None else TRANSIENT_RETRIES
        if progress.retries < budget and not getattr(error, "fingerprint", None):
            progress.delay = min(FIRST_DELAY_SECONDS * 2**progress.retries, LONGEST_DELAY_SECONDS)
            progress.delay *= 0.5 + random.random()  # noqa: S311 - spreads attempts, guards nothing
            progress.retries += 1
            logger.warning(
                "transient failure (%s): retry %d of %d in %.1f s: %s",
                classification.reason,
                progress.retries,
                budget,
                progress.delay,
                error,
            )
            return True
        logger.error("transient failure (%s), retries are spent: %s", classification.reason, error)
        return False
    if classification.failure_class is FailureClass.CAPABILITY and progress.reroutes + 1 < len(eligible):
        progress.reroutes += 1
        progress.delay = 0.0
        logger.warning("%s cannot do it: rerouted to %s: %s", backend, progress.backend(eligible), error)
        return True
    known = "" if classification.known else ", a failure that no rule knows"
    logger.error("%s failure (%s%s): %s", classification.failure_class, classification.action, known, error)
    if not classification.known:
        logger.error("its traceback", exc_info=error)
    return False


def attempt_record(backend: str, classification: Classification, error: BaseException) -> dict[str, Any]:
    """Return what is kept of a failed attempt."""
    return {
        "backend": backend,
        "class": classification.failure_class.value,
        "known": classification.known,
        "error": f"{type(error).__name__}: {error}",
    }
