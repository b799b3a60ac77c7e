"""The table in README.md beside this module: every number has a test, and every test that it names is there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


def functions(path: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_number_has_a_row() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 31))


def test_every_test_that_is_named_is_there() -> None:
    missing = []
    for number, held in ROWS:
        module = None
        for place in re.findall(r"`([^`]+)`", held):
            name, _, wanted = place.partition("::")
            module = HERE.parent / name if name else module
            assert module is not None
            known = functions(module)
            if not any(fnmatchcase(function, wanted or "*") for function in known):
                missing.append(f"{number}: {place}")
    assert not missing


def test_no_test_here_is_without_a_row() -> None:
    numbers = {number for number, _ in ROWS}
    for path in HERE.glob("test_awkward_*.py"):
        if path != Path(__file__).resolve():
            for function in functions(path):
                assert function.split("_")[2] in numbers, function
