"""The identity of a function's code: its syntax tree and that of the project code it calls, with the values they use.

A comment, a docstring, an annotation or the layout changes nothing; an edited helper does. Code of installed packages
and of the standard library counts by name only. What always holds: where the identity cannot be known (a value that
has no canonical form, no source text), the caller is asked to state a version; there is never a partial hash. The
answer is the same in every process, whatever the hash seed, the folder, or the name that the module was loaded by.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import logging
import re
import threading
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from geocairn.canonical import NotCanonical, digest
from geocairn.failure import InputFailure
from geocairn.installed import dotted_name, is_project_module, module_of
from geocairn.operations.contract import Operation
from geocairn.syntax import UNDEFINED, Named, NoSource, canonical_tree, closure_of, definition_of, references

REMEDY = "state a version: @operation(version=…) or step(…, version=…), and raise it when the code changes"

_RUNTIME = (logging.Logger, logging.LoggerAdapter, ContextVar, type(threading.Lock()), type(threading.RLock()))
"""What a program runs with and no result is made of: what is logged, collected or locked."""

_TYPING = (
    types.GenericAlias,
    types.UnionType,
    TypeVar,
    type(Annotated[int, 0]),
    type(Literal[0]),
    type(Union[int, str]),  # noqa: UP007 - the type of the old notation
    type(list[int]),
)
_PLAIN = (bool, int, float, str, bytes, type(None), complex, type(Ellipsis), range, slice)


def code_version(function: Callable[..., Any], *, own: Callable[[str], bool] | None = None) -> str:
    """Return a digest of a function's code and of all project code that it reaches.

    Parameters
    ----------
    function : the function.
    own : decides by a module's name whether its code is followed; by default all that is not installed.

    Raises
    ------
    InputFailure : when the identity of something in it cannot be known.
    """
    walk = _Walk(own or is_project_module)
    root = walk.identity(function, getattr(function, "__qualname__", repr(function)))
    return digest({"root": root, "code": walk.entries})


class _Walk:
    """A walk over everything that a function reaches, each thing once.

    Code is numbered in the order in which it is met, which the text alone decides; a thing met again is its number. So
    recursion ends, and two closures of one text with different values are two.
    """

    def __init__(self, own: Callable[[str], bool]) -> None:
        self.own = own
        self.entries: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []
        """Holds what was met, so that no other object takes its place in memory."""
        self.within: set[int] = set()

    def identity(self, value: Any, name: str) -> Any:
        """Return what stands for `value` in the digest; `name` is how messages call it."""
        if value is UNDEFINED:
            return ["undefined"]
        if isinstance(value, Named):
            return ["installed", value.name]
        if isinstance(value, _RUNTIME):
            return ["runtime", type(value).__name__]
        if isinstance(value, Operation) and value.version is not None:
            return ["operation", value.name, str(value.version)]
        if isinstance(value, Operation):
            return self.identity(value.function, name)
        if isinstance(value, types.ModuleType):
            return self._module(value, name)
        if isinstance(value, enum.Enum) or not (callable(value) or isinstance(value, (property, *_TYPING))):
            return self._value(value, name)
        return self._callable(value, name)

    def _module(self, module: types.ModuleType, name: str) -> Any:
        if self.own(module.__name__):
            raise self._unknown(name, f"the module {module.__name__} is used as a whole")
        return ["installed", module.__name__]

    def _callable(self, value: Any, name: str) -> Any:
        if isinstance(value, functools.partial):
            parts = [self.identity(value.func, name), list(value.args), dict(value.keywords)]
            return ["partial", parts[0], *(self._value(part, f"{name} (partial)") for part in parts[1:])]
        if isinstance(value, _TYPING):
            return self._typing(value, name)
        if (inspect.isfunction(value) or isinstance(value, type)) and self.own(module_of(value)):
            return self._code(value, name)
        if inspect.ismethod(value):
            return ["method", self.identity(value.__func__, name), self.identity(value.__self__, f"{name}.__self__")]
        if isinstance(value, types.BuiltinMethodType) and not isinstance(value.__self__, types.ModuleType | None):
            return ["method", value.__name__, self.identity(value.__self__, f"{name}.__self__")]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._value(value, name)
        found = dotted_name(value)
        if found is not None and not self.own(found.partition(":")[0]):
            return ["installed", found]
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None and not self.own(module_of(value)):
            # an installed wrapper round the user's function; what it was told stands in the function's decorators
            return ["wrapper", module_of(value), self.identity(wrapped, name)]
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise self._unknown(name, f"it is an object ({kind}) that no module holds by name")

    def _typing(self, value: Any, name: str) -> Any:
        """Identify a type's description, such as `Annotated[float, Field(gt=0)]`, by its parts."""
        if isinstance(value, TypeVar):
            return ["type", value.__name__]
        parts = [*get_args(value)[:1], *value.__metadata__] if hasattr(value, "__metadata__") else get_args(value)
        origin = get_origin(value)
        held = [self.identity(part, name) for part in parts]
        return ["type", str(origin) if origin is not None else str(value), held]

    def _code(self, code: Any, name: str) -> Any:
        if id(code) in self.numbers:
            return ["code", self.numbers[id(code)]]
        number = self.numbers[id(code)] = len(self.entries)
        self.kept.append(code)
        entry: dict[str, Any] = {}
        self.entries.append(entry)
        try:
            scope = closure_of(code)
            node = definition_of(code, scope)
        except NoSource as error:
            raise self._unknown(name, str(error)) from None
        entry["tree"] = canonical_tree(node)
        entry["names"] = {
            reference: self.identity(target, f"{name}: {reference}")
            for reference, target in references(node, scope, self.own)
        }
        if inspect.isfunction(code):
            entry["defaults"] = [self.identity(value, f"{name}: a default") for value in code.__defaults__ or ()]
            keywords = sorted((code.__kwdefaults__ or {}).items())
            entry["keywords"] = [[key, self.identity(value, f"{name}: {key}")] for key, value in keywords]
        return ["code", number]

    def _value(self, value: Any, name: str) -> Any:
        if isinstance(value, enum.Enum):
            return ["member", self.identity(type(value), name), value.name]
        if type(value) in _PLAIN:
            return ["value", type(value).__name__, repr(value)]
        if isinstance(value, re.Pattern):
            return ["pattern", repr(value.pattern), value.flags]
        if isinstance(value, PurePath):
            return ["path", str(value)]
        if isinstance(value, FieldInfo):
            return ["field", _without_addresses(repr(value), self._unknown, name)]
        if id(value) in self.within:
            raise self._unknown(name, "it holds itself")
        self.within.add(id(value))
        try:
            return self._compound(value, name)
        finally:
            self.within.discard(id(value))

    def _compound(self, value: Any, name: str) -> Any:
        if isinstance(value, list | tuple):
            items = [self.identity(item, f"{name}[{index}]") for index, item in enumerate(value)]
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, *items] if type(value) in (list, tuple) else [kind, self.identity(type(value), name), *items]
        if isinstance(value, set | frozenset):
            return ["set", sorted((self.identity(item, f"{name}: an item") for item in value), key=digest)]
        if isinstance(value, Mapping) and type(value) in (dict, types.MappingProxyType):
            pairs = [
                [self.identity(key, f"{name}: a key"), self.identity(item, f"{name}[{key!r}]")]
                for key, item in value.items()
            ]
            return ["mapping", pairs]  # in its order: a function that goes through it sees that
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and _is_frozen(value):
            fields = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
            held = {key: self.identity(item, f"{name}.{key}") for key, item in fields.items()}
            return ["frozen", self.identity(type(value), name), held]
        if isinstance(value, BaseModel) and value.model_config.get("frozen"):
            held = {key: self.identity(item, f"{name}.{key}") for key, item in value.__dict__.items()}
            return ["frozen", self.identity(type(value), name), held]
        found = dotted_name(value, by_identity=True)
        if found is not None and not self.own(found.partition(":")[0]):
            return ["installed", found]
        try:
            return ["canonical", type(value).__qualname__, digest(value)]
        except NotCanonical as error:
            raise self._unknown(name, str(error)) from None

    def _unknown(self, name: str, why: str) -> InputFailure:
        return InputFailure(f"the identity of {name} cannot be known: {why}", where="custom operation", remedy=REMEDY)


def _without_addresses(text: str, unknown: Callable[[str, str], InputFailure], name: str) -> str:
    if " at 0x" in text:
        raise unknown(name, "it holds an object that only this process knows")
    return text


def _is_frozen(value: Any) -> bool:
    return bool(getattr(type(value), "__dataclass_params__").frozen)  # noqa: B009 - no attribute that mypy knows
