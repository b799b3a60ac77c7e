"""Whether a checkpoint is believed, and why not.

A record is believed when it parses, speaks of the fingerprint that was asked for, is unexpired, and its layer lies
where it says with the size that it says. What always holds: the judgement is made from what was certainly seen; a
look-up that was refused or failed never comes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from geocairn.checkpoint import Checkpoint, DamagedRecord, parse_record
from geocairn.failure import Failure, FailureClass
from geocairn.stores.keys import SHARED, Place
from geocairn.stores.objects import Stored

Reason = Literal["present", "missing", "expired", "damaged", "layer missing", "layer differs"]


@dataclass(frozen=True)
class LookUp:
    """What a look-up of a fingerprint found."""

    fingerprint: str
    checkpoint: Checkpoint | None
    """The checkpoint, where it is believed."""
    tag: str | None
    """The tag of the record that was read; None where there is none."""
    reason: Reason
    detail: str = ""
    """A sentence for the reader where the record is not believed."""
    found: Checkpoint | None = None
    """What the record says, believed or not; None where it does not parse."""
    record: bytes | None = None
    """The record as it was read."""

    @property
    def present(self) -> bool:
        """Whether the checkpoint is believed."""
        return self.checkpoint is not None


class LayerLost(Failure):
    """A layer that a believed record names is gone, or is not what the record says: its step has to run again."""

    failure_class = FailureClass.TRANSIENT
    in_place = False
    of_the_step = False

    def __init__(self, fingerprint: str, what: str = "the layer is lost", where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.fingerprint = fingerprint
        self.args = (fingerprint, what, where, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.fingerprint, self.what, self.where, self.remedy))


def judge(
    fingerprint: str,
    stored: Stored | None,
    now: float,
    size_of: Callable[[str], int | None],
    place: Place = SHARED,
) -> LookUp:
    """Return what to believe of a record.

    Parameters
    ----------
    fingerprint : the fingerprint that was asked for.
    stored : the record, or None where there is certainly none.
    now : the store's time.
    size_of : gives the size in bytes of the layer at a key, None where it is certainly missing.
    place : where the record was read.
    """
    if stored is None:
        return LookUp(fingerprint, None, None, "missing")
    try:
        found = parse_record(stored.data, fingerprint)
        expired = found.expired(now)
    except (DamagedRecord, ValueError, TypeError) as error:
        return LookUp(fingerprint, None, stored.tag, "damaged", str(error), record=stored.data)

    def unbelieved(reason: Reason, detail: str) -> LookUp:
        return LookUp(fingerprint, None, stored.tag, reason, detail, found, stored.data)

    if expired:
        return unbelieved("expired", f"it expired at {found.expires}")
    if found.kind == "step":
        if found.layer is None or not found.layer.key.startswith(place.layers(fingerprint)):
            return unbelieved("damaged", "the record names no layer of its own")
        size = size_of(found.layer.key)
        if size is None:
            return unbelieved("layer missing", f"its layer {found.layer.key} is gone")
        if size != found.layer.size:
            return unbelieved("layer differs", f"its layer has {size} bytes and not {found.layer.size}")
    return LookUp(fingerprint, found, stored.tag, "present", found=found, record=stored.data)
