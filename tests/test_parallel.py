"""Row by row on several cores: the same as one call."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import shapely

from geocairn import parallel
from geocairn.parallel import row_by_row


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 4)
    monkeypatch.setattr(parallel, "SMALLEST", 10)
    parallel._pool.cache_clear()
    yield
    parallel._pool.cache_clear()


@pytest.mark.parametrize("rows", [0, 1, 19, 20, 101])
def test_it_gives_what_one_call_gives(rows):
    places = shapely.points(np.arange(rows), np.arange(rows))
    places[3:5] = None
    distances = np.arange(rows) / 7
    found = row_by_row(shapely.buffer, places, distances, quad_segs=2)
    assert shapely.equals_identical(found, shapely.buffer(places, distances, quad_segs=2)).sum() == rows - len(
        places[3:5]
    )
    assert (shapely.is_missing(found) == shapely.is_missing(places)).all()
    assert row_by_row(shapely.bounds, places).shape == (rows, 4)


def test_it_uses_several_threads():
    seen = set()

    def note(values):
        seen.add(threading.get_ident())
        meeting.wait(10)  # nobody goes on before four are here
        return values

    meeting = threading.Barrier(4)
    assert (row_by_row(note, np.arange(40)) == np.arange(40)).all()
    assert len(seen) == 4


def test_the_first_failure_in_order_is_raised_and_nothing_goes_on_behind_it():
    running = []

    def failing(values):
        running.append(1)
        try:
            raise ValueError(f"row {values[0]}")
        finally:
            running.pop()

    with pytest.raises(ValueError, match=r"^row 0$"):
        row_by_row(failing, np.arange(40))
    assert not running

    def late(values):
        if values[0]:
            raise ValueError(f"row {values[0]}")
        return values

    with pytest.raises(ValueError, match=r"^row 10$"):
        row_by_row(late, np.arange(40))


def test_calls_within_calls_end():
    """A function that divides its part again, in threads of the same pool."""

    def inner(values):
        return row_by_row(np.negative, values)

    def outer(values):
        return row_by_row(inner, values)

    done = threading.Event()
    results = []

    def run():
        results.append(row_by_row(outer, np.arange(400)))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(20)
    assert (results[0] == -np.arange(400)).all()


def test_a_forked_process_has_a_pool_of_its_own():
    row_by_row(np.negative, np.arange(40))
    child = os.fork()
    if not child:
        os._exit(0 if (row_by_row(np.negative, np.arange(40)) == -np.arange(40)).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
