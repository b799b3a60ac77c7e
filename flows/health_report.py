"""What `geocairn health` prints: the runs of each plan and flow, and above all what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from geocairn.flows.report import print_json
from geocairn.health import COUNTS

if TYPE_CHECKING:
    from geocairn.health import ChainHealth, Health, StepHealth

_COLUMNS = ("ran", "reused", "failed", "recovered")
_SHORT = {"gate_failures": "gate", "expirations": "expired"}
_LONGEST_ERROR = 300


def print_health(found: Health, as_json: bool, looked_back: str) -> None:
    """Print the health of runs.

    Parameters
    ----------
    found : what the traces say.
    as_json : as one object.
    looked_back : how far, as it was asked for.
    """
    if as_json:
        print_json(found.as_json())
        return
    for chain in found.chains:
        _print_chain(chain)
    for chain, step in found.absorbed:
        said = f"failed and recovered on {step.recovered} of {step.ran} runs: a defect is being absorbed"
        _print_defect(chain, step, said)
    for chain, step in found.always_failing:
        _print_defect(chain, step, f"failed on each of the {step.ran} runs in which it ran")
    for damaged in found.damaged:
        click.secho(f"a damaged trace, left out: {damaged.key}: {damaged.why}", fg="yellow", err=True)
    click.echo(f"{_runs(found.runs)} in the last {looked_back}")


def _print_chain(chain: ChainHealth) -> None:
    kinds = ("clean", "resumed", "unchanged", "failed")
    counts = ", ".join(f"{getattr(chain, kind):,} {kind}" for kind in kinds)
    click.echo(f"{click.style(f'{chain.kind} {chain.name}', bold=True)}: {_runs(chain.runs)}: {counts}")
    told = []
    if chain.resumed_to_clean is not None:
        told.append(f"{chain.resumed_to_clean:.2f} resumed runs for each clean one")
    if chain.depth is not None:
        told.append(f"a resumed run had {chain.depth:.0%} of its steps behind it")
    if chain.reuse_rate is not None:
        told.append(f"{chain.reuse_rate:.0%} of results reused")
    if chain.cross_run:
        told.append(f"{chain.cross_run:,} results from another run, {chain.cross_chain:,} from another plan or flow")
    if told:
        click.echo(f"    {'; '.join(told)}")
    _print_steps(chain)


def _print_steps(chain: ChainHealth) -> None:
    """Print a table of the steps, with those columns that are not all zero."""
    shown = [name for name in (*COUNTS, "expirations") if chain.total(name)]
    heads = [*_COLUMNS, *(_SHORT.get(name, name) for name in shown)]
    width = max([len(step) for step in chain.steps] + [4])
    click.echo(f"    {'step':<{width}}" + "".join(f"{head:>11}" for head in heads))
    for step in chain.steps.values():
        numbers = [getattr(step, name) for name in _COLUMNS]
        numbers += [step.expirations if name == "expirations" else step.counts[name] for name in shown]
        line = f"    {step.name:<{width}}" + "".join(f"{number or '-':>11}" for number in numbers)
        click.secho(line, fg="red" if step.absorbed or step.always_fails else None)


def _print_defect(chain: ChainHealth, step: StepHealth, said: str) -> None:
    click.secho(f"step {step.name} of {chain.kind} {chain.name} {said}", fg="red")
    if step.last:
        error = " ".join(str(step.last["error"]).split())
        error = error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…"
        click.echo(f"    last: {step.last['class']} on {step.last['backend']}: {error} (run {step.last['run_id']})")


def _runs(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"


def plan_name(stated: str) -> str:
    """Return the name of a plan or flow: that which a plan's file states, or what was stated itself."""
    from geocairn.failure import InputFailure
    from geocairn.plan.document import read_document

    path = Path(stated)
    if not path.is_file():
        return stated
    name = read_document(path).values.get("name")
    if not isinstance(name, str):
        raise InputFailure("the plan states no name", where=stated, remedy="give it one: traces are kept under it")
    return name
