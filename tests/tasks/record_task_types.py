"""The types of the catalogue's tasks, for type checkers and editors: tasks/__init__.pyi.

    python tests/tasks/record_task_types.py       writes the file anew from the operations' contracts

The tasks are made when they are asked for, so that importing the package stays cheap; a type checker cannot see them.
The file says the same in a form that it can, and a test holds it to the contracts.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator
from pydantic_core import PydanticUndefined

from geocairn.operations.contract import Operation
from geocairn.tasks.signature import argument_name, signature_of

FILE = Path(__file__).parents[2] / "tasks" / "__init__.pyi"
WIDTH = 116
LONG = 60
"""A literal type that is longer gets a name."""

HEAD = '''"""Every operation as a Prefect task; written by tests/tasks/record_task_types.py from the contracts."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeAlias

from geopandas import GeoDataFrame
from pandas import DataFrame
from prefect.futures import PrefectFuture

from geocairn.cartography import MapStyle
from geocairn.checkpoint import Checkpoint
from geocairn.highlight import Highlight
from geocairn.tasks.step import StepTask as StepTask
from geocairn.tasks.step import step as step

_P = ParamSpec("_P")
Layer: TypeAlias = Checkpoint | PrefectFuture[Checkpoint] | GeoDataFrame
Table: TypeAlias = Layer | DataFrame

def _task(function: Callable[_P, Checkpoint], /) -> StepTask[_P]: ...
def __getattr__(name: str) -> StepTask[...]: ...
'''


def text_of_types() -> str:
    """Return what the file has to say of the project's own operations."""
    from geocairn.operations.registry import operations

    everything = [operations[name] for name in sorted(operations)]
    own = [operation for operation in everything if operation.function.__module__.startswith("geocairn.")]
    aliases: dict[str, str] = {}
    tasks = "".join(f"\n@_task\n{_definition(operation, aliases)}" for operation in own)
    named = "".join(f"{name}: TypeAlias = {_broken(text)}\n" for text, name in aliases.items())
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=f"{HEAD}\n{named}{tasks}", capture_output=True, text=True, check=True).stdout


def _broken(text: str) -> str:
    """Return a long literal type on lines of its own."""
    items = text.removeprefix("Literal[").removesuffix("]").split(", ")
    return "Literal[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _definition(operation: Operation, aliases: dict[str, str]) -> str:
    roles = {role.name: role for role in operation.roles}
    fields = {argument_name(operation, name): field for name, field in operation.parameters.model_fields.items()}
    parts: list[str] = []
    for parameter in signature_of(operation).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        role = roles.get(parameter.name)
        if role is not None:
            kind = "list[Layer]" if role.many else "Table" if role.table else "Layer"
            parts.append(f"{parameter.name}: {kind} | None = None" if role.optional else f"{parameter.name}: {kind}")
            continue
        field = fields[parameter.name]
        stated = _type(_annotated(field))
        for literal in re.findall(r"Literal\[[^]]*\]", stated):
            if len(literal) > LONG:
                name = f"_{parameter.name.title()}"
                if name in aliases.values() and literal not in aliases:
                    name += f"Of{operation.name.title().replace('_', '')}"
                stated = stated.replace(literal, aliases.setdefault(literal, name))
        text = f"{parameter.name}: {stated}"
        parts.append(text if field.default is PydanticUndefined else f"{text} = {_default(field.default)}")
    line = f"def {operation.name}({', '.join(parts)}) -> Checkpoint: ..."
    if len(line) <= WIDTH:
        return f"{line}\n"
    return f"def {operation.name}(\n" + "".join(f"    {part},\n" for part in parts) + ") -> Checkpoint: ...\n"


def _annotated(field: Any) -> Any:
    """Return a field's annotation with what pydantic took out of it."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _type(annotation: Any) -> str:
    """Return the type of the values that a parameter takes."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        stated = [
            item.json_schema_input_type
            for item in arguments[1:]
            if isinstance(item, BeforeValidator) and item.json_schema_input_type is not PydanticUndefined
        ]
        return _type(stated[0] if stated else arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(_type(argument) for argument in arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, arguments))}]"
    if origin in (dict, Mapping):
        return f"Mapping[{', '.join(map(_type, arguments))}]"
    if origin is tuple:
        items = list(dict.fromkeys(map(_type, arguments)))
        return f"tuple[{', '.join(map(_type, arguments))}] | list[{' | '.join(items)}]"
    if origin is list:
        return f"list[{_type(arguments[0])}]"
    if annotation in (None, type(None)):
        return "None"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"{annotation.__name__} | Mapping[str, Any]"
    return annotation.__name__ if isinstance(annotation, type) else "Any"


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _default(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return repr(value) if value is None or isinstance(value, bool | int | float) else "..."


if __name__ == "__main__":
    FILE.write_text(text_of_types(), encoding="utf-8")
