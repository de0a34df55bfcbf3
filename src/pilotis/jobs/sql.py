"""The SQL of all claims, which are fair across apps and exclude a takeover of the claiming process."""

from __future__ import annotations

MAX_APPS = 100
"""How many apps one claim examines before and after the app where the last claim ended, besides the apps with the
oldest due work.
"""

_OLDEST = 50


def fair_claim(*, table: str, waiting: str, due: str, key: str, changes: str, returning: str) -> str:
    """Return a statement that claims due work from a table, in one round trip.

    `waiting` is the condition of the table's partial indexes, `due` its time column, and `key` the column that
    completes the primary key after `app_id`. `changes` are the assignments of the claim besides `owner` and `fence`.

    Parameters: `$1` the process, `$2` the maximum number of items, `$3` apps to skip, `$4` the app where the last claim
    ended, `$5` the lease in seconds. Further parameters belong to `waiting`.

    The statement first renews the lease of the process. A takeover locks and deletes that row, so a process that has
    been taken over claims nothing. Apps are found by stepping through the index (app_id, due), so an app with much work
    costs no more than one with little.
    """
    return f"""
        with recursive holder as (
            update pilotis.nodes set lease_until = clock_timestamp() + make_interval(secs => $5)
            where node_id = $1 returning node_id
        ),
        {_walk("behind", table, waiting, due, "w.app_id > $4")},
        {_walk("before", table, waiting, due, "w.app_id <= $4")},
        oldest as (
            select w.app_id from {table} w where {waiting} and w.{due} <= now() order by w.{due} limit {_OLDEST}
        ),
        apps as (
            select app_id from (
                select app_id from behind union select app_id from before union select app_id from oldest
            ) found
            where app_id <> all($3::uuid[]) order by random()
        ),
        taken as materialized (
            select one.app_id, one.{key} from apps cross join lateral (
                select w.app_id, w.{key} from {table} w
                where {waiting} and w.app_id = apps.app_id and w.{due} <= now()
                order by w.{due} limit greatest(1, $2::int / 2) for update skip locked
            ) one
            limit $2
        )
        update {table} x set owner = $1, fence = x.fence + 1{changes}
        from taken, holder where x.app_id = taken.app_id and x.{key} = taken.{key}
        returning {returning}
    """


def _walk(name: str, table: str, waiting: str, due: str, part: str) -> str:
    """Return the name and text of a recursive query for the apps with due work in one part of the index order."""
    one = f"select w.app_id from {table} w where {waiting} and w.{due} <= now() and {part}"
    return f"""{name} as (
            (select first.app_id, 1 as step from ({one} order by w.app_id limit 1) first)
            union all
            select following.app_id, {name}.step + 1 from {name} cross join lateral (
                {one} and w.app_id > {name}.app_id order by w.app_id limit 1
            ) following
            where {name}.step < {MAX_APPS}
        )"""
