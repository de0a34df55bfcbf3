"""Calls from inside: through the whole table, with scopes and roles, and without HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from pilotis.http.api.application import Application
from pilotis.http.api.bodies import Json
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import (
    Access,
    AppInfo,
    AppMember,
    AppUser,
    ConsoleUser,
    FunctionCaller,
    MemberInfo,
    PublicClient,
    Role,
    UserInfo,
    console,
    public,
)
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply, Stream
from pilotis.limits import Limits
from tests.http.bare import application

APP = AppInfo(UUID(int=7), "app", 1, False, True, True, [], Limits())
USER = UserInfo(UUID(int=8), "a@example.com", None)


class Note(msgspec.Struct):
    text: str


class Inside(Endpoints, tag="Inside"):
    def __init__(self) -> None:
        self.closed = False

    @post("/notes/:name", access=public(scope="rows:write"), status=201)
    async def write(self, call: Call, name: str, body: Json[Note]) -> list[Any]:
        """Write."""
        return [name, body.text, call.principal.kind, call.principal.depth, call.header(b"x-own")]

    @get("/notes", access=Access.PUBLIC_KEY)
    async def unscoped(self, call: Call) -> list[str]:
        """Refuse functions."""
        return [call.principal.kind]

    @get("/apps/:app_id/editor", access=console(Role.EDITOR, scope="members:read"))
    async def editor(self, call: Call, app_id: UUID) -> list[str]:
        """Ask for an editor."""
        return [call.principal.kind]

    @get("/apps/:app_id/owner", access=console(Role.OWNER, scope="members:read"))
    async def owner(self, call: Call, app_id: UUID) -> list[str]:
        """Ask for an owner."""
        return [call.principal.kind]

    @get("/open", access=Access.OPEN)
    async def open(self, call: Call) -> list[str]:
        """Be open to everyone."""
        return [call.principal.kind]

    @get("/signed", access=Access(scope="files:write"))
    async def signed(self, call: Call) -> list[str]:
        """An open route, for anyone who has the URL."""
        return [call.principal.kind]

    @get("/me", access=Access.MEMBER)
    async def me(self, call: Call) -> list[str]:
        """Ask for a member."""
        return [call.member.member_id]

    @get("/slow", access=public(scope="rows:read"))
    async def slow(self, call: Call) -> None:
        """Take for ever."""
        await asyncio.Event().wait()

    async def _pieces(self) -> AsyncGenerator[bytes]:
        try:
            yield b"x"
        finally:
            self.closed = True

    @get("/stream", access=public(scope="rows:read"))
    async def stream(self, call: Call) -> Reply:
        """Stream."""
        pieces = self._pieces()
        await anext(pieces)
        return Reply(Stream(None, pieces))


def function(*scopes: str) -> FunctionCaller:
    return FunctionCaller(APP, uuid4(), uuid4(), frozenset(scopes), 3)


async def ask(made: Application, principal: Any, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    deadline = asyncio.get_running_loop().time() + 30
    reply = await made.call_inside(principal, method, path, headers=headers, body=body, deadline=deadline)
    assert isinstance(reply.body, bytes)
    return reply.status, json.loads(reply.body)


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["code"]


async def test_a_function_calls_what_its_scopes_allow():
    seen = []
    made = application(Inside(), lambda call, status, _: seen.append((call.endpoint and call.endpoint.path, status)))
    note = b'{"text":"hello"}'
    answer = await ask(made, function("rows:write"), "POST", "/notes/a%20b", note, **{"X-Own": "1"})
    assert answer == (201, ["a b", "hello", "function", 3, "1"])
    assert code(await ask(made, function("rows:read"), "POST", "/notes/a", note)) == (403, "SCOPE_REQUIRED")
    assert code(await ask(made, function("rows:read"), "GET", "/notes")) == (403, "SCOPE_REQUIRED")
    assert code(await ask(made, function("rows:write"), "POST", "/notes/a", b"{")) == (400, "MALFORMED_JSON")
    assert code(await ask(made, function(), "GET", "/nowhere")) == (404, "NOT_FOUND")
    assert code(await ask(made, function(), "DELETE", "/notes")) == (405, "METHOD_NOT_ALLOWED")
    assert seen[0] == ("/notes/:name", 201)
    assert len(seen) == 6


async def test_a_function_calls_open_routes_only_by_their_scope():
    made = application(Inside())
    assert await ask(made, function("files:write"), "GET", "/signed") == (200, ["function"])
    assert code(await ask(made, function("files:read"), "GET", "/signed")) == (403, "SCOPE_REQUIRED")
    assert code(await ask(made, function("files:write"), "GET", "/open")) == (403, "SCOPE_REQUIRED")


async def test_roles_and_other_apps():
    made = application(Inside())
    member = function("members:read")
    assert await ask(made, member, "GET", f"/apps/{APP.app_id}/editor") == (200, ["function"])
    assert code(await ask(made, member, "GET", f"/apps/{APP.app_id}/owner")) == (403, "ROLE_REQUIRED")
    assert code(await ask(made, member, "GET", f"/apps/{UUID(int=9)}/editor")) == (404, "NOT_FOUND")
    owner = AppUser(APP, USER, Role.OWNER)
    assert await ask(made, owner, "GET", f"/apps/{APP.app_id}/owner") == (200, ["console_user"])
    assert code(await ask(made, owner, "GET", f"/apps/{UUID(int=9)}/owner")) == (404, "NOT_FOUND")


async def test_whoever_called_calls_with_the_same_rights():
    made = application(Inside())
    signed_in = AppMember(APP, MemberInfo("ada", UUID(int=1), False))
    assert await ask(made, signed_in, "GET", "/me") == (200, ["ada"])
    assert await ask(made, signed_in, "GET", "/notes") == (200, ["member"])
    assert code(await ask(made, PublicClient(APP), "GET", "/me")) == (401, "INVALID_TOKEN")
    assert code(await ask(made, ConsoleUser(USER), "GET", "/notes")) == (401, "INVALID_TOKEN")
    for principal in (signed_in, PublicClient(APP)):
        assert code(await ask(made, principal, "GET", f"/apps/{APP.app_id}/editor")) == (401, "INVALID_TOKEN")


async def test_streams_and_deadlines():
    routes = Inside()
    made = application(routes)
    assert code(await ask(made, function("rows:read"), "GET", "/stream")) == (400, "STREAM_NOT_ALLOWED")
    assert routes.closed
    now = asyncio.get_running_loop().time()
    reply = await made.call_inside(function("rows:read"), "GET", "/slow", deadline=now + 0.01)
    assert reply.status == 504


@pytest.mark.parametrize("path", ["", "notes", "/%ff", "/notes/%00", "//", "/notes/é"])
async def test_odd_paths(path: str):
    reply = await application(Inside()).call_inside(
        function("rows:write"), "POST", path, body=b'{"text":"a"}', deadline=asyncio.get_running_loop().time() + 30
    )
    assert reply.status in {201, 400, 404}
