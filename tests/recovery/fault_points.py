"""Points in the life of a step where a fault is put, in whatever process the step runs.

`install` puts a shim at each point of this process; a Dask worker is told to do the same. What to do there stands in
a file of a folder that all processes share, so that a test arms a fault by writing it and heals it by removing it. The
same folder counts what was computed, and how often the fault was met.

A fault is *raised* at its point, or *spoils* the layer that the operation gave, or opens a *window*: while a window is
open, the fault proxy before the S3 server refuses the requests that the test has named.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POINTS = ("read", "compute", "gate", "layer", "record")
"""Reading the inputs, computing, the gate, writing the layer, writing the record."""

ORDERED = "ordered.json"
CALLS = "calls"
MET = "met"
WINDOW = "window"

_current = threading.local()
_counting = threading.Lock()


def raised(name: str) -> BaseException:
    """Return the exception that an order names, made as the library itself makes it."""
    from shapely.errors import GEOSException

    from geocairn.failure import CapabilityFailure, InputFailure, TransientFailure

    made: dict[str, Callable[[], BaseException]] = {
        "reset": lambda: ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        "time-out": lambda: TimeoutError("timed out"),
        "busy": lambda: TransientFailure("the service is busy", remedy="wait"),
        "memory": lambda: MemoryError("cannot allocate 8.0 GiB"),
        "geos": lambda: GEOSException("AssertionFailedException: should never reach here"),
        "unable": lambda: CapabilityFailure("this engine cannot take it"),
        "topology": lambda: GEOSException("TopologyException: side location conflict at 500000 5500000"),
        "column": lambda: InputFailure("there is no column 'zone'", remedy="name one that there is"),
        "disk full": lambda: OSError(errno.ENOSPC, "No space left on device"),
        "denied": lambda: PermissionError(errno.EACCES, "Permission denied"),
        "bug": lambda: LookupError("nobody knows this"),
    }
    return made[name]()


def spoilt(layer: Any) -> Any:
    """Return a layer that is unsound: its first geometry lies nowhere."""
    import shapely

    layer = layer.copy()
    shapes = layer.geometry.to_numpy().copy()
    shapes[0] = shapely.transform(shapes[0], lambda places: places * float("inf"))
    return layer.set_geometry(shapes, crs=layer.crs)


class FaultPoints:
    """The shims of this process, and the folder of their orders."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def order(self) -> dict[str, Any]:
        """What is to be done: see `scenarios.Scenario.order`; nothing where no order was given."""
        try:
            found: dict[str, Any] = json.loads((self.folder / ORDERED).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def note(self, name: str, text: str) -> int:
        """Add a line to a file that all processes share, and return how many lines it has."""
        with _counting:
            handle = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{text}\n".encode())
            os.close(handle)
        return len((self.folder / name).read_bytes().splitlines())

    @contextmanager
    def at(self, point: str, operation: str) -> Iterator[str]:
        """Do what was ordered for this point of this operation; yields how a result is to be spoilt, or nothing."""
        order = self.order()
        here = (order.get("point"), order.get("operation")) == (point, operation)
        on_backend = order.get("backend") in (None, getattr(_current, "backend", None))
        if not here or not on_backend:
            yield ""
            return
        times, do = order.get("times"), str(order["do"])
        if self.note(MET, f"{point} {operation}") > (times if times is not None else 10**9):
            yield ""
            return
        kind, _, name = do.partition(":")
        if kind == "raise":
            raise raised(name)
        if kind == "spoil":
            yield name
            return
        window = self.folder / WINDOW
        window.touch()
        try:
            yield ""
        finally:
            window.unlink()


def install(folder: str) -> Callable[[], None]:
    """Put the shims in this process, and return what takes them away again."""
    from geocairn import execution, source_step
    from geocairn.operations.contract import Operation
    from geocairn.policy import RecoveryPolicy
    from geocairn.stores.checkpoints import CheckpointStore
    from geocairn.tasks import runs
    from geocairn.tasks.step import StepTask

    points = FaultPoints(folder)
    computed, loaded, admit = execution._computed, execution._loaded, execution.admit
    read_source, in_batches = source_step.read_source, execution._in_batches
    implementation, task_init = Operation.implementation, StepTask.__init__
    store_layer, store_record = CheckpointStore._store_layer, CheckpointStore._store_record

    def count(operation: str, backend: str) -> None:
        if not getattr(_current, "counted", True):
            _current.counted = True  # an attempt is counted once, in however many parts it computes
            points.note(CALLS, f"{operation} {backend} {os.getpid()}")

    def computing(call: Any, *rest: Any) -> Any:
        _current.operation, _current.backend, _current.counted = call.operation.name, call.backend, False
        return computed(call, *rest)

    def computing_in_batches(call: Any, *rest: Any) -> Any:
        count(call.operation.name, call.backend)
        return in_batches(call, *rest)

    def reading_source(call: Any, *rest: Any) -> Any:
        _current.operation, _current.backend = call.operation.name, call.backend
        return read_source(call, *rest)

    def loading(call: Any, *rest: Any) -> Any:
        with points.at("read", call.operation.name):
            return loaded(call, *rest)

    def implementing(self: Any, backend: str = "geopandas") -> Any:
        function = implementation(self, backend)

        def counted(*args: Any, **kwargs: Any) -> Any:
            count(self.name, backend)
            with points.at("compute", self.name):
                layer = function(*args, **kwargs)
            if str(points.order().get("do")).startswith("spoil:"):
                with points.at("gate", self.name) as how:
                    return spoilt(layer) if how else layer
            return layer

        return counted

    def gating(*args: Any, **kwargs: Any) -> Any:
        if str(points.order().get("do")).startswith("raise:"):
            with points.at("gate", getattr(_current, "operation", "")):
                pass
        return admit(*args, **kwargs)

    def storing_layer(self: Any, *args: Any, **kwargs: Any) -> Any:
        with points.at("layer", getattr(_current, "operation", "")):
            return store_layer(self, *args, **kwargs)

    def storing_record(self: Any, place: Any, checkpoint: Any, *rest: Any, **kwargs: Any) -> Any:
        with points.at("record", checkpoint.operation):
            return store_record(self, place, checkpoint, *rest, **kwargs)

    def without_hook(self: Any, *args: Any, **kwargs: Any) -> None:
        task_init(self, *args, **kwargs)
        hook = self.retry_condition_fn
        self.retry_condition_fn = lambda task, task_run, state: (
            points.order().get("hook", True) and hook(task, task_run, state)
        )

    undo = [
        _put(execution, "_computed", computing),
        _put(execution, "_in_batches", computing_in_batches),
        _put(source_step, "read_source", reading_source),
        _put(execution, "_loaded", loading),
        _put(execution, "admit", gating),
        _put(Operation, "implementation", implementing),
        _put(CheckpointStore, "_store_layer", storing_layer),
        _put(CheckpointStore, "_store_record", storing_record),
        _put(StepTask, "__init__", without_hook),
        _put(RecoveryPolicy, "delay", short_delay),
        _put(runs._hand_over, "budget", 0),  # so that inputs are read from the store
    ]

    def remove() -> None:
        for one in reversed(undo):
            one()

    return remove


def short_delay(policy: Any, retries: int) -> float:
    """Stand in for `RecoveryPolicy.delay`: retries come after a few milliseconds."""
    return 0.01


def install_in_worker(folder: str) -> None:
    """Put the shims in a worker process of a cluster, for as long as it lives."""
    install(folder)


def _put(owner: Any, name: str, value: Any) -> Callable[[], None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)
