"""Interface: Authentication. Decisions: Sign-in and tokens."""

import asyncio
import base64
import json
import uuid
from typing import Any

import asyncpg
import httpx
import pytest
from joserfc import jws
from joserfc.jwk import OctKey, RSAKey

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from pilotis.kit.passwords import Passwords
from pilotis.kit.signing import TokenKind, TokenSigner
from pilotis.limits import Limits
from pilotis.members.service import Members
from pilotis.security.rate_limits import RateLimits
from pilotis.security.sessions.service import Sessions
from tests import databases
from tests.backstage import bearer, claims_of, master_key, me, mint, run_sql
from tests.support import App, assert_error, plain_client

# The same in each process, because it is part of the names of tests.
NOBODY = uuid.UUID("0f6c4d4e-9f1b-4d6a-8a53-6c0c3a1c9f11")
ME = "/v1/public/app-members/me"
SIGN_OUT = "/v1/public/app-members/signout"
RE_ISSUE = "/v1/auth/re-issue"
LOGOUT = "/v1/auth/logout"
CONSOLE_ME = "/v1/auth/me"
HOUR, DAY = 3600, 86400


async def guest(app: App) -> dict[str, Any]:
    async with app.client() as client:
        return (await client.post("/v1/public/app-members")).json()


async def re_issue(app: App, token: str) -> httpx.Response:
    async with plain_client(app.server.url) as client:
        return await client.post(RE_ISSUE, headers=bearer(token))


async def rewind(app: App, token: str, **by: str) -> None:
    """Move times of a token's session into the past."""
    changes = ", ".join(f"{column} = {column} - interval '{interval}'" for column, interval in by.items())
    session_id = uuid.UUID(claims_of(token)["sid"])
    await run_sql(app.server, f"update pilotis.sessions set {changes} where session_id = $1", session_id)


def encoded(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TestClaims:
    async def test_a_members_tokens_carry_the_claims_and_lifetimes_decided(self, app: App):
        member = await app.member()
        access, refresh = claims_of(member["access_token"]), claims_of(member["refresh_token"])
        for claims in (access, refresh):
            assert set(claims) == {"iss", "sub", "aud", "app_id", "typ", "iat", "exp", "jti", "sid"}
            assert (claims["iss"], claims["sub"], claims["app_id"]) == ("pilotis", member["member_id"], app.app_id)
        assert access["exp"] - access["iat"] == HOUR
        assert refresh["exp"] - refresh["iat"] == 30 * DAY
        assert (access["typ"], refresh["typ"]) == ("member_access", "member_refresh")
        assert access["aud"] != refresh["aud"]
        assert access["jti"] != refresh["jti"]
        assert access["sid"] == refresh["sid"]

    async def test_a_guests_refresh_token_lives_90_days_and_goes_on_doing_so(self, app: App):
        pair = await guest(app)
        for _ in range(2):
            claims = claims_of(pair["refresh_token"])
            assert claims["exp"] - claims["iat"] == 90 * DAY
            pair = (await re_issue(app, pair["refresh_token"])).json()

    async def test_a_console_users_tokens_are_kinds_of_their_own(self, console: dict[str, str]):
        access, refresh = claims_of(console["access_token"]), claims_of(console["refresh_token"])
        assert (access["typ"], refresh["typ"]) == ("console_access", "console_refresh")
        assert (access["sub"], refresh["sub"]) == (console["user_id"],) * 2
        assert (access["exp"] - access["iat"], refresh["exp"] - refresh["iat"]) == (HOUR, 30 * DAY)

    async def test_every_sign_in_has_tokens_of_its_own(self, app: App):
        body = {"login_id": "ada", "password": "correct horse"}
        tokens = {(await app.member())["access_token"]}
        async with app.client() as client:
            for _ in range(2):
                tokens.add((await client.post("/v1/public/app-members/signin", json=body)).json()["access_token"])
        assert len({claims_of(token)["sid"] for token in tokens}) == 3
        assert len({claims_of(token)["jti"] for token in tokens}) == 3


class TestReIssue:
    async def test_it_answers_a_new_pair_that_works(self, app: App):
        member = await app.member()
        answer = await re_issue(app, member["refresh_token"])
        assert answer.status_code == 200
        assert set(answer.json()) == {"access_token", "refresh_token"}
        assert answer.json()["refresh_token"] != member["refresh_token"]
        assert (await me(app.server, answer.json()["access_token"])).json()["member_id"] == member["member_id"]
        assert (await re_issue(app, answer.json()["refresh_token"])).status_code == 200

    async def test_a_retry_within_10_seconds_gets_the_very_same_pair(self, app: App):
        member = await app.member()
        first = await re_issue(app, member["refresh_token"])
        await rewind(app, member["refresh_token"], refreshed_at="5 seconds", expires_at="5 seconds")
        retried = (await re_issue(app, member["refresh_token"])).json()
        assert claims_of(retried["refresh_token"])["jti"] == claims_of(first.json()["refresh_token"])["jti"]
        assert claims_of(retried["access_token"])["jti"] == claims_of(first.json()["access_token"])["jti"]

    async def test_a_retry_at_once_gets_the_same_text(self, app: App):
        member = await app.member()
        first, second = [(await re_issue(app, member["refresh_token"])).json() for _ in range(2)]
        assert first == second

    async def test_later_reuse_ends_the_family(self, app: App):
        member = await app.member()
        pair = (await re_issue(app, member["refresh_token"])).json()
        await me(app.server, pair["access_token"])
        await rewind(app, member["refresh_token"], successor_used_at="9 seconds")
        assert (await re_issue(app, member["refresh_token"])).json() == pair
        await rewind(app, member["refresh_token"], successor_used_at="2 seconds")
        assert_error(await re_issue(app, member["refresh_token"]), 401, "REFRESH_TOKEN_REUSED")
        assert_error(await me(app.server, pair["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await me(app.server, member["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await re_issue(app, pair["refresh_token"]), 401, "INVALID_TOKEN")

    async def test_a_pair_that_nobody_has_used_can_be_fetched_again_an_hour_later(self, app: App):
        """A tab was frozen while it refreshed: the pair that it lost signs nobody out."""
        member = await app.member()
        lost = (await re_issue(app, member["refresh_token"])).json()
        # What the other tabs have done with the access token before is no use of the new pair.
        assert (await me(app.server, member["access_token"])).status_code == 200
        await rewind(app, member["refresh_token"], refreshed_at="1 hour")
        again = (await re_issue(app, member["refresh_token"])).json()
        assert claims_of(again["refresh_token"])["jti"] == claims_of(lost["refresh_token"])["jti"]
        assert_error(await me(app.server, again["access_token"]), 401, "INVALID_TOKEN")  # It has expired.
        newer = (await re_issue(app, again["refresh_token"])).json()
        assert (await me(app.server, newer["access_token"])).status_code == 200
        assert_error(await re_issue(app, member["refresh_token"]), 401, "REFRESH_TOKEN_REUSED")

    async def test_a_token_older_than_the_last_ends_the_family_within_the_10_seconds_too(self, app: App):
        member = await app.member()
        second = (await re_issue(app, member["refresh_token"])).json()
        third = (await re_issue(app, second["refresh_token"])).json()
        assert_error(await re_issue(app, member["refresh_token"]), 401, "REFRESH_TOKEN_REUSED")
        assert_error(await me(app.server, third["access_token"]), 401, "INVALID_TOKEN")

    async def test_reuse_ends_no_other_sign_in_of_the_member(self, app: App):
        member = await app.member()
        body = {"login_id": "ada", "password": "correct horse"}
        async with app.client() as client:
            other = (await client.post("/v1/public/app-members/signin", json=body)).json()
        pair = (await re_issue(app, member["refresh_token"])).json()
        await me(app.server, pair["access_token"])
        await rewind(app, member["refresh_token"], successor_used_at="11 seconds")
        assert_error(await re_issue(app, member["refresh_token"]), 401, "REFRESH_TOKEN_REUSED")
        assert (await me(app.server, other["access_token"])).status_code == 200

    @pytest.mark.advisory("parse-server#10194")
    async def test_an_expired_session_is_over_whatever_the_token_says(self, app: App):
        member = await app.member()
        await rewind(app, member["refresh_token"], expires_at="31 days")
        assert_error(await re_issue(app, member["refresh_token"]), 401, "INVALID_TOKEN")
        assert_error(await me(app.server, member["access_token"]), 401, "INVALID_TOKEN")

    async def test_the_access_token_is_not_accepted(self, app: App, console: dict[str, str]):
        member = await app.member()
        assert_error(await re_issue(app, member["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await re_issue(app, console["access_token"]), 401, "INVALID_TOKEN")
        async with app.client() as client:
            assert_error(await client.post(RE_ISSUE), 401, "TOKEN_REQUIRED")

    async def test_a_deleted_member_has_no_session(self, app: App):
        member = await app.member()
        await run_sql(app.server, "delete from pilotis.members where member_id = $1", member["member_id"])
        assert_error(await re_issue(app, member["refresh_token"]), 401, "INVALID_TOKEN")
        assert_error(await me(app.server, member["access_token"]), 401, "INVALID_TOKEN")


class TestKindsOfToken:
    async def test_a_refresh_token_is_no_access_token(self, app: App, console: dict[str, str]):
        member = await app.member()
        assert_error(await me(app.server, member["refresh_token"]), 401, "INVALID_TOKEN")
        async with plain_client(app.server.url) as client:
            answer = await client.get(CONSOLE_ME, headers=bearer(console["refresh_token"]))
        assert_error(answer, 401, "INVALID_TOKEN")

    async def test_a_console_token_is_no_member_token_nor_the_reverse(self, app: App, console: dict[str, str]):
        member = await app.member()
        assert_error(await me(app.server, console["access_token"]), 401, "INVALID_TOKEN")
        async with app.client(console["access_token"]) as client:
            assert_error(await client.post(SIGN_OUT), 401, "INVALID_TOKEN")
        async with plain_client(app.server.url) as client:
            answer = await client.get(CONSOLE_ME, headers=bearer(member["access_token"]))
            assert_error(answer, 401, "INVALID_TOKEN")
            answer = await client.post("/v1/apps", json={"name": "mine"}, headers=bearer(member["access_token"]))
            assert_error(answer, 401, "INVALID_TOKEN")

    async def test_a_secret_key_is_no_token(self, app: App):
        assert_error(await me(app.server, app.secret_key), 401, "INVALID_TOKEN")
        assert_error(await re_issue(app, app.secret_key), 401, "INVALID_TOKEN")

    async def test_a_member_of_one_app_is_nobody_in_another(self, app: App, other_app: App):
        member = await app.member()
        async with other_app.client(member["access_token"]) as client:
            assert_error(await client.get(ME), 401, "INVALID_TOKEN")
            assert_error(await client.get("/v1/public/tables"), 401, "INVALID_TOKEN")


class TestLogout:
    async def sign_in(self, app: App) -> dict[str, str]:
        body = {"email": "first@example.com", "password": "correct horse battery"}
        async with plain_client(app.server.url) as client:
            return (await client.post("/v1/auth/signin", json=body)).json()

    @pytest.mark.parametrize("method", ["POST", "GET"])
    async def test_a_console_user_is_signed_out_by_its_refresh_token(self, app: App, method: str):
        user = await self.sign_in(app)
        async with plain_client(app.server.url) as client:
            answer = await client.request(method, LOGOUT, headers=bearer(user["access_token"]))
            assert_error(answer, 401, "INVALID_TOKEN")
            assert (await client.get(CONSOLE_ME, headers=bearer(user["access_token"]))).status_code == 200
            answer = await client.request(method, LOGOUT, headers=bearer(user["refresh_token"]))
            assert answer.status_code == 200
            assert set(answer.json()) == {"message"}
            answer = await client.get(CONSOLE_ME, headers=bearer(user["access_token"]))
            assert_error(answer, 401, "INVALID_TOKEN")
        assert_error(await re_issue(app, user["refresh_token"]), 401, "INVALID_TOKEN")

    @pytest.mark.parametrize("method", ["POST", "GET"])
    async def test_a_members_refresh_token_is_refused_and_stays_good(self, app: App, method: str):
        member = await app.member()
        async with plain_client(app.server.url) as client:
            answer = await client.request(method, LOGOUT, headers=bearer(member["refresh_token"]))
            assert_error(answer, 401, "INVALID_TOKEN")
            assert_error(await client.request(method, LOGOUT), 401, "TOKEN_REQUIRED")
        assert (await re_issue(app, member["refresh_token"])).status_code == 200

    async def test_a_console_user_re_issues(self, app: App):
        user = await self.sign_in(app)
        answer = await re_issue(app, user["refresh_token"])
        assert answer.status_code == 200
        async with plain_client(app.server.url) as client:
            read = await client.get(CONSOLE_ME, headers=bearer(answer.json()["access_token"]))
        assert read.json()["user_id"] == user["user_id"]


class TestForgery:
    """Tokens that were never issued, some of them signed with the server's own key."""

    async def test_a_token_minted_like_ours_is_taken(self, app: App):
        """Without this the tests below would prove nothing."""
        member = await app.member()
        assert (await me(app.server, mint(app.server, TokenKind.MEMBER_ACCESS, **self.ids(member)))).status_code == 200

    @staticmethod
    def ids(member: dict[str, Any]) -> dict[str, Any]:
        claims = claims_of(member["access_token"])
        return {name: claims[name] for name in ("sub", "app_id", "sid", "jti")}

    @pytest.mark.share(0.34)
    @pytest.mark.advisory("GHSA-x6fw-778m-wr9v", "GHSA-48mh-j4p5-7j9v", "CVE-2026-31813", "GHSA-fr88-w35c-r596")
    @pytest.mark.parametrize(
        "change",
        [
            {"typ": "member_refresh"},
            {"typ": "console_access"},
            {"aud": "pilotis:member:refresh"},
            {"aud": ["pilotis:member:access"]},
            {"aud": None},
            {"iss": "somebody"},
            {"iss": None},
            {"exp": 1},
            {"exp": "9999999999"},
            {"exp": None},
            {"iat": 4102444800, "exp": 4102448400},
            {"iat": 1e400 - 1e400},
            {"exp": True},
            {"sub": None},
            {"sub": 7},
            {"sub": ["ada"]},
            {"sub": "a\0b"},
            {"sub": "x" * 1000},
            {"sub": str(NOBODY)},
            {"app_id": "no uuid"},
            {"app_id": ""},
            {"app_id": None},
            {"app_id": {"$ne": None}},
            {"app_id": str(uuid.UUID(int=0))},
            {"app_id": str(NOBODY)},
            {"sid": "no uuid"},
            {"sid": "../../x"},
            {"sid": 1},
            {"sid": str(NOBODY)},
            {"jti": "no uuid"},
            {"jti": [1]},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("kind", [TokenKind.MEMBER_ACCESS, TokenKind.MEMBER_REFRESH])
    async def test_a_wrong_claim_is_401(self, app: App, kind: TokenKind, change: dict[str, Any]):
        member = await app.member()
        if kind is TokenKind.MEMBER_REFRESH:
            opposite = {"member_refresh": "member_access", "pilotis:member:refresh": "pilotis:member:access"}
            change = {name: opposite.get(str(value), value) for name, value in change.items()}
        claims = self.ids(member) | change
        token = mint(app.server, kind, **claims)
        ask = me(app.server, token) if kind is TokenKind.MEMBER_ACCESS else re_issue(app, token)
        assert_error(await ask, 401, "INVALID_TOKEN")

    @pytest.mark.advisory("GHSA-48mh-j4p5-7j9v")
    @pytest.mark.parametrize("change", [{"sub": "no uuid"}, {"app_id": str(NOBODY)}, {"sid": "x"}])
    async def test_a_wrong_claim_of_a_console_token_is_401(self, app: App, change: dict[str, Any]):
        ids = {name: str(uuid.uuid4()) for name in ("sub", "sid", "jti")} | {"app_id": str(uuid.UUID(int=0))}
        access = mint(app.server, TokenKind.CONSOLE_ACCESS, **ids | change)
        refresh = mint(app.server, TokenKind.CONSOLE_REFRESH, **ids | change)
        async with app.client(access) as client:
            assert_error(await client.get(CONSOLE_ME), 401, "INVALID_TOKEN")
            assert_error(await client.get("/v1/public/tables"), 401, "INVALID_TOKEN")
            assert_error(await client.post(LOGOUT, headers=bearer(refresh)), 401, "INVALID_TOKEN")
        assert_error(await re_issue(app, refresh), 401, "INVALID_TOKEN")

    @pytest.mark.advisory("CVE-2025-59420", "GHSA-4q3h-vp4r-prv2")
    @pytest.mark.parametrize(
        "header",
        [
            {"alg": "HS256", "typ": "JWT", "crit": ["b64"], "b64": True},
            {"alg": "HS256", "typ": "JWT", "jku": "https://example.com/keys"},
            {"alg": "HS256", "typ": "JWT", "kid": "../../dev/null"},
            {"alg": "HS256", "typ": "JWT", "x5u": "https://example.com/cert"},
            {"alg": "HS256", "typ": "at+jwt"},
            {"alg": "HS256", "typ": "JWT", "cty": "JWT"},
        ],
        ids=str,
    )
    async def test_a_header_that_is_not_ours_is_401_even_under_our_key(self, app: App, header: dict[str, Any]):
        member = await app.member()
        token = mint(app.server, TokenKind.MEMBER_ACCESS, header=header, **self.ids(member))
        assert_error(await me(app.server, token), 401, "INVALID_TOKEN")

    @pytest.mark.advisory("GHSA-fr88-w35c-r596", "GHSA-48mh-j4p5-7j9v")
    @pytest.mark.parametrize("kind", [kind for kind in TokenKind if kind is not TokenKind.MEMBER_ACCESS])
    async def test_a_token_under_another_kinds_key_is_401(self, app: App, kind: TokenKind):
        member = await app.member()
        claims = claims_of(member["access_token"])
        assert_error(await me(app.server, mint(app.server, kind, **claims)), 401, "INVALID_TOKEN")

    @pytest.mark.advisory("GHSA-4q3h-vp4r-prv2")
    async def test_a_token_under_any_key_but_ours_is_401(self, app: App):
        claims = claims_of((await app.member())["access_token"])
        payload = json.dumps(claims).encode()
        hs = {"alg": "HS256", "typ": "JWT"}
        rsa = RSAKey.generate_key(2048)
        forged = [
            jws.serialize_compact(hs, payload, OctKey.import_key(key)) for key in ("your-256-bit-secret", "x" * 32)
        ]
        forged.append(jws.serialize_compact(hs, payload, OctKey.import_key(app.public_key)))
        forged.append(jws.serialize_compact({"alg": "RS256", "typ": "JWT"}, payload, rsa))
        forged.append(
            f"{encoded(hs | {'jwk': {'kty': 'oct', 'k': encoded(b'x' * 32)}})}.{encoded(claims)}.{encoded(b'x' * 32)}"
        )
        for token in forged:
            assert_error(await me(app.server, token), 401, "INVALID_TOKEN")

    @pytest.mark.advisory("GHSA-4q3h-vp4r-prv2")
    @pytest.mark.parametrize(
        "algorithm", ["none", "None", "NONE", "nOnE", "", "HS384", "HS512", "RS256", None, 1, ["HS256"]]
    )
    async def test_no_other_algorithm_is_taken(self, app: App, algorithm: Any):
        good = (await app.member())["access_token"]
        _, payload, signature = good.split(".")
        header = encoded({"alg": algorithm, "typ": "JWT"})
        for token in (f"{header}.{payload}.", f"{header}.{payload}.{signature}"):
            assert_error(await me(app.server, token), 401, "INVALID_TOKEN")

    async def test_a_tampered_token_is_401(self, app: App):
        good = (await app.member())["access_token"]
        header, payload, signature = good.split(".")
        claims = claims_of(good) | {"sub": str(uuid.uuid4())}
        flipped = ("B" if signature[0] == "A" else "A") + signature[1:]
        for token in (
            f"{header}.{encoded(claims)}.{signature}",
            f"{header}.{payload}.{flipped}",
            f"{header}.{payload}.{signature[:-4]}",
            f"{header}.{payload}.",
            f"{header}.{payload}",
            f"{header}.{payload}.{signature}.{signature}",
            f"{good}.",
            good[1:],
        ):
            assert_error(await me(app.server, token), 401, "INVALID_TOKEN")


class TestAuthorizationHeader:
    NOTHING = (
        b"",
        b"Bearer",
        b"Basic YTpi",
        b"Token x",
        b"x",
        b"Bearer x y",
        b"Bearer x, Bearer y",
        b"Bearer \xff\xfe.\xe9.\xe9",
        "Bearer é.한.😀".encode(),
        b"Bearer ..",
        b"Bearer a.b.c",
        b"Bearer a.b.c.d.e",
        b"Bearer " + b"x" * 10_000,
        b"Bearer " + b"a." * 5_000,
        b"Bearer null",
        b"Bearer undefined",
        b"Bearer sk_",
        b"Bearer sk_\xe9",
        b"Bearer pk_x",
    )
    # A payload is read before its signature is verified, to find out which kind of token it claims to be.
    BOMBS = (
        b"[" * 1_200,
        b'{"typ":' * 200,
        b"[" * 6_000,
        b'{"typ": ["console_access"]}',
        b"\xff\xfe",
        b'{"typ":"console_access"}',
        b'{"typ":"console_refresh"}',
        b'"console_access"',
        b"9" * 1_000,
        b"",
    )

    @pytest.mark.share(0.34)
    @pytest.mark.parametrize("value", NOTHING, ids=lambda value: repr(value[:24]))
    async def test_a_malformed_one_is_401_everywhere(self, app: App, value: bytes):
        await self.refused(app, value)

    @pytest.mark.parametrize("payload", BOMBS, ids=lambda payload: repr(payload[:24]))
    async def test_a_hostile_token_is_401_everywhere(self, app: App, payload: bytes):
        header = encoded({"alg": "HS256", "typ": "JWT"})
        await self.refused(app, f"Bearer {header}.{encoded(payload)}.AAAA".encode())

    async def refused(self, app: App, value: bytes) -> None:
        headers = {"Authorization": value, "X-Public-Key": app.public_key.encode()}
        async with httpx.AsyncClient(base_url=app.server.url, headers=headers) as client:
            for method, path in (
                ("GET", ME),
                ("POST", SIGN_OUT),
                ("POST", RE_ISSUE),
                ("POST", LOGOUT),
                ("GET", CONSOLE_ME),
                ("GET", "/v1/public/tables"),
                ("POST", "/v1/public/app-members"),
            ):
                answer = await client.request(method, path)
                assert answer.status_code == 401, (method, path, answer.text)
                assert answer.json()["code"] in {"INVALID_TOKEN", "INVALID_SECRET_KEY"}

    async def test_the_scheme_is_read_in_any_case(self, app: App):
        token = (await app.member())["access_token"]
        async with plain_client(app.server.url) as client:
            answer = await client.get(ME, headers={"Authorization": f"bEARER {token}"})
        assert answer.status_code == 200

    async def test_a_401_names_the_scheme(self, app: App):
        async with app.client() as client:
            missing = await client.get(ME)
            bad = await client.get(ME, headers=bearer("x"))
        assert missing.headers["www-authenticate"] == "Bearer"
        assert bad.headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_a_member_token_is_checked_in_one_statement(app: App):
    token = (await app.member())["access_token"]
    database = Database(databases.address(app.server.data_dir), size=1)
    statements: list[asyncpg.connection.LoggedQuery] = []
    passwords = Passwords()
    sessions = Sessions(database, TokenSigner(MasterKeyring(MasterKeys(master_key(app.server)))))
    members = Members(database, sessions, passwords, RateLimits(database, Limits()), Events(database))
    try:
        # Its first statement makes asyncpg ask for settings of the server.
        await members.authenticate(token)
        async with database.connection() as connection:
            connection.add_query_logger(statements.append)
        app_id, member = await members.authenticate(token)
        assert (str(app_id), member.member_id) == (app.app_id, claims_of(token)["sub"])
        await asyncio.sleep(0)  # Loggers are called in the next turn of the loop.
        assert len(statements) == 1
    finally:
        passwords.close()
        await database.close()


async def told(app: App, token: str, path: str = ME, method: str = "GET", **headers: str) -> tuple[str, str]:
    """What an answer says is wrong with a token: the detail's code, and the sentence."""
    async with plain_client(app.server.url, **{"X-Public-Key": app.public_key, **headers}) as client:
        answer = await client.request(method, path, headers=bearer(token))
    body = assert_error(answer, 401, "INVALID_TOKEN")
    (detail,) = body["details"]
    assert (detail["field"], detail["message"]) == ("Authorization", body["message"])
    assert token not in answer.text
    return detail["code"], detail["message"]


async def test_an_answer_says_what_is_wrong_with_a_token(app: App):
    member, console = await app.member(), app.console
    access, refresh = member["access_token"], member["refresh_token"]
    now = claims_of(access)["iat"]
    expired = mint(
        app.server, TokenKind.MEMBER_ACCESS, **{**claims_of(access), "iat": now - 9 * HOUR, "exp": now - HOUR}
    )
    for path in (ME, "/v1/public/tables"):
        assert (await told(app, expired, path))[0] == "EXPIRED"
        for malformed in ("x", "a.b.c", access[:-6] + "AAAAAA", expired[:-6] + "AAAAAA"):
            assert (await told(app, malformed, path))[0] == "MALFORMED"
        code, message = await told(app, refresh, path)
        assert (code, "This is a member's refresh token; a member's access token" in message) == ("WRONG_KIND", True)
        code, message = await told(app, app.public_key, path)
        assert (code, "X-Public-Key" in message) == ("WRONG_KIND", True)
    assert await told(app, console["access_token"]) == (
        "WRONG_KIND",
        "This is a console user's access token; a member's access token belongs here.",
    )
    code, message = await told(app, app.secret_key)
    assert (code, message[:25]) == ("WRONG_KIND", "This is a secret key, whi")
    assert (await told(app, access, CONSOLE_ME))[0] == "WRONG_KIND"
    assert (await told(app, access, RE_ISSUE, "POST"))[0] == "WRONG_KIND"
    async with app.client(access) as client:
        assert (await client.post(SIGN_OUT)).status_code == 200
    for token, path, method in ((access, ME, "GET"), (access, "/v1/public/tables", "GET"), (refresh, RE_ISSUE, "POST")):
        assert (await told(app, token, path, method))[0] == "REVOKED"


async def test_a_key_in_the_others_header_is_named(app: App):
    async with plain_client(app.server.url) as client:
        answer = await client.get("/v1/public/tables", headers={"X-Public-Key": app.secret_key})
        message = assert_error(answer, 401, "INVALID_PUBLIC_KEY")["message"]
        assert "holds a secret key" in message
        assert "Authorization: Bearer" in message
        assert app.secret_key not in answer.text
