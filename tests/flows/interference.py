"""What a test does to a run from inside its process: write down what it does, kill it, slow it, fail it, and so on.

Each function is called in the process of the run before the command line starts, and puts something in the place of a
part of the product; the product knows nothing of it. `watch` is always on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

_current = threading.local()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _step() -> str:
    return str(getattr(_current, "step", ""))


def watch(log: str) -> None:
    """Write a line for each layer read, step computed, layer loaded from the store and output written."""
    from geocairn import execution, published, source_step
    from geocairn.stores.checkpoints import CheckpointStore

    def note(verb: str, name: str) -> None:
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{verb} {name}\n".encode())
        os.close(handle)

    computed, check, written = execution._computed, execution.check_inputs, published._written
    load, read_pinned, read_source = CheckpointStore.load, source_step.read_pinned, source_step.read_source
    in_batches = execution._in_batches

    def watched_compute(call: Any, run: Any, *rest: Any) -> Any:
        _current.step = call.settings.name
        return computed(call, run, *rest)

    def watched_check(*args: Any) -> None:
        note("compute", _step())  # its inputs are loaded now, and its operation is called next
        check(*args)

    def watched_batches(*args: Any) -> Any:
        note("compute", _step())
        return in_batches(*args)

    def watched_source(call: Any, run: Any, found: Any) -> Any:
        _current.step = call.settings.name
        return read_source(call, run, found)

    def watched_write(call: Any, run: Any, *rest: Any) -> Any:
        note("publish", call.settings.name)
        _current.step = call.settings.name
        return written(call, run, *rest)

    def watched_load(self: Any, checkpoint: Any, *rest: Any, **more: Any) -> Any:
        note("load", checkpoint.step)
        return load(self, checkpoint, *rest, **more)

    def watched_read(source: Any, *rest: Any) -> Any:
        note("read", Path(source.uri).name)
        return read_pinned(source, *rest)

    execution._computed, execution.check_inputs = watched_compute, watched_check
    execution._in_batches = watched_batches
    source_step.read_source = watched_source
    source_step.read_pinned = watched_read
    published._written = watched_write
    CheckpointStore.load = watched_load  # type: ignore[method-assign]


def kill_in_step(step: str) -> None:
    """Kill the process when the operation of a step (or the reading of a source) has ended, before the gate."""
    from geocairn import execution, source_step

    admit = execution.admit

    def deadly(*args: Any, **kwargs: Any) -> Any:
        if _step() == step:
            _die()
        return admit(*args, **kwargs)

    execution.admit = source_step.admit = deadly


def kill_at(stage: str, step: str = "") -> None:
    """Kill the process at a point of the commit of a step: see `geocairn.stores.checkpoints.stage`."""
    from geocairn.stores import checkpoints

    def deadly(name: str) -> None:
        if name == stage and step in ("", _step()):
            _die()

    checkpoints.stage = deadly


def kill_half_written(step: str) -> None:
    """Kill the process when half of a step's layer lies in its temporary file."""
    from geocairn.stores import layers

    write = layers.write_layer_file

    def deadly(layer: Any, path: Path) -> None:
        write(layer, path)
        if _step() == step:
            os.truncate(path, path.stat().st_size // 2)
            _die()

    layers.write_layer_file = deadly


def kill_before_sidecar() -> None:
    """Kill the process in a publication, when the data is in its place and the sidecar is not."""
    from geocairn.sources import publish

    if not hasattr(publish.os, "replace"):
        raise AssertionError("outputs are moved by another function now")
    replace = os.replace

    def deadly(source: Any, target: Any) -> None:
        if str(target).endswith(".lineage.json"):
            _die()
        replace(source, target)

    os.replace = deadly  # type: ignore[assignment]


def kill_before_s3_sidecar() -> None:
    """The same for an output on S3."""
    from boto3.s3.inject import upload_file

    def deadly(self: Any, Filename: str, Bucket: str, Key: str, **more: Any) -> Any:
        if Key.endswith(".lineage.json"):
            _die()
        return upload_file(self, Filename, Bucket, Key, **more)

    import boto3.s3.inject

    boto3.s3.inject.upload_file = deadly


def kill_after_output(output: str) -> None:
    """Kill the process when an output is whole in its place, before its record is committed."""
    from geocairn import published

    written = published._written

    def deadly(call: Any, *rest: Any) -> Any:
        result = written(call, *rest)
        if call.settings.name == output:
            _die()
        return result

    published._written = deadly


def slow_step(step: str, seconds: float) -> None:
    """Let the operation of a step take some time."""
    from geocairn import execution

    check = execution.check_inputs

    def slow(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        if _step() == step:
            time.sleep(seconds)

    execution.check_inputs = slow


def slow_operation(operation: str, seconds: float) -> None:
    """Let an operation take some time, which counts as its own."""
    from geocairn.operations.registry import operations

    chosen = operations[operation]
    function = chosen.function

    def slow(*args: Any, **kwargs: Any) -> Any:
        time.sleep(seconds)
        return function(*args, **kwargs)

    slow.__wrapped__ = function  # type: ignore[attr-defined]
    implementation = type(chosen).implementation

    def implementation_of(self: Any, backend: str) -> Any:
        return slow if self is chosen else implementation(self, backend)

    type(chosen).implementation = implementation_of  # type: ignore[method-assign]


def fail_step(step: str, error: str, times: int | None = None) -> None:
    """Let a step fail, each time or the first times: `error` is a class of `geocairn.failure`, or a built-in one."""
    import builtins

    from geocairn import execution, failure

    check = execution.check_inputs
    kind = getattr(failure, error, None) or getattr(builtins, error)
    left = [times if times is not None else -1]

    def failing(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        if _step() == step and left[0]:
            left[0] -= 1
            raise kind("this step was told to fail")

    execution.check_inputs = failing


def change_before_read(path: str, contents: list[str]) -> None:
    """Put the next of some other files in the place of a source right before each time that it is read."""
    import shutil

    from geocairn import source_step

    read, waiting = source_step.read_pinned, list(contents)

    def changing(source: Any, *rest: Any) -> Any:
        if Path(source.uri).name == Path(path).name and waiting:
            shutil.copyfile(waiting.pop(0), path)
        return read(source, *rest)

    source_step.read_pinned = changing


def lose_after_decision(keys: list[str]) -> None:
    """Remove files of a folder store when the plan was decided, as a sweep of another machine might."""
    from geocairn.flows import chain

    decide, waiting = chain.decide, list(keys)

    def losing(*args: Any, **kwargs: Any) -> Any:
        decision = decide(*args, **kwargs)
        while waiting:
            os.unlink(waiting.pop())
        return decision

    chain.decide = losing


def meet(folder: str, parties: int, point: str) -> None:
    """Let several runs wait for one another when they have decided (`decision`) or are about to commit (`commit`)."""
    from geocairn.flows import chain
    from geocairn.stores.checkpoints import CheckpointStore

    def wait() -> None:
        Path(folder, str(os.getpid())).touch()
        end = time.monotonic() + 20
        while len(os.listdir(folder)) < parties and time.monotonic() < end:
            time.sleep(0.01)

    if point == "decision":
        decide = chain.decide

        def deciding(*args: Any, **kwargs: Any) -> Any:
            decision = decide(*args, **kwargs)
            wait()
            return decision

        chain.decide = deciding
    else:
        store_record = CheckpointStore._store_record

        def storing(self: Any, *args: Any) -> Any:
            wait()
            return store_record(self, *args)

        CheckpointStore._store_record = storing  # type: ignore[method-assign]


def without_leases() -> None:
    """Let every run take every lease, as if its holder before had been slow and was taken for dead."""
    from geocairn import execution
    from geocairn.stores.leases import acquire

    def lease(store: Any, fingerprint: str, owner: Any, **_: Any) -> Any:
        import secrets

        return acquire(store.objects, secrets.token_hex(32), owner)

    execution.lease_or_result = lease


def memory_budget(size: int) -> None:
    """Set how many bytes of layers are handed over in memory."""
    from geocairn.tasks import runs

    runs._hand_over.budget = size


def quick_retries() -> None:
    """Let transient failures be tried again at once."""
    from geocairn.policy import RecoveryPolicy

    RecoveryPolicy.delay = lambda self, retries: 0.01  # type: ignore[method-assign]


def installed(folder: str) -> None:
    """Let the packages in a folder be installed, their entry points included."""
    import sys

    sys.path.insert(0, folder)
