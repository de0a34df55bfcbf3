"""Members of an app, their mails in the mailbox, and what they do with them."""

from typing import Any

import httpx

from tests.console import owner_of
from tests.support import App
from tests.waiting import until

MEMBERS = "/v1/public/app-members"
PASSWORD = "correct horse"
NEW_PASSWORD = "battery staple"


async def post(app: App, path: str, body: Any, token: str | None = None, **headers: str) -> httpx.Response:
    async with app.client(token, **headers) as client:
        return await client.post(f"{MEMBERS}{path}", json=body)


async def sign_up(app: App, login_id: str, email: str | None = None, **more: Any) -> dict[str, Any]:
    body = {"login_id": login_id, "password": PASSWORD, **({"email": email} if email else {}), **more}
    answer = await post(app, "/signup", body)
    assert answer.status_code == 201, answer.text
    assert set(answer.json()) == {"member_id", "nickname", "access_token", "refresh_token"}
    return answer.json()


async def call(app: App, method: str, path: str, **options: Any) -> Any:
    """Call a console route of the app as its owner."""
    async with owner_of(app).client(app) as client:
        answer = await client.request(method, path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def mails(app: App, number: int, **query: Any) -> list[dict[str, Any]]:
    """Wait until the app has so many mails, and return them whole, newest first."""

    async def look() -> list[dict[str, Any]] | None:
        found = (await call(app, "GET", "/mail", params=query))["data"]
        return found if len(found) >= number else None

    found = await until(look)
    assert len(found) == number
    return [await call(app, "GET", f"/mail/{one['mail_id']}") for one in found]


def token_of(mail: dict[str, Any]) -> str:
    return mail["link"].partition("#")[2]


async def verified(app: App, login_id: str, email: str) -> dict[str, Any]:
    """A member with a verified address, and no other mail in the app's mailbox."""
    member = await sign_up(app, login_id, email)
    (mail, *_) = await mails(app, 1)
    answer = await post(app, "/me/email/confirm", {"code": mail["code"]}, member["access_token"])
    assert answer.status_code == 200, answer.text
    return member


async def account(app: App, token: str) -> dict[str, Any]:
    async with app.client(token) as client:
        return (await client.get(f"{MEMBERS}/me/account")).json()


async def sign_in(app: App, login_id: str, password: str) -> httpx.Response:
    return await post(app, "/signin", {"login_id": login_id, "password": password})
