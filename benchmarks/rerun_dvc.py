"""Measure the unchanged rerun from the command line beside DVC's, on the same seven-step chain and data.

    uv run --group bench python benchmarks/rerun_dvc.py [--repeat N]

DVC gets the chain as seven stages, each a bare geopandas script on files; `dvc repro` on an unchanged chain is what
is measured. A touched source is measured too: both must find that nothing changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chain import plan, prepare

STAGE = """
import sys, geopandas
name = sys.argv[1]
read = lambda name: geopandas.read_parquet(f"dvc/{name}.parquet")
if name == "counties_valid":
    frame = geopandas.read_file("data/us-counties.gpkg", layer="counties").set_crs("EPSG:4269", allow_override=True)
    frame["geometry"] = frame.geometry.make_valid(method="structure", keep_collapsed=False)
elif name == "counties_there":
    frame = read("counties_valid"); frame = frame[~(frame.geometry.isna() | frame.geometry.is_empty)]
elif name == "counties_m":
    frame = read("counties_there").to_crs("EPSG:5070")
elif name == "cities_m":
    frame = geopandas.read_file("data/us-cities.gpkg").to_crs("EPSG:5070")
elif name == "reach":
    frame = read("cities_m"); frame["geometry"] = frame.buffer(50_000)
elif name == "covered":
    frame = geopandas.overlay(read("counties_m"), read("reach"), how="intersection")
else:
    frame = read("covered").dissolve(by="state_1", aggfunc={"population": "sum"}).reset_index()
frame.to_parquet(f"dvc/{name}.parquet")
"""

SOURCES = {"counties": "data/us-counties.gpkg", "cities": "data/us-cities.gpkg"}


def write_stages(folder: Path) -> None:
    """Write the chain as a DVC pipeline."""
    import yaml

    stages = {}
    for step in plan()["steps"]:  # type: ignore[attr-defined]
        inputs = step["inputs"] if isinstance(step["inputs"], dict) else {"layer": step["inputs"]}
        needs = [SOURCES.get(name, f"dvc/{name}.parquet") for name in inputs.values()]
        stages[step["name"]] = {
            "cmd": f"{sys.executable} stage.py {step['name']}",
            "deps": ["stage.py", *needs],
            "outs": [f"dvc/{step['name']}.parquet"],
        }
    (folder / "stage.py").write_text(STAGE, encoding="utf-8")
    (folder / "dvc").mkdir()
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    dvc = shutil.which("dvc", path=str(Path(sys.executable).parent)) or sys.exit(
        "dvc is missing: uv run --group bench …"
    )
    with tempfile.TemporaryDirectory(prefix="geocairn-bench-") as name:
        folder = Path(name) / "work"
        prepare(folder)
        write_stages(folder)
        environment = {
            **os.environ,
            "PREFECT_HOME": f"{name}/prefect",
            "GEOCAIRN_CACHE": f"{name}/cache",
            "DVC_NO_ANALYTICS": "1",
            "DO_NOT_TRACK": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }

        def run(*command: str) -> float:
            started = time.perf_counter()
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            return time.perf_counter() - started

        geocairn = (sys.executable, "-m", "geocairn.flows.command_line")
        run("git", "init", "-q")
        run(dvc, "init", "-q")
        run(dvc, "repro", "-q")
        run(*geocairn, "run", "plan.json")
        try:
            time.sleep(3)  # a file changed within two seconds of being hashed is not trusted, by either
            rows = {}
            for what in ("unchanged", "source touched"):
                times: dict[str, list[float]] = {"geocairn": [], "dvc": []}
                for _ in range(repeat):
                    for tool, command in (("geocairn", (*geocairn, "run", "plan.json")), ("dvc", (dvc, "repro", "-q"))):
                        if what == "source touched":
                            os.utime(folder / "data" / "us-counties.gpkg")
                        times[tool].append(run(*command))
                rows[what] = {tool: statistics.median(values) for tool, values in times.items()}
        finally:
            run(*geocairn, "dev", "--stop")
    for what, row in rows.items():
        ours, theirs = row["geocairn"], row["dvc"]
        print(f"{what}: geocairn {ours:.2f} s, dvc {theirs:.2f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
