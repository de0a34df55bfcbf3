"""Changes in the console other than rows: schemas, members, sessions, moved files, read-only keys."""

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from playwright.async_api import Page, expect

from tests.acceptance.test_files import put_at, storage
from tests.chromium import PICTURES, keep_picture
from tests.console import database_of, owner_of, the_log
from tests.console.conftest import Opening, obstacles, replace_code, sign_in
from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.support import App, Server


async def pictures(page: Page, name: str) -> None:
    """Keep pictures of a state at both widths and in both themes, where pictures are wanted."""
    if not PICTURES:
        return
    for width, height, suffix in ((1440, 900, ""), (390, 844, "-phone")):
        await page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            await page.evaluate("(theme) => (document.documentElement.dataset.theme = theme)", theme)
            await keep_picture(page, f"console-{name}-{theme}{suffix}")
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.evaluate("document.documentElement.dataset.theme = 'light'")


async def test_a_change_of_the_schema_shows_what_a_cast_would_do(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    table = await app.table({"price": "string", "title": "string"}, title="things")
    for price in ("12.50", "a lot"):
        await app.row(table, {"price": price, "title": "x"})
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/schema")
        await page.get_by_label("Type of price").select_option("number")
        await page.get_by_label("Name of title").fill("name")
        await page.get_by_role("button", name="Review 2 changes").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("1 row does not fit")
        await expect(dialog).to_contain_text("This is not a valid number.")
        assert await obstacles(page, axe) == []
        await pictures(page, "schema-preview")
        await dialog.get_by_role("button", name="Change schema").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Nothing was changed")
        await dialog.get_by_role("button", name="Cancel").click()
        await page.get_by_label("Type of price").select_option("string")
        await page.get_by_role("button", name="Review 1 change").click()
        await expect(page.get_by_role("dialog")).to_contain_text("title is renamed → name")
        await page.get_by_role("dialog").get_by_role("button", name="Change schema").click()
        await expect(page.get_by_label("Name of name")).to_have_value("name")
    async with app.client() as client:
        schema = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]
    assert schema == {"price": "string", "name": "string"}


async def test_a_member_is_created_and_signed_out_in_one_place(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        await page.get_by_role("button", name="New member").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Login").fill("linus")
        await dialog.get_by_label("Password").fill("a longer sentence")
        await dialog.get_by_role("button", name="Create member").click()
        panel = page.get_by_role("complementary", name="Member")
        await expect(panel).to_contain_text("linus")
        async with app.client() as client:
            body = {"login_id": "linus", "password": "a longer sentence"}
            signed_in = (await client.post("/v1/public/app-members/signin", json=body)).json()
        await page.reload()
        assert await obstacles(page, axe) == []
        await expect(panel.get_by_role("button", name="End")).to_be_visible()
        await pictures(page, "member")
        await panel.get_by_role("button", name="End").click()
        await expect(panel.get_by_role("button", name="End")).to_be_hidden()
    async with app.client(signed_in["access_token"]) as client:
        assert (await client.get("/v1/public/app-members/me")).status_code == 401


async def test_it_is_shown_whose_row_and_whose_file_it_is(server: Server, app: App, visit: Opening, axe: str) -> None:
    """The grid, the row's panel, the filter and the member's page name the member that created a row."""
    table = await app.table({"name": "string"}, "Creator", "orders")
    owner, other = await app.member("otter"), await app.member("heron")
    row = await app.row(table, {"name": "an otter's"}, owner["access_token"])
    await app.row(table, {"name": "a heron's"}, other["access_token"])
    await app.row(table, {"name": "the app's"}, app.secret_key)
    base = await storage(app, upload_access="AppMember")
    async with app.client(owner["access_token"]) as client:
        await put_at(client, base, "otter.png")
    async with app.client(other["access_token"]) as client:
        await put_at(client, base, "other.png")
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}?row={row['id']}")
        rows = page.locator(".gr:not(.head)")
        await expect(rows.filter(has_text="an otter's")).to_contain_text("otter")
        await expect(rows.filter(has_text="a heron's")).to_contain_text("heron")
        await expect(rows.filter(has_text="the app's")).to_contain_text("no member")
        await expect(page.get_by_role("complementary").get_by_role("link", name="otter")).to_be_visible()
        assert await obstacles(page, axe) == []
        await pictures(page, "creator")
        await page.get_by_role("button", name="Filter", exact=True).click()
        await page.get_by_label("Column", exact=True).select_option("created by")
        await page.get_by_label("Value").fill("her")
        await page.locator(".memberfield").get_by_role("button", name="heron").click()
        await keep_picture(page, "console-creator-filter")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("1 row found")).to_be_visible()
        await expect(page.locator(".chip")).to_contain_text("created by")
        await expect(page.locator(".chip")).to_contain_text("heron")
        await page.goto(f"{server.url}/console/apps/{app.app_id}/members?member={owner['member_id']}")
        panel = page.get_by_role("complementary", name="Member")
        # What a member has made is read once it is seen.
        await panel.get_by_role("heading", name="Rows in tables").scroll_into_view_if_needed()
        await expect(panel.get_by_role("link", name="orders")).to_contain_text("All 1")
        await expect(panel.get_by_role("link", name="an otter's")).to_be_visible()
        await expect(panel.get_by_role("link", name="otter.png")).to_be_visible()
        await expect(panel.get_by_role("link", name="other.png")).to_be_hidden()
        assert await obstacles(page, axe) == []
        await pictures(page, "member-rows")
        await panel.get_by_role("link", name="files 1").click()
        await expect(page.get_by_role("row", name="otter.png")).to_be_visible()
        await expect(page.get_by_role("row", name="other.png")).to_be_hidden()
        await page.get_by_role("button", name="otter.png").click()
        await page.get_by_role("complementary").get_by_role("link", name="otter").click()
        # What the app keeps of a member is replaced in the same place.
        await panel.get_by_role("button", name="Edit custom_data").click()
        dialog = page.get_by_role("dialog")
        await replace_code(dialog.locator(".cm-content"), '{"plan": "gold"}')
        await dialog.get_by_role("button", name="Save").click()
        await expect(panel.get_by_role("region", name="custom_data")).to_contain_text("gold")


async def test_another_session_of_the_user_is_ended(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with app.client(**{"User-Agent": "Mozilla/5.0 (Windows NT 10.0) Firefox/140.0"}) as client:
        other = await client.post(
            "/v1/auth/signin", json={"email": app.console["email"], "password": "correct horse battery"}
        )
        assert other.status_code == 200, other.text
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, "/profile")
        row = page.get_by_role("row", name="Firefox · Windows").first
        await expect(row).to_contain_text("127.0.0.1")
        assert await obstacles(page, axe) == []
        await pictures(page, "sessions")
        await row.get_by_role("button", name="End").click()
        await expect(page.get_by_text("The session has ended.")).to_be_visible()
    async with app.client(other.json()["access_token"]) as client:
        assert (await client.get("/v1/auth/me")).status_code == 401


async def test_a_file_is_renamed_moved_and_replaced(
    server: Server, app: App, visit: Opening, axe: str, tmp_path: Path
) -> None:
    base = await storage(app)
    async with app.client() as client:
        await client.post(f"{base}/folders", json={"name": "archive"})
        file = await put_at(client, base, "menu.png")

        async def listed(path: str) -> dict[str, Any]:
            return (await client.get(f"{base}/path/{path}")).json()

        (tmp_path / "new.txt").write_text("Espresso 2\n")
        async with visit("about:blank", width=1440) as page:
            await sign_in(page, server, f"/apps/{app.app_id}/files/{base.rpartition('/')[2]}")
            await page.get_by_role("button", name="menu.png").click()
            panel = page.get_by_role("complementary", name="menu.png")
            await panel.get_by_role("button", name="More actions").click()
            await page.get_by_role("menuitem", name="Rename").click()
            await page.get_by_role("dialog").get_by_label("Name").fill("card.png")
            await page.get_by_role("dialog").get_by_role("button", name="Rename").click()
            panel = page.get_by_role("complementary", name="card.png")
            await panel.get_by_role("button", name="More actions").click()
            async with page.expect_file_chooser() as choosing:
                await page.get_by_role("menuitem", name="Replace").click()
            await (await choosing.value).set_files(tmp_path / "new.txt")
            await expect(panel).to_contain_text("Espresso 2")
            await panel.get_by_role("button", name="More actions").click()
            await page.get_by_role("menuitem", name="Move").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_role("button", name="archive").click()
            assert await obstacles(page, axe) == []
            await pictures(page, "move")
            await dialog.get_by_role("button", name="Move here").click()
            await expect(page.get_by_text("It is now at archive/card.png.")).to_be_visible()
        moved = await listed("archive/card.png")
        assert (moved["id"], moved["size"]) == (file["id"], 11)


@pytest.mark.parametrize("role", ["Viewer"])
async def test_a_secret_key_that_only_reads_is_created(server: Server, app: App, visit: Opening, role: str) -> None:
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/keys")
        await page.get_by_role("button", name="New secret key").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("reports")
        await dialog.get_by_text(role, exact=True).click()
        await pictures(page, "secret-key")
        await dialog.get_by_role("button", name="New secret key").click()
        await dialog.get_by_role("button", name="I have saved it").click()
        await expect(page.get_by_role("row", name="reports")).to_contain_text(role)


async def test_a_members_accounts_and_programs_are_shown_and_revoked(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    member = (await app.member("otter"))["member_id"]
    async with owner_of(app).client(app) as console, database_of(server) as connection:
        client = {"name": "Coffee club", "redirect_uris": ["https://club.example/callback"]}
        made = (await console.post("/oauth/clients", json=client)).json()["client_id"]
        await connection.execute(
            """
            insert into pilotis.oauth_consents (app_id, consent_id, member_id, client_id, scopes)
            values ($1, gen_random_uuid(), $2, $3, '{openid}')
            """,
            UUID(app.app_id),
            member,
            made,
        )
        await connection.execute(
            """
            insert into pilotis.member_identities (app_id, provider, subject, member_id, email)
            values ($1, 'GOOGLE', '1101694', $2, 'otter@example.com')
            """,
            UUID(app.app_id),
            member,
        )
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members?member={member}")
        panel = page.get_by_role("complementary", name="Member")
        await expect(panel).to_contain_text("otter@example.com not verified")
        await expect(panel).to_contain_text("Coffee club")
        assert await obstacles(page, axe) == []
        await pictures(page, "member-links")
        for action, gone in (("Unlink", "Signs in with no vendor."), ("Disconnect", "Has connected no program.")):
            await panel.get_by_role("button", name=action).click()
            await page.get_by_role("dialog").get_by_role("button", name=action).click()
            await expect(panel).to_contain_text(gone)
        # Sessions end one by one.
        await panel.get_by_role("button", name="End", exact=True).click()
        await expect(panel.get_by_role("button", name="End", exact=True)).to_have_count(0)
    actions = {entry["action"] for entry in await the_log(app, search=member)}
    assert {"member.unlink", "member.end_consent", "member.end_session"} <= actions


async def test_failed_requests_are_found_and_counted(server: Server, app: App, visit: Opening, axe: str) -> None:
    table = await app.table({"name": "string"}, title="things")
    async with app.client() as client:
        for _ in range(20):
            await client.get(f"/v1/public/tables/{table}/data")
        await client.post(f"/v1/public/tables/{table}/data", json={"data": {"wrong": 1}})
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/activity/requests?status=4xx")
        entry = page.get_by_role("row", name="UNKNOWN_COLUMN")
        while not await entry.is_visible():
            await page.get_by_role("button", name="Reload").click()
            await page.wait_for_load_state("networkidle")
        await expect(entry).to_contain_text("400")
        assert await obstacles(page, axe) == []
        await pictures(page, "requests")
        await page.get_by_role("link", name="Metrics").click()
        await expect(page.get_by_role("row", name="GET /v1/public/tables/:table_id/data ")).to_contain_text("20")
        assert await obstacles(page, axe) == []
        await pictures(page, "metrics")
        await page.get_by_role("button", name="Table", exact=True).click()
        await expect(page.get_by_role("columnheader", name="95th percentile").first).to_be_visible()


@pytest.mark.usefixtures("sandboxes")
async def test_a_request_opens_with_all_that_it_led_to(server: Server, app: App, visit: Opening, axe: str) -> None:
    table = await app.table({"n": "int"}, title="orders")
    functions = Functions(app)
    source = """export default async (given, ctx) => {
        await ctx.api.rows("orders").create({ n: 1 });
        // Without the scope for it.
        await ctx.api.fetch("/v1/public/tables/none");
        throw new Error("no");
    }"""
    async with Receiver.listening() as receiver, functions.console:
        await functions.made("save", source)
        await functions.made("other", "export default () => 1")
        hook = {"name": "Ledger", "url": receiver.url("/ledger"), "event_types": ["row.created"], "table_ids": [table]}
        assert (await functions.console.post(f"/v1/apps/{app.app_id}/webhooks", json=hook)).status_code == 201
        async with app.client(app.secret_key) as client:
            headers = {"X-Request-Id": "chain-01"}
            await client.post("/v1/public/functions/save/invoke", json={"payload": {}}, headers=headers)
        async with visit("about:blank", width=1440) as page:
            await sign_in(page, server, f"/apps/{app.app_id}/activity/requests")
            await page.get_by_label("Function").select_option(label="save")
            entry = page.get_by_role("row", name="SCOPE_REQUIRED")
            while not await entry.is_visible():
                await page.get_by_role("button", name="Reload").click()
                await page.wait_for_load_state("networkidle")
            await entry.get_by_role("button").click()
            panel = page.get_by_role("complementary", name="Request")
            chain = panel.get_by_role("listitem")
            await expect(chain.filter(has_text="save")).to_contain_text(["FUNCTION_ERROR"])
            await expect(chain.filter(has_text="save")).to_contain_text([re.compile(r"\d ms")])
            await expect(chain.filter(has=page.get_by_role("link", name="Ledger"))).to_contain_text(["row.created"])
            assert await obstacles(page, axe) == []
            await pictures(page, "request-context")
            # From each of them one comes back to all.
            for name in ("save", "Ledger"):
                await panel.get_by_role("link", name=name).last.click()
                await page.get_by_role("complementary").get_by_role("link", name="By the same request").click()
                await expect(panel).to_contain_text("chain-01")
            await page.get_by_label("Function").select_option(label="other")
            await expect(page.get_by_text("No matching requests")).to_be_visible()
