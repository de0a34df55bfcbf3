"""Trying rules: what a caller would be answered and why, and reading rows as a member sees them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pilotis.data.rules.words import in_words
from tests.rules.test_rules import EDITOR, OWN, SIGNED_IN, manager, rows, ruled
from tests.services import connected
from tests.support import App, assert_error, plain_client

DOCUMENT = {"name": "string", "state": "string", "price": "number", "note": "string"}
RULES: dict[str, Any] = {
    "read": {"$or": [{"state": "published"}, OWN]},
    "create": {"$member": {"is_guest": False}, "state": {"$ne": "published"}},
    "update": {"$or": [{"$use": "editor"}, {**OWN, "$old": {"state": "draft"}, "$new": {"price": {"$lte": 10}}}]},
    "delete": {"$use": "editor"},
    "define": {"editor": EDITOR},
    "columns": {"note": {"read": EDITOR, "update": None}},
}


async def tried(app: App, table: str, action: str, caller: Any, **given: Any) -> dict[str, Any]:
    async with manager(app) as client:
        answer = await client.post(f"/tables/{table}/rules/test", json={"action": action, "as": caller, **given})
    assert answer.status_code == 200, answer.text
    return answer.json()


def held(result: dict[str, Any]) -> dict[str, bool | None]:
    return {part["place"].removeprefix("rules."): part["holds"] for part in result["parts"]}


async def test_it_answers_what_the_caller_would_be_answered_and_why(app: App):
    table = await ruled(app, DOCUMENT, RULES)
    ada, eve = await app.member("ada"), await app.member("eve")
    row = await app.row(table, {"name": "x", "state": "draft", "price": 5}, ada["access_token"])
    own, other = {"member_id": ada["member_id"]}, {"member_id": eve["member_id"]}
    editor = {"roles": ["editor"]}

    read = await tried(app, table, "read", own, row_id=row["id"])
    assert (read["allowed"], read["status"], read["code"]) == (True, 200, None)
    assert held(read) == {"read.$or[0].state": False, "read.$or[1].$creator": True}
    assert [part["words"] for part in read["parts"]] == ['state is "published"', "the caller created the row"]
    assert read["visible_columns"] == ["name", "state", "price"]
    read = await tried(app, table, "read", other, row_id=row["id"])
    assert (read["allowed"], read["status"], read["code"]) == (False, 404, "ROW_NOT_FOUND")
    assert held(read) == {"read.$or[0].state": False, "read.$or[1].$creator": False}
    assert held(await tried(app, table, "read", "public"))["read.$or[1].$creator"] is None

    denied = await tried(app, table, "create", own, data={"name": "y", "state": "published"})
    assert (denied["allowed"], denied["status"], denied["code"]) == (False, 403, "RULE_DENIED")
    assert held(denied) == {"create.$member": True, "create.state": False}
    made = await tried(app, table, "create", own, data={"name": "y", "state": "draft"})
    assert (made["allowed"], made["status"]) == (True, 201)
    assert set(held(made).values()) == {True}
    assert (await tried(app, table, "create", "public", data={"name": "y"}))["code"] == "MEMBER_TOKEN_REQUIRED"
    invalid = await tried(app, table, "create", own, data={"nme": "y"})
    assert (invalid["status"], invalid["code"], held(invalid)["create.state"]) == (400, "UNKNOWN_COLUMN", None)

    dear = await tried(app, table, "update", own, row_id=row["id"], data={"price": 50})
    assert (dear["status"], dear["code"]) == (403, "RULE_DENIED")
    parts = held(dear)
    assert parts["define.editor.$member"] is False
    assert parts["update.$or[1].$old.state"] is True
    assert parts["update.$or[1].$new.price"] is False
    assert parts["read.$or[1].$creator"] is True
    cheap = await tried(app, table, "update", own, row_id=row["id"], data={"price": 6})
    assert (cheap["allowed"], cheap["writable_columns"]) == (True, ["name", "state", "price"])
    closed = await tried(app, table, "update", own, row_id=row["id"], data={"note": "z"})
    assert closed["code"] == "COLUMN_READ_ONLY"
    assert (await tried(app, table, "delete", own, row_id=row["id"]))["code"] == "RULE_DENIED"
    # An editor may delete, but does not see this row.
    assert (await tried(app, table, "delete", editor, row_id=row["id"]))["code"] == "ROW_NOT_FOUND"
    assert (await tried(app, table, "delete", editor | {"id": ada["member_id"]}, row_id=row["id"]))["allowed"]

    async with app.client(app.secret_key) as client:
        (left,) = (await client.get(rows(table))).json()["data"]
        assert left["data"] == {"name": "x", "state": "draft", "price": 5}
    assert left["updated_at"] == row["updated_at"]


async def test_a_draft_is_tried_before_it_is_saved(app: App):
    table = await app.table(DOCUMENT, access_level="Creator")
    for state in ("published", "published", "draft"):
        await app.row(table, {"name": "x", "state": state}, app.secret_key)
    level = await tried(app, table, "list", {})
    assert (level["allowed"], level["visible_count"], level["index"]) == (True, 0, "used")
    draft = {"read": {"state": "published"}}
    listed = await tried(app, table, "list", "public", rules=draft)
    assert (listed["allowed"], listed["visible_count"], listed["index"]) == (True, 2, "small table")
    assert listed["parts"] == [{"place": "rules.read.state", "words": 'state is "published"', "holds": None}]
    closed = await tried(app, table, "list", "public", rules=draft | {"list": None})
    assert (closed["code"], closed["visible_count"]) == ("RULE_DENIED", None)
    async with manager(app) as client:
        path = f"/tables/{table}/rules/test"
        wrong = {"action": "read", "as": "public", "rules": {"read": {"stat": 1}}}
        answer = await client.post(path, json=wrong)
        assert_error(answer, 400, "UNKNOWN_COLUMN")
        assert answer.json()["details"][0]["field"] == "rules.read.stat"
        nobody = {"action": "read", "as": {"member_id": "01a2185c-c928-74ee-b7ef-51d6e89a865c"}}
        assert_error(await client.post(path, json=nobody), 404, "MEMBER_NOT_FOUND")
        both = {"action": "read", "as": {"member_id": "x", "roles": []}}
        assert_error(await client.post(path, json=both), 400, "VALIDATION_FAILED")
        assert (await client.get(f"/tables/{table}/rules")).json()["rules"] is None
    async with app.client() as public:
        answer = await public.post(f"/v1/apps/{app.app_id}{path}", json=nobody)
        assert answer.status_code == 401


async def test_rules_read_other_tables_when_they_are_tried(app: App):
    team = await app.table({"team": "string", "member": "string"}, "Creator", title="seats")
    where = {"team": {"$row": "team"}, "member": {"$member": "id"}}
    rules = {"read": {"$exists": {"table": "seats", "where": where}}, "create": SIGNED_IN, "update": SIGNED_IN}
    table = await ruled(app, {"team": "string"}, rules)
    ada = await app.member("ada")
    await app.row(team, {"team": "red", "member": ada["member_id"]}, app.secret_key)
    red, blue = [await app.row(table, {"team": name}, app.secret_key) for name in ("red", "blue")]
    me = {"member_id": ada["member_id"]}
    words = "there is a row of seats in which team is the row's team and member is the caller's id"
    for row, holds in ((red, True), (blue, False)):
        result = await tried(app, table, "read", me, row_id=row["id"])
        assert result["allowed"] is holds
        assert result["parts"] == [{"place": "rules.read.$exists", "words": words, "holds": holds}]
    assert (await tried(app, table, "list", me))["visible_count"] == 1


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (None, "only the app itself"),
        (True, "everyone"),
        (SIGNED_IN, "a member is signed in"),
        (
            {"$member": {"claims.org": "a", "is_guest": False}},
            'the caller\'s claim org is "a" and the caller is not a guest',
        ),
        ({"$not": {"state": {"$in": ["a", "b"]}}}, 'not (state is one of ["a","b"])'),
        (
            {"ends": {"$gt": {"$now": 60}}, "start": {"$lte": {"$now": 0}}},
            "ends is more than now + 60 s and start is at most now",
        ),
        ({"$or": [{"a": 1, "b": {"$isNull": True}}, {"$use": "team"}]}, "(a is 1 and b is empty or “team” holds)"),
        ({"$new": {"price": {"$eq": {"$old": "price"}}}}, "after the change price is price before"),
    ],
)
def test_a_rule_in_words(rule: Any, words: str):
    assert in_words(rule) == words


def acting(app: App, member_id: str, **headers: str) -> httpx.AsyncClient:
    bearer = f"Bearer {app.console['access_token']}"
    return plain_client(
        app.server.url, **{"X-App-Id": app.app_id, "Authorization": bearer, "X-Act-As": member_id, **headers}
    )


async def test_an_editor_reads_rows_as_a_member_sees_them(app: App):
    table = await ruled(app, DOCUMENT, RULES)
    ada = await app.member("ada")
    token = ada["access_token"]
    for state, bearer in (("draft", token), ("draft", app.secret_key), ("published", app.secret_key)):
        await app.row(table, {"name": "x", "state": state, "note": "n"}, bearer)
    data = rows(table)
    async with app.client(token) as member, acting(app, ada["member_id"]) as editor:
        (own, _) = (await member.get(data)).json()["data"]
        for method, path, body in (
            ("GET", data, None),
            ("GET", f"{data}/{own['id']}", None),
            ("POST", f"{data}/query", {"where": {"state": "draft"}}),
            ("POST", f"{data}/query", {"where": {"note": "n"}}),
            (
                "POST",
                "/v1/public/aggregate",
                {"table_id": table, "pipeline": [{"$group": {"_id": "$state", "n": {"$count": {}}}}]},
            ),
        ):
            theirs, ours = [await client.request(method, path, json=body) for client in (member, editor)]
            assert ours.status_code == theirs.status_code, ours.text
            changing = {"request_id", "execution_time_ms", "took_ms", "query_time_ms"}
            mine, seen = [{k: v for k, v in one.json().items() if k not in changing} for one in (theirs, ours)]
            assert seen == mine
        assert_error(await editor.post(data, json={"data": {"name": "y"}}), 403, "ACT_AS_READ_ONLY")
        assert_error(await editor.patch(f"{data}/{own['id']}", json={"data": {}}), 403, "ACT_AS_READ_ONLY")
        assert_error(await editor.post("/v1/public/transactions", json={"operations": []}), 403, "ACT_AS_READ_ONLY")
    async with connected(app.server) as connection:
        sql = "select target from pilotis.audit_log where app_id = $1 and action = 'member.act_as'"
        assert [row["target"] for row in await connection.fetch(sql, app.app_id)] == [ada["member_id"]] * 5
    as_ada = {"X-Act-As": ada["member_id"]}
    for bearer in (token, app.secret_key, None):
        async with app.client(bearer, **as_ada) as client:
            assert_error(await client.get(data), 403, "ACT_AS_REFUSED")
    async with acting(app, "nobody") as client:
        assert_error(await client.get(data), 404, "MEMBER_NOT_FOUND")
