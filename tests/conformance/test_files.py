"""Every case about a file: a sound one is read and passes the gate, a broken one is refused with its fault.

What the words say of each broken file by name, `tests/sources/test_geoparquet_cases.py` holds; here the kind of fault
that the suite names must be what is told, so that a case which nobody has seen is held to it too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import shapely
from case_index import Case, cases_in, folders

from geocairn.failure import InputFailure
from geocairn.gate import Terms, admit
from geocairn.operations.registry import operations

FILES = [case for folder in folders() for case in cases_in(folder) if case.is_file]

TOLD = {
    "edges_mismatch": ("edges",),
    "epoch_unsupported": ("epoch",),
    "geometry_type_mismatch": ("declares",),
    "metadata_invalid_utf8": ("UTF-8",),
    "orientation_mismatch": ("declares", "rings"),
    "version_unknown": ("unknown version",),
    "wkb_parse_error": ("cannot be decoded", "row"),
    "zm_mismatch": ("declares coordinates",),
}
"""Words that the message has for each kind of fault; for one of the schema it has the field that the suite names."""

SCHEMA = ("version", "primary_column", "columns", "PROJJSON")

CONTRADICTORY = "linestring-xyz-native-geometry.parquet"
"""Counted as good by its suite, with the very defect (no Z declared, Z there) for which another suite's is bad."""


def _files(*, broken: bool) -> Iterator[Any]:
    chosen = [case for case in FILES if case.params()["expected"]["must_fail"] == broken]
    if not chosen:
        yield pytest.param(None, marks=pytest.mark.skip(reason="the cases are not beside the project"))
    for case in chosen:
        yield pytest.param(case, id=case.label)


def _read(case: Case) -> Any:
    return operations["read_layer"].compute(uri=str(case.folder / case.inputs[0]))


@pytest.mark.parametrize("case", list(_files(broken=True)))
def test_a_broken_file_is_refused_with_its_fault(case: Case) -> None:
    expected = case.params()["expected"]
    with pytest.raises(InputFailure) as caught:
        _read(case)
    told = str(caught.value)
    assert case.inputs[0] in told
    fault = expected["expected_failure"]
    words = TOLD[fault] if fault in TOLD else [word for word in SCHEMA if word in expected["violation"]]
    assert words, f"no words for the fault {fault}"
    assert all(word in told for word in words), told


@pytest.mark.parametrize("case", list(_files(broken=False)))
def test_a_sound_file_is_read_and_passes_the_gate(case: Case) -> None:
    if case.inputs[0] == CONTRADICTORY:
        with pytest.raises(InputFailure, match="declares coordinates x, y, and there are coordinates x, y, z"):
            _read(case)
        return
    layer = _read(case)
    observed = case.params()["observed"]
    assert len(layer) == observed["rows"]
    passed = admit(layer, Terms(case.label))
    assert passed.facts.rows == observed["rows"]
    text = case.params()["expected"].get("wkt_csv")
    if text is not None:
        with (case.folder / text).open(encoding="utf-8", newline="") as file:
            expected = [row["geometry"] or None for row in csv.DictReader(file)]
        shapes = np.asarray(layer.geometry.values, dtype=object)
        assert shapely.equals_identical(shapes, shapely.from_wkt(expected))[~shapely.is_missing(shapes)].all()
        assert (shapely.is_missing(shapes) == [one is None for one in expected]).all()
