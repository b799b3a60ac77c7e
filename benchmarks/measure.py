"""Measure geocairn against a bare geopandas script on the same machine and store, as ratios in one run.

    uv run python benchmarks/measure.py [--heavy] [--repeat N] [--json]

Measured: the cold chain, the unchanged rerun from the command line, the fully reused rerun as a Prefect flow, the
resume at step six of seven, and peak memory of a reused rerun. A Prefect server is up throughout, as it is for every
local run but the first. What the goals compare with is measured beside it: the bare script, and an empty Prefect flow
in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chain import STEPS, prepare

EMPTY_FLOW = """
from prefect import flow
@flow(name="empty")
def empty():
    return 1
empty()
"""


class Bench:
    """One folder with the chain, one store, one server."""

    def __init__(self, folder: Path, *, heavy: bool, repeat: int) -> None:
        self.folder = folder / "work"
        self.repeat = repeat
        prepare(self.folder, heavy=heavy)
        self.environment = {
            **os.environ,
            "PREFECT_HOME": str(folder / "prefect"),
            "GEOCAIRN_CACHE": str(folder / "cache"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        }
        self.geocairn = [sys.executable, "-m", "geocairn.flows.command_line"]

    def run(self, command: list[str]) -> tuple[float, int, str]:
        """Run a command; return seconds, peak memory in KiB and its standard output."""
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        out, err = process.communicate()
        seconds = time.perf_counter() - started
        if process.returncode != 0:
            raise RuntimeError(f"{command} ended with {process.returncode}:\n{out}\n{err}")
        return seconds, _peak(), out

    def median(self, command: list[str], before: Callable[[], object] = lambda: None) -> tuple[float, str]:
        """Return the median seconds of a command, and its last output."""
        times = []
        out = ""
        for _ in range(self.repeat):
            before()
            seconds, _, out = self.run(command)
            times.append(seconds)
        return statistics.median(times), out

    def clear(self) -> None:
        """Remove store and output, and nothing else."""
        import shutil

        for name in (".geocairn", "out", "bare"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def forget(self, names: tuple[str, ...]) -> None:
        """Remove the checkpoints of some steps, and the output."""
        import shutil

        status = json.loads(self.run([*self.geocairn, "status", "plan.json", "--json"])[2])
        prints = [entry["fingerprint"] for entry in status["steps"] if entry["name"] in names]
        prints += [entry["fingerprint"] for entry in status["outputs"]]
        for print_ in prints:
            for path in (self.folder / ".geocairn").glob(f"*/{print_[:2]}/{print_}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(self.folder / "out", ignore_errors=True)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def peak_memory(bench: Bench, command: list[str]) -> int:
    """Return the peak memory of one command in KiB, measured by a process of its own."""
    script = (
        "import subprocess, sys, resource; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    return int(bench.run([sys.executable, "-c", script, *command])[2].split()[-1])


def outcomes(out: str) -> dict[str, str]:
    """Return the outcome of each step from a run's JSON."""
    return {entry["name"]: entry["outcome"] for entry in json.loads(out)["steps"]}


def measure(bench: Bench) -> list[dict[str, object]]:
    """Measure everything and return the rows of the table."""
    run = [*bench.geocairn, "run", "plan.json", "--json"]
    empty = [sys.executable, "-c", EMPTY_FLOW]
    bench.run(run)  # brings the server up and warms the caches of the file system
    server = json.loads((Path(bench.environment["PREFECT_HOME"]) / "geocairn-server.json").read_text("utf-8"))
    bench.environment["PREFECT_API_URL"] = server["url"]
    fixed, _ = bench.median(empty)
    bare, _ = bench.median([sys.executable, "bare.py", "bare", "1"], bench.clear)
    cold, out = bench.median(run, bench.clear)
    assert set(outcomes(out).values()) == {"computed"}
    unchanged, out = bench.median(run)
    assert set(outcomes(out).values()) == {"reused"}
    recorded, out = bench.median([*run, "--record"])
    assert set(outcomes(out).values()) == {"reused"}
    memory, base_memory = peak_memory(bench, [*run, "--record"]), peak_memory(bench, empty)
    quick_memory = peak_memory(bench, run)
    bench.run([sys.executable, "bare.py", "bare", "1"])
    bare_tail, _ = bench.median([sys.executable, "bare.py", "bare", "6"])
    resume, out = bench.median(run, lambda: bench.forget(STEPS[5:]))
    assert [name for name, outcome in outcomes(out).items() if outcome == "computed"] == list(STEPS[5:])
    return [
        row("empty Prefect flow", fixed, None, None, ""),
        row("cold chain", cold, bare, (cold - fixed) / bare, "≤ 1.10 (less the empty flow)"),
        row(
            "resume at step six of seven",
            resume,
            bare_tail,
            (resume - fixed) / bare_tail,
            "≤ 1.10 (less the empty flow)",
        ),
        row("unchanged rerun, command line", unchanged, None, None, "≤ DVC (benchmarks/rerun_dvc.py)"),
        row("reused rerun as a Prefect flow", recorded, fixed, None, f"≤ +0.3 s; is {recorded - fixed:+.2f} s"),
        {"what": "peak memory of the reused flow", "MiB": memory // 1024, "empty flow MiB": base_memory // 1024},
        {"what": "peak memory of the unchanged rerun", "MiB": quick_memory // 1024},
    ]


def row(what: str, seconds: float, beside: float | None, ratio: float | None, goal: str) -> dict[str, object]:
    """Return one row of the table."""
    return {
        "what": what,
        "seconds": round(seconds, 2),
        "beside it": round(beside, 2) if beside is not None else None,
        "ratio": round(ratio, 2) if ratio is not None else None,
        "goal": goal,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heavy", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="geocairn-bench-") as folder:
        bench = Bench(Path(folder), heavy=options.heavy, repeat=options.repeat)
        try:
            rows = measure(bench)
        finally:
            bench.environment.pop("PREFECT_API_URL", None)
            bench.run([*bench.geocairn, "dev", "--stop"])
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for entry in rows:
        print("  ".join(f"{key}: {value}" for key, value in entry.items() if value not in (None, "")))


if __name__ == "__main__":
    main()
