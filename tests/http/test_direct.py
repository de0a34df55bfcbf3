"""Direct answers: they are those of the handler, in the order of the requests; every other case is the handler's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import msgspec
import pytest

from pilotis.http.api.direct import Prepared, StartOverError, writing_for
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import (
    Access,
    AppInfo,
    AppMember,
    Client,
    InvalidTokenError,
    MemberInfo,
    Presumption,
)
from pilotis.http.api.repeating import ContendedError
from pilotis.http.api.request import Call, Message, ServerBounds
from pilotis.http.in_flight import InFlight, InFlightLimits
from pilotis.http.replies.reply import Reply
from pilotis.http.server.protocol import protocol_for
from pilotis.kit import origin
from pilotis.kit.errors import NotFoundError, UnavailableError
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits
from tests.http.bare import NobodyKnown, application, serving
from tests.support import App
from tests.waiting import PATIENCE, until

APP = AppInfo(uuid7(), "app", 1, False, True, True, [], Limits())
KEY = {"X-Public-Key": "pk_known"}
ID = "018f0000-0000-7000-8000-000000000000"


# The headers of a request that is answered directly, and of one that is not.
WAYS: list[list[tuple[str, str]]] = [[], [("x-twice", "1"), ("x-twice", "2")]]
SESSION = uuid7()
MEMBER = {"Authorization": "Bearer of-a-member"}


class OneApp(NobodyKnown):
    """Knows one app, and a member whose session is alive once `session` says so."""

    def __init__(self) -> None:
        self.sessions: list[asyncio.Future[bool]] = []

    def known_member(self, app: AppInfo, token: str) -> AppMember | None:
        return AppMember(APP, MemberInfo("m", SESSION, is_guest=False)) if token == "of-a-member" else None

    def presume(self, token: str) -> tuple[UUID, MemberInfo, Presumption] | None:
        def confirm(is_alive: bool) -> None:
            if not is_alive:
                raise InvalidTokenError

        self.sessions.append(asyncio.get_running_loop().create_future())
        member = MemberInfo("m", SESSION, is_guest=False)
        return APP.app_id, member, Presumption(self.sessions[-1], confirm, lambda: member)

    async def bearer(self, app: AppInfo, token: str) -> AppMember:
        raise InvalidTokenError

    async def public_key(self, key: str, origin: str | None) -> AppInfo:
        return APP

    def known_public_key(self, key: str, origin: str | None) -> AppInfo | None:
        return APP if key == "pk_known" else None


class Thing(msgspec.Struct):
    name: str


class Things(Endpoints, tag="Things"):
    """The answer tells which way it was made."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[bytes]] = []
        self.finish: Any = asyncio.Future.result
        self.finish_create: Any = asyncio.Future.result
        self.begins = True
        self.is_full = False
        self.created: list[tuple[str, str | None]] = []

    @get("/things/:thing_id", access=Access.PUBLIC_KEY, direct="begin_read", only_reads=True)
    async def read(self, call: Call, thing_id: UUID) -> Reply:
        """Read a thing."""
        return Reply(b'"handler"')

    def begin_read(self, call: Call, thing_id: str) -> Prepared | None:
        if not self.begins:
            return None

        def begin() -> asyncio.Future[bytes]:
            if self.is_full:
                raise UnavailableError
            self.waiting.append(asyncio.get_running_loop().create_future())
            return self.waiting[-1]

        return begin, self.finish

    @post("/things", access=Access.PUBLIC_KEY, status=201, direct="begin_create")
    async def create(self, call: Call, body: Thing) -> Reply:
        """Create a thing."""
        return Reply(b'"handler %s"' % body.name.encode())

    def begin_create(self, call: Call, body: Thing) -> Prepared | None:
        def begin() -> asyncio.Future[bytes]:
            self.created.append((body.name, call.principal.actor_id))
            future = asyncio.get_running_loop().create_future()
            future.set_result(b'"direct %s"' % body.name.encode())
            return future

        return begin, self.finish_create


@asynccontextmanager
async def served(
    things: Things, *, keep_alive_seconds: int = 75, authenticator: OneApp | None = None
) -> AsyncIterator[tuple[str, list[tuple[str, int]]]]:
    done: list[tuple[str, int]] = []

    def finished(call: Call, status: int, seconds: float) -> None:
        done.append((call.scope["method"], status))

    made = application(things, finished, authenticator or OneApp())
    routes = made.direct(lambda host: host == b"area.example")
    async with serving(made, protocol_for(Limits(), None, routes), keep_alive_seconds) as address:
        yield address, done


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


def request(line: str, body: bytes = b"", **headers: str) -> bytes:
    own = {"Host": "x", **KEY, **{name.replace("_", "-"): value for name, value in headers.items()}}
    own |= {"Content-Length": str(len(body))} if body else {}
    return "\r\n".join([f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]).encode() + (
        b"\r\n\r\n" + body
    )


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    return int(head.split()[1]), await reader.readexactly(length)


async def test_answers_keep_the_order_of_pipelined_requests():
    things = Things()
    async with served(things) as (address, done), connected(address) as (reader, writer):
        writer.write(request(f"GET /things/{ID}") * 2 + request("POST /things", b'{"name":"a"}'))
        await until(lambda: len(things.waiting) == 1)
        things.waiting[0].set_result(b'"first"')
        assert await answer(reader) == (200, b'"first"')
        # The others were queued while the first one was answered.
        assert [await answer(reader) for _ in range(2)] == [(200, b'"handler"'), (201, b'"handler a"')]
        writer.write(request("POST /things", b'{"name":"b"}'))
        assert await answer(reader) == (201, b'"direct b"')
        assert done == [("GET", 200), ("GET", 200), ("POST", 201), ("POST", 201)]


async def test_a_body_may_arrive_in_pieces():
    async with served(Things()) as (address, _), connected(address) as (reader, writer):
        whole = request("POST /things", b'{"name":"a"}')
        writer.write(whole[:-5])
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(whole[-5:])
        assert await answer(reader) == (201, b'"handler a"')


@pytest.mark.parametrize(
    "sent",
    [
        request("POST /things", b'{"name":"a"}', Idempotency_Key="k"),
        request("POST /things", b'{"name":"a"}', Content_Type="application/vnd.a+json"),
        request("POST /things", b'{"name":"a"}', Expect="100-continue"),
        request("POST /things", b'{"name":"a"}', X_A="1").replace(b"X-A: 1", b"X-A: 1\r\nX-A: 2"),
        request("POST /things", b'{"name":"a"}', X_Public_Key="pk_other"),
        request("POST /things", b'{"name":"a"}').replace(b"HTTP/1.1", b"HTTP/1.0"),
        request("POST /things?a=b", b'{"name":"a"}'),
        request("POST /things", b'{"name":"a"}', Host="area.example"),
    ],
)
async def test_the_handler_answers_what_is_not_usual(sent: bytes):
    async with served(Things()) as (address, _), connected(address) as (reader, writer):
        writer.write(sent)
        if b"100-continue" in sent:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        assert await answer(reader) == (201, b'"handler a"')


@pytest.mark.parametrize(
    "body", [b'{"name":1}', b'{"name":', b'{"name":"\\u0000"}', b"", b'{"name":"' + b"a" * 300_000 + b'"}']
)
async def test_errors_are_those_of_the_handler(body: bytes):
    async with served(Things()) as (address, _), httpx.AsyncClient(base_url=address, headers=KEY) as client:
        direct, usual = [
            await client.post("/things", content=body, headers={"X-Request-Id": "the-same-one", **headers})
            for headers in ({}, {"Idempotency-Key": "k"})
        ]
        assert (direct.status_code, direct.content) == (usual.status_code, usual.content)
        assert direct.is_error


async def test_what_ends_otherwise_goes_on_the_usual_way():
    def start_over(_: asyncio.Future[bytes]) -> bytes:
        raise StartOverError

    def missing(_: asyncio.Future[bytes]) -> bytes:
        raise NotFoundError

    def broken(_: asyncio.Future[bytes]) -> bytes:
        raise ZeroDivisionError

    def large(_: asyncio.Future[bytes]) -> bytes:
        return b"x" * 1_000_000

    things = Things()
    async with served(things) as (address, done), httpx.AsyncClient(base_url=address, headers=KEY) as client:
        found = []
        for things.finish in (start_over, missing, broken, large):
            sent = asyncio.create_task(client.get(f"/things/{ID}", headers={"X-Request-Id": "the-same-one"}))
            await until(lambda: bool(things.waiting))
            things.waiting.pop().set_result(b"")
            found.append(await sent)
        assert [one.status_code for one in found] == [200, 404, 500, 200]
        assert found[0].content == b'"handler"'
        assert {one.headers["x-request-id"] for one in found} == {"the-same-one"}
        assert len(found[3].content) == 1_000_000
        assert [status for _, status in done] == [200, 404, 500, 200]
        # The handler reads the body, which arrived long before.
        things.finish_create = start_over
        assert (await client.post("/things", json={"name": "late"})).content == b'"handler late"'


async def test_a_member_reads_while_the_session_is_checked():
    things, known = Things(), OneApp()
    async with served(things, authenticator=known) as (address, _), connected(address) as (reader, writer):
        for first, second in ((known.sessions, things.waiting), (things.waiting, known.sessions)):
            writer.write(request(f"GET /things/{ID}", b"", **MEMBER))
            await until(lambda: len(known.sessions) == len(things.waiting) == 1)
            values: dict[int, Any] = {id(known.sessions): True, id(things.waiting): b'"direct"'}
            first.pop().set_result(values[id(first)])
            await asyncio.sleep(0.01)
            second.pop().set_result(values[id(second)])
            assert await answer(reader) == (200, b'"direct"')


async def test_a_refused_member_does_not_wait_for_what_it_reads():
    things, known = Things(), OneApp()
    async with served(things, authenticator=known) as (address, done), connected(address) as (reader, writer):
        writer.write(request(f"GET /things/{ID}", b"", **MEMBER))
        await until(lambda: len(known.sessions) == len(things.waiting) == 1)
        known.sessions.pop().set_result(False)
        assert (await answer(reader))[0] == 401
        # What ends later, by an error of its own or not, is nobody's.
        things.waiting.pop().set_exception(ValueError)
        # Both at the same moment: the check decides.
        writer.write(request(f"GET /things/{ID}", b"", **MEMBER))
        await until(lambda: len(known.sessions) == len(things.waiting) == 1)
        things.waiting.pop().set_result(b'"secret"')
        known.sessions.pop().set_result(False)
        assert (await answer(reader))[0] == 401
        assert done == [("GET", 401), ("GET", 401)]


async def test_work_that_cannot_begin_is_answered_once_and_its_check_is_taken():
    things, known = Things(), OneApp()
    things.is_full = True
    async with served(things, authenticator=known) as (address, done), connected(address) as (reader, writer):
        for outcome in (True, False, ValueError("lost")):
            writer.write(request(f"GET /things/{ID}", b"", **MEMBER))
            assert (await answer(reader))[0] == 503
            check = known.sessions.pop()
            if isinstance(outcome, Exception):
                check.set_exception(outcome)
            else:
                check.set_result(outcome)
        assert done == [("GET", 503)] * 3


async def test_a_member_writes_once_the_session_was_checked():
    things, known = Things(), OneApp()
    async with served(things, authenticator=known) as (address, _), connected(address) as (reader, writer):
        for is_alive, status in ((False, 401), (True, 201)):
            writer.write(request("POST /things", b'{"name":"a"}', **MEMBER))
            await until(lambda: len(known.sessions) == 1)
            await asyncio.sleep(0.01)
            assert things.created == []
            known.sessions.pop().set_result(is_alive)
            assert (await answer(reader))[0] == status
        assert things.created == [("a", "m")]
        # Another token, and a body with an error, are the usual path's, which asks for the credential first.
        for body, token in ((b'{"name":"a"}', "Bearer other"), (b'{"name":1}', MEMBER["Authorization"])):
            writer.write(request("POST /things", body, Authorization=token))
            assert (await answer(reader))[0] == 401
        assert known.sessions == []


async def test_a_client_that_leaves_disturbs_nobody():
    things = Things()
    async with served(things) as (address, done):
        async with connected(address) as (_, writer):
            writer.write(request(f"GET /things/{ID}"))
            await until(lambda: bool(things.waiting))
        await asyncio.sleep(0.02)
        things.waiting[0].set_result(b'"late"')
        await until(lambda: done == [("GET", 200)])


async def test_a_direct_answer_has_the_headers_of_the_usual_one(app: App):
    table = await app.table({"a": "int"})
    path = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        row = (await client.post(path, json={"data": {"a": 1}})).json()
        for method, target, body in (
            ("GET", f"{path}/{row['id']}", b""),
            ("GET", f"{path}/{ID}", b""),
            ("POST", path, b'{"data":{"a":2}}'),
            ("POST", path, b'{"data":{"b":2}}'),
        ):
            direct, usual = [await client.request(method, target, content=body, headers=headers) for headers in WAYS]
            assert sorted(direct.headers) == sorted(usual.headers)
            assert direct.status_code == usual.status_code
            assert direct.json().keys() == usual.json().keys()


async def test_a_direct_query_is_answered_as_the_usual_one(app: App):
    """Whoever asks, and whatever it leads to."""
    authors = await app.table({"name": "string", "age": "int"}, title="authors")
    reference = {"type": "uuid", "references": {"table": "authors"}}
    items = await app.table({"title": "string", "author": reference, "n": "int"}, title="items")
    closed = await app.table({"n": "int"}, "AppMember")
    ada, bob = await member_and_signed_out(app)
    row = await app.row(authors, {"name": "Ada", "age": 36})
    for n in range(5):
        await app.row(items, {"title": f"item {n}", "author": row["id"], "n": n})
        await app.row(closed, {"n": n}, ada)
    bodies: list[dict[str, Any]] = [
        {},
        {"where": {"n": {"$gt": 1}}, "order_by": "n", "order_direction": "desc", "limit": 2, "offset": 1},
        {"where": {"n": {"$in": [1, 2]}}, "count": False, "fields": ["n"]},
        {"order_by": "n", "limit": 2, "cursor": "first"},
        {"expand": ["author"]},
        {"where": {"author.age": {"$gte": 36}}},
        {"where": {"nothing": 1}},
        {"where": {"n": {"$near": 1}}},
        {"limit": 0},
        {"cursor": "wrong"},
        {"unknown": 1},
    ]
    for token in (None, ada, bob):
        async with app.client(token) as client:
            for table in (items, authors, closed, str(uuid7())):
                for body in bodies:
                    await is_answered_alike(client, f"/v1/public/tables/{table}/data/query", body)


async def test_a_direct_search_is_answered_as_the_usual_one(app: App):
    """Whoever asks, by words that are found, or by similar ones, or by none; and what cannot be searched."""
    authors = await app.table({"name": "string"}, title="authors")
    reference = {"type": "uuid", "references": {"table": "authors"}}
    items = await app.table({"title": "string", "author": reference, "n": "int"}, title="items")
    closed = await app.table({"title": "string"}, "AppMember")
    ada, bob = await member_and_signed_out(app)
    row = await app.row(authors, {"name": "Ada Lovelace"})
    for n in range(3):
        await app.row(items, {"title": f"engine number {n}", "author": row["id"], "n": n})
        await app.row(closed, {"title": f"engine of {n}"}, ada)
    bodies: list[dict[str, Any]] = [
        {"query": "engine"},
        {"query": "ENGINE 2", "fields": ["title"], "limit": 1},
        {"query": "engin numbr"},
        {"query": "-"},
        {"query": "engine", "expand": ["author"]},
        {"query": "engine", "where": {"n": {"$gt": 0}}, "order_by": "n", "cursor": "first", "limit": 1},
        {"query": "engine", "where": {"author.name": "Ada Lovelace"}},
        {"query": "engine", "fields": ["n"]},
        {"query": "engine", "cursor": "wrong"},
        {"query": "x" * 5000},
        {},
    ]
    found = 0
    for token in (None, ada, bob):
        async with app.client(token) as client:
            for table in (items, items.upper(), "items", authors, closed, str(uuid7()), "nothing"):
                for body in bodies:
                    answer = await is_answered_alike(client, "/v1/public/search", {"table_id": table, **body})
                    found += len(answer.get("data", ()))
    assert found > 50


async def test_a_direct_change_or_deletion_is_answered_as_the_usual_one(app: App):
    """Whoever asks, of rows that are alike: one is changed directly, the other in the usual way."""
    authors = await app.table({"name": "string"}, title="authors")
    reference = {"type": "uuid", "references": {"table": "authors"}}
    number = {"type": "int", "max": 9}
    items = await app.table({"title": "string", "author": reference, "n": number}, title="items")
    closed = await app.table({"n": "int"}, "AppMember")
    own = await app.table({"n": "int"}, "Creator")
    ada, bob = await member_and_signed_out(app)
    author = await app.row(authors, {"name": "Ada"})
    await app.row(items, {"author": author["id"]})
    changes: list[dict[str, Any] | None] = [
        {"data": {"n": 2}},
        {"data": {"n": {"$inc": 1}}},
        {"data": {"n": 10}},
        {"data": {"title": None}},
        {"data": {"author": author["id"]}},
        {"data": {"author": ID}},
        {"data": {"nothing": 1}},
        {"data": {}, "expected_updated_at": "2026-01-01T00:00:00.000Z"},
        {"data": {"n": "text"}},
        {"n": 1},
        None,
    ]
    statuses = set()
    for token in (None, ada, bob):
        async with app.client(token) as client:
            for table, data in ((items, {"title": "a", "n": 1}), (closed, {"n": 1}), (own, {"n": 1})):
                for change in changes:
                    direct, usual = [
                        await changed(client, table, (await app.row(table, data, ada))["id"], change, headers)
                        for headers in WAYS
                    ]
                    assert direct == usual, (token == bob, change)
                    statuses.add(direct[0])
            for table, row in ((authors, author["id"]), (items, ID), (str(uuid7()), ID)):
                for change in (None, {"data": {"nothing": 1}}):
                    direct, usual = [await changed(client, table, row, change, headers) for headers in WAYS]
                    assert direct == usual, (token == bob, change)
                    statuses.add(direct[0])
    assert statuses == {200, 400, 401, 404, 409}


async def test_direct_operations_are_answered_as_the_usual_ones(app: App):
    """Batches and transactions, whoever asks, of tables whose rules ask who it is."""
    items = await app.table({"title": "string", "n": "int"}, title="items")
    own = await app.table({"n": "int"}, "Creator", title="own")
    ada, bob = await member_and_signed_out(app)
    row = (await app.row(items, {"title": "a", "n": 1}))["id"]
    mine = (await app.row(own, {"n": 1}, ada))["id"]
    create = {"type": "create", "table_id": items, "data": {"n": 1}}
    inserts = [create, {**create, "table_id": "own"}]
    operations: list[list[dict[str, Any]]] = [
        [],
        [create],
        inserts,
        [create, {"type": "update", "table_id": "items", "doc_id": row, "data": {"n": {"$inc": 1}}}],
        [{"type": "update", "table_id": own, "doc_id": mine, "data": {"n": 5}}, create],
        [create, {"type": "update", "table_id": items, "doc_id": ID, "data": {"n": 5}}],
        [create, {"type": "delete", "table_id": items, "doc_id": {"$ref": 0}}],
        [{**create, "data": {"nothing": 1}}],
        [{**create, "table_id": "none"}],
        [{"type": "unknown"}],
        [create] * 501,
    ]
    outcomes = set()
    for token in (None, ada, bob):
        async with app.client(token) as client:
            for route in ("batch", "transactions"):
                for sent in operations:
                    direct, usual = [
                        await client.post(f"/v1/public/{route}", json={"operations": sent}, headers=headers)
                        for headers in WAYS
                    ]
                    assert direct.status_code == usual.status_code
                    assert sorted(direct.headers) == sorted(usual.headers)
                    answers = [comparable(answer.json()) for answer in (direct, usual)]
                    for answer in answers:
                        for result in answer.get("results", ()):
                            for changing in ("id", "updated_at", "data"):
                                result.pop(changing, None)
                    assert answers[0] == answers[1], (token == bob, route, sent[:3])
                    outcomes.add((token is not None, direct.status_code))
    assert outcomes == {(False, 200), (False, 400), (False, 401), (False, 404)} | {
        (True, status) for status in (200, 400, 401, 404)
    }
    # What they do is done in the name of who asks.
    async with app.client(ada) as client:
        found = (await client.post(f"/v1/public/tables/{own}/data/query", json={})).json()
        assert found["total_count"] > 1


@pytest.mark.parametrize("error", [asyncpg.DeadlockDetectedError, ContendedError])
async def test_a_direct_write_runs_again_while_it_loses_against_others(error: type[Exception]):
    lost: list[str | None] = []

    async def write(member: str) -> str:
        lost.append(origin.current())
        if len(lost) < 3:
            raise error
        return member

    bounds = ServerBounds(Limits(), InFlight(InFlightLimits(1, 1, 1)))
    call = Call({}, receive_nothing, Client("127.0.0.1", "the-request"), {}, bounds)
    assert await writing_for(call, "/things", write)("ada") == "ada"
    assert lost == ["the-request"] * 3
    assert origin.current() is None

    async def loses() -> None:
        raise error

    with pytest.raises(ContendedError):
        await writing_for(call, "/things", loses)()


async def member_and_signed_out(app: App) -> tuple[str, str]:
    """The access tokens of a member, and of one whose session has ended."""
    ada = (await app.member())["access_token"]
    bob = (await app.member("bob"))["access_token"]
    async with app.client(bob) as client:
        assert (await client.post("/v1/public/app-members/signout", json={})).is_success
    return ada, bob


async def receive_nothing() -> Message:
    raise AssertionError


async def changed(
    client: httpx.AsyncClient, table: str, row: str, change: dict[str, Any] | None, headers: list[tuple[str, str]]
) -> tuple[int, list[str], dict[str, Any]]:
    """Change a row, or delete it, and return what is told of it that is the same of another row."""
    path = f"/v1/public/tables/{table}/data/{row}"
    if change is None:
        answer = await client.request("DELETE", path, headers=headers)
        after = await client.request("DELETE", path, headers=headers)
    else:
        answer = await client.request("PATCH", path, content=msgspec.json.encode(change), headers=headers)
        after = await client.get(path, headers=headers)
        if answer.is_success:
            assert after.json() == answer.json()
            assert answer.json()["id"] == row
    body = {name: value for name, value in comparable(answer.json()).items() if name not in {"id", "updated_at"}}
    body.pop("created_at", None)
    return answer.status_code, [*sorted(answer.headers), str(after.status_code)], body


async def is_answered_alike(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Check that a request is answered alike on both ways, and return the answer."""
    direct, usual = [await client.request("POST", path, content=msgspec.json.encode(body), headers=one) for one in WAYS]
    assert direct.status_code == usual.status_code
    answer = comparable(direct.json())
    assert answer == comparable(usual.json()), body
    assert sorted(direct.headers) == sorted(usual.headers)
    return answer


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "request_id"}
