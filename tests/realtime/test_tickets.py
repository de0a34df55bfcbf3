"""Tickets: streams for a browser's `EventSource`, which sends no headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
from playwright.async_api import Browser, expect

from pilotis.kit.crypto import secret_hash
from tests.database import connection_to
from tests.support import App, assert_error, plain_client

PAGE = """
const source = new EventSource(url);
const note = (text) => { document.title += ` ${text}`; };
source.addEventListener("ready", (event) => note(JSON.parse(event.data).resumed));
source.addEventListener("change", (event) => note(JSON.parse(event.data).row.data.name));
"""


async def ticket_of(client: httpx.AsyncClient, table: str) -> dict[str, Any]:
    answer = await client.post("/v1/public/realtime/tickets", json={"subscriptions": [{"id": "a", "table_id": table}]})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def events_of(client: httpx.AsyncClient, url: str, number: int, **headers: str) -> list[dict[str, str]]:
    """Return the first events of a stream."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    async with client.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            else:
                found += [fields] if "event" in fields else []
                fields = {}
            if len(found) == number:
                break
    return found


async def test_an_event_source_follows_and_comes_back(app: App, browser: Browser):
    table = await app.table({"name": "string"})
    async with app.client() as client:
        made = await ticket_of(client, table)
    assert made["ticket"] in made["url"]
    page = await browser.new_page()
    await page.goto(app.server.url)
    await page.evaluate(f"document.title = ''; const url = {made['url']!r}; {PAGE}")
    await expect(page).to_have_title("false")
    await app.row(table, {"name": "one"})
    await expect(page).to_have_title("false one")
    await page.close()


async def test_a_ticket_is_good_once_and_then_for_who_has_seen_its_stream(app: App):
    table = await app.table({"name": "string"}, access_level="AppMember")
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as client, plain_client(app.server.url) as nobody:
        made = await ticket_of(client, table)
        (ready,) = await events_of(nobody, made["url"], 1)
        assert ready["event"] == "ready"
        # Whoever finds the address has not seen the stream.
        assert_error(await nobody.get(made["url"]), 404, "LIVE_TICKET_INVALID")
        await app.row(table, {"name": "between"}, ada["access_token"])
        ready, change = await events_of(nobody, made["url"], 2, **{"Last-Event-ID": ready["id"]})
        assert '"resumed":true' in ready["data"]
        assert '"name":"between"' in change["data"]
        other = await ticket_of(client, table)
        await client.post("/v1/public/app-members/signout")
        (bye,) = await events_of(nobody, other["url"], 1)
        assert (bye["event"], '"session_ended"' in bye["data"]) == ("bye", True)
        assert_error(await nobody.get(f"{made['url']}x"), 404, "LIVE_TICKET_INVALID")
    async with app.client(app.secret_key) as side:
        body = {"subscriptions": [{"id": "a", "table_id": table}]}
        assert_error(await side.post("/v1/public/realtime/tickets", json=body), 403, "TICKET_CALLER")


async def test_the_newest_stream_of_a_ticket_takes_over_on_any_node(app: App):
    table = await app.table({"name": "string"})
    async with app.client() as client, connection_to(app.server) as connection:
        made = await ticket_of(client, table)
        url, key = made["url"], secret_hash(made["ticket"]).hex()
        async with client.stream("GET", url) as first:
            rest = first.aiter_lines()
            last = await _begun(rest)
            # A client whose connection is half open comes back: another node says so.
            await connection.execute("select pg_notify('pilotis', $1)", f"live_tickets:{key}/another")
            assert [line async for line in rest if line.startswith("event")] == ["event: bye"]
        # And by this one.
        async with client.stream("GET", url, headers={"Last-Event-ID": last}) as second:
            rest = second.aiter_lines()
            last = await _begun(rest)
            async with client.stream("GET", url, headers={"Last-Event-ID": last}) as third:
                newest = third.aiter_lines()
                await _begun(newest)
                assert [line async for line in rest if line.startswith("event")] == ["event: bye"]
                await app.row(table, {"name": "after"})
                async for line in newest:
                    if line.startswith("event"):
                        assert line == "event: change"
                        break


async def _begun(lines: AsyncIterator[str]) -> str:
    """Read the first event of a stream, and return its id."""
    async for line in lines:
        if line.startswith("event"):
            assert line == "event: ready"
        if line.startswith("id: "):
            return line.removeprefix("id: ")
    raise AssertionError
