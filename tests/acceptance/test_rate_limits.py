"""Decisions: Sign-in and tokens, rate limits."""

import asyncio
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pilotis.limits import Limits
from tests.backstage import run_sql
from tests.conftest import PASSWORD, new_app
from tests.console import set_limits
from tests.support import App, Server, assert_error, plain_client

SIGN_UP = "/v1/public/app-members/signup"
SIGN_IN = "/v1/public/app-members/signin"
GUEST = "/v1/public/app-members"
LIMIT = 10
WRONG = "wrong horse"


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with small limits for each address, behind a proxy whose address no client has."""
    environment = {
        "PILOTIS_LIMITS_SIGNUP_PER_MINUTE": "3",
        "PILOTIS_LIMITS_GUEST_PER_MINUTE": "4",
        "PILOTIS_TRUSTED_PROXIES": "127.0.0.1, 10.9.9.9",
    }
    running = Server(tmp_path_factory.mktemp("tight") / "data", environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def tight_console(tight: Server) -> dict[str, str]:
    body = {"email": "first@example.com", "password": PASSWORD, "token": tight.setup_token}
    answer = httpx.post(f"{tight.url}/v1/auth/signup", json=body, headers={"X-Forwarded-For": "192.0.2.200"})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.fixture
def tight_app(tight: Server, tight_console: dict[str, str]) -> App:
    return new_app(tight, tight_console)


def test_the_defaults_are_the_ones_decided():
    limits = Limits()
    assert (limits.signin_per_minute, limits.signup_per_minute, limits.guest_per_minute) == (LIMIT, 120, 120)
    assert limits.data_per_minute == 0


async def sign_in(client: httpx.AsyncClient, login_id: str, password: str = WRONG, **headers: str) -> httpx.Response:
    return await client.post(SIGN_IN, json={"login_id": login_id, "password": password}, headers=headers)


def standing(answer: httpx.Response) -> tuple[int, int, int]:
    """The limit, its remainder and the seconds until its reset, from the answer's headers."""
    limit, remaining, reset = (int(answer.headers[f"ratelimit-{name}"]) for name in ("limit", "remaining", "reset"))
    return limit, remaining, reset


async def rewind(app: App, seconds: float) -> None:
    """Let time pass for every rate limit of the app."""
    statement = "update pilotis.rate_limits set resets_at = resets_at - make_interval(secs => $2) where key like $1"
    await run_sql(app.server, statement, f"%{app.app_id}%", float(seconds))


class TestSignInsFromOneAddress:
    """Whatever the login names are."""

    async def test_many_names_from_one_address_are_limited(self, app: App):
        await app.member()
        await set_limits(app, signin_address_per_minute=20)
        async with app.client() as client:
            answers = [await sign_in(client, f"name{number}") for number in range(21)]
            assert [answer.status_code for answer in answers] == [401] * 20 + [429]
            limit, remaining, reset = standing(answers[-1])
            assert (limit, remaining) == (20, 0)
            # No longer than a minute, however often: an office waits as one.
            assert 1 <= reset <= 60
            assert_error(await sign_in(client, "ada", "correct horse"), 429, "RATE_LIMITED")
            assert standing(await sign_in(client, "ada", "correct horse"))[2] <= 60
            await rewind(app, 60)
            assert (await sign_in(client, "ada", "correct horse")).status_code == 200

    async def test_together_they_are_each_counted(self, app: App):
        await set_limits(app, signin_address_per_minute=10)
        async with app.client() as client:
            answers = await asyncio.gather(*(sign_in(client, f"name{number}") for number in range(30)))
        assert Counter(answer.status_code for answer in answers) == {401: 10, 429: 20}

    async def test_success_counts_too_and_another_app_and_address_do_not(self, tight_app: App, tight: Server):
        await tight_app.member()
        await set_limits(tight_app, signin_address_per_minute=3)
        async with tight_app.client() as client:
            right = [await sign_in(client, "ada", "correct horse") for _ in range(4)]
            assert [answer.status_code for answer in right] == [200, 200, 200, 429]
            other = await sign_in(client, "ada", "correct horse", **{"X-Forwarded-For": "192.0.2.77"})
            assert other.status_code == 200

    async def test_an_office_is_not_in_its_way_by_default(self):
        assert Limits().signin_address_per_minute >= 20 * LIMIT

    async def test_the_console_has_the_bound_too(self, tmp_path):
        own = Server(tmp_path / "data", environment={"PILOTIS_LIMITS_SIGNIN_ADDRESS_PER_MINUTE": "5"}).start()
        try:
            async with plain_client(own.url) as client:
                answers = [
                    await client.post("/v1/auth/signin", json={"email": f"u{number}@example.com", "password": WRONG})
                    for number in range(6)
                ]
            assert [answer.status_code for answer in answers] == [401] * 5 + [429]
        finally:
            own.stop()


class TestSignIn:
    async def test_ten_wrong_passwords_a_minute_are_answered(self, app: App):
        await app.member()
        async with app.client() as client:
            for left in reversed(range(LIMIT)):
                answer = await sign_in(client, "ada")
                assert_error(answer, 401, "INVALID_CREDENTIALS")
                assert standing(answer)[:2] == (LIMIT, left)
                assert 1 <= standing(answer)[2] <= 60
            refused = await sign_in(client, "ada")
            assert_error(refused, 429, "RATE_LIMITED")
            assert standing(refused)[:2] == (LIMIT, 0)
            assert refused.headers["retry-after"] == refused.headers["ratelimit-reset"]
            # The right password does not help now; otherwise guessing would find it.
            assert_error(await sign_in(client, "ada", "correct horse"), 429, "RATE_LIMITED")
            assert_error(await sign_in(client, "eve"), 401, "INVALID_CREDENTIALS")

    async def test_each_answer_has_its_headers_once(self, app: App):
        async with app.client() as client:
            for _ in range(LIMIT + 1):
                answer = await sign_in(client, "nobody")
                names = Counter(name.lower() for name, _ in answer.headers.raw)
                assert all(
                    names[name] == 1 for name in (b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset")
                )
        assert answer.status_code == 429
        exposed = answer.headers["access-control-expose-headers"]
        assert {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"} <= set(exposed.split(", "))

    async def test_an_unknown_login_id_is_limited_like_a_known_one(self, app: App):
        async with app.client() as client:
            answers = [(await sign_in(client, "nobody")).status_code for _ in range(LIMIT + 1)]
        assert answers == [401] * LIMIT + [429]

    @pytest.mark.advisory("parse-server#10266")
    async def test_of_50_wrong_passwords_at_once_ten_are_tried(self, app: App):
        await app.member()
        async with app.client() as client:
            answers = await asyncio.gather(*(sign_in(client, "ada", f"guess number {i}") for i in range(50)))
        assert Counter(answer.status_code for answer in answers) == {401: LIMIT, 429: 50 - LIMIT}

    async def test_success_forgives(self, app: App):
        await app.member()
        async with app.client() as client:
            for _ in range(3):
                for _ in range(LIMIT - 1):
                    assert (await sign_in(client, "ada")).status_code == 401
                signed_in = await sign_in(client, "ada", "correct horse")
                assert signed_in.status_code == 200
                assert standing(signed_in)[:2] == (LIMIT, 0)

    async def test_the_wait_doubles_each_time_up_to_a_quarter_of_an_hour(self, app: App):
        waits = []
        async with app.client() as client:
            for _ in range(6):
                for _ in range(LIMIT):
                    assert (await sign_in(client, "nobody")).status_code == 401
                waits.append(int((await sign_in(client, "nobody")).headers["retry-after"]))
                await rewind(app, waits[-1])
            assert waits == pytest.approx([60, 120, 240, 480, 900, 900], abs=2)
            # After a quarter of an hour of quiet it starts again.
            await rewind(app, 16 * 60)
            for _ in range(LIMIT + 1):
                answer = await sign_in(client, "nobody")
        assert int(answer.headers["retry-after"]) == pytest.approx(60, abs=2)

    async def test_trying_while_waiting_does_not_make_the_wait_longer(self, app: App):
        async with app.client() as client:
            for _ in range(LIMIT + 1):
                first = await sign_in(client, "nobody")
            for _ in range(5):
                last = await sign_in(client, "nobody")
        assert int(last.headers["retry-after"]) <= int(first.headers["retry-after"])

    async def test_all_unicode_forms_of_a_login_id_share_one_limit(self, app: App):
        forms = [unicodedata.normalize(form, "Zoë 한국") for form in ("NFC", "NFD")]
        async with app.client() as client:
            answers = [(await sign_in(client, forms[i % 2])).status_code for i in range(LIMIT + 1)]
        assert answers == [401] * LIMIT + [429]

    async def test_another_case_is_another_login_id_and_does_not_sign_ada_in(self, app: App):
        await app.member()
        async with app.client() as client:
            for login_id in ("Ada", "ADA", "ada ", "ada\u200b"):
                assert_error(await sign_in(client, login_id, "correct horse"), 401, "INVALID_CREDENTIALS")

    async def test_the_limit_is_an_apps_own(self, app: App, other_app: App):
        async with app.client() as client, other_app.client() as other:
            for _ in range(LIMIT + 1):
                answer = await sign_in(client, "ada")
            assert answer.status_code == 429
            assert (await sign_in(other, "ada")).status_code == 401

    async def test_an_app_sets_its_own(self, app: App):
        await set_limits(app, signin_per_minute=2)
        async with app.client() as client:
            answers = [await sign_in(client, "ada") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [401, 401, 429]
        assert standing(answers[0])[:2] == (2, 1)

    @pytest.mark.advisory("GHSA-vm5r-c87r-pf6x", "Directus 12")
    async def test_a_forwarded_address_is_not_believed(self, app: App):
        """Nor any other header that names one: this server trusts no proxy."""
        names = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP", "CF-Connecting-IP", "True-Client-IP")
        async with app.client() as client:
            answers = [
                (await sign_in(client, "ada", **{names[i % len(names)]: f"192.0.2.{i}"})).status_code
                for i in range(LIMIT + 1)
            ]
        assert answers == [401] * LIMIT + [429]


class TestBehindAProxy:
    async def test_each_forwarded_address_has_its_own_limit(self, tight_app: App):
        async with tight_app.client() as client:
            for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
                for _ in range(LIMIT):
                    assert (await sign_in(client, "ada", **{"X-Forwarded-For": address})).status_code == 401
                assert (await sign_in(client, "ada", **{"X-Forwarded-For": address})).status_code == 429

    @pytest.mark.advisory("GHSA-vm5r-c87r-pf6x")
    async def test_what_the_client_wrote_itself_does_not_count(self, tight_app: App):
        """The proxy puts the address it sees at the right end; a client can write the left."""
        async with tight_app.client() as client:
            answers = [
                (await sign_in(client, "ada", **{"X-Forwarded-For": f"203.0.113.{i}, 192.0.2.7, 10.9.9.9"})).status_code
                for i in range(LIMIT + 1)
            ]
        assert answers == [401] * LIMIT + [429]

    async def test_a_proxy_may_add_a_line_of_its_own(self, tight_app: App):
        """Behind two proxies the last line names the first of them, which is trusted."""
        for client_address, statuses in (("192.0.2.30", [401] * LIMIT + [429]), ("192.0.2.31", [401])):
            lines = [("X-Forwarded-For", client_address), ("X-Forwarded-For", "10.9.9.9")]
            async with tight_app.client() as client:
                body = {"login_id": "ada", "password": "wrong horse"}
                answers = [
                    (await client.post("/v1/public/app-members/signin", json=body, headers=lines)).status_code
                    for _ in statuses
                ]
            assert answers == statuses

    @pytest.mark.advisory("parse-server#10214")
    async def test_an_ipv6_client_does_not_escape_within_its_network(self, tight_app: App):
        async with tight_app.client() as client:
            for number in range(LIMIT + 1):
                answer = await sign_in(client, "ada", **{"X-Forwarded-For": f"2001:db8:0:7::{number:x}"})
            assert answer.status_code == 429
            for neighbour in ("2001:db8:0:8::1", "::ffff:192.0.2.8"):
                assert (await sign_in(client, "ada", **{"X-Forwarded-For": neighbour})).status_code == 401

    async def test_an_address_that_is_none_is_limited_all_the_same(self, tight_app: App):
        async with tight_app.client() as client:
            for _ in range(LIMIT + 1):
                answer = await sign_in(client, "ada", **{"X-Forwarded-For": "unknown" * 1000})
        assert answer.status_code == 429


class TestSignUpAndGuests:
    async def test_sign_up_is_limited_for_an_address(self, tight_app: App):
        async with tight_app.client(**{"X-Forwarded-For": "192.0.2.11"}) as client:
            for number in range(3):
                body = {"login_id": f"member {number}", "password": "correct horse"}
                answer = await client.post(SIGN_UP, json=body)
                assert answer.status_code == 201
                assert standing(answer)[:2] == (3, 2 - number)
            answer = await client.post(SIGN_UP, json={"login_id": "one more", "password": "correct horse"})
            assert_error(answer, 429, "RATE_LIMITED")
            assert standing(answer)[:2] == (3, 0)
            assert answer.headers["retry-after"] == answer.headers["ratelimit-reset"]
            other = {"X-Forwarded-For": "192.0.2.12"}
            answer = await client.post(
                SIGN_UP, json={"login_id": "one more", "password": "correct horse"}, headers=other
            )
            assert answer.status_code == 201

    async def test_a_refused_sign_up_counts_and_tells_too(self, tight_app: App):
        async with tight_app.client(**{"X-Forwarded-For": "192.0.2.13"}) as client:
            answers = [await client.post(SIGN_UP, json={}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [400, 400, 400, 429]
        assert [standing(answer)[1] for answer in answers] == [2, 1, 0, 0]

    async def test_guests_are_limited_by_themselves_and_the_minute_passes(self, tight_app: App):
        async with tight_app.client(**{"X-Forwarded-For": "192.0.2.14"}) as client:
            answers = [await client.post(GUEST) for _ in range(5)]
            assert [answer.status_code for answer in answers] == [201] * 4 + [429]
            assert standing(answers[0])[:2] == (4, 3)
            assert (await client.post(SIGN_UP, json={})).status_code == 400
            await rewind(tight_app, 61)
            assert (await client.post(GUEST)).status_code == 201

    @pytest.mark.advisory("parse-server#10266")
    async def test_50_guests_at_once_do_not_slip_past(self, tight_app: App):
        async with tight_app.client(**{"X-Forwarded-For": "192.0.2.15"}) as client:
            answers = await asyncio.gather(*(client.post(GUEST) for _ in range(50)))
        assert Counter(answer.status_code for answer in answers) == {201: 4, 429: 46}


class TestConsole:
    async def test_sign_in_is_limited_for_an_address_in_any_case(self, tight: Server):
        headers = {"X-Forwarded-For": "192.0.2.21"}
        async with plain_client(tight.url, **headers) as client:
            answers: list[httpx.Response] = []
            for number in range(LIMIT + 1):
                email = ["eve@example.com", "EVE@example.com", " Eve@Example.com"[1:]][number % 3]
                answers.append(await client.post("/v1/auth/signin", json={"email": email, "password": WRONG}))
        assert [answer.status_code for answer in answers] == [401] * LIMIT + [429]
        assert [standing(answer)[1] for answer in answers] == [*reversed(range(LIMIT)), 0]

    async def test_sign_up_is_limited_for_an_address(self, tight: Server):
        body = {"email": "eve@example.com", "password": PASSWORD, "token": "guessed"}
        async with plain_client(tight.url, **{"X-Forwarded-For": "192.0.2.22"}) as client:
            answers = [await client.post("/v1/auth/signup", json=body) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [403, 403, 403, 429]
        assert [standing(answer)[1] for answer in answers] == [2, 1, 0, 0]


class TestData:
    async def test_data_routes_have_no_limit_unless_the_app_sets_one(self, app: App):
        table = await app.table({"text": "string"})
        path = f"/v1/public/tables/{table}/data"
        async with app.client() as client:
            answer = await client.get(path)
            assert "ratelimit-limit" not in answer.headers
            await set_limits(app, data_per_minute=3)
            answers: list[Any] = [await client.get(path) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [standing(answer)[:2] for answer in answers] == [(3, 2), (3, 1), (3, 0), (3, 0)]
