"""An app with something of everything that moves, and questions about it."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from pilotis.functions.feature import FunctionsFeature
from pilotis.security.encryption.types import Purpose
from tests import commands
from tests.backstage import run_sql
from tests.files.pictures import RED, bands, encoded
from tests.hosting.sites import new_site, visit
from tests.security.world import _stored_file
from tests.services import Services, stale_node
from tests.support import App, Server, plain_client

PASSPHRASE = "correct horse battery"


class Shop:
    """The app, and what of it has a name."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self) -> "Shop":
        app = self.app
        self.member = await app.member("ada", "a good passphrase")
        self.makers = await app.table({"name": "string"}, title="makers", unique=[{"columns": ["name"]}])
        self.goods = await app.table(
            {
                "name": {"type": "string", "required": True},
                "note": {"type": "string", "encrypted": True},
                "price": "number",
                "made": "date",
                "maker": {"type": "uuid", "references": {"table": "makers", "on_delete": "restrict"}},
            },
            title="goods",
            unique=[{"columns": ["note"]}],
        )
        maker = await app.row(self.makers, {"name": "Acme"})
        odd = "tab\t back\\slash \\N\r\nü 🐘"
        self.row = await app.row(
            self.goods,
            {"name": odd, "note": "secret", "price": 1.5, "made": "2026-01-02T03:04:05Z", "maker": maker["id"]},
        )
        self.free = await app.table({}, title="free")
        await app.row(self.free, {"anything": {"nested": [1, None, "x"]}, "gone": None})
        self.storage, self.file = await _stored_file(app, "read me.txt")
        self.site = await new_site(app)
        await self.site.deploy({"index.html": b"<title>Home</title>", "copy.html": b"<title>Home</title>"})
        await self.site.promote()
        await self.site.deploy({"index.html": b"<title>Home</title>"}, target="qa")
        # The preview of a branch that is no more.
        preview = "update pilotis.web_deployments set branch = 'pr-17' where app_id = $1 and version = 2"
        await run_sql(app.server, preview, UUID(app.app_id))
        async with plain_client(app.server.url, Authorization=f"Bearer {app.secret_key}") as secret:
            rules = {"rules": {"read": True, "create": True}}
            answer = await secret.put(f"/v1/apps/{app.app_id}/tables/{self.makers}/rules", json=rules)
            assert answer.status_code == 200, answer.text
            view = {"name": "count", "table_id": self.goods, "pipeline": [{"$count": "n"}]}
            answer = await secret.post(f"/v1/apps/{app.app_id}/views", json=view)
            assert answer.status_code == 201, answer.text
        async with plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}") as console:
            base = f"/v1/apps/{app.app_id}"
            theme = {"theme": {"accent": "#7a1fa2", "texts": {"en": {"footer": "Shop Ltd"}}}}
            assert (await console.patch(f"{base}/account-settings", json=theme)).status_code == 200
            logo = encoded(bands(64, 64, RED))
            assert (await console.put(f"{base}/account-settings/logo", content=logo)).status_code == 200
            hook = {
                "url": "http://localhost:9/hooks",
                "event_types": ["row.created"],
                "headers": {"x-shop": "value"},
                "is_active": False,
            }
            answer = await console.post(f"{base}/webhooks", json=hook)
            assert answer.status_code == 201, answer.text
            self.webhook, self.hook_secret = answer.json()["id"], answer.json()["secret"]
            made = await console.post(f"{base}/functions", json={"name": "greet", "runtime": "javascript"})
            self.function = made.json()["id"]
            files = {"files": {"index.js": "export default () => 1"}}
            assert (await console.post(f"{base}/functions/{self.function}/versions", json=files)).status_code == 201
            answer = await console.put(f"{base}/functions/{self.function}/env/GREETING", json={"value": "Hello"})
            assert answer.status_code == 200, answer.text
        return self

    def export(self, path: Path, *more: str, typed: str = PASSPHRASE) -> Any:
        place = self.app.server.place
        return commands.run(
            "app",
            "export",
            self.app.app_id,
            "--to",
            str(path),
            "--passphrase-file",
            "-",
            *place,
            "--json",
            *more,
            typed=typed,
        )


def imported(server: Server, path: Path, *more: str, passphrase: str = PASSPHRASE) -> Any:
    """Import an archive, and return the finished command."""
    asks = ["--passphrase-file", "-"] if passphrase else []
    return commands.run("app", "import", str(path), *asks, *server.place, "--json", *more, typed=passphrase)


def app_of(server: Server, done: Any) -> App:
    """The app that a command has made, without a console user."""
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    return App(server, made["app_id"], made["public_key"], made["secret_key"], {})


async def check(shop: Shop, copy: App, file: tuple[str, str], slug: str) -> None:
    """Assert that an app is a copy of the shop; `file` are the ids of its storage and file, `slug` its site's name."""
    async with copy.client() as client:
        await _check_rows(shop, client)
        credentials = {"login_id": "ada", "password": "a good passphrase"}
        signed_in = await client.post("/v1/public/app-members/signin", json=credentials)
        assert signed_in.status_code == 200, signed_in.text
        assert signed_in.json()["member_id"] == shop.member["member_id"]
        got = await client.get(f"/files/{file[0]}/{file[1]}/read%20me.txt")
        assert (got.status_code, got.content) == (200, b"text"), got.text
        await check_pages(client, copy)
    for path in ("/", "/copy"):
        page = await visit(copy.server, f"{slug}.localhost", path)
        assert (page.status_code, page.content) == (200, b"<title>Home</title>"), page.text
    # What is never promoted here is not promoted there either.
    branches = "select array_agg(branch order by version) from pilotis.web_deployments where app_id = $1"
    assert await run_sql(copy.server, branches, UUID(copy.app_id)) == [None, "pr-17"]
    async with stale_node(copy.server) as services:
        await _check_secrets(shop, services, UUID(copy.app_id))


async def check_pages(client: httpx.AsyncClient, copy: App) -> None:
    settings = (await client.get("/v1/public/account-settings")).json()
    assert (settings["theme"]["accent"], settings["theme"]["texts"]) == ("#7a1fa2", {"en": {"footer": "Shop Ltd"}})
    path = settings["logo_url"].removeprefix(copy.server.url)
    assert path.startswith(f"/account/{copy.app_id}/logo?v=")
    logo = await client.get(path)
    assert (logo.status_code, logo.headers["content-type"]) == (200, "image/webp"), logo.text


async def _check_rows(shop: Shop, client: httpx.AsyncClient) -> None:
    goods = (await client.get(f"/v1/public/tables/{shop.goods}/data")).json()["data"]
    assert goods == [shop.row]
    free = (await client.get(f"/v1/public/tables/{shop.free}/data")).json()["data"]
    assert free[0]["data"] == {"anything": {"nested": [1, None, "x"]}, "gone": None}
    found = await client.post(f"/v1/public/tables/{shop.goods}/data/query", json={"where": {"note": "secret"}})
    assert found.json()["total_count"] == 1, found.text
    again = await client.post(f"/v1/public/tables/{shop.goods}/data", json={"data": shop.row["data"]})
    assert again.status_code == 409, again.text
    assert again.json()["code"] == "UNIQUE_VIOLATION"
    new = await client.post(f"/v1/public/tables/{shop.goods}/data", json={"data": {"name": "new"}})
    assert new.status_code == 201, new.text
    count = (await client.get(f"/v1/public/tables/{shop.goods}/data")).json()["total_count"]
    assert count == 2
    gone = await client.delete(f"/v1/public/tables/{shop.goods}/data/{new.json()['id']}")
    assert gone.status_code == 200


async def _check_secrets(shop: Shop, services: Services, app_id: UUID) -> None:
    variables = services.features.get(FunctionsFeature).variables
    assert await variables.of(app_id, UUID(shop.function)) == {"GREETING": "Hello"}
    row = await services.database.fetchrow(
        "select secret, headers, is_active from pilotis.webhooks where app_id = $1", app_id
    )
    assert not row["is_active"]
    secrets = await services.floor.secrets.app(app_id)
    assert secrets.decrypt(Purpose.WEBHOOK_SECRET, shop.webhook, row["secret"]).decode() == shop.hook_secret
    assert secrets.decrypt(Purpose.WEBHOOK_HEADERS, shop.webhook, row["headers"]) == b'{"x-shop":"value"}'
