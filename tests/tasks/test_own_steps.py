"""`@step` on a user's own function."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from flow_samples import Watch, metric, records
from own_steps import centres, grow, masked, stacked

from geocairn.failure import InputFailure
from geocairn.stores.opening import open_store
from geocairn.tasks import StepTask, step

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

pytestmark = pytest.mark.prefect_server

MODULE = """
from __future__ import annotations
from geocairn.tasks import step

FACTOR = 2.0

def radius(distance):
    return distance * FACTOR

@step
def grown(layer: GeoDataFrame, *, distance: float = 1.0) -> GeoDataFrame:
    return layer.set_geometry(layer.buffer(radius(distance)))
"""


def test_a_function_is_a_task_with_its_own_name_parameters_and_documentation() -> None:
    assert isinstance(grow, StepTask)
    assert (grow.name, grow.description) == ("grow", "Grow each geometry by a distance.")
    schema = grow.operation.schema()["parameters"]["properties"]
    assert schema["distance"]["description"] == "Metres"
    assert schema["cap"]["default"] == "round"


def test_defaults_are_filled_in_and_types_normalised(place: Path, watch: Watch) -> None:
    first = grow(metric(), distance=5)
    assert first.parameters == {"distance": 5.0, "cap": "round"}
    assert grow(layer=metric(), distance=5.0, cap="round") == first
    assert watch.taken()[0] == ["grow"]
    assert grow(metric(), distance=5, cap="flat").fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distance": -1}, "grow: parameter 'distance': input should be greater than 0"),
        ({"distance": 1, "cap": "square"}, "'cap'.*'round' or 'flat'.*'square'"),
    ],
)
def test_parameters_are_held_to_their_types(place: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        grow(metric(), **arguments)
    assert records(place / ".geocairn") == []


def test_a_list_of_layers_counts_in_its_order(place: Path, watch: Watch) -> None:
    first, second = metric(2), metric(3)
    made = stacked([first, second])
    assert made.facts.rows == 5
    assert stacked([first, second]) == made
    assert stacked([second, first]).fingerprint != made.fingerprint
    grown = grow(first, distance=1)
    mixed = stacked([grown, second], sort_by="n")
    assert mixed.inputs["layers"][0] == grown.fingerprint
    assert open_store(place / ".geocairn").load(mixed)["n"].tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(InputFailure, match="'layers' takes a list of layers"):
        stacked(first)


def test_an_optional_input_may_be_left_out(place: Path) -> None:
    whole = masked(metric())
    assert masked(metric(), mask=None) == whole
    assert whole.inputs.keys() == {"layer"}
    part = masked(metric(), metric(1))
    assert (part.facts.rows, part.inputs.keys()) == (1, {"layer", "mask"})


def test_the_gate_holds_a_result_to_its_contract(place: Path) -> None:
    with pytest.raises(InputFailure, match="step centres: centres promises polygon geometry, there is Point"):
        centres(metric())
    assert records(place / ".geocairn") == []


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of a user and imports it afresh."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text: str) -> ModuleType:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))  # a fresh one: the text of a file that was loaded is remembered
        (folder / "user_steps.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        sys.modules.pop("user_steps", None)
        importlib.invalidate_caches()
        return importlib.import_module("user_steps")

    yield write
    sys.modules.pop("user_steps", None)


def test_without_a_version_the_code_counts_and_that_of_its_helpers(place: Path, watch: Watch, module: Any) -> None:
    first = module(MODULE).grown(metric())
    assert first.version.startswith("code:")
    assert watch.taken()[0] == ["grown"]

    comment = MODULE.replace("def radius(distance):", "def radius(distance):\n    # twice as far\n    'In metres.'")
    assert module(comment).grown(metric()) == first
    assert watch.taken() == ([], [])

    for edited in (
        MODULE.replace("distance * FACTOR", "distance + FACTOR"),
        MODULE.replace("FACTOR = 2.0", "FACTOR = 3.0"),
        MODULE.replace("layer.buffer(radius", "layer.boundary.buffer(radius"),
    ):
        assert module(edited).grown(metric()).fingerprint != first.fingerprint
        assert watch.taken()[0] == ["grown"]


def test_a_helper_defined_anew_in_the_same_process_counts(place: Path, watch: Watch, module: Any) -> None:
    """As in a notebook, where a cell is edited and run again and the step below it is not."""
    user = module(MODULE)
    first = user.grown(metric())
    user.FACTOR = 5.0
    second = user.grown(metric())
    assert second.fingerprint != first.fingerprint
    assert second.facts.bounds != first.facts.bounds


def test_with_a_version_the_code_does_not_count(place: Path, module: Any) -> None:
    stated = MODULE.replace("@step\n", "@step(version=3)\n")
    first = module(stated).grown(metric())
    assert first.version == "3"
    assert module(stated.replace("2.0", "4.0")).grown(metric()) == first
    assert module(stated.replace("version=3", "version=4")).grown(metric()).fingerprint != first.fingerprint


def test_what_cannot_be_known_asks_for_a_version_before_anything_is_stored(place: Path) -> None:
    opaque = object()

    @step
    def closed_over(layer: GeoDataFrame) -> GeoDataFrame:
        return layer[[opaque is not None] * len(layer)]

    with pytest.raises(InputFailure, match=r"identity of .*opaque.* cannot be known.*state a version"):
        closed_over(metric())
    assert records(place / ".geocairn") == []
    assert not list((place / ".geocairn").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda layer: layer, "needs a type"),
        (None, "plain function"),
    ],
)
def test_what_cannot_be_a_step_is_refused_where_it_is_defined(function: Any, message: str) -> None:
    async def coroutine(layer: GeoDataFrame) -> GeoDataFrame:
        return layer

    with pytest.raises(TypeError, match=message):
        step(function or coroutine)


def test_an_operation_becomes_a_step_with_options(place: Path) -> None:
    from geocairn.operations import operations

    wide = step(operations["buffer"], step_name="wide", retention="pinned")
    made = wide(metric(), distance=1.0)
    assert (made.step, made.expires) == ("wide", None)
