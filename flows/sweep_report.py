"""What `geocairn sweep` is told and what it prints, for people or as JSON."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING

import click

from geocairn.failure import InputFailure
from geocairn.flows.report import print_json
from geocairn.plan.model import parse_duration
from geocairn.stores.sweep.budget import parse_size

if TYPE_CHECKING:
    from geocairn.stores.sweep import Sweep

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def print_sweep(sweep: Sweep, as_json: bool) -> None:
    """Print what a sweep removed, or would remove, and what it spared and left."""
    if as_json:
        print_json(sweep.as_json())
        return
    for one in sweep.removed:
        step = f"  {one.step}" if one.step else ""
        click.echo(f"  {one.kind:<14} {_size(one.size):>9}  {one.key}{step}: {one.reason}")
    click.echo(sweep.store)
    verb = "would be removed" if sweep.dry_run else "removed"
    counts = Counter(one.kind for one in sweep.removed)
    what = ", ".join(f"{count:,} {_plural(kind, count)}" for kind, count in counts.items()) or "nothing"
    click.echo(f"{verb}: {what} ({_size(sweep.removed_size)})")
    kept = ", ".join(f"{one.count:,} {_plural(kind, one.count)}" for kind, one in sweep.kept.items()) or "nothing"
    click.echo(f"{'would stay' if sweep.dry_run else 'stays'}: {kept} ({_size(sweep.kept_size)})")
    for why, count in sorted(sweep.spared.items()):
        click.echo(f"  spared {count:,}: {why}")
    if sweep.over_budget:
        click.secho(
            f"still {_size(sweep.over_budget)} over the size budget: the rest is pinned, in use or too young",
            fg="yellow",
            err=True,
        )
    for left in sweep.left:
        click.secho(f"left: {left.key}: {left.why}", fg="red", err=True)


def duration(text: str, option: str) -> dt.timedelta:
    """Return the duration that an option states. Raises a usage error for what is none."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = None
    if seconds is None:
        raise click.UsageError(f"{option}: {text!r} is not a duration; write 90s, 30min, 12h, 7d or 2w")
    return dt.timedelta(seconds=seconds)


def size(text: str, option: str) -> int:
    """Return the bytes that an option states. Raises a usage error for what is no size."""
    try:
        return parse_size(text)
    except InputFailure as failure:
        raise click.UsageError(f"{option}: {failure}") from failure


def _plural(kind: str, count: int) -> str:
    return kind if count == 1 or kind == "quarantine" else f"{kind}s"


def _size(size: int) -> str:
    number = float(size)
    for unit in _UNITS:
        if number < 999.5 or unit == _UNITS[-1]:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
