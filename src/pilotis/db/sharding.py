"""Citus' schema-based sharding: the server's tables stay on the coordinator, each app's schema is on one node."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import asyncpg
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase

NODE_PARAMETERS = {"jit": "off", "pg_trgm.word_similarity_threshold": "0.4"}
"""Those of our session parameters that change what a statement does or costs on another node."""

IS_SHARDED = "select true from pg_extension where extname = 'citus'"
"""Whether the database has Citus; null if not."""


class Node(NamedTuple):
    """A node of Citus that schemas can be on, by the address at which the other nodes reach it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def distribute_new_schemas(connection: Connection, distribute: bool) -> None:
    """Set, for the rest of the transaction, whether Citus distributes new schemas; no effect without Citus."""
    await connection.execute(
        "select set_config('citus.enable_schema_based_sharding', $1, true) from pg_extension where extname = 'citus'",
        "on" if distribute else "off",
    )


async def configure_nodes(connection: Connection) -> None:
    """Set `NODE_PARAMETERS` for the sessions that Citus opens on other nodes; no effect without Citus.

    Those sessions do not inherit the parameters of ours. They belong to the same role, whose parameters Citus copies to
    every node. Without the permission for this nothing is changed; `wrong_on_nodes` finds it.
    """
    role = await connection.fetchval(
        """
        select format('alter role %I in database %I', session_user, current_database())
        from pg_extension where extname = 'citus'
        """
    )
    if role is not None and await wrong_on_nodes(connection):
        with suppress(asyncpg.InsufficientPrivilegeError):
            await connection.execute(
                "".join(f"{role} set {key} = '{value}';" for key, value in NODE_PARAMETERS.items())
            )


async def wrong_on_nodes(connection: Connection) -> list[str]:
    """Return the names of those `NODE_PARAMETERS` that new sessions on some other node lack; none without Citus."""
    if not await connection.fetchval(IS_SHARDED):
        return []
    rows = await connection.fetch(
        """
        select name from unnest($1::text[], $2::text[]) as wanted (name, value)
        where exists (
            select from run_command_on_workers(format('select current_setting(%L, true)', name)) r
            where r.success and r.result is distinct from value
        )
        """,
        list(NODE_PARAMETERS),
        list(NODE_PARAMETERS.values()),
    )
    return [name for (name,) in rows]


async def lost_nodes(connection: Connection | TenantDatabase) -> list[str]:
    """Return the nodes of Citus, as `host:port`, that this one cannot connect to; none without Citus."""
    if not await connection.fetchval(IS_SHARDED):
        return []
    rows = await connection.fetch(
        """
        select nodename || ':' || nodeport as name from pg_dist_node
        where isactive and not citus_check_connection_to_node(nodename, nodeport) order by nodeid
        """
    )
    return [name for (name,) in rows]


async def nodes_for_schemas(connection: Connection) -> list[Node]:
    """Return the nodes that Citus puts schemas on; none without Citus."""
    if not await connection.fetchval(IS_SHARDED):
        return []
    rows = await connection.fetch(
        """
        select nodename, nodeport from pg_dist_node
        where isactive and shouldhaveshards and noderole = 'primary' order by nodename, nodeport
        """
    )
    return [Node(*row) for row in rows]


async def node_of(connection: Connection, schema: str) -> Node | None:
    """Return the node that a schema is on; None for one that Citus has not distributed."""
    row = await connection.fetchrow(
        """
        select p.nodename, p.nodeport from pg_dist_schema s
        join pg_dist_partition t on t.colocationid = s.colocationid
        join pg_dist_shard h on h.logicalrelid = t.logicalrelid
        join pg_dist_placement l on l.shardid = h.shardid
        join pg_dist_node p on p.groupid = l.groupid and p.noderole = 'primary'
        where s.schemaid = $1::text::regnamespace limit 1
        """,
        schema,
    )
    return None if row is None else Node(*row)


async def move_schema(connection: Connection, schema: str, to: Node, *, blocks_writes: bool) -> Node | None:
    """Move a schema to a node, wait until it is there, and return where it was, as `node_of` does.

    One that is on the coordinator alone is distributed first.

    The tables are copied by logical replication, and are locked for a moment at its end; with `blocks_writes`, writes
    wait all the time, and the nodes need no `wal_level = logical`. The connection must not bound its statements. Raises
    `asyncpg.PostgresError` for what Citus refuses.
    """
    before = at = await node_of(connection, schema)
    if at is None:
        await connection.execute("select citus_schema_distribute($1::text::regnamespace)", schema)
        at = await node_of(connection, schema)
    if at != to:
        mode = "block_writes" if blocks_writes else "force_logical"
        await connection.execute(
            "select citus_schema_move($1::text::regnamespace, $2, $3, $4::citus.shard_transfer_mode)",
            schema,
            to.host,
            to.port,
            mode,
        )
    return before


def schema_bytes(database: Database, schema: str) -> str:
    """Return a query for the size in bytes of a schema's tables and indexes, on whichever node they are.

    `schema` is a name that needs no quoting; it must exist.
    """
    return f"""
        select coalesce(sum({_size(database)}), 0)::bigint from pg_class c
        where relnamespace = '{schema}'::regnamespace and relkind = 'r'
    """


def schemas_bytes(database: Database) -> str:
    """Return a query for the size of each of the schemas `$1` that exists, as `schema_bytes` says of one.

    The catalog has no index for the tables of a schema, so one look at it serves many.
    """
    return f"""
        select n.nspname, sum({_size(database)})::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = any($1::name[]) and c.relkind = 'r' group by n.nspname
    """


def _size(database: Database) -> str:
    size = "pg_total_relation_size(c.oid)"
    if database.is_sharded:
        size = f"""
            case when c.oid in (select logicalrelid from pg_dist_partition) then citus_total_relation_size(c.oid)
            else {size} end
        """
    return size
