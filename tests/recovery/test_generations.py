"""Failures one after another: a run fails, what resumes it fails further on, and what resumes that comes to the end."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pytest
from chains import Chain
from forked_runs import Interference
from seven_steps import STEPS

from geocairn.checkpoint import format_time, parse_record, write_record
from geocairn.stores.traces import list_traces

pytestmark = pytest.mark.prefect_server

GENERATIONS: list[tuple[Interference, int, str, str]] = [
    (("fail_step", {"step": "area", "error": "TransientFailure"}), 4, "area", "transient"),
    (("fail_step", {"step": "inside", "error": "LookupError"}), 1, "inside", "fatal"),
    (("fail_step", {"step": "by_zone", "error": "InputFailure"}), 3, "by_zone", "input"),
]
"""What fails a run, its exit code, the step and the class."""


def test_three_generations_of_failures(
    new_chain: Any, store_url: str, store_settings: Any, made_data: Path, right: dict[str, Any]
) -> None:
    chain: Chain = new_chain(store_url, store_settings)
    kept: dict[str, bytes] = {}
    computed: list[str] = []
    for interference, code, failed, kind in GENERATIONS:
        ended = chain.run(code=code, interference=[("quick_retries", {}), interference])
        failure = ended.answer["failure"]
        assert (failure["step"], failure["class"]) == (failed, kind)
        last_good = {"area": ["reach"], "inside": ["covered"], "by_zone": ["inside"]}[failed]
        assert [entry["step"] for entry in failure["last_good"]] == last_good
        # What another generation committed is neither computed nor written again.
        assert set(ended.computed).isdisjoint(computed)
        now = records(chain)
        assert {key: now[key] for key in kept} == kept
        kept = now
        computed += sorted(set(ended.computed) - {failed})
    last = chain.run()
    assert last.computed == ["by_zone"]
    assert sorted(computed + last.computed) == sorted(STEPS)  # each step was computed once to its end
    assert last.outcomes() == {name: "computed" if name == "by_zone" else "reused" for name in STEPS}
    assert chain.outputs() == right
    assert len(list(list_traces(chain.store))) == len(GENERATIONS) + 1
    assert chain.run().answer["unchanged"] is True


def records(chain: Chain) -> dict[str, bytes]:
    objects = chain.store.objects
    return {info.key: objects.read(info.key).data for info in objects.list("checkpoints/")}  # type: ignore[union-attr]


NOTCHED = [(0, 50), (30, 50), (30, 60), (16, 60), (15, 50.1), (14, 60), (0, 60)]
"""A polygon in degrees with a notch almost down to its southern edge. Projected, that edge is straight where the
parallel is curved, and the notch crosses it."""


def repairing(folder: Path) -> dict[str, Any]:
    """A plan whose first step has to be repaired; writes its source."""
    import geopandas as gpd
    import shapely

    source = gpd.GeoDataFrame({"n": [1]}, geometry=[shapely.Polygon(NOTCHED)], crs="EPSG:4326")
    assert source.is_valid.all()
    assert not source.to_crs("EPSG:3035").is_valid.any()
    source.to_file(folder / "data" / "notched.gpkg")
    return {
        "name": "repaired",
        "sources": {"notched": {"uri": "data/notched.gpkg"}},
        "steps": [
            {
                "name": "flat",
                "op": "reproject",
                "inputs": "notched",
                "params": {"crs": "EPSG:3035"},
                "on_invalid": "repair",
            },
            {"name": "grown", "op": "buffer", "inputs": "flat", "params": {"distance": 5.0}},
            {"name": "hull", "op": "convex_hull", "inputs": "grown"},
            {"name": "far", "op": "buffer", "inputs": "hull", "params": {"distance": 50.0}},
        ],
        "outputs": [{"from": "far", "uri": "out/far.parquet"}],
    }


def test_a_repair_whose_record_has_expired_is_told_through_a_reused_later_step(new_chain: Any, tmp_path: Path) -> None:
    chain: Chain = new_chain(str(tmp_path / "store"))
    chain.values = repairing(chain.folder)
    first = chain.run()
    (told,) = first.answer["caveats"]
    assert "flat" in told
    assert "1 invalid geometry was repaired" in told

    for name in ("flat", "grown"):
        path = chain.record_path(name)
        past = format_time((dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)).timestamp())
        path.write_bytes(write_record(parse_record(path.read_bytes()).replaced(expires=past)))
    assert {"flat", "grown"}.isdisjoint(chain.committed())

    assert chain.run().answer["caveats"] == [told]  # nothing has to be done
    shutil.rmtree(chain.path("out"))
    written = chain.run()
    assert written.computed == []
    assert written.answer["caveats"] == [told]  # the output is written again
    farther = chain.run("--set", "far.distance=60")
    assert farther.computed == ["far"]
    assert farther.answer["caveats"] == [told]  # a step is computed from a reused one
    outcomes = {"flat": "not_needed", "grown": "not_needed", "hull": "reused", "far": "computed"}
    assert farther.outcomes() == outcomes
