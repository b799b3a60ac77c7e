"""What a plan's SQL cannot do, and which of its barriers holds: the grammar, the transaction, or the role's rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from postgis_server import Database

from geocairn.failure import Failure, FatalFailure, InputFailure
from geocairn.sources.describe import describe
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.version import resolve_version

POINT = "st_setsrid(st_point(1, 2), 4326) as g"


@pytest.fixture
def target(database: Database) -> Database:
    """A table that the connecting role owns, so that nothing but geocairn keeps it from being written."""
    database.execute(
        "create table out.roads as select i as id, st_setsrid(st_point(i, i), 4326) as g from generate_series(1, 3) i;"
        "create sequence out.counter; create function out.wipe() returns int language plpgsql as "
        "$$ begin delete from out.roads; return 1; end $$;"
        "alter table out.roads owner to writer; alter sequence out.counter owner to writer"
    )
    return database


def state(database: Database) -> list[Any]:
    return database.execute(
        "select (select count(*) from out.roads), (select last_value from out.counter), "
        "(select count(*) from pg_largeobject_metadata), (select count(*) from pg_class where relkind = 'r')"
    )


def tried(database: Database, sql: str) -> Failure:
    """Describe, resolve and read, each of which must fail."""
    source = Source(uri=database.uri, sql=sql)
    for act in (resolve_version, read):
        with pytest.raises(Failure) as caught:
            act(source)
    return caught.value


@pytest.mark.parametrize(
    "sql",
    [
        "delete from out.roads",
        "delete from out.roads returning *",
        "insert into out.roads values (9, null) returning *",
        "with gone as (delete from out.roads returning *) select * from gone",
        "select * from out.roads; delete from out.roads",
        "select * from out.roads; commit; delete from out.roads",
        "select * from out.roads) as q; delete from out.roads; --",
        "select 1) as q, lateral (delete from out.roads returning *",
        "/* */ select * from out.roads; /* ; */ drop table out.roads; --",
        "drop table out.roads",
        "truncate out.roads",
        "select * into out.other from out.roads",
        "create table out.other as select * from out.roads",
        "copy out.roads to program 'touch /tmp/x'",
        "copy (select 1) to stdout",
        "explain analyze delete from out.roads",
        "do $$ begin delete from out.roads; end $$",
        "call out.wipe()",
        "set transaction read write",
        "rollback",
        "begin",
        "declare c cursor for select 1",
        "prepare p as delete from out.roads",
        "execute p",
        "show all",
        "values (1); values (2)",
        "\\! touch /tmp/x",
    ],
)
def test_the_grammar_has_no_place_for_what_writes(target: Database, sql: str) -> None:
    before = state(target)
    assert isinstance(tried(target, sql), InputFailure)
    with pytest.raises(InputFailure):
        describe(Source(uri=target.uri, sql=sql))
    assert state(target) == before


@pytest.mark.parametrize(
    "sql",
    [
        f"select nextval('out.counter'), {POINT}",
        f"select setval('out.counter', 100), {POINT}",
        f"select out.wipe(), {POINT}",
        "select * from out.roads for update",
        f"select set_config('transaction_read_only', 'off', false), {POINT}",
        f"select query_to_xml('delete from out.roads returning 1', true, true, '')::text, {POINT}",
        f"select query_to_xml('set transaction read write', true, true, '')::text, {POINT}",
    ],
)
def test_the_transaction_keeps_functions_from_writing(target: Database, sql: str) -> None:
    before = state(target)
    tried(target, sql)
    assert state(target) == before


def test_what_the_transaction_lets_pass_is_rolled_back(target: Database) -> None:
    before = state(target)
    read(Source(uri=target.uri, sql=f"select lo_from_bytea(0, 'x') as made, {POINT}"))
    read(
        Source(uri=target.uri, sql=f"select set_config('default_transaction_read_only', 'off', false) as made, {POINT}")
    )
    assert state(target) == before


@pytest.mark.parametrize(
    "call", ["pg_read_file('/etc/hostname')", "pg_ls_dir('/')::text", "pg_stat_file('/etc/hostname')::text"]
)
def test_files_of_the_server_are_kept_by_the_role_and_such_a_role_is_refused(
    target: Database, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = f"select {call} as content, {POINT}"
    failure = tried(target, sql)
    assert "permission denied" in str(failure)
    monkeypatch.setenv("PGUSER", "owner")
    failure = tried(target, sql)
    assert isinstance(failure, FatalFailure)
    assert "is a superuser" in str(failure)
    assert "pg_read_all_data" in str(failure)


def test_a_role_that_may_read_files_is_refused_with_sql_but_not_with_a_table(
    target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGUSER", "owner")
    assert len(read(Source(uri=target.uri, layer="out.roads"))) == 3
    with pytest.raises(FatalFailure, match="version_sql: the role owner is a superuser"):
        read(Source(uri=target.uri, layer="out.roads", version_sql="select 1"))
    target.execute("grant pg_read_server_files to reader")
    try:
        monkeypatch.setenv("PGUSER", "reader")
        with pytest.raises(FatalFailure, match="may read or write files of the server"):
            read(Source(uri=target.uri, sql="select * from out.roads"))
    finally:
        target.execute("revoke pg_read_server_files from reader")
    monkeypatch.setenv("PGUSER", "owner")
    monkeypatch.setenv("GEOCAIRN_SQL_AS_SUPERUSER", "1")
    assert len(read(Source(uri=target.uri, sql="select * from out.roads"))) == 3
    before = state(target)
    for sql in ("delete from out.roads", f"select out.wipe(), {POINT}", "copy out.roads to '/tmp/geocairn-out'"):
        tried(target, sql)
    assert state(target) == before
    assert not Path("/tmp/geocairn-out").exists()


def test_a_table_of_the_same_name_elsewhere_does_not_take_its_place(target: Database) -> None:
    target.execute(
        "create schema authorization writer; set role writer; "
        "create table writer.roads as select 7 as id, st_setsrid(st_point(7, 7), 4326) as g; reset role; "
        "create table public.roads as select 1 as id, st_setsrid(st_point(1, 1), 4326) as g"
    )
    assert read(Source(uri=target.uri, layer="roads"))["id"].tolist() == [1]
    assert read(Source(uri=target.uri, sql="select * from roads"))["id"].tolist() == [1]
