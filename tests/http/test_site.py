"""The pages, in a real browser without a network, and their policies."""

import asyncio
import itertools
import json
import re
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from flit_core.buildapi import build_wheel
from playwright.async_api import Browser, Page, expect

from pilotis import __version__
from pilotis.http.reference.languages import CONDITIONS, STAGES
from pilotis.http.reference.samples import python, request_of
from pilotis.http.reference.sdk import client_versions
from pilotis.server import endpoint_table
from tests import forked
from tests.http.example_world import SCHEMA
from tests.support import App, Server, assert_error
from tests.waiting import PATIENCE

PASSWORD = "correct horse battery"
PAGES = ["/", "/docs", "/docs/guides", "/docs/guides/rows", "/docs/guides/where", "/setup/reset"]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without a console user."""
    own = Server(tmp_path_factory.mktemp("fresh") / "data").start()
    yield own
    own.stop()


@pytest_asyncio.fixture
async def page(fresh: Server, browser: Browser) -> AsyncIterator[Page]:
    """A page on a phone; anything it says on the console or asks of others is an error."""
    complaints: list[str] = []
    opened = await browser.new_page(viewport={"width": 390, "height": 844})
    opened.set_default_timeout(PATIENCE * 1000)
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda sent: sent.url.startswith((fresh.url, "data:")) or complaints.append(sent.url))
    yield opened
    await opened.close()
    # Chromium itself reports answers of 4xx, which the form is there to show.
    assert [said for said in complaints if "the server responded with a status of 4" not in said] == []


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_lets_nothing_in(fresh: Server, path: str):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        answer = await client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', answer.text)
    if not path.startswith("/docs/guides/"):
        assert [address for address in addresses if not re.match(r"[/#]|data:,", address)] == []
    assert (
        re.findall(r'<(?:script|img|iframe|link|form)[^>]*(?:src|href|action)="(?!data:,|/setup/reset")', answer.text)
        == []
    )
    # The typeface is the server's own, too.
    assert not re.search(r"@import|url\((?!\"/docs/fonts/plex-)|style=|\son\w+=", answer.text)


async def test_the_reference_has_every_endpoint(fresh: Server):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        text = (await client.get("/docs")).text
    endpoints = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
    assert text.count("<article") == len(endpoints)
    assert text.count('<pre data-language="curl"') == len(endpoints)
    for endpoint in endpoints:
        assert f"<code>{endpoint.path}</code></p>" in text
    anchors = re.findall(r'<article id="([^"]+)"', text)
    assert len(set(anchors)) == len(anchors)


async def test_the_reference_is_searched(fresh: Server, page: Page):
    await page.goto(f"{fresh.url}/docs")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    every = await page.locator("article:visible").count()
    await page.keyboard.press("/")
    await page.keyboard.type("signup")
    await expect(page.locator("article:visible")).to_have_count(2)
    await expect(page.locator("#signUpMember")).to_be_visible()
    await page.fill("#search", "no route has this")
    await expect(page.locator("#none")).to_be_visible()
    await page.fill("#search", "")
    await expect(page.locator("article:visible")).to_have_count(every)


async def test_links_lead_to_what_is_there(fresh: Server):
    """From page to page, and to places within them."""
    seen: dict[str, str] = {}
    pending = ["/"]
    targets: set[str] = set()
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        while pending:
            path = pending.pop()
            if path in seen:
                continue
            answer = await client.get(path)
            assert answer.status_code == 200, path
            seen[path] = answer.text
            links = (
                re.findall(r'<a [^>]*href="([^"]*)"', answer.text) if "html" in answer.headers["content-type"] else []
            )
            for link in links:
                if link.startswith(("/", "#")):
                    target = link if link.startswith("/") else path + link
                    targets.add(target)
                    pending.append(target.partition("#")[0])
    assert {"/docs", "/docs/guides/getting-started", "/docs/guides/security", "/openapi.json"} <= seen.keys()
    broken = [t for t in targets if "#" in t and f'id="{t.partition("#")[2]}"' not in seen[t.partition("#")[0]]]
    assert broken == []


async def test_the_home_page_leads_into_a_server_that_is_set_up(fresh: Server, app: App):
    async with httpx.AsyncClient() as client:
        first, later = [(await client.get(address)).text for address in (fresh.url, app.server.url)]
    assert "Create the first console user" in first
    assert "Create the first console user" not in later
    assert "Open the console" in later


async def test_a_mistyped_address_is_a_page_in_a_browser_and_json_for_programs(fresh: Server, page: Page):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        for accepted, path in (
            ("*/*", "/nothing"),
            ("application/json, text/html", "/nothing"),
            ("text/html", "/v1/x"),
        ):
            answer = await client.get(path, headers={"Accept": accepted})
            assert answer.status_code == 404
            assert answer.json()["code"] == "NOT_FOUND"
        answer = await client.post("/nothing", headers={"Accept": "text/html"})
        assert answer.json()["code"] == "NOT_FOUND"
    opened = await page.goto(f"{fresh.url}/nothing<b>")
    assert opened is not None
    assert opened.status == 404
    await expect(page.get_by_role("heading", name="Not Found")).to_be_visible()
    await expect(page.get_by_role("main").get_by_role("link", name="Console")).to_have_attribute("href", "/console")
    # In the typeface of the console.
    fonts = "document.fonts.ready.then(() => [...document.fonts].filter((one) => one.status === 'loaded').length)"
    assert await page.evaluate(fonts) == 2


async def test_a_guide_that_is_none_is_not_found(fresh: Server):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        assert (await client.get("/docs/guides/none")).status_code == 404
        assert (await client.get("/docs/guides/..%2Findex")).status_code == 404


def test_the_package_carries_the_guides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        for guide in (root / "docs").glob("*.md"):
            assert wheel.read(f"pilotis/http/reference/guides/{guide.name}") == guide.read_bytes()


@pytest.mark.share(0.3)
@pytest.mark.parametrize(("condition", "said"), CONDITIONS)
async def test_an_explained_condition_is_one(app: App, condition: str, said: str):
    table_id = await app.table(SCHEMA)
    async with app.client() as client:
        where = {"where": json.loads(condition)}
        assert (await client.post(f"/v1/public/tables/{table_id}/data/query", json=where)).status_code == 200


@pytest.mark.share(0.3)
@pytest.mark.parametrize(("stage", "said"), STAGES)
async def test_an_explained_stage_is_one(app: App, stage: str, said: str):
    table_id = await app.table(SCHEMA)
    async with app.client() as client:
        body = {"table_id": table_id, "pipeline": [json.loads(stage)]}
        assert (await client.post("/v1/public/aggregate", json=body)).status_code == 200


async def test_an_example_is_copied_in_the_chosen_language(fresh: Server, page: Page):
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(f"{fresh.url}/docs#createRow")
    sample = page.locator("#createRow .sample").first
    await sample.get_by_role("button", name="Python").click()
    await expect(page.locator('pre[data-language="python"]:visible').first).to_be_visible()
    await expect(page.locator('pre[data-language="curl"]:visible')).to_have_count(0)
    await sample.locator(".copy").click()
    await expect(sample.locator(".copy")).to_have_text("Copied")
    copied = await page.evaluate("navigator.clipboard.readText()")
    example = next(e for e in endpoint_table() if e.example and e.example.operation == "createRow")
    assert example.example
    assert copied == python(request_of(example, example.example, fresh.url))
    await page.reload()
    await expect(page.locator('pre[data-language="python"]:visible').first).to_be_visible()


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_fits_and_has_its_landmarks(fresh: Server, page: Page, path: str):
    await page.goto(f"{fresh.url}{path}")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await expect(page.get_by_role("main")).to_have_count(1)
    await expect(page.get_by_role("banner")).to_have_count(1)
    levels = await page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
    assert levels.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in itertools.pairwise(levels))


async def test_a_reset_link_without_its_token_says_what_to_do(fresh: Server, page: Page):
    await page.goto(f"{fresh.url}/setup/reset")
    assert "pilotis user reset" in await page.locator("#no-token").inner_text()
    assert not await page.locator("form").is_visible()


def command(server: Server, *arguments: str) -> str:
    """Run `pilotis` while the server runs, with the password on standard input, and return what it prints."""
    done = forked.run("pilotis", *arguments, *server.place, typed=PASSWORD)
    assert done.returncode == 0, done
    return done.stdout


async def test_a_forgotten_password_is_reset_behind_the_link(fresh: Server, page: Page):
    """With a wrong token first, then the link that the command prints, once; by the keyboard."""
    email, new = "forgetful@example.com", "battery staple"
    await asyncio.to_thread(command, fresh, "user", "create", email, "--password-stdin")
    printed = await asyncio.to_thread(command, fresh, "user", "reset", email, "--base-url", fresh.url, "--json")
    link = json.loads(printed)["link"]
    status = page.locator("#status")

    async def send(address: str, expected: str) -> None:
        await page.goto("about:blank")
        await page.goto(address)
        await expect(page.locator("#password")).to_be_focused()
        await page.keyboard.type(new)
        await page.keyboard.press("Enter")
        await status.get_by_text(expected).wait_for()

    await send(f"{fresh.url}/setup/reset#wrong", "Whoever runs the server prints one")
    await send(link, f"You can now sign in as {email}")
    assert link.partition("#")[2] not in page.url
    assert not await page.locator("form").is_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await send(link, "This link has been used")
    assert link.partition("#")[2] not in fresh.logs()
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        for password, expected in ((new, 200), (PASSWORD, 401)):
            answer = await client.post("/v1/auth/signin", json={"email": email, "password": password})
            assert answer.status_code == expected


async def test_the_guides_are_markdown_too(fresh: Server):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        listed = await client.get("/llms.txt")
        assert listed.headers["content-type"] == "text/markdown; charset=utf-8"
        addresses = re.findall(r"\]\((\S+)\)", listed.text)
        assert {f"{fresh.url}/docs/rows.md", f"{fresh.url}/openapi.json?for=app"} <= set(addresses)
        for address in addresses:
            assert (await client.get(address)).status_code == 200, address
        guide = await client.get("/docs/rows.md")
        assert guide.text == (Path(__file__).parents[2] / "docs" / "rows.md").read_text()
        for missing in ("/docs/rows", "/docs/..%2Fstyle.css.md", "/docs/nothing.md"):
            assert (await client.get(missing)).status_code == 404, missing


async def test_a_document_for_apps_leaves_out_the_console(fresh: Server):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        whole, part = [(await client.get(f"/openapi.json{query}")).json()["paths"] for query in ("", "?for=app")]
        assert "/v1/public/tables" in part
        assert {path for path in whole if path.startswith("/v1/apps")}
        assert [path for path in part if path.startswith(("/v1/apps", "/v1/users", "/v1/invitations"))] == []
        assert_error(await client.get("/openapi.json?for=ap"), 400, "VALIDATION_FAILED")


async def test_the_client_is_served_by_version(fresh: Server):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        newest = await client.get("/sdk/v1/pilotis.js")
        assert newest.headers["content-type"] == "text/javascript; charset=utf-8"
        assert newest.headers["access-control-allow-origin"] == "*"
        assert newest.headers["cache-control"] == "no-cache"
        etag = newest.headers["etag"]
        known = await client.get("/sdk/v1/pilotis.js", headers={"If-None-Match": etag})
        assert (known.status_code, known.content) == (304, b"")
        pinned = await client.get(f"/sdk/{client_versions()[0]}/pilotis.js", headers={"Accept-Encoding": "identity"})
        assert pinned.content == newest.content
        assert pinned.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "export declare function createClient" in (await client.get("/sdk/v1/pilotis.d.ts")).text
        for missing in ("/sdk/v9/pilotis.js", "/sdk/v1/other.js", "/sdk/0.0.1/pilotis.js", "/sdk/v1/..%2Fpilotis.js"):
            assert (await client.get(missing)).status_code == 404, missing


async def test_pages_of_other_sites_read_the_version_and_the_clock(app: App):
    async with app.client() as client:
        answer = await client.get("/v1/public/auth-settings", headers={"Origin": "https://shop.example"})
    assert answer.headers["x-pilotis-version"] == __version__
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {"date", "x-pilotis-version", "idempotent-replayed"} <= set(exposed)
