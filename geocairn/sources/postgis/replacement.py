"""The table that an output takes the place of: whether it may be replaced, and what of it the new one inherits.

What always holds: nothing is dropped that something else depends on or that protects the data (row security,
triggers); owner and privileges are those of the old table, so that replacing one neither shuts anybody out nor lets
anybody in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean
from geocairn.notes import caveat
from geocairn.sources.postgis.connection import Session
from geocairn.sources.postgis.relation import Relation, quoted
from geocairn.sources.postgis.standing import Written, is_unchanged, written_of

_KINDS = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index", "c": "type"}
_KINDS |= {"p": "partitioned table", "I": "index"}


@dataclass
class Standing:
    """The table that stands where an output goes."""

    oid: int
    owner: str
    written: Written | None
    """What geocairn recorded of it, where it wrote it."""
    indexes: list[str] = field(default_factory=list)


def standing_at(session: Session, relation: Relation, where: str) -> Standing | None:
    """Return the table at an output's place, None where there is none.

    Raises
    ------
    InputFailure : when the schema is missing, or something other than a plain table stands there.
    """
    if not session.rows("select from pg_catalog.pg_namespace where nspname = %s", [relation.schema]):
        known = [row[0] for row in session.rows("select nspname::text from pg_catalog.pg_namespace")]
        near = did_you_mean(relation.schema, [name for name in known if not name.startswith("pg_")])
        raise InputFailure(f"the database has no schema {relation.schema!r}{near}", where=where)
    found = session.rows(
        "select c.oid::int8, c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner)::text, "
        "pg_catalog.obj_description(c.oid, 'pg_class') from pg_catalog.pg_class c "
        "join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s",
        [relation.schema, relation.name],
    )
    if not found:
        return None
    oid, kind, owner, comment = found[0]
    if kind != "r":
        raise InputFailure(
            f"{relation} is a {_KINDS.get(kind, 'relation')}, and an output replaces only a table",
            where=where,
            remedy="choose another name",
        )
    return Standing(int(oid), str(owner), written_of(comment))


def hold_mode(
    session: Session, relation: Relation, there: Standing, mode: Literal["replace", "error"], where: str
) -> None:
    """Refuse, in mode error, to replace what geocairn did not write or what was changed since.

    Raises
    ------
    InputFailure : when it must not be replaced.
    """
    if mode == "error" and (there.written is None or not is_unchanged(session, relation, there.written)):
        raise InputFailure(
            f"something is there already ({relation}) that geocairn did not write, or that was changed since",
            where=where,
            remedy="choose another name, or mode: replace",
        )


def refuse_losses(session: Session, relation: Relation, there: Standing, where: str) -> None:
    """Refuse to replace a table that bears what a new one would not: row security, policies, triggers, rules.

    Raises
    ------
    InputFailure : naming what it bears.
    """
    borne = session.rows(
        "select 'row security' from pg_catalog.pg_class where oid = %s and relrowsecurity "
        "union all select 'the policy ' || polname from pg_catalog.pg_policy where polrelid = %s "
        "union all select 'the trigger ' || tgname from pg_catalog.pg_trigger where tgrelid = %s and not tgisinternal "
        "union all select 'the rule ' || rulename from pg_catalog.pg_rewrite where ev_class = %s "
        "union all select 'the foreign key ' || conname from pg_catalog.pg_constraint "
        "where conrelid = %s and contype = 'f'",
        [there.oid] * 5,
    )
    if borne:
        raise InputFailure(
            f"the table {relation} has {', '.join(row[0] for row in borne)}, which replacing it would lose",
            where=where,
            remedy="remove that first, or choose another name for the output",
        )
    there.indexes = [
        row[0]
        for row in session.rows(
            "select i.relname::text from pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid "
            "where x.indrelid = %s and not x.indisprimary and pg_catalog.obj_description(i.oid, 'pg_class') "
            "is distinct from %s order by 1",
            [there.oid, INDEX_COMMENT],
        )
    ]


INDEX_COMMENT = "Made by geocairn"
"""The comment on an index of ours: it is made anew with the table."""


def inherit(session: Session, staging: Relation, there: Standing, columns: list[str], where: str) -> None:
    """Give the new table the old one's owner and privileges, and tell what it does not get."""
    if there.owner != session.role:
        session.run(f"alter table {staging.sql} owner to {quoted(there.owner)}")
    session_grants = (
        "select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end "
        "from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) a "
        "where c.oid = %s::regclass and a.grantee <> c.relowner"
    )
    for (grantee,) in session.rows(session_grants, [staging.sql]):
        session.run(f"revoke all on {staging.sql} from {grantee}")
    for privilege, grantee, option, column in session.rows(
        "select a.privilege_type, case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) "
        "end, a.is_grantable, null::text from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) a "
        "where c.oid = %s and a.grantee <> c.relowner union all "
        "select a.privilege_type, case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) "
        "end, a.is_grantable, t.attname::text from pg_catalog.pg_attribute t "
        "cross join lateral aclexplode(t.attacl) a where t.attrelid = %s and not t.attisdropped",
        [there.oid, there.oid],
    ):
        if column is not None and column not in columns:
            continue
        what = f"{privilege} ({quoted(column)})" if column is not None else privilege
        session.run(f"grant {what} on {staging.sql} to {grantee}{' with grant option' if option else ''}")
    if there.indexes:
        caveat(f"{where}: indexes of the old table are not made again: {', '.join(there.indexes)}")


def drop(session: Session, relation: Relation, where: str) -> None:
    """Drop the old table, unless something depends on it.

    Raises
    ------
    InputFailure : naming what depends on it.
    """
    from psycopg.errors import DependentObjectsStillExist

    try:
        session.run(f"drop table {relation.sql}")
    except DependentObjectsStillExist as error:
        on = "; ".join((error.diag.message_detail or "").splitlines())
        raise InputFailure(
            f"the table {relation} cannot be replaced, since other objects depend on it: {on}",
            where=where,
            remedy="drop them first and make them again after, or choose another name for the output",
        ) from error
