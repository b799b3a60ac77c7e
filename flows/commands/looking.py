"""The commands that show: the operations, a checkpoint, what happened in a run, how runs went."""

from __future__ import annotations

from pathlib import Path

import click

from geocairn.flows.commands.options import JSON, SCOPE, STORE, workspace_of


@click.command()
@click.argument("name", required=False)
@click.option("--json-schema", is_flag=True, help="Print the schema in the form that function-calling models take")
@click.option(
    "--handbook", type=click.Path(file_okay=False), help="Write pages with pictures of all operations into this folder"
)
def operations(name: str | None, json_schema: bool, handbook: str | None) -> None:
    """List the operations, or explain one. NAME may also be `plan`, for the schema of a plan."""
    from geocairn.flows.report import print_json, print_operation, print_operations
    from geocairn.operations.registry import operations as known
    from geocairn.plan.model import plan_schema

    if handbook is not None:
        from geocairn.handbook.pages import write_handbook

        written = write_handbook({name: known[name]} if name is not None else known, Path(handbook))
        click.echo(f"{len(written)} files in {handbook}")
    elif name == "plan":
        print_json(plan_schema())
    elif name is not None and name not in known:
        from geocairn.nearest import did_you_mean

        raise click.UsageError(f"there is no operation {name!r}{did_you_mean(name, known)}")
    elif json_schema:
        print_json(known[name].schema() if name else [known[each].schema() for each in sorted(known)])
    elif name is not None:
        print_operation(known[name])
    else:
        print_operations(known)


@click.command()
@click.argument("fingerprint")
@STORE
@SCOPE
@JSON
def show(fingerprint: str, store: str | None, scope: str | None, as_json: bool) -> None:
    """Show a checkpoint by its fingerprint, or by the beginning of it."""
    from geocairn.flows.report import print_checkpoint
    from geocairn.flows.showing import find_checkpoint

    print_checkpoint(find_checkpoint(fingerprint, workspace_of(store, scope)), as_json)


@click.command()
@click.argument("run_id", metavar="RUN")
@STORE
@SCOPE
@JSON
def trace(run_id: str, store: str | None, scope: str | None, as_json: bool) -> None:
    """Show what happened in a run, by its id or the beginning of it."""
    from geocairn.flows.report import print_trace
    from geocairn.stores.traces import read_trace

    workspace = workspace_of(store, scope)
    print_trace(read_trace(workspace.store, run_id, {workspace.scope}), as_json)


@click.command()
@click.argument("plan", required=False)
@click.option("--since", default="30d", metavar="DURATION", help="How far to look back, as in 12h or 30d [30d]")
@STORE
@SCOPE
@JSON
def health(plan: str | None, since: str, store: str | None, scope: str | None, as_json: bool) -> None:
    """Say how the runs went: what was reused, what failed, and what recovery absorbs run after run.

    PLAN is a plan's file, or the name of a plan or flow; by default all.
    """
    from geocairn.checkpoint import format_time
    from geocairn.flows.health_report import plan_name, print_health
    from geocairn.flows.sweep_report import duration
    from geocairn.health import health as judged
    from geocairn.stores.traces import read_traces

    name = plan_name(plan) if plan is not None else None
    back, workspace = duration(since, "--since"), workspace_of(store, scope)
    begin = format_time(max(0.0, workspace.store.objects.now() - back.total_seconds()))
    traces = read_traces(workspace.store, {workspace.scope}, since=begin[:10])
    print_health(judged(traces, since=begin, name=name), as_json, since)
