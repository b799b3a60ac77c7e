"""A file that lies elsewhere, read by ranges: only the bytes that are looked at are fetched.

What always holds: a read gives exactly the bytes asked for, or the failure of whoever fetches them. The end of the
file, where formats keep their directory, is fetched once. What is known to be wanted is fetched in few requests, some
of them side by side; everything else is fetched as it is read.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TAIL = 1 << 16
"""Bytes at the end that are kept: most footers of Parquet, and the whole of a small file."""
_HOLE = 1 << 13
"""Bytes between two ranges that are fetched with them, rather than by another request."""
_LONGEST = 1 << 25
"""Bytes of one request, about: longer ones would keep others waiting."""
_AT_ONCE = 8


class RangeFile(io.RawIOBase):
    """A binary file that can seek.

    Parameters
    ----------
    size : of the whole file, in bytes.
    get : returns the bytes from the first place up to the second, that one excluded.
    """

    def __init__(self, size: int, get: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._get = get
        self._place = 0
        self._kept_from = size
        self._kept = b""
        self._wanted: dict[int, bytes] = {}
        self._starts: list[int] = []

    @contextmanager
    def holding(self, ranges: Iterable[tuple[int, int]]) -> Iterator[None]:
        """Fetch these ranges (start, and end that is not in them) now, and keep them for what is read meanwhile."""
        joined = list(_joined((start, min(end, self._kept_from)) for start, end in ranges if start < self._kept_from))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self._get, *zip(*joined, strict=True))) if joined else []
        self._wanted = {start: content for (start, _), content in zip(joined, found, strict=True)}
        self._starts = sorted(self._wanted)
        try:
            yield
        finally:
            self._wanted, self._starts = {}, []

    def readable(self) -> bool:
        """Whether it can be read: it can."""
        return True

    def seekable(self) -> bool:
        """Whether any place can be gone to: it can."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte that is read."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, from the start, from here or from the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer from here on, as far as the file goes."""
        view = memoryview(buffer).cast("B")
        found = self.read(len(view))
        view[: len(found)] = found
        return len(found)

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes from here on, fewer only at the end of the file."""
        end = self._size if size is None or size < 0 else min(self._place + size, self._size)
        if end <= self._place:
            return b""
        found = self._bytes(self._place, end)
        self._place = end
        return found

    def readall(self) -> bytes:
        """Return all bytes from here on."""
        return self.read()

    def _bytes(self, start: int, end: int) -> bytes:
        place = bisect_right(self._starts, start) - 1
        if place >= 0:
            first = self._starts[place]
            if end <= first + len(self._wanted[first]):
                return self._wanted[first][start - first : end - first]
        if start >= self._kept_from:
            return self._kept[start - self._kept_from : end - self._kept_from]
        if end == self._size and start >= self._size - TAIL:
            start_of_tail = max(0, self._size - TAIL)
            self._kept, self._kept_from = self._get(start_of_tail, self._size), start_of_tail
            return self._kept[start - start_of_tail :]
        if end > self._kept_from:  # the rest of a longer footer, which is looked at again
            self._kept, self._kept_from = self._get(start, self._kept_from) + self._kept, start
            return self._kept[: end - start]
        return self._get(start, end)


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join ranges that lie close together, as far as the requests stay short."""
    current: tuple[int, int] | None = None
    for start, end in sorted(ranges):
        if current is not None and start - current[1] <= _HOLE and end - current[0] <= _LONGEST:
            current = current[0], max(current[1], end)
            continue
        if current is not None:
            yield current
        current = start, end
    if current is not None:
        yield current
