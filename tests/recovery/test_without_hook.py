"""The same failures with the hook taken out of the steps: so the matrix speaks of the hook and of nothing else."""

from __future__ import annotations

import pytest
from played_scenario import Matrix
from scenarios import WAYS, Scenario

from geocairn.tasks.runs import remove_what_ended


@pytest.mark.s3
@pytest.mark.prefect_server
@pytest.mark.parametrize("failure", ["transient", "capability"])
@pytest.mark.parametrize("way", WAYS)
def test_without_the_hook_nothing_is_recovered(
    matrix: Matrix, way: str, failure: str, request: pytest.FixtureRequest
) -> None:
    scenario = Scenario(failure, "first", way, "compute")
    if way == "dask":
        matrix.dask_runner = request.getfixturevalue("dask_runner")
    prints = matrix.reference.fingerprints
    matrix.heal()
    block = matrix.new_block()
    matrix.arm(scenario, hook=False)
    ended = matrix.run(scenario, block)
    assert ended.failure_class == failure
    assert matrix.executions() == {"reproject": 1}
    assert [name for name, found in prints.items() if block.store.get(found) is not None] == []
    remove_what_ended(everything=True)
