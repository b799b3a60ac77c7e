"""The example of an operation: its call in the ways that users write it, and what it gives.

What always holds: an example is a call of the operation on sample layers and nothing else, so what a page shows is what
a reader gets. `read_layer` and `write_layer` act on the world and have no example here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geocairn.failure import InputFailure
from geocairn.notes import collecting
from geocairn.operations.samples import sample

if TYPE_CHECKING:
    from geocairn.operations.contract import Operation


@dataclass(frozen=True)
class Example:
    """What an example is made of and what it gives."""

    operation: Operation
    inputs: Mapping[str, Any]
    """By role: a layer, or a list of them."""
    names: Mapping[str, Any]
    """By role: the name of its sample, or a list of names."""
    parameters: Mapping[str, Any]
    result: Any
    remarks: tuple[str, ...]
    """Caveats that it left."""

    @property
    def as_step(self) -> str:
        """The example as a step of a plan."""
        only = list(self.names.values())
        inputs = only[0] if len(only) == 1 and isinstance(only[0], str) else dict(self.names)
        parts = [f"name: example, op: {self.operation.name}, inputs: {_flow(inputs)}"]
        if self.parameters:
            parts.append(f"params: {_flow(dict(self.parameters))}")
        return "- {" + ", ".join(parts) + "}"

    @property
    def as_call(self) -> str:
        """The example as a call in Python."""
        named = len(self.names) > 1
        inputs = [f"{role}={_python(name)}" if named else _python(name) for role, name in self.names.items()]
        parameters = [f"{name}={value!r}" for name, value in self.parameters.items()]
        return f"{self.operation.name}({', '.join([*inputs, *parameters])})"


def run_example(operation: Operation) -> Example | None:
    """Return the operation's example with its result, or None where it declares none.

    Raises
    ------
    InputFailure : when the example names an input or a sample that does not exist, or the operation refuses it.
    """
    if operation.example is None:
        return None
    roles = {role.name for role in operation.roles}
    names = {key: value for key, value in operation.example.items() if key in roles}
    parameters = {key: value for key, value in operation.example.items() if key not in roles}
    inputs = {role: _samples(value, operation.name) for role, value in names.items()}
    with collecting() as notes:
        result = operation.compute(**inputs, **parameters)
    return Example(operation, inputs, names, parameters, result, tuple(notes.caveats))


def _samples(value: Any, operation: str) -> Any:
    if not isinstance(value, str):
        return [_samples(item, operation) for item in value]
    try:
        return sample(value)
    except KeyError:
        raise InputFailure(f"its example names the sample {value!r}, which does not exist", where=operation) from None


def _flow(value: Any) -> str:
    """Return a value as YAML in one line, as a person would write it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, str) and value.replace("_", "").replace(" ", "").isalnum() and not value[:1].isdigit():
        return value if value.lower() not in ("true", "false", "null", "yes", "no", "on", "off") else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


def _python(name: Any) -> str:
    return name if isinstance(name, str) else f"[{', '.join(name)}]"
