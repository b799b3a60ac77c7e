"""The run that a task belongs to, in this process: its workspace, its pinned sources, its layers in memory.

What always holds: tasks of one flow run share one `Run`, whichever thread they run in; the store is the flow's result
storage where that is a checkpoint store, and otherwise the default one.
"""

from __future__ import annotations

import threading
from typing import Any

from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import MissingContextError
from prefect.logging import get_logger, get_run_logger

from geocairn.blocks import CheckpointStoreBlock
from geocairn.execution import Run
from geocairn.stores.memory import HandOver
from geocairn.workspace import Workspace

_lock = threading.Lock()
_runs: dict[str, Run] = {}
_hand_over = HandOver()
_default_block: CheckpointStoreBlock | None = None


def default_block() -> CheckpointStoreBlock:
    """Return the block of the default store: `$GEOCAIRN_STORE`, else the folder `.geocairn`."""
    global _default_block
    with _lock:
        if _default_block is None:
            _default_block = CheckpointStoreBlock()
        return _default_block


def storage_for_task(stated: Any) -> Any:
    """Return the result storage of a step.

    What was stated for the task counts; else None, so that Prefect takes the flow's, where that is a checkpoint store;
    else the default store.
    """
    if stated is not None:
        return stated
    context = FlowRunContext.get()
    storage = getattr(getattr(context, "result_store", None), "result_storage", None)
    return None if isinstance(storage, CheckpointStoreBlock) else default_block()


def register(run: Run) -> Run:
    """Make a run known to the tasks of its flow run."""
    with _lock:
        return _runs.setdefault(run.run_id, run)


def unregister(run_id: str) -> None:
    """Forget a run that has ended."""
    with _lock:
        _runs.pop(run_id, None)


def run_by_id(run_id: str) -> Run | None:
    """Return the run of a flow run, if this process knows it."""
    with _lock:
        return _runs.get(run_id)


def new_run(run_id: str, workspace: Workspace) -> Run:
    """Return a run whose notices go to Prefect's log."""
    return Run(run_id, workspace, _hand_over, say=_say)


def current_run() -> Run:
    """Return the run of the current task, made when its first task asks for it."""
    context = TaskRunContext.get()
    if context is None:
        raise MissingContextError("a step runs only as a Prefect task")
    run_id = str(context.task_run.flow_run_id or context.task_run.id)
    known = run_by_id(run_id)
    if known is not None:
        return known
    storage: Any = context.result_store.result_storage
    block = storage if isinstance(storage, CheckpointStoreBlock) else default_block()
    return register(new_run(run_id, block.workspace()))


def _say(text: str) -> None:
    try:
        get_run_logger().info(text)
    except MissingContextError:
        get_logger("geocairn").info(text)
