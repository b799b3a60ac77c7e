"""How a checkpoint stands in Prefect's result record: as our own JSON record, so that nothing is pickled."""

from __future__ import annotations

from typing import Any, Literal

from prefect.serializers import Serializer

from geocairn.checkpoint import Checkpoint, parse_record, write_record


class CheckpointSerializer(Serializer):
    """Writes a checkpoint as its record and reads it back, with the record's own digest checked."""

    type: Literal["geocairn-checkpoint"] = "geocairn-checkpoint"

    def dumps(self, obj: Any) -> bytes:
        """Return the record of a checkpoint.

        Raises
        ------
        TypeError : for anything else; nothing else is a step's result.
        """
        if not isinstance(obj, Checkpoint):
            raise TypeError(f"a step's result is a Checkpoint, not a {type(obj).__name__}")
        return write_record(obj)

    def loads(self, blob: bytes) -> Any:
        """Return the checkpoint of a record."""
        return parse_record(blob)
