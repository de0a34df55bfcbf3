"""The channels that an app declares: patterns of names, with rules about who may listen and who may send.

A rule is about no row. What it may name are the parts of the channel's name, as if they were the columns of a row of a
table that does not exist: so it is checked, folded and compiled like the rules of tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.realtime import channel_store
from pilotis.data.realtime.types import ChannelKeep, ChannelPattern, ChannelPatterns
from pilotis.data.rows.table import TOO_OLD, PreparedTables
from pilotis.data.rules.access import needed
from pilotis.data.rules.actions import Action
from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.document import Related, named_tables, shown, stored
from pilotis.data.rules.fold import Folded
from pilotis.data.rules.service import WAS_CHECKED, Rules, UsedInRuleError
from pilotis.data.rules.visibility import RuleDeniedError, visibility
from pilotis.data.tables import store as table_store
from pilotis.data.tables.schema import AccessLevel, Column, ColumnType, TableSchema
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.where.operands import Arguments
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.http.api.principals import Actor, AppInfo, Principal, Role
from pilotis.kit import json
from pilotis.kit.errors import ForbiddenError, PilotisError, invalid
from pilotis.security.audit.service import record

Json = Any

MAX_PATTERNS = 50
NAME = re.compile(r"[A-Za-z0-9:_.-]{1,200}")
_PATTERN = re.compile(r"(?:[A-Za-z0-9:_.-]|\{[a-z][a-z0-9_]{0,30}\})+")
_PART = re.compile(r"\{([a-z][a-z0-9_]{0,30})\}")
_TRIES = 3


class ChannelDeniedError(ForbiddenError):
    """403 `CHANNEL_DENIED`: the app declares no channel of this name, or its rules do not let the caller do this."""

    code = "CHANNEL_DENIED"
    message = "There is no channel of this name, or its rules do not let you do this."


class Keeping(NamedTuple):
    """How many messages a channel keeps, and for how many seconds."""

    messages: int
    seconds: int


class Declared(NamedTuple):
    """A declared pattern: the expression of its names, and the table that its rules are about."""

    pattern: str
    expression: re.Pattern[str]
    table: TableSchema
    presence: bool
    echo: bool
    keep: Keeping | None = None
    events: bool = False


class Allowed(NamedTuple):
    """What a caller may do with a channel: as it was declared, and the folded rule that allowed it."""

    declared: Declared
    rule: Folded
    parts: Mapping[str, str]


def declared(app_id: UUID, number: int, item: Mapping[str, Json]) -> Declared:
    """Return a stored pattern."""
    pattern = item["pattern"]
    parts = _PART.findall(pattern)
    columns = tuple(Column(at + 1, name, ColumnType.STRING) for at, name in enumerate(parts))
    table_id = UUID(int=number + 1)
    table = TableSchema(app_id, table_id, pattern, AccessLevel.PUBLIC, 1, columns, rules=item["rules"])
    pieces = _PART.split(pattern)
    expression = "".join(
        f"(?P<{piece}>[A-Za-z0-9_.-]+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)
    )
    keep = item.get("keep")
    options = item["presence"], item["echo"], None if keep is None else Keeping(**keep), item.get("events", False)
    return Declared(pattern, re.compile(expression), table, *options)


class ChannelRules:
    """Keeps the channels of apps, and decides who may use them."""

    def __init__(self, database: Database, tables: Tables, prepared: PreparedTables, rules: Rules) -> None:
        self._database = database
        self._tables = tables
        self._prepared = prepared
        self._rules = rules
        self._known: dict[UUID, list[Declared]] = {}
        tables.namers.append(channel_store.names_table)
        tables.guards.append(_require_named)

    def forget(self, key: str) -> None:
        """Read the channels of an app again."""
        self._known.pop(UUID(key), None)

    def forget_all(self) -> None:
        """Read all channels again."""
        self._known.clear()

    async def save(self, app: AppInfo, actor: Actor, asked: ChannelPatterns) -> ChannelPatterns:
        """Declare an app's channels, in place of those there were; raises a 400 error that names the place."""
        if len(asked.channels) > MAX_PATTERNS:
            raise invalid("channels", f"An app has at most {MAX_PATTERNS} patterns of channels.")
        async with self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            rows = await table_store.live_tables(connection, app.app_id)
            related = Related.of([row.schema for row in rows])
            items = [
                _stored(app, number, one, related, f"channels[{number}]") for number, one in enumerate(asked.channels)
            ]
            for number, item in enumerate(items):
                uses = [use for use in needed(UUID(int=number + 1), item["rules"]) if use[0].int != number + 1]
                for saved in self._rules.saved:
                    saved(app.app_id, uses)
            await channel_store.save(connection, app.app_id, json.encode(items).decode())
            await record(connection, app.app_id, actor, "channels.change", None, channels=[i["pattern"] for i in items])
            await publish(connection, Topic.CHANNEL_RULES, app.app_id)
        self.forget(str(app.app_id))
        return await self.shown(app)

    async def shown(self, app: AppInfo) -> ChannelPatterns:
        """Return an app's channels, with today's names of tables and columns."""
        related = Related.of(await self._tables.schemas(app.app_id))
        return ChannelPatterns([_shown(one, related) for one in await self._of(app.app_id)])

    async def _of(self, app_id: UUID) -> list[Declared]:
        if app_id not in self._known:
            text = await channel_store.read(self._database, app_id)
            items = [] if text is None else json.decode(text.encode())
            self._known[app_id] = [declared(app_id, number, item) for number, item in enumerate(items)]
        return self._known[app_id]

    async def allowed(self, principal: Principal, name: str, action: Action) -> Allowed:
        """Return what lets a caller listen to a channel (`read`) or send to it (`create`).

        Raises `ChannelDeniedError`, which does not tell whether there is such a channel, and
        `MemberTokenRequiredError` where a signed-in member could.
        """
        app = principal.app
        assert app is not None
        found = next(
            ((one, match) for one in await self._of(app.app_id) if (match := one.expression.fullmatch(name))), None
        )
        if found is None or not NAME.fullmatch(name):
            raise ChannelDeniedError
        one, match = found
        if principal.may(Role.VIEWER if action is Action.READ else Role.EDITOR):
            return Allowed(one, True, match.groupdict())
        for attempt in range(_TRIES):
            related = await self._related(app, one)
            try:
                visible = visibility(principal, one.table, action, principal.member, related)
            except RuleDeniedError:
                raise ChannelDeniedError from None
            if visible.is_everything:
                return Allowed(one, True, match.groupdict())
            sql, values = _judgement(one.table, visible.rule, related, match.groupdict())
            try:
                holds = await self._database.fetchval(sql, *values, tenant=app.app_id)
            except TOO_OLD:
                if attempt == _TRIES - 1:
                    raise
                for table in related.values():
                    self._tables.forget(table)
                continue
            if not holds:
                break
            return Allowed(one, visible.rule, match.groupdict())
        raise ChannelDeniedError

    async def _related(self, app: AppInfo, one: Declared) -> dict[UUID, TableSchema]:
        found: dict[UUID, TableSchema] = {}
        for table_id in named_tables(one.table.rules):
            try:
                found[table_id] = (await self._prepared.current(app, table_id)).schema
            except TableNotFoundError:
                continue
        return found


def bound(where: Json, parts: Mapping[str, str], table: TableSchema) -> Json:
    """Return the condition of an `$exists` of a folded rule with the parts of a channel's name as constants."""
    if isinstance(where, list):
        return [bound(one, parts, table) for one in where]
    if not isinstance(where, Mapping):
        return where
    if len(where) == 1 and "$row" in where:
        number = str(where["$row"]).removeprefix("#")
        return next((parts[column.name] for column in table.columns if str(column.number) == number), None)
    return {name: value if name == "$exists" else bound(value, parts, table) for name, value in where.items()}


def _judgement(
    table: TableSchema, rule: Folded, related: Mapping[UUID, TableSchema], parts: Mapping[str, str]
) -> tuple[str, Sequence[Any]]:
    if isinstance(rule, bool):
        return "select $1::boolean", [rule]
    arguments = Arguments(*parts.values())
    columns = ", ".join(f'${at + 1}::text collate "C" as "{name}"' for at, name in enumerate(parts)) or "1 as one"
    condition = compile_rule(rule, table, related, arguments, row="c")
    return arguments.complete(f"select ({condition}) is true from (select {columns}) c"), arguments.values


def _stored(app: AppInfo, number: int, one: ChannelPattern, related: Related, place: str) -> dict[str, Json]:
    parts = _PART.findall(one.pattern)
    if not _PATTERN.fullmatch(one.pattern) or len(one.pattern) > 200:
        text = "A pattern has letters, digits, : _ . - and parts such as {room}, and at most 200 characters."
        raise invalid(f"{place}.pattern", text)
    if len(set(parts)) != len(parts):
        raise invalid(f"{place}.pattern", "Two parts of the pattern have the same name.")
    item: dict[str, Json] = {
        "pattern": one.pattern,
        "rules": None,
        "presence": one.presence,
        "echo": one.echo,
        "keep": msgspec.to_builtins(one.keep),
        "events": one.events,
    }
    table = declared(app.app_id, number, item).table
    document = {"read": _as_row(one.listen), "create": _as_row(one.send), "define": {"listen": _as_row(one.listen)}}
    if one.listen is None or one.listen is True:
        del document["define"]
        if one.send == {"$use": "listen"}:
            document["create"] = one.listen
    try:
        item["rules"] = stored(document, table, related, app.limits, texts_are_ids=True)
    except PilotisError as error:
        for detail in error.details:
            renamed = detail.field.replace("rules.read", f"{place}.listen").replace("rules.create", f"{place}.send")
            raise error.at(renamed.replace("rules.define.listen", f"{place}.listen")) from None
        raise
    return item


def _shown(one: Declared, related: Related) -> ChannelPattern:
    try:
        rules = shown(one.table.rules or {}, one.table, related)
    except (PilotisError, KeyError):
        # A table or a column that it names is gone, so it lets nobody in.
        rules = {}
    return ChannelPattern(
        pattern=one.pattern,
        listen=_as_channel(rules.get("read")),
        send=_as_channel(rules.get("create")),
        presence=one.presence,
        echo=one.echo,
        keep=None if one.keep is None else ChannelKeep(messages=one.keep.messages, seconds=one.keep.seconds),
        events=one.events,
    )


async def _require_named(connection: Connection, app_id: UUID, table_id: UUID) -> None:
    """Raise `UsedInRuleError` if rules of channels that name a table do not fit it any more."""
    text = await channel_store.patterns(connection, app_id)
    items = [] if text is None else json.decode(text.encode())
    naming = [
        one
        for one in (declared(app_id, number, item) for number, item in enumerate(items))
        if table_id in named_tables(one.table.rules)
    ]
    if not naming:
        return
    rows = await table_store.live_tables(connection, app_id)
    related = Related.of([row.schema for row in rows])
    if broken := [f"the channel {one.pattern}" for one in naming if not _fits(one.table, related)]:
        raise UsedInRuleError(broken)


def _fits(table: TableSchema, related: Related) -> bool:
    try:
        stored(shown(table.rules or {}, table, related), table, related, WAS_CHECKED, texts_are_ids=True)
    except (PilotisError, KeyError):
        return False
    return True


def _as_row(rule: Json) -> Json:
    """Return a rule with `$row` in the place of `$channel`."""
    return _renamed(rule, "$channel", "$row")


def _as_channel(rule: Json) -> Json:
    return _renamed(rule, "$row", "$channel")


def _renamed(rule: Json, before: str, after: str) -> Json:
    if isinstance(rule, list):
        return [_renamed(one, before, after) for one in rule]
    if not isinstance(rule, Mapping):
        return rule
    if len(rule) == 1 and before in rule:
        return {after: rule[before]}
    return {name: _renamed(value, before, after) for name, value in rule.items()}
