"""An example that is a project, opened by its one command with an app of the tests' server, and who visits its page."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from playwright.async_api import Browser, BrowserContext, Page

from tests.chromium import PICTURES, keep_picture
from tests.support import App
from tests.test_dev import Running
from tests.test_project import Command
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def opened(command: Command, app: App, name: str) -> Iterator[Running]:
    """Run `pilotis dev` of an example."""
    project = command.home / name
    shutil.copytree(EXAMPLES / name, project)
    environment = {"XDG_CONFIG_HOME": str(command.home / "config"), "PILOTIS_APP": app.app_id}
    running = Running(project, "--url", app.server.url, **environment)
    # What is wrong in a file would be named with its line.
    assert not re.search(r"\.yaml:\d", running.output), running.output
    yield running
    assert running.stop() == 0


class Visitor:
    """A browser of its own with the page; at the end nothing in it has failed."""

    def __init__(self, context: BrowserContext, page: Page, site: str) -> None:
        self.context, self.page, self.site = context, page, site
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    @classmethod
    async def come(cls, browser: Browser, site: str, width: int = 1100, height: int = 900) -> Self:
        context = await browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(PATIENCE * 1000)
        return cls(context, await context.new_page(), site)

    async def press(self, name: str) -> None:
        await self.page.get_by_role("button", name=name).click()

    async def picture(self, name: str) -> None:
        """Keep pictures in both themes, where pictures are wanted."""
        for theme in ("dark", "light") if PICTURES else ():
            await self.page.emulate_media(color_scheme=theme)
            await keep_picture(self.page, f"{name}-{theme}")

    async def leave(self) -> None:
        assert self.errors == []
        await self.context.close()
