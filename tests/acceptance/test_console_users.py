"""Console users: their sign-ins are in an audit log, and they can be deactivated and activated again."""

import asyncio
from typing import Any

import httpx

from tests.backstage import bearer
from tests.conftest import PASSWORD, new_app
from tests.console import ConsoleUser, invite, owner_of, sign_up, the_log, user_with
from tests.support import App, Server, assert_error, plain_client


async def sign_in(server: Server, email: str, password: str = PASSWORD) -> httpx.Response:
    async with plain_client(server.url) as client:
        return await client.post("/v1/auth/signin", json={"email": email, "password": password})


async def set_active(by: ConsoleUser, user: ConsoleUser, is_active: bool) -> httpx.Response:
    async with by.client() as console:
        return await console.patch(f"/users/{user.user_id}", json={"is_active": is_active})


async def own_log(user: ConsoleUser, **query: str) -> list[dict[str, Any]]:
    async with user.client() as console:
        answer = await console.get("/auth/audit-log", params={"limit": "1000", **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


class TestSignInsAreAudited:
    async def test_success_and_failure_with_their_address(self, app: App):
        user = await user_with(app, "viewer")
        good = await sign_in(app.server, user.email.upper())
        assert good.status_code == 200
        bad = await sign_in(app.server, user.email, "wrong horse")
        assert_error(bad, 401, "INVALID_CREDENTIALS")
        failed, done = await own_log(user, action="user")
        assert (done["action"], done["actor_kind"], done["actor_id"]) == ("user.sign_in", "console_user", user.user_id)
        assert done["details"] == {"address": "127.0.0.1"}
        assert done["request_id"] == good.headers["x-request-id"]
        assert (failed["action"], failed["actor_kind"], failed["actor_id"]) == (
            "user.sign_in_failed",
            "anonymous",
            None,
        )
        assert failed["target"] == user.user_id
        assert failed["details"] == {"email": user.email, "address": "127.0.0.1", "reason": "wrong credentials"}
        assert failed["request_id"] == bad.headers["x-request-id"]

    async def test_a_sign_in_of_a_deactivated_user_is_a_failure(self, app: App):
        user = await user_with(app, "viewer")
        assert (await set_active(owner_of(app), user, False)).status_code == 200
        assert_error(await sign_in(app.server, user.email), 403, "USER_INACTIVE")
        assert (await set_active(owner_of(app), user, True)).status_code == 200
        actions = [(entry["action"], entry["details"].get("reason")) for entry in await own_log(user)]
        assert actions == [
            ("user.activate", None),
            ("user.sign_in_failed", "deactivated"),
            ("user.deactivate", None),
        ]

    async def test_an_unknown_address_is_recorded_without_an_account(self, app: App):
        user = await user_with(app, "viewer")
        email = f"nobody-{app.app_id}@example.com"
        assert_error(await sign_in(app.server, email, "my secret"), 401, "INVALID_CREDENTIALS")
        # No user's own log contains it, and no log contains the password.
        assert all(email not in str(entry) for entry in await own_log(user))
        assert "my secret" not in str(await own_log(owner_of(app)))

    async def test_the_log_is_the_users_own(self, app: App):
        one, other = await user_with(app, "editor"), await user_with(app, "owner")
        await sign_in(app.server, one.email)
        assert len(await own_log(one, action="user.sign_in")) == 1
        assert await own_log(other, action="user.sign_in", actor=one.user_id) == []
        assert await the_log(app, action="user.sign_in") == []


class TestDeactivation:
    async def test_it_holds_at_once_and_is_taken_back(self, app: App):
        user = await user_with(app, "editor")
        async with user.client(app) as console:
            key = (await console.post("/keys/secret", json={"name": "mine"})).json()["key"]
        signed_in = (await sign_in(app.server, user.email)).json()
        table = await app.table({}, access_level="Creator")
        rows = f"/v1/public/tables/{table}/data"

        async def seen() -> list[int]:
            async with user.client() as console, app.client(key) as with_key, plain_client(app.server.url) as plain:
                return [
                    (await console.get("/auth/me")).status_code,
                    (await console.get("/apps")).status_code,
                    (await with_key.get(rows)).status_code,
                    (await plain.post("/v1/auth/signin", json={"email": user.email, "password": PASSWORD})).status_code,
                ]

        assert await seen() == [200, 200, 200, 200]
        answer = await set_active(owner_of(app), user, False)
        assert (answer.status_code, answer.json()["is_active"]) == (200, False)
        assert await seen() == [403, 403, 401, 403]
        async with plain_client(app.server.url) as client:
            refused = await client.post("/v1/auth/re-issue", headers=bearer(signed_in["refresh_token"]))
            assert_error(refused, 403, "USER_INACTIVE")
        assert (await set_active(owner_of(app), user, True)).json()["is_active"] is True
        assert await seen() == [200, 200, 200, 200]
        entries = await the_log(app, action="user")
        assert [entry["action"] for entry in entries] == ["user.activate", "user.deactivate"]
        assert {entry["target"] for entry in entries} == {user.user_id}

    async def test_the_last_owner_is_protected(self, app: App):
        owner = await self.owner_of_own_app(app)
        other = await user_with(app, "owner")
        own_app = new_app(app.server, {"access_token": owner.access_token})
        assert_error(await set_active(owner, owner, False), 409, "LAST_OWNER")
        assert own_app.app_id
        assert (await set_active(other, owner, False)).status_code == 403
        async with owner.client() as console:
            assert (await console.get("/auth/me")).status_code == 200

    async def owner_of_own_app(self, app: App) -> ConsoleUser:
        return await user_with(app, "owner")

    async def test_owners_who_deactivate_each_other_leave_one(self, app: App):
        """The console user of the tests is an owner too, and steps down first."""
        one, other = await user_with(app, "owner"), await user_with(app, "owner")
        async with one.client(app) as console:
            answer = await console.patch(f"/users/{app.console['user_id']}", json={"role": "viewer"})
            assert answer.status_code == 200, answer.text
        answers = await asyncio.gather(set_active(one, other, False), set_active(other, one, False))
        assert sum(answer.status_code == 200 for answer in answers) == 1, [answer.text for answer in answers]
        # The remaining owner can neither leave nor give up the role.
        left = one if answers[0].status_code == 200 else other
        assert_error(await set_active(left, left, False), 409, "LAST_OWNER")
        async with left.client(app) as console:
            changed = await console.patch(f"/users/{left.user_id}", json={"role": "editor"})
            assert_error(changed, 409, "LAST_OWNER")

    async def test_deactivating_one_owner_and_demoting_the_other_at_once_leaves_one(self, app: App):
        one, other = await user_with(app, "owner"), await user_with(app, "owner")
        async with one.client(app) as console:
            await console.patch(f"/users/{app.console['user_id']}", json={"role": "viewer"})

        async def step_down() -> int:
            async with other.client(app) as console:
                return (await console.patch(f"/users/{other.user_id}", json={"role": "viewer"})).status_code

        async def deactivate() -> int:
            return (await set_active(other, one, False)).status_code

        statuses = await asyncio.gather(step_down(), deactivate())
        assert statuses.count(200) == 1, statuses

    async def test_it_takes_an_owner_of_all_the_users_apps(self, app: App, other_app: App):
        owner, editor, user = (
            await user_with(app, "owner"),
            await user_with(app, "editor"),
            await user_with(app, "viewer"),
        )
        assert_error(await set_active(editor, user, False), 403, "ROLE_REQUIRED")
        assert (await set_active(owner, user, False)).status_code == 200
        assert_error(await set_active(editor, user, True), 403, "ROLE_REQUIRED")
        assert (await set_active(owner, user, True)).status_code == 200
        # In another app, the user also has colleagues.
        invitation = await invite(other_app, "viewer", user.email)
        async with user.client() as console:
            accepted = await console.post("/invitations/accept", json={"token": invitation["token"]})
            assert accepted.status_code == 200
        assert_error(await set_active(owner, user, False), 403, "ROLE_REQUIRED")

    async def test_strangers_do_not_see_each_other(self, app: App, other_app: App):
        user, stranger = await user_with(app, "viewer"), await user_with(other_app, "owner")
        assert_error(await set_active(stranger, user, False), 404, "USER_NOT_FOUND")
        nobody = ConsoleUser(app.server, app.app_id, "", "")
        assert_error(await set_active(stranger, nobody, False), 404, "USER_NOT_FOUND")

    async def test_everybody_may_leave_but_not_come_back_by_themselves(self, app: App):
        user = await user_with(app, "editor")
        assert (await set_active(user, user, False)).status_code == 200
        assert_error(await set_active(user, user, True), 403, "USER_INACTIVE")

    async def test_bad_input_is_400(self, app: App):
        user = await user_with(app, "viewer")
        async with owner_of(app).client() as console:
            for body in ({}, {"is_active": None}, {"is_active": "no"}, {"is_active": False, "email": "x@example.com"}):
                answer = await console.patch(f"/users/{user.user_id}", json=body)
                assert_error(answer, 400, "VALIDATION_FAILED")

    async def test_a_deactivated_users_address_is_taken(self, app: App):
        user = await user_with(app, "viewer")
        assert (await set_active(user, user, False)).status_code == 200
        invitation = await invite(new_app(app.server, app.console), "viewer", user.email)
        assert_error(await sign_up(app.server, user.email, invitation["token"]), 409, "EMAIL_TAKEN")


async def test_a_user_sees_where_its_sessions_began_and_ends_one(app: App):
    user = await user_with(app, "viewer")
    credentials = {"email": user.email, "password": PASSWORD}
    async with plain_client(app.server.url, **{"User-Agent": "Mozilla/5.0 (Other)"}) as other:
        signed_in = (await other.post("/v1/auth/signin", json=credentials)).json()
        async with user.client() as console:
            listed = (await console.get("/auth/sessions")).json()["sessions"]
            assert [one["is_current"] for one in listed] == [False, True]
            assert listed[0]["user_agent"] == "Mozilla/5.0 (Other)"
            assert {one["address"] for one in listed} == {"127.0.0.1"}
            ended = await console.delete(f"/auth/sessions/{listed[0]['session_id']}")
            assert ended.json() == {"message": "Session ended.", "id": listed[0]["session_id"]}
            async with owner_of(app).client() as stranger:
                refused = await stranger.delete(f"/auth/sessions/{listed[1]['session_id']}")
                assert_error(refused, 404, "SESSION_NOT_FOUND")
            assert len((await console.get("/auth/sessions")).json()["sessions"]) == 1
        headers = {"Authorization": f"Bearer {signed_in['access_token']}"}
        assert (await other.get("/v1/auth/me", headers=headers)).status_code == 401


async def test_preferences_are_kept_for_each_user_and_bounded(app: App):
    one, other = await user_with(app, "viewer"), await user_with(app, "viewer")
    new = {"preferences": {"language": "ko", "filters": [{"price": 1.50}]}}
    async with one.client() as mine, other.client() as theirs:
        assert (await mine.put("/auth/me/preferences", json=new)).json() == new
        assert (await mine.get("/auth/me/preferences")).json() == new
        assert (await theirs.get("/auth/me/preferences")).json() == {"preferences": {}}
        large = {"preferences": {"text": "x" * 16 * 1024}}
        assert_error(await mine.put("/auth/me/preferences", json=large), 413, "PAYLOAD_TOO_LARGE")
        assert (await mine.put("/auth/me/preferences", json={"preferences": []})).status_code == 400
        assert (await mine.get("/auth/me/preferences")).json() == new
