"""Decisions: console users sign up with a token, sign in, read themselves, re-issue and log out."""

import uuid
from typing import Any

import httpx
import pytest

from tests.backstage import bearer, claims_of, run_sql
from tests.conftest import PASSWORD
from tests.support import App, Server, assert_error, plain_client

SIGN_UP = "/v1/auth/signup"
SIGN_IN = "/v1/auth/signin"
ME = "/v1/auth/me"
FIRST = {"email": "first@example.com", "password": PASSWORD}


@pytest.fixture
async def client(server: Server, console: dict[str, str]) -> Any:
    """A client without credentials, on a server whose first console user has signed up."""
    async with plain_client(server.url) as made:
        yield made


class TestSignUp:
    async def test_the_first_run_link_makes_one_user(self, server: Server, client: httpx.AsyncClient):
        body = {"email": "second@example.com", "password": PASSWORD, "token": server.setup_token}
        assert_error(await client.post(SIGN_UP, json=body), 403, "INVALID_INVITATION")

    async def test_its_answer_is_a_signed_in_user(self, console: dict[str, str]):
        assert set(console) == {"user_id", "email", "access_token", "refresh_token"}
        assert console["email"] == "first@example.com"

    @pytest.mark.parametrize("token", ["", "x", "a" * 43, "\ud7ff", "x" * 100_000])
    async def test_another_token_makes_none(self, client: httpx.AsyncClient, token: str):
        body = {"email": "second@example.com", "password": PASSWORD, "token": token}
        assert_error(await client.post(SIGN_UP, json=body), 403, "INVALID_INVITATION")

    @pytest.mark.parametrize(
        "change",
        [
            {"email": "no address"},
            {"email": "a@b@c"},
            {"email": "a\0@example.com"},
            {"email": "a" * 255 + "@example.com"},
            {"email": {"$ne": None}},
            {"email": None},
            {"password": "short"},
            {"password": ["correct horse battery"]},
            {"token": {"$ne": None}},
            {"token": None},
            {"token": "a\0b"},
            {"role": "owner"},
            {"is_active": True},
            {"user_id": "00000000-0000-0000-0000-000000000000"},
        ],
        ids=str,
    )
    async def test_bad_input_is_400(self, client: httpx.AsyncClient, change: dict[str, Any]):
        body = {"email": "second@example.com", "password": PASSWORD, "token": "x"} | change
        assert_error(await client.post(SIGN_UP, json=body), 400, "VALIDATION_FAILED")


class TestSignIn:
    async def test_it_answers_200_in_the_shape_of_sign_up(self, client: httpx.AsyncClient, console: dict[str, str]):
        answer = await client.post(SIGN_IN, json=FIRST)
        assert answer.status_code == 200
        assert set(answer.json()) == set(console)
        assert (answer.json()["user_id"], answer.json()["email"]) == (console["user_id"], FIRST["email"])

    async def test_the_address_is_read_in_any_case(self, client: httpx.AsyncClient):
        assert (await client.post(SIGN_IN, json={**FIRST, "email": "First@EXAMPLE.com"})).status_code == 200

    @pytest.mark.advisory("GHSA-w54v-hf9p-8856")
    async def test_an_unknown_address_gets_the_very_answer_of_a_wrong_password(self, client: httpx.AsyncClient):
        wrong = await client.post(SIGN_IN, json={**FIRST, "password": "wrong horse battery"})
        unknown = await client.post(SIGN_IN, json={**FIRST, "email": "nobody@example.com"})
        bodies = [assert_error(answer, 401, "INVALID_CREDENTIALS") for answer in (wrong, unknown)]
        assert bodies[0]["message"] == bodies[1]["message"]

    @pytest.mark.parametrize("change", [{"password": {"$ne": None}}, {"email": ["first@example.com"]}, {"x": 1}])
    async def test_bad_input_is_400(self, client: httpx.AsyncClient, change: dict[str, Any]):
        assert_error(await client.post(SIGN_IN, json=FIRST | change), 400, "VALIDATION_FAILED")

    async def test_a_member_of_an_app_is_no_console_user(self, app: App, client: httpx.AsyncClient):
        await app.member("member@example.com", PASSWORD)
        answer = await client.post(SIGN_IN, json={"email": "member@example.com", "password": PASSWORD})
        assert_error(answer, 401, "INVALID_CREDENTIALS")


class TestOwnRecord:
    async def test_it_shows_the_user_and_no_secret(self, client: httpx.AsyncClient, console: dict[str, str]):
        answer = await client.get(ME, headers=bearer(console["access_token"]))
        assert answer.status_code == 200
        assert set(answer.json()) == {"user_id", "email", "is_active", "created_at"}
        assert (answer.json()["user_id"], answer.json()["is_active"]) == (console["user_id"], True)

    async def test_it_needs_a_token(self, client: httpx.AsyncClient):
        assert_error(await client.get(ME), 401, "TOKEN_REQUIRED")


class TestDeactivation:
    @pytest.mark.advisory("GHSA-56p6-qw3c-fq2g")
    async def test_a_deactivated_user_is_shut_out_at_once(self, server: Server, client: httpx.AsyncClient):
        user = (await client.post(SIGN_IN, json=FIRST)).json()
        user_id = uuid.UUID(user["user_id"])
        await run_sql(server, "update pilotis.users set is_active = false where user_id = $1", user_id)
        try:
            assert_error(await client.get(ME, headers=bearer(user["access_token"])), 403, "USER_INACTIVE")
            answer = await client.post("/v1/auth/re-issue", headers=bearer(user["refresh_token"]))
            assert_error(answer, 403, "USER_INACTIVE")
            assert_error(await client.post(SIGN_IN, json=FIRST), 403, "USER_INACTIVE")
            wrong = {**FIRST, "password": "wrong horse battery"}
            assert_error(await client.post(SIGN_IN, json=wrong), 401, "INVALID_CREDENTIALS")
        finally:
            await run_sql(server, "update pilotis.users set is_active = true where user_id = $1", user_id)


class TestReuse:
    async def test_a_refresh_token_used_again_later_ends_the_session(self, server: Server, client: httpx.AsyncClient):
        user = (await client.post(SIGN_IN, json=FIRST)).json()
        pair = (await client.post("/v1/auth/re-issue", headers=bearer(user["refresh_token"]))).json()
        session_id = uuid.UUID(claims_of(pair["access_token"])["sid"])
        assert (await client.get(ME, headers=bearer(pair["access_token"]))).status_code == 200
        statement = """
            update pilotis.sessions set successor_used_at = successor_used_at - interval '11 seconds'
            where session_id = $1
        """
        await run_sql(server, statement, session_id)
        answer = await client.post("/v1/auth/re-issue", headers=bearer(user["refresh_token"]))
        assert_error(answer, 401, "REFRESH_TOKEN_REUSED")
        assert_error(await client.get(ME, headers=bearer(pair["access_token"])), 401, "INVALID_TOKEN")
