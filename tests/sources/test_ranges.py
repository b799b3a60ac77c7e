from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geocairn.failure import SourceChanged
from geocairn.sources.ranges import TAIL, RangeFile

CONTENT = bytes(range(256)) * (2 * TAIL // 256 + 3)
PLACES = st.integers(0, len(CONTENT))


def remote(size: int = len(CONTENT)) -> tuple[RangeFile, list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def get(start: int, end: int) -> bytes:
        assert 0 <= start < end <= size, "no range outside the file, and none that is empty"
        asked.append((start, end))
        return CONTENT[start:end]

    return RangeFile(size, get), asked


@given(
    st.lists(st.tuples(PLACES, PLACES)),
    st.lists(st.tuples(PLACES, st.integers(-1, len(CONTENT)))),
    st.integers(0, len(CONTENT)),
)
def test_it_reads_as_the_file_itself(ranges: list[tuple[int, int]], reads: list[tuple[int, int]], size: int) -> None:
    file, _ = remote(size)
    plain = io.BytesIO(CONTENT[:size])
    held = [(min(one, other, size), min(max(one, other), size)) for one, other in ranges]
    with file.holding([(start, end) for start, end in held if start < end]):
        for place, count in reads:
            assert file.seek(place) == plain.seek(place)
            assert file.read(count) == plain.read(count)
            assert file.tell() == plain.tell()
    plain.seek(0)
    file.seek(0)
    assert file.read() == plain.read()


def test_the_end_is_fetched_once() -> None:
    file, asked = remote()
    for place in (-8, -100, -TAIL, -TAIL - 500, -TAIL - 300):
        file.seek(place, io.SEEK_END)
        file.read(-place)
    assert asked == [(len(CONTENT) - TAIL, len(CONTENT)), (len(CONTENT) - TAIL - 500, len(CONTENT) - TAIL)]


def test_ranges_that_lie_close_are_one_request_and_are_forgotten_afterwards() -> None:
    file, asked = remote()
    with file.holding([(0, 10), (5000, 6000), (40_000, 40_100)]):
        assert sorted(asked) == [(0, 6000), (40_000, 40_100)]
        asked.clear()
        file.seek(5500)
        assert file.read(100) == CONTENT[5500:5600]
        assert asked == []
    file.seek(5500)
    file.read(100)
    assert asked == [(5500, 5600)]


def test_what_the_fetching_raises_is_raised() -> None:
    def get(start: int, end: int) -> bytes:
        raise SourceChanged("changed")

    file = RangeFile(10, get)
    with pytest.raises(SourceChanged):
        file.read(1)
    with pytest.raises(SourceChanged), file.holding([(0, 1)]):
        pass
