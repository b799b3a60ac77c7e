"""Waiting for another run that computes the same fingerprint, and adopting what it made.

What always holds: whoever is given the lease has looked for the checkpoint again after taking it, so that nothing is
computed that was committed in between.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from geocairn.checkpoint import Checkpoint
from geocairn.failure import TransientFailure
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.leases import INTERVAL, MEMORY, TTL, Busy, Held, acquire

FIRST_PAUSE = 0.1
"""Seconds before the first new look; each pause is half as long again as the one before."""

LONGEST_PAUSE = 3.0


def lease_or_result(
    store: CheckpointStore,
    fingerprint: str,
    owner: dict[str, Any],
    *,
    waits_for: Callable[[Busy], None] | None = None,
    timeout: float | None = None,
    cancelled: threading.Event | None = None,
    run_id: str | None = None,
    interval: float = INTERVAL,
    ttl: float = TTL,
    memory: float = MEMORY,
) -> Held | Checkpoint:
    """Return the checkpoint of a fingerprint once somebody has made it, or the lease to make it.

    Parameters
    ----------
    owner : who asks; see `leases.owner`.
    waits_for : told for whom it waits, once for each holder.
    timeout : seconds after which waiting ends with a transient failure.
    cancelled : ends the waiting, with a transient failure, when it is set.
    memory : seconds after the last death of a holder when all are forgotten.
    run_id : also accept a layer that is kept for this run alone.

    Raises
    ------
    TransientFailure : when the time is up or waiting was cancelled.
    Failure : of its class, where the store refuses or does not answer.
    """
    end = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE
    told: tuple[Any, ...] | None = None
    while True:
        lease = acquire(store.objects, fingerprint, owner, interval=interval, ttl=ttl, memory=memory)
        if isinstance(lease, Held):
            try:
                found = _present(store, fingerprint, run_id)
            except BaseException:
                lease.release()
                raise
            if found is None:
                return lease
            lease.release()
            return found
        found = _present(store, fingerprint, run_id)
        if found is not None:
            return found
        holder = (lease.owner.get("run_id"), lease.owner.get("host"), lease.owner.get("pid"), lease.acquired)
        if holder != told and waits_for is not None:
            waits_for(lease)
        told = holder
        if end is not None and time.monotonic() >= end:
            raise TransientFailure(f"waited {timeout:g} s: {lease}", where=fingerprint, remedy="try again later")
        rest = pause * random.uniform(0.7, 1.3)  # noqa: S311 - to keep waiters apart, not for secrecy
        if end is not None:
            rest = min(rest, max(0.0, end - time.monotonic()))
        if cancelled is None:
            time.sleep(rest)
        elif cancelled.wait(rest):
            raise TransientFailure("waiting was cancelled", where=fingerprint)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _present(store: CheckpointStore, fingerprint: str, run_id: str | None) -> Checkpoint | None:
    found = store.get(fingerprint)
    if found is None and run_id is not None:
        found = store.get_run_layer(run_id, fingerprint)
    return found
