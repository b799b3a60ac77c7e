from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from postgis_server import Database
from shapely import LineString, MultiPolygon, Point, Polygon, box

from geocairn.failure import FatalFailure, InputFailure, TransientFailure
from geocairn.notes import collecting
from geocairn.sources.publish import Published, Target, inspect, matches, publish
from geocairn.sources.read import read
from geocairn.sources.source import Source

LINEAGE = {"fingerprint": "f1", "steps": {"f1": {"operation": "é'\"\\ \n"}}}


@pytest.fixture
def towns() -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame({"name": ["b", "a", "c"]}, geometry=[Point(3, 1), Point(1, 1), None], crs="EPSG:25832")


def table(database: Database, name: str = "out.towns", **fields: Any) -> Target:
    return Target(database.uri, layer=name, **fields)


def back(database: Database, name: str = "out.towns") -> gpd.GeoDataFrame:
    return read(Source(uri=database.uri, layer=name))


def holds(target: Target, done: Published, fingerprint: str = "f1") -> bool:
    return matches(target, fingerprint, done.size, done.sha256)


def written_by(database: Database, name: str = "out.towns") -> Any:
    """The transaction that wrote the table."""
    return database.execute(f"select distinct xmin::text from {name}")


def names_in(database: Database, schema: str = "out") -> set[str]:
    rows = database.execute(f"select relname::text from pg_class where relnamespace = '{schema}'::regnamespace")
    return {row[0] for row in rows}


def test_what_was_published_is_read_back_and_recognised(database: Database, towns: gpd.GeoDataFrame) -> None:
    target = table(database)
    done = publish(towns, target, LINEAGE)
    found = back(database)
    assert list(found.columns) == ["name", "geometry"], "the key is no attribute"
    assert found["name"].tolist() == ["b", "a", "c"], "the order is kept"
    assert [shape and shape.wkt for shape in found.geometry] == ["POINT (3 1)", "POINT (1 1)", None]
    assert found.crs == towns.crs
    assert done.uri == f"{database.uri}/out.towns"
    assert (done.files, done.fingerprint) == (("out.towns",), "f1")
    assert holds(target, done)
    assert not holds(target, done, "f2")
    assert inspect(target) == done
    assert database.execute("select type, srid, coord_dimension from geometry_columns") == [("POINT", 25832, 2)]
    assert names_in(database) == {"towns", "towns_pkey", "towns_geometry_idx"}, "nothing else is left"
    assert "gist" in database.execute("select indexdef from pg_indexes where indexname = 'towns_geometry_idx'")[0][0]


def test_every_type_makes_the_round_trip(database: Database) -> None:
    layer = gpd.GeoDataFrame(
        {
            "small": np.array([1, -2, 3], dtype="int16"),
            "int": np.array([1, 2, 3], dtype="int32"),
            "big": pd.array([9007199254740993, None, -(2**63)], dtype="Int64"),
            "unsigned": np.array([1, 2, 2**63 - 1], dtype="uint64"),
            "bool": [True, False, True],
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "float": [0.1, np.nan, np.inf],
            "single": np.array([1.5, 2, 3], dtype="float32"),
            "text": ["é\t\n\\N", None, ""],
            "date": [datetime.date(2024, 2, 29), None, datetime.date(1, 1, 1)],
            "time": [datetime.time(1, 2, 3, 4), None, datetime.time(23, 59, 59)],
            "moment": pd.to_datetime(["2024-01-01 00:00:00.123456", None, "1066-10-14 12:00:00.5"]).as_unit("us"),
            "zoned": pd.to_datetime(["2024-07-01", None, "1900-01-01"]).as_unit("us").tz_localize("UTC"),
            "raw": [b"\x00\xff", None, b""],
            "ints": [[1, 2], None, []],
            "texts": [["a", None], ["ü"], None],
            "nothing": pd.array([None, None, None], dtype="Int32"),
        },
        geometry=[box(0, 0, 1, 1), None, Polygon()],
        crs=3857,
    )
    publish(layer, table(database), LINEAGE)
    found = back(database)
    for name in layer.columns:
        if name == "geometry":
            continue
        expected = layer[name].astype("int64") if name == "unsigned" else layer[name]
        if name in ("ints", "texts"):
            assert [None if v is None else list(v) for v in found[name]] == expected.tolist(), name
        else:
            pd.testing.assert_series_equal(found[name], expected, check_dtype=name not in ("date", "time"))
    shapes = [None if shape is None else shape.wkt for shape in found.geometry]
    assert shapes == [box(0, 0, 1, 1).wkt, None, "POLYGON EMPTY"]


def test_types_without_an_equal_are_kept_as_what_they_mean(database: Database) -> None:
    layer = gpd.GeoDataFrame(
        {
            "category": pd.Categorical(["a", None, "b"]),
            "number": pd.Categorical([3, None, 1]),
            "exact": [Decimal("1.10"), None, Decimal("-12345678901234567890.123456789")],
            "span": pd.to_timedelta([1, None, 90_000], unit="s"),
            "object": [{"a": 1}, None, {"a": 2}],
            "huge": np.array([1, 2, 2**64 - 1], dtype="uint64"),
            "fine": pd.to_datetime(["2024-01-01 00:00:00.123456789"] * 3).as_unit("ns"),
            "local": pd.to_datetime(["2024-07-01"] * 3).tz_localize("Europe/Zurich"),
        },
        geometry=[Point(1, 2)] * 3,
        crs=4326,
    )
    with collecting() as notes:
        publish(layer, table(database), LINEAGE)
    rows = database.execute(
        "select category, number, exact, span, object, huge, fine::text, local at time zone 'UTC' "
        "from out.towns order by fid"
    )
    assert rows[0] == (
        "a", 3, Decimal("1.10"), datetime.timedelta(seconds=1), {"a": 1}, 1, "2024-01-01 00:00:00.123456",
        datetime.datetime(2024, 6, 30, 22),
    )  # fmt: skip
    assert rows[1][:5] == (None,) * 5
    assert rows[2][2] == Decimal("-12345678901234567890.123456789")
    assert rows[2][5] == 2**64 - 1
    told = " ".join(notes.caveats)
    assert "what is finer in column 'fine' is cut" in told
    assert "time zone Europe/Zurich is lost" in told


@pytest.mark.parametrize(
    ("shapes", "declared", "wkt"),
    [
        ([box(0, 0, 1, 1), MultiPolygon([box(2, 2, 3, 3)])], "MULTIPOLYGON", "MULTIPOLYGON"),
        ([Point(1, 2, 3), None], "POINT", "POINT Z (1 2 3)"),
        ([shapely.from_wkt("POINT M (1 2 3)")], "POINTM", "POINT M (1 2 3)"),
        ([shapely.from_wkt("LINESTRING ZM (0 0 1 2, 1 1 3 4)")], "LINESTRING", "LINESTRING ZM (0 0 1 2, 1 1 3 4)"),
        ([shapely.LinearRing([(0, 0), (1, 0), (1, 1)])], "LINESTRING", "LINESTRING (0 0, 1 0, 1 1, 0 0)"),
        ([Point(0, 0), LineString([(0, 0), (1, 1)])], "GEOMETRY", "POINT (0 0)"),
        ([Point(1, 2, 3), Point()], "POINT", "POINT Z (1 2 3)"),
        ([Point(1, 2, 3), Point(1, 2)], "GEOMETRY", "POINT Z (1 2 3)"),
        ([Polygon(), MultiPolygon([box(0, 0, 1, 1)])], "MULTIPOLYGON", "MULTIPOLYGON EMPTY"),
        ([shapely.GeometryCollection([Point(0, 0)])], "GEOMETRYCOLLECTION", "GEOMETRYCOLLECTION (POINT (0 0))"),
        ([None, None], "GEOMETRY", ""),
    ],
)
def test_the_geometry_is_declared_as_what_it_is(database: Database, shapes: list[Any], declared: str, wkt: str) -> None:
    publish(gpd.GeoDataFrame(geometry=shapes, crs=3857), table(database), LINEAGE)
    assert database.execute("select type, srid from geometry_columns") == [(declared, 3857)]
    found = back(database).geometry
    assert ("" if found[0] is None else found[0].wkt).startswith(wkt)
    assert found.crs == "EPSG:3857" or not wkt


def test_a_table_without_geometry_is_written_as_one(database: Database) -> None:
    counts = pd.DataFrame({"name": ["b", "a"], "count": pd.array([1, None], dtype="Int64")})
    done = publish(counts, table(database), LINEAGE)
    assert holds(table(database), done)
    found = read(Source(uri=database.uri, layer="out.towns", table=True))
    pd.testing.assert_frame_equal(pd.DataFrame(found), counts)


def test_an_empty_layer_keeps_kind_columns_and_crs(database: Database, towns: gpd.GeoDataFrame) -> None:
    target = table(database)
    done = publish(towns.iloc[:0], target, LINEAGE, kinds=["polygon"])
    assert holds(target, done)
    found = back(database)
    assert (len(found), list(found.columns), found.crs) == (0, ["name", "geometry"], towns.crs)
    assert database.execute("select type from geometry_columns") == [("MULTIPOLYGON",)]


def test_a_crs_of_ones_own_is_added_once_where_the_role_may(database: Database, towns: gpd.GeoDataFrame) -> None:
    own = towns.to_crs("+proj=laea +lat_0=47 +lon_0=8 +datum=WGS84 +units=m")
    with pytest.raises(InputFailure, match="may not add it"):
        publish(own, table(database), LINEAGE)
    assert names_in(database) == set()
    database.execute("grant select, insert on spatial_ref_sys to writer")
    for name in ("out.one", "out.two"):
        publish(own, table(database, name), LINEAGE)
        assert back(database, name).crs.equals(own.crs, ignore_axis_order=True)
    assert database.execute("select distinct srid from geometry_columns") == [(990000,)]
    publish(towns.to_crs("OGC:CRS84"), table(database, "out.three"), LINEAGE)
    assert back(database, "out.three").crs == "EPSG:4326"
    assert back(database, "out.three").geometry[0].x == pytest.approx(4.5113, abs=1e-4), "x goes first"


def test_the_same_result_is_written_once(database: Database, towns: gpd.GeoDataFrame) -> None:
    target = table(database)
    done = publish(towns, target, LINEAGE)
    before = written_by(database)
    assert publish(towns, target, LINEAGE) == done
    assert written_by(database) == before
    publish(towns, target, {"fingerprint": "f2"})
    assert written_by(database) != before, "another result is another table"
    assert not holds(target, done)


EDITS = [
    "update out.towns set name = 'x' where name = 'a'",
    "delete from out.towns where name = 'a'",
    "insert into out.towns values (9, 'x', null)",
    "delete from out.towns where name = 'a'; insert into out.towns values (2, 'a', null)",
    "update out.towns set geometry = st_translate(geometry, 1e-9, 0)",
    "truncate out.towns",
    "alter table out.towns add extra int",
    "alter table out.towns rename name to label",
    "alter table out.towns drop name",
    "alter table out.towns alter name type varchar(20)",
    "comment on table out.towns is 'mine'",
    "comment on table out.towns is 'Written by geocairn. {}'",
    "comment on table out.towns is 'Written by geocairn. nonsense'",
    "drop table out.towns",
    "alter table out.towns rename to elsewhere",
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_or_dropped_table_is_noticed_and_written_again(
    database: Database, towns: gpd.GeoDataFrame, edit: str
) -> None:
    target = table(database)
    done = publish(towns, target, LINEAGE)
    database.execute(edit)
    assert not holds(target, done)
    again = publish(towns, target, LINEAGE)
    assert (again.size, again.sha256) == (done.size, done.sha256), "the digest is of the content, not of the writing"
    assert holds(target, again)
    assert back(database)["name"].tolist() == ["b", "a", "c"]


@pytest.mark.parametrize(
    "touch",
    [
        "update out.towns set name = name",
        "create temp table kept as table out.towns; truncate out.towns; insert into out.towns select * from kept",
        "cluster out.towns using towns_pkey",
        "alter table out.towns set (fillfactor = 50)",
        "create index on out.towns (name)",
        "grant select on out.towns to reader",
    ],
)
def test_what_leaves_the_content_as_it_was_is_no_edit(database: Database, towns: gpd.GeoDataFrame, touch: str) -> None:
    target = table(database)
    done = publish(towns, target, LINEAGE)
    database.execute(touch)
    assert holds(target, done)


def test_a_table_of_somebody_elses_follows_the_mode(database: Database, towns: gpd.GeoDataFrame) -> None:
    database.execute("create table out.towns as select 1 as precious; alter table out.towns owner to writer")
    refused = table(database, mode="error")
    with pytest.raises(InputFailure, match="geocairn did not write"):
        publish(towns, refused, LINEAGE)
    assert database.execute("table out.towns") == [(1,)]
    done = publish(towns, table(database), LINEAGE)
    assert publish(towns, refused, {"fingerprint": "f2"}).size == done.size, "ours, unedited, is replaced"
    database.execute("delete from out.towns")
    with pytest.raises(InputFailure, match="or that was changed since"):
        publish(towns, refused, LINEAGE)
    assert database.execute("select count(*) from out.towns") == [(0,)]


@pytest.mark.parametrize(
    ("obstacle", "words"),
    [
        ("create view out.v as select * from out.towns", 'view "out".v depends on table'),
        ("create materialized view out.v as select name from out.towns", "depend on it"),
        ("create table out.child (t bigint references out.towns)", "depend on it"),
        ("alter table out.towns enable row level security", "row security"),
        ("create policy p on out.towns using (true)", "the policy p"),
        (
            "create function out.f() returns trigger language plpgsql as 'begin return new; end'; "
            "create trigger audit before insert on out.towns for each row execute function out.f()",
            "the trigger audit",
        ),
        ("create rule r as on delete to out.towns do instead nothing", "the rule r"),
    ],
)
def test_what_depends_on_the_old_table_keeps_it(
    database: Database, towns: gpd.GeoDataFrame, obstacle: str, words: str
) -> None:
    target = table(database)
    done = publish(towns, target, LINEAGE)
    database.execute(obstacle)
    before = names_in(database)
    with pytest.raises(InputFailure) as caught:
        publish(towns.iloc[:1], target, {"fingerprint": "f2"})
    assert words in str(caught.value)
    assert names_in(database) == before
    assert holds(target, done)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("create view out.towns as select 1 as a", "is a view"),
        ("create materialized view out.towns as select 1 as a", "is a materialized view"),
        ("create sequence out.towns", "is a sequence"),
        ("create table out.towns (a int) partition by range (a)", "is a partitioned table"),
    ],
)
def test_only_a_table_is_replaced(database: Database, towns: gpd.GeoDataFrame, make: str, words: str) -> None:
    database.execute(make)
    before = names_in(database)
    with pytest.raises(InputFailure, match=words):
        publish(towns, table(database), LINEAGE)
    assert names_in(database) == before


def test_privileges_and_owner_are_those_of_the_old_table(database: Database, towns: gpd.GeoDataFrame) -> None:
    publish(towns, table(database), LINEAGE)
    database.execute(
        "revoke all on out.towns from reader; grant select (name) on out.towns to reader;"
        "grant select, insert on out.towns to public; create index mine on out.towns (name)"
    )
    acl = "select relacl::text, (select attacl::text from pg_attribute where attrelid = c.oid and attname = 'name') "
    acl += "from pg_class c where oid = 'out.towns'::regclass"
    before = database.execute(acl)
    with collecting() as notes:
        publish(towns, table(database), {"fingerprint": "f2"})
    assert database.execute(acl) == before
    assert any("not made again: mine" in text for text in notes.caveats)
    assert names_in(database) == {"towns", "towns_pkey", "towns_geometry_idx"}
    database.execute(
        "grant reader to writer; grant create on schema out to reader; alter table out.towns owner to reader"
    )
    publish(towns, table(database), {"fingerprint": "f3"})
    assert database.execute("select tableowner::text from pg_tables where tablename = 'towns'") == [("reader",)]
    database.execute("revoke reader from writer")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x" * 64: [1, 2, 3]}, "more than the 63 bytes"),
        ({"xmin": [1, 2, 3]}, "keeps the column name 'xmin' for itself"),
        ({"mixed": [1, "a", None]}, "column 'mixed' cannot be written"),
        ({"zero": ["a\0b", "", ""]}, "zero byte"),
        ({"zeros": [["a\0b"], [], []]}, "zero byte"),
        ({"complex": [1j, 2j, 3j]}, "column 'complex' cannot be written"),
    ],
)
def test_what_a_table_cannot_hold_is_refused_by_name(
    database: Database, towns: gpd.GeoDataFrame, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputFailure) as caught:
        publish(towns.assign(**change), table(database), LINEAGE)
    assert words in str(caught.value)
    assert names_in(database) == set()


def test_odd_names_and_a_column_called_fid(database: Database, towns: gpd.GeoDataFrame) -> None:
    odd = towns.rename(columns={"name": 'a "b" %s é'}).assign(FID=[1, 2, 3], id=["x", "y", "z"])
    target = table(database, '"out"."My ""Towns"" %s"')
    done = publish(odd, target, LINEAGE)
    assert holds(target, done)
    found = back(database, str(target.layer))
    assert set(found.columns) == set(odd.columns)
    assert found['a "b" %s é'].tolist() == ["b", "a", "c"]
    assert publish(odd, target, {"fingerprint": "f2"}).size == done.size


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layer": None}, "layer does not say which table"),
        ({"layer": "a.b.c"}, "is no table's name"),
        ({"layer": "nowhere.towns"}, "no schema 'nowhere'"),
        ({"layer": "out.towns", "driver": "gpkg"}, "driver 'gpkg' writes a file"),
    ],
)
def test_a_target_that_cannot_be_is_told(
    database: Database, towns: gpd.GeoDataFrame, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputFailure) as caught:
        publish(towns, Target(database.uri, **fields), LINEAGE)
    assert words in str(caught.value)


def test_the_driver_may_be_named(database: Database, towns: gpd.GeoDataFrame) -> None:
    done = publish(towns, table(database, driver="PostGIS"), LINEAGE)
    assert holds(table(database, driver="postgresql"), done)
    with pytest.raises(InputFailure, match="writes to a database"):
        publish(towns, Target("towns.gpkg", driver="postgis"), LINEAGE)


def test_who_may_not_write_is_told(
    database: Database, towns: gpd.GeoDataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = publish(towns, table(database), LINEAGE)
    monkeypatch.setenv("PGUSER", "reader")
    with pytest.raises(FatalFailure, match="permission denied"):
        publish(towns, table(database, "out.new"), LINEAGE)
    assert holds(table(database), done), "a reader may look"
    monkeypatch.setenv("PGUSER", "writer")
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=200")
    with database.server.connect(database.name) as other:
        other.execute("begin")
        other.execute("lock table out.towns in access share mode")
        with pytest.raises(TransientFailure, match="lock timeout"):
            publish(towns, table(database), {"fingerprint": "f2"})
    assert holds(table(database), done)


DYING = """
import os, signal, sys
import geopandas as gpd, shapely, numpy as np
import geocairn.sources.postgis.publishing as publishing
from geocairn.sources.publish import Target, publish

where, uri = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if where == "copy":
    numbers = publishing.row_numbers
    def dying(name):
        cells = numbers(name)
        encode = lambda start, stop: cells.encode(start, stop) if start < 10_000 else die()
        return publishing.Cells(name, cells.type, encode)
    publishing.row_numbers = dying
else:
    setattr(publishing, where, die)
points = shapely.points(np.arange(20_000.0), 0)
publish(gpd.GeoDataFrame(geometry=points, crs=3857), Target(uri, layer="out.towns"), {"fingerprint": "f2"})
"""


@pytest.mark.parametrize("where", ["copy", "_finish", "_index", "drop", "_name_indexes", "published"])
def test_a_writer_that_is_killed_leaves_the_old_table_and_nothing_else(
    database: Database, towns: gpd.GeoDataFrame, where: str, tmp_path: Path
) -> None:
    target = table(database)
    done = publish(towns, target, LINEAGE)
    before = names_in(database)
    ended = subprocess.run(
        [sys.executable, "-c", DYING, where, database.uri], env=dict(os.environ), cwd=tmp_path, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    while time.monotonic() < end and database.execute(
        "select 1 from pg_stat_activity where datname = current_database() and application_name = 'geocairn'"
    ):
        time.sleep(0.05)  # the server notices that its client is gone
    assert names_in(database) == before
    assert holds(target, done)
    assert holds(target, publish(towns, target, {"fingerprint": "f3"}), "f3"), "and the next writer is not held up"


def test_two_writers_go_one_after_the_other_and_readers_see_whole_tables(database: Database) -> None:
    target = table(database)

    def made(rows: int) -> gpd.GeoDataFrame:
        shapes = shapely.points(np.arange(float(rows)), 0)
        return gpd.GeoDataFrame({"rows": [rows] * rows}, geometry=shapes, crs=3857)

    publish(made(500), target, {"fingerprint": "500"})
    failed: list[BaseException] = []
    ended = threading.Event()

    def write(size: int) -> None:
        try:
            for number in range(4):
                publish(made(size), target, {"fingerprint": f"{size} {number}"})
        except BaseException as error:
            failed.append(error)

    def look() -> None:
        while not ended.is_set():
            try:
                found = back(database)["rows"]
                assert set(found) == {len(found)}, "of one writer, and all of it"
            except TransientFailure:
                pass  # swapped while it was read, which is told
            except BaseException as error:
                failed.append(error)

    writers = [threading.Thread(target=write, args=(size,)) for size in (500, 700)]
    reader = threading.Thread(target=look)
    for thread in [*writers, reader]:
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    reader.join()
    assert failed == []
    assert len(back(database)) in (500, 700)
    assert names_in(database) == {"towns", "towns_pkey", "towns_geometry_idx"}
