"""The JSON Schema of a plan and of each operation, in the form that function-calling models take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from geocairn.operations.registry import operations
from geocairn.plan.check import graph_of
from geocairn.plan.document import parse_document
from geocairn.plan.model import plan_schema

jsonschema = pytest.importorskip("jsonschema")


def validator(schema):
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    kind.check_schema(schema)
    return kind(schema)


PLAN = {
    "name": "p",
    "description": "What it answers",
    "sources": {"a": {"uri": "a.gpkg", "layer": "x", "bbox": [0, 0, 1, 1], "columns": ["pop"]}},
    "steps": [
        {"name": "m", "op": "reproject", "inputs": "a", "params": {"crs": "EPSG:5070"}, "retention": "7d"},
        {"name": "r", "op": "buffer", "inputs": {"layer": "m"}, "params": {"distance": 5}, "on_invalid": "repair"},
        {
            "name": "o",
            "op": "overlay",
            "inputs": ["m", "r"],
            "params": {"how": "union"},
            "expect": {"geometry": "polygon", "min_rows": 1, "columns": {"pop": "integer"}, "crs": "EPSG:5070"},
        },
    ],
    "outputs": [{"from": "o", "uri": "o.png", "context": ["m"], "map": {"title": "T"}, "highlight": {"rows": 3}}],
}


def test_the_plan_schema_is_a_function_with_json_schema_parameters():
    schema = plan_schema()
    assert set(schema) == {"name", "description", "parameters"}
    json.dumps(schema)
    parameters = schema["parameters"]
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert validator(parameters).is_valid(PLAN)


def test_a_plan_that_the_schema_accepts_is_accepted():
    assert list(graph_of(PLAN).nodes) == ["a", "m", "r", "o", "output:o"]


@pytest.mark.parametrize(
    "change",
    [
        {"nam": "p"},
        {"steps": {}},
        {"steps": [{"name": "a"}]},
        {"steps": [{"name": "a", "op": "buffer", "inputs": 5.5}]},
        {"steps": [{"name": "a", "op": "buffer", "on_invalid": "x"}]},
        {"steps": [{"name": "a", "op": "buffer", "expect": {"rowz": 1}}]},
        {"steps": [{"name": "a", "op": "buffer", "retries": -1}]},
        {"sources": {"a": {"layer": "x"}}},
        {"outputs": [{"uri": "x.png"}]},
    ],
)
def test_the_schema_refuses_what_the_plan_refuses(change):
    from geocairn.plan.complaint import PlanError

    values = {**PLAN, **change}
    assert not validator(plan_schema()["parameters"]).is_valid(values)
    with pytest.raises(PlanError):
        graph_of(values)


@pytest.mark.parametrize("name", sorted(operations))
def test_each_operation_has_a_schema_that_is_one(name):
    schema = operations[name].schema()
    assert schema["name"] == name
    assert schema["description"]
    json.dumps(schema)
    parameters = schema["parameters"]
    validator(parameters)
    assert parameters["additionalProperties"] is False
    for parameter, described in parameters.get("properties", {}).items():
        assert "description" in described or "$ref" in described or "allOf" in described, f"{name}.{parameter}"


ARGUMENTS = {
    "buffer": [{"distance": 5}, {"distance": "reach", "cap_style": "flat"}],
    "reproject": [{"crs": "EPSG:5070"}, {"crs": 5070}],
    "dissolve": [{"by": "a"}, {"by": ["a", "b"], "aggregates": {"pop": "sum", "n": ["min", "max"]}}],
    "overlay": [{"how": "union", "suffixes": ["_a", "_b"]}],
    "voronoi": [{}, {"extent": [0, 0, 1, 1]}],
    "filter": [{"where": "a = 1"}],
    "select_columns": [{"keep": ["a"], "rename": {"a": "b"}}],
    "read_layer": [{"uri": "a.gpkg", "layer": "x"}],
    "write_layer": [{"uri": "a.gpkg", "layer": "x"}],
}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_arguments_that_the_schema_accepts_are_accepted(name):
    for arguments in ARGUMENTS[name]:
        assert validator(operations[name].schema()["parameters"]).is_valid(arguments), arguments
        operations[name].normalise(arguments)


def test_schemas_refuse_what_the_operation_refuses():
    for name, arguments in (("buffer", {}), ("buffer", {"distance": 5, "x": 1}), ("overlay", {"how": "sum"})):
        assert not validator(operations[name].schema()["parameters"]).is_valid(arguments)


def test_a_plan_of_the_examples_is_valid_by_the_schema():
    from pathlib import Path

    plans = sorted((Path(__file__).parents[2] / "examples").glob("*/plan.yaml"))
    assert plans
    for path in plans:
        values = parse_document(path.read_text(encoding="utf-8")).values
        validator(plan_schema()["parameters"]).validate(values)


@pytest.mark.parametrize("name", sorted(operations))
def test_bounds_have_the_names_of_json_schema(name: str) -> None:
    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = set(value) if value.get("type") in ("number", "integer") else set()
            return own.union(*(keys(item) for item in value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    found = keys(operations[name].schema())
    assert not found & {"gt", "ge", "lt", "le"}
