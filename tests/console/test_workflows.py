"""Workflows in the console: steps are put together, run, watched while they run, and replayed after a failure."""

import re

from playwright.async_api import Page, expect

from tests.chromium import keep_picture
from tests.console import user_with
from tests.console.conftest import Opening, obstacles, sign_in
from tests.functions.support import Functions
from tests.support import App, Server, plain_client
from tests.workflows.support import Workflows

BROKEN = "export default (payload, ctx) => { ctx.log.warn('<b>seen</b>'); throw new Error('<i>out of stock</i>'); };\n"
MENDED = "export default (payload) => ({ shipped: payload.order });\n"
ENDLESS = "export default async () => { await new Promise(() => setInterval(() => 0, 1000)); };\n"


async def add_step(page: Page, kind: str) -> None:
    await page.get_by_role("button", name="Add step").first.click()
    await page.get_by_role("menuitem", name=kind).click()
    await expect(page.get_by_role("complementary", name="Step")).to_be_visible()


async def test_steps_are_put_together_checked_saved_and_run(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows?new=1")
        dialog = page.get_by_role("dialog", name="New workflow")
        await dialog.get_by_label("Name").fill("large orders")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="New workflow").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("large orders")

        panel = page.get_by_role("complementary", name="Step")
        await add_step(page, "Condition")
        await panel.get_by_label("Id", exact=True).fill("is-large")
        await add_step(page, "Merge")
        await panel.get_by_label("Id", exact=True).fill("invoice")
        await panel.get_by_label("Input", exact=False).first.fill('{"amount": "$.input.total"}')
        graph = page.get_by_role("group", name="Steps as a graph")
        await graph.get_by_role("button", name="is-large").click()
        # An invalid condition is reported at its field, and cannot be saved.
        await panel.get_by_label("Condition").fill('{"$.input.total": {"$above": 100}}')
        await expect(panel.get_by_role("alert")).to_contain_text("$above")
        save = page.get_by_role("button", name="Save version 2")
        await expect(save).to_have_attribute("aria-disabled", "true")
        assert await obstacles(page, axe) == []
        await panel.get_by_label("Condition").fill('{"$.input.total": {"$gte": 100}}')
        await panel.get_by_role("group", name="If true, run").get_by_label("invoice").check()
        await expect(panel.get_by_role("alert")).to_have_count(0)
        await expect(graph.get_by_text("true", exact=True)).to_be_visible()

        await panel.get_by_role("button", name="Close").click()
        whole = page.get_by_role("complementary", name="Workflow")
        await whole.get_by_label("On a schedule").check()
        await whole.get_by_label("Times").fill("30 6 * * 1-5")
        await whole.get_by_label("Time zone").fill("Asia/Seoul")
        await expect(whole.get_by_role("status").get_by_role("listitem")).to_have_count(5)
        # What is typed stays while one looks elsewhere.
        await page.get_by_role("link", name="Versions").click()
        await expect(page.get_by_role("row").filter(has_text="v1")).to_contain_text("current")
        await page.get_by_role("link", name="Definition").click()
        await expect(whole.get_by_label("Times")).to_have_value("30 6 * * 1-5")
        await expect(save).not_to_have_attribute("aria-disabled", "true")
        await save.click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        await expect(page.get_by_role("button", name="Save version 3")).to_have_attribute("aria-disabled", "true")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-workflow")

        await page.get_by_role("button", name="Run", exact=True).click()
        starting = page.get_by_role("dialog", name="Start an execution")
        await starting.get_by_label("Input").fill("[]")
        await expect(starting.get_by_role("alert")).to_contain_text("object")
        await starting.get_by_label("Input").fill('{"total": 120}')
        assert await obstacles(page, axe) == []
        await starting.get_by_role("button", name="Run").click()
        await expect(page.locator("header .pill")).to_have_text("completed")
        await expect(page.get_by_role("region", name="Output")).to_contain_text('"amount": 120')
        await graph.get_by_role("button", name="is-large").click()
        await expect(graph.get_by_role("button", name="is-large")).to_contain_text("true")
        await expect(page.get_by_role("region", name="Output")).to_contain_text('"result": true')
        assert await obstacles(page, axe) == []

        await page.goto(f"{server.url}/console/apps/{app.app_id}/workflows")
        row = page.get_by_role("row").filter(has_text="large orders")
        await expect(row).to_contain_text("completed")
        await expect(row).to_contain_text("30 6 * * 1-5")


async def test_an_earlier_version_is_compared_and_edited_again(
    server: Server, app: App, workflows: Workflows, visit: Opening, axe: str
) -> None:
    workflow_id = await workflows.made([{"step_type": "merge", "id": "first"}], "two versions")
    answer = await workflows.console.put(
        f"{workflows.base}/{workflow_id}",
        json={"name": "two versions", "steps": [{"step_type": "merge", "id": "second"}]},
    )
    assert answer.status_code == 200, answer.text
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow_id}/versions?version=2")
        await expect(page.locator(".removed")).to_contain_text("first")
        await expect(page.locator(".added")).to_contain_text("second")
        assert await obstacles(page, axe) == []
        await page.get_by_role("row").filter(has_text="v1").get_by_role("button").click()
        await page.get_by_role("button", name="Edit from this version").click()
        graph = page.get_by_role("group", name="Steps as a graph")
        await expect(graph.get_by_role("button", name="first")).to_be_visible()
        await page.get_by_role("button", name="Discard changes").click()
        await expect(graph.get_by_role("button", name="second")).to_be_visible()
        await page.get_by_role("button", name="JSON").click()
        dialog = page.get_by_role("dialog", name="Definition")
        await dialog.get_by_label("JSON").fill('{"steps": [')
        await dialog.get_by_role("button", name="Use this definition").click()
        await expect(dialog.get_by_role("alert")).to_be_visible()
        await dialog.get_by_label("JSON").fill('{"steps": [{"step_type": "merge", "id": "third"}]}')
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Use this definition").click()
        await expect(graph.get_by_role("button", name="third")).to_be_visible()


async def test_a_workflow_is_switched_off_without_a_new_version(
    server: Server, app: App, workflows: Workflows, visit: Opening
) -> None:
    workflow_id = await workflows.made([{"step_type": "merge", "id": "first"}], "switched")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow_id}")
        await page.get_by_label("Active", exact=True).click()
        await expect(page.get_by_role("button", name="Run", exact=True)).to_have_attribute("aria-disabled", "true")
    workflow = (await workflows.console.get(f"{workflows.base}/{workflow_id}")).json()
    assert (workflow["is_active"], workflow["version"]) == (False, 1)


async def test_an_execution_is_watched_cancelled_and_replayed_from_the_step_that_failed(
    server: Server, app: App, workflows: Workflows, functions: Functions, visit: Opening, axe: str
) -> None:
    function_id = await functions.made("ship", BROKEN)
    await functions.made("endless", ENDLESS)
    steps = [
        {"step_type": "merge", "id": "prepare", "input_mapping": {"order": "$.input.order"}},
        {"step_type": "function", "id": "ship", "name": "<b>Ship</b>", "function_id": "ship"},
    ]
    failing = await workflows.made(steps, "shipping")
    endless = await workflows.made([{"step_type": "function", "id": "wait", "function_id": "endless"}], "patience")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{failing}")
        await expect(page.get_by_text("No executions yet")).to_be_visible()
        await expect(page.get_by_text("Live")).to_be_visible()
        # The list is live: an execution that another user starts appears automatically.
        failed = await workflows.start(failing, {"order": 7})
        row = page.get_by_role("row").filter(has_text="failed")
        await expect(row).to_contain_text("failed <i>out of stock</i>")
        await row.get_by_role("link").click()
        await expect(page.locator("header .pill")).to_have_text("failed")
        await page.get_by_role("button", name="Show the step").click()
        panel = page.get_by_role("complementary", name="Step")
        await expect(panel).to_contain_text("<i>out of stock</i>")
        await expect(panel.get_by_role("list", name="Log")).to_contain_text("<b>seen</b>")
        await panel.get_by_role("button", name="Input").click()
        await expect(panel.get_by_role("region", name="Input")).to_contain_text('"order": 7')
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-execution")
        await page.set_viewport_size({"width": 390, "height": 844})
        await keep_picture(page, "console-execution-phone")
        await page.set_viewport_size({"width": 1280, "height": 860})

        assert (await functions.deploy(function_id, MENDED)).status_code == 201
        await page.get_by_role("button", name="Replay").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Start")).to_have_value("failed_step")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Replay").click()
        await expect(page.locator("header .pill")).to_have_text("completed")
        assert failed not in page.url
        await expect(page.get_by_role("region", name="Output")).to_contain_text('"shipped": 7')

        running = await workflows.start(endless)
        await page.goto(f"{server.url}/console/apps/{app.app_id}/workflows/{endless}/runs/{running}")
        graph = page.get_by_role("group", name="Steps as a graph")
        await expect(graph.get_by_role("button", name="wait")).to_contain_text("running")
        await expect(page.locator("header .pill")).to_have_text("running")
        assert await obstacles(page, axe) == []
        await page.get_by_role("button", name="Cancel execution").click()
        await expect(page.locator("header .pill")).to_have_text("cancelled")
        await expect(graph.get_by_role("button", name="wait")).to_contain_text("cancelled")
    assert (await workflows.read(endless, running))["status"] == "cancelled"


async def test_a_trigger_url_is_made_called_replaced_and_deleted(
    server: Server, app: App, workflows: Workflows, visit: Opening, axe: str
) -> None:
    workflow_id = await workflows.made([{"step_type": "merge", "id": "keep", "input_mapping": {"got": "$.input"}}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow_id}/trigger")
        await expect(page.get_by_text("No trigger URL")).to_be_visible()
        await page.get_by_role("button", name="Create trigger URL").click()
        url = await page.locator(".secret code").inner_text()
        assert url.startswith(f"{server.url}/v1/triggers/")
        assert await obstacles(page, axe) == []
        test = page.get_by_role("region", name="Test call")
        await test.get_by_label("Body").fill('{"order": 9}')
        await test.get_by_role("button", name="Send").click()
        await expect(test.get_by_role("status")).to_contain_text("202")
        assert await obstacles(page, axe) == []

        await page.get_by_role("button", name="Replace URL").click()
        await page.get_by_role("dialog").get_by_role("button", name="Replace URL").click()
        await expect(page.get_by_text("The previous URL works until")).to_be_visible()
        assert await page.locator(".secret code").inner_text() != url
        await test.get_by_role("link", name="Show the execution").click()
        await expect(page.locator("header .pill")).to_have_text("completed")
        await expect(page.get_by_role("region", name="Output")).to_contain_text('"order": 9')

        await page.go_back()
        await page.get_by_role("button", name="Delete trigger URL").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete trigger URL").click()
        await expect(page.get_by_text("No trigger URL")).to_be_visible()
    async with plain_client(server.url) as client:
        assert (await client.post(url)).status_code == 404


async def test_a_viewer_sees_executions_without_their_data_and_cannot_act(
    server: Server, app: App, workflows: Workflows, visit: Opening, axe: str
) -> None:
    viewer = await user_with(app, "viewer")
    steps = [{"step_type": "merge", "id": "keep", "input_mapping": {"secret": "$.input.secret"}}]
    workflow_id = await workflows.made(steps, "only looked at")
    run = await workflows.start(workflow_id, {"secret": "needle"})
    await workflows.reached(workflow_id, run)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow_id}/runs/{run}", email=viewer.email)
        await expect(page.locator("header .pill")).to_have_text("completed")
        reason = re.compile("viewer")
        await expect(page.get_by_role("button", name="Replay")).to_have_attribute("title", reason)
        panel = page.get_by_role("complementary", name="Execution")
        await expect(panel).to_contain_text(reason)
        assert "needle" not in await page.content()
        await page.get_by_role("link", name="only looked at").click()
        await expect(page.get_by_role("button", name="Run", exact=True)).to_have_attribute("title", reason)
        await page.get_by_role("link", name="Definition").click()
        whole = page.get_by_role("complementary", name="Workflow")
        await expect(whole.get_by_label("Name")).to_be_disabled()
        await expect(page.get_by_role("button", name="Save version 2")).to_have_attribute("title", reason)
        assert await obstacles(page, axe) == []


async def test_a_repeated_delivery_is_known_by_what_is_chosen(
    server: Server, app: App, workflows: Workflows, visit: Opening, axe: str
) -> None:
    workflow_id = await workflows.made([{"step_type": "merge", "id": "only"}], "repeated")
    path = f"{workflows.base}/{workflow_id}/trigger"
    assert (await workflows.console.post(path, json={})).status_code == 201
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow_id}/trigger")
        for choice, label, value, known in (
            ("header", "Header", "X-GitHub-Delivery", {"header": "X-GitHub-Delivery"}),
            ("path", "Path into the body", "$.event.id", {"path": "$.event.id"}),
            ("nothing", "", "", None),
        ):
            await page.get_by_role("button", name="Change", exact=True).click()
            dialog = page.get_by_role("dialog", name="Repeated deliveries")
            await dialog.get_by_label("A repetition is known by").select_option(choice)
            if label:
                await dialog.get_by_label(label).fill(value)
            assert await obstacles(page, axe) == []
            await dialog.get_by_role("button", name="Save").click()
            await expect(dialog).to_be_hidden()
            assert (await workflows.console.get(path)).json()["dedupe"] == known


async def test_a_late_frame_does_not_undo_what_was_read_at_the_end(
    server: Server, app: App, workflows: Workflows, visit: Opening
) -> None:
    steps = [{"step_type": "merge", "id": "keep", "input_mapping": {"order": "$.input.order"}}]
    workflow_id = await workflows.made(steps, "quick")
    run = await workflows.start(workflow_id, {"order": 7})
    await workflows.reached(workflow_id, run)
    async with visit("about:blank") as page:
        # As in a tab that is behind another one.
        await page.add_init_script("window.requestAnimationFrame = (draw) => setTimeout(draw, 2000)")
        await sign_in(page, server, f"/apps/{app.app_id}/workflows/{workflow_id}/runs/{run}")
        await expect(page.locator("header .pill")).to_have_text("completed")
        await page.wait_for_timeout(3000)
        await expect(page.get_by_role("region", name="Output")).to_contain_text('"order": 7')
