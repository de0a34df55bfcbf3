"""Console: the members of an app."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.conftest import PASSWORD
from tests.console import owner_of, set_auth, the_log
from tests.database import connection_to
from tests.support import App, Server, assert_error

ITEM = {
    "member_id",
    "login_id",
    "nickname",
    "is_guest",
    "is_active",
    "roles",
    "created_at",
    "updated_at",
    "last_active_at",
}


def console_client(app: App) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{app.server.url}/v1/apps/{app.app_id}",
        headers={"Authorization": f"Bearer {app.console['access_token']}"},
    )


@pytest.fixture
async def console_of(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with console_client(app) as client:
        yield client


async def sign_up(app: App, login_id: str, nickname: str | None = None) -> dict[str, Any]:
    async with app.client() as client:
        body = {"login_id": login_id, "password": PASSWORD, "nickname": nickname}
        return (await client.post("/v1/public/app-members/signup", json=body)).json()


async def guest(app: App) -> dict[str, Any]:
    async with app.client() as client:
        return (await client.post("/v1/public/app-members")).json()


async def me(app: App, member: dict[str, Any]) -> httpx.Response:
    async with app.client(member["access_token"]) as client:
        return await client.get("/v1/public/app-members/me")


async def audit(app: App) -> list[tuple[str, str, str]]:
    async with connection_to(app.server) as connection:
        rows = await connection.fetch(
            "select action, target, actor_id from pilotis.audit_log where app_id = $1 order by entry_id", app.app_id
        )
    return [tuple(row) for row in rows]


async def found(client: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await client.get("/members", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total_count"] == len(answer.json()["data"])
    return [member["login_id"] or "guest" for member in answer.json()["data"]]


async def test_members_are_listed_newest_first_in_pages(app: App, console_of: httpx.AsyncClient):
    for number in range(5):
        await sign_up(app, f"member {number}")
    first = (await console_of.get("/members", params={"limit": 2})).json()
    assert [member["login_id"] for member in first["data"]] == ["member 4", "member 3"]
    assert (first["total_count"], first["limit"], first["offset"]) == (5, 2, 0)
    assert set(first["data"][0]) == ITEM
    last = (await console_of.get("/members", params={"limit": 2, "offset": 4})).json()
    assert [member["login_id"] for member in last["data"]] == ["member 0"]
    assert last["total_count"] == 5
    none = (await console_of.get("/members", params={"limit": 0})).json()
    assert (none["data"], none["total_count"]) == ([], 5)
    most = (await console_of.get("/members", params={"limit": 1_000_000_000})).json()
    assert most["limit"] == 1000


async def test_members_are_found_by_any_of_their_names(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "Ada@example.com", "Countess")
    await sign_up(app, "grace@example.com", "Admiral")
    assert await found(console_of, search="ADA@") == ["Ada@example.com"]
    assert await found(console_of, search="admi") == ["grace@example.com"]
    assert await found(console_of, search=ada["member_id"]) == ["Ada@example.com"]
    assert await found(console_of, search="example") == ["grace@example.com", "Ada@example.com"]
    assert await found(console_of, search="nobody") == []


async def test_a_search_is_taken_letter_by_letter(app: App, console_of: httpx.AsyncClient):
    for login_id in ("100%", "under_score", "back\\slash", "plain"):
        await sign_up(app, login_id)
    assert await found(console_of, search="%") == ["100%"]
    assert await found(console_of, search="_") == ["under_score"]
    assert await found(console_of, search="\\") == ["back\\slash"]
    assert await found(console_of, search="' or true --") == []
    assert_error(await console_of.get("/members", params={"search": "\0"}), 400, "VALIDATION_FAILED")


async def test_members_are_filtered(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    await sign_up(app, "grace")
    await guest(app)
    await console_of.patch(f"/members/{ada['member_id']}", json={"is_active": False})
    assert await found(console_of, is_guest="true") == ["guest"]
    assert await found(console_of, is_guest="false") == ["grace", "ada"]
    assert await found(console_of, is_active="false") == ["ada"]
    assert await found(console_of, is_active="true", is_guest="false", search="a") == ["grace"]
    assert_error(await console_of.get("/members", params={"is_guest": "maybe"}), 400, "VALIDATION_FAILED")
    assert_error(await console_of.get("/members", params={"limit": -1}), 400, "VALIDATION_FAILED")


async def test_a_member_is_read_whole(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada", "Countess")
    async with app.client(ada["access_token"]) as client:
        change = {"custom_data": {"theme": "dark"}}
        await client.patch("/v1/public/app-members/me/custom-data", json=change)
    record = (await console_of.get(f"/members/{ada['member_id']}")).json()
    more = {"claims", "custom_data", "sessions", "email", "factors", "banned_until", "ban_reason", "deletes_at"}
    assert set(record) == ITEM | more
    assert record["custom_data"] == {"theme": "dark"}
    assert (record["nickname"], record["is_guest"], record["is_active"], record["sessions"]) == (
        "Countess",
        False,
        True,
        1,
    )
    assert "password" not in str(record)


async def test_a_deactivated_member_is_refused_at_once_and_comes_back(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    path = f"/members/{ada['member_id']}"
    changed = await console_of.patch(path, json={"is_active": False})
    assert changed.status_code == 200
    assert changed.json()["is_active"] is False
    assert_error(await me(app, ada), 403, "MEMBER_INACTIVE")
    async with app.client() as client:
        credentials = {"login_id": "ada", "password": PASSWORD}
        assert_error(await client.post("/v1/public/app-members/signin", json=credentials), 403, "MEMBER_INACTIVE")
    async with app.client(ada["refresh_token"]) as client:
        assert_error(await client.post("/v1/auth/re-issue"), 403, "MEMBER_INACTIVE")
    await console_of.patch(path, json={"is_active": True})
    assert (await me(app, ada)).status_code == 200
    user_id = app.console["user_id"]
    assert [entry for entry in await audit(app) if entry[0].startswith("member.")] == [
        ("member.update", ada["member_id"], user_id),
        ("member.update", ada["member_id"], user_id),
    ]


async def test_a_nickname_is_changed_and_removed(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada", "Countess")
    path = f"/members/{ada['member_id']}"
    assert (await console_of.patch(path, json={"nickname": "Enchantress"})).json()["nickname"] == "Enchantress"
    assert (await console_of.patch(path, json={})).json()["nickname"] == "Enchantress"
    assert (await console_of.patch(path, json={"nickname": None})).json()["nickname"] is None
    assert_error(await console_of.patch(path, json={"nickname": ""}), 400, "VALIDATION_FAILED")
    assert_error(await console_of.patch(path, json={"login_id": "x"}), 400, "VALIDATION_FAILED")
    assert_error(await console_of.patch(path, json={"is_active": None}), 400, "VALIDATION_FAILED")


async def test_a_deleted_member_is_gone_and_its_rows_stay(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    table = await app.table({"note": "string"}, "Creator")
    row = await app.row(table, {"note": "mine"}, ada["access_token"])
    gone = await console_of.delete(f"/members/{ada['member_id']}")
    assert gone.status_code == 200
    assert gone.json()["id"] == ada["member_id"]
    assert_error(await me(app, ada), 401, "INVALID_TOKEN")
    async with app.client(ada["refresh_token"]) as client:
        assert_error(await client.post("/v1/auth/re-issue"), 401, "INVALID_TOKEN")
    assert_error(await console_of.delete(f"/members/{ada['member_id']}"), 404, "MEMBER_NOT_FOUND")
    async with app.client(app.secret_key) as client:
        kept = await client.get(f"/v1/public/tables/{table}/data/{row['id']}")
    assert kept.json()["data"] == {"note": "mine"}
    again = await sign_up(app, "ada")
    assert again["member_id"] != ada["member_id"]
    async with app.client(again["access_token"]) as client:
        listed = await client.get(f"/v1/public/tables/{table}/data")
    assert listed.json()["total_count"] == 0
    assert ("member.delete", ada["member_id"], app.console["user_id"]) in await audit(app)


async def test_requests_are_tried_as_a_member_for_minutes(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    table = await app.table({"text": "string"}, access_level="Creator")
    await app.row(table, {"text": "hers"}, ada["access_token"])
    path = f"/members/{ada['member_id']}"
    answer = await console_of.post(f"{path}/token")
    assert answer.status_code == 200
    given = answer.json()
    assert given["expires_in"] == 300
    async with app.client(given["access_token"]) as client:
        listed = (await client.get(f"/v1/public/tables/{table}/data")).json()
    assert [row["data"]["text"] for row in listed["data"]] == ["hers"]
    assert ("member.run_as", ada["member_id"], app.console["user_id"]) in await audit(app)
    # The session is among the member's, and ends with them.
    sessions = (await console_of.get(f"{path}/sessions")).json()["sessions"]
    assert given["session_id"] in [session["session_id"] for session in sessions]
    assert (await console_of.delete(f"{path}/sessions/{given['session_id']}")).status_code == 200
    async with app.client(given["access_token"]) as client:
        assert_error(await client.get(f"/v1/public/tables/{table}/data"), 401, "INVALID_TOKEN")
    assert (await console_of.patch(path, json={"is_active": False})).status_code == 200
    assert_error(await console_of.post(f"{path}/token"), 403, "MEMBER_INACTIVE")
    assert_error(await console_of.post("/members/nobody/token"), 404, "MEMBER_NOT_FOUND")


async def test_a_members_data_is_replaced(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    path = f"/members/{ada['member_id']}"
    for data in ({"theme": "dark", "seats": [1, 2]}, {"theme": "light"}, {}):
        answer = await console_of.patch(path, json={"custom_data": data})
        assert answer.status_code == 200, answer.text
        assert (await console_of.get(path)).json()["custom_data"] == data
    assert ("member.update", ada["member_id"], app.console["user_id"]) in await audit(app)
    large = {"custom_data": {"text": "x" * 100_000}}
    assert_error(await console_of.patch(path, json=large), 413, "PAYLOAD_TOO_LARGE")
    assert_error(await console_of.patch(path, json={"custom_data": [1]}), 400, "VALIDATION_FAILED")


async def test_a_member_is_signed_out_everywhere(app: App, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    other = await sign_up(app, "grace")
    async with app.client() as client:
        credentials = {"login_id": "ada", "password": PASSWORD}
        second = (await client.post("/v1/public/app-members/signin", json=credentials)).json()
    answer = await console_of.post(f"/members/{ada['member_id']}/sign-out-everywhere")
    assert answer.status_code == 200
    assert answer.json() == {
        "message": "Member signed out everywhere.",
        "id": ada["member_id"],
        "sessions": 2,
    }
    assert_error(await me(app, ada), 401, "INVALID_TOKEN")
    assert_error(await me(app, second), 401, "INVALID_TOKEN")
    assert (await me(app, other)).status_code == 200
    assert ("member.sign_out", ada["member_id"], app.console["user_id"]) in await audit(app)


async def test_a_guest_is_managed_like_any_member(app: App, console_of: httpx.AsyncClient):
    member = await guest(app)
    assert member["member_id"].startswith("guest_")
    record = (await console_of.get(f"/members/{member['member_id']}")).json()
    assert (record["is_guest"], record["login_id"]) == (True, None)
    assert (await console_of.delete(f"/members/{member['member_id']}")).status_code == 200


@pytest.mark.parametrize(
    "member_id",
    ["nobody", "guest_", "%00", "a%27b", "0198c0de-0000-7000-8000-000000000000", "x" * 5000],
)
async def test_an_unknown_member_is_404(console_of: httpx.AsyncClient, member_id: str):
    path = f"/members/{member_id}"
    assert_error(await console_of.get(path), 404, "MEMBER_NOT_FOUND")
    assert_error(await console_of.patch(path, json={"is_active": False}), 404, "MEMBER_NOT_FOUND")
    assert_error(await console_of.delete(path), 404, "MEMBER_NOT_FOUND")
    assert_error(await console_of.post(f"{path}/sign-out-everywhere"), 404, "MEMBER_NOT_FOUND")


async def test_another_apps_members_are_out_of_reach(app: App, other_app: App, console_of: httpx.AsyncClient):
    stranger = await sign_up(other_app, "ada")
    path = f"/members/{stranger['member_id']}"
    assert await found(console_of) == []
    assert_error(await console_of.get(path), 404, "MEMBER_NOT_FOUND")
    assert_error(await console_of.patch(path, json={"is_active": False}), 404, "MEMBER_NOT_FOUND")
    assert_error(await console_of.delete(path), 404, "MEMBER_NOT_FOUND")
    assert_error(await console_of.post(f"{path}/sign-out-everywhere"), 404, "MEMBER_NOT_FOUND")
    assert (await me(other_app, stranger)).status_code == 200


async def test_a_viewer_reads_and_changes_nothing(app: App, server: Server, console_of: httpx.AsyncClient):
    ada = await sign_up(app, "ada")
    path = f"/members/{ada['member_id']}"
    async with connection_to(server) as connection:
        set_role = "update pilotis.app_users set role = $2 where app_id = $1"
        await connection.execute(set_role, app.app_id, "viewer")
        assert (await console_of.get(path)).status_code == 200
        assert await found(console_of) == ["ada"]
        assert_error(await console_of.patch(path, json={"is_active": False}), 403, "ROLE_REQUIRED")
        assert_error(await console_of.delete(path), 403, "ROLE_REQUIRED")
        assert_error(await console_of.post(f"{path}/sign-out-everywhere"), 403, "ROLE_REQUIRED")
        await connection.execute(set_role, app.app_id, "editor")
        assert (await console_of.patch(path, json={"is_active": False})).status_code == 200


async def test_a_console_user_creates_a_member_where_nobody_can_sign_up(app: App):
    await set_auth(app, allow_id_password_login=False)
    async with owner_of(app).client(app) as console, app.client() as client:
        body = {"login_id": "linus", "password": PASSWORD, "nickname": "Linus"}
        made = await console.post("/members", json=body)
        assert made.status_code == 201, made.text
        assert (made.json()["login_id"], made.json()["nickname"], made.json()["sessions"]) == ("linus", "Linus", 0)
        assert_error(await console.post("/members", json=body), 409, "LOGIN_ID_TAKEN")
        short = await console.post("/members", json={"login_id": "ada", "password": "short"})
        assert short.status_code == 400
        await set_auth(app)
        signed_in = await client.post("/v1/public/app-members/signin", json={"login_id": "linus", "password": PASSWORD})
        assert signed_in.json()["member_id"] == made.json()["member_id"]
    (entry,) = await the_log(app, action="member.create")
    assert entry["target"] == made.json()["member_id"]
    assert PASSWORD not in str(entry)


async def test_each_session_of_a_member_says_which_program_began_it(app: App):
    await set_auth(app)
    firefox = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:128.0) Gecko/20100101 Firefox/128.0"
    credentials = {"login_id": "linus", "password": PASSWORD}
    async with app.client() as client:
        signed_up = await client.post(
            "/v1/public/app-members/signup", json=credentials, headers={"User-Agent": firefox}
        )
        sign_in = "/v1/public/app-members/signin"
        await client.post(sign_in, json=credentials, headers={"User-Agent": b"a\tb\x9f" + b"c" * 400})
        last = await client.post(sign_in, json=credentials, headers={"User-Agent": ""})
        renewal = {"Authorization": f"Bearer {last.json()['refresh_token']}"}
        assert (await client.post("/v1/auth/re-issue", headers=renewal)).status_code == 200
        guest = await client.post("/v1/public/app-members", headers={"User-Agent": firefox})
    async with owner_of(app).client(app) as console:
        listed = await console.get(f"/members/{signed_up.json()['member_id']}/sessions")
        assert [one["user_agent"] for one in listed.json()["sessions"]] == [None, "ab" + "c" * 298, firefox]
        (one,) = (await console.get(f"/members/{guest.json()['member_id']}/sessions")).json()["sessions"]
        assert one["user_agent"] == firefox


async def test_one_session_of_a_member_ends_and_the_other_goes_on(app: App):
    first = await app.member("linus", PASSWORD)
    async with app.client() as client:
        second = await client.post("/v1/public/app-members/signin", json={"login_id": "linus", "password": PASSWORD})
    path = f"/members/{first['member_id']}/sessions"
    async with owner_of(app).client(app) as console:
        latest, oldest = (await console.get(path)).json()["sessions"]
        assert latest["created_at"] > oldest["created_at"]
        ended = await console.delete(f"{path}/{oldest['session_id']}")
        assert ended.json() == {"message": "Session ended.", "id": oldest["session_id"]}
        assert_error(await console.delete(f"{path}/{oldest['session_id']}"), 404, "SESSION_NOT_FOUND")
        other = await app.member("ada", PASSWORD)
        assert_error(
            await console.delete(f"/members/{other['member_id']}/sessions/{latest['session_id']}"),
            404,
            "SESSION_NOT_FOUND",
        )
        assert [one["session_id"] for one in (await console.get(path)).json()["sessions"]] == [latest["session_id"]]
    async with app.client(first["access_token"]) as client:
        assert (await client.get("/v1/public/app-members/me")).status_code == 401
    async with app.client(second.json()["access_token"]) as client:
        assert (await client.get("/v1/public/app-members/me")).status_code == 200
    assert len(await the_log(app, action="member.end_session")) == 1
