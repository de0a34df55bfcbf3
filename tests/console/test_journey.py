"""A whole app in the browser: from its first table to a site, a function, a workflow, a webhook and an OAuth client."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import BrowserContext, Page, expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, replace_code, sign_in
from tests.receiver import OK, Received, Receiver
from tests.support import App, plain_client

GREETING = "export default (payload) => `Thank you, ${payload.name}!`;\n"
PARCEL = """export default async (payload, ctx) => {
  ctx.log.info("packing", JSON.stringify(payload.event?.data ?? payload));
  await new Promise((resume) => setTimeout(resume, 500));
  return { packed: payload.event?.data ?? payload };
};
"""
PAGE = """<!doctype html><title>Shop</title><button>Order</button><output></output><script>
const call = (path, body) => fetch("BASE" + path, { method: "POST", body: JSON.stringify(body),
  headers: { "Content-Type": "application/json", "X-Public-Key": "KEY" } }).then((answer) => answer.json());
document.querySelector("button").onclick = async () => {
  await call("/v1/public/tables/TABLE/data", { data: { text: "two oars" } });
  const { result } = await call("/v1/public/functions/thank/invoke", { payload: { name: "Ada" } });
  document.querySelector("output").textContent = result;
};
</script>
"""


async def test_an_app_is_made_and_used(signing: App, visit: Opening, tmp_path: Path, sandboxes: None) -> None:
    triggers: list[str] = []

    async def relay(request: Received, writer: asyncio.StreamWriter) -> None:
        """Start the workflow with each event, as a server of the user would: Pilotis does not call itself."""
        async with plain_client(signing.server.url) as client:
            answer = await client.post(triggers[0], content=request.body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 202, answer.text
        writer.write(OK)

    async with Receiver.listening({"/relay": relay}) as receiver, visit("about:blank") as page:
        await sign_in(page, signing.server, "/")
        app, key = await _new_app(page)
        table = await _first_table(page)
        await _write_function(page, app, "thank", GREETING)
        await page.get_by_label("Payload").fill('{"name": "Grace"}')
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_have_text('"Thank you, Grace!"')
        await _write_function(page, app, "pack", PARCEL)

        shop = tmp_path / "shop"
        shop.mkdir()
        text = PAGE.replace("BASE", signing.server.url).replace("KEY", key).replace("TABLE", table)
        (shop / "index.html").write_text(text)
        address = await _publish(page, app, shop)

        triggers.append(await _workflow(page, app))
        await _webhook(page, app, receiver.url("/relay"))

        await page.goto(f"{app}/workflows")
        await page.get_by_role("link", name="Parcels").click()
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        visitor = await page.context.new_page()
        await visitor.goto(address)
        await visitor.get_by_role("button", name="Order").click()
        await expect(visitor.get_by_role("status")).to_have_text("Thank you, Ada!")

        # The execution appears in the list by itself, and its view follows it to its end.
        await page.get_by_role("row").nth(1).get_by_role("link").click()
        await expect(page.locator("header .pill")).to_have_text("completed")
        await expect(page.get_by_role("region", name="Output")).to_contain_text("two oars")
        await keep_picture(page, "console-journey-run")

        await page.goto(f"{app}/webhooks")
        await page.get_by_role("link", name="Start parcels").click()
        delivery = page.get_by_role("row").filter(has_text="row.created")
        await expect(delivery).to_contain_text("delivered")
        await delivery.get_by_role("button").click()
        await expect(page.get_by_role("complementary", name="Delivery")).to_contain_text("two oars")
        await keep_picture(page, "console-journey-delivery")

        await page.goto(f"{app}/functions")
        await page.get_by_role("link", name="pack").click()
        await page.get_by_role("link", name="Log", exact=True).click()
        await expect(page.get_by_role("list", name="Live log")).to_contain_text("two oars")

        await _let_another_app_sign_in(page, app)
        await page.goto(app)
        work = page.get_by_role("region", name="Work")
        await expect(work).to_contain_text("Workflow executions")
        await expect(page.get_by_role("region", name="First steps")).to_contain_text("Lock the schema")
        await keep_picture(page, "console-journey-overview", full_page=True)


async def _new_app(page: Page) -> tuple[str, str]:
    """Create an app; return its address in the console and its public key."""
    await page.get_by_role("button", name="New app").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Boat rental")
    await dialog.get_by_role("button", name="New app").click()
    await expect(dialog.locator(".secret code")).to_have_count(2)
    _, key = await dialog.locator(".secret code").all_inner_texts()
    await dialog.get_by_role("button", name="I have saved it").click()
    await expect(page.get_by_role("region", name="First steps")).to_be_visible()
    return page.url, key


async def _first_table(page: Page) -> str:
    """Run the first steps, which make a table, a row and a member; return the table's id."""
    steps = page.get_by_role("region", name="First steps")
    async with page.expect_response("**/v1/public/tables") as made:
        await steps.get_by_role("button", name="Run", exact=True).click()
    await expect(steps.get_by_role("button", name="Create a table")).to_contain_text("Done")
    await steps.get_by_role("button", name="Let members sign up").click()
    await steps.get_by_role("button", name="Run", exact=True).click()
    await expect(steps.get_by_role("button", name="Let members sign up")).to_contain_text("Done")
    return str((await (await made.value).json())["id"])


async def _write_function(page: Page, app: str, name: str, source: str) -> None:
    await page.goto(f"{app}/functions?new=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill(name)
    await dialog.get_by_text("Everyone", exact=True).click()
    await dialog.get_by_role("button", name="New function").click()
    editor = page.locator(".cm-content")
    await expect(editor).to_have_attribute("aria-label", "index.ts")
    await replace_code(editor, source)
    await page.get_by_role("button", name="Deploy", exact=True).click()
    await page.get_by_role("dialog", name="Deploy").get_by_role("button", name="Deploy").click()
    await expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()


async def _publish(page: Page, app: str, folder: Path) -> str:
    """Deploy a folder as a new site and return the site's address."""
    await page.goto(f"{app}/sites?new=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("Shop")
    await dialog.get_by_role("button", name="New site").click()
    await page.locator("input[webkitdirectory]").set_input_files(folder)
    deploying = page.get_by_role("dialog", name="Deploy")
    await deploying.get_by_label("Description").fill("First version")
    await deploying.get_by_role("button", name="Deploy").click()
    await expect(page.get_by_role("row").filter(has_text="First version")).to_contain_text("Production")
    address = await page.get_by_role("link", name="Open", exact=True).get_attribute("href")
    assert address
    return address


async def _workflow(page: Page, app: str) -> str:
    """Create a workflow that calls a function, and return its trigger URL."""
    await page.goto(f"{app}/workflows?new=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Parcels")
    await dialog.get_by_role("button", name="New workflow").click()
    await page.get_by_role("button", name="Add step").first.click()
    await page.get_by_role("menuitem", name="Merge").click()
    step = page.get_by_role("complementary", name="Step")
    await step.get_by_label("Id", exact=True).fill("received")
    await page.get_by_role("button", name="Add step").first.click()
    await page.get_by_role("menuitem", name="Function calls").click()
    await step.get_by_label("Id", exact=True).fill("pack")
    await step.get_by_label("Function", exact=True).select_option("pack")
    await step.get_by_label("Input", exact=False).first.fill('{"event": "$.input"}')
    save = page.get_by_role("button", name=re.compile("^Save version"))
    await expect(save).not_to_have_attribute("aria-disabled", "true")
    await save.click()
    await expect(page.get_by_role("button", name="Save version 3")).to_be_visible()
    await page.get_by_role("link", name="Trigger", exact=True).click()
    await page.get_by_role("button", name="Create trigger URL").click()
    return await page.locator(".secret code").inner_text()


async def _webhook(page: Page, app: str, address: str) -> None:
    await page.goto(f"{app}/webhooks?new=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Address").or_(dialog.get_by_label("URL")).fill(address)
    await dialog.get_by_label("Name").fill("Start parcels")
    await dialog.get_by_role("button", name="New webhook").click()
    await expect(dialog.locator(".secret code")).to_contain_text("whsec_")
    await dialog.get_by_role("button", name="I have saved it").click()
    await expect(page.get_by_role("heading", name="Start parcels", level=1)).to_be_visible()


async def _let_another_app_sign_in(page: Page, app: str) -> None:
    await page.goto(f"{app}/oauth")
    await page.get_by_role("button", name="Become a provider").click()
    await page.get_by_role("button", name="New client").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Harbour map")
    await (
        dialog.get_by_label("Redirect addresses")
        .or_(dialog.get_by_label("Redirect URLs"))
        .fill("https://harbour.example/callback")
    )
    await dialog.get_by_role("button", name="New client").click()
    await expect(dialog.locator(".secret code")).to_have_count(2)
    _, secret = await dialog.locator(".secret code").all_inner_texts()
    await dialog.get_by_role("button", name="I have saved it").click()
    await page.get_by_role("link", name="Try", exact=True).click()
    await page.get_by_role("button", name="Create URL").click()
    await page.context.route("https://harbour.example/**", lambda route: route.fulfill(body="back"))
    back = await _consent(page, page.context)
    await page.get_by_label("URL that the browser was redirected to").fill(back)
    await page.get_by_label("Client secret").fill(secret)
    await page.get_by_role("button", name="Get tokens").click()
    await expect(page.get_by_role("region", name="Claims of the ID token")).to_be_visible()
    await page.get_by_role("link", name="Grants").click()
    await expect(page.get_by_role("row").filter(has_text="Harbour map")).to_contain_text("valid")


async def _consent(page: Page, context: BrowserContext) -> str:
    """Sign in as the member that the first steps made, consent, and return where that leads to."""
    async with context.expect_page() as opened:
        await page.get_by_role("link", name="Open in a new tab").click()
    member = await opened.value
    await member.fill("#login", "otter_42")
    await member.fill("#password", "correct horse battery")
    await member.get_by_role("button", name="Sign in", exact=True).click()
    await member.click("#allow")
    await member.wait_for_url("https://harbour.example/callback**")
    return member.url
