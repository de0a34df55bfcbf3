"""Authenticator apps and recovery codes, freshness, and a member's own sessions."""

import asyncio
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest

from pilotis.accounts.factors.errors import InvalidSecondFactorError
from pilotis.accounts.factors.types import SecondFactor
from pilotis.accounts.feature import AccountsFeature
from pilotis.apps.feature import AppsFeature
from pilotis.http.api.principals import Client
from tests.accounts.authenticator import code, enrolled, finish
from tests.accounts.test_gate import settings
from tests.backstage import run_sql
from tests.console import second_node
from tests.database import connection_to
from tests.mail.world import (
    MEMBERS,
    NEW_PASSWORD,
    PASSWORD,
    call,
    mails,
    post,
    sign_in,
    sign_up,
    token_of,
    verified,
)
from tests.support import App, assert_error
from tests.waiting import until

ADA = "ada@example.com"


async def ticket_of(app: App, login_id: str = "ada", password: str = PASSWORD) -> str:
    error = assert_error(await sign_in(app, login_id, password), 401, "SECOND_FACTOR_REQUIRED")
    assert error["factors"] == ["totp", "recovery_code"]
    return str(error["ticket"])


async def age(app: App, member: dict[str, Any]) -> None:
    """Let the member's sessions be six minutes old."""
    statement = (
        "update pilotis.sessions set created_at = now() - interval '6 minutes', auth_time = null where subject = $1"
    )
    await run_sql(app.server, statement, member["member_id"])


async def forget_steps(app: App) -> None:
    """Let codes that were used count again: a test does not wait for half a minute."""
    await run_sql(app.server, "update pilotis.account_totp set last_step = 0 where app_id = $1", UUID(app.app_id))


async def own(app: App, token: str, path: str = "/me/factors") -> Any:
    async with app.client(token) as client:
        return (await client.get(f"{MEMBERS}{path}")).json()


class TestTotp:
    async def test_is_set_up_by_a_code_and_asked_for_ever_after(self, app: App):
        ada = await verified(app, "ada", ADA)
        assert_error(await post(app, "/me/totp", None, ada["access_token"]), 403, "LOGIN_DISABLED")
        await settings(app, second_factor="optional")
        begun = (await post(app, "/me/totp", None, ada["access_token"])).json()
        assert begun["uri"].startswith("otpauth://totp/")
        assert f"secret={begun['secret']}" in begun["uri"]
        assert ElementTree.fromstring(begun["qr"]).tag.endswith("svg")
        # Until a code is entered nothing is asked for.
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 200
        wrong = await post(app, "/me/totp/confirm", {"code": code(begun["secret"], 50)}, ada["access_token"])
        assert_error(wrong, 401, "INVALID_SECOND_FACTOR")
        done = await post(app, "/me/totp/confirm", {"code": code(begun["secret"])}, ada["access_token"])
        assert len(set(done.json()["recovery_codes"])) == 10
        shown = await own(app, ada["access_token"])
        assert (shown["recovery_codes"], set(shown["totp"])) == ({"left": 10}, {"created_at"})
        assert (await mails(app, 1, purpose="security_notice"))[0]["recipient"] == ADA
        assert_error(await post(app, "/me/totp", None, ada["access_token"]), 409, "TOTP_ALREADY_SET")
        ticket = await ticket_of(app)
        answer = await finish(app, ticket, totp=code(begun["secret"], 1))
        assert answer.status_code == 200
        assert set(answer.json()) == {"member_id", "nickname", "access_token", "refresh_token"}
        current = next(
            one
            for one in (await own(app, answer.json()["access_token"], "/me/sessions"))["sessions"]
            if one["is_current"]
        )
        assert (current["methods"], current["level"]) == (["password", "totp"], 2)
        # Neither the ticket nor the code works again.
        assert_error(await finish(app, ticket, totp=code(begun["secret"], 1)), 401, "INVALID_SECOND_FACTOR")
        again = await finish(app, await ticket_of(app), totp=code(begun["secret"], 1))
        assert_error(again, 401, "INVALID_SECOND_FACTOR")

    async def test_a_member_deleted_meanwhile_gets_none(self, app: App):
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        blocked = "select exists (select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid)))"
        async with connection_to(app.server) as connection:
            async with connection.transaction():
                await connection.execute("delete from pilotis.members where member_id = $1", ada["member_id"])
                begun = asyncio.create_task(post(app, "/me/totp", None, ada["access_token"]))
                await until(lambda: connection.fetchval(blocked))
            assert_error(await begun, 401, "INVALID_TOKEN")

    async def test_no_other_way_in_leaves_it_out(self, app: App):
        """A05: reset and mailed code end at the second factor."""
        await settings(app, second_factor="optional", methods={"email_code": True})
        ada = await verified(app, "ada", ADA)
        secret, _ = await enrolled(app, ada["access_token"])
        asked = (await post(app, "/email-sign-in", {"email": ADA})).json()
        mailed = (await mails(app, 1, purpose="sign_in"))[0]["code"]
        answer = await post(app, "/email-sign-in/confirm", {"ticket": asked["ticket"], "code": mailed})
        ticket = assert_error(answer, 401, "SECOND_FACTOR_REQUIRED")["ticket"]
        assert (await finish(app, ticket, totp=code(secret, 1))).status_code == 200
        await post(app, "/password-reset", {"email": ADA})
        token = token_of((await mails(app, 1, purpose="reset_password"))[0])
        assert (
            await post(app, "/password-reset/confirm", {"token": token, "password": NEW_PASSWORD})
        ).status_code == 200
        await ticket_of(app, password=NEW_PASSWORD)

    async def test_a_ticket_dies_with_the_password_the_member_and_after_five_tries(self, app: App, other_app: App):
        """A06, A03."""
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        secret, _ = await enrolled(app, ada["access_token"])
        ticket = await ticket_of(app)
        assert_error(await finish(other_app, ticket, totp=code(secret, 1)), 401, "INVALID_SECOND_FACTOR")
        for _ in range(5):
            assert_error(await finish(app, ticket, totp=code(secret, 50)), 401, "INVALID_SECOND_FACTOR")
        assert_error(await finish(app, ticket, totp=code(secret, 1)), 401, "INVALID_SECOND_FACTOR")
        ticket = await ticket_of(app)
        change = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
        async with app.client(ada["access_token"]) as client:
            assert (await client.patch(f"{MEMBERS}/me/password", json=change)).status_code == 200
        assert_error(await finish(app, ticket, totp=code(secret, 1)), 401, "INVALID_SECOND_FACTOR")
        ticket = await ticket_of(app, password=NEW_PASSWORD)
        await call(app, "PATCH", f"/members/{ada['member_id']}", json={"is_active": False})
        assert_error(await finish(app, ticket, totp=code(secret, 1)), 403, "MEMBER_INACTIVE")

    async def test_wrong_codes_count_over_all_tickets(self, app: App):
        """Whoever has the password does not guess the code by asking for new tickets."""
        await settings(app, second_factor="optional")
        ada = await verified(app, "ada", ADA)
        secret, _ = await enrolled(app, ada["access_token"])
        for number in range(11):
            if number % 5 == 0:
                ticket = await ticket_of(app)
            answer = await finish(app, ticket, totp=code(secret, 50))
            assert answer.status_code == (401 if number < 10 else 429)
        assert int(answer.headers["Retry-After"]) > 3000
        assert_error(await finish(app, await ticket_of(app), totp=code(secret, 1)), 429, "RATE_LIMITED")
        assert len(await mails(app, 2, purpose="security_notice")) == 2

    @pytest.mark.parametrize("kind", ["totp", "recovery_code"])
    async def test_on_two_nodes_one_of_twenty_wins(self, app: App, kind: str):
        """A04: one code at once, on each node, each with a ticket of its own."""
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        secret, codes = await enrolled(app, ada["access_token"])
        used = code(secret, 1) if kind == "totp" else codes[3]
        tickets = [await ticket_of(app) for _ in range(10)]
        async with second_node(app.server) as node:
            factors = node.made.get(AccountsFeature).factors
            info = await node.made.get(AppsFeature).apps.by_id(UUID(app.app_id))

            async def there(ticket: str) -> bool:
                given = SecondFactor(ticket=ticket, **{kind: used})
                try:
                    await factors.finish(info, Client("127.0.0.1", "test"), given, None)
                except InvalidSecondFactorError:
                    return False
                return True

            async def here(ticket: str) -> bool:
                return (await finish(app, ticket, **{kind: used})).status_code == 200

            done = await asyncio.gather(*(attempt(ticket) for ticket in tickets[:5] for attempt in (here, there)))
        assert sum(done) == 1

    async def test_recovery_codes_are_for_a_lost_phone(self, app: App):
        await settings(app, second_factor="optional")
        ada = await verified(app, "ada", ADA)
        _, codes = await enrolled(app, ada["access_token"])
        typed = codes[0].lower().replace("-", " ")
        back = await finish(app, await ticket_of(app), recovery_code=typed)
        token = back.json()["access_token"]
        assert (await own(app, token))["recovery_codes"] == {"left": 9}
        assert_error(await finish(app, await ticket_of(app), recovery_code=codes[0]), 401, "INVALID_SECOND_FACTOR")
        renewed = (await post(app, "/me/recovery-codes", None, token)).json()["recovery_codes"]
        assert_error(await finish(app, await ticket_of(app), recovery_code=codes[1]), 401, "INVALID_SECOND_FACTOR")
        assert (await finish(app, await ticket_of(app), recovery_code=renewed[1])).status_code == 200
        async with app.client(token) as client:
            assert (await client.delete(f"{MEMBERS}/me/totp")).status_code == 200
            assert_error(await client.delete(f"{MEMBERS}/me/totp"), 404, "FACTOR_NOT_FOUND")
        assert_error(await post(app, "/me/recovery-codes", None, token), 404, "FACTOR_NOT_FOUND")
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 200

    async def test_the_team_removes_what_is_lost(self, app: App):
        await settings(app, second_factor="optional")
        ada = await verified(app, "ada", ADA)
        await enrolled(app, ada["access_token"])
        ticket = await ticket_of(app)
        await call(app, "DELETE", f"/members/{ada['member_id']}/factors")
        assert_error(await finish(app, ticket, recovery_code="AAAAA-AAAAA"), 401, "INVALID_SECOND_FACTOR")
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 200
        assert len(await mails(app, 2, purpose="security_notice")) == 2

    async def test_may_be_required(self, app: App):
        table = f"/v1/public/tables/{await app.table({})}/data"
        await settings(app, second_factor="required")
        ada = await sign_up(app, "ada")
        for token in (ada["access_token"], (await sign_in(app, "ada", PASSWORD)).json()["access_token"]):
            async with app.client(token) as client:
                assert_error(await client.get(table), 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
        await enrolled(app, ada["access_token"])
        async with app.client(ada["access_token"]) as client:
            assert (await client.get(table)).status_code == 200
            assert_error(await client.delete(f"{MEMBERS}/me/totp"), 409, "LAST_FACTOR")
        await ticket_of(app)

    async def test_none_is_set_up_while_an_older_version_serves(self, app: App):
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        node = """
            insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until)
            values (gen_random_uuid(), gen_random_uuid(), 0, 'old', '0.0.1', now() + interval '1 minute')
        """
        await run_sql(app.server, node)
        try:
            assert_error(await post(app, "/me/totp", None, ada["access_token"]), 503, "UPGRADE_UNFINISHED")
        finally:
            await run_sql(app.server, "delete from pilotis.nodes where name = 'old'")


class TestFreshness:
    async def test_a_password_proves_again_who_it_is(self, app: App):
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        await age(app, ada)
        refused = await post(app, "/me/totp", None, ada["access_token"])
        assert assert_error(refused, 403, "REAUTHENTICATION_REQUIRED")["methods"] == ["password"]
        wrong = await post(app, "/me/reauthenticate", {"password": NEW_PASSWORD}, ada["access_token"])
        assert_error(wrong, 403, "WRONG_PASSWORD")
        assert_error(await post(app, "/me/totp", None, ada["access_token"]), 403, "REAUTHENTICATION_REQUIRED")
        proved = await post(app, "/me/reauthenticate", {"password": PASSWORD}, ada["access_token"])
        assert set(proved.json()) == {"access_token", "auth_time"}
        assert (await post(app, "/me/totp", None, proved.json()["access_token"])).status_code == 200

    async def test_who_has_a_second_factor_proves_it_by_that(self, app: App):
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        secret, _ = await enrolled(app, ada["access_token"])
        await age(app, ada)
        refused = await post(app, "/me/recovery-codes", None, ada["access_token"])
        methods = ["totp", "recovery_code"]
        assert assert_error(refused, 403, "REAUTHENTICATION_REQUIRED")["methods"] == methods
        less = await post(app, "/me/reauthenticate", {"password": PASSWORD}, ada["access_token"])
        assert assert_error(less, 403, "REAUTHENTICATION_REQUIRED")["methods"] == methods
        await forget_steps(app)
        proved = await post(app, "/me/reauthenticate", {"totp": code(secret)}, ada["access_token"])
        assert proved.status_code == 200
        assert (await post(app, "/me/recovery-codes", None, ada["access_token"])).status_code == 200

    async def test_a_token_of_the_console_is_never_fresh(self, app: App):
        await settings(app, second_factor="optional")
        ada = await sign_up(app, "ada")
        given = await call(app, "POST", f"/members/{ada['member_id']}/token")
        assert_error(await post(app, "/me/totp", None, given["access_token"]), 403, "REAUTHENTICATION_REQUIRED")
        assert_error(
            await post(app, "/me/email", {"email": ADA}, given["access_token"]), 403, "REAUTHENTICATION_REQUIRED"
        )


class TestDevices:
    async def test_a_member_sees_and_ends_its_sessions(self, app: App):
        ada = await sign_up(app, "ada")
        eve = await sign_up(app, "eve")
        others = [(await sign_in(app, "ada", PASSWORD)).json() for _ in range(2)]
        shown = (await own(app, ada["access_token"], "/me/sessions"))["sessions"]
        assert [(one["methods"], one["level"], one["is_current"]) for one in shown] == [
            (["password"], 1, False),
            (["password"], 1, False),
            (["password"], 1, True),
        ]
        theirs = (await own(app, eve["access_token"], "/me/sessions"))["sessions"][0]["session_id"]
        async with app.client(ada["access_token"]) as client:
            assert_error(await client.delete(f"{MEMBERS}/me/sessions/{theirs}"), 404, "SESSION_NOT_FOUND")
            assert (await client.delete(f"{MEMBERS}/me/sessions/{shown[0]['session_id']}")).status_code == 200
            assert (await client.post(f"{MEMBERS}/me/sessions/end-others")).json()["sessions"] == 1
            assert (await client.get(f"{MEMBERS}/me")).status_code == 200
        for other in others:
            async with app.client(other["access_token"]) as client:
                assert (await client.get(f"{MEMBERS}/me")).status_code == 401
