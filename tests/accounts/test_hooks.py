"""Functions of the app decide on sign-ups and sign-ins, and send its mails; what fails is closed."""

from typing import Any

from tests.accounts.authenticator import code, enrolled, finish
from tests.accounts.test_imports import bcrypt_hash, imported
from tests.console import owner_of
from tests.functions.support import Functions
from tests.mail.world import MEMBERS, PASSWORD, account, call, mails, post, sign_in, sign_up, verified
from tests.support import App, assert_error
from tests.waiting import until

SIGN_UP = """
export default (asked) => {
  const address = asked.email ?? asked.login_id ?? "";
  if (address.includes("evil")) return { reject: { message: "Members only." } };
  if (address.includes("slow")) return new Promise(() => setTimeout(() => {}, 1e9));
  if (address.includes("huge")) return { custom_data: { text: "x".repeat(7e6) } };
  if (address.includes("wrong")) return { is_admin: true };
  if (address.includes("throws")) throw new Error("no");
  return { roles: ["checked"], claims: { method: asked.method }, custom_data: asked, nickname: "From the hook" };
};
"""
SIGN_IN = """
export default (asked) => asked.nickname === "Banned" ? { reject: { message: "Not today." } } : {};
"""
SEND = "export default async (mail, ctx) => { await ctx.api.rows('outbox').create(mail); };"


async def bind(app: App, **hooks: Any) -> dict[str, Any]:
    return await call(app, "PATCH", "/account-settings", json={"hooks": hooks})


async def custom_data(app: App, token: str) -> dict[str, Any]:
    return (await account(app, token))["custom_data"]


class TestSignUp:
    async def test_a_hook_gives_and_rejects_by_every_way_in(self, app: App, functions: Functions):
        await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
        await bind(app, before_sign_up=await functions.made("hook", SIGN_UP))
        member = await sign_up(app, "ada", language="fr")
        assert member["nickname"] == "From the hook"
        own = await account(app, member["access_token"])
        assert (own["roles"], own["claims"], own["nickname"]) == (["checked"], {"method": "password"}, "From the hook")
        seen = own["custom_data"]
        assert set(seen) == {"login_id", "email", "nickname", "method", "language", "address"}
        assert (seen["login_id"], seen["language"], PASSWORD in str(seen)) == ("ada", "fr", False)
        refused = await post(app, "/signup", {"login_id": "evil", "password": PASSWORD})
        assert assert_error(refused, 403, "REJECTED_BY_HOOK")["message"] == "Members only."
        async with app.client() as client:
            guest = (await client.post(MEMBERS)).json()
        promoted = await post(app, "/signup", {"login_id": "gus", "password": PASSWORD}, guest["access_token"])
        assert (await account(app, promoted.json()["access_token"]))["roles"] == ["checked"]
        for address, status in (("evil@example.com", 403), ("eve@example.com", 201), ("eve@example.com", 200)):
            asked = (await post(app, "/email-sign-in", {"email": address})).json()
            found = await mails_of(app, address)
            answer = await post(app, "/email-sign-in/confirm", {"ticket": asked["ticket"], "code": found})
            assert answer.status_code == status, answer.text
        assert (await account(app, answer.json()["access_token"]))["claims"] == {"method": "email_code"}
        # The app's own side is not asked.
        assert (await imported(app, {"login_id": "evil-import"}))["created"] == 1

    async def test_a17_a_hook_that_fails_is_closed_and_others_go_on(
        self, app: App, other_app: App, functions: Functions
    ):
        await bind(app, before_sign_up=await functions.made("hook", SIGN_UP))
        for login_id in ("throws", "wrong", "huge"):
            answer = await post(app, "/signup", {"login_id": login_id, "password": PASSWORD})
            assert_error(answer, 503, "HOOK_FAILED")
        slow = post(app, "/signup", {"login_id": "slow", "password": PASSWORD})
        assert_error(await slow, 503, "HOOK_FAILED")
        assert (await sign_up(other_app, "slow"))["member_id"]
        assert (await call(app, "GET", "/members"))["total_count"] == 0

    async def test_only_a_function_of_the_app_is_bound_and_stays(self, app: App, other_app: App, functions: Functions):
        hook = await functions.made("hook", SIGN_UP)
        async with owner_of(other_app).client(other_app) as client:
            answer = await client.patch("/account-settings", json={"hooks": {"before_sign_up": hook}})
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["code"] == "NO_SUCH_FUNCTION"
        settings = await bind(app, before_sign_in=hook)
        bound = {"before_sign_up": None, "before_sign_in": hook, "send_mail": None, "verify_challenge": None}
        assert settings["hooks"] == bound
        async with app.client() as client:
            assert "hooks" not in (await client.get("/v1/public/account-settings")).json()
        async with owner_of(app).client(app) as client:
            assert_error(await client.delete(f"/functions/{hook}"), 409, "USED_AS_HOOK")
            assert (await bind(app, before_sign_in=None))["hooks"]["before_sign_in"] is None
            assert (await client.delete(f"/functions/{hook}")).status_code == 200


class TestSignIn:
    async def test_every_way_in_asks_once_and_a_factor_does_not_ask_again(self, app: App, functions: Functions):
        settings = {"second_factor": "optional", "methods": {"email_code": True}}
        await call(app, "PATCH", "/account-settings", json=settings)
        ada = await verified(app, "ada", "ada@example.com")
        secret, _ = await enrolled(app, ada["access_token"])
        await sign_up(app, "ban", nickname="Banned")
        await imported(app, {"login_id": "old", "nickname": "Banned", "password_hash": bcrypt_hash()})
        await bind(app, before_sign_in=await functions.made("hook", SIGN_IN))
        for login_id in ("ban", "old"):
            answer = await sign_in(app, login_id, PASSWORD)
            assert assert_error(answer, 403, "REJECTED_BY_HOOK")["message"] == "Not today."
        assert_error(await sign_in(app, "ban", "wrong password"), 401, "INVALID_CREDENTIALS")
        ticket = assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")["ticket"]
        assert (await finish(app, ticket, totp=code(secret, 1))).status_code == 200
        await call(app, "PATCH", f"/members/{ada['member_id']}", json={"nickname": "Banned"})
        asked = (await post(app, "/email-sign-in", {"email": "ada@example.com"})).json()
        body = {"ticket": asked["ticket"], "code": await mails_of(app, "ada@example.com")}
        assert_error(await post(app, "/email-sign-in/confirm", body), 403, "REJECTED_BY_HOOK")
        # The proof was not used up.
        await call(app, "PATCH", f"/members/{ada['member_id']}", json={"nickname": "Ada"})
        assert_error(await post(app, "/email-sign-in/confirm", body), 401, "SECOND_FACTOR_REQUIRED")


async def test_a_function_sends_the_mails(app: App, functions: Functions):
    table = await app.table({}, title="outbox")
    hook = await functions.made("sender", SEND, scopes=["rows:write"])
    await bind(app, send_mail=hook)
    member = await sign_up(app, "ada", "ada@example.com")
    (mail,) = await mails(app, 1, state="sent")
    assert (mail["text"], mail["reply"]) == (None, "The function has taken the mail.")
    async with app.client(member["access_token"]) as client:
        (row,) = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
        sent = row["data"]
        assert (sent["to"], sent["purpose"], sent["subject"]) == ("ada@example.com", "verify_email", mail["subject"])
        body = {"code": sent["code"]}
        assert (await client.post(f"{MEMBERS}/me/email/confirm", json=body)).status_code == 200


async def mails_of(app: App, address: str) -> str:
    """The code of the newest mail that signs an address in, which was not read before."""
    seen = _SEEN.setdefault(app.app_id, set())

    async def look() -> str | None:
        for one in (await call(app, "GET", "/mail", params={"purpose": "sign_in"}))["data"]:
            if one["recipient"] == address and one["mail_id"] not in seen:
                seen.add(one["mail_id"])
                return (await call(app, "GET", f"/mail/{one['mail_id']}"))["code"]
        return None

    return await until(look)


_SEEN: dict[str, set[str]] = {}
