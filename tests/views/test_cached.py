"""Cached answers of views, and views on a node that hears of no change."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from pilotis.data.views.answers import MAX_APP_BYTES, MAX_BYTES, MAX_SETS, Answer, Answers
from pilotis.data.views.calls import ViewDeniedError
from pilotis.data.views.feature import ViewsFeature
from pilotis.data.views.service import ViewNotFoundError
from pilotis.http.api.principals import PublicClient
from pilotis.kit import json
from tests.console import owner_of
from tests.rules.test_rules import SIGNED_IN, manager
from tests.services import Services, stale_node
from tests.support import App, Server, assert_error
from tests.views.support import called, change, save

COUNT = [{"$count": "n"}]


async def test_an_answer_is_computed_once_and_says_its_age(app: App):
    table = await app.table({"name": "string", "n": "int"})
    pipeline = [{"$match": {"n": {"$gte": {"$param": "least"}}}}, *COUNT]
    params = {"least": {"type": "int", "default": 0}}
    view = await save(
        app, name="c", table_id=table, pipeline=pipeline, params=params, run_as="app", read=True, cache_seconds=3600
    )
    await app.row(table, {"n": 1})
    async with app.client() as client:
        first, *others = await asyncio.gather(*(client.get("/v1/public/views/c") for _ in range(8)))
        assert {answer.content for answer in others} == {first.content}
        assert all(int(answer.headers["age"]) >= 0 for answer in (first, *others))
        await app.row(table, {"n": 2})
        assert await called(client, "c") == [{"n": 1}]
        # Each set of parameters has its own, however they are sent.
        assert await called(client, "c", least=-5) == [{"n": 2}]
        await app.row(table, {"n": 3})
        assert (await client.get("/v1/public/views/c?least=-5")).json()["data"] == [{"n": 2}]
        assert (await client.get("/v1/public/views/c?least=0")).json()["data"] == [{"n": 1}]
        # Changed, it is another view; and so is that of a table that has changed.
        view = await change(app, view, description="x")
        assert await called(client, "c") == [{"n": 3}]
        await app.row(table, {"n": 4})
        async with owner_of(app).client(app) as owner:
            await owner.post(f"/tables/{table}/columns/n/rename", json={"name": "number"})
        assert await called(client, "c") == [{"n": 4}]
        view = await change(app, view, cache_seconds=0)
        await app.row(table, {"number": 5})
        answer = await client.get("/v1/public/views/c")
        assert (answer.json()["data"], "age" in answer.headers) == ([{"n": 5}], False)


async def test_nobody_sees_what_was_cached_for_others(app: App):
    table = await app.table({"name": "string"}, "Creator")
    ada, eve = await app.member("ada cached"), await app.member("eve cached")
    await app.row(table, {"name": "a"}, ada["access_token"])
    await save(app, name="mine", table_id=table, pipeline=[{"$project": {"name": 1, "id": 0}}])
    gold = {"$member": {"id": ada["member_id"]}}
    whole = await save(app, name="all", table_id=table, pipeline=COUNT, run_as="app", read=gold, cache_seconds=3600)
    async with (
        app.client(ada["access_token"]) as member,
        app.client(eve["access_token"]) as other,
        app.client() as nobody,
    ):
        for _ in range(2):
            assert await called(member, "mine") == [{"name": "a"}]
            assert await called(other, "mine") == []
            assert await called(member, "all") == [{"n": 1}]
            assert_error(await other.get("/v1/public/views/all"), 403, "RULE_DENIED")
            assert_error(await nobody.get("/v1/public/views/all"), 401, "MEMBER_TOKEN_REQUIRED")
        await change(app, whole, read=SIGNED_IN)
        assert await called(other, "all") == [{"n": 1}]
        # Another app has no part in it.
        assert_error(await nobody.get("/v1/public/views/others"), 404, "VIEW_NOT_FOUND")


async def test_views_are_each_apps_own(app: App, other_app: App):
    for one, n in ((app, 1), (other_app, 2)):
        table = await one.table({"name": "string"})
        await save(one, name="same", table_id=table, pipeline=COUNT, run_as="app", read=True, cache_seconds=3600)
        for _ in range(n):
            await one.row(table, {"name": "x"})
    async with app.client() as client, other_app.client() as other:
        for _ in range(2):
            assert await called(client, "same") == [{"n": 1}]
            assert await called(other, "same") == [{"n": 2}]


async def test_a_change_holds_for_the_next_call_on_every_node(app: App, server: Server):
    table = await app.table({"n": "int", "m": "int"})
    other = await app.table({"name": "string"})
    view = await save(app, name="v", table_id=table, pipeline=COUNT, run_as="app", read=True, cache_seconds=3600)
    for n in (1, 2):
        await app.row(table, {"n": n, "m": 10 * n})
    async with stale_node(server) as node:
        calls = node.features.get(ViewsFeature).calls
        principal = PublicClient(await node.apps.by_id(UUID(app.app_id)))

        async def on_the_other(name: str = "v") -> list[dict[str, Any]]:
            return list(json.decode((await calls.call(principal, name, lambda _: {})).body)["data"])

        assert await on_the_other() == [{"n": 2}]
        total = [{"$group": {"_id": None, "n": {"$sum": "$n"}}}, {"$project": {"_id": 0}}]
        view = await change(app, view, pipeline=total)
        assert await on_the_other() == [{"n": 3}]
        async with owner_of(app).client(app) as owner:
            for old, new in (("n", "old"), ("m", "n")):
                await owner.post(f"/tables/{table}/columns/{old}/rename", json={"name": new})
        # It still names the column that it named, under whatever name.
        assert await on_the_other() == [{"n": 3}]
        view = await change(app, view, read=None)
        with pytest.raises(ViewDeniedError):
            await on_the_other()
        view = await change(app, view, read=True, name="w", table_id=other, pipeline=COUNT)
        with pytest.raises(ViewNotFoundError):
            await on_the_other()
        assert await on_the_other("w") == []
        async with manager(app) as side:
            assert (await side.delete(f"/views/{view['id']}")).status_code == 200
        with pytest.raises(ViewNotFoundError):
            await on_the_other("w")


async def test_calls_beside_changes_answer_one_of_both(app: App):
    table = await app.table({"a": "int", "b": "int"})
    await app.row(table, {"a": 1, "b": 2})
    pipelines = [[{"$project": {"_": f"${name}", "id": 0}}] for name in "ab"]
    view = await save(
        app, name="race", table_id=table, pipeline=pipelines[0], run_as="app", read=True, cache_seconds=3600
    )
    async with app.client() as client, manager(app) as side, owner_of(app).client(app) as owner:

        async def changes() -> None:
            for turn in range(12):
                answer = await side.patch(f"/views/{view['id']}", json={"pipeline": pipelines[turn % 2]})
                # The name of the column that was renamed meanwhile.
                assert answer.status_code in {200, 400}, answer.text

        async def renames() -> None:
            for turn in range(4):
                name = ("a", "z")[turn % 2], ("z", "a")[turn % 2]
                answer = await owner.post(f"/tables/{table}/columns/{name[0]}/rename", json={"name": name[1]})
                assert answer.status_code == 200, answer.text

        async def calls() -> None:
            for _ in range(30):
                answer = await client.get("/v1/public/views/race")
                assert answer.status_code == 200, answer.text
                assert answer.json()["data"] in ([{"_": 1}], [{"_": 2}])

        await asyncio.gather(changes(), renames(), calls(), calls())


async def test_views_have_bounds(app: App):
    table = await app.table({"name": "string"})
    async with owner_of(app).client(app) as owner, manager(app) as side:
        assert (await owner.patch("/limits", json={"views": 2})).status_code == 200
        body = {"table_id": table, "pipeline": COUNT}
        made = await asyncio.gather(*(side.post("/views", json=body | {"name": f"v{n}"}) for n in range(4)))
        assert sorted(answer.status_code for answer in made) == [201, 201, 409, 409]
        names = await asyncio.gather(*(side.post("/views", json=body | {"name": "same"}) for _ in range(2)))
        assert {answer.status_code for answer in names} == {409}


async def test_what_views_show_is_in_exposure(app: App):
    table = await app.table({"name": "string"}, "Creator", title="votes")
    rules: list[tuple[str, Any, str]] = [
        ("open", True, "medium"),
        ("members", SIGNED_IN, "medium"),
        ("closed", None, "none"),
        ("few", {"$member": {"roles": {"$arrayContains": "staff"}}}, "none"),
    ]
    for name, read, _ in rules:
        await save(app, name=name, table_id=table, pipeline=COUNT, run_as="app", read=read)
    await save(app, name="as-caller", table_id=table, pipeline=COUNT)
    async with owner_of(app).client(app) as owner:
        findings = (await owner.get("/exposure")).json()["findings"]
    shown = [one for one in findings if one["code"] == "VIEW_AS_APP"]
    assert {one["subject"] for one in shown} == {table}
    named = {one["message"].removeprefix("View ").partition(": ")[0]: one["severity"] for one in shown}
    assert named == {name: severity for name, _, severity in rules}


async def test_the_views_of_an_app_go_with_it(app: App, server: Server):
    table = await app.table({"name": "string"})
    await save(app, name="v", table_id=table, pipeline=COUNT)
    async with owner_of(app).client(app) as owner, app.client() as client:
        assert (await owner.delete("")).status_code == 200
        assert (await client.get("/v1/public/views/v")).status_code in {401, 404}
        assert (await owner.post("/restore")).status_code == 200
        assert await called(client, "v") == []
    async with stale_node(server) as node:
        await _purge(node, app)
        left = await node.database.fetch(
            "select from pilotis.views where app_id = $1", UUID(app.app_id), tenant=UUID(app.app_id)
        )
        assert left == []


async def _purge(node: Services, app: App) -> None:
    app_id = UUID(app.app_id)
    await node.database.execute("delete from pilotis.apps where app_id = $1", app_id, tenant=app_id)


def test_the_cache_is_bounded():
    now = [0.0]
    answers = Answers(lambda: now[0])
    app_id, view_id = uuid4(), uuid4()

    def put(key: int, size: int = 1, app: UUID = app_id, view: UUID = view_id, state: int = 1) -> None:
        answers.put(app, view, state, key, Answer(b"x" * size, now[0]))

    def held(key: int, app: UUID = app_id, view: UUID = view_id, state: int = 1) -> bool:
        return answers.get(app, view, state, key, 10) is not None

    for key in range(MAX_SETS + 1):
        put(key)
    assert (held(0), held(1), held(MAX_SETS), answers.size) == (False, True, True, MAX_SETS)
    now[0] = 10.0
    assert not held(1)
    put(1)
    assert held(1)
    # Of another state of the view there is none, and the first one put ends the others.
    assert not held(1, state=2)
    put(5, state=2)
    assert (held(1), held(5, state=2), answers.size) == (False, True, 1)
    # Too large alone; then so that the oldest go.
    put(6, MAX_APP_BYTES + 1, state=2)
    assert (held(6, state=2), held(5, state=2)) == (False, True)
    other = uuid4()
    put(1, MAX_APP_BYTES // 2, view=other)
    put(2, MAX_APP_BYTES // 2, view=other)
    put(3, MAX_APP_BYTES // 2, view=other)
    assert (held(5, state=2), held(1, view=other), held(2, view=other), held(3, view=other)) == (
        False, False, True, True
    )  # fmt: skip
    put(2, 3, view=other)
    assert answers.size == MAX_APP_BYTES // 2 + 3
    apps = [uuid4() for _ in range(MAX_BYTES // MAX_APP_BYTES + 2)]
    for app in apps:
        put(1, MAX_APP_BYTES, app)
    assert answers.size <= MAX_BYTES
    assert not held(3, view=other)
    assert not held(1, apps[0])
    assert held(1, apps[-1])
