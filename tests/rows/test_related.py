"""Related rows over HTTP: `expand` and `counts` beside the rows of lists, queries and single rows."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.rows.test_references import create, refers
from tests.rules.test_rules import OWN, SIGNED_IN, rows, save
from tests.support import App, assert_error


class Blog:
    """Authors, their posts, comments on these, and tags of posts by a table of pairs."""

    def __init__(self, app: App, suffix: str) -> None:
        self.app = app
        self.suffix = suffix
        self.ids: dict[str, str] = {}
        self.tables: dict[str, str] = {}

    def title(self, name: str) -> str:
        return f"{name} {self.suffix}"

    async def table(self, name: str, schema: dict[str, Any]) -> str:
        self.tables[name] = await self.app.table(schema, title=self.title(name))
        return self.tables[name]


@pytest.fixture
async def blog(app: App) -> Blog:
    blog = Blog(app, uuid4().hex[:8])
    authors = await blog.table("authors", {"name": "string", "secret": {"type": "string", "encrypted": True}})
    posts = await blog.table("posts", {"title": "string", "n": "int", "author": refers(blog.title("authors"))})
    comments = await blog.table(
        "comments", {"text": "string", "post": refers(posts), "by": refers(authors), "likes": "int"}
    )
    tags = await blog.table("tags", {"name": "string"})
    pairs = await blog.table("post_tags", {"post": refers(posts), "tag": refers(tags), "position": "int"})
    async with app.client() as client:
        for name in ("Ada", "Eve"):
            blog.ids[name] = await create(client, authors, name=name, secret=f"s{name}")
        for n, author in enumerate(["Ada", "Eve", None]):
            blog.ids[f"p{n}"] = await create(client, posts, title=f"p{n}", n=n, author=author and blog.ids[author])
        for n in range(12):
            by = blog.ids["Ada" if n % 2 else "Eve"]
            await create(client, comments, text=f"c{n}", post=blog.ids["p0"], by=by, likes=n)
        await create(client, comments, text="last", post=blog.ids["p1"], likes=0)
        for n, name in enumerate(("x", "y", "z")):
            blog.ids[name] = await create(client, tags, name=name)
            await create(client, pairs, post=blog.ids["p0"], tag=blog.ids[name], position=-n)
    return blog


async def query(client: httpx.AsyncClient, table: str, **body: Any) -> list[dict[str, Any]]:
    answer = await client.post(f"{rows(table)}/query", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_a_row_is_shown_with_the_row_to_which_it_refers(app: App, blog: Blog):
    posts, comments = blog.tables["posts"], blog.tables["comments"]
    async with app.client() as client:
        ada = (await client.get(f"{rows(blog.tables['authors'])}/{blog.ids['Ada']}")).json()
        assert ada["data"] == {"name": "Ada", "secret": "sAda"}
        post = (await client.get(f"{rows(posts)}/{blog.ids['p0']}", params={"expand": "author"})).json()
        plain = (await client.get(f"{rows(posts)}/{blog.ids['p0']}")).json()
        assert post == plain | {"expanded": {"author": ada}}
        page = (await client.get(rows(posts), params={"expand": "author"})).json()
        assert page["total_count"] == 3
        names = [row["expanded"]["author"] and row["expanded"]["author"]["data"]["name"] for row in page["data"]]
        assert names == ["Ada", "Eve", None]
        (found,) = await query(client, comments, where={"text": "c3"}, expand=["post.author", "by"])
        assert found["expanded"]["by"] == ada
        assert found["expanded"]["post"] == plain | {"expanded": {"author": ada}}
        options = {"post": {"fields": ["title"], "expand": {"author": {"fields": ["name"]}}}}
        (found,) = await query(client, comments, where={"text": "c3"}, expand=options, fields=["text"])
        assert (found["data"], found["expanded"]["post"]["data"]) == ({"text": "c3"}, {"title": "p0"})
        assert found["expanded"]["post"]["expanded"]["author"]["data"] == {"name": "Ada"}
        # A cursor, a deep offset and any order walk through the same rows.
        for more in ({"cursor": "first"}, {"offset": 0, "limit": 2}, {"order_by": "likes", "order_direction": "desc"}):
            expected = await query(client, comments, **more)
            found_rows = await query(client, comments, expand=["by"], **more)
            assert [{**row, "expanded": None} for row in found_rows] == [{**row, "expanded": None} for row in expected]
        row = (await client.get(f"{rows(posts)}/{blog.ids['p0']}", params={"fields": "n"})).json()
        assert row["data"] == {"n": 0}


async def test_a_row_is_shown_with_the_rows_that_refer_to_it(app: App, blog: Blog):
    posts = blog.tables["posts"]
    spec: dict[str, Any] = {"comments": {"from": f"{blog.title('comments')}.post"}}
    async with app.client() as client:
        found = await query(client, posts, expand=spec)
        texts = [[one["data"]["text"] for one in row["expanded"]["comments"]] for row in found]
        assert texts == [[f"c{n}" for n in range(10)], ["last"], []]
        assert [row.get("expanded_more") for row in found] == [["comments"], None, None]
        spec["comments"] |= {
            "where": {"likes": {"$gte": 3}},
            "order_by": "likes",
            "order_direction": "desc",
            "limit": 3,
            "fields": ["text"],
            "expand": {"by": {"fields": ["name"]}},
        }
        found = await query(client, posts, expand=spec)
        assert [one["data"] for one in found[0]["expanded"]["comments"]] == [{"text": f"c{n}"} for n in (11, 10, 9)]
        assert [one["expanded"]["by"]["data"]["name"] for one in found[0]["expanded"]["comments"]] == [
            "Ada",
            "Eve",
            "Ada",
        ]
        assert found[0]["expanded_more"] == ["comments"]
        spec["comments"]["limit"] = 9
        assert "expanded_more" not in (await query(client, posts, expand=spec))[0]
        through = {"through": f"{blog.tables['post_tags']}.post", "to": "tag", "order_by": "position"}
        found = await query(client, posts, expand={"tags": through})
        assert [[one["data"]["name"] for one in row["expanded"]["tags"]] for row in found] == [["z", "y", "x"], [], []]
        found = await query(client, posts, expand={"tags": through | {"limit": 2, "where": {"position": {"$lt": 0}}}})
        assert [one["data"]["name"] for one in found[0]["expanded"]["tags"]] == ["z", "y"]


async def test_related_rows_are_counted(app: App, blog: Blog):
    posts = blog.tables["posts"]
    source = f"{blog.title('comments')}.post"
    counts = {
        "all": {"from": source},
        "liked": {"from": source, "where": {"likes": {"$gt": 9}}},
        "any": {"from": source, "exists": True},
        "matching": {"from": source, "where": {"text": {"$matches": "^c1"}}},
    }
    async with app.client() as client:
        found = await query(client, posts, counts=counts)
        assert [row["counts"] for row in found] == [
            {"all": 12, "liked": 2, "any": True, "matching": 3},
            {"all": 1, "liked": 0, "any": True, "matching": 0},
            {"all": 0, "liked": 0, "any": False, "matching": 0},
        ]
        counts["matching"]["where"] = {"text": {"$matches": "("}}
        answer = await client.post(f"{rows(posts)}/query", json={"counts": counts})
        assert_error(answer, 400, "INVALID_REGEX")


async def test_each_table_has_its_own_rules(app: App, blog: Blog):
    posts, comments, authors = (blog.tables[name] for name in ("posts", "comments", "authors"))
    ada, eve = [(await app.member(name))["access_token"] for name in ("ada", "eve")]
    source = f"{comments}.post"
    async with (
        app.client(ada) as one,
        app.client(eve) as other,
        app.client() as public,
        app.client(app.secret_key) as own,
    ):
        await save(app, comments, {"list": OWN, "read": OWN, "create": SIGNED_IN})
        await create(one, comments, text="of ada", post=blog.ids["p2"])
        request = {"expand": {"comments": {"from": source}}, "counts": {"n": {"from": source}}}
        for client, texts in ((one, ["of ada"]), (other, []), (own, ["of ada"])):
            row = (await query(client, posts, **request))[2]
            assert [found["data"]["text"] for found in row["expanded"]["comments"]] == texts
            assert row["counts"] == {"n": len(texts)}
        # Who may list none of them is told so, as by the list.
        assert_error(await public.post(f"{rows(posts)}/query", json=request), 401, "MEMBER_TOKEN_REQUIRED")
        # A row that one may not read is like none, and a hidden column stays hidden.
        rules = {"list": True, "read": {"name": "Ada"}, "columns": {"secret": {"read": None}}}
        await save(app, authors, rules)
        found = await query(public, posts, expand=["author"])
        assert [row["expanded"]["author"] and row["expanded"]["author"]["data"] for row in found] == [
            {"name": "Ada"},
            None,
            None,
        ]
        answer = await public.post(f"{rows(posts)}/query", json={"expand": {"author": {"fields": ["secret"]}}})
        assert_error(answer, 403, "COLUMN_NOT_READABLE")
        assert (await query(own, posts, expand=["author"]))[1]["expanded"]["author"]["data"]["secret"] == "sEve"
        await save(app, authors, {"create": True})
        assert [row["expanded"] for row in await query(public, posts, expand=["author"])] == [{"author": None}] * 3
        # A reference that is hidden from the caller shows nothing either.
        await save(app, posts, {"list": True, "read": True, "columns": {"author": {"read": None}}})
        answer = await public.post(f"{rows(posts)}/query", json={"expand": ["author"]})
        assert_error(answer, 403, "COLUMN_NOT_READABLE")
        answer = await public.post(f"{rows(authors)}/query", json={"expand": {"posts": {"from": f"{posts}.author"}}})
        assert_error(answer, 403, "RULE_DENIED")


async def test_what_cannot_be_expanded(app: App, blog: Blog):
    posts = blog.tables["posts"]
    source = f"{blog.title('comments')}.post"
    too_deep: dict[str, Any] = {"from": source, "expand": {"post": {"expand": {"author": {"expand": {"x": {}}}}}}}
    wrong: list[tuple[Any, str, str]] = [
        (["nobody"], "UNKNOWN_REFERENCE", "expand"),
        (["title"], "UNKNOWN_REFERENCE", "expand"),
        (["author.name"], "UNKNOWN_REFERENCE", "expand"),
        ({"x": {"from": "nowhere.post"}}, "UNKNOWN_REFERENCE", "expand.x.from"),
        ({"x": {"from": f"{blog.title('comments')}.by"}}, "UNKNOWN_REFERENCE", "expand.x.from"),
        ({"x": {"from": source, "limit": 0}}, "VALIDATION_FAILED", "expand.x.limit"),
        ({"x": {"from": source, "limit": 201}}, "VALIDATION_FAILED", "expand.x.limit"),
        ({"x": {"from": source, "to": "y"}}, "VALIDATION_FAILED", "expand.x"),
        ({"author": {"limit": 1}}, "VALIDATION_FAILED", "expand.author.limit"),
        ({"x": {"from": source, "where": {"likes": {"$no": 1}}}}, "INVALID_OPERATOR", "expand.x.where.likes.$no"),
        ({"x": {"from": source, "where": {"nothing": 1}}}, "UNKNOWN_COLUMN", "expand.x.where.nothing"),
        ({"x": {"from": source, "order_by": "nothing"}}, "UNKNOWN_COLUMN", "expand.x.order_by"),
        ({"x": {"from": source, "fields": ["nothing"]}}, "UNKNOWN_COLUMN", "expand.x.fields[0]"),
        ({'x"y': {"from": source}}, "VALIDATION_FAILED", 'expand.x"y'),
        ({"x": too_deep}, "VALIDATION_FAILED", "expand.x.expand.post.expand.author.expand"),
        ({f"x{n}": {"from": source} for n in range(21)}, "VALIDATION_FAILED", "expand"),
        ({"x": {"from": source, "limit": 200}}, "RESULT_TOO_LARGE", ""),
    ]
    async with app.client() as client:
        for expand, code, field in wrong:
            answer = await client.post(f"{rows(posts)}/query", json={"expand": expand, "limit": 1000})
            body = assert_error(answer, 400, code)
            assert [one["field"] for one in body.get("details", [])] == ([field] if field else []), body
        answer = await client.post(f"{rows(posts)}/query", json={"limit": 1000, "counts": {"n": {"from": source}}})
        assert_error(answer, 400, "RESULT_TOO_LARGE")
        answer = await client.get(rows(posts), params={"expand": "nobody"})
        assert_error(answer, 400, "UNKNOWN_REFERENCE")


async def test_conditions_go_through_references(app: App, blog: Blog):
    posts, comments, authors = (blog.tables[name] for name in ("posts", "comments", "authors"))
    token = (await app.member("ada"))["access_token"]

    async def texts(client: httpx.AsyncClient, where: dict[str, Any]) -> list[str]:
        return [row["data"]["text"] for row in await query(client, comments, where=where, limit=100)]

    async with app.client() as client, app.client(token) as member:
        by_ada = [f"c{n}" for n in range(1, 12, 2)]
        assert await texts(client, {"by.name": "Ada"}) == by_ada
        assert await texts(client, {"post.author.name": "Eve"}) == ["last"]
        assert await texts(client, {"by.secret": "sAda", "likes": {"$gt": 8}}) == ["c9", "c11"]
        assert await texts(client, {"$or": [{"by.name": {"$startsWith": "A"}}, {"post.n": 1}]}) == [*by_ada, "last"]
        assert await texts(client, {"by.name": {"$ne": "Ada"}}) == [f"c{n}" for n in range(0, 12, 2)]
        assert len(await texts(client, {"$not": {"by.name": "Ada"}})) == 7
        assert await texts(client, {"by.name": {"$matches": "^E"}, "likes": 4}) == ["c4"]
        assert await texts(client, {"by.id": blog.ids["Eve"], "likes": {"$lt": 3}}) == ["c0", "c2"]
        for where, field, code in (
            ({"by.nothing": 1}, "where.by.nothing", "UNKNOWN_COLUMN"),
            ({"text.name": 1}, "where.text.name", "UNKNOWN_COLUMN"),
            ({"by.name": {"$no": 1}}, "where.by.name.$no", "INVALID_OPERATOR"),
            ({"post.author.id.x": 1}, "where.post.author.id.x", "UNKNOWN_COLUMN"),
            ({"$or": [{"by.name": str(n)} for n in range(21)]}, "where", "WHERE_TOO_COMPLEX"),
        ):
            answer = await client.post(f"{rows(comments)}/query", json={"where": where})
            body = assert_error(answer, 400, code)
            assert [one["field"] for one in body["details"]] == [field], body
        # Paths into objects are no steps.
        places = await blog.table("rooms", {"place": "object", "owner": refers(authors)})
        many = {"$or": [{"place.x": n} for n in range(30)]}
        assert await query(client, places, where=many) == []
        # Only rows that the caller may read, and columns likewise.
        await save(app, authors, {"read": {"name": "Eve"}, "columns": {"secret": {"read": None}}})
        assert await texts(client, {"by.name": {"$in": ["Ada", "Eve"]}}) == [f"c{n}" for n in range(0, 12, 2)]
        answer = await client.post(f"{rows(comments)}/query", json={"where": {"by.secret": "x"}})
        assert_error(answer, 403, "COLUMN_NOT_READABLE")
        await save(app, authors, {"read": SIGNED_IN})
        assert await texts(client, {"by.name": {"$in": ["Ada", "Eve"]}}) == []
        assert len(await texts(member, {"by.name": {"$in": ["Ada", "Eve"]}})) == 12
        # Changes and deletions by such a condition.
        change = {"where": {"by.name": "Ada"}, "data": {"likes": -1}}
        assert (await member.post(f"{rows(comments)}/update-where", json=change)).json() == {"updated_count": 6}
        answer = await client.post(f"{rows(comments)}/delete-where", json={"where": {"by.name": "Ada"}})
        assert answer.json() == {"deleted_count": 0}
        answer = await member.post(f"{rows(comments)}/delete-where", json={"where": {"by.name": "Ada"}})
        assert answer.json() == {"deleted_count": 6}
        assert len(await query(client, posts)) == 3


async def test_searches_show_related_rows_too(app: App, blog: Blog):
    comments, authors = blog.tables["comments"], blog.tables["authors"]
    places = await blog.table("places", {"spot": "object", "owner": refers(authors)})
    spot = {"latitude": 35.1, "longitude": 129.1}
    async with app.client() as client:
        await create(client, places, spot=spot, owner=blog.ids["Eve"])
        await create(client, places, spot=spot)

        async def asked(what: str, **body: Any) -> list[dict[str, Any]]:
            answer = await client.post(f"/v1/public/{what}", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()["data"]

        request: dict[str, Any] = {"table_id": comments, "query": "last", "expand": {"post": {"expand": ["author"]}}}
        (found,) = await asked("search", **request)
        assert found["expanded"]["post"]["expanded"]["author"]["data"] == {"name": "Eve", "secret": "sEve"}
        assert {"score", "highlights", "data"} <= found.keys()
        assert len(await asked("search", **request, where={"post.author.name": "Eve"})) == 1
        assert await asked("search", **request, where={"post.author.name": "Ada"}) == []
        tags = {"table_id": blog.tables["tags"], "query": "x"}
        source = f"{blog.title('post_tags')}.tag"
        (found,) = await asked("search", **tags, counts={"n": {"from": source}})
        assert found["counts"] == {"n": 1}
        near = {"table_id": places, "field": "spot", "near": {"center": spot}, "expand": ["owner"]}
        found_owners = {
            one["expanded"]["owner"] and one["expanded"]["owner"]["data"]["name"] for one in await asked("geo", **near)
        }
        assert found_owners == {"Eve", None}
        assert len(await asked("geo", **near, where={"owner.name": "Eve"})) == 1
        completion = {"table_id": comments, "query": "la", "field": "text", "where": {"by.name": "Ada"}}
        answer = await client.post("/v1/public/autocomplete", json=completion)
        assert answer.json() == {"suggestions": []}
        assert_error(await client.post("/v1/public/search", json=request | {"expand": ["x"]}), 400, "UNKNOWN_REFERENCE")
        wide = request | {"expand": {"n": {"from": source}}}
        assert_error(await client.post("/v1/public/search", json=wide), 400, "UNKNOWN_REFERENCE")
