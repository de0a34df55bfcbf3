"""The baseline: a bare ASGI application that runs the best statements an expert would write, one per request.

No validation, no authentication, no routing to speak of, no logs. Run as `python -m bench.baseline FILE`, where the
file holds a `Plan` as JSON. Prints its address when it answers.
"""

from __future__ import annotations

import gc
import itertools
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import uvicorn
import uvloop

from pilotis.db.pool import Database

Handler = Callable[[str, bytes], Awaitable[bytes]]


class Statement(msgspec.Struct):
    """SQL and the arguments that every request gives it."""

    sql: str
    arguments: list[Any]


class Plan(msgspec.Struct):
    """Where the database is and what to run for which route."""

    connect_arguments: dict[str, Any]
    pool_size: int
    row: str
    create: str
    page: Statement
    other_page: Statement
    deep_page: Statement
    query: list[Statement]


class Baseline:
    """`/row/<id>`, `/list`, `/list/<offset>`, `/deep/<offset>`, `/create` and `/query`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._queries = itertools.cycle(plan.query)
        self._database = Database(plan.connect_arguments, size=plan.pool_size)
        self._handlers: dict[str, Handler] = {
            "row": self._row,
            "list": self._page,
            "deep": self._deep_page,
            "create": self._create,
            "query": self._query,
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        _, name, *rest = scope["path"].split("/")
        content = b""
        if scope["method"] == "POST":
            content = (await receive())["body"]
        body = await self._handlers[name](rest[0] if rest else "", content)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _row(self, row_id: str, _: bytes) -> bytes:
        text: str = await self._database.fetchval(self._plan.row, UUID(row_id))
        return text.encode()

    async def _page(self, offset: str, _: bytes) -> bytes:
        if offset:
            return await self._found(Statement(self._plan.other_page.sql, [int(offset)]))
        return await self._found(self._plan.page)

    async def _deep_page(self, offset: str, _: bytes) -> bytes:
        return await self._found(Statement(self._plan.deep_page.sql, [int(offset)]))

    async def _query(self, _: str, __: bytes) -> bytes:
        return await self._found(next(self._queries))

    async def _found(self, statement: Statement) -> bytes:
        row = await self._database.fetchrow(statement.sql, *statement.arguments)
        assert row is not None
        return b'{"data":%b,"total_count":%d}' % (row["data"].encode(), row["total_count"])

    async def _create(self, _: str, body: bytes) -> bytes:
        # The body is {"data":{…}}; its members become the record's, as they are.
        data = body[8:-1]
        row_id = b"%b" % str(uuid4()).encode()
        record = b'[{"__id":"%b",%b]' % (row_id, data[1:])
        created = await self._database.fetchval(self._plan.create, record.decode())
        return b'{"id":"%b","data":%b,"created_at":"%b"}' % (row_id, data, created.isoformat().encode())


async def _serve(plan: Plan) -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(Baseline(plan), lifespan="off", access_log=False, log_level="warning")
    gc.collect()
    gc.freeze()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    uvloop.run(_serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)))


if __name__ == "__main__":
    main()
