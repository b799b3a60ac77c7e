"""The handbook: every operation is documented, and docs/operations is what the code gives now."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from geocairn.failure import InputFailure
from geocairn.handbook.examples import run_example
from geocairn.handbook.pages import operation_page, value_text, write_handbook
from geocairn.operations.contract import operation
from geocairn.operations.registry import operations
from geocairn.plan.document import read_document
from geocairn.plan.reading import Reading

DOCS = Path(__file__).resolve().parents[1] / "docs" / "operations"
WITHOUT_EXAMPLE = {"read_layer", "write_layer"}
OPERATIONS = {name: each for name, each in operations.items() if each.function.__module__.startswith("geocairn.")}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("handbook")
    write_handbook(OPERATIONS, folder)
    return folder


def test_the_pages_in_docs_are_what_the_code_gives(written):
    made = {path.relative_to(written): path.read_bytes() for path in written.rglob("*") if path.is_file()}
    kept = {path.relative_to(DOCS): path.read_bytes() for path in DOCS.rglob("*") if path.is_file()}
    assert sorted(made) == sorted(kept), "run: geocairn operations --handbook docs/operations"
    assert [str(name) for name in made if made[name] != kept[name]] == []


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_each_operation_says_what_its_parameters_mean(name):
    schema = OPERATIONS[name].parameters.model_json_schema()
    assert [field for field, value in schema.get("properties", {}).items() if not value.get("description")] == []
    assert re.match(r"[A-Z].+\.$", OPERATIONS[name].summary)


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - WITHOUT_EXAMPLE))
def test_each_example_gives_rows(name):
    example = run_example(OPERATIONS[name])
    assert example is not None
    assert len(example.result)


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - WITHOUT_EXAMPLE))
def test_the_step_of_an_example_is_a_step_of_a_plan(name, tmp_path):
    example = run_example(OPERATIONS[name])
    names = [each for value in example.names.values() for each in ([value] if isinstance(value, str) else value)]
    sources = "".join(f"  {each}: {{uri: {each}.parquet}}\n" for each in dict.fromkeys(names))
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"name: p\nsources:\n{sources}steps:\n  {example.as_step}\noutputs:\n  - {{from: example, uri: out.parquet}}\n"
    )
    (step,) = Reading(read_document(plan)).plan().steps
    assert step.op == name
    assert dict(OPERATIONS[name].normalise(step.params)) == dict(OPERATIONS[name].normalise(example.parameters))


def test_pictures_are_sound_svg(written):
    pictures = list((written / "pictures").glob("*.svg"))
    assert len(pictures) > 40
    for path in pictures:
        root = ET.parse(path).getroot()
        assert root.tag.endswith("svg"), path.name
        assert {child.tag.rpartition("}")[2] for child in root} > {"rect", "text"}, path.name


def test_an_operation_without_an_example_has_a_page_all_the_same():
    page = operation_page(operations["write_layer"], None, has_picture=False)
    assert "## write_layer" in page
    assert "| `uri` | text | required |" in page


def test_an_example_about_nothing_is_told():
    @operation(version=1, example={"layer": "parcel"})
    def idle(layer: GeoDataFrame) -> GeoDataFrame:  # noqa: F821 - read as text
        """Do nothing."""
        return layer

    with pytest.raises(InputFailure, match="idle: its example names the sample 'parcel', which does not exist"):
        run_example(idle)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number > 0, ≤ 1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        ({"enum": ["round", "flat"], "type": "string"}, "`round` or `flat`"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}]}, "list of 2 text"),
        ({"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}}, "names to whole number ≥ 1"),
    ],
)
def test_values_in_words(schema, words):
    assert value_text(schema, {"A": {"type": "integer", "minimum": 1}}) == words
