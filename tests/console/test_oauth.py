"""The sign-in provider in the console: clients, scopes, social login, settings."""

import json
import re

from joserfc.jwk import ECKey
from playwright.async_api import expect

from tests.backstage import run_sql
from tests.chromium import keep_picture
from tests.conftest import PASSWORD
from tests.console.conftest import Opening, obstacles, sign_in
from tests.mail.world import call
from tests.oauth.test_logos import picture
from tests.support import App, Server, plain_client


async def test_an_app_becomes_a_provider_with_a_scope_and_a_client(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/oauth")
        await page.get_by_role("button", name="Become a provider").click()
        await page.get_by_role("link", name="Scopes").click()
        await page.get_by_role("button", name="New scope").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("orders:read")
        await dialog.get_by_label("Title").fill("Read your <b>orders</b>")
        await expect(dialog.locator(".consentline")).to_contain_text("Read your <b>orders</b>")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("row").filter(has_text="orders:read")).to_contain_text("<b>orders</b>")

        await page.get_by_role("link", name="Clients").click()
        await page.get_by_role("button", name="New client").click()
        await dialog.get_by_label("Name").fill("Shop")
        await dialog.get_by_label("Redirect addresses").fill("https://shop.example/callback")
        await dialog.get_by_label("orders:read").check()
        await dialog.get_by_label("ID tokens have the profile").check()
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="New client").click()
        shown = page.get_by_role("dialog", name="Shop is ready")
        await expect(shown.locator(".secret code")).to_have_count(2)
        client_id, secret = await shown.locator(".secret code").all_inner_texts()
        await shown.get_by_role("button", name="I have saved it").click()
        await expect(page.get_by_role("row").filter(has_text="Shop")).to_contain_text("orders:read")
        await page.get_by_role("button", name="Edit Shop").click()
        await expect(dialog.get_by_label("ID tokens have the profile")).to_be_checked()
        await dialog.get_by_role("button", name="Cancel").click()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-oauth")
    async with plain_client(server.url) as client:
        refused = await client.post("/oauth/introspect", data={"token": "x"}, auth=(client_id, f"{secret}x"))
        taken = await client.post("/oauth/par", data={"redirect_uri": "https://x.example"}, auth=(client_id, secret))
    assert refused.json()["error"] == "invalid_client"
    assert taken.json()["error"] != "invalid_client"


async def test_a_vendor_of_social_login_is_entered_and_switched_off(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank") as page:
        # It is found where one looks for it, and says what the vendor wants to know first.
        await sign_in(page, server, f"/apps/{app.app_id}/settings/sign-in")
        await page.get_by_role("link", name="Providers").click()
        await page.get_by_role("button", name="New provider").click()
        dialog = page.get_by_role("dialog")
        told = f"{server.url}/v1/public/oauth/google/callback"
        await expect(dialog.locator(".secret code")).to_have_text(told)
        await dialog.get_by_role("textbox", name="Client id", exact=True).fill("id-from-vendor")
        await dialog.get_by_label("Client secret").fill("secret-from-vendor")
        await dialog.get_by_label("Client ids of your phones").fill("ios-id\nandroid-id")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Save").click()
        vendor = page.get_by_role("row").filter(has_text="Google")
        await expect(vendor).to_be_visible()
        (kept,) = (await call(app, "GET", "/oauth/social"))["data"]
        assert kept["client_ids"] == ["ios-id", "android-id"]
        await expect(vendor).to_contain_text(told)
        async with page.expect_response(lambda answer: answer.request.method == "PUT") as saved:
            await vendor.get_by_role("checkbox").click()
        assert (await saved.value).ok
        await page.reload()
        await expect(vendor.get_by_role("checkbox")).not_to_be_checked()
        assert "secret-from-vendor" not in await page.content()
        assert await obstacles(page, axe) == []


async def test_a_client_gets_a_key_and_a_logo_and_is_switched_off(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    jwk = ECKey.generate_key("P-256").as_dict(private=False)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/oauth")
        await page.get_by_role("button", name="Become a provider").click()
        await page.get_by_role("button", name="New client").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("Vault")
        await dialog.get_by_label("Redirect addresses").fill("https://vault.example/callback")
        await dialog.get_by_label("Runs").select_option("private_key_jwt")
        await dialog.get_by_label("Public keys").fill(json.dumps(jwk))
        await expect(dialog.get_by_role("button", name="New client")).to_have_attribute("aria-disabled", "true")
        await dialog.get_by_label("Public keys").fill(json.dumps({"keys": [jwk]}))
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="New client").click()
        shown = page.get_by_role("dialog", name="Vault is ready")
        await expect(shown.locator(".secret code")).to_have_count(1)
        await shown.get_by_role("button", name="I have saved it").click()

        row = page.get_by_role("row").filter(has_text="Vault")
        await row.get_by_role("button", name="Edit Vault").click()
        await expect(dialog.get_by_label("Public keys")).to_have_value(re.compile(jwk["x"]))
        files = dialog.locator("input[type=file]")
        await files.set_input_files({"name": "x.png", "mimeType": "image/png", "buffer": b"<script>"})
        await expect(page.get_by_text("Send a complete image")).to_be_visible()
        await files.set_input_files({"name": "logo.png", "mimeType": "image/png", "buffer": picture()})
        await expect(dialog.locator("img.logo")).to_have_js_property("naturalWidth", 256)
        await dialog.get_by_label("Members can sign in to it").uncheck()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-oauth-client")
        await dialog.get_by_role("button", name="Save").click()
        await expect(row.locator("img.logo")).to_be_visible()
        await expect(row).to_contain_text("disabled")
        await row.get_by_role("button", name="Edit Vault").click()
        await dialog.get_by_role("button", name="Delete the logo").click()
        await expect(dialog.locator("img.logo")).to_have_count(0)


async def test_clients_that_register_themselves_are_allowed_and_shown(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    address = f"/v1/apps/{app.app_id}/oauth"
    async with plain_client(server.url, Authorization=f"Bearer {app.console['access_token']}") as console:
        await console.put(f"{address}/settings", json={"is_provider": True})
        await console.put(f"{address}/scopes/orders:read", json={"title": "See orders"})
        made = await console.post(f"{address}/clients", json={"name": "Tool", "redirect_uris": ["https://a.example/"]})
        # As if it had been admitted by a member's first request.
        dynamic = "update pilotis.oauth_clients set is_dynamic = true, source = 'registration' where client_id = $1"
        await run_sql(server, dynamic, made.json()["client_id"])
        async with visit("about:blank") as page:
            await sign_in(page, server, f"/apps/{app.app_id}/oauth/settings")
            await page.get_by_label("Accept clients that register themselves").check()
            await page.get_by_label("orders:read").check()
            assert await obstacles(page, axe) == []
            await page.get_by_role("button", name="Save").click()
            await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
            await page.get_by_role("link", name="Clients").click()
            row = page.get_by_role("row").filter(has_text="Tool")
            await expect(row).to_contain_text("registered itself")
            await row.get_by_role("button", name="Edit Tool").click()
            dialog = page.get_by_role("dialog")
            await expect(dialog.get_by_label("Name")).to_have_count(0)
            await dialog.get_by_label("Members can sign in to it").uncheck()
            assert await obstacles(page, axe) == []
            await dialog.get_by_role("button", name="Save").click()
            await expect(row).to_contain_text("disabled")
        settings = (await console.get(f"{address}/settings")).json()
    assert (settings["dynamic_clients"], settings["dynamic_scopes"]) == (True, ["orders:read"])


async def test_settings_of_the_provider_are_kept(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/oauth/settings")
        async with page.expect_response(lambda answer: answer.request.method == "PUT") as turned:
            await page.get_by_label("Provider", exact=True).click()
        assert (await turned.value).ok
        await page.get_by_label("Lifetime of access tokens, in seconds").fill("300")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.get_by_label("Lifetime of access tokens, in seconds")).to_have_value("300")
        await expect(page.get_by_label("Provider", exact=True)).to_be_checked()
        assert await obstacles(page, axe) == []


async def test_a_sign_in_is_tried_and_its_grant_revoked(signing: App, visit: Opening, axe: str) -> None:
    app, server = signing, signing.server
    await app.member("ada", PASSWORD)
    address = f"/v1/apps/{app.app_id}/oauth"
    async with plain_client(server.url, Authorization=f"Bearer {app.console['access_token']}") as console:
        assert (await console.put(f"{address}/settings", json={"is_provider": True})).status_code == 200
        client = {
            "name": "<b>Books</b>",
            "redirect_uris": ["https://books.example/callback"],
            "scopes": ["openid", "profile"],
        }
        made = await console.post(f"{address}/clients", json=client)
    secret = made.json()["client_secret"]
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/oauth/try")
        await page.get_by_role("checkbox", name="profile").check()
        await page.get_by_role("button", name="Create URL").click()
        await page.context.route("https://books.example/**", lambda route: route.fulfill(body="back"))
        assert await obstacles(page, axe) == []
        async with page.context.expect_page() as opened:
            await page.get_by_role("link", name="Open in a new tab").click()
        member = await opened.value
        await member.fill("#login", "ada")
        await member.fill("#password", PASSWORD)
        await member.click("form[data-form=sign-in] button")
        await member.click("#allow")
        await member.wait_for_url("https://books.example/callback**")
        back = page.get_by_label("URL that the browser was redirected to")
        await back.fill("https://books.example/callback?code=x&state=another")
        await page.get_by_label("Client secret").fill(secret)
        await page.get_by_role("button", name="Get tokens").click()
        await expect(page.get_by_role("alert")).to_contain_text("another sign-in")
        await back.fill(member.url)
        await page.get_by_role("button", name="Get tokens").click()
        await expect(page.get_by_role("region", name="Response of the token endpoint")).to_contain_text("token_type")
        await expect(page.get_by_role("region", name="Claims of the ID token")).to_contain_text(
            made.json()["client_id"]
        )
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-oauth-try")

        await page.get_by_role("link", name="Grants").click()
        grant = page.get_by_role("row").filter(has_text="<b>Books</b>")
        await expect(grant).to_contain_text("valid")
        assert await obstacles(page, axe) == []
        await grant.get_by_role("button", name="Revoke").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(grant).to_contain_text("revoked")

        await page.get_by_role("navigation", name="Sign-in provider").get_by_role("link", name="Keys").click()
        await expect(page.get_by_role("row").filter(has_text="signs now")).to_have_count(1)
        assert await obstacles(page, axe) == []
