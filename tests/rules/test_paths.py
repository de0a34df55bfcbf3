"""Rules that follow references: what they hold of, how they are stored, and what they need."""

from __future__ import annotations

from typing import Any

import httpx

from tests.rules.test_rules import findings, listed, manager, rows, save
from tests.support import App, assert_error

ME: dict[str, Any] = {"$member": "id"}


def refers(table: str) -> dict[str, Any]:
    return {"type": "uuid", "references": {"table": table, "on_delete": "set_null"}}


async def shared_trail(app: App) -> tuple[str, str, str]:
    """Authors, their trails, and waypoints two references away from whom they belong to."""
    authors = await app.table({"member": "string", "place": "object"}, title="authors")
    trails = await app.table({"author": refers("authors"), "state": "string"}, title="trails")
    return authors, trails, await app.table({"name": "string", "trail": refers("trails")}, title="waypoints")


async def made(client: httpx.AsyncClient, table: str, **data: Any) -> str:
    answer = await client.post(rows(table), json={"data": data})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_a_rule_follows_references_on_every_route(app: App):
    authors, trails, waypoints = await shared_trail(app)
    rule = {"$or": [{"trail.author.member": ME}, {"trail.state": "shared", "trail.author.place.land": {"$ne": "x"}}]}
    saved = await save(app, waypoints, {"read": rule, "create": rule, "update": rule, "delete": rule})
    assert saved["rules"]["read"] == rule
    ada, eve = await app.member("ada"), await app.member("eve")
    async with (
        app.client(app.secret_key) as side,
        app.client(ada["access_token"]) as own,
        app.client(eve["access_token"]) as other,
        app.client() as nobody,
    ):
        author = await made(side, authors, member=ada["member_id"])
        private = await made(side, trails, author=author, state="private")
        shared = await made(side, trails, author=author, state="shared")
        nowhere = await made(side, trails, state="shared")
        places = {
            name: await made(side, waypoints, name=name, trail=trail)
            for name, trail in (("private", private), ("shared", shared), ("nowhere", nowhere))
        }
        places["none"] = await made(side, waypoints, name="none")
        assert await listed(own, waypoints) == ["private", "shared"]
        assert await listed(other, waypoints) == ["shared"]
        # The rows on the way are read as the app; a path that leads nowhere holds of nothing.
        assert await listed(nobody, waypoints) == ["shared"]
        assert_error(await other.get(f"{rows(waypoints)}/{places['private']}"), 404, "ROW_NOT_FOUND")
        assert_error(await own.get(f"{rows(waypoints)}/{places['none']}"), 404, "ROW_NOT_FOUND")
        assert (await own.get(f"{rows(waypoints)}/{places['private']}")).status_code == 200
        taken = await other.patch(f"{rows(waypoints)}/{places['shared']}", json={"data": {"trail": private}})
        assert assert_error(taken, 403, "RULE_DENIED")["details"][0]["code"] == "NEW_ROW"
        new = {"data": {"name": "new", "trail": private}}
        assert_error(await other.post(rows(waypoints), json=new), 403, "RULE_DENIED")
        assert (await own.post(rows(waypoints), json=new)).status_code == 201
        assert (await other.post(f"{rows(waypoints)}/delete-where", json={"all": True})).json()["deleted_count"] == 1
        # What a rule follows is kept, and locked.
        assert_error(await nobody.delete(f"/v1/public/tables/{authors}/columns/place"), 403, "SCHEMA_LOCKED")
        assert_error(await side.delete(f"/v1/public/tables/{authors}/columns/member"), 409, "USED_IN_RULE")
        assert_error(await side.delete(f"/v1/public/tables/{trails}/columns/author"), 409, "USED_IN_RULE")


async def test_a_path_that_leads_nowhere_closes_its_branch(app: App):
    authors, trails, waypoints = await shared_trail(app)
    async with app.client() as client, app.client(app.secret_key) as side:
        author = await made(side, authors, member="x")
        for name, trail in (
            ("whole", {"author": author}),
            ("authorless", {}),
            ("stated", {"author": author, "state": "s"}),
        ):
            await made(side, waypoints, name=name, trail=await made(side, trails, **trail))
        await made(side, waypoints, name="none")
        for rule, expected in (
            ({"trail.author.member": {"$ne": "y"}}, ["whole", "stated"]),
            ({"$not": {"trail.author.member": "y"}}, ["whole", "stated"]),
            ({"trail.author.member": {"$not": {"$eq": "y"}}}, ["whole", "stated"]),
            ({"trail.state": {"$isNull": True}}, ["whole", "authorless"]),
            ({"$not": {"trail.state": {"$isNull": True}}}, ["stated"]),
            ({"$not": {"$or": [{"trail.author.member": "y"}, {"trail.state": "s"}]}}, ["whole"]),
            ({"$or": [{"$not": {"trail.author.member": "y"}}, {"name": "none"}]}, ["whole", "stated", "none"]),
            ({"trail.$creator": {"$isNull": True}, "trail.id": {"$ne": author}}, ["whole", "authorless", "stated"]),
        ):
            await save(app, waypoints, {"read": rule})
            assert await listed(client, waypoints) == expected, rule


async def test_paths_that_are_wrong_name_their_place(app: App):
    _, trails, waypoints = await shared_trail(app)
    lists = await app.table({"way": refers("waypoints"), "x": "uuid"}, title="lists")
    deep = await app.table({"list": refers("lists")})
    within = {"$exists": {"table": "waypoints", "where": {"trail.state": {"$row": "x"}}}}
    cases = [
        (waypoints, {"trail.nme": 1}, "UNKNOWN_COLUMN", "trail.nme"),
        (
            waypoints,
            {"trail.author.member": {"$gt": 5, "$contains": 5}},
            "VALIDATION_FAILED",
            "trail.author.member.$contains",
        ),
        (waypoints, {"trail.$or": []}, "INVALID_OPERAND", "trail.$or"),
        (waypoints, {"trail.state": {"$row": "name"}}, "INVALID_OPERAND", "trail.state"),
        (lists, within, "INVALID_OPERAND", "$exists.where.trail.state"),
        (deep, {"list.way.trail.author.member": ME}, "RULE_TOO_COMPLEX", "list.way.trail.author.member"),
        (waypoints, {"$and": [{"trail.author.member": "x"}] * 13}, "RULE_TOO_COMPLEX", "$and[12].trail.author.member"),
        (trails, {"author.place": {"$startsWith": "x"}}, "INVALID_OPERATOR", "author.place.$startsWith"),
    ]
    async with manager(app) as client:
        for table, rule, code, place in cases:
            answer = await client.put(f"/tables/{table}/rules", json={"rules": {"read": rule}})
            assert assert_error(answer, 400, code)["details"][0]["field"] == f"rules.read.{place}", rule


async def test_exposure_tells_who_could_name_himself_where_a_path_leads(app: App):
    authors = await app.table({"member": "string"}, title="writers")
    books = await app.table({"writer": refers("writers")}, title="books")
    await save(app, authors, {"create": {"member": ME}})
    await save(app, books, {"read": {"writer.member": ME}})

    async def promoting() -> set[str]:
        return {message for _, code, message in await findings(app) if code == "SELF_PROMOTION"}

    assert await promoting() == set()
    await save(app, authors, {"create": {"member": ME}, "read": True, "update": {"$member": {}}})
    assert await promoting() == {
        "Table writers: anyone who signs up can change its rows, which give rights in table books."
    }
    await save(app, books, {"read": {"writer.$creator": ME}})
    assert await promoting() == set()
