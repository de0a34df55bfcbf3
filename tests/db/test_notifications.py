"""Notifications: a listening connection that goes silent is found out, and everything remembered is dropped."""

import asyncio
from typing import Any

import pytest

from pilotis.db import notifications
from pilotis.db.notifications import Notifications
from pilotis.db.pool import Database
from tests.services import address
from tests.support import Server
from tests.waiting import PATIENCE, until


class Proxy:
    """Passes bytes on to the server's socket until it is told to swallow them and to take no new clients."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.silent = False

    async def serve(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.silent:
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        ways = [self._pass(reader, server_writer), self._pass(server_reader, writer)]
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        server_writer.close()
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.silent:
                writer.write(data)
                await writer.drain()


async def test_a_silent_connection_is_replaced_and_caches_are_dropped(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notifications, "_PROBE_SECONDS", 0.1)
    monkeypatch.setattr(notifications, "_ANSWER_SECONDS", 2.0)
    real: dict[str, Any] = address(server)
    proxy = Proxy(f"{real['host']}/.s.PGSQL.{real['port']}")
    listening = await proxy.serve()
    port = listening.sockets[0].getsockname()[1]
    database = Database(real | {"host": "127.0.0.1", "port": port, "ssl": False})
    direct = Database(real)
    told, resets = [], []
    subject = Notifications(database)
    subject.subscribe("app", told.append, lambda: resets.append(1))
    await subject.start()
    try:
        async with direct.connection() as other:

            async def heard() -> bool:
                await notifications.notify(other, "app", "one")
                return "one" in told

            await until(heard)
            proxy.silent = True
            await notifications.notify(other, "app", "lost")
            before = len(resets)
            await until(lambda: len(resets) > before)
            assert set(told) == {"one"}
    finally:
        await subject.stop()
        await direct.close()
        listening.close()


async def test_a_connection_that_ends_is_opened_anew(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notifications, "_RETRY_SECONDS", 0.05)
    database = Database(address(server))
    told: list[str] = []
    subject = Notifications(database)
    subject.subscribe("app", told.append, lambda: None)
    await subject.start()
    try:
        async with database.connection() as other:
            listeners = "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %pilotis%'"
            await other.fetch(listeners)
            async with asyncio.timeout(PATIENCE):
                while "again" not in told:
                    await notifications.notify(other, "app", "again")
                    await asyncio.sleep(0.05)
    finally:
        await subject.stop()
        await database.close()
