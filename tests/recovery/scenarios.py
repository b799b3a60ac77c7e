"""The scenario matrix: class of failure × place in the chain × way of running × point of the fault.

`ALL` is every combination. `pairwise` chooses so many of them that each two values of two factors meet in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

CLASSES = ("transient", "capability", "input", "fatal")
PLACES = ("first", "middle", "last")
WAYS = ("run_chain", "calls", "submit", "dask")
POINTS = ("read", "compute", "gate", "layer", "record")
FACTORS = (CLASSES, PLACES, WAYS, POINTS)

STEPS = ("reproject", "buffer", "overlay", "clip", "dissolve")
"""The chain's steps by their operation, in order: each has its own."""
AT = {"first": "reproject", "middle": "overlay", "last": "dissolve"}

RETRIED = 2
"""How often a transient fault is met before it is gone; the budget is three retries."""

# What is done, by class and point: where three are given, one for each place. "answer" is what the proxy answers while
# the point lasts; the rest is explained in `fault_points`. What befalls a step at a store's points is of class
# capability where memory does not suffice to hold the layer that is read or written: the class decides there too, and
# the next backend reads, computes and writes in its own way. The gate by itself finds input failures only, and the
# store none but a source that is gone: the others are raised at their point.
FAULTS: dict[tuple[str, str], str | tuple[str, str, str]] = {
    ("transient", "read"): ("answer:503", "answer:cut", "answer:drop"),
    ("transient", "compute"): ("raise:reset", "raise:busy", "raise:time-out"),
    ("transient", "gate"): "raise:time-out",
    ("transient", "layer"): ("answer:503", "answer:drop", "answer:500"),
    ("transient", "record"): ("answer:429", "answer:503", "answer:drop"),
    ("capability", "read"): "raise:memory",
    ("capability", "compute"): ("raise:geos", "raise:memory", "raise:unable"),
    ("capability", "gate"): "raise:memory",
    ("capability", "layer"): "raise:memory",
    ("capability", "record"): "raise:memory",
    ("input", "read"): ("answer:404", "raise:column", "raise:column"),
    ("input", "compute"): ("raise:column", "raise:topology", "raise:topology"),
    ("input", "gate"): "spoil:infinite",
    ("input", "layer"): "raise:column",
    ("input", "record"): "raise:column",
    ("fatal", "read"): "answer:403",
    ("fatal", "compute"): ("raise:bug", "raise:bug", "raise:denied"),
    ("fatal", "gate"): ("raise:denied", "raise:bug", "raise:bug"),
    ("fatal", "layer"): ("answer:403", "raise:disk full", "answer:403"),
    ("fatal", "record"): "answer:403",
}

ACTIONS = {"transient": "retry", "capability": "reroute", "input": "replan", "fatal": "halt"}


@dataclass(frozen=True)
class Scenario:
    """One combination."""

    failure: str
    place: str
    way: str
    point: str

    def __str__(self) -> str:
        return f"{self.failure}-{self.place}-{self.way}-{self.point}"

    @property
    def operation(self) -> str:
        return AT[self.place]

    @property
    def fault(self) -> str:
        found = FAULTS[self.failure, self.point]
        return found if isinstance(found, str) else found[PLACES.index(self.place)]

    @property
    def recovers(self) -> bool:
        """Whether the run itself gets over it: a retry, or the next backend."""
        return self.failure in ("transient", "capability")

    def order(self, *, hook: bool = True) -> dict[str, Any]:
        """What the fault points are told."""
        return {
            "operation": self.operation,
            "point": self.point,
            "do": "window" if self.fault.startswith("answer:") else self.fault,
            "times": RETRIED if self.failure == "transient" else None,
            "backend": "geopandas" if self.failure == "capability" else None,
            "hook": hook,
        }

    # What it must come to

    @property
    def before(self) -> tuple[str, ...]:
        """The steps before the one that fails."""
        return STEPS[: STEPS.index(self.operation)]

    def executions(self) -> dict[str, int]:
        """How often each step's operation is called in all, the rerun included where one is needed."""
        found = dict.fromkeys(STEPS, 1)
        if self.point != "read":
            found[self.operation] += RETRIED if self.failure == "transient" else 1
        return found

    def executions_of_failed_run(self) -> dict[str, int]:
        """How often each step's operation is called in a run that the fault ends."""
        found = dict.fromkeys(self.before, 1)
        if self.point != "read":
            found[self.operation] = 1
        return found


ALL = [Scenario(*values) for values in product(*FACTORS)]


def pairs(values: Sequence[str]) -> set[tuple[Any, ...]]:
    """The pairs of factors' values that a combination covers."""
    return set(combinations(enumerate(values), 2))


def pairwise(factors: Sequence[Sequence[str]] = FACTORS) -> list[Scenario]:
    """Return a small choice of combinations that covers each pair of values of two factors, always the same one.

    Greedy: the next one is that which covers most of what is still missing.
    """
    rows = list(product(*factors))
    missing = set().union(*map(pairs, rows))
    chosen: list[tuple[str, ...]] = []
    while missing:
        best = max(rows, key=lambda row: (len(pairs(row) & missing), -rows.index(row)))
        chosen.append(best)
        missing -= pairs(best)
    return [Scenario(*row) for row in chosen]
