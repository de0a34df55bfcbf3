"""Console: inviting console users to an app."""

import asyncio
from datetime import datetime, timedelta

import httpx
import pytest

from tests.console import ConsoleUser, database_of, invite, owner_of, sign_up, the_log, user_with
from tests.support import App, assert_error


async def accept(user: ConsoleUser, token: object) -> httpx.Response:
    async with user.client() as client:
        return await client.post("/invitations/accept", json={"token": token})


async def test_an_invitation_shows_its_token_once(app: App):
    made = await invite(app, "editor", "Grace@Example.com")
    assert set(made) == {"invitation_id", "email", "role", "expires_at", "token", "link"}
    assert (made["email"], made["role"]) == ("grace@example.com", "editor")
    assert made["link"] == f"{app.server.url}/setup#{made['token']}"
    async with owner_of(app).client(app) as console:
        answer = await console.get("/invitations")
        log = await console.get("/audit-log")
    assert made["token"] not in answer.text + log.text + app.server.logs()
    (listed,) = answer.json()["data"]
    assert set(listed) == {"invitation_id", "email", "role", "invited_by", "created_at", "expires_at"}
    assert (listed["invited_by"], listed["role"]) == (app.console["email"], "editor")
    lifetime = datetime.fromisoformat(listed["expires_at"]) - datetime.fromisoformat(listed["created_at"])
    assert lifetime == timedelta(days=7)


async def test_a_new_user_signs_up_with_an_invitation(app: App):
    made = await invite(app, "editor")
    answer = await sign_up(app.server, made["email"].upper(), made["token"])
    assert answer.status_code == 201
    user = ConsoleUser(app.server, answer.json()["user_id"], made["email"], answer.json()["access_token"])
    async with user.client(app) as console:
        assert (await console.get("")).json()["role"] == "editor"
    async with owner_of(app).client(app) as console:
        assert (await console.get("/invitations")).json()["total_count"] == 0
    assert_error(await sign_up(app.server, "other@example.com", made["token"]), 403, "INVALID_INVITATION")
    entry = (await the_log(app, action="invitation.accept"))[0]
    assert (entry["actor_id"], entry["actor_email"], entry["target"]) == (
        user.user_id,
        made["email"],
        made["invitation_id"],
    )


async def test_a_user_with_an_account_accepts_an_invitation(app: App, other_app: App):
    user = await user_with(other_app, "owner")
    made = await invite(app, "viewer", user.email)
    assert_error(await sign_up(app.server, user.email, made["token"]), 409, "EMAIL_TAKEN")
    answer = await accept(user, made["token"])
    assert answer.status_code == 200
    assert answer.json() == {"app_id": app.app_id, "role": "viewer"}
    async with user.client(app) as console:
        assert (await console.get("")).json()["role"] == "viewer"
    assert_error(await accept(user, made["token"]), 403, "INVALID_INVITATION")


async def test_an_invitation_is_for_one_address(app: App, other_app: App):
    thief = await user_with(other_app, "owner")
    made = await invite(app, "owner")
    assert_error(await accept(thief, made["token"]), 403, "INVALID_INVITATION")
    assert_error(await sign_up(app.server, "thief@example.com", made["token"]), 403, "INVALID_INVITATION")
    assert (await sign_up(app.server, made["email"], made["token"])).status_code == 201


async def test_sign_up_without_an_invitation_tells_nothing_of_an_address(app: App):
    for email in (app.console["email"], "nobody@example.com"):
        assert_error(await sign_up(app.server, email, "x" * 43), 403, "INVALID_INVITATION")


async def test_an_expired_invitation_is_useless(app: App, other_app: App):
    user = await user_with(other_app, "owner")
    old, new = await invite(app, "viewer", user.email), await invite(app, "viewer")
    async with database_of(app.server) as database:
        await database.execute("update pilotis.invitations set expires_at = now() where app_id = $1", app.app_id)
    assert_error(await accept(user, old["token"]), 403, "INVALID_INVITATION")
    assert_error(await sign_up(app.server, new["email"], new["token"]), 403, "INVALID_INVITATION")
    async with owner_of(app).client(app) as console:
        assert (await console.get("/invitations")).json()["total_count"] == 0
    again = await invite(app, "viewer", user.email)
    assert (await accept(user, again["token"])).status_code == 200


async def test_a_revoked_invitation_is_useless(app: App):
    made = await invite(app, "viewer")
    async with owner_of(app).client(app) as console:
        path = f"/invitations/{made['invitation_id']}"
        answer = await console.delete(path)
        assert answer.status_code == 200
        assert answer.json()["id"] == made["invitation_id"]
        assert_error(await console.delete(path), 404, "INVITATION_NOT_FOUND")
    assert_error(await sign_up(app.server, made["email"], made["token"]), 403, "INVALID_INVITATION")


async def test_a_second_invitation_replaces_the_first(app: App):
    first = await invite(app, "owner")
    second = await invite(app, "viewer", first["email"])
    async with owner_of(app).client(app) as console:
        listed = (await console.get("/invitations")).json()["data"]
    assert [(item["invitation_id"], item["role"]) for item in listed] == [(second["invitation_id"], "viewer")]
    assert_error(await sign_up(app.server, first["email"], first["token"]), 403, "INVALID_INVITATION")
    assert (await sign_up(app.server, first["email"], second["token"])).status_code == 201


async def test_who_is_on_the_app_is_not_invited_again(app: App, other_app: App):
    editor = await user_with(app, "editor")
    async with owner_of(app).client(app) as console:
        answer = await console.post("/invitations", json={"email": editor.email, "role": "owner"})
        assert_error(answer, 409, "ALREADY_ON_APP")
    assert (await invite(other_app, "viewer", editor.email))["email"] == editor.email


async def test_an_invitation_never_takes_from_a_role(app: App, other_app: App):
    user = await user_with(other_app, "owner")
    made = await invite(app, "viewer", user.email)
    async with database_of(app.server) as database:
        await database.execute(
            "insert into pilotis.app_users (app_id, user_id, role) values ($1, $2, 'owner')", app.app_id, user.user_id
        )
    assert_error(await accept(user, made["token"]), 409, "ALREADY_ON_APP")
    async with user.client(app) as console:
        assert (await console.get("")).json()["role"] == "owner"


async def test_an_invitation_to_a_deleted_app_is_useless(app: App):
    made = await invite(app, "viewer")
    async with owner_of(app).client(app) as console:
        await console.delete("")
        assert_error(await sign_up(app.server, made["email"], made["token"]), 403, "INVALID_INVITATION")
        await console.post("/restore")
    assert (await sign_up(app.server, made["email"], made["token"])).status_code == 201


async def test_of_twenty_parallel_sign_ups_one_succeeds(app: App):
    made = await invite(app, "editor")
    answers = await asyncio.gather(*(sign_up(app.server, made["email"], made["token"]) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [403] * 19
    async with owner_of(app).client(app) as console:
        assert (await console.get("/users")).json()["total_count"] == 2


async def test_of_twenty_parallel_acceptances_one_succeeds(app: App, other_app: App):
    user = await user_with(other_app, "viewer")
    made = await invite(app, "editor", user.email)
    answers = await asyncio.gather(*(accept(user, made["token"]) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [403] * 19
    assert len(await the_log(app, action="invitation.accept")) == 1


async def test_parallel_invitations_of_one_address_leave_one(app: App):
    async with owner_of(app).client(app) as console:
        body = {"email": "many@example.com", "role": "viewer"}
        answers = await asyncio.gather(*(console.post("/invitations", json=body) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {201}
        (left,) = (await console.get("/invitations")).json()["data"]
    tokens = {answer.json()["invitation_id"]: answer.json()["token"] for answer in answers}
    signed_up = [(await sign_up(app.server, body["email"], token)).status_code for token in tokens.values()]
    assert sorted(signed_up) == [201] + [403] * 19
    assert left["invitation_id"] in tokens


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"email": "a@example.com"},
        {"email": "a@example.com", "role": "admin"},
        {"email": "no address", "role": "viewer"},
        {"email": "a@example.com\r\nBcc: b@example.com", "role": "viewer"},
        {"email": {"$ne": None}, "role": "viewer"},
        {"email": "a@example.com", "role": "viewer", "token": "mine"},
    ],
)
async def test_a_bad_invitation_is_refused(app: App, body: dict):
    async with owner_of(app).client(app) as console:
        assert_error(await console.post("/invitations", json=body), 400, "VALIDATION_FAILED")


@pytest.mark.parametrize("token", [None, {"$ne": None}, ["x"], 1, "x" * 201])
async def test_a_bad_token_is_refused(app: App, token: object):
    assert_error(await accept(owner_of(app), token), 400, "VALIDATION_FAILED")


async def test_the_first_run_link_is_no_invitation(app: App):
    assert_error(await accept(owner_of(app), app.server.setup_token), 403, "INVALID_INVITATION")
