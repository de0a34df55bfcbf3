"""What a stream tells of changed rows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.data.rows.statements import Statements
from pilotis.data.tables.schema import AccessLevel, TableSchema
from tests.realtime.listening import deleted, listening, patched, refused
from tests.support import App, assert_error

TASKS = {"title": "string", "state": "string", "priority": "int"}


async def test_a_condition_is_told_what_comes_changes_and_goes(app: App):
    table = await app.table(TASKS)
    old = await app.row(table, {"title": "old", "state": "closed"})
    async with (
        app.client() as client,
        listening(
            client,
            {"id": "open", "table_id": table, "where": {"state": "open"}},
            {"id": "urgent", "table_id": table, "where": {"state": "open", "priority": {"$gt": 5}}},
        ) as told,
    ):
        row = await app.row(table, {"title": "tea", "state": "open", "priority": 1})
        assert await told.change() == ("open", "create", {"title": "tea", "state": "open", "priority": 1})
        await patched(app, table, row, priority=9)
        changes = sorted([await told.change(), await told.change()])
        assert [change[:2] for change in changes] == [("open", "update"), ("urgent", "enter")]
        await patched(app, table, old, state="open")
        assert (await told.change())[:2] == ("open", "enter")
        await patched(app, table, row, state="closed")
        assert sorted([await told.change(), await told.change()]) == [
            ("open", "leave", None),
            ("urgent", "leave", None),
        ]
        await deleted(app, table, row)
        await deleted(app, table, old)
        assert await told.change() == ("open", "delete", None)
        await app.row(table, {"title": "end", "state": "open"})
        assert (await told.change())[2]["title"] == "end"


async def test_statements_of_tables_that_nobody_listens_to_have_no_log(app: App):
    schema = TableSchema(UUID(int=1), UUID(int=2), "t", AccessLevel.PUBLIC, 1, ())
    for watched in (False, True):
        statements = Statements(msgspec.structs.replace(schema, watched=watched))
        written = [
            statements.insert,
            statements.insert_unless_taken,
            statements.import_unless_taken,
            statements.update((), "true", ()),
            statements.update_many((), "true", ()),
            statements.delete("true"),
        ]
        assert [("__changes" in sql, "before" in sql) for sql in written[:3]] == [(watched, watched)] * 3
        assert [("__changes" in sql) for sql in written[3:]] == [watched] * 3


async def test_one_row_types_and_fields(app: App):
    table = await app.table(TASKS)
    row, other = await app.row(table, {"title": "a", "state": "x"}), await app.row(table, {"title": "b"})
    subscriptions = (
        {"id": "one", "table_id": table, "row_id": row["id"], "fields": ["title"]},
        {"id": "ends", "table_id": table, "types": ["delete"]},
    )
    async with app.client() as client, listening(client, *subscriptions) as told:
        await patched(app, table, other, state="y")
        await patched(app, table, row, state="y")
        assert await told.change() == ("one", "update", {"title": "a"})
        await deleted(app, table, other)
        assert await told.change() == ("ends", "delete", None)


async def test_encrypted_columns_come_opened_and_are_found_by_equality(app: App):
    table = await app.table({"name": "string", "secret": {"type": "string", "encrypted": True}})
    mine = {"id": "mine", "table_id": table, "where": {"secret": "abc"}}
    async with app.client() as client, listening(client, mine) as told:
        row = await app.row(table, {"name": "a", "secret": "abc"})
        assert await told.change() == ("mine", "create", {"name": "a", "secret": "abc"})
        await app.row(table, {"name": "b", "secret": "abcd"})
        await patched(app, table, row, secret="xyz")
        assert await told.change() == ("mine", "leave", None)


async def test_every_way_to_write_is_told(app: App):
    table = await app.table({"code": "string", "n": "int"})
    async with app.client() as client:
        data = f"/v1/public/tables/{table}/data"
        async with listening(client, {"id": "a", "table_id": table}) as told:

            async def types(number: int) -> list[str]:
                return sorted([(await told.change())[1] for _ in range(number)])

            async def sent(method: str, path: str, body: Any) -> Any:
                answer = await client.request(method, path, json=body)
                assert answer.is_success, answer.text
                return answer.json()

            await sent("POST", f"{data}/bulk", {"data": [{"code": "a", "n": 1}, {"code": "b", "n": 2}]})
            assert await types(2) == ["create"] * 2
            await sent("POST", f"{data}/update-where", {"where": {"code": "a"}, "data": {"n": {"$inc": 1}}})
            assert await types(1) == ["update"]
            operations = [
                {"type": "create", "table_id": table, "data": {"code": "c", "n": 3}},
                {"type": "update-where", "table_id": table, "where": {"code": "b"}, "data": {"n": 9}},
            ]
            await sent("POST", "/v1/public/transactions", {"operations": operations})
            assert await types(2) == ["create", "update"]
            await sent("POST", f"{data}/delete-where", {"where": {"n": {"$gt": 2}}})
            assert await types(2) == ["delete"] * 2
            many = [{"code": f"{n}", "n": n} for n in range(1000)]
            await sent("POST", f"{data}/bulk", {"data": many})
            assert await types(1000) == ["create"] * 1000
            await sent("POST", f"{data}/delete-where", {"all": True})
            assert await told.next() == [("reset", {"subscription": "a", "reason": "bulk"})]


async def test_a_large_row_comes_without_its_data_and_its_filter_holds(app: App):
    table = await app.table({"state": "string", "text": "string"})
    subscriptions = (
        {"id": "open", "table_id": table, "where": {"state": "open"}},
        {"id": "long", "table_id": table, "where": {"text": {"$startsWith": "x"}}},
    )
    async with app.client() as client, listening(client, *subscriptions) as told:
        row = await app.row(table, {"state": "open", "text": "x" * 70_000})
        for _, data in await told.next(2):
            assert data["type"] == "create"
            assert data["truncated"] is True
            assert data["row"].keys() == {"id", "updated_at"}
        await patched(app, table, row, state="closed")
        first, second = sorted(await told.next(2), key=lambda event: event[0])
        # The log has no large value of before, so that it cannot be known whether this row was in it.
        assert first[1] == {"subscription": "open", "type": "leave", "row": first[1]["row"]}
        assert second == ("reset", {"subscription": "long", "reason": "overflow"})


async def test_what_cannot_be_asked_for_is_an_error_that_names_the_subscription(app: App):
    table = await app.table({"name": "string", "post": {"type": "uuid"}, "secret": "string"})
    closed = await app.table({"name": "string"}, access_level="AppMember")
    good = {"id": "a", "table_id": table}
    many = {"$or": [{"name": str(number)} for number in range(21)]}
    cases: list[tuple[list[Any], int, str, str]] = [
        ([], 400, "VALIDATION_FAILED", "subscriptions"),
        ([good, good], 400, "VALIDATION_FAILED", "subscriptions[1].id"),
        ([good, {**good, "id": "b", "where": {"nme": 1}}], 400, "UNKNOWN_COLUMN", "subscriptions[1].where.nme"),
        ([{**good, "where": {"name": {"$matches": "a"}}}], 400, "NOT_SUPPORTED_IN_SUBSCRIPTION", ""),
        (
            [{**good, "where": {"$not": {"$exists": {"table": "x", "where": {}}}}}],
            400,
            "NOT_SUPPORTED_IN_SUBSCRIPTION",
            "",
        ),
        ([{**good, "where": many}], 400, "NOT_SUPPORTED_IN_SUBSCRIPTION", ""),
        ([{**good, "where": {}, "row_id": str(UUID(int=5))}], 400, "VALIDATION_FAILED", "subscriptions[0].row_id"),
        ([{**good, "table_id": str(UUID(int=5))}], 404, "TABLE_NOT_FOUND", ""),
        ([{**good, "table_id": closed}], 401, "MEMBER_TOKEN_REQUIRED", ""),
        ([{**good, "fields": ["none"]}], 400, "UNKNOWN_COLUMN", "subscriptions[0].fields[0]"),
        ([{**good, "id": str(number)} for number in range(51)], 400, "VALIDATION_FAILED", "subscriptions"),
    ]
    async with app.client() as client:
        for subscriptions, status, code, place in cases:
            answer = await refused(client, *subscriptions)
            body = assert_error(answer, status, code)
            if place:
                assert [detail["field"] for detail in body["details"]] == [place], body
