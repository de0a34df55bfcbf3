"""Decisions: Limits are settings. Each number is the server's to set, and an app may be stricter for itself."""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from pilotis.limits import EXTRAS, PER_APP, Limits, contradiction, for_app, stricter
from tests.acceptance.tus import creation
from tests.backstage import claims_of, me, run_sql
from tests.conftest import PASSWORD, first_console_user, new_app
from tests.console import database_of, invite, owner_of, second_node, set_limits, the_log
from tests.support import App, Server, assert_error
from tests.waiting import until

pytestmark = pytest.mark.share(0.3)

PUBLIC = "/v1/public"
ROWS = {"data": [{"n": n} for n in range(5)]}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with its own limits."""
    environment = {
        "PILOTIS_LIMITS_BODY_BYTES": "20000",
        "PILOTIS_LIMITS_JSON_DEPTH": "10",
        "PILOTIS_LIMITS_ACCESS_TOKEN_SECONDS": "600",
        "PILOTIS_LIMITS_REFRESH_TOKEN_SECONDS": "7000",
        "PILOTIS_LIMITS_GUEST_REFRESH_TOKEN_SECONDS": "8000",
        "PILOTIS_LIMITS_REFRESH_RETRY_SECONDS": "0",
        "PILOTIS_LIMITS_INVITATION_DAYS": "2",
        "PILOTIS_LIMITS_ARGON2_MEMORY_KIB": "64",
        "PILOTIS_LIMITS_ARGON2_PASSES": "3",
        "PILOTIS_LIMITS_LOGIN_ID_LENGTH": "300",
        "PILOTIS_LIMITS_PAGE_DEFAULT_ROWS": "3",
        "PILOTIS_LIMITS_BATCH_OPERATIONS": "2",
        "PILOTIS_LIMITS_TRANSACTION_OPERATIONS": "3",
        "PILOTIS_LIMITS_AGGREGATE_STAGES": "25",
        "PILOTIS_LIMITS_TRASH_DAYS": "3",
        "PILOTIS_LIMITS_DELETED_APP_DAYS": "4",
        "PILOTIS_LIMITS_UPLOAD_SECONDS": "120",
        "PILOTIS_LIMITS_RESUMABLE_UPLOAD_SECONDS": "240",
    }
    running = Server(tmp_path_factory.mktemp("small") / "data", environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def small_console(small: Server) -> dict[str, str]:
    return first_console_user(small)


@pytest.fixture
def small_app(small: Server, small_console: dict[str, str]) -> App:
    return new_app(small, small_console)


def nested(depth: int) -> dict[str, Any]:
    """A row to make whose body has so many levels."""
    value: Any = 1
    for _ in range(depth - 2):
        value = [value]
    return {"data": {"v": value}}


def lifetime(token: str) -> int:
    claims = claims_of(token)
    return claims["exp"] - claims["iat"]


def seconds_until(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() - time.time()


def create(table: str) -> dict[str, Any]:
    return {"type": "create", "table_id": table, "data": {"n": 1}}


async def post(app: App, path: str, body: Any, token: str | None = None) -> httpx.Response:
    async with app.client(token) as client:
        return await client.post(f"{PUBLIC}{path}", json=body)


async def refresh(app: App, signed_in: dict[str, Any]) -> httpx.Response:
    async with app.client(signed_in["refresh_token"]) as client:
        return await client.post("/v1/auth/re-issue")


async def a_storage(app: App) -> str:
    async with owner_of(app).client(app) as console:
        answer = await console.post("/storages/files", json={"name": f"s {uuid4()}"})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_body_size_is_a_setting(small_app: App):
    table = await small_app.table({})
    body = {"data": {"text": "x" * 19_000}}
    assert (await post(small_app, f"/tables/{table}/data", body)).status_code == 201
    body["data"]["text"] = "x" * 20_000
    assert_error(await post(small_app, f"/tables/{table}/data", body), 413, "PAYLOAD_TOO_LARGE")
    await set_limits(small_app, body_bytes=2_000)
    body["data"]["text"] = "x" * 2_000
    assert_error(await post(small_app, f"/tables/{table}/data", body), 413, "PAYLOAD_TOO_LARGE")


async def test_a_server_may_take_larger_bodies_than_by_default(tmp_path):
    server = Server(tmp_path / "data", environment={"PILOTIS_LIMITS_BODY_BYTES": "12000000"}).start()
    try:
        app = new_app(server, first_console_user(server))
        table = await app.table({})
        rows = {"data": [{"text": "x" * 900_000}] * 12}
        assert (await post(app, f"/tables/{table}/data", rows)).status_code == 201
    finally:
        server.stop()


async def test_nesting_is_a_setting(small_app: App):
    table = await small_app.table({})
    assert (await post(small_app, f"/tables/{table}/data", nested(10))).status_code == 201
    assert_error(await post(small_app, f"/tables/{table}/data", nested(11)), 400, "MALFORMED_JSON")
    await set_limits(small_app, json_depth=5)
    assert (await post(small_app, f"/tables/{table}/data", nested(5))).status_code == 201
    assert_error(await post(small_app, f"/tables/{table}/data", nested(6)), 400, "MALFORMED_JSON")


async def test_token_lifetimes_are_settings(small_app: App, small_console: dict[str, str]):
    member, guest = await small_app.member(), await small_app.guest()
    assert [lifetime(one["access_token"]) for one in (member, guest, small_console)] == [600] * 3
    assert [lifetime(one["refresh_token"]) for one in (member, guest, small_console)] == [7000, 8000, 7000]
    await set_limits(small_app, access_token_seconds=60, refresh_token_seconds=500, guest_refresh_token_seconds=900)
    member, guest = await small_app.member("bob"), await small_app.guest()
    assert [lifetime(one["access_token"]) for one in (member, guest)] == [60, 60]
    assert [lifetime(one["refresh_token"]) for one in (member, guest)] == [500, 900]


async def test_a_shorter_lifetime_holds_from_the_next_refresh_on(small_app: App):
    member, guest = await small_app.member(), await small_app.guest()
    await set_limits(small_app, access_token_seconds=60, refresh_token_seconds=500, guest_refresh_token_seconds=900)
    for signed_in, expected in ((member, 500), (guest, 900)):
        answer = await refresh(small_app, signed_in)
        assert answer.status_code == 200, answer.text
        assert lifetime(answer.json()["access_token"]) == 60
        assert lifetime(answer.json()["refresh_token"]) == expected


async def test_the_time_to_retry_a_refresh_is_a_setting(small_app: App):
    member = await small_app.member()
    pair = await refresh(small_app, member)
    assert pair.status_code == 200
    async with small_app.client(pair.json()["access_token"]) as client:
        assert (await client.get("/v1/public/app-members/me")).status_code == 200
    assert_error(await refresh(small_app, member), 401, "REFRESH_TOKEN_REUSED")


async def test_the_lifetime_of_invitations_is_a_setting(small_app: App):
    day = 24 * 3600
    assert day < seconds_until((await invite(small_app, "viewer"))["expires_at"]) <= 2 * day
    await set_limits(small_app, invitation_days=1)
    assert seconds_until((await invite(small_app, "viewer"))["expires_at"]) <= day


async def test_the_cost_of_a_password_hash_is_a_setting_and_old_hashes_stay_good(small_app: App):
    member = await small_app.member("ada", "correct horse")
    stored = "select password_hash from pilotis.members where member_id = $1"
    server = small_app.server
    assert (await run_sql(server, stored, member["member_id"])).startswith("$argon2id$v=19$m=64,t=3,p=1$")
    # A node of another cost on the same database.
    async with second_node(server) as node:
        assert await node.services.passwords.verify(await run_sql(server, stored, member["member_id"]), "correct horse")
        assert (await node.services.passwords.hash("x" * 8)).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


async def test_the_length_of_login_ids_is_a_setting(small_app: App):
    assert (await small_app.member("x" * 300))["member_id"]
    body = {"login_id": "x" * 301, "password": PASSWORD}
    assert_error(await post(small_app, "/app-members/signup", body), 400, "VALIDATION_FAILED")
    await set_limits(small_app, login_id_length=10)
    body["login_id"] = "x" * 11
    assert_error(await post(small_app, "/app-members/signup", body), 400, "VALIDATION_FAILED")
    assert_error(await post(small_app, "/app-members/signin", body), 400, "VALIDATION_FAILED")


async def test_the_size_of_a_page_by_default_is_a_setting(small_app: App):
    table = await small_app.table({"n": "int"})
    assert (await post(small_app, f"/tables/{table}/data", ROWS)).status_code == 201
    query = f"/tables/{table}/data/query"

    async def limits() -> list[int]:
        async with small_app.client() as client:
            return [
                (await client.get(f"{PUBLIC}/tables/{table}/data")).json()["limit"],
                (await client.post(f"{PUBLIC}{query}", json={})).json()["limit"],
                len((await client.post(f"{PUBLIC}{query}", json={"limit": None})).json()["data"]),
            ]

    assert await limits() == [3, 3, 3]
    async with owner_of(small_app).client(small_app) as console:
        assert (await console.get("/members")).json()["limit"] == 3
        assert (await console.get("/audit-log")).json()["limit"] == 3
    await set_limits(small_app, page_default_rows=2)
    assert await limits() == [2, 2, 2]


async def test_the_sizes_of_batches_and_transactions_are_settings(small_app: App):
    table = await small_app.table({"n": "int"})
    for path, most in (("/batch", 2), ("/transactions", 3)):
        assert (await post(small_app, path, {"operations": [create(table)] * most})).status_code == 200
        too_many = await post(small_app, path, {"operations": [create(table)] * (most + 1)})
        assert f"At most {most} operations" in assert_error(too_many, 400, "VALIDATION_FAILED")["message"]
    await set_limits(small_app, batch_operations=1, transaction_operations=2)
    for path, most in (("/batch", 1), ("/transactions", 2)):
        too_many = await post(small_app, path, {"operations": [create(table)] * (most + 1)})
        assert_error(too_many, 400, "VALIDATION_FAILED")


async def test_the_number_of_stages_and_of_documents_are_settings(small_app: App):
    table = await small_app.table({"n": "int"})
    await post(small_app, f"/tables/{table}/data", ROWS)

    def pipeline(stages: int) -> dict[str, Any]:
        return {"table_id": table, "pipeline": [{"$match": {}}] * stages}

    assert (await post(small_app, "/aggregate", pipeline(25))).status_code == 200
    assert_error(await post(small_app, "/aggregate", pipeline(26)), 400, "INVALID_PIPELINE")
    await set_limits(small_app, aggregate_stages=2, aggregate_documents=4)
    assert_error(await post(small_app, "/aggregate", pipeline(3)), 400, "INVALID_PIPELINE")
    assert_error(await post(small_app, "/aggregate", pipeline(1)), 400, "RESULT_TOO_LARGE")
    await set_limits(small_app, aggregate_documents=5)
    assert (await post(small_app, "/aggregate", pipeline(1))).status_code == 200


@pytest.mark.parametrize(
    ("limit", "narrow", "wide"),
    [
        ("where_depth", {"$and": [{"n": 1}]}, {"$and": [{"$and": [{"n": 1}]}]}),
        ("where_conditions", {"$or": [{"n": 1}, {"n": 2}]}, {"$or": [{"n": 1}, {"n": 2}, {"n": 3}]}),
        ("where_list_values", {"n": {"$in": [1, 2]}}, {"n": {"$in": [1, 2, 3]}}),
        ("regex_length", {"s": {"$matches": "ab"}}, {"s": {"$matches": "abc"}}),
    ],
)
async def test_the_bounds_of_conditions_are_an_apps_to_lower(app: App, limit: str, narrow: Any, wide: Any):
    table = await app.table({"n": "int", "s": "string"})
    query = f"/tables/{table}/data/query"
    assert (await post(app, query, {"where": wide})).status_code == 200
    await set_limits(app, **{limit: 2})
    assert (await post(app, query, {"where": narrow})).status_code == 200
    assert (await post(app, query, {"where": wide})).status_code == 400


async def test_other_bounds_are_an_apps_to_lower(app: App):
    table = await app.table({"s": "string", "place": "object"})
    await set_limits(
        app, column_name_bytes=5, search_query_length=3, polygon_points=3, password_max_length=9, page_bytes=100
    )
    column = {"name": "toolong", "data_type": "int"}
    assert_error(await post(app, f"/tables/{table}/columns", column), 400, "INVALID_COLUMN_NAME")
    definition = {"title": "t", "schema": {"toolong": "int"}, "access_level": "Public"}
    assert_error(await post(app, "/tables", definition), 400, "INVALID_COLUMN_NAME")
    assert (await post(app, "/search", {"table_id": table, "query": "abcd"})).status_code == 400
    square = [{"latitude": lat, "longitude": lon} for lat, lon in ((0, 0), (0, 1), (1, 1), (1, 0))]
    geo = {"table_id": table, "field": "place", "polygon": {"points": square}}
    assert (await post(app, "/geo", geo)).status_code == 400
    body = {"login_id": "ada", "password": "ten digits"}
    assert_error(await post(app, "/app-members/signup", body), 400, "VALIDATION_FAILED")
    assert (await post(app, f"/tables/{table}/data", {"data": {"s": "x" * 200}})).status_code == 201
    assert_error(await post(app, f"/tables/{table}/data/query", {}), 400, "RESULT_TOO_LARGE")


async def test_the_days_in_the_trash_are_a_setting(small_app: App):
    await set_limits(small_app, trash_days=2)
    gone, kept = await small_app.table({"n": "int"}, title="gone"), await small_app.table({"n": "int"}, title="kept")
    async with small_app.client() as client, owner_of(small_app).client(small_app) as console:
        for table in (gone, kept):
            assert (await client.delete(f"{PUBLIC}/tables/{table}")).status_code == 200
        tables = (await console.get("/trash")).json()["tables"]
        day = 24 * 3600
        assert all(day < seconds_until(table["restorable_until"]) <= 2 * day for table in tables)
        # Older than the app's own limit, younger than the server's.
        age = "update pilotis.tables set dropped_at = now() - interval '2.5 days' where table_id = $1"
        await run_sql(small_app.server, age, gone)
        # A task of the hour, by the limits of this node and of the app.
        async with second_node(small_app.server, limits=Limits(trash_days=3)) as node:
            await node.services.trash.purge_expired()
        assert [table["title"] for table in (await console.get("/trash")).json()["tables"]] == ["kept"]


async def test_the_days_of_a_deleted_app_are_a_setting(small_app: App):
    async with owner_of(small_app).client() as console:
        app_id = small_app.app_id
        assert (await console.delete(f"/apps/{app_id}")).status_code == 200
        age = "update pilotis.apps set deleted_at = now() - interval '100 hours' where app_id = $1"
        await run_sql(small_app.server, age, app_id)
        assert_error(await console.post(f"/apps/{app_id}/restore"), 404, "APP_NOT_FOUND")
        age = "update pilotis.apps set deleted_at = now() - interval '90 hours' where app_id = $1"
        await run_sql(small_app.server, age, app_id)
        assert (await console.post(f"/apps/{app_id}/restore")).status_code == 200


async def test_the_lifetimes_of_uploads_are_settings(small_app: App):
    storage = await a_storage(small_app)
    new = {"file_name": "a.txt", "file_size": 3, "mime_type": "text/plain"}

    async def seconds() -> tuple[float, float]:
        permit = await post(small_app, f"/storages/files/{storage}/presigned-url", new)
        assert permit.status_code == 200, permit.text
        async with small_app.client() as client:
            resumable = await client.post(f"{PUBLIC}/storages/files/{storage}/tus", headers=creation(3))
        assert resumable.status_code == 201, resumable.text
        expires = parsedate_to_datetime(resumable.headers["upload-expires"]).timestamp()
        return seconds_until(permit.json()["expires_at"]), expires - time.time()

    once, resumable = await seconds()
    assert 60 < once <= 121
    assert 180 < resumable <= 241
    await set_limits(small_app, upload_seconds=30, resumable_upload_seconds=50)
    once, resumable = await seconds()
    assert once <= 31
    assert resumable <= 51


@pytest.mark.parametrize("name", sorted(PER_APP))
async def test_an_app_never_goes_beyond_the_server(app: App, name: str):
    async with owner_of(app).client(app) as console:
        limits = (await console.get("/limits")).json()["limits"]
        server = limits[name]["server_value"]
        if EXTRAS[name].get("zero_is_unlimited") and server == 0:
            return
        step = -1 if EXTRAS[name]["per_app"] == "at_least" else 1
        answer = await console.patch("/limits", json={"indexes": 3, name: server + step})
        body = assert_error(answer, 400, "VALIDATION_FAILED")
        assert body["details"][0]["field"] == name
        assert (await console.get("/limits")).json()["limits"] == limits
        assert (await console.patch("/limits", json={name: server})).status_code == 200
        assert await the_log(app, action="limits.update")


async def test_an_apps_own_limit_gives_way_to_a_server_that_lowers_its_own(app: App):
    await set_limits(app, row_bytes=5000, password_min_length=9)
    async with database_of(app.server) as connection:
        row = await connection.fetchrow("select * from pilotis.apps where app_id = $1", app.app_id)
    own = {"row_bytes": 5000, "password_min_length": 9}
    assert row["limits"] == '{"row_bytes": 5000, "password_min_length": 9}'
    assert for_app(Limits(row_bytes=100, password_min_length=12), own).row_bytes == 100
    assert for_app(Limits(row_bytes=100, password_min_length=12), own).password_min_length == 12
    assert for_app(Limits(), own).password_min_length == 9


def test_a_rate_of_zero_is_no_limit_and_so_the_widest():
    assert stricter("data_per_minute", 0, 5) == 5
    assert stricter("data_per_minute", 5, 0) == 5
    assert stricter("data_per_minute", 5, 9) == 5
    assert stricter("data_per_minute", 5, 3) == 3


def test_limits_that_contradict_each_other_are_told():
    assert contradiction(Limits()) is None
    assert contradiction(Limits(password_min_length=20, password_max_length=10)) is not None


def test_an_app_without_limits_of_its_own_shares_the_servers():
    server = Limits()
    assert for_app(server, {}) is server


async def test_many_requests_read_an_apps_limits_once(app: App):
    """The limits in force are part of the app's record: no request computes them."""
    table = await app.table({"n": "int"})
    async with second_node(app.server) as node:
        apps = node.services.apps
        first = await apps.by_public_key(app.public_key, None)
        assert (await apps.by_public_key(app.public_key, None)).limits is first.limits
        await set_limits(app, row_bytes=77)

        async def heard() -> bool:
            return (await apps.by_public_key(app.public_key, None)).limits.row_bytes == 77

        await until(heard)
    await asyncio.gather(*(app.row(table, {"n": n}) for n in range(3)))
    assert (await me(app.server, (await app.member())["access_token"])).status_code == 200


@pytest.mark.without_citus("the shortage is a trigger, which distributed tables cannot have")
async def test_a_database_short_of_memory_is_answered_503(app: App):
    """PostgreSQL's 53200, in a create that shares its statement, a change, a batch and a transaction."""
    table = await app.table({"text": "string"})
    row = await app.row(table, {"text": "kept"})
    schema, name = f"app_{UUID(app.app_id).hex}", f"t_{UUID(table).hex}"
    async with database_of(app.server) as connection:
        relation = await connection.fetchval(
            "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = $1 and tablename = $2",
            schema,
            name,
        )
        await connection.execute(
            f"""
            create function {schema}.short_of_memory() returns trigger language plpgsql as
            $$ begin raise exception 'out of memory' using errcode = 'out_of_memory'; end $$;
            create trigger short_of_memory before insert or update on {relation}
            for each row execute function {schema}.short_of_memory()
            """
        )
    operation = {"type": "create", "table_id": table, "data": {"text": "x"}}
    rows = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        for method, path, body in (
            ("POST", rows, {"data": {"text": "x"}}),
            ("PATCH", f"{rows}/{row['id']}", {"data": {"text": "x"}}),
            ("POST", f"{rows}/bulk", {"data": [{"text": "x"}]}),
            ("POST", "/v1/public/transactions", {"operations": [operation]}),
        ):
            answer = await client.request(method, path, json=body)
            assert "memory" in assert_error(answer, 503, "UNAVAILABLE")["message"], path
            assert answer.headers["Retry-After"]
        assert (await client.get(rows)).json()["total_count"] == 1
