"""The examples' plans give the answers that their READMEs tell, by the operations alone: no store, no Prefect."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import geopandas
import pandas
import pytest
import shapely

from geocairn.cartography import draw_map
from geocairn.operations import operations
from geocairn.plan.check import check
from geocairn.plan.document import read_document
from geocairn.plan.graph import roles_of
from geocairn.plan.model import Plan

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module", params=["soho", "counties"])
def example(request: pytest.FixtureRequest) -> tuple[str, Plan, dict[str, Any]]:
    """An example's name, its plan, and the layer of each source and step."""
    folder = EXAMPLES / request.param
    plan = check(read_document(folder / "plan.yaml")).graph.plan
    layers: dict[str, Any] = {}
    for name, source in plan.sources.items():
        given = {**source.model_dump(exclude_unset=True), "uri": str(folder / source.uri)}
        layers[name] = operations["read_layer"].compute(**given)
    for step in plan.steps:
        chosen = operations[step.op]
        inputs = {
            role: [layers[name] for name in names] if isinstance(names, list | tuple) else layers[names]
            for role, names in roles_of(chosen, step.inputs).items()
        }
        layers[step.name] = chosen.compute(**inputs, **step.params)
    return request.param, plan, layers


def test_the_answer_is_the_one_in_the_readme(example: tuple[str, Plan, dict[str, Any]]) -> None:
    name, plan, layers = example
    told = [output for output in plan.outputs if output.highlight is not None]
    assert len(told) == 1
    highlight = told[0].highlight
    assert highlight is not None
    assert highlight.columns is not None
    found = layers[told[0].from_].sort_values(highlight.order_by, ascending=not highlight.descending)
    rows = [
        f"| {first} | {round(number):,} |" for first, number in found[highlight.columns].head(highlight.rows).to_numpy()
    ]
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert [row for row in rows if row not in readme] == []
    expected = {"soho": "| Broad Street | 266 |", "counties": "| California | 60,553 |"}
    assert rows[0] == expected[name]


def test_the_map_is_drawn_with_its_context(example: tuple[str, Plan, dict[str, Any]]) -> None:
    _, plan, layers = example
    output = next(output for output in plan.outputs if output.uri.endswith(".png"))
    assert output.map is not None
    bare, full = io.BytesIO(), io.BytesIO()
    draw_map(layers[output.from_], bare)
    context = {name: layers[name] for name in output.context}
    draw_map(layers[output.from_], full, context=context, **output.map.model_dump())
    assert full.getvalue().startswith(b"\x89PNG")
    assert len(full.getvalue()) > len(bare.getvalue())


def test_nothing_is_counted_twice_or_lost(example: tuple[str, Plan, dict[str, Any]]) -> None:
    name, _, layers = example
    if name == "soho":
        cells = layers["cells"]
        assert cells["deaths"].sum() == layers["deaths"]["Count"].sum() == 392
        # The areas of the pumps and the nearest pump of each address are two ways to one answer.
        nearest = layers["addresses_to_pump"].groupby("pump")["Count"].sum()
        counted = cells.set_index("pump")["deaths"]
        pandas.testing.assert_series_equal(
            counted[counted > 0].sort_index(), nearest.sort_index(), check_names=False, check_dtype=False
        )
        assert cells["area_km2"].sum() == pytest.approx(0.86 * 0.86)
    else:
        parts, states = layers["near_counties"], layers["near_states"]
        assert states["area_km2"].sum() == pytest.approx(parts["area_km2"].sum())
        # The area by another way: bare shapely, no overlay of the project's.
        discs = shapely.union_all(shapely.buffer(layers["cities_m"].geometry.to_numpy(), 50_000, quad_segs=16))
        land = shapely.union_all(layers["counties_m"].geometry.to_numpy())
        assert parts["area_km2"].sum() == pytest.approx(shapely.area(shapely.intersection(discs, land)) / 1e6, rel=1e-6)


def test_the_defects_are_mended_and_nothing_else_changes() -> None:
    counties = operations["read_layer"].compute(
        uri=str(EXAMPLES / "counties" / "data" / "us-counties.gpkg"), layer="counties", crs="EPSG:4269"
    )
    mended = operations["make_valid"].compute(layer=counties)
    assert isinstance(mended, geopandas.GeoDataFrame)
    assert len(mended) == 3231
    assert mended.is_valid.all()
    before, after = counties.geometry.to_numpy(), mended.geometry.to_numpy()
    assert int((~shapely.equals_identical(before, after) & ~shapely.equals(before, after)).sum()) <= 22
    assert len(operations["remove_empty"].compute(layer=mended)) == 3230
