"""The screens of an app in use for each role: what it may not do is disabled, and nothing is refused."""

import re
from functools import partial

import pytest
from playwright.async_api import Page, Request, Response, expect

from tests.conftest import PASSWORD
from tests.console import user_with
from tests.console.conftest import Opening, sign_in
from tests.console.furnished import Furnished
from tests.console.in_use import nothing, screens_of
from tests.support import App, Server
from tests.waiting import until
from tests.whole import WHOLE

# Requests that change nothing although they are no GET: an aggregation, and the next times of a schedule.
READS = re.compile(r"/(aggregate|query|validate|cron|schedule-preview|preview|batch)\b")
# What is pressed in a definition changes only the draft in the page; a new row is written beside the grid.
LOCAL = {"workflow-steps", "workflow-versions", "rows", "row", "views", "view"}
# What is pressed there only reads: a sign-in to try, and the stages of an aggregation.
HARMLESS = {"oauth-try", "aggregate"}
# The names of buttons that open a dialog, and change nothing before it is confirmed.
ASKING = re.compile(r"^(New|Edit|Delete|Replace|Add a|Remove|Roll back|Put live|Send a test|Resend|Revoke|Start)\b")
REASON = re.compile("editor role")
_NAMED = """(all) => all.map((one) => one.getAttribute("aria-label") || one.innerText.trim())"""
# By its name, and its place among those of that name: a list that is read again has its buttons at other places.
_PRESS = """(all, [name, at]) => {
    const one = all.filter((each) => (each.getAttribute("aria-label") || each.innerText.trim()) === name)[at];
    one?.click();
    return Boolean(one);
}"""


async def dialogs(page: Page) -> list[str]:
    """Open each dialog of a screen and leave it by Escape; return those that do not open, or cannot be confirmed."""
    found = []
    buttons = page.locator("main button.b:not([aria-disabled=true])")
    names = await buttons.evaluate_all(_NAMED)
    for place, name in enumerate(names):
        if not ASKING.match(name):
            continue
        at = names[:place].count(name)
        assert await until(partial(buttons.evaluate_all, _PRESS, [name, at])), name
        dialog = page.locator("dialog[open]")
        await expect(dialog).to_have_count(1)
        if "editor role" in (await dialog.locator("footer .b").last.get_attribute("title") or ""):
            found.append(f"{name} cannot be confirmed")
        await dialog.press("Escape")
        await expect(dialog).to_have_count(0)
    return found


# Nothing that an owner's screens read is refused in `test_in_use` either.
@pytest.mark.parametrize("role", ["viewer", "editor", pytest.param("owner", marks=pytest.mark.whole)])
async def test_what_a_role_may_not_do_is_disabled_with_a_reason_and_nothing_is_refused(
    server: Server, in_use: tuple[App, Furnished], visit: Opening, role: str
) -> None:
    app, content = in_use
    email = (await user_with(app, role)).email
    refused: list[str] = []
    silent: dict[str, list[str]] = {}
    disabled = 0

    def look(answer: Response) -> None:
        if answer.status in {401, 403}:
            refused.append(f"{answer.request.method} {answer.url} {answer.status}")

    changed: list[str] = []

    def sent(request: Request) -> None:
        if request.method not in {"GET", "HEAD"} and "/v1/auth/" not in request.url and not READS.search(request.url):
            changed.append(f"{request.method} {request.url}")

    async with visit("about:blank") as page:
        page.on("request", sent)
        await sign_in(page, server, "/profile", email, PASSWORD)
        await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
        page.on("response", look)
        async for name in screens_of(page, app, content, of=role):
            off = page.locator(
                "main :is(button[aria-disabled=true], input:disabled, fieldset:disabled, textarea[readonly])"
            )
            disabled += await off.count()
            silent[name] = await off.evaluate_all(
                "(all) => all.filter((one) => !one.closest('[title]')).map((one) => one.outerHTML.slice(0, 160))"
            )
            if role == "viewer" and name not in HARMLESS:
                # No button that would change something can be pressed.
                lively = page.locator("main .b.go:not([aria-disabled=true])")
                silent[name] += [f"can be pressed: {text}" for text in await lively.all_inner_texts()]
            # What is disabled does nothing when it is pressed all the same.
            await off.evaluate_all("(all) => all.forEach((one) => one.click())")
            silent[name] += [f"opened {await one.inner_text()}" for one in await page.locator("dialog[open]").all()]
            if role == "editor" and name not in LOCAL:
                silent[name] += await dialogs(page)
    assert refused == []
    assert changed == [], "Nothing was confirmed, so nothing may change."
    nothing(silent)
    assert disabled > (10 if role == "viewer" else 0) or not WHOLE


@pytest.mark.parametrize("role", ["viewer", "editor", "owner"])
async def test_the_definition_of_a_workflow_changes_only_for_editors(
    server: Server, in_use: tuple[App, Furnished], visit: Opening, role: str
) -> None:
    app, content = in_use
    user = await user_with(app, role)
    may = role != "viewer"
    workflow = f"/apps/{app.app_id}/workflows/{content.workflow}"
    async with visit("about:blank") as page:
        await sign_in(page, server, f"{workflow}/steps?step=steps%5B0%5D", user.email, PASSWORD)
        form = page.get_by_role("complementary")
        await expect(form.get_by_label("Name")).to_be_enabled(enabled=may)
        for name in ("Remove step", "Later"):
            button = form.get_by_role("button", name=name)
            await (expect(button).not_to_have_attribute if may else expect(button).to_have_attribute)(
                "aria-disabled", "true"
            )
            if not may:
                await expect(button).to_have_attribute("title", REASON)
        # The definition as JSON is for all to read.
        await page.get_by_role("button", name="JSON").click()
        dialog = page.get_by_role("dialog")
        confirm = dialog.locator("footer .b").last
        await (expect(confirm).not_to_have_attribute if may else expect(confirm).to_have_attribute)("title", REASON)
        await dialog.press("Escape")
        if may:
            await form.get_by_label("Name").fill("Price it")
            await expect(page.get_by_role("button", name="Save version 3")).not_to_have_attribute(
                "aria-disabled", "true"
            )
            await page.get_by_role("button", name="Discard").click()
        await page.goto(f"{server.url}/console{workflow}/versions?version=1")
        adopt = page.get_by_role("button", name="Edit from this version")
        if may:
            await adopt.click()
            await expect(page.get_by_role("button", name="Save version 3")).not_to_have_attribute(
                "aria-disabled", "true"
            )
        else:
            await expect(adopt).to_have_attribute("title", REASON)
            await adopt.evaluate("(one) => one.click()")
            assert "versions?version=1" in page.url
    async with user.client() as client:
        # What a viewer's page would send is refused; an editor's is judged by its content.
        answer = await client.put(workflow, json={"name": 1})
    assert answer.status_code == (400 if may else 403), answer.text
