"""Capabilities: shared links, whose text a request brings and rules compare with a column."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from pilotis.http.api import capabilities
from pilotis.http.api.capabilities import InvalidCapabilityError
from tests.acceptance.test_files import PNG, put_at
from tests.rules.test_file_rules import paths, ruled
from tests.rules.test_rules import EDITOR, OWN, SIGNED_IN, findings, listed, manager, rows, save
from tests.rules.test_rules import ruled as ruled_table
from tests.support import App, assert_error

SECRET = "q" * 16
OTHER = "0198a000-0000-7000-8000-000000000001"
LINK = {"secret": {"$capability": "share"}}


def with_link(app: App, *texts: str, token: str | None = None) -> httpx.AsyncClient:
    return app.client(token, **{"X-Capability": ",".join(f"share={text}" for text in texts)})


async def test_a_trail_is_shared_by_a_link_with_its_comments(app: App):
    trails = await ruled_table(
        app,
        {"name": "string", "secret": "string"},
        {"read": {"$or": [OWN, LINK]}, "create": SIGNED_IN, "update": {"$or": [OWN, LINK]}},
        title="trails",
    )
    of_trail = {"$exists": {"table": "trails", "where": {"id": {"$row": "trail"}, **LINK}}}
    comments = await ruled_table(app, {"trail": "uuid", "text": "string"}, {"read": of_trail, "create": True})
    ada = (await app.member("ada"))["access_token"]
    shared = await app.row(trails, {"name": "ridge", "secret": SECRET}, ada)
    other = await app.row(trails, {"name": "valley", "secret": OTHER}, ada)
    for trail in (shared, other):
        await app.row(comments, {"trail": trail["id"], "text": trail["data"]["name"]})
    # What the link is told to nobody, not even to whom it lets in.
    assert shared["data"] == {"name": "ridge"}
    async with with_link(app, SECRET) as guest, with_link(app, SECRET, OTHER) as both:
        assert await listed(guest, trails) == ["ridge"]
        assert await listed(guest, comments, "text") == ["ridge"]
        assert await listed(both, trails) == ["ridge", "valley"]
        answer = await guest.get(f"{rows(trails)}/{shared['id']}")
        assert answer.json()["data"] == {"name": "ridge"}
        assert answer.headers["cache-control"] == "private, no-store"
        assert "x-capability" in answer.headers["vary"]
        assert_error(await guest.get(f"{rows(trails)}/{other['id']}"), 404, "ROW_NOT_FOUND")
        query = {"where": {"secret": SECRET}}
        assert_error(await guest.post(f"{rows(trails)}/query", json=query), 403, "COLUMN_NOT_READABLE")
        renamed = await guest.patch(f"{rows(trails)}/{shared['id']}", json={"data": {"name": "crest"}})
        assert renamed.json()["data"] == {"name": "crest"}
    async with with_link(app, "w" * 20) as wrong, app.client() as nobody:
        assert await listed(wrong, trails) == []
        assert_error(await wrong.get(f"{rows(trails)}/{shared['id']}"), 404, "ROW_NOT_FOUND")
        assert_error(await nobody.get(rows(comments)), 403, "RULE_DENIED")
        assert_error(await nobody.get(rows(trails)), 401, "MEMBER_TOKEN_REQUIRED")
    # A link that is absent makes no negation true.
    await save(app, trails, {"read": {"$not": LINK}, "columns": {"secret": {"read": EDITOR}}})
    async with app.client() as nobody, with_link(app, SECRET) as guest:
        assert_error(await nobody.get(rows(trails)), 403, "RULE_DENIED")
        assert await listed(guest, trails) == ["valley"]


async def test_a_scene_is_read_by_its_key_and_not_listed(app: App):
    rules = {"list": None, "read": LINK, "update": LINK, "create": True, "columns": {"secret": {"update": None}}}
    scenes = await ruled_table(app, {"secret": "uuid", "name": "string"}, rules)
    scene = await app.row(scenes, {"secret": OTHER, "name": "s"})
    async with with_link(app, OTHER) as guest, with_link(app, SECRET) as wrong:
        assert (await guest.get(f"{rows(scenes)}/{scene['id']}")).json()["data"] == {"name": "s"}
        assert_error(await guest.get(rows(scenes)), 403, "RULE_DENIED")
        assert_error(await wrong.get(f"{rows(scenes)}/{scene['id']}"), 404, "ROW_NOT_FOUND")
        change = {"data": {"secret": None}}
        assert_error(await guest.patch(f"{rows(scenes)}/{scene['id']}", json=change), 403, "COLUMN_READ_ONLY")


async def test_a_folder_of_files_is_shared_by_a_link(app: App):
    shares = await ruled_table(app, {"folder": "string", "secret": "string"}, {}, title="shares")
    shared = {"$exists": {"table": "shares", "where": {"folder": {"$row": "folder"}, **LINK}}}
    base = await ruled(app, {"read": {"$or": [OWN, shared]}, "create": SIGNED_IN})
    ada = (await app.member("ada"))["access_token"]
    async with app.client(app.secret_key) as side:
        await side.post(rows(shares), json={"data": {"folder": "trip", "secret": f"{SECRET}+&="}})
    async with app.client(ada) as member:
        picture, private = await put_at(member, base, "trip/a.png"), await put_at(member, base, "home/b.png")
    async with with_link(app, f"{SECRET}+&=") as guest, app.client() as nobody:
        assert await paths(guest, base) == ["trip/a.png"]
        assert (await guest.get(picture["url"])).content == PNG
        address = f"{picture['url']}?capability={quote(f'share={SECRET}+&=', safe='')}"
        served = await nobody.get(address)
        assert served.content == PNG
        assert served.headers["cache-control"] == "private, no-store"
        assert served.headers["referrer-policy"] == "no-referrer"
        assert_error(await guest.get(private["url"]), 404, "FILE_NOT_FOUND")
        assert_error(await nobody.get(picture["url"]), 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await nobody.get(f"{picture['url']}?capability=share"), 400, "INVALID_CAPABILITY")
    assert SECRET not in app.server.logs()


async def test_a_request_is_repeated_for_the_same_link_alone(app: App):
    trails = await ruled_table(app, {"secret": "string"}, {"read": LINK, "create": True}, title="trails")
    trail = await app.row(trails, {"secret": SECRET})
    async with app.client(app.secret_key) as side:
        column = {"type": "uuid", "references": {"table": "trails"}}
        body = {"title": "notes", "schema": {"trail": column}, "access_level": "Public"}
        made = await side.post("/v1/public/tables", json=body)
    new, key = {"data": {"trail": trail["id"]}}, {"Idempotency-Key": "once"}
    async with with_link(app, SECRET) as guest, with_link(app, "w" * 20) as wrong:
        path = rows(made.json()["id"])
        answers = [await guest.post(path, json=new, headers=key) for _ in range(2)]
        assert answers[0].json() == answers[1].json()
        assert_error(await wrong.post(path, json=new, headers=key), 400, "REFERENCE_NOT_FOUND")


async def test_what_is_no_capability(app: App):
    table = await app.table({"secret": "string", "n": "number", "o": "array"})
    async with app.client() as client:
        for text in (
            "share",
            "share=short",
            f"Share={SECRET}",
            f"share={'x' * 201}",
            ",".join([f"a={SECRET}"] * 5),
            "",
        ):
            answer = await client.get(rows(table), headers={"X-Capability": text})
            assert_error(answer, 400, "INVALID_CAPABILITY")
    async with manager(app) as side:
        for rules, code, place in (
            ({"create": LINK}, "INVALID_OPERAND", "rules.create.secret"),
            ({"delete": {"$use": "d"}, "define": {"d": LINK}}, "INVALID_OPERAND", "rules.delete.$use.secret"),
            ({"read": {"secret": {"$ne": {"$capability": "share"}}}}, "INVALID_OPERAND", "rules.read.secret"),
            ({"read": {"secret": {"$capability": "Share"}}}, "INVALID_OPERAND", "rules.read.secret"),
            ({"read": {"n": {"$capability": "share"}}}, "OPERAND_TYPE", "rules.read.n"),
        ):
            answer = await side.put(f"/tables/{table}/rules", json={"rules": rules})
            assert assert_error(answer, 400, code)["details"][0]["field"] == place, rules
    await save(app, table, {"read": LINK})
    assert any(code == "SHORT_SECRET" for _, code, _ in await findings(app))
    tried: dict[str, Any] = {"action": "list", "as": "public"}
    async with manager(app) as side:
        for brought, status in (({"share": SECRET}, 200), ({}, 403)):
            answer = await side.post(f"/tables/{table}/rules/test", json=tried | {"capabilities": brought})
            assert answer.json()["status"] == status
            assert answer.json()["parts"][0]["words"] == "secret is the link's share"


def test_a_name_twice_has_both_texts():
    assert capabilities.parse(f"a={SECRET}, b={SECRET},a={OTHER}") == {"a": (SECRET, OTHER), "b": (SECRET,)}
    one, two = {"a": (SECRET, OTHER)}, {"a": (OTHER, SECRET)}
    assert capabilities.digest(one) == capabilities.digest(two) != capabilities.digest({"a": (SECRET,)})
    assert SECRET not in str(InvalidCapabilityError())
