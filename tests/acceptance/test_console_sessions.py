"""The sessions of browsers: a refresh token in a cookie that three routes alone read, from the server's own pages."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.conftest import PASSWORD
from tests.hosting.sites import new_site
from tests.support import App, Server, assert_error, plain_client

CREDENTIALS = {"email": "first@example.com", "password": PASSWORD}


@pytest.fixture
async def client(server: Server, console: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_client(server.url, Origin=server.url) as opened:
        yield opened


async def start(client: httpx.AsyncClient, **more: bool) -> httpx.Response:
    answer = await client.post("/v1/auth/session", json={**CREDENTIALS, **more})
    assert answer.status_code == 200, answer.text
    return answer


async def test_the_refresh_token_comes_as_a_cookie_alone(client: httpx.AsyncClient) -> None:
    answer = await start(client)
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(r"pilotis_session=\S+; Path=/v1/auth/session; HttpOnly; SameSite=Strict", cookie)
    assert set(answer.json()) == {"user_id", "email", "access_token", "expires_in", "may_create_apps"}
    assert answer.headers["cache-control"] == "no-store"
    headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    assert (await client.get("/v1/auth/me", headers=headers)).json()["email"] == CREDENTIALS["email"]
    # The cookie is no credential anywhere else.
    assert_error(await client.get("/v1/auth/me"), 401, "TOKEN_REQUIRED")


async def test_a_browser_keeps_the_cookie_of_who_stays_signed_in(client: httpx.AsyncClient) -> None:
    first = await start(client, remember=True)
    assert "Max-Age=2592000" in first.headers["set-cookie"]
    renewed = await client.post("/v1/auth/session/refresh")
    assert "Max-Age=2592000" in renewed.headers["set-cookie"]
    await start(client, remember=False)
    renewed = await client.post("/v1/auth/session/refresh")
    assert "Max-Age" not in renewed.headers["set-cookie"]


async def test_a_session_is_renewed_and_ended_by_its_cookie(client: httpx.AsyncClient) -> None:
    await start(client)
    before = client.cookies["pilotis_session"]
    renewed = await client.post("/v1/auth/session/refresh")
    assert renewed.status_code == 200
    assert client.cookies["pilotis_session"] != before
    ended = await client.delete("/v1/auth/session")
    assert ended.status_code == 200
    assert "Max-Age=0" in ended.headers["set-cookie"]
    headers = {"Authorization": f"Bearer {renewed.json()['access_token']}"}
    assert_error(await client.get("/v1/auth/me", headers=headers), 401, "INVALID_TOKEN")
    # Nobody is signed in, which is no error.
    assert (await client.post("/v1/auth/session/refresh")).status_code == 204


async def test_two_tabs_may_renew_at_once(client: httpx.AsyncClient) -> None:
    await start(client)
    cookie = {"Cookie": f"pilotis_session={client.cookies['pilotis_session']}"}
    client.cookies.clear()
    answers = [await client.post("/v1/auth/session/refresh", headers=cookie) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize("route", ["POST /v1/auth/session", "POST /v1/auth/session/refresh", "DELETE /v1/auth/session"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
async def test_no_other_page_may_use_the_cookie(client: httpx.AsyncClient, route: str, origin: str | None) -> None:
    await start(client)
    method, path = route.split()
    del client.headers["origin"]
    headers = {} if origin is None else {"Origin": origin}
    answer = await client.request(method, path, json=CREDENTIALS, headers=headers)
    assert_error(answer, 403, "ORIGIN_NOT_ALLOWED")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("value", ["", "kept.", "passing.x", "x", "kept.eyJhbGciOiJub25lIn0.e30."])
async def test_a_cookie_that_is_none_renews_nothing(client: httpx.AsyncClient, value: str) -> None:
    cookie = {"Cookie": f"pilotis_session={value}"}
    assert_error(await client.post("/v1/auth/session/refresh", headers=cookie), 401, "INVALID_TOKEN")


async def test_a_members_refresh_token_opens_no_console(client: httpx.AsyncClient, app: App) -> None:
    member = await app.member()
    cookie = {"Cookie": f"pilotis_session=kept.{member['refresh_token']}"}
    assert_error(await client.post("/v1/auth/session/refresh", headers=cookie), 401, "INVALID_TOKEN")
    assert_error(await client.delete("/v1/auth/session", headers=cookie), 401, "INVALID_TOKEN")


async def test_what_the_console_asks_of_an_app_is_no_traffic_of_it(client: httpx.AsyncClient, app: App) -> None:
    headers = {"Authorization": f"Bearer {app.console['access_token']}", "X-App-Id": app.app_id}
    await client.patch(f"/v1/apps/{app.app_id}/limits", json={"data_per_minute": 1}, headers=headers)
    for _ in range(4):
        assert (await client.get("/v1/public/tables", headers=headers)).status_code == 200


async def test_the_exposure_names_open_doors_first(client: httpx.AsyncClient, app: App) -> None:
    table_id = await app.table({"text": "string"}, title="notes")
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    found = (await client.get(f"/v1/apps/{app.app_id}/exposure", headers=headers)).json()["findings"]
    assert [one["code"] for one in found if one["severity"] == "high"] == ["SCHEMA", "TABLE"]
    assert next(one for one in found if one["code"] == "TABLE")["subject"] == table_id
    await client.patch(f"/v1/apps/{app.app_id}", json={"schema_locked": True}, headers=headers)
    found = (await client.get(f"/v1/apps/{app.app_id}/exposure", headers=headers)).json()["findings"]
    assert [one["severity"] for one in found if one["code"] == "SCHEMA"] == ["none"]
    assert "PAGES" not in [one["code"] for one in found]
    await new_site(app)
    found = (await client.get(f"/v1/apps/{app.app_id}/exposure", headers=headers)).json()["findings"]
    assert [one["severity"] for one in found if one["code"] == "PAGES"] == ["medium"]


async def test_files_are_served_by_their_content(client: httpx.AsyncClient) -> None:
    page = await client.get("/console/apps/x/tables")
    policy = page.headers["content-security-policy"]
    assert "require-trusted-types-for 'script'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-cache"
    paths = re.findall(r'(?:src|href)="(/console/assets/[^"]+)"', page.text)
    assert any(path.endswith("/app.js") for path in paths)
    for path in paths:
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"
    old = await client.get("/console/assets/0000000000000000/app.js")
    assert old.headers["cache-control"] == "no-store"
    assert (await client.get("/console/assets/x/..%2F..%2Fendpoints.py")).status_code == 404
    # The page names what a screen imports, but not the large editor, which is loaded when it is needed.
    for screen in ("tables/y", "functions/y"):
        page = await client.get(f"/console/apps/x/{screen}")
        assert "/ui/editor.js" in page.text
        assert "/vendor/editor.js" not in page.text
    setup = await client.get("/setup")
    assert (setup.status_code, setup.headers["location"]) == (303, "/console/setup")
