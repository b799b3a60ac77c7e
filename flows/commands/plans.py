"""The commands about a plan: run it, say what a run would do, check it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from geocairn.flows.commands.options import ALLOW, JSON, PLAN, SCOPE, SET, STORE, prepared_plan

if TYPE_CHECKING:
    from geocairn.plan.check import Checked
    from geocairn.plan.document import Document
    from geocairn.workspace import Workspace

_started = time.time()


@click.command()
@PLAN
@SET
@STORE
@SCOPE
@ALLOW
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
    allowed: tuple[str, ...],
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
        document, checked, workspace = prepared_plan(plan, settings, store, scope, allowed, planner)
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


@click.command()
@PLAN
@SET
@STORE
@SCOPE
@ALLOW
@JSON
def status(
    plan: Path,
    settings: tuple[str, ...],
    store: str | None,
    scope: str | None,
    allowed: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say what a run would reuse and compute, and for each stale step what changed."""
    from geocairn.decide import decide, status_record
    from geocairn.flows.report import print_json, print_remarks, print_status
    from geocairn.stores.traces import read_decision

    document, checked, workspace = prepared_plan(plan, settings, store, scope, allowed)
    previous = read_decision(workspace.store, workspace.scope, checked.graph.plan.name)
    record = status_record(decide(checked.graph, workspace, previous=previous))
    if as_json:
        print_json(record)
    else:
        print_remarks(checked, document)
        print_status(record)


@click.command()
@PLAN
@SET
@STORE
@SCOPE
@ALLOW
@JSON
def check(
    plan: Path,
    settings: tuple[str, ...],
    store: str | None,
    scope: str | None,
    allowed: tuple[str, ...],
    as_json: bool,
) -> None:
    """Validate a plan: all complaints at once, each with line, step and field."""
    from geocairn.flows.report import print_json, print_remarks

    document, checked, _ = prepared_plan(plan, settings, store, scope, allowed)
    if as_json:
        print_json({"status": "right", "remarks": [remark.text(document.name) for remark in checked.remarks]})
    else:
        print_remarks(checked, document)
        nodes = checked.graph.nodes.values()
        steps = sum(node.kind == "step" for node in nodes)
        click.echo(f"{document.name}: the plan is right ({steps} steps)")


def _with_command(answer: dict[str, Any], context: click.Context, checked: Checked) -> dict[str, Any]:
    """Return the answer of a run, with the command that goes on after an input failure."""
    if "failure" not in answer:
        return answer
    from geocairn.flows.going_on import Command, with_command

    given = context.params
    directory = (context.parent.params if context.parent is not None else {}).get("directory")
    options = {name: given[name] for name in ("settings", "store", "scope", "planner", "policy", "accepted", "allowed")}
    return with_command(answer, Command(str(given["plan"]), **options, directory=directory), checked.graph)
