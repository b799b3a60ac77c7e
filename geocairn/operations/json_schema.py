"""The JSON Schema of parameters, for forms and for function-calling models.

What always holds: bounds have the names that JSON Schema gives them. Of a number that may be left out, pydantic leaves
its own names (`gt`), which no form and no model knows.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema


class StandardBounds(GenerateJsonSchema):
    """Generates the JSON Schema of a model, with bounds as the standard names them."""

    def generate(self, schema: Any, mode: Any = "validation") -> dict[str, Any]:
        """Return the JSON Schema."""
        found: dict[str, Any] = _with_standard_bounds(super().generate(schema, mode))
        return found


_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


def _with_standard_bounds(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_standard_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = schema.get("type") in ("number", "integer")
    return {_BOUNDS.get(key, key) if bounded else key: _with_standard_bounds(value) for key, value in schema.items()}
