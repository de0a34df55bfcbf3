"""Views over HTTP: saving and calling pipelines with parameters."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.commands import run
from tests.console import owner_of
from tests.functions.support import Functions
from tests.rules.test_rules import SIGNED_IN, manager
from tests.rules.test_rules import save as save_rules
from tests.support import App, assert_error
from tests.views.support import called, change, save, shown

SUM = [{"$group": {"_id": "$post", "votes": {"$sum": "$stars"}}}, {"$sort": {"votes": -1}}]


async def voted(app: App, level: str = "Creator") -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A table of votes, and two members who voted: the first gave 3 and 2, the second 5."""
    table = await app.table({"post": "string", "stars": "int", "day": "date"}, level)
    ada, eve = await app.member(f"ada {table}"), await app.member(f"eve {table}")
    for member, post, stars in ((ada, "a", 3), (ada, "b", 2), (eve, "a", 5)):
        data = {"post": post, "stars": stars, "day": f"2026-01-0{stars}"}
        await app.row(table, data, member["access_token"])
    return table, ada, eve


async def test_a_view_shows_figures_without_rows(app: App):
    table, ada, _ = await voted(app)
    ranked = await save(app, name="ranked", table_id=table, pipeline=SUM, run_as="app", read=True)
    own = await save(app, name="own", table_id=table, pipeline=SUM)
    assert {key: ranked[key] for key in ("name", "table_id", "pipeline", "params", "read", "run_as")} == {
        "name": "ranked",
        "table_id": table,
        "pipeline": SUM,
        "params": {},
        "read": True,
        "run_as": "app",
    }
    assert (own["read"], own["run_as"], own["cache_seconds"]) == (True, "caller", 0)
    async with app.client() as nobody, app.client(ada["access_token"]) as member, app.client(app.secret_key) as side:
        everything = [{"_id": "a", "votes": 8}, {"_id": "b", "votes": 2}]
        for client in (nobody, member, side):
            assert await called(client, "ranked") == everything
        # As the caller, a view shows what the caller's own list would.
        assert await called(member, "own") == [{"_id": "a", "votes": 3}, {"_id": "b", "votes": 2}]
        assert await called(side, "own") == everything
        refused = await nobody.post("/v1/public/views/own", json={})
        assert_error(refused, 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await nobody.post("/v1/public/views/none", json={}), 404, "VIEW_NOT_FOUND")
        answer = await nobody.get("/v1/public/views/ranked")
        assert (answer.status_code, answer.json()["data"]) == (200, everything)
        assert "age" not in answer.headers
    async with manager(app) as client:
        assert [view["name"] for view in (await client.get("/views")).json()["views"]] == ["own", "ranked"]
        assert (await client.delete(f"/views/{ranked['id']}")).status_code == 200
        assert_error(await client.get(f"/views/{ranked['id']}"), 404, "VIEW_NOT_FOUND")
        assert_error(await client.delete(f"/views/{ranked['id']}"), 404, "VIEW_NOT_FOUND")
        assert_error(await client.patch(f"/views/{ranked['id']}", json={}), 404, "VIEW_NOT_FOUND")
    async with app.client() as nobody:
        assert_error(await nobody.get("/v1/public/views/ranked"), 404, "VIEW_NOT_FOUND")


async def test_who_may_call_a_view(app: App):
    table, ada, eve = await voted(app)
    view = await save(app, name="v", table_id=table, pipeline=SUM, run_as="app", read=None)
    async with manager(app) as side:
        role = {"roles": ["editor"]}
        assert (await side.patch(f"/members/{ada['member_id']}", json=role)).status_code in {200, 401, 403}
    rules: list[tuple[Any, list[Any]]] = [
        (None, ["RULE_DENIED", "RULE_DENIED", "RULE_DENIED"]),
        (True, [200, 200, 200]),
        (SIGNED_IN, ["MEMBER_TOKEN_REQUIRED", 200, 200]),
        ({"$member": {"id": ada["member_id"]}}, ["MEMBER_TOKEN_REQUIRED", 200, "RULE_DENIED"]),
        ({"$not": {"$member": {"id": ada["member_id"]}}}, ["MEMBER_TOKEN_REQUIRED", "RULE_DENIED", 200]),
        ({"$member": {"claims.plan": "gold"}}, ["MEMBER_TOKEN_REQUIRED", "RULE_DENIED", "RULE_DENIED"]),
    ]
    async with (
        app.client() as nobody,
        app.client(ada["access_token"]) as member,
        app.client(eve["access_token"]) as other,
        app.client(app.secret_key) as side,
    ):
        for read, expected in rules:
            view = await change(app, view, read=read)
            assert view["read"] == read
            for client, code in zip((nobody, member, other), expected, strict=True):
                for answer in (
                    await client.post("/v1/public/views/v", json={}),
                    await client.get("/v1/public/views/v"),
                ):
                    if code == 200:
                        assert answer.status_code == 200, (read, answer.text)
                    else:
                        assert_error(answer, 401 if code == "MEMBER_TOKEN_REQUIRED" else 403, code)
            # The app's own side passes each rule.
            assert len(await called(side, "v")) == 2


async def test_as_the_app_hidden_columns_count_and_as_the_caller_they_cannot_be_named(app: App):
    table = await app.table({"team": "string", "salary": "int"}, title=None)
    rules = {"read": {"team": "red"}, "create": True, "columns": {"salary": {"read": None}}}
    async with app.client(app.secret_key) as side:
        for team, salary in (("red", 1), ("blue", 10)):
            data = {"data": {"team": team, "salary": salary}}
            assert (await side.post(f"/v1/public/tables/{table}/data", json=data)).status_code == 201
    await save_rules(app, table, rules)
    total = [{"$group": {"_id": None, "all": {"$sum": "$salary"}}}]
    view = await save(app, name="s", table_id=table, pipeline=total, run_as="app", read=True)
    async with app.client() as nobody, app.client(app.secret_key) as side:
        assert await called(nobody, "s") == [{"_id": None, "all": 11}]
        await change(app, view, run_as="caller")
        refused = await nobody.post("/v1/public/views/s", json={})
        plain = await nobody.post("/v1/public/aggregate", json={"table_id": table, "pipeline": total})
        # It is what aggregate says.
        assert (refused.status_code, refused.json()["code"]) == (plain.status_code, plain.json()["code"])
        assert refused.status_code in {400, 403}
        await change(app, view, pipeline=[{"$count": "n"}])
        assert await called(nobody, "s") == [{"n": 1}]
        assert await called(side, "s") == [{"n": 2}]


async def test_parameters_of_each_type(app: App):
    schema = {"s": "string", "n": "number", "i": "int", "b": "boolean", "d": "date", "u": "uuid", "tags": "array"}
    table = await app.table(schema)
    uuid = "0190d6a0-0000-7000-8000-000000000001"
    first = {"s": "$n", "n": 1.5, "i": 1, "b": True, "d": "2026-01-01", "u": uuid, "tags": ["x"]}
    await app.row(table, first)
    await app.row(table, {"s": "other", "n": 2.5, "i": 2, "b": False, "d": "2026-02-01T00:00:00Z", "tags": ["y"]})
    kinds = {"s": "string", "n": "number", "i": "int", "b": "boolean", "d": "date", "u": "uuid"}
    params = {name: {"type": kind} for name, kind in kinds.items()}
    match = [{"$match": {name: {"$param": name} for name in kinds}}, {"$count": "n"}]
    await save(app, name="p", table_id=table, pipeline=match, params=params)
    any_of = {"t": {"type": "array", "default": ["x", "y"]}, "top": {"type": "int", "default": 5}}
    lists = [
        {"$match": {"tags": {"$arrayContainsAny": {"$param": "t"}}}},
        {"$sort": {"n": -1}},
        {"$limit": {"$param": "top"}},
        {"$project": {"_id": 0, "id": 0}},
    ]
    await save(app, name="lists", table_id=table, pipeline=lists[:3], params=any_of)
    right = {name: first[name] for name in kinds}
    async with app.client() as client:
        assert await called(client, "p", **right) == [{"n": 1}]
        for name, other in {"s": "no", "n": 1.25, "i": 2, "b": False, "d": "2026-01-02", "u": uuid[:-1] + "2"}.items():
            assert await called(client, "p", **right | {name: other}) == []
        query = right | {"b": "true"}
        answer = await client.get("/v1/public/views/p", params=query)
        assert answer.json() == {"data": [{"n": 1}], "total_count": 1}
        assert len(await called(client, "lists")) == 2
        assert [one["n"] for one in await called(client, "lists", top=1)] == [2.5]
        assert [one["n"] for one in await called(client, "lists", t=["x", 5, True])] == [1.5]
        assert (await client.get("/v1/public/views/lists", params={"t": '["y"]', "top": 3})).json()["total_count"] == 1
        wrong: list[tuple[dict[str, Any], str, str]] = [
            ({"s": 5}, "s", "INVALID_VALUE"),
            ({"s": None}, "s", "INVALID_VALUE"),
            ({"s": {"$ne": ""}}, "s", "INVALID_VALUE"),
            ({"n": "1"}, "n", "INVALID_VALUE"),
            ({"n": True}, "n", "INVALID_VALUE"),
            ({"i": 1.5}, "i", "INVALID_VALUE"),
            ({"i": 2**63}, "i", "INVALID_VALUE"),
            ({"b": 1}, "b", "INVALID_VALUE"),
            ({"d": "yesterday"}, "d", "INVALID_VALUE"),
            ({"u": "1"}, "u", "INVALID_VALUE"),
            ({"x": 1}, "x", "UNKNOWN_PARAMETER"),
        ]
        for given, name, code in wrong:
            answer = await client.post("/v1/public/views/p", json={"params": right | given})
            assert answer.status_code == 400, (given, answer.text)
            assert [(one["field"], one["code"]) for one in answer.json()["details"]] == [(f"params.{name}", code)]
        for given in ([{"$gt": 1}], [[1]], [None], "x", ["x"] * 1001):
            answer = await client.post("/v1/public/views/lists", json={"params": {"t": given}})
            assert [one["field"] for one in answer.json()["details"]] == ["params.t"], answer.text
        answer = await client.post("/v1/public/views/lists", json={"params": {"top": 0}})
        assert [one["field"] for one in answer.json()["details"]] == ["pipeline[2].$limit"]
        missing = assert_error(await client.post("/v1/public/views/p", json={}), 400, "PARAMETER_MISSING")
        assert missing["details"][0]["field"] == "params.s"
        for text, name in (
            ("s=a&s=b", "s"),
            ("i=x", "i"),
            ("s=a&n=1&i=1&b=1", "b"),
            ("zz=1", "zz"),
            ("n=one", "n"),
            ("s=a%00", "s"),
            ("s=%ff", ""),
        ):
            answer = await client.get(f"/v1/public/views/p?{text}")
            assert answer.status_code == 400, (text, answer.text)
            assert [one["field"] for one in answer.json().get("details", [])] == ([f"params.{name}"] if name else [])


async def test_a_value_is_data_wherever_it_stands(app: App):
    table = await app.table({"name": "string", "secret": "string", "at": "date"})
    await app.row(table, {"name": "a", "secret": "hidden", "at": "2026-01-01T12:00:00Z"})
    pipeline = [
        {"$addFields": {"said": {"$param": "text"}, "both": {"$concat": [{"$param": "text"}, "!"]}}},
        {"$addFields": {"day": {"$dateToString": {"date": "$at", "format": "%H", "timezone": {"$param": "zone"}}}}},
        {"$addFields": {"is": {"$in": ["$name", {"$param": "names"}]}, "kept": {"$literal": {"$param": "text"}}}},
        {"$project": {"id": 0, "at": 0, "created_at": 0, "updated_at": 0}},
    ]
    params = {
        "text": {"type": "string"},
        "zone": {"type": "string", "default": "UTC"},
        "names": {"type": "array", "default": ["$name"]},
    }
    await save(app, name="data", table_id=table, pipeline=pipeline, params=params)
    async with app.client() as client:
        for text in ("$secret", "$$ROOT", "'; drop table x; --", '{"$ne": 1}'):
            (found,) = await called(client, "data", text=text)
            assert (found["said"], found["both"]) == (text, f"{text}!")
            assert (found["is"], found["day"], found["kept"]) == (False, "12", {"$param": "text"})
        (found,) = await called(client, "data", text="", zone="Asia/Seoul", names=["a"])
        assert (found["day"], found["is"]) == ("21", True)
        refused = await client.post("/v1/public/views/data", json={"params": {"text": "", "zone": "Nowhere"}})
        assert_error(refused, 400, "INVALID_PIPELINE")


async def test_what_is_wrong_with_a_view(app: App):
    table = await app.table({"name": "string", "author": {"type": "uuid"}})
    base: dict[str, Any] = {"name": "w", "table_id": table, "pipeline": [{"$count": "n"}]}
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"name": "a b"}, "name", "INVALID_VALUE"),
        ({"name": ""}, "name", "INVALID_VALUE"),
        ({"name": "a" * 64}, "name", "INVALID_VALUE"),
        ({"name": "-a"}, "name", "INVALID_VALUE"),
        ({"table_id": "no such table"}, "table_id", "INVALID_ID"),
        ({"pipeline": [{"$out": 1}]}, "pipeline[0].$out", "INVALID_PIPELINE"),
        ({"pipeline": [{"$sort": {"nme": 1}}]}, "pipeline[0].$sort.nme", "UNKNOWN_COLUMN"),
        ({"pipeline": [{"$match": {"name": {"$like": 1}}}]}, "pipeline[0].$match.name.$like", "INVALID_OPERATOR"),
        ({"pipeline": [{"$match": {"name": {"$param": "x"}}}]}, "pipeline[0].$match.name", "UNKNOWN_PARAMETER"),
        ({"pipeline": [{"$unwind": {"$param": "x"}}]}, "pipeline[0].$unwind", "UNKNOWN_PARAMETER"),
        ({"pipeline": [{"$count": "n" * 65_536}]}, "pipeline", "INVALID_VALUE"),
        ({"params": {"a b": {"type": "int"}}}, "params.a b", "INVALID_VALUE"),
        ({"params": {"a": {"type": "object"}}}, "params.a.type", "INVALID_VALUE"),
        ({"params": {"a": {"type": "int", "default": "x"}}}, "params.a.default", "INVALID_VALUE"),
        ({"params": {"a": {"type": "int", "default": None}}}, "params.a.default", "INVALID_VALUE"),
        ({"params": {f"a{n}": {"type": "int"} for n in range(21)}}, "params", "INVALID_VALUE"),
        ({"read": False}, "read", "INVALID_RULE"),
        ({"read": {}}, "read", "RULE_EMPTY"),
        ({"read": {"name": "x"}}, "read.name", "INVALID_RULE"),
        ({"read": {"$member": {"custom_data.a": 1}}}, "read.$member.custom_data.a", "MEMBER_WRITES_THIS"),
        ({"run_as": "app"}, "read", "INVALID_VALUE"),
        ({"run_as": "me"}, "run_as", "INVALID_VALUE"),
        ({"cache_seconds": 60}, "cache_seconds", "INVALID_VALUE"),
        ({"cache_seconds": 3601, "run_as": "app", "read": True}, "cache_seconds", "INVALID_VALUE"),
    ]
    async with manager(app) as client:
        for given, place, code in wrong:
            answer = await client.post("/views", json=base | given)
            assert answer.status_code == 400, (given, answer.text)
            assert [(one["field"], one["code"]) for one in answer.json()["details"]] == [(place, code)], given
        assert_error(await client.post("/views", json=base | {"table_id": app.app_id}), 404, "TABLE_NOT_FOUND")
        assert (await client.get("/views")).json() == {"views": []}
        assert (await client.post("/views", json=base)).status_code == 201
        assert_error(await client.post("/views", json=base), 409, "VIEW_NAME_TAKEN")
    # The public key saves none.
    async with app.client() as public:
        assert (await public.post(f"/v1/apps/{app.app_id}/views", json=base)).status_code == 401


async def test_names_follow_what_is_renamed_and_what_a_view_needs_stays(app: App):
    authors = await app.table({"name": "string", "age": "int"})
    posts = await app.table(
        {
            "title": "string",
            "likes": "int",
            "tags": "array",
            "at": "date",
            "author": {"type": "uuid", "references": {"table": authors}},
        }
    )
    async with app.client() as client, owner_of(app).client(app) as owner:
        ada = await app.row(authors, {"name": "Ada", "age": 36})
        data = {"title": "t", "likes": 2, "tags": ["x", "y"], "at": "2026-01-01", "author": ada["id"]}
        await app.row(posts, data)
        pipeline = [
            {"$match": {"$or": [{"likes": {"$gte": {"$param": "least"}}}, {"$not": {"title": "x"}}]}},
            {"$lookup": {"localField": "author", "as": "writer", "fields": ["name", "age"]}},
            {"$addFields": {"likes": {"$add": ["$likes", "$writer.age"]}, "year": {"$year": {"date": "$at"}}}},
            {"$unwind": {"path": "$tags", "includeArrayIndex": "at_index"}},
            {"$sort": {"writer.name": 1, "likes": -1, "at_index": -1}},
            {
                "$project": {
                    "id": 0,
                    "title": 1,
                    "likes": 1,
                    "tags": 1,
                    "writer.name": 1,
                    "year": 1,
                    "#hash": "$at_index",
                }
            },
        ]
        view = await save(
            app, name="r", table_id=posts, pipeline=pipeline, params={"least": {"type": "int", "default": 1}}
        )
        assert view["pipeline"] == pipeline
        before = await called(client, "r")
        assert before[0] == {
            "title": "t", "likes": 38, "tags": "y", "writer": {"name": "Ada"}, "year": 2026, "#hash": 1
        }  # fmt: skip
        for table, old, new in (
            (posts, "likes", "hearts"),
            (posts, "tags", "labels"),
            (posts, "author", "by"),
            (authors, "name", "full_name"),
            (posts, "at", "moment"),
        ):
            answer = await owner.post(f"/tables/{table}/columns/{old}/rename", json={"name": new})
            assert answer.status_code == 200, answer.text
        now = await shown(app, view)
        assert now["pipeline"] == [
            {"$match": {"$or": [{"hearts": {"$gte": {"$param": "least"}}}, {"$not": {"title": "x"}}]}},
            {"$lookup": {"localField": "by", "as": "writer", "fields": ["full_name", "age"]}},
            {"$addFields": {"hearts": {"$add": ["$hearts", "$writer.age"]}, "year": {"$year": {"date": "$moment"}}}},
            {"$unwind": {"path": "$labels", "includeArrayIndex": "at_index"}},
            {"$sort": {"writer.full_name": 1, "hearts": -1, "at_index": -1}},
            {
                "$project": {
                    "id": 0, "title": 1, "hearts": 1, "labels": 1, "writer.full_name": 1, "year": 1,
                    "#hash": "$at_index",
                }
            },
        ]  # fmt: skip
        after = await called(client, "r")
        assert after[0] == {
            "title": "t", "hearts": 38, "labels": "y", "writer": {"full_name": "Ada"}, "year": 2026, "#hash": 1
        }  # fmt: skip
        # Saved again as it is shown, it is the same.
        assert (await change(app, now, pipeline=now["pipeline"]))["pipeline"] == now["pipeline"]
        for table, name in ((posts, "hearts"), (posts, "by"), (authors, "age")):
            used = assert_error(await client.delete(f"/v1/public/tables/{table}/columns/{name}"), 409, "USED_IN_VIEW")
            assert "The view r " in used["message"]
        # Two fields of one stage would have the same name.
        taken = await owner.post(f"/tables/{posts}/columns/title/rename", json={"name": "year"})
        assert_error(taken, 409, "USED_IN_VIEW")
        hidden = {"encrypted": True}
        answer = await client.patch(f"/v1/public/tables/{posts}/columns/title", json=hidden)
        assert_error(answer, 409, "USED_IN_VIEW")
        # A column that it does not name may go, and come.
        free = {"name": "free", "data_type": "int"}
        assert (await client.post(f"/v1/public/tables/{posts}/columns", json=free)).status_code == 201
        assert (await client.delete(f"/v1/public/tables/{posts}/columns/free")).status_code == 200
        assert_error(await client.delete(f"/v1/public/tables/{posts}"), 409, "USED_IN_VIEW")
    async with manager(app) as side, app.client() as client:
        assert (await side.delete(f"/views/{view['id']}")).status_code == 200
        assert (await client.delete(f"/v1/public/tables/{posts}/columns/hearts")).status_code == 200
        assert (await client.delete(f"/v1/public/tables/{posts}")).status_code == 200


async def test_a_view_is_not_saved_beside_the_end_of_what_it_needs(app: App):
    """Whoever comes first is seen by the other: a view that is there works."""
    async with manager(app) as side, app.client() as client:
        for turn in range(8):
            table = await app.table({"a": "int", "b": "int"})
            total = [{"$group": {"_id": None, "n": {"$sum": "$b"}}}]
            body = {"name": f"race{turn}", "table_id": table, "pipeline": total}
            drop = client.delete(f"/v1/public/tables/{table}/columns/b")
            saved, dropped = await asyncio.gather(side.post("/views", json=body), drop)
            assert sorted((saved.status_code, dropped.status_code)) in ([200, 400], [201, 409]), (saved, dropped)
            if saved.status_code == 201:
                assert await called(client, f"race{turn}") == []
                assert (await side.delete(f"/views/{saved.json()['id']}")).status_code == 200


async def test_functions_call_views(functions: Functions, app: App):
    table, ada, _ = await voted(app)
    await save(app, name="charts", table_id=table, pipeline=SUM, run_as="app", read=True)
    by_post = [{"$match": {"post": {"$param": "post"}}}, *SUM]
    await save(app, name="of-post", table_id=table, pipeline=by_post, params={"post": {"type": "string"}})
    typescript = """
        export default async (_: unknown, ctx: any) => [
          (await ctx.api.view("charts")).total_count,
          (await ctx.asCaller.view("of-post", { post: "a" })).data[0].votes,
          await ctx.api.view("of-post").catch((error: any) => error.code),
        ];
    """
    python = """
from pilotis import ApiError

async def handler(payload, ctx):
    charts = await ctx.api.view("charts")
    own = await ctx.as_caller.view("of-post", {"post": "a"})
    try:
        await ctx.api.view("of-post")
    except ApiError as error:
        return [charts["total_count"], own["data"][0]["votes"], error.code]
"""
    await functions.made("reader", {"index.ts": typescript})
    token = ada["access_token"]
    assert (await functions.call("reader", {}, token)).json()["result"] == [2, 3, "PARAMETER_MISSING"]
    await functions.made("reader-py", {"main.py": python}, "python")
    assert (await functions.call("reader-py", {}, token)).json()["result"] == [2, 3, "PARAMETER_MISSING"]


def test_views_move_between_apps_in_files(app: App, other_app: App, tmp_path: Path):
    server = app.server

    def pilotis(*words: str, status: int = 0) -> str:
        process = run(*words, *server.place)
        assert process.returncode == status, process
        return process.stdout or process.stderr

    async def tables() -> None:
        for one in (app, other_app):
            await one.table({"name": "string", "n": "int"}, title="things")

    async def rows() -> None:
        for name, n in (("a", 1), ("b", 2), ("c", 0)):
            await app.row("things", {"name": name, "n": n})

    asyncio.run(tables())
    file = tmp_path / "views.yaml"
    file.write_text(
        """
name: counted
table_id: things
pipeline:
  - $match: {n: {$gte: {$param: least}}}
  - $sort: {n: -1, name: 1}
params:
  least: {type: int, default: 1}
run_as: app
read: null
cache_seconds: 60
"""
    )
    assert "counted is saved" in pilotis("views", "set", str(file), "--app", app.app_id)
    shown = pilotis("views", "show", "--app", app.app_id)
    file.write_text(shown)
    for _ in range(2):
        pilotis("views", "set", str(file), "--app", other_app.app_id)
    assert pilotis("views", "show", "--app", other_app.app_id) == shown
    assert "things" in pilotis("views", "list", "--app", other_app.app_id)
    file.write_text(shown.replace("n: -1", "m: -1"))
    told = pilotis("views", "set", str(file), "--app", other_app.app_id, status=1)
    line = next(at for at, text in enumerate(file.read_text().splitlines(), 1) if "m: -1" in text)
    assert f"views.yaml:{line}: " in told
    assert "m" in told
    asyncio.run(rows())
    found = pilotis("views", "call", "counted", "--app", app.app_id).splitlines()
    assert [json.loads(line)["name"] for line in found] == ["b", "a"]
    found = json.loads(pilotis("views", "call", "counted", "--param", "least=2", "--app", app.app_id, "--json"))
    assert ([one["n"] for one in found["data"]], found["total_count"]) == ([2], 1)
    assert "no documents" in pilotis("views", "call", "counted", "--param", "least=9", "--app", app.app_id)
    for wrong, text in (("least", "NAME=VALUE"), ("least=x", "params.least"), ("most=1", "no parameter most")):
        assert text in pilotis("views", "call", "counted", "--param", wrong, "--app", app.app_id, status=1)
    assert "is deleted" in pilotis("views", "delete", "counted", "--app", app.app_id)
    assert "no view counted" in pilotis("views", "show", "counted", "--app", app.app_id, status=1)
