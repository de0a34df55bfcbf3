"""An app with something on each screen, as if it were in use."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.acceptance.test_dead_jobs import dead
from tests.acceptance.test_files import put_at
from tests.console import ConsoleClient, database_of, owner_of
from tests.functions.support import Functions
from tests.hosting.sites import zipped
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


ORDERS = {
    "customer": {"type": "string", "required": True},
    "total": "number",
    "books": "int",
    "paid": "boolean",
    "placed": "date",
    "card": {"type": "string", "encrypted": True},
    "address": "object",
    "notes": "string",
}
# Of each kind of value one after another: none, no text, null, a text.
NOTES: list[dict[str, Any]] = [{}, {"notes": ""}, {"notes": None}, {"notes": "Ring twice: 두 번 눌러 주세요."}]
DAYS = 30
VIEW = {
    "name": "best-customers",
    "description": "The customers who have paid most, for the page of thanks.",
    "params": {"since": {"type": "date", "default": "2026-01-01"}, "top": {"type": "int", "default": 3}},
    "pipeline": [
        {"$match": {"paid": True, "placed": {"$gte": {"$param": "since"}}}},
        {"$group": {"_id": "$customer", "total": {"$sum": "$total"}}},
        {"$sort": {"total": -1}},
        {"$limit": {"$param": "top"}},
    ],
    "run_as": "app",
    "read": {"$member": {"roles": {"$arrayContains": "staff"}}},
    "cache_seconds": 300,
}


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
    row: str
    view: str
    storage: str
    file: str
    member: str
    mail: str
    team: str

    @property
    def screens(self) -> dict[str, str]:
        function, workflow = f"/functions/{self.function}", f"/workflows/{self.workflow}"
        return {
            "overview": "",
            "activity": "/activity",
            "requests": "/activity/requests",
            "metrics": "/activity/metrics?period=month",
            "tables": "/tables",
            "diagram": "/diagram",
            "views": "/views",
            "view": f"/views/{self.view}",
            "rows": f"/tables/{self.table}",
            "row": f"/tables/{self.table}?row={self.row}",
            "schema": f"/tables/{self.table}/schema",
            "indexes": f"/tables/{self.table}/indexes",
            "aggregate": f"/tables/{self.table}/aggregate",
            "calls": f"/tables/{self.table}/api",
            "table-settings": f"/tables/{self.table}/settings",
            "member": f"/members?member={self.member}",
            "team": f"/teams?team={self.team}",
            "files": "/files",
            "storage": f"/files/{self.storage}",
            "file": f"/files/{self.storage}?file={self.file}",
            "keys": "/keys",
            "people": "/settings/people",
            "plan": "/settings/plan",
            "limits": "/settings/limits",
            "trash": "/settings/trash",
            "sites": "/sites",
            "site": f"/sites/{self.site}",
            "site-ci": f"/sites/{self.site}/ci",
            "site-pages": f"/sites/{self.site}/pages",
            "site-domains": f"/sites/{self.site}/domains",
            "site-settings": f"/sites/{self.site}/settings",
            "functions": "/functions",
            "function": function,
            "function-call": f"{function}/call",
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
            "workflow-call": f"{workflow}/call",
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
            "mail": f"/mail?mail={self.mail}",
            "mail-templates": "/mail/templates",
            "mail-suppressions": "/mail/suppressions",
            "mail-settings": "/mail/settings",
        }


async def furnish(app: App, receiver: Receiver) -> Furnished:
    """Fill an app; the receiver gets its webhooks, and refuses those at `/warehouse`."""
    receiver.answers["/warehouse"] = world.status(503, body=REFUSE)
    for kind, message in DEAD:
        await dead(app.server, app, kind, error=json.dumps({"code": "FUNCTION_ERROR", "message": message}))
    table = await app.table(ORDERS, title="orders", access_level="Public")
    for title, level in [("customers", "Creator"), ("price list for the autumn and the winter", "AppMember")]:
        await app.table({"text": "string"}, title=title, access_level=level)
    row = await _orders(app, table)
    await _dropped(app)
    await _month(app)
    functions, workflows = Functions(app), Workflows(app)
    async with owner_of(app).client(app) as console, functions.console, workflows.console:
        site = await _site(console)
        await _pages(app, site)
        function = await _function(functions)
        workflow, run = await _workflow(workflows)
        webhook, delivery = await _webhooks(app, console, receiver, table)
        await _oauth(console)
        member = (await app.member("grace-hopper"))["member_id"]
        storage = (await json_of(console, "POST", "/storages/files", json={"name": "Receipts"}))["id"]
        async with app.client() as client:
            file = (await put_at(client, f"/v1/public/storages/files/{storage}", "october.png"))["id"]
        calls = await json_of(console, "GET", f"/functions/{function}/executions")
        failed = next(one for one in calls["data"] if one["status"] != "success")
        view = (await json_of(console, "POST", "/views", json=VIEW | {"table_id": table}))["id"]
        mail = await _mail(console)
        team = str((await json_of(console, "POST", "/teams", json={"name": "Crew", "slug": "crew"}))["team_id"])
        await json_of(console, "PUT", f"/teams/{team}/members/{member}", json={"roles": ["captain"]})
    return Furnished(
        site,
        function,
        workflow,
        run,
        webhook,
        delivery,
        failed["id"],
        table,
        row,
        view,
        storage,
        file,
        member,
        mail,
        team,
    )


async def _mail(console: ConsoleClient) -> str:
    """Suppress an address, and return the id of a mail in the mailbox."""
    await json_of(console, "POST", "/mail/suppressions", json={"address": "gone@example.com"})
    await json_of(console, "POST", "/mail-settings/test")
    return str((await json_of(console, "GET", "/mail"))["data"][0]["mail_id"])


async def _orders(app: App, table: str) -> str:
    """Fill the table and return the id of a row."""
    rows = [
        {
            "customer": ["Ada Lovelace", "Grace Hopper", "김민준", "Alan Turing"][number % 4],
            "total": [12.5, 980, 48.75, 1240.1][number % 4],
            "books": number % 7 + 1,
            "paid": number % 3 != 0,
            "placed": f"2026-0{number % 9 + 1}-{number % 28 + 1:02}",
            "card": f"4111 {number:04}",
            "address": {"city": ["London", "Seoul", "New York"][number % 3], "zip": f"{10000 + number}"},
            **NOTES[number % 4],
        }
        for number in range(60)
    ]
    async with app.client() as client:
        made = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
        assert made.status_code == 201, made.text
        found = (await client.get(f"/v1/public/tables/{table}/data", params={"limit": "4"})).json()["data"]
    return found[3]["id"]


async def _dropped(app: App) -> None:
    """Put a table into the trash."""
    table = await app.table({"text": "string"}, title="drafts of last year")
    async with app.client() as client:
        assert (await client.delete(f"/v1/public/tables/{table}")).status_code == 200


async def _month(app: App) -> None:
    """Let the app have answered requests for a month: more by day than by night, some refused, a bad hour."""
    async with database_of(app.server) as connection:
        await connection.execute(
            """
            insert into pilotis.request_stats (app_id, hour, requests, client_errors, errors)
            select $1, date_trunc('hour', now()) - n * interval '1 hour',
                300 + 200 * sin(n / 3.82) + 90 * sin(n / 26.7),
                9 + n % 13, case when n between 200 and 206 then 90 else n % 2 end
            from generate_series(1, $2::int * 24) n
            """,
            UUID(app.app_id),
            DAYS,
        )
        await connection.execute(
            """
            insert into pilotis.request_durations (app_id, step, starts_at, route, status, buckets)
            select $1, 'hour', date_trunc('hour', now()) - n * interval '1 hour', route, status,
                array[0, 0, 40 * w, (90 + n % 60) * w, 70 * w, (20 + n % 24) * w, 9 + n % 31, n % 7,
                      0, 0, 0, 0, 0, 0]::bigint[]
            from generate_series(1, $2::int * 24) n, (values
                ('POST /v1/public/tables/:table_id/data/query', 2, 9), ('GET /v1/public/app-members/me', 4, 0)
            ) t (route, status, w)
            """,
            UUID(app.app_id),
            DAYS,
        )


async def json_of(console: ConsoleClient, method: str, path: str, **options: Any) -> Any:
    """The answer to a request that succeeds."""
    answer = await console.request(method, path, **options)
    assert answer.status_code < 300, (method, path, answer.text)
    return answer.json()


async def _site(console: ConsoleClient) -> str:
    site = (await json_of(console, "POST", "/storages/webs", json={"name": "Order book"}))["id"]
    path = f"/storages/webs/{site}"
    files = {"index.html": "<title>Orders</title><h1>Orders</h1>", "assets/app.js": "console.log(1)"}
    for message, change in [
        ("First version", {}),
        ("Show totals beside each order", {"assets/app.js": "console.log(2)", "totals.html": "<h1>Totals</h1>"}),
        ("Autumn colours", {"assets/autumn.css": "h1 { color: brown }"}),
    ]:
        files |= change
        form = {"file": ("site.zip", zipped({path: text.encode() for path, text in files.items()}), "application/zip")}
        await json_of(console, "POST", f"{path}/deploy", files=form, data={"message": message})
    await until(lambda: _all_ready(console, path, 3))
    files["assets/winter.css"] = "h1 { color: navy }"
    form = {"file": ("site.zip", zipped({path: text.encode() for path, text in files.items()}), "application/zip")}
    message = {"message": "Winter colours, for the shop to look at"}
    await json_of(console, "POST", f"{path}/deploy", params={"target": "qa"}, files=form, data=message)
    await until(lambda: _all_ready(console, path, 4))
    await json_of(console, "POST", f"{path}/domains", json={"hostname": f"orders-{site[-12:]}.example"})
    return site


async def _pages(app: App, site: str) -> None:
    async with app.client(app.secret_key) as client:
        for path, title, description in PAGES:
            body = {"path": path, "title": title, "description": description}
            answer = await client.put(f"/v1/public/storages/webs/{site}/page-metas", json=body)
            assert answer.status_code == 200, answer.text


async def _all_ready(console: ConsoleClient, path: str, number: int) -> bool:
    found = (await json_of(console, "GET", f"{path}/deployments"))["deployments"]
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
    await json_of(
        console,
        "POST",
        "/webhooks",
        json={"url": receiver.url("/ledger"), "name": "Ledger", "event_types": ["row.created", "row.updated"]},
    )
    made = await json_of(
        console,
        "POST",
        "/webhooks",
        json={"url": receiver.url("/warehouse"), "name": "Warehouse", "event_types": ["row.*"], "table_ids": [table]},
    )
    for number in range(4):
        await app.row(table, {"customer": f"Customer {number}", "total": 12.5 * number})
    found: list[dict[str, Any]] = []

    async def attempted() -> bool:
        found[:] = (await json_of(console, "GET", f"/webhooks/{made['id']}/logs"))["data"]
        return any(one["attempt_count"] for one in found)

    await until(attempted)
    return made["id"], next(one["id"] for one in found if one["attempt_count"])


async def _oauth(console: ConsoleClient) -> None:
    await json_of(console, "PUT", "/oauth/settings", json={"is_provider": True})
    scope = {
        "title": "Read your orders",
        "description": "What you ordered, when, and for how much.",
        "is_default": True,
    }
    await json_of(console, "PUT", "/oauth/scopes/orders:read", json=scope)
    for name in ("Books", "Parcel tracking for shops"):
        body = {
            "name": name,
            "redirect_uris": [f"https://{name.split()[0].lower()}.example/callback"],
            "scopes": ["openid", "profile", "orders:read"],
        }
        await json_of(console, "POST", "/oauth/clients", json=body)
    await json_of(
        console, "PUT", "/oauth/social/GOOGLE", json={"client_id": "id-from-vendor", "client_secret": "from-vendor"}
    )
