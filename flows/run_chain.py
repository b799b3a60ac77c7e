"""`run_chain`: the flow that takes a plan as its parameter."""

# No deferred annotations here: `run_chain.serve()` pickles the function, and what only an annotation's text names would
# not come along.
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
from geocairn.blocks.recovery_policy import policy_named
from geocairn.blocks.served_runs import is_served_run
from geocairn.flows.chain import Listener
from geocairn.flows.course import Course
from geocairn.flows.suspension import is_served
from geocairn.plan.document import Document, document_of, read_document
from geocairn.plan.model import Plan
from geocairn.plan.reading import override
from geocairn.replanning.planners import load_planner, stated_planner
from geocairn.sources.uri import LocalPlace
from geocairn.tasks.runs import default_block, new_run
from geocairn.workspace import Workspace

STORE_REMEDY = (
    "where a worker starts runs in folders of their own, checkpoints are lost with them: set GEOCAIRN_STORE on the "
    "worker to an absolute folder or s3://bucket/prefix, or name a checkpoint store block"
)

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
    planner: Annotated[
        str | None,
        Field(description="Name of the planner that changes the plan after an input failure; by default the plan's"),
    ] = None,
    recovery_policy: Annotated[
        str | None,
        Field(description="Name of the saved recovery policy; by default the one that the checkpoint store names"),
    ] = None,
    accept_fallbacks: Annotated[
        list[str],
        Field(
            description="Steps whose declared fallback may take their place in this run, where the plan does not say so"
        ),
    ] = [],  # noqa: B006 - as above
) -> dict[str, Any]:
    """Run a chain of geoprocessing steps; what is there under its fingerprint is reused.

    Returns the answer: outputs with fingerprint, rows, CRS and bounds, steps, caveats, the run's id. The answer and all
    else that happened are kept as the trace of the run.

    After an input failure the planner changes the plan, which goes on in the same run with every valid checkpoint.
    Without a planner, a run that came from a deployment is suspended until a person gives other parameters; it then
    starts anew in another process, and policy, planner, plan file and sources are read as they are then. Overrides hold
    for the plan that the run begins with: what a planner returns is taken as it is.

    Raises
    ------
    PlanError : for a plan that is wrong, with all complaints, before anything runs.
    InputFailure : for a planner that is not installed, before anything runs.
    ChainHalted : when a step failed; holds the answer.
    """
    started = time.time()
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    storage = context.result_store.result_storage
    block = storage if isinstance(storage, CheckpointStoreBlock) else default_block()
    workspace = block.workspace(of_a_plan=True)
    document = _document(plan, workspace)
    chain = str(document.values.get("name") or "plan")
    policy = policy_named(recovery_policy) if recovery_policy else block.policy()
    run = new_run(str(context.flow_run.id), workspace, policy, chain)
    if is_served() and not block.url and "://" not in block.address and not os.path.isabs(block.address):
        run.notice("plan", f"the store is {block.address} in this run's working directory; {STORE_REMEDY}")
    named = stated_planner(planner, document)
    chosen = load_planner(named) if named is not None else None
    override(document, overrides)
    listener = _listeners.get(run.run_id) or _listeners.get("")
    answer = Course(run, chosen, started, accept_fallbacks, listener).follow(document)
    if answer.failed is not None:
        raise ChainHalted(answer.as_json()) from answer.failed[1]
    return answer.as_json()


def _document(plan: Plan | dict[str, Any] | str, workspace: Workspace) -> Document:
    if isinstance(plan, str):
        # Who starts a served run could otherwise have any file of the worker read, and quoted in a complaint.
        place = LocalPlace(Path(plan).expanduser().absolute())
        if is_served_run() and not place.path.resolve().is_relative_to(Path.cwd().resolve()):
            workspace.reach.may_read(place, plan)
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
