"""Connecting to PostgreSQL: who connects, what a session is allowed, and what its errors mean.

Credentials are libpq's: the variables PGUSER, PGPASSWORD, PGSSLMODE and the like, `.pgpass`, a service. What always
holds: a reading session is one REPEATABLE READ transaction that is read-only and is rolled back at its end, whatever
went through it. Statements go by the extended protocol, which takes one statement at a time. Settings that decide how
values look as text are the same for every role, and names without a schema mean `public` and PostGIS's own schema.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geocairn.classification import classify
from geocairn.failure import (
    CapabilityFailure,
    Failure,
    FailureClass,
    FatalFailure,
    InputFailure,
    TransientFailure,
)

if TYPE_CHECKING:
    from psycopg import Connection

    from geocairn.sources.uri import DatabasePlace

CONNECT_SECONDS = 10
"""How long a server may take to answer, unless PGCONNECT_TIMEOUT says otherwise."""
STATEMENT_SECONDS = 1800
"""How long a statement may take, unless the role or PGOPTIONS sets a `statement_timeout`."""
LOCK_SECONDS = 120
"""How long a statement may wait for a lock, unless the role or PGOPTIONS sets a `lock_timeout`."""

_OLDEST = 110_000
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "synchronize_seqscans": "off",
}
_CLASSES: dict[FailureClass, type[Failure]] = {
    FailureClass.TRANSIENT: TransientFailure,
    FailureClass.CAPABILITY: CapabilityFailure,
    FailureClass.INPUT: InputFailure,
    FailureClass.FATAL: FatalFailure,
}
_REFUSED_AT_ONCE = ("no password supplied", "SSL", "certificate", "sslmode", "GSSAPI", "definition of service")
"""Words of a refused connection that trying again does not change."""
_OF_THE_TRANSACTION = "25"
"""How the code of an attempt begins to write in a read-only transaction, or to make it another one."""
_REMEDIES = {
    "42501": "ask the owner of the table for the right (GRANT), or connect as another role (PGUSER)",
    "42P01": "write schema.table; without a schema it is one of public",
    "3F000": "name a schema that is there, or ask for it to be made",
    "57014": "let the statement do less, or set PGOPTIONS='-c statement_timeout=…'",
    "55P03": "somebody holds a lock on the table: try again when they are done",
    "53100": "make room on the database server",
}


class TableReplaced(TransientFailure):
    """A table was swapped or truncated after the snapshot was taken; another snapshot shows the new one."""


@dataclass
class Session:
    """A connection with its settings made, in a transaction."""

    connection: Connection[Any]
    where: str
    """The database, for messages: without user and password."""
    postgis: str
    """The schema of PostGIS's own functions, quoted; empty where the database has no PostGIS."""
    role: str

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of ours; `%s` stands for a parameter, where there are any."""
        statement: Any = sql  # psycopg wants it written out, and names of tables come from the plan
        found = self.connection.execute(statement, parameters or None)
        return found.fetchall() if found.description is not None else []

    def run(self, sql: str) -> Any:
        """Send one statement by the extended protocol, and return libpq's answer.

        Raises
        ------
        psycopg.Error : when the server refuses it.
        """
        from psycopg.errors import error_from_result
        from psycopg.pq import ExecStatus

        answer = self.connection.pgconn.exec_params(sql.encode("utf-8"), None)
        if answer.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise error_from_result(answer)
        return answer

    def hold_snapshot(self) -> None:
        """Make sure that every table that was read is the one that the session's snapshot shows.

        A name is looked up anew by each statement: a table that was swapped or truncated after the snapshot was taken
        would be read as one without rows.

        Raises
        ------
        TableReplaced : when one is another.
        """
        replaced = self.rows(
            "select from pg_catalog.pg_locks l left join pg_catalog.pg_class c on c.oid = l.relation "
            "where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation' and l.database = "
            "(select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()) "
            "and (c.oid is null or (c.relkind in ('r', 'm') and c.relfilenode not in (0, "
            "coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)))) limit 1"
        )
        if replaced:
            raise TableReplaced(
                "a table was replaced while it was read", where=self.where, remedy="try again, to read the new one"
            )


@contextmanager
def reading(place: DatabasePlace) -> Iterator[Session]:
    """Give a read-only session: one snapshot of the database, which nothing that is sent can change.

    Raises
    ------
    Failure : of the class that the server's refusal has.
    """
    with _session(place, "begin transaction isolation level repeatable read, read only", reads=True) as session:
        yield session


@contextmanager
def writing(place: DatabasePlace) -> Iterator[Session]:
    """Give a session that may write; everything is in one transaction, committed when the block ends well.

    Raises
    ------
    Failure : of the class that the server's refusal has.
    """
    with _session(place, "begin transaction isolation level read committed, read write", reads=False) as session:
        yield session
        session.run("commit")


@contextmanager
def _session(place: DatabasePlace, begin: str, *, reads: bool) -> Iterator[Session]:
    try:
        import psycopg
    except ImportError as error:
        raise CapabilityFailure(
            "databases need psycopg, which is not installed",
            where=str(place),
            remedy="pip install 'geocairn[postgis]'",
        ) from error
    with told(str(place), reads=reads):
        connection = psycopg.connect(**_parameters(place))
        try:
            session = Session(connection, str(place), "", connection.info.user)
            session.run(begin)
            _settle(session, reads=reads)
            yield session
        finally:
            connection.close()  # and with it goes a transaction that was not committed


def _parameters(place: DatabasePlace) -> dict[str, Any]:
    """Return what is said to libpq, which takes the rest from the environment."""
    parameters: dict[str, Any] = {
        "host": place.host,
        "port": place.port,
        "dbname": place.database,
        "client_encoding": "utf8",
        "autocommit": True,
        "prepare_threshold": None,
    }
    if place.user is not None:
        parameters["user"] = place.user
    for variable, name, value in (
        ("PGCONNECT_TIMEOUT", "connect_timeout", CONNECT_SECONDS),
        ("PGAPPNAME", "application_name", "geocairn"),
    ):
        if variable not in os.environ:
            parameters[name] = value
    return parameters


def _settle(session: Session, *, reads: bool) -> None:
    """Make the settings, for the transaction alone: behind a pooler, others get the same connection after."""
    version = session.connection.info.server_version
    if version < _OLDEST:
        raise CapabilityFailure(
            f"the server is PostgreSQL {version // 10_000}, and geocairn needs {_OLDEST // 10_000} or newer",
            where=session.where,
        )
    found = session.rows(
        "select quote_ident(n.nspname) from pg_catalog.pg_extension e "
        "join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'postgis'"
    )
    session.postgis = found[0][0] if found else ""
    settings = dict(_SETTINGS, search_path=f"public, {session.postgis}" if session.postgis else "public")
    if reads:
        settings["default_transaction_read_only"] = "on"
    for name, seconds in (("statement_timeout", STATEMENT_SECONDS), ("lock_timeout", LOCK_SECONDS)):
        if session.rows(f"show {name}")[0][0] == "0":
            settings[name] = f"{seconds}s"
    calls = ", ".join("pg_catalog.set_config(%s, %s, true)" for _ in settings)
    session.rows(f"select {calls}", [text for pair in settings.items() for text in pair])


def need_postgis(session: Session) -> None:
    """Refuse a database without PostGIS.

    Raises
    ------
    InputFailure : when it has none.
    """
    if not session.postgis:
        raise InputFailure(
            "the database has no PostGIS", where=session.where, remedy="let its owner run CREATE EXTENSION postgis"
        )


@contextmanager
def told(where: str, *, reads: bool) -> Iterator[None]:
    """Turn what PostgreSQL refuses into a failure of its class, in the server's own words.

    Parameters
    ----------
    reads : whether it is refused to write here, so that who tries is at fault.
    """
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise failure_of(error, where, reads=reads) from error


def failure_of(error: Any, where: str, *, reads: bool = True) -> Failure:
    """Return the failure that an error of psycopg stands for."""
    state = error.sqlstate or ""
    text = " ".join(str(error.diag.message_primary or error).split())
    detail = error.diag.message_detail
    if detail:
        text = f"{text} ({' '.join(detail.split())})"
    kind = _CLASSES[classify(error).failure_class]
    remedy = _REMEDIES.get(state, "")
    if not state and any(word in text for word in _REFUSED_AT_ONCE):
        kind = FatalFailure
        remedy = "credentials come from PGUSER and PGPASSWORD, .pgpass or a service; encryption from PGSSLMODE"
    if reads and state.startswith(_OF_THE_TRANSACTION):
        kind, remedy = InputFailure, "a source is read in a read-only transaction: let the query only read"
    return kind(f"the database answers: {text}", where=where, remedy=remedy)
