"""Syntax trees of live functions and classes: where the text is, what of it counts, and what it refers to outside
itself.

What always holds: comments, docstrings, layout and the annotations of functions are left out; the tree is written in
one way by every version of Python; a name counts as a reference only where the language's own scoping says that it
leads outside.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import importlib.util
import inspect
import linecache
import symtable
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_MACHINERY = ("geocairn", "prefect")
_LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores"}


class NoSource(ValueError):
    """Code whose source text cannot be found."""


class _Undefined:
    """Stands for a name that leads nowhere at present."""


UNDEFINED = _Undefined()


@dataclass(frozen=True)
class Named:
    """Stands for installed code that is imported when a function runs: known by name, and not loaded to be named."""

    name: str


def definition_of(code: Any, scope: Mapping[str, Any]) -> _Definition:
    """Return the definition of a function or class, stripped of what does not count.

    Decorators stay, but for those of geocairn and Prefect, which say how a step is run and not what it computes.

    Parameters
    ----------
    code : a function or class.
    scope : what the names outside it lead to.

    Raises
    ------
    NoSource : when its text cannot be found, or more than one definition could be it.
    """
    if isinstance(code, type):
        try:
            _, start = inspect.getsourcelines(code)
            file = inspect.getsourcefile(code) or ""
        except (OSError, TypeError):
            raise NoSource(f"the source text of the class {code.__qualname__} cannot be found") from None
        found = _at(file, code.__module__, start, code.__name__, ast.ClassDef)
        return _stripped(_one_of(found, code.__qualname__), scope)
    named = code.__code__
    if named.co_name == "<lambda>":
        found = _at(named.co_filename, code.__module__, named.co_firstlineno, None, ast.Lambda)
        return _stripped(_one_of(_holding(found, named), code.__qualname__), scope)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = _at(named.co_filename, code.__module__, named.co_firstlineno, named.co_name, *kinds)
    return _stripped(_one_of(found, code.__qualname__), scope)


def closure_of(code: Any) -> Mapping[str, Any]:
    """Return what the names outside a function or class lead to: builtins, its module's, those that it closes over."""
    functions = [code]
    if isinstance(code, type):
        functions = [value for value in (_function_of(item) for item in vars(code).values()) if value is not None]
    module = sys.modules.get(code.__module__)
    found: dict[str, Any] = dict(vars(builtins))
    found.update(vars(module) if module is not None else {})
    for function in functions:
        found.update(function.__globals__ if function is code else {})
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name == "__class__":
                continue
            try:
                found[name] = cell.cell_contents
            except ValueError:
                found[name] = UNDEFINED
    return found


def _function_of(member: Any) -> Any | None:
    member = (
        getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", None) or member
    )
    return member if inspect.isfunction(member) else None


def canonical_tree(node: ast.AST) -> Any:
    """Return a syntax tree as plain lists, alike in every version of Python: empty and absent parts are left out.

    So are imports of what is used: it counts by what it leads to, as an import at the head of a module does.
    """
    read = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)}

    def plain(current: ast.AST) -> Any:
        parts: dict[str, Any] = {}
        if isinstance(current, ast.JoinedStr):  # of which Python 3.12 has empty pieces that others leave out
            pieces = [item for item in current.values if not (isinstance(item, ast.Constant) and item.value == "")]
            current = ast.JoinedStr(values=pieces)
        for name, value in ast.iter_fields(current):
            if isinstance(value, list):
                value = [plain(item) if isinstance(item, ast.AST) else item for item in value if not used(item)]
            if name in _LEFT_OUT or value is None or value == []:
                continue
            if isinstance(value, ast.AST):
                parts[name] = plain(value)
            else:
                parts[name] = value if isinstance(value, list) else [type(value).__name__, _constant(value)]
        return [type(current).__name__, parts]

    def used(item: Any) -> bool:
        if not isinstance(item, ast.Import | ast.ImportFrom):
            return False
        return all((alias.asname or alias.name.partition(".")[0]) in read for alias in item.names)

    return plain(node)


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return repr(sorted(map(repr, value)))
    return repr(value)


def references(node: _Definition, scope: Mapping[str, Any], own: Callable[[str], bool]) -> list[tuple[str, Any]]:
    """Return the names by which a definition refers to things outside itself, and what they lead to, by name.

    A chain such as `package.module.function` is followed through modules of the project. Builtins are left out.

    Parameters
    ----------
    node : the definition, stripped.
    scope : what the names outside lead to.
    own : decides by a module's name whether it is the project's.
    """
    outer = _outer_names(node)
    local = _local_imports(node, scope, own)
    found: dict[str, Any] = {}
    for chain in _chains(node):
        root = chain[0]
        if root in local:
            start = local[root]
        elif root in outer:
            start = scope.get(root, UNDEFINED)
        else:
            continue
        if getattr(builtins, root, UNDEFINED) is start and start is not UNDEFINED:
            continue
        used, target = _followed(chain, start, own)
        found[".".join(used)] = target
    return [(name, found[name]) for name in sorted(found)]


def _followed(chain: tuple[str, ...], start: Any, own: Callable[[str], bool]) -> tuple[tuple[str, ...], Any]:
    """Return how far a chain leads through project modules, and to what."""
    target, used = start, 1
    while used < len(chain) and isinstance(target, types.ModuleType) and own(target.__name__):
        target = getattr(target, chain[used], UNDEFINED)
        used += 1
    return chain[:used], target


def _chains(node: ast.AST) -> list[tuple[str, ...]]:
    """Return all names that are read, each with the attributes that follow it: `a.b.c` is `("a", "b", "c")`."""
    found: list[tuple[str, ...]] = []

    def visit(current: ast.AST) -> None:
        attributes: list[str] = []
        inner = current
        while isinstance(inner, ast.Attribute):
            attributes.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            found.append((inner.id, *reversed(attributes)))
            return
        for child in ast.iter_child_nodes(inner if attributes else current):
            visit(child)

    visit(node)
    return found


def _outer_names(node: _Definition) -> set[str]:
    """Return the names that lead outside the definition, by the language's own rules of scope."""
    text = ast.unparse(ast.Expr(node) if isinstance(node, ast.Lambda) else node)
    table = symtable.symtable(text, "<definition>", "exec")
    found: set[str] = set()
    waiting = [table]
    while waiting:
        current = waiting.pop()
        waiting += current.get_children()
        for symbol in current.get_symbols():
            outside = symbol.is_global() or (current is table and not symbol.is_assigned())
            if outside and symbol.is_referenced():
                found.add(symbol.get_name())
    return found


def _local_imports(node: ast.AST, scope: Mapping[str, Any], own: Callable[[str], bool]) -> dict[str, Any]:
    """Return what imports inside the definition bind. Project code is imported: it is anyway when the function runs."""
    found: dict[str, Any] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            for alias in inner.names:
                root = alias.name.partition(".")[0]
                whole = _imported(alias.name, own)
                if alias.asname is None and not isinstance(whole, Named):
                    whole = sys.modules.get(root, UNDEFINED)
                found[alias.asname or root] = whole
        elif isinstance(inner, ast.ImportFrom):
            name = _absolute("." * inner.level + (inner.module or ""), scope)
            module = _imported(name, own)
            for alias in inner.names:
                found[alias.asname or alias.name] = _member(module, name, alias.name, own)
    return found


def _absolute(name: str, scope: Mapping[str, Any]) -> str:
    if not name.startswith("."):
        return name
    package = scope.get("__package__") or str(scope.get("__name__", "")).rpartition(".")[0]
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        raise NoSource(f"the import of {name} leads out of its package") from None


def _member(module: Any, name: str, member: str, own: Callable[[str], bool]) -> Any:
    if isinstance(module, Named):
        return Named(f"{module.name}:{member}")
    value = getattr(module, member, UNDEFINED)
    return _imported(f"{name}.{member}", own) if value is UNDEFINED else value


def _imported(name: str, own: Callable[[str], bool]) -> Any:
    if not own(name):
        return Named(name)
    try:
        return importlib.import_module(name)
    except ImportError:
        return UNDEFINED


@lru_cache(maxsize=256)
def _definitions(text: str) -> dict[int, list[Any]]:
    """Return the definitions of a text by the lines at which they begin: their decorators', and their own."""
    found: dict[int, list[Any]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _Definition):
            for line in {_first_line(node), node.lineno}:
                found.setdefault(line, []).append(node)
    return found


def _at(file: str, module: str, line: int, name: str | None, *kinds: type[ast.AST]) -> list[Any]:
    """Return the definitions that begin at a line of a file, decorators included."""
    text = "".join(linecache.getlines(file, vars(sys.modules[module]) if module in sys.modules else None))
    if not text:
        raise NoSource("its source text cannot be found (it was made by exec, or typed into a session)")
    try:
        there = _definitions(text).get(line, [])
    except SyntaxError:
        raise NoSource(f"the text of {file} is not what was loaded: it cannot be parsed") from None
    return [node for node in there if isinstance(node, kinds) and name in (None, getattr(node, "name", None))]


def _first_line(node: Any) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(decorators[0].lineno if decorators else node.lineno)


def _one_of(found: list[Any], name: str) -> Any:
    distinct = {ast.dump(node): node for node in found}
    if not distinct:
        raise NoSource(f"its source text cannot be found: {name} is not where it was loaded from")
    if len(distinct) > 1:
        raise NoSource(
            f"its source text cannot be told from another's on the same line ({name}): give it a line of its own"
        )
    return next(iter(distinct.values()))


def _holding(found: list[Any], code: types.CodeType) -> list[Any]:
    """Return those lambdas of a line whose body holds the code's instructions; the innermost."""
    places = [
        place
        for place in code.co_positions()
        if None not in place[:1] and place[2] is not None and place[0] != place[3]
    ]
    inside = [
        node
        for node in found
        if all(
            (node.body.lineno, node.body.col_offset) <= (line, column or 0) and (end, last or 0) <= _end(node.body)
            for line, end, column, last in places
            if line is not None and end is not None and (column, last) != (0, 0)
        )
    ]
    return sorted(inside, key=lambda node: (node.lineno, node.col_offset))[-1:]


def _end(node: Any) -> tuple[int, int]:
    return (node.end_lineno, node.end_col_offset)


class _Stripping(ast.NodeTransformer):
    """Leaves out docstrings, and the annotations of functions; those of classes say what their fields are."""

    def __init__(self) -> None:
        self.in_class = False

    def _body(self, node: Any) -> None:
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]

    def _function(self, node: Any) -> Any:
        self._body(node)
        node.returns = None
        outside, self.in_class = self.in_class, False
        self.generic_visit(node)
        self.in_class = outside
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self._body(node)
        outside, self.in_class = self.in_class, True
        self.generic_visit(node)
        self.in_class = outside
        return node

    def visit_arg(self, node: ast.arg) -> Any:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if self.in_class:
            return self.generic_visit(node)
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)


def _stripped(node: _Definition, scope: Mapping[str, Any]) -> _Definition:
    own = copy.deepcopy(node)
    if not isinstance(own, ast.Lambda):
        own.decorator_list = [item for item in own.decorator_list if not _is_of_the_machinery(item, scope)]
    result: _Definition = _Stripping().visit(own)
    return ast.fix_missing_locations(result)


def _is_of_the_machinery(decorator: ast.expr, scope: Mapping[str, Any]) -> bool:
    root: ast.AST = decorator.func if isinstance(decorator, ast.Call) else decorator
    while isinstance(root, ast.Attribute):
        root = root.value
    target = scope.get(root.id) if isinstance(root, ast.Name) else None
    module = target.__name__ if isinstance(target, types.ModuleType) else getattr(target, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in _MACHINERY
