"""Tickets: streams for a browser's `EventSource`, which sends no headers."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.async_api import Browser, expect

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
    await page.goto(f"{app.server.url}/docs")
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
