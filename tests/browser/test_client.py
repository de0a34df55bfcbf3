"""`@pilotis/client` in Chromium: tabs that share a session, and pages that may not or cannot do what they should."""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Request, Route

from tests.acceptance.test_files import storage
from tests.browser.test_resumable_upload import Quiet
from tests.console import set_limits
from tests.realtime.test_channels import declare
from tests.serving import serving
from tests.support import App
from tests.waiting import PATIENCE, until

PAGE = """<!doctype html><title>client</title><script type="module">
const { api, key } = Object.fromEntries(new URLSearchParams(location.search));
const { createClient, isApiError } = await import(`${api}/sdk/v1/pilotis.js`);
globalThis.events = [];
globalThis.create = (options) => createClient({ url: api, publicKey: key, ...options });
globalThis.client = create();
client.members.onChange((event) => events.push(event.type + (event.reason ? " " + event.reason : "")));
globalThis.ready = true;
</script>"""


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page, on its own port."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "index.html").write_text(PAGE)
    with serving(functools.partial(Quiet, directory=folder)) as url:
        yield f"{url}/"


@pytest_asyncio.fixture
async def tabs(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser of its own, whose tabs share what they store."""
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    yield context
    await context.close()


async def tab(tabs: BrowserContext, page_url: str, app: App) -> Page:
    page = await tabs.new_page()
    await page.goto(f"{page_url}?api={app.server.url}&key={app.public_key}")
    await page.wait_for_function("globalThis.ready")
    return page


def counted(tabs: BrowserContext, ending: str) -> list[str]:
    """The requests of all tabs whose address ends so, as they are sent."""
    sent: list[str] = []
    tabs.on("request", lambda r: r.url.endswith(ending) and r.method != "OPTIONS" and sent.append(r.method))
    return sent


# The access token is one that the server rejects; the refresh token is a good one.
SPOIL = """() => { const name = Object.keys(localStorage)[0], session = JSON.parse(localStorage[name]);
  localStorage[name] = JSON.stringify({ ...session, access_token: session.access_token + "x" }); }"""


async def test_tabs_share_a_session(tabs: BrowserContext, page_url: str, app: App):
    one, other = await tab(tabs, page_url, app), await tab(tabs, page_url, app)
    guest = await one.evaluate("client.members.guest()")
    await other.wait_for_function("events.length === 1")
    assert (await other.evaluate("client.members.me()"))["member_id"] == guest["member_id"]
    await other.evaluate("client.members.signOut()")
    await one.wait_for_function("events.length === 2")
    assert await one.evaluate("events") == ["signed_in", "signed_out asked"]
    assert await other.evaluate("events") == ["signed_in", "signed_out asked"]
    assert await one.evaluate("client.members.session()") is None


async def test_of_ten_tabs_one_renews(tabs: BrowserContext, page_url: str, app: App):
    pages = [await tab(tabs, page_url, app)]
    await pages[0].evaluate("client.members.guest()")
    await pages[0].evaluate(SPOIL)
    pages = [await tab(tabs, page_url, app) for _ in range(10)]
    renewals = counted(tabs, "/v1/auth/re-issue")
    start = "globalThis.result = Promise.all([1, 2].map(() => client.members.me())).then((found) => found[1]); 0"
    for page in pages:
        await page.evaluate(start)
    members = {(await page.evaluate("result"))["member_id"] for page in pages}
    assert len(members) == 1
    assert renewals == ["POST"]


async def test_a_tab_that_is_frozen_in_a_renewal_signs_nobody_out(tabs: BrowserContext, page_url: str, app: App):
    # As if it were frozen for longer than the time to retry.
    await set_limits(app, refresh_retry_seconds=0)
    frozen = await tab(tabs, page_url, app)
    guest = await frozen.evaluate("client.members.guest()")
    await frozen.evaluate(SPOIL)
    await frozen.reload()
    await frozen.wait_for_function("globalThis.ready")
    answered: list[Route] = []

    async def lose(route: Route) -> None:
        await route.fetch()
        answered.append(route)

    await frozen.route("**/v1/auth/re-issue", lose)
    await frozen.evaluate("client.members.me().catch(() => 0); 0")
    await until(lambda: bool(answered))
    other = await tab(tabs, page_url, app)
    assert (await other.evaluate("client.members.me()"))["member_id"] == guest["member_id"]
    # It thaws, without an answer.
    await answered[0].abort()
    await frozen.unroute("**/v1/auth/re-issue")
    assert (await frozen.evaluate("client.members.me()"))["member_id"] == guest["member_id"]
    assert (await other.evaluate("client.members.me()"))["member_id"] == guest["member_id"]


async def test_a_session_that_has_ended_is_told_once(tabs: BrowserContext, page_url: str, app: App):
    page = await tab(tabs, page_url, app)
    guest = await page.evaluate("client.members.guest()")
    async with app.client(guest["access_token"]) as client:
        assert (await client.post("/v1/public/app-members/signout")).status_code == 200
    ended = "client.members.me().catch((error) => [error.code, error.status])"
    assert await page.evaluate(ended) == ["SESSION_ENDED", 401]
    assert await page.evaluate("events") == ["signed_in", "signed_out ended"]
    assert await page.evaluate(ended) == ["TOKEN_REQUIRED", 401]


@pytest.mark.parametrize(
    "harm",
    [
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }",
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError') } })",
        "Object.defineProperty(navigator, 'locks', { value: undefined })",
        "const now = Date.now; Date.now = () => now() + 864e5",
        "const now = Date.now; Date.now = () => now() - 864e5",
    ],
    ids=["a full storage", "no storage", "no locks", "a clock a day ahead", "a clock a day behind"],
)
async def test_a_page_that_lacks_something(tabs: BrowserContext, page_url: str, app: App, harm: str):
    await tabs.add_init_script(harm)
    page = await tab(tabs, page_url, app)
    guest = await page.evaluate("client.members.guest()")
    renewals = counted(tabs, "/v1/auth/re-issue")
    for _ in range(3):
        assert (await page.evaluate("client.members.me()"))["member_id"] == guest["member_id"]
    # The Date header corrects the clock.
    assert renewals == []


async def test_an_upload_goes_on_where_it_ended(tabs: BrowserContext, page_url: str, app: App):
    place = (await storage(app)).rpartition("/")[2]
    page = await tab(tabs, page_url, app)
    created, parts = counted(tabs, "/tus"), counted(tabs, "")
    given = json.dumps(place)
    upload = f"""async (stopAt) => {{
      const bytes = new Uint8Array(20 << 20).map((_, at) => at % 251);
      const file = new File([bytes], "film.bin", {{ type: "video/mp4", lastModified: 1 }});
      const stop = new AbortController(), seen = [];
      const onProgress = ({{ sent, total }}) => {{ seen.push(sent / total); if (sent > stopAt) stop.abort("enough"); }};
      try {{
        return [await client.files({given}).upload(file, {{ onProgress, signal: stop.signal }}), seen];
      }} catch (error) {{
        return [error, seen];
      }}
    }}"""
    stopped, seen = await page.evaluate(upload, 9 << 20)
    assert stopped == "enough"
    assert 0.4 < seen[-1] < 1
    await page.reload()
    await page.wait_for_function("globalThis.ready")
    parts.clear()
    item, seen = await page.evaluate(upload, 1 << 30)
    assert (item["name"], item["size"], item["mime_type"]) == ("film.bin", 20 << 20, "video/mp4")
    assert created == ["POST"], "It started again."
    assert parts.count("PATCH") <= 2
    assert (seen[0] > 0.4, seen[-1]) == (True, 1)


def opened(tabs: BrowserContext) -> Callable[[], int]:
    """The number of streams of all tabs that are open."""
    streams = set[Request]()
    tabs.on("request", lambda r: streams.add(r) if r.url.endswith("/realtime") and r.method == "POST" else None)
    for end in ("requestfinished", "requestfailed"):
        tabs.on(end, lambda r: streams.discard(r))
    return lambda: sum(not request.frame.page.is_closed() for request in streams)


LISTEN = """([number, where, name]) => {
  const { shown = {}, ended = {}, connections = {} } = globalThis;
  Object.assign(globalThis, { shown, ended, connections });
  connections[name] = [];
  client.rows(name ?? "notes").where(where).orderBy("text").live({
    rows: (rows) => { shown[number] = rows.map((row) => row.data.text).join(" "); },
    error: (error) => { ended[number] = error.code; },
    connected: (isConnected) => connections[name].push(isConnected),
  });
}"""


async def listen(page: Page, number: int, where: dict[str, object], table: str = "notes") -> None:
    await page.evaluate(LISTEN, [number, where, table])


async def shows(page: Page, number: int, text: str) -> None:
    await page.wait_for_function(f"globalThis.shown?.[{number}] === {json.dumps(text)}")


async def test_tabs_share_one_stream_and_hand_it_over(tabs: BrowserContext, page_url: str, app: App):
    await app.table({"text": "string"}, title="notes")
    await app.table({"text": "string"}, "AppMember", title="closed")
    streams, reads = opened(tabs), counted(tabs, "/query")
    pages = [await tab(tabs, page_url, app) for _ in range(3)]
    for page in pages:
        await listen(page, 1, {})
        await shows(page, 1, "")
    await listen(pages[2], 2, {"text": {"$gt": "b"}})
    # What one of them may not read, ends for that one.
    await listen(pages[1], 3, {}, "closed")
    await pages[1].wait_for_function("globalThis.ended?.[3] === 'MEMBER_TOKEN_REQUIRED'")
    await shows(pages[2], 2, "")
    await app.row("notes", {"text": "b"})
    await app.row("notes", {"text": "c"})
    for page in pages:
        await shows(page, 1, "b c")
    await shows(pages[2], 2, "c")
    await until(lambda: streams() == 1)
    first, *others = pages
    before = len(reads)
    closing = asyncio.create_task(first.close())
    for text in "defgh":
        await app.row("notes", {"text": text})
    await closing
    await app.row("notes", {"text": "i"})
    for page in others:
        await shows(page, 1, "b c d e f g h i")
    await shows(pages[2], 2, "c d e f g h i")
    await until(lambda: streams() == 1)
    assert len(reads) == before, "It goes on where the other one has ended: nothing is read again."
    assert await others[0].evaluate("connections.notes") == [True]
    # The member signs in: all tabs are told what it may see.
    await others[1].evaluate("client.members.guest()")
    for page in others:
        await listen(page, 4, {}, "closed")
        await shows(page, 4, "")
    await others[0].evaluate("client.rows('closed').create({ text: 'mine' })")
    for page in others:
        await shows(page, 4, "mine")
    await until(lambda: streams() == 1)


async def test_another_tab_takes_over_from_a_frozen_one(tabs: BrowserContext, page_url: str, app: App):
    await app.table({"text": "string"}, title="notes")
    streams = opened(tabs)
    frozen = await tab(tabs, page_url, app)
    await listen(frozen, 1, {})
    await shows(frozen, 1, "")
    other = await tab(tabs, page_url, app)
    await other.clock.install()
    await listen(other, 1, {})
    await other.clock.run_for(100)
    await shows(other, 1, "")
    session = await tabs.new_cdp_session(frozen)
    await session.send("Page.setWebLifecycleState", {"state": "frozen"})
    await app.row("notes", {"text": "a"})
    await other.clock.run_for(60_000)
    await app.row("notes", {"text": "b"})
    await other.clock.resume()
    await shows(other, 1, "a b")
    await session.send("Page.setWebLifecycleState", {"state": "active"})
    await shows(frozen, 1, "a b")
    await app.row("notes", {"text": "c"})
    for page in (frozen, other):
        await shows(page, 1, "a b c")
    await until(lambda: streams() == 1)


async def test_tabs_that_share_no_stream(tabs: BrowserContext, page_url: str, app: App):
    await set_limits(app, live_subscriptions=2)
    await app.table({"text": "string"}, title="notes")
    streams = opened(tabs)
    # More lists than a stream may have: each has its own.
    pages = [await tab(tabs, page_url, app) for _ in range(2)]
    for page in pages:
        for number in (1, 2):
            await listen(page, number, {})
    await app.row("notes", {"text": "a"})
    for page in pages:
        for number in (1, 2):
            await shows(page, number, "a")
    await until(lambda: streams() == 2)
    # Another member, and a page without locks.
    kept = "const kept = {}, get = (n) => kept[n], set = (n, v) => (kept[n] = v), remove = (n) => delete kept[n];"
    another = (
        "globalThis.client = create({ storage: { get, set, remove } }); return client.members.guest().then(() => 0);"
    )
    for number, harm in enumerate(
        (
            f"() => {{ {kept} {another} }}",
            "() => { Object.defineProperty(navigator, 'locks', { value: undefined }); globalThis.client = create(); }",
            "() => { globalThis.BroadcastChannel = class { constructor() { throw new Error('insecure') } }; }",
        )
    ):
        alone = await tab(tabs, page_url, app)
        await alone.evaluate(harm)
        await listen(alone, 1, {})
        await shows(alone, 1, "a" + " a" * number)
        await until(lambda: streams() == 3)
        await app.row("notes", {"text": "a"})
        for page in (alone, pages[0]):
            await shows(page, 1, "a a" + " a" * number)
        await alone.close()


# As if the network of a page ended, and came back.
NETWORK = """const real = fetch; let cable = new AbortController();
globalThis.fetch = (input, init = {}) => cable.signal.aborted ? Promise.reject(new TypeError("Failed to fetch"))
  : real(input, { ...init, signal: AbortSignal.any([cable.signal, ...(init.signal ? [init.signal] : [])]) });
globalThis.unplug = () => cable.abort(new TypeError("network error"));
globalThis.plug = () => { cable = new AbortController(); };"""


async def test_lists_and_channels_of_two_pages(tabs: BrowserContext, page_url: str, app: App):
    await tabs.add_init_script(NETWORK)
    await app.table({"text": "string"}, title="notes")
    assert (await declare(app, {"pattern": "desk", "listen": True, "send": True, "presence": True})).status_code == 200
    one, other = await tab(tabs, page_url, app), await tab(tabs, page_url, app)
    streams = opened(tabs)
    for page in (one, other):
        await page.evaluate(
            """() => {
              globalThis.connections = [];
              const connected = (isConnected) => connections.push(isConnected);
              const rows = (rows, total) => { globalThis.notes = rows.map((row) => row.data.text).join(" "); };
              client.rows("notes").all().orderBy("text").live({ rows, connected });
              client.channel("desk").on("knock", (payload) => { globalThis.knocked = payload; });
              const names = (all) => all.map((one) => one.state.name).sort().join(" ");
              client.channel("desk").present((all) => { globalThis.there = names(all); });
            }"""
        )
        await page.wait_for_function("globalThis.notes === '' && globalThis.there === ''")
    assert streams() == 2, "A page has one stream for all that it listens to, and one of them for all lists."
    await one.evaluate("client.channel('desk').enter({ name: 'ada' })")
    await other.evaluate("client.channel('desk').enter({ name: 'bea' })")
    await one.evaluate("client.rows('notes').create({ text: 'b' })")
    for page in (one, other):
        await page.wait_for_function("notes === 'b' && there === 'ada bea'")
    await other.evaluate("client.channel('desk').send('knock', 7)")
    await one.wait_for_function("globalThis.knocked === 7")

    await one.evaluate("unplug()")
    await one.wait_for_function("connections.at(-1) === false")
    await app.row("notes", {"text": "a"})
    await one.evaluate("plug()")
    for page in (one, other):
        await page.wait_for_function("notes === 'a b' && connections.at(-1)")
    assert streams() == 2
    assert await one.evaluate("connections") == [True, False, True]
    # A page that is loaded again is there once, all the time.
    counts = "client.channel('desk').present((_, count) => counts.push(count))"
    await one.evaluate(f"() => {{ globalThis.counts = []; {counts}; }}")
    await other.reload()
    await other.wait_for_function("globalThis.ready")
    await other.evaluate("client.channel('desk').enter({ name: 'bea again' })")
    await one.wait_for_function("there === 'ada bea again'")
    assert set(await one.evaluate("counts")) == {2}
    await other.evaluate("client.channel('desk').leave()")
    await one.wait_for_function("there === 'ada'")
