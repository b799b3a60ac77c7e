"""The answer to an unchanged rerun: decided and given before Prefect or geopandas is loaded.

What always holds: it is given only when every output is there, was looked at, and stands under its fingerprint; it leaves a
trace under a run id of its own; and it changes nothing else.
"""

from __future__ import annotations

import time
import uuid

from geocairn.answer import Answer, unchanged_answer
from geocairn.checkpoint import format_time
from geocairn.decide import Decision, decision_record
from geocairn.plan.document import Document
from geocairn.stores.traces import write_decision, write_trace
from geocairn.workspace import Workspace


def quick_answer(decision: Decision, workspace: Workspace, document: Document, started: float) -> Answer | None:
    """Return the answer where nothing has to be computed, read or published; else None.

    Parameters
    ----------
    decision : the decision about the plan.
    workspace : where it would run.
    document : the plan, for the trace.
    started : when the command began, in seconds since the epoch.
    """
    if decision.to_compute:
        return None
    run_id = str(uuid.uuid4())
    answer = unchanged_answer(decision, run_id)
    answer.seconds = time.time() - started
    trace = {
        "run_id": run_id,
        "started": format_time(started),
        "ended": format_time(time.time()),
        "plan": document.values,
        "answer": answer.as_json(),
        "notices": [{"step": "plan", "notice": "answered from the records, without a Prefect run"}],
        "attempts": {},
    }
    write_trace(workspace.store, run_id, trace, [workspace.scope])
    return answer


def keep_decision(decision: Decision, workspace: Workspace, previous: dict[str, object] | None) -> None:
    """Keep the decision for the next `status`, where it differs from the one that is kept."""
    record = decision_record(decision, previous)
    if record != previous:
        write_decision(workspace.store, workspace.scope, decision.graph.plan.name, record)
