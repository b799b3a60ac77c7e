"""A plan's text into values: scalars by YAML 1.2, lines, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocairn.plan.complaint import PlanError
from geocairn.plan.document import document_of, parse_document, parse_scalar, read_document


def complaints(text: str, name: str = "plan.yaml") -> list[tuple[int | None, str]]:
    """Line and message of what is wrong with a text."""
    try:
        document = parse_document(text, name)
    except PlanError as error:
        found = error.complaints
    else:
        found = document.complaints
    return [(complaint.line, complaint.message) for complaint in found]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1E5", 1e5),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("10", 10),
        ("-10", -10),
        ("+10", 10),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("190:20:30", "190:20:30"),
        ("no", "no"),
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("2026-11-30", "2026-11-30"),
        ("2026-11-30 10:00:00Z", "2026-11-30 10:00:00Z"),
        ("'10'", "10"),
        ('"true"', "true"),
        ("'null'", "null"),
        ("!!str 10", "10"),
        ("EPSG:5070", "EPSG:5070"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("inf", "inf"),
        ("nan", "nan"),
        ("=", "="),
        ("1.2.3", "1.2.3"),
        ("9" * 5000, "9" * 5000),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
        ("[1, no, '2', [x]]", [1, "no", "2", ["x"]]),
        ("{a: 1, 2: b}", {"a": 1, "2": "b"}),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    found = parse_document(f"value: {text}").values["value"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_one_for_the_parameter_model_to_refuse():
    assert math.isnan(parse_document("value: .nan").values["value"])


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _plain, max_size=5), st.sampled_from([None, 2, "\t"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_json_gives_what_it_says(values, indent, ascii_only):
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    found = parse_document(text, "plan.json").values
    assert found == values
    assert json.dumps(found) == json.dumps(values)  # 1 and 1.0 and true are three


def test_json_keeps_lines():
    document = parse_document(
        '{\n\t"name": "x",\n\t"steps": [\n\t\t{"name": "a",\n\t\t "op"\n: "b"}\n\t]\n}', "plan.json"
    )
    assert document.values == {"name": "x", "steps": [{"name": "a", "op": "b"}]}
    assert document.line(("name",)) == 2
    assert document.line(("steps", 0)) == 4
    assert document.line(("steps", 0, "op")) == 5


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ('{\n"name": "x",\n}', 2, "comma after the last"),
        ('{"name": "x"\n"steps": []}', 2, "comma"),
        ('{"name": }', 1, "value"),
        ('{"name": "x"', 1, "comma"),
        ('{name: "x"}', 1, "double quotes"),
        ('{"name": "x"} {}', 1, "after the end"),
        ('{"a": ' + "[" * 5000 + "]" * 5000 + "}", 1, "deeper"),
    ],
)
def test_what_is_not_json_is_told_with_its_line(text, line, about):
    found = complaints(text, "plan.json")
    assert [place for place, _ in found] == [line]
    assert found[0][1].startswith("this is not JSON")
    assert about in found[0][1]


def test_yaml_that_begins_with_a_brace_is_yaml():
    assert parse_document("{name: x, steps: []}").values == {"name": "x", "steps": []}


def test_lines_are_those_of_the_text():
    text = (
        "name: x\n\nsources:\n  a:\n    uri: b\nsteps:\n  - name: s\n    op: buffer\n    params:\n      distance: 5\n"
    )
    document = parse_document(text)
    assert document.line(("sources", "a", "uri")) == 5
    assert document.line(("steps", 0)) == 7
    assert document.line(("steps", 0, "params", "distance")) == 10
    assert document.line(("steps", 0, "params", "missing")) == 9
    assert document.line(("steps", 7)) == 6
    assert document_of({"name": "x"}).line(("name",)) is None


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("name: x\nname: y", 2, "'name' is used twice (line 1)"),
        ("sources:\n  a: x\n  'a': y", 3, "'a' is used twice (line 2)"),
        ("steps:\n  - {name: a, params: {d: 1, d: 2}}", 2, "'d' is used twice"),
        ('{"name": 1,\n "name": 2}', 2, "'name' is used twice"),
        ("steps:\n\t- name: a", 2, "tab"),
        ("name: x\n  op: y", 2, "not YAML"),
        ("name: [1, 2", 1, "not YAML"),
        ("a: *nowhere", 1, "alias"),
        ("name: x\n---\nname: y", 2, "second document"),
        ("name: x\nop: \x07", 2, "control characters"),
        ("- a\n- b", 1, "a plan is a mapping"),
        ("just text", 1, "a plan is a mapping"),
        ("", 1, "a plan is a mapping"),
        ("# nothing but a comment", 1, "a plan is a mapping"),
        ("name: x\n? [a, b]\n: c", 2, "plain name"),
        ("base: &b {x: 1}\nother:\n  <<: *b", 3, "merge key"),
        ("name: !!python/object/apply:os.system ['touch /tmp/x']", 1, "tag !!python/object/apply:os.system"),
        ("name: !include other.yaml", 1, "tag !include"),
        ("name: !!binary aGVsbG8=", 1, "tag !!binary"),
        ("a: " + "[" * 5000 + "]" * 5000, 1, "nesting depth"),
        ("a: &a [*a]", None, "unfolds"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, line, about):
    found = complaints(text)
    assert [place for place, _ in found] == [line]
    assert about in found[0][1]


def test_a_tag_makes_nothing(tmp_path):
    target = tmp_path / "made"
    document = parse_document(f"name: !!python/object/apply:pathlib.Path.touch [{target}]")
    assert document.values == {"name": None}
    assert not target.exists()


def test_aliases_are_copies():
    document = parse_document("a: &x {p: [1]}\nb: *x")
    document.values["a"]["p"].append(2)
    assert document.values["b"] == {"p": [1]}


def test_an_alias_bomb_is_refused_in_time():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert complaints("\n".join(lines)) == [(None, "the plan unfolds to more values than any plan has")]


def test_values_from_python_are_copied():
    values = {"steps": [{"params": {"d": 1}}]}
    document_of(values).values["steps"][0]["params"]["d"] = 2
    assert values == {"steps": [{"params": {"d": 1}}]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50000", 50000),
        ("1e-6", 1e-6),
        ("true", True),
        ("no", "no"),
        ("", None),
        ("'5'", "5"),
        ("[a, 1]", ["a", 1]),
        ("{a: first, b: [min, max]}", {"a": "first", "b": ["min", "max"]}),
        ("#ff0000", "#ff0000"),
        ("name = 'a #1'", "name = 'a #1'"),
        ("a: b", "a: b"),
        ("name > 5 AND state IN ('NY', 'NJ')", "name > 5 AND state IN ('NY', 'NJ')"),
        ("*x", "*x"),
        ("&x", "&x"),
        ("- a", "- a"),
        ("!x", "!x"),
        ("[a", "[a"),
        ("'a' = name", "'a' = name"),
        ("urn:ogc:def:crs:EPSG::5070", "urn:ogc:def:crs:EPSG::5070"),
    ],
)
def test_a_value_on_the_command_line_is_a_scalar_or_a_flow_collection(text, value):
    found = parse_scalar(text)
    assert found == value
    assert type(found) is type(value)


def read(path: Path) -> str:
    with pytest.raises(PlanError) as caught:
        read_document(path)
    return str(caught.value)


def test_a_missing_file_is_told_with_the_plans_beside_it(tmp_path):
    assert "give the path" in read(tmp_path / "plan.yaml")
    assert "give the path" in read(tmp_path / "nowhere" / "plan.yaml")
    for name in ("soho.yaml", "counties.yml", "other.json", "notes.txt"):
        (tmp_path / name).write_text("name: x")
    assert "did you mean 'soho.yaml'?" in read(tmp_path / "soh.yaml")
    said = read(tmp_path / "zzz")
    assert "counties.yml, other.json, soho.yaml" in said
    assert "notes" not in said
    said = read(tmp_path)
    assert "folder" in said
    assert "soho.yaml" in said


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_bytes("name: x\nlabel: Zürich\n".encode("latin-1"))
    assert read(path).startswith(f"{path}:2: this is not UTF-8")
    path.write_bytes("name: x".encode("utf-16"))
    assert "not UTF-8" in read(path)


def test_a_byte_order_mark_and_windows_lines_are_no_matter(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\r\nsteps:\r\n  - {name: a}\r\n")
    document = read_document(path)
    assert document.values == {"name": "x", "steps": [{"name": "a"}]}
    assert document.line(("steps", 0)) == 3
    assert document.folder == tmp_path
    assert document.name == str(path)
    path.write_bytes(b'\xef\xbb\xbf{"name": "x"}')
    assert read_document(path).values == {"name": "x"}
