"""The run that a task belongs to, in this process: its workspace and policy, its pinned sources, its layers in memory.

What always holds: tasks of one flow run and of its subflows share one `Run` for each store, whichever thread they run
in; the store is the flow's result storage where that is a checkpoint store, and otherwise the default one; worker
processes of one run hold a source to one version, by agreement through the store; what is kept for a run alone goes
when the flow run has ended.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import MissingContextError
from prefect.logging import get_logger, get_run_logger
from prefect.task_runners import ThreadPoolTaskRunner

from geocairn.blocks import CheckpointStoreBlock
from geocairn.failure import Failure, InputFailure
from geocairn.pinning import PinnedSource, pinned_at
from geocairn.policy import RecoveryPolicy
from geocairn.recoveries import Recoveries
from geocairn.sources.source import Source
from geocairn.sources.version import SourceVersion
from geocairn.step_call import Run
from geocairn.stores.keys import run_folder
from geocairn.stores.memory import HandOver
from geocairn.stores.objects import Conflict
from geocairn.stores.runs import RunInFlight
from geocairn.tasks import flow_trace
from geocairn.tasks.events import teller
from geocairn.workspace import Workspace, default_store

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_registered: dict[str, Run] = {}
_runs: dict[tuple[str, str], FlowRun] = {}
_hand_over = HandOver()
_overhearing: list[Callable[[str], None]] = []
_default_blocks: dict[str, CheckpointStoreBlock] = {}


class FlowRun(Run):
    """The run of a flow that somebody wrote in Python: its tasks may run in several processes."""

    shares_pins: bool = False
    """Whether other processes run tasks of it, so that versions are agreed on through the store."""
    ours: bool = True
    """Whether its flow runs in this process, which then removes what is kept for the run alone."""
    within: weakref.ref[Any] | None = None
    """The flow run's context, or the task run of a task outside any flow."""
    flow_name: str = ""
    """Empty for a task outside any flow."""
    in_flight: RunInFlight | None = None
    """Tells the sweep of it, where its flow runs in this process."""
    trace: flow_trace.FlowTrace

    @property
    def ended(self) -> bool:
        """Whether it is over: its context was left (Prefect's own services can hold it for longer), or is gone."""
        owner = self.within() if self.within is not None else None
        return owner is None or (isinstance(owner, FlowRunContext) and owner._token is None)

    def pin(self, source: Source) -> PinnedSource:
        """Return the source at the version that the whole run holds it to, all processes included."""
        known = source.model_dump_json() in self.pins
        pinned = super().pin(source)
        if known or not self.shares_pins:
            return pinned
        agreed = self._agreed(source, pinned)
        with self.lock:
            self.hold(agreed)
        return agreed

    def note(self, task_run: Any, entry: dict[str, Any]) -> None:
        """Note what became of a task run: for the flow's trace, and so that the sweep leaves its checkpoint alone."""
        self.trace.note(str(task_run.id), entry)
        if not self.ours:
            flow_trace.hand_in(self, str(task_run.id))
        if self.in_flight is not None and entry["fingerprint"] is not None:
            # What was computed just now is young enough to stay until the next heartbeat.
            self.in_flight.add([entry["fingerprint"]], at_once=entry["outcome"] == "reused")

    def finish(self, state: Any) -> None:
        """Leave the trace of the flow run and say that it is over; later calls do nothing."""
        if self.in_flight is not None:
            self.in_flight.end()
            self.in_flight = None
        if self.ours and self.flow_name and not self.trace.written:
            flow_trace.keep(self, self.flow_name, state)

    def _agreed(self, source: Source, pinned: PinnedSource) -> PinnedSource:
        """Return the source at the version that the first process of the run wrote down."""
        name = hashlib.sha256(source.model_dump_json().encode("utf-8")).hexdigest()
        key = f"{run_folder(self.run_id)}pins/{name}.json"
        objects = self.workspace.store.objects
        body = {"version": pinned.version.text, "is_content": pinned.version.is_content_digest}
        try:
            objects.write(key, json.dumps(body).encode("utf-8"), if_absent=True)
        except Conflict:
            stored = objects.read(key)
            if stored is not None:
                body = json.loads(stored.data)
        return pinned_at(source, SourceVersion(str(body["version"]), bool(body["is_content"])), self.workspace)


def default_block() -> CheckpointStoreBlock:
    """Return the block of the default store as it is now: `$GEOCAIRN_STORE`, else the folder `.geocairn`."""
    address = default_store()
    with _lock:
        if address not in _default_blocks:
            _default_blocks[address] = CheckpointStoreBlock(url=address)
        return _default_blocks[address]


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
        return _registered.setdefault(run.run_id, run)


def unregister(run_id: str) -> None:
    """Forget a run that has ended."""
    with _lock:
        _registered.pop(run_id, None)


def new_run(run_id: str, workspace: Workspace, policy: RecoveryPolicy, chain: str) -> Run:
    """Return a run of the plan `chain`, whose notices go to Prefect's log and whose recoveries are events."""
    return Run(run_id, workspace, _hand_over, policy, recoveries=Recoveries(teller(run_id, chain)), say=_say)


def current_run() -> Run:
    """Return the run of the current task, made when its first task asks for it.

    Raises
    ------
    MissingContextError : outside a task.
    InputFailure : where the task's result storage is something else than a checkpoint store.
    """
    context = TaskRunContext.get()
    if context is None:
        raise MissingContextError("a step runs only as a Prefect task")
    registered = _registered.get(str(context.task_run.flow_run_id))
    if registered is not None:
        return registered
    block: Any = context.result_store.result_storage
    if not isinstance(block, CheckpointStoreBlock):
        raise InputFailure(
            f"the result storage of a step is a checkpoint store, not a {type(block).__name__}",
            where=f"step {context.task.name}",
            remedy="leave result_storage out, or name a geocairn-checkpoint-store block",
        )
    flow = _outermost_flow()
    return _run_of(block, flow, context.task_run, context.task.name)


def expect_run(stated: Any) -> None:
    """Make the run of the current flow known before its steps run in other processes, so that its end is heard of.

    Parameters
    ----------
    stated : the step's result storage; None for the flow's own.
    """
    flow = _outermost_flow()
    if flow is None or flow.flow_run is None or flow.detached or isinstance(flow.task_runner, ThreadPoolTaskRunner):
        return
    if str(flow.flow_run.id) in _registered:
        return
    block: Any = stated if stated is not None else getattr(flow.result_store, "result_storage", None)
    if isinstance(block, str):
        block = CheckpointStoreBlock.load(block.rpartition("/")[2])
    if isinstance(block, CheckpointStoreBlock):
        _run_of(block, flow, None, "")


def _run_of(block: CheckpointStoreBlock, flow: FlowRunContext | None, task_run: Any, task_name: str) -> Run:
    """Return the run of a flow, or of a task outside any, on a store; made when it is asked for first."""
    within = flow is not None and flow.flow_run is not None
    owner: Any = flow if within else task_run
    run_id = str(flow.flow_run.id if flow is not None and flow.flow_run is not None else task_run.id)
    key = (run_id, block.identity)
    with _lock:
        known = _runs.get(key)
        if known is not None:
            known.within = weakref.ref(owner)  # another attempt of a flow run has another context
            return known
    remove_what_ended()
    name = flow.flow.name if flow is not None and flow.flow is not None else ""
    recoveries = Recoveries(teller(run_id, name or task_name))
    made = FlowRun(run_id, block.workspace(), _hand_over, block.policy(), recoveries=recoveries, say=_say, rewinds=True)
    made.within = weakref.ref(owner)
    made.shares_pins = flow is not None and not isinstance(flow.task_runner, ThreadPoolTaskRunner)
    made.ours = flow is None or not flow.detached
    made.flow_name = name
    made.trace = flow_trace.FlowTrace()
    if name and made.ours:
        made.in_flight = RunInFlight(made.workspace.store, run_id, [])
    with _lock:
        run = _runs.setdefault(key, made)
        if run is made and made.in_flight is not None:
            try:
                made.in_flight.start()
            except BaseException:
                del _runs[key]  # another attempt begins anew
                raise
    if run is made and made.ours and flow is not None and flow.flow is not None:
        _watch_end(flow.flow)
    return run


def _watch_end(flow: Any) -> None:
    """Have a flow tell when a run of it has ended, so that its trace is there as soon as the run is over."""
    for hooks in (flow.on_completion, flow.on_failure, flow.on_crashed, flow.on_cancellation):
        name = f"{hooks.__name__}_hooks"
        if flow_ended not in (getattr(flow, name, None) or ()):
            hooks(flow_ended)


def flow_ended(flow: Any, flow_run: Any, state: Any) -> None:
    """Leave the trace of a flow run. A hook of every flow that has run a step."""
    with _lock:
        found = [run for (run_id, _), run in _runs.items() if run_id == str(flow_run.id)]
    for run in found:
        run.finish(state)


def known_run() -> Run | None:
    """Return the run of the current task if there is one, without making it."""
    try:
        return current_run()
    except InputFailure:
        return None


def _outermost_flow() -> FlowRunContext | None:
    """Return the context of the flow run that this process runs, of which others may be subflows."""
    context = FlowRunContext.get()
    while context is not None:
        token = context._token
        outer = token.old_value if token is not None else None
        if not isinstance(outer, FlowRunContext):
            return context
        context = outer
    return None


def remove_what_ended(*, everything: bool = False) -> None:
    """Forget runs that have ended, and remove what the store keeps for them alone."""
    with _lock:
        over = [_runs.pop(key) for key, run in list(_runs.items()) if everything or run.ended]
    for run in over:
        run.finish(None)
        # Of what other processes keep for the run this one does not know.
        if not run.ours or not (run.keeps or run.shares_pins):
            continue
        try:
            run.workspace.store.clear_run(run.run_id)
        except Failure as failure:
            _log.warning("what was kept for run %s alone is left to the sweep: %s", run.run_id, failure)


atexit.register(remove_what_ended, everything=True)


def overhear(heard: Callable[[str], None] | None) -> None:
    """Let somebody hear the notices of runs in this process beside the log: the command line does."""
    _overhearing[:] = [heard] if heard is not None else []


def _say(text: str) -> None:
    for heard in _overhearing:
        heard(text)
    try:
        get_run_logger().info(text)
    except MissingContextError:
        get_logger("geocairn").info(text)
