"""A puzzle is solved once, in time and for its own app, before anything costly is done."""

import hashlib
from itertools import count
from typing import Any

import httpx
import pytest

from tests.mail.world import MEMBERS, PASSWORD, call, post, sign_up
from tests.support import App, assert_error


async def puzzle(app: App) -> dict[str, Any]:
    async with app.client() as client:
        answer = await client.post("/v1/public/challenges")
    assert answer.status_code == 200, answer.text
    return answer.json()


def solution(given: dict[str, Any], zeros: int | None = None) -> str:
    for nonce in count():
        token = f"{given['challenge']}.{nonce}"
        digest = int.from_bytes(hashlib.sha256(token.encode()).digest())
        if digest >> (256 - (zeros or given["difficulty"])) == 0:
            return token
    raise AssertionError


async def up(app: App, login_id: str, token: str | None = None) -> httpx.Response:
    headers = {"X-Challenge-Token": token} if token else {}
    return await post(app, "/signup", {"login_id": login_id, "password": PASSWORD}, **headers)


async def ask_for(app: App, *actions: str) -> None:
    await call(app, "PATCH", "/account-settings", json={"challenge_on": actions})


async def test_a_solution_works_once(app: App, other_app: App):
    await sign_up(app, "before")
    await ask_for(app, "signup")
    assert_error(await up(app, "ada"), 403, "CHALLENGE_REQUIRED")
    token = solution(await puzzle(app))
    assert_error(await up(app, "ada", token + "x"), 403, "CHALLENGE_REQUIRED")
    assert (await up(app, "ada", token)).status_code == 201
    assert_error(await up(app, "bob", token), 403, "CHALLENGE_REQUIRED")
    # Another solution of the same puzzle is none.
    await ask_for(other_app, "signup")
    foreign = solution(await puzzle(other_app))
    assert_error(await up(app, "bob", foreign), 403, "CHALLENGE_REQUIRED")
    assert (await up(other_app, "bob", foreign)).status_code == 201


@pytest.mark.parametrize("token", ["x", ".", "x.y", "é.1", "a" * 500, "AAAA.1"])
async def test_nonsense_is_no_solution(app: App, token: str):
    await ask_for(app, "signup")
    if token.isascii():
        assert_error(await up(app, "ada", token), 403, "CHALLENGE_REQUIRED")
    # Nor is a puzzle that is made easier.
    given = await puzzle(app)
    easy = given["challenge"][:-30] + "A" * 30 + ".0"
    assert_error(await up(app, "ada", easy), 403, "CHALLENGE_REQUIRED")


async def test_each_action_asks_for_its_own(app: App):
    await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
    await sign_up(app, "ada")
    routes = {
        "signup": ("/signup", {"login_id": "bob", "password": PASSWORD}),
        "signin": ("/signin", {"login_id": "ada", "password": PASSWORD}),
        "guest": ("", None),
        "mail": ("/email-sign-in", {"email": "ada@example.com"}),
        "reset": ("/password-reset", {"email": "ada@example.com"}),
    }
    for asked in routes:
        await ask_for(app, asked)
        for action, (path, body) in routes.items():
            if action == asked:
                assert_error(await post(app, path, body), 403, "CHALLENGE_REQUIRED")
                token = solution(await puzzle(app))
                answer = await post(app, path, body, **{"X-Challenge-Token": token})
                assert answer.status_code in {200, 201, 202}, answer.text
    async with app.client(Origin="https://app.example.com", **{"Access-Control-Request-Method": "POST"}) as client:
        answer = await client.options(f"{MEMBERS}/signup")
        assert "x-challenge-token" in answer.headers["access-control-allow-headers"]
