"""Whether the code that runs just now was started from a deployment: then whoever started it is not its author.

What always holds: a subflow, a task in a thread and a worker process of a served run count as served.
"""

from __future__ import annotations

import os
from functools import lru_cache
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

_STARTED_BY_PREFECT = "PREFECT__FLOW_RUN_ID"
"""Set by Prefect in each process that it starts for a run of a deployment, and inherited by that one's children."""


def is_served_run() -> bool:
    """Return whether the current flow run, or the outermost one that it is a subflow of, came from a deployment."""
    if os.environ.get(_STARTED_BY_PREFECT):
        return True
    context = FlowRunContext.get()
    outermost = context
    while context is not None:
        if context.flow_run is not None and context.flow_run.deployment_id is not None:
            return True
        outermost = context
        token = context._token
        outer = token.old_value if token is not None else None
        context = outer if isinstance(outer, FlowRunContext) else None
    run = outermost.flow_run if outermost is not None else None
    if outermost is None or run is None or not outermost.detached or run.parent_task_run_id is None:
        return False
    return _began_in_deployment(run.parent_task_run_id)


@lru_cache(maxsize=256)
def _began_in_deployment(task_run: UUID) -> bool:
    """Ask the server where a subflow on another machine began, by the task run that stands for it in its parent."""
    with get_client(sync_client=True) as client:
        waiting: UUID | None = task_run
        while waiting is not None:
            parent = client.read_task_run(waiting).flow_run_id
            if parent is None:
                return False
            run = client.read_flow_run(parent)
            if run.deployment_id is not None:
                return True
            waiting = run.parent_task_run_id
    return False
