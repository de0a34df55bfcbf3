"""Functions, section 6: `ctx.token()`, with which a library calls the API over HTTP until the call ends."""

import asyncio
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
import pytest

from pilotis.kit.signing import TokenKind
from tests.backstage import bearer, claims_of, mint, run_sql
from tests.console import client_of, second_node
from tests.functions.support import Functions
from tests.security.world import tampered
from tests.support import App, assert_error, plain_client
from tests.waiting import until

JAVASCRIPT = """
export default async ({ url, paths }, ctx) => {
  const token = await ctx.token();
  const headers = { authorization: `Bearer ${token}` };
  const read = (path) => fetch(url + path, { headers }).then((answer) => answer.json());
  const results = await Promise.all(paths.map(read));
  return { token, again: await ctx.token() === token, results };
};"""
PYTHON = """
import json, urllib.error, urllib.request
def fetched(url, token):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
    try:
        return json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as error:
        return json.load(error)
async def handler(payload, ctx):
    token = await ctx.token()
    results = [fetched(payload["url"] + path, token) for path in payload["paths"]]
    return {"token": token, "again": await ctx.token() == token, "results": results}
"""
WAITS = """
export default async ({ wait }, ctx) => {
  await ctx.api.rows("given").create({ token: await ctx.token() });
  while (wait) await new Promise((done) => setTimeout(done, 1000));
};"""


# Without a public key no other kind of token is looked at.
CODES = {"another kind": "PUBLIC_KEY_REQUIRED"}


def egress(app: App) -> dict[str, Any]:
    """What a function needs to reach its own server."""
    return {"mode": "allowlist", "hosts": [urlsplit(app.server.url).netloc]}


async def given(functions: Functions, **fields: Any) -> tuple[asyncio.Task[httpx.Response], str]:
    """Start a call that ends by its time limit alone; return it with its token."""
    app = functions.app
    table = await app.table({"token": "string"}, title="given")
    await functions.made("waits", WAITS, egress=egress(app), **fields)
    calling = asyncio.create_task(functions.call("waits", {"wait": True}))

    async def token() -> str:
        async with app.client() as client:
            rows = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
        return rows[0]["data"]["token"] if rows else ""

    return calling, await until(token)


async def left(calling: asyncio.Task[httpx.Response]) -> None:
    """Let the client of a call go away, which ends the call."""
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize(("runtime", "source"), [("javascript", JAVASCRIPT), ("python", PYTHON)], ids=["js", "python"])
async def test_a_token_is_the_function_over_http_within_its_scopes(
    functions: Functions, other_app: App, runtime: str, source: str
):
    app = functions.app
    table = await app.table({"n": "int"})
    foreign = await other_app.table({"n": "int"})
    await functions.made("reads", source, runtime, scopes=["rows:read", "members:read"], egress=egress(app))
    paths = [
        f"/v1/public/tables/{table}/data",
        f"/v1/apps/{app.app_id}/members",
        f"/v1/public/tables/{foreign}/data",
        f"/v1/apps/{other_app.app_id}/members",
        f"/v1/public/tables/{table}",
        f"/v1/apps/{app.app_id}/functions",
        "/v1/public/app-members/me",
    ]
    value = await functions.value("reads", {"url": app.server.url, "paths": paths})
    assert [answer.get("code") or answer["total_count"] for answer in value["results"]] == [
        0,
        0,
        "TABLE_NOT_FOUND",
        "NOT_FOUND",
        "SCOPE_REQUIRED",
        "SCOPE_REQUIRED",
        "SCOPE_REQUIRED",
    ]
    assert value["again"] is True
    async with plain_client(app.server.url, **bearer(value["token"])) as client:
        assert_error(await client.get(paths[0]), 401, "INVALID_TOKEN")


@pytest.mark.parametrize("fields", [{}, {"hosts": ["api.example.com"], "mode": "allowlist"}], ids=["none", "another"])
async def test_a_function_that_cannot_reach_the_server_gets_no_token(functions: Functions, fields: dict[str, Any]):
    source = "export default (p, ctx) => ctx.token().catch((error) => [error.status, error.code]);"
    await functions.made("asks", source, **({"egress": fields} if fields else {}))
    assert await functions.value("asks") == [403, "EGRESS_REQUIRED"]


async def test_without_a_token_the_server_itself_is_out_of_reach(functions: Functions):
    url = functions.app.server.url
    source = """
        export default async ({ url, token }, ctx) => {
          if (token) await ctx.token();
          return (await fetch(url + "/healthz")).status;
        };"""
    await functions.made("fetches", source, egress=egress(functions.app))
    # A token of an earlier call of the same sandbox opens nothing.
    for token, status in ((False, 403), (True, 200), (False, 403)):
        assert await functions.value("fetches", {"url": url, "token": token}) == status


async def test_a_token_ends_with_its_call_on_every_node(functions: Functions):
    app = functions.app
    path = f"/v1/public/tables/{await app.table({'n': 'int'})}/data"
    calling, token = await given(functions, timeout_seconds=60)
    async with (
        second_node(app.server) as node,
        client_of(node, **bearer(token)) as there,
        plain_client(app.server.url, **bearer(token)) as here,
    ):
        for client in (here, there):
            assert (await client.get(path)).status_code == 200
        await left(calling)

        async def is_rejected() -> bool:
            return (await here.get(path)).status_code == 401

        assert await until(is_rejected)
        for client in (here, there):
            assert "has ended" in assert_error(await client.get(path), 401, "INVALID_TOKEN")["message"]


async def test_what_is_no_valid_token_of_this_call_is_rejected(functions: Functions, other_app: App):
    app = functions.app
    path = f"/v1/public/tables/{await app.table({'n': 'int'})}/data"
    calling, token = await given(functions, timeout_seconds=60)
    claims = {name: value for name, value in claims_of(token).items() if name not in {"typ", "aud", "iss"}}
    kind, past = TokenKind.FUNCTION_ACCESS, int(time.time()) - 60
    forged = {
        "tampered": tampered(token),
        "another kind": mint(app.server, TokenKind.MEMBER_ACCESS, **claims),
        "another execution": mint(app.server, kind, **claims | {"eid": str(uuid4())}),
        "another app": mint(app.server, kind, **claims | {"app_id": other_app.app_id}),
        "no app": mint(app.server, kind, **claims | {"app_id": str(uuid4())}),
        "expired": mint(app.server, kind, **claims | {"iat": past - 60, "exp": past}),
    }
    async with plain_client(app.server.url) as client:
        for name, text in forged.items():
            answer = await client.get(path, headers=bearer(text))
            assert (answer.status_code, answer.json()["code"]) == (401, CODES.get(name, "INVALID_TOKEN")), name
        both = {"X-Public-Key": app.public_key, **bearer(token)}
        assert (await client.get(path, headers=both)).status_code == 200
        foreign = {"X-Public-Key": other_app.public_key, **bearer(token)}
        assert_error(await client.get(path, headers=foreign), 401, "INVALID_TOKEN")
        used_up = "update pilotis.function_tokens set uses = 1000 where execution_id = $1 returning uses"
        assert await run_sql(app.server, used_up, UUID(claims["eid"])) == 1000
        assert_error(await client.get(path, headers=bearer(token)), 429, "LIMIT_REACHED")
    await left(calling)


async def test_functions_that_call_themselves_over_http_end(functions: Functions):
    app = functions.app
    source = """
        export default async ({ url }, ctx) => {
          const headers = { authorization: `Bearer ${await ctx.token()}`, "content-type": "application/json" };
          const body = JSON.stringify({ payload: { url } });
          const answer = await fetch(`${url}/v1/public/functions/again/invoke`, { method: "POST", headers, body });
          const given = await answer.json();
          return answer.ok ? 1 + given.result : given.code;
        };"""
    await functions.made("again", source, scopes=["functions:invoke"], egress=egress(app))
    assert await functions.value("again", {"url": app.server.url}) == "11111EVENT_LOOP"
