"""filter: CQL2 over every column type, missing values, spatial and temporal predicates, and nothing else that runs."""

from __future__ import annotations

import subprocess
import sys

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from sample_layers import BIG, layer

from geocairn.failure import InputFailure
from geocairn.filters.evaluation import matching
from geocairn.filters.language import check_syntax, columns_of
from geocairn.operations.selection import filter as filter_operation


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(
        {
            "id": np.arange(5),
            "name": pd.Series(["Aix", "Évreux", "O'Brien", None, "100%_x"], dtype="str"),
            "arrow": pd.array(["a", None, "b", "c", "d"], dtype="string[pyarrow]"),
            "pop": pd.array([10, 200, None, 3000, 50], dtype="Int64"),
            "rate": [0.5, np.nan, 1.5, 2.0, -1.0],
            "big": np.array([BIG, BIG - 1, BIG + 1, 1, 2]),
            "flag": pd.array([True, False, None, True, False], dtype="boolean"),
            "plain": [True, False, True, True, False],
            "kind": pd.Categorical(["x", "y", "x", None, "y"]),
            "when": pd.to_datetime(
                ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", None, "2026-12-01", "2025-01-01"],
                utc=True,
                format="ISO8601",
            ).tz_convert("Europe/Paris"),
            "day": pd.to_datetime(["2026-03-29", "2026-03-30", None, "2026-12-01", "2025-01-01"]),
            "thing": pd.Series(["u", 5, None, "v", "w"], dtype=object),
            "odd name": [1, 2, 3, 4, 5],
        },
        geometry=gpd.GeoSeries.from_wkt(["POINT (0 0)", "POINT (5 5)", None, "LINESTRING (0 0, 9 9)", "POINT EMPTY"]),
        crs=5070,
    )


CASES: list[tuple[str, list[int]]] = [
    ("pop > 100", [1, 3]),
    ("NOT pop > 100", [0, 4]),
    ("pop <> 10", [1, 3, 4]),
    ("pop = NULL", []),
    ("pop IS NULL", [2]),
    ("pop IS NOT NULL", [0, 1, 3, 4]),
    ("pop > 100 OR rate > 1", [1, 2, 3]),
    ("pop > 100 AND rate > 1", [3]),
    ("pop BETWEEN 10 AND 200", [0, 1, 4]),
    ("pop NOT BETWEEN 10 AND 200", [3]),
    ("pop IN (10, 50)", [0, 4]),
    ("pop NOT IN (10, 50)", [1, 3]),
    ("rate = 0.5", [0]),
    ("rate >= -1 AND rate < 2", [0, 2, 4]),
    (f"big = {BIG}", [0]),
    (f"big > {BIG}", [2]),
    (f"name = '{BIG}'", []),
    ("name = 'O''Brien'", [2]),
    ("name > 'B'", [1, 2]),
    ("name IN ('Aix', 'Évreux')", [0, 1]),
    ("name LIKE 'A%'", [0]),
    ("name LIKE '_ix'", [0]),
    ("name NOT LIKE 'A%'", [1, 2, 4]),
    (r"name LIKE '100\%\_%'", [4]),
    ("CASEI(name) = CASEI('AIX')", [0]),
    ("ACCENTI(name) = ACCENTI('Evreux')", [1]),
    ("ACCENTI(CASEI(name)) LIKE 'evr%'", [1]),
    ("arrow = 'b' OR arrow = 'd'", [2, 4]),
    ("kind = 'x'", [0, 2]),
    ("flag", [0, 3]),
    ("NOT flag", [1, 4]),
    ("flag = false", [1, 4]),
    ("plain", [0, 2, 3]),
    ("TRUE", [0, 1, 2, 3, 4]),
    ("FALSE", []),
    ("1 = 1 AND id < 2", [0, 1]),
    ("pop + 10 = 20", [0]),
    ("pop * 2 > id + 300", [1, 3]),
    ("pop / 0 > 1", [0, 1, 3, 4]),
    ("id % 2 = 1", [1, 3]),
    ("pop DIV 100 = 2", [1]),
    ("id ^ 2 = 16", [4]),
    ('"odd name" = 3', [2]),
    ("day > DATE('2026-03-29')", [1, 3]),
    ("day = DATE('2026-03-29')", [0]),
    ("when < TIMESTAMP('2026-03-29T01:00:00Z')", [0, 4]),
    ("T_AFTER(when, TIMESTAMP('2026-03-29T01:00:00Z'))", [1, 3]),
    ("T_DURING(day, INTERVAL('2026-01-01', '2026-06-01'))", [0, 1]),
    ("T_INTERSECTS(day, INTERVAL('2026-03-30', '..'))", [1, 3]),
    ("S_INTERSECTS(geometry, POINT(5 5))", [1, 3]),
    ("S_INTERSECTS(geometry, BBOX(-1, -1, 1, 1))", [0, 3]),
    ("S_WITHIN(geometry, POLYGON((4 4, 6 4, 6 6, 4 6, 4 4)))", [1]),
    ("S_CONTAINS(geometry, POINT(5 5))", [1, 3]),
    ("S_DISJOINT(geometry, POINT(5 5))", [0, 4]),
    ("NOT S_INTERSECTS(geometry, POINT(5 5))", [0, 4]),
    ("S_CROSSES(geometry, LINESTRING(0 9, 9 0))", [3]),
    ("S_EQUALS(geometry, geometry)", [0, 1, 3, 4]),
]


@pytest.mark.parametrize(("where", "expected"), CASES, ids=[case[0] for case in CASES])
def test_filters(towns: gpd.GeoDataFrame, where: str, expected: list[int]) -> None:
    towns.index = [9, 8, 7, 6, 5]
    assert filter_operation(towns, where=where)["id"].tolist() == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("pop >", "cannot be read at its end"),
        ("pop == 1", "cannot be read at '= 1'.*single ="),
        ('name = "Aix"', "no column 'Aix'"),
        ("populatoin > 1", "no column 'populatoin'"),
        ("naem = 'x'", "did you mean 'name'"),
        ("name = 1", "text cannot be compared with a number"),
        ("pop = '10'", "a number cannot be compared with text"),
        ("name = pop", "text cannot be compared with a number"),
        ("pop", "column 'pop' is no condition"),
        ("pop + 1", "is no condition"),
        ("name + 1 = 2", "[+] is for numbers, not for text"),
        ("pop LIKE '1%'", "LIKE is for text"),
        ("S_INTERSECTS(name, POINT(1 1))", "is for geometries"),
        ("S_INTERSECTS(geom, POINT(1 1))", "no column 'geom'; did you mean 'geometry'"),
        ("geometry = 1", "geometry cannot be compared"),
        ("T_AFTER(name, DATE('2026-01-01'))", "is for times"),
        ("day > DATE('2026-13-01')", "is no time"),
        ("buffer(geometry, 1) = 1", "no function 'buffer'"),
        ("s_intersect(geometry, POINT(1 1))", "did you mean 's_intersects'"),
        ("__import__('os').system('true') = 1", "cannot be read"),
        ("pop > 1; DROP TABLE x", "cannot be read"),
        ("exact_integer(name) = 1", "no function 'exact_integer'"),
        ("(" * 500 + "pop = 1" + ")" * 500, "too deeply nested"),
        ("NOT " * 4000 + "flag", "too deeply nested|too long"),
        ("pop = " + "-" * 4000 + "1", "too deeply nested|too long|cannot be read"),
        ("", "at least 1 character"),
    ],
)
def test_complaints(towns: gpd.GeoDataFrame, where: str, message: str) -> None:
    with pytest.raises(InputFailure, match=message):
        filter_operation(towns, where=where)


def test_a_column_of_missing_values_compares_with_anything() -> None:
    nothing = layer(["POINT (0 0)"], void=pd.Series([None], dtype=object))
    assert len(filter_operation(nothing, where="void = 'x' OR void > 3 OR void LIKE 'a%'")) == 0


def test_columns_and_syntax_without_the_layer() -> None:
    assert columns_of("a > 1 AND \"b c\" = 'x' OR S_WITHIN(geometry, POINT(1 1))") == {"a", "b c", "geometry"}
    check_syntax("a > 1")
    with pytest.raises(ValueError, match="cannot be read"):
        check_syntax("a >")
    with pytest.raises(InputFailure, match="cannot be read"):
        filter_operation.normalise({"where": "a >"})


def test_syntax_is_checked_without_geospatial_libraries() -> None:
    code = (
        "import sys; from geocairn.operations.selection import filter as f; f.normalise({'where': 'a > 1'});"
        "print([m for m in ('geopandas', 'shapely', 'numpy', 'pandas', 'pyproj') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_as_pandas_on_many_rows() -> None:
    rng = np.random.default_rng(3)
    many = gpd.GeoDataFrame(
        {"v": rng.integers(0, 100, 10_000)}, geometry=shapely.points(rng.random((10_000, 2))), crs=5070
    )
    result = filter_operation(many, where="v >= 30 AND v < 60 AND S_WITHIN(geometry, BBOX(0.2, 0.2, 0.8, 0.8))")
    box = shapely.box(0.2, 0.2, 0.8, 0.8)
    expected = many[(many["v"] >= 30) & (many["v"] < 60) & many.within(box)]
    assert result["v"].tolist() == expected["v"].tolist()


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("a%c", [True, False, True]),
        ("A%c", [False, False, False]),
        ("a_c", [False, False, True]),
        ("a\nb%", [True, False, False]),
        (r"(\_%", [False, True, False]),
        ("%" + "a%" * 15 + "b", [False, False, False]),
    ],
)
def test_like_is_exact_and_ends_whatever_the_pattern(pattern: str, matches: list[bool]) -> None:
    table = gpd.GeoDataFrame(
        {"t": ["a\nbc", "(_" + "a" * 4000, "aéc"]}, geometry=[shapely.Point(0, 0)] * 3, crs="EPSG:5070"
    )
    assert matching(table, f"t LIKE '{pattern}'").tolist() == matches


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 5000 + ".0", "-" + "9" * 5000])
def test_a_number_of_thousands_of_digits_is_refused(number: str) -> None:
    table = gpd.GeoDataFrame({"v": [1]}, geometry=[shapely.Point(0, 0)], crs="EPSG:5070")
    with pytest.raises(InputFailure, match="more than 300 digits"):
        matching(table, f"v = {number}")
