"""A case for each row about databases and Dask."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from code_cases import Case, queried
from misbehaving import C, F, I, T


def database_cases() -> Iterator[Case]:
    """Yield the cases."""
    for part in (_databases, _dask):
        for row, failure_class, call in part():
            yield f"{'message' if ': ' in row else 'type'} {row}", failure_class, call


def _databases() -> Iterator[Case]:
    import psycopg
    import sqlalchemy

    refused_at_once = (
        ("authentication failed", 'password authentication failed for user "u"', F),
        ("no pg_hba.conf entry", 'no pg_hba.conf entry for host "h"', F),
        ("does not exist", 'database "d" does not exist', F),
    )
    for part, text, failure_class in refused_at_once:
        row = f"psycopg.OperationalError: {part}"
        yield row, failure_class, lambda s, _, text=text: queried(s.database("28000", text, at_once=True))
        # psycopg2 is not among what the tests install; it raises the same text.
        yield (
            row.replace("psycopg.", "psycopg2."),
            failure_class,
            lambda s, _, text=text: _psycopg2("OperationalError", text),
        )
    yield "psycopg.OperationalError", T, lambda s, _: queried("host=127.0.0.1 port=1 user=u")
    yield "psycopg.OperationalError", T, lambda s, _: queried("host=host.invalid user=u")
    yield "psycopg.OperationalError", T, lambda s, _: queried(s.database("53300", "too many clients", at_once=True))
    yield "psycopg.OperationalError", T, lambda s, _: queried(s.database("57P03", "is starting up", at_once=True))
    stopped = "canceling statement due to user request"
    yield "psycopg.OperationalError: due to user request", F, lambda s, _: queried(s.database("57014", stopped))
    geos = "lwgeom_intersection_prec: GEOS Error: TopologyException: side location conflict"
    yield "psycopg.InternalError: TopologyException", I, lambda s, _: queried(s.database("XX000", geos))
    yield "psycopg.ProgrammingError", I, lambda s, _: queried("nonsense")
    yield "psycopg.DataError", I, lambda s, _: queried(s.database("00000"), "select %s", "a null \0 in text")
    yield "psycopg.NotSupportedError", C, lambda s, _: psycopg.NotSupportedError("no pipeline mode here")
    yield "psycopg2.OperationalError", T, lambda s, _: _psycopg2("OperationalError", "Connection refused")
    yield "psycopg2.ProgrammingError", I, lambda s, _: _psycopg2("ProgrammingError", "no results to fetch")
    yield "psycopg2.DataError", I, lambda s, _: _psycopg2("DataError", "odd")

    def engine(url: str = "sqlite://", **options: Any) -> Any:
        return sqlalchemy.create_engine(url, **options)

    def two_of_one() -> Any:
        pool = engine(poolclass=sqlalchemy.pool.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.1)
        with pool.connect(), pool.connect():
            pass

    yield "sqlalchemy.exc.TimeoutError", T, lambda s, _: two_of_one()
    yield "sqlalchemy.exc.DisconnectionError", T, lambda s, _: sqlalchemy.exc.DisconnectionError("gone")
    table = ("t", sqlalchemy.MetaData())
    yield "sqlalchemy.exc.NoSuchTableError", I, lambda s, _: sqlalchemy.Table(*table, autoload_with=engine())
    yield "sqlalchemy.exc.NoSuchModuleError", C, lambda s, _: engine("foo://a")
    yield "sqlalchemy.exc.ArgumentError", F, lambda s, _: engine("nonsense")

    def said(text: str, folder: Path) -> Any:
        with engine(f"sqlite:///{folder / 'a.db'}").connect() as connection:
            return connection.execute(sqlalchemy.text(text))

    q = "sqlite3.OperationalError: "
    yield f"{q}no such", I, lambda s, p: said("select * from t", p)
    yield f"{q}syntax error", I, lambda s, p: said("selec", p)
    yield f"{q}unable to open", I, lambda s, p: said("select 1", p / "nowhere")
    yield f"{q}is locked", T, lambda s, p: _locked(p)
    yield f"{q}disk is full", F, lambda s, p: _full(p)
    yield f"{q}readonly", F, lambda s, p: _read_only(p)
    yield "sqlite3.DatabaseError: not a database", I, lambda s, p: _no_database(p)


def _psycopg2(name: str, text: str) -> BaseException:
    kind = type(name, (Exception,), {"__module__": "psycopg2", "pgcode": None})
    return kind(text)  # type: ignore[no-any-return]


def _locked(folder: Path) -> Any:
    first, second = (sqlite3.connect(folder / "a.db", isolation_level=None, timeout=0) for _ in range(2))
    first.execute("begin exclusive")
    try:
        return second.execute("create table t (a)")
    finally:
        first.close()


def _full(folder: Path) -> Any:
    connection = sqlite3.connect(folder / "a.db")
    connection.execute("create table t (a)")
    connection.execute("pragma max_page_count = 2")
    return connection.execute("insert into t values (zeroblob(100000))")


def _read_only(folder: Path) -> Any:
    sqlite3.connect(folder / "a.db").execute("create table t (a)")
    return sqlite3.connect(f"file:{folder / 'a.db'}?mode=ro", uri=True).execute("create table u (a)")


def _no_database(folder: Path) -> Any:
    (folder / "text").write_text("no database, and long enough to be taken for the head of one" * 20)
    return sqlite3.connect(folder / "text").execute("select * from sqlite_master")


def _dask() -> Iterator[Case]:
    import distributed.client
    import distributed.comm.core
    import distributed.core
    import distributed.scheduler
    from distributed.scheduler import WorkerState
    from distributed.shuffle import _exceptions as shuffle

    worker = WorkerState(address="tcp://a:1", status=None, pid=1, name="w", nanny="", local_directory="", nthreads=1, memory_limit=1, services={}, versions={}, server_id="s", scheduler=None)  # fmt: skip  # noqa: E501
    cancelled = distributed.client.FutureCancelledError
    yield "distributed.scheduler.KilledWorker", C, lambda s, _: distributed.scheduler.KilledWorker("k", worker, 3)
    yield (
        "distributed.scheduler.NoValidWorkerError",
        T,
        lambda s, _: distributed.scheduler.NoValidWorkerError("t", set(), set(), set(), 1),
    )
    yield "distributed.scheduler.NoWorkerError", T, lambda s, _: distributed.scheduler.NoWorkerError("t", 1)
    yield "distributed.comm.core.CommClosedError", T, lambda s, _: distributed.comm.core.CommClosedError("gone")
    yield (
        "distributed.comm.core.FatalCommClosedError",
        F,
        lambda s, _: distributed.comm.core.FatalCommClosedError("no TLS"),
    )
    yield "distributed.core.RPCClosed", T, lambda s, _: distributed.core.RPCClosed("gone")
    yield (
        "distributed.client.FutureCancelledError: connection-lost",
        T,
        lambda s, _: cancelled("k", "scheduler-connection-lost"),
    )
    yield (
        "distributed.client.FutureCancelledError: lost dependencies",
        T,
        lambda s, _: cancelled("k", "lost dependencies"),
    )
    yield "concurrent.futures._base.CancelledError", F, lambda s, _: cancelled("k", None)
    yield "builtins.TimeoutError", T, lambda s, _: distributed.TimeoutError("no scheduler")
    yield "distributed.shuffle._exceptions.P2PConsistencyError", T, lambda s, _: shuffle.ShuffleClosedError("gone")
    yield "distributed.shuffle._exceptions.P2POutOfDiskError", F, lambda s, _: shuffle.P2POutOfDiskError()
