"""A sign-in on a page of the server goes back to the app's own page, once and to the one that asked for it."""

import hashlib
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from pilotis.kit.crypto import base64url
from tests.accounts.authenticator import code as totp
from tests.accounts.authenticator import enrolled, finish
from tests.accounts.test_factors import age
from tests.mail.world import MEMBERS, PASSWORD, call, mails, post, sign_in, sign_up
from tests.support import App, assert_error

PAGE = "https://app.example.com/signed-in?from=page"
VERIFIER = "v" * 64
CHALLENGE = base64url(hashlib.sha256(VERIFIER.encode()).digest())


async def allow_page(app: App) -> None:
    await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": [PAGE]})


async def ask(app: App, token: str, **change: Any) -> httpx.Response:
    body = {"redirect_uri": PAGE, "code_challenge": CHALLENGE, "state": "xyz", **change}
    return await post(app, "/me/sign-in-code", body, token)


async def exchange(app: App, code: str, verifier: str = VERIFIER) -> httpx.Response:
    async with httpx.AsyncClient(base_url=app.server.url) as client:
        return await client.post("/v1/auth/oauth/exchange", json={"code": code, "code_verifier": verifier})


def code_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    url = answer.json()["redirect_to"]
    assert url.startswith(f"{PAGE}&")
    query = parse_qs(urlsplit(url).query)
    assert query["state"] == ["xyz"]
    return query["code"][0]


class TestSignInCode:
    async def test_the_page_takes_the_sign_in_over_with_its_proof(self, app: App):
        await allow_page(app)
        await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
        ada = await sign_up(app, "ada")
        secret, _ = await enrolled(app, ada["access_token"])
        ticket = (await sign_in(app, "ada", PASSWORD)).json()["ticket"]
        page = (await finish(app, ticket, totp=totp(secret, 1))).json()
        code = code_of(await ask(app, page["access_token"]))
        taken = await exchange(app, code)
        assert taken.status_code == 200, taken.text
        assert (taken.json()["member_id"], taken.json()["provider"]) == (ada["member_id"], "password")
        async with app.client(taken.json()["access_token"]) as client:
            # The page's own session ends with it, and the app's goes on.
            await post(app, "/signout", None, page["access_token"])
            sessions = (await client.get(f"{MEMBERS}/me/sessions")).json()["sessions"]
            (current,) = [one for one in sessions if one["is_current"]]
            assert (current["methods"], current["level"]) == (["password", "totp"], 2)

    async def test_the_page_takes_over_when_it_was_proved_as_well(self, app: App):
        """Or whoever has a token that is not even a quarter of an hour old needs no password."""
        await allow_page(app)
        await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
        ada = await sign_up(app, "ada")
        await age(app, ada)
        stale = (await exchange(app, code_of(await ask(app, ada["access_token"])))).json()["access_token"]
        assert_error(await post(app, "/me/totp", None, stale), 403, "REAUTHENTICATION_REQUIRED")
        await post(app, "/me/reauthenticate", {"password": PASSWORD}, ada["access_token"])
        fresh = (await exchange(app, code_of(await ask(app, ada["access_token"])))).json()["access_token"]
        assert (await post(app, "/me/totp", None, fresh)).status_code == 200

    async def test_a08_only_to_the_apps_own_pages_and_with_a_challenge(self, app: App, other_app: App):
        await allow_page(app)
        ada = await sign_up(app, "ada")
        for change in (
            {"redirect_uri": "https://evil.example.com/"},
            {"redirect_uri": f"{PAGE}/more"},
            {"redirect_uri": "javascript:alert(1)"},
            {"code_challenge": "x" * 50},
            {"code_challenge": None},
        ):
            assert_error(await ask(app, ada["access_token"], **change), 400, "VALIDATION_FAILED")
        eve = await sign_up(other_app, "eve")
        assert_error(await ask(other_app, eve["access_token"]), 400, "VALIDATION_FAILED")

    async def test_a_code_works_once_with_its_verifier_while_the_member_may_sign_in(self, app: App):
        await allow_page(app)
        ada = await sign_up(app, "ada")
        code = code_of(await ask(app, ada["access_token"]))
        assert_error(await exchange(app, code, "w" * 64), 400, "INVALID_CODE")
        taken = (await exchange(app, code)).json()
        assert_error(await exchange(app, code), 400, "INVALID_CODE")
        # Somebody else has the code too: the session that it began ends.
        async with app.client(taken["access_token"]) as client:
            assert (await client.get(f"{MEMBERS}/me")).status_code == 401
        code = code_of(await ask(app, ada["access_token"]))
        until = "2999-01-01T00:00:00Z"
        await call(app, "PATCH", f"/members/{ada['member_id']}", json={"banned_until": until})
        assert_error(await exchange(app, code), 403, "MEMBER_BANNED")

    async def test_a_mailed_link_leads_to_the_page_with_the_button(self, app: App):
        await allow_page(app)
        await call(app, "PATCH", "/account-settings", json={"methods": {"email_link": True}})
        body = {"email": "ada@example.com", "redirect_uri": PAGE, "code_challenge": CHALLENGE, "state": "xyz"}
        assert (await post(app, "/email-sign-in", body)).status_code == 202
        link = urlsplit((await mails(app, 1))[0]["link"])
        assert link.path == f"/account/{app.app_id}/sign-in"
        assert parse_qs(link.query) == {"redirect_uri": [PAGE], "code_challenge": [CHALLENGE], "state": ["xyz"]}
        alone = {"email": "ada@example.com", "code_challenge": CHALLENGE}
        assert_error(await post(app, "/email-sign-in", alone), 400, "VALIDATION_FAILED")
