"""Cases in a folder: what is there to be run, whoever wrote it.

A folder has an `INDEX.tsv` with a row a case (source, case, operation in plain words, inputs, expected, status,
tolerance, notes); a case is a folder `SOURCE/CASE/` of GeoJSON (or a Parquet file) and `params.json`. Beside that,
`geos/NAME.jsonl` holds one case a line, geometry as WKT. The project's own cases stand in `cases/` beside this module;
those of others in `shared/cases` beside the project, or where GEOCAIRN_SHARED says.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

CRS = "EPSG:3857"
"""Cases are planar, whatever their coordinates mean: any projected CRS lets them be measured as they are."""

OWN = Path(__file__).resolve().parent / "cases"
SHARED = Path(os.environ.get("GEOCAIRN_SHARED") or Path(__file__).resolve().parents[2] / ".." / "shared") / "cases"


@dataclass(frozen=True)
class Case:
    """One row of an INDEX."""

    source: str
    name: str
    words: str
    """The operation, in the words of the one who wrote the case."""
    folder: Path
    inputs: tuple[str, ...]
    expected: str
    status: str
    tolerance: float

    @property
    def label(self) -> str:
        """Its name among all cases."""
        return f"{self.source}/{self.name}"

    @property
    def is_file(self) -> bool:
        """Whether it is about reading a file, and not about an operation."""
        return self.inputs[0].endswith(".parquet")

    def params(self) -> dict[str, Any]:
        """What `params.json` says."""
        found: dict[str, Any] = json.loads((self.folder / "params.json").read_text(encoding="utf-8"))
        return found

    def layers(self) -> list[gpd.GeoDataFrame]:
        """The inputs, in order."""
        return [read_geojson(self.folder / name) for name in self.inputs]

    def expected_layer(self) -> gpd.GeoDataFrame:
        """What a right implementation gives."""
        return read_geojson(self.folder / self.expected)


@dataclass(frozen=True)
class Line:
    """One line of a `geos/NAME.jsonl`."""

    origin: Path
    words: str
    record: dict[str, Any]

    @property
    def file(self) -> str:
        """The name of its file."""
        return self.origin.stem

    @property
    def label(self) -> str:
        """Its name among all lines (the same geometry the other way round bears it too)."""
        return f"geos/{self.file} {self.record['id']}"

    @property
    def tolerance(self) -> float:
        """How far the result may lie from what is expected, as a share of its size."""
        return float(self.record.get("compare_tolerance") or 0)

    def params(self) -> dict[str, Any]:
        """What of the line is neither geometry nor about the line itself."""
        about = {
            *("id", "desc", "op", "peer_op", "a", "b", "expected", "status", "note", "compare_tolerance", "a_valid"),
        }
        return {name: value for name, value in self.record.items() if name not in about}

    def layers(self) -> list[gpd.GeoDataFrame]:
        """The inputs, a layer of one row each."""
        return [_one_row(self.record[side]) for side in ("a", "b") if self.record.get(side) is not None]

    @property
    def has_empty_side(self) -> bool:
        """Whether an input is empty, or has an empty part."""
        return any("EMPTY" in (self.record.get(side) or "") for side in ("a", "b"))


def folders() -> list[Path]:
    """The folders of cases that are there."""
    return [OWN, *([SHARED] if SHARED.exists() else [])]


def cases_in(folder: Path) -> list[Case]:
    """The cases that a folder's INDEX names."""
    with (folder / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        Case(
            row["source"],
            row["case"],
            row["operation"],
            folder / row["source"] / row["case"],
            tuple(row["inputs"].split(",")),
            row["expected"],
            row["status"],
            float(row["tolerance"] or 0),
        )
        for row in rows
    ]


def lines_in(folder: Path) -> Iterator[list[Line]]:
    """The cases of each `geos/NAME.jsonl`, file by file."""
    for path in sorted((folder / "geos").glob("*.jsonl")):
        records = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines() if text.strip()]
        yield [Line(path, record["op"], record) for record in records]


def read_geojson(path: Path) -> gpd.GeoDataFrame:
    """A GeoJSON document as a layer, vertex for vertex: no reader in between mends or promotes anything."""
    content = json.loads(path.read_text(encoding="utf-8"))
    features = content["features"] if content["type"] == "FeatureCollection" else [content]
    features = [one if one["type"] == "Feature" else {"geometry": one, "properties": {}} for one in features]
    shapes = [
        None if one["geometry"] is None else shapely.from_geojson(json.dumps(one["geometry"])) for one in features
    ]
    frame = pd.DataFrame([one.get("properties") or {} for one in features], index=range(len(features)))
    return gpd.GeoDataFrame(frame, geometry=np.array(shapes, dtype=object), crs=CRS)


def _one_row(wkt: str) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"n": [0]}, geometry=np.array([shapely.from_wkt(wkt)], dtype=object), crs=CRS)
