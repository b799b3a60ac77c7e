"""From a document to a checked plan in a workspace: overrides, and what is known of its sources. Loads no Prefect."""

from __future__ import annotations

from geocairn.pinning import describe_source
from geocairn.plan.check import Checked, check
from geocairn.plan.document import Document
from geocairn.plan.reading import override
from geocairn.workspace import Workspace


def checked_plan(document: Document, workspace: Workspace, overrides: list[str]) -> Checked:
    """Apply overrides and check the plan whole, with what is known of its sources.

    Raises
    ------
    PlanError : with all complaints.
    Failure : when a source cannot be asked.
    """
    override(document, overrides)
    return check(document, lambda source: describe_source(source, workspace), workspace.reach)
