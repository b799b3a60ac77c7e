"""The scenario matrix: what a failure comes to, by class, place, way of running and point of the fault.

The suite plays a choice in which each pair of values of two factors meets; `ALL_SCENARIOS=1`, or `python
benchmarks/matrix.py`, plays every combination.
"""

from __future__ import annotations

import os
from itertools import combinations, product

import pytest
from played_scenario import Matrix, play
from scenarios import ALL, FACTORS, FAULTS, Scenario, pairwise

CHOSEN = ALL if os.environ.get("ALL_SCENARIOS") else pairwise()


def test_the_choice_covers_each_pair_of_values() -> None:
    rows = [(one.failure, one.place, one.way, one.point) for one in pairwise()]
    for one, other in combinations(range(len(FACTORS)), 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == set(product(FACTORS[one], FACTORS[other]))
    assert len(rows) <= 24
    assert {(failure, point) for failure, _, _, point in rows} == set(FAULTS)


@pytest.mark.s3
@pytest.mark.prefect_server
@pytest.mark.parametrize("scenario", CHOSEN, ids=str)
def test_scenario(matrix: Matrix, scenario: Scenario, request: pytest.FixtureRequest) -> None:
    if scenario.way == "dask":
        matrix.dask_runner = request.getfixturevalue("dask_runner")
    play(matrix, scenario)
