"""The log of row changes in an app's schema, written by the changing statement itself. Pure.

Live subscriptions read it: see `pilotis.data.realtime`. A table's schema says whether its statements write the log
(`TableSchema.watched`), which changes only with the schema's version. It is no outbox: it is not durable, every
process reads it, and entries go after some minutes.

An entry has the transaction (`xid`) that wrote it, and a reader's cursor is a snapshot of transactions: which of them
it has seen. A sequence number is no cursor, because transactions commit in another order than they take numbers.
"""

from __future__ import annotations

from uuid import UUID

from pilotis.data.tables.schema import TableSchema

MAX_LOGGED = 1000
"""If one statement changes more rows than this, a single entry `b` is written."""
WITH_XID = ", pilotis.log_xid({row}__id::text) as __xid"
"""What a write returns beside its rows. Only the statement itself knows its transaction: on Citus it runs elsewhere."""
MAX_READ = 10_000
"""The most entries that are read at once; of more, the reader learns only which tables have changed."""

_LEFT_OUT = "__left_out"
# The columns of an entry that a statement returns on Citus, with their types.
_MEMBERS = "xid xid8, table_id uuid, op text, row_id uuid, at timestamptz, before jsonb"


def log_of(app_id: UUID) -> str:
    """Return the name of an app's log."""
    return f"app_{app_id.hex}.__changes"


class ChangeLog:
    """Writes the common table expressions for one table, beside a write `written` and the rows `before`.

    With `apart` they only select the entries, which `found` returns and `insert` inserts.
    """

    def __init__(self, table: TableSchema, *, apart: bool = False) -> None:
        self._table = table
        self._apart = apart
        self._into = f"insert into {log_of(table.app_id)} (xid, table_id, op, row_id, at, before)"

    @property
    def found(self) -> str:
        """The expression for the JSON of the entries of the statement."""
        return "coalesce((select json_agg(logged) from logged), '[]')"

    def insert(self, given: str) -> str:
        """Insert the entries of an expression for their JSON."""
        return f"""{self._into} select xid, table_id, op::"char", row_id, at, before
            from json_to_recordset({given}) as e({_MEMBERS})"""

    def created(self) -> str:
        """Return the expression beside an insert."""
        return self._logged("c", "written", "null::jsonb")

    def updated(self) -> str:
        """Return the expression beside an update, with the rows `before`."""
        joined = "written join before as was on was.__id = written.__id"
        return self._logged("u", joined, "pilotis.logged_row(to_jsonb(was))")

    def deleted(self) -> str:
        """Return the expression beside a delete."""
        return self._logged("d", "written", "pilotis.logged_row(to_jsonb(written))")

    def _logged(self, op: str, source: str, before: str) -> str:
        table_id = f"'{self._table.table_id}'::uuid"
        return f"""logged as (
                {"" if self._apart else self._into}
                select written.__xid as xid, {table_id} as table_id, '{op}'::"char" as op, written.__id as row_id,
                    greatest(now(), written.__updated_at) as at, {before} as before
                from {source} where (select count(*) from written) <= {MAX_LOGGED}
                union all
                select max(written.__xid), {table_id}, 'b', null, now(), null from written
                having count(*) > {MAX_LOGGED}
            )"""


def read_log(app_id: UUID) -> str:
    """Select what a snapshot, `$1`, has not seen: `snapshot`, that of this statement, `epoch` and the `changes`.

    `changes` is a JSON array of the number, table, operation, row and time (milliseconds) of each entry, in the order
    in which a row changed: `c` created, `u` updated, `d` deleted, `b` many rows at once. It has at most one entry more
    than `MAX_READ`. Nothing is selected if a crash has emptied the log.
    """
    log = log_of(app_id)
    moment = "(extract(epoch from at) * 1000)::bigint"
    # The transactions of another installation, or node, have other numbers. On Citus the snapshot is that of the node
    # with the log because the statement reads from a table there.
    return f"""
        select pg_current_snapshot()::text as snapshot,
            epoch || '-' || (select system_identifier from pg_control_system()) as epoch,
            coalesce((
                select json_agg(json_build_array(seq, table_id, op, row_id, {moment}) order by seq) from (
                    select seq, table_id, op, row_id, at from {log}
                    where xid >= pg_snapshot_xmin($1::text::pg_snapshot)
                        and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
                    order by seq limit {MAX_READ + 1}
                ) unseen
            ), '[]')::text as changes
        from {log}_epoch
    """


def rows_before(table: TableSchema, numbers: str, holds: str, key: str) -> str:
    """Select of the rows `b`, as they were before the changes of some numbers, those that satisfy a condition.

    Returned are their id, the number as the `item`, and their key, an expression. What the log does not have of a large
    row is `left_out`; such a row is returned in any case, without a key if the condition does not hold.
    """
    left_out = f"__before -> '{_LEFT_OUT}'"
    return f"""
        select false as is_now, __id::text as id, __seq::text as item, case when {holds} then {key} end as key,
            ({left_out})::text as left_out
        from (select seq as __seq, before as __before from {log_of(table.app_id)} where seq = any({numbers})) logged,
            jsonb_populate_record(null::{table.physical}, __before) b
        where ({holds}) or {left_out} is not null
    """
