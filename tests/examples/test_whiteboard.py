"""`examples/whiteboard`, opened by its one command: who has the link draws, and nobody else finds the board."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.examples.opened import Visitor, opened
from tests.support import App
from tests.test_project import Command, command  # noqa: F401 - a fixture
from tests.waiting import until


@pytest.fixture
def site(command: Command, app: App) -> Iterator[str]:  # noqa: F811
    with opened(command, app, "whiteboard") as running:
        yield running.place("Site")


class Painter(Visitor):
    async def stroke(self, *points: tuple[int, int]) -> None:
        await self.page.mouse.move(*points[0])
        await self.page.mouse.down()
        for point in points[1:]:
            await self.page.mouse.move(*point, steps=4)

    async def painted(self, x: int, y: int) -> bool:
        """Whether there is something on the board at this point."""
        return await self.page.evaluate(
            """([x, y]) => {
                const pen = document.querySelector("canvas").getContext("2d");
                return pen.getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data[3] > 0;
            }""",
            [x, y],
        )

    async def sees(self, x: int, y: int) -> None:
        await until(lambda: self.painted(x, y))


async def test_two_visitors_draw_on_one_board(browser: Browser, site: str, app: App) -> None:
    ada, bob = await Painter.come(browser, site, 1200, 900), await Painter.come(browser, site, 375, 812)
    await ada.page.goto(site)
    await ada.page.get_by_label("Name of the board").fill("Ideas")
    await ada.press("Make a board")
    await expect(ada.page.locator("nav strong")).to_have_text("Ideas")
    await ada.press("Blue")
    await ada.stroke((50, 100), (250, 100))
    await ada.page.mouse.up()

    await bob.page.goto(ada.page.url)
    await bob.sees(150, 100)
    await expect(ada.page.locator("#present")).to_have_text("2 here")
    # A line appears while it is drawn, with the cursor of who draws it.
    await bob.stroke((50, 300), (250, 300))
    await ada.sees(150, 300)
    await expect(ada.page.locator("#cursors i")).to_have_count(1)
    await bob.page.mouse.up()
    await ada.picture("whiteboard")
    await bob.picture("whiteboard-phone")
    async with app.client(app.secret_key) as client:

        async def lines() -> list[Any]:
            return (await client.get("/v1/public/tables/boards/data")).json()["data"][0]["data"]["lines"]

        await until(lambda: _many(lines, 2))
        await bob.page.reload()
        await bob.sees(150, 100)
        await bob.sees(150, 300)
        # The member who came by the link cannot hand it on by a list of its own.
        await bob.page.goto(f"{site}/#")
        await expect(bob.page.locator("#boards a")).to_have_count(0)
        await ada.press("Clear")
        await until(lambda: _many(lines, 0))
    for painter in (ada, bob):
        await painter.leave()


async def _many(read: Any, number: int) -> bool:
    return len(await read()) == number


async def test_a_stranger_finds_no_board(app: App, site: str) -> None:
    async with app.client() as client:

        async def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.request(method, f"/v1/public/tables/boards/data{path}", json=body, headers=named)

        maker = {"Authorization": await guest(client)}
        made = (await call("POST", "", {"data": {"title": "Mine"}}, **maker)).json()
        board, link = made["id"], f"link={made['data']['secret']}"
        for headers in ({}, {"Authorization": await guest(client)}, {"X_Capability": "link=" + "x" * 32}):
            assert (await call("GET", f"/{board}", **headers)).status_code in {401, 403, 404}
            changed = await call("PATCH", f"/{board}", {"data": {"lines": []}}, **headers)
            assert changed.status_code in {401, 403, 404}
        for headers in ({}, {"X_Capability": link}):
            assert (await call("GET", "", **headers)).status_code in {401, 403}
            answer = await call("POST", "/query", {"where": {"title": "Mine"}}, **headers)
            assert answer.status_code in {401, 403}, answer.text
        seen = await call("GET", f"/{board}", X_Capability=link)
        assert seen.json()["data"] == {"title": "Mine", "lines": []}
        for data in ({"title": "Yours"}, {"secret": "y" * 32}):
            assert (await call("PATCH", f"/{board}", {"data": data}, X_Capability=link)).status_code == 403
        assert (await call("DELETE", f"/{board}", X_Capability=link)).status_code in {401, 403}
        line = {"points": [0, 0, 1, 1], "color": "#22262b", "width": 4}
        drawn = await call("PATCH", f"/{board}", {"data": {"lines": {"$push": [line]}}}, X_Capability=link)
        assert drawn.json()["data"]["lines"] == [line]


async def guest(client: Any) -> str:
    made = (await client.post("/v1/public/app-members")).json()
    return f"Bearer {made['access_token']}"
