"""Complaints of the model library in the plan's own words: where, what, and the nearest right name.

What always holds: one complaint for each place; where a value may be of several kinds, the kind that it comes nearest
to speaks, and none that the value was never meant to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from geocairn.nearest import did_you_mean, nearest

Place = tuple[str | int, ...]

_MUST_BE = {
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "none_required": "left out",
}
_SHOWN = 60
_Item = tuple[Place, dict[str, Any]]


def model_complaints(model: type[BaseModel], error: ValidationError, content: Any) -> list[tuple[Place, str]]:
    """Return place and message of each thing that is wrong with a part of a plan.

    Parameters
    ----------
    model : what the content was held against.
    error : what it said.
    content : the content, which tells places in it from the library's names for the kinds that it tried.
    """
    return _complaints(
        error,
        content,
        lambda place, name: f"there is no field {name!r}{did_you_mean(name, field_names(model, place))}",
        "field",
    )


def parameter_complaints(
    operation: str, known: Iterable[str], error: ValidationError, content: Any
) -> list[tuple[Place, str]]:
    """Return place and message of each thing that is wrong with an operation's parameters."""
    names = list(known)

    def unknown(place: Place, name: str) -> str:
        if len(place) > 1:
            return f"there is no field {name!r}"
        return f"{operation} has no parameter {name!r}{did_you_mean(name, names) or '; it takes none'}"

    return _complaints(error, content, unknown, "parameter")


def field_names(model: type[BaseModel], place: Place) -> list[str]:
    """Return the field names of the model in which the last part of `place` stands, as a plan writes them."""
    for part in place[:-1]:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            members = [field.annotation, *getattr(field.annotation, "__args__", ())]
            inner = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
            model = inner[0] if inner else model
    return [field.alias or name for name, field in model.model_fields.items()]


def shown(value: Any) -> str:
    """Return a value as it is told in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _complaints(
    error: ValidationError, content: Any, unknown: Callable[[Place, str], str], noun: str
) -> list[tuple[Place, str]]:
    groups: dict[Place, list[_Item]] = {}
    for item in error.errors(include_url=False):
        place, stem = _place(item["loc"], content, missing=item["type"] == "missing")
        groups.setdefault(stem, []).append((place, dict(item)))
    found: dict[Place, str] = {}
    for items in groups.values():
        deepest = max(len(place) for place, _ in items)
        by_place: dict[Place, list[dict[str, Any]]] = {}
        for place, entry in items:
            if len(place) == deepest:
                by_place.setdefault(place, []).append(entry)
        for place, entries in by_place.items():
            at, message = _message(place, entries, unknown, noun)
            found.setdefault(at, message)
    return list(found.items())


def _place(location: tuple[str | int, ...], content: Any, *, missing: bool) -> tuple[Place, Place]:
    """Return the place of a complaint in the content, and up to where it is no matter of which kind was tried."""
    place: list[str | int] = []
    stem: Place | None = None
    current = content
    for index, part in enumerate(location):
        within = (isinstance(current, Mapping) and part in current) or (
            isinstance(current, list | tuple) and isinstance(part, int) and part < len(current)
        )
        if within:
            current = current[part]
            place.append(part)
        elif missing and index == len(location) - 1:
            place.append(part)
        elif stem is None:
            stem = tuple(place)  # the library's name for a kind that it tried
    return tuple(place), tuple(place) if stem is None else stem


def _message(
    place: Place, entries: list[dict[str, Any]], unknown: Callable[[Place, str], str], noun: str
) -> tuple[Place, str]:
    first = entries[0]
    name = str(place[-1]) if place else ""
    if first["type"] == "extra_forbidden":
        return place, unknown(place, name)
    if first["type"] == "missing" and place and isinstance(place[-1], int):
        return place[:-1], f"too few items: {shown(first['input'])}"
    if first["type"] == "missing":
        return place, f"the {noun} {name!r} is missing"
    if first["type"] == "value_error":
        return place, str(first["msg"]).removeprefix("Value error, ")
    kinds = list(dict.fromkeys(kind for entry in entries if (kind := _must_be(entry)) is not None))
    if not kinds:
        return place, f"{first['msg'][:1].lower()}{first['msg'][1:]}, not {shown(first['input'])}"
    hint = "".join(dict.fromkeys(_nearest_choice(entry) for entry in entries))
    return place, f"must be {' or '.join(kinds)}, not {shown(first['input'])}{hint}"


def _must_be(entry: dict[str, Any]) -> str | None:
    if entry["type"] in _MUST_BE:
        return _MUST_BE[entry["type"]]
    if entry["type"] == "literal_error":
        return str(entry["ctx"]["expected"])
    message = str(entry["msg"])
    return message.removeprefix("Input should be ") if message.startswith("Input should be ") else None


def _nearest_choice(entry: dict[str, Any]) -> str:
    if entry["type"] != "literal_error" or not isinstance(entry["input"], str):
        return ""
    choices = [choice.strip("' ") for choice in str(entry["ctx"]["expected"]).replace(" or ", ",").split(",")]
    best = nearest(entry["input"], choices)
    return f"; did you mean {best!r}?" if best else ""
