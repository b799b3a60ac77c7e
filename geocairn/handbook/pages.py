"""The pages of the handbook: Markdown of an operation, of a theme, and the index of all themes.

What always holds: a page is made from the contract, the docstring, the parameter model and the example alone.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.handbook.examples import Example, run_example
from geocairn.handbook.pictures import picture

if TYPE_CHECKING:
    from geocairn.operations.contract import Operation, Promise, Role

PICTURES = "pictures"
_ROWS_SHOWN = 6
_WORDS = {
    "each": "one row for each row of the first input, in order",
    "some": "some of the first input's rows, in order",
    "any": "",
}


def write_handbook(operations: Mapping[str, Operation], folder: Path) -> list[Path]:
    """Write the pages and pictures of these operations into a folder, and return what was written.

    Raises
    ------
    InputFailure : when an operation's example fails.
    """
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    themes: dict[str, list[str]] = {}
    written = []
    for name in sorted(operations):
        themes.setdefault(operations[name].function.__module__, []).append(name)
    index = ["# Operations", "", _MADE, ""]
    for module in sorted(themes, key=_theme):
        title, introduction = _of_module(module)
        page = [f"# {title}", "", *introduction, _MADE, ""]
        index += [f"## [{title}]({_theme(module)}.md)", "", "| operation | what it does |", "| --- | --- |"]
        for name in themes[module]:
            example = run_example(operations[name])
            drawn = picture(example) if example is not None else None
            if drawn is not None:
                written.append(_write(folder / PICTURES / f"{name}.svg", drawn))
            page.append(operation_page(operations[name], example, has_picture=drawn is not None))
            index.append(f"| [{name}]({_theme(module)}.md#{name}) | {_cell(operations[name].summary)} |")
        index.append("")
        written.append(_write(folder / f"{_theme(module)}.md", "\n".join(page).rstrip() + "\n"))
    written.append(_write(folder / "README.md", "\n".join(index).rstrip() + "\n"))
    return written


def operation_page(operation: Operation, example: Example | None, *, has_picture: bool) -> str:
    """Return the section of one operation."""
    lines = [f"## {operation.name}", "", *_prose(operation.documentation), ""]
    if operation.roles:
        lines += ["| input | takes |", "| --- | --- |"]
        lines += [f"| `{role.name}` | {_taken(role)} |" for role in operation.roles]
        lines.append("")
    lines += _parameter_table(operation)
    lines += [f"Result: {promise_text(operation.promise)}. Backends: {', '.join(operation.backends)}.", ""]
    if example is not None:
        lines += ["```yaml", example.as_step, "```", "", "```python", example.as_call, "```", ""]
        if has_picture:
            lines += [f"![{operation.name}, before and after]({PICTURES}/{operation.name}.svg)", ""]
        lines += _result_table(example.result)
        lines += [f"Caveat: {text}." for text in example.remarks] + ([""] if example.remarks else [])
    return "\n".join(lines)


_MADE = "Made from the code by `geocairn operations --handbook FOLDER`; see the sample layers in `samples.py`."


def _theme(module: str) -> str:
    own = "geocairn.operations."
    return module[len(own) :] if module.startswith(own) else module.replace(".", "-")


def _of_module(module: str) -> tuple[str, list[str]]:
    """Return a theme's title and introduction: its module's docstring."""
    text = inspect.getdoc(sys.modules[module]) or ""
    first, _, rest = text.partition("\n\n")
    title = _theme(module).replace("_", " ").capitalize()
    return title, [part for part in (first.replace("\n", " "), "", rest.replace("\n", " "), "") if part or rest]


def _prose(documentation: str) -> list[str]:
    """Return a docstring as Markdown: its headings underlined with dashes become words in bold."""
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", documentation, flags=re.MULTILINE)
    return re.sub(r"^(\w+(?:, \w+)*) : ", r"- `\1`: ", text, flags=re.MULTILINE).split("\n")


def _taken(role: Role) -> str:
    kinds = "any geometry" if len(role.kinds) == 3 else " or ".join(role.kinds)
    table = ", or a table" if role.table else ""
    many = ", any number of layers" if role.many else ""
    return f"{kinds}{table}{many}{' (optional)' if role.optional else ''}"


def _parameter_table(operation: Operation) -> list[str]:
    schema = operation.parameters.model_json_schema()
    properties = schema.get("properties", {})
    if not properties:
        return []
    required = set(schema.get("required", []))
    lines = ["| parameter | value | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in properties.items():
        default = "required" if name in required else f"`{json.dumps(field.get('default'), ensure_ascii=False)}`"
        value = value_text(field, schema.get("$defs", {}))
        lines.append(f"| `{name}` | {_cell(value)} | {default} | {_cell(field.get('description', ''))} |")
    return [*lines, ""]


def value_text(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return in words what values a parameter takes, from its JSON Schema."""
    if "$ref" in field:
        return value_text(definitions[field["$ref"].rpartition("/")[2]], definitions)
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in field:
            members = [value_text(member, definitions) for member in field[several] if member.get("type") != "null"]
            return " or ".join(dict.fromkeys(members))
    kind = str(field.get("type", "any value"))
    if kind == "array":
        inner = field.get("prefixItems") or [field.get("items", {})]
        texts = list(dict.fromkeys(value_text(item, definitions) for item in inner))
        count = f"{len(inner)} " if "prefixItems" in field else ""
        return f"list of {count}{' and '.join(texts)}"
    if kind == "object":
        inside = field.get("additionalProperties")
        return f"names to {value_text(inside, definitions)}" if isinstance(inside, Mapping) else "object"
    bounds = [f"{sign} {field[key]:g}" for key, sign in _SIGNS.items() if key in field]
    return " ".join([_TYPES.get(kind, kind), *([", ".join(bounds)] if bounds else [])])


_SIGNS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
_TYPES = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number"}


def promise_text(promise: Promise) -> str:
    """Return in words what an operation promises of its result."""
    if promise.kind == "table":
        what = "a table without geometry"
    else:
        what = {"same": "geometry of the kind that came in", "any": "geometry of any kind"}.get(
            promise.kind, f"{promise.kind} geometry"
        )
    said = [what]
    if _WORDS[promise.rows]:
        said.append(_WORDS[promise.rows])
    if promise.drops_missing:
        said.append("rows without geometry left out")
    if promise.crs not in ("same", "any"):
        said.append(f"in the CRS that `{promise.crs}` states")
    return "; ".join(said)


def _result_table(result: Any) -> list[str]:
    geometry = result.geometry.name if hasattr(result, "geometry") else None
    columns = [str(name) for name in result.columns]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in result.head(_ROWS_SHOWN).to_dict("records"):
        cells = [_geometry_text(row[name]) if name == geometry else _cell(_value(row[name])) for name in columns]
        lines.append(f"| {' | '.join(cells)} |")
    if len(result) > _ROWS_SHOWN:
        lines.append(f"| … {len(result)} rows in all |{' |' * (len(columns) - 1)}")
    return [*lines, ""]


def _geometry_text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value.geom_type}{' (empty)' if value.is_empty else ''}"


def _value(value: Any) -> str:
    import pandas as pd

    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
