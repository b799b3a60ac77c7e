"""The identity of a custom operation's code: what changes it, what does not, and when it cannot be known."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from geocairn.failure import InputFailure
from geocairn.source_code import code_version

_numbers = itertools.count()

BASE = """
import functools, logging, math, re
import numpy as np
import shapely

logger = logging.getLogger(__name__)
FACTOR = 3
TABLE = {"a": 1, "b": [2, 3]}
PATTERN = re.compile("a+")


def helper(x):
    return x * 2


class Mill:
    rate = 4

    def grind(self, x):
        return x + self.rate


def f(layer, *, width=2):
    'What it does.'
    # how it does it
    logger.info("working")
    def inner(y):
        return y + 1
    return Mill().grind(helper(inner(width)) * FACTOR) + TABLE["a"] + len(PATTERN.findall("aa")) + np.hypot(3, 4)
"""


class Project:
    """A package, each time in a folder of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def version(self, text: str = BASE, get: str = "f", **modules: str) -> str:
        return code_version(self.value(text, get, **modules))

    def value(self, text: str = BASE, get: str = "f", **modules: str):
        root = self.folder / f"place{next(_numbers)}"
        root.mkdir()
        name = "made_up_project"
        for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
            del sys.modules[loaded]
        package = root / name
        package.mkdir()
        (package / "__init__.py").write_text("")
        for other, content in {"main": text, **modules}.items():
            (package / f"{other}.py").write_text(textwrap.dedent(content).replace("PROJECT", name), encoding="utf-8")
        self.monkeypatch.syspath_prepend(str(root))
        module = importlib.import_module(f"{name}.main")
        return getattr(module, get)


@pytest.fixture
def project(tmp_path, monkeypatch):
    return Project(tmp_path, monkeypatch)


def test_the_same_text_is_the_same_version_wherever_it_stands(project):
    assert project.version() == project.version()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x * 2", "return x * 3"),
        ("FACTOR = 3", "FACTOR = 3.0"),
        ("FACTOR = 3", "FACTOR = True"),
        ("width=2", "width=3"),
        ("return y + 1", "return y + 2"),
        ("rate = 4", "rate = 5"),
        ("return x + self.rate", "return x - self.rate"),
        ('"b": [2, 3]', '"b": [3, 2]'),
        ('re.compile("a+")', 're.compile("a+", re.I)'),
        ("np.hypot(3, 4)", "np.hypot(3, 5)"),
        ("class Mill:", "class Mill(dict):"),
        ("def f(layer,", "def f(other,"),
    ],
)
def test_an_edit_of_what_is_computed_changes_the_version(project, old, new):
    assert BASE.count(old) == 1
    assert project.version(BASE.replace(old, new)) != project.version()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'What it does.'", '"""Said otherwise,\n    at length."""'),
        ("    'What it does.'\n", ""),
        ("# how it does it", "# said otherwise"),
        ("return x * 2", "return (x\n        *   2)  # doubled"),
        ("def f(layer, *, width=2):", "def f(layer: 'Layer', *, width: float = 2) -> 'Layer':"),
        ("    def inner(y):", "\n\n    def inner(y: int) -> int:\n        'Inner.'"),
        ("FACTOR = 3", "FACTOR: int = 3\nUNUSED = object()"),
        ("logging.getLogger(__name__)", "logging.getLogger('other')"),
        ("class Mill:", "def unused(x):\n    return x\n\n\nclass Mill:\n    'A mill.'"),
    ],
)
def test_an_edit_of_what_is_only_said_does_not(project, old, new):
    assert BASE.count(old) == 1
    assert project.version(BASE.replace(old, new)) == project.version()


def test_values_that_are_closed_over_count(project):
    text = """
    def maker(number, helper):
        def f(x):
            return helper(x) + number
        return f
    def one(x): return 1
    def two(x): return 2
    a, b, c, d = maker(1, one), maker(2, one), maker(1, two), maker(1, one)
    """
    a, b, c, d = (project.version(text, name) for name in "abcd")
    assert len({a, b, c}) == 3
    assert a == d


def test_two_closures_of_one_text_are_both_seen(project):
    text = """
    def maker(number):
        def g(x):
            return x + number
        return g
    g, h = maker(1), maker({})
    def f(x):
        return g(h(x))
    """
    versions = {project.version(text.replace("{}", str(number))) for number in (1, 2, 3)}
    assert len(versions) == 3


@pytest.mark.parametrize(
    "use",
    [
        "from PROJECT import other\ndef f(x): return other.helper(x)",
        "import PROJECT.other\ndef f(x): return PROJECT.other.helper(x)",
        "import PROJECT.other as o\ndef f(x): return o.helper(x)",
        "from PROJECT.other import helper as h\ndef f(x): return h(x)",
        "def f(x):\n    from PROJECT.other import helper as h\n    return h(x)",
        "def f(x):\n    from .other import helper\n    return helper(x)",
        "def f(x):\n    from . import other\n    return other.helper(x)",
        "def f(x):\n    import PROJECT.other\n    return PROJECT.other.helper(x)",
        "def f(x):\n    import PROJECT.other as o\n    return (lambda y: o.helper(y))(x)",
        "import functools\nfrom PROJECT.other import helper\nf = functools.partial(helper)",
        "from PROJECT.other import helper\ndef f(x): return [helper(y) for y in x]",
        "from PROJECT.other import helper\nTABLE = {'a': [helper]}\ndef f(x): return TABLE['a'][0](x)",
        "from PROJECT.other import helper\ndef f(x, by=helper): return by(x)",
        "from PROJECT.other import helper\ndef f(x, *, by=helper): return by(x)",
        "from PROJECT.other import helper\nclass Base:\n    def go(self, x): return helper(x)\nclass C(Base): pass\n"
        "def f(x): return C().go(x)",
        "from PROJECT.other import helper\nimport functools\n@functools.lru_cache\ndef g(x): return helper(x)\n"
        "def f(x): return g(x)",
        "from PROJECT.other import helper\nclass C:\n    @staticmethod\n    def go(x): return helper(x)\nf = C.go",
        "from PROJECT.other import helper\nclass C:\n    @classmethod\n    def go(cls, x): return helper(x)\nf = C.go",
    ],
)
def test_a_helper_in_another_module_is_found_however_it_is_called(project, use):
    before = project.version(use, other="def helper(x):\n    return x + 1")
    assert project.version(use, other="# said\ndef helper(x):\n    return x + 1") == before
    assert project.version(use, other="def helper(x):\n    return x + 2") != before


def test_where_a_helper_is_imported_from_is_no_matter_and_an_import_for_its_effect_is(project):
    inner = "def f(x):\n    from PROJECT.other import helper\n    import math as m\n    return helper(x) + m.pi"
    outer = "import math as m\nfrom PROJECT.third import helper\ndef f(x):\n    return helper(x) + m.pi"
    text = "def helper(x):\n    return x + 1"
    before = project.version(inner, other=text)
    assert project.version(outer, third=text) == before
    assert project.version(inner.replace("math as m", "cmath as m"), other=text) != before
    for_its_effect = inner.replace("    import math", "    import PROJECT.third\n    import math")
    assert project.version(for_its_effect, other=text, third="") != before


def test_decorators_count_in_what_they_do_and_what_they_are_told(project):
    text = """
    import functools
    def scaled(by):
        def wrap(function):
            @functools.wraps(function)
            def inner(x):
                return function(x) * by
            return inner
        return wrap
    @scaled(2)
    def f(x):
        return x + 1
    """
    before = project.version(text)
    assert project.version(text.replace("@scaled(2)", "@scaled(3)")) != before
    assert project.version(text.replace("* by", "/ by")) != before
    assert project.version(text.replace("x + 1", "x + 2")) != before


def test_what_an_installed_decorator_is_told_counts(project):
    text = "import functools\n@functools.lru_cache(maxsize=3)\ndef f(x): return x"
    assert project.version(text.replace("=3", "=4")) != project.version(text)


def test_how_a_step_is_run_is_no_part_of_its_code(project):
    text = "from geocairn.operations.contract import operation\n@operation(result='any')\ndef f(x): return x + 1"
    version = code_version(project.value(text).function)
    assert code_version(project.value(text.replace("'any'", "'point'")).function) == version
    assert code_version(project.value(text.replace("x + 1", "x + 2")).function) != version


def test_a_partial_counts_with_its_arguments(project):
    text = "import functools\ndef g(x, y): return x + y\nf = functools.partial(g, y=1)"
    assert project.version(text) != project.version(text.replace("y=1", "y=2"))


def test_recursion_ends(project):
    text = """
    def even(n): return n == 0 or odd(n - 1)
    def odd(n): return n != 0 and even(n - 1)
    def f(n): return f(n - 1) if n else even(n)
    """
    before = project.version(text)
    assert before == project.version(text)
    assert before != project.version(text.replace("n != 0", "n != 1"))


def test_a_local_name_is_not_taken_for_a_global_one(project):
    text = "data = object()\ndef f(x):\n    data = x + 1\n    return [data for data in [data]]"
    assert project.version(text) == project.version(text.replace("data = object()", "data = 5"))


def test_installed_code_counts_by_name_only(project):
    text = "import shapely, numpy as np, pandas as pd\nfrom shapely.ops import unary_union\n" + (
        "def f(x): return unary_union(shapely.buffer(x, 1)), np.add(1, 2), pd.concat([]), np.float64(3)"
    )
    before = project.version(text)
    renamed = "import shapely.ops\nfrom shapely.ops import linemerge as unary_union\n" + text.replace(
        "from shapely.ops import unary_union\n", ""
    )
    assert project.version(renamed) != before


def test_an_installed_library_that_a_function_imports_is_not_loaded(project):
    code = (
        "import sys\nsys.path.insert(0, {folder!r})\nfrom mine import f\n"
        "from geocairn.source_code import code_version\n"
    )
    code += "print(code_version(f))\nassert 'geopandas' not in sys.modules and 'shapely' not in sys.modules"
    (project.folder / "mine.py").write_text(
        "def f(x):\n    import geopandas as gpd\n    from shapely import box\n    return gpd, box\n"
    )
    subprocess.run([sys.executable, "-c", code.format(folder=str(project.folder))], check=True)


def test_frozen_values_of_own_classes_count(project):
    text = """
    from dataclasses import dataclass
    from enum import Enum
    from typing import NamedTuple
    class Colour(Enum):
        RED = 1
    @dataclass(frozen=True)
    class Settings:
        rate: float
        colour: Colour = Colour.RED
    class Pair(NamedTuple):
        a: int
    SETTINGS = Settings(2.5)
    PAIR = Pair(7)
    def f(x): return x * SETTINGS.rate + PAIR.a
    """
    before = project.version(text)
    assert project.version(text) == before
    assert project.version(text.replace("2.5", "2.6")) != before
    assert project.version(text.replace("RED = 1", "RED = 2")) != before
    assert project.version(text.replace("Pair(7)", "Pair(8)")) != before


def test_frozen_models_count_and_others_cannot_be_known(project):
    text = """
    from pydantic import BaseModel, ConfigDict
    class Settings(BaseModel):
        model_config = ConfigDict(frozen=True)
        rate: float = 1.0
    SETTINGS = Settings(rate=2.5)
    def f(x): return x * SETTINGS.rate
    """
    before = project.version(text)
    assert project.version(text) == before
    assert project.version(text.replace("2.5", "2.6")) != before
    with pytest.raises(InputFailure, match="cannot be known"):
        project.version(text.replace("frozen=True", "frozen=False"))


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("state = object()\ndef f(x): return state", "state"),
        ("class C:\n    pass\nstate = C()\ndef f(x): return state", "state"),
        ("import numpy as np\nstate = np.arange(3)\ndef f(x): return state", "state"),
        ("import pandas as pd\nstate = pd.DataFrame()\ndef f(x): return state", "state"),
        ("import io\nstate = io.StringIO()\ndef f(x): return state.getvalue()", "state"),
        ("from PROJECT import other\ndef f(x): return vars(other)", "as a whole"),
        ("import numpy as np\ndef g(x): return x\nf = np.vectorize(g)", "f"),
        ("state = []\nstate.append(state)\ndef f(x): return state", "itself"),
        ("f = eval('lambda x: x')", "source text"),
        ("exec('def f(x): return x')", "source text"),
        ("a, f = lambda x: x + 1, lambda x: x + 2", None),
    ],
)
def test_where_the_identity_cannot_be_known_a_version_is_asked_for(project, text, about):
    value = project.value(text, other="")
    if about is None:
        code_version(value)  # two lambdas on a line are told apart by where their instructions stand
        return
    with pytest.raises(InputFailure, match="cannot be known") as caught:
        code_version(value)
    assert about in str(caught.value)
    assert "version" in caught.value.remedy


def test_lambdas_on_one_line_are_told_apart(project):
    text = "a, b = lambda x: x + 1, lambda x: x + 2"
    assert project.version(text, "a") != project.version(text, "b")
    nested = "def g(h): return h\na = g(lambda x: g(lambda y: x + y))\nb = a(1)"
    assert project.version(nested, "a") != project.version(nested, "b")


def test_a_session_without_source_asks_for_a_version():
    namespace: dict = {"__name__": "session"}
    exec("def f(x):\n    return x + 1", namespace)
    with pytest.raises(InputFailure, match="source text"):
        code_version(namespace["f"])


def test_a_text_that_changed_after_loading_is_not_taken_for_the_code(project):
    value = project.value("def f(x):\n    return x + 1")
    Path(value.__code__.co_filename).write_text("\n\n\n\n\ndef g(x):\n    return 5\n")
    with pytest.raises(InputFailure, match="source text"):
        code_version(value)


SCRIPT = """
from geocairn.source_code import code_version
NAMES = frozenset({"a", "b", "c", "d"})
TABLE = {"x": {"q", "r", "s"}}
def helper(x):
    return x in NAMES or x in TABLE["x"]
def f(x):
    return helper(x) or x in {"k", "l", "m"}
print(code_version(f))
"""


def test_the_version_holds_across_processes_hash_seeds_and_ways_of_loading(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    found = set()
    for seed, arguments in (("0", ["script.py"]), ("1", ["script.py"]), ("2", ["-c", "import script"])):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    assert len(found) == 1
    assert found == {"3cbb3317db8a9c6802f4df7ad25864d9d8d571bf445c1a588378f5f9bdcda4c4"}


def test_a_built_in_operation_counts_by_its_version(project):
    text = "from geocairn.operations.geometry import buffer\ndef f(x): return buffer(x, distance=1)"
    assert project.version(text) == project.version("# said\n" + text)
