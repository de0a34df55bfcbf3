"""Passkeys: added, signed in with alone and as a second factor, and attacked."""

import asyncio
from typing import Any

import pytest
from fido2.cose import CoseKey

from tests.accounts.authenticator import enrolled, finish
from tests.accounts.security_key import FLAG, PRESENT_AND_VERIFIED, SecurityKey
from tests.accounts.test_factors import age, own
from tests.accounts.test_gate import settings
from tests.chromium import chromium
from tests.console import owner_of
from tests.mail.world import MEMBERS, PASSWORD, mails, post, sign_in, sign_up, verified
from tests.support import App, assert_error

DOMAIN, ORIGIN = "club.example.com", "https://club.example.com"
ADA = "ada@example.com"


async def allow(app: App, **more: Any) -> None:
    await settings(app, methods={"passkey": True}, passkey_domain=DOMAIN, allowed_origins=[ORIGIN], **more)


async def begun(app: App, path: str, token: str | None = None, body: Any = None) -> dict[str, Any]:
    answer = await post(app, path, body, token)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def added(app: App, member: dict[str, Any], name: str = "Phone") -> SecurityKey:
    """A passkey of a member."""
    key, start = SecurityKey(DOMAIN, ORIGIN), await begun(app, "/me/passkeys/start", member["access_token"])
    body = {"ticket": start["ticket"], "credential": key.create(start["options"]), "name": name}
    answer = await post(app, "/me/passkeys", body, member["access_token"])
    assert answer.status_code == 201, answer.text
    assert set(answer.json()) == {"id", "name", "is_synced", "created_at", "last_used_at"}
    return key


async def signed_in(app: App, key: SecurityKey, **options: Any) -> Any:
    start = await begun(app, "/passkey-sign-in/start")
    body = {"ticket": start["ticket"], "credential": key.sign(start["options"], **options)}
    return await post(app, "/passkey-sign-in", body)


class TestPasskeys:
    async def test_is_off_at_first_and_needs_pages_on_its_domain(self, app: App):
        assert_error(await post(app, "/passkey-sign-in/start", None), 403, "LOGIN_DISABLED")
        async with owner_of(app).client(app) as client:
            for change in (
                {"passkey_domain": "Example.com", "allowed_origins": ["https://example.com"]},
                {"passkey_domain": "127.0.0.1", "allowed_origins": ["https://127.0.0.1"]},
                {"passkey_domain": DOMAIN},
                {"allowed_origins": [ORIGIN]},
                *(
                    {"passkey_domain": DOMAIN, "allowed_origins": [origin]}
                    for origin in ("https://example.com", "http://club.example.com", f"{ORIGIN}/", f"{ORIGIN}.evil.com")
                ),
            ):
                assert_error(await client.patch("/account-settings", json=change), 400, "VALIDATION_FAILED")

    async def test_one_is_added_signs_in_and_is_removed(self, app: App):
        await allow(app)
        ada = await verified(app, "ada", ADA)
        key = await added(app, ada)
        answer = await signed_in(app, key)
        assert answer.json()["member_id"] == ada["member_id"]
        assert set(answer.json()) == {"member_id", "nickname", "access_token", "refresh_token"}
        token = answer.json()["access_token"]
        sessions = (await own(app, token, "/me/sessions"))["sessions"]
        assert [(one["methods"], one["level"]) for one in sessions if one["is_current"]] == [(["passkey"], 2)]
        (passkey,) = (await own(app, token))["passkeys"]
        assert (passkey["name"], passkey["last_used_at"] is None) == ("Phone", False)
        assert (await mails(app, 1, purpose="security_notice"))[0]["recipient"] == ADA
        # A passkey beside a password asks for nothing more: the app does not require a second factor.
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 200
        async with app.client(token) as client:
            path = f"{MEMBERS}/me/passkeys/{passkey['id']}"
            assert (await client.patch(path, json={"name": "Old phone"})).json()["name"] == "Old phone"
            assert (await client.delete(path)).status_code == 200
            assert_error(await client.delete(path), 404, "PASSKEY_NOT_FOUND")
        assert_error(await signed_in(app, key), 401, "INVALID_PASSKEY")

    async def test_is_a_second_factor_where_one_is_required(self, app: App, other_app: App):
        await allow(app, second_factor="required")
        ada, eve = await sign_up(app, "ada"), await sign_up(app, "eve")
        key, eves = await added(app, ada), await added(app, eve)
        error = assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")
        assert error["factors"] == ["passkey"]
        start = await begun(app, "/second-factor/start", None, {"ticket": error["ticket"]})
        assert len(start["options"]["allowCredentials"]) == 1
        theirs = await finish(app, error["ticket"], passkey=eves.sign(start["options"]))
        assert_error(theirs, 401, "INVALID_SECOND_FACTOR")
        answer = key.sign(start["options"])
        done = await asyncio.gather(*(finish(app, error["ticket"], passkey=answer) for _ in range(4)))
        assert sorted(one.status_code for one in done) == [200, 401, 401, 401]
        async with app.client(ada["access_token"]) as client:
            (passkey,) = (await client.get(f"{MEMBERS}/me/factors")).json()["passkeys"]
            assert_error(await client.delete(f"{MEMBERS}/me/passkeys/{passkey['id']}"), 409, "LAST_FACTOR")
        # With an authenticator app it is an alternative.
        await settings(app, second_factor="optional")
        await enrolled(app, ada["access_token"])
        error = assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")
        assert error["factors"] == ["totp", "recovery_code", "passkey"]
        start = await begun(app, "/second-factor/start", None, {"ticket": error["ticket"]})
        assert (await finish(app, error["ticket"], passkey=key.sign(start["options"]))).status_code == 200

    async def test_an_old_session_adds_none(self, app: App):
        await allow(app)
        ada = await sign_up(app, "ada")
        start = await begun(app, "/me/passkeys/start", ada["access_token"])
        await age(app, ada)
        body = {"ticket": start["ticket"], "credential": SecurityKey(DOMAIN, ORIGIN).create(start["options"])}
        answer = await post(app, "/me/passkeys", body, ada["access_token"])
        assert_error(answer, 403, "REAUTHENTICATION_REQUIRED")
        assert_error(await post(app, "/me/passkeys/start", None, ada["access_token"]), 403, "REAUTHENTICATION_REQUIRED")

    async def test_a_member_has_ten_at_most(self, app: App):
        await allow(app)
        ada = await sign_up(app, "ada")
        starts = [await begun(app, "/me/passkeys/start", ada["access_token"]) for _ in range(12)]
        bodies = [
            {"ticket": one["ticket"], "credential": SecurityKey(DOMAIN, ORIGIN).create(one["options"])}
            for one in starts
        ]
        answers = await asyncio.gather(*(post(app, "/me/passkeys", body, ada["access_token"]) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [*[201] * 10, 409, 409]


class TestAttacks:
    """A11: what is not exactly the passkey's answer to exactly this challenge is refused."""

    async def test_by_what_a_key_signs(self, app: App):
        await allow(app)
        ada = await sign_up(app, "ada")
        key = await added(app, ada)
        assert (await signed_in(app, key)).status_code == 200
        for flags in (FLAG.UP, FLAG.UV, FLAG(0)):
            assert_error(await signed_in(app, key, flags=flags), 401, "INVALID_PASSKEY")
        # A copy of the key has an older counter.
        assert_error(await signed_in(app, key, count=1), 401, "INVALID_PASSKEY")
        for place, value in (("origin", "https://evil.example.com"), ("domain", "example.com"), ("id", bytes(16))):
            right = getattr(key, place)
            setattr(key, place, value)
            assert_error(await signed_in(app, key, count=90), 401, "INVALID_PASSKEY")
            setattr(key, place, right)
        start = await begun(app, "/passkey-sign-in/start")
        answer = key.sign(start["options"], count=91)
        signature = answer["response"]["signature"]
        forged = {**answer, "response": {**answer["response"], "signature": signature[:20] + "AAAA" + signature[24:]}}
        assert_error(
            await post(app, "/passkey-sign-in", {"ticket": start["ticket"], "credential": forged}),
            401,
            "INVALID_PASSKEY",
        )
        # The challenge was used up by that.
        body = {"ticket": start["ticket"], "credential": answer}
        assert_error(await post(app, "/passkey-sign-in", body), 401, "INVALID_PASSKEY")
        assert (await signed_in(app, key, count=92)).status_code == 200

    async def test_of_four_at_once_one_wins_and_none_works_for_another_ticket(self, app: App):
        await allow(app)
        key = await added(app, await sign_up(app, "ada"))
        first, second = await begun(app, "/passkey-sign-in/start"), await begun(app, "/passkey-sign-in/start")
        answer = key.sign(first["options"])
        other = await post(app, "/passkey-sign-in", {"ticket": second["ticket"], "credential": answer})
        assert_error(other, 401, "INVALID_PASSKEY")
        body = {"ticket": first["ticket"], "credential": answer}
        answers = await asyncio.gather(*(post(app, "/passkey-sign-in", body) for _ in range(4)))
        assert sorted(one.status_code for one in answers) == [200, 401, 401, 401]

    async def test_a_sibling_apps_passkey_is_unknown(self, app: App, other_app: App):
        await allow(app)
        await allow(other_app)
        key = await added(app, await sign_up(app, "ada"))
        assert_error(await signed_in(other_app, key), 401, "INVALID_PASSKEY")
        # Nor is it added to an account by another member's ticket.
        eve = await sign_up(app, "eve")
        start = await begun(app, "/me/passkeys/start", eve["access_token"])
        mallory = await sign_up(app, "mallory")
        body = {"ticket": start["ticket"], "credential": SecurityKey(DOMAIN, ORIGIN).create(start["options"])}
        assert_error(await post(app, "/me/passkeys", body, mallory["access_token"]), 401, "INVALID_PASSKEY")
        # A credential belongs to one member.
        start = await begun(app, "/me/passkeys/start", eve["access_token"])
        body = {"ticket": start["ticket"], "credential": key.create(start["options"])}
        assert_error(await post(app, "/me/passkeys", body, eve["access_token"]), 401, "INVALID_PASSKEY")

    @pytest.mark.parametrize("broken", ["algorithm", "unverified", "origin", "empty", "text"])
    async def test_at_enrolment(self, app: App, broken: str):
        await allow(app)
        ada = await sign_up(app, "ada")
        start = await begun(app, "/me/passkeys/start", ada["access_token"])
        key = SecurityKey(DOMAIN, "https://evil.example.com" if broken == "origin" else ORIGIN)
        if broken == "algorithm":
            key.public_key = CoseKey({**key.public_key, 3: -65535})
        flags = FLAG.UP if broken == "unverified" else PRESENT_AND_VERIFIED
        credential = key.create(start["options"], flags)
        credential = {"empty": {}, "text": {"id": "x", "rawId": "x", "response": "x"}}.get(broken, credential)
        body = {"ticket": start["ticket"], "credential": credential}
        assert_error(await post(app, "/me/passkeys", body, ada["access_token"]), 401, "INVALID_PASSKEY")


async def test_in_a_browser(app: App):
    """Chromium with its virtual authenticator creates a passkey, and signs in without a name."""
    port = app.server.url.rpartition(":")[2]
    origin = f"http://localhost:{port}"
    await settings(app, methods={"passkey": True}, passkey_domain="localhost", allowed_origins=[origin])
    ada = await sign_up(app, "ada")
    async with chromium() as browser:
        page = await browser.new_page()
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
        await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        await page.goto(origin)
        start = await begun(app, "/me/passkeys/start", ada["access_token"])
        credential = await page.evaluate(
            """async (options) => (await navigator.credentials.create({
                publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options),
            })).toJSON()""",
            start["options"],
        )
        body = {"ticket": start["ticket"], "credential": credential}
        answer = await post(app, "/me/passkeys", body, ada["access_token"])
        assert answer.status_code == 201, answer.text
        for _ in range(2):
            start = await begun(app, "/passkey-sign-in/start")
            credential = await page.evaluate(
                """async (options) => (await navigator.credentials.get({
                    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options),
                })).toJSON()""",
                start["options"],
            )
            answer = await post(app, "/passkey-sign-in", {"ticket": start["ticket"], "credential": credential})
            assert answer.json()["member_id"] == ada["member_id"]
