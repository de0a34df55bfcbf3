"""Rows: every operation on them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from pilotis.data.rows import records
from pilotis.data.rows.cascades import cascade_of
from pilotis.data.rows.creating import as_shown, bulk_result, failed_apart, new_arrays, new_records, new_rows
from pilotis.data.rows.cursors import InvalidCursorError
from pilotis.data.rows.operations import (
    NewRecord,
    Plan,
    RowNotFoundError,
    new_record,
    perform,
    plan_delete,
    plan_update,
)
from pilotis.data.rows.paths import paths_of
from pilotis.data.rows.query import (
    ResultTooLargeError,
    compile_query,
    next_cursor,
    statements_of,
)
from pilotis.data.rows.referring import Refers, RowReferencedError
from pilotis.data.rows.related import Related, plan
from pilotis.data.rows.running import or_start_over, run_compiled, run_shared
from pilotis.data.rows.shared_queries import MAX_KEPT_BYTES, CompiledQuery
from pilotis.data.rows.table import FoundPage, PreparedTable, PreparedTables, row_id_of
from pilotis.data.rows.types import DeleteWhere, Page, Query, ReadRow, UpdateWhere
from pilotis.data.rows.where_writes import plan_delete_where, plan_update_where
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility, creator_of_new_row, is_open, new_row_denied
from pilotis.data.tables.schema import Referrer
from pilotis.data.where.operands import COMMON_COUNTS, CREATOR_NAME, Arguments
from pilotis.http.api.direct import OnceKnown, Prepared, StartOverError
from pilotis.http.api.principals import AppInfo, MemberInfo, Principal, known_as
from pilotis.http.api.repeating import ContendedError
from pilotis.kit import json, origin
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import PilotisError, QueryTimeoutError
from pilotis.kit.ids import uuid7_text
from pilotis.kit.offload import offload

# Up to this offset a page takes about a millisecond, so it may wait for others.
_NEAR = 10_000
_INSERT_TRIES = 3
_ANONYMISED_MOST = 1000


class Rows:
    """Operations on rows. Each takes the principal, whose app and rights limit what it sees."""

    def __init__(self, tables: PreparedTables) -> None:
        self._tables = tables

    async def create(self, principal: Principal, table_id: UUID, data: msgspec.Raw, row_id: str | None = None) -> bytes:
        """Create a row, with the id if one is given, and return its JSON."""
        app = _app(principal)

        async def create(table: PreparedTable) -> bytes:
            new_id = row_id or uuid7_text()
            size = len(memoryview(data))
            visible = table.visible_now(principal, Action.CREATE)
            writer = await self._tables.introduced(principal, table)
            new = await offload(size, new_record, writer, table, visible, app.limits, data, new_id)
            refers = table.referring(principal)
            # What anybody may create and refer to is inserted together with that of others.
            is_free = visible.is_everything and all(one.is_free for one in refers)
            moment = await table.insert(new.record) if is_free else None
            if moment is None:
                moment, errors = await self._insert(principal, table, visible, refers, [new.record])
                if new_id in errors:
                    raise errors[new_id]
            assert moment is not None
            created = rfc3339(moment)
            row = new.row
            if new.hidden:
                shown = await table.shown_of_new([new.record], visible)
                row = await offload(size, new.shown, shown.get(new_id, ()))
            return await offload(size, records.item, new_id, row, created, new.created_by)

        return await self._tables.use(app, table_id, create)

    def begin_create(self, principal: Principal, table_id: UUID, data: msgspec.Raw) -> Prepared | OnceKnown | None:
        """Prepare what `create` does, for a known table; raises the same errors for an invalid row."""
        app = _app(principal)
        table = self._tables.known(app, table_id)
        if table is None or is_list(data) or table.schema.copies_nickname:
            return None
        if table.schema.references and not self._tables.refers_to_open_tables(table):
            return None
        if table.schema.rules is not None:
            return _begin_ruled(principal, table, app, data)
        new_id = uuid7_text()
        visible = table.visible_now(principal, Action.CREATE)
        if not visible.is_everything:
            return None
        new = new_record(principal, table, visible, app.limits, data, new_id)

        def finish(ended: asyncio.Future[datetime | None]) -> bytes:
            return records.item(new_id, new.row, rfc3339(_created(ended)), new.created_by)

        return partial(table.begin_insert, new.record), finish

    async def create_many(
        self, principal: Principal, table_id: UUID, data: msgspec.Raw, first_id: str | None = None
    ) -> bytes:
        """Create the valid rows of a list; the answer's JSON describes the errors of the others.

        If an id is given, the first row gets it.
        """
        app = _app(principal)
        size = len(memoryview(data))

        async def create(table: PreparedTable) -> bytes:
            visible = table.visible_now(principal, Action.CREATE)
            creator = creator_of_new_row(principal)
            writer = await self._tables.introduced(principal, table)
            decode = partial(new_rows, writer, table, visible, data, first_id, app.limits)
            refers = table.referring(principal)
            is_free = visible.is_everything and not table.schema.enforced_keys and not refers
            if is_free and table.takes_arrays and not visible.hides:
                rows, failed, values = await offload(size, new_arrays, table, decode, creator)
                created = rfc3339(await table.insert_arrays(values, len(rows)))
            else:
                rows, failed, made = await offload(size, new_records, principal, table, decode, creator)
                if is_free:
                    created = rfc3339(await table.insert_many(made))
                else:
                    moment, errors = await self._insert(principal, table, visible, refers, made)
                    rows, failed = failed_apart(rows, failed, errors)
                    made = [record for record in made if row_id_of(record) not in errors]
                    created = optional_rfc3339(moment) or ""
                if visible.hides:
                    shown = await table.shown_of_new(made, visible)
                    rows = await offload(size, as_shown, rows, visible.table.hidden, shown)
            created_by = records.created_by(creator) if visible.shows_creator else b""
            return await offload(size, bulk_result, rows, failed, created, created_by)

        return await self._tables.use(app, table_id, create)

    async def _insert(
        self,
        principal: Principal,
        table: PreparedTable,
        visible: Visibility,
        refers: Sequence[Refers],
        left: Sequence[bytes],
    ) -> tuple[datetime | None, dict[str, PilotisError]]:
        """Insert records, and return their time and the errors of those that were not inserted, by their ids.

        Raises `ContendedError` if rows with their unique keys, or those to which they refer, come and go.
        """
        created: datetime | None = None
        errors: dict[str, PilotisError] = {}
        for _ in range(_INSERT_TRIES):
            try:
                inserted = await table.insert_allowed(left, visible, refers)
            except asyncpg.ForeignKeyViolationError:
                continue
            created = created or inserted.created
            left = [record for record in left if row_id_of(record) not in inserted.ids]
            if inserted.allowed is not None:
                denied = [record for record in left if row_id_of(record) not in inserted.allowed]
                if refers and denied:
                    errors |= await table.refused(denied, visible, refers)
                else:
                    errors |= {row_id_of(record): new_row_denied(Action.CREATE) for record in denied}
                left = [record for record in left if row_id_of(record) not in errors]
            if not left:
                return created, errors
            taken = await table.taken(left)
            readable = await self._readable(principal, table, [one.existing_id for one in taken.values()])
            errors |= {
                row_id: table.violation(key, existing if existing in readable else None)
                for row_id, (key, existing) in taken.items()
            }
            left = [record for record in left if row_id_of(record) not in taken]
            if not left:
                return created, errors
        raise ContendedError

    async def _readable(self, principal: Principal, table: PreparedTable, row_ids: Sequence[str]) -> set[str]:
        """Return those of the rows that the caller may read."""
        try:
            visible = await table.visible(principal, Action.READ)
        except PilotisError:
            return set()
        if visible.is_everything or not row_ids:
            return set(row_ids)
        arguments = Arguments(list(row_ids), hash_=table.hash)
        sql = f"select __id::text as id from {table.schema.physical} where __id = any($1::uuid[])"
        rows = await table.fetch_plain(f"{sql}{visible.and_condition(arguments)}", *arguments.values)
        return {row["id"] for row in rows}

    async def read(self, principal: Principal, table_id: UUID, row_id: UUID, asked: ReadRow | None = None) -> bytes:
        """Return one row's JSON."""
        query = None if asked is None else query_of(asked)

        async def read(table: PreparedTable) -> bytes:
            visible = await table.visible(principal, Action.READ)
            if query is not None and (query.fields is not None or query.expand is not None):
                arguments = Arguments(row_id, hash_=table.hash)
                item = await self.read_where(principal, table, visible, "__id = $1", arguments, query)
                if item is None:
                    raise RowNotFoundError
                return item
            table = table.seen_by(visible)
            if visible.is_everything and not visible.by_row:
                text = await table.read(str(row_id), creators=visible.shows_creator)
            else:
                arguments = Arguments(row_id)
                statements = statements_of(table, Query(), visible, arguments)
                sql = statements.select(visible.and_condition(arguments))
                with table.timed(ruled=arguments.access.ruled):
                    text = await table.fetchval(sql, *arguments.values)
            return _one(table, text)

        return await self._tables.use(_app(principal), table_id, read)

    async def read_where(
        self,
        principal: Principal,
        table: PreparedTable,
        visible: Visibility,
        found: str,
        arguments: Arguments,
        query: Query,
    ) -> bytes | None:
        """Return the JSON of the row that satisfies a condition with arguments, with what a query shows of it."""
        related = await plan(self._tables, principal, table, visible, query.expand, None)
        seen = table.seen_by(visible)
        statements = statements_of(seen, query, visible, arguments)
        limits = _app(principal).limits
        if related is not None:
            related.require_few(1, limits)
            statements = table.showing(statements, related.compile(arguments, limits))
        sql = statements.select(visible.and_condition(arguments), found)
        with table.timed(ruled=arguments.access.ruled):
            text = await table.fetchval(sql, *arguments.values)
        return None if text is None else _decrypted(seen, related, f"[{text}]")[1:-1]

    def begin_read(self, principal: Principal, table_id: UUID, row_id: str) -> Prepared | OnceKnown | None:
        """Prepare what `read` does, for a known table without encrypted columns."""
        table = self._tables.known(_app(principal), table_id)
        if table is None or table.cipher is not None:
            return None
        if is_open(table.schema, principal.member):
            return partial(table.begin_read, row_id), _found
        if not table.is_whole:
            return None

        def begin(member: MemberInfo | None) -> asyncio.Future[str | None]:
            try:
                visible = table.visible_now(known_as(principal, member), Action.READ)
            except PilotisError as error:
                return _ended(error)
            return table.begin_read_of(row_id, visible) or _ended(StartOverError())

        if table.asks_for_facts and principal.member is not None:
            return OnceKnown(begin, _found)
        return partial(begin, principal.member), _found

    async def forget_creator(self, app: AppInfo, table_id: UUID, member_id: str) -> int:
        """Make the creator of some rows of a deleted member nobody, and return how many they were; 0 if none are left.

        Neither the time of their last change nor an event tells of it: a creator is no part of what is told of rows.
        """

        async def some(table: PreparedTable) -> int:
            schema = table.schema
            changed: int = await table.fetchval(
                f"""
                with found as materialized (
                    select __id as found_id from {schema.physical}
                    where __creator = $1 and {schema.at_this_version_within}
                    order by __id limit {_ANONYMISED_MOST} for update
                ), written as (
                    update {schema.physical} t set __creator = null from found
                    where t.__id = found_id and t.{schema.version_column} is null returning 1
                )
                select count(*) from written
                """,
                member_id,
            )
            return changed

        return await self._tables.use(app, table_id, some)

    async def page(self, principal: Principal, table_id: UUID, page: Page) -> bytes:
        """Return a page of a table in the order of creation, with the exact total."""
        started = time.perf_counter()
        query = Query(
            limit=page.limit,
            offset=page.offset,
            cursor=page.cursor,
            count=page.count,
            fields=_names(page.fields),
            expand=_names(page.expand),
        )
        body = await self._find(principal, table_id, query)
        # The body may have about 30 MB: a slice would copy it again.
        return b"".join([memoryview(body)[:-1], _time_since(started)])

    def begin_page(self, principal: Principal, table_id: UUID, page: Page) -> Prepared | OnceKnown | None:
        """Prepare what `page` does, for a known table all of whose rows the caller may read, and a small, near page."""
        app = _app(principal)
        limits = app.limits
        table = self._tables.known(app, table_id)
        limit = limits.page_size(page.limit)
        if (
            table is None
            or table.cipher is not None
            or table.has_large_pages
            or limit not in COMMON_COUNTS
            or page.cursor is not None
            or page.count is not None
            or page.fields is not None
            or page.expand is not None
            or page.offset > _NEAR
            or limit * limits.row_bytes > limits.page_bytes
        ):
            return None
        started = time.perf_counter()

        def finish(ended: asyncio.Future[FoundPage]) -> bytes:
            try:
                found = or_start_over(ended)
            except QueryTimeoutError:
                # Others may have taken the time.
                raise StartOverError from None
            if found.data is None:
                raise StartOverError
            tail = b',"total_count":%d,"limit":%d,"offset":%d' % (found.total, limit, page.offset)
            return b'{"data":%b%b%b' % (found.data.encode(), tail, _time_since(started))

        if is_open(table.schema, principal.member):
            return partial(table.begin_page, limit, page.offset), finish
        if table.schema.rules is None or not table.is_whole:
            return None

        def begin(member: MemberInfo | None) -> asyncio.Future[FoundPage]:
            try:
                visible = table.visible_now(known_as(principal, member), Action.LIST)
            except PilotisError as error:
                return _ended(error)
            if not visible.is_everything or visible.hides or visible.shows_creator:
                return _ended(StartOverError())
            return table.begin_page(limit, page.offset)

        if principal.member is None or not table.asks_for_facts:
            return partial(begin, principal.member), finish
        return OnceKnown(begin, finish)

    async def query(self, principal: Principal, table_id: UUID, query: Query) -> bytes:
        """Return the rows that satisfy a condition."""
        return await self._find(principal, table_id, query)

    def begin_query(self, principal: Principal, table_id: UUID, query: Query) -> Prepared | None:
        """Prepare what `query` does, for a known table all of whose rows the caller may read."""
        table = self._tables.known(_app(principal), table_id)
        if table is None or not table.is_asked_directly(principal, leads_on=bool(query.expand or query.counts)):
            return None
        return lambda: asyncio.ensure_future(self._find(principal, table_id, query)), or_start_over

    async def _find(self, principal: Principal, table_id: UUID, query: Query) -> bytes:
        app = _app(principal)

        async def find(table: PreparedTable) -> bytes:
            visible = await table.visible(principal, Action.LIST)
            related = await plan(self._tables, principal, table, visible, query.expand, query.counts)
            paths = await paths_of(self._tables, principal, table, visible.table, query.where)
            table = table.seen_by(visible)

            asked = json.encode(query)
            own = creator_of_new_row(principal) if CREATOR_NAME.encode() in asked else None

            def compiled() -> CompiledQuery:
                return compile_query(table, query, visible, app.limits, own, related, paths)

            async def answer() -> bytes:
                is_plain = visible.is_everything and related is None and paths is None
                is_kept = is_plain and len(asked) <= MAX_KEPT_BYTES
                statement = table.shared_queries.kept(key, app.limits, compiled) if is_kept else compiled()
                following = b""
                if query.cursor is None:
                    count, items = await run_shared(table, statement)
                else:
                    try:
                        row = await run_compiled(table, statement)
                    except asyncpg.DataError:
                        # Its sort value was made up.
                        raise InvalidCursorError from None
                    count, items = row["total_count"], row["data"]
                    following = b',"next_cursor":' + json.encode(next_cursor(table.schema, query, row))
                if items is None:
                    raise ResultTooLargeError
                limit = app.limits.page_size(query.limit)
                total = b"null" if count is None else b"%d" % count
                tail = b',"total_count":%b,"limit":%d,"offset":%d%b}' % (total, limit, query.offset, following)
                if related is None:
                    return b'{"data":%b%b' % (await table.decrypted_off_loop(items), tail)
                return b'{"data":%b%b' % (await offload(len(items), _decrypted, table, related, items), tail)

            # Identical concurrent requests for the first page share one query.
            key = (visible.key, own, asked, related and related.key, paths and paths.key)
            return await table.pages.run(key, answer)

        return await self._tables.use(app, table_id, find)

    async def update(
        self, principal: Principal, table_id: UUID, row_id: UUID, data: msgspec.Raw, expected: str | None = None
    ) -> bytes:
        """Change the given fields of a row and return its JSON; `expected` is the `updated_at` it must have."""
        app = _app(principal)

        async def update(table: PreparedTable) -> bytes:
            size = len(memoryview(data))
            plan = await offload(size, plan_update, principal, table, app.limits, row_id, data, expected)
            item = await _perform(table, plan)
            table.emitted()
            return item

        return await self._tables.use(app, table_id, update)

    def are_written_directly(self, principal: Principal, table_id: UUID) -> bool:
        """Return whether the table is known, and the caller may change and delete all of its rows."""
        table = self._tables.known(_app(principal), table_id)
        return table is not None and is_open(table.schema, principal.member)

    async def delete(self, principal: Principal, table_id: UUID, row_id: UUID, expected: str | None = None) -> None:
        """Delete a row; `expected` is the `updated_at` it must have."""

        async def delete(table: PreparedTable) -> None:
            along = await cascade_of(self._tables, principal, table)
            plan = plan_delete(principal, table, row_id, expected, along)
            try:
                await _perform(table, plan)
            except RowReferencedError as error:
                if principal.may(Action.DELETE.role) and error.referrer in table.schema.referrers:
                    error.extra["count"] = await self._count(table, error.referrer, row_id)
                raise
            table.emitted()
            plan.committed()

        await self._tables.use(_app(principal), table_id, delete)

    async def _count(self, table: PreparedTable, referrer: Referrer, row_id: UUID) -> int:
        """Return the number of rows that refer to a row."""
        child = (await self._tables.named(table.schema.app_id, referrer.table_id)).schema
        column = next((column for column in child.columns if column.number == referrer.number), None)
        if column is None:
            return 0
        value = f"(select {table.schema.referred_column(referrer.of)} from {table.schema.physical} where __id = $1)"
        found = f"select count(*) from {child.physical} where {column.physical} = {value}"
        count: int = await table.fetchval(found, row_id)
        return count

    async def delete_where(self, principal: Principal, table_id: UUID, request: DeleteWhere) -> int:
        """Delete the rows that satisfy a condition and return their number."""

        async def delete(table: PreparedTable) -> int:
            return await (await plan_delete_where(self._tables, principal, table, request)).alone()

        return await self._tables.use(_app(principal), table_id, delete)

    async def update_where(self, principal: Principal, table_id: UUID, request: UpdateWhere) -> int:
        """Change the rows that satisfy a condition and return their number; nothing if they are too many."""

        async def update(table: PreparedTable) -> int:
            return await (await plan_update_where(self._tables, principal, table, request)).alone()

        return await self._tables.use(_app(principal), table_id, update)


async def _perform(table: PreparedTable, plan: Plan) -> bytes:
    """Run a plan, in a transaction if it is more than one statement."""
    if plan.is_whole:
        with table.timed(ruled=plan.ruled):
            return await perform(table.fetchrow, plan)
    async with table.transaction() as connection:
        with table.timed(ruled=plan.ruled):
            return await perform(connection.fetchrow, plan)


def is_list(data: msgspec.Raw) -> bool:
    """Return whether data is a list, for a bulk create."""
    return bytes(memoryview(data)[:1]) == b"["


def count_rows(data: msgspec.Raw) -> int:
    """Return the number of rows to create."""
    return len(msgspec.json.decode(data, type=list[msgspec.Raw])) if is_list(data) else 1


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _begin_ruled(
    principal: Principal, table: PreparedTable, app: AppInfo, data: msgspec.Raw
) -> Prepared | OnceKnown | None:
    """Prepare the create of a row that the table's rules allow; every other answer is the handler's."""
    if table.statements.apart or not table.is_whole:
        return None
    new_id = uuid7_text()
    made: list[NewRecord] = []
    request = origin.remember()

    def begin(member: MemberInfo | None) -> asyncio.Future[datetime | None]:
        caller = known_as(principal, member)
        # It may begin in the turn of another request.
        token = origin.resume(request)
        try:
            visible = table.visible_now(caller, Action.CREATE)
            insert = None if visible.by_row else table.inserting(visible)
            if insert is None:
                return _ended(StartOverError())
            made.append(new_record(caller, table, visible, app.limits, data, new_id))
        except PilotisError:
            # Another node may have changed the rules, which the handler finds out.
            return _ended(StartOverError())
        finally:
            origin.end(token)
        return insert(made[0].record)

    def finish(ended: asyncio.Future[datetime | None]) -> bytes:
        moment = rfc3339(_created(ended))
        return records.item(new_id, made[0].shown(), moment, made[0].created_by)

    if table.asks_for_facts and principal.member is not None:
        return OnceKnown(begin, finish)
    return partial(begin, principal.member), finish


def _ended(error: Exception) -> asyncio.Future[Any]:
    """Return what has ended with an error, which is not told before the caller's credential was accepted."""
    ended = asyncio.get_running_loop().create_future()
    ended.set_exception(error)
    return ended


def _found(ended: asyncio.Future[str | None]) -> bytes:
    """Return the row that was read; raises `StartOverError` if its table has changed."""
    text = or_start_over(ended)
    if text is None:
        raise RowNotFoundError
    return text.encode()


def _created(ended: asyncio.Future[datetime | None]) -> datetime:
    """Return the time of creation; raises `StartOverError` if nothing was created."""
    moment = or_start_over(ended)
    if moment is None:
        raise StartOverError
    return moment


def _time_since(started: float) -> bytes:
    """Return the end of a page's JSON."""
    return b',"execution_time_ms":%.3f}' % ((time.perf_counter() - started) * 1000)


def query_of(asked: ReadRow) -> Query:
    """Return what is shown of a row, as a query says it."""
    return Query(fields=_names(asked.fields), expand=_names(asked.expand))


def _names(listed: str | None) -> list[str] | None:
    """Return the names in a parameter, which are separated by commas."""
    return None if listed is None else [name for name in listed.split(",") if name]


def _decrypted(table: PreparedTable, related: Related | None, items: str) -> bytes:
    return table.decrypted(items) if related is None else related.decrypted(table, items)


def _one(table: PreparedTable, text: str | None) -> bytes:
    if text is None:
        raise RowNotFoundError
    return table.decrypted_item(text)
