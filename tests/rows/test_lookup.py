"""The stage `$lookup` over HTTP: related rows in the documents of a pipeline."""

from __future__ import annotations

from typing import Any

import httpx

from tests.rows.test_related import Blog, blog
from tests.rules.test_rules import SIGNED_IN, save
from tests.support import App, assert_error

__all__ = ["blog"]


async def documents(client: httpx.AsyncClient, table: str, *stages: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": stages})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_a_row_to_which_a_field_refers(app: App, blog: Blog):
    posts, comments = blog.tables["posts"], blog.tables["comments"]
    async with app.client() as client:
        writer = {"$lookup": {"localField": "author", "as": "writer", "fields": ["name"]}}
        found = await documents(client, posts, {"$sort": {"n": 1}}, writer)
        assert [post["writer"] and post["writer"]["name"] for post in found] == ["Ada", "Eve", None]
        # The encrypted column is in no pipeline, and the others stay what they are.
        assert set(found[0]["writer"]) == {"id", "name", "created_at", "updated_at"}
        whole = await documents(client, posts, {"$lookup": {"localField": "author", "as": "author"}})
        assert whole[0]["author"]["id"] == blog.ids["Ada"]
        assert "secret" not in whole[0]["author"]
        # A group's key still refers to rows, and what was found can be asked for and counted.
        votes = [
            {"$group": {"_id": "$by", "likes": {"$sum": "$likes"}}},
            {"$lookup": {"localField": "_id", "as": "by"}},
            {"$match": {"by.name": {"$in": ["Ada", "Eve"]}}},
            {"$project": {"_id": 0, "name": "$by.name", "likes": 1}},
            {"$sort": {"likes": -1}},
        ]
        assert await documents(client, comments, *votes) == [{"likes": 36, "name": "Ada"}, {"likes": 30, "name": "Eve"}]


async def test_rows_that_refer_to_a_document(app: App, blog: Blog):
    posts, pairs = blog.title("posts"), blog.title("post_tags")
    listed = {
        "from": f"{blog.title('comments')}.post",
        "as": "best",
        "where": {"likes": {"$gte": 5}},
        "order_by": "likes",
        "order_direction": "desc",
        "limit": 2,
        "fields": ["text", "likes"],
    }
    async with app.client() as client:
        both = [
            {"$sort": {"n": 1}},
            {"$lookup": listed},
            {"$lookup": {"from": f"{pairs}.post", "as": "t", "limit": 50}},
        ]
        found = await documents(client, posts, *both)
        assert [[one["likes"] for one in post["best"]] for post in found] == [[11, 10], [], []]
        assert [len(post["t"]) for post in found] == [3, 0, 0]
        counted = await documents(client, posts, both[1], {"$unwind": "$best"}, {"$count": "n"})
        assert counted == [{"n": 2}]


async def test_each_table_has_its_own_rules(app: App, blog: Blog):
    posts, authors, comments = (blog.tables[name] for name in ("posts", "authors", "comments"))
    stages = [{"$sort": {"n": 1}}, {"$lookup": {"localField": "author", "as": "writer"}}]
    listed = {"$lookup": {"from": f"{blog.title('comments')}.post", "as": "c", "limit": 50, "fields": ["text"]}}
    ada = await app.member("ada lookup")
    await save(app, authors, {"read": {"name": "Eve"}, "columns": {"secret": {"read": None}}})
    await save(app, comments, {"read": {"$and": [SIGNED_IN, {"text": {"$ne": "c0"}}]}})
    async with app.client() as nobody, app.client(ada["access_token"]) as member, app.client(app.secret_key) as own:
        for client in (nobody, member):
            assert [post["writer"] and post["writer"]["name"] for post in await documents(client, posts, *stages)] == [
                None,
                "Eve",
                None,
            ]
        refused = await nobody.post("/v1/public/aggregate", json={"table_id": posts, "pipeline": [listed]})
        assert_error(refused, 401, "MEMBER_TOKEN_REQUIRED")
        assert [len(post["c"]) for post in await documents(member, posts, stages[0], listed)] == [11, 1, 0]
        assert [len(post["c"]) for post in await documents(own, posts, stages[0], listed)] == [12, 1, 0]
        assert (await documents(own, posts, *stages))[0]["writer"]["name"] == "Ada"
        # No row may be read at all: there is none, as for one that is missing.
        await save(app, authors, {"read": None})
        assert [post["writer"] for post in await documents(nobody, posts, *stages)] == [None, None, None]
        await save(app, comments, {"read": True, "columns": {"likes": {"read": None}}})
        by_hidden = {"$lookup": {**listed["$lookup"], "where": {"likes": {"$gt": 1}}}}
        refused = await nobody.post("/v1/public/aggregate", json={"table_id": posts, "pipeline": [by_hidden]})
        assert_error(refused, 403, "COLUMN_NOT_READABLE")
        hidden = {"$lookup": {**listed["$lookup"], "fields": ["likes"]}}
        refused = await nobody.post("/v1/public/aggregate", json={"table_id": posts, "pipeline": [hidden]})
        assert refused.status_code in {400, 403}
        (first, *_) = await documents(nobody, posts, stages[0], {"$lookup": {**listed["$lookup"], "fields": ["text"]}})
        assert "likes" not in first["c"][0]


WRONG: list[tuple[list[Any], str]] = [
    ([{"$lookup": 5}], "pipeline[0].$lookup"),
    ([{"$lookup": {"as": "x"}}], "pipeline[0].$lookup"),
    ([{"$lookup": {"localField": "author", "from": "a.b", "as": "x"}}], "pipeline[0].$lookup"),
    ([{"$lookup": {"localField": "author"}}], "pipeline[0].$lookup.as"),
    ([{"$lookup": {"localField": "author", "as": "a.b"}}], "pipeline[0].$lookup.as"),
    ([{"$lookup": {"localField": "author", "as": "$a"}}], "pipeline[0].$lookup.as"),
    ([{"$lookup": {"localField": "author", "as": "a", "limit": 5}}], "pipeline[0].$lookup.limit"),
    ([{"$lookup": {"localField": "title", "as": "a"}}], "pipeline[0].$lookup.localField"),
    ([{"$lookup": {"localField": ["author"], "as": "a"}}], "pipeline[0].$lookup.localField"),
    ([{"$lookup": {"localField": "nothing", "as": "a"}}], "pipeline[0].$lookup.localField"),
    ([{"$lookup": {"localField": "author", "as": "a", "fields": "name"}}], "pipeline[0].$lookup.fields"),
    ([{"$lookup": {"localField": "author", "as": "a", "fields": ["secret"]}}], "pipeline[0].$lookup.fields"),
    ([{"$lookup": {"localField": "author", "as": "a", "fields": ["x"]}}], "pipeline[0].$lookup.fields"),
    ([{"$lookup": {"from": "nothing.post", "as": "c", "limit": 1}}], "pipeline[0].$lookup.from"),
    ([{"$lookup": {"from": 5, "as": "c", "limit": 1}}], "pipeline[0].$lookup.from"),
    ([{"$lookup": {"from": "COMMENTS", "as": "c"}}], "pipeline[0].$lookup.limit"),
    ([{"$lookup": {"from": "COMMENTS", "as": "c", "limit": 51}}], "pipeline[0].$lookup.limit"),
    ([{"$lookup": {"from": "COMMENTS", "as": "c", "limit": True}}], "pipeline[0].$lookup.limit"),
    ([{"$lookup": {"from": "COMMENTS", "as": "c", "limit": 1, "where": []}}], "pipeline[0].$lookup.where"),
    ([{"$lookup": {"from": "COMMENTS", "as": "c", "limit": 1, "order_by": 5}}], "pipeline[0].$lookup.order_by"),
    ([{"$count": "n"}, {"$lookup": {"from": "COMMENTS", "as": "c", "limit": 1}}], "pipeline[1].$lookup.from"),
    ([{"$lookup": {"localField": "author", "as": "a"}}] * 6, "pipeline[5].$lookup"),
]


async def test_what_is_wrong_with_a_lookup(app: App, blog: Blog):
    comments = f"{blog.title('comments')}.post"
    async with app.client() as client:
        for given, place in WRONG:
            stages = [
                {"$lookup": stage["$lookup"] | {"from": comments}} if "COMMENTS" in str(stage) else stage
                for stage in given
            ]
            body = {"table_id": blog.tables["posts"], "pipeline": stages}
            answer = await client.post("/v1/public/aggregate", json=body)
            assert answer.status_code == 400, (given, answer.text)
            assert [detail["field"] for detail in answer.json()["details"]] == [place]


async def test_unknown_columns_of_the_other_table_are_named(app: App, blog: Blog):
    listed = {"from": f"{blog.title('comments')}.post", "as": "c", "limit": 1}
    async with app.client() as client:
        for more, place in (({"where": {"x": 1}}, "where.x"), ({"order_by": "x"}, "order_by")):
            body = {"table_id": blog.tables["posts"], "pipeline": [{"$lookup": listed | more}]}
            answer = assert_error(await client.post("/v1/public/aggregate", json=body), 400, "UNKNOWN_COLUMN")
            assert answer["details"][0]["field"] == f"pipeline[0].$lookup.{place}"
