"""Members, files and apps by the ten thousands: each list is shown, its end is a step away, and one is found."""

from uuid import UUID

from playwright.async_api import expect

from tests.acceptance.test_files import put_at
from tests.console import database_of, owner_of, user_with
from tests.console.conftest import Opening, sign_in
from tests.support import App, Server
from tests.whole import times

MANY, APPS = times(20_000, whole=60_000), 2_500

MEMBERS = """
insert into pilotis.members (app_id, member_id, login_id, nickname, is_guest, created_at)
select $1, 'many-' || n, 'login-' || n, 'Member ' || n, false, now() - n * interval '1 minute'
from generate_series(1, $2::int) n
"""
FILES = """
insert into pilotis.files (app_id, storage_id, file_id, path, name, is_folder, blob_id, mime_type, size, creator)
select app_id, storage_id, gen_random_uuid(), to_char(n, 'FM00000') || '.png', to_char(n, 'FM00000') || '.png', false,
    blob_id, mime_type, size, creator
from pilotis.files, generate_series(1, $2::int) n where app_id = $1 and not is_folder
"""
OF_USER = """
with made as (
    insert into pilotis.apps (app_id, name, created_at)
    select gen_random_uuid(), 'Shop ' || n, now() - n * interval '1 minute' from generate_series(1, $2::int) n
    returning app_id
)
insert into pilotis.app_users (app_id, user_id, role) select app_id, $1, 'owner' from made
"""
GONE = """
delete from pilotis.apps where app_id in (select app_id from pilotis.app_users where user_id = $1) and app_id <> $2
"""


async def test_thousands_of_members_and_as_many_files(server: Server, app: App, visit: Opening) -> None:
    async with owner_of(app).client(app) as console:
        storage = (await console.post("/storages/files", json={"name": "pictures"})).json()["id"]
    async with app.client() as client:
        await put_at(client, f"/v1/public/storages/files/{storage}", "first.png")
    async with database_of(server) as database:
        await database.execute(MEMBERS, UUID(app.app_id), MANY)
        await database.execute(FILES, UUID(app.app_id), MANY - 1)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        rows, pages = page.locator("tbody tr"), page.get_by_role("navigation", name="Pages")
        await expect(rows).to_have_count(50)
        await expect(pages).to_contain_text(f"1 to 50 of {MANY:,}")
        await page.get_by_role("button", name="Last page").click()
        await expect(pages).to_contain_text(f"{MANY - 49:,} to {MANY:,}")
        await expect(rows.last).to_contain_text(f"Member {MANY}")
        await page.get_by_role("searchbox").fill("login-4711")
        await expect(rows.first).to_contain_text("login-4711")
        await expect(pages).to_have_count(0)

        await page.goto(f"{server.url}/console/apps/{app.app_id}/files/{storage}")
        await expect(rows).to_have_count(100)
        await expect(pages).to_contain_text(f"of {MANY:,}")
        await page.get_by_role("button", name="Last page").click()
        await expect(rows.last).to_contain_text("first.png")
        await page.get_by_role("searchbox").fill("4711.p")
        await expect(rows.locator(".cut")).to_have_text([f"{number:05}.png" for number in range(4711, MANY, 10_000)])
        await page.get_by_role("searchbox").fill("nothing of this name")
        await page.get_by_role("button", name="Clear filters").click()
        await expect(page.get_by_role("searchbox")).to_have_value("")
        await expect(rows).to_have_count(100)


async def test_thousands_of_apps(server: Server, app: App, visit: Opening) -> None:
    user = await user_with(app, "viewer")
    async with database_of(server) as database:
        try:
            await database.execute(OF_USER, UUID(user.user_id), APPS)
            async with visit("about:blank") as page:
                await sign_in(page, server, "", user.email)
                cards = page.locator(".cards > li")
                await expect(cards).to_have_count(100)
                await page.get_by_role("button", name="Last page").click()
                await expect(cards).to_have_count(1)
                await page.get_by_role("searchbox").fill("shop 1234")
                await expect(cards).to_have_count(1)
                await expect(cards).to_contain_text("Shop 1234")
                await page.get_by_role("searchbox").fill("no such shop")
                await expect(page.get_by_text("No matching apps")).to_be_visible()
        finally:
            await database.execute(GONE, UUID(user.user_id), UUID(app.app_id))
