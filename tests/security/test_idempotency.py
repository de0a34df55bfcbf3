"""`Idempotency-Key`: equal requests create one thing, whatever happens in between."""

import asyncio
import typing
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from pilotis.db import connections
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import NotFoundError, UnavailableError
from pilotis.security.feature import SecurityFeature
from pilotis.security.idempotency.store import IdempotencyKeys
from pilotis.server import Node, endpoint_table
from pilotis.settings import Settings
from tests.conftest import first_console_user, new_app
from tests.console import client_of, invite, owner_of, second_node, set_limits, user_with
from tests.database_proxy import proxied
from tests.http.bare import application, serving
from tests.services import address, connected
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until

KEY = "Idempotency-Key"
AS_IF_KILLED = "update pilotis.idempotency_keys set status = null, reply = null where app_id = $1"
# Their answers hold what can be shown once: a secret key, tokens, an invitation's token, a secret; or several rows,
# events or mails.
SHOWN_ONCE = {
    "POST /v1/apps",
    "POST /v1/apps/:app_id/keys/secret",
    "POST /v1/apps/:app_id/invitations",
    "POST /v1/public/app-members/teams/:team_id/invitations",
    "POST /v1/apps/:app_id/oauth/clients",
    "POST /v1/apps/:app_id/webhooks",
    "POST /v1/apps/:app_id/mail/send",
    "POST /v1/auth/signup",
    "POST /v1/public/app-members/signup",
    "POST /v1/public/app-members",
    "POST /v1/integrations/events",
    "POST /v1/public/tables/:table_id/data/bulk",
}


async def rows_of(client: httpx.AsyncClient, table: str) -> list[str]:
    return [row["id"] for row in (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]]


def test_each_post_that_creates_says_what():
    makers = [e for e in endpoint_table() if e.method == "POST" and e.status == 201 and "/tus" not in e.path]
    assert len(makers) > 10
    # A pushed authorization request (RFC 9126) and a registration (RFC 7591, section 3.2) are new ones each time; there
    # is one first signing key. A ticket is for one stream.
    once = {"/oauth/par", "/oauth/register", "/v1/apps/:app_id/oauth/keys", "/v1/public/realtime/tickets"}
    assert {e.path for e in makers if e.creates is None} == once


def test_each_post_that_creates_can_answer_again_or_shows_something_once():
    makers = [endpoint for endpoint in endpoint_table() if endpoint.creates is not None]
    without = {f"{endpoint.method} {endpoint.path}" for endpoint in makers if endpoint.again is None}
    assert without == SHOWN_ONCE
    for endpoint in makers:
        if endpoint.again is not None:
            again = typing.get_type_hints(endpoint.again.handler)["return"]
            assert again in {typing.get_type_hints(endpoint.handler)["return"], endpoint.returns}, endpoint.path


def test_each_post_and_patch_that_writes_takes_a_key():
    without = {
        f"{e.method} {e.path}"
        for e in endpoint_table()
        if e.method in {"POST", "PATCH"} and not e.takes_idempotency_key and not e.only_reads and not e.takes_stream
    }
    standard = {path for path in without if path.startswith("POST /oauth/")}
    # These prove who calls by what they send, or are repeatable as they are.
    assert without - standard == {
        "POST /v1/auth/logout",
        "POST /v1/auth/oauth/exchange",
        "POST /v1/auth/password-reset",
        "POST /v1/auth/password-reset/request",
        "POST /v1/auth/re-issue",
        "POST /v1/auth/passkey-sign-in",
        "POST /v1/auth/passkey-sign-in/start",
        "POST /v1/auth/second-factor",
        "POST /v1/auth/session",
        "POST /v1/auth/session/refresh",
        "POST /v1/auth/session/passkey",
        "POST /v1/auth/session/second-factor",
        "POST /v1/auth/signin",
        "POST /v1/public/oauth/:provider/callback",
    }


async def test_a_repeated_change_changes_once(app: App):
    """A transaction, a batch, an update by id or by condition, and a delete, each sent twice, count once."""
    table = await app.table({"n": "int"})
    row = (await app.row(table, {"n": 0}))["id"]
    more = {"n": {"$inc": 1}}
    change = {"type": "update", "table_id": table, "doc_id": row, "data": more}
    data = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        for count, (method, path, body) in enumerate(
            [
                ("POST", "/v1/public/transactions", {"operations": [change]}),
                ("POST", "/v1/public/batch", {"operations": [change]}),
                ("PATCH", f"{data}/{row}", {"data": more}),
                ("POST", f"{data}/update-where", {"where": {"n": {"$gte": 0}}, "data": more}),
            ],
            start=1,
        ):
            key = {KEY: str(uuid4())}
            answers = [await client.request(method, path, json=body, headers=key) for _ in range(2)]
            assert answers[0].status_code == 200, answers[0].text
            assert answers[0].content == answers[1].content
            assert answers[1].headers["idempotent-replayed"] == "true"
            assert (await client.get(f"{data}/{row}")).json()["data"]["n"] == count, path
        other = await client.patch(f"{data}/{row}", json={"data": {"n": 1}}, headers=key)
        assert other.status_code == 200  # Another path, another key.


async def test_a_change_whose_process_died_is_not_repeated(app: App):
    table = await app.table({"n": "int"})
    row = (await app.row(table, {"n": 0}))["id"]
    path, body = f"/v1/public/tables/{table}/data/{row}", {"data": {"n": {"$inc": 1}}}
    async with app.client() as client, connected(app.server) as database:
        assert (await client.patch(path, json=body, headers={KEY: "dies"})).status_code == 200
        await database.execute(AS_IF_KILLED, app.app_id)
        assert_error(await client.patch(path, json=body, headers={KEY: "dies"}), 503, "OUTCOME_UNKNOWN")
        assert (await client.get(path)).json()["data"]["n"] == 1


async def test_twenty_equal_requests_at_once_make_one_row(app: App):
    table = await app.table({"n": "int"})
    key = {KEY: str(uuid4())}
    async with app.client() as client:
        path = f"/v1/public/tables/{table}/data"
        answers = await asyncio.gather(*(client.post(path, json={"data": {"n": 1}}, headers=key) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.content for answer in answers}) == 1
        assert sum("idempotent-replayed" in answer.headers for answer in answers) == 19
        assert await rows_of(client, table) == [answers[0].json()["id"]]


async def test_a_key_belongs_to_its_body_its_path_and_its_caller(app: App, other_app: App):
    table, other_table = await app.table({"n": "int"}), await app.table({"n": "int"})
    key = {KEY: "one-key"}
    member = await app.member()
    async with app.client() as client, app.client(member["access_token"]) as signed_in:
        path = f"/v1/public/tables/{table}/data"
        first = await client.post(path, json={"data": {"n": 1}}, headers=key)
        assert_error(await client.post(path, json={"data": {"n": 2}}, headers=key), 409, "IDEMPOTENCY_KEY_REUSED")
        # Neither do spaces in a key make it none, and they belong to it.
        with_spaces = {KEY: "one key, of 28 June"}
        made = await client.post(path, json={"data": {"n": 3}}, headers=with_spaces)
        assert made.status_code == 201, made.text
        again = await client.post(path, json={"data": {"n": 3}}, headers=with_spaces)
        assert (again.content, again.headers["idempotent-replayed"]) == (made.content, "true")
        # Spaces and the order of names make no other body.
        spaced = await client.post(path, content=b' { "data" : {"n":1} } ', headers=key)
        assert spaced.content == first.content
        for another in (
            await signed_in.post(path, json={"data": {"n": 1}}, headers=key),
            await client.post(f"/v1/public/tables/{other_table}/data", json={"data": {"n": 1}}, headers=key),
            await client.post(path, json={"data": {"n": 1}}, headers={KEY: "another-key"}),
            await client.post(path, json={"data": {"n": 1}}),
        ):
            assert another.status_code == 201
            assert another.json()["id"] != first.json()["id"]
            assert "idempotent-replayed" not in another.headers


async def test_an_error_of_the_caller_frees_the_key(app: App):
    table = await app.table({"n": "int"})
    key = {KEY: "again"}
    async with app.client() as client:
        path = f"/v1/public/tables/{table}/data"
        assert (await client.post(path, json={"data": {"n": "x"}}, headers=key)).status_code == 400
        assert (await client.post(path, json={"data": {"n": 1}}, headers=key)).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "é"])
async def test_a_key_that_is_none(app: App, key: str):
    table = await app.table({"n": "int"})
    async with app.client() as client:
        answer = await client.post(
            f"/v1/public/tables/{table}/data", json={"data": {"n": 1}}, headers={KEY: key.encode("latin-1")}
        )
        assert_error(answer, 400, "INVALID_IDEMPOTENCY_KEY")
        assert await rows_of(client, table) == []


@pytest.mark.parametrize("key", ["a", "a key with spaces", "!" * 255])
async def test_any_printable_characters_are_a_key(app: App, key: str):
    table = await app.table({"n": "int"})
    async with app.client() as client:
        answers = [
            await client.post(f"/v1/public/tables/{table}/data", json={"data": {"n": 1}}, headers={KEY: key})
            for _ in range(2)
        ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()


async def test_a_process_that_dies_before_it_keeps_the_answer_never_makes_two(app: App):
    table = await app.table({"n": "int"})
    path, key = f"/v1/public/tables/{table}/data", {KEY: "dies"}
    async with app.client() as client, connected(app.server) as database:
        first = await client.post(path, json={"data": {"n": 1}}, headers=key)
        await database.execute(AS_IF_KILLED, app.app_id)
        repeat = await client.post(path, json={"data": {"n": 1}}, headers=key)
        assert (repeat.status_code, repeat.json()["id"]) == (201, first.json()["id"])
        assert repeat.headers["idempotent-replayed"] == "true"
        assert await rows_of(client, table) == [first.json()["id"]]
        # Killed before it had created the row: the repeat creates it, under the id that was reserved.
        await client.delete(f"{path}/{first.json()['id']}")
        await database.execute(AS_IF_KILLED, app.app_id)
        again = await client.post(path, json={"data": {"n": 1}}, headers=key)
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
        # Of several rows, it is unknown which exist.
        bulk = {"data": [{"n": 1}, {"n": 2}]}
        made = await client.post(path, json=bulk, headers={KEY: "bulk"})
        assert made.json()["success"] == 2
        await database.execute(AS_IF_KILLED, app.app_id)
        assert_error(await client.post(path, json=bulk, headers={KEY: "bulk"}), 503, "OUTCOME_UNKNOWN")
        assert len(await rows_of(client, table)) == 3


async def test_a_takeover_frees_the_keys_of_a_dead_process(app: App):
    table = await app.table({"n": "int"})
    path, key = f"/v1/public/tables/{table}/data", {KEY: "taken over"}
    key = {KEY: "taken-over"}
    dead = uuid4()
    async with app.client() as client, connected(app.server) as database:
        first = await client.post(path, json={"data": {"n": 1}}, headers=key)
        await database.execute(
            "insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until)"
            " values ($1, $2, 0, 'dead', '0', now() + interval '3 seconds')",
            dead,
            uuid4(),
        )
        held = "update pilotis.idempotency_keys set status = null, reply = null, owner = $2 where app_id = $1"
        await database.execute(held, app.app_id, dead)

        async def is_free() -> bool:
            query = "select not exists (select from pilotis.idempotency_keys where app_id = $1 and owner is not null)"
            return await database.fetchval(query, app.app_id)

        await until(is_free)
        repeat = await client.post(path, json={"data": {"n": 1}}, headers=key)
        assert (repeat.status_code, repeat.json()["id"]) == (201, first.json()["id"])
        assert len(await rows_of(client, table)) == 1


async def test_what_is_kept_is_encrypted(app: App):
    async with app.client() as client, connected(app.server) as database:
        body = {"login_id": "kept", "password": "correct horse", "nickname": "Kept"}
        answer = await client.post("/v1/public/app-members/signup", json=body, headers={KEY: "secret"})
        assert answer.status_code == 201, answer.text
        repeat = await client.post("/v1/public/app-members/signup", json=body, headers={KEY: "secret"})
        assert repeat.content == answer.content
        kept = await database.fetchval("select reply from pilotis.idempotency_keys where app_id = $1", app.app_id)
        assert b"kept" not in kept


async def made(app: App, kind: str) -> tuple[httpx.AsyncClient, str, dict[str, Any], str]:
    """A client, and the path and body that create a thing of a kind, with the path that lists them."""
    console = owner_of(app).client(app)
    if kind == "column":
        table = await app.table({"n": "int"})
        path = f"/v1/public/tables/{table}/columns"
        return app.client(), path, {"name": "Straße", "data_type": "string", "is_required": False}, path
    if kind == "folder":
        async with owner_of(app).client(app) as owner:
            storage = (await owner.post("/storages/files", json={"name": "folders"})).json()["id"]
        path = f"/v1/public/storages/files/{storage}"
        return app.client(), f"{path}/folders", {"name": "a"}, f"{path}/items"
    if kind == "table":
        body = {"title": "again", "schema": {"n": "int"}, "access_level": "Public"}
        return app.client(), "/v1/public/tables", body, "/v1/public/tables"
    path = {"storage": "/storages/files", "public key": "/keys/public"}[kind]
    return console, path, {"name": "again"}, path


@pytest.mark.parametrize("kind", ["table", "column", "storage", "folder", "public key"])
async def test_what_exists_is_not_made_again_after_a_crash(app: App, kind: str):
    client, path, body, listing = await made(app, kind)
    key = {KEY: str(uuid4())}
    async with client, connected(app.server) as database:
        first = await client.post(path, json=body, headers=key)
        assert first.status_code == 201, first.text
        there = (await client.get(listing)).json()
        await database.execute(AS_IF_KILLED, UUID(app.app_id))
        repeat = await client.post(path, json=body, headers=key)
        assert (repeat.status_code, repeat.json()) == (201, first.json())
        assert repeat.headers["idempotent-replayed"] == "true"
        assert (await client.get(listing)).json() == there
        # From now on the answer is stored as usual.
        assert (await client.post(path, json=body, headers=key)).content == repeat.content


async def test_a_column_of_another_type_is_not_the_one_that_was_asked_for(app: App):
    table = await app.table({"n": "int"})
    path, key = f"/v1/public/tables/{table}/columns", {KEY: "column"}
    async with app.client() as client, connected(app.server) as database:
        body = {"name": "a", "data_type": "int"}
        assert (await client.post(path, json=body, headers=key)).status_code == 201
        await client.delete(f"{path}/a")
        assert (await client.post(path, json={"name": "a", "data_type": "string"})).status_code == 201
        await database.execute(AS_IF_KILLED, UUID(app.app_id))
        assert_error(await client.post(path, json=body, headers=key), 409, "COLUMN_EXISTS")


async def test_console_routes_about_no_app(app: App):
    owner, other, key = owner_of(app), await user_with(app, "editor"), {KEY: str(uuid4())}
    name = f"once {uuid4()}"
    async with owner.client() as client, other.client() as stranger, connected(app.server) as database:
        first = await client.post("/apps", json={"name": name}, headers=key)
        assert first.status_code == 201, first.text
        repeat = await client.post("/apps", json={"name": name}, headers=key)
        assert (repeat.content, repeat.headers["idempotent-replayed"]) == (first.content, "true")
        assert_error(await client.post("/apps", json={"name": "other"}, headers=key), 409, "IDEMPOTENCY_KEY_REUSED")
        assert await database.fetchval("select count(*) from pilotis.apps where name = $1", name) == 1
        # A key is its user's.
        theirs = await stranger.post("/apps", json={"name": name}, headers=key)
        assert theirs.json()["app_id"] != first.json()["app_id"]
        kept = await database.fetch("select reply from pilotis.idempotency_keys where app_id = $1", UUID(int=0))
        assert kept
        assert not any(first.json()["secret_key"].encode() in row["reply"] for row in kept)
        # The secret key was shown once; a process that died with it cannot show it again, and makes no second app.
        await database.execute(AS_IF_KILLED, UUID(int=0))
        lost = await client.post("/apps", json={"name": name}, headers=key)
        assert_error(lost, 503, "OUTCOME_UNKNOWN")
        # And it stays that way, however often it is tried.
        assert_error(await client.post("/apps", json={"name": name}, headers=key), 503, "OUTCOME_UNKNOWN")


async def test_a_console_user_signs_up_once(app: App):
    invitation, key = await invite(app, "editor"), {KEY: str(uuid4())}
    body = {"email": invitation["email"], "password": "correct horse battery", "token": invitation["token"]}
    async with plain_client(app.server.url) as client:
        first = await client.post("/v1/auth/signup", json=body, headers=key)
        assert first.status_code == 201, first.text
        assert (await client.post("/v1/auth/signup", json=body, headers=key)).content == first.content
        guess = body | {"password": "wrong horse battery"}
        assert_error(await client.post("/v1/auth/signup", json=guess, headers=key), 409, "IDEMPOTENCY_KEY_REUSED")
        assert_error(await client.post("/v1/auth/signup", json=body), 403, "INVALID_INVITATION")


async def test_a_key_is_kept_as_long_as_the_app_says(app: App):
    table = await app.table({"n": "int"})
    path = f"/v1/public/tables/{table}/data"
    ages = "select resource_id, expires_at - created_at as age from pilotis.idempotency_keys where app_id = $1"
    async with app.client() as client, connected(app.server) as database:
        await client.post(path, json={"data": {"n": 1}}, headers={KEY: "a-day"})
        await set_limits(app, idempotency_hours=2)
        await client.post(path, json={"data": {"n": 1}}, headers={KEY: "two-hours"})
        kept = sorted(row["age"] for row in await database.fetch(ages, UUID(app.app_id)))
        assert kept == [timedelta(hours=2), timedelta(hours=24)]
        # One that is over is a new one, with a new id.
        await database.execute(
            "update pilotis.idempotency_keys set expires_at = now() where app_id = $1", UUID(app.app_id)
        )
        assert (await client.post(path, json={"data": {"n": 2}}, headers={KEY: "a-day"})).status_code == 201
        assert len(await rows_of(client, table)) == 3


async def test_statements(app: App, monkeypatch: pytest.MonkeyPatch):
    """A request without the header pays no statement for the keys, one with it two."""
    statements: list[str] = []
    connect = connections.connect

    async def logged(*arguments: Any, **options: Any) -> Any:
        connection = await connect(*arguments, **options)
        connection.add_query_logger(lambda record: statements.append(record.query))
        return connection

    monkeypatch.setattr(connections, "connect", logged)
    table = await app.table({"n": "int"})
    async with second_node(app.server) as node, serving(node.application) as url:
        client = plain_client(url, **{"X-Public-Key": app.public_key})
        async with client:

            async def of_a_create(headers: dict[str, str]) -> list[str]:
                statements.clear()
                body = {"data": {"n": 1}}
                answer = await client.post(f"/v1/public/tables/{table}/data", json=body, headers=headers)
                assert answer.status_code == 201, answer.text
                await asyncio.sleep(0)  # Loggers are called in the next turn of the loop.
                return [one for one in statements if "idempotency_keys" in one or "encryption_key" in one]

            await of_a_create({KEY: "first"})  # The app's data key is read once.
            assert await of_a_create({}) == []
            assert len(await of_a_create({KEY: "second"})) == 2
            assert len(await of_a_create({KEY: "second"})) == 2  # A repeat reads where the first one wrote.


class Busy(Endpoints, tag="Busy"):
    """A change that is rejected for a while, before or after it has changed something."""

    def __init__(self) -> None:
        self.runs, self.rejects = 0, True

    @post("/changes", access=Access.PUBLIC_KEY)
    async def change(self, call: Call) -> int:
        """Change something, or be busy."""
        self.runs += 1
        if self.rejects:
            raise UnavailableError
        return self.runs

    @post("/half-changes", access=Access.PUBLIC_KEY)
    async def change_by_half(self, call: Call) -> int:
        """Change something, and then fail."""
        self.runs += 1
        took_effect()
        raise UnavailableError


async def test_an_error_that_changed_nothing_frees_the_key(app: App):
    busy = Busy()
    async with second_node(app.server) as node:
        keys = IdempotencyKeys(node.database, node.floor.secrets, lambda: node.background.node.id)
        authenticator = node.made.get(SecurityFeature).authentication
        served = application(busy, authenticator=authenticator, idempotency=keys)
        async with serving(served) as url, plain_client(url, **{"X-Public-Key": app.public_key}) as client:
            assert_error(await client.post("/changes", headers={KEY: "busy"}), 503, "UNAVAILABLE")
            busy.rejects = False
            assert (await client.post("/changes", headers={KEY: "busy"})).json() == 2
            assert_error(await client.post("/half-changes", headers={KEY: "half"}), 503, "UNAVAILABLE")
            assert_error(await client.post("/half-changes", headers={KEY: "half"}), 503, "OUTCOME_UNKNOWN")
            assert busy.runs == 3


class Failing(Endpoints, tag="Failing"):
    """Creates things in memory, and fails in between on request."""

    def __init__(self) -> None:
        self.things: list[UUID] = []
        self.before = self.after = 0

    @post("/things", access=Access.PUBLIC_KEY, status=201, creates="thing_id", again="read")
    async def create(self, call: Call) -> list[UUID]:
        """Make a thing."""
        if self.before:
            self.before -= 1
            raise UnavailableError
        self.things.append(UUID(call.new_id()))
        if self.after:
            self.after -= 1
            raise ValueError("after all")
        return self.things

    async def read(self, call: Call, thing_id: UUID) -> list[UUID]:
        """Return the things, if there is this one."""
        if thing_id not in self.things:
            raise NotFoundError
        return self.things


async def test_a_request_that_failed_on_the_server_s_side_can_be_repeated_at_once(app: App):
    things = Failing()
    async with second_node(app.server) as node:
        keys = IdempotencyKeys(node.database, node.floor.secrets, lambda: node.background.node.id)
        authenticator = node.made.get(SecurityFeature).authentication
        served = application(things, authenticator=authenticator, idempotency=keys)
        async with serving(served) as url, plain_client(url, **{"X-Public-Key": app.public_key}) as client:
            things.before = things.after = 1
            assert (await client.post("/things", headers={KEY: "fails"})).status_code == 503
            assert (await client.post("/things", headers={KEY: "fails"})).status_code == 500
            answer = await client.post("/things", headers={KEY: "fails"})
            assert (answer.status_code, answer.headers["idempotent-replayed"]) == (201, "true")
            assert answer.json() == [str(thing) for thing in things.things]
            assert len(things.things) == 1


async def test_a_key_whose_answer_could_not_be_kept(app: App):
    """The database answers no longer just after the thing was made; the repeat finds it."""
    things = Failing()
    async with second_node(app.server, statement_seconds=2) as node, connected(app.server) as database:
        keys = IdempotencyKeys(node.database, node.floor.secrets, lambda: node.background.node.id)
        authenticator = node.made.get(SecurityFeature).authentication
        served = application(things, authenticator=authenticator, idempotency=keys)
        async with serving(served) as url, plain_client(url, **{"X-Public-Key": app.public_key}) as client:
            things.after = 1
            await client.post("/things", headers={KEY: "warm"})  # so that the app's data key is known
            lock = "select from pilotis.idempotency_keys where app_id = $1 for update"

            async def create(call: Call) -> list[UUID]:
                made = await things.create(call)
                await database.execute("begin")
                await database.execute(lock, UUID(app.app_id))
                return made

            endpoint = next(one for one in served.endpoints if one.path == "/things")
            object.__setattr__(endpoint, "handler", create)
            assert (await client.post("/things", headers={KEY: "lost"})).status_code >= 400
            await database.execute("rollback")
            count = len(things.things)
            repeat = await client.post("/things", headers={KEY: "lost"})
            assert (repeat.status_code, repeat.headers["idempotent-replayed"]) == (201, "true")
            assert len(things.things) == count


RESERVING, KEEPING = "insert into pilotis.idempotency_keys", "set owner = null, status"


@pytest.mark.parametrize("lost", [RESERVING, KEEPING])
async def test_a_key_whose_node_lost_the_databases_answer_is_free_for_the_other_nodes(app: App, lost: str):
    """That node lives on, and nobody sends it a key again."""
    table = await app.table({"n": "int"})
    path, body, key = f"/v1/public/tables/{table}/data", {"data": {"n": 1}}, {KEY: str(uuid4())}
    async with proxied(app.server) as (proxy, arguments):
        node = Node(Settings(data_dir=str(app.server.data_dir)), arguments, app.server.url)
        await node.start()
        try:
            async with client_of(node, **{"X-Public-Key": app.public_key}) as client, app.client() as other:
                assert (await client.post(path, json=body, headers={KEY: "warm"})).status_code == 201
                proxy.cut(lost)
                assert_error(await client.post(path, json=body, headers=key), 503, "OUTCOME_UNKNOWN")
                assert proxy.cuts == 1

                async def answered() -> bool:
                    answer = await other.post(path, json=body, headers=key)
                    assert answer.status_code in {201, 409}, answer.text
                    return answer.status_code == 201

                await until(answered)
                assert len(await rows_of(other, table)) == 2
        finally:
            await node.stop()


@pytest.mark.parametrize("moment", ["before the row", "after the row"])
async def test_kill_9_between_running_and_keeping_the_answer(tmp_path: Path, moment: str):
    server = Server(tmp_path / "data").start()
    try:
        app = new_app(server, first_console_user(server))
        table = await app.table({"n": "int"})
        path, body, key = f"/v1/public/tables/{table}/data", {"data": {"n": 1}}, {KEY: str(uuid4())}
        await app.row(table, {"n": 0})
        await killed_in_between(server, app, table, moment, app_request(app, path, body, key))
        server.start()
        async with app.client() as client:

            async def answered() -> bool:
                # Until the dead process is found out, its key is in use.
                answer = await client.post(path, json=body, headers=key)
                assert answer.status_code in {201, 409}, answer.text
                return answer.status_code == 201

            await until(answered)
            repeat = await client.post(path, json=body, headers=key)
            assert repeat.status_code == 201
            ids = await rows_of(client, table)
            assert len(ids) == 2
            assert repeat.json()["id"] in ids
            assert repeat.headers["idempotent-replayed"] == "true"
    finally:
        server.stop()


async def app_request(app: App, path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
    with suppress(httpx.HTTPError):
        async with app.client() as client:
            await client.post(path, json=body, headers=headers)


async def killed_in_between(server: Server, app: App, table: str, moment: str, request: Any) -> None:
    """Run a create up to the moment, and kill the server there."""
    app_id = UUID(app.app_id)
    physical = f"app_{app_id.hex}.t_{UUID(table).hex}"
    holder, watcher = await asyncpg.connect(**address(server)), await asyncpg.connect(**address(server))
    try:
        await holder.execute("begin")
        await holder.execute(f"lock table {physical} in share row exclusive mode")
        sending = asyncio.create_task(request)
        reserved = "select true from pilotis.idempotency_keys where app_id = $1"
        await until(lambda: watcher.fetchval(reserved, app_id))
        if moment == "after the row":
            # The answer cannot be kept, but the row can be committed.
            await watcher.execute("begin")
            await watcher.execute("select from pilotis.idempotency_keys where app_id = $1 for update", app_id)
            await holder.execute("rollback")
            await until(lambda: _is_there(holder, physical))
        server.kill()
        # What the dead process had sent must not be carried out once the locks are gone. The embedded database may
        # have ended with its server.
        with suppress(asyncpg.PostgresError, asyncpg.InternalClientError, OSError):
            others = "pid not in (pg_backend_pid(), $1) and datname = current_database()"
            await watcher.execute(
                f"select pg_terminate_backend(pid) from pg_stat_activity where {others}", holder.get_server_pid()
            )
        await sending
    finally:
        holder.terminate()
        watcher.terminate()


async def _is_there(connection: asyncpg.Connection, physical: str) -> bool:
    return await connection.fetchval(f"select count(*) from {physical}") == 2
