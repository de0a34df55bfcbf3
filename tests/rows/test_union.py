"""The stage `$unionWith` over HTTP: documents of several tables in one pipeline, each under its own rules."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.console import owner_of
from tests.rows.test_lookup import documents
from tests.rows.test_references import create, refers
from tests.rules.test_rules import OWN, save
from tests.support import App, assert_error
from tests.views.support import called, shown
from tests.views.support import save as save_view


async def ledger(app: App) -> tuple[str, str, str]:
    """Incomes, and expenses whose columns have other types; and the title of the latter."""
    title = f"expenses {uuid4().hex[:8]}"
    incomes = await app.table({"amount": "int", "day": "date", "note": "string", "hidden": "int"})
    expenses = await app.table({"amount": "string", "day": "date", "tags": "array"}, title=title)
    async with app.client() as client:
        await create(client, incomes, amount=5, day="2026-01-02", note="a", hidden=7)
        await create(client, incomes, amount=7, day="2026-01-04", note=None)
        await create(client, expenses, amount="3", day="2026-01-03", tags=["x", "y"])
    return incomes, expenses, title


def union(table: str, *stages: dict[str, Any]) -> dict[str, Any]:
    return {"$unionWith": {"table": table, "pipeline": [*stages]}}


async def test_documents_follow_each_other_whatever_their_types(app: App):
    incomes, expenses, title = await ledger(app)
    async with app.client() as client:
        found = await documents(client, incomes, {"$sort": {"amount": -1}}, union(title))
        assert [one["amount"] for one in found] == [7, 5, "3"]
        assert [set(one) & {"note", "tags"} for one in found] == [{"note"}, {"note"}, {"tags"}]
        assert found[0]["note"] is None
        # Later stages are about all of them.
        days = [
            union(expenses, {"$project": {"day": 1, "out": "$amount"}}),
            {"$match": {"day": {"$gte": "2026-01-03"}}},
            {"$sort": {"day": 1}},
            {"$project": {"id": 0, "day": 1, "amount": 1, "out": 1}},
        ]
        found = await documents(client, incomes, *days)
        assert found == [{"day": "2026-01-03", "out": "3"}, {"day": "2026-01-04", "amount": 7}]
        total = [
            {"$project": {"in": "$amount"}},
            union(title, {"$unwind": "$tags"}, {"$project": {"tag": "$tags"}}),
            {"$group": {"_id": None, "in": {"$sum": "$in"}, "tags": {"$push": "$tag"}, "n": {"$count": {}}}},
        ]
        assert await documents(client, incomes, *total) == [{"_id": None, "in": 12, "tags": ["x", "y"], "n": 4}]
        assert await documents(client, incomes, union(incomes), union(title), union(title), {"$count": "n"}) == [
            {"n": 6}
        ]
        none = await documents(client, incomes, {"$match": {"amount": 99}}, union(title, {"$match": {"amount": "9"}}))
        assert none == []


async def test_each_side_follows_its_own_references(app: App):
    authors_title = f"authors {uuid4().hex[:8]}"
    authors = await app.table({"name": "string"}, title=authors_title)
    posts = await app.table({"title": "string", "by": refers(authors_title)})
    notes = await app.table({"by": refers(authors_title)})
    async with app.client() as client:
        ada = await create(client, authors, name="Ada")
        await create(client, posts, title="p", by=ada)
        await create(client, notes, by=ada)
        look = {"$lookup": {"localField": "by", "as": "writer", "fields": ["name"]}}
        found = await documents(
            client, posts, look, union(notes, look), {"$project": {"id": 0, "name": "$writer.name"}}
        )
        assert found == [{"name": "Ada"}, {"name": "Ada"}]


async def test_each_table_has_its_own_rules_and_hidden_columns(app: App):
    incomes, expenses, title = await ledger(app)
    member = await app.guest()
    async with app.client() as client, app.client(member["access_token"]) as own:
        await save(app, expenses, {"read": OWN, "create": {"$member": {}}})
        pipeline = {"table_id": incomes, "pipeline": [union(title)]}
        assert_error(await client.post("/v1/public/aggregate", json=pipeline), 401, "MEMBER_TOKEN_REQUIRED")
        assert len(await documents(own, incomes, union(title))) == 2
        await create(own, expenses, amount="1")
        mine = union(title, {"$match": {"$creator": {"$member": "id"}}})
        assert [one["amount"] for one in await documents(own, incomes, mine)] == [5, 7, "1"]
        await save(app, expenses, {"read": True, "columns": {"tags": {"read": None}}})
        assert all("tags" not in one for one in await documents(own, incomes, union(title)))
        hidden = {"table_id": incomes, "pipeline": [union(title, {"$match": {"tags": []}})]}
        assert_error(await own.post("/v1/public/aggregate", json=hidden), 403, "COLUMN_NOT_READABLE")
        # What is asked of all documents meets no row that a rule hides.
        await save(app, expenses, {"read": {"amount": {"$ne": "3"}}})
        divided = {"$addFields": {"x": {"$divide": [1, {"$subtract": [{"$size": {"$ifNull": ["$tags", []]}}, 2]}]}}}
        await documents(own, incomes, union(title), divided)


@pytest.mark.parametrize(
    ("operand", "field"),
    [
        ([], ""),
        ({}, ""),
        ({"table": 1}, ".table"),
        ({"table": "none", "pipeline": []}, ".table"),
        ({"table": "$", "pipeline": {}}, ".pipeline"),
        ({"table": "$", "other": 1}, ""),
        ({"table": "$", "pipeline": [{"$unionWith": {"table": "$"}}]}, ".pipeline[0]"),
        ({"table": "$", "pipeline": [{"$match": {"none": 1}}]}, ".pipeline[0].$match.none"),
        ({"table": "$", "pipeline": [{"$limit": 1}] * 21}, ".pipeline"),
    ],
)
async def test_what_is_no_union(app: App, operand: Any, field: str):
    incomes, expenses, _ = await ledger(app)
    if isinstance(operand, dict) and operand.get("table") == "$":
        operand = operand | {"table": expenses}
    async with app.client() as client:
        body = {"table_id": incomes, "pipeline": [{"$unionWith": operand}]}
        answer = await client.post("/v1/public/aggregate", json=body)
        assert answer.status_code == 400, answer.text
        told = answer.json()["details"][0]["field"].replace("pipeline[0].", "", 1)
        assert told == f"$unionWith{field}"
        four = {"table_id": incomes, "pipeline": [union(expenses)] * 4}
        assert_error(await client.post("/v1/public/aggregate", json=four), 400, "INVALID_PIPELINE")


async def test_views_read_several_tables_and_follow_their_names(app: App, other_app: App):
    incomes, expenses, title = await ledger(app)
    name = f"ledger-{uuid4().hex[:8]}"
    stages = [
        {"$project": {"id": 0, "day": 1, "in": "$amount"}},
        union(
            title,
            {"$match": {"day": {"$gte": {"$param": "since"}}}},
            {"$project": {"id": 0, "day": 1, "out": "$amount"}},
        ),
        {"$sort": {"day": -1}},
    ]
    view = await save_view(
        app, name=name, table_id=incomes, pipeline=stages, params={"since": {"type": "date"}}, run_as="app", read=True
    )
    expected = [{"day": "2026-01-04", "in": 7}, {"day": "2026-01-03", "out": "3"}, {"day": "2026-01-02", "in": 5}]
    async with app.client() as client, owner_of(app).client(app) as console:
        assert await called(client, name, since="2026-01-01") == expected
        assert len(await called(client, name, since="2027-01-01")) == 2
        renamed = await console.post(f"/tables/{expenses}/columns/amount/rename", json={"name": "price"})
        assert renamed.status_code == 200
        assert await called(client, name, since="2026-01-01") == expected
        assert (await shown(app, view))["pipeline"][1]["$unionWith"]["pipeline"][1]["$project"]["out"] == "$price"
        async with app.client(app.secret_key) as keeper:
            dropped = await keeper.delete(f"/v1/public/tables/{expenses}")
            assert_error(dropped, 409, "USED_IN_VIEW")
    async with other_app.client() as stranger:
        table = await other_app.table({"n": "int"})
        foreign = {"table_id": table, "pipeline": [union(expenses)]}
        answer: httpx.Response = await stranger.post("/v1/public/aggregate", json=foreign)
        assert answer.status_code in {400, 404}, answer.text
