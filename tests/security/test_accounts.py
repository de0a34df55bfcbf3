"""Attacks on accounts as a whole; those on one feature are named by their numbers in its tests."""

from typing import Any

import pytest

from tests.accounts.authenticator import enrolled
from tests.accounts.test_challenges import puzzle, solution
from tests.accounts.test_gate import settings
from tests.backstage import run_sql
from tests.console import client_of, second_node
from tests.mail.conftest import app, authority, mail_console, mail_server, other_app
from tests.mail.world import MEMBERS, NEW_PASSWORD, PASSWORD, account, call, mails, post, sign_up, verified
from tests.support import App, assert_error

__all__ = ["app", "authority", "mail_console", "mail_server", "other_app"]

HOSTILE = "<b>win</b> {{link}} {{app.name}} https://evil.example/free"
WANTED = {"roles": ["admin"], "claims": {"plan": "pro"}, "email_verified": True, "is_active": True, "is_guest": False}


async def test_a08_no_header_of_a_request_leads_a_mail_elsewhere(app: App):
    """Links are of the server's own address, whatever a client or a proxy says that it is."""
    evil = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
    evil |= {"Origin": "https://evil.example", "Referer": "https://evil.example/reset"}
    await settings(app, methods={"email_code": True, "email_link": True})
    ada = await verified(app, "ada", "ada@example.com")
    async with app.client(ada["access_token"]) as client:
        for path, body in (
            ("/password-reset", {"email": "ada@example.com"}),
            ("/email-sign-in", {"email": "ada@example.com"}),
            ("/me/email", {"email": "ada@example.org"}),
        ):
            answer = await client.post(f"{MEMBERS}{path}", json=body, headers=evil)
            assert answer.status_code == 202, answer.text
        refused = {"email": "ada@example.com", "redirect_uri": "https://evil.example/", "code_challenge": "x" * 43}
        assert_error(await client.post(f"{MEMBERS}/email-sign-in", json=refused), 400, "VALIDATION_FAILED")
    found = await mails(app, 4)
    assert all(mail["link"].startswith(f"{app.server.url}/account/{app.app_id}/") for mail in found)
    assert not any("evil.example" in f"{mail['subject']} {mail['text']} {mail['html']}" for mail in found)


async def test_a10_words_of_strangers_reach_nobody_by_mail(app: App):
    """Neither a nickname nor a team's name becomes a link, markup or a placeholder, whoever gets the mail."""
    await settings(app, methods={"email_code": True, "email_link": True})
    eve = await sign_up(app, "eve", "victim@example.com", nickname=HOSTILE)
    await call(app, "PUT", "/team-settings", json={"members_create": True})
    async with app.client(eve["access_token"]) as client:
        team = await client.post(f"{MEMBERS}/teams", json={"name": HOSTILE[:50]})
        assert team.status_code == 201, team.text
        invitation = {"email": "other@example.com"}
        path = f"{MEMBERS}/teams/{team.json()['team_id']}/invitations"
        assert (await client.post(path, json=invitation)).status_code == 201
    ada = await verified_with(app, "ada@example.com")
    await post(app, "/password-reset", {"email": "ada@example.com"})
    await post(app, "/email-sign-in", {"email": "ada@example.com"})
    for mail in await mails(app, 5):
        whole = f"{mail['subject']} {mail['text']} {mail['html'] or ''}"
        assert "evil.example/" not in whole, mail["purpose"]
        assert "<b>win" not in whole, mail["purpose"]
        assert "{{" not in whole, mail["purpose"]
    assert (await account(app, ada["access_token"]))["nickname"] == HOSTILE


async def verified_with(app: App, email: str) -> dict[str, Any]:
    """A member with a hostile nickname and a verified address, in an app that has mails already."""
    await mails(app, 2)
    member = await sign_up(app, "ada", email, nickname=HOSTILE)
    newest = (await mails(app, 3))[0]
    assert (await post(app, "/me/email/confirm", {"code": newest["code"]}, member["access_token"])).status_code == 200
    return member


WRITING = [
    ("POST", "/signup", {"login_id": "eve", "password": PASSWORD}),
    ("PATCH", "/me", {"nickname": "Eve"}),
    ("PATCH", "/me/custom-data", {"custom_data": {}}),
    ("PATCH", "/me/password", {"current_password": PASSWORD, "new_password": PASSWORD + "!"}),
    ("PUT", "/me/password", {"password": PASSWORD}),
    ("POST", "/me/email", {"email": "new@example.com"}),
    ("POST", "/me/email/confirm", {"code": "000000"}),
    ("POST", "/me/reauthenticate", {"password": PASSWORD}),
    ("POST", "/signin", {"login_id": "ada", "password": PASSWORD}),
    ("POST", "/email-sign-in/confirm", {"ticket": "x", "code": "000000"}),
    ("POST", "/second-factor", {"ticket": "x", "totp": "000000"}),
    ("POST", "/passkey-sign-in", {"ticket": "x", "credential": {}}),
    ("POST", "/teams", {"name": "Owls"}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITING, ids=lambda value: str(value)[:40])
async def test_a14_a_member_says_nothing_of_its_own_rights(app: App, method: str, path: str, body: dict[str, Any]):
    """Roles, claims and what is verified come from the app's side, by whatever body a member sends them."""
    ada = await verified(app, "ada", "ada@example.com")
    before = await account(app, ada["access_token"])
    token = None if path in {"/signup", "/signin"} or "confirm" in path else ada["access_token"]
    async with app.client(token if path != "/me/email/confirm" else ada["access_token"]) as client:
        for name, value in WANTED.items():
            answer = await client.request(method, f"{MEMBERS}{path}", json={**body, name: value})
            assert_error(answer, 400, "VALIDATION_FAILED")
            assert answer.json()["details"][0]["field"] == name
        nested = {"custom_data": {"roles": ["admin"], "claims": {"plan": "pro"}, "email": "root@example.com"}}
        if path == "/me/custom-data":
            assert (await client.patch(f"{MEMBERS}/me/custom-data", json=nested)).status_code == 200
    after = await account(app, ada["access_token"])
    assert (after["roles"], after["claims"], after["email"]) == (before["roles"], before["claims"], before["email"])
    async with app.client(ada["access_token"]) as client:
        own = f"/v1/apps/{app.app_id}/members/{ada['member_id']}"
        assert (await client.patch(own, json={"roles": ["admin"]})).status_code == 401


async def test_a15_what_is_taken_away_is_gone_on_the_next_request_of_every_node(app: App):
    """A role, a team, a session: the other node has just used each of them."""
    ada = await sign_up(app, "ada")
    await call(app, "PATCH", f"/members/{ada['member_id']}", json={"roles": ["staff"]})
    async with app.client(ada["access_token"]) as client:
        await call(app, "PUT", "/team-settings", json={"members_create": True})
        team = (await client.post(f"{MEMBERS}/teams", json={"name": "Owls"})).json()["team_id"]
    table = await app.table({"text": {"type": "string"}})
    by_role = {"$member": {"roles": {"$arrayContains": "staff"}}}
    by_team = {"$member": {"teams": {"$arrayContains": team}}}
    rules = {"rules": {"create": by_role, "list": by_team, "read": by_team}}
    await call(app, "PUT", f"/tables/{table}/rules", json=rules)
    rows = f"/v1/public/tables/{table}/data"
    headers = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {ada['access_token']}"}
    async with (
        second_node(app.server) as node,
        client_of(node, **headers) as there,
        app.client(ada["access_token"]) as here,
    ):
        for client in (here, there):
            assert (await client.post(rows, json={"data": {"text": "mine"}})).status_code == 201
            answer = await client.get(rows)
            assert answer.status_code == 200, answer.text
        await call(app, "PATCH", f"/members/{ada['member_id']}", json={"roles": []})
        for client in (there, here):
            assert_error(await client.post(rows, json={"data": {"text": "mine"}}), 403, "RULE_DENIED")
        await call(app, "DELETE", f"/teams/{team}")
        for client in (there, here):
            assert_error(await client.get(rows), 403, "RULE_DENIED")
        await call(app, "POST", f"/members/{ada['member_id']}/sign-out-everywhere")
        for client in (there, here):
            assert_error(await client.get(rows), 401, "INVALID_TOKEN")


async def later(app: App) -> None:
    """The minute is over within which sign-ins from here are counted."""
    await run_sql(app.server, "delete from pilotis.rate_limits where key like 'signin:%' returning key")


async def guessed(app: App, login_id: str) -> None:
    """A hundred wrong passwords for a login_id, two from here and the others from as many addresses."""
    for _ in range(2):
        wrong = {"login_id": login_id, "password": PASSWORD + "x"}
        assert_error(await post(app, "/signin", wrong), 401, "INVALID_CREDENTIALS")
    more = "update pilotis.rate_limits set hits = hits + 98 where key = $1 returning hits"
    assert await run_sql(app.server, more, f"signin-failures:{app.app_id}:{login_id}") == 100


async def test_a16_the_members_own_device_needs_no_puzzle_and_no_other_one_does(app: App, other_app: App):
    ada, right = await sign_up(app, "ada"), {"login_id": "ada", "password": PASSWORD}
    eve = {"login_id": "eve", "password": PASSWORD}
    await sign_up(app, "eve")
    await sign_up(other_app, "ada")
    own = {"X-Device-Token": (await post(app, "/signin", right)).headers["x-device-token"]}
    others = [(await post(app, "/signin", eve)).headers["x-device-token"]]
    others.append((await post(other_app, "/signin", right)).headers["x-device-token"])
    await guessed(app, "ada")
    assert_error(await post(app, "/signin", right), 403, "CHALLENGE_REQUIRED")
    text = own["X-Device-Token"]
    changed = text[:20] + ("A" if text[20] != "A" else "B") + text[21:]
    for wrong in (*others, "x", changed, text[:-1], f"{text}=", text * 2):
        refused = await post(app, "/signin", right, **{"X-Device-Token": wrong})
        assert_error(refused, 403, "CHALLENGE_REQUIRED")
    await later(app)
    assert (await post(app, "/signin", right, **own)).json()["member_id"] == ada["member_id"]
    # A device that several members use sends five at most.
    shared = {"X-Device-Token": ", ".join([*others, "x", others[0], text])}
    assert (await post(app, "/signin", right, **shared)).json()["member_id"] == ada["member_id"]
    sixth = {"X-Device-Token": ",".join([*others, "x", "y", "z", text])}
    assert_error(await post(app, "/signin", right, **sixth), 403, "CHALLENGE_REQUIRED")
    # A stolen one guesses ten times an hour, and none of another password.
    wrong_password = {**right, "password": PASSWORD + "x"}
    answers = [(await post(app, "/signin", wrong_password, **own)).status_code for _ in range(6)]
    assert answers == [401] * 6
    await later(app)
    await run_sql(app.server, "update pilotis.rate_limits set hits = 10 where key like 'device:%' returning hits")
    assert_error(await post(app, "/signin", right, **own), 403, "CHALLENGE_REQUIRED")
    await run_sql(app.server, "update pilotis.rate_limits set hits = 0 where key like 'device:%' returning hits")
    change = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    async with app.client(ada["access_token"]) as client:
        assert (await client.patch(f"{MEMBERS}/me/password", json=change)).status_code == 200
    assert_error(await post(app, "/signin", {**right, "password": NEW_PASSWORD}, **own), 403, "CHALLENGE_REQUIRED")


async def test_a16_a_device_of_a_member_with_a_second_factor_is_known_too(app: App):
    await settings(app, second_factor="optional")
    ada, right = await sign_up(app, "ada"), {"login_id": "ada", "password": PASSWORD}
    await enrolled(app, ada["access_token"])
    own = {"X-Device-Token": (await post(app, "/signin", right)).headers["x-device-token"]}
    await guessed(app, "ada")
    assert_error(await post(app, "/signin", right), 403, "CHALLENGE_REQUIRED")
    assert_error(await post(app, "/signin", right, **own), 401, "SECOND_FACTOR_REQUIRED")


@pytest.mark.parametrize("login_id", ["ada", "nobody"])
async def test_a16_a_hundred_wrong_passwords_from_anywhere_cost_a_puzzle_each_and_lock_nobody_out(
    app: App, other_app: App, login_id: str
):
    """The member signs in with a solved challenge, or by a code, as before; who is unknown is told the same."""
    await settings(app, methods={"email_code": True})
    await verified(app, "ada", "ada@example.com")
    wrong = {"login_id": login_id, "password": PASSWORD + "x"}
    for _ in range(2):
        assert_error(await post(app, "/signin", wrong), 401, "INVALID_CREDENTIALS")
    # Ninety-eight others, from as many addresses.
    more = "update pilotis.rate_limits set hits = hits + 98 where key = $1 returning hits"
    hits = await run_sql(app.server, more, f"signin-failures:{app.app_id}:{login_id}")
    assert hits == 100
    for password in (PASSWORD, PASSWORD + "x"):
        given = {"login_id": login_id, "password": password}
        assert_error(await post(app, "/signin", given), 403, "CHALLENGE_REQUIRED")
    solved = {"X-Challenge-Token": solution(await puzzle(app))}
    assert_error(await post(app, "/signin", wrong, **solved), 401, "INVALID_CREDENTIALS")
    right = {"login_id": "ada", "password": PASSWORD}
    if login_id == "ada":
        # A solution works once.
        assert_error(await post(app, "/signin", right, **solved), 403, "CHALLENGE_REQUIRED")
    solved = {"X-Challenge-Token": solution(await puzzle(app))}
    assert (await post(app, "/signin", right, **solved)).status_code == 200
    asked = (await post(app, "/email-sign-in", {"email": "ada@example.com"})).json()
    (mail,) = await mails(app, 1, purpose="sign_in")
    by_code = await post(app, "/email-sign-in/confirm", {"ticket": asked["ticket"], "code": mail["code"]})
    assert by_code.status_code == 200
    # Another app's member of this name is another one.
    await sign_up(other_app, "ada")
    assert (await post(other_app, "/signin", right)).status_code == 200
