"""The check of a plan: every complaint with line, step, field and the nearest right name, and all of them at once."""

# ruff: noqa: E501 - steps are easier to read in one line

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import geopandas as gpd
import pytest
import shapely

from geocairn.fingerprint import fingerprint, step_record
from geocairn.operations.registry import operations
from geocairn.plan.check import Checked, check, graph_of
from geocairn.plan.complaint import Complaint, PlanError
from geocairn.plan.document import document_of, parse_document
from geocairn.plan.model import Output, Plan, Step
from geocairn.plan.reading import override
from geocairn.sources.describe import describe
from geocairn.sources.source import Source


@dataclass
class Known:
    """What a test says of a source."""

    crs_name: str | None = "EPSG:4326"
    geographic: bool | None = True
    kinds: tuple[str, ...] = ("polygon",)
    crs: str | None = None


DEGREES = Known()
METRES = Known("EPSG:5070", False)
POINTS = Known("EPSG:5070", False, ("point",))
LINES = Known("EPSG:5070", False, ("line",))
OPEN = Known(None, None, ())

SOURCES = {"deg.gpkg": DEGREES, "met.gpkg": METRES, "pts.gpkg": POINTS, "lin.gpkg": LINES, "open.gpkg": OPEN}

HEAD = """name: p
sources:
  deg: deg.gpkg
  met: met.gpkg
  pts: pts.gpkg
  lin: lin.gpkg
  open: open.gpkg
steps:
"""
FIRST = HEAD.count("\n") + 1


def checked(text: str, *settings: str) -> Checked:
    document = parse_document(text, "plan.yaml")
    override(document, list(settings))
    return check(document, lambda source: SOURCES.get(source.uri))


def complaints(text: str, *settings: str) -> list[Complaint]:
    try:
        checked(text, *settings)
    except PlanError as error:
        return error.complaints
    return []


def of_steps(*steps: str, end: str = "") -> list[Complaint]:
    return complaints(HEAD + "".join(f"  - {step}\n" for step in steps) + end)


ONE_FAULT = [
    # step, field, what the message holds
    ("{name: s, op: bufer, inputs: met}", "op", "there is no operation 'bufer'; did you mean 'buffer'?"),
    ("{name: s, op: 5, inputs: met}", "op", "must be text, not 5"),
    ("{name: s, op: centroid, inputs: mett}", "inputs", "no source or earlier step 'mett'; did you mean 'met'?"),
    ("{name: s, op: centroid}", "inputs", "input 'layer' of centroid is missing"),
    ("{name: s, op: centroid, inputs: []}", "inputs", "input 'layer' of centroid is missing"),
    ("{name: s, op: centroid, inputs: s}", "inputs", "takes its own result"),
    ("{name: s, op: centroid, inputs: {layr: met, layer: met}}", "inputs.layr", "did you mean 'layer'?"),
    ("{name: s, op: centroid, inputs: [met, met]}", "inputs", "it takes 1 (layer), there are 2"),
    ("{name: s, op: centroid, inputs: {layer: [met, met]}}", "inputs.layer", "takes one layer, there are 2"),
    ("{name: s, op: clip, inputs: met}", "inputs", "input 'mask' of clip is missing; it takes layer, mask"),
    ("{name: s, op: clip, inputs: {layer: met, mask: pts}}", "inputs.mask", "takes polygon geometry, 'pts' has point"),
    ("{name: s, op: voronoi, inputs: lin}", "inputs", "takes point geometry, 'lin' has line"),
    ("{name: s, op: read_layer, inputs: met, params: {uri: a.gpkg}}", "inputs", "it takes none, there are 1"),
    ("{name: s, op: buffer, inputs: met, params: {distance: 5, distanc: 6}}", "params.distanc", "'distance'?"),
    ("{name: s, op: remove_empty, inputs: met, params: {x: 6}}", "params.x", "has no parameter 'x'; it takes none"),
    ("{name: s, op: buffer, inputs: met}", "params.distance", "parameter 'distance' is missing"),
    ("{name: s, op: buffer, inputs: met, params: {distance: [5]}}", "params.distance", "a number or text, not [5]"),
    ("{name: s, op: buffer, inputs: met, params: {distance: .nan}}", "params.distance", "finite"),
    (
        "{name: s, op: buffer, inputs: met, params: {distance: 5, quad_segs: 0}}",
        "params.quad_segs",
        "equal to 1, not 0",
    ),
    ("{name: s, op: buffer, inputs: met, params: {distance: 5, cap_style: rund}}", "params.cap_style", "'round'?"),
    ("{name: s, op: buffer, inputs: met, params: [5]}", "params", "must be a mapping, not [5]"),
    ("{name: s, op: dissolve, inputs: met, params: {aggregates: {a: summ}}}", "params.aggregates.a", "'sum'?"),
    ("{name: s, op: voronoi, inputs: pts, params: {extent: [1, 2, 3]}}", "params.extent", "too few items: [1, 2, 3]"),
    ("{name: s, op: voronoi, inputs: pts, params: {extent: [1, 2, 0, 3]}}", "params.extent", "xmin < xmax"),
    ("{name: s, op: spatial_join, inputs: [met, met], params: {distance: 5}}", "params", "goes with predicate dwithin"),
    ("{name: s, op: reproject, inputs: met, params: {crs: EPSG:507O}}", "params.crs", "PROJ knows no CRS 'EPSG:507O'"),
    ("{name: s, op: reproject, inputs: met, params: {crs: nowhere}}", "params.crs", "such as EPSG:5070"),
    ("{name: s, op: reproject, inputs: met, params: {crs: 5070, source_crs: EPSG:1}}", "params.source_crs", "EPSG:1"),
    ("{name: s, op: assign_crs, inputs: open, params: {crs: EPSG:99999}}", "params.crs", "EPSG:99999"),
    (
        "{name: s, op: buffer, inputs: deg, params: {distance: 5}}",
        "params.distance",
        "'deg' is in EPSG:4326, in degrees",
    ),
    ("{name: s, op: measure, inputs: deg, params: {area: a}}", "op", "method: ellipsoidal"),
    ("{name: s, op: simplify, inputs: deg, params: {tolerance: 1}}", "params.tolerance", "in degrees"),
    (
        "{name: s, op: overlay, inputs: [deg, met], params: {how: union}}",
        "inputs",
        "'deg' is in EPSG:4326, 'met' in EPSG:5070",
    ),
    ("{name: s, op: centroid, inputs: met, expect: {rowz: 5}}", "expect.rowz", "did you mean 'rows'?"),
    ("{name: s, op: centroid, inputs: met, expect: {rows: many}}", "expect.rows", "must be a whole number, not 'many'"),
    ("{name: s, op: centroid, inputs: met, expect: {geometry: polygn}}", "expect.geometry", "did you mean 'polygon'?"),
    ("{name: s, op: centroid, inputs: met, expect: {crs: EPSG:99999}}", "expect.crs", "PROJ knows no CRS"),
    ("{name: s, op: centroid, inputs: met, expect: {min_rows: 3, max_rows: 2}}", "expect", "no result can do"),
    ("{name: s, op: centroid, inputs: met, on_invalid: repare}", "on_invalid", "did you mean 'repair'?"),
    ("{name: s, op: centroid, inputs: met, checkpoint: nevr}", "checkpoint", "did you mean 'never'?"),
    ("{name: s, op: centroid, inputs: met, retention: 7 days}", "retention", "write 90s"),
    ("{name: s, op: centroid, inputs: met, retrys: 3}", "retrys", "did you mean 'retries'?"),
    ("{name: s, op: centroid, inputs: met, backends: [geopanda]}", "backends", "did you mean 'geopandas'?"),
    ("{name: s, op: centroid, inputs: met, backends: []}", "backends", "at least one backend"),
    ("{name: s, op: filter, inputs: met, params: {where: 'a ='}}", "params", "cannot be read"),
    ("{name: met, op: centroid, inputs: met}", "name", "used twice (by a source, line 4)"),
    ("{name: a.b, op: centroid, inputs: met}", "name", "has a dot"),
    ("{name: a b, op: centroid, inputs: met}", "name", "is not a name"),
    ("{name: s, op: write_layer, inputs: met, params: {uri: a.xyz}}", "params.uri", "stands for no format"),
    ("{name: s, op: write_layer, inputs: met, params: {uri: met.gpkg}}", "params.uri", "what source met reads"),
]


@pytest.mark.parametrize(("step", "field", "about"), ONE_FAULT, ids=[fault[0] for fault in ONE_FAULT])
def test_one_fault_is_one_complaint_with_line_step_field_and_remedy(step, field, about):
    found = of_steps("{name: fine, op: centroid, inputs: met}", step)
    assert len(found) == 1, found
    assert found[0].line == FIRST + 1
    assert found[0].step in ("s", "met", "a.b", "a b")
    assert found[0].field == field
    assert about in found[0].message


def test_a_complaint_names_the_line_of_the_field():
    found = of_steps("name: s\n    op: buffer\n    inputs: met\n    params:\n      distance: 5\n      quad_segs: many")
    assert [complaint.line for complaint in found] == [FIRST + 5]


def test_all_complaints_come_at_once():
    text = HEAD.replace("name: p", "nam: p") + "".join(f"  - {fault[0]}\n" for fault in ONE_FAULT)
    found = complaints(text)
    for place, (_, field, about) in enumerate(ONE_FAULT):
        here = [complaint for complaint in found if complaint.line == FIRST + place and complaint.field == field]
        assert any(about in complaint.message for complaint in here), (place, about)
    assert found[0].line is not None
    assert [complaint.line or 0 for complaint in found] == sorted(complaint.line or 0 for complaint in found)
    assert any(complaint.message == "the field 'name' is missing" for complaint in found)


def test_what_is_made_from_a_wrong_step_is_not_blamed_for_it():
    found = of_steps(
        "{name: a, op: bufer, inputs: met}",
        "{name: b, op: centroid, inputs: a}",
        "{name: c, op: clip, inputs: {layer: b, mask: a}}",
        "{name: d, op: buffer, inputs: deg, params: {distance: 1}}",
        "{name: e, op: simplify, inputs: d, params: {tolerance: 1}}",
        "buffer",
        end="outputs:\n  - {from: c, uri: a.parquet}\n",
    )
    assert [complaint.step for complaint in found] == ["a", "d", "step 6"]


def test_a_wrong_step_does_not_hide_what_else_is_wrong_with_it():
    found = of_steps("{name: s, op: buffer, inputs: mett, params: {distanc: 5}, on_invalid: x, expect: {crs: EPSG:1}}")
    assert {complaint.field for complaint in found} == {
        "inputs",
        "params.distance",
        "params.distanc",
        "on_invalid",
        "expect.crs",
    }


def test_inputs_of_an_unknown_operation_are_checked():
    found = of_steps("{name: s, op: bufer, inputs: {layer: mett, other: [pts, linn]}}")
    assert [complaint.field for complaint in found] == ["op", "inputs.layer", "inputs.other"]


def test_a_later_step_as_input():
    found = of_steps("{name: a, op: centroid, inputs: b}", "{name: b, op: centroid, inputs: met}")
    assert [complaint.message for complaint in found] == [
        "input 'b' comes later in the plan: steps are in order, move it up"
    ]


def test_a_publication_has_no_result_to_take():
    found = of_steps(
        "{name: w, op: write_layer, inputs: met, params: {uri: a.parquet}}",
        "{name: b, op: centroid, inputs: w}",
        end="outputs:\n  - {from: w, uri: b.parquet}\n",
    )
    assert len(found) == 2
    assert all("publishes a result" in complaint.message for complaint in found)


@pytest.mark.parametrize(
    "steps",
    [
        ["{name: a, op: centroid, inputs: deg}", "{name: b, op: select_columns, inputs: a, params: {keep: [x]}}"],
        ["{name: a, op: reproject, inputs: met, params: {crs: 'EPSG:4326'}}", "{name: b, op: centroid, inputs: a}"],
        ["{name: a, op: reproject, inputs: met, params: {crs: 4326}}", "{name: b, op: remove_empty, inputs: a}"],
        ["{name: a, op: assign_crs, inputs: open, params: {crs: 'OGC:CRS84'}}", "{name: b, op: centroid, inputs: a}"],
        ["{name: a, op: read_layer, params: {uri: deg.gpkg}}", "{name: b, op: centroid, inputs: a}"],
        ["{name: a, op: read_layer, params: {uri: x.csv, crs: 4326}}", "{name: b, op: centroid, inputs: a}"],
        ["{name: a, op: clip, inputs: [deg, deg]}", "{name: b, op: centroid, inputs: a}"],
    ],
)
def test_a_distance_in_degrees_is_found_downstream(steps):
    found = of_steps(*steps, "{name: c, op: buffer, inputs: b, params: {distance: 50}}")
    assert [(complaint.step, complaint.field) for complaint in found] == [("c", "params.distance")]
    assert "in degrees" in found[0].message


def test_a_stated_crs_in_degrees_is_found():
    text = "name: p\nsources:\n  a: {uri: x.csv, crs: 4326}\nsteps:\n  - {name: s, op: buffer, inputs: a, params: {distance: 1}}\n"
    found = complaints(text)
    assert [complaint.line for complaint in found] == [5]


@pytest.mark.parametrize(
    "steps",
    [
        ["{name: a, op: reproject, inputs: deg, params: {crs: 5070}}", "{name: c, op: buffer, inputs: a, params: {distance: 1}}"],
        ["{name: c, op: buffer, inputs: open, params: {distance: 1}}"],
        ["{name: c, op: measure, inputs: deg, params: {area: a, method: ellipsoidal}}"],
        ["{name: a, op: reproject, inputs: deg, params: {crs: epsg:5070}}", "{name: c, op: clip, inputs: [a, met]}"],
        ["{name: c, op: clip, inputs: [open, met]}"],
        ["{name: c, op: voronoi, inputs: open, params: {extent: [0, 0, 1, 1]}}"],
        ["{name: a, op: centroid, inputs: met}", "{name: c, op: voronoi, inputs: a}"],
        ["{name: a, op: convex_hull, inputs: pts}", "{name: c, op: clip, inputs: [met, a]}"],
        ["{name: c, op: clip, inputs: {layer: met, mask: met}, params: {keep_geometry_kind: false}}", "{name: d, op: voronoi, inputs: c}"],
        ["{name: 2024, op: centroid, inputs: met}", "{name: c, op: centroid, inputs: 2024}"],
        ["{name: c, op: centroid, inputs: met, backends: [geopandas]}"],
    ],
)  # fmt: skip
def test_what_is_right_or_not_known_is_let_pass(steps):
    assert of_steps(*steps) == []


def test_the_kind_of_a_result_is_carried():
    found = of_steps("{name: a, op: centroid, inputs: met}", "{name: b, op: clip, inputs: {layer: met, mask: a}}")
    assert found[0].message == "input 'mask' of clip takes polygon geometry, 'a' has point"


def test_two_spellings_of_one_crs_are_one(monkeypatch):
    from pyproj import CRS

    wkt = CRS("EPSG:5070").to_wkt("WKT1_ESRI")
    monkeypatch.setitem(SOURCES, "met.gpkg", Known("USA Contiguous Albers", False, ("polygon",), wkt))
    monkeypatch.setitem(
        SOURCES, "lin.gpkg", Known("USA Contiguous Albers", False, ("polygon",), wkt.replace("-96", "-97"))
    )
    assert of_steps("{name: a, op: clip, inputs: [met, met]}") == []
    found = of_steps("{name: a, op: clip, inputs: [met, lin]}")
    assert ["differ in CRS" in complaint.message for complaint in found] == [True]


PLAN_FAULTS = [
    (
        "name: p\ncolor: red\nsteps: [{name: a, op: centroid, inputs: met}]\nsources: {met: met.gpkg}",
        2,
        "no field 'color'",
    ),
    ("name: p\nstep: []", 2, "did you mean 'steps'?"),
    ("name: p\nsteps: {a: {op: buffer}}", 2, "steps must be a list"),
    ("name: p\nsteps: 5", 2, "steps must be a list, not 5"),
    ("name: p\nsources: [a]", 2, "sources must be a mapping"),
    ("name: p\nsources:\n  a: 5", 3, "a mapping of fields is needed here, there is 5"),
    ("name: p\nsources:\n  a: {url: x.gpkg}", 3, "'uri' is missing"),
    ("name: p\nsources:\n  a:\n    uri: x.gpkg\n    crs: EPSG:99999", 5, "PROJ knows no CRS 'EPSG:99999'"),
    ("name: p\nsources:\n  a: {uri: x.gpkg, bbox: [1, 2]}", 3, "too few items"),
    ("name: p\nsources:\n  a b: x.gpkg", 3, "is not a name"),
    ("name: p", 1, "the plan has no steps"),
    ("steps: []", 1, "the field 'name' is missing"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: b, uri: x.parquet}", 4, "there is no source or step 'b'"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: x.xyz}", 4, "'.xyz' stands for no format"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: x}", 4, "no extension"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: 'ftp://x/y.gpkg'}", 4, "ftp"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: x.gpkg}", 4, "an output must not replace it"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: ./x.gpkg}", 4, "an output must not replace it"),
    (
        "name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: o.png}\n  - {from: a, uri: ./o.png}",
        5,
        "written twice",
    ),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: o.png, context: [a, b]}", 4, "'b'"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - {from: a, uri: o.png, map: {titel: x}}", 4, "did you mean 'title'?"),
    ("name: p\nsources: {a: x.gpkg}\noutputs:\n  - from: a", 4, "'uri' is missing"),
    ("name: p\nsources: {a: x.gpkg}\noutputs: {from: a}", 3, "outputs must be a list"),
]


@pytest.mark.parametrize(("text", "line", "about"), PLAN_FAULTS, ids=[fault[0] for fault in PLAN_FAULTS])
def test_faults_of_sources_outputs_and_the_plan_itself(text, line, about):
    found = complaints(text)
    assert [complaint.line for complaint in found if about in complaint.message] == [line], found


def test_every_complaint_is_one_readable_line():
    texts = [fault[0] for fault in PLAN_FAULTS] + [HEAD + f"  - {fault[0]}\n" for fault in ONE_FAULT]
    for text in texts:
        for complaint in complaints(text):
            said = complaint.text("plan.yaml")
            assert said.startswith("plan.yaml")
            assert len(said) < 350
            assert not any(
                word in said for word in ("\n", "pydantic", "Traceback", "Input should", "<class", "Value error")
            )


def test_a_step_that_leads_nowhere_is_remarked_on():
    text = HEAD + (
        "  - {name: a, op: centroid, inputs: met}\n  - {name: b, op: centroid, inputs: pts}\n"
        "outputs:\n  - {from: a, uri: a.parquet}\n"
    )
    remarks = checked(text).remarks
    assert ("step 'b' leads to no output and is not computed", FIRST + 1) in [(r.message, r.line) for r in remarks]
    assert "source 'lin' leads to no output and is not read" in [r.message for r in remarks]
    assert "met" not in [r.step for r in remarks]


SET = HEAD + "  - {name: s, op: buffer, inputs: met, params: {distance: 5}}\n  - {name: t, op: centroid, inputs: s}\n"


def test_set_changes_parameters_of_steps_and_fields_of_sources():
    graph = checked(SET, "s.distance=1e3", "s.cap_style=flat", "met.uri=other.gpkg", "met.columns=[a, b]").graph
    assert graph.nodes["s"].parameters.distance == 1000
    assert graph.nodes["s"].parameters.cap_style == "flat"
    assert graph.nodes["met"].source == Source(uri="other.gpkg", columns=["a", "b"])


def test_set_goes_into_mappings_and_takes_flow_collections():
    text = HEAD + "  - {name: s, op: dissolve, inputs: met}\n"
    graph = checked(text, "s.by=[a, b]", "s.aggregates.pop=sum", "s.aggregates.n=[min, max]").graph
    assert graph.nodes["s"].parameters.by == ["a", "b"]
    assert dict(graph.nodes["s"].parameters.aggregates) == {"pop": ["sum"], "n": ["min", "max"]}


@pytest.mark.parametrize(
    ("setting", "about"),
    [
        ("distance=5", "not of the form STEP.PARAM=VALUE"),
        ("s.distance", "not of the form"),
        ("=5", "not of the form"),
        ("s.=5", "not of the form"),
        ("s..x=5", "not of the form"),
        ("sx.distance=5", "no step or source 'sx'; did you mean 's'?"),
        ("mett.uri=5", "did you mean 'met'?"),
        ("s.distance.x=5", "'distance' is not a mapping"),
        ("s.distance={a: 1, a: 2}", "used twice"),
    ],
)
def test_a_wrong_set_is_told(setting, about):
    with pytest.raises(PlanError) as caught:
        checked(SET, setting)
    assert about in str(caught.value)
    assert setting in str(caught.value)


@pytest.mark.parametrize("text", ["name: p\nsteps: 5", "name: p\nsteps: [x, 5]\nsources: [a]", "name: p"])
def test_set_on_a_plan_without_steps_is_told(text):
    with pytest.raises(PlanError, match="no step or source 's'"):
        override(parse_document(text), ["s.distance=5"])


def test_several_wrong_sets_come_at_once():
    with pytest.raises(PlanError) as caught:
        checked(SET, "a=5", "b.c=6")
    assert len(caught.value.complaints) == 2


def test_a_complaint_about_a_set_value_names_the_setting_and_no_line():
    found = complaints(SET, "s.quad_segs=many", "s.distanc=5")
    assert {complaint.line for complaint in found} == {None}
    assert "--set s.quad_segs=many" in found[0].message
    assert "--set s.distanc=5" in found[1].message


def test_set_does_not_touch_the_callers_values():
    values = {"name": "p", "steps": [{"name": "s", "op": "read_layer", "params": {"uri": "a.gpkg"}}]}
    document = document_of(values)
    override(document, ["s.uri=b.gpkg"])
    assert values["steps"][0]["params"] == {"uri": "a.gpkg"}


CHAIN = """
name: chain
sources:
  a: {uri: a.gpkg, layer: x}
  b: {uri: b.parquet, public: true}
steps:
  - {name: am, op: reproject, inputs: a, params: {crs: "EPSG:5070"}}
  - {name: bm, op: reproject, inputs: b, params: {crs: 5070}}
  - {name: near, op: buffer, inputs: bm, params: {distance: 5e3, cap_style: flat}, on_invalid: repair}
  - {name: both, op: overlay, inputs: {left: am, right: near}, params: {how: intersection}, expect: {geometry: polygon}}
  - {name: all, op: dissolve, inputs: both, params: {by: state, aggregates: {pop: [sum, max]}}}
outputs:
  - {from: all, uri: out/all.parquet}
  - {from: all, uri: out/all.png, context: [am], map: {title: T}}
"""


def prints(graph) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in graph.nodes.values():
        if node.kind == "source":
            found[node.name] = fingerprint(dict(node.source))
        else:
            inputs = {
                role: [found[name] for name in value] if isinstance(value, list) else found[value]
                for role, value in node.inputs.items()
            }
            found[node.name] = fingerprint(
                step_record(node.step or Step(name="o", op="o"), node.operation, node.parameters, inputs)
            )
    return found


def test_yaml_json_and_python_give_the_same_graph_and_fingerprints(tmp_path):
    import json

    yaml_document = parse_document(CHAIN)
    values = yaml_document.values
    plan = Plan(
        name="chain",
        sources={"a": Source(uri="a.gpkg", layer="x"), "b": Source(uri="b.parquet", public=True)},
        steps=[
            Step(name="am", op="reproject", inputs="a", params={"crs": "EPSG:5070"}),
            Step(name="bm", op="reproject", inputs={"layer": "b"}, params={"crs": "epsg:5070"}),
            Step(name="near", op="buffer", inputs=["bm"], params={"cap_style": "flat", "distance": 5000}, on_invalid="repair"),
            Step(name="both", op="overlay", inputs=["am", "near"], params={"how": "intersection"}, expect={"geometry": ["polygon"]}),
            Step(name="all", op="dissolve", inputs="both", params={"by": ["state"], "aggregates": {"pop": ("sum", "max")}}),
        ],
        outputs=[
            Output(from_="all", uri="out/all.parquet"),
            Output(from_="all", uri="out/all.png", context=["am"], map={"title": "T"}),
        ],
    )  # fmt: skip
    graphs = [
        check(yaml_document).graph,
        check(parse_document(json.dumps(values, indent="\t"), "plan.json")).graph,
        graph_of(values),
        graph_of(plan),
        graph_of(Plan.model_validate(values)),
        graph_of(json.loads(plan.model_dump_json(by_alias=True))),
    ]
    for graph in graphs[1:]:
        assert list(graph.nodes) == list(graphs[0].nodes)
        assert [node.inputs for node in graph.nodes.values()] == [node.inputs for node in graphs[0].nodes.values()]
        assert [node.parameters for node in graph.nodes.values()] == [
            node.parameters for node in graphs[0].nodes.values()
        ]
        assert prints(graph) == prints(graphs[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    layer = gpd.GeoDataFrame({"pop": [1], "state": ["x"]}, geometry=[shapely.box(0, 0, 1, 1)], crs="EPSG:4326")
    layer.to_file(tmp_path / "counties.gpkg", layer="counties")
    layer.to_file(tmp_path / "counties.gpkg", layer="states")
    layer.to_file(tmp_path / "roads.geojson")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "field", "about"),
    [
        ("{uri: county.gpkg}", "uri", "counties.gpkg"),
        ("{uri: counties.gpkg, layer: countys}", "layer", "did you mean 'counties'?"),
        ("{uri: counties.gpkg}", "uri", "states"),
        ("{uri: counties.gpkg, layer: counties, columns: [popp]}", "columns", "did you mean 'pop'?"),
        ("{uri: counties.gpkg, layer: counties, where: popp > 3}", "where", "did you mean 'pop'?"),
        ("{uri: counties.gpkg, layer: counties, crs: EPSG:5070}", "crs", "EPSG:4326"),
        ("{uri: roads.json}", "uri", "roads.geojson"),
        ("{uri: roads.xyz}", "uri", ".xyz"),
    ],
)
def test_real_sources_are_told_with_the_nearest_right_name(folder, source, field, about):
    for text, inner in (
        (f"name: p\nsources:\n  ok: roads.geojson\n  a: {source}\nsteps:\n  - {{name: s, op: centroid, inputs: a}}", field),
        (f"name: p\nsteps:\n  - {{name: r, op: centroid, inputs: a}}\n  - {{name: a, op: read_layer, params: {source}}}", f"params.{field}"),
    ):  # fmt: skip
        with pytest.raises(PlanError) as caught:
            check(parse_document(text), describe)
        found = [complaint for complaint in caught.value.complaints if complaint.step == "a"]
        assert [(complaint.line, complaint.field) for complaint in found] == [(4, inner)]
        assert about in found[0].message


@pytest.mark.parametrize(
    "where",
    [
        "__import__('os').system('true')",
        "name.upper() = 'X'",
        "exec('x') = 1",
        "open('/etc/passwd') = 'x'",
        "f(name)",
        "(lambda: 1)() = 1",
        "[x for x in name]",
        "a[0] = 1",
        "a; b",
    ],
)
def test_a_filter_runs_no_code(where):
    import json

    for text in (
        HEAD + f"  - {{name: s, op: filter, inputs: met, params: {{where: {json.dumps(where)}}}}}\n",
        f"name: p\nsteps:\n  - {{name: s, op: read_layer, params: {{uri: a.gpkg, where: {json.dumps(where)}}}}}\n",
    ):
        document = parse_document(text)
        if "read_layer" in text:
            continue  # held when the source is described, by the same parser
        with pytest.raises(PlanError):
            check(document)


def test_a_name_with_dots_is_a_column_and_nothing_else():
    layer = gpd.GeoDataFrame({"name": ["x"]}, geometry=[shapely.Point(0, 0)], crs="EPSG:5070")
    from geocairn.failure import InputFailure

    for where in ("name.__class__ = 'x'", '"name.__class__.__mro__" = 1', "geometry.wkt = 'x'"):
        with pytest.raises(InputFailure):
            operations["filter"].compute(layer, where=where)


def test_the_check_of_a_long_plan_is_quick():
    import time

    text = HEAD + "".join(
        f"  - {{name: s{n}, op: simplify, inputs: {f's{n - 1}' if n else 'met'}, params: {{tolerance: {n}}}}}\n"
        for n in range(1000)
    )
    started = time.perf_counter()
    graph = checked(text).graph
    assert len(graph.nodes) == 1005
    assert time.perf_counter() - started < 10
