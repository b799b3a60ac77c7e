"""A real PostgreSQL with PostGIS for the tests: on a free loopback port, in a folder of its own, with three roles.

`owner` may do everything (a superuser), `writer` owns the schema `out` and reads `public`, `reader` only reads. The
server's binaries come from Debian's packages (`postgresql-15-postgis-3` or another version's); PostgreSQL refuses to
run as root, so that root runs it as the user `postgres`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from s3_server import free_ports

PASSWORD = "tests-only"

SCHEMA = """
create schema out authorization writer;
grant usage on schema out to reader;
alter default privileges for role writer in schema out grant select on tables to reader;
"""
EMPTY = """
do $$ declare found record; begin
    perform lo_unlink(oid) from pg_largeobject_metadata;
    for found in select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
        and nspname <> 'public' loop
        execute format('drop schema %I cascade', found.nspname);
    end loop;
    for found in select c.relname, case c.relkind when 'v' then 'view' when 'm' then 'materialized view'
        when 'S' then 'sequence' else 'table' end as kind
        from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')
        and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e') loop
        execute format('drop %s if exists public.%I cascade', found.kind, found.relname);
    end loop;
    for found in select t.typname from pg_type t where t.typnamespace = 'public'::regnamespace
        and t.typtype in ('e', 'd')
        and not exists (select from pg_depend d where d.objid = t.oid and d.deptype = 'e') loop
        execute format('drop type public.%I cascade', found.typname);
    end loop;
    delete from spatial_ref_sys where srid between 990000 and 998999;
    revoke insert on spatial_ref_sys from writer;
end $$;
"""
"""Removes everything but the extension."""


def binaries() -> Path | None:
    """Return the folder with the newest `initdb` and `pg_ctl`, None where there is none."""
    found = shutil.which("pg_ctl")
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(re.sub(r"\D", "", path.parts[4]) or 0)
    )
    return versions[-1].parent if versions else Path(found).resolve().parent if found else None


class PostgisServer:
    """A running PostgreSQL; every database that it makes has PostGIS."""

    def __init__(self) -> None:
        folder = binaries()
        assert folder is not None, "PostgreSQL is missing: apt-get install postgresql postgresql-15-postgis-3"
        self.binaries = folder
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a short path: the socket's is limited
        self.port = free_ports(1)[0]
        self._as = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._as:
            shutil.chown(self.folder, "postgres", "postgres")
        word = self.folder / "word"
        word.write_text(PASSWORD)
        word.chmod(0o644)
        self._run("initdb", "-D", "data", "-U", "owner", "-E", "UTF8", "--locale=C.UTF-8", "-A", "scram-sha-256",
                  f"--pwfile={word}", "--no-sync")  # fmt: skip
        with (self.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(
                f"\nlisten_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = '{self.folder}'\n"
                "fsync = off\nmax_connections = 30\nshared_buffers = 64MB\njit = off\n"
            )
        self._databases = 0

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._as, str(self.binaries / name), *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout.decode(errors='replace')[-2000:]}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", "60", "start")

    def stop(self) -> None:
        """End it."""
        subprocess.run(
            [*self._as, str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "stop"],
            cwd=self.folder,
            capture_output=True,
            check=False,
        )

    def remove(self) -> None:
        """End it and remove its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str = "postgres", user: str = "owner") -> Any:
        """Return a connection in which each statement is a transaction of its own."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=database, user=user, password=PASSWORD, autocommit=True
        )

    def prepare(self) -> None:
        """Make the roles and the database that others are copied from."""
        with self.connect() as connection:
            for role in ("writer", "reader"):
                connection.execute(f"create role {role} login password '{PASSWORD}'")
            connection.execute("create database pattern")
        with self.connect("pattern") as connection:
            connection.execute("create extension postgis")
            connection.execute("alter default privileges in schema public grant select on tables to reader, writer")
            connection.execute(SCHEMA)

    def clean_database(self) -> str:
        """Return the name of a database with PostGIS and nothing else in it: the one before, emptied, or a new one."""
        if self._databases:
            name = f"tests{self._databases}"
            try:
                with self.connect(name) as connection:
                    connection.execute("set lock_timeout = '3s'")
                    connection.execute(EMPTY + SCHEMA)
                    return name
            except Exception as error:  # a test left a session behind that holds a table
                if "lock timeout" not in str(error):
                    raise
        self._databases += 1
        name = f"tests{self._databases}"
        with self.connect() as connection:
            connection.execute(f"create database {name} template pattern")
        return name


@dataclass
class Database:
    """A database of a test's own."""

    server: PostgisServer
    name: str

    @property
    def uri(self) -> str:
        return f"postgresql://127.0.0.1:{self.server.port}/{self.name}"

    def execute(self, sql: str, user: str = "owner") -> list[Any]:
        """Run a statement (or several, without rows) and return its rows."""
        with self.server.connect(self.name, user) as connection:
            done = connection.execute(sql)
            return done.fetchall() if done.description else []


@pytest.fixture(scope="session")
def postgis() -> Iterator[PostgisServer]:
    """A server for the whole session; without PostgreSQL its tests are skipped, but where CI is set they fail."""
    if binaries() is None and not os.environ.get("CI"):
        pytest.skip("PostgreSQL with PostGIS is not installed")
    server = PostgisServer()
    try:
        server.start()
        server.prepare()
        yield server
    finally:
        server.remove()


@pytest.fixture
def database(postgis: PostgisServer, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A new database, to which the role `writer` connects by the environment."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGUSER", "writer")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGPASSFILE", "/nowhere/pgpass")
    return Database(postgis, postgis.clean_database())
