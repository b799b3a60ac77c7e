"""One scenario of the matrix, from an empty store to the end: the fault, the run, the rerun, and what must be true."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import fault_points
import matrix_chain
from fault_proxy import FaultProxy
from layer_equality import differences
from matrix_chain import Ended
from scenarios import STEPS, Scenario

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.s3 import S3Settings, client
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.keys import LEASES, QUARANTINE, RUNS, SHARED
from geocairn.tasks.runs import remove_what_ended

BUCKET = "matrix"
_INPUT = {"overlay": "buffer", "dissolve": "clip"}
"""The step whose layer a step reads from the store."""


@dataclass
class Reference:
    """What an uninterrupted run gives."""

    layer: Any
    fingerprints: dict[str, str]


@dataclass
class Matrix:
    """What all scenarios share: a bucket behind the proxy, the sources, and the uninterrupted run."""

    proxy: FaultProxy
    settings: S3Settings
    faults: Path
    folder: Path
    dask_runner: Any = None
    count: int = field(default=0)

    def __post_init__(self) -> None:
        towns = matrix_chain.make_sources(self.folder)
        s3 = client(self.settings)
        s3.create_bucket(Bucket=BUCKET)
        s3.upload_file(str(towns), BUCKET, "sources/towns.geojson")
        self.sources = {
            "towns": f"s3://{BUCKET}/sources/towns.geojson",
            "parcels": str(self.folder / "parcels.gpkg"),
            "districts": str(self.folder / "districts.gpkg"),
        }

    def new_block(self) -> CheckpointStoreBlock:
        """An empty store."""
        self.count += 1
        stated = {name: getattr(self.settings, name) for name in ("endpoint", "region", "access_key", "secret_key")}
        reads = [f"s3://{BUCKET}/sources", str(self.folder)]
        return CheckpointStoreBlock(url=f"s3://{BUCKET}/store/{self.count}", may_read=reads, **stated)

    @cached_property
    def reference(self) -> Reference:
        """The uninterrupted run."""
        self.heal()
        block = self.new_block()
        ended = matrix_chain.run("run_chain", self.sources, block)
        assert ended.answer is not None
        assert ended.result is not None
        assert self.executions() == dict.fromkeys(STEPS, 1)
        layer = block.store.load(ended.result)
        assert len(layer) == 3  # a row for each zone: not a comparison of nothing with nothing
        return Reference(layer, {entry["name"]: entry["fingerprint"] for entry in ended.answer["steps"]})

    # Faults

    def arm(self, scenario: Scenario, *, hook: bool = True) -> None:
        """Put the fault of a scenario in its place."""
        window = self.faults / fault_points.WINDOW
        if scenario.fault.startswith("answer:"):
            what = scenario.fault.removeprefix("answer:")
            rule: dict[str, Any] = {"status": int(what)} if what.isdecimal() else {"action": what}
            self.proxy.fail(only_while=window, **rule, **self._requests(scenario))
        (self.faults / fault_points.ORDERED).write_text(json.dumps(scenario.order(hook=hook)), "utf-8")

    def _requests(self, scenario: Scenario) -> dict[str, str]:
        """The requests by which a step reads its input, or writes its layer or record."""
        prints = self.reference.fingerprints
        own = prints[scenario.operation]
        if scenario.point == "layer":
            return {"method": "PUT|POST", "path": f"/{SHARED.layers(own)}"}
        if scenario.point == "record":
            return {"method": "PUT", "path": f"/{SHARED.record(own)}"}
        source = _INPUT.get(scenario.operation)
        where = SHARED.layers(prints[source]) if source is not None else "sources/towns"
        return {"method": "GET" if source is not None else "GET|HEAD", "path": f"/{where}"}

    def heal(self) -> None:
        """Take every fault away, and forget what was counted."""
        self.proxy.heal()
        for name in (fault_points.ORDERED, fault_points.CALLS, fault_points.MET, fault_points.WINDOW):
            (self.faults / name).unlink(missing_ok=True)

    def mend(self) -> None:
        """Take the fault away; what was counted stays."""
        self.proxy.heal()
        (self.faults / fault_points.ORDERED).unlink()

    # What happened

    def lines(self, name: str) -> list[str]:
        path = self.faults / name
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def executions(self) -> dict[str, int]:
        """How often the operation of each step was called, in any process."""
        return dict(Counter(line.split()[0] for line in self.lines(fault_points.CALLS)))

    def backends(self, operation: str) -> list[str]:
        """The backends on which an operation was called, in order."""
        return [line.split()[1] for line in self.lines(fault_points.CALLS) if line.split()[0] == operation]

    def run(self, scenario: Scenario, block: CheckpointStoreBlock) -> Ended:
        return matrix_chain.run(scenario.way, self.sources, block, self.dask_runner)


def play(matrix: Matrix, scenario: Scenario) -> None:
    """Play a scenario, and hold everything against what it must come to."""
    reference = matrix.reference
    matrix.heal()
    block = matrix.new_block()
    matrix.arm(scenario)
    asked = len(matrix.proxy.requests)
    first = matrix.run(scenario, block)

    met = matrix.lines(fault_points.MET)
    assert set(met) == {f"{scenario.point} {scenario.operation}"}, "the fault was not met"
    if scenario.fault.startswith("answer:"):
        assert sum(rule.fired for rule in matrix.proxy.rules) > 0, "the proxy refused nothing"
    last = first
    if scenario.recovers:
        assert_recovered(matrix, scenario, first)
        matrix.mend()
    else:
        assert_ended(matrix, scenario, first, block.store)
        kept = records(block.store)
        matrix.mend()
        last = matrix.run(scenario, block)
        now = records(block.store)
        assert {name: now[name] for name in kept} == kept, "a checkpoint from before the failure was written again"
    assert last.failure_class is None, f"{last.failure_class}: {last.answer}"

    assert matrix.executions() == scenario.executions()
    assert last.result is not None
    assert differences(block.store.load(last.result), reference.layer) == []
    assert_untouched(matrix, scenario, matrix.proxy.requests[asked:])
    assert_sound(block.store, set(reference.fingerprints.values()))


def assert_recovered(matrix: Matrix, scenario: Scenario, ended: Ended) -> None:
    """The run got over it by itself, in the way that the class deserves, and says so where it says anything."""
    assert ended.failure_class is None, f"it ended as {ended.failure_class}: {ended.answer}"
    reached = 0 if scenario.point == "read" else 1
    if scenario.failure == "transient":
        backends = ["geopandas"] * (1 + reached * 2)
    else:
        backends = ["geopandas"] * reached + ["duckdb"]
    assert matrix.backends(scenario.operation) == backends
    if ended.answer is None:
        return
    attempts = {entry["name"]: entry["attempts"] for entry in ended.answer["steps"]}
    times = len(matrix.lines(fault_points.MET)) if scenario.failure == "capability" else 2
    assert [attempt["class"] for attempt in attempts.pop(scenario.operation)] == [scenario.failure] * times
    assert not any(attempts.values())
    assert ended.answer["status"] == "completed"
    assert ended.answer["caveats"] == []  # what changed nothing is not told to the reader


def assert_ended(matrix: Matrix, scenario: Scenario, ended: Ended, store: CheckpointStore) -> None:
    """The run ended with class and action, at once, and kept what came before."""
    from scenarios import ACTIONS

    assert (ended.failure_class, ended.action) == (scenario.failure, ACTIONS[scenario.failure])
    assert matrix.executions() == scenario.executions_of_failed_run()
    prints = matrix.reference.fingerprints
    there = {name for name, found in prints.items() if store.get(found) is not None}
    assert there == set(scenario.before)
    if ended.answer is not None:
        failure = ended.answer["failure"]
        assert failure["step"] == scenario.operation
        good = [(entry["step"], entry["fingerprint"]) for entry in failure["last_good"]]
        assert good == [(name, prints[name]) for name in scenario.before[-1:]]


def records(store: CheckpointStore) -> dict[str, bytes]:
    """The records of a store as they lie there."""
    found = {}
    for info in store.objects.list("checkpoints/"):
        stored = store.objects.read(info.key)
        assert stored is not None
        found[info.key] = stored.data
    return found


def assert_untouched(matrix: Matrix, scenario: Scenario, requests: list[tuple[str, str]]) -> None:
    """Each earlier step's record was written once, and nothing of it was deleted."""
    for name in scenario.before:
        print_ = matrix.reference.fingerprints[name]
        written = [path for method, path in requests if method == "PUT" and SHARED.record(print_) in path]
        deleted = [path for method, path in requests if method == "DELETE" and f"/{SHARED.layers(print_)}" in path]
        removed = [path for method, path in requests if method == "DELETE" and SHARED.record(print_) in path]
        assert (len(written), deleted, removed) == (1, [], []), name


def assert_sound(store: CheckpointStore, expected: set[str]) -> None:
    """All steps are there, whatever is believed can be read whole, and nobody holds or waits for anything."""
    believed: set[str] = set()
    for key in records(store):
        print_ = key.rpartition("/")[2].removesuffix(".json")
        checkpoint: Checkpoint | None = store.get(print_)
        assert checkpoint is not None, f"a record that is not believed: {key}"
        if checkpoint.kind == "step":
            assert len(store.load(checkpoint)) == checkpoint.facts.rows
            believed.add(print_)
    assert believed == expected
    assert [info.key for info in store.objects.list(LEASES)] == []
    assert [info.key for info in store.objects.list(QUARANTINE)] == []
    remove_what_ended(everything=True)
    assert [info.key for info in store.objects.list(RUNS)] == []
