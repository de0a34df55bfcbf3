"""Nodes for tests: in this process, or as programs of their own that can be killed."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.jobs.background import Background
from pilotis.jobs.kinds import JobKind, Periodic, ScheduleKind
from pilotis.jobs.node import identity
from pilotis.jobs.queue import Jobs
from tests.forked import Program
from tests.waiting import PATIENCE


class Member:
    """A node in this process."""

    def __init__(self, arguments: dict[str, Any], kinds: Sequence[JobKind[Any]], **options: Any) -> None:
        self.database = Database(arguments, size=8, statement_seconds=PATIENCE)
        self.control = Control(self.database)
        self.jobs = Jobs(self.database, options.pop("max_waiting", 10_000))
        for kind in kinds:
            self.jobs.register(kind)
        server_id, slot = options.pop("server_id", None), options.pop("slot", 0)
        name = identity("test", server_id=server_id, slot=slot)
        self.background = Background(self.database, self.control, name, self.jobs, **options)

    async def enqueue(self, kind: JobKind[Any], payload: Any, app_id: UUID | None = None, **options: Any) -> UUID:
        async with self.database.transaction() as connection:
            return await self.jobs.enqueue(connection, kind, app_id, payload, **options)

    async def close(self, seconds: float = 1.0) -> None:
        await self.background.stop(seconds)
        await self.control.stop()
        await self.database.close()


class Cluster:
    """Nodes on one database."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.members: list[Member] = []
        self.programs: list[Program] = []
        self.databases: list[Database] = []

    async def member(self, *kinds: JobKind[Any], **options: Any) -> Member:
        """Start a node in this process."""
        member = Member(self.arguments, kinds, **options)
        self.members.append(member)
        await member.control.start()
        await member.background.start()
        return member

    def program(self, *words: str) -> Program:
        """Start a node as a program; see `tests/jobs/program.py` for what it does."""
        with Path(os.devnull).open("w") as nowhere:
            words = ("tests.jobs.program", json.dumps(self.arguments), *words)
            program = Program(*words, stderr=nowhere, reads=True)
        self.programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        return program

    async def close(self) -> None:
        for program in self.programs:
            if program.poll() is None:
                program.send_signal(signal.SIGCONT)
                program.kill()
            program.wait(PATIENCE)
            program.stdin.close()
            program.stdout.close()
        for member in self.members:
            await member.close()
        for database in self.databases:
            await database.close()


async def empty(database: Database, where: str = "true") -> bool:
    """Whether no job matches the condition."""
    return not await database.fetchval(f"select exists (select from pilotis.jobs where {where})")


def periodic(name: str, seconds: float, run: Callable[..., Any]) -> Periodic:
    return Periodic(name=name, every_seconds=seconds, run=run)


def schedule_kind(name: str, fire: Callable[..., Any]) -> ScheduleKind:
    return ScheduleKind(name=name, fire=fire)


async def forever(_: Any) -> None:
    await asyncio.Event().wait()
