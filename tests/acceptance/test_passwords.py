"""Passwords that are changed, set for a user, or forgotten, and accounts that members delete."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.backstage import bearer, me, run_sql
from tests.conftest import PASSWORD
from tests.console import ConsoleUser, client_of, database_of, owner_of, second_node, set_limits, the_log, user_with
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until

MEMBERS = "/v1/public/app-members"
OLD, NEW = "correct horse", "battery staple"


async def sign_in(app: App, login_id: str, password: str) -> httpx.Response:
    async with app.client() as client:
        return await client.post(f"{MEMBERS}/signin", json={"login_id": login_id, "password": password})


async def change(app: App, token: str, current: str, new: str) -> httpx.Response:
    async with app.client(token) as client:
        body = {"current_password": current, "new_password": new}
        return await client.patch(f"{MEMBERS}/me/password", json=body)


async def delete_account(app: App, token: str, body: Any = None) -> httpx.Response:
    async with app.client(token) as client:
        return await client.request("DELETE", f"{MEMBERS}/me", json=body)


async def refresh(server: Server, token: str) -> httpx.Response:
    async with plain_client(server.url) as client:
        return await client.post("/v1/auth/re-issue", headers=bearer(token))


async def console_sign_in(server: Server, email: str, password: str) -> httpx.Response:
    async with plain_client(server.url) as client:
        return await client.post("/v1/auth/signin", json={"email": email, "password": password})


class TestAMembersOwnPassword:
    async def test_the_new_one_holds_at_once_and_the_other_sessions_end(self, app: App):
        here = await app.member("ada", OLD)
        there = (await sign_in(app, "ada", OLD)).json()
        answer = await change(app, here["access_token"], OLD, NEW)
        assert (answer.status_code, answer.json()) == (200, {"message": "Password changed."})
        assert_error(await sign_in(app, "ada", OLD), 401, "INVALID_CREDENTIALS")
        assert (await sign_in(app, "ada", NEW)).status_code == 200
        assert_error(await me(app.server, there["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await refresh(app.server, there["refresh_token"]), 401, "INVALID_TOKEN")
        assert (await me(app.server, here["access_token"])).status_code == 200
        assert (await refresh(app.server, here["refresh_token"])).status_code == 200

    async def test_a_wrong_one_changes_nothing(self, app: App):
        here = await app.member("ada", OLD)
        there = (await sign_in(app, "ada", OLD)).json()
        assert_error(await change(app, here["access_token"], "wrong horse", NEW), 403, "WRONG_PASSWORD")
        assert (await sign_in(app, "ada", OLD)).status_code == 200
        assert (await me(app.server, there["access_token"])).status_code == 200

    @pytest.mark.parametrize(
        "body",
        [
            {"new_password": NEW},
            {"current_password": OLD},
            {"current_password": OLD, "new_password": "short"},
            {"current_password": OLD, "new_password": "x" * 257},
            {"current_password": None, "new_password": NEW},
            {"current_password": OLD, "new_password": NEW, "member_id": "x"},
        ],
    )
    async def test_bad_input_is_400(self, app: App, body: dict[str, Any]):
        member = await app.member("ada", OLD)
        async with app.client(member["access_token"]) as client:
            assert_error(await client.patch(f"{MEMBERS}/me/password", json=body), 400, "VALIDATION_FAILED")
        assert (await sign_in(app, "ada", OLD)).status_code == 200

    async def test_a_guest_has_none(self, app: App):
        guest = await app.guest()
        assert_error(await change(app, guest["access_token"], OLD, NEW), 409, "NO_PASSWORD")

    async def test_who_stole_a_token_cannot_try_passwords_without_end(self, app: App):
        await set_limits(app, signin_per_minute=3)
        member = await app.member("ada", OLD)
        token = member["access_token"]
        tried = await asyncio.gather(*(change(app, token, f"wrong horse {n}", NEW) for n in range(6)))
        assert sorted(answer.status_code for answer in tried) == [403, 403, 403, 429, 429, 429]
        # Not even the right one, and not by another route, until the wait is over.
        limited = await change(app, token, OLD, NEW)
        assert_error(limited, 429, "RATE_LIMITED")
        assert int(limited.headers["retry-after"]) > 0
        assert_error(await delete_account(app, token, {"password": OLD}), 429, "RATE_LIMITED")
        # The member itself can still sign in.
        assert (await sign_in(app, "ada", OLD)).status_code == 200

    async def test_of_two_changes_at_once_one_holds(self, app: App):
        member = await app.member("ada", OLD)
        token = member["access_token"]
        answers = await asyncio.gather(*(change(app, token, OLD, f"new password {n}") for n in range(4)))
        done = [n for n, answer in enumerate(answers) if answer.status_code == 200]
        assert len(done) == 1
        assert (await sign_in(app, "ada", f"new password {done[0]}")).status_code == 200

    async def test_a_sign_in_with_the_old_one_does_not_slip_in_behind(self, app: App):
        """One that compared the old password before the change, and would begin its session after it."""
        member = await app.member("ada", OLD)
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%with account as%'"
        )
        async with database_of(app.server) as connection:
            async with connection.transaction():
                await connection.execute(
                    "update pilotis.members set password_hash = 'another' where member_id = $1", member["member_id"]
                )
                trying = asyncio.create_task(sign_in(app, "ada", OLD))

                async def waits() -> bool:
                    return bool(await run_sql(app.server, waiting))

                await until(waits)
            assert_error(await trying, 401, "INVALID_CREDENTIALS")
            sessions = "select count(*) from pilotis.sessions where subject = $1"
            assert await connection.fetchval(sessions, member["member_id"]) == 1


class TestAMembersOwnAccount:
    async def test_a_member_changes_its_nickname_and_takes_it_away(self, app: App):
        member = await app.member()
        async with app.client(member["access_token"]) as client:
            answer = await client.patch(f"{MEMBERS}/me", json={"nickname": "Countess"})
            assert (answer.status_code, answer.json()["nickname"]) == (200, "Countess")
            assert (await client.get(f"{MEMBERS}/me")).json()["nickname"] == "Countess"
            assert (await client.patch(f"{MEMBERS}/me", json={"nickname": None})).json()["nickname"] is None
            for body in ({}, {"nickname": ""}, {"nickname": "x" * 101}, {"nickname": 5}, {"is_active": False}):
                assert_error(await client.patch(f"{MEMBERS}/me", json=body), 400, "VALIDATION_FAILED")

    async def test_a_guest_has_a_nickname_too(self, app: App):
        guest = await app.guest()
        async with app.client(guest["access_token"]) as client:
            assert (await client.patch(f"{MEMBERS}/me", json={"nickname": "Passer-by"})).status_code == 200

    async def test_a_deleted_account_is_gone_at_once_and_its_rows_stay(self, app: App):
        table = await app.table({"text": "string"}, access_level="Creator")
        here = await app.member("ada", OLD)
        there = (await sign_in(app, "ada", OLD)).json()
        await app.row(table, {"text": "mine"}, here["access_token"])
        answer = await delete_account(app, here["access_token"], {"password": OLD})
        deleted = {"message": "Account deleted.", "id": here["member_id"], "deletes_at": None}
        assert (answer.status_code, answer.json()) == (200, deleted)
        for tokens in (here, there):
            assert_error(await me(app.server, tokens["access_token"]), 401, "INVALID_TOKEN")
            assert_error(await refresh(app.server, tokens["refresh_token"]), 401, "INVALID_TOKEN")
        assert_error(await sign_in(app, "ada", OLD), 401, "INVALID_CREDENTIALS")
        entries = await the_log(app, action="member.delete")
        assert [(entry["actor_kind"], entry["actor_id"]) for entry in entries] == [("member", here["member_id"])]
        # The name is free again, and the rows are not the newcomer's.
        again = await app.member("ada", NEW)
        async with app.client(again["access_token"]) as client, app.client(app.secret_key) as secret:
            assert (await client.get(f"/v1/public/tables/{table}/data")).json()["total_count"] == 0
            assert (await secret.get(f"/v1/public/tables/{table}/data")).json()["total_count"] == 1

    async def test_it_takes_the_password(self, app: App):
        member = await app.member("ada", OLD)
        for body in (None, {}, {"password": None}, {"password": "wrong horse"}):
            assert_error(await delete_account(app, member["access_token"], body), 403, "WRONG_PASSWORD")
        assert (await sign_in(app, "ada", OLD)).status_code == 200

    async def test_a_guest_just_goes(self, app: App):
        guest = await app.guest()
        assert (await delete_account(app, guest["access_token"])).status_code == 200
        assert_error(await me(app.server, guest["access_token"]), 401, "INVALID_TOKEN")

    async def test_of_two_deletions_at_once_one_is_done(self, app: App):
        member = await app.member("ada", OLD)
        body = {"password": OLD}
        answers = await asyncio.gather(*(delete_account(app, member["access_token"], body) for _ in range(4)))
        assert min(answer.status_code for answer in answers) == 200
        assert sum(answer.status_code == 200 for answer in answers) == 1
        assert len(await the_log(app, action="member.delete")) == 1

    async def test_another_apps_member_is_left_alone(self, app: App, other_app: App):
        mine, theirs = await app.member("ada", OLD), await other_app.member("ada", OLD)
        async with app.client(theirs["access_token"]) as client:
            await client.request("DELETE", f"{MEMBERS}/me", json={"password": OLD})
        assert (await me(app.server, mine["access_token"])).status_code == 200


class TestAPasswordThatAConsoleUserSets:
    async def test_the_member_signs_in_with_it_and_is_signed_out_elsewhere(self, app: App):
        member = await app.member("ada", OLD)
        async with owner_of(app).client(app) as console:
            answer = await console.put(f"/members/{member['member_id']}/password", json={"password": NEW})
        assert answer.status_code == 200
        assert answer.json()["sessions"] == 1
        assert_error(await me(app.server, member["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await refresh(app.server, member["refresh_token"]), 401, "INVALID_TOKEN")
        assert_error(await sign_in(app, "ada", OLD), 401, "INVALID_CREDENTIALS")
        assert (await sign_in(app, "ada", NEW)).status_code == 200
        (entry,) = await the_log(app, action="member.set_password")
        assert (entry["target"], entry["details"]) == (member["member_id"], {"sessions": 1})

    async def test_who_may_and_what_is_refused(self, app: App, other_app: App):
        member, guest, theirs = await app.member("ada", OLD), await app.guest(), await other_app.member("ada", OLD)
        viewer, editor = await user_with(app, "viewer"), await user_with(app, "editor")
        path, body = f"/members/{member['member_id']}/password", {"password": NEW}
        async with viewer.client(app) as console:
            assert_error(await console.put(path, json=body), 403, "ROLE_REQUIRED")
        async with editor.client(app) as console:
            assert_error(await console.put(path, json={"password": "short"}), 400, "VALIDATION_FAILED")
            for member_id in (theirs["member_id"], "x", "guest_x"):
                answer = await console.put(f"/members/{member_id}/password", json=body)
                assert_error(answer, 404, "MEMBER_NOT_FOUND")
            guests = await console.put(f"/members/{guest['member_id']}/password", json=body)
            assert_error(guests, 409, "NO_PASSWORD")
            assert (await console.put(path, json=body)).status_code == 200


class TestAConsoleUsersOwnPassword:
    async def put(self, user: ConsoleUser, current: str, new: str) -> httpx.Response:
        async with user.client() as console:
            body = {"current_password": current, "new_password": new}
            return await console.put("/auth/me/password", json=body)

    async def test_the_new_one_holds_and_the_other_sessions_end(self, app: App):
        user = await user_with(app, "viewer")
        there = (await console_sign_in(app.server, user.email, PASSWORD)).json()
        answer = await self.put(user, PASSWORD, NEW)
        assert (answer.status_code, answer.json()["email"]) == (200, user.email)
        assert_error(await console_sign_in(app.server, user.email, PASSWORD), 401, "INVALID_CREDENTIALS")
        assert (await console_sign_in(app.server, user.email, NEW)).status_code == 200
        assert_error(await refresh(app.server, there["refresh_token"]), 401, "INVALID_TOKEN")
        async with user.client() as console:
            assert (await console.get("/auth/me")).status_code == 200
            log = (await console.get("/auth/audit-log", params={"action": "user.change_password"})).json()
        assert [entry["details"] for entry in log["data"]] == [{"sessions": 1}]

    async def test_a_wrong_or_bad_one_changes_nothing(self, app: App):
        user = await user_with(app, "viewer")
        assert_error(await self.put(user, "wrong horse", NEW), 403, "WRONG_PASSWORD")
        assert_error(await self.put(user, PASSWORD, "short"), 400, "VALIDATION_FAILED")
        assert (await console_sign_in(app.server, user.email, PASSWORD)).status_code == 200

    async def test_tries_are_limited(self, app: App):
        user = await user_with(app, "viewer")
        tried = [await self.put(user, f"wrong horse {n}", NEW) for n in range(11)]
        assert [answer.status_code for answer in tried] == [403] * 10 + [429]
        assert_error(await self.put(user, PASSWORD, NEW), 429, "RATE_LIMITED")


class TestAForgottenPassword:
    async def link(self, user: ConsoleUser) -> str:
        async with second_node(user.server, listening=False) as node:
            return (await node.services.users.new_reset_token(user.email)).token

    async def reset(self, server: Server, token: str, password: str = NEW) -> httpx.Response:
        async with plain_client(server.url) as client:
            return await client.post("/v1/auth/password-reset", json={"token": token, "password": password})

    async def test_the_link_sets_a_new_one_once_and_ends_every_session(self, app: App):
        user = await user_with(app, "editor")
        token = await self.link(user)
        answer = await self.reset(app.server, token)
        assert answer.status_code == 200
        assert set(answer.json()) == {"user_id", "email", "access_token", "refresh_token"}
        async with user.client() as console:
            assert_error(await console.get("/auth/me"), 401, "INVALID_TOKEN")
        assert (await console_sign_in(app.server, user.email, NEW)).status_code == 200
        assert_error(await console_sign_in(app.server, user.email, PASSWORD), 401, "INVALID_CREDENTIALS")
        assert_error(await self.reset(app.server, token, PASSWORD), 403, "INVALID_RESET_LINK")

    async def test_of_many_who_open_it_at_once_one_has_it(self, app: App):
        token = await self.link(await user_with(app, "editor"))
        answers = await asyncio.gather(*(self.reset(app.server, token, f"{NEW} {n}") for n in range(5)))
        assert sorted(answer.status_code for answer in answers) == [200, 403, 403, 403, 403]

    async def test_a_newer_link_a_changed_password_and_time_make_it_useless(self, app: App):
        user = await user_with(app, "editor")
        first, second = await self.link(user), await self.link(user)
        assert_error(await self.reset(app.server, first), 403, "INVALID_RESET_LINK")
        assert (await TestAConsoleUsersOwnPassword().put(user, PASSWORD, PASSWORD + "!")).status_code == 200
        assert_error(await self.reset(app.server, second), 403, "INVALID_RESET_LINK")
        third = await self.link(user)
        late = "update pilotis.single_use set expires_at = now() where subject = $1"
        await run_sql(app.server, late, str(user.user_id))
        assert_error(await self.reset(app.server, third), 403, "INVALID_RESET_LINK")
        assert (await console_sign_in(app.server, user.email, PASSWORD + "!")).status_code == 200

    async def test_bad_input_uses_nothing_up(self, app: App):
        token = await self.link(await user_with(app, "editor"))
        assert_error(await self.reset(app.server, token, "short"), 400, "VALIDATION_FAILED")
        for wrong in ("", "x", "a" * 43, "a\0b", app.server.setup_token):
            answer = await self.reset(app.server, wrong)
            assert answer.status_code in {400, 403}, answer.text
        assert (await self.reset(app.server, token)).status_code == 200

    async def test_it_takes_back_the_wait_of_those_who_tried_before(self, app: App):
        user = await user_with(app, "editor")
        for n in range(11):
            answer = await console_sign_in(app.server, user.email, f"wrong horse {n}")
        assert answer.status_code == 429
        assert (await self.reset(app.server, await self.link(user))).status_code == 200
        assert (await console_sign_in(app.server, user.email, NEW)).status_code == 200

    async def test_the_token_is_stored_as_a_hash_only(self, app: App):
        token = await self.link(await user_with(app, "editor"))
        stored = "select count(*) from pilotis.single_use r where r::text like $1"
        assert await run_sql(app.server, stored, f"%{token.encode().hex()}%") == 0
        assert await run_sql(app.server, stored, f"%{token}%") == 0

    async def test_another_origin_may_not_send_it(self, server: Server):
        async with plain_client(server.url) as client:
            asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
            answer = await client.request("OPTIONS", "/v1/auth/password-reset", headers=asked)
        assert answer.headers["access-control-allow-origin"] == server.url

    async def test_the_page_is_there(self, server: Server):
        async with plain_client(server.url) as client:
            answer = await client.get("/setup/reset")
        assert answer.status_code == 200


async def test_a_node_that_hears_of_nothing_refuses_ended_sessions_too(app: App):
    member = await app.member("ada", OLD)
    there = (await sign_in(app, "ada", OLD)).json()
    async with second_node(app.server, listening=False) as node, client_of(node) as client:
        headers = bearer(there["access_token"])
        assert (await client.get(f"{MEMBERS}/me", headers=headers)).status_code == 200
        assert (await change(app, member["access_token"], OLD, NEW)).status_code == 200
        assert (await client.get(f"{MEMBERS}/me", headers=headers)).status_code == 401
