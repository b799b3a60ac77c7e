"""What goes first when a store is over its size budget, and how such a budget is written.

What always holds: the order depends on the records alone, so that a dry run and the real one choose alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from geocairn.failure import InputFailure
from geocairn.stores.sweep.view import RecordSeen

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGTP]?)(i?)B?\Z")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_HOUR = 3600.0


def least_valuable(records: Iterable[RecordSeen], sizes: Mapping[str, int]) -> list[RecordSeen]:
    """Return checkpoints in the order in which they go.

    Those that expire soonest go first; of those that expire in the same hour, the larger ones, so that fewer go.

    Parameters
    ----------
    records : records that have a layer and expire.
    sizes : bytes of layers by key.
    """

    def order(record: RecordSeen) -> tuple[float, int, str]:
        return ((record.expires or 0.0) // _HOUR, -sizes.get(record.layer or "", 0), record.fingerprint)

    return sorted(records, key=order)


def parse_size(text: str) -> int:
    """Return the bytes of a size such as `500MB` (a thousand thousands), `20GiB` (1,024 to the third) or `1000`.

    Raises
    ------
    InputFailure : for anything else.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise InputFailure(f"{text!r} is not a size", remedy="write bytes, or as in 500MB, 20GB or 20GiB")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].upper()])
