"""An app with something on each screen, as if it were in use."""

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

from tests.acceptance.test_dead_jobs import dead
from tests.acceptance.test_files import put_at
from tests.console import ConsoleClient, owner_of
from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.support import App
from tests.waiting import until
from tests.webhooks import world
from tests.workflows.support import Workflows

PRICE = """type Order = { id: string; items: { price: number; count: number }[] };

export default async (payload: { order: Order }, ctx: any) => {
  ctx.log.info("pricing order", payload.order?.id ?? "without an id");
  if (!payload.order) throw new Error("The payload has no order.");
  const total = payload.order.items.reduce((sum, item) => sum + item.price * item.count, 0);
  if (total > 1000) ctx.log.warn("large order", total);
  return { id: payload.order.id, total };
};
"""
REFUSE = b'{"error": "The warehouse is closed on Sundays."}'
ORDER = {"id": "A-1042", "items": [{"price": 12.5, "count": 4}, {"price": 480, "count": 2}]}


DEAD = [
    ("functions.call", "The warehouse did not answer within 30 s."),
    ("hosting.unpack", "The archive has an entry outside its folder: ../../etc/passwd"),
]
PAGES = [
    ("/", "Orders", "Order books, and see when they arrive."),
    ("/menu", "What we sell", "Books, maps and tea, with prices."),
]


@dataclass
class Furnished:
    """The ids of what the app has; `screens` are the addresses of the console's screens below the app, by name."""

    site: str
    function: str
    workflow: str
    failed_run: str
    webhook: str
    delivery: str
    call: str
    table: str
    storage: str
    member: str

    @property
    def screens(self) -> dict[str, str]:
        function, workflow = f"/functions/{self.function}", f"/workflows/{self.workflow}"
        return {
            "overview": "",
            "tables": "/tables",
            "rows": f"/tables/{self.table}",
            "schema": f"/tables/{self.table}/schema",
            "calls": f"/tables/{self.table}/api",
            "member": f"/members?member={self.member}",
            "storage": f"/files/{self.storage}",
            "keys": "/keys",
            "people": "/settings/people",
            "limits": "/settings/limits",
            "sites": "/sites",
            "site": f"/sites/{self.site}",
            "site-pages": f"/sites/{self.site}/pages",
            "site-domains": f"/sites/{self.site}/domains",
            "site-settings": f"/sites/{self.site}/settings",
            "functions": "/functions",
            "function": function,
            "function-versions": f"{function}/versions",
            "function-runs": f"{function}/runs?run={self.call}",
            "function-metrics": f"{function}/metrics",
            "function-logs": f"{function}/logs",
            "function-variables": f"{function}/variables",
            "function-triggers": f"{function}/triggers",
            "function-settings": f"{function}/settings",
            "workflows": "/workflows",
            "workflow": workflow,
            "workflow-steps": f"{workflow}/steps",
            "workflow-trigger": f"{workflow}/trigger",
            "workflow-versions": f"{workflow}/versions?version=2",
            "workflow-run": f"{workflow}/runs/{self.failed_run}",
            "webhooks": "/webhooks",
            "webhook": f"/webhooks/{self.webhook}",
            "webhook-delivery": f"/webhooks/{self.webhook}?delivery={self.delivery}",
            "events": "/webhooks/events",
            "jobs": "/webhooks/jobs",
            "oauth": "/oauth",
            "oauth-scopes": "/oauth/scopes",
            "oauth-social": "/oauth/social",
            "oauth-grants": "/oauth/grants",
            "oauth-try": "/oauth/try",
            "oauth-keys": "/oauth/keys",
            "oauth-settings": "/oauth/settings",
        }


async def furnish(app: App, receiver: Receiver) -> Furnished:
    """Fill an app; the receiver gets its webhooks, and refuses those at `/warehouse`."""
    receiver.answers["/warehouse"] = world.status(503, body=REFUSE)
    for kind, message in DEAD:
        await dead(app.server, app, kind, error=json.dumps({"code": "FUNCTION_ERROR", "message": message}))
    table = await app.table({"customer": "string", "total": "number"}, title="orders", access_level="Public")
    functions, workflows = Functions(app), Workflows(app)
    async with owner_of(app).client(app) as console, functions.console, workflows.console:
        site = await _site(console)
        await _pages(app, site)
        function = await _function(functions)
        workflow, run = await _workflow(workflows)
        webhook, delivery = await _webhooks(app, console, receiver, table)
        await _oauth(console)
        member = (await app.member("grace-hopper"))["member_id"]
        storage = (await _json(console, "POST", "/storages/files", json={"name": "Receipts"}))["id"]
        async with app.client() as client:
            await put_at(client, f"/v1/public/storages/files/{storage}", "october.png")
        calls = await _json(console, "GET", f"/functions/{function}/executions")
        failed = next(one for one in calls["data"] if one["status"] != "success")
    return Furnished(site, function, workflow, run, webhook, delivery, failed["id"], table, storage, member)


async def _json(console: ConsoleClient, method: str, path: str, **options: Any) -> Any:
    answer = await console.request(method, path, **options)
    assert answer.status_code < 300, (method, path, answer.text)
    return answer.json()


def _archive(files: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return written.getvalue()


async def _site(console: ConsoleClient) -> str:
    site = (await _json(console, "POST", "/storages/webs", json={"name": "Order book"}))["id"]
    path = f"/storages/webs/{site}"
    files = {"index.html": "<title>Orders</title><h1>Orders</h1>", "assets/app.js": "console.log(1)"}
    for message, change in [
        ("First version", {}),
        ("Show totals beside each order", {"assets/app.js": "console.log(2)", "totals.html": "<h1>Totals</h1>"}),
        ("Autumn colours", {"assets/autumn.css": "h1 { color: brown }"}),
    ]:
        files |= change
        form = {"file": ("site.zip", _archive(files), "application/zip")}
        await _json(console, "POST", f"{path}/deploy", files=form, data={"message": message})
    await until(lambda: _all_ready(console, path, 3))
    files["assets/winter.css"] = "h1 { color: navy }"
    form = {"file": ("site.zip", _archive(files), "application/zip")}
    message = {"message": "Winter colours, for the shop to look at"}
    await _json(console, "POST", f"{path}/deploy", params={"target": "qa"}, files=form, data=message)
    await until(lambda: _all_ready(console, path, 4))
    await _json(console, "POST", f"{path}/domains", json={"hostname": f"orders-{site[-12:]}.example"})
    return site


async def _pages(app: App, site: str) -> None:
    async with app.client(app.secret_key) as client:
        for path, title, description in PAGES:
            body = {"path": path, "title": title, "description": description}
            answer = await client.put(f"/v1/public/storages/webs/{site}/page-metas", json=body)
            assert answer.status_code == 200, answer.text


async def _all_ready(console: ConsoleClient, path: str, number: int) -> bool:
    found = (await _json(console, "GET", f"{path}/deployments"))["deployments"]
    return len(found) == number and all(one["status"] == "ready" for one in found)


async def _function(functions: Functions) -> str:
    function = await functions.made("price-order", {"index.ts": PRICE}, invoke_access="Public")
    answer = await functions.deploy(function, {"index.ts": PRICE.replace("1000", "500")}, message="Warn at 500")
    assert answer.status_code == 201, answer.text
    for number in range(6):
        await functions.console.post(f"{functions.base}/{function}/invoke", json={"payload": {"order": ORDER}})
        if number % 3 == 2:
            await functions.console.post(f"{functions.base}/{function}/invoke", json={"payload": {}})
    triggers = f"{functions.base}/{function}/triggers"
    for body in (
        {"type": "schedule", "cron": "30 6 * * 1-5", "timezone": "Asia/Seoul"},
        {"type": "event", "events": ["row.created", "row.updated"]},
    ):
        assert (await functions.console.post(triggers, json=body)).status_code == 201
    await functions.console.put(f"{functions.base}/{function}/env/PAYMENT_KEY", json={"value": "a secret"})

    async def recorded() -> bool:
        return (await functions.console.get(f"{functions.base}/{function}/executions")).json()["total_count"] >= 8

    await until(recorded)
    return function


async def _workflow(workflows: Workflows) -> tuple[str, str]:
    steps: list[dict[str, Any]] = [
        {"step_type": "function", "id": "price", "name": "Price the order", "function_id": "price-order",
         "input_mapping": {"order": "$.input.order"}},
        {"step_type": "condition", "id": "is-large", "condition": {"$.steps.price.output.total": {"$gte": 500}},
         "on_true": ["review"], "on_false": ["confirm"]},
        {"step_type": "merge", "id": "review", "name": "Ask somebody to look"},
        {"step_type": "merge", "id": "confirm", "name": "Confirm to the customer"},
    ]  # fmt: skip
    workflow = await workflows.made(steps[:1], "Orders from the shop")
    answer = await workflows.console.put(
        f"{workflows.base}/{workflow}",
        json={
            "name": "Orders from the shop",
            "description": "Prices each order, and asks for a review of large ones.",
            "steps": steps,
            "schedule_cron": "0 7 * * *",
            "schedule_timezone": "Europe/Berlin",
            "initial_input": {"order": ORDER},
        },
    )
    assert answer.status_code == 200, answer.text
    assert (await workflows.console.post(f"{workflows.base}/{workflow}/trigger", json={})).status_code == 201
    await workflows.reached(workflow, await workflows.start(workflow, {"order": ORDER}))
    failing = await workflows.start(workflow, {"order": None})
    await workflows.reached(workflow, failing)
    return workflow, failing


async def _webhooks(app: App, console: ConsoleClient, receiver: Receiver, table: str) -> tuple[str, str]:
    await _json(
        console,
        "POST",
        "/webhooks",
        json={"url": receiver.url("/ledger"), "name": "Ledger", "event_types": ["row.created", "row.updated"]},
    )
    made = await _json(
        console,
        "POST",
        "/webhooks",
        json={"url": receiver.url("/warehouse"), "name": "Warehouse", "event_types": ["row.*"], "table_ids": [table]},
    )
    for number in range(4):
        await app.row(table, {"customer": f"Customer {number}", "total": 12.5 * number})
    found: list[dict[str, Any]] = []

    async def attempted() -> bool:
        found[:] = (await _json(console, "GET", f"/webhooks/{made['id']}/logs"))["data"]
        return any(one["attempt_count"] for one in found)

    await until(attempted)
    return made["id"], next(one["id"] for one in found if one["attempt_count"])


async def _oauth(console: ConsoleClient) -> None:
    await _json(console, "PUT", "/oauth/settings", json={"is_provider": True})
    scope = {
        "title": "Read your orders",
        "description": "What you ordered, when, and for how much.",
        "is_default": True,
    }
    await _json(console, "PUT", "/oauth/scopes/orders:read", json=scope)
    for name in ("Books", "Parcel tracking for shops"):
        body = {
            "name": name,
            "redirect_uris": [f"https://{name.split()[0].lower()}.example/callback"],
            "scopes": ["openid", "profile", "orders:read"],
        }
        await _json(console, "POST", "/oauth/clients", json=body)
    await _json(
        console, "PUT", "/oauth/social/GOOGLE", json={"client_id": "id-from-vendor", "client_secret": "from-vendor"}
    )
