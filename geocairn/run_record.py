"""What a run leaves for later: its trace, and its decision for the next `status` to compare with.

What always holds: neither decides what is reused or computed, so a store that does not take them costs a run nothing
but a word about it. The results and outputs of the run are there all the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from geocairn.answer import Answer
from geocairn.checkpoint import format_time
from geocairn.failure import Failure
from geocairn.stores.traces import write_decision, write_trace
from geocairn.workspace import Workspace


def keep_trace(
    answer: Answer,
    workspace: Workspace,
    plan: Mapping[str, Any],
    started: float,
    *,
    notices: Sequence[Mapping[str, Any]] = (),
    attempts: Mapping[str, Any] | None = None,
    counts: Mapping[str, Any] | None = None,
    replanning: Mapping[str, Any] | None = None,
) -> None:
    """Keep the answer of a run and what else happened in it; where that fails, the answer says so.

    Parameters
    ----------
    answer : the answer; gets a caveat when the trace could not be kept.
    workspace : where it ran.
    plan : the plan that was run, as values.
    started : when it began, in seconds since the epoch.
    notices, attempts, counts : what happened, the failed attempts by step, and what was done about them by step; see
        `geocairn.recoveries`.
    replanning : the plan that the run began with and the rounds that changed it, where there were any; see
        `geocairn.replanning.Replanning.trace`.
    """
    trace = {
        "run_id": answer.run_id,
        "started": format_time(started),
        "ended": format_time(time.time()),
        "plan": dict(plan),
        "answer": answer.as_json(),
        "notices": [dict(notice) for notice in notices],
        "attempts": dict(attempts or {}),
        "counts": dict(counts or {}),
        **(replanning or {}),
    }
    try:
        write_trace(workspace.store, answer.run_id, trace, [workspace.scope])
    except Failure as failure:
        answer.caveats.append(f"the trace of this run could not be kept: {failure}")


def keep_decision(
    record: Mapping[str, Any], previous: Mapping[str, Any] | None, workspace: Workspace, plan_name: str
) -> str | None:
    """Keep a decision where it differs from the one that is kept; return what hindered it, None when nothing did.

    Parameters
    ----------
    record, previous : the decision, and the one kept before; see `geocairn.decide.decision_record`.
    workspace : where the plan was decided.
    plan_name : its name, under which the next decision finds it.
    """
    if record == previous:
        return None
    try:
        write_decision(workspace.store, workspace.scope, plan_name, dict(record))
    except Failure as failure:
        return f"the decision could not be kept, so the next status cannot say what changed: {failure}"
    return None
