"""The fingerprint: what counts, what does not, and that one change reaches everything downstream and nothing beside."""

import copy
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import create_model

from geocairn.fingerprint import (
    EXCLUDED_STEP_FIELDS,
    components,
    fallback_record,
    fingerprint,
    publication_record,
    source_record,
    step_record,
)
from geocairn.operations import operations
from geocairn.plan.model import Step
from geocairn.sources.source import Source

INPUT = "ab" * 32
SECOND = "cd" * 32


def step_print(op="buffer", params=None, inputs=None, **fields):
    operation = operations[op]
    step = Step(name=fields.pop("name", "reach"), op=op, **fields)
    parameters = operation.normalise(params or {"distance": 50})
    return fingerprint(step_record(step, operation, parameters, inputs or {"layer": INPUT}))


def source_print(scope="default", version="sha256:00", uri="/data/a.gpkg", is_content=True, **fields):
    return fingerprint(
        source_record(Source(**{"uri": "a.gpkg", **fields}), version, uri, is_content=is_content, scope=scope)
    )


def test_golden_fingerprints():
    """These pin the scheme. A change invalidates everybody's checkpoints: raise SCHEME with it, or the
    version of the operation that changed."""
    assert step_print() == "9c7d5e5dd5f44143c5db3e9a369e8a8b9ee8975ebdc0bfbc967a65fea6a559ec"
    assert (
        step_print("overlay", {"how": "union"}, {"left": INPUT, "right": SECOND}, on_invalid="repair")
        == "ea47cb3d1d3cf24a4ee7deba6f7f2d59b6673b22d462eab4323d8482422a7c56"
    )
    assert source_print() == "c299f1ed4491a1d8fa27368f84515f67fad2c8557d8a995e6b6a4a90612a1a72"
    assert (
        source_print(version="s3:1/2/3", is_content=False, uri="s3+aws/b/k", public=True)
        == "8a9c4f6d35b4e72cc142d9f1df815597bbdab9f4fe33bc2485852241b8f215cb"
    )


@pytest.mark.parametrize("field", sorted(EXCLUDED_STEP_FIELDS))
def test_excluded_fields_change_nothing(field):
    other = {
        "name": "renamed",
        "description": "other words",
        "expect": {"min_rows": 3},
        "allow_empty": True,
        "checkpoint": "never",
        "backends": ["duckdb"],
        "retries": 9,
        "timeout": 5.0,
        "retention": "pinned",
        "fallback": {"op": "convex_hull", "because": "it will do"},
    }
    assert step_print(**{field: other[field]}) == step_print()


def test_a_fallback_has_a_fingerprint_of_its_own():
    operation = operations["convex_hull"]
    record = step_record(Step(name="reach", op="convex_hull"), operation, operation.normalise({}), {"layer": INPUT})
    prints = {
        fingerprint(record),
        step_print(),
        fingerprint(fallback_record(record, step_print(), "it will do")),
        fingerprint(fallback_record(record, step_print(params={"distance": 51}), "it will do")),
        fingerprint(fallback_record(record, step_print(), "it has to do")),
    }
    assert len(prints) == 5
    assert (
        fingerprint(fallback_record(record, step_print(), "it will do"))
        == "59abadd2451432ec1cb8085d0ce9eca6e20be40eba4a55e9982005c30bcdfbd9"
    )


def test_every_field_of_a_step_counts_or_is_excluded():
    assert set(EXCLUDED_STEP_FIELDS) < set(Step.model_fields)
    counted = set(Step.model_fields) - set(EXCLUDED_STEP_FIELDS)
    assert counted == {"op", "inputs", "params", "on_invalid"}


def test_a_new_field_counts_unless_somebody_excludes_it():
    wider = create_model("WiderStep", __base__=Step, colour=(str, "red"))
    operation = operations["buffer"]
    parameters = operation.normalise({"distance": 50})

    def of(colour):
        step = wider(name="reach", op="buffer", colour=colour)
        return fingerprint(step_record(step, operation, parameters, {"layer": INPUT}))

    assert of("red") != of("blue")
    assert of("red") != step_print()


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"distance": 51}},
        {"params": {"distance": 50, "quad_segs": 8}},
        {"params": {"distance": "distance"}},
        {"inputs": {"layer": SECOND}},
        {"op": "simplify", "params": {"tolerance": 50}},
        {"on_invalid": "repair"},
    ],
)
def test_what_decides_the_result_counts(other):
    assert step_print(**copy.deepcopy(other)) != step_print()


def test_roles_are_not_interchangeable():
    one = step_print("overlay", {"how": "union"}, {"left": INPUT, "right": SECOND})
    other = step_print("overlay", {"how": "union"}, {"left": SECOND, "right": INPUT})
    assert one != other


def test_defaults_are_filled_in_and_types_normalised():
    assert step_print(params={"distance": 50}) == step_print(params={"distance": 50.0, "quad_segs": 16})
    assert step_print(params={"distance": 50}) != step_print(params={"distance": "50"})  # a column's name


@given(st.permutations(["distance", "quad_segs", "cap_style", "join_style", "mitre_limit"]))
@settings(max_examples=20, deadline=None)
def test_the_order_of_parameters_does_not_matter(order):
    values = {"distance": 10, "quad_segs": 4, "cap_style": "flat", "join_style": "mitre", "mitre_limit": 2}
    assert step_print(params={name: values[name] for name in order}) == step_print(params=values)


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@settings(deadline=None)
def test_a_float_survives_its_text(number):
    from geocairn.plan.document import parse_scalar

    once = parse_scalar(repr(number))
    assert step_print(params={"distance": float(once)}) == step_print(params={"distance": number})


def test_the_operation_version_counts(monkeypatch):
    import dataclasses

    operation = operations["buffer"]
    newer = dataclasses.replace(operation, version=2)
    parameters = operation.normalise({"distance": 50})
    step = Step(name="reach", op="buffer")
    assert fingerprint(step_record(step, newer, parameters, {"layer": INPUT})) != step_print()


def test_the_environment_counts_where_it_decides_the_numbers(monkeypatch):
    import dataclasses

    operation = operations["reproject"]
    assert operation.environment is not None
    parameters = operation.normalise({"crs": "EPSG:5070"})
    step = Step(name="m", op="reproject")
    prints = {
        fingerprint(
            step_record(step, dataclasses.replace(operation, environment=lambda v=v: {"proj": v}), parameters, {})
        )
        for v in ("9.5", "9.6")
    }
    assert len(prints) == 2


def test_a_source_counts_by_content_wherever_it_lies():
    assert source_print(uri="/elsewhere/b.gpkg") == source_print()
    assert source_print(version="sha256:01") != source_print()


def test_two_sources_of_the_same_stated_version_stay_two():
    first = source_print(version="stated:2024", is_content=False, uri="/data/a.gpkg")
    second = source_print(version="stated:2024", is_content=False, uri="/data/b.gpkg")
    assert first != second


@pytest.mark.parametrize(
    "option",
    [
        {"layer": "x"},
        {"columns": ["a"]},
        {"where": "a = 1"},
        {"bbox": (0, 0, 1, 1)},
        {"crs": 4326},
        {"encoding": "cp1252"},
    ],
)
def test_read_options_count(option):
    assert source_print(**option) != source_print()


def test_a_private_source_counts_its_scope_and_a_public_one_does_not():
    assert source_print("alice") != source_print("bob")
    assert source_print("alice", public=True) == source_print("bob", public=True)
    own = Source(uri="a.gpkg", scope="team")
    records = [source_record(own, "sha256:00", "/a", is_content=True, scope=caller) for caller in ("alice", "bob")]
    assert records[0] == records[1]


def test_a_publication_counts_its_target_and_not_how_it_was_written_down():
    operation = operations["write_layer"]

    def of(uri, target, **more):
        return fingerprint(publication_record(operation.normalise({"uri": uri, **more}), target, {"layer": INPUT}))

    assert of("out/a.gpkg", "/w/out/a.gpkg") == of("./out/a.gpkg", "/w/out/a.gpkg")
    assert of("out/a.gpkg", "/w/out/a.gpkg") != of("out/a.gpkg", "/v/out/a.gpkg")
    assert of("out/a.gpkg", "/w/out/a.gpkg", layer_name="x") != of("out/a.gpkg", "/w/out/a.gpkg")


def test_components_name_what_differs():
    assert components({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}


CHAIN = """
from geocairn.plan.check import graph_of
from geocairn.fingerprint import fingerprint, step_record
plan = {"name": "p", "steps": [
    {"name": "a", "op": "read_layer", "params": {"uri": "x.gpkg"}},
    {"name": "b", "op": "buffer", "inputs": "a", "params": {"distance": 1e-6, "cap_style": "flat"}},
    {"name": "c", "op": "filter", "inputs": "b", "params": {"where": "name = 'Ä'"}}]}
prints = {"a": "ab" * 32}
for node in graph_of(plan).nodes.values():
    if node.kind == "step":
        inputs = {role: prints[name] for role, name in node.inputs.items()}
        prints[node.name] = fingerprint(step_record(node.step, node.operation, node.parameters, inputs))
print(prints["c"])
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "0"},
        {"PYTHONHASHSEED": "4711", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "1", "LANG": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
    ],
)
def test_fingerprints_hold_across_processes_and_settings(environment, tmp_path):
    import os

    done = subprocess.run(
        [sys.executable, "-c", CHAIN],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "5bacb38446a983d3f74bf84b5e160f42a365db16fdd1dadf18e5ad66f6012078"


def _chain_prints(distance=10.0, where="a = 1"):
    operation, other = operations["buffer"], operations["filter"]
    source = INPUT
    first = fingerprint(
        step_record(
            Step(name="1", op="buffer"), operation, operation.normalise({"distance": distance}), {"layer": source}
        )
    )
    second = fingerprint(
        step_record(Step(name="2", op="filter"), other, other.normalise({"where": where}), {"layer": first})
    )
    third = fingerprint(
        step_record(Step(name="3", op="buffer"), operation, operation.normalise({"distance": 3}), {"layer": second})
    )
    sibling = fingerprint(
        step_record(Step(name="s", op="buffer"), operation, operation.normalise({"distance": 4}), {"layer": source})
    )
    return first, second, third, sibling


@given(st.floats(min_value=0.001, max_value=1e6).filter(lambda number: number != 10.0))
@settings(max_examples=25, deadline=None)
def test_downstream_changes_and_siblings_do_not(distance):
    before, after = _chain_prints(), _chain_prints(distance=distance)
    assert all(old != new for old, new in zip(before[:3], after[:3], strict=True))
    assert before[3] == after[3]
    later = _chain_prints(where="a = 2")
    assert later[0] == before[0]
    assert later[1] != before[1]
    assert later[2] != before[2]


@pytest.mark.parametrize("name", ["read_layer", "write_layer"])
def test_a_new_reader_or_writer_makes_what_it_read_or_wrote_stale(name, monkeypatch):
    import dataclasses

    write = operations["write_layer"].normalise({"uri": "a.gpkg"})

    def both():
        return source_print(), fingerprint(publication_record(write, "/a.gpkg", {"layer": INPUT}))

    before = both()
    newer = dataclasses.replace(operations[name], version=99)
    monkeypatch.setitem(operations._found, name, newer)
    after = both()
    changed = [old != new for old, new in zip(before, after, strict=True)]
    assert changed == [name == "read_layer", name == "write_layer"]


def test_a_step_of_ones_own_is_never_answered_by_another_of_the_same_name():
    from geocairn.operations import operation

    def of(function_module):
        def centroid(layer: "GeoDataFrame") -> "GeoDataFrame":  # noqa: F821
            return layer

        centroid.__module__ = function_module
        own = operation(version=1)(centroid)
        return fingerprint(step_record(Step(name="c", op="centroid"), own, own.normalise({}), {"layer": INPUT}))

    known = operations["centroid"]
    built_in = fingerprint(step_record(Step(name="c", op="centroid"), known, known.normalise({}), {"layer": INPUT}))
    assert len({built_in, of("alice"), of("bob")}) == 3


def test_the_names_on_a_map_count():
    write = operations["write_layer"].normalise({"uri": "a.png"})
    inputs = {"layer": INPUT, "context": [SECOND]}
    prints = {fingerprint(publication_record(write, "/a.png", inputs, names)) for names in (["a"], ["b"])}
    assert len(prints) == 2
