from __future__ import annotations

import datetime

import pytest
from pydantic import ValidationError

from geocairn.operations.reading_writing import read_layer, write_layer
from geocairn.sources.source import Source


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("epsg:5070", "EPSG:5070"),
        (5070, "EPSG:5070"),
        ("5070", "EPSG:5070"),
        (" EPSG: 5070 ", "EPSG:5070"),
        ("urn:ogc:def:crs:EPSG::4326", "EPSG:4326"),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", "OGC:CRS84"),
        ("+proj=laea +lat_0=52", "+proj=laea +lat_0=52"),
    ],
)
def test_one_crs_however_written(written: object, meant: str) -> None:
    assert Source.model_validate({"uri": "a.gpkg", "crs": written}).crs == meant


@pytest.mark.parametrize(
    ("written", "meant"), [(2024, "2024"), (1.5, "1.5"), (datetime.date(2024, 5, 1), "2024-05-01"), ("v2 ", "v2")]
)
def test_a_version_is_text(written: object, meant: str) -> None:
    assert Source.model_validate({"uri": "a.gpkg", "version": written}).version == meant


@pytest.mark.parametrize(
    "values",
    [
        {"uri": "  "},
        {"uri": "a", "version": ""},
        {"uri": "a", "crs": " "},
        {"uri": "a", "version": True},
        {"uri": "a", "crs": True},
        {"uri": "a", "columns": ["x", "x"]},
        {"uri": "a", "bbox": [3, 0, 1, 1]},
        {"uri": "a", "bbox": [0, 0, float("nan"), 1]},
        {"uri": "a", "bbox": [0, 0, 1]},
        {"uri": "a", "colums": ["x"]},
    ],
)
def test_what_means_nothing_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Source.model_validate(values)


def test_the_operation_takes_what_a_source_says() -> None:
    ours, theirs = Source.model_json_schema()["properties"], read_layer.parameters.model_json_schema()["properties"]
    assert ours == theirs
    assert all(field["description"] for field in ours.values())
    said = {"uri": "a.shp", "crs": 5070, "version": 2, "columns": ["x"], "bbox": [0, 0, 1, 1], "public": True}
    assert read_layer.normalise(said).model_dump() == Source.model_validate(said).model_dump()


def test_the_output_layer_is_called_layer_in_a_plan() -> None:
    assert write_layer.normalise({"uri": "a.gpkg", "layer": "towns"}).layer_name == "towns"  # type: ignore[attr-defined]
    assert write_layer.normalise({"uri": "a.gpkg", "layer_name": "towns"}).layer_name == "towns"  # type: ignore[attr-defined]
    assert "layer" in write_layer.parameters.model_json_schema()["properties"]
