"""A step computed both ways, as a whole and batch by batch, from layers at rest; and what differs between the two."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from geocairn.backends.claims import stream_of
from geocairn.checkpoint import Checkpoint, LayerReference
from geocairn.failure import Failure
from geocairn.gate import Passed, Terms, admit
from geocairn.layer_survey import survey_facts
from geocairn.notes import Notes, collecting
from geocairn.operations.registry import operations
from geocairn.step_call import StepCall, StepSettings
from geocairn.stores.layer_spool import LayerSpool
from geocairn.stores.layers import read_layer_file, write_layer_file
from geocairn.streaming import streamed

BACKEND = "duckdb"


@dataclass
class Bench:
    """A folder in which layers lie at rest, and steps that are computed from them both ways."""

    folder: Path
    settings: StepSettings = field(default_factory=lambda: StepSettings(allow_empty=True))
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _stored: dict[int, tuple[Any, Path, Checkpoint]] = field(default_factory=dict)

    def scratch(self, suffix: str = "") -> Path:
        """A new path."""
        return self.folder / f"{next(self._numbers)}{suffix}"

    def stored(self, layer: Any) -> tuple[Path, Checkpoint]:
        """The layer at rest, and a checkpoint that speaks of it; the same for the same object."""
        if id(layer) not in self._stored:
            path = self.scratch(".parquet")
            write_layer_file(storable(layer), path)
            facts = survey_facts(read_layer_file(path))
            reference = LayerReference(str(path), path.stat().st_size, "")
            checkpoint = Checkpoint("ab" * 32, "step", "made", "1", {}, {}, facts, reference)
            self._stored[id(layer)] = (layer, path, checkpoint)
        return self._stored[id(layer)][1:]

    def call(self, name: str, inputs: list[Any], parameters: dict[str, Any]) -> StepCall:
        """A call of an operation on layers at rest."""
        operation = operations[name]
        roles = [role.name for role in operation.roles]
        checkpoints = [self.stored(layer)[1] for layer in inputs]
        given = dict(zip(roles, checkpoints, strict=True))
        return StepCall(operation, operation.normalise(parameters), given, "cd" * 32, {}, self.settings, BACKEND)

    def whole(self, name: str, inputs: list[Any], parameters: dict[str, Any]) -> tuple[Path, Passed, Notes]:
        """The file of the result as a whole, what the gate said, and the notes."""
        call = self.call(name, inputs, parameters)
        layers = [read_layer_file(self.stored(layer)[0]) for layer in inputs]
        with collecting() as notes:
            layer = call.operation.compute(*layers, backend=BACKEND, **parameters)
        passed = admit(layer, self.terms(call, layers))
        path = self.scratch(".parquet")
        write_layer_file(passed.layer, path)
        return path, passed, notes

    def in_batches(
        self, name: str, inputs: list[Any], parameters: dict[str, Any], rows: int
    ) -> tuple[Path, Passed, Notes]:
        """The same batch by batch, of so many rows."""
        call = self.call(name, inputs, parameters)
        stream = stream_of(call.operation, call.parameters, BACKEND)
        assert stream is not None
        with ExitStack() as at_end:
            spool = LayerSpool(self.scratch)
            at_end.callback(spool.close)
            result = streamed(call, stream, spool, at_end, opened=opened, loaded=lambda item: item, batch_rows=rows)
            path = self.scratch(".parquet")
            spool.write(path)
        return path, result.passed, result.notes

    def terms(self, call: StepCall, layers: list[Any]) -> Terms:
        """What the gate holds the result to."""
        settings = self.settings
        return Terms(
            call.where, call.operation, call.parameters, layers, settings.expect, settings.allow_empty, settings.repair
        )

    def differences(self, name: str, inputs: list[Any], parameters: dict[str, Any], rows: int) -> list[str]:
        """What differs between the two ways, in words."""
        one = _outcome(lambda: self.whole(name, inputs, parameters))
        other = _outcome(lambda: self.in_batches(name, inputs, parameters, rows))
        if isinstance(one, Failure) or isinstance(other, Failure):
            return [] if type(one) is type(other) else [f"{one!r} / {other!r}"]
        said = [f"the files: {text}" for text in file_differences(one[0], other[0])]
        for what, a, b in (
            ("facts", one[1].facts, other[1].facts),
            ("caveats of the gate", one[1].caveats, other[1].caveats),
            ("warnings", one[1].warnings, other[1].warnings),
            ("caveats", one[2].caveats, other[2].caveats),
            ("notes", _rounded(one[2].facts), _rounded(other[2].facts)),
        ):
            if a != b:
                said.append(f"{what}: {a} / {b}")
        one[0].unlink()
        other[0].unlink()
        return said


@contextmanager
def opened(checkpoint: Checkpoint) -> Iterator[Path]:
    """The file of a checkpoint's layer."""
    assert checkpoint.layer is not None
    yield Path(checkpoint.layer.key)


def storable(layer: Any) -> Any:
    """The layer with lists of one type in place of objects that no file can hold."""
    layer = layer.copy()
    for name in layer.columns:
        if name.endswith("thing"):
            lists = [None if value is None else [value[1]] for value in layer[name]]
            layer[name] = pd.Series(lists, dtype=object, index=layer.index)
    return layer


def file_differences(one: Path, other: Path) -> list[str]:
    """In what two layers' files differ: schema with its metadata, row groups, values."""
    with pq.ParquetFile(one) as a, pq.ParquetFile(other) as b:
        said = []
        if not a.schema_arrow.equals(b.schema_arrow, check_metadata=True):
            said.append(f"schema {a.schema_arrow} / {b.schema_arrow}")
        groups = [[file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] for file in (a, b)]
        if groups[0] != groups[1]:
            said.append(f"row groups {groups}")
        if not said and not a.read().equals(b.read()):
            said.append(f"values {read_layer_file(one)} / {read_layer_file(other)}")
    return said


def _outcome(compute: Any) -> Any:
    try:
        return compute()
    except Failure as failure:
        return failure


def _rounded(facts: dict[str, Any]) -> dict[str, Any]:
    """Sums of floats differ in their last digits with the order of adding."""
    return {name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in facts.items()}
