"""Sign-in by the ID token of a vendor's own button: whose it is, once, and by the rules of the redirect."""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from pilotis.kit.crypto import base64url, from_base64url
from tests.accounts.authenticator import code as totp
from tests.accounts.authenticator import enrolled, finish
from tests.mail.world import MEMBERS, account, call, post, sign_up, verified
from tests.oauth.browsing import Provider
from tests.oauth.test_social_login import Page, set_up
from tests.oauth.vendors import CLIENT_ID, SECRET, Person, Vendors, vendors
from tests.services import connected
from tests.support import App, assert_error
from tests.waiting import until

PHONE = "phone-client"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@pytest.fixture
def vendor() -> Iterator[Vendors]:
    with vendors() as running:
        yield running


@pytest.fixture
async def google(app: App, vendor: Vendors) -> App:
    """An app with Google's button."""
    await enable(app, vendor)
    return app


async def enable(app: App, vendor: Vendors, **change: Any) -> None:
    body = {"client_id": CLIENT_ID, "client_secret": SECRET, "options": vendor.options("GOOGLE"), **change}
    await call(app, "PUT", "/oauth/social/GOOGLE", json=body)


async def press(
    app: App, vendor: Vendors, token: str | None = None, *, more: dict[str, Any] | None = None, **change: Any
) -> httpx.Response:
    """Press the button; `change` spoils the claims of the vendor's token."""
    nonce = secrets.token_urlsafe(16)
    return await send(app, vendor.id_token("GOOGLE", nonce, **change), nonce, token, **(more or {}))


async def send(app: App, id_token: str, nonce: str, token: str | None = None, **more: Any) -> httpx.Response:
    return await post(
        app, "/id-token-sign-in", {"provider": "google", "id_token": id_token, "nonce": nonce, **more}, token
    )


async def pressed(app: App, vendor: Vendors, token: str | None = None, status: int = 200) -> dict[str, Any]:
    answer = await press(app, vendor, token)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_the_button_makes_a_member_who_is_the_same_by_the_redirect(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GOOGLE")
    app = provider.app
    answer = await press(app, vendor)
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    new = answer.json()
    assert set(new) == {"member_id", "nickname", "access_token", "refresh_token"}
    own = await account(app, new["access_token"])
    assert (own["nickname"], own["email"], own["has_password"]) == ("Ada", "ada@example.test", False)
    async with app.client(new["access_token"]) as client:
        (session,) = (await client.get(f"{MEMBERS}/me/sessions")).json()["sessions"]
    assert (session["methods"], session["level"]) == (["social"], 1)
    assert (await pressed(app, vendor))["member_id"] == new["member_id"]
    redirected = await Page(provider, "GOOGLE").sign_in()
    assert (redirected["member_id"], redirected["is_new_member"]) == (new["member_id"], False)
    vendor.person = Person(subject="1000000002", email=None)
    assert (await pressed(app, vendor, status=201))["member_id"] != new["member_id"]


@pytest.mark.advisory("GHSA-48mh-j4p5-7j9v")
async def test_a_token_for_somebody_else_or_another_time_signs_nobody_in(google: App, vendor: Vendors):
    now = int(time.time())
    for change in (
        {"iss": "https://accounts.example.test"},
        {"aud": "another-app"},
        {"aud": [CLIENT_ID, "another-app"]},
        {"aud": [CLIENT_ID, "another-app"], "azp": "another-app"},
        {"azp": "another-app"},
        {"aud": None},
        {"aud": PHONE},
        {"exp": 1},
        {"exp": None},
        {"exp": "never"},
        {"iat": None},
        {"iat": now + 3600, "exp": now + 7200},
        {"iat": now - 900, "exp": now + 3600},
        {"nonce": "the nonce of another sign-in"},
        {"nonce": None},
        {"nonce": ["a", "list"]},
        {"sub": None},
        {"sub": ""},
    ):
        answer = await press(google, vendor, **change)
        assert answer.status_code == 401, change
        assert_error(answer, 401, "INVALID_ID_TOKEN")
    assert (await call(google, "GET", "/members"))["data"] == []


def encoded(part: dict[str, Any]) -> str:
    return base64url(json.dumps(part).encode())


async def test_a_token_that_the_vendor_has_not_signed_signs_nobody_in(google: App, vendor: Vendors):
    nonce = secrets.token_urlsafe(16)
    good = vendor.id_token("GOOGLE", nonce)
    claims = json.loads(base64.urlsafe_b64decode(good.split(".")[1] + "=="))
    own = RSAKey.generate_key(2048, {"kid": "one"})
    plain, shared = encoded({"alg": "none"}), encoded({"alg": "HS256", "kid": "one"})
    other_claims = encoded({**claims, "sub": "1"})
    head, body, signature = good.split(".")
    # The vendor's public key is known to all.
    mac = hmac.digest(vendor.key.as_pem(private=False), f"{shared}.{body}".encode(), "sha256")
    forged = [
        jwt.encode({"alg": "RS256", "kid": "one"}, claims, own),
        f"{shared}.{body}.{base64url(mac)}",
        jwt.encode({"alg": "RS256", "kid": "one", "jwk": own.as_dict(private=False)}, claims, own),
        f"{plain}.{body}.",
        f"{head}.{other_claims}.{signature}",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}.",
        f"{head}.{body}",
        "x" * 32_768,
    ]
    for token in forged:
        assert_error(await send(google, token, nonce), 401, "INVALID_ID_TOKEN")
    assert (await send(google, good, nonce)).status_code == 201
    assert_error(await send(google, "x" * 32_769, nonce), 400, "VALIDATION_FAILED")
    assert_error(await send(google, good, "short"), 400, "VALIDATION_FAILED")


@pytest.mark.advisory("CVE-2026-43930")
async def test_a_token_serves_once_however_it_is_written(google: App, vendor: Vendors):
    nonce = secrets.token_urlsafe(16)
    token = vendor.id_token("GOOGLE", nonce)
    answers = await asyncio.gather(*(send(google, token, nonce) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [401] * 19
    for one in (token, f"{token}=="):
        assert_error(await send(google, one, nonce), 401, "INVALID_ID_TOKEN")
    assert len((await call(google, "GET", "/members"))["data"]) == 1


async def test_the_other_signature_of_an_elliptic_curve_is_the_same_token(google: App, vendor: Vendors):
    vendor.key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    nonce = secrets.token_urlsafe(16)
    signed, _, signature = vendor.id_token("GOOGLE", nonce).rpartition(".")
    raw = from_base64url(signature)
    assert raw is not None
    # Whoever sees a signature (r, s) knows a second one, (r, n - s), without the key.
    other = raw[:32] + (P256_ORDER - int.from_bytes(raw[32:])).to_bytes(32)
    assert (await send(google, f"{signed}.{base64url(other)}", nonce)).status_code == 201
    assert_error(await send(google, f"{signed}.{signature}", nonce), 401, "INVALID_ID_TOKEN")


async def test_tokens_for_the_apps_phones_count_once_they_are_named(google: App, vendor: Vendors):
    await enable(google, vendor, client_ids=[PHONE])
    assert (await press(google, vendor, aud=PHONE)).status_code == 201
    # Android's tokens are for the server, and the phone has asked for them.
    assert (await press(google, vendor, azp=PHONE)).status_code == 200
    assert_error(await press(google, vendor, azp="another-app"), 401, "INVALID_ID_TOKEN")
    await enable(google, vendor, client_ids=[])
    assert_error(await press(google, vendor, aud=PHONE), 401, "INVALID_ID_TOKEN")
    assert (await call(google, "GET", "/oauth/social"))["data"][0]["client_ids"] == []


async def test_apple_was_sent_the_hash_of_the_nonce(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "APPLE")
    nonce = secrets.token_urlsafe(16)

    async def sign_in(in_token: str) -> httpx.Response:
        body = {"provider": "APPLE", "id_token": vendor.id_token("APPLE", in_token), "nonce": nonce}
        return await post(provider.app, "/id-token-sign-in", body)

    assert_error(await sign_in(nonce), 401, "INVALID_ID_TOKEN")
    answer = await sign_in(hashlib.sha256(nonce.encode()).hexdigest())
    assert answer.status_code == 201, answer.text
    assert (await account(provider.app, answer.json()["access_token"]))["email"] == "ada@example.test"


async def test_only_vendors_that_sign_their_tokens(app: App, vendor: Vendors):
    nonce = secrets.token_urlsafe(16)
    body = {"provider": "KAKAO", "id_token": vendor.id_token("GOOGLE", nonce), "nonce": nonce}
    assert_error(await post(app, "/id-token-sign-in", body), 400, "PROVIDER_NOT_ENABLED")
    change = {"client_id": CLIENT_ID, "client_secret": SECRET, "options": vendor.options("KAKAO")}
    await call(app, "PUT", "/oauth/social/KAKAO", json=change)
    assert_error(await post(app, "/id-token-sign-in", body), 400, "VALIDATION_FAILED")
    await enable(app, vendor, is_enabled=False)
    assert_error(await press(app, vendor), 400, "PROVIDER_NOT_ENABLED")


async def test_the_vendors_keys_are_read_once_and_its_failure_is_no_fault_of_the_token(google: App, vendor: Vendors):
    vendor.person = Person(subject="1")
    answers = await asyncio.gather(*(press(google, vendor) for _ in range(8)))
    assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
    vendor.key = RSAKey.generate_key(2048, {"kid": "unknown"})
    for answer in await asyncio.gather(*(press(google, vendor) for _ in range(8))):
        assert_error(answer, 401, "INVALID_ID_TOKEN")
    # Within a minute no unknown key makes the server ask again.
    assert vendor.asked.count("/GOOGLE/jwks") == 1
    options = vendor.options("GOOGLE")
    options["endpoints"]["jwks"] = f"{vendor.url}/GOOGLE/nothing"
    await enable(google, vendor, options=options)
    down = await press(google, vendor)
    assert_error(down, 503, "PROVIDER_UNAVAILABLE")
    assert int(down.headers["retry-after"]) >= 1


async def test_whose_member_is_deleted_meanwhile_becomes_a_new_one(google: App, vendor: Vendors):
    old = (await pressed(google, vendor, status=201))["member_id"]
    async with connected(google.server) as deletion, connected(google.server) as other:
        await deletion.execute("begin")
        await deletion.execute("select from pilotis.members where member_id = $1 for update", old)
        signing_in = asyncio.create_task(press(google, vendor))
        waiting = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')"
        await until(lambda: other.fetchval(waiting))
        await deletion.execute("delete from pilotis.members where member_id = $1", old)
        await deletion.execute("commit")
        answer = await signing_in
    assert answer.status_code == 201, answer.text
    assert answer.json()["member_id"] != old


@pytest.mark.advisory("GHSA-m93w-4fxv-r35v")
async def test_a01_an_address_links_by_the_rules_of_the_redirect(google: App, vendor: Vendors):
    bob = await verified(google, "bob", "bob@example.test")
    # Somebody signs up with Ada's address before her.
    eve = await sign_up(google, "eve", "ada@example.test")
    ada = await pressed(google, vendor, status=201)
    assert ada["member_id"] != eve["member_id"]
    assert (await account(google, eve["access_token"]))["email"] is None
    # Bob has proved his by a mail; the app does not link by address.
    vendor.person = Person(subject="bob", email="bob@example.test")
    assert (await pressed(google, vendor, status=201))["member_id"] != bob["member_id"]
    await call(google, "PUT", "/oauth/settings", json={"link_by_verified_email": True})
    vendor.person = Person(subject="bob at work", email="bob@example.test", is_verified=False)
    assert (await pressed(google, vendor, status=201))["member_id"] != bob["member_id"]
    vendor.person = Person(subject="bob at home", email="bob@example.test")
    assert (await pressed(google, vendor))["member_id"] == bob["member_id"]


async def test_a05_the_second_factor_is_asked_for(google: App, vendor: Vendors):
    await call(google, "PATCH", "/account-settings", json={"second_factor": "optional"})
    ada = await pressed(google, vendor, status=201)
    secret, _ = await enrolled(google, ada["access_token"])
    asked = await press(google, vendor)
    assert_error(asked, 401, "SECOND_FACTOR_REQUIRED")
    done = await finish(google, asked.json()["ticket"], totp=totp(secret, 1))
    assert done.json()["member_id"] == ada["member_id"]


async def test_a_guest_becomes_a_member_and_a_member_links(google: App, vendor: Vendors, other_app: App):
    guest = (await post(google, "", None)).json()
    ada = await pressed(google, vendor, guest["access_token"])
    assert ada["member_id"] == guest["member_id"]
    assert (await account(google, ada["access_token"]))["is_guest"] is False
    bob = await sign_up(google, "bob")
    assert_error(await press(google, vendor, bob["access_token"]), 409, "IDENTITY_TAKEN")
    vendor.person = Person(subject="bob", email=None)
    assert (await pressed(google, vendor, bob["access_token"]))["member_id"] == bob["member_id"]
    assert (await pressed(google, vendor))["member_id"] == bob["member_id"]
    stranger = await sign_up(other_app, "eve")
    assert_error(await press(google, vendor, stranger["access_token"]), 401, "INVALID_TOKEN")


async def test_who_may_not_come_in_does_not(google: App, vendor: Vendors):
    await call(google, "PATCH", "/account-settings", json={"sign_up": "closed"})
    assert_error(await press(google, vendor), 403, "SIGN_UP_CLOSED")
    await call(google, "PATCH", "/account-settings", json={"sign_up": "open"})
    ada = await pressed(google, vendor, status=201)
    await call(google, "PATCH", f"/members/{ada['member_id']}", json={"banned_until": "2999-01-01T00:00:00Z"})
    assert_error(await press(google, vendor), 403, "MEMBER_BANNED")


async def test_a_taken_name_leaves_the_token(google: App, vendor: Vendors):
    schema = {"member": {"type": "string"}, "username": {"type": "string", "required": True, "unique": True}}
    await google.table(schema, title="profiles")
    data = {"member": {"$member": "id"}, "username": {"$input": "username"}}
    await call(google, "PATCH", "/account-settings", json={"on_sign_up": [{"table": "profiles", "data": data}]})
    assert (await press(google, vendor, more={"profile": {"username": "ada"}})).status_code == 201
    vendor.person = Person(subject="2", email=None)
    nonce = secrets.token_urlsafe(16)
    token = vendor.id_token("GOOGLE", nonce)
    assert_error(await send(google, token, nonce, profile={"username": "ada"}), 409, "UNIQUE_VIOLATION")
    assert (await send(google, token, nonce, profile={"username": "kay"})).status_code == 201
    assert_error(await send(google, token, nonce, profile={"username": "joe"}), 401, "INVALID_ID_TOKEN")
