"""A little of the soak of `benchmarks/soak.py`, whose full course is one command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from forked_runs import Runs
from seven_steps import STEPS
from soak import Soak, debris, soak
from soak_course import NOTHING, Configuration, course

from geocairn.stores.keys import LAYERS


def test_a_course_depends_on_its_seed_alone() -> None:
    one, again, other = (list(course(seed, 40, on_s3=True)) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert sum(len(event.runs) for event in one) == 40
    kinds = {mishap.kind for event in one for _, mishap in event.runs}
    assert kinds == {"none", "killed", "killed at a moment", "recovered", "failed", "requests"}


@pytest.mark.prefect_server
def test_a_tiny_soak_violates_nothing(runs: Runs, tmp_path: Path) -> None:
    soaked = Soak(tmp_path / "work", runs, str(tmp_path / "store"))
    try:
        soak(soaked, 6, 6)
        assert soaked.violations == []
        assert soaked.counts["runs"] == 6
        assert soaked.counts["completed"] > 0
        assert soaked.counts["computed"] >= len(STEPS)
        finds_what_is_planted(soaked)
    finally:
        soaked.patch.undo()


def finds_what_is_planted(soaked: Soak) -> None:
    """The soak sees a wrong answer, a layer of no record, and a record of no layer."""
    import geopandas as gpd

    chain = soaked.chains[0]
    configuration = Configuration(900.0, "intersection", "sum", "other", "one")
    output = chain.path("out") / "hulls.parquet"
    hulls = gpd.read_parquet(output)
    hulls.iloc[::-1].reset_index(drop=True).to_parquet(output)
    soaked.hold_outputs(chain, configuration, NOTHING)
    assert len(soaked.violations) == 1
    assert "a wrong answer: hulls.parquet" in soaked.violations[0]

    assert list(debris(soaked.store)) == []
    objects = soaked.store.objects
    key = next(info.key for info in objects.list(LAYERS))
    objects.write(f"{key.rpartition('/')[0]}/0123456789abcdef.parquet", b"")
    objects.delete(key)
    assert len(list(debris(soaked.store))) == 2
