"""Tables in a user's own flow: read, joined, summed up, kept in the store, published; and reused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from prefect import flow

from geocairn.failure import InputFailure
from geocairn.tasks import attribute_join, centroid, compute_columns, read_layer, summarize, write_layer


def test_a_table_goes_through_a_flow_and_is_reused(place: Path) -> None:
    pd.DataFrame({"name": ["a", "b", "c"], "owner": ["Ada", "Ben", "Ada"], "code": ["01", "02", None]}).to_csv(
        place / "owners.csv", index=False
    )

    @flow
    def owned():
        owners = compute_columns(read_layer("owners.csv", table=True), columns={"number": "integer(code)"})
        joined = attribute_join(read_layer("counties.gpkg"), owners, left_on="name", right_on="name")
        sums = summarize(joined, by="owner", statistics={"people": "sum"}, count_column="counties")
        write_layer(sums, uri="sums.csv")
        write_layer(sums, uri="sums.parquet")
        return owners, joined, sums

    first = owned()
    assert [one.facts.geometry_column for one in first] == [None, "geom", None]
    assert (place / "sums.csv").read_text().splitlines() == ["owner,people,counties", "Ada,40,2", "Ben,20,1", ",40,1"]
    found = pd.read_parquet(place / "sums.parquet")
    assert found["counties"].tolist() == [2, 1, 1]
    lineage = json.loads((place / "sums.csv.lineage.json").read_text())
    assert lineage["fingerprint"] == first[2].fingerprint
    assert [one.created for one in owned()] == [one.created for one in first]


def test_a_table_is_refused_where_a_layer_is_wanted(place: Path) -> None:
    pd.DataFrame({"name": ["a"]}).to_csv(place / "owners.csv", index=False)

    @flow
    def wrong():
        return centroid(read_layer("owners.csv", table=True))

    with pytest.raises(InputFailure, match="must be a layer, and a table without geometry was given"):
        wrong()

    @flow
    def wrong_output():
        return write_layer(read_layer("owners.csv", table=True), uri="owners.gpkg")

    with pytest.raises(InputFailure, match="table without geometry"):
        wrong_output()
