"""Every case that is there, on every backend that claims what it asks for.

Cases are the project's own and, where they are beside the project, those taken from public suites. A case passes when
the result is as expected, or when `decisions.tsv` says why ours is another; a decision that no case needs any more
fails. What a backend refuses for its data (CapabilityFailure) it does not claim.
"""

from __future__ import annotations

import csv
import fnmatch
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geometry_lines
import pytest
from case_index import OWN, Case, Line, cases_in, folders, lines_in
from comparison import differences
from translation import Params, Steps, translation

from geocairn.failure import CapabilityFailure
from geocairn.operations.registry import operations

REFERENCE = "geopandas"


@dataclass(frozen=True)
class Decision:
    """Why some cases expect what we do not give."""

    cases: str
    """A pattern of labels: `turf/line-split--*`, or `geos/union general/TestX.xml#case1`."""
    operation: str
    inputs: str
    """`any`, or `empty` for cases with an empty input (or an empty part)."""
    reason: str

    def covers(self, label: str, words: str, *, empty: bool = False) -> bool:
        """Whether it speaks of a case."""
        return (
            fnmatch.fnmatchcase(label, self.cases)
            and self.operation in ("*", words)
            and (self.inputs == "any" or empty)
        )


def _decisions() -> list[Decision]:
    with (Path(__file__).parent / "decisions.tsv").open(encoding="utf-8", newline="") as file:
        return [Decision(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


DECISIONS = _decisions()
CASES = [case for folder in folders() for case in cases_in(folder) if not case.is_file]
LINES = [lines for folder in folders() for lines in lines_in(folder)]


def _backends(uses: tuple[str, ...]) -> list[str]:
    """The reference, and every backend that claims one of these operations."""
    others = {name for used in uses if used in operations for name in operations[used].backends}
    return [REFERENCE, *sorted(others - {REFERENCE})]


def _uses(words: str) -> tuple[str, ...]:
    try:
        return translation(words).uses
    except LookupError:
        return ()


def _by_case() -> Iterator[Any]:
    for case in CASES:
        for backend in _backends(_uses(case.words)):
            yield pytest.param(case, backend, id=f"{case.label}-{backend}")


def _by_file() -> Iterator[Any]:
    for lines in LINES:
        where = "own" if OWN in Path(lines[0].origin).parents else "shared"
        for backend in _backends(geometry_lines.uses(lines[0].words)):
            yield pytest.param(lines, backend, id=f"{where}/geos/{lines[0].file}-{backend}")


def wrong_case(case: Case, steps: Steps) -> str | None:
    """What is wrong with our answer to a case, in words; None where it is as expected."""
    try:
        chosen = translation(case.words)
        params = Params(case.params())
        result = chosen.chain(steps, case.layers(), params)
        params.check_understood()
    except CapabilityFailure:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    assert steps.used <= set(chosen.uses), f"the translation does not name {steps.used - set(chosen.uses)}"
    said = differences(
        result,
        case.expected_layer(),
        case.tolerance,
        "shape" if case.status == "topology-match" else chosen.strictness,
        ordered=chosen.ordered,
        columns="same" if chosen.whole_schema else "shared",
    )
    return "\n".join(said) or None


def wrong_line(line: Line, steps: Steps) -> str | None:
    """What is wrong with our answer to a line, in words; None where it is as expected."""
    try:
        return geometry_lines.wrong(steps, line)
    except CapabilityFailure:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _decided(label: str, words: str, *, empty: bool = False) -> bool:
    return any(decision.covers(label, words, empty=empty) for decision in DECISIONS)


@pytest.mark.parametrize(("case", "backend"), list(_by_case()))
def test_case(case: Case, backend: str) -> None:
    steps = Steps(backend)
    try:
        wrong = wrong_case(case, steps)
    except CapabilityFailure as failure:
        if backend == REFERENCE:
            raise
        pytest.skip(f"not claimed: {failure}")
    if wrong is not None and not _decided(case.label, case.words):
        pytest.fail(f"{case.words}: {wrong}")
    if not steps.engaged and wrong is None:
        pytest.skip(f"{backend} does not claim it with these parameters")


@pytest.mark.parametrize(("lines", "backend"), list(_by_file()))
def test_lines(lines: list[Line], backend: str) -> None:
    said = []
    outcomes: Counter[str] = Counter()
    for line in lines:
        steps = Steps(backend)
        try:
            wrong = wrong_line(line, steps)
        except CapabilityFailure as failure:
            outcomes["refused" if backend != REFERENCE else "failed"] += 1
            if backend == REFERENCE:
                said.append(f"{line.label}: {failure}")
            continue
        if wrong is None:
            outcomes["right" if steps.engaged else "not claimed"] += 1
        elif _decided(line.label, line.words, empty=line.has_empty_side):
            outcomes["decided"] += 1
        else:
            said.append(f"{line.label} {line.record['desc']}: {wrong}")
    assert not said, f"{len(said)} of {len(lines)} wrong:\n" + "\n".join(said[:10])
    assert outcomes["right"] or outcomes["decided"] or outcomes["not claimed"], "nothing was shown"


def test_no_decision_is_stale() -> None:
    """Each decision is needed by a case, so that none outlives what it was about."""
    needless = []
    for decision in DECISIONS:
        if not (_needed_by_case(decision) or _needed_by_line(decision)):
            needless.append(decision.cases)
    if len(folders()) == 1:
        pytest.skip("the cases that the decisions are about are not beside the project")
    assert not needless


def _needed_by_case(decision: Decision) -> bool:
    covered = (case for case in CASES if decision.covers(case.label, case.words))
    return any(wrong_case(case, Steps(REFERENCE)) is not None for case in covered)


def _needed_by_line(decision: Decision) -> bool:
    every = (line for lines in LINES for line in lines)
    covered = (line for line in every if decision.covers(line.label, line.words, empty=line.has_empty_side))
    return any(wrong_line(line, Steps(REFERENCE)) is not None for line in covered)


def test_decisions_give_reasons() -> None:
    assert all(len(decision.reason) > 40 and decision.inputs in ("any", "empty") for decision in DECISIONS)
