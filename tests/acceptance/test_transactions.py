"""Decisions, Tables and rows: transactions, all operations or none."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.acceptance.test_batch import NOWHERE, TRANSACTIONS, codes, create, delete, rows, send, update
from tests.backstage import run_sql
from tests.support import App, assert_error

SCHEMA = {"name": "string", "n": {"type": "int", "default": 0}, "of": "uuid", "more": "object"}
NAMELESS = {"n": 0}


async def transact(app: App, *operations: Any, token: str | None = None) -> httpx.Response:
    return await send(app, *operations, token=token, path=TRANSACTIONS)


async def test_the_results_tell_of_each_operation(app: App):
    table, other = await app.table(SCHEMA), await app.table({})
    ada, bob = await app.row(table, {"name": "Ada"}), await app.row(other, {"any": [1]})
    answer = await transact(
        app,
        create(table, {"name": "Cy", "of": {"$ref": 1}} | {"of": None}),
        update(table, ada["id"].upper(), {"n": {"$inc": 2}}),
        delete(other, bob["id"]),
    )
    results = answer.json()["results"]
    assert answer.json() == {
        "results": [
            {
                "index": 0,
                "type": "create",
                "success": True,
                "id": results[0]["id"],
                "data": {"name": "Cy", "n": 0, "of": None},
                "updated_at": results[0]["updated_at"],
            },
            {
                "index": 1,
                "type": "update",
                "success": True,
                "id": ada["id"],
                "data": {"name": "Ada", "n": 2},
                "updated_at": results[1]["updated_at"],
            },
            {"index": 2, "type": "delete", "success": True, "id": bob["id"]},
        ],
        "success_count": 3,
        "failed_count": 0,
    }
    assert await rows(app, table) == [{"name": "Ada", "n": 2}, {"name": "Cy", "n": 0, "of": None}]
    assert await rows(app, other) == []


async def test_an_operation_sees_what_those_before_it_did(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    steps = [
        update(table, row["id"], {"n": 5}),
        update(table, row["id"], {"n": {"$inc": 1}}),
        create(table, {"name": "new"}),
        update(table, {"$ref": 2}, {"n": {"$inc": 7}}),
        delete(table, row["id"]),
        delete(table, {"$ref": 2}),
    ]
    answer = await transact(app, *steps)
    assert [result.get("data", {}).get("n") for result in answer.json()["results"]] == [5, 6, 0, 7, None, None]
    assert await rows(app, table) == []
    again = [create(table, {}), delete(table, {"$ref": 0}), update(table, {"$ref": 0}, {"n": 1})]
    assert_error(await transact(app, *again), 404, "ROW_NOT_FOUND", failed_index=2)
    assert await rows(app, table) == []


# What fails an operation, with the answer's status and code; ROW stands for a row's id.
FAILURES = {
    "no such row": (delete("TABLE", NOWHERE), 404, "ROW_NOT_FOUND"),
    "no such table": (create(NOWHERE, {}), 404, "TABLE_NOT_FOUND"),
    "another app's table": (create("FOREIGN", {}), 404, "TABLE_NOT_FOUND"),
    "a member's table": (create("MEMBERS", {}), 401, "MEMBER_TOKEN_REQUIRED"),
    "an unknown column": (create("TABLE", {"m": 1}), 400, "UNKNOWN_COLUMN"),
    "a wrong type": (update("TABLE", "ROW", {"n": "1"}), 400, "VALIDATION_FAILED"),
    "an increment out of range": (update("TABLE", "ROW", {"n": {"$inc": 2**63 - 1}}), 400, "CANNOT_INCREMENT"),
    "a row too large": (create("TABLE", {"name": "x" * 2**20}), 413, "ROW_TOO_LARGE"),
    "a row grown too large": (
        update("TABLE", "ROW", {"more": {"text": "x" * (2**20 - 30)}}),
        413,
        "ROW_TOO_LARGE",
    ),
    "a wrong moment": (
        delete("TABLE", "ROW", expected_updated_at="2020-01-01T00:00:00.000Z"),
        409,
        "PRECONDITION_FAILED",
    ),
    "a reference to nothing": (create("TABLE", {"of": {"$ref": 7}}), 400, "INVALID_REFERENCE"),
}


@pytest.mark.parametrize(("operation", "status", "code"), FAILURES.values(), ids=FAILURES)
async def test_the_failing_operations_own_answer_and_nothing_written(
    app: App, other_app: App, operation: dict[str, Any], status: int, code: str
):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"name": "Ada", "n": 1, "more": {"long": "y" * 100}})
    names = {
        "TABLE": table,
        "MEMBERS": await app.table({}, "AppMember"),
        "FOREIGN": await other_app.table({}),
        "ROW": row["id"],
    }
    operation = {
        name: names.get(value, value) if isinstance(value, str) else value for name, value in operation.items()
    }
    before = await rows(app, table)
    around = [create(table, {"name": "new"}), update(table, row["id"], {"n": 9})]
    answer = await transact(app, *around, operation, *around)
    body = assert_error(answer, status, code, failed_index=2)
    assert body["message"]
    # `rows` also compares the row count with what is there.
    assert await rows(app, table) == before
    async with app.client() as client:
        assert (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json() == row


async def test_deletes_are_undone_with_their_count(app: App):
    table = await app.table(SCHEMA)
    made = [await app.row(table, {"n": number}) for number in range(3)]
    gone = [delete(table, row["id"]) for row in made]
    assert_error(await transact(app, *gone, delete(table, made[0]["id"])), 404, "ROW_NOT_FOUND", failed_index=3)
    assert len(await rows(app, table)) == 3
    assert codes(await transact(app, *gone)) == [None] * 3
    assert await rows(app, table) == []


async def test_references_stand_for_ids_at_any_depth(app: App):
    table, free = await app.table(SCHEMA), await app.table({})
    nested = {"list": [{"$ref": 0}, [{"deep": {"$ref": 1}}]], "price": 0.1, "text": '"$ref"'}
    answer = await transact(
        app,
        create(table, {}),
        create(table, {"name": {"$ref": 0}, "of": {"$ref": 0}}),
        create(free, nested | {"two": {"$ref": 0, "other": 1}}),
        update(table, {"$ref": 1}, {"more": {"self": {"$ref": 1}}}),
    )
    first, second, third, fourth = answer.json()["results"]
    assert second["data"] == NAMELESS | {"name": first["id"], "of": first["id"]}
    assert third["data"] == {
        "list": [first["id"], [{"deep": second["id"]}]],
        "price": 0.1,
        "text": '"$ref"',
        "two": {"$ref": 0, "other": 1},
    }
    assert fourth["id"] == second["id"]
    assert fourth["data"]["more"] == {"self": second["id"]}


async def test_a_reference_may_be_written_with_escapes(app: App):
    table = await app.table({})
    body = f"""{{"operations": [
        {{"type": "create", "table_id": "{table}", "data": {{"price": 1.10}}}},
        {{"type": "create", "table_id": "{table}", "data": {{"of": {{"\\u0024r\\u0065f": 0}}, "price": 1.10}}}}
    ]}}"""
    async with app.client() as client:
        answer = await client.post(TRANSACTIONS, content=body, headers={"Content-Type": "application/json"})
    first, second = answer.json()["results"]
    assert second["data"]["of"] == first["id"]
    assert answer.content.count(b'"price":1.10') == 2


BAD_REFERENCES = [1, 2, 3, -1, 500, 10**30, True, "0", 0.5, None, [0], {"$ref": 0}]


@pytest.mark.parametrize("index", BAD_REFERENCES, ids=map(repr, BAD_REFERENCES))
async def test_a_reference_names_an_earlier_create(app: App, index: Any):
    """Operation 1 is an update; 2 is the one that refers, 3 comes after it."""
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    around = [create(table, {}), update(table, row["id"], {"n": 1})]
    for data in ({"of": {"$ref": index}}, {"more": {"of": [{"$ref": index}]}}):
        answer = await transact(app, *around, create(table, data), create(table, {}))
        assert_error(answer, 400, "INVALID_REFERENCE", failed_index=2)
    answer = await transact(app, *around, delete(table, {"$ref": index}), create(table, {}))
    if type(index) is int and abs(index) < 2**63:
        assert_error(answer, 400, "INVALID_REFERENCE", failed_index=2)
    else:
        assert answer.status_code == 400
    assert await rows(app, table) == [NAMELESS]


async def test_a_reference_beside_other_members_names_no_row(app: App):
    table = await app.table(SCHEMA)
    answer = await transact(app, create(table, {}), delete(table, {"$ref": 0, "x": 0}))
    assert_error(answer, 400, "INVALID_REFERENCE", failed_index=1)
    assert_error(await transact(app, create(table, {}), delete(table, {})), 400, "INVALID_REFERENCE", failed_index=1)


async def test_a_reference_to_an_id_in_a_column_of_another_type(app: App):
    table = await app.table(SCHEMA)
    answer = await transact(app, create(table, {}), create(table, {"n": {"$ref": 0}}))
    assert_error(answer, 400, "VALIDATION_FAILED", failed_index=1)


async def test_preconditions(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"name": "Ada"})
    known = {"expected_updated_at": row["updated_at"]}
    change = update(table, row["id"], {"n": {"$inc": 1}}, **known)
    # The first change is one, so the second does not find the row as it was known.
    assert_error(await transact(app, change, change), 409, "PRECONDITION_FAILED", failed_index=1)
    assert codes(await transact(app, change)) == [None]
    assert_error(await transact(app, change), 409, "PRECONDITION_FAILED", failed_index=0)
    assert_error(await transact(app, delete(table, row["id"], **known)), 409, "PRECONDITION_FAILED", failed_index=0)
    assert_error(await transact(app, delete(table, NOWHERE, **known)), 404, "ROW_NOT_FOUND", failed_index=0)
    async with app.client() as client:
        now = (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json()
    assert now["data"] == {"name": "Ada", "n": 1}
    assert codes(await transact(app, delete(table, row["id"], expected_updated_at=now["updated_at"]))) == [None]


MOMENTS = ["", "x", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "12", "2026-01-01T00:00:00+25:00"]
OTHER_MOMENTS = ["2026-01-01", "2026-01-01T00:00:00+23:59", "2016-12-31T23:59:60Z", "0001-01-01T00:00:00.000Z"]


@pytest.mark.parametrize(
    ("moment", "status", "code"),
    [(moment, 400, "VALIDATION_FAILED") for moment in MOMENTS]
    + [(moment, 409, "PRECONDITION_FAILED") for moment in OTHER_MOMENTS],
)
async def test_moments(app: App, moment: str, status: int, code: str):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    known = {"expected_updated_at": moment}
    answer = await transact(app, update(table, row["id"], {"n": 1}, **known))
    assert_error(answer, status, code, failed_index=0)
    async with app.client() as client:
        answer = await client.patch(f"/v1/public/tables/{table}/data/{row['id']}", json={"data": {"n": 1}} | known)
    assert_error(answer, status, code)


async def test_a_moment_in_any_time_zone(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    elsewhere = row["updated_at"].replace("Z", "+00:00")
    assert codes(await transact(app, update(table, row["id"], {"n": 1}, expected_updated_at=elsewhere))) == [None]


@pytest.mark.parametrize("level", ["AppMember", "Creator"])
async def test_access_levels_hold_for_each_operation(app: App, level: str):
    open_, closed = await app.table({"n": "int"}), await app.table({"n": "int"}, level)
    ada, bob = (await app.member("ada"))["access_token"], (await app.member("bob"))["access_token"]
    row = await app.row(closed, {"n": 1}, ada)
    writes = [
        create(closed, {"n": 2}),
        update(closed, row["id"], {"n": 3}),
        update(closed, row["id"], {"n": 3}, expected_updated_at="2020-01-01T00:00:00Z"),
        delete(closed, row["id"]),
    ]
    for write in writes:
        answer = await transact(app, create(open_, {"n": 1}), write)
        assert_error(answer, 401, "MEMBER_TOKEN_REQUIRED", failed_index=1)
    if level == "Creator":
        for write in writes[1:]:
            # Not even the existence of the row is revealed.
            answer = await transact(app, create(open_, {"n": 1}), write, token=bob)
            assert_error(answer, 404, "ROW_NOT_FOUND", failed_index=1)
    assert await rows(app, open_) == []
    assert await rows(app, closed) == [{"n": 1}]
    for token, change in ((ada, writes[1]), (app.secret_key, writes[1]), (ada, writes[3])):
        assert codes(await transact(app, create(closed, {"n": 7}), change, token=token)) == [None, None]


async def test_the_maker_of_a_row_is_the_member(app: App):
    table = await app.table({"n": "int"}, "Creator")
    ada, bob = (await app.member("ada"))["access_token"], (await app.member("bob"))["access_token"]
    made = (await transact(app, create(table, {"n": 1}), token=ada)).json()["results"][0]["id"]
    for token, status in ((ada, 200), (bob, 404)):
        async with app.client(token) as client:
            assert (await client.get(f"/v1/public/tables/{table}/data/{made}")).status_code == status


async def test_encrypted_columns(app: App):
    table = await app.table({"ssn": {"type": "string", "encrypted": True}, "of": {"type": "uuid", "encrypted": True}})
    answer = await transact(
        app,
        create(table, {"ssn": "one"}),
        create(table, {"ssn": "two", "of": {"$ref": 0}}),
        update(table, {"$ref": 0}, {"ssn": "three"}),
    )
    first = answer.json()["results"][0]["id"]
    shown = [result["data"] for result in answer.json()["results"]]
    assert shown == [{"ssn": "one"}, {"ssn": "two", "of": first}, {"ssn": "three"}]
    async with app.client() as client:
        for where, found in (({"ssn": "three"}, 1), ({"ssn": "one"}, 0), ({"of": first}, 1)):
            answer = await client.post(f"/v1/public/tables/{table}/data/query", json={"where": where})
            assert answer.json()["total_count"] == found, where
    assert_error(
        await transact(app, update(table, first, {"ssn": "four"}), update(table, first, {"ssn": 5})),
        400,
        "VALIDATION_FAILED",
        failed_index=1,
    )
    assert {"ssn": "three"} in await rows(app, table)


_OBSTACLE = """
    create sequence {schema}.tries;
    create function {schema}.obstacle() returns trigger language plpgsql as $$
    begin
        if nextval('{schema}.tries') <= {times} then
            raise exception 'in the way' using errcode = '{state}';
        end if;
        return new;
    end $$;
    create trigger obstacle before update on {schema}.{table} for each row execute function {schema}.obstacle();
"""


async def obstruct(app: App, table: str, times: int, state: str) -> str:
    """Let so many changes of rows fail as they do when others are in the way; returns what counts them."""
    schema = f"app_{UUID(app.app_id).hex}"
    statement = _OBSTACLE.format(schema=schema, table=f"t_{UUID(table).hex}", times=times, state=state)
    await run_sql(app.server, f"do $do$ begin execute $sql${statement}$sql$; end $do$")
    return f"select last_value from {schema}.tries"


@pytest.mark.without_citus("the obstacle is a trigger, which distributed tables cannot have")
@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_it_is_tried_again_where_others_are_in_the_way(app: App, state: str):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    tries = await obstruct(app, table, 11, state)
    answer = await transact(app, create(table, {"name": "new"}), update(table, row["id"], {"n": {"$inc": 1}}))
    assert codes(answer) == [None, None]
    assert await run_sql(app.server, tries) == 12
    assert [kept["n"] for kept in await rows(app, table)] == [1, 0]


@pytest.mark.without_citus("the obstacle is a trigger, which distributed tables cannot have")
async def test_it_is_given_up_after_twelve_tries(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    tries = await obstruct(app, table, 1000, "40001")
    answer = await transact(app, create(table, {"name": "new"}), update(table, row["id"], {"n": {"$inc": 1}}))
    assert_error(answer, 409, "TRANSACTION_CONFLICT")
    assert await run_sql(app.server, tries) == 12
    assert await rows(app, table) == [NAMELESS]


async def test_the_same_operations_can_be_sent_twice(app: App):
    """A failed transaction leaves neither locks nor a broken connection behind."""
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    for _ in range(30):
        failing = [update(table, row["id"], {"n": {"$inc": 1}}), delete(table, NOWHERE)]
        assert_error(await transact(app, *failing), 404, "ROW_NOT_FOUND", failed_index=1)
    assert codes(await transact(app, update(table, row["id"], {"n": {"$inc": 1}}))) == [None]


async def test_many_operations_of_one_kind_run_in_their_order(app: App):
    """Neighbours with the same statement go to the database together; each still sees what those before it did."""
    table = await app.table(SCHEMA)
    row = await app.row(table, {"n": 0})
    made = [create(table, {"n": number}) for number in range(70)]
    counts = [update(table, row["id"], {"n": {"$inc": 1}}) for _ in range(70)]
    gone = [delete(table, {"$ref": number}) for number in range(0, 70, 2)]
    answer = await transact(app, *made, *counts, *gone)
    results = answer.json()["results"]
    assert [result["index"] for result in results] == list(range(175))
    assert [result.get("data", {}).get("n") for result in results] == [*range(70), *range(1, 71), *[None] * 35]
    assert len({result["id"] for result in results[:70]}) == 70
    left = {item["n"] for item in await rows(app, table)}
    assert left == {*range(1, 70, 2), 70}


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [({"doc_id": NOWHERE}, 404, "ROW_NOT_FOUND"), ({"data": {"n": {"$inc": 2**63 - 1}}}, 400, "CANNOT_INCREMENT")],
)
async def test_the_one_at_fault_among_many_is_named(app: App, fault: dict[str, Any], status: int, code: str):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"n": 1})
    steps = [update(table, row["id"], {"n": {"$inc": 1}}) for _ in range(100)]
    steps[77] |= fault
    assert_error(await transact(app, *steps), status, code, failed_index=77)
    assert await rows(app, table) == [{"n": 1}]


async def test_many_deletes_of_one_row_fail_at_the_second(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    assert_error(await transact(app, *[delete(table, row["id"])] * 5), 404, "ROW_NOT_FOUND", failed_index=1)
    assert await rows(app, table) == [NAMELESS]
