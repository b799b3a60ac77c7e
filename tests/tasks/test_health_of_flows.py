"""`geocairn health` over the traces that real flow runs leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from flow_samples import metric
from own_steps import flaky_step
from prefect import flow

from geocairn.flows.command_line import main

pytestmark = [pytest.mark.prefect_server, pytest.mark.usefixtures("no_delay")]


@flow
def forecast(counter: str, fails: int) -> int:
    made = flaky_step(metric(), counter=counter, fails=fails)
    return int(made.facts.rows)


def test_a_step_that_recovers_on_four_of_five_runs_is_named(place: Path) -> None:
    for number, fails in enumerate((1, 2, 0, 1, 1)):
        counter = place / f"calls-{number}"
        counter.touch()
        forecast(str(counter), fails)
    told = json.loads(CliRunner().invoke(main, ["health", "forecast", "--json"]).stdout)
    [chain] = told["chains"]
    assert (chain["kind"], chain["runs"], chain["failed"], chain["retries"]) == ("flow", 5, 0, 5)
    [defect] = told["absorbed"]
    assert (defect["flow"], defect["step"]) == ("forecast", "flaky")
    assert (defect["ran"], defect["recovered"], defect["class"], defect["backend"]) == (5, 4, "transient", "geopandas")
    assert "the service is busy" in defect["error"]
    [flaky] = [step for step in chain["steps"] if step["name"] == "flaky"]
    assert (flaky["ran"], flaky["recovered"], flaky["retries"]) == (5, 4, 5)
