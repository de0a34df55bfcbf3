"""Second factors of console users: no way in leaves them out, and what is dangerous asks again who it is."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.accounts.authenticator import code
from tests.backstage import run_sql
from tests.commands import run
from tests.conftest import PASSWORD
from tests.mail.smtp_server import SmtpServer
from tests.support import Server, assert_error
from tests.waiting import until

_OLD = "update pilotis.sessions set {} = now() - interval '2 hours' where subject = $1"


@pytest.fixture
def client(server: Server, console: dict[str, str]) -> Iterator[httpx.Client]:
    """A client of the server that tests share, once its first user has signed up: another user ends that link."""
    with httpx.Client(base_url=server.url, headers={"Origin": server.url}) as client:
        yield client


class User:
    """A console user of its own, with an app that it owns."""

    def __init__(self, server: Server, client: httpx.Client) -> None:
        self.client = client
        self.email = f"{uuid4()}@example.com"
        made = run("user", "create", self.email, "--password-stdin", *server.place, typed=f"{PASSWORD}\n")
        assert made.returncode == 0, made.stderr
        self.tokens: dict[str, str] = {}
        self.sign_in()

    def sign_in(self, password: str = PASSWORD) -> httpx.Response:
        answer = self.client.post("/v1/auth/signin", json={"email": self.email, "password": password})
        if answer.status_code == 200:
            self.tokens = answer.json()
        return answer

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens['access_token']}"}
        return self.client.request(method, f"/v1{path}", json=body, headers=headers)

    def enrol(self) -> tuple[str, list[str]]:
        secret = self.call("POST", "/auth/factors/totp").json()["secret"]
        assert_error(self.call("POST", "/auth/factors/totp/confirm", {"code": "000000"}), 401, "INVALID_SECOND_FACTOR")
        done = self.call("POST", "/auth/factors/totp/confirm", {"code": code(secret)})
        assert done.status_code == 200, done.text
        return secret, done.json()["recovery_codes"]


@pytest.fixture
def user(server: Server, client: httpx.Client) -> User:
    return User(server, client)


def test_each_way_in_asks_for_the_second_factor(server: Server, client: httpx.Client, user: User):
    """A04, A05: no code works twice, and neither a reset nor the browser's session leaves it out."""
    secret, codes = user.enrol()
    factors = user.call("GET", "/auth/factors").json()
    assert (factors["recovery_codes"], bool(factors["totp"])) == ({"left": 10}, True)
    asked = assert_error(user.sign_in(), 401, "SECOND_FACTOR_REQUIRED")
    assert asked["factors"] == ["totp", "recovery_code"]
    # The code that has set the app up.
    again = client.post("/v1/auth/second-factor", json={"ticket": asked["ticket"], "totp": code(secret)})
    assert_error(again, 401, "INVALID_SECOND_FACTOR")
    done = client.post("/v1/auth/second-factor", json={"ticket": asked["ticket"], "totp": code(secret, 1)})
    assert done.status_code == 200, done.text
    user.tokens = done.json()
    assert user.call("GET", "/auth/me").json()["email"] == user.email
    used = client.post("/v1/auth/second-factor", json={"ticket": asked["ticket"], "recovery_code": codes[0]})
    assert_error(used, 401, "INVALID_SECOND_FACTOR")
    browser = client.post("/v1/auth/session", json={"email": user.email, "password": PASSWORD})
    ticket = assert_error(browser, 401, "SECOND_FACTOR_REQUIRED")["ticket"]
    opened = client.post("/v1/auth/session/second-factor", json={"ticket": ticket, "recovery_code": codes[0]})
    assert opened.status_code == 200
    assert opened.cookies
    link = run("user", "reset", user.email, "--json", *server.place)
    token = link.stdout.partition("#")[2].partition('"')[0]
    reset = client.post("/v1/auth/password-reset", json={"token": token, "password": "another horse"})
    ticket = assert_error(reset, 401, "SECOND_FACTOR_REQUIRED")["ticket"]
    spent = client.post("/v1/auth/second-factor", json={"ticket": ticket, "recovery_code": codes[0]})
    assert_error(spent, 401, "INVALID_SECOND_FACTOR")
    # The ticket of the reset ends with another password, and nobody signs in without the factor.
    assert_error(user.sign_in("another horse"), 401, "SECOND_FACTOR_REQUIRED")
    fine = client.post("/v1/auth/second-factor", json={"ticket": ticket, "recovery_code": codes[1]})
    assert fine.status_code == 200
    assert run("user", "reset-factors", user.email, *server.place).returncode == 0
    assert user.sign_in("another horse").status_code == 200


def test_a03_a_ticket_has_five_tries_and_all_of_them_ten_an_hour(client: httpx.Client, user: User):
    user.enrol()
    for _ in range(2):
        ticket = assert_error(user.sign_in(), 401, "SECOND_FACTOR_REQUIRED")["ticket"]
        for _ in range(5):
            wrong = client.post("/v1/auth/second-factor", json={"ticket": ticket, "totp": "000000"})
            assert_error(wrong, 401, "INVALID_SECOND_FACTOR")
        sixth = client.post("/v1/auth/second-factor", json={"ticket": ticket, "totp": "000000"})
        assert_error(sixth, 401, "INVALID_SECOND_FACTOR")
    ticket = assert_error(user.sign_in(), 401, "SECOND_FACTOR_REQUIRED")["ticket"]
    assert_error(client.post("/v1/auth/second-factor", json={"ticket": ticket, "totp": "000000"}), 429, "RATE_LIMITED")


async def test_what_is_dangerous_asks_again_who_it_is(server: Server, client: httpx.Client, user: User):
    app = user.call("POST", "/apps", {"name": "Own"}).json()["app_id"]
    dangerous = [
        ("POST", f"/apps/{app}/keys/secret", {"name": "key"}),
        ("POST", f"/apps/{app}/invitations", {"email": "bob@example.com", "role": "owner"}),
        ("PUT", f"/apps/{app}/mail-settings", {"smtp_url": "smtp://localhost:9", "mail_from": "a@example.com"}),
        ("POST", "/auth/factors/totp", None),
        ("DELETE", f"/apps/{app}", None),
    ]
    await run_sql(server, _OLD.format("created_at"), user.tokens["user_id"])
    for method, path, body in dangerous:
        error = assert_error(user.call(method, path, body), 403, "REAUTHENTICATION_REQUIRED")
        assert error["methods"] == ["password"]
    assert user.call("PATCH", f"/apps/{app}", {"name": "Still allowed"}).status_code == 200
    assert_error(user.call("POST", "/auth/reauthenticate", {"password": "wrong horse"}), 403, "WRONG_PASSWORD")
    assert user.call("POST", "/auth/reauthenticate", {"password": PASSWORD}).status_code == 200
    assert user.call(*dangerous[0]).status_code == 201
    secret, _ = user.enrol()
    await run_sql(server, _OLD.format("auth_time"), user.tokens["user_id"])
    error = assert_error(user.call(*dangerous[0]), 403, "REAUTHENTICATION_REQUIRED")
    assert error["methods"] == ["totp", "recovery_code"]
    weak = user.call("POST", "/auth/reauthenticate", {"password": PASSWORD})
    assert_error(weak, 403, "REAUTHENTICATION_REQUIRED")
    assert user.call("POST", "/auth/reauthenticate", {"totp": code(secret, 1)}).status_code == 200
    assert user.call(*dangerous[-1]).status_code == 200


async def test_a_forgotten_password_is_reset_by_mail(tmp_path_factory: pytest.TempPathFactory):
    async with SmtpServer().listening() as smtp:
        environment = {
            "PILOTIS_SMTP_URL": smtp.url(),
            "PILOTIS_MAIL_FROM": "mail@test.invalid",
            "PILOTIS_OUTGOING_NETWORKS": "127.0.0.0/8",
        }
        folder = tmp_path_factory.mktemp("resets") / "data"
        running = await asyncio.to_thread(Server(folder, environment=environment).start)
        try:
            async with httpx.AsyncClient(base_url=running.url) as client:
                place, email = running.place, "ada@example.com"
                await asyncio.to_thread(run, "user", "create", email, "--password-stdin", *place, typed=f"{PASSWORD}\n")
                assert (await client.get("/v1/console/config")).json()["sends_mail"] is True
                for address in ("nobody@example.com", "Ada@example.com"):
                    answer = await client.post("/v1/auth/password-reset/request", json={"email": address})
                    assert (answer.status_code, "on its way" in answer.text) == (202, True)

                async def arrived() -> str | None:
                    return smtp.taken[0].part("plain") if smtp.taken else None

                token = (await until(arrived)).partition("/setup/reset#")[2].split()[0]
                body = {"token": token, "password": "another horse"}
                assert (await client.post("/v1/auth/password-reset", json=body)).status_code == 200
                assert_error(await client.post("/v1/auth/password-reset", json=body), 403, "INVALID_RESET_LINK")
                assert [taken.recipients for taken in smtp.taken] == [[email]]
        finally:
            await asyncio.to_thread(running.stop)


def test_sixteen_who_change_the_factors_at_once_wait_for_each_other(client: httpx.Client, user: User):
    _, codes = user.enrol()
    asked = assert_error(user.sign_in(), 401, "SECOND_FACTOR_REQUIRED")

    def act(number: int) -> int:
        if number % 4 == 0:
            return user.call("POST", "/auth/factors/recovery-codes").status_code
        if number % 4 == 1:
            body = {"ticket": asked["ticket"], "recovery_code": codes[number // 4]}
            return client.post("/v1/auth/second-factor", json=body).status_code
        if number % 4 == 2:
            return user.call("POST", "/auth/reauthenticate", {"recovery_code": codes[5]}).status_code
        return user.call("DELETE", "/auth/factors/totp").status_code

    begun = time.monotonic()
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(act, range(16)))
    assert set(found) <= {200, 401, 403, 404, 429}, found
    # One transaction after the other: a deadlock would take PostgreSQL a second to find.
    assert time.monotonic() - begun < 5
    assert found.count(200) >= 1
    user.call("DELETE", "/auth/factors/totp")
    assert user.call("GET", "/auth/factors").json() == {"totp": None, "recovery_codes": {"left": 0}, "passkeys": []}
