"""The rules of a table in the console."""

import pytest
from playwright.async_api import expect

from tests.acceptance.test_files import put_at, storage
from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.rules.test_rules import manager
from tests.support import App, Server


async def test_rules_are_chosen_written_and_removed(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string", "state": "string"}, title="posts")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/rules")
        await expect(page.get_by_text("The access level Public decides now")).to_be_visible()
        await page.get_by_label("Create", exact=True).select_option("Signed-in members")
        await page.get_by_label("Update", exact=True).select_option("Members, on their own rows")
        await page.get_by_label("Delete", exact=True).select_option("Only the app itself")
        await page.get_by_role("button", name="Save rules").click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        await expect(page.locator(".topbar, header").get_by_text("rules", exact=True).first).to_be_visible()
        async with app.client() as client:
            denied = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"name": "x"}})
            assert denied.json()["code"] == "MEMBER_TOKEN_REQUIRED"
        # What is wrong is said with its place.
        await page.get_by_role("button", name="Begin with").click()
        await page.get_by_role("menuitem", name="Drop box").click()
        await expect(page.get_by_label("List", exact=True)).to_have_value("absent")
        await page.get_by_role("button", name="Save rules").click()
        await expect(page.get_by_text("Everybody with the public key may create every row.")).to_be_visible()
        await page.get_by_role("button", name="Remove the rules").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove the rules").click()
        await expect(page.get_by_text("The access level Public decides now")).to_be_visible()


async def test_rules_are_tried_before_they_are_saved(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string", "state": "string"}, title="posts")
    row = await app.row(table, {"name": "x", "state": "draft"})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/rules")
        trial = page.locator("section", has=page.get_by_role("heading", name="Try"))
        await trial.get_by_role("button", name="Try").click()
        await expect(trial.get_by_text("Allowed")).to_be_visible()
        await expect(trial.get_by_text("Sees the columns name, state.")).to_be_visible()
        await page.get_by_label("Read", exact=True).select_option("Members, on their own rows")
        await trial.get_by_label("As", exact=True).select_option("A member that does not exist")
        await trial.get_by_label("Id of the row").fill(row["id"])
        await trial.get_by_role("button", name="Try").click()
        await expect(trial.get_by_text("404 ROW_NOT_FOUND")).to_be_visible()
        condition = trial.get_by_role("row", name="the caller created the row")
        await expect(condition.get_by_text("no", exact=True)).to_be_visible()
        await trial.get_by_label("Action", exact=True).select_option("Update")
        await trial.get_by_label("Changes").fill("{")
        await expect(trial.get_by_role("button", name="Try")).to_be_disabled()


async def test_unique_keys_are_made_and_deleted(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"email": "string", "tags": "array"}, title="people")
    await app.row(table, {"email": "Ada"})
    second = await app.row(table, {"email": "ada"})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/indexes")
        await page.get_by_role("button", name="New unique key").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("button", name="Create")).to_be_disabled()
        await expect(dialog.get_by_label("tags")).to_have_count(0)
        await dialog.get_by_label("email").check()
        await dialog.get_by_label("Letter case does not count").check()
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog.get_by_text("1 row has the values of another row")).to_be_visible()
        async with app.client() as client:
            await client.delete(f"/v1/public/tables/{table}/data/{second['id']}")
            await dialog.get_by_role("button", name="Create").click()
            key = page.get_by_role("row", name="email")
            await expect(key.get_by_text("without letter case")).to_be_visible()
            taken = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"email": "ADA"}})
            assert taken.json()["code"] == "UNIQUE_VIOLATION"
        await key.get_by_role("button", name="Delete the key email").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(key).to_have_count(0)


async def test_rules_of_files_take_the_place_of_a_storages_settings(server: Server, app: App, visit: Opening) -> None:
    base = await storage(app, name="Photos")
    async with app.client() as client:
        await put_at(client, base, "faces/a.png")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/files/{base.rpartition('/')[2]}")
        await page.get_by_role("button", name="Rules").click()
        await expect(page.get_by_text("The settings of the storage decide now")).to_be_visible()
        await page.get_by_label("List", exact=True).select_option("Only the app itself")
        await page.get_by_label("Delete", exact=True).select_option("Members, with the files they uploaded")
        await page.get_by_role("button", name="Save rules").click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        # What they answer is tried: a file by its path, and an upload.
        trial = page.locator("section", has=page.get_by_role("heading", name="Try"))
        await trial.get_by_label("Path of the file").fill("faces/a.png")
        await trial.get_by_role("button", name="Try").click()
        await expect(trial.get_by_text("Allowed")).to_be_visible()
        await trial.get_by_label("Action", exact=True).select_option("Delete")
        await trial.get_by_role("button", name="Try").click()
        await expect(trial.get_by_text("401 MEMBER_TOKEN_REQUIRED")).to_be_visible()
        await keep_picture(page, "rules-of-files-tried")
        await page.get_by_role("button", name="Files").click()
        await expect(page.get_by_role("button", name="faces")).to_be_visible()
        await page.get_by_role("button", name="Settings").click()
        await expect(page.get_by_text("This storage has rules.")).to_be_visible()
        await page.get_by_role("dialog").get_by_label("Who can list").select_option("Secret keys and this console")
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_role("dialog")).to_be_hidden()
        async with app.client() as client:
            assert (await client.get(f"{base}/items")).json()["code"] == "RULE_DENIED"
            assert (await client.get(f"{base}/path/faces/a.png")).status_code == 200


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_the_document_is_written_with_proposals(
    server: Server, app: App, visit: Opening, axe: str, width: int, scheme: str
) -> None:
    state = {"type": "string", "enum": ["draft", "published"]}
    await app.table({"team": "uuid", "member": "string"}, title="seats")
    table = await app.table({"state": state, "team": "uuid"}, title="posts")
    async with visit("about:blank", width=width, color_scheme=scheme) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/rules")
        editor = page.get_by_role("textbox", name="The whole document")
        listed = page.get_by_role("listbox", name="Proposals").get_by_role("option")
        await editor.click()

        async def type_(text: str, *, shown: list[str]) -> None:
            """Write, and expect what is proposed then."""
            await page.keyboard.type(text)
            await expect(listed).to_contain_text(shown)

        async def take(*keys: str) -> None:
            # CodeMirror takes no choice in the first moments of a list.
            await page.wait_for_timeout(500)
            for key in (*keys, "Enter"):
                await page.keyboard.press(key)
            await expect(listed).to_have_count(0)

        await page.keyboard.press("Control+a")
        await type_('{"rea', shown=["read"])
        await take()
        await type_('{"$ex', shown=["$exists"])
        await take()
        await type_('{"tab', shown=["table"])
        await take()
        await type_('"', shown=["seats", "posts"])
        await keep_picture(page, f"rules-proposed-{width}-{scheme}")
        assert await obstacles(page, axe) == []
        await type_("se", shown=["seats"])
        await take()
        await page.keyboard.type(', "where": {"te')
        await expect(listed).to_contain_text(["team"])
        await take()
        await page.keyboard.press("Control+Space")
        await expect(listed).to_contain_text(['{"$member": "id"}', '{"$row": "team"}'])
        await take("ArrowDown")
        await type_(', "mem', shown=["member"])
        await page.keyboard.press("Escape")
        await expect(listed).to_have_count(0)
        await page.keyboard.type('ber": {"$member": "id"}}}}}')
        await expect(page.get_by_label("Read", exact=True)).to_have_value("custom")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    async with manager(app) as client:
        saved = (await client.get(f"/tables/{table}/rules")).json()["rules"]
    where = {"team": {"$row": "team"}, "member": {"$member": "id"}}
    assert saved["read"] == {"$exists": {"table": "seats", "where": where}}
