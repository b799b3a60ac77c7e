"""Planners are found among the entry points of installed packages, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from geocairn.failure import FatalFailure, InputFailure
from geocairn.plan.complaint import PlanError
from geocairn.plan.document import parse_document
from geocairn.replanning.planners import load_planner, stated_planner

Install = Callable[[str, dict[str, str], str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution with planners: its name, its entry points, and the code of its one module."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(name: str, entries: dict[str, str], code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        lines = ["[geocairn.planners]", *(f"{entry} = {value}" for entry, value in entries.items())]
        (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    return made


def test_by_name_and_by_value(install: Install) -> None:
    install(
        "one_planner", {"helpful": "one_planner:mend"}, "def mend(plan, step, diagnosis): return {'mended': step}\n"
    )
    for name in ("helpful", "one_planner:mend"):
        planner = load_planner(name)
        assert planner.name == name
        assert planner.propose({}, "reach", {}) == {"mended": "reach"}


def test_with_none_installed_it_says_so() -> None:
    with pytest.raises(InputFailure, match="none is installed"):
        load_planner("helpful")


@pytest.mark.parametrize("name", ["other:mend", "one_planner", "one_planner:other", "os:getcwd"])
def test_what_is_not_declared_is_not_imported(install: Install, name: str) -> None:
    install("one_planner", {"helpful": "one_planner:mend"}, "raise AssertionError('imported')\n")
    with pytest.raises(InputFailure, match="there is no planner") as caught:
        load_planner(name)
    assert "helpful" in str(caught.value)
    assert "one_planner" not in sys.modules


def test_two_of_one_name_are_told_apart_by_their_values(install: Install) -> None:
    install("one_planner", {"helpful": "one_planner:mend"}, "mend = lambda plan, step, diagnosis: {'by': 'one'}\n")
    install("two_planner", {"helpful": "two_planner:mend"}, "mend = lambda plan, step, diagnosis: {'by': 'two'}\n")
    with pytest.raises(InputFailure, match="one_planner:mend, two_planner:mend"):
        load_planner("helpful")
    assert load_planner("two_planner:mend").propose({}, "", {}) == {"by": "two"}


@pytest.mark.parametrize(
    ("code", "said"),
    [("import no_such_module_anywhere\n", "No module named"), ("", "has no attribute"), ("mend = 7\n", "called")],
    ids=["fails on import", "is not in the module", "cannot be called"],
)
def test_one_that_cannot_be_used_halts_with_the_reason(install: Install, code: str, said: str) -> None:
    install("one_planner", {"helpful": "one_planner:mend"}, code)
    with pytest.raises(FatalFailure, match="planner helpful") as caught:
        load_planner("helpful")
    assert said in str(caught.value)


def test_an_unknown_one_in_a_plan_is_complained_of_with_its_line(install: Install) -> None:
    install("one_planner", {"helpful": "one_planner:mend"}, "")
    document = parse_document("name: small\nplanner: helpfull\n", "plan.yaml")
    with pytest.raises(PlanError) as caught:
        stated_planner(None, document)
    assert str(caught.value).startswith("plan.yaml:2: planner: there is no planner 'helpfull'; did you mean 'helpful'?")
    assert stated_planner("helpful", document) == "helpful"
    assert stated_planner("", parse_document("name: small\n", "plan.yaml")) is None
