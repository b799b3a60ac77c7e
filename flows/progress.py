"""Progress on a terminal: a line for each step as it ends, and a bar for the whole chain."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from geocairn.plan.graph import Graph

_MARKS = {"computed": "green", "reused": "cyan", "failed": "red", "not_reached": "yellow", "not_needed": "dim"}


@contextmanager
def progress(graph: Graph, *, quiet: bool) -> Iterator[Any]:
    """Yield what hears of nodes as they end: a bar on a terminal, elsewhere a line each on standard error."""
    if quiet:
        yield lambda name, operation, outcome: None
        return
    if not sys.stderr.isatty():
        yield lambda name, operation, outcome: print(
            f"{outcome} {name.removeprefix('output:')} ({operation})", file=sys.stderr, flush=True
        )
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(graph.plan.name, total=len(graph.nodes))

        def heard(name: str, operation: str, outcome: str) -> None:
            style = _MARKS.get(outcome, "")
            bar.console.print(f"[{style}]{outcome:>11}[/] {name.removeprefix('output:')} [dim]({operation})[/]")
            bar.advance(task)

        yield heard
