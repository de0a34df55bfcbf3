"""What strangers write: none of it runs in the console, turns a line around, or makes a screen wider."""

import json
import re

from playwright.async_api import Page, expect

from tests.acceptance.test_dead_jobs import dead
from tests.console import ConsoleClient, owner_of
from tests.console.conftest import Opening, sign_in
from tests.console.furnished import json_of
from tests.console.rows import cell, stored, until_stored
from tests.functions.support import Functions
from tests.hosting.sites import zipped
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks import world
from tests.webhooks.test_integrations import declare, publish
from tests.whole import sample
from tests.workflows.support import Workflows

BAD = "\u202e<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>\u2066{{7*7}}${7*7}"
# Characters without a look of their own, and words that run from right to left.
HIDDEN = "\u200b\u061c\u00ad\u2060\u2028\ufeff\U000e0041\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
CONTROL = "\x07\x1b[31m\x7f\x85"
ODD = BAD + HIDDEN + "w" * 200
FILE = "\u202egpj.\u200b<b onclick=alert(1)>" + "w" * 100
LONG = BAD + "m" * 100_000
SOURCE = """export default (payload) => {
  console.error(payload.bad, "w".repeat(5000));
  if (payload.fails) throw new Error(payload.bad);
  return { [payload.bad]: payload.bad };
};
"""
# What would turn a text around or hide in it where a person reads it; what is typed into fields stays as it is. And
# what can be pressed, but is outside of the window and of all that scrolls.
TURNED = r"""() => {
  const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
  const turned = /[\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\udb40/;
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join("");
    const said = ["title", "aria-label"].map((name) => one.getAttribute(name) || "").join("");
    if ((turned.test(own + said) || control.test(own + said)) && !["SCRIPT", "TEXTAREA"].includes(one.tagName)) {
      found.push(`${one.tagName}.${one.className}: ${(own + said).slice(0, 60)}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push("scrolls sideways");
  for (const one of document.querySelectorAll("a[href], button, input, select, textarea")) {
    const box = one.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1.5 || one.closest("[aria-hidden], .sr, .skip, [hidden]")) continue;
    let around = one.parentElement;
    while (around && (getComputedStyle(around).overflowX !== "auto" || around.scrollWidth <= around.clientWidth)) {
      around = around.parentElement;
    }
    if (!around) found.push(`out of reach: ${one.outerHTML.slice(0, 100)}`);
  }
  if (window.hacked || document.querySelector("img[src=x]")) found.push("was run");
  return found;
}"""


# The dialogs of a screen that show what strangers wrote, by a button that opens each.
DIALOGS = {
    "deployments": {"difference": r"^[+~]\d", "roll back": "^Roll back"},
    "site": {"edit page": "^Edit"},
    "site settings": {"delete": "^Delete site"},
    "webhook": {"edit": "^Edit webhook", "delete": "^Delete webhook", "rotate": "^Replace the secret"},
    "clients": {"edit": "^Edit ⟨", "delete": "^Delete ⟨", "rotate": "^Replace"},
    "scopes": {"edit": "^Edit", "delete": "^Delete"},
}


async def _are_ready(console: ConsoleClient, site: str) -> bool:
    found = (await json_of(console, "GET", f"/storages/webs/{site}/deployments"))["deployments"]
    return bool(found) and all(one["status"] != "processing" for one in found)


async def _fill(app: App, functions: Functions, workflows: Workflows, receiver: Receiver) -> dict[str, str]:
    """Fill an app with hostile texts and return the addresses of the screens that show them."""
    receiver.answers["/hook"] = world.status(500, f"X-Bad: {BAD[1:75]}\x9b", body=f"{ODD}{CONTROL}".encode())
    table = await app.table({"text": "string"}, title=BAD, access_level="Public")
    function = await functions.made("bad", SOURCE, description=BAD)
    assert (await functions.deploy(function, SOURCE, message=BAD)).status_code == 201
    for fails in (False, True):
        await functions.call("bad", {"bad": f"{ODD}{CONTROL}", "fails": fails})
    step = {
        "step_type": "function",
        "id": "one",
        "name": BAD,
        "function_id": "bad",
        "input_mapping": {"bad": "$.input.bad", "fails": "$.input.fails"},
    }
    workflow = await workflows.made([step], BAD, description=BAD)
    runs = [await workflows.start(workflow, {"bad": ODD, "fails": fails}) for fails in (False, True)]
    for run in runs:
        await workflows.reached(workflow, run)
    job = await dead(app.server, app, error=json.dumps({"code": BAD, "message": f"{ODD}{CONTROL}"}))
    async with owner_of(app).client(app) as console:
        site = (await json_of(console, "POST", "/storages/webs", json={"name": BAD}))["id"]
        metas = f"{app.server.url}/v1/public/storages/webs/{site}/page-metas"
        headers = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {app.secret_key}"}
        body = {"path": "/bad", "title": BAD, "description": BAD, "image": "https://example.com/<script>"}
        for content in (b"<h1>1</h1>", b"<h1>2</h1>"):
            form = {"file": ("site.zip", zipped({f"{FILE}.html": content, "index.html": content}), "application/zip")}
            await json_of(console, "POST", f"/storages/webs/{site}/deploy", files=form, data={"message": ODD})
        form = {"file": ("site.zip", b"PK\x03\x04 no archive", "application/zip")}
        await console.post(f"/storages/webs/{site}/deploy", files=form, data={"message": ODD})
        await until(lambda: _are_ready(console, site))
        console.prefix = ""
        answer = await console.put(metas, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
    async with owner_of(app).client(app) as console:
        await json_of(console, "PUT", "/oauth/settings", json={"is_provider": True})
        await json_of(console, "PUT", "/oauth/scopes/bad:read", json={"title": BAD, "description": BAD})
        client = {"name": BAD, "redirect_uris": ["https://bad.example/back"], "scopes": ["openid", "bad:read"]}
        await json_of(console, "POST", "/oauth/clients", json=client)
        await declare(app)
        hook = {"url": receiver.url("/hook"), "name": BAD, "event_types": ["row.*", "order.*"]}
        webhook = (await json_of(console, "POST", "/webhooks", json=hook))["id"]
        await app.row(table, {"text": LONG})
        order = {"event_type": "order.created", "data": {BAD: BAD}, "subject": BAD}
        event = (await publish(app, order)).json()["id"]

        async def attempted() -> str | None:
            found = (await json_of(console, "GET", f"/webhooks/{webhook}/logs"))["data"]
            return next((one["id"] for one in found if one["attempt_count"]), None)

        delivery = await until(attempted)
        calls = (await json_of(console, "GET", f"/functions/{function}/executions"))["data"]
        events = (await json_of(console, "GET", "/events"))["data"]
        row = next(one["id"] for one in events if one["event_type"] == "row.created")
        saved = {"name": "v", "table_id": table, "pipeline": [{"$count": BAD.replace(".", "")}], "description": BAD}
        view = (await json_of(console, "POST", "/views", json=saved))["id"]
    assert job
    return {
        "sites": "/sites",
        "deployments": f"/sites/{site}",
        "site": f"/sites/{site}/pages",
        "site settings": f"/sites/{site}/settings",
        "functions": f"/functions/{function}/versions",
        "logs": f"/functions/{function}/logs",
        **{f"call {number}": f"/functions/{function}/runs?run={call['id']}" for number, call in enumerate(calls[:2])},
        "workflows": "/workflows",
        "steps": f"/workflows/{workflow}/steps?step=one",
        "executions": f"/workflows/{workflow}",
        **{f"run {number}": f"/workflows/{workflow}/runs/{run}?step=one" for number, run in enumerate(runs)},
        **{f"whole run {number}": f"/workflows/{workflow}/runs/{run}" for number, run in enumerate(runs)},
        "webhooks": "/webhooks",
        "webhook": f"/webhooks/{webhook}",
        "delivery": f"/webhooks/{webhook}?delivery={delivery}",
        "event": f"/webhooks/events?event={event}",
        "long event": f"/webhooks/events?event={row}",
        "jobs": "/webhooks/jobs",
        "clients": "/oauth",
        "scopes": "/oauth/scopes",
        "try": "/oauth/try",
        "aggregate": f"/tables/{table}/aggregate",
        "diagram": "/diagram",
        "views": "/views",
        "view": f"/views/{view}",
        "overview": "",
    }


async def _shown(page: Page) -> list[str]:
    await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
    await expect(page.locator(".bone, [aria-busy=true]")).to_have_count(0)
    return list(await page.evaluate(TURNED))


async def test_hostile_texts_are_shown_as_texts(
    server: Server, app: App, functions: Functions, workflows: Workflows, visit: Opening
) -> None:
    found: dict[str, list[str]] = {}
    async with Receiver.listening() as receiver, visit("about:blank", width=390, height=844) as page:
        screens = await _fill(app, functions, workflows, receiver)
        await sign_in(page, server, "/profile")
        for name, path in sample(screens.items(), 0.25):
            await page.goto(f"{server.url}/console/apps/{app.app_id}{path}")
            found[name] = await _shown(page)
            await page.set_viewport_size({"width": 1440, "height": 900})
            found[f"{name}, wide"] = await _shown(page)
            for label, button in DIALOGS.get(name, {}).items():
                await page.get_by_role("button", name=re.compile(button)).first.click()
                await expect(page.get_by_role("dialog")).to_be_visible()
                found[f"{name}: {label}"] = await _shown(page)
                await page.set_viewport_size({"width": 390, "height": 844})
                found[f"{name}: {label}, narrow"] = await _shown(page)
                await page.set_viewport_size({"width": 1440, "height": 900})
                await page.keyboard.press("Escape")
                await expect(page.get_by_role("dialog")).to_have_count(0)
            await page.set_viewport_size({"width": 390, "height": 844})
        # A test run shows what the function answered and wrote.
        await page.goto(f"{server.url}/console/apps/{app.app_id}{screens['functions'].removesuffix('/versions')}")
        await page.get_by_label("Payload").fill(json.dumps({"bad": BAD}))
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_contain_text("⟨U+202E⟩<img src=x")
        found["result"] = await _shown(page)
    assert {name: said for name, said in found.items() if said} == {}


async def test_a_grid_of_two_hundred_columns_and_texts_of_a_megabyte_stays_a_grid(
    server: Server, app: App, visit: Opening
) -> None:
    columns = {f"column_{number:03}": "string" for number in range(199)} | {"extras": "object"}
    table = await app.table(columns, title="wide")
    huge = "m" * 1_000_000
    await app.row(table, {"column_000": huge})
    await app.row(table, {"column_001": f"{BAD}\n" * 4000, "extras": {"text": huge[:500_000]}})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}")
        cells = page.get_by_role("gridcell")
        await expect(cell(page, 1, 1)).to_contain_text("mmm")
        assert await page.evaluate(TURNED) == []
        # Only what is in view is an element, and of a long text its beginning.
        assert await cells.count() < 60
        assert await page.evaluate("document.querySelector('.grid').innerText.length") < 3000
        # The last columns are one key away.
        await cell(page, 2, 2).click()
        await page.keyboard.press("End")
        await expect(cell(page, 2, 200)).to_contain_text('{"text":"mmm')
        assert await cells.count() < 60
        # A row with a long text is edited, and the text stays as it is.
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("ArrowRight")
        await page.keyboard.type("small")
        await page.keyboard.press("Enter")
        await expect(cell(page, 1, 2)).to_have_text("small")
        await until_stored(app, table, "column_001", ["small", f"{BAD}\n" * 4000])
        for row in (1, 2):
            await cell(page, row, 1).click(button="right")
            await page.get_by_role("menuitem", name="Open row").click()
            await expect(page.get_by_role("complementary", name=f"Row {row}").locator("dt")).to_have_count(200)
            panel = page.get_by_role("complementary", name=f"Row {row}")
            assert await panel.evaluate("panel => panel.innerText.length") < 20_000
            assert await page.evaluate(TURNED) == []
        await page.set_viewport_size({"width": 390, "height": 844})
        assert await page.evaluate(TURNED) == []
    assert [row.get("column_000") for row in await stored(app, table)] == [huge, None]
