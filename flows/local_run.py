"""A local run with a Prefect record: the server is brought up while Prefect loads, the flow runs in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from geocairn.decide import Decision
from geocairn.exit_code import DONE, exit_code_of
from geocairn.failure import FailureClass
from geocairn.flows import local_server
from geocairn.plan.document import Document
from geocairn.workspace import Workspace


def run_recorded(
    document: Document,
    decision: Decision,
    workspace: Workspace,
    store: str | None,
    *,
    quiet: bool,
    planner: str | None = None,
    accept_fallbacks: Sequence[str] = (),
    policy: str | None = None,
) -> tuple[dict[str, Any], int]:
    """Run a checked plan as a Prefect flow and return its answer and exit code.

    Parameters
    ----------
    document : the plan.
    decision : what was decided about it; the flow decides again when it starts.
    workspace : where it runs.
    store : as the command line stated it.
    quiet : whether standard output belongs to the answer alone; progress then goes nowhere.
    planner : the name of the planner that the command line states.
    accept_fallbacks : the steps whose fallback the person at the command line accepts.
    policy : the name of the recovery policy that the command line states.
    """
    server = _server(quiet)
    # The log goes to the server, where the UI shows it; the terminal gets the answer.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    if decision.to_compute:
        import geopandas  # noqa: F401 - loaded here, while the server comes up
    from geocairn.blocks import CheckpointStoreBlock
    from geocairn.flows.progress import progress
    from geocairn.flows.run_chain import ChainHalted, listen, run_chain
    from geocairn.tasks.runs import overhear

    if server is not None:
        local_server.wait_until_healthy(server)
    reach = workspace.reach
    block = CheckpointStoreBlock(
        url=store or "", scope=workspace.scope, may_read=list(reach.read), may_write=list(reach.write)
    )
    run_chain.result_storage = block
    with progress(decision.graph, quiet=quiet) as listener:
        listen(listener)
        overhear(None if quiet else lambda text: click.echo(text, err=True))
        try:
            state: Any = run_chain(
                plan=document.values,
                planner=planner,
                accept_fallbacks=list(accept_fallbacks),
                recovery_policy=policy,
                return_state=True,
            )
        finally:
            listen(None)
            overhear(None)
    if state.is_completed():
        return dict(state.result()), DONE
    error = state.result(raise_on_failure=False)
    if not isinstance(error, ChainHalted):
        raise error
    answer = error.answer
    return answer, exit_code_of(FailureClass(answer["failure"]["class"]))


def _server(quiet: bool) -> local_server.LocalServer | None:
    """Return the local server, started if need be; None where the user's own settings name one."""
    if local_server.stated_api_url() is not None:
        return None
    server, started = local_server.launch()
    os.environ["PREFECT_API_URL"] = server.url
    if started and not quiet:
        click.echo(
            f"starting a local Prefect server for this run and the next ones: {server.ui} (geocairn dev)", err=True
        )
    return server
