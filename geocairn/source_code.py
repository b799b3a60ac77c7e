"""The identity of a function's code: its syntax tree and that of the project code it calls, with the values they use.

A comment, a docstring or the layout changes nothing; an edited helper does. Code of installed packages and of the standard
library counts by name only. Where the identity cannot be known (a value that has no canonical form, no source text),
the caller is asked to state a version: there is never a partial hash.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geocairn.canonical import NotCanonical, digest
from geocairn.failure import InputFailure

REMEDY = "state a version: @operation(version=…) or step(…, version=…), and raise it when the code changes"


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
    walk = _Walk(own or _is_project_module)
    walk.visit(function, getattr(function, "__qualname__", repr(function)))
    return digest(walk.found)


class _Walk:
    def __init__(self, own: Callable[[str], bool]) -> None:
        self.own = own
        self.found: dict[str, Any] = {}

    def visit(self, value: Any, name: str) -> None:
        """Record the code or value of `value` under `name`, and of what it refers to."""
        value = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
        inner = getattr(value, "function", None)
        if inner is not None and inspect.isfunction(inner):
            value = inner  # an operation: its function is what counts
        if isinstance(value, types.ModuleType):
            self.found.setdefault(name, ["module", value.__name__])
        elif inspect.isfunction(value) or isinstance(value, type):
            self._visit_code(value, name)
        elif isinstance(value, logging.Logger):
            return  # what is logged is no part of a result
        elif inspect.isbuiltin(value) or (callable(value) and not self.own(type(value).__module__)):
            owner = getattr(value, "__module__", None) or type(value).__module__
            self.found.setdefault(name, ["installed", owner, getattr(value, "__name__", type(value).__qualname__)])
        else:
            self._visit_value(value, name)

    def _visit_code(self, code: Any, name: str) -> None:
        module = getattr(code, "__module__", "") or ""
        key = f"{module}:{code.__qualname__}"
        if not self.own(module):
            self.found.setdefault(key, ["installed", module, code.__qualname__])
            return
        if key in self.found:
            return
        tree = _tree(code, name)
        self.found[key] = ast.dump(tree, annotate_fields=False)
        for reference, target in _references(code, tree, self.own):
            self.visit(target, f"{key}.{reference}")

    def _visit_value(self, value: Any, name: str) -> None:
        try:
            digest(value)
        except NotCanonical as error:
            raise InputFailure(
                f"the identity of {name} cannot be known: {error}",
                where="custom operation",
                remedy=REMEDY,
            ) from None
        self.found.setdefault(name, ["value", value])


def _tree(code: Any, name: str) -> ast.AST:
    try:
        source = textwrap.dedent(inspect.getsource(code))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError) as error:
        raise InputFailure(f"the source text of {name} cannot be found", where="custom operation", remedy=REMEDY) from error
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
            and isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            node.body = body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = []
    return tree


def _references(code: Any, tree: ast.AST, own: Callable[[str], bool]) -> list[tuple[str, Any]]:
    """Return the names that code refers to outside itself, with what they stand for; annotations do not count."""
    scope: dict[str, Any] = {}
    if inspect.isfunction(code):
        closure = inspect.getclosurevars(code)
        scope.update(code.__globals__)
        scope.update(closure.nonlocals)
        defaults = [*(code.__defaults__ or ()), *(code.__kwdefaults__ or {}).values()]
    else:
        module = sys.modules.get(code.__module__)
        scope.update(vars(module) if module else {})
        defaults = []
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in scope:
            found[node.id] = scope[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            target = scope.get(node.value.id)
            if isinstance(target, types.ModuleType) and own(target.__name__) and hasattr(target, node.attr):
                found[f"{node.value.id}.{node.attr}"] = getattr(target, node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update(_local_imports(node, own))
    for index, value in enumerate(defaults):
        found[f"default {index}"] = value
    return [(name, found[name]) for name in sorted(found)]


def _local_imports(node: ast.ImportFrom, own: Callable[[str], bool]) -> dict[str, Any]:
    """Return what an import inside a function brings in; project code is imported anyway when the function runs."""
    name = node.module or ""
    if not own(name):
        return {}
    importlib.import_module(name)
    module = sys.modules[name]
    return {alias.name: getattr(module, alias.name) for alias in node.names if hasattr(module, alias.name)}


def _is_project_module(name: str) -> bool:
    """Return whether a module is a user's own code: not installed, not of the standard library, not geocairn's core."""
    root = name.partition(".")[0]
    if root in sys.stdlib_module_names or root in ("geocairn", "") or root in sys.builtin_module_names:
        return False
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    path = Path(file).resolve()
    paths = sysconfig.get_paths()
    installed = {Path(paths[key]).resolve() for key in ("purelib", "platlib", "stdlib", "platstdlib")}
    return not any(path.is_relative_to(folder) for folder in installed) or name == "__main__"
