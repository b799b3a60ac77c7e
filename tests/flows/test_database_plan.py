"""A plan that reads from PostGIS and publishes to it, through `geocairn run`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from chains import Chain
from postgis_server import Database, database, postgis

__all__ = ["database", "postgis"]


@pytest.fixture
def plan(database: Database, folder_chain: Chain) -> Chain:
    """Two sources of a database, one by table and one by SQL with a version query, and an output in it."""
    database.execute(
        "create table roads (id int primary key, name text, geom geometry(LineString, 25832));"
        "insert into roads select i, 'r' || i, "
        "st_setsrid(st_makeline(st_point(i * 100, 0), st_point(i * 100, 10)), 25832) from generate_series(1, 5) i;"
        "create table places as select i as id, st_setsrid(st_point(i * 100, 0), 25832) as geom "
        "from generate_series(1, 3) i; create table states as select 1 as state"
    )
    folder_chain.environment |= {name: os.environ[name] for name in ("PGUSER", "PGPASSWORD", "PGPASSFILE")}
    folder_chain.environment["GEOCAIRN_ALLOW"] = database.uri
    folder_chain.values = {
        "name": "near-places",
        "sources": {
            "roads": {"uri": database.uri, "layer": "roads", "columns": ["name"]},
            "places": {
                "uri": database.uri,
                "sql": "select id, geom from places order by id",
                "version_sql": "select state from states",
            },
        },
        "steps": [
            {"name": "discs", "op": "buffer", "inputs": "places", "params": {"distance": 5}},
            {"name": "near", "op": "clip", "inputs": {"layer": "roads", "mask": "discs"}},
        ],
        "outputs": [{"from": "near", "uri": database.uri, "layer": "out.near"}],
    }
    return folder_chain


def xmin(database: Database) -> Any:
    return database.execute("select distinct xmin::text from out.near")


def test_a_chain_from_a_database_to_a_database(plan: Chain, database: Database) -> None:
    first = plan.run()
    assert first.answer["outputs"]["near"]["uri"] == f"{database.uri}/out.near"
    lengths = "select name, round(st_length(geom)::numeric, 6)::float8 from out.near order by 1"
    assert database.execute(lengths) == [("r1", 5.0), ("r2", 5.0), ("r3", 5.0)]
    before = xmin(database)

    again = plan.run()
    assert again.answer["unchanged"] is True, "answered at once"
    assert xmin(database) == before

    database.execute("update roads set name = 'renamed' where id = 2")
    assert plan.to_compute() == ["near"]
    assert plan.run().answer["unchanged"] is False
    assert ("renamed",) in database.execute("select name from out.near")

    database.execute("insert into places values (4, st_setsrid(st_point(400, 0), 25832))")
    assert plan.run().answer["unchanged"] is True, "the version query says so"
    database.execute("update states set state = 2")
    assert plan.to_compute() == ["discs", "near"]
    plan.run()
    assert database.execute("select count(*) from out.near") == [(4,)]


@pytest.mark.parametrize(
    "spoil", ["delete from out.near where name = 'r1'", "update out.near set name = 'mine'", "drop table out.near"]
)
def test_a_spoilt_table_is_written_again_and_nothing_is_computed(plan: Chain, database: Database, spoil: str) -> None:
    plan.run()
    database.execute(spoil)
    assert [output["outcome"] for output in plan.status()["outputs"]] == ["compute"]
    ended = plan.run()
    assert ended.answer["unchanged"] is False
    assert [line for line in ended.log if line.startswith("compute")] == []
    assert database.execute("select name from out.near order by 1") == [("r1",), ("r2",), ("r3",)]
    assert plan.run().answer["unchanged"] is True


def test_the_lineage_lies_with_the_table_and_no_password_anywhere(plan: Chain, database: Database) -> None:
    plan.values["sources"]["roads"]["uri"] = database.uri.replace("//", "//writer@")
    plan.run()
    comment = database.execute("select obj_description('out.near'::regclass)")[0][0]
    assert '"operation": "buffer"' in comment
    assert "select id, geom from places" in comment
    assert "query:1" in comment
    word = os.environ["PGPASSWORD"]
    assert word not in comment
    kept = [path for path in plan.folder.parent.rglob("*") if path.is_file()]
    assert not [path for path in kept if word.encode() in path.read_bytes()]


def no_table(values: dict[str, Any]) -> str:
    del values["outputs"][0]["layer"]
    return "layer does not say which table"


def twice(values: dict[str, Any]) -> str:
    values["outputs"].append({"from": "discs", "uri": values["outputs"][0]["uri"], "layer": '"out"."near"'})
    return "is written twice"


def over_a_source(values: dict[str, Any]) -> str:
    values["outputs"][0]["layer"] = "public.roads"
    return "an output must not replace it"


def writing_sql(values: dict[str, Any]) -> str:
    values["sources"]["places"]["sql"] = "delete from places returning *"
    return "a statement that may write"


def both(values: dict[str, Any]) -> str:
    values["sources"]["places"]["layer"] = "places"
    return "layer says it already"


def sql_of_a_file(values: dict[str, Any]) -> str:
    values["sources"]["places"] = {"uri": "data/parcels.shp", "sql": "select 1"}
    return "is for a database"


@pytest.mark.parametrize("wrong", [no_table, twice, over_a_source, writing_sql, both, sql_of_a_file])
def test_what_is_wrong_is_told_before_anything_runs(
    plan: Chain, database: Database, wrong: Callable[[dict[str, Any]], str]
) -> None:
    words = wrong(plan.values)
    ended = plan.run(code=2)
    assert words in ended.stdout + ended.stderr
    assert database.execute("select count(*) from pg_class where relnamespace = 'out'::regnamespace") == [(0,)]


def test_two_tables_of_one_database_are_two_outputs(plan: Chain, database: Database) -> None:
    plan.values["outputs"].append({"from": "discs", "uri": database.uri, "layer": "out.discs"})
    plan.run()
    assert database.execute("select count(*) from out.discs") == [(3,)]
    assert plan.run().answer["unchanged"] is True


def test_a_database_that_is_not_allowed_is_not_asked(plan: Chain, database: Database) -> None:
    plan.environment["GEOCAIRN_ALLOW"] = ""
    ended = plan.run(code=None)
    assert ended.code != 0
    assert "--allow" in ended.stdout + ended.stderr
