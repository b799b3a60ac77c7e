from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import geopandas as gpd
import pandas as pd
import pytest
import shapely
from postgis_server import Database

from geocairn.failure import CapabilityFailure, FatalFailure, InputFailure, SourceChanged, TransientFailure
from geocairn.notes import collecting
from geocairn.sources.describe import describe
from geocairn.sources.postgis.connection import reading
from geocairn.sources.postgis.reading import database_version
from geocairn.sources.postgis.relation import relation_named
from geocairn.sources.postgis.sql_text import orders_rows, without_end
from geocairn.sources.read import read
from geocairn.sources.source import Source
from geocairn.sources.uri import DatabasePlace, parse
from geocairn.sources.version import resolve_version

KINDS = """
create type mood as enum ('sad', 'glad');
create domain small as int2 check (value < 100);
create table kinds (
    id int primary key, i2 int2, i8 int8, dom small, f4 float4, f8 float8, num numeric, whole numeric(12, 0),
    yes bool, t text, v varchar(9), c char(3), m mood, d date, ti time, ts timestamp, tz timestamptz, u uuid,
    j json, jb jsonb, ints int[], texts text[], raw bytea, iv interval, ip inet, geom geometry(PointZ, 25832));
insert into kinds values (
    2, 3, 9007199254740993, 7, 1.5, 0.1, 1.10, 123456789012, true, 'é', 'v', 'c', 'glad', '2024-02-29', '12:34:56.5',
    '2024-01-01 00:00:00.123456', '2024-07-01 12:00+02', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{"a":  1}',
    '{"b":2}', '{1,2}', '{a,null}', '\\xff00', '1 day 2 hours', '10.0.0.1', 'SRID=25832;POINT Z (1 2 3)');
insert into kinds (id) values (1);
"""


@pytest.fixture
def roads(database: Database) -> Database:
    """A table with a primary key, five rows of lines."""
    database.execute(
        "create table roads (id int primary key, name text, geom geometry(LineString, 25832));"
        "insert into roads select i, 'r' || i, "
        "st_setsrid(st_makeline(st_point(i, 0), st_point(i, 10)), 25832) from generate_series(1, 5) i"
    )
    return database


def source(database: Database, **fields: Any) -> Source:
    return Source(uri=database.uri, **fields)


def layer(database: Database, **fields: Any) -> gpd.GeoDataFrame:
    return read(source(database, **fields))


def version(database: Database, **fields: Any) -> str:
    return resolve_version(source(database, **fields)).text


def complaint(database: Database, **fields: Any) -> str:
    with pytest.raises(InputFailure) as caught:
        layer(database, **fields)
    return str(caught.value)


def refusal(database: Database, **fields: Any) -> str:
    with pytest.raises(InputFailure):
        resolve_version(source(database, **fields))
    return complaint(database, **fields)


def test_every_type_comes_as_it_is_nulls_too(database: Database) -> None:
    database.execute(KINDS)
    with collecting() as notes:
        found = layer(database, layer="kinds")
    assert found["id"].tolist() == [1, 2], "by the primary key"
    assert {name: str(dtype) for name, dtype in found.dtypes.items()} == {
        "id": "int32", "i2": "Int16", "i8": "Int64", "dom": "Int16", "f4": "float32", "f8": "float64",
        "num": "float64", "whole": "Int64", "yes": "boolean", "t": "str", "v": "str", "c": "str", "m": "str",
        "d": "object", "ti": "object", "ts": "datetime64[us]", "tz": "datetime64[us, UTC]", "u": "str", "j": "str",
        "jb": "str", "ints": "object", "texts": "object", "raw": "object", "iv": "str", "ip": "str",
        "geom": "geometry",
    }  # fmt: skip
    assert found.iloc[0].drop(["id", "geom"]).isna().all()
    assert found.geometry[0] is None
    row = found.iloc[1]
    assert (row["i2"], row["i8"], row["dom"], row["whole"]) == (3, 9007199254740993, 7, 123456789012)
    assert (row["f4"], row["f8"], row["num"], bool(row["yes"])) == (1.5, 0.1, 1.1, True)
    assert (row["t"], row["v"], row["c"], row["m"]) == ("é", "v", "c", "glad"), "a fixed width is not kept as text"
    assert (row["d"], row["ti"]) == (datetime.date(2024, 2, 29), datetime.time(12, 34, 56, 500000))
    assert row["ts"] == pd.Timestamp("2024-01-01 00:00:00.123456")
    assert row["tz"] == pd.Timestamp("2024-07-01 10:00", tz="UTC")
    assert row["u"] == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert (row["j"], json.loads(row["jb"])) == ('{"a":  1}', {"b": 2})
    assert (list(row["ints"]), list(row["texts"]), row["raw"]) == ([1, 2], ["a", None], b"\xff\x00")
    assert (row["iv"], row["ip"]) == ("P1DT2H", "10.0.0.1/32")
    assert row["geom"].wkt == "POINT Z (1 2 3)"
    assert found.crs == "EPSG:25832"
    told = " ".join(notes.caveats)
    assert "'iv' (of type interval) is read as text" in told
    assert "'ip' (of type inet)" in told
    assert "'u'" not in told


def test_the_catalogue_tells_the_same_as_reading(database: Database) -> None:
    database.execute(KINDS)
    facts = describe(source(database, layer="public.kinds"))
    assert (facts.crs_name, facts.kinds, facts.geometry_column) == ("EPSG:25832", ("point",), "geom")
    assert list(facts.columns) == [name for name in layer(database, layer="kinds").columns if name != "geom"]
    assert [facts.columns[name] for name in ("i8", "whole", "num", "t", "yes", "d", "ti", "tz", "ints", "raw")] == [
        "integer", "integer", "number", "text", "boolean", "date", "time", "datetime", "list", "binary",
    ]  # fmt: skip


def test_numbers_with_more_digits_than_fit_are_told(database: Database) -> None:
    database.execute("create table n as select 12345678901234567890.5::numeric a, 0.1::numeric b, st_point(0,0) g")
    with collecting() as notes:
        found = layer(database, layer="n", crs="EPSG:4326")
    assert found["a"][0] == float(Decimal("12345678901234567890.5"))
    assert [text for text in notes.caveats if "more digits" in text] == [
        f"{database.uri}: column 'a' (numeric) has numbers with more digits than a 64-bit number holds: "
        "they are rounded; cast it to text in sql to keep them"
    ]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("'1'::money", "of type money"),
        ("row(1, 2)", "of type record"),
        ("point '(1,2)'", "of type point"),
        ("array[1, null]", "arrays with nulls"),
        ("array[[1], [2]]", "cannot be read"),
        ("date 'infinity'", "the date 'infinity'"),
        ("timestamptz '-infinity'", "the date 'infinity'"),
        ("time '24:00'", "24:00"),
        ("date '4000-01-01 BC'", "no place for"),
    ],
)
def test_what_a_layer_cannot_hold_is_refused_by_name(database: Database, expression: str, words: str) -> None:
    sql = f"select {expression} as odd, st_setsrid(st_point(1, 2), 4326) as g"
    with pytest.raises(InputFailure, match="sql") as caught:
        layer(database, sql=sql)
    assert words in str(caught.value)
    assert list(layer(database, sql=sql, columns=[]).columns) == ["g"], "left out, it does not matter"


@pytest.mark.parametrize(
    "wkt",
    [
        "POINT M (1 2 3)", "POINT ZM (1 2 3 4)", "LINESTRING Z (0 0 1, 1 1 2)", "LINESTRING M (0 0 1, 1 1 2)",
        "POLYGON Z ((0 0 1, 1 0 1, 1 1 1, 0 0 1))", "MULTIPOINT (0 0, 1 1)", "POINT EMPTY", "POLYGON EMPTY",
        "GEOMETRYCOLLECTION (POINT (0 0), LINESTRING (0 0, 1 1))", "MULTIPOLYGON EMPTY",
    ],
)  # fmt: skip
def test_geometry_comes_with_z_and_m_and_empty(database: Database, wkt: str) -> None:
    database.execute(f"create table g as select 1 as id, st_geomfromtext('{wkt}', 3857) as geom")
    found = layer(database, layer="g").geometry[0]
    assert found.wkt == shapely.from_wkt(wkt).wkt
    assert (found.has_z, found.has_m) == (shapely.from_wkt(wkt).has_z, shapely.from_wkt(wkt).has_m)
    assert shapely.get_srid(found) == 0


def test_arcs_become_chords_and_surfaces_are_refused(database: Database) -> None:
    database.execute("create table arcs as select st_geomfromtext('CIRCULARSTRING (0 0, 1 1, 2 0)', 3857) as geom")
    with collecting() as notes:
        found = layer(database, layer="arcs")
    assert found.geometry[0].geom_type == "LineString"
    assert found.geometry[0].length == pytest.approx(3.1415926, abs=1e-2)
    assert any("arcs are read as lines" in text for text in notes.caveats)
    assert describe(source(database, layer="arcs")).kinds == ("line",)
    database.execute("create table tins as select st_geomfromtext('TIN (((0 0, 1 0, 1 1, 0 0)))', 3857) as geom")
    assert "of type TIN" in refusal(database, layer="tins")


def test_several_geometry_columns_and_geography(database: Database) -> None:
    database.execute(
        "create table two (a int, place geography(Point, 4326), plan geometry(Polygon, 3857));"
        "insert into two values (1, 'POINT(8 47)', st_buffer(st_setsrid(st_point(0, 0), 3857), 1)), (2, null, null)"
    )
    found = layer(database, layer="two")
    assert (found.geometry.name, found.crs, found["plan"].crs) == ("place", "EPSG:4326", "EPSG:3857")
    assert found.geometry[0].wkt == "POINT (8 47)"
    assert list(layer(database, layer="two", columns=["a"]).columns) == ["a", "place"]
    assert len(layer(database, layer="two", bbox=(7, 46, 9, 48))) == 1
    assert layer(database, sql="select plan, a from two", columns=["a"]).crs == "EPSG:3857"


def test_the_crs_is_what_the_database_says(database: Database) -> None:
    database.execute(
        "insert into spatial_ref_sys (srid, auth_name, auth_srid, srtext, proj4text) "
        "select 990001, null, null, replace(srtext, '\"ETRS89 / UTM zone 32N\"', '\"Ours\"'), '' "
        "from spatial_ref_sys where srid = 25832;"
        "create table own as select st_setsrid(st_point(500000, 5200000), 990001) as geom;"
        "create table none as select st_point(1, 2) as geom;"
        "create table odd as select st_setsrid(st_point(1, 2), 987654) as geom;"
        "create table mixed as select st_setsrid(st_point(1, 2), s) as geom from (values (4326), (3857)) v(s)"
    )
    assert "UTM zone 32" in str(layer(database, layer="own").crs.to_wkt())
    assert "has no CRS" in complaint(database, layer="none")
    assert layer(database, layer="none", crs=4326).crs == "EPSG:4326"
    assert "987654 is not in" in complaint(database, layer="odd")
    assert "mixes SRIDs: 3857, 4326" in refusal(database, layer="mixed")
    assert len(layer(database, sql="select * from mixed where st_srid(geom) = 4326")) == 1
    assert "the plan states" in complaint(database, layer="own", crs=4326)


def test_an_empty_table_keeps_its_columns_and_types(database: Database) -> None:
    database.execute(KINDS + "; delete from kinds")
    found = layer(database, layer="kinds")
    assert len(found) == 0
    assert found.crs == "EPSG:25832"
    assert str(found["i8"].dtype) == "int64"
    assert str(found["tz"].dtype) == "datetime64[us, UTC]"


def test_columns_box_and_filter(roads: Database) -> None:
    assert list(layer(roads, layer="roads", columns=["name"]).columns) == ["name", "geom"]
    assert layer(roads, layer="roads", bbox=(2, 2, 3.5, 3))["id"].tolist() == [2, 3]
    assert layer(roads, layer="roads", where="id > 3", columns=["name"])["name"].tolist() == ["r4", "r5"]
    assert layer(roads, layer="roads", bbox=(2, 2, 3.5, 3), where="name = 'r3'")["id"].tolist() == [3]
    assert "did you mean 'name'" in refusal(roads, layer="roads", columns=["nam"])
    roads.execute("insert into roads select 9, 'slant', st_geomfromtext('LINESTRING (0 0, 100 100)', 25832)")
    assert layer(roads, layer="roads", bbox=(50, 0, 99, 20))["id"].tolist() == [], "its box meets, and it does not"


def test_only_what_is_needed_is_sent(roads: Database) -> None:
    roads.execute(
        "alter table roads add heavy text; update roads set heavy = repeat('x', 1000000);"
        "insert into roads select i, 'far', st_setsrid(st_makeline(st_point(i, 0), st_point(i, 9)), 25832), "
        "repeat('y', 1000) from generate_series(1000, 3000) i; analyze roads"
    )
    place = parse(roads.uri)
    assert isinstance(place, DatabasePlace)
    from geocairn.sources.postgis.reading import selected_names
    from geocairn.sources.postgis.selection import header_of, selection_of

    asked = source(roads, layer="roads", columns=["name"], bbox=(0, 0, 10, 10))
    with reading(place) as session:
        selection = selection_of(session, asked)
        names = selected_names(asked, selection, header_of(session, asked, selection))
        answer = session.run(selection.statement(session, asked, names))
    size = sum(
        len(answer.get_value(row, column) or b"") for row in range(answer.ntuples) for column in range(answer.nfields)
    )
    assert (answer.ntuples, answer.nfields) == (5, 2)
    assert size < 2000, "of seven million bytes"


def test_the_order_of_rows_depends_on_the_content_alone(roads: Database) -> None:
    roads.execute("create table loose as select name, geom from roads")
    before = layer(roads, layer="loose"), version(roads, layer="loose"), version(roads, layer="roads")
    roads.execute("update loose set name = name where name in ('r1', 'r3'); update roads set name = name where id = 1")
    assert roads.execute("select name from loose limit 1") != [("r1",)], "they lie in another order"
    assert layer(roads, layer="loose")["name"].tolist() == before[0]["name"].tolist()
    assert version(roads, layer="loose") == before[1]
    assert version(roads, layer="roads") == before[2]
    assert layer(roads, layer="roads")["id"].tolist() == [1, 2, 3, 4, 5]
    assert layer(roads, sql="select * from roads order by id desc")["id"].tolist() == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("select * from a order by b", True),
        ("select * from (select * from a order by b) c", False),
        ("select row_number() over (order by x) from a", False),
        ("select 'order by', \"order by\" from a -- order by", False),
        ("select $x$ order by $x$, E'\\' order by ' /* order /* nested */ by */ from a", False),
        ("with q as (select 1) select * from q ORDER\n BY 1 limit 3", True),
        ("select a[1] from b group by a", False),
    ],
)
def test_whether_a_query_orders_its_rows(sql: str, ordered: bool) -> None:
    assert orders_rows(sql) is ordered


def test_the_end_of_a_statement() -> None:
    assert without_end("select 1 ; ;\n -- done\n") == "select 1"
    assert without_end("select ';'") == "select ';'"
    assert without_end("select 1; select 2") == "select 1; select 2", "that is for the server to refuse"


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [("roads", "public", "roads"), ("a.b", "a", "b"), ('"A.x"."b""c"', "A.x", 'b"c'), (" a . b ", "a", "b")],
)
def test_names_of_tables(text: str, schema: str, name: str) -> None:
    found = relation_named(text)
    assert (found.schema, found.name) == (schema, name)
    assert relation_named(str(found)) == found


@pytest.mark.parametrize("text", ["a.b.c", ".b", "a.", '"a', "", "a b.c.d", "x" * 64])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(InputFailure):
        relation_named(text)


def test_names_with_capitals_quotes_and_per_cent(database: Database) -> None:
    database.execute('create table "Odd ""1""%s" as select 1 as "A%s b", st_setsrid(st_point(1, 2), 4326) as "Geo%m"')
    found = layer(database, layer='"Odd ""1""%s"')
    assert list(found.columns) == ["A%s b", "Geo%m"]
    assert list(layer(database, layer='Odd "1"%s'.join(['"', '"']).replace('"1"', '""1""'), bbox=(0, 0, 3, 3))) == [
        "A%s b", "Geo%m",
    ]  # fmt: skip


def test_views_and_partitions_are_read(roads: Database) -> None:
    roads.execute(
        "create view short as select * from roads where id < 3;"
        "create table parts (id int, geom geometry(Point, 4326), primary key (id)) partition by range (id);"
        "create table parts1 partition of parts for values from (0) to (10);"
        "create table parts2 partition of parts for values from (10) to (20);"
        "insert into parts select i, st_setsrid(st_point(i, i), 4326) from generate_series(19, 1, -1) i;"
        "grant select on short to writer"
    )
    assert sorted(layer(roads, layer="short")["id"]) == [1, 2]
    assert layer(roads, layer="parts")["id"].tolist() == list(range(1, 20))


def test_a_table_is_read_without_its_geometry(roads: Database) -> None:
    found = read(source(roads, layer="roads", table=True))
    assert type(found) is pd.DataFrame
    assert list(found.columns) == ["id", "name"]
    roads.execute("create table plain as select 1 as a")
    assert read(source(roads, layer="plain", table=True))["a"].tolist() == [1]
    assert "table: true" in refusal(roads, layer="plain")


def test_a_change_is_another_version(roads: Database) -> None:
    seen = {version(roads, layer="roads")}
    for statement in (
        "update roads set name = 'x' where id = 1",
        "delete from roads where id = 2",
        "update roads set geom = st_translate(geom, 1e-9, 0) where id = 3",
        "update roads set name = null where id = 4",
        "update roads set name = '' where id = 4",
        "alter table roads rename name to label",
        "alter table roads alter label type varchar(20)",
        "alter table roads alter geom type geometry(LineString, 3857) using st_setsrid(geom, 3857)",
        "truncate roads",
    ):
        roads.execute(statement)
        found = version(roads, layer="roads")
        assert found not in seen, statement
        assert found.startswith("sha256:")
        seen.add(found)


def test_only_what_is_read_counts_in_the_version(roads: Database) -> None:
    fields: dict[str, Any] = {"layer": "roads", "columns": ["name"], "bbox": (0, 0, 2.5, 10)}
    before = version(roads, **fields)
    roads.execute("alter table roads add extra int; update roads set name = 'far' where id = 5")
    assert version(roads, **fields) == before
    roads.execute("update roads set name = 'near' where id = 1")
    assert version(roads, **fields) != before


def test_a_version_query_says_the_version(roads: Database) -> None:
    roads.execute("create table log as select 7 as n, now() as at")
    fields: dict[str, Any] = {"layer": "roads", "version_sql": "select max(n) from log;"}
    found = resolve_version(source(roads, **fields))
    assert (found.text, found.is_content_digest) == ("query:7", False)
    roads.execute("update roads set name = 'x'")
    assert version(roads, **fields) == "query:7", "what the query says is believed"
    roads.execute("update log set n = 8")
    assert version(roads, **fields) == "query:8"
    with pytest.raises(SourceChanged):
        read(source(roads, **fields), found)
    for sql, words in (
        ("select n from log where false", "no row"),
        ("select 1 from roads", "several rows"),
        ("select null::int", "no value"),
        ("select 1, 2", "2 columns"),
        ("delete from log", "no SELECT"),
        ("select 1; select 2", "multiple commands"),
    ):
        assert words in refusal(roads, layer="roads", version_sql=sql), sql
    assert roads.execute("select count(*) from log") == [(1,)]


def test_the_version_and_the_rows_are_of_one_moment(roads: Database) -> None:
    pinned = resolve_version(source(roads, layer="roads"))
    assert len(read(source(roads, layer="roads"), pinned)) == 5
    roads.execute("delete from roads where id = 1")
    with pytest.raises(SourceChanged):
        read(source(roads, layer="roads"), pinned)


def test_a_table_that_is_swapped_in_between_is_not_read_as_empty(roads: Database) -> None:
    place = parse(roads.uri)
    assert isinstance(place, DatabasePlace)
    for swap in (
        "begin; create table new as table roads; drop table roads; alter table new rename to roads; "
        "grant select on roads to writer; commit",
        "begin; create temp table kept as table roads; truncate roads; insert into roads select * from kept; commit",
    ):
        with reading(place) as session:
            session.rows("select 1")  # the snapshot is taken
            roads.execute(swap)
            assert session.run("select * from roads").ntuples == 0, "what would be read"
            with pytest.raises(TransientFailure, match="replaced while it was read"):
                session.hold_snapshot()
    assert len(layer(roads, layer="roads")) == 5


def test_a_stated_version_is_believed_but_the_table_must_be_there(roads: Database) -> None:
    assert version(roads, layer="roads", version="2024") == "stated:2024"
    assert "did you mean 'public.roads'" in refusal(roads, layer="road", version="2024")


def test_fields_that_make_no_sense_are_refused(roads: Database, tmp_path: Path) -> None:
    assert "neither layer nor sql" in refusal(roads)
    assert "layer says it already" in refusal(roads, layer="roads", sql="select 1")
    assert "version says it already" in refusal(roads, layer="roads", version="1", version_sql="select 1")
    assert "encoding" in refusal(roads, layer="roads", encoding="latin-1")
    for fields in ({"sql": "select 1"}, {"version_sql": "select 1"}):
        with pytest.raises(InputFailure, match="is for a database"):
            describe(Source(uri=str(tmp_path / "a.gpkg"), **fields))


def test_failures_have_the_class_of_their_cause(roads: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    roads.execute("create schema hidden; create table hidden.t as table roads")
    with pytest.raises(FatalFailure, match="permission denied"):
        layer(roads, layer="hidden.t")
    with pytest.raises(TransientFailure):
        read(Source(uri="postgresql://127.0.0.1:1/x", layer="a"))
    with pytest.raises(FatalFailure, match="does not exist"):
        read(Source(uri=f"{roads.uri}x", layer="a"))
    roads.execute("create database bare template template0")
    with pytest.raises(InputFailure, match="PostGIS"):
        read(Source(uri=f"{roads.uri.rpartition('/')[0]}/bare", sql="select 'x'::text as a"))
    roads.execute("drop database bare")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=50")
    with pytest.raises(TransientFailure, match="statement timeout"):
        layer(roads, sql="select geom, pg_sleep(5)::text from roads")
    monkeypatch.delenv("PGOPTIONS")
    monkeypatch.setenv("PGPASSWORD", "wrong-word")
    with pytest.raises(FatalFailure, match="authentication failed") as caught:
        layer(roads, layer="roads")
    assert "wrong-word" not in str(caught.value)
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(FatalFailure, match="no password"):
        layer(roads, layer="roads")


def test_a_missing_psycopg_is_one_clear_message(roads: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CapabilityFailure, match=r"pip install 'geocairn\[postgis\]'"):
        layer(roads, layer="roads")


def test_who_connects_may_come_from_a_password_file(
    roads: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import os

    words = tmp_path / "pgpass"
    words.write_text(f"127.0.0.1:*:*:reader:{os.environ['PGPASSWORD']}\n")
    words.chmod(0o600)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.delenv("PGUSER")
    monkeypatch.setenv("PGPASSFILE", str(words))
    named = Source(uri=roads.uri.replace("//", "//reader@"), layer="roads")
    assert len(read(named)) == 5
    place = parse(named.uri)
    assert isinstance(place, DatabasePlace)
    assert "reader" not in str(place)
    assert database_version(named, place).text.startswith("sha256:")
