"""Soak: many runs of one chain on one store, with random faults, kills and changes from a seed.

    uv run python benchmarks/soak.py [--runs 200] [--seed N] [--store folder|s3]

Parameters and sources change between runs, runs are killed at each point of a commit and at any moment, steps fail
with each class, requests to S3 are refused or cut, and sometimes two runs go at once. Held against: every run that
completes gives what a run on a clean store gives; a checkpoint that is believed is neither computed again nor lost;
and after a sweep nothing lies there but what is believed, traces and decisions. One line of figures at the
end; the exit code is 1 where anything was violated. What a kill at a moment meets depends on the machine, all else on
the seed alone.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / part) for part in ("", "flows", "recovery")] + [str(Path(__file__).parent)]

import pytest  # noqa: E402
from chains import Chain, s3_environment  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from forked_runs import Ended, Running, Runs  # noqa: E402
from layer_equality import differences  # noqa: E402
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server  # noqa: E402
from soak_course import NOTHING, Configuration, Event, Mishap, course, make_variants  # noqa: E402

from geocairn.checkpoint import format_time, parse_record, write_record  # noqa: E402
from geocairn.failure import Failure  # noqa: E402
from geocairn.s3 import S3Settings, client  # noqa: E402
from geocairn.stores import keys  # noqa: E402
from geocairn.stores.leases import deaths  # noqa: E402
from geocairn.stores.opening import open_store  # noqa: E402
from geocairn.stores.sweep import Retention, sweep  # noqa: E402


@dataclass
class _Started:
    """A run of an event, and what was known when it started."""

    chain: Chain
    configuration: Configuration
    mishap: Mishap
    prints: dict[str, str]
    """The steps' fingerprints by name."""
    waiting: list[str]
    """The steps that it has to compute, in the plan's order."""
    step: str | None
    """The one that the mishap befalls."""
    died: bool
    """Whether holders have died over that step: it may then go to another backend at once, past the mishap."""
    running: Running = field(init=False)
    ended: Ended = field(init=False)


class Soak:
    """One store, two working folders, and everything that was seen so far.

    Parameters
    ----------
    folder : an empty folder to work in.
    runs : starts runs, each in a process of its own.
    store_url, settings, proxy : the store; for S3 its settings through the fault proxy, and the proxy.
    """

    def __init__(
        self,
        folder: Path,
        runs: Runs,
        store_url: str,
        settings: S3Settings | None = None,
        proxy: FaultProxy | None = None,
    ) -> None:
        self.folder, self.runs, self.settings, self.proxy = folder, runs, settings, proxy
        self.variants = folder / "variants"
        make_variants(self.variants)
        self.environment = {"GEOCAIRN_CACHE": str(folder / "cache"), **s3_environment(settings)}
        self.patch = pytest.MonkeyPatch()
        self.chains = [self._chain(name, store_url, settings) for name in ("mine", "other")]
        self.store = open_store(store_url, settings=settings)
        self.references: dict[Configuration, dict[str, Any]] = {}
        self.known: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.event = 0

    def _chain(self, name: str, store_url: str, settings: S3Settings | None = None) -> Chain:
        folder = self.folder / name
        shutil.copytree(self.variants / "one", folder / "data")
        return Chain(folder, store_url, settings, self.runs, self.environment, self.patch)

    def violated(self, text: str) -> None:
        """Keep what must not be."""
        self.violations.append(f"event {self.event}: {text}")

    # What is right

    def reference(self, configuration: Configuration) -> dict[str, Any]:
        """What an uninterrupted run on a clean store publishes."""
        if configuration not in self.references:
            name = f"reference-{len(self.references)}"
            chain = self._chain(name, str(self.folder / name / "store"))
            configuration.place_sources(self.variants, chain.path("data"), keep_time=False)
            chain.values = configuration.plan()
            chain.run()
            self.references[configuration] = published(chain)
            shutil.rmtree(chain.folder)
        return self.references[configuration]

    def believed(self) -> set[str]:
        """The fingerprints, of those ever seen, whose checkpoint is believed now."""
        return {print_ for print_, found in self.store.look_up_many(sorted(self.known)).items() if found.present}

    # One event

    def play(self, event: Event) -> None:
        """Let an event happen, and hold it against everything."""
        self.event += 1
        self.counts["at once"] += len(event.runs) == 2
        self._expire(event)
        started = [
            self._prepared(chain, configuration, mishap, keep_time=event.keep_time)
            for chain, (configuration, mishap) in zip(self.chains, event.runs, strict=False)
        ]
        self.known.update(*(one.prints.values() for one in started))
        before = self.believed()
        self._run(started, event)
        for lost in sorted(before - self.believed()):
            self.violated(f"the checkpoint {lost[:12]} was believed and is lost")
        computed: Counter[str] = Counter()
        for one in started:
            made = Counter(one.prints[name] for name in one.ended.did("compute"))
            computed += made
            for again in sorted(set(made) & before):
                self.violated(f"the checkpoint {again[:12]} was believed and was computed again")
            self._hold_code(one, started)
            if one.ended.code == 0:
                self.hold_outputs(one.chain, one.configuration, one.mishap)
        if all(one.mishap.kind == "none" for one in started):
            wanted = {one.prints[name] for one in started for name in one.waiting}
            if computed != Counter(wanted):
                self.violated(f"computed {dict(computed)} and not each of {sorted(wanted)} once")
        self.counts["computed"] += computed.total()

    def _expire(self, event: Event) -> None:
        """Let some checkpoints expire: rewrite their records, as if they had been committed long ago."""
        for share in event.expired:
            there = sorted(self.believed())
            if not there:
                return
            key = keys.SHARED.record(there[int(share * len(there))])
            record = parse_record(self.store.objects.read(key).data)  # type: ignore[union-attr]
            past = format_time(self.store.objects.now() - 3600)
            self.store.objects.write(key, write_record(record.replaced(expires=past)))
            self.counts["expired"] += 1

    def _prepared(self, chain: Chain, configuration: Configuration, mishap: Mishap, *, keep_time: bool) -> _Started:
        configuration.place_sources(self.variants, chain.path("data"), keep_time=keep_time)
        chain.values = configuration.plan()
        steps = chain.status()["steps"]
        prints = {entry["name"]: entry["fingerprint"] for entry in steps}
        waiting = [entry["name"] for entry in steps if entry["outcome"] == "compute"]
        step = mishap.step(waiting)
        died = step is not None and bool(deaths(self.store.objects, prints[step]))
        return _Started(chain, configuration, mishap, prints, waiting, step, died)

    def _run(self, started: list[_Started], event: Event) -> None:
        rules = []
        for one in started:
            if one.mishap.requests and self.proxy is not None:
                rules.append(self.proxy.fail(**one.mishap.requests))
        timers = []
        for one in started:
            one.running = one.chain.start(interference=one.mishap.done_to(one.step))
            if one.mishap.moment is not None:
                timers.append(threading.Timer(one.mishap.moment, one.running.kill))
                timers[-1].start()
        if event.sweep is not None:
            time.sleep(event.sweep)
            try:
                self.counts["swept at work"] += len(sweep(self.store, grace=dt.timedelta(0)).removed)
            except Failure:  # a fault met the sweep: it halts before it removes anything, and the next one does it
                self.counts["sweeps refused"] += 1
        for one in started:
            one.ended = one.running.wait()
        for timer in timers:
            timer.cancel()
        self.counts["requests failed"] += sum(rule.fired for rule in rules)
        if self.proxy is not None:
            self.proxy.heal()

    def _hold_code(self, one: _Started, started: list[_Started]) -> None:
        """The run ended as what befell it deserves, and the answer says so."""
        mishap, ended = one.mishap, one.ended
        self.counts["runs"] += 1
        self.counts[{0: "completed", -9: "killed"}.get(ended.code, f"ended with {ended.code}")] += 1
        if mishap.kind == "none" or (mishap.which is not None and one.step is None):
            allowed = {0}
        elif one.step is not None and len(started) == 1 and not one.died:
            allowed = {mishap.code}  # it must have met the step
        else:
            allowed = {0, mishap.code}
        if any(other.mishap.requests for other in started):
            allowed |= {0, 1, 4}
        if ended.code not in allowed:
            self.violated(f"{mishap} ended with {ended.code} and not {sorted(allowed)}: {ended.stderr[-2000:]}")
        if ended.code not in (0, -9):
            kind = ended.answer["failure"]["class"]
            if {"input": 3, "transient": 4}.get(kind, 1) != ended.code:
                self.violated(f"exit code {ended.code} of a failure of class {kind}")
        if ended.code == 0:
            attempts = [attempt for step in ended.answer["steps"] for attempt in step["attempts"]]
            self.counts["retries"] += sum(attempt["class"] == "transient" for attempt in attempts)
            self.counts["reroutes"] += sum(attempt["class"] == "capability" for attempt in attempts)
            self.counts["reused"] += sum(outcome == "reused" for outcome in ended.outcomes().values())
            if mishap.kind == "recovered" and one.step is not None and len(started) == 1 and not (one.died or attempts):
                self.violated(f"{mishap} left no attempt in the answer")

    def hold_outputs(self, chain: Chain, configuration: Configuration, mishap: Mishap) -> None:
        """What a completed run has published is what a run on a clean store publishes."""
        found, right = published(chain), self.reference(configuration)
        for name, layer in right.items():
            said = differences(found[name], layer) if name in found else ["it is not there"]
            if said:
                self.violated(f"a wrong answer: {name} of {configuration} after {mishap}: {said}")

    # The end

    def end(self) -> None:
        """Complete both folders' plans, sweep, and see that what is left is what is believed, and all of it."""
        self.event += 1
        last = Configuration(900.0, "intersection", "sum", "other", "one")
        for chain in self.chains:
            last.place_sources(self.variants, chain.path("data"), keep_time=False)
            chain.values = last.plan()
            shutil.rmtree(chain.path("out"), ignore_errors=True)  # what stands there could do without its checkpoint
            chain.run()
        self._sweep()
        for chain in self.chains:
            shutil.rmtree(chain.path("out"))
            computed = chain.run().computed
            if computed:
                self.violated(f"after the sweep {computed} were computed again")
            self.hold_outputs(chain, last, NOTHING)

    def _sweep(self) -> None:
        before = self.believed()
        time.sleep(2.1)  # the clock of an S3 service has a resolution of a second
        at_once = Retention(quarantine=dt.timedelta(0), deaths=dt.timedelta(0))
        swept = sweep(self.store, grace=dt.timedelta(0), retention=at_once)
        self.counts["swept"] = len(swept.removed)
        for left in swept.left:
            self.violated(f"the sweep left {left.key}: {left.why}")
        if self.believed() != before:
            self.violated("the sweep removed something that was believed")
        again = sweep(self.store, grace=dt.timedelta(0), retention=at_once)
        for item in again.removed:
            self.violated(f"the first sweep overlooked {item.key}: {item.reason}")
        for text in debris(self.store):
            self.violated(text)

    def summary(self) -> dict[str, Any]:
        return {**dict(sorted(self.counts.items())), "configurations": len(self.references)}


def published(chain: Chain) -> dict[str, Any]:
    """The layers in a chain's output folder by name."""
    import geopandas as gpd

    readers = {".parquet": gpd.read_parquet, ".gpkg": gpd.read_file}
    paths = sorted(path for path in chain.path("out").iterdir() if path.suffix in readers)
    return {path.name: readers[path.suffix](path) for path in paths}


def debris(store: Any) -> Iterator[str]:
    """What lies in a store that nobody needs, or that cannot be read, in words."""
    named: set[str] = set()
    layers: set[str] = set()
    for info in store.objects.list(""):
        if info.key.startswith(keys.LAYERS):
            layers.add(info.key)
            continue
        data = store.objects.read(info.key).data
        if info.key.startswith(keys.CHECKPOINTS):
            print_ = info.key.rpartition("/")[2].removesuffix(".json")
            checkpoint = parse_record(data, print_)
            if store.get(print_) is None:
                yield f"{info.key} is not believed"
            elif checkpoint.layer is not None:
                named.add(checkpoint.layer.key)
                if len(store.load(checkpoint)) != checkpoint.facts.rows:
                    yield f"{info.key} counts other rows than its layer has"
        elif info.key.startswith((keys.TRACES, keys.PLANS)):
            json.loads(data)
        else:
            yield f"{info.key} is of no use"
    for key in sorted(layers ^ named):
        yield f"{key} is {'a layer that no record names' if key in layers else 'missing'}"
    root = getattr(store.objects, "root", None)
    if root is not None:
        for path in (root / ".tmp").glob("*"):
            yield f"{path} is a temporary file"


def soak(soaked: Soak, seed: int, runs: int, *, say: Any = lambda text: None) -> Soak:
    """Play a course to its end."""
    for event in course(seed, runs, on_s3=soaked.proxy is not None):
        soaked.play(event)
        if soaked.event % 20 == 0:
            say(f"{soaked.counts['runs']} runs, {len(soaked.violations)} violations")
    soaked.end()
    return soaked


@contextmanager
def surroundings(folder: Path, kind: str) -> Iterator[Soak]:
    """A Prefect server, a process that forks runs and a store, for as long as the context lasts."""
    from geocairn.flows import local_server

    os.environ |= {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name in ("PREFECT_API_URL", "GEOCAIRN_STORE"):
        os.environ.pop(name, None)
    (folder / "prefect").mkdir()
    with ExitStack() as stack:
        server, _ = local_server.launch()
        stack.callback(local_server.stop)
        runs = Runs({"PREFECT_API_URL": server.url})
        stack.callback(shutil.rmtree, runs.folder, ignore_errors=True)
        stack.callback(runs.stop)
        proxy = settings = None
        url = str(folder / "store")
        if kind == "s3":
            weed = S3Server(folder / "weed")
            stack.callback(weed.stop)
            weed.wait()
            proxy = FaultProxy("127.0.0.1", weed.port)
            stack.callback(proxy.stop)
            settings = S3Settings(
                endpoint=proxy.endpoint, region="us-east-1", access_key=ACCESS_KEY, secret_key=SECRET_KEY
            )
            weed.wait_for_writes(client(settings))
            client(settings).create_bucket(Bucket="soak")
            url = "s3://soak/store"
        local_server.wait_until_healthy(server, 180)
        soaked = Soak(folder / "work", runs, url, settings, proxy)
        stack.callback(soaked.patch.undo)
        yield soaked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="by default another each time; it is printed")
    parser.add_argument("--store", choices=("folder", "s3"), default="folder")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**31)
    started = time.monotonic()
    # A short path: SeaweedFS makes sockets in it.
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        with surroundings(folder, arguments.store) as soaked:
            soak(soaked, seed, arguments.runs, say=lambda text: print(text, file=sys.stderr))
            for text in soaked.violations:
                print(f"VIOLATION {text}")
            figures = ", ".join(f"{name} {count}" for name, count in soaked.summary().items())
            seconds = time.monotonic() - started
            print(
                f"soak: seed {seed}, store {arguments.store}, {seconds:.0f} s; {figures}; "
                f"violations {len(soaked.violations)}"
            )
            return 1 if soaked.violations else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
