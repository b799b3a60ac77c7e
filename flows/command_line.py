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
from typing import Any

import click

from geocairn.flows.commands import looking, plans, upkeep

_WANTS_JSON = "geocairn.wants_json"


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


for _command in (
    plans.run,
    plans.status,
    plans.check,
    looking.operations,
    looking.show,
    looking.trace,
    looking.health,
    upkeep.sweep,
    upkeep.dev,
):
    main.add_command(_command)


if __name__ == "__main__":
    main()
