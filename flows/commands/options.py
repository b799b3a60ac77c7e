"""What several commands are told alike, and what they make of it: the workspace and the checked plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from geocairn.plan.check import Checked
    from geocairn.plan.document import Document
    from geocairn.workspace import Workspace

STORE = click.option("--store", metavar="URL", help="Folder or s3://bucket/prefix of the checkpoints [.geocairn]")
SCOPE = click.option("--scope", metavar="S", help="Who runs it: results from private sources stay in a scope [default]")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output")
SET = click.option("--set", "settings", multiple=True, metavar="STEP.PARAM=VALUE", help="Set a parameter of a step")
ALLOW = click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="URI",
    help="Let the plan read and write this too, beside the working directory: a folder or file, s3://bucket/prefix, "
    "https://host, postgresql://host/database; may be repeated [$GEOCAIRN_ALLOW]",
)
PLAN = click.argument("plan", type=click.Path(path_type=Path))


def workspace_of(store: str | None, scope: str | None, allowed: tuple[str, ...] = ()) -> Workspace:
    """Return the workspace that the options name; a wrong address is a wrong command."""
    from geocairn.failure import InputFailure
    from geocairn.workspace import open_workspace

    try:
        return open_workspace(store, scope=scope, allowed=allowed)
    except InputFailure as failure:
        raise click.UsageError(str(failure)) from failure


def prepared_plan(
    plan: Path,
    settings: tuple[str, ...],
    store: str | None,
    scope: str | None,
    allowed: tuple[str, ...],
    planner: str | None = None,
) -> tuple[Document, Checked, Workspace]:
    """Return a plan's document, the checked plan with its overrides, and the workspace.

    Raises
    ------
    PlanError : with all complaints.
    Failure : when a source cannot be asked.
    """
    from geocairn.flows.planning import checked_plan
    from geocairn.flows.run_options import hold_planner
    from geocairn.plan.document import read_document

    workspace = workspace_of(store, scope, allowed)
    document = read_document(plan)
    hold_planner(planner, document)
    return document, checked_plan(document, workspace, list(settings)), workspace
