"""Trying the rules of storages over HTTP: what a caller would be answered about a file, and why."""

from __future__ import annotations

from typing import Any

from tests.acceptance.test_files import PNG, put_at, storage
from tests.rules.test_rules import OWN, SIGNED_IN, manager
from tests.support import App, assert_error

MINE = {"segment.0": {"$member": "id"}}


async def tried(app: App, base: str, action: str, caller: Any, status: int = 200, **given: Any) -> dict[str, Any]:
    async with manager(app) as client:
        path = f"/storages/files/{base.rpartition('/')[2]}/rules/test"
        answer = await client.post(path, json={"action": action, "as": caller, **given})
    assert answer.status_code == status, answer.text
    return answer.json()


def held(answer: dict[str, Any]) -> dict[str, bool | None]:
    return {part["place"]: part["holds"] for part in answer["parts"]}


async def test_what_a_caller_would_be_answered_is_what_it_is_answered(app: App):
    rules = {
        "read": {"$or": [MINE, {"folder": "public"}]},
        "create": MINE,
        "update": {"size": {"$lt": 100}},
        "delete": OWN,
    }
    base = await storage(app, rules=rules)
    ada, eve = await app.member("ada"), await app.member("eve")
    mine = f"{ada['member_id']}/a.png"
    async with app.client(ada["access_token"]) as member, app.client(app.secret_key) as own_side:
        await put_at(member, base, mine)
        await put_at(own_side, base, "public/b.png")
    as_ada, as_eve = {"member_id": ada["member_id"]}, {"member_id": eve["member_id"]}
    for caller, path, status in ((as_ada, mine, 200), (as_eve, mine, 404), ("public", "public/b.png", 200)):
        answer = await tried(app, base, "read", caller, path=path)
        assert (answer["status"], answer["allowed"]) == (status, status == 200)
    answer = await tried(app, base, "read", as_eve, path=mine)
    assert held(answer) == {"rules.read.$or[0].segment.0": False, "rules.read.$or[1].folder": False}
    answer = await tried(app, base, "read", "public", path="public/b.png")
    assert held(answer) == {"rules.read.$or[0].segment.0": None, "rules.read.$or[1].folder": True}
    assert (await tried(app, base, "list", as_ada))["visible_count"] == 2
    assert (await tried(app, base, "list", as_eve))["visible_count"] == 1
    new = {"path": f"{eve['member_id']}/c.png", "size": 5}
    assert (await tried(app, base, "create", as_eve, file=new))["status"] == 201
    answer = await tried(app, base, "create", as_ada, file=new)
    assert (answer["code"], answer["status"]) == ("RULE_DENIED", 403)
    # Bare conditions of an update hold before and afterwards.
    assert (await tried(app, base, "update", as_ada, path=mine, file=new))["allowed"] is (len(PNG) < 100)
    large = await tried(app, base, "update", as_ada, path=mine, file=new | {"size": 1000})
    assert large["code"] == "RULE_DENIED"
    assert held(large)["rules.update.size"] is False
    assert (await tried(app, base, "delete", as_ada, path=mine))["allowed"]
    assert (await tried(app, base, "delete", as_ada, path="public/b.png"))["code"] == "RULE_DENIED"
    for action in ("update", "delete"):
        assert (await tried(app, base, action, as_ada, path="none.png"))["status"] == 404
    # Nothing has changed.
    assert (await tried(app, base, "list", as_ada))["visible_count"] == 2


async def test_drafts_levels_and_facts_are_tried(app: App):
    base = await storage(app, read_access="AppMember", upload_access="Creator", delete_access="Secret")
    file = {"path": "a/b.txt", "size": 3, "mime_type": "text/plain"}
    assert (await tried(app, base, "create", "public", file=file))["code"] == "MEMBER_TOKEN_REQUIRED"
    assert (await tried(app, base, "create", {"roles": []}, file=file))["allowed"]
    draft = {"create": {"$member": {"roles": {"$arrayContains": "editor"}}, "mime_type": {"$startsWith": "text/"}}}
    answer = await tried(app, base, "create", {"roles": ["editor"]}, file=file, rules=draft)
    assert (answer["allowed"], set(held(answer).values())) == (True, {True})
    answer = await tried(app, base, "create", {"roles": ["reader"]}, file=file, rules=draft)
    assert (answer["code"], set(held(answer).values())) == ("RULE_DENIED", {True, False})
    seats = await app.table({"member": "string", "folder": "string"}, title="seats of folders")
    seated = {
        "$exists": {"table": "seats of folders", "where": {"folder": {"$row": "folder"}, "member": {"$member": "id"}}}
    }
    await app.row(seats, {"member": "m1", "folder": "a"})
    for member, holds in (("m1", True), ("m2", False)):
        answer = await tried(
            app, base, "create", {"id": member}, file=file, rules={"create": seated, "read": SIGNED_IN}
        )
        assert (answer["allowed"], held(answer)) == (holds, {"rules.create.$exists": holds})


async def test_what_cannot_be_tried(app: App, other_app: App):
    base = await storage(app, rules={"read": True})
    file = {"path": "a.txt"}
    for given, code, field in (
        ({"action": "create"}, "VALIDATION_FAILED", "file"),
        ({"action": "delete"}, "VALIDATION_FAILED", "path"),
        ({"action": "create", "file": {"path": ""}}, "VALIDATION_FAILED", "file.path"),
        ({"action": "create", "file": {"path": "../x"}}, "INVALID_PATH", None),
        ({"action": "read", "rules": {"read": {"none": 1}}}, "UNKNOWN_COLUMN", "rules.read.none"),
        ({"action": "create", "file": file, "as": {"member_id": "none"}}, "MEMBER_NOT_FOUND", None),
        ({"action": "create", "file": file, "as": {"member_id": "x", "roles": []}}, "VALIDATION_FAILED", "as"),
    ):
        given = {"as": "public", **given}
        status = 404 if code == "MEMBER_NOT_FOUND" else 400
        body = await tried(app, base, given.pop("action"), given.pop("as"), status, **given)
        assert body["code"] == code, body
        if field is not None:
            assert body["details"][0]["field"] == field
    async with manager(other_app) as client:
        path = f"/storages/files/{base.rpartition('/')[2]}/rules/test"
        assert_error(await client.post(path, json={"action": "list", "as": "public"}), 404, "STORAGE_NOT_FOUND")
