"""The form that asks a person for an operation's parameters, as the Prefect UI and its server see it."""

from __future__ import annotations

from typing import Annotated, Any

import jsonschema
import pytest
from geopandas import GeoDataFrame
from prefect._internal.pydantic.v2_schema import create_v2_schema
from pydantic import Field

from geocairn.flows.suspension import form_of
from geocairn.operations.contract import operation
from geocairn.operations.registry import operations
from geocairn.plan.check import graph_of
from geocairn.replanning.diagnosis import present_parameters


class Shape:
    """A type of which there is no JSON Schema."""


@operation(version=1)
def awkward(
    layer: GeoDataFrame,
    *,
    save: Annotated[int, Field(gt=0, description="how many are saved")],
    metadata: str = "x",
    shape: Shape | None = None,
) -> GeoDataFrame:
    """Take parameters that forms have trouble with."""
    return layer


def schema_of(form: Any) -> dict[str, Any]:
    return create_v2_schema(form.__name__, model_base=form)


def test_names_that_forms_use_themselves_and_types_without_a_schema():
    form, as_text = form_of(awkward, {"save": 3, "metadata": "y", "shape": "POINT (1 2)"}, "why")
    fields = schema_of(form)["properties"]
    assert list(fields) == ["save", "metadata", "shape"]
    assert fields["save"] == {
        "default": 3,
        "description": "how many are saved",
        "exclusiveMinimum": 0,
        "position": 0,
        "title": "save",
        "type": "integer",
    }
    assert as_text == ["shape"]
    assert fields["shape"]["default"] == '"POINT (1 2)"'
    assert form._description == "why"


def test_a_fallback_can_be_accepted_in_it():
    form, _ = form_of(awkward, {"save": 3}, "why", "clip, because it will do")
    field = schema_of(form)["properties"]["accept_fallback"]
    assert field["type"] == "boolean"
    assert field["default"] is False
    assert "clip, because it will do" in field["description"]


@pytest.mark.parametrize("name", sorted(operations))
def test_every_operation_has_a_form_without_text_for_json(name):
    found = operations[name]
    form, as_text = form_of(found, {}, "why")
    assert as_text == []
    schema = schema_of(form)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema.get("properties", {})) == list(found.parameters.model_fields)


def test_present_values_pass_the_form_that_they_fill_in():
    graph = graph_of(
        {
            "name": "small",
            "sources": {"sites": {"uri": "sites.gpkg"}},
            "steps": [
                {"name": "all", "op": "dissolve", "inputs": "sites", "params": {"by": "a", "aggregates": {"b": "sum"}}}
            ],
        }
    )
    present = present_parameters(graph.nodes["all"])
    form, _ = form_of(operations["dissolve"], present, "why")
    jsonschema.validate(present, schema_of(form))
