"""The command line: `geocairn run`, `status`, `check`, `operations`, `show`, `trace`, `dev`.

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
def run(
    plan: Path, settings: tuple[str, ...], store: str | None, scope: str | None, as_json: bool, record: bool
) -> None:
    """Run a plan: reuse what is there, compute what is missing, publish the outputs."""
    from geocairn.decide import decide
    from geocairn.flows.quick_answer import quick_answer
    from geocairn.flows.report import print_answer, print_remarks
    from geocairn.stores.traces import read_decision

    document, checked, workspace = _prepared(plan, settings, store, scope)
    if not as_json:
        print_remarks(checked, document)
    previous = read_decision(workspace.store, workspace.scope, checked.graph.plan.name)
    decision = decide(checked.graph, workspace, previous=previous)
    answer = None if record else quick_answer(decision, workspace, document, _started, previous)
    if answer is not None:
        print_answer(answer.as_json(), as_json, "nothing to compute: every result is there")
        sys.exit(answer.exit_code)
    from geocairn.flows.local_run import run_recorded

    found, code = run_recorded(document, decision, workspace, store, quiet=as_json)
    print_answer(found, as_json)
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


def _prepared(
    plan: Path, settings: tuple[str, ...], store: str | None, scope: str | None
) -> tuple[Document, Checked, Workspace]:
    from geocairn.flows.planning import checked_plan
    from geocairn.plan.document import read_document

    workspace = _workspace(store, scope)
    document = read_document(plan)
    return document, checked_plan(document, workspace, list(settings)), workspace


if __name__ == "__main__":
    main()
