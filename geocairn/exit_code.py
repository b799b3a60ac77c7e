"""The exit code of the command line, by what became of a run.

What always holds: the five codes mean the same for every command, and a script can go by them alone.
"""

from __future__ import annotations

from geocairn.failure import FailureClass

DONE = 0
HALTED = 1
WRONG = 2
"""The plan or the command is wrong; nothing was run."""
NEEDS_INPUT = 3
"""An input failure wants a decision."""
TRANSIENT = 4
"""The budget for transient failures is spent: the same command may do it later."""


def exit_code_of(failure_class: FailureClass | None) -> int:
    """Return the exit code for a failure of this class; for None, no failure."""
    if failure_class is None:
        return DONE
    return {FailureClass.INPUT: NEEDS_INPUT, FailureClass.TRANSIENT: TRANSIENT}.get(failure_class, HALTED)
