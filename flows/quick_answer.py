"""The answer to an unchanged rerun: decided and given before Prefect or geopandas is loaded.

What always holds: it is given only when every output is there, was looked at, and stands under its fingerprint; it
leaves a trace under a run id of its own; and it changes nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from geocairn.answer import Answer, unchanged_answer
from geocairn.decide import Decision, decision_record
from geocairn.plan.document import Document
from geocairn.run_record import keep_decision, keep_trace
from geocairn.workspace import Workspace


def quick_answer(
    decision: Decision,
    workspace: Workspace,
    document: Document,
    started: float,
    previous: Mapping[str, Any] | None = None,
) -> Answer | None:
    """Return the answer where nothing has to be computed, gated, read or published; else None.

    Parameters
    ----------
    decision : the decision about the plan.
    workspace : where it would run.
    document : the plan, for the trace.
    started : when the command began, in seconds since the epoch.
    previous : the plan's last decision, as it was kept.
    """
    if decision.to_compute or decision.to_gate:
        return None
    answer = unchanged_answer(decision, str(uuid.uuid4()))
    answer.seconds = time.time() - started
    hindered = keep_decision(decision_record(decision, previous), previous, workspace, decision.graph.plan.name)
    notices = ["answered from the records, without a Prefect run", *([hindered] if hindered else [])]
    keep_trace(
        answer, workspace, document.values, started, notices=[{"step": "plan", "notice": text} for text in notices]
    )
    return answer
