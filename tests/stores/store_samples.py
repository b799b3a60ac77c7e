"""What the tests of stores put into them, and what other processes do to them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from geocairn.checkpoint import Checkpoint, LayerFacts
from geocairn.s3 import S3Settings
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.objects import Conflict
from geocairn.stores.opening import open_store


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
    made = store.commit(checkpoint(name), layer(number), replace=store.look_up(fingerprint(name)))
    assert made.layer is not None
    return made.layer.key


def in_processes(work: Any, *calls: tuple[Any, ...]) -> list[Any]:
    with ProcessPoolExecutor(len(calls), mp_context=get_context("spawn")) as pool:
        return [future.result() for future in [pool.submit(work, *call) for call in calls]]


def in_threads(work: Any, *calls: tuple[Any, ...]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(work, *call) for call in calls]]


def script(body: str, url: str, settings: S3Settings | None, *, wait: bool = True) -> subprocess.Popen[str]:
    """Run Python code in another process, with `store` open. Without `wait` return once it has said `ready`."""
    made = (
        "S3Settings(**json.loads(sys.argv[2]))" if settings is not None else "None"
    )
    code = (
        "import json, os, signal, sys, time\n"
        "from geocairn.s3 import S3Settings\n"
        "from geocairn.stores.opening import open_store\n"
        "from store_samples import *\n"
        f"store = open_store(sys.argv[1], settings={made})\n" + textwrap.dedent(body)
    )
    stated = "{}"
    if settings is not None:
        stated = settings.model_copy(update={"secret_key": None}).model_dump_json()[:-1]
        stated = stated.replace('"secret_key":null', f'"secret_key":"{settings.secret_key.get_secret_value()}"') + "}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, url, stated],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    if wait:
        process.wait(60)
        process.stdout.close()
    else:
        said = process.stdout.readline()
        assert said == "ready\n", said
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
