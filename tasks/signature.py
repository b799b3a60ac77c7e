"""The signature of a step as a task: its inputs, then its parameters by their public names.

Prefect binds the arguments of every call, `.submit` and `.map` to the signature of the task's function before
anything runs. What always holds: a call with a wrong, missing or superfluous argument is refused there and then, by
one message that names them all, with the nearest right name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from geocairn.checkpoint import Checkpoint
from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.operations.contract import Operation

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CallSignature(inspect.Signature):
    """A signature whose `bind` says all that is wrong with a call."""

    operation: Operation

    def bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        """Return the arguments by name.

        Raises
        ------
        InputFailure : with every wrong, missing or superfluous argument.
        """
        complaints = self._complaints(args, kwargs)
        if complaints:
            raise InputFailure("; ".join(complaints), where=self.operation.name)
        return super().bind(*args, **kwargs)

    def _complaints(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        roles = {role.name for role in self.operation.roles}
        by_position = [name for name, parameter in self.parameters.items() if parameter.kind in _BY_POSITION]
        found = []
        if len(args) > len(by_position):
            found.append(
                f"takes {len(by_position)} arguments by position ({', '.join(by_position) or 'none'}), "
                f"{len(args)} were given: give parameters by name"
            )
        given = set(by_position[: len(args)])
        for name in kwargs:
            if name not in self.parameters:
                hint = did_you_mean(name, list(self.parameters))
                found.append(f"{self.operation.name} has no parameter {name!r}{hint}")
            elif name in given:
                found.append(f"{name!r} was given twice")
        for name, parameter in self.parameters.items():
            if parameter.default is inspect.Parameter.empty and name not in given and name not in kwargs:
                found.append(f"{'input' if name in roles else 'parameter'} {name!r} is missing")
        return found


def signature_of(operation: Operation) -> CallSignature:
    """Return the signature of an operation's task.

    Arguments may be given by position where the operation's function allows it, and the address of a source always.
    """
    roles = {role.name for role in operation.roles}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(operation.function).parameters.values():
        if parameter.name in roles:
            parameters.append(parameter.replace(annotation=inspect.Parameter.empty))
            continue
        kind = parameter.kind
        if operation.reads and not parameters:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        name = argument_name(operation, parameter.name)
        parameters.append(parameter.replace(name=name, kind=kind, annotation=inspect.Parameter.empty))
    made = CallSignature(parameters, return_annotation=Checkpoint)
    made.operation = operation
    return made


def argument_name(operation: Operation, field_name: str) -> str:
    """Return the task's argument for a parameter: its public name, where no input has it."""
    alias = operation.parameters.model_fields[field_name].alias or field_name
    return alias if alias not in {role.name for role in operation.roles} else field_name


def signed(function: Callable[..., Any], operation: Operation) -> Callable[..., Any]:
    """Return `function` under the name, documentation and signature of an operation."""
    function.__name__ = operation.name
    function.__qualname__ = operation.function.__qualname__
    function.__module__ = operation.function.__module__
    function.__doc__ = operation.documentation
    function.__signature__ = signature_of(operation)  # type: ignore[attr-defined]
    return function
