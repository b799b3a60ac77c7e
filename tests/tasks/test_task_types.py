"""What a type checker sees of steps in a user's flow."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest
from mypy import api
from record_task_types import FILE, text_of_types

import geocairn.tasks
from geocairn.operations import operations
from geocairn.tasks import StepTask

USER = """
from prefect import flow, unmapped
from prefect.futures import PrefectFuture

from geocairn.checkpoint import Checkpoint
from geocairn.tasks import StepTask, buffer, dissolve, overlay, read_layer, reproject, step, write_layer


@step(version=1, result="polygon")
def grow(layer, *, by: float = 1.0): ...


@flow
def covered(counties: str, cities: str) -> Checkpoint:
    reach = buffer(reproject(read_layer(cities), crs="EPSG:5070"), distance=50_000)
    future: PrefectFuture[Checkpoint] = reproject.submit(read_layer.submit(uri=counties), crs=5070)
    whole: Checkpoint = overlay(future, reach, how="intersection")
    overlay(left=future, right=reach, how="union", keep_geometry_kind=False)
    named: StepTask = buffer.with_options(step_name="near", retries=2)
    named(whole, distance=1)
    futures = buffer.map(unmapped(whole), distance=[1.0, 2.0])
    dissolve(futures[0], by="state", aggregates={"area": "sum", "name": ["first", "count"]})
    write_layer(whole, [reach], uri="out.png", map={"title": "Reach"})
    rows: int = whole.facts.rows
    return whole if rows else reach


@flow
def wrong(layer: Checkpoint) -> None:
    buffer(layer, distanse=1.0)
    buffer(layer)
    overlay(layer, layer, how="intersect")
    reproject(layer, crs="EPSG:5070", accuracy="good")
    reproject.submit(layer, cr="EPSG:5070")
    text: str = buffer(layer, distance=1.0)
"""

WRONG = {
    "buffer(layer, distanse=1.0)": "call-arg|call-overload",
    "buffer(layer)\n": "call-arg|call-overload",
    'overlay(layer, layer, how="intersect")': "arg-type|call-overload",
    'reproject(layer, crs="EPSG:5070", accuracy="good")': "arg-type|call-overload",
    'reproject.submit(layer, cr="EPSG:5070")': "call-arg|call-overload",
    "text: str = buffer(layer, distance=1.0)": "assignment",
}


def test_the_recorded_types_are_those_of_the_contracts() -> None:
    assert FILE.read_text(encoding="utf-8") == text_of_types(), "run tests/tasks/record_task_types.py"


def test_every_operation_is_a_task_by_its_name() -> None:
    for name, operation in operations.items():
        task = getattr(geocairn.tasks, name)
        assert isinstance(task, StepTask)
        assert task.operation is operation
        assert task is getattr(geocairn.tasks, name)
        assert list(inspect.signature(task.fn).parameters)[: len(operation.roles)] == [r.name for r in operation.roles]
    assert set(operations) <= set(dir(geocairn.tasks))
    with pytest.raises(AttributeError, match="has no attribute 'bufer'; did you mean 'buffer'"):
        _ = geocairn.tasks.bufer


def test_mypy_accepts_a_flow_and_catches_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "user_flow.py").write_text(USER, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nfollow_untyped_imports = False\n[mypy-geopandas.*]\nignore_missing_imports = True\n", encoding="utf-8"
    )
    told, errors, _ = api.run(
        [
            str(tmp_path / "user_flow.py"),
            f"--config-file={tmp_path / 'mypy.ini'}",
            f"--cache-dir={tmp_path / 'cache'}",
            f"--python-executable={sys.executable}",
            "--follow-imports=silent",
            "--show-error-codes",
            "--no-pretty",
        ]
    )
    assert not errors
    found = {int(match[1]): match[2] for match in re.finditer(r"user_flow\.py:(\d+): error: .*\[([a-z-]+)\]", told)}
    lines = USER.splitlines(keepends=True)
    expected = {number: codes for number, line in enumerate(lines, 1) for part, codes in WRONG.items() if part in line}
    assert found.keys() == expected.keys(), told
    for number, codes in expected.items():
        assert found[number] in codes.split("|"), told
