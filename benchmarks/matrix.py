"""Play the whole scenario matrix of recovery, and sum it up in one line.

    uv run python benchmarks/matrix.py [-k EXPRESSION]

Four classes of failure × first, middle and last step × four ways of running × five points of the fault: 240 scenarios.
What each must come to is in `tests/recovery/played_scenario.py`; arguments go to pytest. The exit code is pytest's.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


class Figures:
    """Counts scenarios by outcome and by class as they end."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failed: list[str] = []
        self.seconds: list[float] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "test_scenario[" not in report.nodeid or (report.when != "call" and report.passed):
            return
        name = report.nodeid.partition("[")[2].removesuffix("]")
        self.outcomes[report.outcome] += 1
        self.seconds.append(report.duration)
        if report.failed:
            self.failed.append(name)


def main() -> int:
    os.environ["ALL_SCENARIOS"] = "1"
    os.chdir(PROJECT)
    figures, started = Figures(), time.monotonic()
    arguments = ["tests/recovery/test_matrix.py", "-q", "--no-header", "--tb=short", "--show-capture=no", *sys.argv[1:]]
    code = pytest.main(arguments, plugins=[figures])
    outcomes = ", ".join(f"{outcome} {count}" for outcome, count in sorted(figures.outcomes.items())) or "none"
    median = sorted(figures.seconds)[len(figures.seconds) // 2] if figures.seconds else 0.0
    print(
        f"matrix: scenarios {sum(figures.outcomes.values())}, {outcomes}; "
        f"{time.monotonic() - started:.0f} s, {median:.1f} s a scenario (median)"
    )
    for name in figures.failed:
        print(f"FAILED {name}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
