"""Row by row on several cores: a function of the geometry engine, applied to an array in parts by threads.

The engine lets go of Python's lock while it works, so that threads are enough. A geometry that stands in two rows may
be in the hands of two threads, which is sound but for one thing: the engine finds the envelope of a collection when it
is first asked for, and keeps it. So envelopes are asked for before. Prepared geometries are not for this: what they
keep is found later. What always holds: the result is that of one call, row for row; a failure is the one that the first
part in order raises; a small array is not divided.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SMALLEST = 5_000
"""Rows below which a part is not worth a thread."""

_MOST = 8
"""More threads than this fight for memory more than they gain."""


_POOL_NAME = "geocairn-rows"


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def row_by_row(function: Callable[..., Any], values: Any, *others: Any, **options: Any) -> Any:
    """Return `function(values, *others, **options)`, computed in parts where that is faster.

    Parameters
    ----------
    function : of shapely: gives one value for each row, which depends on that row alone.
    values : an array, a row each.
    others : further arguments; arrays as long as `values` are divided with it, anything else goes to every part.
    """
    import numpy as np
    import shapely

    parts = min(cores(), _MOST, len(values) // SMALLEST)
    if parts < 2 or threading.current_thread().name.startswith(_POOL_NAME):  # a pool that waits for itself never ends
        return function(values, *others, **options)
    for given in (values, *others):
        if isinstance(given, np.ndarray) and given.dtype == object:
            shapely.bounds(given)
    edges = [len(values) * part // parts for part in range(parts + 1)]

    def part(begin: int, end: int) -> Any:
        cut = [
            other[begin:end] if isinstance(other, np.ndarray) and other.shape[:1] == (len(values),) else other
            for other in others
        ]
        return function(values[begin:end], *cut, **options)

    rest = [_pool().submit(part, begin, end) for begin, end in pairwise(edges[1:])]
    try:
        results = [part(edges[0], edges[1])]
    finally:
        ended = [future.exception() for future in rest]
    for error in ended:
        if error is not None:
            raise error
    return np.concatenate([*results, *(future.result() for future in rest)])


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(cores(), _MOST), thread_name_prefix=_POOL_NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pool without its threads
