"""Prepared tables: the decoders, statements and batchers of a table at one schema version, cached with the schema."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection, Record

from pilotis.data.indexes import drop_blocking_index
from pilotis.data.indexes.recorder import AccessRecorder
from pilotis.data.rows import shared_reads
from pilotis.data.rows.counts import Folding
from pilotis.data.rows.emitting import CREATED
from pilotis.data.rows.referring import (
    ReferenceNotFoundError,
    Referring,
    Refers,
    RowReferencedError,
    ToMember,
    without_hidden_key,
)
from pilotis.data.rows.shared_queries import SharedQueries
from pilotis.data.rows.statements import Beside, ByRow, Statements
from pilotis.data.rows.statistics import TableStatistics
from pilotis.data.rules.actions import Action
from pilotis.data.rules.document import asks_for_facts, named_tables
from pilotis.data.rules.durations import RuleDurations
from pilotis.data.rules.visibility import Visibility, everything, is_open, new_row_denied, visibility
from pilotis.data.tables.encrypted_columns import ColumnCipher
from pilotis.data.tables.keys import CREATOR_NUMBER, UniqueKey, UniqueViolationError, violated
from pilotis.data.tables.references import violation
from pilotis.data.tables.schema import OnDelete, TableSchema
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.tables.values import Row, RowDecoder
from pilotis.data.where.access_patterns import AccessPatterns
from pilotis.data.where.operands import CREATOR_NAME, Arguments, Hash
from pilotis.db.batching import Batcher, Batchers, SingleFlight
from pilotis.db.blocks import Transaction
from pilotis.db.extensions import Extensions
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit.errors import PilotisError, UnavailableError, invalid
from pilotis.kit.ids import is_uuid
from pilotis.kit.offload import offload
from pilotis.security.encryption.cipher import Cipher
from pilotis.security.encryption.service import Encryption

Result = TypeVar("Result")
CallerT = TypeVar("CallerT", bound=Principal)

_MAX_TRIES = 12
"""Tries of an action; without a pause, since no moment is better than that after a change that made one fail."""
_MAX_PAGES = 16
_MAX_PARTIAL = 50
DEEP_OFFSET = 100
"""From this offset on, looking up a page's rows by their ids costs less than skipping whole rows."""
# PostgreSQL's errors for a statement that was compiled for an outdated schema.
TOO_OLD = (
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.DatatypeMismatchError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidCachedStatementError,
)
# The statuses of requests that a schema may not allow.
_REJECTED = {400, 401, 403}
_generations = itertools.count()


class FoundPage(NamedTuple):
    """A page: the number of all rows, and the JSON array of the page; None if it has to be read by itself."""

    total: int
    data: str | None


class Inserted(NamedTuple):
    """The ids of the rows that were inserted, their time, and the ids of those that a rule allowed; None for all."""

    ids: set[str]
    created: datetime | None
    allowed: set[str] | None


class Taken(NamedTuple):
    """A unique key, and the id of the row that has its values."""

    key: UniqueKey
    existing_id: str


class PreparedTable:
    """A prepared table. It is valid while its schema is current; a write with an outdated one fails."""

    def __init__(
        self,
        schema: TableSchema,
        database: Database,
        cipher: Cipher | None,
        uses: AccessRecorder | None = None,
        rule_durations: RuleDurations | None = None,
        statistics: TableStatistics | None = None,
        committed: Callable[[TableSchema], None] | None = None,
    ) -> None:
        self._committed = committed
        self.schema = schema
        self.related: Mapping[UUID, TableSchema] = {}
        """The tables that its rules name, in the state in which they were last read."""
        self.targets: Mapping[UUID, PreparedTable] = {}
        """The tables to which its columns refer, likewise."""
        self._generation = next(_generations)
        self._cipher = cipher
        self.cipher = ColumnCipher(schema, cipher) if cipher else None
        self.statements = Statements(schema, apart=database.is_sharded)
        self.statements_with_creators = Statements(schema, creators=True, apart=database.is_sharded)
        self._database = database
        self._uses = uses
        self._rule_durations = rule_durations
        self._statistics = statistics
        self.pages: SingleFlight[bytes] = SingleFlight()
        self._creates: Batcher[bytes, datetime | None] = Batcher(self._insert)
        self._shared_reads: Batchers[str, tuple[str, bytes], str | None] = Batchers(self._read_shared)
        self.shared_queries = SharedQueries(self._fetch_timed, self._took)
        self._shared_creates: Batchers[str, tuple[str, bytes], datetime | None] = Batchers(self._insert_shared)
        self.has_large_pages = False
        self._beside: dict[tuple[Statements, str, str], Statements] = {}
        self._by_row: dict[tuple[Statements, tuple[tuple[int, str], ...]], Statements] = {}
        self._partial: dict[tuple[frozenset[str] | str, bool], Statements] = {}
        self._page_batches: dict[tuple[int, bool], Batcher[int, FoundPage]] = {}
        self._reads, self._reads_with_creators = (
            Batcher[str, str | None](functools.partial(self._read, statements), max_batch=200)
            for statements in (self.statements, self.statements_with_creators)
        )

    async def visible(self, principal: Principal, action: Action) -> Visibility:
        """Return the rows on which the caller may perform an action; raises an error if there can be none."""
        member = principal.member
        if member is not None and self._asks_for_facts:
            member = await member.confirmed()
        return visibility(principal, self.schema, action, member, self.related, self.hash)

    @functools.cached_property
    def _asks_for_facts(self) -> bool:
        # Who the member is, its token says; whether its session is alive, is found out beside the statement.
        return self.schema.rules is not None and asks_for_facts(self.schema.rules)

    def visible_now(self, principal: Principal, action: Action, *, found_by_condition: bool = False) -> Visibility:
        """Return what `visible` does, for a request whose credential has been checked."""
        return visibility(
            principal,
            self.schema,
            action,
            principal.member,
            self.related,
            self.hash,
            found_by_condition=found_by_condition,
        )

    def referring(self, principal: Principal | None = None) -> list[Refers]:
        """Return the table's references, with the rows to which a caller may refer; None may refer to all."""
        found: list[Refers] = [ToMember(column, self.schema) for column in self.schema.of_members]
        for column, reference in self.schema.references:
            target, referred = self.targets.get(reference.target), "__id"
            by_key = reference.column is not None
            if target is None:
                visible = None
            elif principal is None:
                visible = everything(target.schema, Action.READ)
            else:
                try:
                    visible = target.visible_now(principal, Action.LIST if by_key else Action.READ)
                except PilotisError:
                    visible = None
            if target is not None and by_key:
                referred = target.schema.referred_column(reference.column)
                visible = None if visible is None else without_hidden_key(visible, column)
            found.append(Referring(column, self.schema.physical_of(reference.target), visible, referred))
        return found

    @functools.cached_property
    def new_rows(self) -> RowDecoder:
        """What decodes new rows."""
        return RowDecoder(self.schema.columns, in_keys=self.schema.texts_in_keys)

    @functools.cached_property
    def changes(self) -> RowDecoder:
        """What decodes changes of rows."""
        return RowDecoder(self.schema.columns, partial=True, in_keys=self.schema.texts_in_keys)

    def is_asked_directly(self, principal: Principal, *, leads_on: bool) -> bool:
        """Return whether the caller may read all rows, also while its session is still checked.

        A member's facts may decide what is read of other tables, so a member asks directly only where neither the
        request, which `leads_on` to some or not, nor a condition can reach one.
        """
        if not is_open(self.schema, principal.member):
            return False
        return principal.member is None or not (leads_on or self.schema.references or self.schema.referrers)

    def seen_by(self, visible: Visibility) -> PreparedTable:
        """Return the table as the caller sees it, for what only reads."""
        if not visible.hides:
            return self
        seen: PreparedTable | None = visible.table.__dict__.get("prepared")
        if seen is None:
            seen = visible.table.__dict__["prepared"] = PreparedTable(
                visible.table,
                self._database,
                self._cipher,
                self._uses,
                self._rule_durations,
                self._statistics,
                self._committed,
            )
            # It decrypts what only some rows show as well.
            seen.cipher = self.cipher
        return seen

    def statements_that_show(self, visible: Visibility, arguments: Arguments, row: str) -> Statements:
        """Return the statements whose rows, which they call `row`, show what the caller sees of them."""
        if not visible.hides:
            return self.statements_for(creators=visible.shows_creator)
        return Statements(
            self.schema,
            creators=visible.shows_creator,
            apart=self.statements.apart,
            shown=visible.table,
            by_row=visible.shown_by_row(arguments, row),
        )

    def by_row(self, statements: Statements, by_row: ByRow) -> Statements:
        """Return statements whose rows show some columns where a condition holds."""
        if not by_row:
            return statements
        # A column's default may be a list, so that a column is no part of a key.
        key = statements, tuple((column.number, holds) for column, holds in by_row)
        if key not in self._by_row:
            if len(self._by_row) >= _MAX_PARTIAL:
                self._by_row.clear()
            self._by_row[key] = statements.with_by_row(by_row)
        return self._by_row[key]

    def statements_for(self, *, creators: bool) -> Statements:
        """Return the statements whose rows say who created them, or those whose rows do not."""
        return self.statements_with_creators if creators else self.statements

    def showing(self, statements: Statements, beside: Beside) -> Statements:
        """Return statements whose rows are shown with something beside them."""
        if not beside.tail:
            return statements
        key = statements, beside.joins, beside.tail
        if key not in self._beside:
            if len(self._beside) >= _MAX_PARTIAL:
                self._beside.clear()
            self._beside[key] = statements.with_beside(beside)
        return self._beside[key]

    def statements_of_columns(self, names: frozenset[str], *, creators: bool) -> Statements:
        """Return the statements whose rows show these columns only."""

        def made() -> Statements:
            shown = self.schema.without(self.schema.hidden | (self.schema.by_name.keys() - names))
            return Statements(self.schema, creators=creators, apart=self.statements.apart, shown=shown)

        return self._partial_statements((names, creators), made)

    def statements_with_fields(self, names: str, *, creators: bool) -> Statements:
        """Return the statements whose rows show some fields of a free-form table; `names` is their placeholder."""

        def made() -> Statements:
            return Statements(self.schema, creators=creators, apart=self.statements.apart, fields=names)

        return self._partial_statements((names, creators), made)

    def _partial_statements(self, key: tuple[frozenset[str] | str, bool], made: Callable[[], Statements]) -> Statements:
        # Compiled queries are cached by these objects, so equal requests have to find the same one.
        if key not in self._partial:
            if len(self._partial) >= _MAX_PARTIAL:
                self._partial.clear()
            self._partial[key] = made()
        return self._partial[key]

    @property
    def hash(self) -> Hash | None:
        """Hashes values of encrypted columns to find equal ones, if the table has any."""
        return self.cipher.hash if self.cipher else None

    def encrypted(self, row: Row, row_id: str) -> Row:
        """Return a row in its stored form."""
        return self.cipher.encrypt(row, UUID(row_id)) if self.cipher else row

    def decrypted(self, items: str) -> bytes:
        """Return a JSON array of rows with decrypted columns."""
        return self.cipher.decrypt_items(items.encode()) if self.cipher else items.encode()

    def decrypted_item(self, item: str) -> bytes:
        """Return one row's JSON with decrypted columns."""
        return self.decrypted(f"[{item}]")[1:-1] if self.cipher else item.encode()

    async def decrypted_off_loop(self, items: str) -> bytes:
        """Return what `decrypted` returns; a thread decrypts large results."""
        return await offload(len(items) if self.cipher else 0, self.decrypted, items)

    def transaction(self) -> Transaction:
        """Acquire a connection inside a transaction for the app."""
        return self._database.transaction(self.schema.app_id)

    def replanned(self, sql: str) -> str:
        """Return a statement for which PostgreSQL has no plan from before this object was created.

        It would keep a generic plan from before an index existed for the lifetime of the connection.
        """
        return f"{sql} -- {self._generation}"

    async def fetch_compiled(
        self, query: str, values: Sequence[Any], access: AccessPatterns | None, *, read_only: bool = True
    ) -> list[Record]:
        """Run one statement that was compiled from a request, on a connection of the app.

        It is timed, because slow statements get indexes: `access` describes how it reads the table. One that is not
        `read_only` may delete rows, and returns their `count` then.
        """
        rows, _ = await self._fetch_timed(query, values, access, read_only=read_only)
        return rows

    async def _fetch_timed(
        self, query: str, values: Sequence[Any], access: AccessPatterns | None, *, read_only: bool = True
    ) -> tuple[list[Record], float]:
        """Return what `fetch_compiled` does, and the seconds that it took on its connection."""
        is_counted = not read_only and self.statements.apart
        tenant = self.schema.app_id
        block = self.transaction() if is_counted else self._database.statement(tenant, read_only=read_only)
        async with block as connection:
            started = time.perf_counter()
            try:
                rows = await connection.fetch(self.replanned(query), *values)
                if is_counted:
                    await self.settle(connection.execute, -rows[0].get("count", 0), rows[0].get("events"))
            finally:
                # A statement that was cancelled for being slow counts as well.
                taken = time.perf_counter() - started
                if access is not None:
                    self._took(access, taken)
        return rows, taken

    def _took(self, access: AccessPatterns, seconds: float) -> None:
        """Record how a statement read the table, and how long that took."""
        if self._uses is not None:
            self._uses.record(self.schema, access, seconds)
        if access.ruled:
            self._record_rule(seconds)

    def _record_rule(self, seconds: float) -> None:
        if self._rule_durations is not None and self.schema.rules is not None:
            self._rule_durations.record(self.schema, seconds)

    @contextmanager
    def timed(self, *, ruled: bool) -> Iterator[None]:
        """Count how long the block takes, if the table's rules limit what its statement reads or writes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            if ruled:
                self._record_rule(time.perf_counter() - started)

    async def settle(self, run: Callable[..., Awaitable[Any]], rows: int, events: str | None) -> None:
        """Store the row count and the events that a write has left to its transaction, whose method `run` is."""
        if rows:
            await run(self.statements.add_to_count, rows)
        if events is not None:
            await run(self.statements.add_events, events)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """Run one statement on a connection of the app; return its first row's first column, or None."""
        return await self._database.fetchval(query, *arguments, tenant=self.schema.app_id)

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        """Run one statement on a connection of the app; return its first row, or None."""
        return await self._database.fetchrow(query, *arguments, tenant=self.schema.app_id)

    def written(self, rows: int) -> None:
        """Count committed rows, for the planner's statistics."""
        if self._statistics is not None:
            self._statistics.written(self.schema, rows)
        self.emitted()

    def emitted(self) -> None:
        """After a committed write, start the event fan-out and wake the live subscriptions, if the table has any."""
        if self._committed is not None:
            self._committed(self.schema)

    async def insert(self, record: bytes) -> datetime | None:
        """Insert one row, in the form that `record` returns, and return its time of creation.

        None if another row has the values of a unique key.
        """
        return await self._creates.submit(record)

    async def insert_allowed(self, records: Sequence[bytes], visible: Visibility, refers: Sequence[Refers]) -> Inserted:
        """Insert the rows that a rule allows, that refer to rows, and whose unique keys are free, in one statement."""
        rows = await offload(sum(map(len, records)), _array, records)
        is_judged = bool(refers) or not visible.is_everything
        if self.statements.apart:
            return await self._insert_judged(records, rows, visible, refers)
        if is_judged:
            sql, values = self.insert_if(rows, visible, refers, unless_taken=bool(self.schema.enforced_keys))
            with self.timed(ruled=not visible.is_everything):
                (found,) = await self._database.fetch(sql, *values, tenant=self.schema.app_id)
        else:
            (found,) = await self._database.fetch(self.statements.insert_unless_taken, rows, tenant=self.schema.app_id)
        ids = set(found["ids"] or ())
        self.written(len(ids))
        allowed = set(found.get("allowed", found["ids"]) or ()) if is_judged else None
        return Inserted(ids, found["created_at"], allowed)

    async def _insert_judged(
        self, records: Sequence[bytes], rows: str, visible: Visibility, refers: Sequence[Refers]
    ) -> Inserted:
        async with self.transaction() as connection:
            allowed = None
            if refers or not visible.is_everything:
                sql, values = self.judge(rows, visible, refers)
                allowed = set(await connection.fetchval(sql, *values) or ())
                if not allowed:
                    return Inserted(set(), None, allowed)
                if len(allowed) < len(records):
                    rows = await offload(
                        len(rows), _array, [record for record in records if row_id_of(record) in allowed]
                    )
            if self.schema.enforced_keys:
                (found,) = await connection.fetch(self.statements.insert_unless_taken, rows)
                ids, created = set(found["ids"] or ()), found["created_at"]
                await self.settle(connection.execute, len(ids), found.get("events"))
            else:
                assert allowed is not None
                ids, created = allowed, await self._insert_within(connection, rows, len(allowed))
        self.written(len(ids))
        return Inserted(ids, created, allowed)

    async def refused(
        self,
        records: Sequence[bytes],
        visible: Visibility,
        refers: Sequence[Refers],
        connection: Connection | None = None,
    ) -> dict[str, PilotisError]:
        """Return, for each row that a rule denies or that refers to no row, by its id, the error."""
        rows = await offload(sum(map(len, records)), _array, records)
        sql, values = self.verdicts(rows, visible, refers)
        found = await (connection.fetch(sql, *values) if connection else self.fetch_plain(sql, *values))
        return {row["id"]: error for row in found if (error := self.verdict(row)) is not None}

    def verdicts(self, rows: str, visible: Visibility, refers: Sequence[Refers]) -> tuple[str, list[Any]]:
        """Return the statement that selects what is wrong with each row of a JSON array, for `verdict`."""
        arguments = Arguments(rows, hash_=self.hash)
        rule = visible.and_condition(arguments, row="r").removeprefix(" and ") or "true"
        missing = [(one.column.number, one.holds("r", arguments)) for one in refers]
        return self.statements.verdicts(rule, missing), arguments.values

    def verdict(self, row: Record) -> PilotisError | None:
        """Return what is wrong with a row by `verdicts`; None if nothing is."""
        if not row["allowed"]:
            return new_row_denied(Action.CREATE)
        if row["missing"] is None:
            return None
        names = {column.number: column.name for column in self.schema.columns}
        return ReferenceNotFoundError(names[row["missing"]])

    async def shown_of_new(self, records: Sequence[bytes], visible: Visibility) -> Mapping[str, Collection[str]]:
        """Return, for each of the rows, by its id, the columns of `by_row` that its creator sees in it."""
        if not visible.by_row:
            return {}
        rows = await offload(sum(map(len, records)), _array, records)
        sql, values = self.columns_of_new(rows, visible)
        return {row["id"]: row["names"] for row in await self.fetch_plain(sql, *values)}

    def columns_of_new(self, rows: str, visible: Visibility) -> tuple[str, list[Any]]:
        """Return the statement that selects, for the rows of a JSON array, what `shown_of_new` returns."""
        arguments = Arguments(rows, hash_=self.hash)
        return self.statements.shown_of_new(visible.shown_by_row(arguments, "r")), arguments.values

    async def taken(self, records: Sequence[bytes], connection: Connection | None = None) -> dict[str, Taken]:
        """Return, for each of the rows that a unique key forbids, by its id, the key and the row that has its values.

        Raises `asyncpg.UniqueViolationError` for an id that is taken itself.
        """
        rows = await offload(sum(map(len, records)), _array, records)
        sql = self.statements.taken
        found = await (connection.fetch(sql, rows) if connection else self.fetch_plain(sql, rows))
        keys = {key.number: key for key in self.schema.enforced_keys}
        if any(row["key"] == 0 for row in found):
            raise asyncpg.UniqueViolationError("The id of the row is taken.")
        return {row["id"]: Taken(keys[row["key"]], row["existing"]) for row in found}

    async def fetch_plain(self, query: str, *arguments: Any) -> list[Record]:
        """Run one statement on a connection of the app; return its rows."""
        return await self._database.fetch(query, *arguments, tenant=self.schema.app_id)

    def violation(self, key: UniqueKey, existing_id: str | None = None) -> UniqueViolationError:
        """Return the error that another row has the values of a key."""
        names = {column.number: column.name for column in self.schema.columns} | {CREATOR_NUMBER: CREATOR_NAME}
        return UniqueViolationError(key.name, [names[number] for number in key.columns], existing_id)

    def violated_by_change(self, message: str) -> PilotisError | None:
        """Return what `violated` does, for a change of rows: no reference lets the values of a key change."""
        return self._violated(message, {OnDelete.RESTRICT, OnDelete.SET_NULL, OnDelete.CASCADE})

    def violated(self, message: str) -> PilotisError | None:
        """Return the error for a unique key or a reference that PostgreSQL has found violated.

        None for another index, and for a reference that the schema does not have as it is reported: it is outdated.
        """
        return self._violated(message, {OnDelete.RESTRICT})

    def _violated(self, message: str, holding: Collection[OnDelete]) -> PilotisError | None:
        if (found := violation(message)) is not None:
            if not found.deletes:
                names = {column.number: column.name for column, _ in self.schema.references}
                return ReferenceNotFoundError(names[found.number]) if found.number in names else None
            for one in self.schema.referrers:
                if (one.table_id, one.number) == found[:2] and one.on_delete in holding:
                    return RowReferencedError(one)
            return None
        number = violated(message)
        return next((self.violation(key) for key in self.schema.enforced_keys if key.number == number), None)

    def insert_if(
        self, rows: str, visible: Visibility, refers: Sequence[Refers], *, unless_taken: bool = False
    ) -> tuple[str, list[Any]]:
        """Return the statement that inserts those rows of a JSON array that `judge` selects, and its arguments."""
        holds, arguments = self._good(rows, visible, refers)
        return self.statements.insert_if(holds, unless_taken=unless_taken), arguments.values

    def import_statement(self, refers: Sequence[Refers]) -> str:
        """Return the statement that inserts those rows of a JSON array that refer to rows and whose keys are free."""
        if not refers:
            return self.statements.import_unless_taken
        holds, _ = self._good("", everything(self.schema, Action.CREATE), refers)
        return self.statements.import_if(holds, unless_taken=bool(self.schema.enforced_keys))

    def judge(self, rows: str, visible: Visibility, refers: Sequence[Refers]) -> tuple[str, list[Any]]:
        """Return the statement that selects the ids of those rows that a rule allows and that refer to rows."""
        holds, arguments = self._good(rows, visible, refers)
        return self.statements.judge(holds), arguments.values

    def _good(self, rows: str, visible: Visibility, refers: Sequence[Refers]) -> tuple[str, Arguments]:
        arguments = Arguments(rows, hash_=self.hash)
        rule = visible.and_condition(arguments, row="r").removeprefix(" and ")
        parts = [*filter(None, [rule]), *(one.holds("r", arguments) for one in refers)]
        return " and ".join(parts), arguments

    async def insert_many(self, records: Sequence[bytes]) -> datetime:
        """Insert rows of a table without unique keys in one statement and return their time of creation."""
        (created, *_) = await self._insert(records)
        assert created is not None
        return created

    @property
    def takes_arrays(self) -> bool:
        """Whether `insert_arrays` takes new rows. Those that Citus stores apart are read from records."""
        is_plain = self.cipher is None and CREATED not in self.schema.emits
        return bool(self.schema.columns) and is_plain and not self.statements.apart

    async def insert_arrays(self, values: Sequence[str | None], number: int) -> datetime:
        """Insert rows of a table without unique keys that `takes_arrays`, and return their time of creation."""
        created: datetime = await self.fetchval(self.statements.insert_arrays, *values)
        self.written(number)
        return created

    def begin_insert(self, record: bytes) -> asyncio.Future[datetime | None]:
        """Begin what `insert` does; raises `UnavailableError` if too many wait."""
        return self._creates.begin(record)

    def inserting(self, visible: Visibility) -> Callable[[bytes], asyncio.Future[datetime | None]] | None:
        """Return what begins to insert a record, together with others of callers of the same kind, if a rule allows it.

        Only for callers who may refer to all rows. The result is the time of creation; None if the row was not
        inserted. None in place of it where the rule has values that no record has.
        """
        if visible.is_everything:
            return self._creates.begin
        known: tuple[str | None, bytes | None] | None = visible.__dict__.get("shared_create")
        if known is None:
            known = visible.__dict__["shared_create"] = self._shared_create(visible)
        sql, rest = known
        if sql is None or rest is None:
            return None
        return lambda record: self._shared_creates.begin(sql, (sql, record[:-1] + rest))

    def _shared_create(self, visible: Visibility) -> tuple[str | None, bytes | None]:
        """Return the statement that inserts rows for such callers, and the values of this one as a record has them."""
        holds, arguments = self._good("", visible, self._free_references)
        found = shared_reads.of_records(holds, arguments.places, "r")
        if found is None:
            return None, None
        holds, members = found
        sql = self.statements.insert_if(holds, unless_taken=bool(self.schema.enforced_keys), members=members)
        return sql, shared_reads.record(arguments.values[1:])

    async def _insert_shared(self, asked: Sequence[tuple[str, bytes]]) -> Sequence[datetime | None]:
        records = [record for _, record in asked]
        rows = await offload(sum(map(len, records)), _array, records)
        started = time.perf_counter()
        (found,) = await self.fetch_plain(asked[0][0], rows)
        taken = time.perf_counter() - started
        for _ in asked:
            self._record_rule(taken)
        ids, created = set(found["ids"] or ()), found["created_at"]
        self.written(len(ids))
        if len(ids) == len(records):
            return [created] * len(records)
        return [created if row_id_of(record) in ids else None for record in records]

    async def _insert(self, records: Sequence[bytes]) -> Sequence[datetime | None]:
        if self.schema.enforced_keys or self.schema.refers:
            try:
                inserted = await self._insert_free(records)
            except asyncpg.ForeignKeyViolationError:
                # A row to which one of them refers is just being deleted. Tried one by one, the others succeed.
                return [None] * len(records)
            if len(inserted.ids) == len(records):
                return [inserted.created] * len(records)
            return [inserted.created if row_id_of(record) in inserted.ids else None for record in records]
        rows = await offload(sum(map(len, records)), _array, records)
        created = await self._inserted(rows, len(records))
        self.written(len(records))
        return [created] * len(records)

    async def _insert_free(self, records: Sequence[bytes]) -> Inserted:
        """Insert rows for callers who may create and refer to all, if references lead to rows and keys are free."""
        if self.statements.apart or not self.schema.refers:
            return await self.insert_allowed(records, everything(self.schema, Action.CREATE), self.referring())
        rows = await offload(sum(map(len, records)), _array, records)
        (found,) = await self._database.fetch(self._insert_referring, rows, tenant=self.schema.app_id)
        ids = set(found["ids"] or ())
        self.written(len(ids))
        return Inserted(ids, found["created_at"], None)

    @functools.cached_property
    def _insert_referring(self) -> str:
        """The statement of `_insert_free`, which names no columns of other tables but those of keys."""
        visible = everything(self.schema, Action.CREATE)
        unless_taken = bool(self.schema.enforced_keys)
        sql, _ = self.insert_if("", visible, self._free_references, unless_taken=unless_taken)
        return sql

    @functools.cached_property
    def _free_references(self) -> list[Refers]:
        """The table's references for callers who may refer to all rows."""
        free: list[Refers] = [
            Referring(column, self.schema.physical_of(reference.target), everything(self.schema, Action.READ))
            for column, reference in self.schema.references
            if reference.column is None
        ]
        return free + [
            one for one in self.referring() if one.column.number not in {other.column.number for other in free}
        ]

    async def _inserted(self, rows: str, number: int) -> datetime:
        created: datetime
        if not self.statements.apart:
            created = await self.fetchval(self.statements.insert, rows)
            return created
        async with self.transaction() as connection:
            return await self._insert_within(connection, rows, number)

    async def _insert_within(self, connection: Connection, rows: str, number: int) -> datetime:
        is_simple = number == 1 and CREATED not in self.schema.emits and not self.schema.watched
        sql = self.statements.insert_one if is_simple else self.statements.insert
        (written,) = await connection.fetch(sql, rows)
        await self.settle(connection.execute, number, written.get("events"))
        created: datetime = written[0]
        return created

    async def read(self, row_id: str, *, creators: bool = False) -> str | None:
        """Return one row's JSON text by its id, with its creator if asked, or None."""
        return await (self._reads_with_creators if creators else self._reads).submit(row_id)

    def begin_read(self, row_id: str) -> asyncio.Future[str | None]:
        """Begin what `read` does; raises `UnavailableError` if too many wait."""
        return self._reads.begin(row_id)

    @functools.cached_property
    def _named(self) -> Collection[UUID]:
        return named_tables(self.schema.rules) if self.schema.rules is not None else ()

    @property
    def asks_for_facts(self) -> bool:
        """Whether the table's rules ask for more of a member than its id."""
        return self._asks_for_facts

    @property
    def is_whole(self) -> bool:
        """Whether the tables that its rules name have been read."""
        return all(table_id in self.related for table_id in self._named)

    def begin_read_of(self, row_id: str, visible: Visibility) -> asyncio.Future[str | None] | None:
        """Begin to read a row, with its creator if it is shown, together with others for callers of the same kind.

        None where the rule has values that no record has.
        """
        if visible.is_everything and not visible.by_row:
            seen = self.seen_by(visible)
            return (seen._reads_with_creators if visible.shows_creator else seen._reads).begin(row_id)
        known: tuple[str | None, bytes | None] | None = visible.__dict__.get("shared_read")
        if known is None:
            known = visible.__dict__["shared_read"] = self._shared_read(visible)
        sql, rest = known
        if sql is None or rest is None:
            return None
        return self._shared_reads.begin(sql, (sql, shared_reads.with_id(row_id, rest)))

    def _shared_read(self, visible: Visibility) -> tuple[str | None, bytes | None]:
        """Return the statement that reads rows for such callers, and the record of this one."""
        if any("$" in column.name for column in self.schema.columns):
            # It would look like a placeholder.
            return None, None
        arguments = Arguments(None, hash_=self.hash)
        statements = self.seen_by(visible).statements_for(creators=visible.shows_creator)
        by_row = visible.shown_by_row(arguments, "chosen") if visible.by_row else ()
        select = self.by_row(statements, by_row).select(visible.and_condition(arguments))
        return shared_reads.shared(select, arguments.places), shared_reads.record(arguments.values[1:])

    async def _read_shared(self, asked: Sequence[tuple[str, bytes]]) -> Sequence[str | None]:
        rows = (b"[" + b",".join(record for _, record in asked) + b"]").decode()
        started = time.perf_counter()
        found = {row[0]: row[1] for row in await self.fetch_plain(asked[0][0], rows)}
        taken = time.perf_counter() - started
        for _ in asked:
            self._record_rule(taken)
        return [found.get(number) for number in range(1, len(asked) + 1)]

    def begin_page(self, limit: int, offset: int) -> asyncio.Future[FoundPage]:
        """Begin to read a page of all rows in the order of creation, together with others of its size.

        Only for `limit`s of few values and small offsets, because every one of the pages waits for all of them. Raises
        `UnavailableError` if too many wait.
        """
        key = limit, offset >= DEEP_OFFSET
        batcher = self._page_batches.get(key)
        if batcher is None:
            batcher = self._page_batches[key] = Batcher(functools.partial(self._read_pages, *key), max_batch=_MAX_PAGES)
        return batcher.begin(offset)

    async def _read_pages(self, limit: int, deep: bool, offsets: Sequence[int]) -> Sequence[FoundPage]:
        distinct = sorted(set(offsets))
        sql = self.replanned(self.statements.pages(limit, deep=deep))
        records = await self._database.fetch(sql, distinct, tenant=self.schema.app_id)
        found = {offset: FoundPage(*record) for offset, record in zip(distinct, records, strict=True)}
        if any(page.data is None for page in found.values()):
            # Its pages are built only to be left out, so it is not worth it for this table.
            self.has_large_pages = True
        return [found[offset] for offset in offsets]

    async def _read(self, statements: Statements, row_ids: Sequence[str]) -> Sequence[str | None]:
        ids = f"{{{','.join(row_ids)}}}"
        rows = await self._database.fetch(statements.select_many, ids, tenant=self.schema.app_id)
        found: dict[str, str] = {row[0]: row[1] for row in rows}
        return [found.get(row_id) for row_id in row_ids]


def _versions(schema: TableSchema) -> frozenset[tuple[UUID, int]]:
    """Return the versions of a table and of those that its rules name and its columns refer to, as far as known."""
    prepared: PreparedTable | None = schema.__dict__.get("prepared")
    others: list[TableSchema] = []
    if prepared is not None:
        others += prepared.related.values()
        others += (target.schema for target in prepared.targets.values())
    return frozenset((one.table_id, one.version) for one in (schema, *others))


class _Id(msgspec.Struct):
    """The member of a record by which its row is found."""

    row_id: str = msgspec.field(name="__id")


def row_id_of(record: bytes) -> str:
    """Return the id of the row that a record creates."""
    return msgspec.json.decode(record, type=_Id).row_id


def _array(records: Sequence[bytes]) -> str:
    """Return the JSON array of records."""
    return (b"[" + b",".join(records) + b"]").decode()


class PreparedTables:
    """Caches the prepared table with its schema, so that both are dropped together."""

    def __init__(
        self,
        database: Database,
        tables: Tables,
        encryption: Encryption,
        uses: AccessRecorder | None = None,
        rule_durations: RuleDurations | None = None,
        statistics: TableStatistics | None = None,
        counts: Folding | None = None,
        rows_emitted: Callable[[UUID], None] | None = None,
        nickname: Callable[[UUID, str], Awaitable[str | None]] | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        self._extensions = extensions or Extensions(database)
        self._rows_emitted = rows_emitted
        self._rows_logged: Callable[[UUID], None] | None = None
        self._nickname = nickname
        self._database = database
        self._tables = tables
        self._encryption = encryption
        self._uses = uses
        self._rule_durations = rule_durations
        self._statistics = statistics
        self._counts = counts

    def on_logged(self, logged: Callable[[UUID], None]) -> None:
        """Call `logged` with an app's id whenever this process has committed changes to the app's log."""
        self._rows_logged = logged

    def _committed(self, table: TableSchema) -> None:
        if self._counts is not None:
            self._counts.written(table.app_id)
        if table.emits and self._rows_emitted is not None:
            self._rows_emitted(table.app_id)
        if table.watched and self._rows_logged is not None:
            self._rows_logged(table.app_id)

    async def use(self, app: AppInfo, table_id: UUID, action: Callable[[PreparedTable], Awaitable[Result]]) -> Result:
        """Run an action on the current schema; run it again, with validation, if the schema proves outdated."""
        failed: frozenset[tuple[UUID, int]] | None = None
        is_referred_to = False
        for _ in range(_MAX_TRIES):
            table = await self._tables.current(app.app_id, table_id)
            try:
                return await action(await self._prepared(table))
            except asyncpg.DeadlockDetectedError:
                # PostgreSQL rolled back this statement to resolve a deadlock.
                continue
            except asyncpg.ProgramLimitExceededError as error:
                if not await self.drop_blocking_index(table, error):
                    raise
            except TOO_OLD:
                # Tables that a statement names may change one after the other: each failure for another is no fault.
                versions = _versions(table)
                if versions == failed:
                    raise
                failed = versions
                self._forget(table)
            except asyncpg.ForeignKeyViolationError:
                # By a reference that was made, or changed, since the schema was read.
                if is_referred_to:
                    raise
                is_referred_to = True
                self._forget(table)
            except PilotisError as error:
                if not await self.forget_outdated(table, error):
                    raise
        raise UnavailableError("The table is busy. Try again shortly.")

    async def id_of(self, app: AppInfo, name: str) -> UUID:
        """Return the id of the table that a field `table_id` names by its id or title; raises a 400 error."""
        if is_uuid(name):
            return msgspec.convert(name.lower(), UUID)
        found = await self._tables.id_of(app.app_id, name)
        if found is None:
            raise invalid(
                "table_id", "No table has this id or title; both are listed by GET /v1/public/tables.", "INVALID_ID"
            )
        return found

    async def id_called(self, app_id: UUID, name: str, place: str) -> UUID:
        """Return the id of the table that a request names by its id or title; raises a 400 error for its place."""
        if is_uuid(name):
            return UUID(name)
        found = await self._tables.id_of(app_id, name)
        if found is None:
            raise invalid(place, f"The app has no table {name[:100]}.", "TABLE_NOT_FOUND")
        return found

    async def introduced(self, principal: CallerT, table: PreparedTable) -> CallerT:
        """Return the caller with the nickname of the member, where new rows of the table copy it."""
        member = principal.member
        if member is None or self._nickname is None or not table.schema.copies_nickname:
            return principal
        nickname = await self._nickname(table.schema.app_id, member.member_id)
        return msgspec.structs.replace(principal, member=msgspec.structs.replace(member, nickname=nickname))

    async def current(self, app: AppInfo, table_id: UUID) -> PreparedTable:
        """Return a prepared table, which may be slightly out of date; see `Tables.current`."""
        return await self._prepared(await self._tables.current(app.app_id, table_id))

    async def drafted(self, schema: TableSchema) -> PreparedTable:
        """Return the prepared table of a schema whose rules are only tried."""
        return await self._prepared(schema)

    def known(self, app: AppInfo, table_id: UUID) -> PreparedTable | None:
        """Return what `current` would, if that needs no query; else None."""
        schema = self._tables.known(app.app_id, table_id)
        prepared: PreparedTable | None = None if schema is None else schema.__dict__.get("prepared")
        return prepared

    async def _prepared(self, schema: TableSchema) -> PreparedTable:
        table = await self.prepare(schema)
        if schema.rules is not None:
            table.related = await self._related(schema)
        if schema.references:
            table.targets = await self._targets(schema)
        return table

    def refers_to_open_tables(self, table: PreparedTable) -> bool:
        """Return whether everybody may read all rows to which a table's rows refer, if that needs no query."""
        app_id = table.schema.app_id
        targets = (self._tables.known(app_id, reference.target) for _, reference in table.schema.references)
        return all(target is not None and is_open(target) for target in targets)

    async def cube(self) -> str:
        """Return the schema of the extension `cube`, by which points are compared; raises `ExtensionMissingError`."""
        return await self._extensions.schema("cube")

    async def profiles(self, app_id: UUID) -> PreparedTable | None:
        """Return the table with the profiles of an app's members; None if there is none."""
        table_id = await self._tables.profiles(app_id)
        if table_id is None:
            return None
        table = await self.named(app_id, table_id)
        # Another node has just named or left it.
        if table.schema.profile_key is None and await self._tables.forget_outdated(table.schema):
            table = await self.named(app_id, table_id)
        return None if table.schema.profile_key is None else table

    async def named(self, app_id: UUID, table_id: UUID) -> PreparedTable:
        """Return a prepared table, with the tables that its rules name; raises `TableNotFoundError`."""
        schema = await self._tables.current(app_id, table_id)
        table = await self.prepare(schema)
        if schema.rules is not None:
            table.related = await self._related(schema)
        return table

    async def _targets(self, schema: TableSchema) -> Mapping[UUID, PreparedTable]:
        """Return the tables to which a table's columns refer."""
        found: dict[UUID, PreparedTable] = {}
        for _, reference in schema.references:
            if reference.target not in found:
                with suppress(TableNotFoundError):
                    found[reference.target] = await self.named(schema.app_id, reference.target)
        return found

    async def _related(self, schema: TableSchema) -> Mapping[UUID, TableSchema]:
        """Return the tables that a table's rules name. One that has just been dropped is left out."""
        found: dict[UUID, TableSchema] = {}
        for table_id in named_tables(schema.rules):
            with suppress(TableNotFoundError):
                found[table_id] = await self._tables.current(schema.app_id, table_id)
        return found

    def _forget(self, schema: TableSchema) -> None:
        """Drop a schema that turned out to be outdated, or one that its rules name, which may be it.

        What a table's references lead to may be anywhere in the app.
        """
        if schema.references or schema.referrers:
            self._tables.forget_app(schema.app_id)
        prepared: PreparedTable | None = schema.__dict__.get("prepared")
        for table in (schema, *(prepared.related.values() if prepared else ())):
            self._tables.forget(table)

    async def prepare(self, schema: TableSchema) -> PreparedTable:
        """Return the prepared table of a schema."""
        prepared: PreparedTable | None = schema.__dict__.get("prepared")
        if prepared is None:
            encrypted = any(column.encrypted for column in schema.columns)
            cipher = await self._encryption.cipher(schema.app_id) if encrypted else None
            prepared = schema.__dict__["prepared"] = PreparedTable(
                schema, self._database, cipher, self._uses, self._rule_durations, self._statistics, self._committed
            )
        return prepared

    async def drop_blocking_index(self, table: TableSchema, error: asyncpg.ProgramLimitExceededError) -> bool:
        """Drop the automatic index that could not hold a value; False if there was none."""
        return await drop_blocking_index.drop(self._database, table, error)

    async def forget_outdated(self, table: TableSchema, error: PilotisError) -> bool:
        """Drop a schema by which a request was rejected if it is outdated; return whether to try again.

        Another node may have added a column, opened the table, or changed what a deletion takes along, a moment ago.
        """
        may_be = error.status in _REJECTED or isinstance(error, RowReferencedError)
        return may_be and await self._tables.forget_outdated(table)

    def forget(self, table: PreparedTable) -> None:
        """Drop a table whose schema turned out to be outdated."""
        self._forget(table.schema)
