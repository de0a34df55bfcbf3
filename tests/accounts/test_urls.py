"""Links of mails lead to the app's own pages, of listed origins alone."""

from typing import Any

import pytest

from tests.console import owner_of
from tests.mail.world import call, mails, post, sign_up, token_of, verified
from tests.support import App, assert_error

CLUB = "https://club.example"
URLS = {
    "verify": f"{CLUB}/verify?from=mail",
    "reset": f"{CLUB}/reset",
    "sign_in": f"{CLUB}/come-in",
    "invite": f"{CLUB}/teams",
}


async def allow(app: App, *pages: str) -> None:
    await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": pages})


async def choose(app: App, **urls: str | None) -> dict[str, Any]:
    return (await call(app, "PATCH", "/account-settings", json={"urls": urls}))["urls"]


async def newest(app: App, number: int) -> dict[str, Any]:
    return (await mails(app, number))[0]


async def test_every_link_leads_to_the_page_of_the_app_and_its_token_works(app: App, other_app: App):
    await allow(app, f"{CLUB}/signed-in")
    await call(app, "PATCH", "/account-settings", json={"methods": {"email_link": True}})
    assert await choose(app, **URLS) == URLS
    ada = await verified(app, "ada", "ada@example.com")
    verify = await newest(app, 1)
    assert verify["link"].partition("#")[0] == URLS["verify"]
    await post(app, "/password-reset", {"email": "ada@example.com"})
    reset = await newest(app, 2)
    assert reset["link"].partition("#")[0] == URLS["reset"]
    assert URLS["reset"] in reset["text"]
    body = {"token": token_of(reset), "password": "battery staple"}
    assert (await post(app, "/password-reset/confirm", body)).status_code == 200
    ticket = (await post(app, "/email-sign-in", {"email": "ada@example.com"})).json()["ticket"]
    assert ticket
    entrance = await newest(app, 3)
    assert entrance["link"].partition("#")[0] == URLS["sign_in"]
    entered = await post(app, "/email-sign-in/confirm", {"token": token_of(entrance)})
    assert entered.json()["member_id"] == ada["member_id"]
    await call(app, "PUT", "/team-settings", json={"members_create": True})
    token = entered.json()["access_token"]
    team = await post(app, "/teams", {"name": "Crew"}, token)
    assert team.status_code == 201, team.text
    invited = await post(app, f"/teams/{team.json()['team_id']}/invitations", {"email": "bob@example.com"}, token)
    assert invited.status_code == 201, invited.text
    invitation = await newest(app, 4)
    assert invitation["link"].partition("#")[0] == URLS["invite"]
    # A page that the request names goes before, and another app's mails are not concerned.
    await post(app, "/email-sign-in", {"email": "ada@example.com", "redirect_uri": f"{CLUB}/signed-in"})
    assert (await newest(app, 5))["link"].startswith(f"{CLUB}/signed-in#")
    await sign_up(other_app, "ada", "ada@example.com")
    assert (await newest(other_app, 1))["link"].startswith(f"{app.server.url}/account/{other_app.app_id}/verify#")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/verify",
        "https://club.example.evil.example/verify",
        "https://club.example@evil.example/verify",
        "https://club.example:8443/verify",
        "http://club.example/verify",
        "https://CLUB.example\\@evil.example/",
        "//club.example/verify",
        "/verify",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://club.example/verify#token",
        "https://club.example/\r\nBcc: eve@example.com",
        "https://*.club.example/",
    ],
)
async def test_a08_nothing_outside_the_list(app: App, url: str):
    await allow(app, f"{CLUB}/signed-in")
    async with owner_of(app).client(app) as client:
        answer = await client.patch("/account-settings", json={"urls": {"reset": f"{CLUB}/reset", "verify": url}})
    assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == "urls.verify"
    assert set((await call(app, "GET", "/account-settings"))["urls"].values()) == {None}


async def test_a08_an_origin_that_leaves_the_list_is_used_no_more(app: App):
    await allow(app, f"{CLUB}/signed-in")
    await choose(app, **URLS)
    await allow(app, "https://other.example/signed-in")
    async with app.client(Host="evil.example") as client:
        await client.post(
            "/v1/public/app-members/signup",
            json={"login_id": "ada", "password": "correct horse", "email": "ada@example.com"},
        )
    mail = await newest(app, 1)
    assert mail["link"].startswith(f"{app.server.url}/account/{app.app_id}/verify#")
    assert await choose(app, verify=None, reset=None) == URLS | {"verify": None, "reset": None}
