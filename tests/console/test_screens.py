"""Every screen, wide and narrow: nothing in the way of anybody, nothing that scrolls sideways."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.chromium import keep_picture, looks
from tests.conftest import new_app
from tests.console import owner_of
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.in_use import NARROW, WIDE
from tests.support import App, Server
from tests.waiting import until
from tests.whole import sample

FIRST_SCREEN_BYTES = 118_000
FIRST_SCREEN_REQUESTS = 45

SETTINGS = {f"settings-{tab}": f"/settings/{tab}" for tab in ("sign-in", "limits", "people", "trash")}
SCREENS = {
    "overview": "",
    "activity": "/activity",
    "live": "/activity/live",
    "diagram": "/diagram",
    "views": "/views",
    "new-view": "/views/new",
    "members": "/members",
    "teams": "/teams",
    "invitations": "/invitations",
    "files": "/files",
    "sites": "/sites",
    "functions": "/functions",
    "workflows": "/workflows",
    "webhooks": "/webhooks",
    "events": "/webhooks/events",
    "jobs": "/webhooks/jobs",
    "mail": "/mail",
    "mail-templates": "/mail/templates",
    "mail-suppressions": "/mail/suppressions",
    "mail-settings": "/mail/settings",
    "keys": "/keys",
    "oauth": "/oauth",
    "settings": "/settings",
    **SETTINGS,
}


async def open_palette(page: Page) -> None:
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Search or jump to")).to_be_focused()


@pytest.mark.parametrize(("theme", "language"), looks(("dark", "en")))
async def test_no_screen_is_in_anybodys_way(
    server: Server, app: App, visit: Opening, axe: str, theme: str, language: str
) -> None:
    await app.table({"text": "string"}, title="notes")
    await app.member()
    found: dict[str, list[str]] = {}
    async with visit("about:blank", color_scheme=theme, locale={"en": "en-US", "ko": "ko-KR"}[language]) as page:
        await sign_in(page, server, "/profile")
        for name, path in sample({"apps": None, "profile": None, **SCREENS}.items(), 0.15):
            place = {"apps": "", "profile": "/profile"}.get(name, f"/apps/{app.app_id}{path}")
            await page.set_viewport_size(WIDE)
            await page.goto(f"{server.url}/console{place}")
            await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
            await expect(page.locator(".bone, [aria-busy=true]")).to_have_count(0)
            # The words are of no weight for the rules.
            found[name] = await obstacles(page, axe) if language == "en" else []
            await keep_picture(page, f"console-{name}-{theme}-{language}")
            await page.set_viewport_size(NARROW)
            await keep_picture(page, f"console-{name}-{theme}-{language}-phone")
            if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found[name].append("scrolls sideways on a phone")
        if language == "en":
            await open_palette(page)
            found["palette"] = await obstacles(page, axe)
    assert {name: said for name, said in found.items() if said} == {}


async def test_the_palette_leads_everywhere_by_the_keyboard(server: Server, app: App, visit: Opening) -> None:
    await app.table({"text": "string"}, title="palette bookings")
    member = await app.member("palette-bookworm")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}")
        await expect(page.get_by_role("link", name="Tables")).to_contain_text("1")
        await open_palette(page)
        await page.keyboard.type("palette-book")
        await expect(page.get_by_role("option", name="palette-bookworm")).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("complementary", name="Member")).to_contain_text(member["member_id"])
        await open_palette(page)
        await page.keyboard.type("limits")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("data_per_minute")).to_be_visible()


async def test_the_palette_offers_what_arrives_after_it_is_opened(server: Server, app: App, visit: Opening) -> None:
    await app.table({"text": "string"}, title="late bookings")
    await app.member("late bookkeeper")
    await app.member("late bookworm")
    apps, tables = asyncio.Event(), asyncio.Event()

    def hold(until: asyncio.Event) -> Callable[[Route], Awaitable[None]]:
        async def wait(route: Route) -> None:
            await until.wait()
            await route.continue_()

        return wait

    async with visit("about:blank") as page:
        await page.route("**/v1/apps?*", hold(apps))
        await page.route("**/v1/public/tables", hold(tables))
        await sign_in(page, server, f"/apps/{app.app_id}")
        await expect(page.get_by_text("Connected")).to_be_visible()
        await open_palette(page)
        await page.keyboard.type("late book")
        await expect(page.get_by_text("No matches.")).to_be_visible()
        apps.set()
        options = page.get_by_role("option")
        await expect(options).to_have_count(2)
        await expect(options.nth(0)).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("ArrowDown")
        chosen = await options.nth(1).text_content()
        assert chosen
        tables.set()
        await expect(page.get_by_role("option", name="late bookings")).to_be_visible()
        # What a person has chosen stays chosen although a table is now listed before it.
        await expect(page.get_by_role("option", selected=True)).to_have_text(chosen)


async def test_the_overview_counts_what_the_first_steps_do(server: Server, app: App, visit: Opening) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}")
        steps = page.get_by_role("region", name="First steps")
        await steps.get_by_role("button", name="Run").click()
        await expect(steps.get_by_role("button", name="Create a table")).to_contain_text("Done")
        await steps.get_by_role("button", name="Insert a row from your page").click()
        await steps.get_by_role("button", name="Run").click()
        await expect(steps.get_by_role("button", name="Insert a row from your page")).to_contain_text("Done")
        # The screen shows immediately what the public key can do.
        await page.get_by_role("button", name="Check", exact=True).last.click()
        await expect(page.get_by_text("Read, change and delete every row of notes.")).to_be_visible()
        await page.get_by_role("link", name="Change the access level").click()
        await page.get_by_text("Creator", exact=True).click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".pill")).to_have_text("Creator")


async def test_a_member_is_found_renamed_and_deactivated(server: Server, app: App, visit: Opening) -> None:
    member = await app.member("grace")
    await app.guest()
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        await expect(page.get_by_text("2 members")).to_be_visible()
        await page.get_by_label("Login, nickname or id").fill("grac")
        await expect(page.get_by_text("1 member", exact=True)).to_be_visible()
        await page.get_by_role("button", name="grace").click()
        panel = page.get_by_role("complementary", name="Member")
        await panel.get_by_role("button", name="Change the nickname").click()
        await page.get_by_role("dialog").get_by_label("Nickname").fill("<b>Grace</b>")
        await page.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(panel.get_by_text("<b>Grace</b>").first).to_be_visible()
        await panel.get_by_role("button", name="Edit roles and claims").click()
        facts = page.get_by_role("dialog")
        await facts.get_by_label("Roles", exact=True).fill("Editor")
        await expect(facts.get_by_text("is no role")).to_be_visible()
        await facts.get_by_label("Roles", exact=True).fill("editor, seller")
        await facts.get_by_label("claims", exact=True).fill('{"team": "red"}')
        await facts.get_by_role("button", name="Save").click()
        await expect(panel.get_by_text("seller", exact=True)).to_be_visible()
        async with app.client(member["access_token"]) as client:
            account = (await client.get("/v1/public/app-members/me/account")).json()
        assert (account["roles"], account["claims"]) == (["editor", "seller"], {"team": "red"})
        await panel.get_by_label("Active").click()
        await expect(page.locator("tbody").get_by_text("Inactive")).to_be_visible()
    async with app.client(member["access_token"]) as client:
        assert (await client.get("/v1/public/app-members/me")).status_code == 403


async def test_an_app_is_asked_for_its_statistics_once_its_card_is_in_view(
    server: Server, console: dict[str, str], visit: Opening
) -> None:
    for _ in range(40):
        new_app(server, console)
    asked: list[str] = []
    async with visit("about:blank", height=400) as page:
        page.on("request", lambda request: request.url.endswith("/v1/public/stats") and asked.append(request.url))
        await sign_in(page, server, "")
        cards = page.locator(".card")
        await expect(cards.first).to_contain_text("0")
        await page.wait_for_load_state("networkidle")
        assert len(asked) <= 20
        await cards.last.scroll_into_view_if_needed()
        await expect(cards.last.locator("dd").first).not_to_have_text("–")


async def test_the_first_screen_is_light(server: Server, app: App, visit: Opening) -> None:
    sizes: dict[str, int] = {}
    async with visit("about:blank") as page:
        session = await page.context.new_cdp_session(page)
        await session.send("Network.enable")
        urls: dict[str, str] = {}
        session.on(
            "Network.requestWillBeSent", lambda sent: urls.__setitem__(sent["requestId"], sent["request"]["url"])
        )
        session.on(
            "Network.loadingFinished", lambda done: sizes.__setitem__(done["requestId"], done["encodedDataLength"])
        )
        await sign_in(page, server, "")
        await expect(page.get_by_role("heading", name="Apps")).to_be_visible()
        await page.wait_for_load_state("networkidle")
    own = {request: size for request, size in sizes.items() if "/console" in urls[request]}
    counted = sum(size for request, size in own.items() if "/fonts/" not in urls[request])
    assert len(own) <= FIRST_SCREEN_REQUESTS
    assert counted <= FIRST_SCREEN_BYTES, counted


async def test_ten_thousand_tables_are_listed_page_by_page(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string"}, title="boats")

    async def many(route: Route) -> None:
        answer = await route.fetch()
        (real,) = (await answer.json())["tables"]
        others = [{**real, "title": f"table {number:05}"} | {"id": f"none-{number}"} for number in range(9_999)]
        await route.fulfill(response=answer, json={"tables": [real, *others]})

    async with visit("about:blank") as page:
        await page.route("**/v1/public/tables", many)
        await sign_in(page, server, f"/apps/{app.app_id}/tables")
        await expect(page.get_by_text("10,000 tables")).to_be_visible()
        rows = page.locator("main tbody tr")
        await expect(rows).to_have_count(100)
        await page.get_by_role("button", name="Next").click()
        await expect(rows.first).to_contain_text("table 00099")
        await page.go_back()
        await expect(rows.first).to_contain_text("boats")
        await open_palette(page)
        await page.keyboard.type("table 09998")
        await expect(page.get_by_role("option")).to_have_count(1)
        await page.keyboard.press("Escape")
        await rows.first.get_by_role("link").click()
        await expect(page).to_have_url(f"{server.url}/console/apps/{app.app_id}/tables/{table}")


async def test_the_list_of_apps_is_asked_for_once_and_again_when_it_is_opened_again(
    server: Server, app: App, visit: Opening
) -> None:
    asked: list[str] = []
    async with visit("about:blank") as page:
        page.on("request", lambda request: "/v1/apps?" in request.url and asked.append(request.url))
        await sign_in(page, server, "")
        await expect(page.locator(".card").first).to_be_visible()
        await page.wait_for_load_state("networkidle")
        assert len(asked) == len(set(asked))
        first = len(asked)
        await page.locator(".card a").first.click()
        await expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        assert len(asked) == first
        await page.go_back()
        await expect(page.locator(".card").first).to_be_visible()
        await until(lambda: len(asked) == 2 * first)


async def test_limits_are_in_words_and_found(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with owner_of(app).client(app) as console:
        limits = (await console.get("/limits")).json()["limits"]
    address = f"/apps/{app.app_id}/settings/limits"
    async with visit("about:blank", locale="ko-KR") as page:
        await sign_in(page, server, address)
        rows = page.locator("table.limits tbody tr")
        await expect(rows.filter(has_text="signin_per_minute")).to_contain_text("분당")
        assert sorted(await rows.locator("code").all_inner_texts()) == sorted(limits)
        # A limit without words would stand by its name, in ASCII.
        assert [words for words in await rows.locator(".whole").all_inner_texts() if words.isascii()] == []
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, address)
        await expect(rows_named(page, "refresh_token_seconds").last).to_contain_text("90 days")
        await expect(rows_named(page, "body_bytes").first).to_contain_text("10 MiB")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-limits")
        await page.get_by_label("Find a limit").fill("access token")
        await expect(page.locator("table.limits tbody tr")).to_have_count(1)
        await page.get_by_role("button", name="Change Lifetime of an access token").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("access_token_seconds").fill("900")
        await expect(dialog.get_by_text("= 15 minutes")).to_be_visible()
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.locator("table.limits .main")).to_have_text("15 minutes")


def rows_named(page: Page, name: str) -> Locator:
    """The limits whose line has a name."""
    return page.locator("table.limits tbody tr").filter(has_text=name)
