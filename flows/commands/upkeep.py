"""The commands that look after the store and the local server."""

from __future__ import annotations

import sys

import click

from geocairn.flows.commands.options import JSON, SCOPE, STORE, workspace_of


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing")
@click.option("--grace", default="1h", metavar="DURATION", help="Leave alone what is younger, as in 30min or 1h [1h]")
@click.option("--size-budget", metavar="SIZE", help="Bring it under this size, as in 20GB, the soonest to expire first")
@click.option("--keep-traces", default="90d", metavar="DURATION", help="How long traces of runs are kept [90d]")
@click.option("--keep-quarantine", default="30d", metavar="DURATION", help="How long what was set aside is kept [30d]")
@STORE
@SCOPE
@JSON
def sweep(
    dry_run: bool,
    grace: str,
    size_budget: str | None,
    keep_traces: str,
    keep_quarantine: str,
    store: str | None,
    scope: str | None,
    as_json: bool,
) -> None:
    """Remove what nobody needs any more: expired checkpoints, layers that no record names, what died runs left.

    It sweeps the whole store, whatever the scopes of what lies in it.
    """
    from geocairn.exit_code import exit_code_of
    from geocairn.flows.sweep_report import duration, print_sweep, size
    from geocairn.stores.sweep import Retention
    from geocairn.stores.sweep import sweep as swept

    traces, quarantine = duration(keep_traces, "--keep-traces"), duration(keep_quarantine, "--keep-quarantine")
    found = swept(
        workspace_of(store, scope).store,
        dry_run=dry_run,
        grace=duration(grace, "--grace"),
        size_budget=size(size_budget, "--size-budget") if size_budget is not None else None,
        retention=Retention(traces=traces, quarantine=quarantine),
    )
    print_sweep(found, as_json)
    sys.exit(exit_code_of(found.failure_class))


@click.command()
@click.option("--stop", is_flag=True, help="Stop it")
@click.option("--url", is_flag=True, help="Print the URL of its API alone, after starting it if need be")
def dev(stop: bool, url: bool) -> None:
    """Show, start (--url) or stop the Prefect server of local runs."""
    from geocairn.flows import local_server

    if url:
        server, _ = local_server.launch()
        local_server.wait_until_healthy(server)
        click.echo(server.url)
        return
    if stop:
        stopped = local_server.stop()
        click.echo(f"stopped the server at {stopped.ui}" if stopped else "no local server was running")
        return
    running = local_server.running_server()
    click.echo(f"a server runs at {running.ui} (process {running.pid})" if running else "no local server is running")
