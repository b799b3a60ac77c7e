"""What `geocairn run` is told beside the plan, held before anything runs: a wrong one is exit code 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from geocairn.plan.check import Checked
    from geocairn.plan.document import Document


def hold_fallbacks(accepted: tuple[str, ...], checked: Checked) -> None:
    """Refuse to accept a fallback that no step declares."""
    from geocairn.failure import InputFailure
    from geocairn.fallbacks import hold_accepted

    try:
        hold_accepted(accepted, checked.graph)
    except InputFailure as failure:
        raise click.UsageError(f"--accept-fallback: {failure}") from failure


def hold_planner(planner: str | None, document: Document) -> None:
    """Refuse a planner that is not installed, before anything else is looked at."""
    if not planner and not document.values.get("planner"):
        return
    from geocairn.failure import InputFailure
    from geocairn.replanning.planners import stated_planner

    try:
        stated_planner(planner, document)
    except InputFailure as failure:
        raise click.UsageError(f"--planner: {failure}") from failure
