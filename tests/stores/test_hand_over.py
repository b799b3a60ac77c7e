"""The hand-over in memory: copies, budget, estimates, threads."""

from __future__ import annotations

import threading
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from geopandas.testing import assert_geodataframe_equal
from store_samples import fingerprint, in_threads, layer

from geocairn.failure import InputFailure
from geocairn.stores.layers import read_layer_file, write_layer_file
from geocairn.stores.memory import DEFAULT_BUDGET, HandOver, budget_from_environment, estimate

ONE, TWO, THREE = (fingerprint(number) for number in range(3))


def rich() -> Any:
    return geopandas.GeoDataFrame(
        {
            "n": pd.array([1, None], dtype="Int64"),
            "text": ["a", "b"],
            "list": pd.Series([[1, 2], [3]], dtype=object),
            "mapping": pd.Series([{"a": 1}, {"a": 2}], dtype=object),
            "kind": pd.Categorical([3, 1]),
        },
        geometry=shapely.points([[0, 0], [1, 1]]),
        crs="EPSG:3857",
    )


def test_what_was_not_put_is_not_there() -> None:
    assert HandOver().get(ONE) is None


def test_memory_and_file_give_the_same(tmp_path: Any) -> None:
    memory = HandOver()
    assert memory.put(ONE, rich())
    write_layer_file(rich(), tmp_path / "layer.parquet")
    assert_geodataframe_equal(memory.get(ONE), read_layer_file(tmp_path / "layer.parquet"))


def test_changing_a_copy_never_shows_in_another_nor_in_the_original() -> None:
    memory = HandOver()
    given = rich()
    memory.put(ONE, given)
    given.loc[0, "text"] = "changed by the giver"
    given["list"].iloc[0].append(9)
    given.geometry.array[0] = shapely.Point(9, 9)
    first, second = memory.get(ONE), memory.get(ONE)
    first.loc[0, "text"] = "changed"
    first["n"].array[0] = 99
    first["list"].iloc[0][0] = 99
    first["mapping"].iloc[0]["a"] = 99
    first.geometry.array[0] = shapely.Point(5, 5)
    first["new"] = 1
    first.crs = None
    for untouched in (second, memory.get(ONE)):
        assert untouched["text"].tolist() == ["a", "b"]
        assert untouched["n"].tolist() == [1, pd.NA]
        assert [list(value) for value in untouched["list"]] == [[1, 2], [3]]
        assert untouched["mapping"].tolist() == [{"a": 1}, {"a": 2}]
        assert untouched.geometry.iloc[0] == shapely.Point(0, 0)
        assert "new" not in untouched.columns
        assert untouched.crs == "EPSG:3857"


def test_geometries_are_shared_and_not_copied() -> None:
    memory = HandOver()
    memory.put(ONE, rich())
    assert memory.get(ONE).geometry.iloc[0] is memory.get(ONE).geometry.iloc[0]


def test_a_table_is_handed_over_as_well() -> None:
    memory = HandOver()
    table = pd.DataFrame({"n": [1, 2]})
    memory.put(ONE, table)
    pd.testing.assert_frame_equal(memory.get(ONE), table)


def test_the_least_recently_used_goes_first() -> None:
    size = estimate(layer())
    memory = HandOver(budget=2 * size)
    memory.put(ONE, layer())
    memory.put(TWO, layer())
    assert memory.get(ONE) is not None
    memory.put(THREE, layer())
    assert (ONE in memory, TWO in memory, THREE in memory) == (True, False, True)
    assert memory.used <= memory.budget
    memory.put(THREE, layer(5))
    assert memory.get(THREE)["n"].tolist() == [5, 1, 2]
    assert memory.used == 2 * size
    memory.discard(ONE)
    memory.discard(ONE)
    assert memory.used == size
    memory.clear()
    assert (memory.used, memory.get(THREE)) == (0, None)


def test_what_does_not_fit_is_not_kept_and_drives_nothing_out() -> None:
    memory = HandOver(budget=estimate(layer()))
    memory.put(ONE, layer())
    big = geopandas.GeoDataFrame(geometry=shapely.points(np.zeros((1000, 2))), crs=3857)
    assert memory.put(TWO, big) is False
    assert ONE in memory
    assert HandOver(budget=0).put(ONE, layer()) is False


def test_the_estimate_counts_coordinates() -> None:
    circles = [geopandas.GeoDataFrame(geometry=[shapely.Point(0, 0).buffer(1, quad_segs=n)]) for n in (10, 10_000)]
    assert estimate(circles[1]) - estimate(circles[0]) >= (40_000 - 40) * 16
    flat = geopandas.GeoDataFrame(geometry=[shapely.LineString([[0, 0]] * 1000)])
    high = geopandas.GeoDataFrame(geometry=[shapely.LineString([[0, 0, 0]] * 1000)])
    assert estimate(high) - estimate(flat) == 8000
    assert estimate(geopandas.GeoDataFrame({"n": []}, geometry=[])) < 1000
    assert estimate(geopandas.GeoDataFrame(geometry=[None, shapely.Point()])) < 2000


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("", DEFAULT_BUDGET), ("0", 0), ("1000", 1000), ("512MiB", 512 << 20), ("1.5 G", 3 << 29), ("2gb", 2 << 30)],
)
def test_the_budget_comes_from_the_environment(text: str, bytes_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOCAIRN_MEMORY_BUDGET", text)
    assert budget_from_environment() == bytes_
    assert HandOver().budget == bytes_


@pytest.mark.parametrize("text", ["much", "-1", "1 GiBB", "nan"])
def test_a_budget_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOCAIRN_MEMORY_BUDGET", text)
    with pytest.raises(InputFailure, match="no amount of memory"):
        HandOver()


def test_many_threads_put_and_get_under_the_budget() -> None:
    memory = HandOver(budget=4 * estimate(layer()))
    names = [fingerprint(number) for number in range(8)]
    wrong: list[Any] = []
    start = threading.Barrier(6)

    def work(seed: int) -> None:
        start.wait()
        for step in range(40):
            number = (seed + step) % 8
            memory.put(names[number], layer(number))
            found = memory.get(names[number])
            if found is not None and found["n"].tolist() != [number, 1, 2]:
                wrong.append(found)
            if memory.used > memory.budget:
                wrong.append(memory.used)

    in_threads(work, *[(seed,) for seed in range(6)])
    assert wrong == []
    memory.clear()
    assert memory.used == 0
