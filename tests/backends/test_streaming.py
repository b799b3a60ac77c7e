"""Steps computed batch by batch: the same file, facts and notes as computed as a whole, and when that way is taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import awkward_layers as awkward
import geopandas as gpd
import pytest
from equality_cases import Case, awkward_cases, many_rows
from streamed_steps import Bench

from geocairn.backends.claims import stream_of
from geocairn.checkpoint import Checkpoint, LayerFacts, LayerReference
from geocairn.failure import FatalFailure
from geocairn.operations.registry import operations
from geocairn.step_call import StepCall, StepSettings
from geocairn.streaming import VARIABLE, stream_for

pytest.importorskip("duckdb")

ALL = bool(os.environ.get("ALL_STREAMS"))
"""Whether every case is tried with every size, and not a choice of them."""
SIZES = (1, 2, 7)
CHOSEN = 14
"""Cases of each operation that are tried, spread over all of them."""

STREAMED = {
    "buffer": {"distance": 1},
    "simplify": {"tolerance": 1},
    "centroid": {},
    "convex_hull": {},
    "make_valid": {"method": "linework", "keep_collapsed": True},
    "reproject": {"crs": "EPSG:4269"},
    "filter": {"where": "whole > 1"},
    "measure": {"area": "m2"},
    "spatial_filter": {},
    "spatial_join": {},
    "nearest_join": {},
    "count_points": {},
    "clip": {},
    "overlay": {"how": "intersection"},
    "dissolve": {},
}
NOT_STREAMED: list[tuple[str, dict[str, Any]]] = [
    ("buffer", {"distance": 1, "dissolve": True}),
    ("buffer", {"distance": 1, "single_sided": True}),
    ("convex_hull", {"by": "kind"}),
    ("make_valid", {}),
    ("overlay", {"how": "union", "grid_size": 1}),
    ("remove_empty", {}),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def cases_of() -> dict[str, list[tuple[Case, int]]]:
    """The cases of each operation that are tried, each with the rows in a batch."""
    found: dict[str, list[tuple[Case, int]]] = {}
    for case in awkward_cases():
        found.setdefault(case.operation, []).append((case, SIZES[len(found.get(case.operation, [])) % len(SIZES)]))
    if not ALL:
        found = {name: list(_spread(cases)) for name, cases in found.items()}
    else:
        found = {name: [(case, size) for case, _ in cases for size in SIZES] for name, cases in found.items()}
    for case in many_rows():
        found[case.operation].append((case, 37))
    return found


def _spread(cases: list[tuple[Case, int]]) -> Iterator[tuple[Case, int]]:
    step = max(1, len(cases) // CHOSEN)
    # A step that the number of sizes does not divide: else one size would be tried of each.
    return iter(cases[:: step + (step > 1 and step % len(SIZES) == 0)])


@pytest.mark.parametrize("name", STREAMED)
def test_the_same_file_facts_and_notes(name: str, bench: Bench, cases_of: dict[str, list[tuple[Case, int]]]) -> None:
    said = []
    tried = 0
    for case, rows in cases_of[name]:
        operation = operations[name]
        if stream_of(operation, operation.normalise(case.parameters), "duckdb") is None:
            continue
        tried += 1
        found = bench.differences(name, case.inputs, case.parameters, rows)
        said += [f"{case.name} in batches of {rows}: {text}" for text in found]
    assert not said, "\n".join(said[:10])
    assert tried >= 5


def test_operations_that_stream() -> None:
    for name, parameters in STREAMED.items():
        assert stream_of(operations[name], operations[name].normalise(parameters), "duckdb") is not None, name
        assert stream_of(operations[name], operations[name].normalise(parameters), "geopandas") is None


@pytest.mark.parametrize(("name", "parameters"), NOT_STREAMED)
def test_parameters_that_do_not_stream(name: str, parameters: dict[str, Any]) -> None:
    assert stream_of(operations[name], operations[name].normalise(parameters), "duckdb") is None


def test_rows_are_named_by_their_number_in_the_layer(bench: Bench) -> None:
    layer = awkward.layer(awkward.POLYGONS)
    with pytest.raises(Exception, match=r"missing or infinite values: row 8;"):
        bench.in_batches(
            "buffer", [layer.assign(real=layer["real"].fillna(1).where(layer["whole"] != 8))], {"distance": "real"}, 2
        )


def test_what_is_asked_of_the_whole_is_not_asked_of_a_batch(bench: Bench) -> None:
    lines_first = awkward.layer(["LINESTRING (0 0, 1 1)", "LINESTRING (0 0, 2 2)", awkward.POLYGONS[0]])
    assert not bench.differences("measure", [lines_first], {"area": "m2"}, 1)
    only_lines = awkward.layer(["LINESTRING (0 0, 1 1)", None])
    with pytest.raises(Exception, match="area measures polygons, and the layer has line geometry"):
        bench.in_batches("measure", [only_lines], {"area": "m2"}, 1)


def test_notes_of_batches_add_up(bench: Bench) -> None:
    layer = gpd.GeoDataFrame(geometry=gpd.GeoSeries.from_wkt([awkward.BROKEN[0], *awkward.BROKEN] * 2), crs=awkward.CRS)
    _, _, notes = bench.in_batches("make_valid", [layer], STREAMED["make_valid"], 3)
    assert notes.facts["mended"] == bench.whole("make_valid", [layer], STREAMED["make_valid"])[2].facts["mended"] > 2
    _, _, notes = bench.in_batches("reproject", [awkward.layer([None, None, *awkward.POINTS])], {"crs": "EPSG:4269"}, 1)
    told = [(record["column"], record["rows"]) for record in notes.facts["pipeline"]]
    assert told == [("shape", 9), ("mark", 13)]  # in the order of the columns, though the first rows have only `mark`


# When that way is taken


def call(name: str, backend: str = "duckdb", *, size: int | None = 1000, **settings: Any) -> StepCall:
    operation = operations[name]
    reference = None if size is None else LayerReference("layers/x", size, "")
    kind = "source" if size is None else "step"
    given = Checkpoint("ab" * 32, kind, "made", "1", {}, {}, LayerFacts(1), reference)
    inputs = dict.fromkeys([role.name for role in operation.roles], given)
    parameters = operation.normalise(STREAMED[name])
    return StepCall(operation, parameters, inputs, "cd" * 32, {}, StepSettings(), backend, **settings)


def test_a_large_layer_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1kB")
    assert stream_for(call("buffer", size=1024)) is not None
    assert stream_for(call("buffer", size=1023)) is None
    assert stream_for(call("spatial_join", size=512)) is not None  # both layers count
    assert stream_for(call("buffer", "geopandas", size=1 << 40)) is None
    monkeypatch.delenv(VARIABLE)
    assert stream_for(call("buffer", size=1 << 50)) is not None
    assert stream_for(call("buffer", size=1000)) is None


def test_a_small_layer_is_streamed_after_memory_did_not_suffice() -> None:
    assert stream_for(call("buffer", after_memory=True)) is not None
    assert stream_for(call("buffer", "geopandas", after_memory=True)) is None


def test_sources_and_layers_in_memory_are_taken_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert stream_for(call("buffer", size=None, after_memory=True)) is None


def test_a_wrong_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(FatalFailure, match=r"'much' is no size.*200MB"):
        stream_for(call("buffer"))
