"""The console, a sign-in with consent and a site in Firefox and in WebKit, Safari's engine: real clicks and keys."""

import functools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from pilotis.kit import rs256
from tests.browser.test_resumable_upload import Quiet
from tests.conftest import PASSWORD, first_console_user, new_app
from tests.console import owner_of
from tests.console.rows import stored
from tests.hosting.sites import new_site
from tests.oauth.browsing import PASSWORD as MEMBERS_PASSWORD
from tests.oauth.browsing import Pkce, Provider
from tests.serving import serving
from tests.support import App, Server
from tests.waiting import until
from tests.webdriver import ENGINES, Window
from tests.whole import sample

# More than a number of JavaScript holds.
BIG, BIGGER = "9007199254740993", "9007199254740995"
SITE = {
    "index.html": b'<!doctype html><title>Home</title><a href="/about">About us</a><script src="/app.js"></script>',
    "about.html": b"<!doctype html><title>About</title><h1>Since 1926</h1>",
    "app.js": b'document.body.append(Object.assign(document.createElement("p"), { textContent: "It runs." }));',
}


@dataclass
class World:
    """An app with two tables, a member, a client of its sign-in, and a site."""

    app: App
    table: str
    provider: Provider
    site: str


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    key = rs256.generate().pem().decode()
    place = tmp_path_factory.mktemp("engines") / "data"
    running = Server(place, environment={"OAUTH_RSA_PRIVATE_KEY_PEM": key}).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
async def world(signing: Server) -> World:
    app = new_app(signing, first_console_user(signing))
    columns = {"customer": "string", "books": "number", "address": "object"}
    table = await app.table(columns, title="orders")
    await app.table({"name": "string"}, title="price list")
    await app.row(table, {"customer": "Ada", "books": 3, "address": {"street": "Long lane"}})
    await app.row(table, {"customer": "Grace", "books": 4, "address": {"street": "Short lane"}})
    provider = await Provider(app).start()
    await app.member("ada", MEMBERS_PASSWORD)
    site = await new_site(app)
    await site.deploy(SITE)
    await site.promote()
    return World(app, table, provider, site.storage["url"])


@pytest.fixture(scope="module", params=sample(ENGINES, 0.5))
async def window(request: pytest.FixtureRequest) -> AsyncIterator[Window]:
    async with ENGINES[request.param]() as opened:
        yield opened
        assert await opened.complaints() == []


@pytest.fixture(scope="module")
async def console(world: World, window: Window) -> str:
    """The address of the app's screens, once the user has signed in."""
    base = f"{world.app.server.url}/console/apps/{world.app.app_id}"
    await window.open(base)
    await window.type("input", "Email", "first@example.com")
    await window.type("input", "Password", PASSWORD)
    await window.click("button", "Sign in")
    await window.find("h1", "Overview")
    return base


async def test_the_console_by_pointer_and_keys(world: World, window: Window, console: str) -> None:
    await window.click(".rail a", "Tables")
    # Each row leads where it says, and so does what is around the list.
    await window.click("main .list a", "orders")
    await window.reached(f"/tables/{world.table}")
    await window.find("h1", "orders")
    await window.click(".rail a", "Tables")
    await window.click("main button", "New table")
    await window.click("dialog button", "Cancel")
    await window.click(".rail a", "Members")
    await window.click("main .list .coverbutton", "ada")
    await window.reached("member=")
    # A menu by the pointer, and by the keyboard alone.
    await window.click("header button[aria-haspopup=menu]")
    assert (await window.spoken("[role=menu] .item", "Sign out"))[1] == "Sign out"
    await window.press("Escape")
    await window.gone("[role=menu]")
    await window.press("Control+k")
    await window.find("dialog [role=combobox]")
    await window.press(*"orders")
    await window.find("dialog [role=option][aria-selected=true]", "orders")
    await window.press("Enter")
    await window.reached(f"/tables/{world.table}")
    await window.find(".gc", "Ada")
    assert (await window.spoken(".gh", "customer"))[0] == "columnheader"
    # Sorted by the pointer, and by two columns as an address says it.
    await window.click(".gh button", "customer")
    await window.reached("sort=customer.asc")
    await window.open(f"{console}/tables/{world.table}?sort=books.desc,customer.asc")
    await window.find(".status", "sorted by books, descending, then by customer, ascending")
    await window.find(".gh .sortplace", "2")


async def test_a_tables_cells(world: World, window: Window, console: str) -> None:
    """A number keeps every digit in each browser, and the screen is there after each reload."""
    for name in ("Ada", "Grace", "Ada"):
        await window.open(f"{console}/tables/{world.table}")
        await window.find(".gc", name)
    number = BIG if window.name == "firefox" else BIGGER
    await window.double_click(".gc.t-number")
    await window.press("Control+a", *number, "Enter")
    await window.find(".gc.t-number", number)

    async def is_stored() -> bool:
        rows = await stored(world.app, world.table)
        return number in [str(row["books"]) for row in rows]

    await until(is_stored)
    await window.click("main button", "Import")
    await window.click("dialog button", "Close")


async def test_a_member_signs_in_and_agrees(world: World, window: Window) -> None:
    callback = f"{world.app.server.url}/"
    client = await world.provider.client(name=f"Club of {window.name}", redirect_uris=[callback], scopes=["openid"])
    pkce = Pkce()
    await window.open(world.provider.authorize_url(client, pkce, redirect_uri=callback))
    await window.type("#login", "", "ada")
    await window.type("#password", "", MEMBERS_PASSWORD)
    await window.click("form[data-form=sign-in] button")
    assert (await window.spoken("#allow"))[1] == "Allow"
    await window.click("#allow")
    landed = await window.reached("/?")
    code = landed.partition("code=")[2].partition("&")[0]
    assert (await world.provider.token(
        client, grant_type="authorization_code", code=code, redirect_uri=callback, code_verifier=pkce.verifier
    ))["id_token"]  # fmt: skip


async def test_a_site(world: World, window: Window) -> None:
    await window.open(world.site)
    await window.find("p", "It runs.")
    await window.click("a", "About us")
    await window.find("h1", "Since 1926")
    assert await window.reached("/about") == f"{world.site}/about"


LIVE = """<!doctype html><title>Live</title><p></p><script type="module">
const { api, key, table } = Object.fromEntries(new URLSearchParams(location.search));
const { createClient } = await import(`${api}/sdk/v1/pilotis.js`);
let breaks = 0;
createClient({ url: api, publicKey: key }).rows(table).all().orderBy("text").live({
  rows: (rows) => {
    document.querySelector("p").textContent = `${rows.map((row) => row.data.text).join(" ")}; ${breaks}`;
  },
  connected: (isConnected) => { breaks += isConnected ? 0 : 1; },
});
</script>"""


async def test_tabs_share_a_stream(world: World, window: Window, tmp_path: Path) -> None:
    app, table = world.app, f"notes of {window.name}"
    await app.table({"text": "string"}, title=table)
    (tmp_path / "index.html").write_text(LIVE)

    async def is_one() -> bool:
        async with owner_of(app).client(app) as console:
            return [len(one["subscriptions"]) for one in (await console.get("/live-streams")).json()["streams"]] == [
                left
            ]

    with serving(functools.partial(Quiet, directory=tmp_path)) as url:
        address = f"{url}/?{urlencode({'api': app.server.url, 'key': app.public_key, 'table': table})}"
        first = await window.command("GET", "/window", "GetWindowHandle")
        await window.open(address)
        await window.find("p", "; 0")
        other = (await window.command("POST", "/window/new", "NewWindow", type="tab"))["handle"]
        await window.command("POST", "/window", "SwitchToWindow", handle=other)
        await window.open(address)
        await window.find("p", "; 0")
        left = 2
        await until(is_one)
        await app.row(table, {"text": "a"})
        await window.find("p", "a; 0")
        await window.command("POST", "/window", "SwitchToWindow", handle=first)
        await window.find("p", "a; 0")
        # The tab that leads is closed: the other one goes on where it has ended.
        await window.command("DELETE", "/window", "CloseWindow")
        await window.command("POST", "/window", "SwitchToWindow", handle=other)
        await app.row(table, {"text": "b"})
        await window.find("p", "a b; 0")
        left = 1
        await until(is_one)
