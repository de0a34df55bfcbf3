"""Eight pictures compared with those in `pictures`: nothing moves, and no colour changes, without being seen.

Times, versions and counts in the answers are replaced by fixed ones, and so is the clock. Both pictures are halved, so
that what draws letters a little differently elsewhere draws the same. After a wanted change, copy the new pictures from
`tests/artifacts`.
"""

import re
from datetime import date, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image, ImageChops
from playwright.async_api import Page, Route, expect

from tests.chromium import ARTIFACTS
from tests.console import owner_of
from tests.console.conftest import Opening, sign_in
from tests.console.furnished import ORDERS
from tests.support import App, Server

PICTURES = Path(__file__).parent / "pictures"
# The share of points that may differ, and by how much a colour has to differ to count.
TOLERATED = 0.003
VISIBLE = 40
NOW = "2026-03-02T09:00:00Z"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_FIXED = {"version": "1.0.0", "storage_bytes": 48_000, "bytes": 48_000, "size_bytes": 48_000, "exposure": 2}


def _fixed(value: Any) -> Any:
    """An answer without what differs from run to run."""
    if isinstance(value, list):
        return [_fixed(one) for one in value]
    if isinstance(value, dict):
        return {name: _FIXED.get(name, _fixed(one)) for name, one in value.items()} | _days(value)
    return NOW if isinstance(value, str) and _TIME.fullmatch(value) else value


def _days(value: dict[str, Any]) -> dict[str, Any]:
    """The days of statistics: always the same thirty, with the same traffic."""
    if "by_day" not in value:
        return {}
    last = date.fromisoformat(NOW[:10])
    days = [
        dict.fromkeys(one, 0)
        | {"date": str(last - timedelta(days=len(value["by_day"]) - 1 - at))}
        | (
            {"requests": 900 + at * 37 % 400, "client_errors": at * 13 % 60, "errors": at % 9}
            if "requests" in one
            else {}
        )
        for at, one in enumerate(value["by_day"])
    ]
    return {"by_day": days}


async def _settle(route: Route) -> None:
    answer = await route.fetch()
    if "json" not in answer.headers.get("content-type", ""):
        await route.fulfill(response=answer)
        return
    body = _fixed(await answer.json())
    if urlsplit(route.request.url).path.endswith("/metrics"):
        total = {"requests": 30_000, "client_errors": 900, "errors": 120, "p50_ms": 7.5, "p95_ms": 48.0}
        days = [date.fromisoformat(NOW[:10]) - timedelta(days=29 - at) for at in range(30)]
        points = [
            total | {"time": f"{day}T00:00:00Z", "p50_ms": 6 + at * 7 % 5, "p95_ms": 40 + at * 11 % 45}
            for at, day in enumerate(days)
        ]
        body = {"series": [{"key": "", "total": total, "points": points}]}
    await route.fulfill(response=answer, json=body)


def _halved(picture: bytes) -> Image.Image:
    image = Image.open(BytesIO(picture)).convert("RGB")
    return image.resize((image.width // 2, image.height // 2), Image.Resampling.BOX)


def _share(one: Image.Image, other: Image.Image) -> float:
    """The share of the points of two pictures whose colours differ visibly."""
    if one.size != other.size:
        return 1
    red, green, blue = ImageChops.difference(one, other).split()
    counts = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    return sum(counts[VISIBLE:]) / sum(counts)


async def _compare(page: Page, name: str) -> list[str]:
    """Take a picture, keep it, and say by how much it differs from the committed one."""
    await expect(page.locator(".bone, [aria-busy=true]")).to_have_count(0)
    await page.evaluate("document.fonts.ready.then(() => 0)")
    now = _halved(await page.screenshot(animations="disabled", caret="hide"))
    now.save(ARTIFACTS / f"{name}.png", optimize=True)
    kept = PICTURES / f"{name}.png"
    share = _share(now, Image.open(kept).convert("RGB")) if kept.exists() else 1
    return [f"{name}: {share:.2%} of the picture differ"] if share > TOLERATED else []


def test_a_difference_is_seen_and_noise_is_not() -> None:
    plain = Image.new("RGB", (640, 400), "white")
    moved, noisy = plain.copy(), plain.copy()
    moved.paste("black", (10, 10, 50, 40))
    noisy.paste("#f0f0f0", (0, 0, 640, 400))
    assert _share(plain, moved) > TOLERATED
    assert _share(plain, noisy) == 0
    assert _share(plain, plain.resize((320, 200))) == 1


async def test_eight_screens_look_as_they_did(server: Server, app: App, visit: Opening) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    differing: list[str] = []
    async with owner_of(app).client(app) as console:
        assert (await console.patch("", json={"name": "Order book"})).status_code == 200
    table = await app.table(ORDERS, title="orders", access_level="Public")
    await app.table({"text": "string"}, title="customers", access_level="Creator")
    for number in range(30):
        order = {"customer": f"Customer {number}", "total": number * 12.5, "books": number, "paid": number % 3 == 0}
        more = {
            "placed": "2020-01-31",
            "card": "4111",
            "address": {"city": "Seoul"},
            "notes": [None, "", "Ring twice"][number % 3],
        }
        await app.row(table, order if number % 4 == 0 else order | more)
    for name in ("ada", "grace", "heron"):
        await app.member(name)
    desk, phone = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
    async with visit("about:blank") as page:
        await page.route("**/v1/**", _settle)
        await page.clock.set_fixed_time(NOW)
        await page.set_viewport_size(desk)
        await page.goto(f"{server.url}/console/sign-in")
        await expect(page.get_by_label("Email")).to_be_visible()
        host = page.get_by_text(urlsplit(server.url).netloc, exact=True)
        await host.evaluate("(element) => void (element.textContent = 'console.example')")
        differing += await _compare(page, "sign-in")
        await page.unroute("**/v1/**")
        await sign_in(page, server, "/profile")
        await page.route("**/v1/**", _settle)
        here = f"{server.url}/console/apps/{app.app_id}"
        await page.evaluate("([app]) => localStorage.setItem(`pilotis.steps.${app}`, '1')", [app.app_id])
        for name, path, theme, size in [
            ("overview", "", "light", desk),
            ("tables", "/tables", "light", desk),
            ("rows", f"/tables/{table}", "light", desk),
            ("rows-dark", f"/tables/{table}", "dark", desk),
            ("schema", f"/tables/{table}/schema", "dark", desk),
            ("members", "/members", "light", desk),
            ("rows-phone", f"/tables/{table}", "light", phone),
        ]:
            await page.emulate_media(color_scheme=theme)
            await page.set_viewport_size(size)
            await page.goto(here + path)
            await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
            await page.wait_for_load_state("networkidle")
            differing += await _compare(page, name)
    assert differing == [], "\n".join(differing)
