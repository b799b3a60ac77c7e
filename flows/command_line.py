"""The command line: `geocairn run`, `status`, `check`, `operations`, `show`, `trace`, `health`, `sweep`, `dev`.

Commands load what they need when they run: `--help` loads nothing, `status` and an unchanged `run` neither Prefect
nor geopandas. What always holds: exit code 0 done, 1 halted, 2 the plan or the command is wrong, 3 an input failure
wants a decision, 4 the budget for transient failures is spent; with `--json` one object on standard output and
nothing else there.
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from geocairn.plan.check import Checked
    from geocairn.plan.document import Document
    from geocairn.workspace import Workspace

_started = time.time()
_WANTS_JSON = "geocairn.wants_json"

STORE = click.option("--store", metavar="URL", help="Folder or s3://bucket/prefix of the checkpoints [.geocairn]")
SCOPE = click.option("--scope", metavar="S", help="Who runs it: results from private sources stay in a scope [default]")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output")
SET = click.option("--set", "settings", multiple=True, metavar="STEP.PARAM=VALUE", help="Set a parameter of a step")
PLAN = click.argument("plan", type=click.Path(path_type=Path))


class _Commands(click.Group):
    """The commands, with every failure as one message and its exit code."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Note whether an object is wanted on standard output, also for a command line that is wrong."""
        context.meta[_WANTS_JSON] = "--json" in args
        return super().parse_args(context, args)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; failures become messages and exit codes."""
        try:
            return super().invoke(context)
        except click.UsageError as error:
            if context.meta[_WANTS_JSON]:
                _print_failure(error.format_message(), "command", 2)
            raise
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted: what was finished is kept, and the same command goes on from there", err=True)
            context.exit(1)
        except Exception as error:  # noqa: BLE001 - the last one that can tell the user what went wrong
            context.exit(_told(error, context.meta[_WANTS_JSON]))


def _told(error: Exception, as_json: bool) -> int:
    """Tell the user of a failure in one message and return the exit code; an unknown one with its traceback."""
    from geocairn.classification import classify
    from geocairn.exit_code import WRONG, exit_code_of
    from geocairn.failure import Failure
    from geocairn.plan.complaint import PlanError

    more: dict[str, Any] = {}
    if isinstance(error, PlanError):
        message, kind, code = str(error), "plan", WRONG
        more["complaints"] = error.as_json()
    else:
        found = classify(error)
        kind, code = found.failure_class.value, exit_code_of(found.failure_class)
        message = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
        if not found.known:
            import traceback

            traceback.print_exception(error)
    if as_json:
        _print_failure(message, kind, code, **more)
    click.echo(message, err=True)
    return code


def _print_failure(message: str, kind: str, code: int, **more: Any) -> None:
    from geocairn.exit_code import NEEDS_INPUT, WRONG
    from geocairn.flows.report import print_json

    status = {WRONG: "wrong", NEEDS_INPUT: "needs_input"}.get(code, "halted")
    print_json({"status": status, "failure": {"class": kind, "message": message, **more}})


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("-C", "directory", type=click.Path(exists=True, file_okay=False), help="Work in this folder")
@click.version_option(package_name="geocairn")
def main(directory: str | None) -> None:
    """Run chains of geoprocessing steps that resume where they failed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale that lacks a sign must not cost the answer
    if directory is not None:
        os.chdir(directory)


@main.command()
@PLAN
@SET
@STORE
@SCOPE
@JSON
@click.option("--record", is_flag=True, help="Make a Prefect run of it even when nothing has to be computed")
@click.option("--recovery-policy", "policy", metavar="NAME", help="A saved recovery policy (on the Prefect server)")
@click.option("--planner", metavar="NAME", help="The installed planner that changes the plan after an input failure")
@click.option(
    "--accept-fallback",
    "accepted",
    multiple=True,
    metavar="STEP",
    help="Let a step's fallback take its place if it fails",
)
@click.pass_context
def run(
    context: click.Context,
    plan: Path,
    settings: tuple[str, ...],
    store: str | None,
    scope: str | None,
    as_json: bool,
    record: bool,
    policy: str | None,
    planner: str | None,
    accepted: tuple[str, ...],
) -> None:
    """Run a plan: reuse what is there, compute what is missing, publish the outputs."""
    from geocairn.decide import decide
    from geocairn.flows.quick_answer import quick_answer
    from geocairn.flows.report import print_answer, print_remarks
    from geocairn.patience import patiently
    from geocairn.policy import DEFAULT_POLICY
    from geocairn.stores.traces import read_decision

    def prepare() -> tuple[Document, Checked, Workspace, Any, Any]:
        document, checked, workspace = _prepared(plan, settings, store, scope, planner)
        previous = read_decision(workspace.store, workspace.scope, checked.graph.plan.name)
        return document, checked, workspace, previous, decide(checked.graph, workspace, previous=previous)

    document, checked, workspace, previous, decision = patiently(
        prepare, DEFAULT_POLICY, lambda text: click.echo(text, err=True)
    )
    if not as_json:
        print_remarks(checked, document)
    mendable = planner or checked.graph.plan.planner or any(verdict.node.fallback for verdict in decision.failures)
    replans = bool(decision.failures and mendable)
    answer = None if record or replans else quick_answer(decision, workspace, document, _started, previous)
    if answer is not None:
        found = _with_command(answer.as_json(), context, checked)
        print_answer(found, as_json, "nothing to compute: every result is there")
        sys.exit(answer.exit_code)
    from geocairn.flows.local_run import run_recorded
    from geocairn.flows.run_options import hold_fallbacks

    hold_fallbacks(accepted, checked)
    found, code = run_recorded(
        document, decision, workspace, store, quiet=as_json, planner=planner, accept_fallbacks=accepted, policy=policy
    )
    print_answer(_with_command(found, context, checked), as_json)
    sys.exit(code)


@main.command()
@PLAN
@SET
@STORE
@SCOPE
@JSON
def status(plan: Path, settings: tuple[str, ...], store: str | None, scope: str | None, as_json: bool) -> None:
    """Say what a run would reuse and compute, and for each stale step what changed."""
    from geocairn.decide import decide, status_record
    from geocairn.flows.report import print_json, print_remarks, print_status
    from geocairn.stores.traces import read_decision

    document, checked, workspace = _prepared(plan, settings, store, scope)
    previous = read_decision(workspace.store, workspace.scope, checked.graph.plan.name)
    record = status_record(decide(checked.graph, workspace, previous=previous))
    if as_json:
        print_json(record)
    else:
        print_remarks(checked, document)
        print_status(record)


@main.command()
@PLAN
@SET
@STORE
@SCOPE
@JSON
def check(plan: Path, settings: tuple[str, ...], store: str | None, scope: str | None, as_json: bool) -> None:
    """Validate a plan: all complaints at once, each with line, step and field."""
    from geocairn.flows.report import print_json, print_remarks

    document, checked, _ = _prepared(plan, settings, store, scope)
    if as_json:
        print_json({"status": "right", "remarks": [remark.text(document.name) for remark in checked.remarks]})
    else:
        print_remarks(checked, document)
        nodes = checked.graph.nodes.values()
        steps = sum(node.kind == "step" for node in nodes)
        click.echo(f"{document.name}: the plan is right ({steps} steps)")


@main.command()
@click.argument("name", required=False)
@click.option("--json-schema", is_flag=True, help="Print the schema in the form that function-calling models take")
def operations(name: str | None, json_schema: bool) -> None:
    """List the operations, or explain one. NAME may also be `plan`, for the schema of a plan."""
    from geocairn.flows.report import print_json, print_operation, print_operations
    from geocairn.operations.registry import operations as known
    from geocairn.plan.model import plan_schema

    if name == "plan":
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


@main.command()
@click.argument("fingerprint")
@STORE
@SCOPE
@JSON
def show(fingerprint: str, store: str | None, scope: str | None, as_json: bool) -> None:
    """Show a checkpoint by its fingerprint, or by the beginning of it."""
    from geocairn.flows.report import print_checkpoint
    from geocairn.flows.showing import find_checkpoint

    print_checkpoint(find_checkpoint(fingerprint, _workspace(store, scope)), as_json)


@main.command()
@click.argument("run_id", metavar="RUN")
@STORE
@SCOPE
@JSON
def trace(run_id: str, store: str | None, scope: str | None, as_json: bool) -> None:
    """Show what happened in a run, by its id or the beginning of it."""
    from geocairn.flows.report import print_trace
    from geocairn.stores.traces import read_trace

    workspace = _workspace(store, scope)
    print_trace(read_trace(workspace.store, run_id, {workspace.scope}), as_json)


@main.command()
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
    back, workspace = duration(since, "--since"), _workspace(store, scope)
    begin = format_time(max(0.0, workspace.store.objects.now() - back.total_seconds()))
    traces = read_traces(workspace.store, {workspace.scope}, since=begin[:10])
    print_health(judged(traces, since=begin, name=name), as_json, since)


@main.command()
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
        _workspace(store, scope).store,
        dry_run=dry_run,
        grace=duration(grace, "--grace"),
        size_budget=size(size_budget, "--size-budget") if size_budget is not None else None,
        retention=Retention(traces=traces, quarantine=quarantine),
    )
    print_sweep(found, as_json)
    sys.exit(exit_code_of(found.failure_class))


@main.command()
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


def _workspace(store: str | None, scope: str | None) -> Workspace:
    from geocairn.failure import InputFailure
    from geocairn.workspace import open_workspace

    try:
        return open_workspace(store, scope=scope)
    except InputFailure as failure:
        raise click.UsageError(str(failure)) from failure


def _with_command(answer: dict[str, Any], context: click.Context, checked: Checked) -> dict[str, Any]:
    """Return the answer of a run, with the command that goes on after an input failure."""
    if "failure" not in answer:
        return answer
    from geocairn.flows.going_on import Command, with_command

    given = context.params
    directory = (context.parent.params if context.parent is not None else {}).get("directory")
    options = {name: given[name] for name in ("settings", "store", "scope", "planner", "policy", "accepted")}
    return with_command(answer, Command(str(given["plan"]), **options, directory=directory), checked.graph)


def _prepared(
    plan: Path, settings: tuple[str, ...], store: str | None, scope: str | None, planner: str | None = None
) -> tuple[Document, Checked, Workspace]:
    from geocairn.flows.planning import checked_plan
    from geocairn.flows.run_options import hold_planner
    from geocairn.plan.document import read_document

    workspace = _workspace(store, scope)
    document = read_document(plan)
    hold_planner(planner, document)
    return document, checked_plan(document, workspace, list(settings)), workspace


if __name__ == "__main__":
    main()
