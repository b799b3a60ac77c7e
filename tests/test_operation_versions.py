"""A built-in operation's version stands for its code: an edit under the same version fails here, a comment does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import record_operation_versions
from record_operation_versions import FILE, differences, digests

ROOT = Path(__file__).resolve().parents[1]
NOW = cache(digests)


def test_the_code_of_each_operation_is_that_of_its_version():
    said = differences(json.loads(FILE.read_text()), NOW())
    assert not said, "\n".join([*said, "then: python tests/record_operation_versions.py"])


def test_differences_name_what_is_to_be_done():
    said = differences({"a@1": "x", "b@1": "x", "c@1": "x"}, {"a@1": "x", "b@1": "y", "c@2": "x"})
    assert [text.partition(" ")[0] for text in said] == ["the", "c@1", "c@2"]
    assert "version=" in said[0]


@pytest.fixture
def copy(tmp_path) -> Path:
    """A copy of the core, with its own record of versions."""
    shutil.copytree(
        ROOT / "geocairn",
        tmp_path / "geocairn",
        ignore=shutil.ignore_patterns("__pycache__", "tasks", "blocks", "flows"),
    )
    (tmp_path / "tests").mkdir()
    shutil.copy(record_operation_versions.__file__, tmp_path / "tests")
    (tmp_path / "tests" / "operation_versions.json").write_text(json.dumps(NOW()))
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "tests/record_operation_versions.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path}"
    path.write_text(text.replace(old, new))


def test_an_edited_helper_is_noticed_and_a_comment_is_not(copy):
    parts = copy / "geocairn" / "operations" / "parts.py"
    parts.write_text(
        "# said at the top\n" + parts.read_text().replace("    import shapely\n", "    import shapely  # said\n")
    )
    assert run(copy, "--check") == (0, "\n")

    edit(parts, "return values, 0", "return values.copy(), 0")  # in keep_kind
    code, said = run(copy)
    assert code == 1
    assert "raise version=" in said
    edited = {line.split(",")[0].removeprefix("the code of ") for line in said.splitlines()}
    assert {"clip", "overlay", "make_valid", "voronoi"} <= edited
    assert not {"filter", "dissolve", "select_columns"} & edited

    code, said = run(copy, "--same-results")
    assert code == 0
    assert f"changed: {len(edited)}" in said


def test_a_raised_version_is_recorded_without_more_ado(copy):
    multipart = copy / "geocairn" / "operations" / "multipart.py"
    text = multipart.read_text()
    start = text.rindex("@operation", 0, text.index("def explode("))
    multipart.write_text(text[:start] + text[start:].replace("version=1", "version=2", 1))
    text = multipart.read_text()
    start = text.index("def explode(")
    old, new = "full = ~shapely.is_empty(parts)", "full = ~shapely.is_empty(parts) & True"
    multipart.write_text(text[:start] + text[start:].replace(old, new, 1))
    assert run(copy)[0] == 0
    recorded = json.loads((copy / "tests" / "operation_versions.json").read_text())
    assert "explode@2" in recorded
    assert "explode@1" not in recorded
