"""What the tests of stores put into them, and what other processes do to them."""

from __future__ import annotations

import hashlib
import os
import signal
import textwrap
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

from geocairn.checkpoint import Checkpoint, LayerFacts
from geocairn.s3 import S3Settings
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.objects import Conflict
from geocairn.stores.opening import open_store

# A server forks the processes that take part, with everything loaded: starting each from nothing takes seconds.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["geopandas", "pyarrow.parquet", "boto3.s3.transfer", "geocairn.stores.layers"])


def fingerprint(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def checkpoint(name: object, **changes: Any) -> Checkpoint:
    """A step's record as it is before the commit."""
    made = Checkpoint(
        fingerprint=fingerprint(name),
        kind="step",
        operation="buffer",
        version="1",
        parameters={"distance": 10.0},
        inputs={"layer": fingerprint("input")},
        facts=LayerFacts(rows=3, columns={"n": "int64"}, geometry_types=["Point"]),
        step=str(name),
        backend="geopandas",
    )
    return made.replaced(**changes)


def layer(number: int = 0) -> Any:
    import geopandas
    import shapely

    return geopandas.GeoDataFrame(
        {"n": [number, 1, 2]}, geometry=shapely.points([[0, 0], [1, 1], [2, number]]), crs="EPSG:3857"
    )


def keys_under(store: CheckpointStore, prefix: str) -> list[str]:
    return [info.key for info in store.objects.list(prefix)]


def overwrite(store: CheckpointStore, key: str, data: bytes) -> None:
    """Change an object behind the store's back, as a person or a faulty disk would."""
    store.objects.write(key, data)


# What several processes do at once. Each gets its own store object.


def put_if_absent(url: str, settings: S3Settings | None, key: str, data: bytes) -> bool:
    try:
        open_store(url, settings=settings).objects.write(key, data, if_absent=True)
    except Conflict:
        return False
    return True


def replace_tag(url: str, settings: S3Settings | None, key: str, data: bytes, tag: str) -> bool:
    try:
        open_store(url, settings=settings).objects.write(key, data, if_tag=tag)
    except Conflict:
        return False
    return True


def increment(url: str, settings: S3Settings | None, key: str, times: int) -> None:
    """Count up by compare and replace."""
    objects = open_store(url, settings=settings).objects
    done = 0
    while done < times:
        stored = objects.read(key)
        assert stored is not None
        try:
            objects.write(key, str(int(stored.data) + 1).encode(), if_tag=stored.tag)
            done += 1
        except Conflict:
            continue


def commit_number(url: str, settings: S3Settings | None, name: str, number: int) -> tuple[str, str]:
    """Commit as one of several; return the key of the layer that won and the content digest."""
    store = open_store(url, settings=settings)
    made = store.commit(checkpoint(name), layer(number))
    assert made.layer is not None
    return made.layer.key, made.layer.sha256


def replace_number(url: str, settings: S3Settings | None, name: str, number: int) -> str:
    """Look up, find it not believed, and commit over it, as one of several."""
    store = open_store(url, settings=settings)
    seen = store.look_up(fingerprint(name))
    made = seen.checkpoint or store.commit(checkpoint(name), layer(number), replace=seen)
    assert made.layer is not None
    return made.layer.key


def in_processes(work: Any, *calls: tuple[Any, ...]) -> list[Any]:
    """Do it in one process for each call, all at once."""
    barrier = PROCESSES.Barrier(len(calls))
    with ProcessPoolExecutor(len(calls), mp_context=PROCESSES, initializer=_meet, initargs=(barrier,)) as pool:
        return [future.result() for future in [pool.submit(work, *call) for call in calls]]


def _meet(barrier: Any) -> None:
    barrier.wait(30)


def in_threads(work: Any, *calls: tuple[Any, ...]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(work, *call) for call in calls]]


class Script:
    """Python code that runs in another process, with `store` open; `ready()` in it tells that it got so far."""

    def __init__(self, body: str, url: str, settings: S3Settings | None) -> None:
        self._ready = PROCESSES.Event()
        self.process = PROCESSES.Process(target=_run, args=(textwrap.dedent(body), url, settings, self._ready))
        self.process.start()

    def wait(self) -> int | None:
        """Wait for its end and return its exit code; minus nine for one that was killed."""
        self.process.join(60)
        return self.process.exitcode

    def wait_until_ready(self) -> None:
        assert self._ready.wait(60), "the other process did not get ready"

    def kill(self) -> None:
        self.process.kill()
        self.process.join(10)


def _run(body: str, url: str, settings: S3Settings | None, ready: Any) -> None:
    names = {**globals(), "store": open_store(url, settings=settings), "ready": ready.set, "os": os, "signal": signal}
    exec(compile(body, "script", "exec"), names)
