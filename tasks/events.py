"""Recoveries as Prefect events, so that automations can act on them.

Each is named `geocairn.step.` and what was done (see `geocairn.recoveries.Recovery`), concerns the step of a plan or
flow as its resource, is related to the flow run, and carries the details. What always holds: an event that cannot be
sent costs a line in the log and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from prefect.events import emit_event

from geocairn.recoveries import Listener, Recovery

PREFIX = "geocairn.step"
RUN_PREFIX = "geocairn.run"

_log = logging.getLogger(__name__)


def teller(run_id: str, chain: str) -> Listener:
    """Return a listener that sends an event for each recovery.

    Parameters
    ----------
    run_id : the flow run's id.
    chain : the name of the plan, or of the flow that somebody wrote.
    """

    def tell(step: str, recovery: Recovery, details: Mapping[str, Any]) -> None:
        _emit(
            f"{PREFIX}.{recovery.value}",
            {
                "prefect.resource.id": f"{PREFIX}.{chain}.{step}",
                "prefect.resource.name": step,
                "geocairn.plan": chain,
                "geocairn.step": step,
            },
            run_id,
            details,
        )

    return tell


def tell_of_run(run_id: str, chain: str, what: str, **details: Any) -> None:
    """Send an event about a whole run, named `geocairn.run.` and `what`."""
    resource = {
        "prefect.resource.id": f"{RUN_PREFIX}.{chain}",
        "prefect.resource.name": chain,
        "geocairn.plan": chain,
    }
    _emit(f"{RUN_PREFIX}.{what}", resource, run_id, details)


def _emit(event: str, resource: dict[str, str], run_id: str, details: Mapping[str, Any]) -> None:
    related = [{"prefect.resource.id": f"prefect.flow-run.{run_id}", "prefect.resource.role": "flow-run"}]
    try:
        emit_event(event, resource=resource, related=related, payload=dict(details))
    except Exception as error:  # noqa: BLE001 - telling of a recovery must not undo it
        _log.warning("the event %s could not be sent: %s", event, error)
