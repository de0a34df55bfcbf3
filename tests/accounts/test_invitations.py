"""Members whom the app's team invites: who may accept, what it gives, and that nobody else gets anything of it."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from tests.accounts.test_member_rows import ON_SIGN_UP, PROFILES, SPACES, rows
from tests.backstage import run_sql
from tests.console import owner_of, set_limits, user_with
from tests.databases import address
from tests.mail.world import MEMBERS, NEW_PASSWORD, PASSWORD, account, call, mails, post, sign_in, sign_up, token_of
from tests.mail.world import verified as member_with
from tests.oauth.test_id_token_sign_in import enable, press
from tests.oauth.vendors import Person, Vendors, vendors
from tests.support import App, assert_error, plain_client
from tests.waiting import until

EVE = "Eve@Example.com"
INVITATIONS = "/members/invitations"


@pytest.fixture
def vendor() -> Iterator[Vendors]:
    with vendors() as running:
        yield running


def _side(app: App) -> httpx.AsyncClient:
    """The app's own side, by its secret key."""
    return plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.secret_key}")


async def invite(app: App, email: str = EVE, **more: Any) -> dict[str, Any]:
    async with _side(app) as side:
        answer = await side.post(INVITATIONS, json={"email": email, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def invited(app: App, email: str = EVE, **more: Any) -> str:
    """The token of a new invitation."""
    await invite(app, email, **more)
    return token_of((await _invitations(app))[0])


async def _invitations(app: App) -> list[dict[str, Any]]:
    found = (await call(app, "GET", "/mail", params={"purpose": "invitation"}))["data"]
    return [await call(app, "GET", f"/mail/{one['mail_id']}") for one in found]


async def join(app: App, token: str, login_id: str = "eve", bearer: str | None = None, **more: Any) -> httpx.Response:
    return await post(app, "/signup", {"login_id": login_id, "password": PASSWORD, "invitation": token, **more}, bearer)


async def settings(app: App, **change: Any) -> None:
    await call(app, "PATCH", "/account-settings", json=change)


async def team_of(app: App) -> str:
    async with _side(app) as side:
        return str((await side.post("/teams", json={"name": "Night owls"})).json()["team_id"])


async def states(app: App) -> list[str]:
    return [one["state"] for one in (await call(app, "GET", INVITATIONS))["data"]]


class TestTeam:
    async def test_an_editor_invites_an_address_and_lists_and_revokes(self, app: App):
        team = await team_of(app)
        async with (await user_with(app, "editor")).client(app) as editor:
            body = {"email": EVE, "roles": ["author", "author"], "team_id": team, "team_roles": ["owner"]}
            made = await editor.post(INVITATIONS, json={**body, "language": "ko"})
            assert made.status_code == 201, made.text
            shown = made.json()
            assert set(shown) == {
                *("invitation_id", "email", "roles", "team_id", "team_roles", "language"),
                *("state", "created_at", "expires_at"),
            }
            assert (shown["email"], shown["roles"], shown["team_id"], shown["team_roles"], shown["state"]) == (
                EVE,
                ["author"],
                team,
                ["owner"],
                "open",
            )
            path = f"{INVITATIONS}/{shown['invitation_id']}"
            assert (await editor.get(path)).json() == shown
            assert (await editor.get(INVITATIONS, params={"state": "open"})).json()["data"] == [shown]
            assert (await editor.get(INVITATIONS, params={"state": "accepted"})).json()["total_count"] == 0
            (mail,) = await _invitations(app)
            assert (mail["recipient"], mail["language"]) == (EVE, "ko")
            assert mail["link"].startswith(f"{app.server.url}/account/{app.app_id}/invite#mi_")
            # Nothing that the list shows is the link.
            assert token_of(mail) not in (await editor.get(INVITATIONS)).text
            revoked = await editor.delete(path)
            assert revoked.json() == {"message": "Invitation revoked.", "id": shown["invitation_id"]}
            assert_error(await editor.delete(path), 404, "MEMBER_INVITATION_NOT_FOUND")
        assert await states(app) == ["revoked"]
        assert_error(await join(app, token_of(mail)), 401, "TOKEN_EXPIRED")
        async with owner_of(app).client(app) as owner:
            log = (await owner.get("/audit-log", params={"limit": 50})).json()["data"]
        noted = [one for one in log if "invit" in one["action"] and one["action"].startswith("member.")]
        assert [one["action"] for one in noted] == ["member.revoke_invitation", "member.invite"]
        assert noted[1]["details"]["email"] == EVE

    async def test_a_viewer_reads_and_others_see_nothing(self, app: App, other_app: App):
        made = await invite(app)
        path = f"{INVITATIONS}/{made['invitation_id']}"
        async with (await user_with(app, "viewer")).client(app) as viewer:
            assert (await viewer.get(path)).json() == made
            assert_error(await viewer.post(INVITATIONS, json={"email": "x@example.com"}), 403, "ROLE_REQUIRED")
            assert_error(await viewer.delete(path), 403, "ROLE_REQUIRED")
        async with _side(other_app) as other:
            for method in ("GET", "DELETE"):
                assert_error(await other.request(method, path), 404, "MEMBER_INVITATION_NOT_FOUND")
        assert await states(app) == ["open"]

    async def test_another_invitation_of_the_address_replaces_it(self, app: App):
        first = await invited(app, roles=["author"])
        second = await invited(app, "eve@example.com", roles=["reader"])
        assert await states(app) == ["open"]
        assert_error(await join(app, first), 401, "TOKEN_EXPIRED")
        made = (await join(app, second)).json()
        own = await account(app, made["access_token"])
        assert (own["email"], own["roles"]) == ("eve@example.com", ["reader"])

    async def test_what_cannot_be_invited(self, app: App, other_app: App):
        await member_with(app, "ada", "ada@example.com")
        foreign = await team_of(other_app)
        async with _side(app) as side:
            taken = await side.post(INVITATIONS, json={"email": "ADA@example.com"})
            assert_error(taken, 409, "EMAIL_TAKEN")
            for body, field in [
                ({"email": "a@b@c"}, "email"),
                ({"email": EVE, "roles": ["No role"]}, "roles"),
                ({"email": EVE, "team_id": foreign}, "team_id"),
                ({"email": EVE, "team_roles": ["owner"]}, "team_roles"),
                ({"email": EVE, "language": "xx"}, "language"),
            ]:
                error = assert_error(await side.post(INVITATIONS, json=body), 400, "VALIDATION_FAILED")
                assert error["details"][0]["field"].startswith(field)
            await settings(app, sign_up="closed")
            assert_error(await side.post(INVITATIONS, json={"email": EVE}), 403, "SIGN_UP_CLOSED")
        assert await states(app) == []

    async def test_an_app_has_so_many_open_ones_also_by_requests_at_once(self, app: App):
        await set_limits(app, member_invitations=2)
        async with _side(app) as side:
            answers = await asyncio.gather(
                *(side.post(INVITATIONS, json={"email": f"m{number}@example.com"}) for number in range(6))
            )
            assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
            # The same address again is none more, and a revoked one is none.
            made = next(answer.json() for answer in answers if answer.status_code == 201)
            again = (await side.post(INVITATIONS, json={"email": made["email"]})).json()
            full = await side.post(INVITATIONS, json={"email": "last@example.com"})
            assert_error(full, 409, "TOO_MANY_MEMBER_INVITATIONS")
            await side.delete(f"{INVITATIONS}/{again['invitation_id']}")
            assert (await side.post(INVITATIONS, json={"email": "last@example.com"})).status_code == 201

    async def test_an_address_gets_so_many_mails(self, app: App):
        for _ in range(6):
            await invite(app)
        assert [mail["state"] for mail in await _invitations(app)] == ["suppressed", *["stored"] * 5]


class TestAccepting:
    async def test_the_token_makes_a_member_with_the_address_the_roles_and_the_team(self, app: App):
        await settings(app, sign_up="invited", email_verification="required")
        team = await team_of(app)
        token = await invited(app, roles=["author"], team_id=team, team_roles=["editor"])
        looked = await post(app, "/invitations/read", {"token": token})
        assert set(looked.json()) == {"email", "team", "expires_at"}
        assert (looked.json()["email"], looked.json()["team"]) == (EVE, "Night owls")
        made = await join(app, token, email="eve@example.com")
        assert made.status_code == 201, made.text
        bearer = made.json()["access_token"]
        own = await account(app, bearer)
        assert (own["email"], own["pending_email"], own["login_id"], own["roles"]) == (EVE, None, "eve", ["author"])
        async with app.client(bearer) as client:
            # No provisional session: the address is verified.
            (joined,) = (await client.get(f"{MEMBERS}/teams")).json()["teams"]
        assert (joined["team_id"], joined["roles"]) == (team, ["editor"])
        assert await states(app) == ["accepted"]
        for again in (await join(app, token, "eve2"), await post(app, "/invitations/read", {"token": token})):
            assert_error(again, 401, "TOKEN_EXPIRED")
        assert (await sign_in(app, "eve@example.com", PASSWORD)).json()["member_id"] == made.json()["member_id"]
        async with owner_of(app).client(app) as owner:
            log = (await owner.get("/audit-log", params={"limit": 50})).json()["data"]
        (noted,) = [one for one in log if one["action"] == "member.accept_invitation"]
        assert noted["target"] == made.json()["member_id"]
        # No other proof was mailed.
        assert len((await call(app, "GET", "/mail"))["data"]) == 1

    async def test_of_many_at_once_one_wins(self, app: App):
        for form in ("any", "email"):
            await settings(app, sign_up="invited", login_id_form=form)
            email = f"{form}@example.com"
            token = await invited(app, email)
            names = [email] * 8 if form == "email" else [f"eve{number}" for number in range(8)]
            answers = await asyncio.gather(*(join(app, token, name) for name in names))
            assert sorted(answer.status_code for answer in answers) == [201, *[401] * 7]
            assert {one.json()["code"] for one in answers if one.status_code == 401} == {"TOKEN_EXPIRED"}
        assert (await call(app, "GET", "/members"))["total_count"] == 2

    async def test_a_token_is_good_for_its_app_its_address_and_its_time(self, app: App, other_app: App):
        token = await invited(app)
        assert_error(await join(other_app, token), 401, "TOKEN_EXPIRED")
        for wrong in (token[:-4] + "AAAA", "mi_x", token.replace("mi_", "ti_"), "x"):
            assert_error(await join(app, wrong), 401, "TOKEN_EXPIRED")
            assert_error(await post(app, "/invitations/read", {"token": wrong}), 401, "TOKEN_EXPIRED")
        refused = assert_error(await join(app, token, email="ada@example.com"), 400, "VALIDATION_FAILED")
        assert refused["details"][0]["field"] == "email"
        await settings(app, login_id_form="email")
        refused = assert_error(await join(app, token, "ada@example.com"), 400, "VALIDATION_FAILED")
        assert refused["details"][0]["field"] == "login_id"
        query = "update pilotis.member_invitations set expires_at = now() where app_id = $1"
        await run_sql(app.server, query, app.app_id)
        assert_error(await join(app, token, EVE), 401, "TOKEN_EXPIRED")
        assert await states(app) == ["expired"]
        # It can be sent again.
        assert (await join(app, await invited(app), EVE)).status_code == 201

    async def test_who_was_not_invited_stays_out_and_closed_is_closed(self, app: App):
        await settings(app, sign_up="invited", methods={"email_code": True})
        refused = await post(app, "/signup", {"login_id": "eve", "password": PASSWORD})
        assert (
            assert_error(refused, 403, "SIGN_UP_CLOSED")["message"] == "Only who was invited can sign up for this app."
        )
        assert_error(await post(app, "", None), 403, "SIGN_UP_CLOSED")
        assert (await post(app, "/email-sign-in", {"email": "ada@example.com"})).status_code == 202
        token = await invited(app)
        await settings(app, sign_up_methods=["social"])
        assert_error(await join(app, token), 403, "SIGN_UP_CLOSED")
        await settings(app, sign_up="closed", sign_up_methods=["password"])
        assert_error(await join(app, token), 403, "SIGN_UP_CLOSED")
        assert [mail["purpose"] for mail in (await call(app, "GET", "/mail"))["data"]] == ["invitation"]
        await settings(app, sign_up="open")
        assert (await join(app, token)).status_code == 201

    async def test_a_guest_and_the_rows_of_a_member(self, app: App):
        for title, schema in (("profiles", PROFILES), ("spaces", SPACES)):
            await app.table(schema, title=title)
        guest = (await post(app, "", None)).json()
        await settings(app, sign_up="invited", on_sign_up=ON_SIGN_UP)
        token = await invited(app, roles=["author"])
        assert_error(await join(app, token, bearer=guest["access_token"]), 400, "VALIDATION_FAILED")
        made = await join(app, token, bearer=guest["access_token"], profile={"username": "eve"})
        assert (made.status_code, made.json()["member_id"]) == (201, guest["member_id"])
        own = await account(app, made.json()["access_token"])
        assert (own["is_guest"], own["email"], own["roles"]) == (False, EVE, ["author"])
        assert [row["data"]["member"] for row in await rows(app, "profiles")] == [guest["member_id"]]

    async def test_a_deleted_team_is_left_out(self, app: App):
        team = await team_of(app)
        token = await invited(app, roles=["author"], team_id=team, team_roles=["editor"])
        async with _side(app) as side:
            await side.delete(f"/teams/{team}")
        assert (await post(app, "/invitations/read", {"token": token})).json()["team"] is None
        made = (await join(app, token)).json()
        assert (await account(app, made["access_token"]))["roles"] == ["author"]

    async def test_a_team_is_deleted_while_somebody_accepts(self, app: App):
        """Whoever accepts waits for the team before it locks the invitation, which the deletion changes."""
        team = await team_of(app)
        token = await invited(app, roles=["author"], team_id=team)
        connection = await asyncpg.connect(**address(app.server.data_dir))
        try:
            async with connection.transaction():
                # Less than PostgreSQL takes to find that two wait for each other, after which the other begins again.
                await connection.execute("set local lock_timeout = '500ms'")
                await connection.execute("select from pilotis.teams where team_id = $1 for no key update", UUID(team))
                joining = asyncio.create_task(join(app, token))
                waiting = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')"
                await until(lambda: connection.fetchval(waiting))
                await connection.execute("delete from pilotis.teams where team_id = $1", UUID(team))
        finally:
            await connection.close()
        made = await joining
        assert made.status_code == 201, made.text
        assert (await account(app, made.json()["access_token"]))["roles"] == ["author"]


class TestOtherProofs:
    async def test_a_mailed_code_admits_who_was_invited(self, app: App):
        await settings(app, sign_up="invited", methods={"email_code": True})
        team = await team_of(app)
        token = await invited(app, roles=["author"], team_id=team)
        ticket = (await post(app, "/email-sign-in", {"email": "eve@example.com"})).json()["ticket"]
        (mail,) = await mails(app, 1, purpose="sign_in")
        made = await post(app, "/email-sign-in/confirm", {"ticket": ticket, "code": mail["code"]})
        assert made.status_code == 201, made.text
        own = await account(app, made.json()["access_token"])
        assert (own["email"], own["roles"]) == ("eve@example.com", ["author"])
        async with app.client(made.json()["access_token"]) as client:
            assert [one["team_id"] for one in (await client.get(f"{MEMBERS}/teams")).json()["teams"]] == [team]
        assert await states(app) == ["accepted"]
        assert_error(await join(app, token), 401, "TOKEN_EXPIRED")

    @pytest.mark.parametrize("form", ["any", "email"])
    async def test_the_link_and_a_code_at_once_make_one_member(self, app: App, form: str):
        await settings(app, sign_up="invited", login_id_form=form, methods={"email_code": True})
        for number in range(4):
            email = f"m{number}@example.com"
            token = await invited(app, email, roles=["author"])
            ticket = (await post(app, "/email-sign-in", {"email": email})).json()["ticket"]
            code = (await mails(app, number + 1, purpose="sign_in"))[0]["code"]
            by_link, by_code = await asyncio.gather(
                join(app, token, email), post(app, "/email-sign-in/confirm", {"ticket": ticket, "code": code})
            )
            # Whichever comes first makes it; the code signs it in afterwards, too.
            assert (by_link.status_code, by_code.status_code) in {(201, 200), (401, 201)}
            own = await account(app, by_code.json()["access_token"])
            assert (own["email"], own["roles"]) == (email, ["author"])
        assert (await call(app, "GET", "/members"))["total_count"] == 4

    async def test_a_code_that_was_mailed_before_the_revocation_admits_nobody(self, app: App):
        await settings(app, sign_up="invited", methods={"email_code": True})
        made = await invite(app)
        ticket = (await post(app, "/email-sign-in", {"email": EVE})).json()["ticket"]
        (mail,) = await mails(app, 1, purpose="sign_in")
        async with _side(app) as side:
            await side.delete(f"{INVITATIONS}/{made['invitation_id']}")
        refused = await post(app, "/email-sign-in/confirm", {"ticket": ticket, "code": mail["code"]})
        assert_error(refused, 403, "SIGN_UP_CLOSED")

    @pytest.mark.parametrize("verification", ["optional", "off"])
    async def test_an_address_that_a_vendor_has_verified_admits(self, app: App, vendor: Vendors, verification: str):
        await enable(app, vendor)
        await settings(app, sign_up="invited", email_verification=verification)
        vendor.person = Person(subject="1", email="eve@example.com", is_verified=False)
        await invite(app, roles=["author"])
        assert_error(await press(app, vendor), 403, "SIGN_UP_CLOSED")
        vendor.person = Person(subject="2", email="else@example.com")
        assert_error(await press(app, vendor), 403, "SIGN_UP_CLOSED")
        vendor.person = Person(subject="1", email="eve@example.com")
        made = await press(app, vendor)
        assert made.status_code == 201, made.text
        own = await account(app, made.json()["access_token"])
        assert (own["email"], own["roles"]) == (None if verification == "off" else "eve@example.com", ["author"])
        assert await states(app) == ["accepted"]
        # Its member signs in as ever.
        assert (await press(app, vendor)).status_code == 200

    async def test_a_member_that_verifies_the_address_gets_what_it_promises(self, app: App):
        await invite(app, roles=["author"])
        eve = await member_with_pending(app)
        assert (await account(app, eve["access_token"]))["roles"] == ["author"]
        assert await states(app) == ["accepted"]


async def member_with_pending(app: App) -> dict[str, Any]:
    member = await sign_up(app, "eve", "eve@example.com")
    (mail,) = await mails(app, 1, purpose="verify_email")
    answer = await post(app, "/me/email/confirm", {"code": mail["code"]}, member["access_token"])
    assert answer.status_code == 200, answer.text
    return member


class TestClaims:
    """A01 with an invitation: whoever made an account for the address before keeps nothing of it."""

    async def test_an_account_that_never_proved_the_address_is_claimed(self, app: App):
        await settings(app, login_id_form="email")
        squatter = await sign_up(app, "eve@example.com")
        token = await invited(app, roles=["author"])
        answer = await post(
            app, "/signup", {"login_id": "EVE@example.com", "password": NEW_PASSWORD, "invitation": token}
        )
        assert answer.status_code == 201, answer.text
        made = answer.json()
        own = await account(app, made["access_token"])
        assert (own["login_id"], own["email"], own["roles"]) == ("eve@example.com", EVE, ["author"])
        # The earlier holder has no session, no password, and no mailed proof.
        async with app.client(squatter["access_token"]) as client:
            assert_error(await client.get(f"{MEMBERS}/me"), 401, "INVALID_TOKEN")
        assert_error(await sign_in(app, "eve@example.com", PASSWORD), 401, "INVALID_CREDENTIALS")
        assert (await sign_in(app, "eve@example.com", NEW_PASSWORD)).json()["member_id"] == made["member_id"]
        proof = next(mail for mail in await mails(app, 2) if mail["purpose"] == "verify_email")
        body = {"token": token_of(proof), "password": PASSWORD}
        assert_error(await post(app, "/email-verification", body), 401, "TOKEN_EXPIRED")
        assert await states(app) == ["accepted"]

    async def test_a_login_id_that_looks_like_the_address_stays_its_holders(self, app: App):
        squatter = await sign_up(app, "eve@example.com")
        token = await invited(app, "eve@example.com", roles=["author"])
        assert_error(await join(app, token, "eve@example.com"), 409, "LOGIN_ID_TAKEN")
        made = (await join(app, token, "eve")).json()
        assert made["member_id"] != squatter["member_id"]
        assert (await account(app, squatter["access_token"]))["roles"] == []
        assert (await account(app, made["access_token"]))["email"] == "eve@example.com"

    async def test_a_pending_claim_of_the_address_ends(self, app: App):
        squatter = await sign_up(app, "mallory", "eve@example.com")
        (proof,) = await mails(app, 1, purpose="verify_email")
        made = await join(app, await invited(app))
        assert made.status_code == 201
        late = await post(app, "/me/email/confirm", {"code": proof["code"]}, squatter["access_token"])
        assert late.status_code == 401
        assert (await account(app, squatter["access_token"]))["email"] is None
