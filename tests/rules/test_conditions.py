"""Each condition that rules add where no recipe and no oracle notices that it is gone; see `tests.long mutants`."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest

from pilotis.data.query.aggregate.pipeline import _rows
from pilotis.data.rows.query import within
from pilotis.data.rules.actions import Action
from pilotis.data.rules.document import Related, stored
from pilotis.data.rules.fold import Caller, fold
from pilotis.data.rules.visibility import Visibility, visibility
from pilotis.data.tables.schema import AccessLevel, Column, ColumnType, TableSchema
from pilotis.data.where.operands import Arguments
from pilotis.http.api.principals import AppInfo, AppMember, AppUser, MemberInfo, PublicClient, Role, UserInfo
from pilotis.limits import Limits
from tests.rules.test_paths import made, refers
from tests.rules.test_rules import listed, rows, save
from tests.support import App, assert_error

ME: dict[str, Any] = {"$member": "id"}
OWN = {"$creator": ME}
CLAIM = {"$member": "claims.x"}
APP_ID, OTHER = uuid4(), uuid4()
APP = AppInfo(APP_ID, "app", 1, False, True, True, [], Limits())
COLUMNS = (Column(1, "team", ColumnType.STRING), Column(2, "readers", ColumnType.ARRAY))
TABLE = TableSchema(APP_ID, uuid4(), "things", AccessLevel.PUBLIC, 1, COLUMNS)
SEATS = TableSchema(APP_ID, OTHER, "seats", AccessLevel.PUBLIC, 1, COLUMNS)


def folded(rule: Any, claims: dict[str, Any] | None) -> Any:
    """What is left of a rule for a member with claims; None for nobody."""
    document = stored({"read": rule}, TABLE, Related.of([TABLE, SEATS]), Limits())["read"]
    member = None if claims is None else MemberInfo("ada", uuid4(), is_guest=False, claims=claims)
    return fold(document, Caller.of(member), TABLE, {OTHER: SEATS})


@pytest.mark.parametrize(
    ("rule", "claims"),
    [
        # An absent claim is unequal to nothing, and in no list.
        ({"$member": {"claims.x": {"$ne": "y"}}}, {}),
        ({"$member": {"claims.x": {"$nin": ["y"]}}}, {}),
        ({"readers": {"$arrayContains": CLAIM}}, {}),
        ({"team": {"$member": "claims.x.y"}}, {"x": "red"}),
        ({"team": {"$in": CLAIM}}, {"x": "red"}),
        ({"team": {"$in": CLAIM}}, {"x": ["red"] * 1001}),
        ({"$not": {"$member": {"is_guest": True}}}, None),
        ({"$not": {"$member": {"is_guest": True, "claims.x": "y"}}}, {}),
        ({"$exists": {"table": "seats", "where": {"$or": [{"team": CLAIM}]}}}, {}),
        ({"$member": {"claims.x": 1}}, {"x": True}),
        ({"$member": {"claims.x": True}}, {"x": 1}),
    ],
)
def test_a_missing_value_closes_what_mentions_it(rule: Any, claims: dict[str, Any] | None):
    assert folded(rule, claims) is False


def test_a_list_has_the_values_of_the_columns_type():
    assert folded({"team": {"$in": CLAIM}}, {"x": ["red", 5, None]}) == {"#1": {"$in": ["red"]}}


def ruled(rules: dict[str, Any]) -> TableSchema:
    table_id = uuid4()
    table = TableSchema(APP_ID, table_id, "things", AccessLevel.PUBLIC, 1, COLUMNS)
    document = stored(rules, table, Related.of([table]), Limits())
    return TableSchema(APP_ID, table_id, "things", AccessLevel.PUBLIC, 1, COLUMNS, rules=document)


def seen(table: TableSchema, name: str) -> Visibility:
    member = AppMember(APP, MemberInfo(name, uuid4(), is_guest=False))
    return visibility(member, table, Action.LIST, member.member, {})


def test_answers_are_shared_among_those_alone_who_see_the_same():
    for rules in (
        {"read": {"readers": {"$arrayContains": ME}}},
        {"read": True, "columns": {"team": {"read": {"readers": {"$arrayContains": ME}}}}},
        {"read": True, "columns": {"team": {"read": {"$member": {"id": "ada"}}}}},
    ):
        table = ruled(rules)
        assert seen(table, "ada").key == seen(ruled(rules), "ada").key
        assert seen(table, "ada").key != seen(table, "eve").key, rules


def test_what_is_kept_of_rules_is_for_equal_callers_at_any_time():
    table = ruled({"read": True, "update": True})
    user = AppUser(APP, UserInfo(uuid4(), "a@example.com", None), Role.VIEWER)
    # A viewer sees who created a row.
    for principal, shows in ((PublicClient(APP), False), (user, True), (PublicClient(APP), False)):
        assert visibility(principal, table, Action.UPDATE, None, {}).shows_creator is shows
    table = ruled({"read": {"created_at": {"$lt": {"$now": 0}}}})
    first = seen(table, "ada").rule
    time.sleep(0.002)
    assert seen(table, "ada").rule != first


def test_no_pattern_and_no_stage_meets_a_row_that_a_rule_hides():
    visible = seen(ruled({"read": {"readers": {"$arrayContains": ME}}}), "ada")
    condition = within(visible, "team ~ $1", ["$1"], Arguments("x"))
    assert "case when true and " in condition
    assert condition.index("case when") < condition.index("then team ~ $1 end")
    assert "case" not in within(visible, "team = $1", [], Arguments("x"))
    # Nor do the stages of a pipeline, whatever PostgreSQL takes for cheap.
    assert _rows(visible.table, visible, Arguments(), "d").source.endswith(" offset 0) d")
    own = seen(ruled({"read": OWN}), "ada")
    assert "offset" not in _rows(own.table, own, Arguments(), "d").source


async def test_a_list_shows_what_may_be_read_alone(app: App):
    table = await app.table({"name": "string"})
    await save(app, table, {"list": True, "read": OWN, "create": {"$member": {}}})
    ada, eve = await app.member("ada"), await app.member("eve")
    async with app.client(ada["access_token"]) as own, app.client(eve["access_token"]) as other:
        await made(own, table, name="of ada")
        assert await listed(own, table) == ["of ada"]
        assert await listed(other, table) == []


async def test_what_is_found_by_words_and_a_condition_is_what_may_be_listed(app: App):
    table = await app.table({"name": "string", "state": "string", "place": "object"})
    place = {"latitude": 1.0, "longitude": 2.0}
    async with app.client(app.secret_key) as side:
        for state in ("open", "hidden"):
            await made(side, table, name=f"word {state}", state=state, place=place)
    await save(app, table, {"read": {"state": "open"}})
    where = {"name": {"$ne": "x"}}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "word"}),
        ("geo", {"field": "place", "near": {"center": {"latitude": 1, "longitude": 2}}}),
        ("autocomplete", {"query": "w", "field": "name"}),
    ]
    async with app.client() as client:
        for route, body in asked:
            answer = await client.post(f"/v1/public/{route}", json={"table_id": table, "where": where, **body})
            assert answer.status_code == 200, answer.text
            assert "word open" in answer.text, route
            assert "hidden" not in answer.text, route


async def test_a_calculation_meets_no_row_that_a_rule_hides(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    table = await app.table({"team": "string", "price": "number"})
    ada = await app.member("ada")
    async with app.client(app.secret_key) as side, app.client(ada["access_token"]) as client:
        await made(side, seats, team="red", member=ada["member_id"])
        await made(side, table, team="blue", price=0)
        await made(side, table, team="red", price=2)
        ratio = {"$addFields": {"ratio": {"$divide": [1, "$price"]}}}
        pipeline = [ratio, {"$match": {"ratio": {"$gt": 0}}}]
        for where in ({"team": {"$row": "team"}, "member": ME}, {"team": {"$eq": {"$row": "team"}}}):
            await save(app, table, {"read": {"$exists": {"table": "seats", "where": where}}})
            answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
            assert answer.status_code == 200, answer.text
            assert [one["team"] for one in answer.json()["data"]] == ["red"]


async def test_what_must_hold_before_a_change_is_no_matter_of_the_row_after(app: App):
    table = await app.table({"state": "string", "price": "number", "team": "string"})
    # With a negation nothing of it can be asked beforehand.
    rule = {"state": "draft", "$not": {"$new": {"price": 5}}}
    await save(app, table, {"read": True, "update": rule})
    async with app.client(app.secret_key) as side, app.client() as client:
        closed = f"{rows(table)}/{await made(side, table, state='published', price=1)}"
        opened = f"{rows(table)}/{await made(side, table, state='draft', price=1)}"
        assert_error(await client.patch(closed, json={"data": {"state": "draft"}}), 403, "RULE_DENIED")
        assert (await client.patch(opened, json={"data": {"price": 2}})).status_code == 200
        assert_error(await client.patch(opened, json={"data": {"price": 5}}), 403, "RULE_DENIED")
        # A value that was null has changed once there is one.
        await save(app, table, {"read": True, "update": {"$new": {"team": {"$ne": {"$old": "team"}}}}})
        assert_error(await client.patch(opened, json={"data": {"price": 3}}), 403, "RULE_DENIED")
        assert (await client.patch(opened, json={"data": {"team": "red"}})).status_code == 200
        await save(app, table, {"read": True, "update": {"$new": {"team": {"$eq": {"$old": "team"}}}}})
        assert (await client.patch(closed, json={"data": {"price": 3}})).status_code == 200


async def test_a_path_that_leads_nowhere_closes_a_branch_about_the_row_after(app: App):
    seats = await app.table({"team": "string"}, title="seats")
    table = await app.table({"name": "string", "seat": refers("seats")})
    async with app.client(app.secret_key) as side, app.client() as client:
        red = await made(side, seats, team="red")
        linked, loose = [await made(side, table, name="x", seat=seat) for seat in (red, None)]
        for rule in (
            {"$new": {"$not": {"seat.team": "blue"}}},
            {"$not": {"$new": {"seat.team": "blue"}}},
            {"$old": {"$not": {"seat.team": "blue"}}},
        ):
            await save(app, table, {"read": True, "update": rule})
            change = {"data": {"name": "y"}}
            assert (await client.patch(f"{rows(table)}/{linked}", json=change)).status_code == 200, rule
            assert_error(await client.patch(f"{rows(table)}/{loose}", json=change), 403, "RULE_DENIED")


async def test_a_value_that_another_row_lacks_closes_the_branch(app: App):
    await app.table({"name": "string"}, title="homes")
    schema = {"team": "string", "home": refers("homes"), "readers": "array", "member": "string"}
    seats = await app.table(schema, title="seats")
    table = await app.table({"name": "string", "team": "string", "readers": "array"})
    ada = await app.member("ada")
    me = {"member": ME}
    async with app.client(app.secret_key) as side, app.client(ada["access_token"]) as client:
        await made(side, seats, team="red", member=ada["member_id"])
        await made(side, seats, readers=[None], member=ada["member_id"])
        await made(side, table, name="red", team="red", readers=[None])
        await made(side, table, name="blue", team="blue", readers=["red"])
        await made(side, table, name="none")
        for where, expected in (
            ({**me, "team": {"$not": {"$eq": {"$row": "team"}}}}, ["red", "blue"]),
            ({**me, "$not": {"team": {"$row": "team"}}}, ["red", "blue"]),
            ({**me, "team": {"$in": {"$row": "readers"}}}, ["blue"]),
            ({**me, "readers": {"$arrayContains": {"$row": "team"}}}, []),
            # The seat's path leads nowhere.
            ({**me, "team": {"$row": "team"}, "$not": {"home.name": "x"}}, []),
        ):
            await save(app, table, {"read": {"$exists": {"table": "seats", "where": where}}})
            assert await listed(client, table) == expected, where


async def test_many_changes_and_new_rows_leave_closed_and_hidden_columns_alone(app: App):
    table = await app.table({"name": "string", "plan": "string", "pay": "int", "code": "string"})
    closed = {"plan": {"create": None, "update": None}, "pay": {"read": None}}
    await save(app, table, {"read": True, "create": True, "update": True, "columns": closed})
    async with app.client() as client, app.client(app.secret_key) as side:
        new = {"data": [{"name": "a", "plan": "x"}, {"name": "b"}]}
        for path in (rows(table), f"{rows(table)}/bulk"):
            answer = (await client.post(path, json=new)).json()
            assert [(one["index"], one["code"]) for one in answer["failed"]] == [(0, "COLUMN_READ_ONLY")]
        hidden = {"all": True, "data": {"pay": {"$inc": 1}}}
        assert_error(await client.post(f"{rows(table)}/update-where", json=hidden), 403, "COLUMN_NOT_READABLE")
        taken = {"all": True, "data": {"plan": "x"}}
        assert_error(await client.post(f"{rows(table)}/update-where", json=taken), 403, "COLUMN_READ_ONLY")
        made_unique = await side.post(f"/v1/apps/{app.app_id}/tables/{table}/unique", json={"columns": ["code"]})
        assert made_unique.status_code == 201, made_unique.text
        row = await made(side, table, name="c", plan="pro", pay=5, code="1")
        upsert = {"key": "code", "mode": "replace", "data": {"code": "1"}}
        assert (await client.post(f"{rows(table)}/upsert", json=upsert)).status_code == 200
        # What the caller cannot set or see is not emptied.
        left = (await side.get(f"{rows(table)}/{row}")).json()["data"]
        assert left == {"plan": "pro", "pay": 5, "code": "1"} | {key: None for key in left if left[key] is None}
        # Every row is seen, and not every column.
        for page in [await client.get(rows(table)) for _ in range(2)]:
            assert "pro" in page.text
            assert not any("pay" in one["data"] for one in page.json()["data"])


async def test_the_text_of_a_link_that_is_no_id_finds_nothing(app: App):
    table = await app.table({"name": "string", "secret": "uuid"})
    secret = str(uuid4())
    await save(app, table, {"read": {"secret": {"$capability": "share"}}})
    async with app.client(app.secret_key) as side, app.client() as client:
        row = await made(side, table, name="x", secret=secret)
        other = "no-id-but-long-enough"
        for text, status in ((secret, 200), (other, 404), (f"{secret},share={other}", 200)):
            answer = await client.get(f"{rows(table)}/{row}", headers={"X-Capability": f"share={text}"})
            assert answer.status_code == status, (text, answer.text)
