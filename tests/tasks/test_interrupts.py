"""A step that is interrupted, terminated or killed: the lease, and what is believed afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flow_samples import leases, metric, records
from slow_flow import slow

from geocairn.tasks import step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

pytestmark = pytest.mark.prefect_server

SCRIPT = Path(__file__).with_name("slow_flow.py")


def start(place: Path, how: str, seconds: float) -> subprocess.Popen[str]:
    """Start the flow in a process of its own, and wait until its step has begun."""
    told = place / "seconds.txt"
    told.write_text(str(seconds))
    began = told.with_suffix(".began")
    began.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), how, str(told)],
        cwd=place,
        env={**os.environ, "PREFECT_LOGGING_LEVEL": "WARNING", "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 120
    while not began.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


def again(place: Path, how: str) -> str:
    """Run the same step here, without delay, and return its fingerprint."""
    told = place / "seconds.txt"
    told.write_text("0")
    return slow(metric(), began=str(told), key=how).fingerprint


@pytest.mark.parametrize(
    ("how", "number"),
    [("call", signal.SIGINT), ("call", signal.SIGTERM), ("submit", signal.SIGINT), ("submit", signal.SIGTERM)],
)
def test_a_lease_is_freed_on_the_way_out_and_no_death_is_counted(place: Path, how: str, number: signal.Signals) -> None:
    # A step in a thread cannot be cut short: the process ends when it has ended, its result is kept.
    process = start(place, how, 60.0 if how == "call" else 4.0)
    assert len(leases(place / ".geocairn")) == 1
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode != 0
    assert leases(place / ".geocairn") == [], told
    assert len(records(place / ".geocairn")) == (0 if how == "call" else 1)

    made = again(place, how)
    assert records(place / ".geocairn") == [made]
    assert leases(place / ".geocairn") == []


@pytest.mark.parametrize("how", ["call", "submit"])
def test_a_closed_terminal_is_no_death(place: Path, how: str) -> None:
    process = start(place, how, 60.0)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGHUP
    assert leases(place / ".geocairn") == []
    again(place, how)
    assert leases(place / ".geocairn") == []  # a death would have been kept


def test_a_cancelled_process_frees_a_lease_at_once_though_its_step_goes_on(place: Path) -> None:
    process = start(place, "submit", 8.0)
    assert len(leases(place / ".geocairn")) == 1
    process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 4
    while leases(place / ".geocairn") and time.monotonic() < end:
        time.sleep(0.05)
    assert leases(place / ".geocairn") == []
    assert process.poll() is None  # its thread is still computing
    # So somebody else need not wait, and no death is counted.
    made = again(place, "submit")
    process.communicate(timeout=60)
    assert records(place / ".geocairn") == [made]
    assert leases(place / ".geocairn") == []


def test_a_killed_holder_is_one_death_and_is_taken_over_at_once(place: Path) -> None:
    process = start(place, "call", 60.0)
    process.kill()
    process.communicate(timeout=60)
    (lease,) = leases(place / ".geocairn")
    assert records(place / ".geocairn") == []

    made = again(place, "call")
    assert records(place / ".geocairn") == [made]
    kept = json.loads(lease.read_text())
    assert (kept["owner"], kept["deaths"]) == (None, {"geopandas": 1})


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_a_way_out_from_inside_a_step_leaves_nothing(place: Path, raised: type[BaseException]) -> None:
    @step(version=1)
    def leaves(layer: GeoDataFrame, *, key: str) -> GeoDataFrame:
        raise raised

    with pytest.raises(raised):
        leaves(metric(), key=raised.__name__)
    assert leases(place / ".geocairn") == []
    assert records(place / ".geocairn") == []
    assert not list((place / ".geocairn").rglob("*.parquet"))
