"""`run_chain`: the flow that takes a plan as its parameter."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from geocairn.blocks import CheckpointStoreBlock
from geocairn.flows.chain import Listener, run_graph
from geocairn.flows.planning import checked_plan
from geocairn.plan.document import Document, document_of, read_document
from geocairn.plan.model import Plan
from geocairn.run_record import keep_trace
from geocairn.tasks.runs import default_block

_listeners: dict[str, Listener] = {}
"""Who hears of the steps of the run that is started next in this process: the command line's progress."""


class ChainHalted(RuntimeError):
    """A chain that did not complete. Holds the answer, with the failure and the last good checkpoints."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(dict(answer))
        self.answer = dict(answer)

    def __repr__(self) -> str:
        return f"ChainHalted({self})"  # Prefect logs it, and the whole answer would bury the message

    def __str__(self) -> str:
        failure = self.answer.get("failure", {})
        return f"{failure.get('message')} (class {failure.get('class')}, action {failure.get('action')})"


def _run_name() -> str:
    """Return the plan's name, which the run bears in the UI."""
    plan = flow_run.parameters.get("plan")
    if isinstance(plan, Plan):
        return plan.name
    if isinstance(plan, Mapping):
        return str(plan.get("name") or "run-chain")
    return Path(str(plan)).stem


@flow(
    name="run-chain",
    flow_run_name=_run_name,
    task_runner=ThreadPoolTaskRunner(max_workers=max(4, 2 * (os.cpu_count() or 1))),  # type: ignore[arg-type]
    persist_result=False,
    validate_parameters=True,
)
def run_chain(
    plan: Annotated[
        Plan | dict[str, Any] | str,
        Field(description="The plan: its sources, steps and outputs, or the path of a plan file"),
    ],
    overrides: Annotated[list[str], Field(description="Parameters to set in the plan, each as STEP.PARAM=VALUE")] = [],  # noqa: B006 - Prefect takes the default into the schema and never changes it
) -> dict[str, Any]:
    """Run a chain of geoprocessing steps; what is there under its fingerprint is reused.

    Returns the answer: outputs with fingerprint, rows, CRS and bounds, steps, caveats, the run's id. The answer and all
    else that happened are kept as the trace of the run.

    Raises
    ------
    PlanError : for a plan that is wrong, with all complaints, before anything runs.
    ChainHalted : when a step failed; holds the answer.
    """
    started = time.time()
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    storage = context.result_store.result_storage
    block = storage if isinstance(storage, CheckpointStoreBlock) else default_block()
    workspace = block.workspace()
    document = _document(plan)
    checked = checked_plan(document, workspace, overrides)
    run_id = str(context.flow_run.id)
    answer, run = run_graph(checked.graph, workspace, run_id, _listeners.get(run_id) or _listeners.get(""))
    keep_trace(answer, workspace, document.values, started, notices=run.notices, attempts=run.attempts)
    if answer.failed is not None:
        raise ChainHalted(answer.as_json()) from answer.failed[1]
    return answer.as_json()


def _document(plan: Plan | dict[str, Any] | str) -> Document:
    if isinstance(plan, str):
        return read_document(Path(plan))
    if isinstance(plan, Plan):
        return document_of(plan.model_dump(by_alias=True, exclude_unset=True), "plan")
    return document_of(plan, "plan")


def listen(listener: Listener | None) -> None:
    """Let `listener` hear of the steps of runs in this process."""
    if listener is None:
        _listeners.pop("", None)
    else:
        _listeners[""] = listener
