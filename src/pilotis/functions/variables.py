"""Variables of functions and of apps: write-only, and decrypted for sandboxes alone."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.functions import store
from pilotis.functions.errors import (
    FunctionLimitError,
    FunctionNotFoundError,
    InvalidVariableNameError,
    VariableNotFoundError,
)
from pilotis.functions.store import VariableRecord
from pilotis.functions.types import DeletedVariable, Variable, VariableList
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import invalid
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

MAX_VARIABLES = 100
MAX_BYTES = 256 * 1024
MAX_VALUE_BYTES = 32 * 1024
_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_RESERVED = ("PILOTIS_", "DENO_", "NODE_", "LD_", "PYTHON")


class Variables:
    """The variables of an app's functions. The nil function id stands for variables of the app."""

    def __init__(self, database: Database, secrets: Secrets) -> None:
        self._database = database
        self._secrets = secrets
        self._changed: Callable[[str], None] = lambda _: None

    def on_changed(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the app's id after each change by this process."""
        self._changed = changed

    async def of(self, app_id: UUID, function_id: UUID) -> dict[str, str]:
        """Return the variables of a function's sandbox: its own take precedence over the app's."""
        rows = await store.variables(self._database.of(app_id), app_id, [store.APP, function_id])
        if not rows:
            return {}
        secrets = await self._secrets.app(app_id)
        ordered = sorted(rows, key=lambda row: row.function_id != store.APP)
        return {
            row.name: secrets.decrypt(Purpose.FUNCTION_VARIABLE, _place(row.function_id, row.name), row.value).decode()
            for row in ordered
        }

    async def list(self, app: AppInfo, function_id: UUID) -> VariableList:
        """Return the variables without their values."""
        await self._require(app.app_id, function_id)
        rows = await store.variables(self._database.of(app.app_id), app.app_id, [function_id])
        return VariableList([_variable(row) for row in rows])

    async def put(self, app: AppInfo, actor: Actor, function_id: UUID, name: str, value: str) -> Variable:
        """Set a variable and return it without its value."""
        return (await self.change(app, actor, function_id, {name: value}, [])).variables[0]

    async def delete(self, app: AppInfo, actor: Actor, function_id: UUID, name: str) -> DeletedVariable:
        """Delete a variable; raises `VariableNotFoundError`."""
        await self.change(app, actor, function_id, {}, [name])
        return DeletedVariable("Variable deleted.", name)

    async def change(
        self, app: AppInfo, actor: Actor, function_id: UUID, values: Mapping[str, str], deleted: Sequence[str]
    ) -> VariableList:
        """Set and delete variables atomically, and return those that were set."""
        for name in values:
            if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
                raise InvalidVariableNameError
            size = len(values[name].encode("utf-8", "surrogatepass"))
            if size > MAX_VALUE_BYTES or "\0" in values[name]:
                raise invalid("value", f"value: must have at most {MAX_VALUE_BYTES} bytes, without U+0000.")
        secrets = await self._secrets.app(app.app_id)
        rows = []
        async with self._changing(app.app_id, function_id) as connection:
            for name, value in values.items():
                data = value.encode()
                encrypted = secrets.encrypt(Purpose.FUNCTION_VARIABLE, _place(function_id, name), data)
                rows.append(
                    await store.put_variable(connection, app.app_id, function_id, name, encrypted, len(data), actor.id)
                )
            if await store.delete_variables(connection, app.app_id, function_id, deleted) < len(set(deleted)):
                raise VariableNotFoundError
            number, size = await store.variables_size(connection, app.app_id, function_id)
            if number > MAX_VARIABLES or size > MAX_BYTES:
                raise FunctionLimitError(
                    f"At most {MAX_VARIABLES} variables of {MAX_BYTES} bytes in total are allowed."
                )
            target = None if function_id == store.APP else function_id
            await record(
                connection,
                app.app_id,
                actor,
                "function.env",
                target,
                set=sorted(values),
                deleted=sorted(set(deleted)),
            )
        return VariableList([_variable(row) for row in rows])

    @asynccontextmanager
    async def _changing(self, app_id: UUID, function_id: UUID) -> AsyncGenerator[Connection]:
        async with self._database.transaction(app_id) as connection:
            if function_id == store.APP:
                await lock_app(connection, app_id)
            elif await store.lock(connection, app_id, function_id) is None:
                raise FunctionNotFoundError
            # Functions before their variables, as when a function is deleted.
            await store.revise(connection, app_id, function_id)
            yield connection
            await publish(connection, Topic.FUNCTION, app_id)
        self._changed(str(app_id))

    async def _require(self, app_id: UUID, function_id: UUID) -> None:
        if function_id != store.APP and await store.read(self._database.of(app_id), app_id, function_id) is None:
            raise FunctionNotFoundError


def _place(function_id: UUID, name: str) -> str:
    return f"{function_id}/{name}"


def _variable(row: VariableRecord) -> Variable:
    return Variable(
        name=row.name,
        scope="app" if row.function_id == store.APP else "function",
        updated_at=rfc3339(row.updated_at),
        updated_by=row.updated_by,
    )
