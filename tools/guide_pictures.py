"""Make the pictures of the console's guide: `python -m tools.guide_pictures` writes `docs/pictures/console-*.png`.

Starts a server on a new data directory, creates an app with boats, and takes pictures with Debian's Chromium.
"""

from __future__ import annotations

import io
import random
import tempfile
from pathlib import Path
from typing import Any

import httpx
from bench.servers import Pilotis
from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_COLOURS = 128
_SCHEMA = {
    "name": {"type": "string", "required": True},
    "length": "number",
    "berths": "int",
    "available": "boolean",
    "built": "date",
    "licence": {"type": "string", "encrypted": True},
    "equipment": "object",
    "notes": "string",
}
_NAMES = [
    "Swift Otter",
    "Grey Heron",
    "Kittiwake",
    "Northern Light",
    "Sea Thrift",
    "Marigold",
    "Petrel",
    "Bluebell",
    "Albatross",
    "Dunlin",
]


def main() -> None:
    """Take each picture."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright, Pilotis(Path(name)) as server:
        app_id, headers = server.owned_app()
        headers["X-App-Id"] = app_id
        table_id = _fill(server, app_id, headers)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 760}, locale="en-US", timezone_id="Europe/Berlin")
        body = {"email": "bench@example.com", "password": "correct horse battery"}
        page.request.post(f"{server.url}/v1/auth/session", data=body, headers={"Origin": server.url})
        app = f"{server.url}/console/apps/{app_id}"
        _take(page, app, "overview")
        _take(page, f"{app}/tables/{table_id}", "grid")
        page.locator("[role=row][aria-rowindex='4'] [role=gridcell][aria-colindex='8']").click()
        page.keyboard.press("Enter")
        page.locator(".cm-content").wait_for()
        _save(page, "json")
        browser.close()


def _fill(server: Pilotis, app_id: str, headers: dict[str, str]) -> str:
    chance = random.Random(7)  # noqa: S311 - the same boats each time
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        client.patch(f"/v1/apps/{app_id}", json={"name": "Harbour rentals"}).raise_for_status()
        table = {"title": "boats", "schema": _SCHEMA, "access_level": "AppMember"}
        table_id = str(client.post("/v1/public/tables", json=table).raise_for_status().json()["id"])
        for title, level in (("bookings", "Creator"), ("prices", "AppMember"), ("reviews", "Public")):
            other = {"title": title, "schema": {"text": "string"}, "access_level": level}
            client.post("/v1/public/tables", json=other).raise_for_status()
        rows = [_boat(chance, number) for number in range(340)]
        client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows}).raise_for_status()
    return table_id


def _boat(chance: random.Random, number: int) -> dict[str, Any]:
    boat: dict[str, Any] = {
        "name": f"{chance.choice(_NAMES)} {number + 1}",
        "length": round(chance.uniform(5, 18), 1),
        "berths": chance.randint(2, 10),
        "available": chance.random() > 0.3,
        "built": f"{chance.randint(1970, 2024)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
        "licence": f"LIC-{chance.randint(1000, 9999)}",
        "equipment": {"engine": chance.choice(["Yanmar", "Volvo"]), "sails": chance.randint(1, 4), "tender": True},
    }
    # One of each: absent, empty, null, a text.
    notes: list[dict[str, Any]] = [
        {},
        {"notes": ""},
        {"notes": None},
        {"notes": "Mended the keel in spring; check the bilge pump."},
    ]
    return boat | notes[number % 4]


def _take(page: Page, address: str, name: str) -> None:
    page.goto(address)
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_load_state("networkidle")
    _save(page, name)


def _save(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(_COLOURS)
    image.save(PICTURES / f"console-{name}.png", optimize=True)


if __name__ == "__main__":
    main()
