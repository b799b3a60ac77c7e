"""The check of plans with tables: where one will do, where it will not, and what becomes of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from geocairn.plan.check import check
from geocairn.plan.complaint import PlanError
from geocairn.plan.document import parse_document
from geocairn.sources.describe import describe

HEAD = """name: p
sources:
  towns: {uri: towns.csv, crs: 5070}
  owners: {uri: owners.csv, table: true}
steps:
"""
JOIN = "{name: joined, op: attribute_join, inputs: [towns, owners], params: {left_on: id, right_on: id}}"


def complaints(folder: Path, *steps: str, outputs: str = "", looked_at: bool = True) -> list[str]:
    (folder / "towns.csv").write_text("id,x,y\n1,0,0\n")
    (folder / "owners.csv").write_text("id,owner\n1,Ada\n")
    text = HEAD + "".join(f"  - {step}\n" for step in steps) + outputs
    try:
        check(parse_document(text, "plan.yaml"), (lambda source: describe(source, base=folder)) if looked_at else None)
    except PlanError as error:
        return [f"{one.line} {one.step}, {one.field}: {one.message}" for one in error.complaints]
    return []


def test_a_table_is_taken_where_one_will_do(tmp_path: Path) -> None:
    typed = "{name: typed, op: compute_columns, inputs: owners, params: {columns: {n: 'id + 1'}}}"
    joined = JOIN.replace("owners]", "typed]")
    around = "{name: around, op: buffer, inputs: joined, params: {distance: 1}}"
    sums = "{name: sums, op: summarize, inputs: around, params: {by: owner, statistics: {n: sum}}}"
    outputs = "outputs:\n  - {from: sums, uri: sums.csv}\n  - {from: owners, uri: owners.parquet}\n"
    assert complaints(tmp_path, typed, joined, around, sums, outputs=outputs) == []


@pytest.mark.parametrize("looked_at", [True, False])
@pytest.mark.parametrize(
    ("steps", "name"),
    [
        (["{name: b, op: buffer, inputs: owners, params: {distance: 1}}"], "owners"),
        (
            [
                "{name: typed, op: compute_columns, inputs: owners, params: {columns: {n: 'id + 1'}}}",
                "{name: b, op: centroid, inputs: typed}",
            ],
            "typed",
        ),
        (
            [
                "{name: sums, op: summarize, inputs: towns, params: {by: id, statistics: {}}}",
                "{name: b, op: explode, inputs: sums}",
            ],
            "sums",
        ),
        ([JOIN.replace("[towns, owners]", "[owners, towns]").replace("joined", "b")], "owners"),
        (["{name: b, op: merge_layers, inputs: [towns, owners]}"], "owners"),
    ],
)
def test_a_table_is_refused_where_a_layer_is_wanted(
    tmp_path: Path, steps: list[str], name: str, looked_at: bool
) -> None:
    (said,) = complaints(tmp_path, *steps, looked_at=looked_at)
    assert f"must be a layer, and {name!r} is a table without geometry; join it to a layer first" in said
    assert said.startswith(f"{5 + len(steps)} b, inputs: ")


def test_a_geometry_asked_for_makes_a_layer(tmp_path: Path) -> None:
    sums = "{name: sums, op: summarize, inputs: towns, params: {by: id, statistics: {}, geometry: first}}"
    assert complaints(tmp_path, sums, "{name: b, op: explode, inputs: sums}") == []


def test_a_table_is_published_as_one(tmp_path: Path) -> None:
    outputs = "outputs:\n  - {from: owners, uri: owners.gpkg}\n  - {from: owners, uri: map.png}\n"
    said = complaints(tmp_path, JOIN, outputs=outputs)
    assert len(said) == 2
    assert all("'owners' is a table without geometry; write it as CSV or Parquet" in one for one in said)


def test_what_speaks_of_geometry_is_told_at_its_field(tmp_path: Path) -> None:
    (tmp_path / "owners.csv").write_text("id\n1\n")
    text = "name: p\nsources:\n  owners: {uri: owners.csv, table: true, crs: 5070}\nsteps: []\n"
    with pytest.raises(PlanError) as caught:
        check(parse_document(text, "plan.yaml"), lambda source: describe(source, base=tmp_path))
    assert "crs: a table has no geometry" in str(caught.value)
    assert dataclasses.asdict(describe_table(tmp_path))["table"] is True


def describe_table(folder: Path) -> object:
    from geocairn.memory import Memory
    from geocairn.sources.source import Source

    memory = Memory(folder / "memory")
    source = Source(uri="owners.csv", table=True)
    describe(source, base=folder, memory=memory)
    return describe(source, base=folder, memory=memory)  # remembered as the table that it is
