"""References over HTTP: rows refer to rows that are there, and their deletion takes along what it is to take along."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.console import owner_of
from tests.events.conftest import node, recorder  # noqa: F401
from tests.events.listening import Recorder, target
from tests.rules.test_rules import OWN, rows, save
from tests.services import Node
from tests.support import App, assert_error
from tests.waiting import until
from tests.whole import times


def refers(table: str, on_delete: str = "restrict", **options: Any) -> dict[str, Any]:
    return {"type": "uuid", "references": {"table": table, "on_delete": on_delete}, **options}


async def blog(app: App, on_delete: str = "restrict", **more: str) -> tuple[str, str]:
    """Two tables, authors and posts, which refer to authors; and their titles' suffix."""
    suffix = uuid4().hex[:8]
    authors = await app.table({"name": "string"}, title=f"authors {suffix}")
    schema = {"title": "string", "author": refers(f"authors {suffix}", on_delete)}
    posts = await app.table(schema, title=f"posts {suffix}", **more)
    return authors, posts


async def create(client: httpx.AsyncClient, table: str, **data: Any) -> str:
    answer = await client.post(rows(table), json={"data": data})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def total(client: httpx.AsyncClient, table: str) -> int:
    """The stored number of rows, which is that of the rows."""
    stored = (await client.get(rows(table), params={"limit": 1})).json()["total_count"]
    counted = (await client.post(f"{rows(table)}/query", json={"where": {"id": {"$isNull": False}}})).json()
    assert stored == counted["total_count"]
    return stored


def assert_missing(answer: httpx.Response, field: str = "data.author", **more: Any) -> None:
    body = assert_error(answer, 400, "REFERENCE_NOT_FOUND", **more)
    assert [(one["field"], one["code"]) for one in body["details"]] == [(field, "REFERENCE_NOT_FOUND")]


async def test_every_way_to_write_asks_for_the_row(app: App):
    authors, posts = await blog(app)
    nobody = str(uuid4())
    async with app.client() as client:
        ada = await create(client, authors, name="Ada")
        assert_missing(await client.post(rows(posts), json={"data": {"title": "x", "author": nobody}}))
        first = await create(client, posts, title="first", author=ada)
        await create(client, posts, title="by nobody")
        await create(client, posts, title="null", author=None)
        answers = await asyncio.gather(
            *(
                client.post(rows(posts), json={"data": {"title": "many", "author": nobody if n % 3 else ada}})
                for n in range(12)
            )
        )
        assert [answer.status_code for answer in answers] == [400 if n % 3 else 201 for n in range(12)]
        assert_missing(await client.patch(f"{rows(posts)}/{first}", json={"data": {"author": nobody}}))
        assert (await client.patch(f"{rows(posts)}/{first}", json={"data": {"author": None}})).status_code == 200
        answer = await client.patch(f"{rows(posts)}/{first}", json={"data": {"author": ada}})
        assert answer.status_code == 200, answer.text
        bulk = (
            await client.post(rows(posts), json={"data": [{"author": ada}, {"author": nobody}, {"title": "z"}]})
        ).json()
        assert [(one["index"], one["code"]) for one in bulk["failed"]] == [(1, "REFERENCE_NOT_FOUND")]
        assert bulk["success"] == 2
        change = {"where": {"title": "first"}, "data": {"author": nobody}}
        assert_missing(await client.post(f"{rows(posts)}/update-where", json=change))
        operations = [
            {"type": "create", "table_id": authors, "data": {"name": "Eve"}},
            {"type": "create", "table_id": posts, "data": {"title": "ref", "author": {"$ref": 0}}},
        ]
        done = await client.post("/v1/public/transactions", json={"operations": operations})
        assert done.status_code == 200, done.text
        wrong = {"type": "update", "table_id": posts, "doc_id": first, "data": {"author": nobody}}
        answer = await client.post("/v1/public/transactions", json={"operations": [operations[0], wrong]})
        assert_missing(answer, "operations[1].data.author", failed_index=1)
        bad = {"type": "create", "table_id": posts, "data": {"author": nobody}}
        answer = await client.post("/v1/public/transactions", json={"operations": [operations[0], bad]})
        assert_missing(answer, "operations[1].data.author", failed_index=1)
        own_id = "0190a000-0000-7000-8000-00000000aaaa"
        upsert = {"key": "id", "data": {"id": own_id, "author": nobody}}
        assert_missing(await client.post(f"{rows(posts)}/upsert", json=upsert))
        upsert["data"]["author"] = ada
        assert (await client.post(f"{rows(posts)}/upsert", json=upsert)).status_code == 201
        upsert["data"]["author"] = nobody
        assert_missing(await client.post(f"{rows(posts)}/upsert", json=upsert))
        assert await total(client, authors) == 2
        assert await total(client, posts) == 3 + 4 + 2 + 1 + 1


async def test_an_import_asks_for_the_row(app: App):
    authors, posts = await blog(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        ada = await create(client, authors, name="Ada")
        lines = f"title,author\none,{ada}\ntwo,{uuid4()}\nthree,{ada}\nfour,\n"
        answer = await console.post(f"/tables/{posts}/import", content=lines, headers={"Content-Type": "text/csv"})
        assert answer.status_code == 200, answer.text
        done = answer.json()
        assert (done["created"], done["rejected"]) == (3, 1), done
        assert await total(client, posts) == 3


async def test_a_referenced_row_stays(app: App):
    authors, posts = await blog(app)
    async with app.client() as client, app.client(app.secret_key) as own_side:
        ada = await create(client, authors, name="Ada")
        post = await create(client, posts, title="x", author=ada)
        body = assert_error(await client.delete(f"{rows(authors)}/{ada}"), 409, "ROW_REFERENCED")
        assert body["table"].startswith("posts ")
        assert (body["column"], body.get("count")) == ("author", None)
        body = assert_error(await own_side.delete(f"{rows(authors)}/{ada}"), 409, "ROW_REFERENCED")
        assert body["count"] == 1
        everything = {"all": True}
        assert_error(await client.post(f"{rows(authors)}/delete-where", json=everything), 409, "ROW_REFERENCED")
        gone = {"type": "delete", "table_id": authors, "doc_id": ada}
        answer = await client.post("/v1/public/transactions", json={"operations": [gone]})
        assert_error(answer, 409, "ROW_REFERENCED", failed_index=0)
        assert await total(client, authors) == 1
        free = {"type": "delete", "table_id": posts, "doc_id": post}
        answer = await client.post("/v1/public/transactions", json={"operations": [free, gone]})
        assert answer.status_code == 200, answer.text
        assert (await total(client, authors), await total(client, posts)) == (0, 0)


@pytest.mark.parametrize("way", ["one", "where", "batch", "transaction"])
async def test_a_deletion_takes_along_what_refers_to_the_row(app: App, node: Node, recorder: Recorder, way: str):  # noqa: F811
    authors, posts = await blog(app, "cascade")
    suffix = (await titles(app))[posts].removeprefix("posts ")
    comments = await app.table({"post": refers(f"posts {suffix}", "cascade"), "by": refers(f"authors {suffix}")})
    likes = await app.table({"post": refers(f"posts {suffix}", "set_null"), "n": "int"})
    async with app.client() as client:
        ada, eve = [await create(client, authors, name=name) for name in ("Ada", "Eve")]
        first, second = [await create(client, posts, title="x", author=ada) for _ in range(2)]
        other = await create(client, posts, title="y", author=eve)
        for post in (first, first, second, other):
            await create(client, comments, post=post, by=ada if post == first else eve)
        kept = [await create(client, likes, post=post, n=1) for post in (first, second, other)]
        await node.services.events.listen(target(app))
        match way:
            case "one":
                answer = await client.delete(f"{rows(authors)}/{ada}")
            case "where":
                answer = await client.post(f"{rows(authors)}/delete-where", json={"where": {"name": "Ada"}})
            case "batch" | "transaction":
                path = "/v1/public/batch" if way == "batch" else "/v1/public/transactions"
                operation = {"type": "delete", "table_id": authors, "doc_id": ada}
                answer = await client.post(path, json={"operations": [operation]})
        assert answer.status_code == 200, answer.text
        assert [await total(client, table) for table in (authors, posts, comments, likes)] == [1, 1, 1, 3]
        read = [(await client.get(f"{rows(likes)}/{like}")).json()["data"] for like in kept]
        assert read == [{"n": 1, "post": None}, {"n": 1, "post": None}, {"n": 1, "post": other}]
        deleted = [(authors, 1), (posts, 2), (comments, 3)]
        expected = [("row.deleted", table) for table, number in deleted for _ in range(number)]
        expected += [("row.updated", likes)] * 2
        await until(lambda: len(recorder.events) >= len(expected))
        assert sorted((event.type, str(event.table_id)) for event in recorder.events) == sorted(expected)


async def titles(app: App) -> dict[str, str]:
    async with app.client() as client:
        return {one["id"]: one["title"] for one in (await client.get("/v1/public/tables")).json()["tables"]}


async def test_a_hidden_row_is_like_one_that_is_missing(app: App):
    notes = await app.table({"text": "string", "open": "boolean"}, title=f"notes {uuid4().hex}")
    title = (await titles(app))[notes]
    marks = await app.table({"note": refers(title), "n": "int"})
    token, other = [(await app.member(name))["access_token"] for name in ("ada", "eve")]
    async with app.client(token) as owner, app.client(other) as stranger, app.client(app.secret_key) as own_side:
        note = await create(owner, notes, text="x")
        await save(app, notes, {"read": OWN, "list": OWN, "create": {"$member": {}}})
        mark = await create(owner, marks, note=note)
        missing = await stranger.post(rows(marks), json={"data": {"note": str(uuid4())}})
        hidden = await stranger.post(rows(marks), json={"data": {"note": note}})
        assert_missing(missing, "data.note")
        assert_missing(hidden, "data.note")
        own_mark = await create(stranger, marks, n=1)
        assert_missing(await stranger.patch(f"{rows(marks)}/{own_mark}", json={"data": {"note": note}}), "data.note")
        change = {"data": {"note": note}, "where": {"n": 1}}
        assert_missing(await stranger.post(f"{rows(marks)}/update-where", json=change), "data.note")
        operation = {"type": "create", "table_id": marks, "data": {"note": note}}
        answer = await stranger.post("/v1/public/transactions", json={"operations": [operation]})
        assert_missing(answer, "operations[0].data.note", failed_index=0)
        # Nobody without a token reads a note.
        async with app.client() as public:
            assert_missing(await public.post(rows(marks), json={"data": {"note": note}}), "data.note")
        await create(own_side, marks, note=note)
        # A rule that denies the row is told before its reference.
        await save(app, marks, {"read": True, "create": {"n": {"$gt": 0}}})
        assert_error(await stranger.post(rows(marks), json={"data": {"note": note, "n": 0}}), 403, "RULE_DENIED")
        bulk = {"data": [{"n": 0, "note": note}, {"n": 1, "note": note}, {"n": 2}]}
        done = (await stranger.post(rows(marks), json=bulk)).json()
        assert [one["code"] for one in done["failed"]] == ["RULE_DENIED", "REFERENCE_NOT_FOUND"]
        assert (await own_side.delete(f"{rows(marks)}/{mark}")).status_code == 200


async def test_the_public_key_refers_to_no_table_with_rules(app: App):
    notes = await app.table({"text": "string"}, title=f"notes {uuid4().hex}")
    title = (await titles(app))[notes]
    marks = await app.table({"n": "int"})
    await save(app, notes, {"read": True})
    body = {"title": f"x {title}", "schema": {"note": refers(title)}, "access_level": "Public"}
    column = {"name": "note", "data_type": "uuid", "references": {"table": notes}}
    async with app.client() as public, app.client(app.secret_key) as own_side:
        assert_error(await public.post("/v1/public/tables", json=body), 403, "SCHEMA_LOCKED")
        assert_error(await public.post(f"/v1/public/tables/{marks}/columns", json=column), 403, "SCHEMA_LOCKED")
        plain = column | {"references": None}
        assert (await public.post(f"/v1/public/tables/{marks}/columns", json=plain)).status_code == 201
        change = {"references": {"table": title}}
        path = f"/v1/public/tables/{marks}/columns/note"
        assert_error(await public.patch(path, json=change), 403, "SCHEMA_LOCKED")
        assert (await own_side.patch(path, json=change)).status_code == 200
        shown = (await public.get(f"/v1/public/tables/{marks}")).json()["schema"]["note"]
        assert shown == {"type": "uuid", "references": {"table": title, "on_delete": "restrict"}}
        columns = (await public.get(f"/v1/public/tables/{marks}/columns")).json()["columns"]
        assert columns[1]["references"] == {"table": title, "table_id": notes, "on_delete": "restrict"}
        back = (await public.get(f"/v1/public/tables/{notes}")).json()["referenced_by"]
        assert [(one["table_id"], one["column"], one["on_delete"]) for one in back] == [(marks, "note", "restrict")]


@pytest.mark.parametrize(
    ("definition", "field", "code"),
    [
        ({"type": "string", "references": {"table": "$"}}, "schema.x.references", "INVALID_VALUE"),
        ({"type": "uuid", "encrypted": True, "references": {"table": "$"}}, "schema.x.references", "INVALID_VALUE"),
        ({"type": "uuid", "references": {"table": "nowhere"}}, "schema.x.references.table", "TABLE_NOT_FOUND"),
        ({"type": "uuid", "references": {"table": ""}}, "schema.x.references.table", None),
        ({"type": "uuid", "references": {}}, "schema.x.references", None),
        ({"type": "uuid", "references": {"table": "$", "member": True}}, "schema.x.references", None),
        ({"type": "string", "references": {"member": True, "key": "a"}}, "schema.x.references.key", None),
        (
            {"type": "string", "references": {"member": True, "on_delete": "restrict"}},
            "schema.x.references.on_delete",
            None,
        ),
        ({"type": "uuid", "references": {"table": "$", "on_delete": "keep"}}, "schema.x.references.on_delete", None),
        ({"type": "uuid", "references": {"member": True}}, "schema.x.references", None),
        ({"type": "uuid", "references": "$"}, "schema.x.references", None),
        ({"type": "uuid", "references": {"table": "$", "on_delete": "no"}}, "schema.x.references.on_delete", None),
        (
            {"type": "uuid", "required": True, "references": {"table": "$", "on_delete": "set_null"}},
            "schema.x.references.on_delete",
            "INVALID_VALUE",
        ),
    ],
)
async def test_what_is_no_reference(app: App, definition: dict[str, Any], field: str, code: str | None):
    target_table = await app.table({"n": "int"})
    reference = definition["references"]
    if isinstance(reference, dict) and reference.get("table") == "$":
        definition = definition | {"references": reference | {"table": target_table}}
    async with app.client() as client:
        body = {"title": f"x {uuid4()}", "schema": {"x": definition}, "access_level": "Public"}
        answer = await client.post("/v1/public/tables", json=body)
        (detail,) = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
        assert detail["field"] == field
        assert code is None or detail["code"] == code


async def test_a_schema_with_references_changes(app: App):
    authors, posts = await blog(app)
    author_title, post_title = (await titles(app))[authors], (await titles(app))[posts]
    table = f"/v1/public/tables/{posts}"
    async with app.client() as client, owner_of(app).client(app) as console:
        ada = await create(client, authors, name="Ada")
        post = await create(client, posts, title="x", author=ada)
        # A table to which another refers stays; renamed, it is shown by its new name.
        assert_error(await client.delete(f"/v1/public/tables/{authors}"), 409, "TABLE_REFERENCED")
        renamed = {"title": f"writers {author_title}", "schema": {"name": "string"}, "access_level": "Public"}
        assert (await client.patch(f"/v1/public/tables/{authors}", json=renamed)).status_code == 200
        assert (await client.get(table)).json()["schema"]["author"]["references"]["table"] == renamed["title"]
        # A renamed column, another action, and none.
        assert (
            await console.post(f"/tables/{posts}/columns/author/rename", json={"name": "writer"})
        ).status_code == 200
        assert_missing(await client.post(rows(posts), json={"data": {"writer": str(uuid4())}}), "data.writer")
        path = f"{table}/columns/writer"
        to = {"references": {"table": authors, "on_delete": "cascade"}}
        assert (await client.patch(path, json=to)).status_code == 200
        assert (await client.patch(path, json={"data_type": "string"})).status_code == 400
        assert (await client.delete(f"{rows(authors)}/{ada}")).status_code == 200
        assert await total(client, posts) == 0
        assert (await client.patch(path, json={"references": None})).status_code == 200
        loose = await create(client, posts, writer=str(uuid4()))
        body = assert_error(await client.patch(path, json=to), 409, "ROWS_DO_NOT_FIT")
        assert [one["field"] for one in body["details"]] == [loose]
        preview = await console.post(
            f"/tables/{posts}/schema-preview",
            json={
                "title": post_title,
                "access_level": "Public",
                "schema": {"title": "string", "writer": {"type": "uuid", **to}},
            },
        )
        assert preview.json()["changes"][0]["rows_that_do_not_fit"] == 1, preview.text
        assert (await client.delete(f"{rows(posts)}/{loose}")).status_code == 200
        assert (await client.patch(path, json=to)).status_code == 200
        # The column goes to the trash and comes back, once with its reference, once without.
        eve = await create(client, authors, name="Eve")
        post = await create(client, posts, title="y", writer=eve)
        for is_kept in (True, False):
            assert (await client.delete(path)).status_code == 200
            assert "referenced_by" not in (await client.get(f"/v1/public/tables/{authors}")).json()
            if not is_kept:
                assert (await client.delete(f"{rows(authors)}/{eve}")).status_code == 200
            assert (await console.post(f"/trash/tables/{posts}/columns/2/restore")).status_code == 200
            found = (await client.get(table)).json()["schema"]["writer"]
            assert found == (
                {"type": "uuid", "references": to["references"] | {"table": renamed["title"]}} if is_kept else "uuid"
            )
        assert (await client.get(f"{rows(posts)}/{post}")).json()["data"]["writer"] == eve


async def test_a_table_with_references_goes_to_the_trash_and_comes_back(app: App):
    authors, posts = await blog(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        ada, eve = [await create(client, authors, name=name) for name in ("Ada", "Eve")]
        await create(client, posts, author=ada)
        assert (await client.delete(f"/v1/public/tables/{posts}")).status_code == 200
        # What is in the trash holds nothing.
        assert (await client.delete(f"{rows(authors)}/{eve}")).status_code == 200
        assert (await console.post(f"/trash/tables/{posts}/restore")).status_code == 200
        assert_error(await client.delete(f"{rows(authors)}/{ada}"), 409, "ROW_REFERENCED")
        assert (await client.delete(f"/v1/public/tables/{posts}")).status_code == 200
        assert (await client.delete(f"/v1/public/tables/{authors}")).status_code == 200
        assert (await console.post(f"/trash/tables/{posts}/restore")).status_code == 200
        assert (await client.get(f"/v1/public/tables/{posts}")).json()["schema"]["author"] == "uuid"
        assert (await console.delete(f"/trash/tables/{authors}")).status_code in {200, 204}


async def test_circles_and_rows_that_refer_to_their_own_table(app: App):
    suffix = uuid4().hex[:8]
    tree = await app.table({"n": "int", "parent": refers(f"tree {suffix}", "cascade")}, title=f"tree {suffix}")
    other = await app.table({"tree": refers(f"tree {suffix}", "cascade")}, title=f"other {suffix}")
    async with app.client() as client:
        circle = {"name": "other", "data_type": "uuid", "references": {"table": other, "on_delete": "cascade"}}
        assert_error(await client.post(f"/v1/public/tables/{tree}/columns", json=circle), 400, "CASCADE_CYCLE")
        circle["references"]["on_delete"] = "restrict"
        assert (await client.post(f"/v1/public/tables/{tree}/columns", json=circle)).status_code == 201
        root = await create(client, tree, n=0)
        levels = [root]
        for n in range(1, 5):
            levels.append(await create(client, tree, n=n, parent=levels[-1]))
            await create(client, other, tree=levels[-1])
        assert (await client.patch(f"{rows(tree)}/{root}", json={"data": {"parent": levels[-1]}})).status_code == 200
        apart = await create(client, tree, n=9)
        assert (await client.delete(f"{rows(tree)}/{levels[2]}")).status_code == 200
        assert (await total(client, tree), await total(client, other)) == (1, 0)
        assert (await client.get(f"{rows(tree)}/{apart}")).status_code == 200
        # A table that nothing but itself refers to may go.
        assert (await client.delete(f"/v1/public/tables/{other}")).status_code == 409


async def test_a_deletion_takes_along_a_bounded_number_of_rows(app: App):
    authors, posts = await blog(app, "cascade")
    async with app.client() as client, owner_of(app).client(app) as console:
        assert (await console.patch("/limits", json={"cascade_rows": 5})).status_code == 200
        ada = await create(client, authors, name="Ada")
        for _ in range(5):
            await create(client, posts, author=ada)
        assert_error(await client.delete(f"{rows(authors)}/{ada}"), 409, "TOO_MANY_REFERENCES")
        assert_error(await client.post(f"{rows(authors)}/delete-where", json={"all": True}), 409, "TOO_MANY_REFERENCES")
        assert (await total(client, authors), await total(client, posts)) == (1, 5)
        assert (await client.post(f"{rows(posts)}/delete-where", json={"all": True})).status_code == 200
        assert (await client.delete(f"{rows(authors)}/{ada}")).status_code == 200
        assert (await console.patch("/limits", json={"cascade_rows": None})).status_code == 200


@pytest.mark.parametrize("on_delete", ["restrict", "cascade", "set_null"])
async def test_races_of_insertion_and_deletion_leave_no_row_that_refers_to_none(app: App, on_delete: str):
    authors, posts = await blog(app, on_delete)
    async with app.client() as client:

        async def race(n: int) -> None:
            ada = await create(client, authors, name=str(n))
            made = [client.post(rows(posts), json={"data": {"title": "x", "author": ada}}) for _ in range(4)]
            gone = client.delete(f"{rows(authors)}/{ada}")
            answers = await asyncio.gather(*made[:2], gone, *made[2:])
            assert {answer.status_code for answer in answers} <= {200, 201, 400, 409}, [one.text for one in answers]

        for _ in range(times(1, whole=50)):
            await asyncio.gather(*(race(n) for n in range(20)))
        left = {row["id"] for row in await everything(client, authors)}
        known = [row["data"].get("author") for row in await everything(client, posts)]
        assert {author for author in known if author} <= left
        assert (await total(client, authors), await total(client, posts)) == (len(left), len(known))
    app.server.assert_no_failure()


@pytest.mark.parametrize("on_delete", ["restrict", "cascade", "set_null"])
async def test_references_that_move_while_their_rows_are_deleted(app: App, on_delete: str):
    authors, posts = await blog(app, on_delete)
    async with app.client() as client:

        async def race(n: int) -> None:
            ada, eve = [await create(client, authors, name=str(n)) for _ in range(2)]
            first, second = [await create(client, posts, author=author) for author in (ada, eve)]
            move = [
                client.patch(f"{rows(posts)}/{post}", json={"data": {"author": author}})
                for post, author in ((first, eve), (second, ada))
            ]
            gone = [client.delete(f"{rows(authors)}/{author}") for author in (eve, ada)]
            answers = await asyncio.gather(*move, *gone)
            assert {one.status_code for one in answers} <= {200, 400, 404, 409}, [one.text for one in answers]

        for _ in range(times(1, whole=34)):
            await asyncio.gather(*(race(n) for n in range(15)))
        left = {row["id"] for row in await everything(client, authors)}
        known = [row["data"].get("author") for row in await everything(client, posts)]
        assert {author for author in known if author} <= left
        assert (await total(client, authors), await total(client, posts)) == (len(left), len(known))
    app.server.assert_no_failure()


async def everything(client: httpx.AsyncClient, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = "first"
    while cursor:
        page = (await client.get(rows(table), params={"cursor": cursor, "limit": 1000})).json()
        found += page["data"]
        cursor = page["next_cursor"]
    return found
