"""The course of a soak: what is run, with which parameters and sources, and what befalls it, all from a seed.

The plan is the tests' chain of seven steps with its branches. `course` yields events; an event is one run, or two at
once, each with a configuration of its own and at most one thing that goes wrong.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seven_steps import make_data, plan, step_of

STAGES = ("layer written", "layer uploaded", "record written")
REQUESTS = (
    ("GET", r"/checkpoints/"),
    ("PUT", r"/checkpoints/"),
    ("PUT", r"/layers/"),
    ("GET|HEAD", r"/layers/"),
    ("GET|PUT|DELETE", r"/leases/"),
    (".*", ""),
)
"""Requests to a store on S3 that faults are put upon."""


@dataclass(frozen=True)
class Configuration:
    """What decides the answer: three parameters and the state of two sources."""

    distance: float
    how: str
    value: str
    sites: str
    parcels: str

    def plan(self) -> dict[str, Any]:
        """The chain of seven steps with these parameters."""
        values = plan()
        step_of(values, "reach")["params"]["distance"] = self.distance
        step_of(values, "covered")["params"]["how"] = self.how
        step_of(values, "by_zone")["params"]["aggregates"]["value"] = self.value
        return values

    def place_sources(self, variants: Path, data: Path, *, keep_time: bool) -> None:
        """Put the sources in this state into a folder; with their time of change as it was, where that is asked."""
        for stem, variant in (("sites", self.sites), ("parcels", self.parcels)):
            for source in sorted((variants / variant).glob(f"{stem}.*")):
                target = data / source.name
                if target.read_bytes() == source.read_bytes():
                    continue
                before = target.stat()
                shutil.copyfile(source, target)
                if keep_time:
                    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def make_variants(folder: Path) -> None:
    """Write two states of the sources, of the same sizes: a site moved a little, the value of one parcel another."""
    import geopandas as gpd

    for name in ("one", "other"):
        make_data(folder / name)
    sites = folder / "other" / "sites.csv"
    lines = sites.read_text("utf-8").splitlines()
    site, x, y = lines[1].split(",")
    lines[1] = f"{site},{x[:-9]}{9 - int(x[-9])}{x[-8:]},{y}"
    sites.write_text("\n".join(lines) + "\n", "utf-8")
    parcels = gpd.read_file(folder / "other" / "parcels.shp")
    parcels.loc[7, "value"] = parcels.loc[7, "value"] + 0.5
    parcels.to_file(folder / "other" / "parcels.shp")
    for stem in ("sites.csv", "parcels.dbf"):
        one, other = (folder / name / stem for name in ("one", "other"))
        assert one.stat().st_size == other.stat().st_size
        assert one.read_bytes() != other.read_bytes()


@dataclass(frozen=True)
class Mishap:
    """One thing that goes wrong in a run."""

    kind: str
    """`none`, `killed`, `killed at a moment`, `recovered`, `failed`, or `requests`."""
    interference: tuple[tuple[str, dict[str, Any]], ...] = ()
    """What is done to the run; where a step is to be named, it is named `STEP`."""
    which: float | None = None
    """Which step it befalls, as a share of the way through those that the run has to compute."""
    code: int = 0
    """The exit code of a run that meets it."""
    moment: float | None = None
    """Seconds after its start when it is killed."""
    requests: dict[str, Any] | None = None
    """A rule of the fault proxy."""

    def step(self, waiting: list[str]) -> str | None:
        """The step that it befalls in a run that has to compute these; None where it befalls none."""
        if self.which is None or not waiting:
            return None
        return waiting[int(self.which * len(waiting))]

    def done_to(self, step: str | None) -> list[tuple[str, dict[str, Any]]]:
        """The interference, with the step in its place; nothing where there is no step to put there."""
        if self.which is not None and step is None:
            return []
        put = {STEP: step}
        return [
            (name, {key: put.get(value, value) for key, value in given.items()}) for name, given in self.interference
        ]


STEP = "STEP"
NOTHING = Mishap("none")


@dataclass(frozen=True)
class Event:
    """One run, or two at once."""

    runs: tuple[tuple[Configuration, Mishap], ...]
    keep_time: bool
    """Whether changed sources get the time of change that they had."""
    expired: tuple[float, ...] = ()
    """Which checkpoints expire before it, as shares of the way through those that are there."""
    sweep: float | None = None
    """Seconds after its start when the store is swept."""


def course(seed: int, runs: int, *, on_s3: bool) -> Iterator[Event]:
    """Yield events until that many runs are started."""
    chance = random.Random(seed)
    configuration = Configuration(900.0, "intersection", "sum", "one", "one")
    while runs > 0:
        configuration = _next(chance, configuration)
        started = [(configuration, _mishap(chance, on_s3=on_s3))]
        if runs > 1 and chance.random() < 0.15:
            second = NOTHING if chance.random() < 0.5 else _mishap(chance, on_s3=False)
            started.append((_next(chance, configuration), second))
        expired = tuple(chance.random() for _ in range(chance.choice((0, 0, 1, 3, 6))))
        sweep = chance.uniform(0.0, 2.0) if chance.random() < 0.1 else None
        yield Event(tuple(started), chance.random() < 0.3, expired, sweep)
        runs -= len(started)


def _next(chance: random.Random, now: Configuration) -> Configuration:
    """Often the same again, so that there is something to resume; else one or two things are other than before."""
    values = dict(now.__dict__)
    for name in chance.sample(sorted(values), k=chance.choice((0, 0, 1, 1, 2))):
        values[name] = chance.choice(CHOICES[name])
    return Configuration(**values)


CHOICES: dict[str, tuple[Any, ...]] = {
    "distance": (900.0, 700.0),
    "how": ("intersection", "difference"),
    "value": ("sum", "max"),
    "sites": ("one", "other"),
    "parcels": ("one", "other"),
}

_FAILURES = (("InputFailure", 3), ("KeyError", 1), ("PermissionError", 1), ("TransientFailure", 4))
_RECOVERED = (("TransientFailure", 2), ("ConnectionResetError", 1), ("MemoryError", 1))
_KILLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("kill_in_step", {"step": STEP}),
    ("kill_half_written", {"step": STEP}),
    *(("kill_at", {"stage": stage, "step": STEP}) for stage in STAGES),
    ("kill_before_sidecar", {}),
    ("kill_after_output", {"output": "by_zone"}),
    ("kill_after_output", {"output": "hulls"}),
)
_FAULTS: tuple[dict[str, Any], ...] = (
    *({"status": status} for status in (503, 500, 403)),
    *({"action": action} for action in ("drop", "cut", "lose answer")),
)
_QUICK: tuple[str, dict[str, Any]] = ("quick_retries", {})


def _mishap(chance: random.Random, *, on_s3: bool) -> Mishap:
    which = chance.random()
    kinds = ["none", "none", "killed", "killed", "killed at a moment", "recovered", "failed"]
    kind = chance.choice(kinds + ["requests", "requests"] * on_s3)
    if kind == "killed":
        name, given = chance.choice(_KILLS)
        return Mishap(kind, ((name, given),), which if STEP in given.values() else None, -9)
    if kind == "killed at a moment":
        return Mishap(kind, code=-9, moment=chance.uniform(0.0, 2.0))
    if kind == "recovered":
        error, times = chance.choice(_RECOVERED)
        return Mishap(kind, (_QUICK, ("fail_step", {"step": STEP, "error": error, "times": times})), which)
    if kind == "failed":
        error, code = chance.choice(_FAILURES)
        return Mishap(kind, (_QUICK, ("fail_step", {"step": STEP, "error": error})), which, code)
    if kind == "requests":
        method, path = chance.choice(REQUESTS)
        rule = {"method": method, "path": path, "skip": chance.randrange(6), "count": chance.choice((1, 2, 4, 12))}
        return Mishap(kind, (_QUICK,), requests={**rule, **chance.choice(_FAULTS)})
    return NOTHING
