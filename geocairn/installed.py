"""What is installed and what is a user's own, by module; and the name by which an installed thing is found again."""

from __future__ import annotations

import importlib.util
import site
import sys
import sysconfig
import types
from functools import cache
from pathlib import Path
from typing import Any

_INSTALLED_FOLDERS = {"site-packages", "dist-packages"}


def is_project_module(name: str) -> bool:
    """Return whether a module is a user's own code: not installed, not of the standard library, not geocairn's core."""
    if name == "__main__":
        return True
    root = name.partition(".")[0]
    if root in sys.stdlib_module_names or root in sys.builtin_module_names or root in ("geocairn", ""):
        return False
    for known in (name, root):
        file = getattr(sys.modules.get(known), "__file__", None)
        if file is not None:
            return not _is_installed(file)
    if root in sys.modules:
        return True  # made in a session: whoever wants its source finds out
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return True
    if spec is None:
        return True
    places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    return not any(_is_installed(place) for place in places)


def module_of(value: Any) -> str:
    """Return the module in which a thing's code stands, whatever a decorator says; of an object that of its type."""
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", ""))
    return str(value.__module__ if isinstance(value, type) else type(value).__module__)


@cache
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    if _INSTALLED_FOLDERS & set(path.parts):
        return True
    paths = sysconfig.get_paths()
    folders = [paths[key] for key in ("purelib", "platlib", "stdlib", "platstdlib")]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return any(path.is_relative_to(Path(folder).resolve()) for folder in folders)


def dotted_name(value: Any, *, by_identity: bool = False) -> str | None:
    """Return `module:name` of a thing that its module holds under that name; None where none does.

    Parameters
    ----------
    value : a function, a class, or an object such as numpy's `add`.
    by_identity : whether to search the modules of the value's type for a name, for a value that does not know its own.
    """
    if isinstance(value, type) and value.__module__ == "builtins":
        return f"builtins:{value.__qualname__}"  # not all of them stand there: NoneType does not
    if not by_identity:
        qualified = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if isinstance(qualified, str):
            for module in _modules_of(value):
                if _leads_to(module, qualified, value):
                    return f"{module.__name__}:{qualified}"
        return None
    for module in _modules_of(type(value)):
        for name, held in sorted(vars(module).items()):
            if held is value:
                return f"{module.__name__}:{name}"
    return None


def _modules_of(value: Any) -> list[types.ModuleType]:
    """Return the modules that may hold a thing: its own, and the package that this is part of."""
    stated = getattr(value, "__module__", None)
    name = stated if isinstance(stated, str) else type(value).__module__
    found = []
    while name:
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType):
            found.append(module)
        name = name.rpartition(".")[0]
    return found


def _leads_to(module: types.ModuleType, qualified: str, value: Any) -> bool:
    current: Any = module
    for part in qualified.split("."):
        current = getattr(current, part, None)
        if current is None:
            return False
    # descriptors (methods of a class) are made anew at each look
    return current is value or (type(current) is type(value) and current == value)
