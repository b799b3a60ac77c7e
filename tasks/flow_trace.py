"""The trace of a flow that somebody wrote in Python: what became of each step, and what recovery did.

A flow has no plan, so its steps are noted as their task runs end, in whichever process that is. What always holds:
one trace a flow run and store, of the same form as a plan's; what worker processes saw reaches it through the store;
and a trace that cannot be kept costs the flow nothing but a line in the log.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from geocairn.checkpoint import Checkpoint, format_time
from geocairn.classification import classify
from geocairn.failure import Failure, FailureClass
from geocairn.stores import keys
from geocairn.stores.traces import write_trace

if TYPE_CHECKING:
    from geocairn.tasks.runs import FlowRun

READERS = 16
"""How many objects are read at a time."""

_log = logging.getLogger(__name__)


class FlowTrace:
    """What this process has seen of a flow run."""

    def __init__(self) -> None:
        self.started = time.time()
        self.written = False
        self.handing_in = threading.Lock()
        self.handed_in: dict[str, Any] = {}
        """What of recovery in this process lies in the store."""
        self._entries: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def note(self, task_run_id: str, entry: dict[str, Any]) -> None:
        """Note what became of a task run; a later word on it replaces an earlier one."""
        with self._lock:
            self._entries[task_run_id] = entry

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what was noted, by task run."""
        with self._lock:
            return dict(self._entries)


def step_entry(
    name: str, operation: str, outcome: str, checkpoint: Checkpoint | None, attempts: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what a trace says of a step; see `geocairn.answer.Answer`."""
    layer = checkpoint.layer if checkpoint else None
    return {
        "name": name,
        "op": operation,
        "fingerprint": checkpoint.fingerprint if checkpoint else None,
        "outcome": outcome,
        "backend": checkpoint.backend if checkpoint else None,
        "attempts": attempts,
        "seconds": checkpoint.seconds if checkpoint else None,
        "rows": checkpoint.facts.rows if checkpoint else None,
        "bytes": layer.size if layer else None,
        "ref": layer.key if layer else None,
        "caveats": checkpoint.caveats if checkpoint else [],
    }


def this_worker() -> str:
    """Return a name for this process, as part of a key."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:40]
    return f"{host}-{os.getpid()}"


def hand_in(run: FlowRun, task_run_id: str) -> None:
    """Leave what this process has seen of a task run where the flow's own process finds it.

    One object a task run, and one for what recovery did in this process, written only when that has changed.
    """
    folder = _folder(run.run_id)
    with run.trace.handing_in:
        seen = {"notices": run.notices, **run.recoveries.as_json()}
        parts = {f"{folder}{keys.safe(task_run_id)}.json": {"steps": {task_run_id: run.trace.entries()[task_run_id]}}}
        if seen != run.trace.handed_in and (run.trace.handed_in or any(seen.values())):
            parts[f"{folder}{this_worker()}.json"] = seen
        try:
            for key, part in parts.items():
                run.workspace.store.objects.write(key, json.dumps(part).encode("utf-8"))
            run.trace.handed_in = copy.deepcopy(seen)
        except Failure as failure:
            _log.warning("what this worker saw of run %s does not reach its trace: %s", run.run_id, failure)


def keep(run: FlowRun, flow_name: str, state: Any) -> None:
    """Write the trace of a flow run that has ended.

    Parameters
    ----------
    run : the run.
    flow_name : what the flow is called.
    state : the flow run's last state, None where it is not known.
    """
    run.trace.written = True
    steps = run.trace.entries()
    notices = list(run.notices)
    for part in _parts(run):
        steps.update(part.get("steps", {}))
        notices += part.get("notices", [])
        run.recoveries.merge(part)
    slow = run.recoveries.slow(run.policy.slow_recovery_seconds)
    entries = list(steps.values())
    caveats = [text for entry in entries for text in entry.pop("caveats", [])]
    status, failure = _ending(state)
    answer = {
        "status": status,
        "run_id": run.run_id,
        "plan": flow_name,
        "unchanged": all(entry["outcome"] == "reused" for entry in entries),
        "recorded": True,
        "seconds": round(time.time() - run.trace.started, 3),
        "caveats": list(dict.fromkeys([*run.caveats, *slow, *caveats])),
        "outputs": {},
        "steps": entries,
        "sources": [],
        **failure,
    }
    trace = {
        "run_id": run.run_id,
        "started": format_time(run.trace.started),
        "ended": format_time(time.time()),
        "flow": flow_name,
        "plan": None,
        "answer": answer,
        "notices": notices,
        **run.recoveries.told(),
    }
    for text in slow:
        _log.warning("%s", text)
    try:
        write_trace(run.workspace.store, run.run_id, trace, [run.workspace.scope])
    except Failure as failure_:
        _log.warning("the trace of run %s could not be kept: %s", run.run_id, failure_)


def _ending(state: Any) -> tuple[str, dict[str, Any]]:
    """Return the status of a flow run by its last state, and the failure that ended it."""
    if state is not None and state.is_completed():
        return "completed", {}
    data = getattr(state, "data", None)
    error = getattr(data, "result", data)  # Prefect may have wrapped it, to keep it
    if not isinstance(error, BaseException):
        name = state.name if state is not None else "unknown"
        return "halted", {
            "failure": {
                "step": "",
                "class": "fatal",
                "action": "halt",
                "message": f"it ended as {name}",
                "last_good": [],
            }
        }
    found = classify(error)
    status = "needs_input" if found.failure_class is FailureClass.INPUT else "halted"
    step = getattr(error, "where", "").removeprefix("step ")
    text = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
    body: dict[str, Any] = {
        "step": step,
        "class": found.failure_class.value,
        "action": found.action,
        "message": text,
        "last_good": [],
    }
    return status, {"failure": body}


def _folder(run_id: str) -> str:
    return f"{keys.run_folder(run_id)}trace/"


def _parts(run: FlowRun) -> Iterator[dict[str, Any]]:
    if not run.shares_pins:
        return
    objects = run.workspace.store.objects
    try:
        listed = [info.key for info in objects.list(_folder(run.run_id))]
        with ThreadPoolExecutor(READERS) as pool:
            for stored in pool.map(objects.read, listed):
                if stored is not None:
                    yield json.loads(stored.data)
    except (Failure, ValueError) as failure:
        _log.warning("what workers saw of run %s could not be read: %s", run.run_id, failure)
