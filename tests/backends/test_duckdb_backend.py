"""The DuckDB backend itself: what it refuses and says, its settings, and that it is loaded only when it computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward_layers as awkward
import geopandas as gpd
import pytest
import shapely

from geocairn.backends import claims, refusal
from geocairn.backends.claims import claimed
from geocairn.failure import CapabilityFailure, FatalFailure, InputFailure
from geocairn.operations.contract import operation
from geocairn.operations.registry import operations

NOT_CLAIMED: list[tuple[str, dict[str, Any]]] = [
    ("buffer", {"distance": 1, "single_sided": True}),
    ("make_valid", {}),
    ("overlay", {"how": "intersection", "grid_size": 1}),
    ("dissolve", {"method": "coverage"}),
    ("dissolve", {"grid_size": 1}),
    ("measure", {"area": "a", "method": "ellipsoidal"}),
    ("count_points", {"by": "kind"}),
    ("spatial_join", {"predicate": "disjoint"}),
    ("spatial_join", {"match": "largest"}),
    ("filter", {"where": "CASEI(text) = 'a'"}),
    ("filter", {"where": "whole + 1 = 2"}),
    ("filter", {"where": "T_AFTER(when, TIMESTAMP('2026-01-01T00:00:00Z'))"}),
    ("filter", {"where": "whole = 1 AND NOT (real * 2 > 3)"}),
    ("filter", {"where": "S_INTERSECTS(shape, mark)"}),
    ("filter", {"where": "flag"}),
    ("filter", {"where": "text LIKE 'a\\'"}),
]
INPUTS = {1: [awkward.POLYGONS], 2: [awkward.POLYGONS, awkward.POINTS]}


def compute(name: str, wkt: list[list[str | None]], source: str = awkward.CRS, **parameters: Any) -> gpd.GeoDataFrame:
    layers = [awkward.layer(one, source, prefix=prefix) for one, prefix in zip(wkt, ("", "r_"), strict=False)]
    return operations[name].compute(*layers, backend="duckdb", **parameters)


@pytest.mark.parametrize(("name", "parameters"), NOT_CLAIMED)
def test_parameters_that_are_not_claimed(name: str, parameters: dict[str, Any]) -> None:
    reason = refusal(operations[name], parameters)
    assert reason
    assert not claims(operations[name], operations[name].normalise(parameters))
    inputs = INPUTS[len(operations[name].roles)]
    with pytest.raises(CapabilityFailure, match=r"use backend geopandas") as caught:
        compute(name, inputs, **parameters)
    assert reason in str(caught.value)


def test_what_a_claim_covers() -> None:
    assert claims(operations["buffer"], {"distance": 1})
    assert claims(operations["buffer"], {"distance": 1, "single_sided": True}, backend="geopandas")
    assert not claims(operations["voronoi"], {"extent": [0, 0, 1, 1]})
    assert not claims(operations["buffer"], {"distance": 1}, backend="dask")
    with pytest.raises(InputFailure, match="distance"):
        claims(operations["buffer"], {})


def test_limits_hold_when_the_implementation_is_called_itself() -> None:
    @operation(version=1)
    def shift(layer: gpd.GeoDataFrame, *, by: float = 1.0) -> gpd.GeoDataFrame:
        return layer

    @claimed(shift, "duckdb", limit=lambda parameters: "not so far" if parameters.by > 5 else None)
    def shifted(layer: gpd.GeoDataFrame, *, by: float = 1.0) -> gpd.GeoDataFrame:
        return layer

    layer = awkward.layer(awkward.POINTS)
    assert shift.implementation("duckdb")(layer) is layer
    with pytest.raises(CapabilityFailure, match="not so far"):
        shift.implementation("duckdb")(layer, by=6)


RING_ON_RING = "POLYGON ((190 190, 20 20, 360 20, 190 190), (250 100, 110 110, 140 30, 250 100))"
BOW_TIE = "POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))"
EMPTY_PART = "MULTIPOINT (EMPTY, (5 5))"
SQUARE = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))"


@pytest.mark.parametrize(
    ("name", "wkt", "parameters", "said"),
    [
        ("centroid", ["POINT (0 0)", "LINESTRING (1 1, 1 1)"], {}, "no length.*row 1"),
        ("centroid", [BOW_TIE], {}, "no area.*row 0"),
        ("centroid", awkward.COLLECTIONS, {}, "collections.*row 0"),
        ("buffer", ["POINT M (1 2 3)"], {"distance": 1}, "M values.*row 0"),
        ("simplify", ["LINEARRING (0 0, 1 0, 1 1, 0 0)"], {"tolerance": 1}, "linear rings.*row 0"),
        ("simplify", ["POINT (0 0)", "LINESTRING (0 0, inf 1)"], {"tolerance": 1}, "not finite.*row 1"),
        ("convex_hull", [SQUARE, "POINT Z (1 2 3)"], {"by": "kind"}, "Z beside flat.*row 1"),
        ("dissolve", [SQUARE, "POLYGON Z ((0 0 1, 1 0 1, 1 1 1, 0 0 1))"], {}, "Z beside flat.*row 1"),
        ("filter", [BOW_TIE], {"where": "S_WITHIN(shape, BBOX(0, 0, 1, 1))"}, "invalid polygons.*row 0"),
        ("filter", [SQUARE], {"where": "S_WITHIN(mark, BBOX(0, 0, 1, 1))"}, "not the layer's geometry"),
    ],
)
def test_layers_that_are_refused(name: str, wkt: list[str | None], parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(CapabilityFailure, match=said):
        compute(name, [wkt], **parameters)


@pytest.mark.parametrize(
    ("name", "left", "right", "parameters", "said"),
    [
        ("spatial_join", SQUARE, BOW_TIE, {}, "invalid polygons.*row 0"),
        ("spatial_join", SQUARE, EMPTY_PART, {"predicate": "contains"}, "empty part.*row 0"),
        ("spatial_join", "LINESTRING (180 180, 40 40)", RING_ON_RING, {"predicate": "within"}, "rings touch.*row 0"),
        ("nearest_join", EMPTY_PART, SQUARE, {}, "empty part.*row 0"),
        ("overlay", "POLYGON Z ((0 0 1, 1 0 1, 1 1 1, 0 0 1))", SQUARE, {"how": "difference"}, "with Z.*row 0"),
        ("clip", "POLYGON Z ((0 0 1, 1 0 1, 1 1 1, 0 0 1))", SQUARE, {}, "with Z.*row 0"),
    ],
)
def test_pairs_of_layers_that_are_refused(
    name: str, left: str, right: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(CapabilityFailure, match=said):
        compute(name, [[left], [right]], **parameters)


def test_points_may_meet_polygons_whose_rings_touch() -> None:
    assert len(compute("spatial_join", [["POINT (40 30)"], [RING_ON_RING]], predicate="within", how="inner")) == 1


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("EPSG:4326", "EPSG:4269", "several pipelines"),
        ("EPSG:4267", "EPSG:4269", "several pipelines"),
        ("EPSG:4979", "EPSG:4326", "height"),
    ],
)
def test_reprojection_between_datums_is_refused(source: str, target: str, said: str) -> None:
    with pytest.raises(CapabilityFailure, match=said):
        compute("reproject", [["POINT (-100 40)"]], source, crs=target, allow_ballpark=True)


def test_reprojection_names_what_cannot_be_transformed() -> None:
    with pytest.raises(InputFailure, match="row 1"):
        compute("reproject", [["POINT (0 10)", "POINT (0 90.1)"]], "EPSG:4326", crs="EPSG:3857")


def test_geometry_that_geos_gives_up_on_is_an_input_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geocairn.operations.parts.check_valid", lambda *arguments: None)
    with pytest.raises(InputFailure, match=r"TopologyException.*make_valid"):
        compute("overlay", [[BOW_TIE], ["POLYGON ((0 0, 20 0, 20 7, 0 7, 0 0))"]], how="intersection")


RUN = """
import sys
from geocairn.operations.registry import operations
assert "duckdb" in operations["buffer"].backends
assert not {"duckdb", "geopandas", "shapely", "numpy"} & set(sys.modules), sys.modules.keys()
import geopandas, numpy, shapely
from geocairn.failure import Failure
from geocairn.backends.duckdb_connection import connection
try:
    exec(sys.stdin.read())
except Failure as failure:
    print(type(failure).__name__, str(failure))
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=code,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_package_is_claimed_and_says_what_to_install() -> None:
    code = """
sys.modules["duckdb"] = None
layer = geopandas.GeoDataFrame(geometry=[shapely.Point(0, 0)], crs="EPSG:5070")
operations["buffer"].compute(layer, distance=1, backend="duckdb")
"""
    said = run(code)
    assert said.startswith("CapabilityFailure buffer: backend duckdb is not installed")
    assert "geocairn[duckdb]" in said


FILL = "database.execute('CREATE TEMP TABLE big AS SELECT range i, hash(range) h, uuid() u FROM range(3000000)')"


def test_it_spills_beyond_its_memory_and_leaves_nothing(tmp_path: Path) -> None:
    code = f"""
import pathlib
with connection() as database:
    {FILL}
    (folder,) = pathlib.Path({str(tmp_path)!r}).iterdir()
    print(sum(file.stat().st_size for file in folder.iterdir()) > 1_000_000)
    print(database.execute("SELECT count(DISTINCT u) FROM big").fetchone())
"""
    said = run(code, GEOCAIRN_DUCKDB_MEMORY="40MB", GEOCAIRN_DUCKDB_SPILL=str(tmp_path))
    assert said.split("\n")[:2] == ["True", "(3000000,)"]
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_a_capability_failure() -> None:
    code = """
layer = geopandas.GeoDataFrame(geometry=shapely.points(numpy.random.rand(400_000, 2)), crs="EPSG:5070")
operations["simplify"].compute(layer, tolerance=1, backend="duckdb")
"""
    said = run(code, GEOCAIRN_DUCKDB_MEMORY="2MB")
    assert said.startswith("CapabilityFailure simplify: DuckDB's memory did not suffice")
    assert "GEOCAIRN_DUCKDB_MEMORY" in said


@pytest.mark.parametrize(
    ("name", "value"), [("GEOCAIRN_DUCKDB_MEMORY", "lots"), ("GEOCAIRN_DUCKDB_SPILL", "/nowhere/at/all")]
)
def test_a_wrong_setting_is_told(name: str, value: str) -> None:
    said = run("with connection(): pass", **{name: value})
    assert said.startswith(FatalFailure.__name__)
    assert name in said


def test_sql_reaches_neither_files_nor_settings(tmp_path: Path) -> None:
    from geocairn.backends.duckdb_connection import connection

    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for statement in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        "SET memory_limit = '1GB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(CapabilityFailure, match="DuckDB gave up"), connection("test") as database:
            database.execute(statement)
    assert [file.name for file in tmp_path.iterdir()] == ["secret.csv"]


def test_connections_do_not_see_each_others_tables() -> None:
    from geocairn.backends.duckdb_connection import connection

    with connection() as one, connection() as other:
        for database, number in ((one, 1), (other, 2)):
            database.execute(f"CREATE TEMP TABLE t AS SELECT {number} AS n")
        assert one.execute("SELECT n FROM t").fetchone() == (1,)
    with connection() as later, pytest.raises(Exception, match="t does not exist"):
        later.execute("SELECT n FROM t")


def test_inputs_are_not_changed() -> None:
    layer = awkward.layer(awkward.POLYGONS)
    before = layer.copy(deep=True)
    result = operations["buffer"].compute(layer, distance=2, backend="duckdb")
    assert layer.equals(before)
    assert not shapely.equals_exact(result.geometry.iloc[0], before.geometry.iloc[0])
