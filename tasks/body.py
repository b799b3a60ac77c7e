"""The body of a step's task: what Prefect runs when the store has no checkpoint, and the key that it asks for.

What always holds: key and body speak of one call, made from the arguments once; what prevented the key is raised by
the body, since Prefect would run a task without a key uncached.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from prefect.context import TaskRunContext

from geocairn.checkpoint import Checkpoint
from geocairn.execution import execute
from geocairn.failure import InputFailure
from geocairn.operations.contract import Operation
from geocairn.published import publish_step
from geocairn.step_call import StepCall
from geocairn.tasks.call import call_of
from geocairn.tasks.recovery import progress_of, step_name
from geocairn.tasks.runs import current_run
from geocairn.tasks.signature import signed
from geocairn.tasks.termination import heed_termination


def body_of(operation: Operation) -> Callable[..., Checkpoint]:
    """Return the function that Prefect runs: the operation's name and signature, the step's life as its body."""

    def body(*args: Any, **kwargs: Any) -> Checkpoint:
        context = TaskRunContext.get()
        if context is None:
            raise InputFailure("a step runs as a Prefect task", where=operation.name, remedy="call the task itself")
        task: Any = context.task
        progress = progress_of(context.task_run)
        if progress.error is not None:
            raise progress.error
        # Prefect has asked for the key, unless its settings turn caching off.
        call = progress.call or _called(task, inspect.signature(body).bind(*args, **kwargs).arguments)
        progress.eligible = task.backends_for(call)
        backend = progress.backend(progress.eligible)
        lost = progress.begin()
        heed_termination()
        run = current_run()
        call = replace(call, backend=backend, attempt=len(progress.attempts) + 1, after_memory=progress.after_memory)
        checkpoint = publish_step(call, run) if operation.effect else execute(call, run)
        if progress.attempts:
            run.recoveries.took(step_name(task), lost)
        task.note("computed" if checkpoint.fingerprint in run.computed else "reused", checkpoint, context.task_run)
        return checkpoint

    return signed(body, operation)


def _called(task: Any, arguments: Mapping[str, Any]) -> StepCall:
    return call_of(task.operation, task.settings, arguments, current_run())


def chain_fingerprint(context: TaskRunContext, parameters: dict[str, Any]) -> str | None:
    """Return the chain fingerprint of a step: the cache key function of every step.

    Prefect would run a task whose key cannot be made, uncached. So the failure is kept, and the body raises it.
    """
    progress = progress_of(context.task_run)
    task: Any = context.task
    progress.error = None
    if progress.call is None:
        try:
            progress.call = _called(task, parameters)
        except Exception as error:  # noqa: BLE001 - raised by the body, where it ends the attempt
            progress.error = error
            return None
    return progress.call.fingerprint
